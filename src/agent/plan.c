/* Which samples make the next batch of a loader, and which chunks they are in. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/batch.h"
#include "base/random.h"

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

static uint64_t chunk_bytes(const struct leat_loading_batch *b, uint32_t i)
{
    return leat_dataset_root(b->loading->opts.supply->dataset)->sizes[b->chunks[i]];
}

/* A batch may touch more than the estimate at the start said (chunks of very different sample counts). When there is
 * room, that is promised to the loader too; no other loader's promise is broken for it. */
static void promise(const struct leat_loading_batch *b)
{
    struct leat_loading *l = b->loading;
    struct leat_agent *agent = l->opts.agent;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < b->chunks_n; i++)
        bytes += chunk_bytes(b, i);
    if (bytes <= l->needed)
        return;
    uint64_t all = agent->promised - l->needed + bytes;
    if (all > leat_cache_budget(agent->cache))
        return; /* it will come in groups */
    agent->promised = all;
    l->needed = bytes;
}

void leat_loading_batch_group(struct leat_loading_batch *b)
{
    uint64_t bytes = 0;
    b->group = b->group_end;
    while (b->group_end < b->chunks_n) {
        bytes += chunk_bytes(b, b->group_end);
        if (bytes > b->loading->needed && b->group_end > b->group)
            break; /* one chunk always has room: the promise covers the largest */
        b->group_end++;
    }
}

/* Takes this rank's share of the global batch in l->items. */
static leat_status take_share(struct leat_loading *l, struct leat_loading_batch *b, struct leat_order_batch size,
                              struct leat_error *err)
{
    leat_status rc = allocate(b, leat_order_quota(&l->order_world, size.size, l->rank), err);
    if (rc != LEAT_OK)
        return rc;
    leat_order_assign(l->assigner, l->items, NULL, size.size, l->rank_of);
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
    promise(b);
    leat_loading_batch_group(b);
    l->stats.split += b->group_end < b->chunks_n;
    return LEAT_OK;
}

/* The order goes on into the next epoch. */
static leat_status turn_epoch(struct leat_loading *l, struct leat_error *err)
{
    struct leat_order *after;
    struct leat_order_reader *reader;
    leat_status rc = leat_loading_order(l, l->epoch + 2, &after, err);
    if (rc != LEAT_OK)
        return rc;
    rc = leat_order_reader_open(l->coming, 0, &reader, err);
    if (rc != LEAT_OK) { /* other loaders go on asking this one what it would need next */
        leat_order_close(after);
        return rc;
    }
    leat_order_reader_close(l->reader);
    leat_order_close(l->now);
    l->now = l->coming;
    l->coming = after;
    l->epoch++;
    l->position = 0;
    l->reader = reader;
    l->augment_key = leat_key("augment", l->spec.seed, l->epoch, l->spec.dataset, sizeof l->spec.dataset);
    return LEAT_OK;
}

leat_status leat_loading_plan(struct leat_loading *l, struct leat_loading_batch **out, struct leat_error *err)
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
        leat_loading_batch_free(b);
        return rc;
    }
    l->batches++;
    *out = b;
    return LEAT_OK;
}

void leat_loading_batch_free(struct leat_loading_batch *b)
{
    if (!b)
        return;
    for (uint32_t c = 0; c < LEAT_RING_COLUMNS_MAX; c++) {
        for (uint32_t i = 0; b->view.kept[c] && i < b->n; i++)
            free(b->view.kept[c][i].data);
        free(b->view.kept[c]);
        free(b->view.ends[c]);
    }
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
