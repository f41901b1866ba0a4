/* What an opening computes: settings against the dataset, state, order, outputs, how much memory it will take. Takes
 * from microseconds to a tenth of a second (a hundred thousand chunks, a batch of a million), so it is done on a thread
 * that may take its time. It reads the request and the dataset's root, and writes the loader's constants. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "agent/inside.h"
#include "base/hash.h"
#include "base/json.h"
#include "order/state.h"
#include "ring/settings.h"

#define RAGGED_MAX     (1u << 20) /* a sample's ragged bytes that a slot provides for; more gets its own memory */
#define RING_BYTES_MAX (16ull << 30)

static const struct leat_root *root_of(const struct leat_loading *l)
{
    return leat_dataset_root(l->opts.supply->dataset);
}

/* The table of settings has checked each value; here is what they must be together. */
static leat_status read_settings(struct leat_loading *l, const struct leat_loader_opts *o, struct leat_error *err)
{
    l->rank = o->rank;
    l->world = o->world;
    l->global_batch = o->global_batch ? o->global_batch : o->batch * o->world;
    l->last = (enum leat_order_last)o->last;
    l->skip_errors = o->on_error == LEAT_ON_ERROR_SKIP;
    l->patient = o->purpose == LEAT_PURPOSE_WARM;
    l->slots = o->slots ? o->slots : LEAT_SLOTS_DEFAULT;
    l->spec.shuffle = o->shuffle;
    l->spec.seed = o->seed;
    l->spec.window = o->window;
    l->epoch = o->epoch;
    return leat_loader_check(o, err);
}

static leat_status describe_order(struct leat_loading *l, struct leat_error *err)
{
    const struct leat_root *root = root_of(l);
    memcpy(l->spec.dataset, leat_dataset_id(l->opts.supply->dataset), sizeof l->spec.dataset);
    l->spec.view = LEAT_ORDER_VIEW_SAMPLES;
    l->spec.counts = root->counts;
    l->spec.chunks = root->chunks;
    if (root->samples == 0)
        return leat_fail(err, LEAT_INVALID, "the dataset '%s' has no samples",
                         leat_dataset_home(l->opts.supply->dataset)->url);
    return LEAT_OK;
}

static leat_status check_batch(const struct leat_loading *l, struct leat_error *err)
{
    if (l->last == LEAT_ORDER_DROP && l->global_batch > root_of(l)->samples)
        return leat_fail(err, LEAT_INVALID,
                         "a global batch of %u is more than the %llu samples there are, and an incomplete one is "
                         "dropped: nothing would ever come (last=\"pad\" or \"short\", or a smaller batch)",
                         l->global_batch, (unsigned long long)root_of(l)->samples);
    return LEAT_OK;
}

static leat_status open_order(const struct leat_loading *l, uint64_t epoch, struct leat_order **out,
                              struct leat_error *err)
{
    struct leat_order_spec spec = l->spec;
    spec.epoch = epoch;
    return leat_order_open(&spec, out, err);
}

static void choose_window(struct leat_loading *l)
{
    if (!l->spec.window)
        l->spec.window = leat_order_window_default(l->spec.chunks, root_of(l)->bytes);
}

/* A state says where to begin, and the seed and the window where the caller has not: what it says otherwise must be
 * this loader's. */
static leat_status take_state(struct leat_loading *l, struct leat_error *err)
{
    const struct leat_request *r = &l->request;
    struct leat_order_state *theirs = malloc(sizeof *theirs);
    struct leat_order *order = NULL;
    if (!theirs)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a state");
    leat_status rc = leat_order_state_read(r->state, strlen(r->state), theirs, err);
    const struct leat_order_stream *one = &theirs->streams[0];
    if (rc == LEAT_OK && theirs->streams_n != 1)
        rc = leat_fail(err, LEAT_INVALID, "the state is one of a mixture of %u datasets, and this loader reads one",
                       theirs->streams_n);
    if (rc == LEAT_OK && !r->opts.seed_given)
        l->spec.seed = one->seed;
    if (rc == LEAT_OK && !l->spec.window && one->shuffle)
        l->spec.window = one->window;
    if (rc == LEAT_OK)
        choose_window(l);
    if (rc == LEAT_OK)
        rc = open_order(l, 0, &order, err);
    if (rc == LEAT_OK) {
        struct leat_order_stream mine = leat_order_stream(&l->spec, order);
        rc = leat_order_stream_fits(one, &mine, "the state", err);
    }
    if (rc == LEAT_OK) {
        l->epoch = one->epoch;
        l->position = one->position;
    }
    leat_order_close(order);
    free(theirs);
    return rc;
}

/* What all ranks must have in common. */
static leat_status describe_agreement(struct leat_loading *l, const struct leat_order_stream *one,
                                      struct leat_error *err)
{
    char id[2 * LEAT_SHA256_SIZE + 1];
    char nodes[2 * LEAT_SHA256_SIZE + 1];
    uint8_t digest[LEAT_SHA256_SIZE];
    leat_hex(one->dataset, sizeof one->dataset, id);
    leat_sha256(leat_cursor_node_of_rank(l->cursor), l->world * sizeof(uint32_t), digest);
    leat_hex(digest, 8, nodes);
    json_t *j = json_pack("{s:s,s:s,s:I,s:b,s:I,s:I,s:I,s:I,s:I,s:s,s:I,s:s,s:i,s:i}", "dataset", id, "view", one->view,
                          "units", (json_int_t)one->units, "shuffle", one->shuffle, "seed", (json_int_t)one->seed,
                          "window", (json_int_t)one->window, "epoch", (json_int_t)one->epoch, "position",
                          (json_int_t)one->position, "global_batch_size", (json_int_t)l->global_batch, "last",
                          leat_order_last_name(l->last), "world_size", (json_int_t)l->world, "node map", nodes, "order",
                          LEAT_ORDER_VERSION, "assignment", LEAT_ORDER_ASSIGNMENT);
    l->agreement = leat_json_write(j, JSON_COMPACT);
    json_decref(j);
    return l->agreement ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for a loader");
}

/* The state at the opening. */
static leat_status describe(struct leat_loading *l, const struct leat_order *order, struct leat_error *err)
{
    struct leat_order_state *s = calloc(1, sizeof *s);
    if (!s)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a state");
    struct leat_order_stream *one = &s->streams[0];
    s->streams_n = 1;
    *one = leat_order_stream(&l->spec, order);
    one->epoch = l->epoch;
    one->position = l->position;
    leat_status rc = leat_order_state_write(s, &l->state, err);
    if (rc == LEAT_OK && l->world)
        rc = describe_agreement(l, one, err);
    free(s);
    return rc;
}

/* About as many chunks as one batch of this rank touches; more where chunks differ much in their number of samples. */
static uint64_t chunks_needed(const struct leat_loading *l)
{
    uint64_t samples = root_of(l)->samples;
    uint64_t each = samples / l->spec.chunks ? samples / l->spec.chunks : 1;
    uint64_t spread = (l->spec.shuffle ? l->spec.window : 1) + l->global_batch / each + 2;
    uint64_t most = l->spec.chunks;
    most = spread < most ? spread : most;
    return l->batch < most ? l->batch : most;
}

static int larger_first(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

/* Bytes of the largest chunks: so many chunks, whichever, fit into that. */
static leat_status count_bytes(struct leat_loading *l, struct leat_error *err)
{
    const struct leat_root *root = root_of(l);
    uint64_t batch = chunks_needed(l);
    uint64_t live = l->spec.shuffle ? l->spec.window : 1;
    uint32_t *sizes = malloc(((size_t)root->chunks + 1) * sizeof *sizes);
    if (!sizes)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to look at %u chunks", root->chunks);
    memcpy(sizes, root->sizes, root->chunks * sizeof *sizes);
    qsort(sizes, root->chunks, sizeof *sizes, larger_first);
    live = live < root->chunks ? live : root->chunks;
    for (uint64_t i = 0; i < batch; i++)
        l->needed += sizes[i];
    for (uint64_t i = 0; i < live; i++)
        l->live += sizes[i];
    free(sizes);
    return LEAT_OK;
}

static leat_status make_outputs(struct leat_loading *l, struct leat_error *err)
{
    const struct leat_root *root = root_of(l);
    uint64_t ragged = root->bytes / root->samples * 2 + 256; /* a batch that needs more gets its own memory */
    ragged = ragged < RAGGED_MAX ? ragged : RAGGED_MAX;
    leat_status rc = leat_outputs_make(l->request.outputs, l->request.opts.outputs_n, &root->schema,
                                       l->world ? l->batch : 1, l->world ? ragged : 0, &l->outputs, err);
    if (rc == LEAT_OK && l->outputs.slot_bytes > RING_BYTES_MAX / l->slots)
        rc = leat_fail(err, LEAT_LIMIT, "%u slots of %llu bytes are more than a ring may have", l->slots,
                       (unsigned long long)l->outputs.slot_bytes);
    return rc;
}

static leat_status open_cursor(struct leat_loading *l, struct leat_error *err)
{
    struct leat_cursor_opts opts = {
        .spec = l->spec,
        .epoch = l->epoch,
        .position = l->position,
        .global_batch = l->global_batch,
        .last = l->last,
        .rank = l->rank,
        .world = l->world,
        .node_of_rank = l->request.opts.node_of_rank,
    };
    return leat_cursor_open(&opts, &l->cursor, err);
}

/* For a look: the order alone. */
static leat_status describe_look(struct leat_loading *l, struct leat_error *err)
{
    struct leat_order *order = NULL;
    leat_status rc = open_order(l, l->epoch, &order, err);
    if (rc == LEAT_OK)
        rc = describe(l, order, err);
    leat_order_close(order);
    return rc;
}

leat_status leat_loading_compute(struct leat_loading *l, struct leat_error *err)
{
    leat_status rc = read_settings(l, &l->request.opts, err);
    if (rc == LEAT_OK)
        rc = describe_order(l, err);
    if (rc == LEAT_OK && l->request.state)
        rc = take_state(l, err);
    if (rc != LEAT_OK)
        return rc;
    choose_window(l);
    if (!l->world) /* what is too much for one rank alone is too much for any world */
        l->global_batch = l->batch = l->request.opts.batch;
    else
        l->batch = l->global_batch / l->world;
    rc = check_batch(l, err);
    if (rc == LEAT_OK)
        rc = count_bytes(l, err);
    if (rc == LEAT_OK)
        rc = make_outputs(l, err);
    if (rc == LEAT_OK && !l->world)
        return describe_look(l, err);
    if (rc == LEAT_OK)
        rc = open_cursor(l, err);
    return rc == LEAT_OK ? describe(l, leat_cursor_order(l->cursor), err) : rc;
}
