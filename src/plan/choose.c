/* Which configuration: the Pareto front, what keeps deadline and budget, and why not the others. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/world.h"

static int by_time(const void *a, const void *b)
{
    const struct leat_plan_record *x = a;
    const struct leat_plan_record *y = b;
    if (x->time_s.mean != y->time_s.mean)
        return x->time_s.mean < y->time_s.mean ? -1 : 1;
    return x->usd.mean < y->usd.mean ? -1 : x->usd.mean > y->usd.mean;
}

static int by_rank(const void *a, const void *b)
{
    const struct leat_plan_record *x = a;
    const struct leat_plan_record *y = b;
    if (x->chosen != y->chosen)
        return x->chosen ? -1 : 1;
    if (x->front != y->front)
        return x->front ? -1 : 1;
    if (x->front)
        return by_time(a, b);
    if (x->usd.mean != y->usd.mean)
        return x->usd.mean < y->usd.mean ? -1 : 1;
    return by_time(a, b);
}

static bool accurate(const struct leat_plan_options *o, const struct leat_plan_record *r)
{
    return !(o->min_accuracy > 0) || r->accuracy >= o->min_accuracy; /* unknown is not enough */
}

/* How far beyond deadline, budget and accuracy: at most 1 when all are kept. */
static double excess(const struct leat_plan_options *o, const struct leat_plan_record *r)
{
    double worst = 0;
    if (o->deadline_s > 0)
        worst = r->risk_time_s / o->deadline_s;
    if (o->budget_usd > 0)
        worst = fmax(worst, r->risk_usd / o->budget_usd);
    if (!accurate(o, r))
        worst = isnan(r->accuracy) ? HUGE_VAL : fmax(worst, o->min_accuracy / r->accuracy);
    return worst;
}

/* What is least for the one to be chosen. */
static double score(const struct leat_plan_options *o, const struct leat_plan_record *r, bool any)
{
    if (!any)
        return excess(o, r);
    if (o->deadline_s > 0)
        return r->usd.mean;
    if (o->budget_usd > 0)
        return r->time_s.mean;
    return r->usd.mean * r->time_s.mean;
}

/* The last of the front that is not slower is the cheapest of those: `front` goes by time. */
static const struct leat_plan_record *dominator(const struct leat_plan_record *const *front, size_t fronts,
                                                const struct leat_plan_record *r)
{
    const struct leat_plan_record *d = NULL;
    for (size_t i = 0; i < fronts && front[i]->time_s.mean <= r->time_s.mean; i++)
        d = front[i];
    return d && d->usd.mean <= r->usd.mean ? d : NULL;
}

static void say_chosen(const struct leat_plan_options *o, struct leat_plan_record *r, bool any)
{
    char sure[32];
    snprintf(sure, sizeof sure, "p%g", o->risk * 100);
    if (!any && o->min_accuracy > 0 && !isnan(r->accuracy))
        snprintf(r->why, sizeof r->why, "nearest: %s %.1f h, %.2f usd, accuracy %.2f %%", sure, r->risk_time_s / 3600,
                 r->risk_usd, r->accuracy);
    else if (!any)
        snprintf(r->why, sizeof r->why, "nearest: %s %.1f h, %.2f usd", sure, r->risk_time_s / 3600, r->risk_usd);
    else if (o->deadline_s > 0)
        snprintf(r->why, sizeof r->why, "cheapest that is done in time (%s %.1f h)", sure, r->risk_time_s / 3600);
    else if (o->budget_usd > 0)
        snprintf(r->why, sizeof r->why, "fastest within the money (%s %.2f usd)", sure, r->risk_usd);
    else
        snprintf(r->why, sizeof r->why, "least time × money; no deadline or budget was given");
}

static void say_other(const struct leat_plan *p, struct leat_plan_record *r, const struct leat_plan_record *chosen,
                      const struct leat_plan_record *better)
{
    const struct leat_plan_options *o = &p->options;
    char name[LEAT_PLAN_NAME_SIZE];
    double hours = (r->time_s.mean - chosen->time_s.mean) / 3600;
    double usd = r->usd.mean - chosen->usd.mean;
    if (o->deadline_s > 0 && r->risk_time_s > o->deadline_s) {
        snprintf(r->why, sizeof r->why, "misses the deadline: p%g %.1f h", o->risk * 100, r->risk_time_s / 3600);
    } else if (o->budget_usd > 0 && r->risk_usd > o->budget_usd) {
        snprintf(r->why, sizeof r->why, "above the budget: p%g %.2f usd", o->risk * 100, r->risk_usd);
    } else if (!accurate(o, r)) {
        snprintf(r->why, sizeof r->why,
                 isnan(r->accuracy) ? "accuracy with so many workers is not known"
                                    : "too many workers: accuracy too low");
    } else if (better) {
        snprintf(r->why, sizeof r->why, "%s is faster and cheaper", leat_plan_record_name(p, better, name));
    } else if (hours < 0) {
        snprintf(r->why, sizeof r->why, "%.1f h faster, for %.2f usd more", -hours, usd);
    } else {
        snprintf(r->why, sizeof r->why, "%.2f usd cheaper, but %.1f h slower", -usd, hours);
    }
}

/* Fronts have tens of members; of a longer one the slow end is only left unnamed. */
#define FRONT_MAX 1000

bool leat_plan_choose_records(struct leat_plan *plan)
{
    const struct leat_plan_record *front[FRONT_MAX];
    bool any = false;
    double least = HUGE_VAL;
    size_t best = 0;
    size_t fronts = 0;
    qsort(plan->records, plan->count, sizeof *plan->records, by_time);
    for (size_t i = 0; i < plan->count; i++) {
        struct leat_plan_record *r = &plan->records[i];
        r->front = r->usd.mean < least;
        least = fmin(least, r->usd.mean);
        r->meets = excess(&plan->options, r) <= 1;
        if (r->front && fronts < FRONT_MAX)
            front[fronts++] = r;
        any |= r->meets;
    }
    least = HUGE_VAL;
    for (size_t i = 0; i < plan->count; i++) {
        const struct leat_plan_record *r = &plan->records[i];
        double s = score(&plan->options, r, any);
        if ((r->meets || !any) && s < least) {
            least = s;
            best = i;
        }
    }
    for (size_t i = 0; i < plan->count; i++) {
        struct leat_plan_record *r = &plan->records[i];
        if (i != best)
            say_other(plan, r, &plan->records[best], r->front ? NULL : dominator(front, fronts, r));
    }
    plan->records[best].chosen = true;
    say_chosen(&plan->options, &plan->records[best], any);
    qsort(plan->records, plan->count, sizeof *plan->records, by_rank);
    return any;
}
