#include "plan/regress.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define TERMS_MAX (LEAT_PLAN_FEATURES_MAX + 1)

/* Normal equations of the relative errors: rows divided by their y, so that the right-hand side is all ones. */
struct normal {
    size_t terms;
    double a[TERMS_MAX][TERMS_MAX];
    double b[TERMS_MAX];
    double scale[TERMS_MAX]; /* columns are brought to length 1 first: FLOPs and tensors differ by 10^9 */
};

static double term(const double *x, size_t features, size_t row, size_t t)
{
    return t == 0 ? 1 : x[row * features + t - 1];
}

static void build(const double *x, const double *y, size_t rows, size_t features, size_t skip, struct normal *n)
{
    *n = (struct normal){.terms = features + 1};
    for (size_t t = 0; t < n->terms; t++) {
        double sum = 0;
        for (size_t r = 0; r < rows; r++) {
            double v = r == skip ? 0 : term(x, features, r, t) / y[r];
            sum += v * v;
        }
        n->scale[t] = sum > 0 ? 1 / sqrt(sum) : 0;
    }
    for (size_t r = 0; r < rows; r++) {
        if (r == skip)
            continue;
        for (size_t i = 0; i < n->terms; i++) {
            double u = term(x, features, r, i) / y[r] * n->scale[i];
            n->b[i] += u;
            for (size_t j = 0; j <= i; j++)
                n->a[i][j] += u * term(x, features, r, j) / y[r] * n->scale[j];
        }
    }
}

/* Solves for the terms in `set` by Cholesky; false when they depend on one another. */
static bool solve(const struct normal *n, unsigned set, double out[TERMS_MAX])
{
    size_t which[TERMS_MAX] = {0};
    size_t m = 0;
    double l[TERMS_MAX][TERMS_MAX] = {{0}};
    double z[TERMS_MAX];
    for (size_t i = 0; i < n->terms; i++) {
        if (set >> i & 1)
            which[m++] = i;
    }
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j <= i; j++) {
            double sum = n->a[which[i]][which[j]];
            for (size_t k = 0; k < j; k++)
                sum -= l[i][k] * l[j][k];
            if (i == j) {
                if (sum < 1e-9)
                    return false;
                l[i][i] = sqrt(sum);
            } else {
                l[i][j] = sum / l[j][j];
            }
        }
    }
    for (size_t i = 0; i < m; i++) {
        z[i] = n->b[which[i]];
        for (size_t k = 0; k < i; k++)
            z[i] -= l[i][k] * z[k];
        z[i] /= l[i][i];
    }
    memset(out, 0, TERMS_MAX * sizeof *out);
    for (size_t i = m; i-- > 0;) {
        for (size_t k = i + 1; k < m; k++)
            z[i] -= l[k][i] * z[k];
        z[i] /= l[i][i];
        out[which[i]] = z[i];
    }
    return true;
}

/* Least squares with every coefficient ≥ 0. Terms are few, so every subset is tried: no iteration that could
 * fail to end, and the exact minimum. */
static void fit_terms(const struct normal *n, double out[TERMS_MAX])
{
    double best = HUGE_VAL;
    double c[TERMS_MAX];
    memset(out, 0, TERMS_MAX * sizeof *out);
    for (unsigned set = 1; set < 1u << n->terms; set++) {
        if (!solve(n, set, c))
            continue;
        double gain = 0; /* Σ(1-Xc)² = rows − bᵀc at the minimum of a subset */
        bool negative = false;
        for (size_t i = 0; i < n->terms; i++) {
            negative |= c[i] < 0;
            gain -= n->b[i] * c[i];
        }
        if (!negative && gain < best - 1e-12) {
            best = gain;
            for (size_t i = 0; i < n->terms; i++)
                out[i] = c[i] * n->scale[i];
        }
    }
}

static double apply(const double *c, const double *x, size_t features)
{
    double sum = c[0];
    for (size_t i = 0; i < features; i++)
        sum += c[i + 1] * x[i];
    return sum;
}

leat_status leat_plan_fit(const double *x, const double *y, size_t rows, size_t features, struct leat_plan_fit *out,
                          double *left_out, struct leat_error *err)
{
    struct normal n;
    double c[TERMS_MAX];
    struct leat_plan_fit fit = {.features = features, .rows = rows};
    if (features > LEAT_PLAN_FEATURES_MAX)
        return leat_fail(err, LEAT_INVALID, "a fit over %zu columns: %d at most", features, LEAT_PLAN_FEATURES_MAX);
    if (rows < features + 3)
        return leat_fail(err, LEAT_INVALID, "%zu rows are too few to fit %zu columns and to know the error: %zu needed",
                         rows, features, features + 3);
    double squares = 0;
    for (size_t r = 0; r < rows; r++) {
        build(x, y, rows, features, r, &n);
        fit_terms(&n, c);
        double predicted = apply(c, x + r * features, features);
        double e = predicted / y[r] - 1;
        if (left_out)
            left_out[r] = predicted;
        fit.left_out_mean += fabs(e) / (double)rows;
        fit.left_out_worst = fmax(fit.left_out_worst, fabs(e));
        squares += e * e;
    }
    fit.spread = sqrt(squares / (double)rows);
    build(x, y, rows, features, SIZE_MAX, &n);
    fit_terms(&n, c);
    fit.constant = c[0];
    size_t used = c[0] > 0;
    for (size_t i = 0; i < features; i++) {
        fit.slope[i] = c[i + 1];
        used += c[i + 1] > 0;
    }
    fit.freedom = (double)(rows - used);
    *out = fit;
    return LEAT_OK;
}

struct leat_plan_interval leat_plan_fit_predict(const struct leat_plan_fit *fit, const double *x, double probability)
{
    double c[TERMS_MAX] = {fit->constant};
    memcpy(c + 1, fit->slope, fit->features * sizeof *c);
    double mean = apply(c, x, fit->features);
    /* Errors multiply: the interval stays positive however wide it is. */
    double width = exp(leat_plan_t_quantile(0.5 + probability / 2, fit->freedom) * log1p(fit->spread));
    return (struct leat_plan_interval){.mean = mean, .lo = mean / width, .hi = mean * width};
}
