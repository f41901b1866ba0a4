/* One configuration, from its inputs to a record: speed, data path, checkpoints, start, revocations, money. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "plan/checkpoint.h"
#include "plan/sum.h"

static const char *source(const struct leat_plan_sum *s, enum leat_plan_key key)
{
    return s->job->source[key];
}

char *leat_plan_path_source(const struct leat_plan_path *path, char out[LEAT_PLAN_PATH_SOURCE_SIZE])
{
    snprintf(out, LEAT_PLAN_PATH_SOURCE_SIZE, "[path.%s], %s", path->name, path->source);
    return out;
}

/* The job's own links win over the hardware table's: somebody wrote them down for this job. */
static struct leat_plan_cluster cluster_of(const struct leat_plan_sum *s)
{
    const struct leat_plan_offer *o = s->c->offer;
    const struct leat_plan_job *job = s->job;
    struct leat_plan_cluster c = {
        .gpus = o->gpus,
        .inside = {o->link_bytes_per_s, job->value[LEAT_KEY_INSIDE_LATENCY]},
        .network = {o->network_bytes_per_s, job->value[LEAT_KEY_NETWORK_LATENCY]},
        .inside_source = o->link_source,
        .network_source = o->machine_source,
    };
    if (leat_plan_job_has(job, LEAT_KEY_INSIDE_RATE)) {
        c.inside.bytes_per_s = job->value[LEAT_KEY_INSIDE_RATE];
        c.inside_source = source(s, LEAT_KEY_INSIDE_RATE);
    }
    if (leat_plan_job_has(job, LEAT_KEY_NETWORK_RATE)) {
        c.network.bytes_per_s = job->value[LEAT_KEY_NETWORK_RATE];
        c.network_source = source(s, LEAT_KEY_NETWORK_RATE);
    }
    return c;
}

/* What training must hold on one GPU: weights, gradients and the optimizer's state at least. */
static leat_status check_memory(struct leat_plan_sum *s, struct leat_error *err)
{
    const struct leat_plan_job *job = s->job;
    const struct leat_plan_offer *o = s->c->offer;
    double need = job->value[LEAT_KEY_GPU_MEMORY];
    const char *from = source(s, LEAT_KEY_GPU_MEMORY);
    char text[200];
    if (isnan(need)) {
        double each = job->value[LEAT_KEY_BYTES_PER_PARAMETER];
        need = job->value[LEAT_KEY_PARAMETERS] * each / (job->sharded ? s->workers : 1);
        snprintf(text, sizeof text, "model.parameters × %g bytes%s, without activations", each,
                 job->sharded ? " in parts on all GPUs" : "");
        from = text;
    }
    if (isnan(need) || isnan(o->gpu_memory_bytes))
        return LEAT_OK;
    /* Without the number of GPUs: the same reason for many clusters is told once. */
    if (need > o->gpu_memory_bytes && job->sharded && !leat_plan_job_has(job, LEAT_KEY_GPU_MEMORY))
        return leat_fail(err, LEAT_UNSUPPORTED, "%s of %.3g GiB: too few of them to hold the model's %.3g GiB (%s)",
                         o->accelerator, o->gpu_memory_bytes / 1073741824, need * s->workers / 1073741824, from);
    if (need > o->gpu_memory_bytes)
        return leat_fail(err, LEAT_UNSUPPORTED, "%s: %.3g GiB per GPU (%s) do not fit into its %.3g GiB%s",
                         o->accelerator, need / 1073741824, from, o->gpu_memory_bytes / 1073741824,
                         leat_plan_job_has(job, LEAT_KEY_GPU_MEMORY) ? "" : "; model.sharded would spread it");
    struct leat_plan_term *t = leat_plan_term(s->terms, "memory of one GPU", need, LEAT_PLAN_UNIT_BYTES, from);
    leat_plan_term_words(t, "of %.3g GiB", o->gpu_memory_bytes / 1073741824);
    return LEAT_OK;
}

static leat_status gpu_speeds(struct leat_plan_sum *s, struct leat_error *err)
{
    const struct leat_plan_case *c = s->c;
    bool all = c->kind == LEAT_PLAN_KIND_MIXED || s->job->mode == LEAT_PLAN_ASYNC;
    struct leat_plan_speed speed = {0};
    s->cluster = cluster_of(s);
    for (unsigned n = all ? 1 : c->nodes; n <= c->nodes; n++) {
        s->cluster.nodes = n;
        leat_status rc = leat_plan_speed(s->engine, s->job, &s->cluster, &speed, err);
        if (rc != LEAT_OK)
            return rc;
        s->speed[n] = speed.samples_per_s;
        s->spread = speed.spread;
    }
    s->gpu_speed = s->speed[c->nodes];
    if (s->job->mode == LEAT_PLAN_ASYNC && s->engine->saturation && s->workers > 2 * s->engine->workers_most)
        leat_plan_note(&s->plan->notes, "%s: %u workers are more than twice the %u that were measured",
                       c->offer->accelerator, s->workers, s->engine->workers_most);
    if (!s->terms)
        return LEAT_OK;
    char from[LEAT_PLAN_SPEED_SOURCE_SIZE];
    double alone = s->job->value[LEAT_KEY_BATCH] / s->engine->step_s;
    struct leat_plan_term *t =
        leat_plan_term(s->terms, "step of one GPU", s->engine->step_s, LEAT_PLAN_UNIT_S, s->engine->step_source);
    leat_plan_term_words(t, "for %g samples", s->job->value[LEAT_KEY_BATCH]);
    leat_plan_speed_source(s->engine, s->job, &s->cluster, from);
    t = leat_plan_term(s->terms, s->workers > 1 ? "speed of the GPUs" : "speed of the GPU", s->gpu_speed,
                       LEAT_PLAN_UNIT_SAMPLES_S, s->workers > 1 ? from : "batch / step");
    if (s->workers > 1)
        leat_plan_term_words(t, "%.0f %% of %u × %.4g", 100 * s->gpu_speed / (s->workers * alone), s->workers, alone);
    if (leat_plan_job_has(s->job, LEAT_KEY_GLOBAL_BATCH))
        leat_plan_term(s->terms, "batches accumulated", speed.accumulate, LEAT_PLAN_UNIT_COUNT,
                       source(s, LEAT_KEY_GLOBAL_BATCH));
    return LEAT_OK;
}

static struct leat_plan_feed feed_of(const struct leat_plan_sum *s, unsigned nodes)
{
    return (struct leat_plan_feed){
        .dataset_bytes = s->job->value[LEAT_KEY_DATASET_BYTES],
        .budget_bytes = s->cache_bytes,
        .window_bytes = s->job->value[LEAT_KEY_WINDOW_BYTES],
        .nodes = nodes,
    };
}

/* What the GPUs get when the data comes no faster than it can: epoch by epoch the slower of the two. */
static double fed_speed(const struct leat_plan_sum *s, const struct leat_plan_supply *supply, unsigned nodes,
                        double speed)
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

/* Where a cache lies decides how large it can be. */
#define MEMORY_SHARE 0.6 /* of a machine's memory: the training, its loaders and the system need the rest */

static void bound_cache(struct leat_plan_sum *s, const struct leat_plan_path *path)
{
    const struct leat_plan_offer *o = s->c->offer;
    char text[200] = "the machine's memory is not known: as given";
    double room = path->store == LEAT_PLAN_STORE_MEMORY  ? MEMORY_SHARE * o->memory_bytes
                  : path->store == LEAT_PLAN_STORE_LOCAL ? o->disk_bytes
                                                         : HUGE_VAL;
    s->cache_bytes = isnan(room) ? path->cache_bytes : fmin(path->cache_bytes, room);
    if (!s->terms || !(path->cache_bytes > 0))
        return;
    if (path->store == LEAT_PLAN_STORE_DISK)
        snprintf(text, sizeof text, "[path.%s], a disk beside the machine", path->name);
    else if (path->store == LEAT_PLAN_STORE_LOCAL)
        snprintf(text, sizeof text, "[path.%s], the machine's own disk (%s)", path->name,
                 isnan(room) ? "size not known" : o->machine_source);
    else if (!isnan(room))
        snprintf(text, sizeof text, "[path.%s], at most %.0f %% of the machine's %.0f GiB", path->name,
                 100 * MEMORY_SHARE, o->memory_bytes / 1073741824);
    struct leat_plan_term *t =
        leat_plan_term(s->terms, "cache of a machine", s->cache_bytes, LEAT_PLAN_UNIT_BYTES, text);
    if (s->cache_bytes < path->cache_bytes)
        leat_plan_term_words(t, "less than asked for: no room");
}

static void fetching_term(struct leat_plan_sum *s, const struct leat_plan_supply *supply,
                          const struct leat_plan_feed *feed)
{
    char from[LEAT_PLAN_PATH_SOURCE_SIZE];
    const struct leat_plan_supply fetch = {supply->node_bytes_per_s, supply->bucket_bytes_per_s, 0};
    double samples = s->job->value[LEAT_KEY_SAMPLES];
    leat_plan_path_source(&s->job->path[s->c->path], from);
    if (!(supply->node_bytes_per_s > 0) && !(supply->bucket_bytes_per_s > 0)) {
        leat_plan_term_words(leat_plan_term(s->terms, "fetching", NAN, LEAT_PLAN_UNIT_WORDS, "no bandwidth is given"),
                             "assumed to keep up");
        return;
    }
    struct leat_plan_term *t =
        leat_plan_term(s->terms, "fetching", leat_plan_feed_epoch_s(feed, &fetch, samples, 0), LEAT_PLAN_UNIT_S, from);
    leat_plan_term_words(t, "%.4g s in epochs after the first", leat_plan_feed_epoch_s(feed, &fetch, samples, 1));
}

/* Samples a second that one machine prepares; 0: not known, no limit. */
static double preparing(struct leat_plan_sum *s)
{
    const struct leat_plan_offer *o = s->c->offer;
    double prep = s->job->value[LEAT_KEY_PREP_RATE] * o->vcpus;
    if (isnan(prep)) {
        leat_plan_term_words(leat_plan_term(s->terms, "preparation", NAN, LEAT_PLAN_UNIT_WORDS,
                                            "data.prep_per_vcpu or the catalog's vCPUs are not given"),
                             "assumed to keep up");
        return 0;
    }
    struct leat_plan_term *t = leat_plan_term(s->terms, "preparation", s->c->nodes * prep, LEAT_PLAN_UNIT_SAMPLES_S,
                                              source(s, LEAT_KEY_PREP_RATE));
    leat_plan_term_factor(t, s->c->nodes, LEAT_PLAN_UNIT_COUNT);
    leat_plan_term_factor(t, o->vcpus, LEAT_PLAN_UNIT_COUNT);
    leat_plan_term_factor(t, s->job->value[LEAT_KEY_PREP_RATE], LEAT_PLAN_UNIT_SAMPLES_S);
    return prep;
}

static void fed_term(struct leat_plan_sum *s)
{
    s->data_share = 1 - s->speed[s->c->nodes] / s->gpu_speed;
    if (s->data_share < 1e-9)
        s->data_share = 0; /* what rounding left */
    struct leat_plan_term *t = leat_plan_term(s->terms, "speed with data", s->speed[s->c->nodes],
                                              LEAT_PLAN_UNIT_SAMPLES_S, "the slower of computing and data, by epoch");
    leat_plan_term_words(t, "%.1f %% data stall", 100 * s->data_share);
}

static void data_path(struct leat_plan_sum *s)
{
    const struct leat_plan_case *c = s->c;
    if (c->path < 0) { /* preparing limits the speed wherever the data comes from */
        double prep = leat_plan_job_has(s->job, LEAT_KEY_PREP_RATE) ? preparing(s) : 0;
        leat_plan_term_words(
            leat_plan_term(s->terms, "data path", NAN, LEAT_PLAN_UNIT_WORDS, "data.dataset is not given"), "left out");
        for (unsigned n = 1; prep > 0 && n <= c->nodes; n++)
            s->speed[n] = fmin(s->speed[n], n * prep);
        if (prep > 0)
            fed_term(s);
        return;
    }
    const struct leat_plan_path *path = &s->job->path[c->path];
    struct leat_plan_supply supply = {path->node_bytes_per_s, path->bucket_bytes_per_s, 0};
    double network = s->cluster.network.bytes_per_s;
    if (supply.node_bytes_per_s > network) /* NaN: not known */
        supply.node_bytes_per_s = network;
    bound_cache(s, path);
    supply.node_prep_per_s = preparing(s);
    for (unsigned n = 1; n <= c->nodes; n++) {
        if (s->speed[n] > 0)
            s->speed[n] = fed_speed(s, &supply, n, s->speed[n]);
    }
    const struct leat_plan_feed feed = feed_of(s, c->nodes);
    s->cached_bytes = leat_plan_feed_cached(&feed);
    s->fetched_bytes = leat_plan_feed_total(&feed, leat_plan_job_epochs(s->job));
    if (s->terms) {
        char size[LEAT_FORMAT_SIZE];
        struct leat_plan_term *t = leat_plan_term(s->terms, "cached on the machines", s->cached_bytes,
                                                  LEAT_PLAN_UNIT_BYTES, source(s, LEAT_KEY_DATASET_BYTES));
        leat_plan_term_words(t, "of %s", leat_format_size((uint64_t)feed.dataset_bytes, size));
        t = leat_plan_term(s->terms, "fetched in total", s->fetched_bytes, LEAT_PLAN_UNIT_BYTES,
                           source(s, LEAT_KEY_DATASET_BYTES));
        leat_plan_term_words(t, "%s per epoch after the first",
                             leat_format_size((uint64_t)leat_plan_feed_fetched(&feed, 1), size));
        fetching_term(s, &supply, &feed);
    }
    fed_term(s);
}

/* A run that goes on where it is starts nothing; one that moves starts and reads its checkpoint. */
static void resume(struct leat_plan_sum *s, double write_s)
{
    const struct leat_plan_past *past = &s->plan->past;
    const struct leat_plan_case *c = s->c;
    const struct leat_plan_job *job = s->job;
    if (!s->plan->resumed)
        return;
    if (c->offer == past->offer && c->kind == past->kind && c->nodes == past->nodes && c->path == past->path) {
        s->run.start_s = 0;
        leat_plan_term_words(leat_plan_term(s->terms, "start", NAN, LEAT_PLAN_UNIT_WORDS, leat_plan_tail(past->name)),
                             "none: the job already runs there");
        return;
    }
    double restore = leat_plan_job_has(job, LEAT_KEY_RESTORE) ? job->value[LEAT_KEY_RESTORE] : write_s;
    s->run.start_s += restore;
    leat_plan_term(s->terms, "moving: restoring a checkpoint", restore, LEAT_PLAN_UNIT_S,
                   leat_plan_job_has(job, LEAT_KEY_RESTORE) ? source(s, LEAT_KEY_RESTORE) : "as long as writing it");
}

static leat_status checkpoints(struct leat_plan_sum *s, struct leat_error *err)
{
    const struct leat_plan_job *job = s->job;
    struct leat_plan_run *run = &s->run;
    const char *from = "checkpoint.time is not given";
    double bytes = job->value[LEAT_KEY_CHECKPOINT_BYTES];
    char text[2 * LEAT_PLAN_SOURCE_SIZE + 4];
    double write_s = 0;
    if (leat_plan_job_has(job, LEAT_KEY_CHECKPOINT_S)) {
        write_s = job->value[LEAT_KEY_CHECKPOINT_S];
        from = source(s, LEAT_KEY_CHECKPOINT_S);
    } else if (!isnan(bytes) && leat_plan_job_has(job, LEAT_KEY_CHECKPOINT_RATE)) {
        write_s = bytes / job->value[LEAT_KEY_CHECKPOINT_RATE];
        snprintf(text, sizeof text, "%s, %s", source(s, LEAT_KEY_CHECKPOINT_BYTES),
                 source(s, LEAT_KEY_CHECKPOINT_RATE));
        from = text;
    } else if (!isnan(bytes) && s->plan->has_checkpoint_model) {
        const struct leat_plan_model *model = &s->plan->checkpoint_model;
        const struct leat_plan_measure row = {.checkpoint_bytes = bytes};
        struct leat_plan_prediction time;
        leat_status rc = leat_plan_model_predict(model, &row, 0.9, &time, err);
        if (rc != LEAT_OK)
            return leat_fail_context(err, rc, "the time of a checkpoint (give checkpoint.time)");
        write_s = time.s.mean;
        int n = snprintf(text, sizeof text, "fitted to %zu measured checkpoints, error of rows left out %.1f %%",
                         model->fit.rows, 100 * model->fit.left_out_mean);
        if (time.beyond > 1.005)
            snprintf(text + n, sizeof text - (size_t)n, ", %.3g times beyond them", time.beyond);
        from = text;
    } else if (run->rollback) {
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "transient machines lose what no checkpoint holds: checkpoint.time, or checkpoint.bytes with "
                         "checkpoint.bandwidth, is missing");
    }
    s->write_s = write_s;
    run->checkpoint_s = write_s;
    if (leat_plan_job_has(job, LEAT_KEY_CHECKPOINT_STALL)) { /* written in the background */
        run->checkpoint_s = fmin(write_s, job->value[LEAT_KEY_CHECKPOINT_STALL]);
        run->lag_s = write_s - run->checkpoint_s;
    }
    s->restore_s = !run->rollback                             ? 0
                   : leat_plan_job_has(job, LEAT_KEY_RESTORE) ? job->value[LEAT_KEY_RESTORE]
                                                              : write_s;
    run->replace_s += s->restore_s;
    resume(s, write_s);
    struct leat_plan_term *t = leat_plan_term(s->terms, "one checkpoint", write_s, LEAT_PLAN_UNIT_S, from);
    if (run->lag_s > 0)
        leat_plan_term_words(t, "work stops for %.3g s of it", run->checkpoint_s);
    return LEAT_OK;
}

static void by_hazard_term(struct leat_plan_sum *s)
{
    const struct leat_plan_run *run = &s->run;
    /* For those who can change it while running: what the hazard of fresh and of settled machines asks for. */
    double ages[LEAT_PLAN_MACHINES_MAX] = {0};
    double fresh = leat_plan_hazard_interval_s(run->checkpoint_s, run->lifetime, ages, run->transients);
    for (unsigned i = 0; i < run->transients; i++)
        ages[i] = 2 * 3600;
    double settled = leat_plan_hazard_interval_s(run->checkpoint_s, run->lifetime, ages, run->transients);
    struct leat_plan_term *t =
        leat_plan_term(s->terms, "by hazard", fresh, LEAT_PLAN_UNIT_S, "Daly's, for the machines' ages");
    leat_plan_term_words(t, "when all are fresh; %.3g min after 2 h", settled / 60);
}

static void interval(struct leat_plan_sum *s)
{
    struct leat_plan_run *run = &s->run;
    const char *from = "nothing can be lost: one at the end";
    run->interval_s = HUGE_VAL;
    if (leat_plan_job_has(s->job, LEAT_KEY_CHECKPOINT_INTERVAL)) {
        run->interval_s = s->job->value[LEAT_KEY_CHECKPOINT_INTERVAL];
        from = source(s, LEAT_KEY_CHECKPOINT_INTERVAL);
    } else if (run->rollback && run->checkpoint_s > 0 && s->traced) {
        double mtbf = 0;
        for (size_t z = 0; z < s->market.count; z++)
            mtbf += leat_plan_trace_mtbf_s(s->market.zone[z].trace, s->c->nodes) / (double)s->market.count;
        run->interval_s = mtbf > 0 ? leat_plan_daly_s(run->checkpoint_s, mtbf) : HUGE_VAL;
        from = "Daly's, for the trace's mean time between losses";
    } else if (run->rollback && run->checkpoint_s > 0) {
        run->interval_s = leat_plan_run_interval_s(run);
        from = "Daly's, for the revocations of this very run";
        if (s->terms)
            by_hazard_term(s);
    }
    run->interval_s = fmax(run->interval_s, run->lag_s);
    if (run->interval_s < HUGE_VAL)
        leat_plan_term(s->terms, "work between checkpoints", run->interval_s, LEAT_PLAN_UNIT_S, from);
    else
        leat_plan_term_words(leat_plan_term(s->terms, "work between checkpoints", NAN, LEAT_PLAN_UNIT_WORDS, from),
                             "all of it");
}

/* What the job does on these machines: whether the model fits, how fast they are, what the data makes of it. */
static leat_status work_out_speed(struct leat_plan_sum *s, struct leat_error *err)
{
    leat_status rc = check_memory(s, err);
    if (rc == LEAT_OK)
        rc = gpu_speeds(s, err);
    if (rc == LEAT_OK)
        data_path(s);
    return rc;
}

/* Other types of the same place with as many GPUs, each with its own traces, speed and price. */
static leat_status add_types(struct leat_plan_sum *s, struct leat_error *err)
{
    const struct leat_plan_offer *own = s->c->offer;
    const struct leat_plan_catalog *catalog = &s->plan->catalog;
    char names[200] = "";
    unsigned types = 1;
    for (size_t i = 0; i < catalog->count; i++) {
        const struct leat_plan_offer *o = &catalog->offer[i];
        unsigned nodes = s->workers / o->gpus;
        if (o == own || strcmp(o->provider, own->provider) != 0 || strcmp(o->region, own->region) != 0 ||
            nodes * o->gpus != s->workers || nodes > s->plan->options.max_nodes || isnan(o->usd_per_hour[1]))
            continue;
        struct leat_plan_case c = {o, LEAT_PLAN_KIND_TRANSIENT, nodes, s->c->path};
        struct leat_plan_sum other = {.plan = s->plan, .c = &c, .job = s->job, .workers = s->workers, .work = s->work};
        other.engine = &s->plan->engines[s->plan->engine_of[i]];
        leat_status rc = work_out_speed(&other, err);
        if (rc != LEAT_OK && rc != LEAT_UNSUPPORTED)
            return rc;
        size_t before = s->market.count;
        if (rc == LEAT_OK)
            leat_plan_traces_market(&s->plan->traces, catalog, o, nodes, other.speed[nodes] / s->speed[s->c->nodes],
                                    &s->market, &s->trace_name);
        if (s->market.count == before)
            continue;
        size_t at = strlen(names);
        snprintf(names + at, sizeof names - at, ", %u × %.48s", nodes, o->type);
        s->spread = fmax(s->spread, other.spread);
        types++;
    }
    if (types == 1)
        return leat_fail(err, LEAT_UNSUPPORTED, "flexible: no other type than %s with as many GPUs and a trace in %s",
                         own->type, own->region);
    struct leat_plan_term *t = leat_plan_term(s->terms, "transient types", types, LEAT_PLAN_UNIT_COUNT, names + 2);
    leat_plan_term_words(t, "%zu zones in all", s->market.count);
    return LEAT_OK;
}

static leat_status transient_source(struct leat_plan_sum *s, struct leat_error *err)
{
    const struct leat_plan_offer *o = s->c->offer;
    bool uniform = leat_plan_kind_turns(s->c->kind);
    leat_plan_traces_market(&s->plan->traces, &s->plan->catalog, o, s->c->nodes, 1, &s->market, &s->trace_name);
    if (s->c->kind == LEAT_PLAN_KIND_FLEXIBLE) {
        leat_status rc = add_types(s, err);
        if (rc != LEAT_OK)
            return rc;
    }
    s->revocation = s->plan->revocation_of[o - s->plan->catalog.offer];
    /* The region counts only where others of the accelerator are known. */
    bool some = leat_plan_revocations_know(&s->plan->revocations, o->type, o->accelerator) || s->plan->traces.count;
    char where[LEAT_PLAN_REGION_SIZE + 8] = "";
    if (some)
        snprintf(where, sizeof where, " in %s", o->region);
    if (uniform && !s->market.count)
        return leat_fail(err, LEAT_UNSUPPORTED, "no availability trace (traces) for %s%s", o->accelerator, where);
    if (s->c->kind == LEAT_PLAN_KIND_MIXED && !s->revocation)
        return leat_fail(err, LEAT_UNSUPPORTED, "no lifetimes (revocations) of transient %s%s", o->accelerator, where);
    if (!uniform && !s->revocation && !s->market.count)
        return leat_fail(err, LEAT_UNSUPPORTED, "no lifetimes (revocations) or trace (traces) of transient %s%s",
                         o->accelerator, where);
    s->traced = uniform || (s->c->kind == LEAT_PLAN_KIND_TRANSIENT && !s->revocation);
    return LEAT_OK;
}

static void describe_run(struct leat_plan_sum *s)
{
    const struct leat_plan_case *c = s->c;
    const struct leat_plan_job *job = s->job;
    bool demand = c->kind == LEAT_PLAN_KIND_ON_DEMAND;
    bool mixed = c->kind == LEAT_PLAN_KIND_MIXED;
    /* An anchor keeps the state only of those who can go on without the others, and when it holds all of it. */
    bool anchor = mixed && job->restart == LEAT_PLAN_ELASTIC && !job->sharded;
    bool keeper = anchor || (job->mode == LEAT_PLAN_ASYNC && s->workers > 1);
    enum leat_plan_key start = demand ? LEAT_KEY_START_ON_DEMAND : LEAT_KEY_START_TRANSIENT;
    s->run = (struct leat_plan_run){
        .work = s->work,
        .anchors = demand ? c->nodes : mixed,
        .transients = demand ? 0 : c->nodes - mixed,
        .speed = s->speed,
        .speed_spread = s->spread,
        .rollback = !demand && !keeper,
        .start_s = job->value[start],
        .start_spread = job->value[LEAT_KEY_START_SPREAD],
        .replace_s = job->value[LEAT_KEY_REPLACE],
        .regroup_s = job->mode == LEAT_PLAN_ALLREDUCE && anchor ? job->value[LEAT_KEY_REGROUP] : 0,
        .lifetime = s->revocation ? &s->revocation->lifetime : NULL,
        .hazard_spread = s->revocation ? s->revocation->spread : 0,
    };
    leat_plan_term(s->terms, "start of a machine", s->run.start_s, LEAT_PLAN_UNIT_S, source(s, start));
}

static void work_term(struct leat_plan_sum *s)
{
    bool steps = leat_plan_job_has(s->job, LEAT_KEY_STEPS);
    enum leat_plan_key times = steps ? LEAT_KEY_STEPS : LEAT_KEY_EPOCHS;
    enum leat_plan_key of = !steps                                             ? LEAT_KEY_SAMPLES
                            : leat_plan_job_has(s->job, LEAT_KEY_GLOBAL_BATCH) ? LEAT_KEY_GLOBAL_BATCH
                                                                               : LEAT_KEY_BATCH;
    char from[2 * LEAT_PLAN_SOURCE_SIZE + 4];
    if (!s->terms)
        return;
    snprintf(from, sizeof from, "%s, %s", source(s, times), source(s, of));
    struct leat_plan_term *t = leat_plan_term(s->terms, "work", s->work, LEAT_PLAN_UNIT_SAMPLES, from);
    leat_plan_term_factor(t, s->job->value[times], LEAT_PLAN_UNIT_COUNT);
    leat_plan_term_factor(t, s->job->value[of], LEAT_PLAN_UNIT_SAMPLES);
    leat_plan_term_words(t, "%s", steps ? "steps" : "epochs");
    if (s->job->done > 0) {
        t->value += s->job->done;
        leat_plan_term(s->terms, "done already", s->job->done, LEAT_PLAN_UNIT_SAMPLES,
                       leat_plan_tail(s->plan->past.name));
    }
}

leat_status leat_plan_price_case(struct leat_plan *plan, const struct leat_plan_case *c, struct leat_plan_record *out,
                                 struct leat_plan_terms *terms, struct leat_error *err)
{
    struct leat_plan_sum s = {.plan = plan, .c = c, .job = &plan->job, .terms = terms};
    struct leat_plan_record r = {.offer = c->offer, .kind = c->kind, .nodes = c->nodes, .path = c->path};
    s.engine = &plan->engines[plan->engine_of[c->offer - plan->catalog.offer]];
    s.workers = c->nodes * c->offer->gpus;
    s.work = leat_plan_job_work(s.job);
    work_term(&s);
    leat_status rc = work_out_speed(&s, err);
    if (rc == LEAT_OK && c->kind != LEAT_PLAN_KIND_ON_DEMAND)
        rc = transient_source(&s, err);
    if (rc != LEAT_OK)
        return rc;
    describe_run(&s);
    rc = checkpoints(&s, err);
    if (rc == LEAT_OK)
        rc = leat_plan_bill(&s, err);
    if (rc != LEAT_OK)
        return rc;
    interval(&s);
    rc = leat_plan_outcome(&s, &r, err);
    if (rc != LEAT_OK)
        return rc;
    double alone = s.workers * s.job->value[LEAT_KEY_BATCH] / s.engine->step_s;
    r.stall_share = fmin(1, fmax(s.data_share, 1 - s.speed[c->nodes] / alone));
    r.data_share = s.data_share;
    r.transferred = s.engine->transferred;
    r.interval_s = s.run.interval_s;
    r.samples_per_s = s.speed[c->nodes];
    r.speed_spread = s.spread;
    r.checkpoint_s = s.write_s;
    r.hazard_spread = s.traced ? 0 : s.run.hazard_spread;
    r.usd_per_hour = s.run.usd_per_s * 3600;
    r.accuracy = s.job->mode == LEAT_PLAN_ASYNC ? leat_plan_job_accuracy(s.job, s.workers) : NAN;
    if (!isnan(r.accuracy)) {
        struct leat_plan_term *t =
            leat_plan_term(terms, "accuracy", r.accuracy, LEAT_PLAN_UNIT_PERCENT, "accuracy.percent");
        leat_plan_term_words(t, "with %u workers", s.workers);
    }
    *out = r;
    return LEAT_OK;
}
