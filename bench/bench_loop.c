/* What the scheduler keeps the agent's loop busy with at most, at a number of chunks: processor time of the longest
 * single call, in milliseconds, and of all of them, as a line each. Nothing on the loop should take two.
 *
 * bench_loop CHUNKS */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/random.h"
#include "sched/cursor.h"
#include "sched/sched.h"

struct span {
    double longest, all;
    unsigned long calls;
};

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void add(struct span *s, double began)
{
    double took = cpu_ms() - began;
    s->longest = took > s->longest ? took : s->longest;
    s->all += took;
    s->calls++;
}

static void say(const char *what, const struct span *s)
{
    printf("%-44s longest %8.3f ms, all %10.1f ms of %lu\n", what, s->longest, s->all, s->calls);
}

static _Noreturn void die(const char *text)
{
    fprintf(stderr, "bench_loop: %s\n", text);
    exit(1);
}

static void nothing(void *user, struct leat_sched_chunk *c)
{
    (void)user, (void)c;
}

static const struct leat_sched_ops ops = {.drop = nothing, .gone = nothing, .forget = nothing};

/* All that is left to do. */
static void rest(struct leat_sched *s, const char *what)
{
    struct span span = {0};
    for (uint64_t at; (at = leat_sched_wake_ns(s)) != LEAT_SCHED_NEVER;) {
        double began = cpu_ms();
        leat_sched_step(s, at);
        add(&span, began);
    }
    say(what, &span);
}

static void sets(uint32_t chunks, const uint8_t *names, const uint32_t *sizes)
{
    struct leat_sched *s;
    struct leat_sched_set *set;
    struct leat_sched_opts opts = {.ram = 1ull << 33, .disk = 1ull << 50, .ops = &ops, .marks = true};
    struct leat_sched_set_opts so = {.names = names, .sizes = sizes, .chunks = chunks};
    struct span found = {0};
    struct span open = {0};
    struct span shut = {0};
    if (leat_sched_open(&opts, &s, NULL) != LEAT_OK)
        die("no scheduler");
    for (uint32_t i = 0; i < chunks; i++) {
        double began = cpu_ms();
        if (leat_sched_found(s, names + (size_t)i * LEAT_SCHED_NAME, sizes[i]) != LEAT_OK)
            die("no memory");
        add(&found, began);
    }
    say("a chunk becomes known", &found);
    leat_sched_measure(&so); /* elsewhere */
    double began = cpu_ms();
    if (leat_sched_set_open(s, &so, &set, NULL) != LEAT_OK)
        die("no set");
    add(&open, began);
    say("a dataset is opened", &open);
    rest(s, "  steps after it");
    began = cpu_ms();
    leat_sched_set_close(set);
    add(&shut, began);
    say("a dataset is closed", &shut);
    rest(s, "  steps after it");
    leat_sched_set_disk(s, 1);
    leat_sched_step(s, 1);
    rest(s, "the disk is made smaller: steps");
    leat_sched_close(s);
}

/* Over the end of an epoch; those that are slow are planned elsewhere. */
static void batches(uint32_t chunks, const uint32_t *counts)
{
    struct leat_order_spec spec = {
        .view = LEAT_ORDER_VIEW_SAMPLES, .counts = counts, .chunks = chunks, .shuffle = true, .window = 4096};
    struct leat_cursor_opts o = {.specs = &spec,
                                 .specs_n = 1,
                                 .position = 20ull * chunks - 100000,
                                 .global_batch = 256,
                                 .last = LEAT_ORDER_DROP,
                                 .world = 1};
    struct leat_cursor *c;
    struct span here = {0};
    struct span there = {0};
    if (leat_cursor_open(&o, &c, NULL) != LEAT_OK)
        die("no cursor");
    for (unsigned i = 0; i < 1000; i++) {
        struct leat_cursor_batch b;
        struct span *span = leat_cursor_next_is_slow(c) ? &there : &here;
        double began = cpu_ms();
        if (leat_cursor_next(c, &b, NULL) != LEAT_OK)
            die("no batch");
        add(span, began);
        leat_cursor_batch_free(&b);
    }
    say("batches of 256 planned on the loop", &here);
    say("batches of 256 planned elsewhere", &there);
    leat_cursor_close(c);
}

int main(int argc, char **argv)
{
    uint32_t chunks = argc == 2 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    uint8_t *names = malloc((size_t)chunks * LEAT_SCHED_NAME + 1);
    uint32_t *sizes = malloc(chunks * sizeof *sizes + 1);
    uint32_t *counts = malloc(chunks * sizeof *counts + 1);
    if (chunks < 10000 || !names || !sizes || !counts)
        die("CHUNKS, 10000 or more");
    for (uint32_t i = 0; i < chunks; i++) {
        for (uint32_t k = 0; k < LEAT_SCHED_NAME / 8; k++) {
            uint64_t part = leat_random_u64(1, k, i);
            memcpy(names + (size_t)i * LEAT_SCHED_NAME + 8 * (size_t)k, &part, sizeof part);
        }
        sizes[i] = 100000;
        counts[i] = 20;
    }
    sets(chunks, names, sizes);
    batches(chunks, counts);
    free(names);
    free(sizes);
    free(counts);
    return 0;
}
