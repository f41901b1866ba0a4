#include "sim/deal.h"

#include <stdlib.h>
#include <string.h>

#include "order/reader.h"

#define FEW 48u /* numbers that insertion sorts faster than qsort */

struct batches {
    struct leat_sim_batch **list; /* a ring */
    uint64_t base;                /* number of the oldest */
    uint32_t n;
    uint32_t cap;
};

struct leat_sim_deal {
    struct leat_sim_deal_opts opts;
    uint64_t epoch; /* being read */
    uint64_t position;
    struct leat_order_reader *reader;
    struct leat_order_assigner *assigner;
    struct leat_order_item *items;
    uint32_t *rank_of;
    uint32_t *at; /* scratch: where the next chunk of a rank goes */
    struct batches batches;
    struct leat_sim_epoch **epochs; /* from epoch_base on */
    uint64_t epoch_base;
    uint32_t epochs_n;
};

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for the orders and batches of this job");
}

/* Epochs */

static void close_epoch(struct leat_sim_epoch *e)
{
    if (!e)
        return;
    leat_order_close(e->order);
    free(e->own_first);
    free(e->own_place);
    free(e);
}

/* Sorts the places of the chunk list by the node that owns the chunk. */
static leat_status sort_by_node(const struct leat_sim_deal *d, struct leat_sim_epoch *e, struct leat_error *err)
{
    const struct leat_order_world *w = &d->opts.world;
    uint32_t places = leat_order_places(e->order);
    e->own_first = calloc((size_t)w->nodes + 2, sizeof *e->own_first);
    e->own_place = malloc(((size_t)places + 1) * sizeof *e->own_place);
    if (!e->own_first || !e->own_place)
        return no_memory(err);
    for (uint32_t p = 0; p < places; p++)
        e->own_first[w->node_of_slot[leat_order_slot_of(leat_order_chunk_at(e->order, p), w->chunks)] + 2]++;
    for (uint32_t k = 2; k < w->nodes + 2; k++)
        e->own_first[k] += e->own_first[k - 1];
    for (uint32_t p = 0; p < places; p++) {
        uint32_t node = w->node_of_slot[leat_order_slot_of(leat_order_chunk_at(e->order, p), w->chunks)];
        e->own_place[e->own_first[node + 1]++] = p;
    }
    return LEAT_OK;
}

static leat_status open_epoch(struct leat_sim_deal *d, struct leat_error *err)
{
    struct leat_sim_epoch **list = realloc(d->epochs, (d->epochs_n + 1) * sizeof *list);
    struct leat_sim_epoch *e = calloc(1, sizeof *e);
    if (list)
        d->epochs = list;
    if (!list || !e) {
        free(e);
        return no_memory(err);
    }
    struct leat_order_spec spec = d->opts.spec;
    const struct leat_sim_epoch *before = d->epochs_n ? list[d->epochs_n - 1] : NULL;
    e->number = spec.epoch = d->epoch_base + d->epochs_n;
    e->before = before ? before->before + leat_order_stages(before->order) : 0;
    e->lanes = d->opts.world.ranks;
    leat_status rc = leat_order_open(&spec, &e->order, err);
    if (rc == LEAT_OK)
        rc = sort_by_node(d, e, err);
    if (rc != LEAT_OK) {
        close_epoch(e);
        return rc;
    }
    list[d->epochs_n++] = e;
    return LEAT_OK;
}

struct leat_sim_epoch *leat_sim_deal_epoch(const struct leat_sim_deal *d, uint64_t number)
{
    bool there = number >= d->epoch_base && number < d->epoch_base + d->epochs_n;
    return there ? d->epochs[number - d->epoch_base] : NULL;
}

void leat_sim_deal_leave(struct leat_sim_deal *d, uint64_t number)
{
    leat_sim_deal_epoch(d, number)->lanes--;
    while (d->epochs_n && !d->epochs[0]->lanes) {
        close_epoch(d->epochs[0]);
        d->epochs_n--;
        d->epoch_base++;
        memmove(d->epochs, d->epochs + 1, d->epochs_n * sizeof(struct leat_sim_epoch *));
    }
}

/* Stands at the beginning of an epoch, whose own order and the next are made. */
static leat_status begin_epoch(struct leat_sim_deal *d, uint64_t number, struct leat_error *err)
{
    struct leat_order_reader *reader;
    leat_status rc = LEAT_OK;
    while (rc == LEAT_OK && d->epoch_base + d->epochs_n <= number + 1)
        rc = open_epoch(d, err);
    if (rc == LEAT_OK)
        rc = leat_order_reader_open(leat_sim_deal_epoch(d, number)->order, 0, &reader, err);
    if (rc != LEAT_OK)
        return rc;
    leat_order_reader_close(d->reader);
    d->reader = reader;
    d->epoch = number;
    d->position = 0;
    return LEAT_OK;
}

/* Opening and closing */

leat_status leat_sim_deal_open(const struct leat_sim_deal_opts *o, struct leat_sim_deal **out, struct leat_error *err)
{
    struct leat_sim_deal *d = calloc(1, sizeof *d);
    if (!d)
        return no_memory(err);
    d->opts = *o;
    leat_status rc = leat_order_batch_check(o->global_batch, err);
    if (rc == LEAT_OK)
        rc = leat_order_assigner_open(&o->world, o->global_batch, false, &d->assigner, err);
    if (rc == LEAT_OK) {
        d->items = calloc(o->global_batch, sizeof *d->items);
        d->rank_of = calloc(o->global_batch, sizeof *d->rank_of);
        d->at = calloc((size_t)o->world.ranks + 1, sizeof *d->at);
        rc = d->items && d->rank_of && d->at ? begin_epoch(d, 0, err) : no_memory(err);
    }
    if (rc != LEAT_OK) {
        leat_sim_deal_close(d);
        return rc;
    }
    *out = d;
    return LEAT_OK;
}

static void free_batch(struct leat_sim_batch *b)
{
    free(b->first);
    free(b->chunks);
    free(b);
}

void leat_sim_deal_close(struct leat_sim_deal *d)
{
    if (!d)
        return;
    while (d->batches.n)
        leat_sim_deal_give_back(d);
    leat_order_reader_close(d->reader); /* before the order that it reads */
    for (uint32_t i = 0; i < d->epochs_n; i++)
        close_epoch(d->epochs[i]);
    leat_order_assigner_close(d->assigner);
    free(d->epochs);
    free(d->batches.list);
    free(d->items);
    free(d->rank_of);
    free(d->at);
    free(d);
}

/* Batches */

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void sort(uint32_t *v, uint32_t n)
{
    if (n > FEW) {
        qsort(v, n, sizeof *v, by_number);
        return;
    }
    for (uint32_t i = 1; i < n; i++) {
        uint32_t x = v[i];
        uint32_t k = i;
        for (; k > 0 && v[k - 1] > x; k--)
            v[k] = v[k - 1];
        v[k] = x;
    }
}

/* Puts the chunks of each rank together, sorted, each once. */
static leat_status deal(struct leat_sim_deal *d, struct leat_sim_batch *b, struct leat_error *err)
{
    uint32_t ranks = d->opts.world.ranks;
    b->first = calloc((size_t)ranks + 1, sizeof *b->first);
    b->chunks = calloc((size_t)b->size + 1, sizeof *b->chunks);
    if (!b->first || !b->chunks)
        return no_memory(err);
    leat_order_assign(d->assigner, d->items, NULL, b->size, d->rank_of);
    for (uint32_t r = 0, sum = 0; r < ranks; r++) {
        d->at[r] = sum;
        sum += leat_order_quota(&d->opts.world, b->size, r);
    }
    for (uint32_t i = 0; i < b->size; i++)
        b->chunks[d->at[d->rank_of[i]]++] = d->items[i].chunk;
    uint32_t kept = 0;
    for (uint32_t r = 0, begin = 0; r < ranks; r++) {
        uint32_t end = d->at[r];
        sort(b->chunks + begin, end - begin);
        b->first[r] = kept;
        for (uint32_t i = begin; i < end; i++) {
            uint32_t chunk = b->chunks[i];
            if (kept == b->first[r] || b->chunks[kept - 1] != chunk)
                b->chunks[kept++] = chunk;
        }
        begin = end;
    }
    b->first[ranks] = kept;
    return LEAT_OK;
}

static leat_status make(struct leat_sim_deal *d, struct leat_sim_batch *b, struct leat_error *err)
{
    const struct leat_order *order = leat_sim_deal_epoch(d, d->epoch)->order;
    struct leat_order_batch size =
        leat_order_batch_at(leat_order_units(order), d->position, d->opts.global_batch, d->opts.last);
    leat_status rc = LEAT_OK;
    b->epoch = d->epoch;
    if (size.take == 0) {
        b->end = true;
        rc = begin_epoch(d, d->epoch + 1, err);
    } else {
        size_t got;
        rc = leat_order_reader_next(d->reader, d->items, size.take, &got, err);
        if (rc == LEAT_OK && got != size.take)
            rc = leat_fail(err, LEAT_INTERNAL, "the order ended early");
        d->position += size.take;
    }
    if (rc != LEAT_OK)
        return rc;
    leat_order_batch_pad(d->items, size);
    b->taken = size.take;
    b->size = size.size;
    b->view = d->epoch;
    b->stage = leat_order_reader_stage(d->reader);
    b->all_stage = leat_sim_deal_epoch(d, d->epoch)->before + b->stage;
    return b->end ? LEAT_OK : deal(d, b, err);
}

static bool grow(struct batches *q)
{
    if (q->n < q->cap)
        return true;
    uint32_t old = q->cap ? q->cap : 1;
    uint32_t cap = q->cap ? 2 * q->cap : 16;
    struct leat_sim_batch **list = malloc(cap * sizeof *list);
    if (!list)
        return false;
    for (uint32_t i = 0; i < q->n; i++)
        list[(q->base + i) % cap] = q->list[(q->base + i) % old];
    free(q->list);
    q->list = list;
    q->cap = cap;
    return true;
}

leat_status leat_sim_deal_batch(struct leat_sim_deal *d, uint64_t number, struct leat_sim_batch **out,
                                struct leat_error *err)
{
    struct batches *q = &d->batches;
    if (number < q->base + q->n) {
        *out = q->list[number % q->cap];
        return LEAT_OK;
    }
    if (d->opts.stop && d->opts.stop(d->opts.user))
        return leat_fail(err, LEAT_CANCELLED, "interrupted");
    struct leat_sim_batch *b = calloc(1, sizeof *b);
    if (!b || !grow(q)) {
        free(b);
        return no_memory(err);
    }
    b->number = number;
    leat_status rc = make(d, b, err);
    if (rc != LEAT_OK) {
        free_batch(b);
        return rc;
    }
    q->list[number % q->cap] = b;
    q->n++;
    *out = b;
    return LEAT_OK;
}

const struct leat_sim_batch *leat_sim_deal_made(const struct leat_sim_deal *d, uint64_t number)
{
    return d->batches.list[number % d->batches.cap];
}

void leat_sim_deal_give_back(struct leat_sim_deal *d)
{
    struct batches *q = &d->batches;
    free_batch(q->list[q->base % q->cap]);
    q->base++;
    q->n--;
}
