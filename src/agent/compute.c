/* What an opening computes: settings against the datasets, views, state, order, outputs, how much memory it will take.
 * Takes from microseconds to a tenth of a second (a hundred thousand chunks, a batch of a million), and longer where a
 * view has to read the table of samples, so it is done on a thread that may take its time. It reads the request and the
 * datasets, and writes the loader's constants. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "agent/blend.h"
#include "agent/circle.h"
#include "agent/inside.h"
#include "agent/peers.h"
#include "agent/pictures.h"
#include "base/hash.h"
#include "base/json.h"
#include "dataset/classes.h"
#include "order/state.h"
#include "ring/settings.h"

#define RAGGED_MAX     (1u << 20) /* a sample's ragged bytes that a slot provides for; more gets its own memory */
#define RING_BYTES_MAX (16ull << 30)

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for a loader");
}

static const struct leat_root *root_of(const struct leat_loading_stream *s)
{
    return leat_dataset_root(s->supply->dataset);
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
    l->shares = o->share != LEAT_SHARE_OFF;
    l->draws_apart = o->draw_seed_given;
    l->draw_seed = o->draw_seed;
    l->slots = o->slots ? o->slots : LEAT_SLOTS_DEFAULT;
    l->epoch = o->epoch;
    return leat_loader_check(o, err);
}

/* Streams */

static leat_status open_stream(struct leat_loading *l, uint32_t i, const struct leat_blend_spec *mix,
                               struct leat_error *err)
{
    const struct leat_loader_opts *o = &l->request.opts;
    struct leat_loading_stream *s = &l->streams[i];
    s->supply = l->opts.blend ? l->opts.blend->supplies[i] : l->opts.supply;
    s->first = l->opts.blend ? l->opts.blend->first[i] : 0;
    s->name = mix ? strdup(mix->streams[i].name) : NULL;
    if (mix && !s->name)
        return no_memory(err);
    leat_status rc = leat_view_open(s->supply->dataset, mix ? mix->streams[i].view : o->view, &s->view, err);
    if (rc == LEAT_OK && leat_view_units(s->view) == 0)
        rc =
            leat_fail(err, LEAT_INVALID, "the dataset '%s' has no samples", leat_dataset_home(s->supply->dataset)->url);
    if (rc != LEAT_OK)
        return mix ? leat_fail_context(err, rc, "stream '%.60s' of the mixture", s->name) : rc;
    memcpy(s->spec.dataset, leat_dataset_id(s->supply->dataset), sizeof s->spec.dataset);
    s->spec.view = leat_view_name(s->view);
    s->spec.counts = leat_view_counts(s->view);
    s->spec.chunks = root_of(s)->chunks;
    s->spec.shuffle = o->shuffle;
    s->spec.seed = o->seed;
    s->spec.window = o->window;
    return LEAT_OK;
}

/* The shares of the streams, part by part. */
static leat_status take_shares(struct leat_loading *l, const struct leat_blend_spec *mix, struct leat_error *err)
{
    double weights[LEAT_BLEND_STREAMS_MAX] = {1};
    uint64_t units[LEAT_BLEND_STREAMS_MAX];
    bool tempered = mix && mix->temperature > 0;
    leat_status rc = LEAT_OK;
    for (uint32_t i = 0; i < l->streams_n; i++)
        units[i] = leat_view_units(l->streams[i].view);
    l->parts_n = tempered || !mix ? 1 : mix->parts_n;
    l->parts = calloc(l->parts_n, sizeof *l->parts);
    if (!l->parts)
        return no_memory(err);
    if (tempered)
        rc = leat_mixture_temper(units, l->streams_n, mix->temperature, weights, err);
    for (uint32_t i = 0; rc == LEAT_OK && i < l->parts_n; i++) {
        l->parts[i].from = tempered || !mix ? 0 : mix->parts[i].from;
        rc = leat_mixture_shares(tempered || !mix ? weights : mix->parts[i].weights, l->streams_n, l->parts[i].shares,
                                 err);
        if (rc != LEAT_OK && l->parts_n > 1)
            leat_fail_context(err, rc, "step %u of the mixture's schedule", i);
        else if (rc != LEAT_OK)
            leat_fail_context(err, rc, "the mixture");
    }
    return rc == LEAT_OK ? leat_mixture_open(l->streams_n, l->parts, l->parts_n, &l->mixture, err) : rc;
}

/* How long an epoch is, and how the streams are mixed. One dataset with epochs of its own size is no mixture. */
static leat_status measure_epoch(struct leat_loading *l, const struct leat_blend_spec *mix, struct leat_error *err)
{
    for (uint32_t i = 0; i < l->streams_n; i++)
        l->epoch_units += leat_view_units(l->streams[i].view);
    if (!mix && !l->request.opts.epoch_size)
        return LEAT_OK;
    if (l->request.opts.epoch_size)
        l->epoch_units = l->request.opts.epoch_size;
    return take_shares(l, mix, err);
}

static leat_status open_streams(struct leat_loading *l, struct leat_error *err)
{
    const struct leat_loader_opts *o = &l->request.opts;
    struct leat_blend_spec *mix = NULL;
    leat_status rc = LEAT_OK;
    if (l->opts.blend) {
        mix = calloc(1, sizeof *mix);
        rc = mix ? leat_blend_read(o->mix, mix, err) : no_memory(err);
        if (rc == LEAT_OK && o->view)
            rc = leat_fail(err, LEAT_INVALID, "view='%.60s': give each stream of the mixture its own view instead",
                           o->view);
        if (rc == LEAT_OK && mix->n != l->opts.blend->n)
            rc = leat_fail(err, LEAT_INTERNAL, "a mixture of %u streams, but %u are open", mix->n, l->opts.blend->n);
    }
    uint32_t n = l->opts.blend ? l->opts.blend->n : 1;
    l->streams = rc == LEAT_OK ? calloc(n, sizeof *l->streams) : NULL;
    if (rc == LEAT_OK && !l->streams)
        rc = no_memory(err);
    l->streams_n = l->streams ? n : 0;
    for (uint32_t i = 0; rc == LEAT_OK && i < n; i++)
        rc = open_stream(l, i, mix, err);
    if (rc == LEAT_OK)
        rc = measure_epoch(l, mix, err);
    if (mix)
        leat_blend_free(mix);
    free(mix);
    return rc;
}

void leat_loading_close_streams(struct leat_loading *l)
{
    for (uint32_t i = 0; i < l->streams_n; i++) {
        free(l->streams[i].apart);
        leat_outputs_free(&l->streams[i].outputs);
        leat_view_close(l->streams[i].view);
        free(l->streams[i].name);
    }
    leat_mixture_close(l->mixture);
    free(l->parts);
    free(l->streams);
}

static leat_status check_batch(const struct leat_loading *l, struct leat_error *err)
{
    if (l->last == LEAT_ORDER_DROP && l->global_batch > l->epoch_units)
        return leat_fail(
            err, LEAT_INVALID,
            "a global batch of %u is larger than an epoch (%llu %s), and incomplete batches are dropped: no batch "
            "would ever come. Use last=\"pad\" or \"short\", or a smaller batch",
            l->global_batch, (unsigned long long)l->epoch_units,
            leat_view_is_blocks(l->streams[0].view) ? "blocks" : "samples");
    return LEAT_OK;
}

static void choose_windows(struct leat_loading *l)
{
    for (uint32_t i = 0; i < l->streams_n; i++) {
        struct leat_loading_stream *s = &l->streams[i];
        if (!s->spec.window)
            s->spec.window = leat_order_window_default(s->spec.chunks, root_of(s)->bytes);
    }
}

/* State */

/* The loader's own, at its epoch and position. */
static leat_status make_state(const struct leat_loading *l, struct leat_order_state *out, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    *out = (struct leat_order_state){
        .streams_n = l->streams_n, .draws_apart = l->draws_apart, .draw_seed = l->draws_apart ? l->draw_seed : 0};
    for (uint32_t i = 0; rc == LEAT_OK && i < l->streams_n; i++) {
        struct leat_order *order;
        rc = leat_order_open(&l->streams[i].spec, &order, err); /* of its epoch 0: they are all alike here */
        if (rc != LEAT_OK)
            break;
        out->streams[i] = leat_order_stream(&l->streams[i].spec, order);
        leat_order_close(order);
    }
    if (rc != LEAT_OK)
        return rc;
    out->streams[0].epoch = l->epoch;
    out->streams[0].position = l->position;
    if (!l->mixture)
        return LEAT_OK;
    out->parts = l->parts;
    out->parts_n = l->parts_n;
    out->epoch_units = l->epoch_units;
    if (l->epoch >= LEAT_ORDER_NUMBER_MAX / l->epoch_units)
        return leat_fail(err, LEAT_INVALID, "epoch %llu with %llu samples per epoch is too far",
                         (unsigned long long)l->epoch, (unsigned long long)l->epoch_units);
    leat_order_state_move(out, l->mixture, l->epoch, l->position);
    return LEAT_OK;
}

/* A state says where to begin, and the seeds and the windows where the caller has not: what it says otherwise must be
 * this loader's. */
static leat_status fit_state(struct leat_loading *l, const struct leat_order_state *theirs,
                             struct leat_order_state *mine, struct leat_error *err)
{
    const struct leat_loader_opts *o = &l->request.opts;
    for (uint32_t i = 0; i < l->streams_n && i < theirs->streams_n; i++) {
        struct leat_order_spec *spec = &l->streams[i].spec;
        if (!o->seed_given)
            spec->seed = theirs->streams[i].seed;
        if (!spec->window && theirs->streams[i].shuffle)
            spec->window = theirs->streams[i].window;
    }
    if (!o->draw_seed_given) {
        l->draws_apart = theirs->draws_apart;
        l->draw_seed = theirs->draw_seed;
    }
    choose_windows(l);
    leat_status rc = make_state(l, mine, err);
    if (rc == LEAT_OK)
        rc = leat_order_state_fits(theirs, mine, "the state", err);
    if (rc != LEAT_OK)
        return rc;
    l->epoch = l->mixture ? theirs->epoch : theirs->streams[0].epoch;
    l->position = l->mixture ? theirs->position : theirs->streams[0].position;
    return LEAT_OK;
}

static leat_status take_state(struct leat_loading *l, struct leat_error *err)
{
    struct leat_order_state *theirs = calloc(2, sizeof *theirs);
    if (!theirs)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a state");
    leat_status rc = leat_order_state_read(l->request.state, strlen(l->request.state), &theirs[0], err);
    if (rc == LEAT_OK)
        rc = fit_state(l, &theirs[0], &theirs[1], err);
    leat_order_state_free(&theirs[0]);
    free(theirs);
    return rc;
}

/* A digest of what the streams are and how they are mixed: ranks compare it. */
static void digest_mixture(const struct leat_loading *l, char out[33])
{
    uint8_t sha[LEAT_SHA256_SIZE];
    struct leat_buf b;
    leat_buf_init(&b, 1 << 20);
    for (uint32_t i = 0; i < l->streams_n; i++) {
        leat_buf_add(&b, l->streams[i].spec.dataset, LEAT_SHA256_SIZE);
        leat_buf_printf(&b, "%s\n%u\n", l->streams[i].spec.view, l->streams[i].spec.window);
    }
    for (uint32_t i = 0; i < l->parts_n; i++) {
        leat_buf_printf(&b, "%llu", (unsigned long long)l->parts[i].from);
        for (uint32_t k = 0; k < l->streams_n; k++)
            leat_buf_printf(&b, " %u", l->parts[i].shares[k]);
        leat_buf_str(&b, "\n");
    }
    leat_sha256(b.data, b.len, sha);
    leat_hex(sha, 16, out);
    leat_buf_free(&b);
}

/* The version: the dataset's content id, or a mixture's own. */
static void find_id(struct leat_loading *l)
{
    uint8_t ids[LEAT_BLEND_STREAMS_MAX][LEAT_SHA256_SIZE];
    for (uint32_t i = 0; i < l->streams_n; i++)
        memcpy(ids[i], l->streams[i].spec.dataset, sizeof ids[i]);
    if (l->opts.blend)
        leat_blend_id(ids[0], l->streams_n, l->id);
    else
        memcpy(l->id, ids[0], sizeof l->id);
}

/* With other machines. A circle's job is not known here: it may change at any time. */
static bool shares_chunks(const struct leat_loading *l)
{
    return l->job || (l->request.opts.members && leat_circle_is(l->request.opts.members));
}

/* What all ranks must have in common. */
static leat_status describe_agreement(struct leat_loading *l, const struct leat_order_state *state,
                                      struct leat_error *err)
{
    const struct leat_order_stream *one = &state->streams[0];
    char id[2 * LEAT_SHA256_SIZE + 1];
    char nodes[2 * LEAT_SHA256_SIZE + 1];
    char mixture[33];
    uint8_t digest[LEAT_SHA256_SIZE];
    leat_hex(l->id, sizeof l->id, id);
    leat_sha256(leat_cursor_node_of_rank(l->cursor), l->world * sizeof(uint32_t), digest);
    leat_hex(digest, 8, nodes);
    json_t *j = json_pack(
        "{s:s,s:s,s:I,s:b,s:I,s:I,s:I,s:I,s:I,s:I,s:s,s:I,s:s,s:i,s:i}", "dataset", id, "view",
        l->opts.blend ? "mixture" : one->view, "units", (json_int_t)l->epoch_units, "shuffle", one->shuffle, "seed",
        (json_int_t)one->seed, "draw_seed", (json_int_t)leat_order_state_draws(state), "window",
        (json_int_t)one->window, "epoch", (json_int_t)l->epoch, "position", (json_int_t)l->position,
        "global_batch_size", (json_int_t)l->global_batch, "last", leat_order_last_name(l->last), "world_size",
        (json_int_t)l->world, "node map", nodes, "order", LEAT_ORDER_VERSION, "assignment", LEAT_ORDER_ASSIGNMENT);
    if (j && l->mixture) {
        digest_mixture(l, mixture);
        if (json_object_set_new(j, "mixture", json_string(mixture)) < 0) {
            json_decref(j);
            j = NULL;
        }
    }
    if (j && shares_chunks(l)) { /* ranks that place chunks differently would assign samples differently */
        leat_sha256(leat_cursor_placement(l->cursor), leat_cursor_slots(l->cursor) * sizeof(uint32_t), digest);
        leat_hex(digest, 8, nodes);
        if (json_object_set_new(j, "placement", json_string(nodes)) < 0) {
            json_decref(j);
            j = NULL;
        }
    }
    l->agreement = leat_json_write(j, JSON_COMPACT);
    json_decref(j);
    return l->agreement ? LEAT_OK : no_memory(err);
}

/* The state at the opening. */
static leat_status describe(struct leat_loading *l, struct leat_error *err)
{
    struct leat_order_state *s = calloc(1, sizeof *s);
    if (!s)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a state");
    find_id(l);
    leat_status rc = make_state(l, s, err);
    if (rc == LEAT_OK)
        rc = leat_order_state_write(s, &l->state, err);
    if (rc == LEAT_OK && l->world)
        rc = describe_agreement(l, s, err);
    free(s);
    return rc;
}

/* Memory */

/* About as many chunks of a stream as one global batch touches; more where chunks differ much in their number of
 * samples. */
static uint64_t chunks_needed(const struct leat_loading *l, const struct leat_loading_stream *s)
{
    uint64_t units = leat_view_units(s->view);
    uint64_t each = units / s->spec.chunks ? units / s->spec.chunks : 1;
    uint64_t spread = (s->spec.shuffle ? s->spec.window : 1) + l->global_batch / each + 2;
    uint64_t most = s->spec.chunks;
    most = spread < most ? spread : most;
    return l->global_batch < most ? l->global_batch : most;
}

static int larger_first(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

/* Bytes of the largest chunks: this many chunks, whichever, fit into that. A batch has no more chunks than samples, of
 * all streams together. Ranks of one machine need the window's chunks once, not once each. */
static leat_status count_bytes(struct leat_loading *l, struct leat_error *err)
{
    uint64_t most = 0;
    uint64_t kept = 0;
    for (uint32_t i = 0; i < l->streams_n; i++)
        most += l->streams[i].spec.chunks;
    uint32_t *sizes = malloc((size_t)(most + 1) * sizeof *sizes);
    if (!sizes)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to look at %llu chunks", (unsigned long long)most);
    for (uint32_t i = 0; i < l->streams_n; i++) {
        const struct leat_loading_stream *s = &l->streams[i];
        uint32_t *own = sizes + kept; /* the largest are moved together, stream by stream */
        uint64_t live = s->spec.shuffle ? s->spec.window : 1;
        memcpy(own, root_of(s)->sizes, s->spec.chunks * sizeof *own);
        qsort(own, s->spec.chunks, sizeof *own, larger_first);
        for (uint64_t k = 0; k < live && k < s->spec.chunks; k++)
            l->live += own[k];
        kept += chunks_needed(l, s);
    }
    qsort(sizes, (size_t)kept, sizeof *sizes, larger_first);
    for (uint64_t i = 0; i < kept && i < l->global_batch; i++) {
        l->needed += i < l->batch ? sizes[i] : 0;
        l->together += sizes[i];
    }
    free(sizes);
    return LEAT_OK;
}

/* A batch has columns of one kind, whichever stream a sample comes from. */
static leat_status check_columns(const struct leat_loading *l, uint32_t i, struct leat_error *err)
{
    const struct leat_outputs *a = &l->streams[0].outputs;
    const struct leat_outputs *b = &l->streams[i].outputs;
    for (uint32_t c = 0; c < a->n; c++) {
        if (memcmp(&a->columns[c], &b->columns[c], sizeof a->columns[c]) != 0)
            return leat_fail(err, LEAT_INVALID,
                             "output '%s' has another type or shape in stream '%.60s' of the mixture than in '%.60s'",
                             a->columns[c].name, l->streams[i].name, l->streams[0].name);
    }
    return LEAT_OK;
}

/* A number that is a cat in one stream and a dog in another would be a wrong label in half of the batch. */
static leat_status check_labels(const struct leat_loading *l, uint32_t i, struct leat_error *err)
{
    const struct leat_outputs *b = &l->streams[i].outputs;
    for (uint32_t k = 0; k < i; k++) {
        const struct leat_outputs *a = &l->streams[k].outputs;
        for (uint32_t c = 0; c < b->n; c++) {
            if (b->plans[c].kind != LEAT_OUTPUT_INT)
                continue;
            leat_status rc = leat_classes_agree(&root_of(&l->streams[k])->schema.fields[a->plans[c].field],
                                                &root_of(&l->streams[i])->schema.fields[b->plans[c].field], err);
            if (rc != LEAT_OK)
                return leat_fail_context(err, rc,
                                         "output '%s': streams '%.60s' and '%.60s' of the mixture number their labels "
                                         "differently (make one with --classes of the other)",
                                         b->columns[c].name, l->streams[k].name, l->streams[i].name);
        }
    }
    return LEAT_OK;
}

static leat_status make_outputs(struct leat_loading *l, struct leat_error *err)
{
    uint64_t bytes = 0;
    uint64_t units = 0;
    leat_status rc = LEAT_OK;
    for (uint32_t i = 0; i < l->streams_n; i++) {
        bytes += root_of(&l->streams[i])->bytes;
        units += leat_view_units(l->streams[i].view);
    }
    uint64_t ragged = (units ? bytes / units : 0) * 2 + 256; /* a batch that needs more gets its own memory */
    ragged = ragged < RAGGED_MAX ? ragged : RAGGED_MAX;
    for (uint32_t i = 0; rc == LEAT_OK && i < l->streams_n; i++) {
        struct leat_loading_stream *s = &l->streams[i];
        rc = leat_outputs_make_of(s->view, l->request.outputs, l->request.opts.outputs_n, &root_of(s)->schema,
                                  l->world ? l->batch : 1, l->world ? ragged : 0, &s->outputs, err);
        if (rc != LEAT_OK && s->name)
            leat_fail_context(err, rc, "stream '%.60s' of the mixture", s->name);
        if (rc == LEAT_OK && i > 0)
            rc = check_columns(l, i, err);
        if (rc == LEAT_OK && i > 0)
            rc = check_labels(l, i, err);
    }
    l->outputs = &l->streams[0].outputs;
    if (rc == LEAT_OK && l->outputs->slot_bytes > RING_BYTES_MAX / l->slots)
        rc = leat_fail(err, LEAT_LIMIT, "%u slots of %llu bytes are more than a ring may have", l->slots,
                       (unsigned long long)l->outputs->slot_bytes);
    return rc;
}

/* Who owns what, as all machines of the job see it before any of them is lost. *out NULL: by the node map alone. */
static leat_status place(const struct leat_loading *l, uint32_t **out, struct leat_error *err)
{
    uint64_t chunks = 0;
    const struct leat_loader_opts *o = &l->request.opts;
    *out = NULL;
    if (!shares_chunks(l))
        return LEAT_OK;
    for (uint32_t i = 0; i < l->streams_n; i++)
        chunks += l->streams[i].spec.chunks;
    uint32_t slots = leat_order_slots((uint32_t)(chunks < LEAT_ORDER_CHUNKS_MAX ? chunks : LEAT_ORDER_CHUNKS_MAX));
    if (!l->job)
        return leat_circle_assign(o->members, o->node_of_rank, l->world, slots, out, err);
    const struct leat_members *m = leat_peers_members(l->job);
    leat_status rc = leat_members_fit(&m->now, o->node_of_rank, l->world, err);
    uint32_t *table = rc == LEAT_OK ? calloc((size_t)slots + 1, sizeof *table) : NULL;
    if (rc == LEAT_OK)
        rc = table ? leat_members_place(m, NULL, slots, table, err) : no_memory(err);
    if (rc == LEAT_OK)
        *out = table;
    else
        free(table);
    return rc;
}

static leat_status open_cursor(struct leat_loading *l, struct leat_error *err)
{
    struct leat_order_spec specs[LEAT_ORDER_STREAMS_MAX];
    struct leat_cursor_opts opts = {
        .specs = specs,
        .specs_n = l->streams_n,
        .mixture = l->mixture,
        .epoch_units = l->epoch_units,
        .epoch = l->epoch,
        .position = l->position,
        .global_batch = l->global_batch,
        .last = l->last,
        .rank = l->rank,
        .world = l->world,
        .node_of_rank = l->request.opts.node_of_rank,
    };
    uint32_t *placement;
    for (uint32_t i = 0; i < l->streams_n; i++)
        specs[i] = l->streams[i].spec;
    leat_status rc = place(l, &placement, err);
    if (rc != LEAT_OK)
        return rc;
    opts.node_of_slot = placement;
    rc = leat_cursor_open(&opts, &l->cursor, err);
    free(placement);
    return rc;
}

/* Sharing */

/* What ranks of one job have in common, wherever each of them stands; never 0. */
static leat_status find_group(struct leat_loading *l, struct leat_error *err)
{
    char mixture[33] = "";
    struct leat_buf b;
    leat_buf_init(&b, 1 << 20);
    if (l->mixture)
        digest_mixture(l, mixture);
    for (uint32_t i = 0; i < l->streams_n; i++) {
        const struct leat_order_spec *spec = &l->streams[i].spec;
        leat_buf_add(&b, spec->dataset, sizeof spec->dataset);
        leat_buf_printf(&b, "%s\n%llu %d %u\n", spec->view, (unsigned long long)spec->seed, spec->shuffle,
                        spec->window);
    }
    leat_buf_printf(&b, "%s %llu %u %u %d\n", mixture, (unsigned long long)l->epoch_units, l->world, l->global_batch,
                    l->last);
    leat_status rc = leat_buf_check(&b, "what ranks have in common", err);
    if (rc == LEAT_OK)
        l->group = leat_xxh3(b.data, b.len) | 1;
    leat_buf_free(&b);
    return rc;
}

/* Everything that makes the bytes of what a stream's loaders share, and when they come. */
static leat_status identify(const struct leat_loading *l, struct leat_loading_stream *s, struct leat_error *err)
{
    char mixture[33] = "";
    struct leat_buf b;
    leat_buf_init(&b, 1 << 20);
    if (l->mixture)
        digest_mixture(l, mixture);
    leat_buf_add(&b, leat_dataset_identity(s->supply->dataset), LEAT_SHA256_SIZE);
    leat_buf_printf(&b, "%s\n%llu %d %u %s %llu\n", s->spec.view, (unsigned long long)s->spec.seed, s->spec.shuffle,
                    s->spec.window, mixture, (unsigned long long)l->epoch_units);
    leat_buf_printf(&b, "%u %u %u %u %d\n", (unsigned)(s - l->streams), l->rank, l->world, l->global_batch, l->last);
    leat_buf_add(&b, leat_cursor_node_of_rank(l->cursor), l->world * sizeof(uint32_t));
    if (s->by_picture)
        leat_pictures_identify(&s->outputs, &b);
    else
        leat_buf_printf(&b, "draws %d %llu\n", l->draws_apart, (unsigned long long)l->draw_seed);
    for (uint32_t i = 0; !s->by_picture && i < s->outputs.n; i++) {
        const struct leat_output_plan *p = &s->outputs.plans[i];
        const char *pipeline = l->request.outputs[i].pipeline;
        if (leat_outputs_costly(&s->outputs, i))
            leat_buf_printf(&b, "%u %u %u %d %u %s\n", p->kind, p->field, p->view, p->follows, p->like,
                            pipeline ? pipeline : "");
    }
    leat_status rc = leat_buf_check(&b, "what loaders share", err);
    if (rc == LEAT_OK)
        leat_sha256(b.data, b.len, s->share_id);
    leat_buf_free(&b);
    return rc;
}

static leat_status plan_sharing(struct leat_loading *l, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (uint32_t i = 0; rc == LEAT_OK && i < l->streams_n; i++) {
        struct leat_loading_stream *s = &l->streams[i];
        struct leat_outputs apart;
        leat_outputs_apart(&s->outputs, &apart);
        if (!apart.slot_bytes)
            continue;
        s->apart = malloc(sizeof apart);
        if (!s->apart)
            return no_memory(err);
        *s->apart = apart;
        s->by_picture = l->draws_apart && leat_pictures_apart(&s->outputs);
        rc = identify(l, s, err);
    }
    return rc;
}

leat_status leat_loading_compute(struct leat_loading *l, struct leat_error *err)
{
    leat_status rc = read_settings(l, &l->request.opts, err);
    if (rc == LEAT_OK)
        rc = open_streams(l, err);
    if (rc == LEAT_OK && l->request.state)
        rc = take_state(l, err);
    if (rc != LEAT_OK)
        return rc;
    choose_windows(l);
    if (!l->world) /* what is too much for one rank alone is too much for any world */
        l->global_batch = l->batch = l->request.opts.batch;
    else
        l->batch = l->global_batch / l->world;
    rc = check_batch(l, err);
    if (rc == LEAT_OK)
        rc = count_bytes(l, err);
    if (rc == LEAT_OK)
        rc = make_outputs(l, err);
    if (rc == LEAT_OK && l->world)
        rc = open_cursor(l, err);
    if (rc == LEAT_OK && l->world)
        rc = plan_sharing(l, err);
    if (rc == LEAT_OK && l->world > 1)
        rc = find_group(l, err);
    return rc == LEAT_OK ? describe(l, err) : rc;
}
