/* One configuration, from its inputs to a record: speed, data path, checkpoints, start, revocations, money. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "plan/checkpoint.h"
#include "plan/feed.h"
#include "plan/run.h"
#include "plan/world.h"

#define HOURS_A_MONTH 730.0

/* Everything found out on the way. */
struct sum {
    struct leat_plan *plan;
    const struct leat_plan_case *c;
    const struct leat_plan_job *job;
    struct leat_plan_engine *engine;
    struct leat_plan_lines *lines;
    char *why;
    unsigned workers;
    double work;
    double gpu_speed;                         /* samples a second that the GPUs could take */
    double speed[LEAT_PLAN_MACHINES_MAX + 1]; /* and get, by machines ready */
    double spread;
    double data_share; /* of the time, waiting for data */
    double fetched_bytes;
    double cached_bytes;
    double machines_usd_h[2]; /* of all machines on demand, of all transient ones */
    double beside_usd_h[2];   /* the parameter server, disks */
    double paid_h[3];         /* hours of machines on demand, of transient ones, and of what is beside them */
    struct leat_plan_run run;
    const struct leat_plan_revocation *revocation;
    const struct leat_plan_named_trace *trace;
    bool traced; /* replayed on the trace instead of drawn from lifetimes */
};

__attribute__((format(printf, 4, 5))) static void say(struct sum *s, const char *label, const char *source,
                                                      const char *format, ...)
{
    if (!s->lines || s->lines->count == LEAT_PLAN_LINES_MAX)
        return;
    struct leat_plan_line *line = &s->lines->line[s->lines->count++];
    va_list args;
    va_start(args, format);
    vsnprintf(line->value, sizeof line->value, format, args);
    va_end(args);
    snprintf(line->label, sizeof line->label, "%s", label);
    snprintf(line->source, sizeof line->source, "%s", source);
    leat_one_line(line->value);
    leat_one_line(line->source);
}

static const char *source(const struct sum *s, enum leat_plan_key key)
{
    return s->job->source[key];
}

#define PATH_SOURCE_SIZE 160

static char *path_source(const struct leat_plan_path *path, char out[PATH_SOURCE_SIZE])
{
    snprintf(out, PATH_SOURCE_SIZE, "[path.%s], %s", path->name, path->source);
    return out;
}

static bool gpu_speeds(struct sum *s)
{
    const struct leat_plan_case *c = s->c;
    unsigned gpus = c->offer->gpus;
    bool all = c->kind == LEAT_PLAN_KIND_MIXED || s->job->mode == LEAT_PLAN_ASYNC;
    for (unsigned n = all ? 1 : c->nodes; n <= c->nodes; n++) {
        if (!leat_plan_engine_speed(s->engine, s->job, n, gpus, &s->speed[n], &s->spread, s->why))
            return false;
    }
    s->gpu_speed = s->speed[c->nodes];
    double alone = s->job->value[LEAT_KEY_BATCH] / s->engine->step_s;
    say(s, "step of one GPU", s->engine->step_source, "%.4g s for %g samples", s->engine->step_s,
        s->job->value[LEAT_KEY_BATCH]);
    if (s->workers > 1)
        say(s, "speed of the GPUs", s->engine->scale_source, "%.4g samples/s, %.0f %% of %u × %.4g", s->gpu_speed,
            100 * s->gpu_speed / (s->workers * alone), s->workers, alone);
    else
        say(s, "speed of the GPU", "batch / step", "%.4g samples/s", s->gpu_speed);
    if (s->job->mode == LEAT_PLAN_ASYNC && s->engine->saturation && s->workers > 2 * s->engine->workers_most)
        leat_plan_note(&s->plan->notes, "%s: %u workers are more than twice the %u that were measured",
                       c->offer->accelerator, s->workers, s->engine->workers_most);
    return true;
}

static struct leat_plan_feed feed_of(const struct sum *s, unsigned nodes)
{
    return (struct leat_plan_feed){
        .dataset_bytes = s->job->value[LEAT_KEY_DATASET_BYTES],
        .budget_bytes = s->job->path[s->c->path].cache_bytes,
        .window_bytes = s->job->value[LEAT_KEY_WINDOW_BYTES],
        .nodes = nodes,
    };
}

/* What the GPUs get when the data comes no faster than it can: epoch by epoch the slower of the two. */
static double fed_speed(const struct sum *s, const struct leat_plan_supply *supply, unsigned nodes, double speed)
{
    const struct leat_plan_feed feed = feed_of(s, nodes);
    double samples = s->job->value[LEAT_KEY_SAMPLES];
    double epochs = leat_plan_job_epochs(s->job);
    double first = fmin(epochs, 1);
    double compute_s = samples / speed;
    double time = first * fmax(compute_s, leat_plan_feed_epoch_s(&feed, supply, samples, 0)) +
                  (epochs - first) * fmax(compute_s, leat_plan_feed_epoch_s(&feed, supply, samples, 1));
    return s->work / time;
}

static void say_fetching(struct sum *s, const struct leat_plan_supply *supply, const struct leat_plan_feed *feed)
{
    char from[PATH_SOURCE_SIZE];
    const struct leat_plan_supply fetch = {supply->node_bytes_per_s, supply->bucket_bytes_per_s, 0};
    double samples = s->job->value[LEAT_KEY_SAMPLES];
    path_source(&s->job->path[s->c->path], from);
    if (supply->node_bytes_per_s > 0 || supply->bucket_bytes_per_s > 0)
        say(s, "fetching", from, "%.4g s in the first epoch, %.4g s in later ones",
            leat_plan_feed_epoch_s(feed, &fetch, samples, 0), leat_plan_feed_epoch_s(feed, &fetch, samples, 1));
    else
        say(s, "fetching", "no bandwidth is given", "taken to keep up");
}

static void data_path(struct sum *s)
{
    const struct leat_plan_case *c = s->c;
    if (c->path < 0) {
        say(s, "data path", "data.dataset is not given", "left out");
        return;
    }
    char size[LEAT_FORMAT_SIZE];
    char size2[LEAT_FORMAT_SIZE];
    char from[PATH_SOURCE_SIZE];
    const struct leat_plan_path *path = &s->job->path[c->path];
    double prep = s->job->value[LEAT_KEY_PREP_RATE] * c->offer->vcpus; /* NaN: one is not known, no limit */
    const struct leat_plan_supply supply = {path->node_bytes_per_s, path->bucket_bytes_per_s, isnan(prep) ? 0 : prep};
    for (unsigned n = 1; n <= c->nodes; n++) {
        if (s->speed[n] > 0)
            s->speed[n] = fed_speed(s, &supply, n, s->speed[n]);
    }
    const struct leat_plan_feed feed = feed_of(s, c->nodes);
    s->data_share = 1 - s->speed[c->nodes] / s->gpu_speed;
    if (s->data_share < 1e-9)
        s->data_share = 0; /* what rounding left */
    s->cached_bytes = leat_plan_feed_cached(&feed);
    s->fetched_bytes = leat_plan_feed_total(&feed, leat_plan_job_epochs(s->job));
    say(s, "cached on the machines", path_source(path, from), "%s of %s",
        leat_format_size((uint64_t)s->cached_bytes, size), leat_format_size((uint64_t)feed.dataset_bytes, size2));
    say(s, "fetched in all", source(s, LEAT_KEY_DATASET_BYTES), "%s, %s an epoch after the first",
        leat_format_size((uint64_t)s->fetched_bytes, size),
        leat_format_size((uint64_t)leat_plan_feed_fetched(&feed, 1), size2));
    if (isnan(prep))
        say(s, "preparation", "data.prep_per_vcpu or the catalog's vCPUs are not given", "taken to keep up");
    else
        say(s, "preparation", source(s, LEAT_KEY_PREP_RATE), "%u × %g vCPUs × %g = %.4g samples/s", c->nodes,
            c->offer->vcpus, s->job->value[LEAT_KEY_PREP_RATE], c->nodes * prep);
    say_fetching(s, &supply, &feed);
    say(s, "speed with data", "the slower of computing and data, by epoch", "%.4g samples/s, %.1f %% data stall",
        s->speed[c->nodes], 100 * s->data_share);
}

static bool checkpoints(struct sum *s)
{
    const struct leat_plan_job *job = s->job;
    struct leat_plan_run *run = &s->run;
    const char *from = NULL;
    double bytes = job->value[LEAT_KEY_CHECKPOINT_BYTES];
    char text[2 * LEAT_PLAN_SOURCE_SIZE + 4];
    if (leat_plan_job_has(job, LEAT_KEY_CHECKPOINT_S)) {
        run->checkpoint_s = job->value[LEAT_KEY_CHECKPOINT_S];
        from = source(s, LEAT_KEY_CHECKPOINT_S);
    } else if (!isnan(bytes) && leat_plan_job_has(job, LEAT_KEY_CHECKPOINT_RATE)) {
        run->checkpoint_s = bytes / job->value[LEAT_KEY_CHECKPOINT_RATE];
        snprintf(text, sizeof text, "%s, %s", source(s, LEAT_KEY_CHECKPOINT_BYTES),
                 source(s, LEAT_KEY_CHECKPOINT_RATE));
        from = text;
    } else if (!isnan(bytes) && s->plan->has_checkpoint_model) {
        const struct leat_plan_fit *fit = &s->plan->checkpoint_model.fit;
        run->checkpoint_s = leat_plan_fit_predict(fit, &bytes, 0.9).mean;
        snprintf(text, sizeof text, "fitted to %zu measured checkpoints, error of rows left out %.1f %%", fit->rows,
                 100 * fit->left_out_mean);
        from = text;
    } else if (run->rollback) {
        snprintf(s->why, 300,
                 "transient machines lose what no checkpoint holds: checkpoint.time, or checkpoint.bytes with "
                 "checkpoint.bandwidth, is missing");
        return false;
    }
    say(s, "one checkpoint", from ? from : "checkpoint.time is not given", "%.3g s", run->checkpoint_s);
    return true;
}

static void interval(struct sum *s)
{
    struct leat_plan_run *run = &s->run;
    char text[LEAT_FORMAT_SIZE];
    const char *from = "nothing can be lost: one at the end";
    run->interval_s = HUGE_VAL;
    if (leat_plan_job_has(s->job, LEAT_KEY_CHECKPOINT_INTERVAL)) {
        run->interval_s = s->job->value[LEAT_KEY_CHECKPOINT_INTERVAL];
        from = source(s, LEAT_KEY_CHECKPOINT_INTERVAL);
    } else if (run->rollback && run->checkpoint_s > 0 && s->traced) {
        run->interval_s = leat_plan_daly_s(run->checkpoint_s, leat_plan_trace_mtbf_s(&s->trace->trace));
        from = "Daly's, for the trace's mean time between losses";
    } else if (run->rollback && run->checkpoint_s > 0) {
        run->interval_s = leat_plan_run_interval_s(run);
        from = "Daly's, for the revocations of this very run";
    }
    if (s->lines && run->rollback && !s->traced && run->checkpoint_s > 0) {
        /* For whoever can change it while running: what the hazard of fresh and of settled machines asks for. */
        double ages[LEAT_PLAN_MACHINES_MAX] = {0};
        double fresh = leat_plan_hazard_interval_s(run->checkpoint_s, run->lifetime, ages, run->transients);
        for (unsigned i = 0; i < run->transients; i++)
            ages[i] = 2 * 3600;
        double settled = leat_plan_hazard_interval_s(run->checkpoint_s, run->lifetime, ages, run->transients);
        say(s, "by hazard", "Daly's, for the machines' ages", "%.3g min when all are fresh, %.3g min after 2 h",
            fresh / 60, settled / 60);
    }
    if (run->interval_s < HUGE_VAL)
        say(s, "work between checkpoints", from, "%s",
            leat_format_duration((uint64_t)(fmin(run->interval_s, 1e9) * 1e9), text));
    else
        say(s, "work between checkpoints", from, "all of it");
}

static bool transient_source(struct sum *s)
{
    const struct leat_plan_offer *o = s->c->offer;
    for (size_t i = 0; i < s->plan->trace_count; i++) {
        const struct leat_plan_named_trace *t = &s->plan->traces[i];
        if (strcmp(t->accelerator, o->accelerator) == 0 &&
            (strcmp(t->region, o->region) == 0 || strcmp(t->region, "*") == 0))
            s->trace = t;
    }
    s->revocation = leat_plan_revocations_find(&s->plan->revocations, o->accelerator, o->region);
    if (s->c->kind == LEAT_PLAN_KIND_UNIFORM && !s->trace) {
        snprintf(s->why, 300, "no availability trace (--traces) for %s in %s", o->accelerator, o->region);
        return false;
    }
    if (s->c->kind == LEAT_PLAN_KIND_MIXED && !s->revocation) {
        snprintf(s->why, 300, "no lifetimes (--revocations) of transient %s in %s", o->accelerator, o->region);
        return false;
    }
    if (s->c->kind == LEAT_PLAN_KIND_TRANSIENT && !s->revocation && !s->trace) {
        snprintf(s->why, 300, "no lifetimes (--revocations) or trace (--traces) of transient %s in %s", o->accelerator,
                 o->region);
        return false;
    }
    s->traced = s->c->kind == LEAT_PLAN_KIND_UNIFORM || (s->c->kind == LEAT_PLAN_KIND_TRANSIENT && !s->revocation);
    return true;
}

static void price_machines(struct sum *s)
{
    const struct leat_plan_case *c = s->c;
    /* Uniform progress rents the whole cluster of either kind, by turns. */
    const unsigned machines[2] = {c->kind == LEAT_PLAN_KIND_UNIFORM ? c->nodes : s->run.anchors, s->run.transients};
    for (int k = 0; k < 2; k++) {
        if (!machines[k]) /* a price that is not offered is NaN: never multiply it by 0 */
            continue;
        char from[320];
        s->machines_usd_h[k] = machines[k] * c->offer->usd_per_hour[k];
        snprintf(from, sizeof from, "%.250s line %u", leat_plan_tail(s->plan->catalog.name), c->offer->price_line[k]);
        say(s, k ? "transient machines" : "on-demand machines", from, "%u × %.4f = %.4f usd/h", machines[k],
            c->offer->usd_per_hour[k], s->machines_usd_h[k]);
    }
}

static bool money(struct sum *s)
{
    const struct leat_plan_case *c = s->c;
    struct leat_plan_run *run = &s->run;
    price_machines(s);
    if (s->job->mode == LEAT_PLAN_ASYNC && s->workers > 1) {
        if (!leat_plan_job_has(s->job, LEAT_KEY_SERVER_USD)) {
            snprintf(s->why, 300, "asynchronous workers need a parameter server: server.usd_per_hour is missing");
            return false;
        }
        s->beside_usd_h[0] = s->job->value[LEAT_KEY_SERVER_USD];
        say(s, "parameter server", source(s, LEAT_KEY_SERVER_USD), "%.4f usd/h", s->beside_usd_h[0]);
    }
    if (c->path >= 0) {
        char from[PATH_SOURCE_SIZE];
        const struct leat_plan_path *p = &s->job->path[c->path];
        double byte_usd = p->usd_per_1000_requests / 1000 / p->request_bytes + p->usd_per_egress_gb / 1e9;
        s->beside_usd_h[1] = c->nodes * p->cache_bytes / 1e9 * p->usd_per_disk_gb_month / HOURS_A_MONTH;
        run->usd_fixed = s->fetched_bytes * byte_usd;
        /* A trace takes all machines at a time, and with them all that they hold. */
        run->usd_per_revocation = s->cached_bytes / (s->traced ? 1 : c->nodes) * byte_usd;
        say(s, "cache disks", path_source(p, from), "%.4f usd/h", s->beside_usd_h[1]);
    }
    /* A cluster of uniform progress costs this while it is transient. */
    run->usd_per_s = (c->kind == LEAT_PLAN_KIND_UNIFORM ? 0 : s->machines_usd_h[0]) / 3600 +
                     (s->machines_usd_h[1] + s->beside_usd_h[0] + s->beside_usd_h[1]) / 3600;
    return true;
}

/* The sum of the money; every line that is not nothing. */
static void say_money(struct sum *s, double revocations)
{
    static const char *const labels[] = {"money: on demand", "money: transient", "money: parameter server",
                                         "money: cache disks"};
    const double usd_h[] = {s->machines_usd_h[0], s->machines_usd_h[1], s->beside_usd_h[0], s->beside_usd_h[1]};
    const double hours[] = {s->paid_h[0], s->paid_h[1], s->paid_h[2], s->paid_h[2]};
    char from[PATH_SOURCE_SIZE];
    for (int i = 0; i < 4; i++) {
        if (usd_h[i] > 0)
            say(s, labels[i], "price × time", "%.4f usd/h × %.4f h = %.4f usd", usd_h[i], hours[i],
                usd_h[i] * hours[i]);
    }
    if (s->run.usd_fixed > 0)
        say(s, "money: requests and egress", path_source(&s->job->path[s->c->path], from), "%.4f usd",
            s->run.usd_fixed);
    if (s->run.usd_per_revocation * revocations > 0)
        say(s, "money: fetched again", "what a new machine's cache must hold", "%.2f × %.6f = %.4f usd", revocations,
            s->run.usd_per_revocation, s->run.usd_per_revocation * revocations);
}

static void describe_run(struct sum *s)
{
    const struct leat_plan_case *c = s->c;
    const struct leat_plan_job *job = s->job;
    bool demand = c->kind == LEAT_PLAN_KIND_ON_DEMAND;
    bool mixed = c->kind == LEAT_PLAN_KIND_MIXED;
    bool keeper = mixed || (job->mode == LEAT_PLAN_ASYNC && s->workers > 1);
    s->run = (struct leat_plan_run){
        .work = s->work,
        .anchors = demand ? c->nodes : mixed,
        .transients = demand ? 0 : c->nodes - mixed,
        .speed = s->speed,
        .speed_spread = s->spread,
        .rollback = !demand && !keeper,
        .start_s = job->value[demand ? LEAT_KEY_START_ON_DEMAND : LEAT_KEY_START_TRANSIENT],
        .start_spread = job->value[LEAT_KEY_START_SPREAD],
        .replace_s = job->value[LEAT_KEY_REPLACE],
        .regroup_s = job->mode == LEAT_PLAN_ALLREDUCE && mixed ? job->value[LEAT_KEY_REGROUP] : 0,
        .lifetime = s->revocation ? &s->revocation->lifetime : NULL,
    };
    say(s, "start", source(s, demand ? LEAT_KEY_START_ON_DEMAND : LEAT_KEY_START_TRANSIENT), "%.3g s", s->run.start_s);
}

static void by_lifetimes(struct sum *s, struct leat_plan_record *out)
{
    struct leat_plan_expected e;
    struct leat_plan_run *run = &s->run;
    unsigned n = s->plan->options.draws;
    leat_plan_run_expect(run, &e);
    leat_plan_run_draw(run, s->plan->options.seed, n, s->plan->draws, s->plan->draws + n);
    out->time_s.mean = e.time_s;
    out->usd.mean = e.usd;
    out->revocations = e.revocations;
    char from[400] = "on-demand machines are taken to stay";
    if (run->transients) {
        snprintf(from, sizeof from, "%.100s line %u; %s", leat_plan_tail(s->plan->revocations.name),
                 s->revocation->line, run->rollback ? "each stops all and loses work" : "the others go on");
        say(s, "replacing a machine", source(s, LEAT_KEY_REPLACE), "%.3g s", run->replace_s);
    }
    say(s, "revocations", from, "%.2f expected", e.revocations);
    say(s, "time: start", "the mean, when some take longer", "%.4f h", e.start_s / 3600);
    say(s, "time: work", "samples / speed", "%.4f h", e.work_s / 3600);
    say(s, "time: checkpoints", "count × one", "%.0f × %.3g s = %.4f h", e.pieces, run->checkpoint_s,
        e.checkpoint_s / 3600);
    say(s, "time: revocations", "repeated, waited, slowed", "%.4f h", e.lost_s / 3600);
    say(s, "time: uncertain speed", "too slow adds more than too fast saves", "%.4f h", e.skew_s / 3600);
    for (int k = 0; k < 3; k++)
        s->paid_h[k] = e.time_s / 3600;
}

/* The trace from evenly spaced beginnings, each with a speed of its own. False when a run does not end on it. */
static bool by_trace(struct sum *s, struct leat_plan_record *out)
{
    const struct leat_plan_case *c = s->c;
    struct leat_plan_run *run = &s->run;
    const struct leat_plan_trace *trace = &s->trace->trace;
    unsigned n = s->plan->options.draws;
    double *time = s->plan->draws;
    double *usd = time + n;
    bool uniform = c->kind == LEAT_PLAN_KIND_UNIFORM;
    double revocations = 0;
    double work_s = run->work / s->speed[c->nodes];
    double pieces = run->interval_s < HUGE_VAL ? fmax(1, ceil(work_s / run->interval_s)) : 1;
    double beside_usd_h = s->beside_usd_h[0] + s->beside_usd_h[1];
    struct leat_plan_replay job = {
        .deadline_s = uniform ? s->plan->options.deadline_s : HUGE_VAL,
        /* A new cluster starts, and on average half of what lay between two checkpoints is done again. */
        .changeover_s = run->start_s + (run->rollback ? work_s / pieces / 2 : 0),
        .usd_per_s = {(s->machines_usd_h[0] + beside_usd_h) / 3600, run->usd_per_s},
    };
    for (unsigned i = 0; i < n; i++) {
        struct leat_plan_replayed r;
        double q = ((double)((size_t)i * 7919 % n) + 0.5) / n; /* a prime: speeds fall on starts in no order */
        double factor = exp(run->speed_spread * leat_plan_normal_quantile(q));
        size_t start = (size_t)((double)i / n * (double)trace->count);
        job.work_s = work_s / factor + pieces * run->checkpoint_s;
        leat_plan_replay(trace, start, uniform ? LEAT_PLAN_UNIFORM : LEAT_PLAN_TRANSIENT, &job, &r);
        if (!(r.time_s < HUGE_VAL)) {
            snprintf(s->why, 300, "%s of %.80s: on the trace %.100s %s runs do not end in ten rounds of it",
                     leat_plan_kind_name(c->kind), c->offer->type, leat_plan_tail(s->trace->name), i ? "some" : "its");
            return false;
        }
        time[i] = r.time_s;
        usd[i] = r.usd + run->usd_fixed + run->usd_per_revocation * r.revocations;
        revocations += r.revocations;
        s->paid_h[0] += r.on_demand_s / 3600 / n;
        s->paid_h[1] += r.transient_s / 3600 / n;
    }
    s->paid_h[2] = s->paid_h[0] + s->paid_h[1];
    out->time_s.mean = leat_plan_mean(time, n);
    out->usd.mean = leat_plan_mean(usd, n);
    out->revocations = revocations / n;
    say(s, "revocations", leat_plan_tail(s->trace->name), "%.2f on average over %u starts", out->revocations, n);
    say(s, "a change of machines", "start, and half a checkpoint interval again", "%.3g s", job.changeover_s);
    say(s, "time: work", "samples / speed", "%.4f h", work_s / 3600);
    say(s, "time: checkpoints", "count × one", "%.0f × %.3g s = %.4f h", pieces, run->checkpoint_s,
        pieces * run->checkpoint_s / 3600);
    say(s, "time: waits and changes", "the rest of the replayed runs", "%.4f h",
        (out->time_s.mean - work_s - pieces * run->checkpoint_s) / 3600);
    return true;
}

static void finish(struct sum *s, struct leat_plan_record *out)
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
    char from[120];
    snprintf(from, sizeof from, "sum of its lines; nine of ten of %u drawn runs", n);
    say(s, "time", from, "%.4f h [%.4f, %.4f]", out->time_s.mean / 3600, out->time_s.lo / 3600, out->time_s.hi / 3600);
    say_money(s, out->revocations);
    say(s, "money", from, "%.4f usd [%.2f, %.2f]", out->usd.mean, out->usd.lo, out->usd.hi);
    say(s, "speed's uncertainty", "the models' own errors", "± %.1f %% (one standard deviation)", 100 * s->spread);
}

static void say_work(struct sum *s)
{
    bool steps = leat_plan_job_has(s->job, LEAT_KEY_STEPS);
    enum leat_plan_key times = steps ? LEAT_KEY_STEPS : LEAT_KEY_EPOCHS;
    enum leat_plan_key of = steps ? LEAT_KEY_BATCH : LEAT_KEY_SAMPLES;
    char from[2 * LEAT_PLAN_SOURCE_SIZE + 4];
    snprintf(from, sizeof from, "%s, %s", source(s, times), source(s, of));
    say(s, "work", from, "%.12g %s of %.12g = %.6g samples", s->job->value[times], steps ? "steps" : "epochs",
        s->job->value[of], s->work);
}

bool leat_plan_price_case(struct leat_plan *plan, const struct leat_plan_case *c, struct leat_plan_record *out,
                          struct leat_plan_lines *lines, char why[300])
{
    struct sum s = {.plan = plan, .c = c, .job = &plan->job, .lines = lines};
    struct leat_plan_record r = {.offer = c->offer, .kind = c->kind, .nodes = c->nodes, .path = c->path};
    s.why = why;
    s.engine = &plan->engines[plan->engine_of[c->offer - plan->catalog.offer]];
    s.workers = c->nodes * c->offer->gpus;
    s.work = leat_plan_job_work(s.job);
    say_work(&s);
    if (!gpu_speeds(&s) || (c->kind != LEAT_PLAN_KIND_ON_DEMAND && !transient_source(&s)))
        return false;
    data_path(&s);
    describe_run(&s);
    if (!checkpoints(&s) || !money(&s))
        return false;
    interval(&s);
    if (s.traced && !by_trace(&s, &r))
        return false;
    if (!s.traced)
        by_lifetimes(&s, &r);
    finish(&s, &r);
    double alone = s.workers * s.job->value[LEAT_KEY_BATCH] / s.engine->step_s;
    r.stall_share = fmax(s.data_share, 1 - s.speed[c->nodes] / alone);
    r.data_share = s.data_share;
    r.interval_s = s.run.interval_s;
    r.accuracy = s.job->mode == LEAT_PLAN_ASYNC ? leat_plan_job_accuracy(s.job, s.workers) : NAN;
    if (!isnan(r.accuracy))
        say(&s, "accuracy", "accuracy.percent", "%.2f %% with %u workers", r.accuracy, s.workers);
    *out = r;
    return true;
}
