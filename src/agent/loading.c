#include "agent/loading.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/batch.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/random.h"
#include "leat/loader.h"
#include "order/place.h"
#include "order/state.h"

#define AHEAD_BYTES    (512u << 20) /* fetched ahead of the live window: half a second of a fast line */
#define RAGGED_MAX     (1u << 20)   /* a sample's ragged bytes that a slot provides for; more gets its own memory */
#define RING_BYTES_MAX (16ull << 30)

static const struct leat_root *root_of(const struct leat_loading *l)
{
    return leat_dataset_root(l->opts.supply->dataset);
}

static leat_status read_settings(struct leat_loading *l, const json_t *r, struct leat_error *err)
{
    l->global_batch = (uint32_t)json_integer_value(json_object_get(r, "global_batch"));
    l->rank = (uint32_t)json_integer_value(json_object_get(r, "rank"));
    l->world = (uint32_t)json_integer_value(json_object_get(r, "world"));
    l->last = (enum leat_order_last)json_integer_value(json_object_get(r, "last"));
    l->skip_errors = json_integer_value(json_object_get(r, "on_error")) == LEAT_ON_ERROR_SKIP;
    l->slots = (uint32_t)json_integer_value(json_object_get(r, "slots"));
    uint32_t local = (uint32_t)json_integer_value(json_object_get(r, "local_world"));
    if (!l->world || l->rank >= l->world || !l->global_batch || l->global_batch % l->world ||
        (unsigned)l->last > LEAT_ORDER_SHORT || l->slots < 2 || l->slots > LEAT_RING_SLOTS_MAX)
        return leat_fail(err, LEAT_INVALID, "rank %u of %u with a global batch of %u and %u slots cannot be", l->rank,
                         l->world, l->global_batch, l->slots);
    l->local_world = local && l->world % local == 0 ? local : l->world;
    l->spec.shuffle = json_is_true(json_object_get(r, "shuffle"));
    l->spec.seed = (uint64_t)json_integer_value(json_object_get(r, "seed"));
    l->spec.window = (uint32_t)json_integer_value(json_object_get(r, "window"));
    json_int_t epoch = json_integer_value(json_object_get(r, "epoch"));
    json_int_t position = json_integer_value(json_object_get(r, "position"));
    if (epoch < 0 || position < 0)
        return leat_fail(err, LEAT_INVALID, "epoch %lld, position %lld cannot be", (long long)epoch,
                         (long long)position);
    l->epoch = (uint64_t)epoch;
    l->position = (uint64_t)position;
    return LEAT_OK;
}

static leat_status describe_order(struct leat_loading *l, struct leat_error *err)
{
    const struct leat_root *root = root_of(l);
    memcpy(l->spec.dataset, leat_dataset_id(l->opts.supply->dataset), sizeof l->spec.dataset);
    l->spec.view = LEAT_ORDER_VIEW_SAMPLES;
    l->spec.counts = root->counts;
    l->spec.chunks = root->chunks;
    if (!l->spec.window)
        l->spec.window = leat_order_window_default(root->chunks, root->bytes);
    for (uint32_t i = 0; i < root->chunks; i++)
        l->chunk_bytes_max = root->sizes[i] > l->chunk_bytes_max ? root->sizes[i] : l->chunk_bytes_max;
    if (root->samples == 0)
        return leat_fail(err, LEAT_INVALID, "the dataset '%s' has no samples", l->opts.supply->url);
    if (l->last == LEAT_ORDER_DROP && l->global_batch > root->samples)
        return leat_fail(err, LEAT_INVALID,
                         "a global batch of %u is more than the %llu samples there are, and an incomplete one is "
                         "dropped: nothing would ever come (last=\"pad\" or \"short\", or a smaller batch)",
                         l->global_batch, (unsigned long long)root->samples);
    return LEAT_OK;
}

leat_status leat_loading_order(struct leat_loading *l, uint64_t epoch, struct leat_order **out, struct leat_error *err)
{
    struct leat_order_spec spec = l->spec;
    spec.epoch = epoch;
    return leat_order_open(&spec, out, err);
}

/* Opens the orders of the epoch at the cursor and of the next one, and a reader at the cursor. */
static leat_status open_orders(struct leat_loading *l, struct leat_error *err)
{
    leat_status rc = leat_loading_order(l, l->epoch, &l->now, err);
    if (rc == LEAT_OK)
        rc = leat_loading_order(l, l->epoch + 1, &l->coming, err);
    if (rc != LEAT_OK)
        return rc;
    if (l->position > leat_order_units(l->now))
        return leat_fail(err, LEAT_INVALID, "position %llu is behind the end of the epoch (%llu samples)",
                         (unsigned long long)l->position, (unsigned long long)leat_order_units(l->now));
    l->augment_key = leat_key("augment", l->spec.seed, l->epoch, l->spec.dataset, sizeof l->spec.dataset);
    return leat_order_reader_open(l->now, l->position, &l->reader, err);
}

/* A state from outside takes the cursor's place, if it is one of this loader. */
static leat_status take_state(struct leat_loading *l, const json_t *state, struct leat_error *err)
{
    const char *text = json_string_value(state);
    struct leat_order_state theirs;
    if (!text)
        return LEAT_OK;
    struct leat_order *order;
    leat_status rc = leat_order_state_read(text, strlen(text), &theirs, err);
    if (rc == LEAT_OK && theirs.streams_n != 1)
        rc = leat_fail(err, LEAT_INVALID, "the state is of a mixture of %u datasets, this loader reads one",
                       theirs.streams_n);
    if (rc == LEAT_OK)
        rc = leat_loading_order(l, 0, &order, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_order_stream mine = leat_order_stream(&l->spec, order);
    leat_order_close(order);
    rc = leat_order_stream_fits(&theirs.streams[0], &mine, "the state", err);
    if (rc == LEAT_OK) {
        l->epoch = theirs.streams[0].epoch;
        l->position = theirs.streams[0].position;
    }
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

/* Bytes of the n largest chunks: so many chunks, whichever, fit into that. */
static leat_status largest(const struct leat_root *root, uint64_t n, uint64_t *out, struct leat_error *err)
{
    uint64_t sum = 0;
    uint32_t *sizes = malloc(((size_t)root->chunks + 1) * sizeof *sizes);
    if (!sizes)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to look at %u chunks", root->chunks);
    memcpy(sizes, root->sizes, root->chunks * sizeof *sizes);
    qsort(sizes, root->chunks, sizeof *sizes, larger_first);
    for (uint64_t i = 0; i < n; i++)
        sum += sizes[i];
    free(sizes);
    *out = sum;
    return LEAT_OK;
}

/* A budget too small for a usual batch is refused now, with the smallest that works. An unusual one comes in groups of
 * chunks that have room: see leat_loading_batch_group(). */
static leat_status check_budget(struct leat_loading *l, struct leat_error *err)
{
    struct leat_agent *agent = l->opts.agent;
    uint64_t budget = leat_cache_budget(agent->cache);
    leat_status rc = largest(root_of(l), chunks_needed(l), &l->needed, err);
    if (rc != LEAT_OK)
        return rc;
    if (agent->promised + l->needed <= budget) {
        agent->promised += l->needed;
        return LEAT_OK;
    }
    char has[LEAT_FORMAT_SIZE];
    char more[LEAT_FORMAT_SIZE];
    char taken[LEAT_FORMAT_SIZE];
    uint64_t needed = l->needed;
    l->needed = 0; /* not promised */
    return leat_fail(
        err, LEAT_LIMIT,
        "a budget of ram=%s is too small: this loader needs %s for one batch (window %u) and other loaders "
        "of this agent need %s; ask for at least ram=\"%llumib\"",
        leat_format_size(budget, has), leat_format_size(needed, more), l->spec.window,
        leat_format_size(agent->promised, taken),
        (unsigned long long)((agent->promised + needed + (1 << 20) - 1) >> 20));
}

static leat_status open_world(struct leat_loading *l, struct leat_error *err)
{
    struct leat_order_world *w = &l->order_world;
    leat_status rc = leat_order_batch_check(l->global_batch, err); /* and the world is not larger */
    if (rc != LEAT_OK)
        return rc;
    w->ranks = l->world;
    w->nodes = l->world / l->local_world;
    w->chunks = l->spec.chunks;
    w->slots = leat_order_slots(l->spec.chunks);
    l->node_of_rank = calloc(l->world, sizeof *l->node_of_rank);
    l->node_of_slot = calloc(w->slots + 1, sizeof *l->node_of_slot);
    l->items = calloc(l->global_batch, sizeof *l->items);
    l->rank_of = calloc(l->global_batch, sizeof *l->rank_of);
    if (!l->node_of_rank || !l->node_of_slot || !l->items || !l->rank_of)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a batch of %u", l->global_batch);
    for (uint32_t r = 0; r < l->world; r++)
        l->node_of_rank[r] = r / l->local_world;
    w->node_of_rank = l->node_of_rank;
    w->node_of_slot = l->node_of_slot;
    rc = leat_order_place(w->slots, w->ranks, w->node_of_rank, w->nodes, l->node_of_slot, err);
    if (rc != LEAT_OK)
        return rc;
    return leat_order_assigner_open(w, l->global_batch, false, &l->assigner, err);
}

static void on_released(struct leat_watch *watch, uint32_t events)
{
    struct leat_loading *l = (struct leat_loading *)((char *)watch - offsetof(struct leat_loading, released));
    uint64_t count;
    (void)events;
    ssize_t ignored = read(watch->fd, &count, sizeof count);
    (void)ignored;
    leat_loading_pump(l);
}

/* On the loop: the ring is there, or not. */
static void take_ring(struct leat_task *task)
{
    struct leat_loading *l = (struct leat_loading *)((char *)task - offsetof(struct leat_loading, making.task));
    struct leat_error err = l->making.err;
    l->ring = l->making.ring;
    l->working--;
    if (l->closing) {
        if (!l->working)
            leat_loading_free(l);
        return;
    }
    if (err.status == LEAT_OK)
        leat_loop_watch(l->opts.agent->loop, &l->released, EPOLLIN, &err);
    l->opts.opened(l->opts.user, &err); /* may close it */
}

/* On an opener's thread: the kernel zeroes every page of it, at some gigabytes a second. */
static void make_ring(struct leat_task *task)
{
    struct leat_loading *l = (struct leat_loading *)((char *)task - offsetof(struct leat_loading, making.task));
    leat_ring_create(l->outputs.columns, l->outputs.n, l->batch, l->outputs.slot_bytes, l->slots, &l->making.ring,
                     &l->making.err);
    l->making.task.run = take_ring;
    leat_loop_post(l->opts.agent->loop, &l->making.task);
}

/* Lays the ring out and has its memory made. */
static leat_status begin_ring(struct leat_loading *l, const json_t *request, struct leat_error *err)
{
    const struct leat_root *root = root_of(l);
    uint64_t average = root->bytes / root->samples;
    uint64_t ragged = average * 2 + 256; /* twice the average: a batch that needs more gets its own memory */
    if (ragged > RAGGED_MAX)
        ragged = RAGGED_MAX;
    leat_status rc =
        leat_outputs_make(json_object_get(request, "outputs"), &root->schema, l->batch, ragged, &l->outputs, err);
    if (rc == LEAT_OK && l->outputs.slot_bytes > RING_BYTES_MAX / l->slots)
        rc = leat_fail(err, LEAT_LIMIT, "%u slots of %llu bytes are more than a ring may have", l->slots,
                       (unsigned long long)l->outputs.slot_bytes);
    if (rc != LEAT_OK)
        return rc;
    l->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->released.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->released.ready = on_released;
    if (l->ready_fd < 0 || l->released.fd < 0)
        return leat_fail(err, LEAT_LIMIT, "no descriptors left for a ring");
    l->working++;
    l->making.task.run = make_ring;
    leat_pool_add(l->opts.agent->openers, &l->making.task);
    return LEAT_OK;
}

leat_status leat_loading_open(const struct leat_loading_opts *opts, struct leat_loading **out, struct leat_error *err)
{
    struct leat_loading *l = calloc(1, sizeof *l);
    if (!l)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a loader");
    l->opts = *opts;
    leat_supply_hold(opts->supply);
    l->ring.fd = l->making.ring.fd = l->ready_fd = l->released.fd = -1;
    leat_status rc = read_settings(l, opts->request, err);
    l->batch = rc == LEAT_OK ? l->global_batch / l->world : 0;
    if (rc == LEAT_OK)
        rc = describe_order(l, err);
    if (rc == LEAT_OK)
        rc = take_state(l, json_object_get(opts->request, "state"), err);
    if (rc == LEAT_OK)
        rc = check_budget(l, err);
    if (rc == LEAT_OK)
        rc = open_world(l, err);
    if (rc == LEAT_OK)
        rc = open_orders(l, err);
    if (rc == LEAT_OK)
        rc = begin_ring(l, opts->request, err);
    l->opts.request = NULL;
    if (rc != LEAT_OK) {
        leat_loading_close(l);
        return rc;
    }
    l->first_epoch = l->epoch;
    l->first_position = l->position;
    l->next = opts->supply->loadings;
    opts->supply->loadings = l;
    l->listed = true;
    *out = l;
    return LEAT_OK;
}

static void unlist(struct leat_loading *l)
{
    if (!l->listed)
        return;
    struct leat_loading **p = &l->opts.supply->loadings;
    while (*p != l)
        p = &(*p)->next;
    *p = l->next;
    l->listed = false;
}

/* When the last work has ended. */
void leat_loading_free(struct leat_loading *l)
{
    leat_order_reader_close(l->reader);
    leat_order_close(l->now);
    leat_order_close(l->coming);
    leat_outputs_free(&l->outputs);
    if (l->ready_fd >= 0)
        close(l->ready_fd);
    if (l->released.fd >= 0)
        close(l->released.fd);
    leat_ring_close(&l->ring);
    leat_order_assigner_close(l->assigner);
    free(l->node_of_rank);
    free(l->node_of_slot);
    free(l->items);
    free(l->rank_of);
    free(l->upcoming);
    leat_supply_release(l->opts.supply);
    free(l);
}

void leat_loading_close(struct leat_loading *l)
{
    if (!l)
        return;
    l->closing = true;
    unlist(l);
    l->opts.agent->promised -= l->needed;
    l->needed = 0;
    leat_loop_unwatch(l->opts.agent->loop, &l->released);
    leat_batches_drop(l);
    if (!l->working)
        leat_loading_free(l);
}

void leat_loading_fds(const struct leat_loading *l, int fds[3])
{
    fds[0] = l->ring.fd;
    fds[1] = l->ready_fd;
    fds[2] = l->released.fd;
}

json_t *leat_loading_describe(const struct leat_loading *l)
{
    char *text;
    struct leat_order_state state = {.streams_n = 1, .streams = {leat_order_stream(&l->spec, l->now)}};
    state.streams[0].epoch = l->first_epoch;
    state.streams[0].position = l->first_position;
    if (leat_order_state_write(&state, &text, NULL) != LEAT_OK)
        return NULL;
    uint64_t units = leat_order_units(l->now);
    json_t *cursor;
    leat_status rc = leat_json_read(text, strlen(text), 0, &cursor, NULL);
    free(text);
    if (rc != LEAT_OK)
        return NULL;
    return json_pack("{s:o,s:I,s:I,s:I}", "state", cursor, "units", (json_int_t)units, "batches",
                     (json_int_t)leat_order_batches(units, 0, l->global_batch, l->last), "window",
                     (json_int_t)l->spec.window);
}

json_t *leat_loading_stats(const struct leat_loading *l)
{
    struct leat_feed_stats feed;
    struct leat_cache_stats cache;
    struct leat_store_stats store;
    char waiting[300];
    leat_feed_stats(l->opts.supply->feed, &feed);
    leat_cache_stats(l->opts.agent->cache, &cache);
    leat_store_stats(leat_dataset_home(l->opts.supply->dataset)->store, &store);
    leat_batches_explain(l, waiting, sizeof waiting);
    return json_pack("{s:s,s:{s:f,s:f},s:{s:I},s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "waiting_for", waiting,
                     "wait_by_cause_s", "fetch", (double)l->stats.wait_fetch_ns / 1e9, "prep",
                     (double)l->stats.wait_prep_ns / 1e9, "bytes_by_source", "bucket", (json_int_t)feed.fetched_bytes,
                     "chunks_fetched", (json_int_t)feed.fetched_chunks, "chunks_corrupt", (json_int_t)feed.corrupt,
                     "samples_skipped", (json_int_t)l->stats.skipped, "batches_split", (json_int_t)l->stats.split,
                     "requests", (json_int_t)store.requests, "retries", (json_int_t)store.retries, "throttled",
                     (json_int_t)store.throttled, "evictions", (json_int_t)cache.evictions, "cache_bytes",
                     (json_int_t)leat_cache_used(l->opts.agent->cache), "cache_budget",
                     (json_int_t)leat_cache_budget(l->opts.agent->cache), "ring_bytes", (json_int_t)l->ring.bytes);
}

struct leat_loading *leat_loading_next(const struct leat_loading *l)
{
    return l->next;
}

uint64_t leat_loading_next_use(const struct leat_loading *l, uint32_t chunk)
{
    uint64_t stage = leat_order_reader_stage(l->reader);
    uint64_t use = leat_order_next_use(l->now, l->coming, stage, chunk);
    return use == LEAT_ORDER_NEVER ? LEAT_CACHE_NEVER : use - stage;
}

/* Chunks soon needed and not there yet, as far as the budget beyond the live window allows. */
static void prefetch(struct leat_loading *l)
{
    uint64_t budget = leat_cache_budget(l->opts.agent->cache);
    uint64_t spare = budget > l->needed ? (budget - l->needed) / 2 : 0;
    uint64_t bytes = spare < AHEAD_BYTES ? spare : AHEAD_BYTES;
    uint64_t each = l->chunk_bytes_max;
    size_t most = (size_t)(leat_order_window(l->now) + (each ? bytes / each : 0));
    if (most > l->spec.chunks * 2ull)
        most = l->spec.chunks * 2ull;
    if (!l->upcoming)
        l->upcoming = malloc((most + 1) * sizeof *l->upcoming);
    if (!l->upcoming)
        return;
    uint64_t stage = leat_order_reader_stage(l->reader);
    size_t n = leat_order_upcoming(l->now, l->coming, stage, 0, l->upcoming, most);
    uint32_t node = l->node_of_rank[l->rank];
    for (size_t i = 0; i < n; i++) {
        uint32_t chunk = l->upcoming[i];
        if (l->node_of_slot[leat_order_slot_of(chunk, l->spec.chunks)] != node)
            continue; /* another node's ranks will mostly get its samples */
        if (!leat_feed_prefetch(l->opts.supply->feed, chunk, leat_loading_next_use(l, chunk)))
            break;
    }
}

void leat_loading_pump(struct leat_loading *l)
{
    if (l->closing || l->dead)
        return;
    struct leat_error err = {0};
    leat_status rc = leat_batches_step(l, &err);
    if (rc != LEAT_OK) {
        l->dead = true;
        l->opts.failed(l->opts.user, &err);
        return;
    }
    if (l->planned_since_prefetch && !leat_batches_hurry(l)) {
        l->planned_since_prefetch = false;
        prefetch(l);
    }
}

bool leat_loading_yield(struct leat_loading *l)
{
    return leat_batches_yield(l);
}
