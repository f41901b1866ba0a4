#include "dataset/schema.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "dataset/layout.h"

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

static bool readable(const struct leat_field *f)
{
    return known(f->type) && f->encoding == 0 && !(f->needs & ~LEAT_FIELD_OPTIONAL);
}

leat_status leat_field_check(const struct leat_field *f, struct leat_error *err)
{
    char what[LEAT_FIELD_NAME_MAX + 16];
    if (!known(f->type))
        return leat_fail(err, LEAT_VERSION, "field '%s' needs a newer Leat: this one does not know type %u", f->name,
                         f->type);
    if (f->encoding)
        return leat_fail(err, LEAT_VERSION,
                         "field '%s' needs a newer Leat: this one does not know encoding %u of type %s", f->name,
                         f->encoding, types[f->type].name);
    snprintf(what, sizeof what, "field '%s'", f->name);
    return layout_check_needs(f->needs, LEAT_FIELD_OPTIONAL, what, err);
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

leat_status leat_schema_add(struct leat_schema *s, const char *name, enum leat_field_type type, const char *about,
                            struct leat_error *err)
{
    struct leat_field f = {.type = (uint16_t)type, .about = about, .about_n = about ? (uint32_t)strlen(about) : 0};
    if (!known(type))
        return leat_fail(err, LEAT_INVALID, "field '%s' has an unknown type", name);
    if (!good_name(name, strlen(name)))
        return leat_fail(err, LEAT_INVALID, "'%s' cannot be a field's name: 1 to %d letters, digits, '_', '.', '-'",
                         name, LEAT_FIELD_NAME_MAX - 1);
    memcpy(f.name, name, strlen(name));
    f.cell_bytes = types[type].cell_bytes;
    return place_field(s, &f, err);
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
    if (readable(f) && f->cell_bytes < types[f->type].cell_bytes)
        return leat_fail(err, LEAT_CORRUPT, "field '%s' of type %s has cells of %u bytes", f->name, types[f->type].name,
                         f->cell_bytes);
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
    leat_status rc = check_field(s, &f, err);
    return rc == LEAT_OK ? place_field(s, &f, err) : rc;
}

leat_status leat_schema_read(const void *data, size_t n, struct leat_schema *out, struct leat_error *err)
{
    struct leat_reader r = leat_reader(data, n);
    struct leat_schema s = {0};
    uint32_t fields = leat_read_u32(&r);
    uint32_t needs = leat_read_u32(&r);
    if (r.bad || n % 8 || n > LEAT_SCHEMA_MAX)
        return leat_fail(err, LEAT_CORRUPT, "a schema of %zu bytes cannot be", n);
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
    return readable(f) && f->type != LEAT_FIELD_INT;
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
    bool optional = f->needs & LEAT_FIELD_OPTIONAL;
    struct leat_cell cell = {0};
    if (!readable(f))
        return cell;
    if (f->type == LEAT_FIELD_INT) {
        int64_t number = (int64_t)leat_get_u64(p);
        cell.absent = optional && number == LEAT_INT_ABSENT;
        cell.number = cell.absent ? 0 : number;
        return cell;
    }
    cell.offset = leat_get_u32(p);
    cell.size = leat_get_u32(p + 4);
    cell.absent = optional && cell.offset == 0 && cell.size == 0;
    if (f->type == LEAT_FIELD_IMAGE && !cell.absent) {
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
