#include "plan/trace.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

static leat_status take_ticks(const char *name, const json_t *data, struct leat_plan_trace *out, struct leat_error *err)
{
    size_t n = json_array_size(data);
    if (!json_is_array(data) || n == 0)
        return leat_fail(err, LEAT_INVALID, "%s: 'data' must be an array of 0 and 1 or of counts, and not empty", name);
    if (n > LEAT_PLAN_TICKS_MAX)
        return leat_fail(err, LEAT_LIMIT, "%s: more than %d ticks", name, LEAT_PLAN_TICKS_MAX);
    out->free = calloc(n, sizeof *out->free);
    if (!out->free)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the trace %s", name);
    for (out->count = 0; out->count < n; out->count++) {
        const json_t *tick = json_array_get(data, out->count);
        double v = json_number_value(tick);
        if (!json_is_number(tick) || !(v >= 0 && v <= UINT16_MAX) || v != floor(v))
            return leat_fail(err, LEAT_INVALID, "%s: tick %zu of 'data' is neither 0 nor 1, nor a number of machines",
                             name, out->count + 1);
        out->free[out->count] = (uint16_t)v;
        out->counts |= v > 1;
    }
    return LEAT_OK;
}

leat_status leat_plan_trace_parse(const char *name, const char *text, size_t n, struct leat_plan_trace *out,
                                  struct leat_error *err)
{
    json_error_t why;
    struct leat_plan_trace trace = {0};
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return leat_fail(err, LEAT_INVALID, "%s line %d: %s", name, why.line, why.text);
    leat_status rc = LEAT_OK;
    const json_t *gap = json_object_get(json_object_get(root, "metadata"), "gap_seconds");
    trace.gap_s = json_number_value(gap);
    if (!json_is_number(gap) || !(trace.gap_s >= 1 && trace.gap_s <= 86400))
        rc = leat_fail(err, LEAT_INVALID, "%s: 'metadata.gap_seconds' must be a number from 1 to 86400", name);
    if (rc == LEAT_OK)
        rc = take_ticks(name, json_object_get(root, "data"), &trace, err);
    json_decref(root);
    if (rc != LEAT_OK) {
        leat_plan_trace_free(&trace);
        return rc;
    }
    *out = trace;
    return LEAT_OK;
}

void leat_plan_trace_free(struct leat_plan_trace *trace)
{
    if (!trace)
        return;
    free(trace->free);
    *trace = (struct leat_plan_trace){0};
}

bool leat_plan_trace_up(const struct leat_plan_trace *trace, size_t tick, unsigned machines)
{
    unsigned free = trace->free[tick % trace->count];
    return trace->counts ? free >= machines : free;
}

double leat_plan_trace_mtbf_s(const struct leat_plan_trace *trace, unsigned machines)
{
    double up = 0;
    double losses = 0;
    for (size_t i = 0; i < trace->count; i++) {
        bool now = leat_plan_trace_up(trace, i, machines);
        up += now;
        losses += now && !leat_plan_trace_up(trace, i + 1, machines);
    }
    return up * trace->gap_s / fmax(1, losses);
}

/* Work that a loss within the next tick would cost: at worst what is unsaved then. */
static double at_risk_s(const struct leat_plan_replay *job, double done_s, double tick_s)
{
    if (!(job->piece_s > 0))
        return 0;
    return fmin(job->piece_s, fmod(done_s, job->piece_s) + tick_s);
}

static double speed_of(const struct leat_plan_market *market, size_t zone)
{
    return market->zone[zone].speed > 0 ? market->zone[zone].speed : 1;
}

/* Uniform progress, after "Can't Be Late": take transient machines while there are any; without them wait as
 * long as the job is ahead of an even pace to its deadline, else go on demand, and stay there until it is two
 * changeovers ahead. Above all that: never let the slack fall below what the worst tick and a last changeover need. */
static enum leat_plan_choice choose_uniform(const struct leat_plan_replay *job, const struct leat_plan_sight *s)
{
    double slack = job->deadline_s - s->elapsed_s - (job->work_s - s->done_s);
    double pace = job->work_s / job->deadline_s;
    double d = job->changeover_s;
    double speed = s->speed > 0 ? s->speed : 1;
    double risk = at_risk_s(job, s->done_s, s->tick_s * speed);
    if (s->now == LEAT_PLAN_USE_ON_DEMAND) {
        double ahead = s->done_s - pace * (s->elapsed_s + 2 * d);
        /* Changing costs d now; if the machine is lost at once, a tick, its work and d more. */
        bool safe = slack >= 2 * d + s->tick_s + risk;
        return s->available && safe && ahead >= 0 ? LEAT_PLAN_USE_TRANSIENT : LEAT_PLAN_USE_ON_DEMAND;
    }
    if (s->available) {
        /* While it computes the slack stays, or shrinks by what slower machines fall behind in a tick; while it
         * starts it shrinks by what is left of that. */
        double starting = s->now == LEAT_PLAN_USE_TRANSIENT ? s->starting_s : d;
        double behind = s->tick_s * fmax(0, 1 - speed);
        return slack >= starting + risk + behind + d ? LEAT_PLAN_USE_TRANSIENT : LEAT_PLAN_USE_ON_DEMAND;
    }
    if (slack < d + s->tick_s || s->done_s < pace * s->elapsed_s)
        return LEAT_PLAN_USE_ON_DEMAND;
    return LEAT_PLAN_IDLE;
}

enum leat_plan_choice leat_plan_choose(enum leat_plan_policy policy, const struct leat_plan_replay *job,
                                       const struct leat_plan_sight *sight)
{
    switch (policy) {
    case LEAT_PLAN_ON_DEMAND:
        return LEAT_PLAN_USE_ON_DEMAND;
    case LEAT_PLAN_TRANSIENT:
        return sight->available ? LEAT_PLAN_USE_TRANSIENT : LEAT_PLAN_IDLE;
    case LEAT_PLAN_UNIFORM:
        return choose_uniform(job, sight);
    }
    return LEAT_PLAN_IDLE;
}

struct walk {
    const struct leat_plan_market *market;
    const struct leat_plan_replay *job;
    struct leat_plan_sight sight;
    struct leat_plan_replayed result;
    size_t zone; /* where the transient cluster runs */
    bool begun;
};

/* The zone that has machines and does the work for the least money; market->count: none. */
static size_t cheapest_up(const struct walk *w, size_t tick)
{
    size_t best = w->market->count;
    for (size_t z = 0; z < w->market->count; z++) {
        if (leat_plan_trace_up(w->market->zone[z].trace, tick, w->job->machines) &&
            (best == w->market->count || w->market->zone[z].usd_per_s / speed_of(w->market, z) <
                                             w->market->zone[best].usd_per_s / speed_of(w->market, best)))
            best = z;
    }
    return best;
}

static void look(struct walk *w, size_t tick, size_t *open)
{
    struct leat_plan_sight *s = &w->sight;
    *open = cheapest_up(w, tick);
    if (s->now == LEAT_PLAN_USE_TRANSIENT) {
        if (leat_plan_trace_up(w->market->zone[w->zone].trace, tick, w->job->machines)) {
            *open = w->zone; /* moving for a better price is not worth a changeover: the better zone may close too */
        } else {
            double piece = w->job->piece_s;
            double saved = piece > 0 ? piece * floor(s->done_s / piece + 1e-9) : s->done_s;
            w->result.lost_s += s->done_s - saved;
            s->done_s = saved;
            s->now = LEAT_PLAN_IDLE;
            w->result.revocations++;
        }
    }
    s->available = *open < w->market->count;
    s->speed = s->available ? speed_of(w->market, *open) : 1;
}

/* One tick of what was chosen; true when the job is done. */
static bool work(struct walk *w)
{
    struct leat_plan_sight *s = &w->sight;
    double span = s->tick_s;
    if (s->now != LEAT_PLAN_IDLE) {
        double lead = fmin(s->starting_s, span);
        double speed = s->now == LEAT_PLAN_USE_TRANSIENT ? speed_of(w->market, w->zone) : 1;
        double useful = fmin(span - lead, (w->job->work_s - s->done_s) / speed);
        s->starting_s -= lead;
        s->done_s += useful * speed;
        bool ended = s->done_s >= w->job->work_s - 1e-6;
        if (ended)
            span = lead + useful;
        if (s->now == LEAT_PLAN_USE_ON_DEMAND) {
            w->result.on_demand_s += span;
        } else {
            w->result.transient_s += span;
            w->result.transient_usd += span * w->market->zone[w->zone].usd_per_s;
        }
        if (ended) {
            w->result.time_s = s->elapsed_s + span;
            return true;
        }
    }
    s->elapsed_s += span;
    return false;
}

void leat_plan_replay(const struct leat_plan_market *market, size_t start, enum leat_plan_policy policy,
                      const struct leat_plan_replay *job, struct leat_plan_replayed *out)
{
    size_t round = SIZE_MAX;
    for (size_t z = 0; z < market->count; z++)
        round = market->zone[z].trace->count < round ? market->zone[z].trace->count : round;
    struct walk w = {.market = market,
                     .job = job,
                     .sight = {.tick_s = market->zone[0].trace->gap_s},
                     .result = {.time_s = HUGE_VAL}};
    for (size_t i = 0; i < 10 * round; i++) {
        size_t open;
        look(&w, (start + i) % round, &open);
        enum leat_plan_choice next = leat_plan_choose(policy, job, &w.sight);
        if (next != w.sight.now && next != LEAT_PLAN_IDLE) {
            w.sight.starting_s = w.begun ? job->changeover_s : job->start_s;
            w.result.orders++;
            w.begun = true;
        }
        if (next == LEAT_PLAN_USE_TRANSIENT)
            w.zone = open;
        w.sight.now = next;
        if (work(&w))
            break;
    }
    w.result.usd = w.result.on_demand_s * job->usd_per_s + w.result.transient_usd;
    w.result.kept = w.result.time_s <= job->deadline_s + 1e-6;
    *out = w.result;
}
