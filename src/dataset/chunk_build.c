#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/json.h"
#include "dataset/chunk.h"
#include "dataset/layout.h"
#include "dataset/squeeze.h"

struct leat_chunk_builder {
    struct leat_schema schema;
    struct leat_buf encoded_schema;
    uint32_t samples;
    struct leat_buf rows;   /* offsets in them count from the beginning of `data` (or of the data of the pieces, where
                               `masks` says so), plus 1: 0 is an absent value's */
    struct leat_buf masks;  /* u64 for each sample: which of its values are elsewhere; empty: none */
    uint64_t elsewhere_end; /* where the last of those ends */
    struct leat_buf key_ends;
    struct leat_buf keys;
    struct leat_buf data;
    struct leat_squeeze squeeze;
    uint64_t wanted; /* bytes with the last sample, for the message where there is no memory for it */
};

leat_status leat_chunk_builder_open(const struct leat_schema *schema, struct leat_chunk_builder **out,
                                    struct leat_error *err)
{
    struct leat_chunk_builder *b = calloc(1, sizeof *b);
    if (!b)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a chunk");
    b->schema = *schema;
    leat_buf_init(&b->encoded_schema, LEAT_SCHEMA_MAX);
    leat_buf_init(&b->rows, LEAT_CHUNK_MAX);
    leat_buf_init(&b->masks, LEAT_CHUNK_MAX);
    leat_buf_init(&b->key_ends, LEAT_CHUNK_MAX);
    leat_buf_init(&b->keys, LEAT_CHUNK_MAX);
    leat_buf_init(&b->data, LEAT_CHUNK_MAX);
    leat_status rc = leat_schema_write(schema, &b->encoded_schema, err);
    for (uint32_t f = 0; rc == LEAT_OK && f < schema->n; f++)
        rc = leat_field_check(&schema->fields[f], err);
    if (rc != LEAT_OK) {
        leat_chunk_builder_close(b);
        return rc;
    }
    *out = b;
    return LEAT_OK;
}

void leat_chunk_builder_close(struct leat_chunk_builder *b)
{
    if (!b)
        return;
    leat_buf_free(&b->encoded_schema);
    leat_buf_free(&b->rows);
    leat_buf_free(&b->masks);
    leat_buf_free(&b->key_ends);
    leat_buf_free(&b->keys);
    leat_buf_free(&b->data);
    leat_squeeze_free(&b->squeeze);
    free(b);
}

uint32_t leat_chunk_builder_samples(const struct leat_chunk_builder *b)
{
    return b->samples;
}

static size_t data_start(const struct leat_chunk_builder *b, size_t samples, size_t keys)
{
    return LEAT_CHUNK_HEAD + b->encoded_schema.len + samples * b->schema.row_bytes + layout_padded(samples * 4) + keys;
}

size_t leat_chunk_builder_size(const struct leat_chunk_builder *b)
{
    return data_start(b, b->samples, b->keys.len) + b->data.len;
}

uint64_t leat_chunk_builder_lead(const struct leat_chunk_builder *b)
{
    return layout_padded(leat_chunk_builder_size(b));
}

static bool has_bytes(const struct leat_field *f, const struct leat_value *v)
{
    return !v->absent && leat_field_has_data(f);
}

uint64_t leat_chunk_builder_size_with(const struct leat_chunk_builder *b, size_t key_n, const struct leat_value *values)
{
    uint64_t size = data_start(b, (size_t)b->samples + 1, b->keys.len + key_n) + b->data.len;
    for (uint32_t f = 0; f < b->schema.n; f++)
        size += has_bytes(&b->schema.fields[f], &values[f]) && !values[f].elsewhere ? values[f].size : 0;
    return size;
}

static leat_status check_room(const struct leat_chunk_builder *b, size_t key_n, const struct leat_value *values,
                              struct leat_error *err)
{
    if (key_n > LEAT_KEY_MAX)
        return leat_fail(err, LEAT_INVALID, "a key has at most %u bytes, not %zu", LEAT_KEY_MAX, key_n);
    uint64_t size = leat_chunk_builder_size_with(b, key_n, values);
    if (size > LEAT_CHUNK_MAX)
        return leat_fail(err, LEAT_LIMIT, "a chunk holds less than 4 GiB, with this sample it has %llu bytes",
                         (unsigned long long)size);
    return LEAT_OK;
}

/* What a value that is there must be, by its type. */
static leat_status check_content(const struct leat_field *f, const struct leat_value *v, struct leat_error *err)
{
    size_t at = 0;
    if (f->type == LEAT_FIELD_FLOAT && (f->needs & LEAT_FIELD_OPTIONAL) &&
        leat_float_bits(v->real) == LEAT_FLOAT_ABSENT)
        return leat_fail(err, LEAT_INVALID,
                         "a NaN with all bits set cannot be a value of '%s': in an optional field it means that there "
                         "is none",
                         f->name);
    if (f->type == LEAT_FIELD_JSON && !v->elsewhere && !leat_json_check(v->data, v->size, &at))
        return leat_fail(err, LEAT_INVALID, "a value of field '%s' is not JSON (byte %zu)", f->name, at);
    return leat_field_check_bytes(f, v->dims, v->size, err);
}

static leat_status check_value(const struct leat_field *f, const struct leat_value *v, struct leat_error *err)
{
    bool optional = f->needs & LEAT_FIELD_OPTIONAL;
    if (has_bytes(f, v) && v->elsewhere && (v->at >= LEAT_CHUNK_MAX || v->size > LEAT_CHUNK_MAX - v->at))
        return leat_fail(err, LEAT_LIMIT, "a chunk holds less than 4 GiB, and '%s' lies beyond", f->name);
    if (v->absent && !optional)
        return leat_fail(err, LEAT_INVALID, "field '%s' is not optional: every sample has a value", f->name);
    if (optional && !v->absent && f->type == LEAT_FIELD_INT && v->number == LEAT_INT_ABSENT)
        return leat_fail(err, LEAT_INVALID,
                         "%lld cannot be a value of '%s': in an optional field it means that there is none",
                         (long long)v->number, f->name);
    return v->absent ? LEAT_OK : check_content(f, v, err);
}

static void add_value(struct leat_chunk_builder *b, const struct leat_field *f, const struct leat_value *v,
                      uint8_t *row)
{
    struct leat_cell cell = {.absent = true};
    if (!v->absent) {
        cell = (struct leat_cell){.number = v->number, .real = v->real, .image = v->image};
        memcpy(cell.dims, v->dims, sizeof cell.dims);
    }
    if (has_bytes(f, v) && v->elsewhere) {
        cell.offset = (uint32_t)v->at + 1;
        cell.size = cell.raw = (uint32_t)v->size;
        if (b->elsewhere_end < v->at + v->size)
            b->elsewhere_end = v->at + v->size;
    } else if (has_bytes(f, v)) {
        cell.offset = (uint32_t)b->data.len + 1;
        cell.size = cell.raw = (uint32_t)v->size;
        size_t made = f->encoding == LEAT_ENCODING_ZSTD ? leat_squeeze(&b->squeeze, v->data, v->size) : 0;
        cell.zstd = made > 0;
        if (made)
            cell.size = (uint32_t)made;
        leat_buf_add(&b->data, made ? b->squeeze.out : v->data, cell.size);
    }
    leat_cell_write(f, &cell, row);
}

/* Which values of the sample are elsewhere. Masks begin with the first sample that has one. */
static void add_mask(struct leat_chunk_builder *b, const struct leat_value *values)
{
    static const uint8_t none[8];
    uint8_t bytes[8];
    uint64_t mask = 0;
    for (uint32_t f = 0; f < b->schema.n; f++)
        mask |= has_bytes(&b->schema.fields[f], &values[f]) && values[f].elsewhere ? 1ull << f : 0;
    if (!mask && !b->masks.len)
        return;
    while (b->masks.len < 8 * (size_t)b->samples && leat_buf_add(&b->masks, none, sizeof none))
        ;
    leat_put_u64(bytes, mask);
    leat_buf_add(&b->masks, bytes, sizeof bytes);
}

/* A builder that ran out of memory in mid-sample stays failed: what it holds must not become a chunk. */
static leat_status check_memory(const struct leat_chunk_builder *b, struct leat_error *err)
{
    if (!b->rows.failed && !b->masks.failed && !b->data.failed && !b->keys.failed && !b->key_ends.failed &&
        !b->squeeze.failed)
        return LEAT_OK;
    return leat_fail(err, LEAT_NO_MEMORY,
                     "no memory for a chunk of %llu bytes; it holds whole samples, and takes up to three times their "
                     "bytes while it is made",
                     (unsigned long long)b->wanted);
}

leat_status leat_chunk_builder_add(struct leat_chunk_builder *b, const void *key, size_t key_n,
                                   const struct leat_value *values, struct leat_error *err)
{
    static const uint8_t zeros[256];
    leat_status rc = check_room(b, key_n, values, err);
    for (uint32_t f = 0; rc == LEAT_OK && f < b->schema.n; f++)
        rc = check_value(&b->schema.fields[f], &values[f], err);
    if (rc == LEAT_OK)
        rc = check_memory(b, err);
    if (rc != LEAT_OK)
        return rc;
    b->wanted = leat_chunk_builder_size_with(b, key_n, values);
    size_t row_at = b->rows.len;
    for (uint32_t left = b->schema.row_bytes; left;) {
        uint32_t n = left < sizeof zeros ? left : (uint32_t)sizeof zeros;
        leat_buf_add(&b->rows, zeros, n);
        left -= n;
    }
    for (uint32_t f = 0; f < b->schema.n && !b->rows.failed; f++)
        add_value(b, &b->schema.fields[f], &values[f], (uint8_t *)b->rows.data + row_at);
    add_mask(b, values);
    leat_buf_add(&b->keys, key, key_n);
    uint8_t end[4];
    leat_put_u32(end, (uint32_t)b->keys.len);
    leat_buf_add(&b->key_ends, end, sizeof end);
    b->samples++;
    return check_memory(b, err);
}

/* Offsets become those of the finished chunk. */
static void move_cells(struct leat_chunk_builder *b, uint32_t by, uint32_t elsewhere_by)
{
    for (uint32_t i = 0; i < b->samples; i++) {
        uint8_t *row = (uint8_t *)b->rows.data + (size_t)i * b->schema.row_bytes;
        uint64_t mask = b->masks.len ? leat_get_u64(b->masks.data + 8 * (size_t)i) : 0;
        for (uint32_t f = 0; f < b->schema.n; f++) {
            struct leat_cell cell = leat_cell_read(&b->schema.fields[f], row);
            if (cell.absent)
                continue;
            cell.offset += (mask >> f & 1 ? elsewhere_by : by) - 1;
            leat_cell_write(&b->schema.fields[f], &cell, row);
        }
    }
}

/* size: of the whole chunk, of which `out` may be the lead. */
static void write_head(const struct leat_chunk_builder *b, const uint8_t pack[LEAT_PACK_ID_BYTES], uint32_t number,
                       uint32_t total, bool made, uint64_t size, struct leat_buf *out)
{
    struct leat_writer w = leat_writer(out->data, LEAT_CHUNK_HEAD);
    layout_write_head(&w, CHUNK_MAGIC, LEAT_CHUNK_HEAD, size);
    leat_write_u32(&w, b->samples);
    leat_write_u32(&w, (uint32_t)b->encoded_schema.len);
    leat_write_bytes(&w, pack, LEAT_PACK_ID_BYTES);
    leat_write_u32(&w, number);
    leat_write_u32(&w, total);
    if (made) {
        leat_put_u64(out->data + LAYOUT_NEEDS_AT, CHUNK_MADE);
        leat_put_u32(out->data + CHUNK_LEAD_AT, (uint32_t)out->len);
    } else {
        leat_write_u64(&w, leat_xxh3(out->data + LEAT_CHUNK_HEAD, out->len - LEAT_CHUNK_HEAD));
    }
    leat_put_u32(out->data + LEAT_CHUNK_HEAD - 4, leat_crc32c(0, out->data, LEAT_CHUNK_HEAD - 4));
}

/* Everything but the head's numbers. */
static leat_status write_body(struct leat_chunk_builder *b, bool made, struct leat_buf *out, struct leat_error *err)
{
    static const uint8_t zeros[LEAT_CHUNK_HEAD];
    if (b->samples == 0)
        return leat_fail(err, LEAT_INVALID, "a chunk has at least one sample");
    leat_status rc = check_memory(b, err);
    if (rc != LEAT_OK)
        return rc;
    move_cells(b, (uint32_t)data_start(b, b->samples, b->keys.len), (uint32_t)leat_chunk_builder_lead(b));
    leat_buf_clear(out);
    leat_buf_add(out, zeros, LEAT_CHUNK_HEAD);
    leat_buf_add(out, b->encoded_schema.data, b->encoded_schema.len);
    leat_buf_add(out, b->rows.data, b->rows.len);
    leat_buf_add(out, b->key_ends.data, b->key_ends.len);
    leat_buf_add(out, zeros, layout_padded(b->key_ends.len) - b->key_ends.len);
    leat_buf_add(out, b->keys.data, b->keys.len);
    leat_buf_add(out, b->data.data, b->data.len);
    if (made)
        leat_buf_add(out, zeros, layout_padded(out->len) - out->len);
    return leat_buf_check(out, "a chunk", err);
}

static void empty(struct leat_chunk_builder *b)
{
    b->samples = 0;
    b->elsewhere_end = 0;
    leat_buf_clear(&b->rows);
    leat_buf_clear(&b->masks);
    leat_buf_clear(&b->key_ends);
    leat_buf_clear(&b->keys);
    leat_buf_clear(&b->data);
}

leat_status leat_chunk_builder_finish(struct leat_chunk_builder *b, const uint8_t pack[LEAT_PACK_ID_BYTES],
                                      uint32_t number, uint32_t total, struct leat_buf *out, struct leat_error *err)
{
    if (b->masks.len)
        return leat_fail(err, LEAT_INVALID, "a stored chunk must hold all of its values");
    leat_status rc = write_body(b, false, out, err);
    if (rc != LEAT_OK)
        return rc;
    write_head(b, pack, number, total, false, out->len, out);
    empty(b);
    return LEAT_OK;
}

leat_status leat_chunk_builder_finish_lead(struct leat_chunk_builder *b, uint64_t data_bytes,
                                           const uint8_t pack[LEAT_PACK_ID_BYTES], uint32_t number, uint32_t total,
                                           struct leat_buf *out, struct leat_error *err)
{
    if (b->elsewhere_end > data_bytes)
        return leat_fail(err, LEAT_INVALID, "a value ends at byte %llu of the pieces, which have %llu",
                         (unsigned long long)b->elsewhere_end, (unsigned long long)data_bytes);
    uint64_t size = leat_chunk_builder_lead(b) + data_bytes;
    if (size > LEAT_CHUNK_MAX)
        return leat_fail(err, LEAT_LIMIT, "a chunk holds less than 4 GiB, this one would have %llu bytes",
                         (unsigned long long)size);
    leat_status rc = write_body(b, true, out, err);
    if (rc != LEAT_OK)
        return rc;
    write_head(b, pack, number, total, true, size, out);
    empty(b);
    return LEAT_OK;
}
