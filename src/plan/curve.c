#include "plan/curve.h"

#include <math.h>
#include <string.h>

/* Weights before anything is measured: by one over the square of the error with which each form alone foretells 8 and
 * 16 GPUs from 1 and 4 in 55 published tables (bench/bench_plan_tables.c, docs/plan.md). */
static const double prior[LEAT_PLAN_FORMS] = {0.29, 0.16, 0.29, 0.21, 0.05};

/* So wide that nine of ten published points lie inside, whichever family of tables they come from. */
#define DOUBT    0.05 /* of any form, for each doubling beyond what was measured */
#define MEASURED 0.02 /* of a measured step, on another day */

/* What a form may be wrong by before its weight falls. */
#define JUDGED_DOUBT    0.015
#define JUDGED_MEASURED 0.01

const char *leat_plan_form_name(enum leat_plan_form form)
{
    static const char *const names[] = {"line", "constant efficiency", "ring", "tree", "buckets"};
    return names[form];
}

double leat_plan_curve_prior(unsigned gpus, double *spread)
{
    double share = gpus > 1 ? (gpus - 1.0) / gpus / 0.875 : 0; /* as a ring's, 1 for eight */
    *spread = LEAT_PLAN_PRIOR_SPREAD * share;
    return LEAT_PLAN_PRIOR_OVER * share;
}

/* Seconds by the first `rows` measured clusters alone. */
struct question {
    const struct leat_plan_curve *curve;
    size_t rows;
    double base_s;
    double compute_s;
    unsigned gpus;
};

/* over = alpha · shape(members), least squares, never negative. */
static double shaped(const struct question *q, double (*shape)(double), double members)
{
    double up = 0;
    double down = 0;
    for (size_t i = 0; i < q->rows; i++) {
        double x = shape(q->curve->members[i]);
        up += x * q->curve->over_s[i];
        down += x * x;
    }
    return q->base_s + fmax(0, up / down) * shape(members);
}

static double ring_shape(double n)
{
    return 2 * (n - 1) / n;
}

static double line(const struct question *q, double members)
{
    double up = 0;
    double down = 0;
    for (size_t i = 0; i < q->rows; i++) {
        double n = q->curve->members[i];
        double speed = n / fmax(q->base_s + q->curve->over_s[i], q->base_s * 0.2);
        up += (n - 1) * (speed - 1 / q->base_s);
        down += (n - 1) * (n - 1);
    }
    /* More members never make a cluster slower by more than a tenth of one's speed each. */
    double slope = fmax(up / down, -0.1 / q->base_s);
    return members / fmax(1 / q->base_s + slope * (members - 1), 0.05 / q->base_s);
}

/* Between one member and the first cluster, and between two of them, the efficiency goes with log(members). */
static double constant(const struct question *q, double members)
{
    double at = 0;
    double before = 0;
    for (size_t i = 0; i < q->rows; i++) {
        double n = log(q->curve->members[i]);
        double over = q->curve->over_s[i];
        if (log(members) <= n)
            return q->base_s + before + (over - before) * (log(members) - at) / (n - at);
        at = n;
        before = over;
    }
    return q->base_s + before;
}

static double buckets(const struct question *q, double members)
{
    const struct leat_plan_allreduce *m = &q->curve->model;
    unsigned n = (unsigned)members;
    double step = leat_plan_allreduce_step(m, q->compute_s, q->curve->network ? n : 1, q->curve->network ? q->gpus : n);
    double one = q->curve->network ? leat_plan_allreduce_step(m, q->compute_s, 1, q->gpus) : q->compute_s;
    return q->base_s + step - one;
}

static double form_step(const struct question *q, enum leat_plan_form form, double members)
{
    switch (form) {
    case LEAT_PLAN_FORM_LINE:
        return line(q, members);
    case LEAT_PLAN_FORM_CONSTANT:
        return constant(q, members);
    case LEAT_PLAN_FORM_RING:
        return shaped(q, ring_shape, members);
    case LEAT_PLAN_FORM_TREE:
        return shaped(q, log2, members);
    case LEAT_PLAN_FORM_BUCKETS:
        return buckets(q, members);
    case LEAT_PLAN_FORMS:
        break;
    }
    return q->base_s;
}

/* The measured cluster next to the members asked for: the largest that is not larger, else the smallest. */
static size_t nearest(const struct question *q, double members)
{
    size_t near = 0;
    for (size_t i = 1; i < q->rows; i++) {
        if (q->curve->members[i] <= members)
            near = i;
    }
    return near;
}

/* Every form is moved so that it goes through the nearest measured cluster. */
static double anchored(const struct question *q, enum leat_plan_form form, double members)
{
    size_t near = nearest(q, members);
    double there = q->base_s + q->curve->over_s[near];
    double said = form_step(q, form, q->curve->members[near]);
    double step = form_step(q, form, members);
    if (!(said > 0) || !(there > 0) || !(step > 0))
        return q->base_s;
    return step * there / said;
}

/* How each form foretold every measured cluster from the smaller ones. The bucket form's link is fitted to all: it
 * is judged with that advantage, and so only by what the others are judged by as well. */
static void weigh(struct leat_plan_curve *c, const struct leat_plan_curve_row *row)
{
    double total = 0;
    for (int f = 0; f < LEAT_PLAN_FORMS; f++) {
        double misfit = 0;
        for (size_t i = 1; i < c->count; i++) {
            const struct question q = {c, i, row->base_s, row->compute_s, row->gpus};
            double doublings = log2(c->members[i] / c->members[i - 1]);
            double d = log(anchored(&q, (enum leat_plan_form)f, c->members[i]) / (row->base_s + c->over_s[i]));
            double doubt = hypot(JUDGED_MEASURED, JUDGED_DOUBT * doublings);
            misfit += d * d / (doubt * doubt);
        }
        bool none = f == LEAT_PLAN_FORM_BUCKETS && isnan(c->model.gradient_bytes);
        c->weight[f] = none ? 0 : prior[f] * exp(-fmin(misfit, 50) / 2);
        total += c->weight[f];
    }
    for (int f = 0; f < LEAT_PLAN_FORMS; f++)
        c->weight[f] /= total;
}

void leat_plan_curve_reweigh(struct leat_plan_curve *curve, const double weight[LEAT_PLAN_FORMS])
{
    double total = 0;
    for (int f = 0; f < LEAT_PLAN_FORMS; f++) {
        bool none = f == LEAT_PLAN_FORM_BUCKETS && isnan(curve->model.gradient_bytes);
        curve->weight[f] = none ? 0 : weight[f];
        total += curve->weight[f];
    }
    for (int f = 0; f < LEAT_PLAN_FORMS; f++)
        curve->weight[f] /= total;
}

static leat_status fit_buckets(struct leat_plan_curve *c, const struct leat_plan_curve_row *rows, size_t count,
                               struct leat_error *err)
{
    struct leat_plan_scaling_row all[LEAT_PLAN_CURVE_ROWS];
    double error;
    if (isnan(c->model.gradient_bytes))
        return LEAT_OK;
    for (size_t i = 0; i < count; i++)
        all[i] = (struct leat_plan_scaling_row){rows[i].nodes, rows[i].gpus, rows[i].compute_s, rows[i].step_s};
    return leat_plan_allreduce_fit(&c->model, c->network ? &c->model.network : &c->model.inside, all, count, &error,
                                   err);
}

/* In its place by members; the mean with one of the same. */
static void add_row(struct leat_plan_curve *c, unsigned times[], const struct leat_plan_curve_row *row)
{
    double members = c->network ? row->nodes : row->gpus;
    double over = row->step_s - row->base_s;
    size_t at = 0;
    while (at < c->count && c->members[at] < members)
        at++;
    if (at < c->count && c->members[at] == members) {
        c->over_s[at] += (over - c->over_s[at]) / ++times[at];
        return;
    }
    memmove(&c->members[at + 1], &c->members[at], (c->count - at) * sizeof c->members[0]);
    memmove(&c->over_s[at + 1], &c->over_s[at], (c->count - at) * sizeof c->over_s[0]);
    memmove(&times[at + 1], &times[at], (c->count - at) * sizeof times[0]);
    c->members[at] = members;
    c->over_s[at] = over;
    times[at] = 1;
    c->count++;
}

leat_status leat_plan_curve_fit(const struct leat_plan_allreduce *model, bool network,
                                const struct leat_plan_curve_row *rows, size_t count, struct leat_plan_curve *out,
                                struct leat_error *err)
{
    struct leat_plan_curve c = {.network = network, .model = *model};
    unsigned times[LEAT_PLAN_CURVE_ROWS];
    if (!count || count >= LEAT_PLAN_CURVE_ROWS)
        return leat_fail(err, count ? LEAT_LIMIT : LEAT_INVALID, "%zu measured clusters of one kind: from 1 to %d",
                         count, LEAT_PLAN_CURVE_ROWS - 1);
    for (size_t i = 0; i < count; i++) {
        add_row(&c, times, &rows[i]);
        c.contradiction = fmax(c.contradiction, log(rows[i].base_s / rows[i].step_s));
    }
    for (size_t i = 0; i < c.count; i++)
        c.over_s[i] = fmax(0, c.over_s[i]);
    leat_status rc = fit_buckets(&c, rows, count, err);
    if (rc != LEAT_OK)
        return rc;
    weigh(&c, &rows[0]);
    *out = c;
    return LEAT_OK;
}

double leat_plan_curve_step(const struct leat_plan_curve *curve, const struct leat_plan_curve_row *row, double *spread)
{
    const struct question q = {curve, curve->count, row->base_s, row->compute_s, row->gpus};
    double members = curve->network ? row->nodes : row->gpus;
    double sum = 0;
    double squares = 0;
    double total = 0;
    for (int f = 0; f < LEAT_PLAN_FORMS; f++) {
        if (curve->weight[f] < 1e-6)
            continue;
        double l = log(anchored(&q, (enum leat_plan_form)f, members));
        sum += curve->weight[f] * l;
        squares += curve->weight[f] * l * l;
        total += curve->weight[f];
    }
    sum /= total;
    squares /= total;
    double doublings = fabs(log2(members / curve->members[nearest(&q, members)]));
    double apart = fmax(0, squares - sum * sum);
    *spread = hypot(sqrt(apart + MEASURED * MEASURED + DOUBT * doublings * DOUBT * doublings), curve->contradiction);
    return fmax(exp(sum), row->base_s);
}
