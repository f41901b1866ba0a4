#include "dataset/snapshot.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "dataset/key_index.h"
#include "dataset/layout.h"
#include "dataset/sources.h"
#include "dataset/spill.h"

#define MEMORY_DEFAULT ((size_t)64 << 20)
#define PIECE          ((size_t)256 << 10) /* of a section on its way; a multiple of 8 */

/* One chunk's part of the sections lies in the spill until the order is known. */
struct part {
    struct leat_root_chunk chunk; /* samples 0: it is not there */
    uint64_t at;                  /* its rows, then the key ends (u32 each), then the keys, then the recipe */
    uint32_t keys_n;
    uint32_t recipe_n; /* 0: it is stored */
};

struct leat_snapshot {
    struct part *parts; /* by number */
    uint32_t parts_n;
    uint32_t cap;
    uint32_t chunks_max;
    uint32_t chunks;
    uint32_t total; /* as the chunks say; 0: none has said yet */
    uint64_t samples;
    uint64_t bytes;
    uint8_t pack[LEAT_PACK_ID_BYTES];
    struct leat_schema schema;
    struct leat_buf encoded_schema;   /* what `about` of the schema points into */
    struct leat_sources_list sources; /* of the recipes */
    size_t memory;
    struct leat_spill *spill;
};

leat_status leat_snapshot_open(uint32_t chunks_max, size_t memory, struct leat_snapshot **out, struct leat_error *err)
{
    struct leat_snapshot *s = calloc(1, sizeof *s);
    if (!s)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a snapshot");
    s->chunks_max = chunks_max;
    s->memory = memory ? memory : MEMORY_DEFAULT;
    leat_buf_init(&s->encoded_schema, LEAT_SCHEMA_MAX);
    leat_status rc = leat_spill_open(s->memory, &s->spill, err);
    if (rc != LEAT_OK) {
        leat_snapshot_close(s);
        return rc;
    }
    *out = s;
    return LEAT_OK;
}

void leat_snapshot_close(struct leat_snapshot *s)
{
    if (!s)
        return;
    leat_spill_close(s->spill);
    leat_sources_list_free(&s->sources);
    free(s->parts);
    leat_buf_free(&s->encoded_schema);
    free(s);
}

static leat_status take_first(struct leat_snapshot *s, const struct leat_chunk *c, struct leat_error *err)
{
    leat_status rc = leat_schema_write(&c->schema, &s->encoded_schema, err);
    if (rc == LEAT_OK)
        rc = leat_schema_read(s->encoded_schema.data, s->encoded_schema.len, &s->schema, err);
    memcpy(s->pack, c->pack, sizeof s->pack);
    return rc;
}

static leat_status check_family(const struct leat_snapshot *s, const struct leat_chunk *c, struct leat_error *err)
{
    if (memcmp(s->pack, c->pack, sizeof s->pack) != 0)
        return leat_fail(err, LEAT_INVALID, "chunk %u belongs to another packing", c->number);
    if (c->schema.encoded_n != s->encoded_schema.len ||
        memcmp(c->schema.encoded, s->encoded_schema.data, s->encoded_schema.len) != 0)
        return leat_fail(err, LEAT_INVALID, "chunk %u has other fields than the first", c->number);
    return LEAT_OK;
}

static leat_status make_room(struct leat_snapshot *s, uint32_t number, struct leat_error *err)
{
    if (number >= s->chunks_max)
        return leat_fail(err, LEAT_INVALID, "there is a chunk %u, but only %u chunks: some are missing", number,
                         s->chunks_max);
    if (number >= s->cap) {
        uint32_t cap = number < 64 ? 128 : number < s->chunks_max / 2 ? 2 * number : s->chunks_max;
        struct part *parts = realloc(s->parts, (size_t)cap * sizeof *parts);
        if (!parts)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for a table of %u chunks", cap);
        memset(parts + s->cap, 0, (size_t)(cap - s->cap) * sizeof *parts);
        s->parts = parts;
        s->cap = cap;
    }
    if (number >= s->parts_n)
        s->parts_n = number + 1;
    return LEAT_OK;
}

bool leat_snapshot_has(const struct leat_snapshot *s, uint32_t number, const uint8_t sha[LEAT_SHA256_SIZE])
{
    return number < s->parts_n && s->parts[number].chunk.samples &&
           memcmp(s->parts[number].chunk.name, sha, LEAT_SHA256_SIZE) == 0;
}

/* *p has the chunk's name and checksum, and the bytes of its recipe. */
static leat_status copy_part(struct leat_snapshot *s, const struct leat_chunk *c, const void *recipe, struct part *p,
                             struct leat_error *err)
{
    size_t last;
    const char *last_key = leat_chunk_key(c, c->samples - 1, &last);
    size_t keys_n = (size_t)(last_key - (const char *)c->keys) + last;
    size_t rows_n = (size_t)c->samples * c->schema.row_bytes;
    size_t ends_n = (size_t)c->samples * 4;
    p->keys_n = (uint32_t)keys_n;
    p->chunk.samples = c->samples;
    p->chunk.size = (uint32_t)c->size;
    leat_status rc = leat_spill_add(s->spill, c->rows, rows_n, &p->at, err);
    if (rc == LEAT_OK)
        rc = leat_spill_add(s->spill, c->key_ends, ends_n, NULL, err);
    if (rc == LEAT_OK)
        rc = leat_spill_add(s->spill, c->keys, keys_n, NULL, err);
    if (rc == LEAT_OK && p->recipe_n)
        rc = leat_spill_add(s->spill, recipe, p->recipe_n, NULL, err);
    return rc;
}

static leat_status add_part(struct leat_snapshot *s, const struct leat_chunk *c, struct part part, const void *recipe,
                            struct leat_error *err)
{
    leat_status rc = s->chunks ? check_family(s, c, err) : take_first(s, c, err);
    if (rc == LEAT_OK)
        rc = make_room(s, c->number, err);
    if (rc != LEAT_OK)
        return rc;
    struct part *p = &s->parts[c->number];
    if (p->chunk.samples)
        return leat_fail(err, LEAT_EXISTS, "there are two chunks with the number %u", c->number);
    rc = copy_part(s, c, recipe, &part, err);
    if (rc != LEAT_OK)
        return rc;
    *p = part;
    s->chunks++;
    s->total = c->total > s->total ? c->total : s->total;
    s->samples += c->samples;
    s->bytes += c->size;
    return LEAT_OK;
}

leat_status leat_snapshot_add(struct leat_snapshot *s, const struct leat_chunk *c, const uint8_t sha[LEAT_SHA256_SIZE],
                              struct leat_error *err)
{
    struct part part = {.chunk.sum = leat_xxh3(c->data, c->size)};
    if (c->lead_bytes)
        return leat_fail(err, LEAT_CORRUPT, "chunk %u is made from a recipe: there can be no object for it", c->number);
    memcpy(part.chunk.name, sha, LEAT_SHA256_SIZE);
    return add_part(s, c, part, NULL, err);
}

leat_status leat_snapshot_add_made(struct leat_snapshot *s, const struct leat_chunk *lead,
                                   const uint8_t sha[LEAT_SHA256_SIZE], uint64_t sum, const void *recipe,
                                   size_t recipe_n, struct leat_error *err)
{
    struct part part = {.chunk.sum = sum, .recipe_n = (uint32_t)recipe_n};
    if (recipe_n == 0 || recipe_n % 8 || recipe_n > UINT32_MAX)
        return leat_fail(err, LEAT_INVALID, "a recipe cannot have %zu bytes", recipe_n);
    memcpy(part.chunk.name, sha, LEAT_SHA256_SIZE);
    return add_part(s, lead, part, recipe, err);
}

leat_status leat_snapshot_add_known(struct leat_snapshot *s, const struct leat_chunk *c,
                                    const uint8_t sha[LEAT_SHA256_SIZE], uint64_t sum, const void *recipe,
                                    size_t recipe_n, struct leat_error *err)
{
    struct part part = {.chunk.sum = sum};
    if (recipe_n)
        return leat_snapshot_add_made(s, c, sha, sum, recipe, recipe_n, err);
    memcpy(part.chunk.name, sha, LEAT_SHA256_SIZE);
    return add_part(s, c, part, NULL, err);
}

leat_status leat_snapshot_source(struct leat_snapshot *s, const char *url, uint32_t *out, struct leat_error *err)
{
    return leat_sources_list_add(&s->sources, url, out, err);
}

const char *leat_snapshot_source_url(const struct leat_snapshot *s, uint32_t source)
{
    return source < s->sources.n ? s->sources.urls[source] : NULL;
}

void leat_snapshot_end(struct leat_snapshot *s)
{
    if (s->total == 0)
        s->total = s->parts_n;
}

const uint8_t *leat_snapshot_pack(const struct leat_snapshot *s)
{
    return s->pack;
}

const struct leat_schema *leat_snapshot_schema(const struct leat_snapshot *s)
{
    return &s->schema;
}

uint32_t leat_snapshot_chunks(const struct leat_snapshot *s)
{
    return s->chunks;
}

uint64_t leat_snapshot_samples(const struct leat_snapshot *s)
{
    return s->samples;
}

uint64_t leat_snapshot_bytes(const struct leat_snapshot *s)
{
    return s->bytes;
}

/* Writing: one dataset of the packings, in their order. The bytes of the sections are made piece by piece, once for
 * their digests and once for the one that stores them: a section may be larger than memory. */

static leat_status check_whole(const struct leat_snapshot *s, struct leat_error *err)
{
    if (s->chunks == 0)
        return leat_fail(err, LEAT_INVALID, "there are no samples");
    if (s->total == 0)
        return leat_fail(err, LEAT_NOT_FOUND, "the last chunk is missing, and perhaps more: %u are there", s->chunks);
    for (uint32_t i = 0; i < s->total; i++) {
        if (i >= s->parts_n || !s->parts[i].chunk.samples)
            return leat_fail(err, LEAT_NOT_FOUND, "chunk %u is missing: %u of %u are there", i, s->chunks, s->total);
    }
    if (s->chunks != s->total)
        return leat_fail(err, LEAT_CORRUPT, "there are %u chunks, but they say there should be %u", s->chunks,
                         s->total);
    return LEAT_OK;
}

static leat_status check_all(struct leat_snapshot_files *f, struct leat_error *err)
{
    const struct leat_buf *first = &f->packings[0]->encoded_schema;
    uint64_t chunks = 0;
    for (uint32_t p = 0; p < f->packings_n; p++) {
        const struct leat_snapshot *s = f->packings[p];
        leat_status rc = check_whole(s, err);
        if (rc != LEAT_OK)
            return rc;
        if (s->encoded_schema.len != first->len || memcmp(s->encoded_schema.data, first->data, first->len) != 0)
            return leat_fail(err, LEAT_INVALID, "packing %u has other fields than the first, or other names of labels",
                             p + 1);
        f->samples += s->samples;
        chunks += s->chunks;
    }
    if (chunks > UINT32_MAX)
        return leat_fail(err, LEAT_LIMIT, "a dataset has less than 2^32 chunks, not %" PRIu64, chunks);
    f->chunks = (uint32_t)chunks;
    return LEAT_OK;
}

/* Recipes hold numbers of sources, so that the packings must agree on them: each list begins as the shorter ones do.
 * The longest is what is written; NULL: all chunks are stored. */
static const struct leat_sources_list *longest_sources(const struct leat_snapshot_files *f)
{
    const struct leat_sources_list *longest = NULL;
    for (uint32_t p = 0; p < f->packings_n; p++) {
        const struct leat_sources_list *l = &f->packings[p]->sources;
        if (l->n && (!longest || l->n > longest->n))
            longest = l;
    }
    return longest;
}

static leat_status check_sources(const struct leat_snapshot_files *f, struct leat_error *err)
{
    const struct leat_sources_list *longest = longest_sources(f);
    for (uint32_t p = 0; longest && p < f->packings_n; p++) {
        const struct leat_sources_list *l = &f->packings[p]->sources;
        for (uint32_t i = 0; i < l->n; i++) {
            if (strcmp(l->urls[i], longest->urls[i]) != 0)
                return leat_fail(err, LEAT_INVALID, "source %u is %s in one packing and %s in another", i, l->urls[i],
                                 longest->urls[i]);
        }
    }
    return LEAT_OK;
}

/* Sending bytes of a spill on. */
struct emitter {
    leat_snapshot_sink *sink;
    void *user;
    uint8_t *piece;  /* PIECE bytes */
    uint64_t base;   /* keys before this chunk's, in bytes */
    uint64_t sample; /* number of the chunk's first */
    uint64_t recipe; /* where the chunk's lies in the section */
    struct leat_key_index *index;
};

static leat_status emit_range(struct emitter *e, const struct leat_spill *spill, uint64_t at, uint64_t n,
                              struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    while (rc == LEAT_OK && n) {
        size_t step = n < PIECE ? (size_t)n : PIECE;
        rc = leat_spill_read(spill, at, e->piece, step, err);
        if (rc == LEAT_OK)
            rc = e->sink(e->user, e->piece, step, err);
        at += step;
        n -= step;
    }
    return rc;
}

typedef leat_status visit_part(struct emitter *e, const struct leat_snapshot *s, const struct part *p,
                               struct leat_error *err);

static leat_status each_part(const struct leat_snapshot_files *f, struct emitter *e, visit_part *visit,
                             struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    e->base = 0;
    e->sample = 0;
    for (uint32_t k = 0; k < f->packings_n; k++) {
        const struct leat_snapshot *s = f->packings[k];
        for (uint32_t i = 0; rc == LEAT_OK && i < s->parts_n; i++) {
            rc = visit(e, s, &s->parts[i], err);
            e->base += s->parts[i].keys_n;
            e->sample += s->parts[i].chunk.samples;
        }
    }
    return rc;
}

static uint64_t ends_at(const struct leat_snapshot *s, const struct part *p)
{
    return p->at + (uint64_t)p->chunk.samples * s->schema.row_bytes;
}

static uint64_t keys_at(const struct leat_snapshot *s, const struct part *p)
{
    return ends_at(s, p) + (uint64_t)p->chunk.samples * 4;
}

static leat_status emit_rows(struct emitter *e, const struct leat_snapshot *s, const struct part *p,
                             struct leat_error *err)
{
    return emit_range(e, s->spill, p->at, (uint64_t)p->chunk.samples * s->schema.row_bytes, err);
}

static leat_status emit_keys(struct emitter *e, const struct leat_snapshot *s, const struct part *p,
                             struct leat_error *err)
{
    return emit_range(e, s->spill, keys_at(s, p), p->keys_n, err);
}

/* Ends count from the beginning of the section's keys, not of the chunk's. */
static leat_status emit_ends(struct emitter *e, const struct leat_snapshot *s, const struct part *p,
                             struct leat_error *err)
{
    uint8_t *read = e->piece + PIECE / 2;
    leat_status rc = LEAT_OK;
    for (uint32_t done = 0; rc == LEAT_OK && done < p->chunk.samples;) {
        uint32_t left = p->chunk.samples - done;
        uint32_t n = left < PIECE / 16 ? left : PIECE / 16;
        rc = leat_spill_read(s->spill, ends_at(s, p) + 4 * (uint64_t)done, read, 4 * (size_t)n, err);
        for (uint32_t i = 0; rc == LEAT_OK && i < n; i++)
            leat_put_u64(e->piece + 8 * (size_t)i, e->base + leat_get_u32(read + 4 * (size_t)i));
        if (rc == LEAT_OK)
            rc = e->sink(e->user, e->piece, 8 * (size_t)n, err);
        done += n;
    }
    return rc;
}

static leat_status emit_recipe_at(struct emitter *e, const struct leat_snapshot *s, const struct part *p,
                                  struct leat_error *err)
{
    uint8_t at[8];
    (void)s;
    leat_put_u64(at, e->recipe);
    e->recipe += p->recipe_n;
    return e->sink(e->user, at, sizeof at, err);
}

static leat_status emit_recipe(struct emitter *e, const struct leat_snapshot *s, const struct part *p,
                               struct leat_error *err)
{
    return emit_range(e, s->spill, keys_at(s, p) + p->keys_n, p->recipe_n, err);
}

static leat_status emit_recipes(const struct leat_snapshot_files *f, struct emitter *e, struct leat_error *err)
{
    const struct part end = {0};
    e->recipe = 8 * ((uint64_t)f->chunks + 1);
    leat_status rc = each_part(f, e, emit_recipe_at, err);
    if (rc == LEAT_OK)
        rc = emit_recipe_at(e, NULL, &end, err);
    return rc == LEAT_OK ? each_part(f, e, emit_recipe, err) : rc;
}

static leat_status emit_sources(const struct leat_snapshot_files *f, struct emitter *e, struct leat_error *err)
{
    struct leat_buf bytes;
    leat_buf_init(&bytes, LEAT_SOURCES_BYTES);
    leat_status rc = leat_sources_list_write(longest_sources(f), &bytes, err);
    if (rc == LEAT_OK)
        rc = e->sink(e->user, bytes.data, bytes.len, err);
    leat_buf_free(&bytes);
    return rc;
}

static leat_status emit_key_table(const struct leat_snapshot_files *f, struct emitter *e, struct leat_error *err)
{
    leat_status rc = each_part(f, e, emit_ends, err);
    if (rc == LEAT_OK)
        rc = emit_range(e, f->index, f->index_at, f->samples * LEAT_KEY_ENTRY, err);
    return rc == LEAT_OK ? each_part(f, e, emit_keys, err) : rc;
}

leat_status leat_snapshot_emit(const struct leat_snapshot_files *f, enum leat_section_kind kind,
                               leat_snapshot_sink *sink, void *user, struct leat_error *err)
{
    struct emitter e = {.sink = sink, .user = user, .piece = malloc(PIECE)};
    leat_status rc = e.piece ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for a section");
    if (rc == LEAT_OK && kind == LEAT_SECTION_SAMPLES)
        rc = each_part(f, &e, emit_rows, err);
    else if (rc == LEAT_OK && kind == LEAT_SECTION_KEYS)
        rc = emit_key_table(f, &e, err);
    else if (rc == LEAT_OK && kind == LEAT_SECTION_RECIPES)
        rc = emit_recipes(f, &e, err);
    else if (rc == LEAT_OK)
        rc = emit_sources(f, &e, err);
    free(e.piece);
    return rc;
}

/* Hashes the keys of a chunk. */
static leat_status index_part(struct emitter *e, const struct leat_snapshot *s, const struct part *p,
                              struct leat_error *err)
{
    size_t ends_n = (size_t)p->chunk.samples * 4;
    uint8_t *ends = malloc(ends_n + p->keys_n + 1);
    if (!ends)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the keys of %u samples", p->chunk.samples);
    uint32_t start = 0;
    leat_status rc = leat_spill_read(s->spill, ends_at(s, p), ends, ends_n + p->keys_n, err);
    for (uint32_t i = 0; rc == LEAT_OK && i < p->chunk.samples; i++) {
        uint32_t end = leat_get_u32(ends + 4 * (size_t)i);
        rc = leat_key_index_add(e->index, leat_xxh3(ends + ends_n + start, end - start), e->sample + i, err);
        start = end;
    }
    free(ends);
    return rc;
}

static leat_status make_index(struct leat_snapshot_files *f, struct leat_error *err)
{
    struct emitter e = {0};
    size_t memory = f->packings[0]->memory / 2;
    leat_status rc = leat_spill_open(memory, &f->index, err);
    if (rc == LEAT_OK)
        rc = leat_key_index_open(f->index, f->samples, memory, &e.index, err);
    if (rc == LEAT_OK)
        rc = each_part(f, &e, index_part, err);
    if (rc == LEAT_OK)
        rc = leat_key_index_finish(e.index, &f->index_at, err);
    leat_key_index_close(e.index);
    return rc;
}

/* Digests of a section and of its blocks, as it passes. */
struct digester {
    struct leat_sha256 *whole;
    uint64_t size;
    size_t held;
    struct leat_buf *digests;
    uint8_t block[LEAT_BLOCK_BYTES];
};

static void end_block(struct digester *d)
{
    uint8_t digest[LEAT_SHA256_SIZE];
    leat_sha256(d->block, d->held, digest);
    leat_buf_add(d->digests, digest, ROOT_DIGEST);
    d->held = 0;
}

static leat_status digest_piece(void *user, const void *data, size_t n, struct leat_error *err)
{
    struct digester *d = user;
    const uint8_t *from = data;
    leat_sha256_add(d->whole, data, n);
    d->size += n;
    while (n) {
        size_t step = n < LEAT_BLOCK_BYTES - d->held ? n : LEAT_BLOCK_BYTES - d->held;
        memcpy(d->block + d->held, from, step);
        d->held += step;
        from += step;
        n -= step;
        if (d->held == LEAT_BLOCK_BYTES)
            end_block(d);
    }
    return leat_buf_check(d->digests, "a section's digests", err);
}

static leat_status digest_section(struct leat_snapshot_files *f, enum leat_section_kind kind, uint32_t needs,
                                  struct leat_error *err)
{
    uint32_t i = f->sections_n;
    struct leat_root_section *out = &f->sections[i];
    struct digester *d = calloc(1, sizeof *d);
    if (!d || !(d->whole = leat_sha256_open())) {
        free(d);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a digest");
    }
    d->digests = &f->digests[i];
    leat_status rc = leat_snapshot_emit(f, kind, digest_piece, d, err);
    if (d->held)
        end_block(d);
    *out = (struct leat_root_section){.kind = kind, .needs = needs, .size = d->size};
    leat_sha256_finish(d->whole, out->name);
    free(d);
    if (rc == LEAT_OK)
        rc = leat_buf_check(&f->digests[i], "a section's digests", err);
    out->digests = (const uint8_t *)f->digests[i].data;
    f->sections_n += rc == LEAT_OK;
    return rc;
}

static void list_chunks(const struct leat_snapshot_files *f, struct leat_packing *packings,
                        struct leat_root_chunk *chunks)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < f->packings_n; p++) {
        const struct leat_snapshot *s = f->packings[p];
        packings[p].chunks = s->chunks;
        memcpy(packings[p].pack, s->pack, sizeof s->pack);
        for (uint32_t i = 0; i < s->parts_n; i++)
            chunks[n++] = s->parts[i].chunk;
    }
}

static leat_status write_root(struct leat_snapshot_files *f, struct leat_error *err)
{
    struct leat_root_chunk *chunks = malloc(((size_t)f->chunks + 1) * sizeof *chunks);
    struct leat_packing *packings = calloc((size_t)f->packings_n + 1, sizeof *packings);
    leat_status rc =
        chunks && packings ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for a table of %u chunks", f->chunks);
    if (rc == LEAT_OK) {
        list_chunks(f, packings, chunks);
        struct leat_root_parts parts = {.schema = &f->packings[0]->schema,
                                        .packings = packings,
                                        .packings_n = f->packings_n,
                                        .chunks = chunks,
                                        .chunks_n = f->chunks,
                                        .sections = f->sections,
                                        .sections_n = f->sections_n};
        rc = leat_root_write(&parts, &f->root, err);
    }
    free(packings);
    free(chunks);
    return rc;
}

leat_status leat_snapshot_write(const struct leat_snapshot *const *packings, uint32_t n,
                                struct leat_snapshot_files *out, struct leat_error *err)
{
    struct leat_root_peek head;
    *out = (struct leat_snapshot_files){.packings = packings, .packings_n = n};
    leat_buf_init(&out->root, LEAT_ROOT_MAX);
    for (uint32_t i = 0; i < LEAT_SNAPSHOT_SECTIONS; i++)
        leat_buf_init(&out->digests[i], LEAT_ROOT_MAX);
    leat_status rc = check_all(out, err);
    if (rc == LEAT_OK)
        rc = check_sources(out, err);
    if (rc == LEAT_OK)
        rc = make_index(out, err);
    if (rc == LEAT_OK)
        rc = digest_section(out, LEAT_SECTION_SAMPLES, 0, err);
    if (rc == LEAT_OK)
        rc = digest_section(out, LEAT_SECTION_KEYS, 0, err);
    bool indexed = longest_sources(out) != NULL;
    if (rc == LEAT_OK && indexed)
        rc = digest_section(out, LEAT_SECTION_RECIPES, LEAT_SECTION_REQUIRED, err);
    if (rc == LEAT_OK && indexed)
        rc = digest_section(out, LEAT_SECTION_SOURCES, LEAT_SECTION_REQUIRED, err);
    if (rc == LEAT_OK)
        rc = write_root(out, err);
    if (rc == LEAT_OK)
        rc = leat_root_peek(out->root.data, out->root.len, &head, err);
    if (rc != LEAT_OK)
        return rc;
    memcpy(out->pointer.id, head.id, sizeof head.id);
    leat_sha256(out->root.data, out->root.len, out->pointer.root);
    return LEAT_OK;
}

void leat_snapshot_files_free(struct leat_snapshot_files *f)
{
    leat_spill_close(f->index);
    f->index = NULL;
    for (uint32_t i = 0; i < LEAT_SNAPSHOT_SECTIONS; i++)
        leat_buf_free(&f->digests[i]);
    leat_buf_free(&f->root);
}
