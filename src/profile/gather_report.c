#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "profile/gather_own.h"
#include "profile/interval.h"

#define FEW_BLOCKS 8
#define WIDE       0.2 /* of the step */
#define SLOWER     1.2 /* times what another rank's loader takes: less is noise */
#define READING    0.5 /* of the time that fetches stood: less, and what was read is not what they stood for */

static double cores_used(const struct leat_gather *g)
{
    double sum = g->cpu_past_s;
    for (size_t i = 0; i < g->lane_count; i++)
        sum += g->lanes[i].cpu_s - g->lanes[i].cpu_first_s;
    double s = (double)(g->cpu_last_ns - g->cpu_at_ns) / 1e9;
    return s > 0 ? sum / s : NAN;
}

/* Whether a loader works in this mode: batches from memory are neither fetched nor prepared. */
static bool reads(unsigned mode)
{
    return mode == LEAT_REPORT_OBSERVED || mode == LEAT_REPORT_CACHED || mode == LEAT_REPORT_COLD;
}

/* Of the waits at the beginnings of epochs, what is longer than a batch takes: workers are started, or stopped. */
static double starting(const struct leat_gather *g, const struct sums *s)
{
    double batch_s = 0;
    for (size_t i = 0; i < g->rank_count; i++) {
        struct gather_loader l = gather_account(g->rank[i], s, LEAT_REPORT_OBSERVED);
        if (l.batches > 0)
            batch_s = fmax(batch_s, (l.fetch_s + l.prepare_s) / l.batches);
    }
    return batch_s > 0 ? fmax(0, s->first_wait_s - s->first * batch_s) : 0;
}

/* Waiting on the frontier, divided by what each rank's loader did. */
static void split(const struct leat_gather *g, const struct sums *s, unsigned mode, double part_s[LEAT_REPORT_PARTS])
{
    static const enum leat_report_part place[LEAT_STEP_STAGES] = {
        [LEAT_STEP_WAIT] = LEAT_REPORT_INPUT,         [LEAT_STEP_COPY] = LEAT_REPORT_COPY,
        [LEAT_STEP_FORWARD] = LEAT_REPORT_FORWARD,    [LEAT_STEP_BACKWARD] = LEAT_REPORT_BACKWARD,
        [LEAT_STEP_COMM] = LEAT_REPORT_COMMUNICATION, [LEAT_STEP_OPTIM] = LEAT_REPORT_OPTIMIZER,
        [LEAT_STEP_OTHER] = LEAT_REPORT_OTHER,
    };
    memset(part_s, 0, sizeof(double) * LEAT_REPORT_PARTS);
    if (!(s->steps > 0))
        return;
    for (size_t i = 0; i < LEAT_STEP_STAGES; i++)
        part_s[place[i]] = s->stage_s[i] / s->steps;
    double step_s = s->step_s / s->steps;
    double wait_s = s->stage_s[LEAT_STEP_WAIT] / s->steps;
    double start_s = starting(g, s) / s->steps;
    double works = wait_s > start_s ? 1 - start_s / wait_s : 0; /* of the waiting: for batches */
    for (size_t i = 0; i < g->rank_count && reads(mode); i++) {
        const struct gather_rank *rank = g->rank[i];
        struct gather_loader l = gather_account(rank, s, mode);
        struct gather_shares share = gather_shares_of(&l, rank->head.workers, step_s - start_s, wait_s - start_s);
        double waited = s->wait_of[i] / s->steps * works;
        part_s[LEAT_REPORT_FETCH] += share.fetch * waited;
        part_s[LEAT_REPORT_PREPARE] += share.prepare * waited;
        part_s[LEAT_REPORT_INPUT] -= (share.fetch + share.prepare) * waited;
    }
    if (part_s[LEAT_REPORT_INPUT] < 1e-9)
        part_s[LEAT_REPORT_INPUT] = 0; /* what rounding left */
}

static void fill_observed(const struct leat_gather *g, const struct gather_rank *first, struct leat_report_run *run)
{
    uint64_t peak = 0;
    for (size_t i = 0; i < g->rank_count; i++)
        peak = g->rank[i]->trains && g->rank[i]->head.peak_bytes > peak ? g->rank[i]->head.peak_bytes : peak;
    run->peak_gpu_bytes = peak ? (double)peak : NAN;
    run->cores_used = cores_used(g);
    if (first->saved.count > 0) {
        run->checkpoint_write_s = first->saved.s / first->saved.count;
        run->checkpoint_bytes = first->saved.bytes > 0 ? first->saved.bytes / first->saved.count : NAN;
    }
    if (first->loaded.count > 0)
        run->checkpoint_read_s = first->loaded.s / first->loaded.count;
}

/* The same width around another mean: of all steps, and not of whole blocks only. */
static struct leat_report_time around(struct leat_report_time t, double mean)
{
    return (struct leat_report_time){mean, mean - (t.mean - t.low), mean + (t.high - t.mean)};
}

/* Means of the blocks of a mode; of how many. */
static size_t block_means(const struct leat_gather *g, unsigned mode, bool early, double means[BLOCKS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < g->block_count; i++) {
        const struct block *b = &g->blocks[i];
        if (b->mode == mode && b->steps * 2 >= BLOCK_STEPS && (b->stretch == STRETCH_BODY || early))
            means[n++] = b->step_s / (double)b->steps;
    }
    return n;
}

static double work_of(const struct gather_loader *l)
{
    return l->batches > 0 ? (l->fetch_s + l->prepare_s) / l->batches : 0;
}

/* Of the rank whose loader takes longest for a batch: the others wait for it. Of equal ones it is the first. */
static struct gather_loader slowest_account(const struct leat_gather *g, const struct sums *s, unsigned mode)
{
    struct gather_loader slowest = gather_account(gather_first_rank(g), s, mode);
    double most = work_of(&slowest) * SLOWER;
    for (size_t i = 0; i < g->rank_count; i++) {
        struct gather_loader l = gather_account(g->rank[i], s, mode);
        if (g->rank[i]->trains && work_of(&l) > most) {
            slowest = l;
            most = work_of(&l);
        }
    }
    return slowest;
}

static void fill_run(const struct leat_gather *g, unsigned mode, struct leat_report_run *run)
{
    bool early = false;
    struct sums sums = mode == LEAT_REPORT_OBSERVED ? gather_observed(g, &early) : g->mode[mode];
    const struct sums *s = &sums;
    const struct gather_rank *first = gather_first_rank(g);
    struct gather_loader l = slowest_account(g, s, mode);
    unsigned ranks = 0;
    double means[BLOCKS_MAX];
    for (size_t i = 0; i < g->rank_count; i++)
        ranks += g->rank[i]->trains;
    leat_report_run_init(run);
    run->mode = (enum leat_report_mode)mode;
    run->nodes = 1;
    run->gpus = ranks;
    if (mode == LEAT_REPORT_ALONE || mode == LEAT_REPORT_SINGLE)
        run->gpus = 1;
    else if (first->head.local_world && first->head.world > first->head.local_world) {
        run->nodes = first->head.world / first->head.local_world;
        run->gpus = ranks < first->head.local_world ? ranks : first->head.local_world;
    }
    run->workers = first->head.workers;
    run->cores = leat_cpu_count();
    run->device = first->stepper.device;
    run->steps = s->steps;
    run->batch = s->samples / s->steps;
    run->batch_bytes = s->bytes / s->steps;
    run->copied_bytes = s->copied / s->steps;
    size_t n = block_means(g, mode, early, means);
    run->step_s = around(leat_interval_of(means, n), s->step_s / s->steps);
    if (run->step_s.low < 0)
        run->step_s.low = 0; /* few blocks, far apart: no step takes less than no time */
    split(g, s, mode, run->part_s);
    if (reads(mode)) {
        run->fetch_s = l.batches > 0 ? l.fetch_s / l.batches : NAN;
        run->prepare_s = l.batches > 0 ? l.prepare_s / l.batches : NAN;
        run->prepare_cpu_s = l.batches > 0 && l.cpu_s > 0 ? l.cpu_s / l.batches : NAN;
        run->handover_s = run->workers && s->handover_s > 0 ? s->handover_s : NAN;
        run->read_bytes = l.read_batches > 0 ? l.read_bytes / l.read_batches : NAN;
        run->disk_bytes = l.read_batches > 0 ? l.disk_bytes / l.read_batches : NAN;
        run->bucket_read_bytes = l.bucket_batches > 0 ? l.bucket_bytes / l.bucket_batches : NAN;
        run->bucket_rate = l.from_bucket_s > 0 ? l.from_bucket_bytes / l.from_bucket_s : NAN;
        run->memory_rate = l.memory_s > 0 ? l.memory_bytes / l.memory_s : NAN;
        run->disk_rate = l.from_disk_s > 0 ? l.from_disk_bytes / l.from_disk_s : NAN;
    }
    if (mode == LEAT_REPORT_OBSERVED)
        fill_observed(g, first, run);
    if (mode == LEAT_REPORT_OBSERVED && l.reading_s < READING * l.stood_s) /* modules that it imported, and the like */
        run->read_bytes = run->disk_bytes = run->disk_rate = NAN;
    run->flops = first->flops > 0 ? first->flops : NAN;
    run->dataset_samples = first->head.samples ? (double)first->head.samples : NAN;
    run->bucket_count = first->buckets;
    memcpy(run->bucket_bytes, first->bucket, first->buckets * sizeof *first->bucket);
    run->gradient_bytes = (double)first->head.gradient_bytes;
    run->buckets = first->head.buckets;
    run->warmup_s = g->warm_s > run->step_s.mean * (double)g->warm ? g->warm_s - run->step_s.mean * (double)g->warm : 0;
}

/* A block of mode b, and the mean of the blocks of mode a on both sides of it: what drifts is the same in both. */
static struct leat_report_time paired(const struct leat_gather *g, unsigned a, unsigned b)
{
    double differences[BLOCKS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < g->block_count; i++) {
        double sum = 0;
        unsigned sides = 0;
        if (g->blocks[i].mode != b || g->blocks[i].steps * 2 < BLOCK_STEPS)
            continue;
        for (size_t k = i; k-- > 0 && !sides;) {
            if (g->blocks[k].mode == a && g->blocks[k].stretch != STRETCH_HEAD) {
                sum += g->blocks[k].step_s / (double)g->blocks[k].steps;
                sides++;
            }
        }
        for (size_t k = i + 1; k < g->block_count; k++) {
            if (g->blocks[k].mode == a && g->blocks[k].stretch != STRETCH_HEAD) {
                sum += g->blocks[k].step_s / (double)g->blocks[k].steps;
                sides++;
                break;
            }
        }
        if (sides)
            differences[n++] = sum / sides - g->blocks[i].step_s / (double)g->blocks[i].steps;
    }
    return leat_interval_of(differences, n);
}

/* Shares are all of the step as the script has it, whichever runs they come from: else 5 ms could be more than 12. */
static void add_stall(struct leat_report *out, const char *cause, struct leat_report_time s, int a, int b)
{
    struct leat_report_stall *stall = &out->stall[out->stalls];
    const struct leat_report_run *whole = leat_report_find(out, LEAT_REPORT_OBSERVED);
    if (out->stalls == LEAT_REPORT_STALLS || isnan(s.mean))
        return;
    *stall = (struct leat_report_stall){
        .s = s, .share = s.mean / (whole ? whole : &out->run[a])->step_s.mean, .from = {a, b}};
    snprintf(stall->cause, sizeof stall->cause, "%s", cause);
    out->stalls++;
}

static void add_stalls(const struct leat_gather *g, struct leat_report *out)
{
    static const struct {
        const char *cause;
        enum leat_report_mode more;
        enum leat_report_mode less;
    } pairs[] = {
        {"data", LEAT_REPORT_OBSERVED, LEAT_REPORT_SYNTHETIC},
        {"fetch", LEAT_REPORT_COLD, LEAT_REPORT_CACHED},
        {"prepare", LEAT_REPORT_CACHED, LEAT_REPORT_SYNTHETIC},
        {"communication", LEAT_REPORT_SYNTHETIC, LEAT_REPORT_ALONE},
        {"neighbours", LEAT_REPORT_ALONE, LEAT_REPORT_SINGLE},
        {"interconnect", LEAT_REPORT_SYNTHETIC, LEAT_REPORT_SINGLE},
    };
    static const enum leat_report_part causes[] = {LEAT_REPORT_FETCH, LEAT_REPORT_PREPARE, LEAT_REPORT_INPUT,
                                                   LEAT_REPORT_COPY, LEAT_REPORT_COMMUNICATION};
    int run[LEAT_REPORT_MODES];
    for (size_t i = 0; i < LEAT_REPORT_MODES; i++)
        run[i] = -1;
    for (size_t i = 0; i < out->runs; i++)
        run[out->run[i].mode] = (int)i;
    if (run[LEAT_REPORT_OBSERVED] >= 0) {
        const struct leat_report_run *r = &out->run[run[LEAT_REPORT_OBSERVED]];
        for (size_t i = 0; i < sizeof causes / sizeof *causes; i++) {
            struct leat_report_time t = {r->part_s[causes[i]], NAN, NAN};
            if (t.mean > 0)
                add_stall(out, leat_report_part_name(causes[i]), t, run[LEAT_REPORT_OBSERVED], -1);
        }
    }
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        int a = run[pairs[i].more];
        int b = run[pairs[i].less];
        if (a < 0 || b < 0)
            continue;
        struct leat_report_time t = paired(g, pairs[i].more, pairs[i].less);
        if (pairs[i].more == LEAT_REPORT_OBSERVED) /* pairs do not hold the beginnings of epochs */
            t = around(t, out->run[a].step_s.mean - out->run[b].step_s.mean);
        bool cluster =
            pairs[i].less == LEAT_REPORT_SINGLE && pairs[i].more == LEAT_REPORT_SYNTHETIC &&
            out->run[a].nodes > 1; /* no interconnect alone, and one rank less is no network of the same size */
        add_stall(out, cluster ? "cluster" : pairs[i].cause, t, a, b);
    }
}

/* Whether cold runs were cold, and cached ones cached. */
static void doubt_reads(struct leat_report *out)
{
    for (size_t i = 0; i < out->runs; i++) {
        const struct leat_report_run *run = &out->run[i];
        double share = run->disk_bytes / run->read_bytes;
        if (run->mode == LEAT_REPORT_COLD && !(share > 0.5))
            leat_report_note(out,
                             "the cold run was not cold: %.0f %% of what it read came from a disk (files in memory, "
                             "mapped, or opened where this cannot be seen)",
                             share >= 0 ? 100 * share : 0);
        if (run->mode == LEAT_REPORT_CACHED && share > 0.05)
            leat_report_note(out, "the cached run was not cached: %.0f %% of what it read came from a disk",
                             100 * share);
    }
}

static double pace_of(const struct gather_rank *r)
{
    struct gather_loader l = gather_rank_account(r, LEAT_REPORT_OBSERVED);
    return l.batches > 0 && r->head.workers ? (l.fetch_s + l.prepare_s) / l.batches / r->head.workers : 0;
}

/* How late a rank was in one of `steps` steps, by what it did itself. */
static double late_of(const struct leat_gather *g, const struct gather_rank *r, double late_s, double late_wait_s,
                      double steps)
{
    double next_s = 0;
    for (size_t i = 0; i < g->rank_count; i++)
        next_s = g->rank[i] != r ? fmax(next_s, pace_of(g->rank[i])) : next_s;
    return steps > 0 ? leat_frontier_late(late_s / steps, late_wait_s / steps, r->head.workers, pace_of(r), next_s) : 0;
}

static int by_number(const void *a, const void *b)
{
    const struct leat_report_rank *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* In the order of their numbers: they were found in the order in which they came. */
static void add_ranks(const struct leat_gather *g, struct leat_report *out)
{
    unsigned unnamed = 0;
    unsigned lived = 0;
    size_t dropped = (size_t)g->dropped;
    for (size_t i = 0; i < g->lane_count; i++)
        dropped += g->lanes[i].head.dropped;
    for (size_t i = 0; i < g->rank_count; i++)
        lived += g->rank[i]->trains && !g->rank[i]->died;
    for (size_t i = 0; i < g->rank_count; i++) {
        const struct gather_rank *r = g->rank[i];
        dropped += r->skipped;
        if (!r->trains && !(r->head.rank >= 0 && r->died))
            continue;
        int number = r->head.rank >= 0 ? r->head.rank : (int)unnamed++;
        out->rank[out->ranks++] =
            (struct leat_report_rank){.rank = number,
                                      .node = r->head.node,
                                      .steps = r->steps,
                                      .late_s = late_of(g, r, r->late_s, r->late_wait_s, r->compared),
                                      .late_of = r->compared > 0 ? r->last / r->compared : 0,
                                      .died = r->died};
        if (r->died)
            leat_report_note(out, "rank %d ended before its time, after %.0f steps%s", number, r->steps,
                             lived ? ": what follows is about the others" : "");
    }
    qsort(out->rank, out->ranks, sizeof out->rank[0], by_number);
    if (unnamed > 1)
        leat_report_note(out, "%u processes train without saying which rank they are: counted as ranks of one job",
                         unnamed);
    if (dropped)
        leat_report_note(out, "%zu records or steps were dropped: there were more than could be read in time", dropped);
}

/* Whatever follows from the step cannot be known better than it is. */
static void doubt_interval(const struct leat_gather *g, struct leat_report *out)
{
    const struct leat_report_run *run = leat_report_find(out, LEAT_REPORT_OBSERVED);
    double means[BLOCKS_MAX];
    bool early;
    if (!run)
        return;
    gather_observed(g, &early);
    size_t n = block_means(g, LEAT_REPORT_OBSERVED, early, means);
    double width = (run->step_s.high - run->step_s.low) / run->step_s.mean;
    if (n < FEW_BLOCKS && width > WIDE) /* not: too short for an interval at all */
        leat_report_note(out,
                         "what a step takes is not known well: it was seen in %zu stretches of some %d steps, which "
                         "differ; a longer run narrows the interval, and those of what-if",
                         n, BLOCK_STEPS);
}

/* What the first epoch leaves out, and what the beginnings of the others add. */
static void tell_beginnings(const struct leat_gather *g, struct leat_report *out)
{
    const struct gather_rank *first = gather_first_rank(g);
    const struct sums *head = &g->stretch[STRETCH_HEAD];
    const struct sums *body = &g->stretch[STRETCH_BODY];
    const struct sums *left = &g->stretch[STRETCH_EARLY];
    bool early;
    struct sums all = gather_observed(g, &early);
    if (left->steps > 0 && !early)
        leat_report_note(out,
                         "%.0f steps at the beginning are not counted: workers were ahead of the training, as they "
                         "need not be later",
                         left->steps);
    double extra_s = (head->step_s / head->steps - body->step_s / body->steps) * (double)gather_round(g);
    double share = extra_s / (double)(first ? first->head.epoch : 0) / (all.step_s / all.steps);
    if (first && share > 0.01 && isfinite(share))
        leat_report_note(out,
                         "each beginning of an epoch (of %llu steps) takes %.3g s more: %.1f %% of a step, counted",
                         (unsigned long long)first->head.epoch, extra_s, 100 * share);
}

static void add_timeline(const struct leat_gather *g, struct leat_report *out)
{
    static const char *const names[] = {
        [LEAT_LANE_WAIT] = "wait",          [LEAT_LANE_COPY] = "copy",       [LEAT_LANE_BACKWARD] = "backward",
        [LEAT_LANE_COMM] = "communication", [LEAT_LANE_OPTIM] = "optimizer", [LEAT_LANE_FETCH] = "fetch"};
    static_assert(LEAT_REPORT_STAGES == LEAT_STEP_STAGES, "the report names all stages");
    uint64_t first = LEAT_NEVER;
    for (size_t i = 0; i < g->step_count; i++)
        first = g->steps[i].step.start_ns < first ? g->steps[i].step.start_ns : first;
    for (size_t i = 0; i < g->span_count; i++)
        first = g->spans[i].start_ns < first ? g->spans[i].start_ns : first;
    for (size_t i = 0; i < g->step_count; i++) {
        const struct kept_step *k = &g->steps[i];
        struct leat_report_step *step = &out->step[out->steps++];
        *step = (struct leat_report_step){.rank = k->rank,
                                          .mode = (enum leat_report_mode)(k->step.mode & ~LEAT_LANE_WARMUP),
                                          .start_s = (double)(k->step.start_ns - first) / 1e9};
        for (size_t s = 0; s < LEAT_STEP_STAGES; s++)
            step->stage_s[s] = (double)k->step.ns[s] / 1e9;
    }
    for (size_t i = 0; i < g->span_count; i++) {
        const struct kept_span *k = &g->spans[i];
        struct leat_report_span *span = &out->span[out->spans++];
        if (!k->rank->trains) { /* a launcher, or another program */
            out->spans--;
            continue;
        }
        *span = (struct leat_report_span){.rank = k->rank->head.rank < 0 ? 0 : k->rank->head.rank,
                                          .thread = k->thread,
                                          .start_s = (double)(k->start_ns - first) / 1e9,
                                          .end_s = (double)(k->end_ns - first) / 1e9};
        snprintf(span->what, sizeof span->what, "%s", names[k->kind]);
    }
}

void leat_gather_report(const struct leat_gather *g, struct leat_report *out)
{
    const struct gather_rank *first = gather_first_rank(g);
    unsigned loaders = 0;
    for (unsigned m = 0; first && m < LEAT_REPORT_MODES; m++) {
        bool early;
        if (m == LEAT_REPORT_OBSERVED ? gather_observed(g, &early).steps > 0 : g->mode[m].steps > 0)
            fill_run(g, m, &out->run[out->runs++]);
    }
    add_stalls(g, out);
    add_ranks(g, out);
    add_timeline(g, out);
    tell_beginnings(g, out);
    doubt_interval(g, out);
    leat_links_report(&g->links, out);
    doubt_reads(out);
    if (first && first->head.rank > 0 && first->head.world > first->head.local_world)
        leat_report_note(out, "this is about the ranks of this machine; the report where rank 0 runs has those of all");
    if (first) {
        snprintf(out->accelerator, sizeof out->accelerator, "%s",
                 *first->head.accelerator ? first->head.accelerator : "cpu");
        loaders = first->loaders;
        if (first->flops_missed)
            leat_report_note(out, "the FLOPs leave out operations that torch has no count for (attention)");
        else if (!(first->flops > 0))
            leat_report_note(out, "FLOPs are not known: they are counted in one step at the beginning, of models that "
                                  "are not compiled");
        if (!first->stepper.loaders)
            leat_report_note(out, "no loader was seen: waiting for data, if there is any, is within 'forward' (wrap "
                                  "the iterable in leat.watch())");
        else if (g->alone)
            leat_report_note(out, "no batch was taken from a loader between steps: they are counted from one optimizer "
                                  "step to the next, and fetching and preparing are 0");
        else if (loaders & (loaders - 1))
            leat_report_note(out, "%d loaders were seen; steps are those with a backward pass",
                             __builtin_popcount(loaders));
    }
    if (g->crowded)
        leat_report_note(out, "more processes or threads than are counted (%d ranks, %d threads)", LEAT_REPORT_RANKS,
                         LANES_MAX);
    if (*g->unread)
        leat_report_note(out, "records that could not be read: %s", g->unread);
    if (g->full)
        leat_report_note(out, "%s is full: some threads could not be followed", g->folder);
    for (size_t i = 0; i < g->scripts; i++)
        leat_report_note(out, "%s", g->script[i]);
}

struct leat_gather_window leat_gather_since(struct leat_gather *g)
{
    struct leat_gather_window w = {.late_rank = -1};
    struct sums *s = &g->window;
    w.steps = (size_t)s->steps;
    for (size_t i = 0; i < g->rank_count; i++)
        w.ranks += g->rank[i]->trains && !g->rank[i]->gone;
    if (w.steps) {
        w.step_s = s->step_s / s->steps;
        split(g, s, LEAT_REPORT_OBSERVED, w.part_s);
        for (size_t i = 0; i < g->rank_count; i++) {
            double late = late_of(g, g->rank[i], s->late_s[i], s->late_wait_s[i], s->steps);
            if (late > w.late_s) {
                w.late_s = late;
                w.late_of = s->late[i] / s->steps;
                w.late_rank = g->rank[i]->head.rank >= 0 ? g->rank[i]->head.rank : (int)i;
            }
        }
    }
    *s = (struct sums){0};
    return w;
}
