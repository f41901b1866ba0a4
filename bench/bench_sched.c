/* What the scheduler's decisions cost, as JSON: CPU time for a chunk that comes and for an eviction. Nothing is read:
 * the performer answers every action at once, in order. bench_sched.py runs it and prints the table.
 *
 * bench_sched CHUNK_BYTES SAMPLES_PER_CHUNK BATCH CHUNKS_IN_MEMORY LANES POLICY */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/random.h"
#include "sched/cursor.h"
#include "sched/inside.h"

#define RING 65536u /* what is outstanding at most; a power of two */

struct answer {
    enum { CAME, PREPARED, FREE } kind;
    void *what;
    uint32_t slot;
};

struct lane {
    struct leat_cursor *cursor;
    struct leat_sched_lane *lane;
};

struct plan {
    struct leat_sched_batch batch;
    struct leat_cursor_batch planned;
};

static struct answer ring[RING];
static uint64_t head;
static uint64_t tail;
static uint64_t planning_ns;
static uint64_t event_ns; /* from one to the next: a chunk at 2 GB/s */
static uint64_t fetches;
static uint64_t drops;

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static _Noreturn void die(const char *text)
{
    fprintf(stderr, "bench_sched: %s\n", text);
    exit(1);
}

static void push(struct answer a)
{
    if (tail - head == RING)
        die("too much is outstanding");
    ring[tail++ % RING] = a;
}

static bool do_fetch(void *user, struct leat_sched_chunk *c, const struct leat_sched_fetch *how)
{
    (void)user, (void)how;
    fetches++;
    push((struct answer){.kind = CAME, .what = c});
    return true;
}

static void do_drop(void *user, struct leat_sched_chunk *c)
{
    (void)user, (void)c;
    drops++;
}

static void do_gone(void *user, struct leat_sched_chunk *c)
{
    (void)user, (void)c;
}

static bool do_ahead(void *user, struct leat_sched_lane *lane, uint32_t *number, uint64_t *stage)
{
    struct lane *l = leat_sched_lane_user(lane);
    (void)user;
    return leat_cursor_ahead(l->cursor, number, stage);
}

static struct leat_sched_batch *do_plan(void *user, struct leat_sched_lane *lane)
{
    struct lane *l = leat_sched_lane_user(lane);
    struct plan *p = calloc(1, sizeof *p);
    struct leat_sched_view view;
    uint64_t from = cpu_ns();
    (void)user;
    if (!p || leat_cursor_next(l->cursor, &p->planned, NULL) != LEAT_OK)
        die("no plan");
    p->batch.chunks = p->planned.chunks;
    p->batch.chunks_n = p->planned.chunks_n;
    p->batch.stage = p->planned.stage;
    p->batch.user = p;
    leat_cursor_view(l->cursor, &view);
    leat_sched_lane_view(lane, &view);
    planning_ns += cpu_ns() - from;
    return &p->batch;
}

static void do_prepare(void *user, struct leat_sched_batch *b)
{
    (void)user;
    push((struct answer){.kind = PREPARED, .what = b});
}

static void free_plan(struct leat_sched_batch *b)
{
    struct plan *p = b->user;
    leat_cursor_batch_free(&p->planned);
    free(p);
}

static bool do_publish(void *user, struct leat_sched_batch *b)
{
    (void)user;
    push((struct answer){.kind = FREE, .what = b->lane, .slot = b->slot});
    free_plan(b);
    return true;
}

static void do_fail(void *user, struct leat_sched_batch *b, struct leat_sched_chunk *c)
{
    (void)user, (void)b, (void)c;
    die("a lane failed");
}

static const struct leat_sched_ops ops = {.fetch = do_fetch,
                                          .drop = do_drop,
                                          .gone = do_gone,
                                          .plan = do_plan,
                                          .ahead = do_ahead,
                                          .prepare = do_prepare,
                                          .publish = do_publish,
                                          .fail = do_fail};

static uint64_t longest_ns; /* of all steps since it was set to 0, without planning */

static void step(struct leat_sched *s, uint64_t now)
{
    uint64_t began = cpu_ns();
    uint64_t plans = planning_ns;
    leat_sched_step(s, now);
    uint64_t took = cpu_ns() - began - (planning_ns - plans);
    longest_ns = took > longest_ns ? took : longest_ns;
}

/* Steps until something is outstanding. */
static void steps(struct leat_sched *s, uint64_t *now)
{
    step(s, *now);
    while (head == tail && leat_sched_wake_ns(s) != LEAT_SCHED_NEVER)
        step(s, *now = leat_sched_wake_ns(s));
    if (head == tail)
        die("stuck");
}

/* The next answer, and a step. */
static void turn(struct leat_sched *s, uint64_t *now)
{
    struct answer a = ring[head++ % RING];
    *now += event_ns;
    if (a.kind == CAME)
        leat_sched_arrived(s, a.what, *now);
    else if (a.kind == PREPARED)
        leat_sched_prepared(a.what);
    else
        leat_sched_slot_free(a.what, a.slot, *now);
    steps(s, now);
}

/* Evictions alone: chunks that are not there are brought, one goes for each, and they arrive. */
static double eviction_us(struct leat_sched *s, struct lane *lane, struct leat_sched_set *set, uint64_t *now)
{
    uint64_t spent = 0;
    uint64_t before = drops;
    while (head != tail) { /* nothing but what is brought here may be outstanding */
        struct answer a = ring[head++ % RING];
        if (a.kind == CAME)
            leat_sched_arrived(s, a.what, *now);
    }
    for (uint32_t i = 0, n = 0; n < 20000 && i < set->chunks; i++) {
        struct leat_sched_chunk *c = leat_sched_touch(set, i);
        if (!c)
            die("no memory");
        if (c->state != LEAT_SCHED_ABSENT)
            continue;
        struct leat_sched_call call = {.lane = lane->lane, .urgent = true, .ranges = 1};
        uint64_t from = cpu_ns();
        if (!leat_sched_bring(c, &call))
            die("no room");
        spent += cpu_ns() - from;
        leat_sched_arrived(s, ring[head++ % RING].what, ++*now);
        n++;
    }
    return (double)spent / 1e3 / (double)(drops - before);
}

int main(int argc, char **argv)
{
    struct lane lanes[64] = {0};
    if (argc != 7)
        die("CHUNK_BYTES SAMPLES BATCH CHUNKS_IN_MEMORY LANES POLICY");
    uint32_t bytes = (uint32_t)strtoul(argv[1], NULL, 10);
    uint32_t samples = (uint32_t)strtoul(argv[2], NULL, 10);
    uint32_t batch = (uint32_t)strtoul(argv[3], NULL, 10);
    uint32_t kept = (uint32_t)strtoul(argv[4], NULL, 10);
    uint32_t n = (uint32_t)strtoul(argv[5], NULL, 10);
    uint32_t chunks = 2 * kept;
    uint8_t *names = malloc((size_t)chunks * LEAT_SCHED_NAME);
    uint32_t *sizes = malloc(chunks * sizeof *sizes);
    uint32_t *counts = malloc(chunks * sizeof *counts);
    struct leat_sched_opts opts = {.ram = (uint64_t)kept * bytes, .ops = &ops};
    struct leat_sched *s;
    struct leat_sched_set *set;
    uint64_t now = 1;
    event_ns = bytes / 2;
    if (!names || !sizes || !counts || n > 64 || !leat_sched_policy_parse(argv[6], &opts.policy))
        die("bad arguments");
    for (uint32_t i = 0; i < chunks; i++) {
        for (uint32_t k = 0; k < 4; k++) {
            uint64_t part = leat_random_u64(1, k, i);
            memcpy(names + (size_t)i * LEAT_SCHED_NAME + 8 * (size_t)k, &part, sizeof part);
        }
        sizes[i] = bytes;
        counts[i] = samples;
    }
    struct leat_sched_set_opts so = {.names = names, .sizes = sizes, .chunks = chunks};
    leat_sched_measure(&so);
    if (leat_sched_open(&opts, &s, NULL) != LEAT_OK || leat_sched_set_open(s, &so, &set, NULL) != LEAT_OK)
        die("no scheduler");
    for (uint32_t i = 0; i < n; i++) {
        struct leat_order_spec spec = {.view = LEAT_ORDER_VIEW_SAMPLES,
                                       .counts = counts,
                                       .chunks = chunks,
                                       .shuffle = true,
                                       .window = 128,
                                       .seed = i}; /* loaders that have nothing in common */
        struct leat_cursor_opts co = {
            .specs = &spec, .specs_n = 1, .global_batch = batch, .last = LEAT_ORDER_DROP, .world = 1};
        struct leat_sched_lane_opts lo = {
            .set = set, .needed = (uint64_t)bytes * (batch < 160 ? batch : 160), .slots = 4, .user = &lanes[i]};
        if (leat_cursor_open(&co, &lanes[i].cursor, NULL) != LEAT_OK)
            die("no cursor");
        leat_cursor_view(lanes[i].cursor, &lo.view);
        if (leat_sched_lane_open(s, &lo, now, &lanes[i].lane, NULL) != LEAT_OK)
            die("no lane");
        leat_sched_lane_ready(lanes[i].lane);
    }
    steps(s, &now);
    while (drops < kept / 4) /* memory is full, and everybody is at work */
        turn(s, &now);
    uint64_t fetched = fetches;
    uint64_t events = head;
    uint64_t planned = planning_ns;
    uint64_t from = cpu_ns();
    longest_ns = 0;
    while (fetches - fetched < 20000)
        turn(s, &now);
    uint64_t spent = cpu_ns() - from;
    planned = planning_ns - planned;
    printf("{\"chunk_us\": %.3f, \"planning_us\": %.3f, \"events_per_chunk\": %.2f, \"longest_step_us\": %.1f, ",
           (double)(spent - planned) / 1e3 / (double)(fetches - fetched),
           (double)planned / 1e3 / (double)(fetches - fetched), (double)(head - events) / (double)(fetches - fetched),
           (double)longest_ns / 1e3);
    printf("\"eviction_us\": %.3f, \"known\": %zu}\n", eviction_us(s, &lanes[0], set, &now), s->known);
    return 0; /* everything outstanding goes with the process */
}
