#include "prep/deviate.h"

#include <math.h>

double leat_prep_exp(double x)
{
    /* Halved until small, summed, squared back. */
    int halvings = 0;
    while (fabs(x) > 0.125) {
        x *= 0.5;
        halvings++;
    }
    double sum = 1.0;
    for (int n = 14; n > 0; n--)
        sum = 1.0 + sum * x / n;
    while (halvings-- > 0)
        sum *= sum;
    return sum;
}

double leat_prep_ln(double x)
{
    /* Halley's steps on e^y = x from a start within a factor of 2. */
    int exponent;
    frexp(x, &exponent);
    double y = exponent * 0.6931471805599453;
    for (int i = 0; i < 5; i++) {
        double e = leat_prep_exp(y);
        y += 2.0 * (x - e) / (x + e);
    }
    return y;
}

void leat_prep_sincos(double degrees, double *sine, double *cosine)
{
    /* Whole quarter turns are taken off exactly; what is left is an eighth of a turn at most. */
    double turned = fmod(degrees, 360.0);
    double quarters = rint(turned / 90.0);
    double x = (turned - quarters * 90.0) * (3.14159265358979323846 / 180.0);
    double s = 1.0;
    double c = 1.0;
    for (int n = 19; n > 1; n -= 2)
        s = 1.0 - s * x * x / (n * (n - 1.0));
    for (int n = 20; n > 1; n -= 2)
        c = 1.0 - c * x * x / (n * (n - 1.0));
    s *= x;
    switch (((int)quarters % 4 + 4) % 4) {
    case 0:
        *sine = s;
        *cosine = c;
        break;
    case 1:
        *sine = c;
        *cosine = -s;
        break;
    case 2:
        *sine = -s;
        *cosine = -c;
        break;
    default:
        *sine = -c;
        *cosine = s;
        break;
    }
}

double leat_prep_normal(struct leat_rng *draws)
{
    /* Marsaglia's polar method; the second of the pair is let go, so that nothing is kept between calls. */
    for (;;) {
        double x = 2.0 * leat_rng_unit(draws) - 1.0;
        double y = 2.0 * leat_rng_unit(draws) - 1.0;
        double s = x * x + y * y;
        if (s > 0.0 && s < 1.0)
            return x * sqrt(-2.0 * leat_prep_ln(s) / s);
    }
}

double leat_prep_gamma(struct leat_rng *draws, double shape)
{
    /* Marsaglia and Tsang's; below 1 from the distribution of shape + 1. */
    double boost = 1.0;
    if (shape < 1.0) {
        double u = 1.0 - leat_rng_unit(draws);
        double power = leat_prep_ln(u) / shape;
        boost = power < -700.0 ? 0.0 : leat_prep_exp(power);
        shape += 1.0;
    }
    double d = shape - 1.0 / 3.0;
    double c = 1.0 / sqrt(9.0 * d);
    for (;;) {
        double x = leat_prep_normal(draws);
        double v = 1.0 + c * x;
        double u = 1.0 - leat_rng_unit(draws);
        if (v <= 0.0)
            continue;
        v = v * v * v;
        if (leat_prep_ln(u) < 0.5 * x * x + d - d * v + d * leat_prep_ln(v))
            return d * v * boost;
    }
}

void leat_prep_dirichlet(struct leat_rng *draws, double alpha, unsigned n, double *out)
{
    double total = 0.0;
    for (unsigned i = 0; i < n; i++) {
        out[i] = leat_prep_gamma(draws, alpha);
        total += out[i];
    }
    /* With a tiny alpha all may be too small for a number: then one of them, drawn, has everything. */
    uint64_t all = total > 0.0 ? n : leat_rng_below(draws, n);
    for (unsigned i = 0; i < n; i++)
        out[i] = total > 0.0 ? out[i] / total : i == all;
}
