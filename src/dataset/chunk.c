#include "dataset/chunk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "dataset/layout.h"
#include "dataset/squeeze.h"

/* A block of 128 KiB takes 4 bytes at least: more than this cannot be in a frame, whatever its cell says. */
#define ZSTD_TIMES_MAX 32768u

static leat_status check_head(const uint8_t *data, const struct layout_head *h, struct leat_error *err)
{
    uint32_t at = h->bytes - 4;
    if (leat_crc32c(0, data, at) != leat_get_u32(data + at))
        return leat_fail(err, LEAT_CORRUPT, "the head of the chunk does not match its checksum");
    return layout_check_needs(h->needs, CHUNK_NEEDS, "the chunk", err);
}

/* Leaves the reader at the first byte after the head, and bounded by the lead if only that is here. */
static leat_status read_head(struct leat_reader *r, struct leat_chunk *c, uint32_t *schema_bytes,
                             struct leat_error *err)
{
    struct layout_head h;
    size_t here = r->size;
    r->size = c->size; /* of which all or only the lead is here; the head is */
    leat_status rc = layout_read_head(r, CHUNK_MAGIC, "a chunk", LEAT_CHUNK_HEAD, &h, err);
    r->size = here;
    if (rc == LEAT_OK && h.bytes > here)
        rc = leat_fail(err, LEAT_CORRUPT, "the chunk's head has %u bytes, but only %zu are here", h.bytes, here);
    if (rc == LEAT_OK)
        rc = check_head(r->data, &h, err);
    if (rc != LEAT_OK)
        return rc;
    c->head_bytes = h.bytes;
    c->samples = leat_read_u32(r);
    *schema_bytes = leat_read_u32(r);
    memcpy(c->pack, leat_read_bytes(r, LEAT_PACK_ID_BYTES), sizeof c->pack);
    c->number = leat_read_u32(r);
    c->total = leat_read_u32(r);
    c->lead_bytes = h.needs & CHUNK_MADE ? leat_get_u32(r->data + CHUNK_LEAD_AT) : 0;
    leat_read_bytes(r, h.bytes - r->at); /* the body's checksum, and what this Leat does not know */
    if ((h.needs & CHUNK_MADE) && (c->lead_bytes < h.bytes || c->lead_bytes > c->size))
        return leat_fail(err, LEAT_CORRUPT, "the chunk cannot have a lead of %u bytes", c->lead_bytes);
    return LEAT_OK;
}

static leat_status check_keys(const struct leat_chunk *c, uint32_t *total, struct leat_error *err)
{
    uint32_t end = 0;
    for (uint32_t i = 0; i < c->samples; i++) {
        uint32_t next = leat_get_u32(c->key_ends + 4 * (size_t)i);
        if (next < end || next - end > LEAT_KEY_MAX)
            return leat_fail(err, LEAT_CORRUPT, "key %u of the chunk ends before it begins, or is too long", i);
        end = next;
    }
    *total = end;
    return LEAT_OK;
}

/* What is known of a value without decompressing it. */
static leat_status check_value(const struct leat_field *f, const struct leat_cell *cell, struct leat_error *err)
{
    if (cell->zstd ? cell->raw > LEAT_RAW_MAX || cell->raw / ZSTD_TIMES_MAX > cell->size : cell->raw != cell->size)
        return leat_fail(err, LEAT_CORRUPT, "%u bytes of field '%s' cannot become %u", cell->size, f->name, cell->raw);
    return leat_field_check_bytes(f, cell->dims, cell->raw, err);
}

static leat_status check_cells(const struct leat_chunk *c, size_t data_at, struct leat_error *err)
{
    for (uint32_t i = 0; i < c->samples; i++) {
        for (uint32_t f = 0; f < c->schema.n; f++) {
            struct leat_cell cell = leat_chunk_cell(c, i, f);
            if (cell.absent || !leat_field_has_data(&c->schema.fields[f]))
                continue;
            if (cell.offset < data_at || cell.offset > c->size || cell.size > c->size - cell.offset)
                return leat_fail(err, LEAT_CORRUPT, "field '%s' of sample %u lies outside the chunk (byte %u)",
                                 c->schema.fields[f].name, i, cell.offset);
            if (check_value(&c->schema.fields[f], &cell, err) != LEAT_OK)
                return leat_fail_context(err, LEAT_CORRUPT, "sample %u of the chunk", i);
        }
    }
    return LEAT_OK;
}

/* n bytes are here of a chunk that has `size` bytes. */
static leat_status read_chunk(const void *data, size_t n, size_t size, struct leat_chunk *out, struct leat_error *err)
{
    struct leat_reader r = leat_reader(data, n);
    struct leat_chunk c = {.data = data, .size = size};
    uint32_t schema_bytes;
    uint32_t keys_bytes = 0;
    leat_status rc = read_head(&r, &c, &schema_bytes, err);
    if (rc != LEAT_OK)
        return rc;
    const uint8_t *schema = leat_read_bytes(&r, schema_bytes);
    if (r.bad || c.samples == 0)
        return leat_fail(err, LEAT_CORRUPT, "the chunk's head is damaged: %u samples, a schema of %u bytes", c.samples,
                         schema_bytes);
    rc = leat_schema_read(schema, schema_bytes, &c.schema, err);
    if (rc != LEAT_OK)
        return rc;
    /* Both products have less than 64 bits: a row is at most 64 cells of 4096 bytes. */
    uint64_t rows_bytes = (uint64_t)c.samples * c.schema.row_bytes;
    uint64_t ends_bytes = layout_padded((uint64_t)c.samples * 4);
    if (rows_bytes > leat_reader_left(&r) || ends_bytes > leat_reader_left(&r) - rows_bytes)
        return leat_fail(err, LEAT_CORRUPT, "the chunk has no room for its %u rows", c.samples);
    c.rows = leat_read_bytes(&r, rows_bytes);
    c.key_ends = leat_read_bytes(&r, ends_bytes);
    rc = check_keys(&c, &keys_bytes, err);
    if (rc != LEAT_OK)
        return rc;
    c.keys = leat_read_bytes(&r, keys_bytes);
    if (r.bad)
        return leat_fail(err, LEAT_CORRUPT, "the chunk has no room for its keys (%u bytes)", keys_bytes);
    rc = check_cells(&c, r.at, err);
    if (rc != LEAT_OK)
        return rc;
    *out = c;
    return LEAT_OK;
}

leat_status leat_chunk_read(const void *data, size_t n, struct leat_chunk *out, struct leat_error *err)
{
    return read_chunk(data, n, n, out, err);
}

leat_status leat_chunk_read_lead(const void *data, size_t n, struct leat_chunk *out, struct leat_error *err)
{
    struct leat_chunk c;
    if (n < LEAT_CHUNK_HEAD)
        return leat_fail(err, LEAT_CORRUPT, "these %zu bytes are not the lead of a chunk", n);
    uint64_t size = leat_get_u64((const uint8_t *)data + 16);
    if (size > LEAT_CHUNK_MAX)
        return leat_fail(err, LEAT_CORRUPT, "a chunk holds less than 4 GiB, this one says %" PRIu64 " bytes", size);
    leat_status rc = read_chunk(data, n, (size_t)size, &c, err);
    if (rc == LEAT_OK && c.lead_bytes != n)
        rc = leat_fail(err, LEAT_CORRUPT, "the lead of the chunk has %zu bytes and says %u", n, c.lead_bytes);
    if (rc == LEAT_OK)
        *out = c;
    return rc;
}

leat_status leat_chunk_check(const struct leat_chunk *c, struct leat_error *err)
{
    if (c->lead_bytes)
        return LEAT_OK;
    if (leat_xxh3(c->data + c->head_bytes, c->size - c->head_bytes) != leat_get_u64(c->data + CHUNK_BODY_SUM_AT))
        return leat_fail(err, LEAT_CORRUPT, "the body of chunk %u does not match its checksum", c->number);
    return LEAT_OK;
}

const uint8_t *leat_chunk_row(const struct leat_chunk *c, uint32_t i)
{
    return c->rows + (size_t)i * c->schema.row_bytes;
}

const char *leat_chunk_key(const struct leat_chunk *c, uint32_t i, size_t *n)
{
    uint32_t start = i ? leat_get_u32(c->key_ends + 4 * (size_t)(i - 1)) : 0;
    *n = leat_get_u32(c->key_ends + 4 * (size_t)i) - start;
    return (const char *)c->keys + start;
}

struct leat_cell leat_chunk_cell(const struct leat_chunk *c, uint32_t i, uint32_t field)
{
    return leat_cell_read(&c->schema.fields[field], leat_chunk_row(c, i));
}

const uint8_t *leat_chunk_data(const struct leat_chunk *c, const struct leat_cell *cell)
{
    return c->data + cell->offset;
}

leat_status leat_chunk_value(const struct leat_chunk *c, const struct leat_cell *cell, void *to, struct leat_error *err)
{
    const uint8_t *data = c->data + cell->offset;
    if (cell->absent || !cell->raw)
        return LEAT_OK;
    if (!cell->zstd) {
        memcpy(to, data, cell->raw);
        return LEAT_OK;
    }
    size_t n = leat_unsqueeze(to, cell->raw, data, cell->size);
    if (ZSTD_isError(n) && ZSTD_getErrorCode(n) == ZSTD_error_memory_allocation)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to decompress %u bytes", cell->raw);
    if (ZSTD_isError(n) || n != cell->raw)
        return leat_fail(err, LEAT_CORRUPT, "%u compressed bytes do not become %u bytes: %s", cell->size, cell->raw,
                         ZSTD_isError(n) ? ZSTD_getErrorName(n) : "they become fewer");
    return LEAT_OK;
}

leat_status leat_chunk_view(const struct leat_chunk *c, const struct leat_cell *cell, const void **out, void **own,
                            struct leat_error *err)
{
    *own = NULL;
    *out = c->data + cell->offset;
    if (cell->absent || !cell->zstd)
        return LEAT_OK;
    void *room = malloc((size_t)cell->raw + 1);
    leat_status rc = room ? leat_chunk_value(c, cell, room, err)
                          : leat_fail(err, LEAT_NO_MEMORY, "no memory for a value of %u bytes", cell->raw);
    if (rc != LEAT_OK) {
        free(room);
        return rc;
    }
    *out = *own = room;
    return LEAT_OK;
}
