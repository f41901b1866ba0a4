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

static void unpin(struct leat_loading_batch *b)
{
    for (uint32_t i = 0; i < b->pinned; i++)
        leat_feed_unpin(b->loading->opts.supply->feed, b->chunks[b->group + i]);
    b->pinned = 0;
}

static void batch_free(struct leat_loading_batch *b)
{
    unpin(b);
    leat_loading_batch_free(b);
}

static leat_status plan_one(struct leat_loading *l, struct leat_error *err)
{
    struct leat_loading_batch *b;
    leat_status rc = leat_loading_plan(l, &b, err);
    if (rc != LEAT_OK)
        return rc;
    *(l->tail ? &l->tail->next : &l->first) = b;
    l->tail = b;
    l->planned++;
    l->planned_since_prefetch = true;
    return LEAT_OK;
}

/* Of the group. */
static uint32_t count_chunks(const struct leat_loading_batch *b, enum leat_feed_state state)
{
    const struct leat_chunk *chunk;
    uint32_t n = 0;
    for (uint32_t i = b->group; i < b->group_end; i++)
        n += leat_feed_look(b->loading->opts.supply->feed, b->chunks[i], &chunk, NULL) == state;
    return n;
}

bool leat_batches_hurry(const struct leat_loading *l)
{
    const struct leat_loading_batch *b = l->first;
    return !l->published && b && b->state == LEAT_BATCH_FETCHING &&
           count_chunks(b, LEAT_FEED_COMING) > (b->group_end - b->group) / 2;
}

/* Pins what is still unpinned. The first batch may ask the others, of any loader, to give way. */
static bool pin(struct leat_loading_batch *b, bool first)
{
    struct leat_loading *l = b->loading;
    /* Only here somebody is sure to wait, and nothing was sent for in advance. */
    uint32_t together = first && !l->published ? count_chunks(b, LEAT_FEED_ABSENT) : 0;
    while (b->group + b->pinned < b->group_end) {
        if (leat_feed_pin(l->opts.supply->feed, b->chunks[b->group + b->pinned], 0, together)) {
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
        if (!given) {
            leat_agent_pump_soon(l->opts.agent); /* arrivals or the workers make room, unless memory had run out */
            return false;
        }
    }
    return true;
}

bool leat_batches_yield(struct leat_loading *l)
{
    struct leat_loading_batch *last = NULL;
    for (struct leat_loading_batch *b = l->first ? l->first->next : NULL; b; b = b->next) {
        if (b->pinned && b->state < LEAT_BATCH_PREPARING)
            last = b;
    }
    if (!last)
        return false;
    unpin(last);
    last->state = LEAT_BATCH_UNPINNED;
    return true;
}

/* The samples whose chunks are in the group. */
static leat_status find_samples(struct leat_loading_batch *b, struct leat_error *err)
{
    struct leat_feed *feed = b->loading->opts.supply->feed;
    for (uint32_t i = 0; i < b->n; i++) {
        struct leat_sample *s = &b->samples[i];
        uint32_t chunk = b->items[i].chunk;
        *s = (struct leat_sample){
            .index = b->items[i].index, .number = b->numbers[i], .key = b->augment_key, .valid = b->valid[i]};
        if (chunk < b->chunks[b->group] || chunk > b->chunks[b->group_end - 1])
            continue;
        leat_feed_look(feed, chunk, &s->chunk, NULL);
        if (s->index >= s->chunk->samples)
            return leat_fail(err, LEAT_CORRUPT, "chunk %u has %u samples, the snapshot says more", chunk,
                             s->chunk->samples);
    }
    return LEAT_OK;
}

/* Whether all chunks of the group are there; an error when one cannot be had. */
static leat_status look(struct leat_loading_batch *b, bool *ready, struct leat_error *err)
{
    *ready = true;
    for (uint32_t i = b->group; i < b->group_end; i++) {
        const struct leat_chunk *chunk;
        enum leat_feed_state s = leat_feed_look(b->loading->opts.supply->feed, b->chunks[i], &chunk, err);
        if (s == LEAT_FEED_FAILED)
            return err->status;
        if (s != LEAT_FEED_READY) {
            *ready = false;
            return LEAT_OK;
        }
    }
    return find_samples(b, err);
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
        ends[i] = at +=
            b->view.kept[c] ? b->view.kept[c][i].bytes : leat_outputs_ragged(&l->outputs, c, &b->samples[i]);
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

/* Room beside the slot for the ragged values of a batch whose chunks are not all there at the same time. */
static leat_status keep_ragged(struct leat_loading_batch *b, struct leat_error *err)
{
    b->view.slot = (char *)leat_ring_slot(&b->loading->ring, b->slot);
    for (uint32_t c = 0; c < b->loading->outputs.n; c++) {
        if (!b->loading->outputs.columns[c].ragged)
            continue;
        b->view.kept[c] = calloc(b->n + 1, sizeof *b->view.kept[c]);
        if (!b->view.kept[c])
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for the values of a batch");
    }
    return LEAT_OK;
}

/* Now that all of them are known, where they belong. */
static leat_status gather_ragged(struct leat_loading_batch *b, struct leat_error *err)
{
    leat_status rc = lay_out(b, err);
    for (uint32_t c = 0; rc == LEAT_OK && c < b->loading->outputs.n; c++) {
        for (uint32_t i = 0; b->view.kept[c] && i < b->n; i++) {
            const struct leat_kept *k = &b->view.kept[c][i];
            if (k->bytes)
                memcpy(b->view.arena[c] + (i ? b->view.ends[c][i - 1] : 0), k->data, k->bytes);
        }
    }
    return rc;
}

static void finish_part(struct leat_task *task);

/* On a worker. */
static void run_part(struct leat_work *work, struct leat_scratch *scratch)
{
    struct leat_batch_part *p = (struct leat_batch_part *)work;
    struct leat_loading_batch *b = p->batch;
    uint64_t began_ns = leat_thread_cpu_ns();
    for (uint32_t i = p->first; i < p->first + p->n; i++) {
        struct leat_error err = {0};
        if (!b->samples[i].chunk)
            continue; /* of another group */
        if (leat_outputs_write(&b->loading->outputs, &b->view, i, &b->samples[i], scratch, &err) != LEAT_OK) {
            b->errors[i] = err;
            atomic_fetch_add_explicit(&b->failed, 1, memory_order_relaxed);
        }
    }
    p->cpu_ns = leat_thread_cpu_ns() - began_ns;
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

/* Once a batch, when it has its slot. */
static leat_status begin_batch(struct leat_loading_batch *b, struct leat_error *err)
{
    uint32_t size = part_size(b->loading);
    uint32_t parts = (b->n + size - 1) / size;
    leat_status rc = b->group_end < b->chunks_n ? keep_ragged(b, err) : lay_out(b, err);
    if (rc != LEAT_OK)
        return rc;
    b->errors = calloc(b->n + 1, sizeof *b->errors);
    b->parts = calloc(parts + 1, sizeof *b->parts);
    if (!b->errors || !b->parts)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to prepare a batch");
    return LEAT_OK;
}

/* Gives the samples of the group to the workers. */
static leat_status prepare(struct leat_loading_batch *b, struct leat_error *err)
{
    struct leat_loading *l = b->loading;
    uint32_t size = part_size(l);
    uint32_t parts = (b->n + size - 1) / size;
    leat_status rc = b->parts ? LEAT_OK : begin_batch(b, err);
    if (rc != LEAT_OK)
        return rc;
    b->state = parts ? LEAT_BATCH_PREPARING : LEAT_BATCH_DONE;
    b->parts_left = parts;
    for (uint32_t i = 0; i < parts; i++) {
        struct leat_batch_part *p = &b->parts[i];
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

/* All samples of the group are written. */
static void finish_group(struct leat_loading_batch *b)
{
    unpin(b); /* an earlier batch may need the room to be published before this one */
    if (b->group_end == b->chunks_n) {
        b->state = LEAT_BATCH_DONE;
        return;
    }
    leat_loading_batch_group(b);
    b->chunks_ready_ns = 0;
    b->state = LEAT_BATCH_UNPINNED;
}

static void finish_part(struct leat_task *task)
{
    struct leat_batch_part *p = (struct leat_batch_part *)((char *)task - offsetof(struct leat_batch_part, task));
    struct leat_loading_batch *b = p->batch;
    struct leat_loading *l = b->loading;
    l->working--;
    l->stats.prep_cpu_ns += p->cpu_ns;
    if (--b->parts_left == 0)
        finish_group(b);
    if (!l->closing) {
        if (b->parts_left == 0)
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
        else if (!l->skip_errors || b->errors[i].status == LEAT_NO_MEMORY)
            *err = b->errors[i]; /* a sample is not bad because there was no memory for it */
    }
    if (err->status != LEAT_OK)
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

static void publish(struct leat_loading *l, struct leat_loading_batch *b)
{
    const uint64_t one = 1;
    struct leat_ring_slot *slot = leat_ring_slot(&l->ring, b->slot);
    l->slot[b->slot] = LEAT_OURS_OUT;
    slot->samples = b->n;
    slot->epoch = b->epoch;
    slot->position = b->position;
    slot->batch = b->number;
    slot->end = b->end;
    slot->ready_ns = b->chunks_ready_ns;
    slot->published_ns = leat_now_ns();
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
    b->has_slot = true;
}

/* Takes one batch as far as it goes now. */
static leat_status advance(struct leat_loading_batch *b, bool first, bool may_take_slot, struct leat_error *err)
{
    bool ready;
    if (b->state == LEAT_BATCH_UNPINNED && pin(b, first))
        b->state = LEAT_BATCH_FETCHING;
    if (b->state == LEAT_BATCH_FETCHING) {
        leat_status rc = look(b, &ready, err);
        if (rc != LEAT_OK)
            return rc;
        if (ready) {
            b->state = LEAT_BATCH_WAITING;
            b->chunks_ready_ns = leat_now_ns();
        }
    }
    if (b->state != LEAT_BATCH_WAITING || (!b->has_slot && !may_take_slot))
        return LEAT_OK;
    if (!b->has_slot)
        take_slot(b);
    if (!b->end)
        return prepare(b, err);
    leat_ring_slot(&b->loading->ring, b->slot)->external = 0;
    b->state = LEAT_BATCH_DONE;
    return LEAT_OK;
}

/* Every batch, in order. A batch may overtake an earlier one as long as enough slots stay free for all before it:
 * the rank takes them in order, and would wait for ever for one that finds no slot. */
static leat_status advance_all(struct leat_loading *l, struct leat_error *err)
{
    uint32_t slots = free_slots(l);
    uint32_t before = 0; /* earlier batches that still need one */
    for (struct leat_loading_batch *b = l->first; b; b = b->next) {
        bool had = b->has_slot;
        leat_status rc = advance(b, b == l->first, slots > before, err);
        if (rc != LEAT_OK)
            return rc;
        if (!b->has_slot)
            before++;
        else if (!had)
            slots--;
        if (b->state == LEAT_BATCH_UNPINNED || leat_batches_hurry(l))
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
    while (rc == LEAT_OK && l->first && l->first->state == LEAT_BATCH_DONE) {
        struct leat_loading_batch *b = l->first;
        rc = settle_failures(b, err);
        if (rc == LEAT_OK && b->group > 0)
            rc = gather_ragged(b, err);
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
    if (l->ring.head)
        atomic_store_explicit(&l->ring.head->next_ready_ns, l->first ? l->first->chunks_ready_ns : 0,
                              memory_order_relaxed);
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
    const char *url = leat_dataset_home(l->opts.supply->dataset)->url;
    switch (b->state) {
    case LEAT_BATCH_UNPINNED:
        snprintf(out, n, "room in the cache for %u chunks of a batch", b->group_end - b->group);
        return;
    case LEAT_BATCH_FETCHING:
        if (leat_supply_wants_keys(l->opts.supply)) {
            snprintf(out, n, "new keys for %.200s: those that were given have expired or are gone", url);
            return;
        }
        for (uint32_t i = b->group; i < b->group_end; i++) {
            const struct leat_chunk *chunk;
            if (leat_feed_look(l->opts.supply->feed, b->chunks[i], &chunk, NULL) != LEAT_FEED_READY) {
                snprintf(out, n, "chunk %u of %.200s", b->chunks[i], url);
                return;
            }
        }
        snprintf(out, n, "chunks of %.200s", url);
        return;
    case LEAT_BATCH_WAITING:
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
