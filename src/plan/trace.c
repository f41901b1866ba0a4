#include "plan/trace.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

static leat_status take_ticks(const char *name, const json_t *data, struct leat_plan_trace *out, struct leat_error *err)
{
    size_t n = json_array_size(data);
    if (!json_is_array(data) || n == 0)
        return leat_fail(err, LEAT_INVALID, "%s: 'data' must be an array of 0 and 1, and not empty", name);
    if (n > LEAT_PLAN_TICKS_MAX)
        return leat_fail(err, LEAT_LIMIT, "%s: more than %d ticks", name, LEAT_PLAN_TICKS_MAX);
    out->up = calloc(n, 1);
    if (!out->up)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the trace %s", name);
    for (out->count = 0; out->count < n; out->count++) {
        const json_t *tick = json_array_get(data, out->count);
        double v = json_number_value(tick);
        if (!json_is_number(tick) || (v != 0 && v != 1))
            return leat_fail(err, LEAT_INVALID, "%s: tick %zu of 'data' is neither 0 nor 1", name, out->count + 1);
        out->up[out->count] = v == 1;
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
    free(trace->up);
    *trace = (struct leat_plan_trace){0};
}

double leat_plan_trace_mtbf_s(const struct leat_plan_trace *trace)
{
    double up = 0;
    double losses = 0;
    for (size_t i = 0; i < trace->count; i++) {
        up += trace->up[i];
        losses += trace->up[i] && !trace->up[(i + 1) % trace->count];
    }
    return losses > 0 ? up * trace->gap_s / losses : HUGE_VAL;
}

/* Uniform progress, after "Can't Be Late": take transient machines while there are any; without them wait as
 * long as the job is ahead of an even pace to its deadline, else go on demand, and stay there until it is two
 * changeovers ahead. Above all that: never let the slack fall below what a last changeover needs. */
static enum leat_plan_choice choose_uniform(const struct leat_plan_replay *job, const struct leat_plan_sight *s)
{
    double slack = job->deadline_s - s->elapsed_s - (job->work_s - s->done_s);
    double pace = job->work_s / job->deadline_s;
    double d = job->changeover_s;
    if (s->now == LEAT_PLAN_USE_ON_DEMAND) {
        double ahead = s->done_s - pace * (s->elapsed_s + 2 * d);
        /* Changing costs d now; if the machine is lost at once, a tick and d more. */
        bool safe = slack >= 2 * d + s->tick_s;
        return s->available && safe && ahead >= 0 ? LEAT_PLAN_USE_TRANSIENT : LEAT_PLAN_USE_ON_DEMAND;
    }
    if (s->available) {
        bool running = s->now == LEAT_PLAN_USE_TRANSIENT;
        /* While it computes the slack stays; while it starts it shrinks by what is left of d. */
        double need = running && s->warm ? d : 2 * d;
        return slack >= need ? LEAT_PLAN_USE_TRANSIENT : LEAT_PLAN_USE_ON_DEMAND;
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

void leat_plan_replay(const struct leat_plan_trace *trace, size_t start, enum leat_plan_policy policy,
                      const struct leat_plan_replay *job, struct leat_plan_replayed *out)
{
    struct leat_plan_replayed r = {0};
    struct leat_plan_sight sight = {.tick_s = trace->gap_s};
    double starting_s = 0; /* of the changeover still to come */
    size_t ticks = 10 * trace->count;
    double time_s = HUGE_VAL;
    for (size_t i = 0; i < ticks; i++) {
        sight.available = trace->up[(start + i) % trace->count];
        if (sight.now == LEAT_PLAN_USE_TRANSIENT && !sight.available) {
            sight.now = LEAT_PLAN_IDLE;
            r.revocations++;
        }
        sight.warm = starting_s <= 0;
        enum leat_plan_choice next = leat_plan_choose(policy, job, &sight);
        if (next != sight.now)
            starting_s = next == LEAT_PLAN_IDLE ? 0 : job->changeover_s;
        sight.now = next;
        double span = trace->gap_s;
        if (next != LEAT_PLAN_IDLE) {
            double lead = fmin(starting_s, span);
            double useful = fmin(span - lead, job->work_s - sight.done_s);
            starting_s -= lead;
            sight.done_s += useful;
            bool ended = sight.done_s >= job->work_s - 1e-6;
            if (ended)
                span = lead + useful;
            bool demand = next == LEAT_PLAN_USE_ON_DEMAND;
            *(demand ? &r.on_demand_s : &r.transient_s) += span;
            if (ended) {
                time_s = sight.elapsed_s + span;
                break;
            }
        }
        sight.elapsed_s += span;
    }
    r.time_s = time_s;
    r.usd = r.on_demand_s * job->usd_per_s[0] + r.transient_s * job->usd_per_s[1];
    r.kept = time_s <= job->deadline_s + 1e-6;
    *out = r;
}
