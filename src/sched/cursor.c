#include "sched/cursor.h"

#include <stdlib.h>
#include <string.h>

#include "order/place.h"
#include "order/policy.h"
#include "order/reader.h"

struct leat_cursor {
    struct leat_order_spec spec;
    uint64_t epoch; /* being read */
    uint64_t position;
    uint64_t before; /* stages of the epochs that are over */
    uint32_t global_batch;
    enum leat_order_last last;
    uint32_t rank;
    struct leat_order *past; /* somebody may still look at it */
    struct leat_order *now;
    struct leat_order *coming;
    struct leat_order_reader *reader;
    struct leat_order_world world;
    uint32_t *node_of_rank;
    uint32_t *node_of_slot;
    struct leat_order_assigner *assigner;
    struct leat_order_item *items; /* of a global batch */
    uint32_t *rank_of;
    uint64_t ahead; /* place of the chunk named next: in `now`, then in `coming` */
};

static leat_status open_order(const struct leat_cursor *c, uint64_t epoch, struct leat_order **out,
                              struct leat_error *err)
{
    struct leat_order_spec spec = c->spec;
    spec.epoch = epoch;
    return leat_order_open(&spec, out, err);
}

/* Ranks whose machines are not known count as one node: every rank comes to the same answer, and only locality is
 * lost. */
static leat_status open_world(struct leat_cursor *c, const struct leat_cursor_opts *o, struct leat_error *err)
{
    struct leat_order_world *w = &c->world;
    leat_status rc = leat_order_batch_check(o->global_batch, err); /* and the world is not larger */
    if (rc != LEAT_OK)
        return rc;
    w->ranks = o->world;
    w->nodes = 1;
    w->chunks = c->spec.chunks;
    w->slots = leat_order_slots(c->spec.chunks);
    c->node_of_rank = calloc((size_t)o->world + 1, sizeof *c->node_of_rank);
    c->node_of_slot = calloc((size_t)w->slots + 1, sizeof *c->node_of_slot);
    c->items = calloc(o->global_batch, sizeof *c->items);
    c->rank_of = calloc(o->global_batch, sizeof *c->rank_of);
    if (!c->node_of_rank || !c->node_of_slot || !c->items || !c->rank_of)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a batch of %u", o->global_batch);
    for (uint32_t r = 0; o->node_of_rank && r < o->world; r++) {
        c->node_of_rank[r] = o->node_of_rank[r];
        w->nodes = o->node_of_rank[r] >= w->nodes ? o->node_of_rank[r] + 1 : w->nodes;
    }
    if (w->nodes > w->ranks)
        return leat_fail(err, LEAT_INVALID, "a node map with a node %u in a world of %u ranks", w->nodes - 1, w->ranks);
    w->node_of_rank = c->node_of_rank;
    w->node_of_slot = c->node_of_slot;
    rc = leat_order_place(w->slots, w->ranks, w->node_of_rank, w->nodes, c->node_of_slot, err);
    return rc == LEAT_OK ? leat_order_assigner_open(w, o->global_batch, false, &c->assigner, err) : rc;
}

static leat_status open_orders(struct leat_cursor *c, struct leat_error *err)
{
    leat_status rc = open_order(c, c->epoch, &c->now, err);
    if (rc == LEAT_OK)
        rc = open_order(c, c->epoch + 1, &c->coming, err);
    if (rc != LEAT_OK)
        return rc;
    if (c->position > leat_order_units(c->now))
        return leat_fail(err, LEAT_INVALID, "position %llu is behind the end of the epoch (%llu samples)",
                         (unsigned long long)c->position, (unsigned long long)leat_order_units(c->now));
    rc = leat_order_reader_open(c->now, c->position, &c->reader, err);
    if (rc != LEAT_OK)
        return rc;
    uint64_t stage = leat_order_reader_stage(c->reader);
    uint32_t window = leat_order_window(c->now);
    c->ahead = stage < window ? 0 : stage - window + 1; /* the oldest that may still be live */
    return LEAT_OK;
}

leat_status leat_cursor_open(const struct leat_cursor_opts *o, struct leat_cursor **out, struct leat_error *err)
{
    struct leat_cursor *c = calloc(1, sizeof *c);
    if (!c)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a cursor");
    c->spec = o->spec;
    c->epoch = o->epoch;
    c->position = o->position;
    c->global_batch = o->global_batch;
    c->last = o->last;
    c->rank = o->rank;
    leat_status rc = open_world(c, o, err);
    if (rc == LEAT_OK)
        rc = open_orders(c, err);
    if (rc != LEAT_OK) {
        leat_cursor_close(c);
        return rc;
    }
    *out = c;
    return LEAT_OK;
}

void leat_cursor_close(struct leat_cursor *c)
{
    if (!c)
        return;
    leat_order_reader_close(c->reader);
    leat_order_close(c->past);
    leat_order_close(c->now);
    leat_order_close(c->coming);
    leat_order_assigner_close(c->assigner);
    free(c->node_of_rank);
    free(c->node_of_slot);
    free(c->items);
    free(c->rank_of);
    free(c);
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static leat_status allocate(struct leat_cursor_batch *b, uint32_t n, struct leat_error *err)
{
    b->n = n;
    b->items = calloc((size_t)n + 1, sizeof *b->items);
    b->numbers = calloc((size_t)n + 1, sizeof *b->numbers);
    b->valid = calloc((size_t)n + 1, sizeof *b->valid);
    b->chunks = calloc((size_t)n + 1, sizeof *b->chunks);
    b->where = calloc((size_t)n + 1, sizeof *b->where);
    if (!b->items || !b->numbers || !b->valid || !b->chunks || !b->where)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to plan a batch of %u", n);
    return LEAT_OK;
}

/* Takes this rank's share of the global batch in c->items. */
static leat_status take_share(struct leat_cursor *c, struct leat_cursor_batch *b, struct leat_order_batch size,
                              struct leat_error *err)
{
    leat_status rc = allocate(b, leat_order_quota(&c->world, size.size, c->rank), err);
    if (rc != LEAT_OK)
        return rc;
    leat_order_assign(c->assigner, c->items, NULL, size.size, c->rank_of);
    uint32_t n = 0;
    for (uint32_t i = 0; i < size.size && n < b->n; i++) {
        if (c->rank_of[i] != c->rank)
            continue;
        b->items[n] = c->items[i];
        b->numbers[n] = leat_order_unit(c->now, c->items[i]);
        b->valid[n] = i < size.take;
        b->chunks[n] = c->items[i].chunk;
        n++;
    }
    qsort(b->chunks, n, sizeof *b->chunks, by_number);
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0 || b->chunks[i] != b->chunks[b->chunks_n - 1])
            b->chunks[b->chunks_n++] = b->chunks[i];
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t *at = bsearch(&b->items[i].chunk, b->chunks, b->chunks_n, sizeof *at, by_number);
        b->where[i] = at ? (uint32_t)(at - b->chunks) : 0;
    }
    return LEAT_OK;
}

/* The order goes on into the next epoch. */
static leat_status turn_epoch(struct leat_cursor *c, struct leat_error *err)
{
    struct leat_order *after;
    struct leat_order_reader *reader;
    leat_status rc = open_order(c, c->epoch + 2, &after, err);
    if (rc != LEAT_OK)
        return rc;
    rc = leat_order_reader_open(c->coming, 0, &reader, err);
    if (rc != LEAT_OK) { /* others go on asking what would be needed next */
        leat_order_close(after);
        return rc;
    }
    uint64_t places = leat_order_places(c->now);
    c->ahead = c->ahead > places ? c->ahead - places : 0;
    c->before += leat_order_stages(c->now);
    leat_order_reader_close(c->reader);
    leat_order_close(c->past);
    c->past = c->now;
    c->now = c->coming;
    c->coming = after;
    c->epoch++;
    c->position = 0;
    c->reader = reader;
    return LEAT_OK;
}

leat_status leat_cursor_next(struct leat_cursor *c, struct leat_cursor_batch *out, struct leat_error *err)
{
    struct leat_cursor_batch b = {.epoch = c->epoch};
    struct leat_order_batch size = leat_order_batch_at(leat_order_units(c->now), c->position, c->global_batch, c->last);
    leat_status rc = LEAT_OK;
    if (size.take == 0) {
        b.end = true;
        b.position = c->position;
        rc = turn_epoch(c, err);
    } else {
        size_t got;
        rc = leat_order_reader_next(c->reader, c->items, size.take, &got, err);
        if (rc == LEAT_OK && got != size.take)
            rc = leat_fail(err, LEAT_INTERNAL, "the order ended early");
        leat_order_batch_pad(c->items, size);
        if (rc == LEAT_OK)
            rc = take_share(c, &b, size, err);
        c->position += size.take;
        b.position = c->position;
    }
    if (rc != LEAT_OK) {
        leat_cursor_batch_free(&b);
        return rc;
    }
    b.stage = c->before + leat_order_reader_stage(c->reader);
    *out = b;
    return LEAT_OK;
}

void leat_cursor_batch_free(struct leat_cursor_batch *b)
{
    free(b->items);
    free(b->numbers);
    free(b->valid);
    free(b->chunks);
    free(b->where);
    *b = (struct leat_cursor_batch){0};
}

static bool ours(const struct leat_cursor *c, uint32_t chunk)
{
    return c->node_of_slot[leat_order_slot_of(chunk, c->spec.chunks)] == c->node_of_rank[c->rank];
}

bool leat_cursor_ahead(struct leat_cursor *c, uint32_t *chunk, uint64_t *stage)
{
    uint64_t here = leat_order_reader_stage(c->reader);
    uint64_t places = leat_order_places(c->now);
    for (; c->ahead < places + leat_order_places(c->coming); c->ahead++) {
        bool now = c->ahead < places;
        uint64_t place = now ? c->ahead : c->ahead - places;
        uint32_t number = leat_order_chunk_at(now ? c->now : c->coming, (uint32_t)place);
        uint64_t first;
        uint64_t last;
        if (!ours(c, number))
            continue;
        if (now && place < here && leat_order_uses(c->now, number, &first, &last) && last < here)
            continue; /* already through */
        *chunk = number;
        *stage = c->before + (now ? (place > here ? place : here) : leat_order_stages(c->now) + place);
        c->ahead++;
        return true;
    }
    return false;
}

void leat_cursor_view(const struct leat_cursor *c, struct leat_sched_view *out)
{
    *out = (struct leat_sched_view){
        .now = c->now,
        .coming = c->coming,
        .stage = leat_order_reader_stage(c->reader),
        .before = c->before,
        .node_of_slot = c->world.nodes > 1 ? c->node_of_slot : NULL,
        .node = c->node_of_rank[c->rank],
    };
}

const struct leat_order *leat_cursor_order(const struct leat_cursor *c)
{
    return c->now;
}

const uint32_t *leat_cursor_node_of_rank(const struct leat_cursor *c)
{
    return c->node_of_rank;
}
