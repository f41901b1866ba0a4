/* Time and money of one configuration: by formula and draws over lifetimes, or replayed on traces. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan/sum.h"

static void hours(struct leat_plan_sum *s, const char *label, double seconds, const char *source)
{
    leat_plan_term(s->terms, label, seconds / 3600, LEAT_PLAN_UNIT_H, source);
}

static void checkpoint_hours(struct leat_plan_sum *s, double pieces, double seconds)
{
    struct leat_plan_term *t =
        leat_plan_term(s->terms, "time: checkpoints", seconds / 3600, LEAT_PLAN_UNIT_H,
                       s->run.lag_s > 0 ? "count × stall, and the last one written" : "count × one");
    leat_plan_term_words(t, "%.0f of them", pieces);
}

static leat_status by_lifetimes(struct leat_plan_sum *s, struct leat_plan_record *out, struct leat_error *err)
{
    struct leat_plan_expected e;
    struct leat_plan_run *run = &s->run;
    unsigned n = s->plan->options.draws;
    double *usd = s->plan->draws + n;
    leat_plan_run_expect(run, &e);
    leat_status rc = leat_plan_run_draw(run, s->plan->luck, s->plan->draws, usd, err);
    if (rc != LEAT_OK)
        return rc;
    out->time_s.mean = e.time_s;
    double plain = run->usd_per_s * e.time_s + run->usd_fixed + run->usd_per_revocation * e.revocations;
    /* In steps longer than the time's own scatter, the mean is no smooth function of the time: that of the draws. */
    bool steps = run->bill_increment_s > 1 || leat_plan_run_billed_s(run, e.time_s) > e.time_s + 1;
    out->usd.mean = steps ? fmax(plain, leat_plan_mean(usd, n)) : plain;
    s->rounding_usd = out->usd.mean - plain;
    out->revocations = e.revocations;
    out->start_s = e.start_s;
    for (int k = 0; k < 3; k++)
        s->paid_h[k] = e.time_s / 3600;
    if (!s->terms)
        return LEAT_OK;
    char from[400] = "on-demand machines are assumed to stay";
    if (run->transients) {
        const struct leat_plan_revocation *r = s->revocation;
        char line[24] = "";
        if (r->line)
            snprintf(line, sizeof line, " line %u", r->line);
        snprintf(from, sizeof from, "%.70s%s%s%s; %s", leat_plan_tail(s->plan->revocations.name[r->file]), line,
                 *r->basis ? ", " : "", r->basis, run->rollback ? "each stops all and loses work" : "the others go on");
        if (r->spread > 0)
            leat_plan_term(s->terms, "hazard's uncertainty", 100 * r->spread, LEAT_PLAN_UNIT_PERCENT,
                           "one standard deviation; inside the interval");
        struct leat_plan_term *t = leat_plan_term(s->terms, "replacing a machine", run->replace_s, LEAT_PLAN_UNIT_S,
                                                  s->job->source[LEAT_KEY_REPLACE]);
        if (s->restore_s > 0)
            leat_plan_term_words(t, "%.3g s of it restoring a checkpoint", s->restore_s);
    }
    leat_plan_term(s->terms, "revocations", round(100 * e.revocations) / 100, LEAT_PLAN_UNIT_COUNT, from);
    hours(s, "time: start", e.start_s, "the slowest of all machines, on average");
    hours(s, "time: work", e.work_s, "samples / speed");
    checkpoint_hours(s, e.pieces, e.checkpoint_s);
    hours(s, "time: revocations", e.lost_s, "repeated, waited, slowed");
    hours(s, "time: uncertain speed", e.skew_s, "too slow adds more than too fast saves");
    return LEAT_OK;
}

/* Averages over the replayed starts. */
struct tally {
    double revocations;
    double lost_s;
    double orders;
};

static leat_status replay_draws(struct leat_plan_sum *s, struct leat_plan_replay *job, double work_s, double pieces,
                                struct tally *out, struct leat_error *err)
{
    unsigned n = s->plan->options.draws;
    double *time = s->plan->draws;
    double *usd = time + n;
    const struct leat_plan_run *run = &s->run;
    bool uniform = leat_plan_kind_turns(s->c->kind);
    double beside = (s->beside_usd_h[0] + s->beside_usd_h[1]) / 3600;
    size_t ticks = s->market.zone[0].trace->count;
    for (unsigned i = 0; i < n; i++) {
        struct leat_plan_replayed r;
        double q = ((double)((size_t)i * 7919 % n) + 0.5) / n; /* a prime: speeds fall on starts in no order */
        double factor = exp(run->speed_spread * leat_plan_normal_quantile(q));
        size_t start = (size_t)((double)i / n * (double)ticks);
        job->work_s = work_s / factor + pieces * run->checkpoint_s;
        job->piece_s = run->rollback ? job->work_s / pieces : 0;
        leat_plan_replay(&s->market, start, uniform ? LEAT_PLAN_UNIFORM : LEAT_PLAN_TRANSIENT, job, &r);
        if (!(r.time_s < HUGE_VAL))
            return leat_fail(err, LEAT_UNSUPPORTED,
                             "%s of %.80s: on the trace %.100s, %s runs do not end within ten repetitions "
                             "of it",
                             leat_plan_kind_name(s->c->kind), s->c->offer->type, leat_plan_tail(s->trace_name),
                             i ? "some" : "its");
        double rounding = r.orders * run->bill_increment_s / 2 / 3600 * s->machines_usd_h[1];
        time[i] = r.time_s;
        usd[i] = r.usd + beside * (r.on_demand_s + r.transient_s) + run->usd_fixed +
                 run->usd_per_revocation * r.revocations + rounding;
        out->revocations += (double)r.revocations / n;
        out->lost_s += r.lost_s / n;
        out->orders += (double)r.orders / n;
        s->rounding_usd += rounding / n;
        s->transient_usd += r.transient_usd / n;
        s->paid_h[0] += r.on_demand_s / 3600 / n;
        s->paid_h[1] += r.transient_s / 3600 / n;
    }
    s->paid_h[2] = s->paid_h[0] + s->paid_h[1];
    return LEAT_OK;
}

/* The traces from evenly spaced beginnings, each with a speed of its own. */
static leat_status by_trace(struct leat_plan_sum *s, struct leat_plan_record *out, struct leat_error *err)
{
    const struct leat_plan_run *run = &s->run;
    unsigned n = s->plan->options.draws;
    double work_s = run->work / s->speed[s->c->nodes];
    double pieces = run->interval_s < HUGE_VAL ? fmax(1, ceil(work_s / run->interval_s)) : 1;
    struct leat_plan_replay job = {
        .deadline_s = leat_plan_kind_turns(s->c->kind) ? s->plan->options.deadline_s : HUGE_VAL,
        .start_s = run->start_s,
        .changeover_s = run->start_s + s->restore_s,
        .usd_per_s = s->machines_usd_h[0] / 3600,
        .machines = s->c->nodes,
    };
    struct tally tally = {0};
    leat_status rc = replay_draws(s, &job, work_s, pieces, &tally, err);
    if (rc != LEAT_OK)
        return rc;
    out->time_s.mean = leat_plan_mean(s->plan->draws, n);
    out->usd.mean = leat_plan_mean(s->plan->draws + n, n);
    out->revocations = tally.revocations;
    out->start_s = run->start_s;
    struct leat_plan_term *t = leat_plan_term(s->terms, "revocations", round(100 * tally.revocations) / 100,
                                              LEAT_PLAN_UNIT_COUNT, leat_plan_tail(s->trace_name));
    leat_plan_term_words(t, "%zu zone%s, %u starts", s->market.count, s->market.count > 1 ? "s" : "", n);
    leat_plan_term(s->terms, "a change of machines", job.changeover_s, LEAT_PLAN_UNIT_S,
                   "start, and restoring a checkpoint");
    hours(s, "time: work", work_s, "samples / speed");
    checkpoint_hours(s, pieces, pieces * run->checkpoint_s);
    hours(s, "time: repeated work", tally.lost_s, "since the last checkpoint, at every loss");
    hours(s, "time: waits and changes", out->time_s.mean - work_s - pieces * run->checkpoint_s - tally.lost_s,
          "the rest of the replayed runs");
    return LEAT_OK;
}

static void finish(struct leat_plan_sum *s, struct leat_plan_record *out)
{
    unsigned n = s->plan->options.draws;
    double *time = s->plan->draws;
    double *usd = time + n;
    double risk = s->plan->options.risk;
    leat_plan_sort(time, n);
    leat_plan_sort(usd, n);
    out->time_s.lo = leat_plan_quantile(time, n, 0.05);
    out->time_s.hi = leat_plan_quantile(time, n, 0.95);
    out->usd.lo = leat_plan_quantile(usd, n, 0.05);
    out->usd.hi = leat_plan_quantile(usd, n, 0.95);
    out->risk_time_s = leat_plan_quantile(time, n, risk);
    out->risk_usd = leat_plan_quantile(usd, n, risk);
    if (!s->terms)
        return;
    char from[120];
    snprintf(from, sizeof from, "sum of its lines; nine of ten of %u drawn runs", n);
    struct leat_plan_term *t = leat_plan_term(s->terms, "time", out->time_s.mean / 3600, LEAT_PLAN_UNIT_H, from);
    if (t) {
        t->lo = out->time_s.lo / 3600;
        t->hi = out->time_s.hi / 3600;
    }
    leat_plan_bill_terms(s, out->revocations);
    t = leat_plan_term(s->terms, "money", out->usd.mean, LEAT_PLAN_UNIT_USD, from);
    if (t) {
        t->lo = out->usd.lo;
        t->hi = out->usd.hi;
    }
    leat_plan_term(s->terms, "speed's uncertainty", 100 * s->spread, LEAT_PLAN_UNIT_PERCENT,
                   "one standard deviation: the models' own errors, and runs that differ");
}

leat_status leat_plan_outcome(struct leat_plan_sum *s, struct leat_plan_record *out, struct leat_error *err)
{
    leat_status rc = s->traced ? by_trace(s, out, err) : by_lifetimes(s, out, err);
    if (rc != LEAT_OK)
        return rc;
    finish(s, out);
    return LEAT_OK;
}
