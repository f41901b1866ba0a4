#include "dataset/cut.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "dataset/chunk.h"
#include "dataset/index.h"
#include "dataset/layout.h"
#include "dataset/pack.h"
#include "dataset/recipe.h"

/* What one sample takes in a chunk, and where it lies. */
struct extent {
    uint64_t key_n;
    uint64_t bytes; /* of its values, wherever they lie */
    bool placed;    /* some of them lie in objects … */
    uint32_t object;
    uint64_t first; /* … and from here … */
    uint64_t end;   /* … to here in the last of these */
};

/* The chunk so far. */
struct growing {
    uint64_t samples;
    uint64_t bytes; /* keys and data */
    bool placed;
    uint32_t object;
    uint64_t end; /* of what was taken of the object */
    const struct leat_home *home;
};

struct cutting {
    const struct leat_origin *origin;
    uint64_t wanted;
    uint64_t fixed; /* bytes of a chunk without samples */
    struct leat_cut cut;
    uint64_t cap;
    struct growing now;
    struct leat_origin_room room;
};

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for a plan of the chunks");
}

void leat_cut_free(struct leat_cut *c)
{
    free(c->order);
    free(c->starts);
    *c = (struct leat_cut){0};
}

static leat_status measure(struct cutting *c, uint64_t i, struct extent *out, struct leat_error *err)
{
    const struct leat_schema *schema = &c->origin->schema;
    struct leat_origin_sample sample;
    struct extent x = {0};
    leat_status rc = leat_origin_sample(c->origin, i, &c->room, &sample, err);
    if (rc != LEAT_OK)
        return rc;
    x.key_n = sample.key_n;
    for (uint32_t f = 0; f < schema->n; f++) {
        const struct leat_origin_value *v = &sample.values[f];
        if (v->absent || !leat_field_has_data(&schema->fields[f]))
            continue;
        if (v->size > LEAT_CHUNK_MAX || x.bytes > LEAT_CHUNK_MAX)
            x.bytes = (uint64_t)LEAT_CHUNK_MAX + 1; /* too much, and sums stay below 2^64 */
        else
            x.bytes += v->size;
        if (v->data)
            continue;
        x.first = x.placed && x.object == v->object && x.first < v->offset ? x.first : v->offset;
        x.end = x.placed && x.object == v->object && x.end > v->offset + v->size ? x.end : v->offset + v->size;
        x.object = v->object;
        x.placed = true;
    }
    *out = x;
    return LEAT_OK;
}

/* What the sample adds to the chunk's data. In place that is the stretch up to its end, as the recipe's pieces are:
 * small gaps are fetched too, and what lies in the chunk already is not fetched again. */
static uint64_t added(const struct cutting *c, const struct extent *x)
{
    if (!c->origin->in_place || !x->placed)
        return x->bytes;
    uint64_t stretch = x->end - x->first;
    if (!c->now.placed || c->now.object != x->object || x->first > c->now.end + LEAT_RECIPE_GAP)
        return x->bytes > stretch ? x->bytes : stretch;
    return x->end > c->now.end ? x->end - c->now.end : 0;
}

static uint64_t size_with(const struct cutting *c, uint64_t samples, uint64_t bytes)
{
    return c->fixed + samples * c->origin->schema.row_bytes + layout_padded(samples * 4) + bytes;
}

static leat_status fail_too_large(struct cutting *c, uint64_t sample, const struct extent *x, struct leat_error *err)
{
    struct leat_origin_sample s;
    leat_status rc = leat_origin_sample(c->origin, sample, &c->room, &s, err);
    if (rc != LEAT_OK)
        return rc;
    return leat_fail(err, LEAT_LIMIT, "'%.*s' has %s%" PRIu64 " bytes; a sample with its key has less than 4 GiB",
                     s.key_n < 200 ? (int)s.key_n : 200, (const char *)s.key,
                     x->bytes > LEAT_CHUNK_MAX ? "more than " : "",
                     x->bytes > LEAT_CHUNK_MAX ? x->bytes - 1 : x->bytes);
}

static leat_status begin_chunk(struct cutting *c, uint64_t place, struct leat_error *err)
{
    if (c->cut.chunks == LEAT_PACK_CHUNKS_MAX)
        return leat_fail(err, LEAT_LIMIT, "there would be more than %u chunks: make them larger (--chunk-size)",
                         LEAT_PACK_CHUNKS_MAX);
    if ((uint64_t)c->cut.chunks + 1 >= c->cap) {
        uint64_t cap = c->cap ? 2 * c->cap : 64;
        uint64_t *starts = realloc(c->cut.starts, cap * sizeof *starts);
        if (!starts)
            return no_memory(err);
        c->cut.starts = starts;
        c->cap = cap;
    }
    c->cut.starts[c->cut.chunks++] = place;
    c->now = (struct growing){0};
    return LEAT_OK;
}

static leat_status home_of(const struct cutting *c, const struct extent *x, const struct leat_home **out,
                           struct leat_error *err)
{
    struct leat_origin_object object;
    leat_status rc = c->origin->ops->object(c->origin, x->object, &object, err);
    if (rc == LEAT_OK)
        *out = object.home;
    return rc;
}

/* Where the origin has cut its chunks itself: whether the next one of them begins with this sample. */
static leat_status own_begins(const struct cutting *c, uint64_t sample, bool *out, struct leat_error *err)
{
    struct leat_origin_chunk own;
    if (c->cut.chunks >= c->origin->chunks)
        return LEAT_OK;
    leat_status rc = c->origin->ops->chunk(c->origin, c->cut.chunks, &own, err);
    if (rc == LEAT_OK)
        *out = own.first == sample;
    return rc;
}

static leat_status add_sample(struct cutting *c, uint64_t place, struct leat_error *err)
{
    const struct leat_origin *o = c->origin;
    uint64_t sample = leat_cut_sample(&c->cut, place);
    const struct leat_home *home = NULL;
    struct extent x;
    leat_status rc = measure(c, sample, &x, err);
    if (rc == LEAT_OK && o->many_stores && x.placed)
        rc = home_of(c, &x, &home, err);
    if (rc != LEAT_OK)
        return rc;
    bool begins = c->now.samples == 0; /* only the first of all has none before it */
    if (o->ops->chunk) {
        rc = own_begins(c, sample, &begins, err);
        if (rc != LEAT_OK)
            return rc;
    } else {
        begins = begins || size_with(c, c->now.samples + 1, c->now.bytes + x.key_n + added(c, &x)) > c->wanted;
    }
    begins = begins || (o->in_place && x.placed && c->now.placed && x.object != c->now.object);
    begins = begins || (home && c->now.home && !leat_origin_same_store(home, c->now.home));
    if (begins)
        rc = begin_chunk(c, place, err);
    if (rc != LEAT_OK)
        return rc;
    c->now.samples++;
    c->now.bytes += x.key_n + added(c, &x);
    if (x.placed) {
        c->now.end = c->now.placed && c->now.object == x.object && c->now.end > x.end ? c->now.end : x.end;
        c->now.object = x.object;
        c->now.placed = true;
    }
    c->now.home = home ? home : c->now.home;
    /* Only one that is alone may be larger than wanted. */
    if (size_with(c, c->now.samples, c->now.bytes) > LEAT_CHUNK_MAX)
        return fail_too_large(c, sample, &x, err);
    return LEAT_OK;
}

/* Puts samples of one store together, in the order they have. Stores are numbered as they come. */
static leat_status gather_stores(struct cutting *c, struct leat_error *err)
{
    const struct leat_home *homes[LEAT_SOURCES_MAX];
    uint64_t n = c->origin->samples;
    uint64_t starts[LEAT_SOURCES_MAX + 1] = {0};
    uint32_t stores = 0;
    uint8_t *store = malloc(n);
    uint64_t *order = malloc(n * sizeof *order);
    leat_status rc = store && order ? LEAT_OK : no_memory(err);
    for (uint64_t i = 0; rc == LEAT_OK && i < n; i++) {
        const struct leat_home *home = NULL;
        struct extent x;
        uint32_t s = 0;
        rc = measure(c, c->cut.order[i], &x, err);
        if (rc == LEAT_OK && x.placed)
            rc = home_of(c, &x, &home, err);
        while (rc == LEAT_OK && home && s < stores && !leat_origin_same_store(homes[s], home))
            s++;
        if (rc == LEAT_OK && s == LEAT_SOURCES_MAX)
            rc = leat_fail(err, LEAT_LIMIT, "the samples lie in more than %u stores", LEAT_SOURCES_MAX);
        if (rc == LEAT_OK && home && s == stores)
            homes[stores++] = home;
        if (rc == LEAT_OK) {
            store[i] = (uint8_t)s;
            starts[s + 1]++;
        }
    }
    for (uint32_t s = 0; s < LEAT_SOURCES_MAX; s++)
        starts[s + 1] += starts[s];
    for (uint64_t i = 0; rc == LEAT_OK && i < n; i++)
        order[starts[store[i]]++] = c->cut.order[i];
    if (rc == LEAT_OK)
        memcpy(c->cut.order, order, n * sizeof *order);
    free(order);
    free(store);
    return rc;
}

static leat_status make_order(struct cutting *c, const struct leat_cut_opts *opts, struct leat_error *err)
{
    uint64_t n = c->origin->samples;
    if (opts->keep_order || c->origin->in_place)
        return LEAT_OK;
    c->cut.order = malloc((n + 1) * sizeof *c->cut.order);
    if (!c->cut.order)
        return no_memory(err);
    for (uint64_t i = 0; i < n; i++)
        c->cut.order[i] = i;
    leat_shuffle_u64(leat_key("pack 1", opts->seed, 0, NULL, 0), 0, c->cut.order, n);
    return c->origin->many_stores ? gather_stores(c, err) : LEAT_OK;
}

leat_status leat_cut_make(const struct leat_origin *o, const struct leat_cut_opts *opts, struct leat_cut *out,
                          struct leat_error *err)
{
    struct cutting c = {.origin = o, .wanted = opts->chunk_bytes ? opts->chunk_bytes : LEAT_CHUNK_BYTES};
    struct leat_buf schema;
    leat_buf_init(&schema, LEAT_SCHEMA_MAX);
    leat_status rc = leat_schema_write(&o->schema, &schema, err);
    c.fixed = LEAT_CHUNK_HEAD + schema.len;
    leat_buf_free(&schema);
    if (rc == LEAT_OK && o->samples == 0)
        rc = leat_fail(err, LEAT_INVALID, "there are no samples to make chunks from");
    if (rc == LEAT_OK)
        rc = make_order(&c, opts, err);
    for (uint64_t i = 0; rc == LEAT_OK && i < o->samples; i++)
        rc = add_sample(&c, i, err);
    leat_origin_room_free(&c.room);
    if (rc != LEAT_OK) {
        leat_cut_free(&c.cut);
        return rc;
    }
    c.cut.starts[c.cut.chunks] = o->samples;
    *out = c.cut;
    return LEAT_OK;
}
