#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dataset.h"
#include "order/assign.h"
#include "order/batch.h"
#include "order/place.h"
#include "order/reader.h"

struct order_settings {
    struct leat_cli_store store;
    uint64_t seed;
    uint64_t epoch;
    const char *window;
    bool no_shuffle;
    uint64_t from;
    const char *count;
    const char *global_batch;
    const char *step;
    const char *last;
    const char *world;
    const char *nodes;
    const char *rank;
    bool keys;
    bool json;
};

static const struct leat_option options[] = {
    {"seed", 0, LEAT_OPTION_U64, offsetof(struct order_settings, seed), "N", "0", NULL, "seed of the order"},
    {"epoch", 0, LEAT_OPTION_U64, offsetof(struct order_settings, epoch), "N", "0", NULL, "epoch, counting from 0"},
    {"window", 0, LEAT_OPTION_STRING, offsetof(struct order_settings, window), "N", NULL, NULL,
     "number of chunks mixed at a time (default: see 'leat info')"},
    {"no-shuffle", 0, LEAT_OPTION_FLAG, offsetof(struct order_settings, no_shuffle), NULL, NULL, NULL,
     "samples in the order they are stored in"},
    {"from", 0, LEAT_OPTION_U64, offsetof(struct order_settings, from), "P", "0", NULL, "first position to print"},
    {"count", 'n', LEAT_OPTION_STRING, offsetof(struct order_settings, count), "K", NULL, NULL,
     "how many positions (default: to the end of the epoch)"},
    {"global-batch", 0, LEAT_OPTION_STRING, offsetof(struct order_settings, global_batch), "G", NULL, NULL,
     "also print each sample's step and rank; --from and --count are then extended to whole batches"},
    {"step", 0, LEAT_OPTION_STRING, offsetof(struct order_settings, step), "N", NULL, NULL,
     "only this global batch of the epoch, counting from 0"},
    {"last", 0, LEAT_OPTION_STRING, offsetof(struct order_settings, last), "HOW", "drop", NULL,
     "what happens to an incomplete last batch: drop, pad or short"},
    {"world", 0, LEAT_OPTION_STRING, offsetof(struct order_settings, world), "W", NULL, NULL,
     "number of ranks (default: as many as --nodes lists, or 1)"},
    {"nodes", 0, LEAT_OPTION_STRING, offsetof(struct order_settings, nodes), "MAP", NULL, NULL,
     "nodes that the ranks are on: '3' is 3 nodes with equally many ranks, '4,2' one with 4 ranks and one with 2 "
     "(default: 1 node)"},
    {"rank", 0, LEAT_OPTION_STRING, offsetof(struct order_settings, rank), "R", NULL, NULL, "only this rank's samples"},
    {"keys", 'k', LEAT_OPTION_FLAG, offsetof(struct order_settings, keys), NULL, NULL, NULL,
     "print each sample's key too"},
    {"json", 0, LEAT_OPTION_FLAG, offsetof(struct order_settings, json), NULL, NULL, NULL,
     "one JSON object per line; padding has null as its position"},
    LEAT_STORE_OPTIONS(offsetof(struct order_settings, store)),
    {0},
};

struct view {
    const struct order_settings *s;
    struct leat_dataset *dataset;
    struct leat_order *order;
    uint64_t from;
    uint64_t end; /* positions to print */
    uint32_t batch;
    enum leat_order_last last;
    uint32_t rank; /* LEAT_ORDER_NONE: all */
    struct leat_order_world world;
    struct leat_order_assigner *assigner;
    uint32_t node_of_slot[LEAT_ORDER_SLOTS_MAX];
    uint32_t *node_of_rank;
    struct leat_order_item *items;
    uint32_t *rank_of;
};

/* One place of a batch. */
struct place {
    uint64_t position;
    bool valid; /* padding has no position of its own */
    uint64_t sample;
    uint32_t chunk;
    uint64_t step;
    uint32_t rank;
};

static void print_text(const struct view *v, const struct place *p, const struct leat_buf *key)
{
    if (p->valid)
        printf("%" PRIu64, p->position);
    else
        putchar('-');
    printf("\t%" PRIu64 "\t%" PRIu32, p->sample, p->chunk);
    if (v->batch)
        printf("\t%" PRIu64 "\t%" PRIu32, p->step, p->rank);
    char *shown = v->s->keys ? leat_cli_show_key(key->data, key->len) : NULL;
    if (shown)
        printf("\t%s", shown);
    free(shown);
    putchar('\n');
}

static void print_json(const struct view *v, const struct place *p, const struct leat_buf *key)
{
    json_t *line =
        json_pack("{s:o,s:I,s:I}", "position", p->valid ? json_integer((json_int_t)p->position) : json_null(), "sample",
                  (json_int_t)p->sample, "chunk", (json_int_t)p->chunk);
    if (v->batch) {
        json_object_set_new(line, "step", json_integer((json_int_t)p->step));
        json_object_set_new(line, "rank", json_integer((json_int_t)p->rank));
    }
    if (v->s->keys)
        leat_cli_json_name(line, "key", key->data, key->len);
    json_dumpf(line, stdout, 0);
    putchar('\n');
    json_decref(line);
}

static leat_status print_batch(const struct view *v, uint64_t position, struct leat_order_batch b,
                               struct leat_error *err)
{
    struct leat_buf key;
    leat_status rc = LEAT_OK;
    leat_buf_init(&key, LEAT_KEY_MAX);
    for (uint32_t i = 0; rc == LEAT_OK && i < b.size && !ferror(stdout); i++) {
        struct place p = {.position = position + i,
                          .valid = i < b.take,
                          .sample = leat_order_unit(v->order, v->items[i]),
                          .chunk = v->items[i].chunk};
        if (v->batch) {
            p.step = position / v->batch;
            p.rank = v->rank_of[i];
        }
        if (v->rank != LEAT_ORDER_NONE && p.rank != v->rank)
            continue;
        if (!v->batch && p.position >= v->end)
            break;
        leat_buf_free(&key);
        if (v->s->keys)
            rc = leat_dataset_key(v->dataset, p.sample, &key, err);
        if (rc == LEAT_OK)
            (v->s->json ? print_json : print_text)(v, &p, &key);
    }
    leat_buf_free(&key);
    return rc;
}

static leat_status print_order(const struct view *v, struct leat_error *err)
{
    uint32_t batch = v->batch ? v->batch : 4096;
    enum leat_order_last last = v->batch ? v->last : LEAT_ORDER_SHORT;
    uint64_t units = leat_order_units(v->order);
    struct leat_order_reader *r;
    leat_status rc = leat_order_reader_open(v->order, v->from, &r, err);
    if (rc != LEAT_OK)
        return rc;
    for (uint64_t at = v->from; rc == LEAT_OK && at < v->end && !ferror(stdout);) {
        struct leat_order_batch b = leat_order_batch_at(units, at, batch, last);
        size_t got;
        if (b.take == 0)
            break;
        rc = leat_order_reader_next(r, v->items, b.take, &got, err);
        leat_order_batch_pad(v->items, b);
        if (rc == LEAT_OK && v->batch)
            leat_order_assign(v->assigner, v->items, NULL, b.size, v->rank_of);
        if (rc == LEAT_OK)
            rc = print_batch(v, at, b, err);
        if (leat_cli_interrupted())
            rc = leat_fail(err, LEAT_CANCELLED, "interrupted");
        at += b.take;
    }
    leat_order_reader_close(r);
    return rc;
}

/* "4,2": ranks of each node, one after the other. *nodes is how many, *ranks all of them; node_of_rank may be NULL. */
static leat_status read_nodes(const char *text, uint32_t *nodes, uint32_t *ranks, uint32_t *node_of_rank,
                              struct leat_error *err)
{
    uint32_t sum = 0;
    uint32_t n = 0;
    for (const char *p = text;; p++) {
        char number[16];
        uint64_t here;
        size_t digits = strcspn(p, ",");
        snprintf(number, sizeof number, "%.*s", digits < sizeof number ? (int)digits : (int)sizeof number - 1, p);
        leat_status rc = leat_parse_u64(number, "--nodes", &here, err);
        if (rc != LEAT_OK)
            return rc;
        if (here == 0)
            return leat_fail(err, LEAT_INVALID, "--nodes %.60s: node %" PRIu32 " has no ranks", text, n);
        if (here > LEAT_ORDER_WORLD_MAX - sum)
            return leat_fail(err, LEAT_INVALID, "--nodes %.60s: more than %u ranks", text, LEAT_ORDER_WORLD_MAX);
        for (uint64_t r = 0; node_of_rank && r < here; r++)
            node_of_rank[sum + r] = n;
        sum += (uint32_t)here;
        n++;
        p += digits;
        if (!*p)
            break;
    }
    *nodes = n;
    *ranks = sum;
    return LEAT_OK;
}

/* Ranks, nodes and which are where, from --world and --nodes. */
static leat_status make_node_map(struct view *v, struct leat_error *err)
{
    const struct order_settings *s = v->s;
    bool list = s->nodes && strchr(s->nodes, ',');
    uint64_t world = 1;
    uint64_t nodes = 1;
    leat_status rc = LEAT_OK;
    v->world.nodes = 1;
    if (s->world)
        rc = leat_parse_u64(s->world, "--world", &world, err);
    if (rc == LEAT_OK && s->nodes)
        rc = list ? read_nodes(s->nodes, &v->world.nodes, &v->world.ranks, NULL, err)
                  : leat_parse_u64(s->nodes, "--nodes", &nodes, err);
    if (rc != LEAT_OK)
        return rc;
    if (world == 0 || world > LEAT_ORDER_WORLD_MAX)
        return leat_fail(err, LEAT_INVALID, "--world %s: from 1 to %u ranks", s->world, LEAT_ORDER_WORLD_MAX);
    if (list && s->world && world != v->world.ranks)
        return leat_fail(err, LEAT_INVALID, "--nodes %.60s has %" PRIu32 " ranks, --world says %s", s->nodes,
                         v->world.ranks, s->world);
    if (!list && (nodes == 0 || world % nodes))
        return leat_fail(err, LEAT_INVALID,
                         "--nodes %s: %" PRIu64
                         " ranks (--world) cannot be spread evenly over them; list the ranks of each, as in 4,2",
                         s->nodes, world);
    if (!list) {
        v->world.ranks = (uint32_t)world;
        v->world.nodes = (uint32_t)nodes;
    }
    v->node_of_rank = calloc(v->world.ranks, sizeof *v->node_of_rank);
    if (!v->node_of_rank)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a world of %" PRIu32, v->world.ranks);
    if (list)
        return read_nodes(s->nodes, &v->world.nodes, &v->world.ranks, v->node_of_rank, err);
    for (uint64_t r = 0; r < world; r++)
        v->node_of_rank[r] = (uint32_t)(r * nodes / world);
    return LEAT_OK;
}

static leat_status make_world(struct view *v, struct leat_error *err)
{
    struct leat_order_world *w = &v->world;
    if (v->batch && v->batch % w->ranks)
        return leat_fail(err, LEAT_INVALID,
                         "--global-batch %" PRIu32 " is not a multiple of --world %" PRIu32 ": ranks must get equal "
                         "shares",
                         v->batch, w->ranks);
    v->items = calloc(v->batch ? v->batch : 4096, sizeof *v->items);
    v->rank_of = calloc(v->batch ? v->batch : 4096, sizeof *v->rank_of);
    if (!v->items || !v->rank_of)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a batch");
    w->node_of_rank = v->node_of_rank;
    w->node_of_slot = v->node_of_slot;
    w->chunks = leat_order_chunks(v->order);
    w->slots = leat_order_slots(w->chunks);
    leat_status rc = leat_order_place(w->slots, w->ranks, w->node_of_rank, w->nodes, v->node_of_slot, err);
    if (rc == LEAT_OK && v->batch)
        rc = leat_order_assigner_open(w, v->batch, false, &v->assigner, err);
    return rc;
}

/* What goes with what. */
static leat_status check_settings(const struct order_settings *s, struct leat_error *err)
{
    if ((s->step || s->rank || s->world || s->nodes) && !s->global_batch)
        return leat_fail(err, LEAT_INVALID, "--step, --rank, --world and --nodes need --global-batch");
    if (s->step && (s->from || s->count))
        return leat_fail(err, LEAT_INVALID, "--step is one whole batch: it cannot be combined with --from or --count");
    return LEAT_OK;
}

/* The positions to print: those of --step, or from --from on, --count of them. */
static leat_status make_range(struct view *v, struct leat_error *err)
{
    const struct order_settings *s = v->s;
    uint64_t units = leat_order_units(v->order);
    uint64_t count = units;
    leat_status rc = LEAT_OK;
    v->from = s->from;
    if (s->count)
        rc = leat_parse_u64(s->count, "--count", &count, err);
    if (rc == LEAT_OK && s->step) {
        uint64_t steps = leat_order_batches(units, 0, v->batch, v->last);
        uint64_t step;
        rc = leat_parse_u64(s->step, "--step", &step, err);
        if (rc == LEAT_OK && step >= steps)
            rc = leat_fail(err, LEAT_INVALID, "--step %" PRIu64 ": the epoch has %" PRIu64 " steps", step, steps);
        v->from = rc == LEAT_OK ? step * v->batch : 0;
        count = v->batch;
    }
    if (rc == LEAT_OK && v->from > units)
        rc = leat_fail(err, LEAT_INVALID, "--from %" PRIu64 ": the epoch has %" PRIu64 " samples", v->from, units);
    if (rc != LEAT_OK)
        return rc;
    if (v->batch)
        v->from -= v->from % v->batch;
    v->end = count < units - v->from ? v->from + count : units;
    return LEAT_OK;
}

static leat_status read_batch(struct view *v, struct leat_error *err)
{
    const struct order_settings *s = v->s;
    uint64_t batch = 0;
    uint64_t rank = LEAT_ORDER_NONE;
    leat_status rc = LEAT_OK;
    if (s->global_batch)
        rc = leat_parse_u64(s->global_batch, "--global-batch", &batch, err);
    if (rc == LEAT_OK && s->rank)
        rc = leat_parse_u64(s->rank, "--rank", &rank, err);
    if (rc != LEAT_OK)
        return rc;
    if (s->global_batch && (batch == 0 || batch > LEAT_ORDER_BATCH_MAX))
        return leat_fail(err, LEAT_INVALID, "--global-batch %" PRIu64 ": from 1 to %u", batch, LEAT_ORDER_BATCH_MAX);
    if (s->rank && rank >= v->world.ranks)
        return leat_fail(err, LEAT_INVALID, "--rank %" PRIu64 " is not in a world of %" PRIu32, rank, v->world.ranks);
    v->batch = (uint32_t)batch;
    v->rank = (uint32_t)rank;
    return LEAT_OK;
}

static leat_status read_window(const struct order_settings *s, uint32_t *out, struct leat_error *err)
{
    uint64_t window;
    if (!s->window)
        return LEAT_OK;
    leat_status rc = leat_parse_u64(s->window, "--window", &window, err);
    if (rc == LEAT_OK && (window == 0 || window > LEAT_ORDER_WINDOW_MAX))
        rc = leat_fail(err, LEAT_INVALID, "--window %" PRIu64 ": from 1 to %u chunks", window, LEAT_ORDER_WINDOW_MAX);
    if (rc == LEAT_OK)
        *out = (uint32_t)window;
    return rc;
}

static leat_status show(struct view *v, struct leat_error *err)
{
    const struct order_settings *s = v->s;
    const struct leat_root *root = leat_dataset_root(v->dataset);
    struct leat_order_spec spec = {.view = LEAT_ORDER_VIEW_SAMPLES,
                                   .counts = leat_dataset_counts(v->dataset),
                                   .chunks = root->chunks,
                                   .shuffle = !s->no_shuffle,
                                   .seed = s->seed,
                                   .epoch = s->epoch};
    memcpy(spec.dataset, leat_dataset_id(v->dataset), sizeof spec.dataset);
    spec.window = leat_order_window_default(root->chunks, root->bytes);
    leat_status rc = leat_order_last_parse(s->last, &v->last, err);
    if (rc == LEAT_OK)
        rc = check_settings(s, err);
    if (rc == LEAT_OK)
        rc = read_window(s, &spec.window, err);
    if (rc == LEAT_OK)
        rc = make_node_map(v, err);
    if (rc == LEAT_OK)
        rc = read_batch(v, err);
    if (rc == LEAT_OK)
        rc = leat_order_open(&spec, &v->order, err);
    if (rc == LEAT_OK)
        rc = make_range(v, err);
    if (rc == LEAT_OK)
        rc = make_world(v, err);
    return rc == LEAT_OK ? print_order(v, err) : rc;
}

static int run(const void *settings, int argc, char **argv)
{
    (void)argc;
    struct view v = {.s = settings};
    struct leat_error err;
    leat_status rc = leat_cli_dataset_open(&v.s->store, argv[0], &v.dataset, &err);
    if (rc == LEAT_OK)
        rc = show(&v, &err);
    leat_order_assigner_close(v.assigner);
    free(v.rank_of);
    free(v.items);
    free(v.node_of_rank);
    leat_order_close(v.order);
    leat_dataset_close(v.dataset);
    return rc == LEAT_OK ? leat_cli_finish() : leat_cli_fail(&err);
}

const struct leat_command leat_command_order = {
    .name = "order",
    .arguments = "DATASET",
    .summary = "print which samples come when and to which rank",
    .details =
        "One line per position: position, sample, chunk; with --global-batch also step and rank; with --keys also "
        "the key (unprintable bytes as \\xHH). Columns are separated by tabs. Samples that are repeated to pad a "
        "batch have '-' as their position.",
    .examples = "  leat order s3://bucket/imagenet/train --seed 1 --epoch 3 \\\n"
                "      --from 0 --count 10 --keys\n"
                "  leat order s3://bucket/imagenet/train --global-batch 2048 \\\n"
                "      --world 8 --step 4120 --rank 3 --keys\n"
                "  leat order s3://bucket/imagenet/train --global-batch 1536 --nodes 4,2 --step 0\n",
    .options = options,
    .settings_size = sizeof(struct order_settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
