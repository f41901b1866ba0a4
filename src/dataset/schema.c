#include "dataset/schema.h"

#include <string.h>

#include "base/bytes.h"

static const struct {
    const char *name;
    uint32_t cell_bytes;
} types[] = {
    [LEAT_FIELD_BYTES] = {"bytes", 8},
    [LEAT_FIELD_IMAGE] = {"image", 24},
    [LEAT_FIELD_INT] = {"int", 8},
    [LEAT_FIELD_STRING] = {"string", 8},
};

#define CELL_MAX 4096u /* of a type to come */

static bool known(uint32_t type)
{
    return type > 0 && type < sizeof types / sizeof *types;
}

const char *leat_field_type_name(uint32_t type)
{
    return known(type) ? types[type].name : "unknown";
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
    return LEAT_OK;
}

leat_status leat_schema_add(struct leat_schema *s, const char *name, enum leat_field_type type, const char *about,
                            struct leat_error *err)
{
    struct leat_field f = {.type = type, .about = about, .about_n = about ? (uint32_t)strlen(about) : 0};
    if (!known(type))
        return leat_fail(err, LEAT_INVALID, "field '%s' has an unknown type", name);
    if (!good_name(name, strlen(name)))
        return leat_fail(err, LEAT_INVALID, "'%s' cannot be a field's name: 1 to %d letters, digits, '_', '.', '-'",
                         name, LEAT_FIELD_NAME_MAX - 1);
    memcpy(f.name, name, strlen(name));
    f.cell_bytes = types[type].cell_bytes;
    return place_field(s, &f, err);
}

static size_t padding(size_t n)
{
    return (8 - n % 8) % 8;
}

leat_status leat_schema_write(const struct leat_schema *s, struct leat_buf *out, struct leat_error *err)
{
    static const uint8_t zeros[8];
    size_t start = out->len;
    uint8_t head[16];
    leat_put_u32(head, s->n);
    leat_buf_add(out, head, 4);
    for (uint32_t i = 0; i < s->n; i++) {
        const struct leat_field *f = &s->fields[i];
        leat_put_u32(head, f->type);
        leat_put_u32(head + 4, f->cell_bytes);
        leat_put_u32(head + 8, (uint32_t)strlen(f->name));
        leat_put_u32(head + 12, f->about_n);
        leat_buf_add(out, head, 16);
        leat_buf_add(out, f->name, strlen(f->name));
        if (f->about_n)
            leat_buf_add(out, f->about, f->about_n);
    }
    leat_buf_add(out, zeros, padding(out->len - start));
    if (out->len - start > LEAT_SCHEMA_MAX)
        return leat_fail(err, LEAT_LIMIT, "the description of the fields has more than %u bytes", LEAT_SCHEMA_MAX);
    return leat_buf_check(out, "the description of the fields", err);
}

static leat_status read_field(struct leat_reader *r, struct leat_schema *s, struct leat_error *err)
{
    struct leat_field f = {.type = leat_read_u32(r), .cell_bytes = leat_read_u32(r)};
    uint32_t name_n = leat_read_u32(r);
    f.about_n = leat_read_u32(r);
    const char *name = (const char *)leat_read_bytes(r, name_n);
    f.about = (const char *)leat_read_bytes(r, f.about_n);
    if (r->bad || !good_name(name, name_n))
        return leat_fail(err, LEAT_CORRUPT, "the schema's field %u is damaged (byte %zu)", s->n, r->at);
    memcpy(f.name, name, name_n);
    if (f.cell_bytes % 8 || f.cell_bytes > CELL_MAX || (known(f.type) && f.cell_bytes != types[f.type].cell_bytes))
        return leat_fail(err, LEAT_CORRUPT, "field '%s' of type %u has cells of %u bytes", f.name, f.type,
                         f.cell_bytes);
    leat_status rc = place_field(s, &f, err);
    return rc == LEAT_OK ? LEAT_OK : leat_fail_context(err, LEAT_CORRUPT, "schema");
}

leat_status leat_schema_read(const void *data, size_t n, struct leat_schema *out, struct leat_error *err)
{
    struct leat_reader r = leat_reader(data, n);
    struct leat_schema s = {0};
    uint32_t fields = leat_read_u32(&r);
    if (r.bad || fields > LEAT_FIELDS_MAX || n % 8 || n > LEAT_SCHEMA_MAX)
        return leat_fail(err, LEAT_CORRUPT, "the schema of %zu bytes with %u fields cannot be", n, fields);
    for (uint32_t i = 0; i < fields; i++) {
        leat_status rc = read_field(&r, &s, err);
        if (rc != LEAT_OK)
            return rc;
    }
    while (leat_reader_left(&r)) {
        if (leat_read_u8(&r) != 0 || r.size - r.at >= 8)
            return leat_fail(err, LEAT_CORRUPT, "something follows the schema's fields (byte %zu)", r.at);
    }
    *out = s;
    return LEAT_OK;
}

bool leat_field_has_data(const struct leat_field *f)
{
    return f->type == LEAT_FIELD_BYTES || f->type == LEAT_FIELD_IMAGE || f->type == LEAT_FIELD_STRING;
}

void leat_cell_write(const struct leat_field *f, const struct leat_cell *cell, uint8_t *row)
{
    uint8_t *p = row + f->cell_at;
    if (f->type == LEAT_FIELD_INT) {
        leat_put_u64(p, (uint64_t)cell->number);
        return;
    }
    leat_put_u32(p, cell->offset);
    leat_put_u32(p + 4, cell->size);
    if (f->type == LEAT_FIELD_IMAGE) {
        leat_put_u32(p + 8, cell->image.width);
        leat_put_u32(p + 12, cell->image.height);
        leat_put_u32(p + 16, cell->image.decoded_bytes);
        p[20] = cell->image.kind;
        p[21] = cell->image.channels;
        p[22] = cell->image.orientation;
        p[23] = cell->image.flags;
    }
}

struct leat_cell leat_cell_read(const struct leat_field *f, const uint8_t *row)
{
    const uint8_t *p = row + f->cell_at;
    struct leat_cell cell = {0};
    if (f->type == LEAT_FIELD_INT) {
        cell.number = (int64_t)leat_get_u64(p);
    } else if (leat_field_has_data(f)) {
        cell.offset = leat_get_u32(p);
        cell.size = leat_get_u32(p + 4);
    }
    if (f->type == LEAT_FIELD_IMAGE) {
        cell.image.width = leat_get_u32(p + 8);
        cell.image.height = leat_get_u32(p + 12);
        cell.image.decoded_bytes = leat_get_u32(p + 16);
        cell.image.kind = p[20];
        cell.image.channels = p[21];
        cell.image.orientation = p[22];
        cell.image.flags = p[23];
    }
    return cell;
}
