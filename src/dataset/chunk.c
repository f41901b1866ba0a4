#include "dataset/chunk.h"

#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "dataset/layout.h"

static leat_status check_head(const uint8_t *data, const struct layout_head *h, struct leat_error *err)
{
    uint32_t at = h->bytes - 4;
    if (leat_crc32c(0, data, at) != leat_get_u32(data + at))
        return leat_fail(err, LEAT_CORRUPT, "the head of the chunk does not match its checksum");
    return layout_check_needs(h->needs, CHUNK_NEEDS, "the chunk", err);
}

/* Leaves the reader at the first byte after the head. */
static leat_status read_head(struct leat_reader *r, struct leat_chunk *c, uint32_t *schema_bytes,
                             struct leat_error *err)
{
    struct layout_head h;
    leat_status rc = layout_read_head(r, CHUNK_MAGIC, "a chunk", LEAT_CHUNK_HEAD, &h, err);
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
    leat_read_bytes(r, h.bytes - r->at); /* the body's checksum, and what this Leat does not know */
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
        }
    }
    return LEAT_OK;
}

leat_status leat_chunk_read(const void *data, size_t n, struct leat_chunk *out, struct leat_error *err)
{
    struct leat_reader r = leat_reader(data, n);
    struct leat_chunk c = {.data = data, .size = n};
    uint32_t schema_bytes;
    uint32_t keys_bytes = 0;
    leat_status rc = read_head(&r, &c, &schema_bytes, err);
    if (rc != LEAT_OK)
        return rc;
    const uint8_t *schema = leat_read_bytes(&r, schema_bytes);
    if (r.bad || c.samples == 0)
        return leat_fail(err, LEAT_CORRUPT, "the chunk's head cannot be: %u samples, a schema of %u bytes", c.samples,
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

leat_status leat_chunk_check(const struct leat_chunk *c, struct leat_error *err)
{
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
