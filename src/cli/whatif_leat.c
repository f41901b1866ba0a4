#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/parse.h"
#include "cli/cli.h"
#include "cli/whatif.h"
#include "sim/dataset.h"
#include "sim/job.h"

#define CHUNK     ((uint64_t)8 << 20)
#define STEPS     600 /* of an epoch: more of a large dataset would say the same */
#define CHUNKS    256.0
#define SLOTS     4    /* a loader's own preset */
#define JITTER    0.2  /* … and those of `leat simulate` */
#define SIMULATED 0.05 /* how far the simulator is off: docs/simulate.md */
#define STALLED   0.03
#define LARGE     1e7 /* samples of a dataset of which nothing is known */

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static bool interrupted(void *user)
{
    (void)user;
    return leat_cli_interrupted();
}

static leat_status simulate(const struct leat_sim_dataset *d, struct leat_sim_job_opts *o, double cached,
                            struct leat_sim_epoch_result *last, struct leat_error *err)
{
    struct leat_sim_job_result result = {0};
    uint64_t needed = 0;
    o->names = d->names;
    o->counts = d->counts;
    o->sizes = d->sizes;
    o->chunks = d->chunks;
    leat_status rc = leat_sim_job_needed(o, &needed, err);
    if (rc != LEAT_OK)
        return rc;
    /* What is mixed has to be at hand, and is not what a cache keeps. */
    double live = 1.25 * o->window * CHUNK;
    double share = cached * (double)d->bytes / o->nodes;
    o->ram = needed + (uint64_t)(live + share);
    rc = leat_sim_job(o, &result, err);
    if (rc == LEAT_OK)
        *last = result.epochs[result.epochs_n - 1];
    leat_sim_job_result_free(&result);
    return rc;
}

/* Steps of the last epoch, when the caches hold what they keep. */
static struct leat_whatif_answer answer(const struct leat_report_run *run, const struct leat_sim_job_opts *o,
                                        const struct leat_sim_epoch_result *e, const struct leat_whatif_costs *c)
{
    double step_s = (double)e->time_ns / 1e9 / (double)e->steps;
    double spread = hypot(c->spread, SIMULATED);
    struct leat_whatif_answer a = {.step_s = {step_s, step_s * exp(-spread), step_s * exp(spread)},
                                   .limit = LEAT_REPORT_FORWARD};
    a.speed = run->step_s.mean / step_s * o->ranks * o->nodes / run->gpus / run->nodes;
    if ((double)e->stall_ns > STALLED * (double)e->time_ns)
        a.limit = e->data_ns > e->prep_ns ? LEAT_REPORT_FETCH : LEAT_REPORT_PREPARE;
    /* No step is shorter than what the rank itself needs. */
    a.step_s.low = a.step_s.low < c->rank_s * (1 - c->spread) ? c->rank_s * (1 - c->spread) : a.step_s.low;
    return a;
}

leat_status leat_cli_whatif_leat(const struct whatif_settings *s, const struct leat_report *r,
                                 const struct leat_whatif *what, struct leat_whatif_answer *out, char note[WHATIF_NOTE],
                                 struct leat_error *err)
{
    const struct leat_report_run *run = leat_report_find(r, LEAT_REPORT_OBSERVED);
    struct leat_whatif_costs c;
    leat_status rc = leat_whatif_costs(r, what, &c, err);
    if (rc != LEAT_OK)
        return rc;
    double line =
        what->bandwidth > 0 ? what->bandwidth : c.storage_rate * (what->storage_speed > 0 ? what->storage_speed : 1);
    if (!(line > 0))
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "not enough data: nothing was seen of what the storage gives; say --bandwidth");
    if (!(s->prep > 0) && !(c.core_s > 0))
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "not enough data: the report does not say what preparing a sample costs; say --prep");
    static const uint8_t id[32];
    struct leat_sim_job_opts o = {.id = id,
                                  .shuffle = true,
                                  .nodes = what->nodes ? what->nodes : run->nodes,
                                  .ranks = what->gpus ? what->gpus : run->gpus,
                                  .batch = (uint32_t)(run->batch + 0.5),
                                  .epochs = 2,
                                  .compute_ns = (uint64_t)(c.rank_s * 1e9),
                                  .policy = LEAT_SCHED_NEXT_USE,
                                  .slots = SLOTS,
                                  .line = line,
                                  .latency_ns = s->latency_ns,
                                  .jitter = JITTER,
                                  .cores = what->cores  ? what->cores
                                           : run->cores ? run->cores
                                                        : 1,
                                  .prep = s->prep > 0 ? s->prep : 1 / c.core_s,
                                  .stop = interrupted};
    double epoch = (double)STEPS * o.batch * o.ranks * o.nodes;
    double known = s->samples > 0 ? s->samples : run->dataset_samples;
    double many = CHUNKS * CHUNK / c.sample_bytes;
    double samples = floor(known > 0 ? smaller(known, larger(epoch, many)) : larger(epoch, many));
    if (samples < (double)o.batch * o.ranks * o.nodes)
        return leat_fail(err, LEAT_UNSUPPORTED, "not enough data: %.0f samples are less than one step of this job",
                         samples);
    /* Mixed as the whole dataset would be, but not all of what stands for it at once. */
    double bytes = (known > 0 ? known : LARGE) * c.sample_bytes;
    double chunks = samples * c.sample_bytes / CHUNK;
    double window = leat_order_window_default((uint32_t)smaller(bytes / CHUNK + 1, 1e6), (uint64_t)bytes);
    o.window = (uint32_t)smaller(window, chunks / 32 + 1);
    struct leat_sim_dataset d = {0};
    struct leat_sim_epoch_result last = {0};
    rc = leat_sim_dataset_make((uint64_t)samples, (uint64_t)(c.sample_bytes + 0.5), CHUNK, &d, err);
    if (rc == LEAT_OK)
        rc = simulate(&d, &o, what->cache ? what->cached : 0, &last, err);
    leat_sim_dataset_free(&d);
    if (rc != LEAT_OK)
        return rc;
    char rate[LEAT_FORMAT_SIZE];
    *out = answer(run, &o, &last, &c);
    snprintf(
        note, WHATIF_NOTE,
        "simulated: %.0f samples of %.0f bytes, %s from storage%s, %.0f samples per second and core prepared%s, %u "
        "cores",
        samples, c.sample_bytes, leat_format_rate(line, rate),
        what->bandwidth > 0 ? "" : " (what it gave the script at least)", o.prep,
        s->prep > 0 ? "" : " (what the script's own preparing takes)", o.cores);
    return LEAT_OK;
}
