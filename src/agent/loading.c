#include "agent/loading.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/account.h"
#include "agent/batch.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/random.h"
#include "leat/loader.h"
#include "order/place.h"
#include "order/state.h"
#include "ring/settings.h"

#define AHEAD_BYTES    (512u << 20) /* fetched ahead of the live window: half a second of a fast line */
#define RAGGED_MAX     (1u << 20)   /* a sample's ragged bytes that a slot provides for; more gets its own memory */
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
    for (uint32_t i = 0; i < root->chunks; i++)
        l->chunk_bytes_max = root->sizes[i] > l->chunk_bytes_max ? root->sizes[i] : l->chunk_bytes_max;
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

/* A state says where to begin, and the seed and the window where the caller has not: what it says otherwise must be
 * this loader's. */
static leat_status take_state(struct leat_loading *l, const struct leat_request *r, struct leat_error *err)
{
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
    if (rc == LEAT_OK && !l->spec.window)
        l->spec.window = leat_order_window_default(l->spec.chunks, root_of(l)->bytes);
    if (rc == LEAT_OK)
        rc = leat_loading_order(l, 0, &order, err);
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

/* Everything that has to be known before any memory is set aside: settings, order, cursor. */
static leat_status read_request(struct leat_loading *l, const struct leat_request *r, struct leat_error *err)
{
    leat_status rc = read_settings(l, &r->opts, err);
    if (rc == LEAT_OK)
        rc = describe_order(l, err);
    if (rc == LEAT_OK && r->state)
        rc = take_state(l, r, err);
    if (rc == LEAT_OK && !l->spec.window)
        l->spec.window = leat_order_window_default(l->spec.chunks, root_of(l)->bytes);
    return rc;
}

/* The state at the opening, and what all ranks must have in common. */
static leat_status describe(struct leat_loading *l, struct leat_error *err)
{
    struct leat_order_state *s = calloc(1, sizeof *s);
    if (!s)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a state");
    struct leat_order_stream *one = &s->streams[0];
    s->streams_n = 1;
    *one = leat_order_stream(&l->spec, l->now);
    one->epoch = l->epoch;
    one->position = l->position;
    leat_status rc = leat_order_state_write(s, &l->state, err);
    if (rc == LEAT_OK && l->world) {
        char id[2 * LEAT_SHA256_SIZE + 1];
        char nodes[2 * LEAT_SHA256_SIZE + 1];
        uint8_t digest[LEAT_SHA256_SIZE];
        leat_hex(one->dataset, sizeof one->dataset, id);
        leat_sha256(l->node_of_rank, l->world * sizeof *l->node_of_rank, digest);
        leat_hex(digest, 8, nodes);
        json_t *j = json_pack("{s:s,s:s,s:I,s:b,s:I,s:I,s:I,s:I,s:I,s:s,s:I,s:s,s:i,s:i}", "dataset", id, "view",
                              one->view, "units", (json_int_t)one->units, "shuffle", one->shuffle, "seed",
                              (json_int_t)one->seed, "window", (json_int_t)one->window, "epoch", (json_int_t)one->epoch,
                              "position", (json_int_t)one->position, "global_batch_size", (json_int_t)l->global_batch,
                              "last", leat_order_last_name(l->last), "world_size", (json_int_t)l->world, "node map",
                              nodes, "order", LEAT_ORDER_VERSION, "assignment", LEAT_ORDER_ASSIGNMENT);
        l->agreement = leat_json_write(j, JSON_COMPACT);
        json_decref(j);
        if (!l->agreement)
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for a loader");
    }
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

static leat_status open_world(struct leat_loading *l, const uint32_t *node_of_rank, struct leat_error *err)
{
    struct leat_order_world *w = &l->order_world;
    leat_status rc = leat_order_batch_check(l->global_batch, err); /* and the world is not larger */
    if (rc != LEAT_OK)
        return rc;
    w->ranks = l->world;
    w->nodes = 1;
    w->chunks = l->spec.chunks;
    w->slots = leat_order_slots(l->spec.chunks);
    l->node_of_rank = calloc(l->world, sizeof *l->node_of_rank);
    l->node_of_slot = calloc(w->slots + 1, sizeof *l->node_of_slot);
    l->items = calloc(l->global_batch, sizeof *l->items);
    l->rank_of = calloc(l->global_batch, sizeof *l->rank_of);
    if (!l->node_of_rank || !l->node_of_slot || !l->items || !l->rank_of)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a batch of %u", l->global_batch);
    /* Ranks whose machines are not known count as one node: every rank comes to the same answer, and only locality is
     * lost. */
    for (uint32_t r = 0; node_of_rank && r < l->world; r++) {
        l->node_of_rank[r] = node_of_rank[r];
        w->nodes = node_of_rank[r] >= w->nodes ? node_of_rank[r] + 1 : w->nodes;
    }
    if (w->nodes > w->ranks)
        return leat_fail(err, LEAT_INVALID, "a node map with a node %u in a world of %u ranks", w->nodes - 1, w->ranks);
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
static leat_status begin_ring(struct leat_loading *l, const struct leat_request *r, struct leat_error *err)
{
    const struct leat_root *root = root_of(l);
    uint64_t average = root->bytes / root->samples;
    uint64_t ragged = average * 2 + 256; /* twice the average: a batch that needs more gets its own memory */
    if (ragged > RAGGED_MAX)
        ragged = RAGGED_MAX;
    leat_status rc =
        leat_outputs_make(r->outputs, r->opts.outputs_n, &root->schema, l->batch, ragged, &l->outputs, err);
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
    leat_pool_add(l->opts.agent->makers, &l->making.task);
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
    leat_status rc = read_request(l, opts->request, err);
    l->batch = rc == LEAT_OK ? l->global_batch / l->world : 0;
    if (rc == LEAT_OK)
        rc = check_batch(l, err);
    if (rc == LEAT_OK)
        rc = check_budget(l, err);
    if (rc == LEAT_OK)
        rc = open_world(l, opts->request->opts.node_of_rank, err);
    if (rc == LEAT_OK)
        rc = open_orders(l, err);
    if (rc == LEAT_OK)
        rc = describe(l, err);
    if (rc == LEAT_OK)
        rc = begin_ring(l, opts->request, err);
    l->opts.request = NULL;
    if (rc != LEAT_OK) {
        leat_loading_close(l);
        return rc;
    }
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
    free(l->state);
    free(l->agreement);
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

void leat_loading_describe(const struct leat_loading *l, struct leat_buf *b)
{
    char id[2 * LEAT_SHA256_SIZE + 1];
    uint64_t units = root_of(l)->samples;
    leat_hex(l->spec.dataset, sizeof l->spec.dataset, id);
    leat_message_text(b, LEAT_TAG_ID, id);
    leat_message_text(b, LEAT_TAG_STATE, l->state);
    leat_message_number(b, LEAT_TAG_UNITS, units);
    if (l->world)
        leat_message_number(b, LEAT_TAG_BATCHES, leat_order_batches(units, 0, l->global_batch, l->last));
    leat_message_text(b, LEAT_TAG_AGREEMENT, l->agreement);
}

const char *leat_loading_agreement(const struct leat_loading *l)
{
    return l->agreement;
}

struct leat_supply *leat_loading_supply(const struct leat_loading *l)
{
    return l->opts.supply;
}

leat_status leat_loading_look(struct leat_supply *supply, const struct leat_request *r, struct leat_buf *answer,
                              struct leat_error *err)
{
    struct leat_loading l = {.opts = {.agent = supply->agent, .supply = supply}};
    struct leat_outputs outputs = {0};
    leat_status rc = read_request(&l, r, err);
    /* What is too much for one rank alone is too much for any world. */
    l.global_batch = l.batch = r->opts.batch;
    if (rc == LEAT_OK)
        rc = check_batch(&l, err);
    if (rc == LEAT_OK && l.batch)
        rc = check_budget(&l, err);
    supply->agent->promised -= l.needed;
    if (rc == LEAT_OK)
        rc = leat_outputs_make(r->outputs, r->opts.outputs_n, &root_of(&l)->schema, 1, 0, &outputs, err);
    leat_outputs_free(&outputs);
    if (rc == LEAT_OK)
        rc = leat_loading_order(&l, l.epoch, &l.now, err);
    if (rc == LEAT_OK)
        rc = describe(&l, err);
    if (rc == LEAT_OK)
        leat_loading_describe(&l, answer);
    leat_order_close(l.now);
    free(l.state);
    return rc;
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
    leat_loading_show(l);
}

bool leat_loading_yield(struct leat_loading *l)
{
    return leat_batches_yield(l);
}
