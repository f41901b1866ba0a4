#include "profile/whatif.h"

#include <math.h>

#include "profile/links.h"
#include "profile/queue.h"
#include "profile/verdict.h"

/* How far the model may be off where something was changed, beside what the measurement does not know. Enough where
 * storage is the limit (docs/profile.md); not known well where cores are. */
#define MODEL_ERROR 0.05
#define UNKNOWN     0.1 /* of a run too short for an interval */
#define WAITS       0.1 /* of the step: then the loader is what it waits for, whatever the means say */
/* What handing a batch over takes, where no batch was ever ready in the measured run: pickling, a pipe, a segment of
 * shared memory, and two processes that wake up. Torch's DataLoader took 0.3 ms on quiet cores and up to 6 on busy
 * ones. */
#define HANDOVER_S      1e-3
#define HANDOVER_LOW_S  0.2e-3
#define HANDOVER_HIGH_S 6e-3
#define HANDOVER_MOST   2 /* no answer where the slowest handover makes the step longer than this many of the fastest */

struct model {
    double compute_s; /* forward, backward, optimizer, other */
    double copy_s;
    double comm_s;
    double comm_low_s; /* as far as it is not known */
    double comm_high_s;
    double rank_core_s; /* of all threads of a rank, beside the loader's; 0: a GPU computes, or it is not known */
    double stretch;     /* by which the rank's work on a core took longer in the measured run, for others were there */
    double fetch_s;     /* of a batch in a worker */
    double line_s;      /* of a batch, if it has the line for itself */
    double prepare_s;   /* without what is below */
    double core_s;
    unsigned workers;
    unsigned cores;
    unsigned gpus;
    unsigned nodes;
    /* What the measured step was longer than the model: it stays where it arose. */
    double input_factor;
    double crowd_factor; /* where the cores were too few for all that was computed on them */
    double rank_extra_s;
    /* How much of it is taking a batch over from a worker, as far as that is known; and what it takes of the worker,
     * where the measured run had none. */
    struct leat_report_time handover_s;
    double send_s;
};

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static double or_zero(double v)
{
    return v > 0 ? v : 0;
}

/* A rank shares the cores with workers, and its work takes as much longer as there are more than cores. It finds each
 * worker there for the share of the time that this one is. */
static double stretch_of(const struct model *m, double step_s)
{
    unsigned workers = m->workers * m->gpus;
    double stretch = 1;
    if (!workers || !(step_s > 0))
        return 1;
    for (int i = 0; i < 20; i++) {
        double busy = smaller(1, m->core_s * stretch / m->workers / step_s);
        double others = (m->gpus - 1) * smaller(1, m->rank_core_s * stretch / step_s);
        double chance = pow(1 - busy, workers); /* that none of them is there */
        double sum = 0;
        double known = 0;
        for (unsigned n = 0; n < workers && n < 512 && busy < 1; n++) {
            sum += chance * larger(1, (1 + n + others) / m->cores);
            known += chance;
            chance *= (double)(workers - n) / (n + 1) * busy / (1 - busy);
        }
        stretch = sum + (1 - known) * larger(1, (1 + workers + others) / m->cores);
    }
    return stretch;
}

/* With as many others on the cores as there were. */
static double rank_before(const struct model *m, double comm_s)
{
    double compute_s = larger(m->compute_s, m->rank_core_s * m->gpus / m->cores);
    return compute_s + m->copy_s + comm_s + m->rank_extra_s;
}

/* `input_s`: what the loader needs for a batch. A rank does not go faster, so workers are not there more often. */
static double rank_of(const struct model *m, double comm_s, double input_s)
{
    double before_s = rank_before(m, comm_s);
    double step_s = before_s;
    if (!m->workers || m->rank_core_s > m->compute_s) /* several threads: what they take is in there */
        return step_s;
    for (int i = 0; i < 20; i++) {
        double more_s = m->rank_core_s * (stretch_of(m, larger(step_s, input_s)) - m->stretch);
        step_s = (step_s + larger(before_s + more_s, m->rank_core_s)) / 2;
    }
    return step_s;
}

static enum leat_report_part input_limit(const struct model *m, const struct leat_queue_answer *a)
{
    return m->prepare_s + a->core_s >= m->fetch_s + a->line_s ? LEAT_REPORT_PREPARE : LEAT_REPORT_FETCH;
}

/* However they take turns, all that is computed has to fit on the cores. */
static double crowd_s(const struct model *m)
{
    return (m->core_s + m->rank_core_s) * m->gpus / m->cores;
}

static double step_of(const struct model *m, double comm_s, enum leat_report_part *limit)
{
    double alone_s = rank_before(m, comm_s);
    struct leat_queue q = {.workers = (m->workers ? m->workers : 1) * m->gpus,
                           .alone_s = m->fetch_s + m->prepare_s + m->send_s + (m->workers ? 0 : alone_s),
                           .core_s = m->core_s,
                           .line_s = m->line_s,
                           .cores = m->cores};
    struct leat_queue_answer a = leat_queue_ask(&q);
    double input_s = m->gpus / a.batches_per_s;
    double cores_s = crowd_s(m) * m->crowd_factor;
    input_s *= m->input_factor;
    bool crowded = cores_s > input_s;
    input_s = larger(input_s, cores_s);
    if (!m->workers) {
        double own_s = larger(m->fetch_s + a.line_s, m->prepare_s + a.core_s);
        *limit = comm_s > alone_s - comm_s ? LEAT_REPORT_COMMUNICATION : LEAT_REPORT_FORWARD;
        if (crowded || own_s > larger(comm_s, alone_s - comm_s))
            *limit = crowded ? LEAT_REPORT_PREPARE : input_limit(m, &a);
        return input_s;
    }
    double rank_s = rank_of(m, comm_s, input_s);
    *limit = comm_s > rank_s - comm_s ? LEAT_REPORT_COMMUNICATION : LEAT_REPORT_FORWARD;
    if (input_s > rank_s)
        *limit = crowded ? LEAT_REPORT_PREPARE : input_limit(m, &a);
    return larger(input_s, rank_s);
}

/* The model must say of the measured run what was measured. */
static void calibrate(struct model *m, const struct leat_report_run *run)
{
    enum leat_report_part limit;
    double prepare_s = m->prepare_s;
    /* Preparing was measured with the time that it waited for a core. */
    m->prepare_s = or_zero(prepare_s - m->core_s);
    for (int i = 0; i < 4; i++) {
        struct leat_queue q = {.workers = (m->workers ? m->workers : 1) * m->gpus,
                               .alone_s = m->fetch_s + m->prepare_s + (m->workers ? 0 : rank_before(m, m->comm_s)),
                               .core_s = m->core_s,
                               .cores = m->cores};
        m->prepare_s = or_zero(prepare_s - leat_queue_ask(&q).core_s);
    }
    m->stretch = stretch_of(m, run->step_s.mean);
    double now_s = step_of(m, m->comm_s, &limit);
    double wait_s = run->part_s[LEAT_REPORT_FETCH] + run->part_s[LEAT_REPORT_PREPARE] + run->part_s[LEAT_REPORT_INPUT];
    bool waits = limit == LEAT_REPORT_FETCH || limit == LEAT_REPORT_PREPARE || wait_s > WAITS * run->step_s.mean;
    if (m->workers && waits && run->step_s.mean > rank_before(m, m->comm_s)) {
        struct model input = *m;
        input.compute_s = input.copy_s = input.rank_core_s = 0;
        double input_s = step_of(&input, 0, &limit);
        if (crowd_s(m) > larger(input_s, rank_before(m, m->comm_s)))
            m->crowd_factor = run->step_s.mean / crowd_s(m);
        else
            m->input_factor = run->step_s.mean / input_s;
        double waited_s = run->step_s.mean - rank_before(m, m->comm_s); /* it takes no longer than that */
        m->handover_s.mean = smaller(m->handover_s.mean, waited_s);
        m->handover_s.low = smaller(m->handover_s.low, waited_s);
        m->handover_s.high = smaller(m->handover_s.high, waited_s);
        m->rank_extra_s = m->handover_s.mean;
    } else {
        if (m->workers) /* what the rank needs was measured with it */
            m->handover_s = (struct leat_report_time){0};
        /* In small steps: how long it waits for a core follows from the step itself. */
        for (int i = 0; i < 20; i++) {
            m->rank_extra_s += larger(run->step_s.mean - now_s, -rank_before(m, 0)) / 2;
            now_s = step_of(m, m->comm_s, &limit);
        }
    }
}

static double stored_bytes(const struct leat_report_run *run, const struct leat_whatif *what)
{
    if (what->sample_bytes > 0)
        return what->sample_bytes * run->batch;
    return or_zero(run->read_bytes) + or_zero(run->bucket_read_bytes);
}

static leat_status model_of(const struct leat_report *r, struct model *out, struct leat_error *err)
{
    const struct leat_report_run *run = leat_report_find(r, LEAT_REPORT_OBSERVED);
    if (!run || run->steps < LEAT_VERDICT_STEPS)
        return leat_fail(err, LEAT_UNSUPPORTED, "not enough data: the report has fewer than %d observed steps",
                         LEAT_VERDICT_STEPS);
    if (isnan(run->fetch_s) || isnan(run->prepare_s))
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "not enough data: the loader of this report does not say what fetching and preparing take");
    const struct leat_report_run *bare = leat_verdict_bare(r);
    const double *part_s = bare ? bare->part_s : run->part_s; /* of what comes after the data */
    *out = (struct model){.copy_s = part_s[LEAT_REPORT_COPY],
                          .comm_s = part_s[LEAT_REPORT_COMMUNICATION],
                          .fetch_s = run->fetch_s,
                          .prepare_s = run->prepare_s,
                          .core_s = or_zero(run->prepare_cpu_s),
                          .workers = run->workers,
                          .cores = run->cores ? run->cores : 1,
                          .gpus = run->gpus,
                          .nodes = run->nodes,
                          .stretch = 1,
                          .input_factor = 1,
                          .crowd_factor = 1,
                          .handover_s = {HANDOVER_S, HANDOVER_LOW_S, HANDOVER_HIGH_S}};
    if (run->handover_s > 0)
        out->handover_s = (struct leat_report_time){run->handover_s, run->handover_s, run->handover_s};
    out->core_s = smaller(out->core_s, out->prepare_s);
    out->compute_s = part_s[LEAT_REPORT_FORWARD] + part_s[LEAT_REPORT_BACKWARD] + part_s[LEAT_REPORT_OPTIMIZER] +
                     part_s[LEAT_REPORT_OTHER];
    if (!run->device) {                                     /* the processors train: they cannot do both at a time */
        double used = smaller(out->cores, run->cores_used); /* more is an error of measuring; it may not be known */
        out->rank_core_s = or_zero(used * run->step_s.mean / run->gpus - out->core_s);
    }
    calibrate(out, run);
    out->comm_low_s = out->comm_high_s = out->comm_s;
    return LEAT_OK;
}

bool leat_whatif_reads(const struct leat_report *r)
{
    const struct leat_report_run *run = leat_report_find(r, LEAT_REPORT_OBSERVED);
    bool waits = run && run->fetch_s > 0;
    return !waits || leat_report_find(r, LEAT_REPORT_CACHED) || stored_bytes(run, &(struct leat_whatif){0}) > 0;
}

static leat_status change_input(struct model *m, const struct leat_report *r, const struct leat_whatif *what,
                                struct leat_error *err)
{
    const struct leat_report_run *run = leat_report_find(r, LEAT_REPORT_OBSERVED);
    const struct leat_report_run *cold = leat_report_find(r, LEAT_REPORT_COLD);
    const struct leat_report_run *warm = leat_report_find(r, LEAT_REPORT_CACHED);
    double left = what->cache ? 1 - what->cached : 1;
    bool was_cold = cold && cold->disk_bytes > 0.5 * cold->read_bytes;
    double away_s = what->cache && was_cold && cold->fetch_s > m->fetch_s ? cold->fetch_s : m->fetch_s;
    double here_s = warm ? smaller(warm->fetch_s, away_s) : 0; /* reading from memory takes time too */
    if ((what->cache || what->storage_speed > 0) && !(what->sample_bytes > 0) && !leat_whatif_reads(r))
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "not enough data: nothing was seen to be read while batches were fetched, so it is not known "
                         "whether storage or a cache matters: 'leat profile --time' measures it; if samples do come "
                         "from storage, give --sample-bytes");
    if (what->storage_speed > 0)
        away_s /= what->storage_speed;
    if (what->bandwidth > 0) {
        double bytes = stored_bytes(run, what);
        if (!(bytes > 0))
            return leat_fail(err, LEAT_UNSUPPORTED,
                             "not enough data: the report does not say how many bytes a batch has in storage; give "
                             "--sample-bytes");
        m->line_s = left * bytes / what->bandwidth;
        away_s = 0;
    }
    m->fetch_s = left * away_s + (what->cache ? what->cached * here_s : 0);
    if (what->workers && !m->workers) {
        m->send_s = m->handover_s.mean;
        m->rank_extra_s += m->handover_s.mean;
    }
    if (what->workers)
        m->workers = what->workers;
    else if (!m->workers)
        m->handover_s = (struct leat_report_time){0};
    if (what->cores)
        m->cores = what->cores;
    return LEAT_OK;
}

/* What a ring moves of each gradient. */
static double ring(double n)
{
    return 2 * (n - 1) / n;
}

static leat_status change_ranks(struct model *m, const struct leat_report *r, const struct leat_whatif *what,
                                struct leat_error *err)
{
    const struct leat_report_run *run = leat_report_find(r, LEAT_REPORT_OBSERVED);
    unsigned gpus = what->gpus ? what->gpus : m->gpus;
    unsigned nodes = what->nodes ? what->nodes : m->nodes;
    struct leat_report_time exposed;
    struct leat_error unused;
    /* Links that were measured know more than the ring's formula. */
    if ((gpus != m->gpus || nodes != m->nodes) && leat_links_exposed(r, gpus, nodes, &exposed, &unused) == LEAT_OK) {
        if (what->network > 0 && nodes > 1)
            return leat_fail(err, LEAT_INVALID,
                             "--network: the report knows the network between machines; ask without it");
        m->comm_s = exposed.mean;
        m->comm_low_s = isnan(exposed.low) ? exposed.mean : or_zero(exposed.low);
        m->comm_high_s = isnan(exposed.high) ? exposed.mean : exposed.high;
        m->gpus = gpus;
        m->nodes = nodes;
        return LEAT_OK;
    }
    if (what->gpus && what->gpus != m->gpus) {
        if (m->gpus == 1)
            return leat_fail(
                err, LEAT_UNSUPPORTED,
                "not enough data: one rank exchanges nothing, so nothing is known of %u: profile 2 or more",
                what->gpus);
        m->comm_s *= ring(what->gpus) / ring(m->gpus);
        m->gpus = what->gpus;
        m->comm_low_s = m->comm_high_s = m->comm_s;
    }
    if (what->nodes && what->nodes != m->nodes) {
        if (m->nodes > 1) {
            if (what->network > 0)
                return leat_fail(
                    err, LEAT_INVALID,
                    "--network: the report is of several machines and knows their network; ask without it");
            m->comm_s *= ring(what->nodes) / ring(m->nodes);
            m->comm_low_s = m->comm_high_s = m->comm_s;
        } else if (what->network > 0 && run->gradient_bytes > 0) {
            /* All of it shows, or only what the backward pass does not cover. */
            double whole_s = ring(what->nodes) * run->gradient_bytes / what->network;
            double least_s = or_zero(whole_s - run->part_s[LEAT_REPORT_BACKWARD]);
            m->comm_low_s = m->comm_s + least_s;
            m->comm_high_s = m->comm_s + whole_s;
            m->comm_s += (least_s + whole_s) / 2;
        } else {
            return leat_fail(
                err, LEAT_UNSUPPORTED,
                "not enough data: one machine was profiled, so nothing is known of a network: profile two, "
                "or say --network RATE%s",
                run->gradient_bytes > 0 ? "" : " (with DistributedDataParallel)");
        }
        m->nodes = what->nodes;
    }
    return LEAT_OK;
}

static leat_status change(struct model *m, const struct leat_report *r, const struct leat_whatif *what,
                          struct leat_error *err)
{
    leat_status rc = change_input(m, r, what, err);
    if (rc == LEAT_OK)
        rc = change_ranks(m, r, what, err);
    if (rc == LEAT_OK && what->gpu_speed > 0) {
        m->compute_s /= what->gpu_speed;
        m->rank_core_s /= what->gpu_speed;
    }
    return rc;
}

/* Of the mean of another run that is as long: it has the machine's noise as the measured one had. */
static double measured_spread(const struct leat_report_run *run)
{
    return isnan(run->step_s.high) ? UNKNOWN : sqrt(2) * (run->step_s.high - run->step_s.low) / 2 / run->step_s.mean;
}

/* The step if handing a batch over took as long as this. */
static double step_with(const struct model *m, double comm_s, double handover_s)
{
    struct model other = *m;
    enum leat_report_part limit;
    other.rank_extra_s += handover_s - m->handover_s.mean;
    other.send_s += m->send_s > 0 ? handover_s - m->handover_s.mean : 0;
    return step_of(&other, comm_s, &limit);
}

static struct leat_whatif_answer answer(const struct model *m, const struct leat_report_run *run)
{
    struct leat_whatif_answer a;
    double step_s = step_of(m, m->comm_s, &a.limit);
    double measured = measured_spread(run);
    bool changed = fabs(step_s / run->step_s.mean - 1) > 1e-6;
    bool input = a.limit == LEAT_REPORT_FETCH || a.limit == LEAT_REPORT_PREPARE;
    double model = changed ? MODEL_ERROR : 0;
    double factor = m->input_factor * m->crowd_factor; /* one of them is 1 */
    double corrected = !changed ? 0 : input ? log(factor) : m->rank_extra_s / step_s;
    if (changed && !input) /* how long a rank waits for a core is the least certain */
        corrected = hypot(corrected, (step_s - rank_before(m, m->comm_s)) / step_s);
    double spread = sqrt(measured * measured + model * model + corrected * corrected);
    const struct leat_report_time *h = &m->handover_s;
    a.step_s = (struct leat_report_time){step_s, step_with(m, m->comm_low_s, changed ? h->low : h->mean) * exp(-spread),
                                         step_with(m, m->comm_high_s, changed ? h->high : h->mean) * exp(spread)};
    a.speed = run->step_s.mean / step_s * m->gpus * m->nodes / run->gpus / run->nodes;
    return a;
}

leat_status leat_whatif_ask(const struct leat_report *r, const struct leat_whatif *what, struct leat_whatif_answer *out,
                            struct leat_error *err)
{
    struct model m = {0};
    leat_status rc = model_of(r, &m, err);
    if (rc == LEAT_OK)
        rc = change(&m, r, what, err);
    if (rc != LEAT_OK)
        return rc;
    const struct leat_report_run *run = leat_report_find(r, LEAT_REPORT_OBSERVED);
    struct leat_whatif_answer a = answer(&m, run);
    double low_s = step_with(&m, m.comm_s, m.handover_s.low);
    double high_s = step_with(&m, m.comm_s, m.handover_s.high);
    if (fabs(a.step_s.mean / run->step_s.mean - 1) > 1e-6 && high_s > HANDOVER_MOST * low_s)
        return leat_fail(
            err, LEAT_UNSUPPORTED,
            "not enough data: a step would take %.2g to %.2g ms, for workers hand a batch over in %.1f to "
            "%.1f ms, and this report does not say in which: profile a run whose workers are ahead, or make "
            "batches larger",
            1e3 * low_s, 1e3 * high_s, 1e3 * m.handover_s.low, 1e3 * m.handover_s.high);
    *out = a;
    return LEAT_OK;
}

size_t leat_whatif_limits(const struct leat_report *r, const struct leat_whatif *what, struct leat_whatif_answer *out,
                          size_t n)
{
    struct leat_error err;
    struct model m = {0};
    size_t found = 0;
    if (model_of(r, &m, &err) != LEAT_OK || change(&m, r, what, &err) != LEAT_OK)
        return 0;
    while (found < n) {
        out[found] = answer(&m, leat_report_find(r, LEAT_REPORT_OBSERVED));
        if (!(out[found].step_s.mean > 0))
            break;
        switch (out[found++].limit) {
        case LEAT_REPORT_FETCH:
            m.fetch_s = m.line_s = 0;
            break;
        case LEAT_REPORT_PREPARE:
            m.prepare_s = m.core_s = 0;
            break;
        case LEAT_REPORT_COMMUNICATION:
            m.comm_s = m.comm_low_s = m.comm_high_s = 0;
            break;
        default:
            return found; /* computing is what it is all for */
        }
    }
    return found;
}

unsigned leat_whatif_workers(const struct leat_report *r)
{
    struct leat_error err;
    struct model m = {0};
    if (model_of(r, &m, &err) != LEAT_OK)
        return 0;
    double more_s = m.workers ? 0 : m.handover_s.mean;
    double rank_s = rank_before(&m, m.comm_s) + more_s;
    double workers = ceil((m.fetch_s + m.prepare_s + m.core_s + more_s) / rank_s - 1e-9);
    return workers >= 1 && workers < 1e6 ? (unsigned)workers : 0;
}

unsigned leat_whatif_usable_workers(const struct leat_report *r)
{
    unsigned needed = leat_whatif_workers(r);
    if (!needed)
        return 0;
    const struct leat_report_run *run = leat_report_find(r, LEAT_REPORT_OBSERVED);
    unsigned cores = run->cores > run->gpus ? run->cores / run->gpus : 1; /* torch's DataLoader warns of more */
    return needed < cores ? needed : cores;
}

struct leat_report_time leat_whatif_cores(const struct leat_report *r)
{
    struct leat_error err;
    struct model m = {0};
    if (model_of(r, &m, &err) != LEAT_OK || !(m.core_s > 0))
        return (struct leat_report_time){NAN, NAN, NAN};
    double spread = hypot(measured_spread(leat_report_find(r, LEAT_REPORT_OBSERVED)), MODEL_ERROR);
    double cores = m.core_s / rank_before(&m, m.comm_s);
    return (struct leat_report_time){cores, cores * exp(-spread), cores * exp(spread)};
}

leat_status leat_whatif_costs(const struct leat_report *r, const struct leat_whatif *what,
                              struct leat_whatif_costs *out, struct leat_error *err)
{
    const struct leat_report_run *run = leat_report_find(r, LEAT_REPORT_OBSERVED);
    struct model m = {0};
    leat_status rc = model_of(r, &m, err);
    if (rc == LEAT_OK)
        rc = change(&m, r, what, err);
    if (rc != LEAT_OK)
        return rc;
    double bytes = stored_bytes(run, what);
    if (!(bytes > 0) || !(run->batch > 0))
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "not enough data: the report does not say how many bytes a sample has in storage; give "
                         "--sample-bytes");
    m.rank_extra_s = 0; /* the other loader's affair */
    *out = (struct leat_whatif_costs){.rank_s = rank_before(&m, m.comm_s),
                                      .sample_bytes = bytes / run->batch,
                                      .core_s = m.core_s / run->batch,
                                      .storage_rate = NAN,
                                      .spread = measured_spread(run)};
    if (run->fetch_s > 0)
        out->storage_rate = bytes / run->fetch_s * (run->workers ? run->workers : 1) * run->gpus;
    return LEAT_OK;
}
