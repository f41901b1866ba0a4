#include "agent/batch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define PLANS_BEYOND 4u /* batches planned beyond the slots */

enum batch_state {
    BATCH_UNPINNED, /* no room for all its chunks yet */
    BATCH_FETCHING,
    BATCH_WAITING, /* chunks are there, no slot is free */
    BATCH_PREPARING,
    BATCH_DONE
};

/* A stretch of a batch that one worker prepares. */
struct part {
    struct leat_work work; /* first member */
    struct leat_task task;
    struct leat_loading_batch *batch;
    uint32_t first, n;
};

struct leat_loading_batch {
    struct leat_loading *loading;
    struct leat_loading_batch *next;
    enum batch_state state;
    bool end; /* of the epoch: no samples */
    uint64_t number;
    uint64_t epoch;
    uint64_t position; /* behind it */
    uint64_t augment_key;
    uint32_t n;                    /* places of this rank */
    struct leat_order_item *items; /* n of them */
    uint64_t *numbers;             /* of the samples in the dataset */
    bool *valid;
    struct leat_sample *samples;
    struct leat_error *errors; /* by place; NULL until one fails */
    uint32_t *chunks;          /* distinct */
    uint32_t chunks_n;
    uint32_t pinned; /* the first so many of chunks */
    uint64_t chunks_ready_ns;
    uint32_t slot;
    struct leat_slot_view view;
    struct {
        void *data; /* NULL: the slot is large enough */
        uint64_t bytes;
        int fd; /* until the rank was given it */
    } memory;
    struct part *parts;
    uint32_t parts_left;
    _Atomic uint32_t failed; /* places; relaxed: counted by workers, read after their tasks were posted */
};

static void unpin(struct leat_loading_batch *b)
{
    for (uint32_t i = 0; i < b->pinned; i++)
        leat_feed_unpin(b->loading->opts.supply->feed, b->chunks[i]);
    b->pinned = 0;
}

static void batch_free(struct leat_loading_batch *b)
{
    if (!b)
        return;
    unpin(b);
    for (uint32_t c = 0; c < LEAT_RING_COLUMNS_MAX; c++)
        free(b->view.ends[c]);
    if (b->memory.data)
        munmap(b->memory.data, (size_t)b->memory.bytes);
    if (b->memory.fd >= 0)
        close(b->memory.fd);
    free(b->items);
    free(b->numbers);
    free(b->valid);
    free(b->samples);
    free(b->errors);
    free(b->chunks);
    free(b->parts);
    free(b);
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static leat_status allocate(struct leat_loading_batch *b, uint32_t n, struct leat_error *err)
{
    b->n = n;
    b->items = calloc(n + 1, sizeof *b->items);
    b->numbers = calloc(n + 1, sizeof *b->numbers);
    b->valid = calloc(n + 1, sizeof *b->valid);
    b->samples = calloc(n + 1, sizeof *b->samples);
    b->chunks = calloc(n + 1, sizeof *b->chunks);
    if (!b->items || !b->numbers || !b->valid || !b->samples || !b->chunks)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to plan a batch of %u", n);
    return LEAT_OK;
}

/* A batch may touch more than the estimate at the start said (chunks of very different sample counts): that is
 * promised to it too, or refused, since no other loader's promise may be broken for it. */
static leat_status promise(struct leat_loading *l, const struct leat_loading_batch *b, struct leat_error *err)
{
    struct leat_agent *agent = l->opts.agent;
    const struct leat_root *root = leat_dataset_root(l->opts.supply->dataset);
    uint64_t budget = leat_cache_budget(agent->cache);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < b->chunks_n; i++)
        bytes += root->sizes[b->chunks[i]];
    if (bytes <= l->needed)
        return LEAT_OK;
    uint64_t all = agent->promised - l->needed + bytes;
    if (all > budget)
        return leat_fail(err, LEAT_LIMIT,
                         "a batch takes samples from %u chunks, for which the budget is too small: ask for at least "
                         "ram=\"%llumib\", or for a smaller window",
                         b->chunks_n, (unsigned long long)((all + (1 << 20) - 1) >> 20));
    agent->promised = all;
    l->needed = bytes;
    return LEAT_OK;
}

/* Takes this rank's share of the global batch in l->items. */
static leat_status take_share(struct leat_loading *l, struct leat_loading_batch *b, struct leat_order_batch size,
                              struct leat_error *err)
{
    leat_status rc = leat_order_assign(&l->order_world, l->items, NULL, size.size, l->rank_of, err);
    if (rc == LEAT_OK)
        rc = allocate(b, leat_order_quota(&l->order_world, size.size, l->rank), err);
    if (rc != LEAT_OK)
        return rc;
    uint32_t n = 0;
    for (uint32_t i = 0; i < size.size && n < b->n; i++) {
        if (l->rank_of[i] != l->rank)
            continue;
        b->items[n] = l->items[i];
        b->numbers[n] = leat_order_unit(l->now, l->items[i]);
        b->valid[n] = i < size.take;
        b->chunks[n] = l->items[i].chunk;
        n++;
    }
    qsort(b->chunks, n, sizeof *b->chunks, by_number);
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0 || b->chunks[i] != b->chunks[b->chunks_n - 1])
            b->chunks[b->chunks_n++] = b->chunks[i];
    }
    return promise(l, b, err);
}

/* The order goes on into the next epoch. */
static leat_status turn_epoch(struct leat_loading *l, struct leat_error *err)
{
    struct leat_order *after;
    leat_status rc = leat_loading_order(l, l->epoch + 2, &after, err);
    if (rc != LEAT_OK)
        return rc;
    leat_order_reader_close(l->reader);
    l->reader = NULL;
    leat_order_close(l->now);
    l->now = l->coming;
    l->coming = after;
    l->epoch++;
    l->position = 0;
    l->augment_key = leat_key("augment", l->spec.seed, l->epoch, l->spec.dataset, sizeof l->spec.dataset);
    return leat_order_reader_open(l->now, 0, &l->reader, err);
}

static leat_status plan_one(struct leat_loading *l, struct leat_error *err)
{
    struct leat_loading_batch *b = calloc(1, sizeof *b);
    if (!b)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to plan a batch");
    b->loading = l;
    b->memory.fd = -1;
    b->number = l->batches;
    b->epoch = l->epoch;
    b->augment_key = l->augment_key;
    struct leat_order_batch size = leat_order_batch_at(leat_order_units(l->now), l->position, l->global_batch, l->last);
    leat_status rc = LEAT_OK;
    if (size.take == 0) {
        b->end = true;
        b->position = l->position;
        rc = turn_epoch(l, err);
    } else {
        size_t got;
        rc = leat_order_reader_next(l->reader, l->items, size.take, &got, err);
        if (rc == LEAT_OK && got != size.take)
            rc = leat_fail(err, LEAT_INTERNAL, "the order ended early");
        leat_order_batch_pad(l->items, size);
        if (rc == LEAT_OK)
            rc = take_share(l, b, size, err);
        l->position += size.take;
        b->position = l->position;
    }
    if (rc != LEAT_OK) {
        batch_free(b);
        return rc;
    }
    l->batches++;
    *(l->tail ? &l->tail->next : &l->first) = b;
    l->tail = b;
    l->planned++;
    l->planned_since_prefetch = true;
    return LEAT_OK;
}

static uint32_t count_chunks(const struct leat_loading_batch *b, enum leat_feed_state state)
{
    const struct leat_chunk *chunk;
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->chunks_n; i++)
        n += leat_feed_look(b->loading->opts.supply->feed, b->chunks[i], &chunk, NULL) == state;
    return n;
}

bool leat_batches_hurry(const struct leat_loading *l)
{
    const struct leat_loading_batch *b = l->first;
    return !l->published && b && b->state == BATCH_FETCHING && count_chunks(b, LEAT_FEED_COMING) > b->chunks_n / 2;
}

/* Pins what is still unpinned. The first batch may ask the others, of any loader, to give way. */
static bool pin(struct leat_loading_batch *b, bool first)
{
    struct leat_loading *l = b->loading;
    /* Only here somebody is sure to wait, and nothing was sent for in advance. */
    uint32_t together = first && !l->published ? count_chunks(b, LEAT_FEED_ABSENT) : 0;
    while (b->pinned < b->chunks_n) {
        if (leat_feed_pin(l->opts.supply->feed, b->chunks[b->pinned], 0, together)) {
            b->pinned++;
            continue;
        }
        if (!first)
            return false;
        bool given = false;
        for (struct leat_supply *s = l->opts.agent->supplies; s && !given; s = s->next) {
            for (struct leat_loading *o = s->loadings; o && !given; o = o->next)
                given = leat_loading_yield(o);
        }
        if (!given)
            return false; /* arrivals or the workers will make room */
    }
    return true;
}

bool leat_batches_yield(struct leat_loading *l)
{
    struct leat_loading_batch *last = NULL;
    for (struct leat_loading_batch *b = l->first ? l->first->next : NULL; b; b = b->next) {
        if (b->pinned && b->state < BATCH_PREPARING)
            last = b;
    }
    if (!last)
        return false;
    unpin(last);
    last->state = BATCH_UNPINNED;
    return true;
}

/* Whether all chunks are there; an error when one cannot be had. */
static leat_status look(struct leat_loading_batch *b, bool *ready, struct leat_error *err)
{
    struct leat_loading *l = b->loading;
    *ready = true;
    for (uint32_t i = 0; i < b->chunks_n; i++) {
        const struct leat_chunk *chunk;
        enum leat_feed_state s = leat_feed_look(l->opts.supply->feed, b->chunks[i], &chunk, err);
        if (s == LEAT_FEED_FAILED)
            return err->status;
        if (s != LEAT_FEED_READY) {
            *ready = false;
            return LEAT_OK;
        }
    }
    for (uint32_t i = 0; i < b->n; i++) {
        struct leat_sample *s = &b->samples[i];
        leat_feed_look(l->opts.supply->feed, b->items[i].chunk, &s->chunk, NULL);
        s->index = b->items[i].index;
        s->number = b->numbers[i];
        s->key = b->augment_key;
        s->valid = b->valid[i];
        if (s->index >= s->chunk->samples)
            return leat_fail(err, LEAT_CORRUPT, "chunk %u has %u samples, the snapshot says more", b->items[i].chunk,
                             s->chunk->samples);
    }
    return LEAT_OK;
}

/* Says where the ragged bytes of each sample end, for one column. */
static leat_status lay_out_column(struct leat_loading_batch *b, uint32_t c, struct leat_error *err)
{
    struct leat_loading *l = b->loading;
    uint64_t *ends = calloc(b->n + 1, sizeof *ends);
    uint64_t at = 0;
    b->view.ends[c] = ends;
    if (!ends)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to lay out a batch");
    for (uint32_t i = 0; i < b->n; i++)
        ends[i] = at += leat_outputs_ragged(&l->outputs, c, &b->samples[i]);
    memcpy(b->view.slot + l->outputs.columns[c].offset, ends, b->n * sizeof *ends);
    return LEAT_OK;
}

/* Finds room for all ragged bytes: in the slot, or one column behind the other in memory of the batch's own. */
static leat_status lay_out(struct leat_loading_batch *b, struct leat_error *err)
{
    struct leat_loading *l = b->loading;
    struct leat_ring_slot *slot = leat_ring_slot(&l->ring, b->slot);
    uint64_t offset[LEAT_RING_COLUMNS_MAX];
    uint32_t external = 0;
    uint64_t bytes = 0;
    b->view.slot = (char *)slot;
    for (uint32_t c = 0; c < l->outputs.n; c++) {
        const struct leat_ring_column *column = &l->outputs.columns[c];
        if (!column->ragged)
            continue;
        leat_status rc = lay_out_column(b, c, err);
        if (rc != LEAT_OK)
            return rc;
        uint64_t used = b->n ? b->view.ends[c][b->n - 1] : 0;
        slot->arena_used[c] = used;
        b->view.arena[c] = b->view.slot + column->arena;
        if (used <= column->arena_bytes)
            continue;
        external |= 1u << c;
        offset[c] = bytes;
        bytes = leat_ring_memory_next(bytes, used);
    }
    slot->external = external;
    if (!external)
        return LEAT_OK;
    leat_status rc = leat_shared_create("leat-batch", bytes, &b->memory.fd, &b->memory.data, err);
    if (rc != LEAT_OK)
        return rc;
    b->memory.bytes = bytes;
    for (uint32_t c = 0; c < l->outputs.n; c++) {
        if (external >> c & 1)
            b->view.arena[c] = (char *)b->memory.data + offset[c];
    }
    rc = l->opts.memory(l->opts.user, b->slot, b->memory.fd, err);
    close(b->memory.fd);
    b->memory.fd = -1;
    return rc;
}

static void finish_part(struct leat_task *task);

/* On a worker. */
static void run_part(struct leat_work *work, struct leat_scratch *scratch)
{
    struct part *p = (struct part *)work;
    struct leat_loading_batch *b = p->batch;
    for (uint32_t i = p->first; i < p->first + p->n; i++) {
        struct leat_error err = {0};
        if (leat_outputs_write(&b->loading->outputs, &b->view, i, &b->samples[i], scratch, &err) != LEAT_OK) {
            b->errors[i] = err;
            atomic_fetch_add_explicit(&b->failed, 1, memory_order_relaxed);
        }
    }
    p->task.run = finish_part;
    leat_loop_post(b->loading->opts.agent->loop, &p->task);
}

/* Splits the batch so that every worker gets a few parts of it: images a few at a time, bytes by the dozen. */
static uint32_t part_size(const struct leat_loading *l)
{
    for (uint32_t c = 0; c < l->outputs.n; c++) {
        if (l->outputs.plans[c].pipeline)
            return 4;
    }
    return 64;
}

static leat_status prepare(struct leat_loading_batch *b, struct leat_error *err)
{
    struct leat_loading *l = b->loading;
    uint32_t size = part_size(l);
    uint32_t parts = (b->n + size - 1) / size;
    leat_status rc = lay_out(b, err);
    if (rc != LEAT_OK)
        return rc;
    b->errors = calloc(b->n + 1, sizeof *b->errors);
    b->parts = calloc(parts + 1, sizeof *b->parts);
    if (!b->errors || !b->parts)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to prepare a batch");
    b->state = BATCH_PREPARING;
    b->parts_left = parts;
    if (!parts)
        b->state = BATCH_DONE;
    for (uint32_t i = 0; i < parts; i++) {
        struct part *p = &b->parts[i];
        p->batch = b;
        p->first = i * size;
        p->n = b->n - p->first < size ? b->n - p->first : size;
        p->work.run = run_part;
        p->work.due = 1 + b->number - l->published; /* batches the rank has to take before it; 0 is for checking */
        l->working++;
        if (!leat_workers_add(l->opts.agent->workers, &p->work)) {
            l->working--;
            b->parts_left -= parts - i; /* none of the rest was given out */
            return leat_fail(err, LEAT_NO_MEMORY, "no memory to prepare a batch");
        }
    }
    return LEAT_OK;
}

static void finish_part(struct leat_task *task)
{
    struct part *p = (struct part *)((char *)task - offsetof(struct part, task));
    struct leat_loading_batch *b = p->batch;
    struct leat_loading *l = b->loading;
    l->working--;
    if (--b->parts_left == 0) {
        b->state = BATCH_DONE;
        unpin(b); /* an earlier batch may need the room to be published before this one */
    }
    if (!l->closing) {
        if (b->state == BATCH_DONE)
            leat_agent_pump(l->opts.agent); /* all of them: its chunks may make room for others */
        return;
    }
    if (b->parts_left == 0)
        batch_free(b); /* leat_batches_drop() left it to us */
    if (!l->working)
        leat_loading_free(l);
}

/* Samples that could not be decoded: an error, or their places are filled from the same batch. */
static leat_status settle_failures(struct leat_loading_batch *b, struct leat_error *err)
{
    struct leat_loading *l = b->loading;
    if (!b->failed)
        return LEAT_OK;
    uint32_t good = b->n;
    for (uint32_t i = b->n; i-- > 0;) {
        if (b->errors[i].status == LEAT_OK)
            good = i;
        else if (!l->skip_errors)
            *err = b->errors[i];
    }
    if (!l->skip_errors)
        return err->status;
    if (good == b->n)
        return leat_fail(err, LEAT_CORRUPT, "none of the %u samples of a batch can be decoded; the first: %.300s", b->n,
                         b->errors[0].text);
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->errors[i].status == LEAT_OK)
            continue;
        leat_log(LEAT_LOG_WARN, "skipped: %s", b->errors[i].text);
        leat_outputs_repeat(&l->outputs, &b->view, good, i);
        leat_outputs_set_valid(&l->outputs, &b->view, i, false);
        l->stats.skipped++;
    }
    return LEAT_OK;
}

/* How long the rank has been waiting for this batch, and for what. */
static void account(struct leat_loading *l, const struct leat_loading_batch *b)
{
    uint64_t since = atomic_load_explicit(&l->ring.head->waiting_since_ns, memory_order_relaxed);
    uint64_t now = leat_now_ns();
    if (!since || since == l->accounted_ns || since > now || b->end)
        return; /* one wait ends with one batch, though the rank may not have woken up when the next is there */
    l->accounted_ns = since;
    uint64_t ready = b->chunks_ready_ns > since ? b->chunks_ready_ns : since;
    l->stats.wait_fetch_ns += ready - since;
    l->stats.wait_prep_ns += now - ready;
}

static void publish(struct leat_loading *l, struct leat_loading_batch *b)
{
    const uint64_t one = 1;
    struct leat_ring_slot *slot = leat_ring_slot(&l->ring, b->slot);
    account(l, b);
    l->slot[b->slot] = LEAT_OURS_OUT;
    slot->samples = b->n;
    slot->epoch = b->epoch;
    slot->position = b->position;
    slot->batch = b->number;
    slot->end = b->end;
    atomic_store_explicit(&slot->state, LEAT_SLOT_READY, memory_order_relaxed);
    l->ring.head->queue[l->published % LEAT_RING_SLOTS_MAX] = b->slot;
    l->published++;
    /* Release: everything above; partner: the acquire in the rank's published(). */
    atomic_store_explicit(&l->ring.head->published, l->published, memory_order_release);
    ssize_t ignored = write(l->ready_fd, &one, sizeof one);
    (void)ignored;
}

/* Slots that are free on both sides. */
static uint32_t free_slots(struct leat_loading *l)
{
    uint32_t n = 0;
    for (uint32_t i = 0; l->ring.head && i < l->slots; i++) {
        /* Acquire: the rank's reads of the slot are over; partner: its release when it frees the slot. */
        if (l->slot[i] == LEAT_OURS_OUT &&
            atomic_load_explicit(&leat_ring_slot(&l->ring, i)->state, memory_order_acquire) == LEAT_SLOT_FREE)
            l->slot[i] = LEAT_OURS_FREE;
        n += l->slot[i] == LEAT_OURS_FREE;
    }
    return n;
}

static void take_slot(struct leat_loading_batch *b)
{
    struct leat_loading *l = b->loading;
    b->slot = 0;
    while (l->slot[b->slot] != LEAT_OURS_FREE)
        b->slot++;
    l->slot[b->slot] = LEAT_OURS_FILLING;
}

/* Takes one batch as far as it goes now. */
static leat_status advance(struct leat_loading_batch *b, bool first, bool may_take_slot, struct leat_error *err)
{
    bool ready;
    if (b->state == BATCH_UNPINNED && pin(b, first))
        b->state = BATCH_FETCHING;
    if (b->state == BATCH_FETCHING) {
        leat_status rc = look(b, &ready, err);
        if (rc != LEAT_OK)
            return rc;
        if (ready) {
            b->state = BATCH_WAITING;
            b->chunks_ready_ns = leat_now_ns();
        }
    }
    if (b->state != BATCH_WAITING || !may_take_slot)
        return LEAT_OK;
    take_slot(b);
    if (!b->end)
        return prepare(b, err);
    leat_ring_slot(&b->loading->ring, b->slot)->external = 0;
    b->state = BATCH_DONE;
    return LEAT_OK;
}

/* Every batch, in order. A batch may overtake an earlier one as long as enough slots stay free for all before it:
 * the rank takes them in order, and would wait for ever for one that finds no slot. */
static leat_status advance_all(struct leat_loading *l, struct leat_error *err)
{
    uint32_t slots = free_slots(l);
    uint32_t before = 0; /* earlier batches that still need one */
    for (struct leat_loading_batch *b = l->first; b; b = b->next) {
        bool had = b->state >= BATCH_PREPARING;
        leat_status rc = advance(b, b == l->first, slots > before, err);
        if (rc != LEAT_OK)
            return rc;
        if (b->state < BATCH_PREPARING)
            before++;
        else if (!had)
            slots--;
        if (b->state == BATCH_UNPINNED || leat_batches_hurry(l))
            break; /* those behind it must not take its room, nor its share of the line */
    }
    return LEAT_OK;
}

leat_status leat_batches_step(struct leat_loading *l, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    while (rc == LEAT_OK && l->planned < l->slots + PLANS_BEYOND)
        rc = plan_one(l, err);
    if (rc == LEAT_OK)
        rc = advance_all(l, err);
    while (rc == LEAT_OK && l->first && l->first->state == BATCH_DONE) {
        struct leat_loading_batch *b = l->first;
        rc = settle_failures(b, err);
        if (rc != LEAT_OK)
            break;
        publish(l, b);
        l->first = b->next;
        if (!l->first)
            l->tail = NULL;
        l->planned--;
        batch_free(b);
        if (l->planned < l->slots + PLANS_BEYOND)
            rc = plan_one(l, err);
    }
    return rc;
}

void leat_batches_drop(struct leat_loading *l)
{
    while (l->first) {
        struct leat_loading_batch *b = l->first;
        l->first = b->next;
        if (!b->parts_left)
            batch_free(b);
    }
    l->tail = NULL;
    l->planned = 0;
}

static void explain(const struct leat_loading *l, const struct leat_loading_batch *b, char *out, size_t n)
{
    switch (b->state) {
    case BATCH_UNPINNED:
        snprintf(out, n, "room in the cache for the %u chunks of a batch", b->chunks_n);
        return;
    case BATCH_FETCHING:
        for (uint32_t i = 0; i < b->chunks_n; i++) {
            const struct leat_chunk *chunk;
            if (leat_feed_look(l->opts.supply->feed, b->chunks[i], &chunk, NULL) != LEAT_FEED_READY) {
                snprintf(out, n, "chunk %u of %.200s", b->chunks[i], l->opts.supply->url);
                return;
            }
        }
        snprintf(out, n, "chunks of %.200s", l->opts.supply->url);
        return;
    case BATCH_WAITING:
        snprintf(out, n, "a free slot: the rank holds all of them");
        return;
    default:
        snprintf(out, n, "%u parts of a batch being prepared", b->parts_left);
    }
}

void leat_batches_explain(const struct leat_loading *l, char *out, size_t n)
{
    const struct leat_loading_batch *b = l->first;
    if (!b) {
        snprintf(out, n, "nothing is planned");
        return;
    }
    explain(l, b, out, n);
    leat_one_line(out); /* a URL may have been cut in the middle of a character */
}
