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
    if (x->usd.mean != y->usd.mean)
        return x->usd.mean < y->usd.mean ? -1 : 1;
    /* Ties in one order on every machine, with the same offer of several places side by side. */
    int c = strcmp(x->offer->type, y->offer->type);
    c = c ? c : (int)x->kind - (int)y->kind;
    c = c ? c : (x->nodes > y->nodes) - (x->nodes < y->nodes);
    c = c ? c : x->path - y->path;
    return c ? c : (x->offer > y->offer) - (x->offer < y->offer);
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

/* Of those that keep what was asked, sorted by time and ever cheaper: the last that is not slower is the cheapest of
 * those. One that misses the deadline is no reason against another that keeps it. */
static const struct leat_plan_record *dominator(const struct leat_plan_record *const *best, size_t count,
                                                const struct leat_plan_record *r)
{
    const struct leat_plan_record *d = NULL;
    for (size_t i = 0; i < count && best[i]->time_s.mean <= r->time_s.mean; i++)
        d = best[i];
    return d && d != r && d->usd.mean <= r->usd.mean ? d : NULL;
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
        snprintf(r->why, sizeof r->why, "cheapest within the deadline (%s %.1f h)", sure, r->risk_time_s / 3600);
    else if (o->budget_usd > 0)
        snprintf(r->why, sizeof r->why, "fastest within the budget (%s %.2f usd)", sure, r->risk_usd);
    else
        snprintf(r->why, sizeof r->why, "least time × money; no deadline or budget was given");
}

/* Differences that no print-out shows are none. */
static bool same(double a, double b)
{
    return fabs(a - b) <= 1e-6 * fmin(fabs(a), fabs(b));
}

static void say_dominated(const struct leat_plan *p, struct leat_plan_record *r, const struct leat_plan_record *better)
{
    char name[LEAT_PLAN_NAME_SIZE];
    bool as_fast = same(better->time_s.mean, r->time_s.mean);
    bool as_cheap = same(better->usd.mean, r->usd.mean);
    snprintf(r->why, sizeof r->why, "%s is %s", leat_plan_record_name(p, better, name),
             as_fast && as_cheap ? "as fast and costs the same"
             : as_fast           ? "as fast and cheaper"
             : as_cheap          ? "faster and costs the same"
                                 : "faster and cheaper");
}

static void say_against_chosen(struct leat_plan_record *r, const struct leat_plan_record *chosen)
{
    double hours = (r->time_s.mean - chosen->time_s.mean) / 3600;
    double usd = r->usd.mean - chosen->usd.mean;
    char time[40] = "as fast";
    char money[40] = "costs the same";
    if (!same(r->time_s.mean, chosen->time_s.mean))
        snprintf(time, sizeof time, "%.1f h %s", fabs(hours), hours < 0 ? "faster" : "slower");
    if (!same(r->usd.mean, chosen->usd.mean))
        snprintf(money, sizeof money, "%.2f usd %s", fabs(usd), usd < 0 ? "cheaper" : "dearer");
    snprintf(r->why, sizeof r->why, "%s, %s than the chosen one", time, money);
    if (same(r->usd.mean, chosen->usd.mean))
        snprintf(r->why, sizeof r->why, "%s than the chosen one, %s", time, money);
}

/* Everything that it breaks, not only the first. */
static bool say_broken(const struct leat_plan_options *o, struct leat_plan_record *r)
{
    size_t n = 0;
    if (o->deadline_s > 0 && r->risk_time_s > o->deadline_s)
        n += (size_t)snprintf(r->why, sizeof r->why, "misses the deadline: p%g %.1f h", o->risk * 100,
                              r->risk_time_s / 3600);
    if (o->budget_usd > 0 && r->risk_usd > o->budget_usd)
        n += (size_t)snprintf(r->why + n, sizeof r->why - n, "%sabove the budget: p%g %.2f usd", n ? "; " : "",
                              o->risk * 100, r->risk_usd);
    if (!accurate(o, r) && isnan(r->accuracy))
        n += (size_t)snprintf(r->why + n, sizeof r->why - n, "%saccuracy with this many workers is not known",
                              n ? "; " : "");
    else if (!accurate(o, r))
        n += (size_t)snprintf(r->why + n, sizeof r->why - n, "%stoo many workers: accuracy %.2f %%", n ? "; " : "",
                              r->accuracy);
    return n > 0;
}

static void say_other(const struct leat_plan *p, struct leat_plan_record *r, const struct leat_plan_record *chosen,
                      const struct leat_plan_record *better)
{
    if (say_broken(&p->options, r))
        return;
    if (better)
        say_dominated(p, r, better);
    else
        say_against_chosen(r, chosen);
}

/* Fronts have tens of members; of a longer one the slow end is only left unnamed. */
#define FRONT_MAX 1000

static bool twins(const struct leat_plan_record *a, const struct leat_plan_record *b)
{
    return same(a->time_s.mean, b->time_s.mean) && same(a->usd.mean, b->usd.mean) && a->kind == b->kind &&
           a->nodes == b->nodes && a->path == b->path && strcmp(a->offer->type, b->offer->type) == 0 &&
           strcmp(a->offer->provider, b->offer->provider) == 0;
}

/* Equal offers of several places are one answer: the first stands for the others and names them. */
static void join_twins(struct leat_plan *plan)
{
    struct leat_plan_record *first = NULL;
    for (size_t i = 0; i < plan->count; i++) {
        struct leat_plan_record *r = &plan->records[i];
        if (!first || !twins(first, r)) {
            first = r;
            continue;
        }
        size_t at = strlen(first->also_in);
        size_t need = strlen(r->offer->region) + 2;
        r->same_as = first->offer;
        if (at + need + 4 < sizeof first->also_in)
            snprintf(first->also_in + at, sizeof first->also_in - at, "%s%s", at ? ", " : "", r->offer->region);
        else if (at < 3 || strcmp(first->also_in + at - 3, "…") != 0)
            snprintf(first->also_in + at, sizeof first->also_in - at, "…");
    }
}

/* Marks front and meets, in records sorted by time; returns whether any meets. `best` gets the front of those. */
static bool mark(struct leat_plan *plan, const struct leat_plan_record **best, size_t *count)
{
    double least = HUGE_VAL;
    double least_met = HUGE_VAL;
    bool any = false;
    *count = 0;
    for (size_t i = 0; i < plan->count; i++) {
        struct leat_plan_record *r = &plan->records[i];
        r->front = r->usd.mean < least && !same(r->usd.mean, least);
        least = fmin(least, r->usd.mean);
        r->meets = excess(&plan->options, r) <= 1;
        any |= r->meets;
        if (r->meets && r->usd.mean < least_met && *count < FRONT_MAX) {
            least_met = r->usd.mean;
            best[(*count)++] = r;
        }
    }
    return any;
}

/* The run whose result would change the choice most: of accelerators that nobody measured, the one whose luckier half
 * gains most on the choice, by what the choice is made by; the chosen one's own first. */
static void say_measure_next(struct leat_plan *plan, const struct leat_plan_record *chosen, bool any)
{
    const struct leat_plan_options *o = &plan->options;
    const struct leat_plan_record *next = chosen->transferred ? chosen : NULL;
    double most = 0;
    for (size_t i = 0; i < plan->count && !chosen->transferred; i++) {
        const struct leat_plan_record *r = &plan->records[i];
        struct leat_plan_record lucky = *r;
        lucky.time_s.mean = r->time_s.lo;
        lucky.usd.mean = r->usd.lo;
        lucky.risk_time_s = r->time_s.lo;
        lucky.risk_usd = r->usd.lo;
        if (!r->transferred || excess(o, &lucky) > 1)
            continue;
        double gain = 1 - score(o, &lucky, any) / score(o, chosen, any);
        if (gain > most) {
            most = gain;
            next = r;
        }
    }
    if (next == chosen && next)
        leat_plan_note(&plan->notes, "measure next: this job on one %s; the choice rests on a speed carried over to it",
                       next->offer->accelerator);
    else if (next)
        leat_plan_note(&plan->notes, "measure next: this job on one %s; if it is fast, %s is up to %.0f %% better",
                       next->offer->accelerator, next->offer->type, 100 * most);
}

/* Whether a run that has begun should move, and what that gains. */
static void say_stay_or_move(struct leat_plan *plan, const struct leat_plan_record *chosen)
{
    const struct leat_plan_past *past = &plan->past;
    char name[LEAT_PLAN_NAME_SIZE];
    const struct leat_plan_record *now = NULL;
    for (size_t i = 0; i < plan->count; i++) {
        const struct leat_plan_record *r = &plan->records[i];
        if (r->offer == past->offer && r->kind == past->kind && r->nodes == past->nodes && r->path == past->path)
            now = r;
    }
    if (now == chosen)
        leat_plan_note(&plan->notes, "stay with %s: nothing better is left", past->config);
    else if (now)
        leat_plan_note(&plan->notes, "move to %s: %.2f h and %.2f usd are left there, %.2f h and %.2f usd with %s",
                       leat_plan_record_name(plan, chosen, name), chosen->time_s.mean / 3600, chosen->usd.mean,
                       now->time_s.mean / 3600, now->usd.mean, past->config);
    else
        leat_plan_note(&plan->notes, "move to %s: what is left cannot be priced with %s",
                       leat_plan_record_name(plan, chosen, name), past->config);
}

bool leat_plan_choose_records(struct leat_plan *plan)
{
    const struct leat_plan_record *front[FRONT_MAX];
    double least = HUGE_VAL;
    size_t best = 0;
    size_t fronts = 0;
    qsort(plan->records, plan->count, sizeof *plan->records, by_time);
    join_twins(plan);
    bool any = mark(plan, front, &fronts);
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
            say_other(plan, r, &plan->records[best], dominator(front, fronts, r));
    }
    plan->records[best].chosen = true;
    say_measure_next(plan, &plan->records[best], any);
    if (plan->resumed)
        say_stay_or_move(plan, &plan->records[best]);
    say_chosen(&plan->options, &plan->records[best], any);
    for (size_t i = 0; i < plan->count; i++) {
        struct leat_plan_record *r = &plan->records[i];
        size_t at = strlen(r->why);
        if (*r->also_in)
            snprintf(r->why + at, sizeof r->why - at, "; the same in %s", r->also_in);
    }
    qsort(plan->records, plan->count, sizeof *plan->records, by_rank);
    return any;
}
