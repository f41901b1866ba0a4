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

#define BATCH     4096
#define BATCH_MAX 8192

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

/* A job of equal nodes on a dataset. */
struct job {
    struct leat_order_world world;
    uint32_t *node_of_rank;
    uint32_t node_of_slot[LEAT_ORDER_SLOTS_MAX];
    struct leat_order_assigner *assigner;
};

static void must(leat_status rc, const struct leat_error *err)
{
    if (rc == LEAT_OK)
        return;
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

static void open_job(struct job *j, uint32_t chunks, uint32_t nodes, uint32_t ranks_per_node)
{
    struct leat_error err;
    uint32_t ranks = nodes * ranks_per_node;
    j->node_of_rank = calloc(ranks, sizeof *j->node_of_rank);
    for (uint32_t i = 0; i < ranks; i++)
        j->node_of_rank[i] = i / ranks_per_node;
    j->world = (struct leat_order_world){.ranks = ranks,
                                         .nodes = nodes,
                                         .node_of_rank = j->node_of_rank,
                                         .slots = leat_order_slots(chunks),
                                         .node_of_slot = j->node_of_slot,
                                         .chunks = chunks};
    must(leat_order_place(j->world.slots, ranks, j->node_of_rank, nodes, j->node_of_slot, &err), &err);
}

static void open_assigner(struct job *j, uint32_t batch)
{
    struct leat_error err;
    must(leat_order_assigner_open(&j->world, batch, true, &j->assigner, &err), &err);
}

static void close_job(struct job *j)
{
    leat_order_assigner_close(j->assigner);
    free(j->node_of_rank);
}

/* Which part of an epoch's reads come from the node that owns the chunk, how many nodes read a chunk on average, and
 * the time to assign a batch. */
static void local_share(const char *what, struct job *j, uint64_t epoch)
{
    const struct leat_order_world *w = &j->world;
    uint32_t *counts = equal_counts(w->chunks, 75);
    struct leat_order *o = open_order(counts, w->chunks, 128, epoch);
    struct leat_order_reader *r = open_reader(o, 0);
    uint8_t *reads = calloc((size_t)w->chunks * w->nodes, 1);
    struct leat_order_item items[BATCH_MAX];
    uint32_t rank_of[BATCH_MAX];
    uint32_t batch = w->ranks * ((BATCH + w->ranks / 2) / w->ranks); /* every rank gets as many */
    uint64_t local = 0;
    uint64_t total = 0;
    uint64_t ns = 0;
    uint64_t readers = 0;
    size_t got;
    open_assigner(j, batch);
    while (leat_order_reader_next(r, items, batch, &got, NULL) == LEAT_OK && got == batch) {
        uint64_t start = cpu_ns();
        leat_order_assign(j->assigner, items, NULL, batch, rank_of);
        ns += cpu_ns() - start;
        local += leat_order_local(w, items, batch, rank_of);
        total += batch;
        for (uint32_t i = 0; i < batch; i++)
            reads[(size_t)items[i].chunk * w->nodes + w->node_of_rank[rank_of[i]]] = 1;
    }
    for (size_t i = 0; i < (size_t)w->chunks * w->nodes; i++)
        readers += reads[i];
    printf("{\"what\": \"%s\", \"chunks\": %u, \"nodes\": %u, \"ranks\": %u, \"share\": %.5f, \"readers\": %.3f, "
           "\"assign_us\": %.1f}\n",
           what, w->chunks, w->nodes, w->ranks, (double)local / (double)total, (double)readers / w->chunks,
           (double)ns / 1e3 / ((double)total / batch));
    free(reads);
    leat_order_reader_close(r);
    leat_order_close(o);
    free(counts);
}

static void local_shares(uint32_t chunks, uint32_t nodes, uint64_t epoch)
{
    struct job j = {0};
    open_job(&j, chunks, nodes, 8);
    local_share("local", &j, epoch);
    close_job(&j);
}

/* The same after a job of 64 nodes has lost one and got one a hundred times, in turn at different places. */
static void changed_job(uint32_t nodes, uint64_t epoch)
{
    struct job j = {0};
    struct leat_error err;
    uint32_t was[256];
    uint32_t before[LEAT_ORDER_SLOTS_MAX];
    open_job(&j, 4096, nodes, 8);
    for (uint32_t step = 0; step < 200; step++) {
        uint32_t now = nodes - (step % 2 == 0);
        uint32_t at = step * 37 % nodes;
        for (uint32_t k = 0; k < now; k++) {
            if (now < nodes)
                was[k] = k < at ? k : k + 1;
            else
                was[k] = k < at ? k : k == at ? LEAT_ORDER_NONE : k - 1;
        }
        memcpy(before, j.node_of_slot, sizeof before);
        must(leat_order_place_again(j.world.slots, before, now < nodes ? nodes : nodes - 1, now * 8, j.node_of_rank,
                                    now, was, j.node_of_slot, &err),
             &err);
    }
    local_share("changed", &j, epoch);
    close_job(&j);
}

/* Assigning one large batch, whose units lie anywhere. */
static void assign_speed(uint32_t batch, uint32_t nodes, uint32_t ranks_per_node)
{
    struct job j = {0};
    struct leat_order_item *items = malloc(batch * sizeof *items);
    uint32_t *rank_of = malloc(batch * sizeof *rank_of);
    uint32_t *costs = malloc(batch * sizeof *costs);
    open_job(&j, 1000000, nodes, ranks_per_node);
    open_assigner(&j, batch);
    double ms[2];
    for (int with_costs = 0; with_costs < 2; with_costs++) {
        uint64_t ns = UINT64_MAX;
        for (uint32_t run = 0; run < 5; run++) {
            for (uint32_t i = 0; i < batch; i++) {
                uint64_t x = (uint64_t)(i + run) * 0x9e3779b97f4a7c15u;
                items[i] = (struct leat_order_item){(uint32_t)(x >> 32) % 1000000, 0};
                costs[i] = (uint32_t)(x >> 20) & 0xfffff;
            }
            uint64_t start = cpu_ns();
            leat_order_assign(j.assigner, items, with_costs ? costs : NULL, batch, rank_of);
            uint64_t took = cpu_ns() - start;
            ns = took < ns ? took : ns;
        }
        ms[with_costs] = (double)ns / 1e6;
    }
    printf("{\"what\": \"assign\", \"batch\": %u, \"ranks\": %u, \"ms\": %.3f, \"costs_ms\": %.3f}\n", batch,
           nodes * ranks_per_node, ms[0], ms[1]);
    close_job(&j);
    free(costs);
    free(rank_of);
    free(items);
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

static bool asked(int argc, char **argv, const char *what)
{
    return argc < 2 || strcmp(argv[1], "all") == 0 || strcmp(argv[1], what) == 0;
}

int main(int argc, char **argv)
{
    uint64_t epoch = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    const uint32_t sizes[] = {500, 1500, 4096, 10000, 16384};
    if (asked(argc, argv, "speed"))
        speed(epoch);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && asked(argc, argv, "local"); i++) {
        local_shares(sizes[i], 8, epoch);
        local_shares(sizes[i], 64, epoch);
    }
    for (uint32_t nodes = 2; nodes <= 128 && asked(argc, argv, "nodes"); nodes++)
        local_shares(4096, nodes, epoch);
    for (uint32_t nodes = 8; nodes <= 128 && asked(argc, argv, "changed"); nodes *= 2)
        changed_job(nodes, epoch);
    if (asked(argc, argv, "assign")) {
        assign_speed(4096, 8, 8);
        assign_speed(65536, 512, 8);
        assign_speed(1u << 20, 1u << 17, 8);
    }
    for (size_t i = 1; i < 4 && asked(argc, argv, "shape"); i++)
        shape(sizes[i]);
    return 0;
}
