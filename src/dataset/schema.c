#include "dataset/schema.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/json.h"
#include "dataset/layout.h"

#define CELL_MAX 4096u /* of a type to come */

#define ZSTD_CELL 8u /* bytes that this encoding adds to a cell */

static bool known_encoding(const struct leat_field *f)
{
    const struct leat_field_kind *kind = leat_field_kind(f->type);
    return f->encoding == LEAT_ENCODING_PLAIN || (f->encoding == LEAT_ENCODING_ZSTD && kind && kind->zstd);
}

static bool readable(const struct leat_field *f)
{
    const struct leat_field_kind *kind = leat_field_kind(f->type);
    return kind && known_encoding(f) && !(f->needs & ~LEAT_FIELD_OPTIONAL) && (!kind->typed || f->dtype);
}

leat_status leat_field_check(const struct leat_field *f, struct leat_error *err)
{
    char what[LEAT_FIELD_NAME_MAX + 16];
    const struct leat_field_kind *kind = leat_field_kind(f->type);
    if (!kind)
        return leat_fail(err, LEAT_VERSION, "field '%s' needs a newer Leat: this one does not know type %u", f->name,
                         f->type);
    if (!known_encoding(f))
        return leat_fail(err, LEAT_VERSION,
                         "field '%s' needs a newer Leat: this one does not know encoding %u of type %s", f->name,
                         f->encoding, kind->name);
    if (kind->typed && !f->dtype)
        return leat_fail(err, LEAT_VERSION, "field '%s' needs a newer Leat: this one does not know the dtype of its %s",
                         f->name, kind->name);
    snprintf(what, sizeof what, "field '%s'", f->name);
    return layout_check_needs(f->needs, LEAT_FIELD_OPTIONAL, what, err);
}

/* Bytes of a cell of a field that can be read. */
static uint32_t cell_size(const struct leat_field *f)
{
    uint32_t n = leat_field_kind(f->type)->cell_bytes;
    return (uint32_t)layout_padded(n + (f->encoding == LEAT_ENCODING_ZSTD ? ZSTD_CELL : 0) + 4 * f->varying);
}

/* "shape": [3, null]. False when it is none. */
static bool read_shape(const json_t *shape, struct leat_field *f)
{
    uint64_t bytes = leat_dtype_bytes(f->dtype);
    if (!json_is_array(shape) || json_array_size(shape) > LEAT_DIMS_MAX)
        return false;
    f->dims_n = (uint32_t)json_array_size(shape);
    for (uint32_t d = 0; d < f->dims_n; d++) {
        const json_t *n = json_array_get(shape, d);
        if (json_is_null(n)) {
            f->varying++;
            continue;
        }
        if (!json_is_integer(n) || json_integer_value(n) < 1 || json_integer_value(n) > UINT32_MAX)
            return false;
        f->dims[d] = (uint32_t)json_integer_value(n);
        bytes *= f->dims[d];
        if (bytes > UINT32_MAX) /* what a chunk holds */
            return false;
    }
    return true;
}

/* What an array's or tokens' description says of their values. A dtype that is not known here leaves the field without
 * one: it cannot be read, and is no damage. */
static leat_status read_about(struct leat_field *f, struct leat_error *err)
{
    json_t *about = NULL;
    leat_status rc = leat_json_read(f->about, f->about_n, 0, &about, NULL);
    if (rc == LEAT_NO_MEMORY)
        return leat_fail(err, rc, "no memory for the description of field '%s'", f->name);
    const json_t *dtype = json_object_get(about, "dtype");
    bool good = json_is_string(dtype);
    if (good) {
        uint32_t code = leat_dtype_find(json_string_value(dtype), json_string_length(dtype));
        f->dtype = leat_field_type_takes(f->type, code) ? code : 0;
        if (f->dtype && f->type == LEAT_FIELD_ARRAY)
            good = read_shape(json_object_get(about, "shape"), f);
    }
    json_decref(about);
    if (good)
        return LEAT_OK;
    return leat_fail(err, LEAT_CORRUPT, "field '%s' of type %s has a wrong description: %s", f->name,
                     leat_field_type_name(f->type),
                     f->type == LEAT_FIELD_ARRAY ? "a right one is {\"dtype\": \"float32\", \"shape\": [3, null]}"
                                                 : "a right one is {\"dtype\": \"uint16\"}");
}

static bool good_name(const char *name, size_t n)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    for (size_t i = 0; i < n; i++) {
        if (name[i] == '\0' || !strchr(allowed, name[i]))
            return false;
    }
    return n > 0 && n < LEAT_FIELD_NAME_MAX;
}

uint32_t leat_schema_find(const struct leat_schema *s, const char *name)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (strcmp(s->fields[i].name, name) == 0)
            return i;
    }
    return LEAT_FIELDS_MAX;
}

/* `f` has its name and type; checks it against the others and gives it a place in the row. */
static leat_status place_field(struct leat_schema *s, struct leat_field *f, struct leat_error *err)
{
    if (s->n == LEAT_FIELDS_MAX)
        return leat_fail(err, LEAT_LIMIT, "a dataset has at most %u fields", LEAT_FIELDS_MAX);
    if (leat_schema_find(s, f->name) != LEAT_FIELDS_MAX)
        return leat_fail(err, LEAT_INVALID, "two fields are called '%s'", f->name);
    f->cell_at = s->row_bytes;
    s->row_bytes += f->cell_bytes;
    s->fields[s->n++] = *f;
    s->encoded = NULL;
    return LEAT_OK;
}

static leat_status cannot_compress(const char *name, const struct leat_field_kind *kind, struct leat_error *err)
{
    return leat_fail(err, LEAT_INVALID, "field '%s' cannot be compressed: it is of type %s", name, kind->name);
}

leat_status leat_schema_compress(struct leat_schema *s, uint32_t field, struct leat_error *err)
{
    struct leat_field *f = &s->fields[field];
    const struct leat_field_kind *kind = leat_field_kind(f->type);
    if (!kind->zstd)
        return cannot_compress(f->name, kind, err);
    f->encoding = LEAT_ENCODING_ZSTD;
    f->cell_bytes = cell_size(f);
    s->row_bytes = 0;
    s->encoded = NULL;
    for (uint32_t i = 0; i < s->n; i++) { /* those after it begin later in a row */
        s->fields[i].cell_at = s->row_bytes;
        s->row_bytes += s->fields[i].cell_bytes;
    }
    return LEAT_OK;
}

leat_status leat_schema_add_as(struct leat_schema *s, const char *name, enum leat_field_type type, const char *about,
                               struct leat_field_choice choice, struct leat_error *err)
{
    struct leat_field f = {.type = (uint16_t)type, .about = about, .about_n = about ? (uint32_t)strlen(about) : 0};
    const struct leat_field_kind *kind = leat_field_kind(type);
    if (!kind)
        return leat_fail(err, LEAT_INVALID, "field '%s' has an unknown type", name);
    if (!good_name(name, strlen(name)))
        return leat_fail(err, LEAT_INVALID, "'%s' cannot be a field's name: 1 to %d letters, digits, '_', '.', '-'",
                         name, LEAT_FIELD_NAME_MAX - 1);
    memcpy(f.name, name, strlen(name));
    if (choice.zstd && !kind->zstd)
        return cannot_compress(name, kind, err);
    f.needs = choice.optional ? LEAT_FIELD_OPTIONAL : 0;
    f.encoding = choice.zstd ? LEAT_ENCODING_ZSTD : LEAT_ENCODING_PLAIN;
    leat_status rc = kind->typed ? read_about(&f, err) : LEAT_OK;
    if (rc == LEAT_OK && kind->typed && !f.dtype)
        rc = leat_fail(err, LEAT_INVALID, "field '%s' of type %s has an unknown dtype", name, kind->name);
    if (rc != LEAT_OK)
        return rc == LEAT_CORRUPT ? leat_fail_context(err, LEAT_INVALID, "the schema") : rc;
    f.cell_bytes = cell_size(&f);
    return place_field(s, &f, err);
}

leat_status leat_schema_add(struct leat_schema *s, const char *name, enum leat_field_type type, const char *about,
                            struct leat_error *err)
{
    return leat_schema_add_as(s, name, type, about, (struct leat_field_choice){0}, err);
}

static void add_field(const struct leat_field *f, struct leat_buf *out)
{
    static const uint8_t zeros[8];
    uint8_t head[SCHEMA_FIELD_HEAD] = {0};
    size_t name_n = strlen(f->name);
    size_t n = SCHEMA_FIELD_HEAD + name_n + f->about_n;
    struct leat_writer w = leat_writer(head, sizeof head);
    leat_write_u32(&w, (uint32_t)layout_padded(n));
    leat_write_u16(&w, f->type);
    leat_write_u16(&w, f->encoding);
    leat_write_u32(&w, f->needs);
    leat_write_u32(&w, f->flags);
    leat_write_u32(&w, f->cell_bytes);
    leat_write_u32(&w, (uint32_t)name_n);
    leat_write_u32(&w, f->about_n);
    leat_buf_add(out, head, sizeof head);
    leat_buf_add(out, f->name, name_n);
    if (f->about_n)
        leat_buf_add(out, f->about, f->about_n);
    leat_buf_add(out, zeros, layout_padded(n) - n);
}

leat_status leat_schema_write(const struct leat_schema *s, struct leat_buf *out, struct leat_error *err)
{
    size_t start = out->len;
    uint8_t head[SCHEMA_HEAD] = {0};
    leat_put_u32(head, s->n);
    if (s->encoded)
        leat_buf_add(out, s->encoded, s->encoded_n);
    else
        leat_buf_add(out, head, sizeof head);
    for (uint32_t i = 0; i < s->n && !s->encoded; i++)
        add_field(&s->fields[i], out);
    if (out->len - start > LEAT_SCHEMA_MAX)
        return leat_fail(err, LEAT_LIMIT, "the description of the fields has more than %u bytes", LEAT_SCHEMA_MAX);
    return leat_buf_check(out, "the description of the fields", err);
}

/* The fields of `f` but the name, from a record that holds all of it. */
static leat_status check_field(const struct leat_schema *s, const struct leat_field *f, struct leat_error *err)
{
    if (f->cell_bytes % 8 || f->cell_bytes > CELL_MAX)
        return leat_fail(err, LEAT_CORRUPT, "field '%s' has cells of %u bytes", f->name, f->cell_bytes);
    /* Longer ones are a later release's, which may add to the end of a cell what need not be understood. */
    if (readable(f) && f->cell_bytes < cell_size(f))
        return leat_fail(err, LEAT_CORRUPT, "field '%s' of type %s has cells of %u bytes", f->name,
                         leat_field_type_name(f->type), f->cell_bytes);
    if (leat_schema_find(s, f->name) != LEAT_FIELDS_MAX)
        return leat_fail(err, LEAT_CORRUPT, "the schema has two fields '%s'", f->name);
    return LEAT_OK;
}

static leat_status read_field(struct leat_reader *all, struct leat_schema *s, struct leat_error *err)
{
    size_t at = all->at;
    uint32_t record = leat_read_u32(all);
    const uint8_t *rest = record % 8 || record < SCHEMA_FIELD_HEAD ? NULL : leat_read_bytes(all, record - 4);
    struct leat_reader r = leat_reader(rest, rest ? record - 4 : 0);
    struct leat_field f = {.type = leat_read_u16(&r), .encoding = leat_read_u16(&r)};
    f.needs = leat_read_u32(&r);
    f.flags = leat_read_u32(&r);
    f.cell_bytes = leat_read_u32(&r);
    uint32_t name_n = leat_read_u32(&r);
    f.about_n = leat_read_u32(&r);
    leat_read_u32(&r); /* spare */
    const char *name = (const char *)leat_read_bytes(&r, name_n);
    f.about = (const char *)leat_read_bytes(&r, f.about_n);
    if (r.bad || !good_name(name, name_n))
        return leat_fail(err, LEAT_CORRUPT, "the schema's field %u is damaged (byte %zu)", s->n, at);
    memcpy(f.name, name, name_n);
    const struct leat_field_kind *kind = leat_field_kind(f.type);
    /* Another encoding may have other descriptions. */
    leat_status rc = kind && kind->typed && known_encoding(&f) ? read_about(&f, err) : LEAT_OK;
    if (rc == LEAT_OK)
        rc = check_field(s, &f, err);
    return rc == LEAT_OK ? place_field(s, &f, err) : rc;
}

leat_status leat_schema_read(const void *data, size_t n, struct leat_schema *out, struct leat_error *err)
{
    struct leat_reader r = leat_reader(data, n);
    struct leat_schema s = {0};
    uint32_t fields = leat_read_u32(&r);
    uint32_t needs = leat_read_u32(&r);
    if (r.bad || n % 8 || n > LEAT_SCHEMA_MAX)
        return leat_fail(err, LEAT_CORRUPT, "a schema of %zu bytes is impossible", n);
    leat_status rc = layout_check_needs(needs, SCHEMA_NEEDS, "the schema", err);
    if (rc == LEAT_OK && fields > LEAT_FIELDS_MAX)
        rc = leat_fail(err, LEAT_CORRUPT, "the schema says it has %u fields, more than %u", fields, LEAT_FIELDS_MAX);
    for (uint32_t i = 0; rc == LEAT_OK && i < fields; i++)
        rc = read_field(&r, &s, err);
    if (rc != LEAT_OK)
        return rc;
    s.encoded = data; /* what follows the last field is spare */
    s.encoded_n = (uint32_t)n;
    *out = s;
    return LEAT_OK;
}

bool leat_field_has_data(const struct leat_field *f)
{
    return readable(f) && leat_field_kind(f->type)->data;
}

static leat_status check_shape(const struct leat_field *f, const uint32_t *dims, uint64_t raw, struct leat_error *err)
{
    uint64_t bytes = leat_dtype_bytes(f->dtype);
    bool good = true;
    for (uint32_t d = 0; d < f->dims_n; d++) {
        good = good && (!f->dims[d] || f->dims[d] == dims[d]);
        bytes = bytes && dims[d] > UINT64_MAX / bytes ? UINT64_MAX : bytes * dims[d];
    }
    for (uint32_t d = 0; d < f->dims_n; d++)
        bytes = dims[d] ? bytes : 0; /* also where it went beyond all numbers before */
    if (!good)
        return leat_fail(err, LEAT_INVALID, "a value of field '%s' has another shape than the field", f->name);
    if (bytes != raw)
        return leat_fail(err, LEAT_INVALID, "a value of field '%s' has %llu bytes, with its shape it would have %llu",
                         f->name, (unsigned long long)raw, (unsigned long long)bytes);
    return LEAT_OK;
}

leat_status leat_field_check_bytes(const struct leat_field *f, const uint32_t dims[LEAT_DIMS_MAX], uint64_t raw,
                                   struct leat_error *err)
{
    if (f->type == LEAT_FIELD_ARRAY)
        return check_shape(f, dims, raw, err);
    if (f->type == LEAT_FIELD_TOKENS && raw % leat_dtype_bytes(f->dtype))
        return leat_fail(err, LEAT_INVALID, "a value of field '%s' has %llu bytes, which are not whole tokens of %s",
                         f->name, (unsigned long long)raw, leat_dtype_name(f->dtype));
    return LEAT_OK;
}

uint64_t leat_float_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void write_picture(const struct leat_picture *image, uint8_t *p)
{
    leat_put_u32(p, image->width);
    leat_put_u32(p + 4, image->height);
    leat_put_u32(p + 8, image->decoded_bytes);
    p[12] = image->kind;
    p[13] = image->channels;
    p[14] = image->orientation;
    p[15] = image->flags;
}

static struct leat_picture read_picture(const uint8_t *p)
{
    return (struct leat_picture){
        .width = leat_get_u32(p),
        .height = leat_get_u32(p + 4),
        .decoded_bytes = leat_get_u32(p + 8),
        .kind = p[12],
        .channels = p[13],
        .orientation = p[14],
        .flags = p[15],
    };
}

void leat_cell_write(const struct leat_field *f, const struct leat_cell *cell, uint8_t *row)
{
    uint8_t *p = row + f->cell_at;
    if (!readable(f))
        return;
    if (f->type == LEAT_FIELD_INT) {
        leat_put_u64(p, (uint64_t)(cell->absent ? LEAT_INT_ABSENT : cell->number));
        return;
    }
    if (f->type == LEAT_FIELD_FLOAT) {
        leat_put_u64(p, cell->absent ? LEAT_FLOAT_ABSENT : leat_float_bits(cell->real));
        return;
    }
    leat_put_u32(p, cell->offset);
    leat_put_u32(p + 4, cell->size);
    p += 8;
    if (f->encoding == LEAT_ENCODING_ZSTD) {
        leat_put_u32(p, cell->zstd ? cell->raw : cell->size);
        leat_put_u32(p + 4, cell->zstd);
        p += ZSTD_CELL;
    }
    if (f->type == LEAT_FIELD_IMAGE)
        write_picture(&cell->image, p);
    for (uint32_t d = 0; d < f->dims_n; d++) {
        if (!f->dims[d]) {
            leat_put_u32(p, cell->dims[d]);
            p += 4;
        }
    }
}

static struct leat_cell read_number(const struct leat_field *f, const uint8_t *p)
{
    bool optional = f->needs & LEAT_FIELD_OPTIONAL;
    uint64_t bits = leat_get_u64(p);
    struct leat_cell cell = {0};
    cell.absent = optional && bits == (f->type == LEAT_FIELD_INT ? (uint64_t)LEAT_INT_ABSENT : LEAT_FLOAT_ABSENT);
    if (cell.absent)
        return cell;
    if (f->type == LEAT_FIELD_INT)
        cell.number = (int64_t)bits;
    else
        memcpy(&cell.real, &bits, sizeof bits);
    return cell;
}

struct leat_cell leat_cell_read(const struct leat_field *f, const uint8_t *row)
{
    const uint8_t *p = row + f->cell_at;
    struct leat_cell cell = {0};
    if (!readable(f))
        return cell;
    if (!leat_field_kind(f->type)->data)
        return read_number(f, p);
    cell.offset = leat_get_u32(p);
    cell.size = cell.raw = leat_get_u32(p + 4);
    cell.absent = (f->needs & LEAT_FIELD_OPTIONAL) && cell.offset == 0 && cell.size == 0;
    if (cell.absent)
        return cell;
    p += 8;
    if (f->encoding == LEAT_ENCODING_ZSTD) {
        cell.raw = leat_get_u32(p);
        cell.zstd = leat_get_u32(p + 4) != 0;
        p += ZSTD_CELL;
    }
    if (f->type == LEAT_FIELD_IMAGE)
        cell.image = read_picture(p);
    for (uint32_t d = 0; d < f->dims_n; d++) {
        cell.dims[d] = f->dims[d];
        if (!f->dims[d]) {
            cell.dims[d] = leat_get_u32(p);
            p += 4;
        }
    }
    return cell;
}
