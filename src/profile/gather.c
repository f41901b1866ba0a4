#include "profile/gather.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profile/gather_own.h"

#define TAKE 256
/* How long a lane stays after its thread: on other machines the first rank reads it, too, twice a second. */
#define STAYS_NS (2 * LEAT_S)

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

static struct gather_rank *rank_of(struct leat_gather *g, unsigned node, uint32_t pid,
                                   const struct leat_lane_head *head)
{
    for (size_t i = 0; i < g->rank_count; i++) {
        if (g->rank[i]->pid == pid && g->rank[i]->head.node == node)
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

/* Each sentence once, whichever process says it. */
static void read_note(struct leat_gather *g, const char *path)
{
    char line[sizeof g->script[0]];
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        size_t i = 0;
        bool whole = strchr(line, '\n') != NULL;
        line[strcspn(line, "\n")] = '\0';
        for (int c = whole ? '\n' : ' '; c != '\n' && c != EOF;)
            c = fgetc(file);
        leat_one_line(line);
        while (i < g->scripts && strcmp(g->script[i], line) != 0)
            i++;
        if (*line && i == g->scripts && i < SCRIPT_NOTES)
            memcpy(g->script[g->scripts++], line, sizeof line);
    }
    if (file)
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
        g->full |= strncmp(e->d_name, "full-", 5) == 0;
        if (strncmp(e->d_name, "lane-", 5) == 0 || strncmp(e->d_name, "note-", 5) == 0)
            open_lane(g, e->d_name);
    }
    closedir(dir);
    return LEAT_OK;
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

static void add_to_queue(struct gather_rank *rank, const struct leat_step *step)
{
    rank->trains = true;
    rank->made++;
    if (rank->made > WARMUP) /* before that, a script may look at a batch of any loader */
        rank->trained |= step->loaders;
    if (rank->queued == GATHER_QUEUE) {
        rank->first = (rank->first + 1) % GATHER_QUEUE;
        rank->queued--;
        rank->skipped++;
    }
    rank->queue[(rank->first + rank->queued++) % GATHER_QUEUE] = *step;
}

static void add_record(struct leat_gather *g, struct lane *l, const struct leat_lane_record *r)
{
    struct leat_step step;
    if (r->kind == LEAT_LANE_LINK) {
        leat_links_add(&g->links, r);
        return;
    }
    if (r->kind >= LEAT_LANE_FETCH) {
        struct gather_rank *rank = l->head.worker ? rank_of(g, l->head.node, l->head.parent, NULL)
                                                  : rank_of(g, l->head.node, l->head.pid, &l->head);
        if (rank) {
            gather_rank_tell(rank, l->head.worker ? l->head.loader : r->loader, r);
            bool saved = r->kind == LEAT_LANE_SAVE || r->kind == LEAT_LANE_LOOK;
            rank->stepper.step.saved |= saved && !l->head.worker;
            if (r->kind == LEAT_LANE_FETCH)
                keep_span(g, l, rank, r);
        }
        return;
    }
    struct gather_rank *rank = l->head.worker ? NULL : rank_of(g, l->head.node, l->head.pid, &l->head);
    if (!rank)
        return;
    if (r->kind == LEAT_LANE_WAIT)
        rank->loaders |= 1U << (r->loader % GATHER_LOADERS);
    keep_span(g, l, rank, r);
    if (leat_stepper_take(&rank->stepper, r, &step))
        add_to_queue(rank, &step);
    while (leat_stepper_held(&rank->stepper, &step))
        add_to_queue(rank, &step);
}

/* Of another machine it is known by what it said last. */
static bool alive(const struct gather_rank *r)
{
    if (r->head.node)
        return r->head.state == LEAT_LANE_RUNNING;
    return kill((pid_t)r->pid, 0) == 0 || errno == EPERM;
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
        local = r->head.expect ? r->head.expect : local;
        expected = local > expected ? local : expected;
        if (r->queued || !r->gone)
            out[n++] = r;
    }
    size_t left = 0; /* trained, and ended */
    for (size_t i = 0; i < g->rank_count; i++)
        left += g->rank[i]->trains && g->rank[i]->gone && !g->rank[i]->queued;
    return all || n + left >= expected ? n : 0;
}

/* Whole rounds of a loader's workers, about BLOCK_STEPS: with sixteen of them one round, for two would leave half as
 * many blocks, and of few the interval is wide. */
static size_t block_steps(const struct leat_gather *g, uint8_t mode)
{
    bool reads = mode == LEAT_REPORT_OBSERVED || mode == LEAT_REPORT_CACHED || mode == LEAT_REPORT_COLD;
    size_t round = reads ? gather_round(g) : 1;
    size_t rounds = (BLOCK_STEPS + round / 2) / round;
    return rounds ? rounds * round : round;
}

void gather_add_block(struct leat_gather *g, uint8_t mode, enum stretch stretch, const struct sums *s)
{
    struct block *b = &g->blocks[g->block_count ? g->block_count - 1 : 0];
    if (!g->block_count || b->mode != mode || b->row != g->row || b->stretch != (uint8_t)stretch ||
        b->steps >= block_steps(g, mode)) {
        if (g->block_count == BLOCKS_MAX)
            return; /* the sums go on; the interval is that of the first 160,000 steps */
        b = &g->blocks[g->block_count++];
        *b = (struct block){.mode = mode, .stretch = (uint8_t)stretch, .row = g->row};
    }
    b->steps += (size_t)s->steps;
    b->step_s += s->step_s;
    for (size_t i = 0; i < LEAT_STEP_STAGES; i++)
        b->stage_s[i] += s->stage_s[i];
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
            s->late_wait_s[i] += f->late_wait_s;
            s->late[i]++;
        }
    }
    s->batches += (double)steps[0].batches;
    s->taken += (double)steps[0].taken;
    if (steps[0].first) {
        s->first++;
        s->first_wait_s += f->s[LEAT_STEP_WAIT];
    }
    double waited = 0; /* for batches that were all there */
    for (size_t i = 0; i < n && waited >= 0; i++)
        waited = steps[i].empty ? -1 : fmax(waited, (double)steps[i].ns[LEAT_STEP_WAIT] / 1e9);
    if (waited > 0 && (!(s->handover_s > 0) || waited < s->handover_s))
        s->handover_s = waited;
    s->samples += (double)steps[0].samples;
    s->bytes += (double)steps[0].bytes;
    s->copied += (double)steps[0].copied_bytes;
}

/* Machines have clocks of their own, and so have GPUs. */
static bool one_clock(struct gather_rank *const *ranks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ranks[i]->stepper.device || ranks[i]->head.node != ranks[0]->head.node)
            return false;
    }
    return true;
}

/* Steps without a batch, before a training that takes batches, were something else: a trial on the first batch. */
static void forget_steps(struct leat_gather *g)
{
    memset(g->mode, 0, sizeof g->mode);
    memset(g->stretch, 0, sizeof g->stretch);
    g->window = g->round = (struct sums){0};
    g->round_of = STRETCH_EARLY;
    g->cut = g->settled = false;
    g->block_count = g->step_count = g->warm = 0;
    g->warm_s = 0;
    for (size_t i = 0; i < g->rank_count; i++) {
        struct gather_rank *r = g->rank[i];
        r->compared = r->late_s = r->late_wait_s = r->last = 0;
    }
}

static void add_step(struct leat_gather *g, struct gather_rank *const *ranks, size_t n, const struct leat_step *steps)
{
    struct leat_frontier f = leat_frontier_of(steps, n, one_clock(ranks, n));
    struct sums one = {0};
    uint8_t mode = steps[0].mode & ~LEAT_LANE_WARMUP;
    if (steps[0].loader && g->alone)
        forget_steps(g);
    g->alone = !steps[0].loader;
    for (size_t i = 0; i < n; i++)
        ranks[i]->steps++;
    if (steps[0].first) {
        g->epoch++;
        g->in_epoch = 0;
    }
    size_t place = g->in_epoch++;
    if (g->warm < WARMUP) {
        g->warm++;
        g->warm_s += f.step_s;
        return;
    }
    bool saved = false;
    bool empty = false;
    for (size_t i = 0; i < n; i++) {
        saved |= steps[i].saved;
        empty |= steps[i].empty;
    }
    bool waited = g->saved; /* in the step after it the other ranks wait for the one that saved */
    g->saved = saved;
    saved = (saved || waited) && mode != LEAT_REPORT_OBSERVED;
    if (steps[0].mode & LEAT_LANE_WARMUP || mode >= LEAT_REPORT_MODES || saved) {
        gather_observe_cut(g);
        g->row++;
        return;
    }
    for (size_t i = 0; i < n; i++)
        keep_step(g, ranks[i], n, &steps[i]);
    add_sums(&one, &f, ranks, n, steps, g);
    add_sums(&g->mode[mode], &f, ranks, n, steps, g);
    if (mode == LEAT_REPORT_OBSERVED) {
        add_sums(&g->window, &f, ranks, n, steps, g);
        gather_observe(g, &one, steps[0].first, empty, place);
    } else {
        gather_observe_cut(g);
        gather_add_block(g, mode, STRETCH_BODY, &one);
    }
    for (size_t i = 0; i < n && mode == LEAT_REPORT_OBSERVED; i++)
        ranks[i]->compared++;
    if (n > 1 && mode == LEAT_REPORT_OBSERVED) {
        ranks[f.straggler]->late_s += f.late_s;
        ranks[f.straggler]->late_wait_s += f.late_wait_s;
        ranks[f.straggler]->last++;
    }
}

static struct leat_step pop(struct gather_rank *r)
{
    struct leat_step step = r->queue[r->first];
    r->first = (r->first + 1) % GATHER_QUEUE;
    r->queued--;
    return step;
}

/* Steps of a rank for which the others stand still have no partners. */
static void take_single(struct leat_gather *g)
{
    for (size_t i = 0; i < g->rank_count; i++) {
        struct gather_rank *r = g->rank[i];
        while (r->queued && (r->queue[r->first].mode & ~LEAT_LANE_WARMUP) == LEAT_REPORT_SINGLE) {
            struct leat_step step = pop(r);
            add_step(g, &r, 1, &step);
        }
    }
}

static void match(struct leat_gather *g, bool all)
{
    struct gather_rank *ranks[LEAT_REPORT_RANKS];
    struct leat_step steps[LEAT_REPORT_RANKS];
    for (;;) {
        take_single(g);
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
        for (size_t i = 0; i < ready; i++)
            steps[i] = pop(ranks[i]);
        add_step(g, ranks, ready, steps);
    }
}

/* Processor time of the ranks that train and of their workers, each process once. */
static void ask_usage(struct leat_gather *g, uint64_t now_ns)
{
    if (!g->mode[LEAT_REPORT_OBSERVED].steps || (g->cpu_last_ns && now_ns - g->cpu_last_ns < LEAT_S / 2))
        return;
    bool begun = g->cpu_at_ns != 0;
    bool asked = false;
    for (size_t i = 0; i < g->lane_count; i++) {
        struct lane *l = &g->lanes[i];
        const struct gather_rank *rank = rank_of(g, l->head.node, l->head.worker ? l->head.parent : l->head.pid, NULL);
        bool first = true; /* of the lanes of this process */
        for (size_t k = 0; k < i && first; k++)
            first = g->lanes[k].head.pid != l->head.pid;
        double cpu_s = l->lane && first && rank && rank->trains && !l->head.node ? gather_cpu_s(l->head.pid) : NAN;
        if (isnan(cpu_s))
            continue; /* gone: what it had used by then counts */
        asked = true;
        if (!begun)
            l->cpu_first_s = cpu_s;
        l->cpu_s = cpu_s;
    }
    if (asked) {
        g->cpu_at_ns = begun ? g->cpu_at_ns : now_ns;
        g->cpu_last_ns = now_ns;
    }
}

/* Whether the thread that writes a lane has ended: it says so itself, or it was there and is no more. */
static bool has_ended(struct lane *l)
{
    char path[64];
    if (l->head.state != LEAT_LANE_RUNNING)
        return true;
    if (l->head.node)
        return false;
    snprintf(path, sizeof path, "/proc/%u/task/%u", l->head.pid, l->head.tid);
    bool there = access(path, F_OK) == 0;
    l->lived |= there; /* never, where another namespace numbers processes otherwise */
    return !there && l->lived;
}

/* Gives the memory of a lane back, and its place to another. */
static void drop_lane(struct leat_gather *g, size_t at)
{
    struct lane *l = &g->lanes[at];
    struct lane *heir = NULL; /* another lane of a process that goes on: the process's time is counted there */
    char path[4096];
    for (size_t i = at + 1; i < g->lane_count && !heir; i++)
        heir = g->lanes[i].head.pid == l->head.pid ? &g->lanes[i] : NULL;
    if (heir && l->cpu_s > 0) {
        heir->cpu_s = l->cpu_s;
        heir->cpu_first_s = l->cpu_first_s;
    } else {
        g->cpu_past_s += l->cpu_s - l->cpu_first_s;
    }
    g->dropped += l->head.dropped;
    if (snprintf(path, sizeof path, "%s/%s", g->folder, l->name) < (int)sizeof path)
        unlink(path);
    leat_lane_close(l->lane);
    memmove(l, l + 1, (g->lane_count - at - 1) * sizeof *l);
    g->lane_count--;
}

/* Workers are started for every epoch, and threads for every task: what they leave would fill shared memory, which the
 * script needs itself. The lane of a rank's first thread stays: its head is the rank's. */
static void drop_ended(struct leat_gather *g, uint64_t now_ns)
{
    for (size_t i = g->lane_count; i-- > 0;) {
        struct lane *l = &g->lanes[i];
        if (!l->lane || (!l->head.worker && l->head.pid == l->head.tid))
            continue;
        if (!has_ended(l))
            l->done_ns = 0;
        else if (!l->done_ns)
            l->done_ns = now_ns;
        else if (now_ns - l->done_ns >= STAYS_NS)
            drop_lane(g, i);
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
        gone[i] = all || !alive(g->rank[i]);
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
            struct gather_rank *rank = l->head.worker ? NULL : rank_of(g, l->head.node, l->head.pid, NULL);
            if (rank)
                rank->head = l->head;
        }
    }
    for (size_t i = 0; i < known; i++) {
        struct gather_rank *r = g->rank[i];
        r->gone = r->gone || gone[i];
        struct leat_step last;
        r->died = r->gone && (r->head.state == LEAT_LANE_RAISED || (r->head.state == LEAT_LANE_RUNNING && !alive(r)));
        if (r->gone && leat_stepper_end(&r->stepper, &last) && !r->died) /* what it died in is no step */
            add_to_queue(r, &last);
        while (r->gone && leat_stepper_held(&r->stepper, &last))
            add_to_queue(r, &last);
    }
    match(g, all);
    ask_usage(g, leat_now_ns());
    if (!all)
        drop_ended(g, leat_now_ns());
    return LEAT_OK;
}
