#include "profile/whatif.h"

#include <math.h>

#include "profile/verdict.h"

struct model {
    double compute_s; /* forward, backward, optimizer, other */
    double copy_s;
    double comm_s;
    double fetch_s; /* of a batch in a worker */
    double prepare_s;
    double cpu_s;
    unsigned workers;
    unsigned cores;
    unsigned gpus;
};

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double step_of(const struct model *m, enum leat_report_part *limit)
{
    double rank_s = m->compute_s + m->copy_s;
    double lanes = m->workers ? m->workers : 1;
    double fetch_s = m->fetch_s / lanes;
    double prepare_s = m->prepare_s / lanes;
    /* However many workers there are, all ranks' preparing has to fit on the cores. */
    double on_cores_s = m->cpu_s * m->gpus / m->cores;
    double input_s = larger(fetch_s + prepare_s, on_cores_s);
    double step_s = m->workers ? larger(rank_s, input_s) : rank_s + input_s;
    *limit = LEAT_REPORT_FORWARD;
    if (m->workers ? input_s > rank_s : input_s > larger(rank_s, m->comm_s))
        *limit = on_cores_s > fetch_s + prepare_s || prepare_s >= fetch_s ? LEAT_REPORT_PREPARE : LEAT_REPORT_FETCH;
    else if (m->comm_s > rank_s)
        *limit = LEAT_REPORT_COMMUNICATION;
    return step_s + m->comm_s;
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
    *out = (struct model){.copy_s = run->part_s[LEAT_REPORT_COPY],
                          .comm_s = run->part_s[LEAT_REPORT_COMMUNICATION],
                          .fetch_s = run->fetch_s,
                          .prepare_s = run->prepare_s,
                          .cpu_s = isnan(run->prepare_cpu_s) ? 0 : run->prepare_cpu_s,
                          .workers = run->workers,
                          .cores = run->cores ? run->cores : 1,
                          .gpus = run->gpus};
    out->compute_s = run->part_s[LEAT_REPORT_FORWARD] + run->part_s[LEAT_REPORT_BACKWARD] +
                     run->part_s[LEAT_REPORT_OPTIMIZER] + run->part_s[LEAT_REPORT_OTHER];
    return LEAT_OK;
}

static leat_status change(struct model *m, const struct leat_whatif *what, struct leat_error *err)
{
    if (what->cached > 0)
        m->fetch_s *= 1 - what->cached;
    if (what->storage_speed > 0)
        m->fetch_s /= what->storage_speed;
    if (what->gpu_speed > 0)
        m->compute_s /= what->gpu_speed;
    if (what->workers)
        m->workers = what->workers;
    if (what->cores)
        m->cores = what->cores;
    if (what->gpus && what->gpus != m->gpus) {
        double from = m->gpus;
        double to = what->gpus;
        if (m->gpus == 1)
            return leat_fail(
                err, LEAT_UNSUPPORTED,
                "not enough data: one rank exchanges nothing, so nothing is known of %u: profile 2 or more",
                what->gpus);
        m->comm_s *= (to - 1) / to / ((from - 1) / from); /* what a ring moves */
        m->gpus = what->gpus;
    }
    return LEAT_OK;
}

leat_status leat_whatif_ask(const struct leat_report *r, const struct leat_whatif *what, struct leat_whatif_answer *out,
                            struct leat_error *err)
{
    const struct leat_report_run *run = leat_report_find(r, LEAT_REPORT_OBSERVED);
    enum leat_report_part limit;
    struct model m = {0};
    leat_status rc = model_of(r, &m, err);
    if (rc != LEAT_OK)
        return rc;
    double now_s = step_of(&m, &limit);
    rc = change(&m, what, err);
    if (rc != LEAT_OK)
        return rc;
    double then_s = step_of(&m, &limit);
    /* What the model says of the measured run is wrong by some factor: it is taken along, and is the least error of the
     * answer; the measurement's own adds to it. */
    double off = run->step_s.mean / now_s;
    double measured = isnan(run->step_s.high) ? 0.1 : (run->step_s.high - run->step_s.low) / 2 / run->step_s.mean;
    double spread = sqrt(measured * measured + log(off) * log(off));
    double step_s = then_s * off;
    *out = (struct leat_whatif_answer){.step_s = {step_s, step_s * exp(-spread), step_s * exp(spread)},
                                       .speed = run->step_s.mean / step_s,
                                       .limit = limit};
    return LEAT_OK;
}

unsigned leat_whatif_workers(const struct leat_report *r)
{
    struct leat_error err;
    struct model m = {0};
    if (model_of(r, &m, &err) != LEAT_OK || !(m.compute_s + m.copy_s > 0))
        return 0;
    double workers = ceil((m.fetch_s + m.prepare_s) / (m.compute_s + m.copy_s) - 1e-9);
    return workers >= 1 && workers < 1e6 ? (unsigned)workers : 0;
}
