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
#include "order/reader.h"

struct order_settings {
    struct leat_cli_store store;
    uint64_t seed;
    uint64_t epoch;
    uint64_t window;
    bool no_shuffle;
    uint64_t from;
    const char *count;
    uint64_t global_batch;
    const char *step;
    const char *last;
    uint64_t world;
    uint64_t nodes;
    const char *rank;
    bool keys;
    bool json;
};

static const struct leat_option options[] = {
    {"seed", 0, LEAT_OPTION_U64, offsetof(struct order_settings, seed), "N", "0", NULL, "of the order"},
    {"epoch", 0, LEAT_OPTION_U64, offsetof(struct order_settings, epoch), "N", "0", NULL, "counted from 0"},
    {"window", 0, LEAT_OPTION_U64, offsetof(struct order_settings, window), "N", NULL, NULL,
     "chunks mixed at a time (else the dataset's default, see 'leat info')"},
    {"no-shuffle", 0, LEAT_OPTION_FLAG, offsetof(struct order_settings, no_shuffle), NULL, NULL, NULL,
     "samples in their own order"},
    {"from", 0, LEAT_OPTION_U64, offsetof(struct order_settings, from), "P", "0", NULL, "first position to print"},
    {"count", 'n', LEAT_OPTION_STRING, offsetof(struct order_settings, count), "K", NULL, NULL,
     "how many positions (else to the end of the epoch)"},
    {"global-batch", 0, LEAT_OPTION_U64, offsetof(struct order_settings, global_batch), "G", NULL, NULL,
     "also print the step each sample is in, and its rank; --from and --count then begin and end with whole batches"},
    {"step", 0, LEAT_OPTION_STRING, offsetof(struct order_settings, step), "N", NULL, NULL,
     "only this global batch of the epoch, counted from 0"},
    {"last", 0, LEAT_OPTION_STRING, offsetof(struct order_settings, last), "HOW", "drop", NULL,
     "what happens to an incomplete last batch: drop, pad or short"},
    {"world", 0, LEAT_OPTION_U64, offsetof(struct order_settings, world), "W", "1", NULL, "number of ranks"},
    {"nodes", 0, LEAT_OPTION_U64, offsetof(struct order_settings, nodes), "K", "1", NULL,
     "nodes that the ranks are on, in equal runs"},
    {"rank", 0, LEAT_OPTION_STRING, offsetof(struct order_settings, rank), "R", NULL, NULL, "only this rank's samples"},
    {"keys", 'k', LEAT_OPTION_FLAG, offsetof(struct order_settings, keys), NULL, NULL, NULL,
     "print each sample's key too"},
    {"json", 0, LEAT_OPTION_FLAG, offsetof(struct order_settings, json), NULL, NULL, NULL,
     "a JSON object a line; padding has null as its position"},
    LEAT_STORE_OPTIONS(offsetof(struct order_settings, store)),
    {0},
};

#define BATCH_MAX (1u << 24)
#define WORLD_MAX (1u << 20)

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
            rc = leat_order_assign(&v->world, v->items, NULL, b.size, v->rank_of, err);
        if (rc == LEAT_OK)
            rc = print_batch(v, at, b, err);
        if (leat_cli_interrupted())
            rc = leat_fail(err, LEAT_CANCELLED, "interrupted");
        at += b.take;
    }
    leat_order_reader_close(r);
    return rc;
}

static leat_status make_world(struct view *v, struct leat_error *err)
{
    const struct order_settings *s = v->s;
    uint32_t chunks = leat_order_chunks(v->order);
    if (v->batch && s->world && v->batch % s->world)
        return leat_fail(err, LEAT_INVALID,
                         "--global-batch %" PRIu32 " is no multiple of --world %" PRIu64 ": ranks get equal shares",
                         v->batch, s->world);
    if (s->world == 0 || s->world > WORLD_MAX || s->nodes == 0 || s->nodes > s->world)
        return leat_fail(err, LEAT_INVALID, "--world %" PRIu64 " on --nodes %" PRIu64 " cannot be", s->world, s->nodes);
    v->node_of_rank = calloc(s->world, sizeof *v->node_of_rank);
    v->items = calloc(v->batch ? v->batch : 4096, sizeof *v->items);
    v->rank_of = calloc(v->batch ? v->batch : 4096, sizeof *v->rank_of);
    if (!v->node_of_rank || !v->items || !v->rank_of)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a batch");
    for (uint64_t r = 0; r < s->world; r++)
        v->node_of_rank[r] = (uint32_t)(r * s->nodes / s->world);
    leat_order_place_slots(leat_order_slots(chunks), (uint32_t)s->nodes, v->node_of_slot);
    v->world = (struct leat_order_world){.ranks = (uint32_t)s->world,
                                         .nodes = (uint32_t)s->nodes,
                                         .node_of_rank = v->node_of_rank,
                                         .slots = leat_order_slots(chunks),
                                         .node_of_slot = v->node_of_slot,
                                         .chunks = chunks};
    return leat_order_world_check(&v->world, err);
}

static leat_status make_range(struct view *v, struct leat_error *err)
{
    const struct order_settings *s = v->s;
    uint64_t units = leat_order_units(v->order);
    uint64_t count = units;
    uint64_t step;
    uint64_t rank;
    leat_status rc = LEAT_OK;
    v->rank = LEAT_ORDER_NONE;
    if (s->global_batch > BATCH_MAX)
        return leat_fail(err, LEAT_INVALID, "--global-batch: at most %u", BATCH_MAX);
    if ((s->step || s->rank) && s->global_batch == 0)
        return leat_fail(err, LEAT_INVALID, "--step and --rank need --global-batch");
    v->batch = (uint32_t)s->global_batch;
    v->from = s->from;
    if (s->count)
        rc = leat_parse_u64(s->count, "--count", &count, err);
    if (rc == LEAT_OK && s->rank)
        rc = leat_parse_u64(s->rank, "--rank", &rank, err);
    if (rc == LEAT_OK && s->rank && rank >= s->world)
        rc = leat_fail(err, LEAT_INVALID, "--rank %" PRIu64 " is not in a world of %" PRIu64, rank, s->world);
    else if (rc == LEAT_OK && s->rank)
        v->rank = (uint32_t)rank;
    if (rc == LEAT_OK && s->step)
        rc = leat_parse_u64(s->step, "--step", &step, err);
    if (rc == LEAT_OK && s->step && step >= leat_order_batches(units, 0, v->batch, v->last))
        rc = leat_fail(err, LEAT_INVALID, "--step %" PRIu64 ": the epoch has %" PRIu64 " steps", step,
                       leat_order_batches(units, 0, v->batch, v->last));
    else if (rc == LEAT_OK && s->step) {
        v->from = step * v->batch;
        count = v->batch;
    }
    if (rc == LEAT_OK && v->from > units)
        rc = leat_fail(err, LEAT_INVALID, "--from %" PRIu64 ": the epoch has %" PRIu64 " samples", v->from, units);
    if (v->batch)
        v->from -= v->from % v->batch;
    v->end = count < units - v->from ? v->from + count : units;
    return rc;
}

static leat_status show(struct view *v, struct leat_error *err)
{
    const struct order_settings *s = v->s;
    const struct leat_root *root = leat_dataset_root(v->dataset);
    struct leat_order_spec spec = {.view = LEAT_ORDER_VIEW_SAMPLES,
                                   .counts = root->counts,
                                   .chunks = root->chunks,
                                   .shuffle = !s->no_shuffle,
                                   .seed = s->seed,
                                   .epoch = s->epoch};
    memcpy(spec.dataset, leat_dataset_id(v->dataset), sizeof spec.dataset);
    spec.window = leat_order_window_default(root->chunks, root->bytes);
    if (s->window)
        spec.window = s->window > UINT32_MAX ? UINT32_MAX : (uint32_t)s->window;
    leat_status rc = leat_order_last_parse(s->last, &v->last, err);
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
    .summary = "print which samples come when, and to which rank",
    .details =
        "One line a position: position, sample, chunk; with --global-batch also step and rank; with --keys also "
        "the key (bytes that are not printable as \\xHH). Columns are separated by tabs. Places of a padded batch "
        "that repeat a sample have '-' as their position.",
    .examples = "  leat order s3://bucket/imagenet/train --seed 1 --epoch 3 --from 0 --count 10 --keys\n"
                "  leat order s3://bucket/imagenet/train --global-batch 2048 --world 8 --step 4120 --rank 3 --keys\n",
    .options = options,
    .settings_size = sizeof(struct order_settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
