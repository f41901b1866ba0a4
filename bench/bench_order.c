/* Figures of the order, as JSON: speed of opening, seeking, reading and assigning; local share of assignment;
 * live chunks; correlation between epochs. bench_order.py runs it and prints the table. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "order/assign.h"
#include "order/order.h"
#include "order/place.h"
#include "order/reader.h"

#define BATCH 4096

/* The order is arithmetic on one thread: its own CPU time is what it costs, whatever else the machine does. */
static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint32_t *equal_counts(uint32_t chunks, uint32_t count)
{
    uint32_t *counts = malloc((size_t)chunks * sizeof *counts);
    for (uint32_t c = 0; counts && c < chunks; c++)
        counts[c] = count;
    return counts;
}

static struct leat_order *open_order(const uint32_t *counts, uint32_t chunks, uint32_t window, uint64_t epoch)
{
    struct leat_order_spec spec = {.view = LEAT_ORDER_VIEW_SAMPLES,
                                   .counts = counts,
                                   .chunks = chunks,
                                   .shuffle = true,
                                   .seed = 1,
                                   .epoch = epoch,
                                   .window = window};
    struct leat_order *o;
    struct leat_error err;
    if (leat_order_open(&spec, &o, &err) == LEAT_OK)
        return o;
    fprintf(stderr, "%s\n", err.text);
    exit(1);
}

static struct leat_order_reader *open_reader(const struct leat_order *o, uint64_t position)
{
    struct leat_order_reader *r;
    struct leat_error err;
    if (leat_order_reader_open(o, position, &r, &err) == LEAT_OK)
        return r;
    fprintf(stderr, "%s\n", err.text);
    exit(1);
}

/* A resume: tables of the epoch and a window, then the steady state. */
static void speed(uint64_t epoch)
{
    const uint32_t chunks = 1000000;
    const uint32_t count = 100;
    uint32_t *counts = equal_counts(chunks, count);
    struct leat_order_item items[BATCH];
    uint64_t start = cpu_ns();
    struct leat_order *o = open_order(counts, chunks, 128, epoch);
    uint64_t opened = cpu_ns();
    struct leat_order_reader *r = open_reader(o, leat_order_units(o) / 11 * (1 + epoch % 10));
    uint64_t sought = cpu_ns();
    size_t got;
    uint64_t read = 0;
    for (int i = 0; i < 3000; i++, read += got) {
        if (leat_order_reader_next(r, items, BATCH, &got, NULL) != LEAT_OK)
            exit(1);
    }
    uint64_t done = cpu_ns();
    printf("{\"what\": \"speed\", \"open_ms\": %.2f, \"seek_ms\": %.3f, \"resume_ms\": %.2f, \"reads_per_s\": %.0f}\n",
           (double)(opened - start) / 1e6, (double)(sought - opened) / 1e6, (double)(sought - start) / 1e6,
           (double)read * 1e9 / (double)(done - sought));
    leat_order_reader_close(r);
    leat_order_close(o);
    free(counts);
}

/* Which part of an epoch's reads come from the rank's own node, and the time to assign a batch. */
static void local_share(uint32_t chunks, uint32_t nodes, uint32_t ranks_per_node, uint64_t epoch)
{
    uint32_t *counts = equal_counts(chunks, 75);
    struct leat_order *o = open_order(counts, chunks, 128, epoch);
    struct leat_order_reader *r = open_reader(o, 0);
    uint32_t node_of_slot[LEAT_ORDER_SLOTS_MAX];
    uint32_t slots = leat_order_slots(chunks);
    uint32_t ranks = nodes * ranks_per_node;
    uint32_t *node_of_rank = calloc(ranks, sizeof *node_of_rank);
    for (uint32_t i = 0; i < ranks; i++)
        node_of_rank[i] = i / ranks_per_node;
    if (leat_order_place(slots, ranks, node_of_rank, nodes, node_of_slot, NULL) != LEAT_OK)
        exit(1);
    struct leat_order_world w = {.ranks = ranks,
                                 .nodes = nodes,
                                 .node_of_rank = node_of_rank,
                                 .slots = slots,
                                 .node_of_slot = node_of_slot,
                                 .chunks = chunks};
    struct leat_order_assigner *a;
    if (leat_order_assigner_open(&w, BATCH, false, &a, NULL) != LEAT_OK)
        exit(1);
    struct leat_order_item items[BATCH];
    uint32_t rank_of[BATCH];
    uint64_t local = 0;
    uint64_t total = 0;
    uint64_t ns = 0;
    double worst = 1;
    size_t got;
    while (leat_order_reader_next(r, items, BATCH, &got, NULL) == LEAT_OK && got == BATCH) {
        uint64_t start = cpu_ns();
        leat_order_assign(a, items, NULL, BATCH, rank_of);
        ns += cpu_ns() - start;
        uint32_t here = leat_order_local(&w, items, BATCH, rank_of);
        local += here;
        total += BATCH;
        worst = fmin(worst, here / (double)BATCH);
    }
    printf("{\"what\": \"local\", \"chunks\": %u, \"nodes\": %u, \"ranks\": %u, \"share\": %.5f, \"worst\": %.4f, "
           "\"assign_us\": %.1f}\n",
           chunks, nodes, ranks, (double)local / (double)total, worst, (double)ns / 1e3 / ((double)total / BATCH));
    leat_order_assigner_close(a);
    free(node_of_rank);
    leat_order_reader_close(r);
    leat_order_close(o);
    free(counts);
}

/* Chunks live at once, new chunks a batch needs, and how a sample's position in one epoch tells the next. */
static void shape(uint32_t chunks)
{
    uint32_t *counts = equal_counts(chunks, 75);
    uint64_t n = (uint64_t)chunks * 75;
    double *before = malloc(n * sizeof *before);
    uint32_t *left = malloc(chunks * sizeof *left);
    struct leat_order_item items[BATCH];
    double correlation = 0;
    uint32_t live_max = 0;
    uint32_t fresh_first = 0;
    uint32_t fresh_max = 0;
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        struct leat_order *o = open_order(counts, chunks, 128, epoch);
        struct leat_order_reader *r = open_reader(o, 0);
        memcpy(left, counts, chunks * sizeof *left);
        uint32_t live = 0;
        uint64_t position = 0;
        double mean = (double)(n - 1) / 2;
        size_t got;
        for (uint32_t batch = 0; leat_order_reader_next(r, items, BATCH, &got, NULL) == LEAT_OK && got; batch++) {
            uint32_t fresh = 0;
            for (size_t i = 0; i < got; i++, position++) {
                uint32_t c = items[i].chunk;
                fresh += left[c] == counts[c];
                live += left[c] == counts[c];
                live_max = live > live_max ? live : live_max;
                live -= --left[c] == 0;
                uint64_t unit = leat_order_unit(o, items[i]);
                if (epoch)
                    correlation += ((double)position - mean) * (before[unit] - mean);
                else
                    before[unit] = (double)position;
            }
            if (batch == 0)
                fresh_first = fresh;
            else if (fresh > fresh_max)
                fresh_max = fresh;
        }
        leat_order_reader_close(r);
        leat_order_close(o);
    }
    correlation /= (double)n * ((double)n * (double)n - 1) / 12;
    printf(
        "{\"what\": \"shape\", \"chunks\": %u, \"live_max\": %u, \"first_batch_chunks\": %u, \"batch_chunks_max\": %u, "
        "\"correlation\": %.5f, \"correlation_sd\": %.5f}\n",
        chunks, live_max, fresh_first, fresh_max, correlation, 1 / sqrt(chunks));
    free(left);
    free(before);
    free(counts);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "all";
    uint64_t epoch = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    bool all = strcmp(what, "all") == 0;
    if (all || strcmp(what, "speed") == 0)
        speed(epoch);
    const uint32_t sizes[] = {500, 1500, 4096, 10000, 16384};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && (all || strcmp(what, "local") == 0); i++) {
        local_share(sizes[i], 8, 8, epoch);
        local_share(sizes[i], 64, 8, epoch);
    }
    for (size_t i = 1; i < 4 && (all || strcmp(what, "shape") == 0); i++)
        shape(sizes[i]);
    return 0;
}
