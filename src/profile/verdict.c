#include "profile/verdict.h"

#include <math.h>
#include <string.h>

#include "base/parse.h"
#include "profile/frontier.h"
#include "profile/whatif.h"

#define SLIGHT     0.03 /* of the step: below this nothing is worth doing */
#define FEW_BLOCKS " (of too few blocks for an interval: more --time tells more)"

static const enum leat_report_part stalls[] = {LEAT_REPORT_FETCH, LEAT_REPORT_PREPARE, LEAT_REPORT_INPUT,
                                               LEAT_REPORT_COPY, LEAT_REPORT_COMMUNICATION};

const struct leat_report_run *leat_verdict_bare(const struct leat_report *r)
{
    const struct leat_report_run *run = leat_report_find(r, LEAT_REPORT_OBSERVED);
    const struct leat_report_run *bare = leat_report_find(r, LEAT_REPORT_SYNTHETIC);
    bool fits = run && bare && run->device && bare->device && bare->gpus == run->gpus && bare->nodes == run->nodes;
    return fits && bare->steps >= LEAT_VERDICT_STEPS && bare->step_s.mean < run->step_s.mean ? bare : NULL;
}

/* What a part costs the step. Where it was measured what all of the data costs, and that is more than the waiting, the
 * rest is divided as the waiting is: it is what workers take from the thread that keeps the GPU busy. */
static double cost_of(const struct leat_report *r, const struct leat_report_run *run, enum leat_report_part part)
{
    const struct leat_report_run *bare = leat_verdict_bare(r);
    double wait_s = run->part_s[LEAT_REPORT_FETCH] + run->part_s[LEAT_REPORT_PREPARE] + run->part_s[LEAT_REPORT_INPUT];
    double data_s = bare ? run->step_s.mean - bare->step_s.mean : 0;
    bool input = part == LEAT_REPORT_FETCH || part == LEAT_REPORT_PREPARE || part == LEAT_REPORT_INPUT;
    bool more = input && data_s > wait_s && wait_s > SLIGHT * run->step_s.mean;
    return run->part_s[part] * (more ? data_s / wait_s : 1);
}

enum leat_report_part leat_verdict_cause(const struct leat_report *r)
{
    const struct leat_report_run *run = leat_report_find(r, LEAT_REPORT_OBSERVED);
    enum leat_report_part most = LEAT_REPORT_PARTS;
    double share = SLIGHT;
    if (!run || run->steps < LEAT_VERDICT_STEPS)
        return LEAT_REPORT_PARTS;
    for (size_t i = 0; i < sizeof stalls / sizeof *stalls; i++) {
        double s = cost_of(r, run, stalls[i]) / run->step_s.mean;
        if (s > share) {
            share = s;
            most = stalls[i];
        }
    }
    return most;
}

void leat_verdict_seconds(struct leat_buf *out, double s)
{
    if (isnan(s))
        leat_buf_str(out, "?");
    else if (fabs(s) >= 1)
        leat_buf_printf(out, "%.3g s", s);
    else if (fabs(s) >= 1e-3)
        leat_buf_printf(out, "%.3g ms", s * 1e3);
    else
        leat_buf_printf(out, "%.3g µs", s * 1e6);
}

static void span(struct leat_buf *out, const struct leat_report_time *t)
{
    leat_verdict_seconds(out, t->mean);
    if (isnan(t->low))
        return;
    leat_buf_str(out, " (");
    leat_verdict_seconds(out, t->low);
    leat_buf_str(out, " … ");
    leat_verdict_seconds(out, t->high);
    leat_buf_str(out, ")");
}

/* The step without its data. */
static double work_s(const struct leat_report *r, const struct leat_report_run *run)
{
    const struct leat_report_run *bare = leat_verdict_bare(r);
    double sum = 0;
    if (bare)
        return bare->step_s.mean;
    for (size_t i = LEAT_REPORT_COPY; i < LEAT_REPORT_PARTS; i++)
        sum += run->part_s[i];
    return sum;
}

/* How many workers would keep up with the rest of the step. */
static void advise_prepare(const struct leat_report *r, const struct leat_report_run *run, struct leat_buf *out)
{
    double busy = run->prepare_s + run->fetch_s;
    double rest = work_s(r, run);
    if (!(busy > 0) || !(rest > 0)) {
        leat_buf_str(out, "prepare less per sample, or with more cores");
        return;
    }
    double needed = ceil(busy / rest - 1e-9);
    unsigned most = run->cores > run->gpus ? run->cores / run->gpus : 1;
    leat_buf_printf(out, "a batch takes ");
    leat_verdict_seconds(out, busy);
    leat_buf_printf(out, " of one worker and the rest of the step ");
    leat_verdict_seconds(out, rest);
    leat_buf_printf(out, ": %.0f worker%s of each rank would keep up, it has %u", needed, needed > 1 ? "s" : "",
                    run->workers);
    if (needed > most)
        leat_buf_printf(
            out,
            "; this machine's %u core%s %s enough for %u: use more cores or another machine, or prepare less "
            "per sample",
            run->cores, run->cores == 1 ? "" : "s", run->cores == 1 ? "is" : "are", most);
}

/* Fetching in the training itself. */
static void advise_workers(const struct leat_report *r, const struct leat_report_run *run, struct leat_buf *out)
{
    struct leat_whatif_answer a;
    struct leat_error err;
    unsigned needed = leat_whatif_workers(r);
    unsigned usable = leat_whatif_usable_workers(r);
    leat_buf_str(out, leat_whatif_reads(r)
                          ? "the training itself waits for storage: "
                          : "the training itself waits in its dataset, and nothing was seen to be read "
                            "meanwhile (a sleep, a lock, a client that is not Python's): ");
    if (usable && leat_whatif_ask(r, &(struct leat_whatif){.workers = usable}, &a, &err) != LEAT_OK)
        leat_buf_str(out,
                     "its steps are so short that workers may take longer to hand a batch over; try larger batches");
    else
        leat_buf_printf(out, "num_workers=%u would read ahead", usable ? usable : 1);
    if (needed > usable)
        leat_buf_printf(out, " (to keep up it would take %u, more than the %u core%s here)", needed, run->cores,
                        run->cores == 1 ? "" : "s");
    if (leat_whatif_reads(r))
        leat_buf_str(out, "; or keep the data closer (a cache, local disk, leat.Loader)");
}

/* Fetching in workers. */
static void advise_storage(const struct leat_report *r, const struct leat_report_run *run, struct leat_buf *out)
{
    if (leat_whatif_reads(r))
        leat_buf_str(out, "workers wait for storage: keep the data closer (a cache, local disk, leat.Loader)");
    else
        leat_buf_str(out,
                     "workers wait in their dataset, and nothing was seen to be read meanwhile: look for a sleep, a "
                     "lock or a client that is not Python's");
    if (leat_whatif_usable_workers(r) > run->workers)
        leat_buf_printf(out, ", or let more than %u worker%s wait at a time", run->workers,
                        run->workers > 1 ? "s" : "");
}

static void advise(const struct leat_report *r, const struct leat_report_run *run, enum leat_report_part cause,
                   struct leat_buf *out)
{
    switch (cause) {
    case LEAT_REPORT_FETCH:
        if (run->workers)
            advise_storage(r, run, out);
        else
            advise_workers(r, run, out);
        break;
    case LEAT_REPORT_PREPARE:
        advise_prepare(r, run, out);
        break;
    case LEAT_REPORT_INPUT:
        if (run->workers) { /* of these it is known what they do once they work */
            leat_buf_str(out, "workers are started again for every epoch: persistent_workers=True, or fewer of them");
            break;
        }
        if (run->fetch_s + run->prepare_s > 0)
            leat_buf_str(out, "the loader takes longer than its fetches: look at its sampler, at pinning and sending "
                              "batches to the device, and at what happens at the beginning of an epoch");
        else
            leat_buf_str(out, "the loader does not say whether it fetches or prepares: see how busy its cores are");
        break;
    case LEAT_REPORT_COPY:
        leat_buf_str(out, "copies to the accelerator hold the step up: pin_memory=True and .to(…, non_blocking=True), "
                          "or send bytes and convert them there");
        break;
    case LEAT_REPORT_COMMUNICATION:
        leat_buf_str(out, "ranks wait for gradients of each other: larger batches, accumulation, gradients in 16 bits, "
                          "or a faster link");
        break;
    default:
        break;
    }
}

static const struct leat_report_rank *straggler(const struct leat_report *r, const struct leat_report_run *run)
{
    for (size_t i = 0; i < r->ranks; i++) {
        if (leat_frontier_often(r->rank[i].late_of, r->ranks) && r->rank[i].late_s > SLIGHT * run->step_s.mean)
            return &r->rank[i];
    }
    return NULL;
}

static void evidence(const struct leat_report *r, struct leat_buf *out)
{
    for (size_t i = 0; i < r->runs; i++) {
        const struct leat_report_run *run = &r->run[i];
        leat_buf_printf(out, "  run %zu, %s: a step takes ", i, leat_report_mode_name(run->mode));
        span(out, &run->step_s);
        leat_buf_printf(out, ", %.0f steps, %u × %u ranks, batch %.0f%s\n", run->steps, run->nodes, run->gpus,
                        run->batch, run->device ? ", by the GPU's clock" : "");
        leat_buf_str(out, "   ");
        for (size_t p = 0; p < LEAT_REPORT_PARTS; p++) {
            if (run->part_s[p] > 0)
                leat_buf_printf(out, " %s %.1f %%", leat_report_part_name((enum leat_report_part)p),
                                100 * run->part_s[p] / run->step_s.mean);
        }
        leat_buf_str(out, "\n");
    }
    for (size_t i = 0; i < r->stalls; i++) {
        if (r->stall[i].from[1] < 0)
            continue;
        leat_buf_printf(out, "  %s: ", r->stall[i].cause);
        span(out, &r->stall[i].s);
        leat_buf_printf(out, " of a step, %.1f %%: run %d less run %d%s\n", 100 * r->stall[i].share,
                        r->stall[i].from[0], r->stall[i].from[1], isnan(r->stall[i].s.low) ? FEW_BLOCKS : "");
    }
    for (size_t i = 0; i < r->notes; i++)
        leat_buf_printf(out, "  note: %s\n", r->note[i]);
}

/* What the waiting comes from: what a batch takes, and what the step has for it. */
static void explain(const struct leat_report *r, const struct leat_report_run *run, enum leat_report_part cause,
                    struct leat_buf *out)
{
    bool input = cause == LEAT_REPORT_FETCH || cause == LEAT_REPORT_PREPARE;
    char size[LEAT_FORMAT_SIZE];
    if (input && run->fetch_s + run->prepare_s > 0) {
        leat_buf_str(out, "  why: a batch takes ");
        leat_verdict_seconds(out, run->fetch_s);
        leat_buf_str(out, " of fetching and ");
        leat_verdict_seconds(out, run->prepare_s);
        if (run->workers)
            leat_buf_printf(out, " of preparing, and %u worker%s of a rank make%s one every ", run->workers,
                            run->workers == 1 ? "" : "s", run->workers == 1 ? "s" : "");
        else
            leat_buf_str(out, " of preparing in the training itself: one every ");
        leat_verdict_seconds(out, (run->fetch_s + run->prepare_s) / (run->workers ? run->workers : 1));
        leat_buf_str(out, "; the rest of the step takes ");
        leat_verdict_seconds(out, work_s(r, run));
        if (run->workers && (run->fetch_s + run->prepare_s) / run->workers < work_s(r, run))
            leat_buf_str(out, ": they would keep up if batches took equally long and there were cores for all");
        leat_buf_str(out, "\n");
    } else if (cause == LEAT_REPORT_COMMUNICATION && run->gradient_bytes > 0) {
        leat_buf_printf(out, "  why: %s of gradients between %u ranks, of which ",
                        leat_format_size((uint64_t)run->gradient_bytes, size), run->gpus * run->nodes);
        leat_verdict_seconds(out, run->part_s[LEAT_REPORT_COMMUNICATION]);
        leat_buf_str(out, " are not hidden behind the backward pass\n");
    } else if (cause == LEAT_REPORT_COPY && run->copied_bytes > 0) {
        leat_buf_printf(out, "  why: %s a step go to the accelerator in ",
                        leat_format_size((uint64_t)run->copied_bytes, size));
        leat_verdict_seconds(out, run->part_s[LEAT_REPORT_COPY]);
        leat_buf_str(out, "\n");
    }
}

/* Whether a change is sure to help. */
static bool helps(const struct leat_whatif_answer *a)
{
    return a->speed > 1.03 && a->speed * a->step_s.mean / a->step_s.high > 1;
}

/* What would come of it, by the model of whatif.h. */
static void promise(const struct leat_report *r, enum leat_report_part cause, struct leat_buf *out)
{
    struct leat_whatif_answer a;
    struct leat_error err;
    struct leat_whatif cached = {.cache = true, .cached = 1};
    struct leat_whatif more = {.workers = leat_whatif_usable_workers(r)};
    bool input = cause == LEAT_REPORT_FETCH || cause == LEAT_REPORT_PREPARE;
    if (input && more.workers > 0 && leat_whatif_ask(r, &more, &a, &err) == LEAT_OK && helps(&a))
        leat_buf_printf(out, "  with %u worker%s of each rank: %.2f times as fast (%.2f … %.2f)\n", more.workers,
                        more.workers == 1 ? "" : "s", a.speed, a.speed * a.step_s.mean / a.step_s.high,
                        a.speed * a.step_s.mean / a.step_s.low);
    if (cause == LEAT_REPORT_FETCH && leat_whatif_ask(r, &cached, &a, &err) == LEAT_OK && helps(&a))
        leat_buf_printf(out, "  with everything cached: %.2f times as fast (%.2f … %.2f)\n", a.speed,
                        a.speed * a.step_s.mean / a.step_s.high, a.speed * a.step_s.mean / a.step_s.low);
}

/* Steps without a batch that anybody saw come: what they wait for is within the forward pass. */
static bool no_loader(const struct leat_report_run *run)
{
    double wait_s = run->part_s[LEAT_REPORT_FETCH] + run->part_s[LEAT_REPORT_PREPARE] + run->part_s[LEAT_REPORT_INPUT];
    return !(run->batch > 0) && !(wait_s > 0) && !(run->fetch_s + run->prepare_s > 0);
}

static void too_few(const struct leat_report *r, const struct leat_report_run *run, struct leat_buf *out)
{
    double counted = run ? run->steps : 0;
    double seen = counted;
    for (size_t i = 0; i < r->ranks; i++)
        seen = r->rank[i].steps > seen ? r->rank[i].steps : seen;
    leat_buf_str(out, "not enough data: ");
    if (seen > counted)
        leat_buf_printf(out, "%.0f of %.0f training steps count, %d are needed", counted, seen, LEAT_VERDICT_STEPS);
    else
        leat_buf_printf(out, "%.0f training steps were seen, %d are needed%s", counted, LEAT_VERDICT_STEPS,
                        run ? "" : " (a step goes from one batch to the next, with a backward pass between them)");
}

void leat_verdict_headline(const struct leat_report *r, struct leat_buf *out)
{
    const struct leat_report_run *run = leat_report_find(r, LEAT_REPORT_OBSERVED);
    enum leat_report_part cause = leat_verdict_cause(r);
    if (!run || run->steps < LEAT_VERDICT_STEPS)
        too_few(r, run, out);
    else if (cause == LEAT_REPORT_PARTS && no_loader(run))
        leat_buf_str(out, "copies and communication do not hold this training up; whether data do is not known, for no "
                          "loader was seen");
    else if (cause == LEAT_REPORT_PARTS)
        leat_buf_printf(out, "nothing holds this training up: it computes for %.1f %% of the step",
                        100 *
                            (work_s(r, run) - run->part_s[LEAT_REPORT_COPY] - run->part_s[LEAT_REPORT_COMMUNICATION]) /
                            run->step_s.mean);
    else
        leat_buf_printf(out, "%s: %.1f %% of the step", leat_report_part_name(cause),
                        100 * cost_of(r, run, cause) / run->step_s.mean);
}

void leat_verdict_reasons(const struct leat_report *r, struct leat_buf *out)
{
    const struct leat_report_run *run = leat_report_find(r, LEAT_REPORT_OBSERVED);
    enum leat_report_part cause = leat_verdict_cause(r);
    if (cause != LEAT_REPORT_PARTS) {
        explain(r, run, cause, out);
        leat_buf_str(out, "  what to do: ");
        advise(r, run, cause, out);
        leat_buf_str(out, "\n");
        promise(r, cause, out);
    }
    if (run && run->steps >= LEAT_VERDICT_STEPS && no_loader(run))
        leat_buf_str(out, "  what to do: wrap what the loop takes its batches from in leat.watch()\n");
    const struct leat_report_rank *late = run ? straggler(r, run) : NULL;
    if (late) {
        leat_buf_printf(out, "  rank %d holds the others up: last in %.0f %% of the steps, by ", late->rank,
                        100 * late->late_of);
        leat_verdict_seconds(out, late->late_s);
        leat_buf_str(out, "\n");
    }
}

void leat_verdict(const struct leat_report *r, struct leat_buf *out)
{
    leat_verdict_headline(r, out);
    leat_buf_str(out, "\n");
    leat_verdict_reasons(r, out);
    evidence(r, out);
}
