#include "sim/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

/* A mixture of two exponentials with the stretch's mean: many short ones, a few long. */
static double stretch_s(const struct leat_sim_weather *w, double mean_s, struct leat_rng *rng)
{
    double brief = mean_s / 10;
    double lasting = (mean_s - w->early * brief) / (1 - w->early);
    double mean = leat_rng_unit(rng) < w->early ? brief : lasting;
    return -mean * log(1 - leat_rng_unit(rng));
}

leat_status leat_sim_trace(const struct leat_sim_weather *weather, double gap_s, size_t count, uint64_t seed,
                           struct leat_plan_trace *out, struct leat_error *err)
{
    struct leat_plan_trace t = {.gap_s = gap_s, .count = count, .free = calloc(count, sizeof *t.free)};
    if (!t.free)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a trace of %zu ticks", count);
    struct leat_rng rng = leat_rng(leat_key("sim trace", seed, 0, NULL, 0), 0);
    double share = weather->up_mean_s / (weather->up_mean_s + weather->down_mean_s);
    bool up = leat_rng_unit(&rng) < share;
    double until = 0;
    for (size_t i = 0; i < count; i++) {
        double now = (double)i * gap_s;
        while (until <= now) {
            up = !up;
            until += stretch_s(weather, up ? weather->up_mean_s : weather->down_mean_s, &rng);
        }
        t.free[i] = up;
    }
    *out = t;
    return LEAT_OK;
}

/* Best cost-to-go for each progress, for the three things that may be running at the beginning of a tick. */
struct table {
    size_t units; /* of the whole job */
    double *cost; /* 3 × (units + 1) */
};

struct knower {
    const struct leat_plan_replay *job;
    double transient_usd_per_s;
    double unit_s;
    size_t tick;       /* in units */
    size_t changeover; /* in units, at most a tick */
    size_t units;
};

static double *row(double *cost, const struct knower *k, enum leat_plan_choice c)
{
    return cost + (size_t)c * (k->units + 1);
}

/* Cost of running `next` through one tick after `now`, from `done` on, and then at best. */
static double option(const struct knower *k, double *later, enum leat_plan_choice now, enum leat_plan_choice next,
                     size_t done)
{
    if (next == LEAT_PLAN_IDLE)
        return row(later, k, LEAT_PLAN_IDLE)[done];
    size_t lead = now == next ? 0 : k->changeover;
    size_t useful = k->tick - lead;
    size_t left = k->units - done;
    double rate = next == LEAT_PLAN_USE_ON_DEMAND ? k->job->usd_per_s : k->transient_usd_per_s;
    if (useful >= left)
        return rate * (double)(lead + left) * k->unit_s;
    return rate * (double)k->tick * k->unit_s + row(later, k, next)[done + useful];
}

static void step_back(const struct knower *k, bool up, double *later, double *cost)
{
    for (int now = LEAT_PLAN_IDLE; now <= LEAT_PLAN_USE_ON_DEMAND; now++) {
        double *to = row(cost, k, (enum leat_plan_choice)now);
        for (size_t done = 0; done < k->units; done++) {
            double best = option(k, later, (enum leat_plan_choice)now, LEAT_PLAN_IDLE, done);
            best = fmin(best, option(k, later, (enum leat_plan_choice)now, LEAT_PLAN_USE_ON_DEMAND, done));
            if (up)
                best = fmin(best, option(k, later, (enum leat_plan_choice)now, LEAT_PLAN_USE_TRANSIENT, done));
            to[done] = best;
        }
        to[k->units] = 0;
    }
    if (!up) /* a transient cluster that ran is lost: the same as nothing running */
        memcpy(row(cost, k, LEAT_PLAN_USE_TRANSIENT), row(cost, k, LEAT_PLAN_IDLE), (k->units + 1) * sizeof *cost);
}

leat_status leat_sim_clairvoyant(const struct leat_plan_market *market, size_t start,
                                 const struct leat_plan_replay *job, double *usd, struct leat_error *err)
{
    const struct leat_plan_trace *trace = market->zone[0].trace;
    struct knower k = {
        .job = job, .transient_usd_per_s = market->zone[0].usd_per_s, .unit_s = trace->gap_s / 20, .tick = 20};
    k.changeover = (size_t)ceil(job->changeover_s / k.unit_s - 1e-9);
    k.units = (size_t)ceil(job->work_s / k.unit_s - 1e-9);
    if (market->count != 1)
        return leat_fail(err, LEAT_UNSUPPORTED, "foresight over %zu zones", market->count);
    if (k.changeover > k.tick)
        return leat_fail(err, LEAT_UNSUPPORTED, "a changeover longer than a tick of the trace");
    size_t ticks = (size_t)floor(job->deadline_s / trace->gap_s + 1e-9);
    size_t cells = 3 * (k.units + 1);
    double *later = calloc(2 * cells, sizeof *later);
    if (!later)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for %zu states", cells);
    double *cost = later + cells;
    double *base = later;
    for (size_t i = 0; i < cells; i++)
        later[i] = (i + 1) % (k.units + 1) == 0 ? 0 : HUGE_VAL;
    for (size_t i = ticks; i-- > 0;) {
        step_back(&k, trace->free[(start + i) % trace->count], later, cost);
        double *swap = later;
        later = cost;
        cost = swap;
    }
    *usd = row(later, &k, LEAT_PLAN_IDLE)[0];
    free(base);
    return LEAT_OK;
}
