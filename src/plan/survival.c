#include "plan/survival.h"

#include <math.h>
#include <stdlib.h>

#define CELLS      16   /* at most this many stretches of constant hazard */
#define CELL_LEAST 2    /* revocations in each */
#define LAST       0.96 /* of the longest life: maximum lives end within a few minutes in an hour */
#define LAST_SHARE 0.8
#define LAST_LEAST 3
#define DAY_OFF    0.015 /* how far from whole days the mean age of those that reached the limit may be */

static int by_age(const void *a, const void *b)
{
    const struct leat_plan_life *x = a;
    const struct leat_plan_life *y = b;
    return (x->age_s > y->age_s) - (x->age_s < y->age_s);
}

static int by_start(const void *a, const void *b)
{
    const struct leat_plan_life *x = a;
    const struct leat_plan_life *y = b;
    return (x->start_s > y->start_s) - (x->start_s < y->start_s);
}

/* How many times apart machines began that were taken. Sorts them by it. */
static size_t count_starts(struct leat_plan_life *lives, size_t count, double apart_s)
{
    size_t n = 0;
    double last = -HUGE_VAL;
    qsort(lives, count, sizeof *lives, by_start);
    for (size_t i = 0; i < count; i++) {
        if (!lives[i].taken || lives[i].start_s - last < apart_s)
            continue;
        last = lives[i].start_s;
        n++;
    }
    return n;
}

/* The age at which a provider takes whatever is left; 0: none. */
static double maximum_life_s(struct leat_plan_life *lives, size_t count)
{
    double from = LAST * lives[count - 1].age_s;
    size_t at = 0;
    size_t taken = 0;
    double sum = 0;
    while (lives[at].age_s < from)
        at++;
    for (size_t i = at; i < count; i++) {
        taken += lives[i].taken;
        sum += lives[i].taken ? lives[i].age_s : 0;
    }
    if (taken < LAST_LEAST || (double)taken < LAST_SHARE * (double)(count - at))
        return 0;
    double age_s = sum / (double)taken;
    double days = age_s / 86400;
    bool whole = round(days) >= 1 && fabs(days - round(days)) < DAY_OFF * days;
    /* Starts within the width of the end may have ended by one and the same event. */
    size_t starts = count_starts(lives + at, count - at, lives[count - 1].age_s - from);
    qsort(lives + at, count - at, sizeof *lives, by_age);
    return whole || starts >= LAST_LEAST ? age_s : 0;
}

/* Time that all machines spent between two ages. */
static double exposure_s(const struct leat_plan_life *lives, size_t count, double from, double to)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += fmax(0, fmin(lives[i].age_s, to) - from);
    return sum;
}

static void add_stretch(const struct leat_plan_life *lives, size_t count, double to, double events,
                        struct leat_plan_survival *s)
{
    double from = s->age_s[s->points - 1];
    double before = -log1p(-s->probability[s->points - 1]);
    double hazard = events / exposure_s(lives, count, from, to);
    s->age_s[s->points] = to;
    s->probability[s->points++] = -expm1(-(before + hazard * (to - from)));
}

leat_status leat_plan_survival_fit(struct leat_plan_life *lives, size_t count, const char *what,
                                   struct leat_plan_survival *out, struct leat_error *err)
{
    struct leat_plan_survival s = {.machines = count, .points = 1};
    if (!count)
        return leat_fail(err, LEAT_INVALID, "%s: no machine was observed", what);
    qsort(lives, count, sizeof *lives, by_age);
    for (size_t i = 0; i < count; i++) {
        if (!(lives[i].age_s > 0 && lives[i].age_s < HUGE_VAL))
            return leat_fail(err, LEAT_INVALID, "%s: a life of %g s", what, lives[i].age_s);
        s.watched_s += lives[i].age_s;
    }
    double end = maximum_life_s(lives, count);
    double early = end > 0 ? LAST * lives[count - 1].age_s : HUGE_VAL;
    double last = end > 0 ? end : lives[count - 1].age_s;
    s.ends = end > 0;
    for (size_t i = 0; i < count; i++) {
        s.taken += lives[i].taken && lives[i].age_s < early;
        s.reached += lives[i].taken && lives[i].age_s >= early;
    }
    size_t each = (s.taken + CELLS - 1) / CELLS;
    each = each < CELL_LEAST ? CELL_LEAST : each;
    size_t left = s.taken;
    size_t seen = 0;
    for (size_t i = 0; i < count && left >= 2 * each; i++) {
        seen += lives[i].taken && lives[i].age_s < early;
        bool tie = i + 1 < count && lives[i + 1].age_s == lives[i].age_s;
        if (seen < each || tie || lives[i].age_s >= last)
            continue;
        left = left > seen ? left - seen : 0;
        add_stretch(lives, count, lives[i].age_s, (double)seen, &s);
        seen = 0;
    }
    add_stretch(lives, count, last, s.taken ? (double)left : 0.5, &s);
    *out = s;
    return LEAT_OK;
}

double leat_plan_survival_events(const struct leat_plan_survival *s)
{
    return s->taken ? (double)s->taken : 0.5;
}

double leat_plan_hazard_spread(double events)
{
    return hypot(1 / sqrt(events), LEAT_PLAN_HAZARD_DRIFT);
}
