#include "plan/regress.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define TERMS_MAX LEAT_PLAN_FIT_TERMS

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

/* The terms of a set, and the Cholesky factor of their part of the matrix. */
struct factor {
    size_t which[TERMS_MAX];
    size_t terms;
    double l[TERMS_MAX][TERMS_MAX];
};

/* False when the terms depend on one another. */
static bool factorize(const struct normal *n, unsigned set, struct factor *f)
{
    *f = (struct factor){0};
    for (size_t i = 0; i < n->terms; i++) {
        if (set >> i & 1)
            f->which[f->terms++] = i;
    }
    for (size_t i = 0; i < f->terms; i++) {
        for (size_t j = 0; j <= i; j++) {
            double sum = n->a[f->which[i]][f->which[j]];
            for (size_t k = 0; k < j; k++)
                sum -= f->l[i][k] * f->l[j][k];
            if (i == j && sum < 1e-9)
                return false;
            f->l[i][j] = i == j ? sqrt(sum) : sum / f->l[j][j];
        }
    }
    return true;
}

/* The solution for b, with 0 for terms that are not in the set. */
static void solve(const struct factor *f, const double b[TERMS_MAX], double out[TERMS_MAX])
{
    double z[TERMS_MAX];
    for (size_t i = 0; i < f->terms; i++) {
        z[i] = b[f->which[i]];
        for (size_t k = 0; k < i; k++)
            z[i] -= f->l[i][k] * z[k];
        z[i] /= f->l[i][i];
    }
    memset(out, 0, TERMS_MAX * sizeof *out);
    for (size_t i = f->terms; i-- > 0;) {
        for (size_t k = i + 1; k < f->terms; k++)
            z[i] -= f->l[k][i] * z[k];
        z[i] /= f->l[i][i];
        out[f->which[i]] = z[i];
    }
}

/* Least squares with every coefficient ≥ 0. Terms are few, so every subset is tried: no iteration that could
 * fail to end, and the exact minimum. */
static void fit_terms(const struct normal *n, double out[TERMS_MAX], struct factor *used)
{
    double best = HUGE_VAL;
    double c[TERMS_MAX];
    struct factor f;
    memset(out, 0, TERMS_MAX * sizeof *out);
    *used = (struct factor){0};
    for (unsigned set = 1; set < 1u << n->terms; set++) {
        if (!factorize(n, set, &f))
            continue;
        solve(&f, n->b, c);
        double gain = 0; /* Σ(1-Xc)² = rows − bᵀc at the minimum of a subset */
        bool negative = false;
        for (size_t i = 0; i < n->terms; i++) {
            negative |= c[i] < 0;
            gain -= n->b[i] * c[i];
        }
        if (!negative && gain < best - 1e-12) {
            best = gain;
            *used = f;
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

/* Where the rows are, to know how far from them a prediction is. */
static void keep_place(const double *x, const struct normal *n, const struct factor *used, struct leat_plan_fit *fit)
{
    for (size_t i = 0; i < fit->features; i++) {
        fit->least[i] = fit->most[i] = x[i];
        for (size_t r = 1; r < fit->rows; r++) {
            fit->least[i] = fmin(fit->least[i], x[r * fit->features + i]);
            fit->most[i] = fmax(fit->most[i], x[r * fit->features + i]);
        }
    }
    for (size_t i = 0; i < used->terms; i++) {
        double unit[TERMS_MAX] = {0};
        double row[TERMS_MAX];
        unit[used->which[i]] = 1;
        solve(used, unit, row);
        for (size_t j = 0; j < n->terms; j++)
            fit->inverse[used->which[i]][j] = row[j] * n->scale[used->which[i]] * n->scale[j];
    }
}

leat_status leat_plan_fit(const double *x, const double *y, size_t rows, size_t features, struct leat_plan_fit *out,
                          double *left_out, struct leat_error *err)
{
    struct normal n;
    struct factor used;
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
        fit_terms(&n, c, &used);
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
    fit_terms(&n, c, &used);
    fit.constant = c[0];
    memcpy(fit.slope, c + 1, features * sizeof *c);
    fit.freedom = (double)(rows - used.terms);
    keep_place(x, &n, &used, &fit);
    *out = fit;
    return LEAT_OK;
}

static double mean_of(const struct leat_plan_fit *fit, const double *x)
{
    double c[TERMS_MAX] = {fit->constant};
    memcpy(c + 1, fit->slope, fit->features * sizeof *c);
    return apply(c, x, fit->features);
}

double leat_plan_fit_beyond(const struct leat_plan_fit *fit, const double *x, size_t *column)
{
    double most = 1;
    double raised[LEAT_PLAN_FEATURES_MAX] = {0};
    double lowest = 1;
    *column = 0;
    for (size_t i = 0; i < fit->features; i++) {
        double above = x[i] > fit->most[i] ? x[i] / fit->most[i] : 1;
        double below = x[i] < fit->least[i] ? x[i] / fit->least[i] : 1;
        raised[i] = fmax(x[i], fit->least[i]);
        if (above > most || (most <= 1 && below < lowest))
            *column = i;
        most = fmax(most, above);
        lowest = fmin(lowest, below);
    }
    return fmax(most, mean_of(fit, raised) / mean_of(fit, x));
}

double leat_plan_fit_spread(const struct leat_plan_fit *fit, const double *x)
{
    double mean = mean_of(fit, x);
    double leverage = 0;
    size_t column;
    for (size_t i = 0; i <= fit->features; i++) {
        for (size_t j = 0; j <= fit->features; j++)
            leverage += term(x, fit->features, 0, i) / mean * fit->inverse[i][j] * term(x, fit->features, 0, j) / mean;
    }
    /* Rows left out had a leverage, too: their error holds the mean of it, terms over rows. */
    double more = sqrt((1 + leverage) / (2 - fit->freedom / (double)fit->rows));
    return hypot(fit->spread * fmax(1, more), LEAT_PLAN_FIT_DOUBLING * log2(leat_plan_fit_beyond(fit, x, &column)));
}

struct leat_plan_interval leat_plan_fit_predict(const struct leat_plan_fit *fit, const double *x, double probability)
{
    double mean = mean_of(fit, x);
    /* Errors multiply: the interval stays positive however wide it is. */
    double width = exp(leat_plan_t_quantile(0.5 + probability / 2, fit->freedom) * log1p(leat_plan_fit_spread(fit, x)));
    return (struct leat_plan_interval){.mean = mean, .lo = mean / width, .hi = mean * width};
}
