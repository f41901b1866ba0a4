#include "dataset/key_index.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

/* A part's entries leave memory in runs, which are chained. */
struct run {
    uint64_t at;
    uint32_t bytes;
    uint32_t next; /* 0: none; runs are numbered from 1 */
};

struct part {
    uint64_t entries;
    uint64_t least; /* hash … */
    uint64_t most;
    uint32_t first; /* run */
    uint32_t last;
    uint32_t held; /* bytes in its buffer */
};

struct leat_key_index {
    struct leat_spill *spill;
    size_t memory;
    unsigned used; /* bits of the hash that are the same in all entries: those that chose the part above */
    unsigned bits; /* … and the next that choose a part here */
    uint32_t buffer_bytes;
    uint8_t *buffers;
    struct part *parts;
    struct run *runs;
    uint32_t runs_n;
    uint32_t runs_cap;
};

struct entry {
    uint64_t hash;
    uint64_t sample;
};

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for the index of the keys");
}

static leat_status open_level(struct leat_spill *spill, uint64_t n, size_t memory, unsigned used,
                              struct leat_key_index **out, struct leat_error *err)
{
    struct leat_key_index *x = calloc(1, sizeof *x);
    if (!x)
        return no_memory(err);
    x->spill = spill;
    x->memory = memory;
    x->used = used;
    /* Half of what sorting may take: hashes are spread evenly, but not to the entry. */
    while (x->bits < 12 && (n * LEAT_KEY_ENTRY >> x->bits) > memory / 2)
        x->bits++;
    uint64_t buffer = (memory >> x->bits) / LEAT_KEY_ENTRY * LEAT_KEY_ENTRY;
    x->buffer_bytes = (uint32_t)(buffer < 4096 ? 4096 : buffer > (1u << 20) ? 1u << 20 : buffer);
    x->parts = calloc((size_t)1 << x->bits, sizeof *x->parts);
    x->buffers = malloc(((size_t)1 << x->bits) * x->buffer_bytes);
    if (!x->parts || !x->buffers) {
        leat_key_index_close(x);
        return no_memory(err);
    }
    *out = x;
    return LEAT_OK;
}

leat_status leat_key_index_open(struct leat_spill *spill, uint64_t n, size_t memory, struct leat_key_index **out,
                                struct leat_error *err)
{
    return open_level(spill, n, memory, 0, out, err);
}

void leat_key_index_close(struct leat_key_index *x)
{
    if (!x)
        return;
    free(x->parts);
    free(x->buffers);
    free(x->runs);
    free(x);
}

static leat_status flush(struct leat_key_index *x, uint32_t number, struct leat_error *err)
{
    struct part *p = &x->parts[number];
    if (x->runs_n + 1 >= x->runs_cap) {
        uint32_t cap = x->runs_cap ? 2 * x->runs_cap : 64;
        struct run *runs = cap > x->runs_cap ? realloc(x->runs, cap * sizeof *runs) : NULL;
        if (!runs)
            return no_memory(err);
        x->runs = runs;
        x->runs_cap = cap;
    }
    uint32_t run = ++x->runs_n;
    x->runs[run] = (struct run){.bytes = p->held};
    leat_status rc =
        leat_spill_add(x->spill, x->buffers + (size_t)number * x->buffer_bytes, p->held, &x->runs[run].at, err);
    if (rc != LEAT_OK)
        return rc;
    *(p->last ? &x->runs[p->last].next : &p->first) = run;
    p->last = run;
    p->held = 0;
    return LEAT_OK;
}

leat_status leat_key_index_add(struct leat_key_index *x, uint64_t hash, uint64_t sample, struct leat_error *err)
{
    uint32_t number = x->bits ? (uint32_t)((hash << x->used) >> (64 - x->bits)) : 0;
    struct part *p = &x->parts[number];
    if (p->held == x->buffer_bytes) {
        leat_status rc = flush(x, number, err);
        if (rc != LEAT_OK)
            return rc;
    }
    uint8_t *to = x->buffers + (size_t)number * x->buffer_bytes + p->held;
    leat_put_u64(to, hash);
    leat_put_u64(to + 8, sample);
    p->held += LEAT_KEY_ENTRY;
    p->least = p->entries == 0 || hash < p->least ? hash : p->least;
    p->most = hash > p->most ? hash : p->most;
    p->entries++;
    return LEAT_OK;
}

/* Hands the part's entries, in the order they came, to `take`, piece by piece. */
typedef leat_status take_piece(void *user, const uint8_t *data, size_t n, struct leat_error *err);

static leat_status each_piece(struct leat_key_index *x, uint32_t number, take_piece *take, void *user,
                              struct leat_error *err)
{
    const struct part *p = &x->parts[number];
    uint8_t *piece = malloc(x->buffer_bytes);
    leat_status rc = piece ? LEAT_OK : no_memory(err);
    for (uint32_t r = p->first; rc == LEAT_OK && r; r = x->runs[r].next) {
        rc = leat_spill_read(x->spill, x->runs[r].at, piece, x->runs[r].bytes, err);
        if (rc == LEAT_OK)
            rc = take(user, piece, x->runs[r].bytes, err);
    }
    free(piece);
    return rc == LEAT_OK ? take(user, x->buffers + (size_t)number * x->buffer_bytes, p->held, err) : rc;
}

static int by_hash(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->sample < y->sample ? -1 : x->sample > y->sample;
}

struct gather {
    struct entry *entries;
    size_t n;
};

static leat_status take_into_memory(void *user, const uint8_t *data, size_t n, struct leat_error *err)
{
    (void)err;
    struct gather *g = user;
    for (size_t at = 0; at < n; at += LEAT_KEY_ENTRY)
        g->entries[g->n++] = (struct entry){leat_get_u64(data + at), leat_get_u64(data + at + 8)};
    return LEAT_OK;
}

static leat_status take_into_spill(void *user, const uint8_t *data, size_t n, struct leat_error *err)
{
    return leat_spill_add(user, data, n, NULL, err);
}

static leat_status take_into_level(void *user, const uint8_t *data, size_t n, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (size_t at = 0; rc == LEAT_OK && at < n; at += LEAT_KEY_ENTRY)
        rc = leat_key_index_add(user, leat_get_u64(data + at), leat_get_u64(data + at + 8), err);
    return rc;
}

static leat_status sort_in_memory(struct leat_key_index *x, uint32_t number, struct leat_error *err)
{
    size_t n = (size_t)x->parts[number].entries;
    struct gather g = {.entries = malloc((n + 1) * sizeof *g.entries)};
    leat_status rc = g.entries ? each_piece(x, number, take_into_memory, &g, err) : no_memory(err);
    if (rc == LEAT_OK)
        qsort(g.entries, n, sizeof *g.entries, by_hash);
    for (size_t i = 0; rc == LEAT_OK && i < n; i++) { /* in place: an entry has the size of its encoding */
        struct entry e = g.entries[i];
        leat_put_u64((uint8_t *)&g.entries[i], e.hash);
        leat_put_u64((uint8_t *)&g.entries[i] + 8, e.sample);
    }
    if (rc == LEAT_OK)
        rc = leat_spill_add(x->spill, g.entries, n * sizeof *g.entries, NULL, err);
    free(g.entries);
    return rc;
}

static leat_status sort_all(struct leat_key_index *x, struct leat_error *err);

/* Too many for memory because keys repeat, or by chance: the next bits divide them. */
static leat_status sort_by_parts(struct leat_key_index *x, uint32_t number, struct leat_error *err)
{
    struct leat_key_index *level = NULL;
    leat_status rc = open_level(x->spill, x->parts[number].entries, x->memory, x->used + x->bits, &level, err);
    if (rc == LEAT_OK)
        rc = each_piece(x, number, take_into_level, level, err);
    if (rc == LEAT_OK)
        rc = sort_all(level, err);
    leat_key_index_close(level);
    return rc;
}

static leat_status sort_all(struct leat_key_index *x, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (uint32_t i = 0; rc == LEAT_OK && i < 1u << x->bits; i++) {
        const struct part *p = &x->parts[i];
        if (p->entries == 0)
            continue;
        if (p->least == p->most) /* sorted already: samples came in order */
            rc = each_piece(x, i, take_into_spill, x->spill, err);
        else if (p->entries * LEAT_KEY_ENTRY <= x->memory || x->used + x->bits >= 48)
            rc = sort_in_memory(x, i, err);
        else
            rc = sort_by_parts(x, i, err);
    }
    return rc;
}

leat_status leat_key_index_finish(struct leat_key_index *x, uint64_t *at, struct leat_error *err)
{
    *at = leat_spill_size(x->spill);
    return sort_all(x, err);
}
