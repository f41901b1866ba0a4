#include "order/reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "order/draw.h"

/* A unit that waits for its stage. */
struct unit {
    uint32_t late; /* 2^-32 of the stage after its beginning */
    struct leat_order_item item;
};

/* The units of one stage. */
struct bin {
    struct unit *units;
    uint32_t n;
    uint32_t cap;
};

struct leat_order_reader {
    const struct leat_order *o;
    uint64_t position; /* of the next unit to be read */
    uint64_t stage;    /* the one being read: `ready` holds it */
    uint32_t ready_at;
    struct bin ready; /* in order */
    struct bin *ring; /* one for each stage of the window, by stage modulo window */
    uint32_t *strata; /* scratch: index by stratum */
    uint32_t strata_cap;
    uint32_t *heads; /* scratch of sort_stage */
    uint32_t heads_cap;
};

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for the window of an order");
}

static bool grow_u32(uint32_t **v, uint32_t *cap, uint32_t n)
{
    if (n <= *cap)
        return true;
    uint32_t *grown = realloc(*v, (size_t)n * sizeof **v);
    if (!grown)
        return false;
    *v = grown;
    *cap = n;
    return true;
}

static bool grow_bin(struct bin *b, uint32_t n)
{
    if (n <= b->cap)
        return true;
    uint32_t cap = b->cap + b->cap / 2 < n ? n + 8 : b->cap + b->cap / 2;
    struct unit *units = realloc(b->units, (size_t)cap * sizeof *units);
    if (!units)
        return false;
    b->units = units;
    b->cap = cap;
    return true;
}

static bool bin_add(struct bin *b, struct unit u)
{
    if (b->n == b->cap && !grow_bin(b, b->n + 1))
        return false;
    b->units[b->n++] = u;
    return true;
}

static bool before(const struct unit *a, const struct unit *b)
{
    if (a->late != b->late)
        return a->late < b->late;
    return a->item.chunk < b->item.chunk; /* units of one chunk never share a time: each has its stratum */
}

/* Sorts a stage into `ready`. The times are uniform draws, so dealing them to as many buckets as there are
 * units leaves next to nothing for the insertion sort after it. */
static leat_status sort_stage(struct leat_order_reader *r, const struct bin *from, struct leat_error *err)
{
    unsigned bits = 1;
    while (bits < 24 && 1u << bits < from->n)
        bits++;
    uint32_t buckets = 1u << bits;
    if (!grow_bin(&r->ready, from->n) || !grow_u32(&r->heads, &r->heads_cap, buckets))
        return no_memory(err);
    memset(r->heads, 0, buckets * sizeof *r->heads);
    for (uint32_t i = 0; i < from->n; i++)
        r->heads[from->units[i].late >> (32 - bits)]++;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < buckets; i++) {
        uint32_t n = r->heads[i];
        r->heads[i] = sum;
        sum += n;
    }
    struct unit *to = r->ready.units;
    for (uint32_t i = 0; i < from->n; i++)
        to[r->heads[from->units[i].late >> (32 - bits)]++] = from->units[i];
    for (uint32_t i = 1; i < from->n; i++) {
        struct unit u = to[i];
        uint32_t k = i;
        for (; k > 0 && before(&u, &to[k - 1]); k--)
            to[k] = to[k - 1];
        to[k] = u;
    }
    r->ready.n = from->n;
    r->ready_at = 0;
    return LEAT_OK;
}

static bool draw_strata(struct leat_order_reader *r, uint32_t chunk, uint32_t count)
{
    if (!grow_u32(&r->strata, &r->strata_cap, count))
        return false;
    for (uint32_t i = 0; i < count; i++)
        r->strata[i] = i;
    leat_shuffle_u32(r->o->strata_key, chunk, r->strata, count);
    return true;
}

/* Deals the units of the chunk at `place` to the stages from r->stage on. */
static leat_status add_chunk(struct leat_order_reader *r, uint32_t place, struct leat_error *err)
{
    const struct leat_order *o = r->o;
    uint32_t chunk = o->list[place];
    uint32_t count = o->spec.counts[chunk];
    uint32_t window = o->spec.window;
    uint64_t stride = leat_order_stride(o, count);
    uint32_t block[4];
    if (!draw_strata(r, chunk, count))
        return no_memory(err);
    uint32_t slot = place % window;
    uint64_t skip = r->stage - place; /* of this chunk's stages, those already read; never negative */
    for (uint32_t j = 0; j < count; j++) {
        if (j % 4 == 0)
            leat_random_block(o->jitter_key, chunk, j / 4, block);
        uint64_t offset = leat_order_offset(stride, j, block[j % 4]);
        uint32_t stages = (uint32_t)(offset >> 32);
        if (stages < skip)
            continue;
        uint32_t bin = slot + stages;
        struct unit u = {.late = (uint32_t)offset, .item = {chunk, r->strata[j]}};
        if (!bin_add(&r->ring[bin < window ? bin : bin - window], u))
            return no_memory(err);
    }
    return LEAT_OK;
}

/* Without shuffle a stage is a chunk, as it is. */
static leat_status load_plain(struct leat_order_reader *r, struct leat_error *err)
{
    uint32_t chunk = r->o->list[r->stage];
    uint32_t count = r->o->spec.counts[chunk];
    if (!grow_bin(&r->ready, count))
        return no_memory(err);
    for (uint32_t i = 0; i < count; i++)
        r->ready.units[i] = (struct unit){.item = {chunk, i}};
    r->ready.n = count;
    r->ready_at = 0;
    return LEAT_OK;
}

/* Makes r->stage, whose earlier chunks are in the ring, the one being read. */
static leat_status load_stage(struct leat_order_reader *r, struct leat_error *err)
{
    if (!r->o->spec.shuffle)
        return load_plain(r, err);
    leat_status rc = LEAT_OK;
    if (r->stage < r->o->places)
        rc = add_chunk(r, (uint32_t)r->stage, err);
    if (rc != LEAT_OK)
        return rc;
    struct bin *b = &r->ring[r->stage % r->o->spec.window];
    rc = sort_stage(r, b, err);
    b->n = 0;
    return rc;
}

leat_status leat_order_reader_seek(struct leat_order_reader *r, uint64_t position, struct leat_error *err)
{
    const struct leat_order *o = r->o;
    uint64_t units = leat_order_units(o);
    if (position > units)
        return leat_fail(err, LEAT_INVALID, "position %llu is after the end of the epoch (%llu)",
                         (unsigned long long)position, (unsigned long long)units);
    for (uint32_t i = 0; o->spec.shuffle && i < o->spec.window; i++)
        r->ring[i].n = 0;
    r->ready.n = r->ready_at = 0;
    r->position = position;
    if (position == units) {
        r->stage = leat_order_stages(o);
        return LEAT_OK;
    }
    r->stage = leat_order_stage_of(o, position);
    uint64_t p = r->stage < o->spec.window ? 0 : r->stage - o->spec.window + 1;
    for (; o->spec.shuffle && p < r->stage && p < o->places; p++) {
        leat_status rc = add_chunk(r, (uint32_t)p, err);
        if (rc != LEAT_OK)
            return rc;
    }
    uint64_t start = leat_order_stage_start(o, r->stage);
    leat_status rc = load_stage(r, err);
    if (rc != LEAT_OK)
        return rc;
    r->ready_at = (uint32_t)(position - start);
    return LEAT_OK;
}

leat_status leat_order_reader_next(struct leat_order_reader *r, struct leat_order_item *items, size_t n, size_t *got,
                                   struct leat_error *err)
{
    uint64_t left = leat_order_units(r->o) - r->position;
    size_t want = n < left ? n : (size_t)left;
    for (size_t done = 0; done < want;) {
        if (r->ready_at == r->ready.n) {
            r->stage++;
            leat_status rc = load_stage(r, err);
            if (rc != LEAT_OK)
                return rc;
            continue;
        }
        size_t take = r->ready.n - r->ready_at;
        if (take > want - done)
            take = want - done;
        for (size_t i = 0; i < take; i++)
            items[done + i] = r->ready.units[r->ready_at + i].item;
        r->ready_at += (uint32_t)take;
        done += take;
    }
    r->position += want;
    *got = want;
    return LEAT_OK;
}

uint64_t leat_order_reader_position(const struct leat_order_reader *r)
{
    return r->position;
}

uint64_t leat_order_reader_stage(const struct leat_order_reader *r)
{
    return r->stage;
}

leat_status leat_order_reader_open(const struct leat_order *o, uint64_t position, struct leat_order_reader **out,
                                   struct leat_error *err)
{
    struct leat_order_reader *r = calloc(1, sizeof *r);
    if (!r)
        return no_memory(err);
    r->o = o;
    r->ring = calloc(o->spec.window, sizeof *r->ring);
    leat_status rc = r->ring ? leat_order_reader_seek(r, position, err) : no_memory(err);
    if (rc != LEAT_OK) {
        leat_order_reader_close(r); /* accepts a half-built reader */
        return rc;
    }
    *out = r;
    return LEAT_OK;
}

void leat_order_reader_close(struct leat_order_reader *r)
{
    if (!r)
        return;
    for (uint32_t i = 0; r->ring && i < r->o->spec.window; i++)
        free(r->ring[i].units);
    free(r->ring);
    free(r->ready.units);
    free(r->strata);
    free(r->heads);
    free(r);
}
