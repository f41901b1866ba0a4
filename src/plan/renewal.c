/* m(t) = F(t) + ∫ m(t-x) dF(x). F is straight between its points, so over a stretch from a to b with density d the
 * integral is d·(M(t-a) − M(t-b)), M being the integral of m: exact for any width of the stretch, as far as m is
 * straight between the points of the grid. That leaves the grid free: fine after time 0 and after every age at which
 * all are taken, where machines are young together, and ever coarser in between, so that a first hour is seen in a
 * table of a year as in one of a day. */
#include "plan/renewal.h"

#include <math.h>
#include <stdlib.h>

#define FIRST_STEPS 24   /* in the shortest stretch */
#define WIDEN       0.06 /* a later step, as a share of the time since the machines were young together */
#define LEAP        1e-9 /* of the last age: how long the jump takes that everybody makes at it */

struct solver {
    const struct leat_plan_lifetime *l;
    size_t count; /* points solved so far */
    double *t;
    double *m;
    double *area;  /* ∫ m up to here */
    double *faded; /* tail_rate · ∫ m(u)·exp(-tail_rate·(t-u)) du */
};

/* Whether that many go in so short a stretch before point i that their successors are young together. */
static bool wave(const struct leat_plan_lifetime *l, size_t i)
{
    return l->probability[i] - l->probability[i - 1] > 0.02 && l->age_s[i] - l->age_s[i - 1] < l->age_s[i] / 4;
}

static double next_offset(const struct leat_plan_lifetime *l, double at, double least)
{
    double last = l->age_s[l->count - 1];
    double young = 0; /* since when */
    for (size_t i = 1; i < l->count && l->age_s[i - 1] <= at; i++) {
        if (wave(l, i))
            young = l->age_s[l->age_s[i] <= at ? i : i - 1];
    }
    double next = at + fmin(fmax(least, WIDEN * (at - young)), last / 8);
    for (size_t i = 1; i < l->count; i++) { /* never past a point of the distribution */
        if (l->age_s[i] > at && l->age_s[i] < next)
            next = l->age_s[i];
    }
    return next;
}

/* Writes the grid's points when `t` is not NULL; returns how many there are. */
static size_t lay_out(const struct leat_plan_lifetime *l, double *t)
{
    size_t n = 0;
    double last = l->age_s[l->count - 1];
    double least = last;
    for (size_t i = 1; i < l->count; i++)
        least = fmin(least, (l->age_s[i] - l->age_s[i - 1]) / FIRST_STEPS);
    least = fmax(least, last * 1e-6);
    double horizon = l->ends ? last : 4 * fmax(last, fmin(l->mean_s, 8 * last));
    for (unsigned k = 0; k < (l->ends ? LEAT_PLAN_GENERATIONS : 1); k++) {
        double at = 0;
        while (at < horizon * (1 - 2 * LEAP)) {
            if (t)
                t[n] = k * last + at;
            n++;
            at = next_offset(l, at, least);
        }
        if (t)
            t[n] = (k + 1) * horizon - (l->ends ? LEAP * last : 0);
        n++;
    }
    if (l->ends) {
        if (t)
            t[n] = LEAT_PLAN_GENERATIONS * last;
        n++;
    }
    return n;
}

/* The last point at or before t. */
static size_t below(const struct solver *s, double t)
{
    size_t lo = 0;
    size_t hi = s->count;
    while (hi - lo > 1) {
        size_t mid = (lo + hi) / 2;
        if (s->t[mid] <= t)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static double m_at(const struct solver *s, double t)
{
    if (t < 0)
        return 0;
    size_t i = below(s, t);
    if (i + 1 == s->count)
        return s->m[i];
    return s->m[i] + (t - s->t[i]) / (s->t[i + 1] - s->t[i]) * (s->m[i + 1] - s->m[i]);
}

/* ∫ m up to t. In the step that is being solved m ends in an unknown value: *weight gets its share. */
static double area_at(const struct solver *s, double t, double step, double *weight)
{
    *weight = 0;
    if (t <= 0)
        return 0;
    size_t i = below(s, t);
    double in = t - s->t[i];
    if (i + 1 == s->count) {
        *weight = in * in / (2 * step);
        return s->area[i] + s->m[i] * (in - *weight);
    }
    double slope = (s->m[i + 1] - s->m[i]) / (s->t[i + 1] - s->t[i]);
    return s->area[i] + in * (s->m[i] + slope * in / 2);
}

/* What an exponential tail remembers after a stretch of `in` over which m goes from m0 to m1. */
static double fade(double faded, double rate, double in, double m0, double m1)
{
    double x = rate * in;
    double gone = -expm1(-x);
    double late = x > 1e-6 ? 1 - gone / x : x / 2;
    return faded * (1 - gone) + m0 * (gone - late) + m1 * late;
}

static double faded_at(const struct solver *s, double t)
{
    if (t <= 0)
        return 0;
    size_t i = below(s, t);
    return fade(s->faded[i], s->l->tail_rate, t - s->t[i], s->m[i], m_at(s, t));
}

static void solve_point(struct solver *s)
{
    const struct leat_plan_lifetime *l = s->l;
    size_t i = s->count;
    double t = s->t[i];
    double step = t - s->t[i - 1];
    double last = l->age_s[l->count - 1];
    double rest = 1 - l->probability[l->count - 1];
    double sum = leat_plan_lifetime_cdf(l, t);
    double own = 0;
    for (size_t k = 1; k < l->count && l->age_s[k - 1] < t; k++) {
        double density = (l->probability[k] - l->probability[k - 1]) / (l->age_s[k] - l->age_s[k - 1]);
        double young;
        double old;
        sum += density * (area_at(s, t - l->age_s[k - 1], step, &young) - area_at(s, t - l->age_s[k], step, &old));
        own += density * (young - old);
    }
    if (t >= last && rest > 0)
        sum += rest * (l->ends ? m_at(s, t - last) : faded_at(s, t - last));
    s->m[i] = sum / (1 - own);
    s->area[i] = s->area[i - 1] + step * (s->m[i - 1] + s->m[i]) / 2;
    s->faded[i] = l->ends ? 0 : fade(s->faded[i - 1], l->tail_rate, step, s->m[i - 1], s->m[i]);
    s->count++;
}

static bool straight(const struct solver *s, size_t from, size_t to, double tolerance)
{
    double slope = (s->m[to] - s->m[from]) / (s->t[to] - s->t[from]);
    for (size_t i = from + 1; i < to; i++) {
        double d = s->m[from] + slope * (s->t[i] - s->t[from]) - s->m[i];
        if (fabs(d) > tolerance * (s->m[i] + 1e-4))
            return false;
    }
    return true;
}

/* Points that lie on a line between others are left out: plans walk through the cells a thousand times a second. */
static bool thin(const struct solver *s, double tolerance, struct leat_plan_lifetime *l)
{
    l->cells = 0;
    for (size_t i = 0; i < s->count;) {
        if (l->cells == LEAT_PLAN_CELLS_MAX)
            return false;
        l->cell_s[l->cells] = s->t[i];
        l->expected[l->cells++] = s->m[i];
        size_t next = i + 1;
        while (next + 1 < s->count && straight(s, i, next + 1, tolerance))
            next++;
        i = next;
    }
    return true;
}

leat_status leat_plan_renewal_solve(struct leat_plan_lifetime *l, struct leat_error *err)
{
    size_t points = lay_out(l, NULL);
    double *room = calloc(4 * points, sizeof *room);
    if (!room)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a distribution of lifetimes");
    struct solver s = {l, 1, room, room + points, room + 2 * points, room + 3 * points};
    lay_out(l, s.t);
    while (s.count < points)
        solve_point(&s);
    double tolerance = 5e-4;
    while (!thin(&s, tolerance, l))
        tolerance *= 2;
    free(room);
    return LEAT_OK;
}
