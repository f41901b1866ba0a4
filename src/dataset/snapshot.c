#include "dataset/snapshot.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "dataset/keys.h"

#define SECTION_MAX ((size_t)1 << 40)

/* One chunk's part of the sections, kept apart until the order is known. */
struct part {
    bool there;
    struct leat_root_chunk chunk;
    uint8_t *rows; /* then the key ends (u32 each), then the keys, in one allocation */
    uint32_t keys_n;
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
    struct leat_buf encoded_schema; /* what `about` of the schema points into */
};

leat_status leat_snapshot_open(uint32_t chunks_max, struct leat_snapshot **out, struct leat_error *err)
{
    struct leat_snapshot *s = calloc(1, sizeof *s);
    if (!s)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a snapshot");
    s->chunks_max = chunks_max;
    leat_buf_init(&s->encoded_schema, LEAT_SCHEMA_MAX);
    *out = s;
    return LEAT_OK;
}

void leat_snapshot_close(struct leat_snapshot *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->parts_n; i++)
        free(s->parts[i].rows);
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
    return number < s->parts_n && s->parts[number].there &&
           memcmp(s->parts[number].chunk.name, sha, LEAT_SHA256_SIZE) == 0;
}

static leat_status copy_part(const struct leat_chunk *c, const uint8_t sha[LEAT_SHA256_SIZE], struct part *out,
                             struct leat_error *err)
{
    size_t last;
    const char *last_key = leat_chunk_key(c, c->samples - 1, &last);
    size_t keys_n = (size_t)(last_key - (const char *)c->keys) + last;
    size_t rows_n = (size_t)c->samples * c->schema.row_bytes;
    size_t ends_n = (size_t)c->samples * 4;
    struct part p = {.there = true, .keys_n = (uint32_t)keys_n};
    p.chunk.samples = c->samples;
    p.chunk.size = (uint32_t)c->size;
    p.chunk.sum = leat_xxh3(c->data, c->size);
    memcpy(p.chunk.name, sha, LEAT_SHA256_SIZE);
    p.rows = malloc(rows_n + ends_n + keys_n);
    if (!p.rows)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the table of %u samples", c->samples);
    memcpy(p.rows, c->rows, rows_n);
    memcpy(p.rows + rows_n, c->key_ends, ends_n);
    memcpy(p.rows + rows_n + ends_n, c->keys, keys_n);
    *out = p;
    return LEAT_OK;
}

leat_status leat_snapshot_add(struct leat_snapshot *s, const struct leat_chunk *c, const uint8_t sha[LEAT_SHA256_SIZE],
                              struct leat_error *err)
{
    leat_status rc = s->chunks ? check_family(s, c, err) : take_first(s, c, err);
    if (rc == LEAT_OK)
        rc = make_room(s, c->number, err);
    if (rc != LEAT_OK)
        return rc;
    struct part *p = &s->parts[c->number];
    if (p->there)
        return leat_fail(err, LEAT_EXISTS, "there are two chunks with the number %u", c->number);
    rc = copy_part(c, sha, p, err);
    if (rc != LEAT_OK)
        return rc;
    s->chunks++;
    s->total = c->total > s->total ? c->total : s->total;
    s->samples += c->samples;
    s->bytes += c->size;
    return LEAT_OK;
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

/* Writing: one dataset of the packings, in their order. */

struct writing {
    const struct leat_snapshot *const *packings;
    uint32_t n;
    uint64_t samples;
    uint32_t chunks;
};

static leat_status check_whole(const struct leat_snapshot *s, struct leat_error *err)
{
    if (s->chunks == 0)
        return leat_fail(err, LEAT_INVALID, "there are no samples");
    if (s->total == 0)
        return leat_fail(err, LEAT_NOT_FOUND, "the last chunk is missing, and perhaps more: %u are there", s->chunks);
    for (uint32_t i = 0; i < s->total; i++) {
        if (i >= s->parts_n || !s->parts[i].there)
            return leat_fail(err, LEAT_NOT_FOUND, "chunk %u is missing: %u of %u are there", i, s->chunks, s->total);
    }
    if (s->chunks != s->total)
        return leat_fail(err, LEAT_CORRUPT, "there are %u chunks, but they say they are %u", s->chunks, s->total);
    return LEAT_OK;
}

static leat_status check_all(struct writing *w, struct leat_error *err)
{
    const struct leat_buf *first = &w->packings[0]->encoded_schema;
    uint64_t chunks = 0;
    for (uint32_t p = 0; p < w->n; p++) {
        const struct leat_snapshot *s = w->packings[p];
        leat_status rc = check_whole(s, err);
        if (rc != LEAT_OK)
            return rc;
        if (s->encoded_schema.len != first->len || memcmp(s->encoded_schema.data, first->data, first->len) != 0)
            return leat_fail(err, LEAT_INVALID, "packing %u has other fields than the first, or other names of labels",
                             p + 1);
        w->samples += s->samples;
        chunks += s->chunks;
    }
    if (chunks > UINT32_MAX)
        return leat_fail(err, LEAT_LIMIT, "a dataset has less than 2^32 chunks, not %" PRIu64, chunks);
    w->chunks = (uint32_t)chunks;
    return LEAT_OK;
}

static leat_status write_samples(const struct writing *w, struct leat_buf *out, struct leat_error *err)
{
    for (uint32_t p = 0; p < w->n; p++) {
        const struct leat_snapshot *s = w->packings[p];
        for (uint32_t i = 0; i < s->parts_n; i++)
            leat_buf_add(out, s->parts[i].rows, (size_t)s->parts[i].chunk.samples * s->schema.row_bytes);
    }
    return leat_buf_check(out, "the table of samples", err);
}

/* Appends the keys of a packing and where they end; returns how many ends there are then. */
static uint64_t gather_keys(const struct leat_snapshot *s, struct leat_buf *keys, uint64_t *ends, uint64_t n)
{
    for (uint32_t i = 0; i < s->parts_n; i++) {
        const struct part *p = &s->parts[i];
        const uint8_t *part_ends = p->rows + (size_t)p->chunk.samples * s->schema.row_bytes;
        for (uint32_t k = 0; k < p->chunk.samples; k++)
            ends[n++] = keys->len + leat_get_u32(part_ends + 4 * (size_t)k);
        leat_buf_add(keys, part_ends + 4 * (size_t)p->chunk.samples, p->keys_n);
    }
    return n;
}

static leat_status write_keys(const struct writing *w, struct leat_buf *out, struct leat_error *err)
{
    struct leat_buf keys;
    leat_buf_init(&keys, SECTION_MAX);
    uint64_t *ends = malloc((w->samples + 1) * sizeof *ends);
    leat_status rc = ends ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for %" PRIu64 " keys", w->samples);
    uint64_t n = 0;
    for (uint32_t p = 0; rc == LEAT_OK && p < w->n; p++)
        n = gather_keys(w->packings[p], &keys, ends, n);
    if (rc == LEAT_OK)
        rc = leat_buf_check(&keys, "the keys", err);
    if (rc == LEAT_OK)
        rc = leat_keys_write(keys.data, ends, n, out, err);
    free(ends);
    leat_buf_free(&keys);
    return rc;
}

static void list_chunks(const struct writing *w, struct leat_packing *packings, struct leat_root_chunk *chunks)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < w->n; p++) {
        const struct leat_snapshot *s = w->packings[p];
        packings[p].chunks = s->chunks;
        memcpy(packings[p].pack, s->pack, sizeof s->pack);
        for (uint32_t i = 0; i < s->parts_n; i++)
            chunks[n++] = s->parts[i].chunk;
    }
}

static leat_status write_root(const struct writing *w, struct leat_snapshot_files *f, struct leat_error *err)
{
    struct leat_root_chunk *chunks = malloc(((size_t)w->chunks + 1) * sizeof *chunks);
    struct leat_packing *packings = calloc((size_t)w->n + 1, sizeof *packings);
    struct leat_buf digests[2];
    struct leat_root_section sections[2];
    leat_buf_init(&digests[0], LEAT_ROOT_MAX);
    leat_buf_init(&digests[1], LEAT_ROOT_MAX);
    leat_status rc =
        chunks && packings ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for a table of %u chunks", w->chunks);
    if (rc == LEAT_OK)
        rc = leat_root_section_of(LEAT_SECTION_SAMPLES, &f->samples, &digests[0], &sections[0], err);
    if (rc == LEAT_OK)
        rc = leat_root_section_of(LEAT_SECTION_KEYS, &f->keys, &digests[1], &sections[1], err);
    if (rc == LEAT_OK) {
        list_chunks(w, packings, chunks);
        struct leat_root_parts parts = {.schema = &w->packings[0]->schema,
                                        .packings = packings,
                                        .packings_n = w->n,
                                        .chunks = chunks,
                                        .chunks_n = w->chunks,
                                        .sections = sections,
                                        .sections_n = 2};
        rc = leat_root_write(&parts, &f->root, err);
    }
    leat_buf_free(&digests[0]);
    leat_buf_free(&digests[1]);
    free(packings);
    free(chunks);
    return rc;
}

leat_status leat_snapshot_write(const struct leat_snapshot *const *packings, uint32_t n,
                                struct leat_snapshot_files *out, struct leat_error *err)
{
    struct writing w = {.packings = packings, .n = n};
    struct leat_root_peek head;
    leat_buf_init(&out->samples, SECTION_MAX);
    leat_buf_init(&out->keys, SECTION_MAX);
    leat_buf_init(&out->root, LEAT_ROOT_MAX);
    leat_status rc = check_all(&w, err);
    if (rc == LEAT_OK)
        rc = write_samples(&w, &out->samples, err);
    if (rc == LEAT_OK)
        rc = write_keys(&w, &out->keys, err);
    if (rc == LEAT_OK)
        rc = write_root(&w, out, err);
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
    leat_buf_free(&f->samples);
    leat_buf_free(&f->keys);
    leat_buf_free(&f->root);
}
