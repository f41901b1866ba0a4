#include "profile/gather.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "profile/gather_rank.h"
#include "profile/interval.h"

#define LANES_MAX   4096
#define BLOCKS_MAX  8192
#define BLOCK_STEPS 20
#define WARMUP      2              /* steps at the beginning: workers start, memory is allocated, kernels are chosen */
#define SETTLED_NS  (20 * LEAT_MS) /* a record is read when it is this old */
#define TAKE        256

#define KEPT_STEPS 48 /* of each rank and mode, for a time line */

struct lane {
    struct leat_lane *lane; /* NULL: it could not be read */
    char name[64];
    struct leat_lane_head head;
    unsigned thread; /* of its rank: 0 for the rank's own, workers from 1 on */
};

/* Steps in a row of one mode; long rows are cut. */
struct block {
    uint8_t mode;
    size_t row; /* of the same mode, uncut */
    size_t steps;
    double step_s;
    double stage_s[LEAT_STEP_STAGES];
};

struct sums {
    double steps;
    double step_s;
    double stage_s[LEAT_STEP_STAGES];
    double wait_of[LEAT_REPORT_RANKS]; /* waiting that was on the frontier, by rank */
    double late_s[LEAT_REPORT_RANKS];
    double late[LEAT_REPORT_RANKS];
    double samples;
    double bytes;
    double copied;
};

/* What is kept for a time line. */
struct kept_step {
    int rank;
    struct leat_step step;
};
struct kept_span {
    const struct gather_rank *rank;
    unsigned thread;
    uint8_t kind;
    uint64_t start_ns;
    uint64_t end_ns;
};

struct leat_gather {
    const char *folder;
    struct lane *lanes;
    size_t lane_count;
    struct gather_rank *rank[LEAT_REPORT_RANKS];
    size_t rank_count;
    struct block *blocks;
    size_t block_count;
    size_t row;
    struct sums mode[LEAT_REPORT_MODES];
    struct sums window;
    struct kept_step *steps;
    size_t step_count;
    struct kept_span *spans;
    size_t span_count;
    size_t warm;
    double warm_s;
    bool crowded; /* more ranks, lanes or blocks than there is room for */
    char unread[200];
    char script[240]; /* what the observer itself has to say */
};

leat_status leat_gather_open(const char *folder, struct leat_gather **out, struct leat_error *err)
{
    struct leat_gather *g = calloc(1, sizeof *g);
    if (!g || !(g->lanes = calloc(LANES_MAX, sizeof *g->lanes)) ||
        !(g->blocks = calloc(BLOCKS_MAX, sizeof *g->blocks)) ||
        !(g->steps = calloc(LEAT_REPORT_STEPS, sizeof *g->steps)) ||
        !(g->spans = calloc(LEAT_REPORT_SPANS, sizeof *g->spans))) {
        leat_gather_close(g);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to gather records");
    }
    g->folder = folder;
    *out = g;
    return LEAT_OK;
}

void leat_gather_close(struct leat_gather *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->lane_count; i++)
        leat_lane_close(g->lanes[i].lane);
    for (size_t i = 0; i < g->rank_count; i++)
        free(g->rank[i]);
    free(g->lanes);
    free(g->blocks);
    free(g->steps);
    free(g->spans);
    free(g);
}

static struct gather_rank *rank_of(struct leat_gather *g, uint32_t pid, const struct leat_lane_head *head)
{
    for (size_t i = 0; i < g->rank_count; i++) {
        if (g->rank[i]->pid == pid)
            return g->rank[i];
    }
    if (!head || g->rank_count == LEAT_REPORT_RANKS) {
        g->crowded |= head != NULL;
        return NULL;
    }
    struct gather_rank *r = calloc(1, sizeof *r);
    if (!r) {
        g->crowded = true;
        return NULL;
    }
    r->pid = pid;
    r->head = *head;
    g->rank[g->rank_count++] = r;
    return r;
}

static void read_note(struct leat_gather *g, const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    size_t n = fread(g->script, 1, sizeof g->script - 1, file);
    g->script[n] = '\0';
    leat_one_line(g->script);
    fclose(file);
}

static void open_lane(struct leat_gather *g, const char *name)
{
    char path[4096];
    struct leat_error err;
    struct lane *l = &g->lanes[g->lane_count];
    if (snprintf(path, sizeof path, "%s/%s", g->folder, name) >= (int)sizeof path || strlen(name) >= sizeof l->name)
        return;
    if (strncmp(name, "note-", 5) == 0) {
        read_note(g, path);
        return;
    }
    for (size_t i = 0; i < g->lane_count; i++) {
        if (strcmp(g->lanes[i].name, name) == 0)
            return;
    }
    if (g->lane_count == LANES_MAX) {
        g->crowded = true;
        return;
    }
    *l = (struct lane){.lane = NULL};
    memcpy(l->name, name, strlen(name) + 1);
    if (leat_lane_open(path, &l->lane, &err) != LEAT_OK)
        snprintf(g->unread, sizeof g->unread, "%s", err.text);
    g->lane_count++;
}

static leat_status scan(struct leat_gather *g, struct leat_error *err)
{
    DIR *dir = opendir(g->folder);
    if (!dir)
        return leat_fail_errno(err, errno, "%s", g->folder);
    for (const struct dirent *e; (e = readdir(dir));) {
        if (strncmp(e->d_name, "lane-", 5) == 0 || strncmp(e->d_name, "note-", 5) == 0)
            open_lane(g, e->d_name);
    }
    closedir(dir);
    return LEAT_OK;
}

static void add_fetch(struct gather_rank *rank, uint32_t loader, const struct leat_lane_record *r)
{
    struct gather_loader *l = &rank->accounts[loader % GATHER_LOADERS];
    uint64_t ns = r->end_ns - r->start_ns;
    uint64_t prepare = r->value < ns ? r->value : ns;
    l->batches++;
    l->prepare_s += (double)prepare / 1e9;
    l->fetch_s += (double)(ns - prepare) / 1e9;
    l->cpu_s += (double)r->extra / 1e9;
}

/* Spans of the first steps after the warm-up, as many as there is room for on every rank. */
static void keep_span(struct leat_gather *g, struct lane *l, struct gather_rank *rank, const struct leat_lane_record *r)
{
    unsigned ranks = rank->head.local_world ? rank->head.local_world : rank->head.world ? rank->head.world : 1;
    size_t room = LEAT_REPORT_SPANS / (ranks < LEAT_REPORT_RANKS ? ranks : LEAT_REPORT_RANKS);
    bool clock = r->kind == LEAT_LANE_FETCH || !(r->flags & LEAT_LANE_DEVICE) == !rank->stepper.device;
    if (rank->made < WARMUP || rank->made >= WARMUP + KEPT_STEPS || rank->spans >= room || !clock ||
        g->span_count == LEAT_REPORT_SPANS || r->flags & LEAT_LANE_EXHAUSTED)
        return;
    if (l->head.worker && !l->thread)
        l->thread = ++rank->threads;
    g->spans[g->span_count++] = (struct kept_span){rank, l->thread, r->kind, r->start_ns, r->end_ns};
    rank->spans++;
}

static void keep_step(struct leat_gather *g, const struct gather_rank *rank, size_t ranks, const struct leat_step *step)
{
    size_t room = LEAT_REPORT_STEPS / LEAT_REPORT_MODES / ranks;
    uint8_t mode = step->mode & ~LEAT_LANE_WARMUP;
    if (g->mode[mode].steps < (double)(room < KEPT_STEPS ? room : KEPT_STEPS) && g->step_count < LEAT_REPORT_STEPS)
        g->steps[g->step_count++] = (struct kept_step){rank->head.rank < 0 ? 0 : rank->head.rank, *step};
}

static void add_record(struct leat_gather *g, struct lane *l, const struct leat_lane_record *r)
{
    struct leat_step step;
    if (r->kind == LEAT_LANE_FETCH) {
        struct gather_rank *rank =
            l->head.worker ? rank_of(g, l->head.parent, NULL) : rank_of(g, l->head.pid, &l->head);
        if (rank) {
            add_fetch(rank, l->head.worker ? l->head.loader : r->loader, r);
            keep_span(g, l, rank, r);
        }
        return;
    }
    struct gather_rank *rank = l->head.worker ? NULL : rank_of(g, l->head.pid, &l->head);
    if (!rank)
        return;
    if (r->kind == LEAT_LANE_WAIT)
        rank->loaders |= 1U << (r->loader % GATHER_LOADERS);
    keep_span(g, l, rank, r);
    if (!leat_stepper_take(&rank->stepper, r, &step))
        return;
    rank->trains = true;
    rank->made++;
    rank->loader = step.loader;
    if (rank->queued == GATHER_QUEUE) {
        rank->first = (rank->first + 1) % GATHER_QUEUE;
        rank->queued--;
        rank->skipped++;
    }
    rank->queue[(rank->first + rank->queued++) % GATHER_QUEUE] = step;
}

static bool alive(uint32_t pid)
{
    return kill((pid_t)pid, 0) == 0 || errno == EPERM;
}

/* Ranks of this machine that train together and are still there, or have steps left. */
static size_t present(struct leat_gather *g, struct gather_rank **out, bool all)
{
    size_t n = 0;
    unsigned expected = 1;
    for (size_t i = 0; i < g->rank_count; i++) {
        struct gather_rank *r = g->rank[i];
        if (!r->trains)
            continue;
        unsigned local = r->head.local_world ? r->head.local_world : r->head.world;
        expected = local > expected ? local : expected;
        if (r->queued || !r->gone)
            out[n++] = r;
    }
    size_t left = 0; /* trained, and ended */
    for (size_t i = 0; i < g->rank_count; i++)
        left += g->rank[i]->trains && g->rank[i]->gone && !g->rank[i]->queued;
    return all || n + left >= expected ? n : 0;
}

static void add_block(struct leat_gather *g, uint8_t mode, const struct leat_frontier *f)
{
    struct block *b = &g->blocks[g->block_count ? g->block_count - 1 : 0];
    if (!g->block_count || b->mode != mode || b->row != g->row || b->steps == BLOCK_STEPS) {
        if (g->block_count == BLOCKS_MAX)
            return; /* the sums go on; the interval is that of the first 160,000 steps */
        b = &g->blocks[g->block_count++];
        *b = (struct block){.mode = mode, .row = g->row};
    }
    b->steps++;
    b->step_s += f->step_s;
    for (size_t i = 0; i < LEAT_STEP_STAGES; i++)
        b->stage_s[i] += f->s[i];
}

static void add_sums(struct sums *s, const struct leat_frontier *f, struct gather_rank *const *ranks, size_t n,
                     const struct leat_step *steps, struct leat_gather *g)
{
    s->steps++;
    s->step_s += f->step_s;
    for (size_t i = 0; i < LEAT_STEP_STAGES; i++)
        s->stage_s[i] += f->s[i];
    for (size_t i = 0; i < g->rank_count; i++) {
        if (g->rank[i] == ranks[f->rank[LEAT_STEP_WAIT]])
            s->wait_of[i] += f->s[LEAT_STEP_WAIT];
        if (n > 1 && g->rank[i] == ranks[f->straggler]) {
            s->late_s[i] += f->late_s;
            s->late[i]++;
        }
    }
    s->samples += (double)steps[0].samples;
    s->bytes += (double)steps[0].bytes;
    s->copied += (double)steps[0].copied_bytes;
}

static void add_step(struct leat_gather *g, struct gather_rank *const *ranks, size_t n, const struct leat_step *steps)
{
    struct leat_frontier f = leat_frontier_of(steps, n);
    uint8_t mode = steps[0].mode & ~LEAT_LANE_WARMUP;
    for (size_t i = 0; i < n; i++)
        ranks[i]->steps++;
    if (g->warm < WARMUP) {
        g->warm++;
        g->warm_s += f.step_s;
        return;
    }
    if (steps[0].mode & LEAT_LANE_WARMUP || mode >= LEAT_REPORT_MODES) {
        g->row++;
        return;
    }
    for (size_t i = 0; i < n; i++)
        keep_step(g, ranks[i], n, &steps[i]);
    add_sums(&g->mode[mode], &f, ranks, n, steps, g);
    if (mode == LEAT_REPORT_OBSERVED)
        add_sums(&g->window, &f, ranks, n, steps, g);
    add_block(g, mode, &f);
    if (n > 1) {
        ranks[f.straggler]->late_s += f.late_s;
        ranks[f.straggler]->last++;
    }
}

static void match(struct leat_gather *g, bool all)
{
    struct gather_rank *ranks[LEAT_REPORT_RANKS];
    struct leat_step steps[LEAT_REPORT_RANKS];
    for (;;) {
        size_t n = present(g, ranks, all);
        size_t ready = 0;
        for (size_t i = 0; i < n; i++) {
            if (ranks[i]->queued)
                ranks[ready++] = ranks[i];
            else if (!all && !ranks[i]->gone)
                return; /* its step is not over yet */
        }
        if (!ready)
            return;
        for (size_t i = 0; i < ready; i++) {
            steps[i] = ranks[i]->queue[ranks[i]->first];
            ranks[i]->first = (ranks[i]->first + 1) % GATHER_QUEUE;
            ranks[i]->queued--;
        }
        add_step(g, ranks, ready, steps);
    }
}

leat_status leat_gather_poll(struct leat_gather *g, bool all, struct leat_error *err)
{
    struct leat_lane_record records[TAKE];
    leat_status rc = scan(g, err);
    uint64_t until = all ? LEAT_NEVER : leat_now_ns() - SETTLED_NS;
    if (rc != LEAT_OK)
        return rc;
    bool gone[LEAT_REPORT_RANKS];
    for (size_t i = 0; i < g->rank_count; i++) /* asked before the last records are taken */
        gone[i] = all || !alive(g->rank[i]->pid);
    size_t known = g->rank_count;
    /* Ranks first: a worker's records need the rank that they are for. */
    for (unsigned workers = 0; workers < 2; workers++) {
        for (size_t i = 0; i < g->lane_count; i++) {
            struct lane *l = &g->lanes[i];
            if (!l->lane)
                continue;
            l->head = leat_lane_look(l->lane);
            if (l->head.worker != (workers == 1))
                continue;
            for (size_t n; (n = leat_lane_take(l->lane, until, records, TAKE));) {
                for (size_t k = 0; k < n; k++)
                    add_record(g, l, &records[k]);
            }
            struct gather_rank *rank = l->head.worker ? NULL : rank_of(g, l->head.pid, NULL);
            if (rank)
                rank->head = l->head;
        }
    }
    for (size_t i = 0; i < known; i++) {
        struct gather_rank *r = g->rank[i];
        r->gone = r->gone || gone[i];
        r->died =
            r->gone && (r->head.state == LEAT_LANE_RAISED || (r->head.state == LEAT_LANE_RUNNING && !alive(r->pid)));
    }
    match(g, all);
    return LEAT_OK;
}

/* Waiting on the frontier, divided by what each rank's loader did; batches from memory are neither fetched nor
 * prepared. */
static void split(const struct leat_gather *g, const struct sums *s, bool replayed, double part_s[LEAT_REPORT_PARTS])
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
    for (size_t i = 0; i < g->rank_count && !replayed; i++) {
        struct gather_shares share = gather_shares_of(g->rank[i], step_s, wait_s);
        double waited = s->wait_of[i] / s->steps;
        part_s[LEAT_REPORT_FETCH] += share.fetch * waited;
        part_s[LEAT_REPORT_PREPARE] += share.prepare * waited;
        part_s[LEAT_REPORT_INPUT] -= (share.fetch + share.prepare) * waited;
    }
    if (part_s[LEAT_REPORT_INPUT] < 1e-9)
        part_s[LEAT_REPORT_INPUT] = 0; /* what rounding left */
}

static const struct gather_rank *first_rank(const struct leat_gather *g)
{
    const struct gather_rank *first = NULL;
    for (size_t i = 0; i < g->rank_count; i++) {
        if (g->rank[i]->trains && (!first || g->rank[i]->head.rank < first->head.rank))
            first = g->rank[i];
    }
    return first;
}

static void fill_run(const struct leat_gather *g, unsigned mode, struct leat_report_run *run)
{
    const struct sums *s = &g->mode[mode];
    const struct gather_rank *first = first_rank(g);
    const struct gather_loader *l = &first->accounts[first->loader % GATHER_LOADERS];
    unsigned ranks = 0;
    double means[BLOCKS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < g->rank_count; i++)
        ranks += g->rank[i]->trains;
    leat_report_run_init(run);
    run->mode = (enum leat_report_mode)mode;
    run->nodes = 1;
    run->gpus = ranks;
    if (mode == LEAT_REPORT_ALONE || mode == LEAT_REPORT_SINGLE)
        run->gpus = 1;
    else if (first->head.local_world && first->head.world > first->head.local_world)
        run->nodes = first->head.world / first->head.local_world;
    run->workers = first->head.workers;
    run->cores = leat_cpu_count();
    run->device = first->stepper.device;
    run->steps = s->steps;
    run->batch = s->samples / s->steps;
    run->batch_bytes = s->bytes / s->steps;
    run->copied_bytes = s->copied / s->steps;
    for (size_t i = 0; i < g->block_count; i++) {
        const struct block *b = &g->blocks[i];
        if (b->mode == mode && b->steps * 2 >= BLOCK_STEPS)
            means[n++] = b->step_s / (double)b->steps;
    }
    run->step_s = leat_interval_of(means, n);
    run->step_s.mean = s->step_s / s->steps;
    split(g, s, mode != LEAT_REPORT_OBSERVED, run->part_s);
    run->fetch_s = l->batches > 0 ? l->fetch_s / l->batches : NAN;
    run->prepare_s = l->batches > 0 ? l->prepare_s / l->batches : NAN;
    run->prepare_cpu_s = l->batches > 0 && l->cpu_s > 0 ? l->cpu_s / l->batches : NAN;
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
            if (g->blocks[k].mode == a) {
                sum += g->blocks[k].step_s / (double)g->blocks[k].steps;
                sides++;
            }
        }
        for (size_t k = i + 1; k < g->block_count; k++) {
            if (g->blocks[k].mode == a) {
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

static void add_stall(struct leat_report *out, const char *cause, struct leat_report_time s, int a, int b)
{
    struct leat_report_stall *stall = &out->stall[out->stalls];
    if (out->stalls == LEAT_REPORT_STALLS || isnan(s.mean))
        return;
    *stall = (struct leat_report_stall){.s = s, .share = s.mean / out->run[a].step_s.mean, .from = {a, b}};
    snprintf(stall->cause, sizeof stall->cause, "%s", cause);
    out->stalls++;
}

static void add_stalls(const struct leat_gather *g, struct leat_report *out)
{
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
    if (run[LEAT_REPORT_OBSERVED] >= 0 && run[LEAT_REPORT_SYNTHETIC] >= 0)
        add_stall(out, "data", paired(g, LEAT_REPORT_OBSERVED, LEAT_REPORT_SYNTHETIC), run[LEAT_REPORT_OBSERVED],
                  run[LEAT_REPORT_SYNTHETIC]);
    if (run[LEAT_REPORT_SYNTHETIC] >= 0 && run[LEAT_REPORT_ALONE] >= 0)
        add_stall(out, "communication", paired(g, LEAT_REPORT_SYNTHETIC, LEAT_REPORT_ALONE), run[LEAT_REPORT_SYNTHETIC],
                  run[LEAT_REPORT_ALONE]);
}

static void add_ranks(const struct leat_gather *g, struct leat_report *out)
{
    unsigned unnamed = 0;
    size_t dropped = 0;
    for (size_t i = 0; i < g->rank_count; i++) {
        const struct gather_rank *r = g->rank[i];
        dropped += r->head.dropped + r->skipped;
        if (!r->trains && !(r->head.rank >= 0 && r->died))
            continue;
        int number = r->head.rank >= 0 ? r->head.rank : (int)unnamed++;
        out->rank[out->ranks++] = (struct leat_report_rank){.rank = number,
                                                            .steps = r->steps,
                                                            .late_s = r->steps > 0 ? r->late_s / r->steps : 0,
                                                            .late_of = r->steps > 0 ? r->last / r->steps : 0,
                                                            .died = r->died};
        if (r->died)
            leat_report_note(out, "rank %d ended before its time, after %.0f steps: what follows is about the others",
                             number, r->steps);
    }
    if (unnamed > 1)
        leat_report_note(out, "%u processes train without saying which rank they are: counted as ranks of one job",
                         unnamed);
    if (dropped)
        leat_report_note(out, "%zu records or steps were dropped: there were more than could be read in time", dropped);
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
    const struct gather_rank *first = first_rank(g);
    unsigned loaders = 0;
    for (unsigned m = 0; first && m < LEAT_REPORT_MODES; m++) {
        if (g->mode[m].steps > 0)
            fill_run(g, m, &out->run[out->runs++]);
    }
    add_stalls(g, out);
    add_ranks(g, out);
    add_timeline(g, out);
    if (first) {
        snprintf(out->accelerator, sizeof out->accelerator, "%s",
                 *first->head.accelerator ? first->head.accelerator : "cpu");
        loaders = first->loaders;
        if (!first->stepper.loaders)
            leat_report_note(out, "no loader was seen: waiting for data, if there is any, is within 'forward' (wrap "
                                  "the iterable in leat.watch())");
        else if (loaders & (loaders - 1))
            leat_report_note(out, "%d loaders were seen; steps are those with a backward pass",
                             __builtin_popcount(loaders));
    }
    if (g->crowded)
        leat_report_note(out, "more processes or threads than are counted (%d ranks, %d threads)", LEAT_REPORT_RANKS,
                         LANES_MAX);
    if (*g->unread)
        leat_report_note(out, "records that could not be read: %s", g->unread);
    if (*g->script)
        leat_report_note(out, "%s", g->script);
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
        split(g, s, false, w.part_s);
        for (size_t i = 0; i < g->rank_count; i++) {
            double late = s->late_s[i] / s->steps;
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
