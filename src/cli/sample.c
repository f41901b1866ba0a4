#include "cli/sample.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/json.h"
#include "base/parse.h"
#include "cli/text.h"
#include "client/probe.h"
#include "leat/loader.h"

#define JSON_LINES  40u
#define JSON_MAX    (1u << 20) /* bytes that are parsed for being shown */
#define BYTES_SHOWN 16u

/* Numbers of arrays */

static double half(uint16_t bits)
{
    int exponent = bits >> 10 & 31;
    double fraction = (bits & 1023) / 1024.0;
    double v = exponent == 31  ? (bits & 1023 ? __builtin_nan("") : __builtin_inf())
               : exponent == 0 ? fraction * 0x1p-14
                               : (1 + fraction) * __builtin_ldexp(1, exponent - 15);
    return bits >> 15 ? -v : v;
}

void leat_cli_number(uint32_t dtype, const uint8_t *data, size_t n, char *out)
{
    uint64_t bits = 0;
    uint32_t bytes = leat_dtype_bytes(dtype);
    float single;
    double real;
    memcpy(&bits, data + n * bytes, bytes); /* little-endian, as root.c demands */
    uint32_t low = (uint32_t)(dtype == LEAT_BF16 ? bits << 16 : bits);
    memcpy(&single, &low, sizeof single);
    memcpy(&real, &bits, sizeof real);
    switch (dtype) {
    case LEAT_F32:
    case LEAT_BF16:
        snprintf(out, LEAT_CLI_NUMBER, "%.6g", (double)single);
        break;
    case LEAT_F16:
        snprintf(out, LEAT_CLI_NUMBER, "%.4g", half((uint16_t)bits));
        break;
    case LEAT_F64:
        snprintf(out, LEAT_CLI_NUMBER, "%.10g", real);
        break;
    default:
        if (leat_dtype_is_signed(dtype))
            snprintf(out, LEAT_CLI_NUMBER, "%" PRId64, (int64_t)(bits << (64 - 8 * bytes)) >> (64 - 8 * bytes));
        else
            snprintf(out, LEAT_CLI_NUMBER, "%" PRIu64, bits);
    }
}

/* Values */

struct page {
    struct leat_buf *out;
    size_t columns;
    size_t indent; /* of values */
};

static size_t room(const struct page *p, size_t used)
{
    size_t taken = p->indent + used;
    return p->columns > taken + 8 ? p->columns - taken : 8;
}

static void add_size(struct leat_buf *out, uint64_t bytes)
{
    char size[LEAT_FORMAT_SIZE];
    leat_buf_str(out, leat_format_size(bytes, size));
}

static void describe_int(const struct page *p, const struct leat_field *f, int64_t number)
{
    json_t *about = NULL;
    leat_buf_printf(p->out, "%" PRId64, number);
    if (f->about_n && leat_json_read(f->about, f->about_n, 0, &about, NULL) != LEAT_OK)
        return;
    const json_t *name = number >= 0 ? json_array_get(json_object_get(about, "names"), (size_t)number) : NULL;
    if (json_is_string(name)) {
        leat_buf_str(p->out, " (");
        leat_cli_escape(p->out, json_string_value(name), json_string_length(name), room(p, 24));
        leat_buf_char(p->out, ')');
    }
    json_decref(about);
}

/* An index has not read the headers of single objects: here they are. */
static void describe_image(const struct page *p, const struct leat_cell *cell, const void *data)
{
    static const char *const kinds[] = {"a picture of another kind", "JPEG", "PNG", "WebP"};
    struct leat_picture probed = cell->image;
    const struct leat_picture *i = &probed;
    struct leat_buf line;
    if (i->width == 0 && leat_picture_probe(data, cell->raw, &probed, NULL) != LEAT_OK)
        probed = cell->image;
    leat_buf_init(&line, 400);
    if (i->width == 0)
        leat_buf_str(&line, "no readable header");
    else
        leat_buf_printf(&line, "%s %" PRIu32 "x%" PRIu32 ", %u channel%s",
                        kinds[i->kind < sizeof kinds / sizeof *kinds ? i->kind : 0], i->width, i->height, i->channels,
                        i->channels == 1 ? "" : "s");
    if (i->flags & LEAT_PICTURE_PROGRESSIVE)
        leat_buf_str(&line, ", progressive");
    if (i->orientation > 1)
        leat_buf_printf(&line, ", orientation %u", i->orientation);
    leat_buf_str(&line, ", ");
    add_size(&line, cell->raw);
    leat_cli_escape_rest(p->out, line.data, line.len, room(p, 0));
    leat_buf_free(&line);
}

static void describe_text(const struct page *p, const char *data, size_t n)
{
    char size[LEAT_FORMAT_SIZE + 4] = "";
    leat_buf_char(p->out, '"');
    if (!leat_cli_escape(p->out, data, n, room(p, 16))) {
        leat_format_size(n, size);
        leat_buf_printf(p->out, "\" (%s)", size);
    } else {
        leat_buf_char(p->out, '"');
    }
}

static void describe_bytes(const struct page *p, const uint8_t *data, size_t n)
{
    size_t fit = room(p, 14) / 3;
    size_t most = fit < BYTES_SHOWN ? fit : BYTES_SHOWN;
    add_size(p->out, n);
    leat_buf_str(p->out, n ? ": " : "");
    for (size_t i = 0; i < n && i < most; i++)
        leat_buf_printf(p->out, "%s%02x", i ? " " : "", data[i]);
    leat_buf_str(p->out, n > most ? " …" : "");
}

/* As many as fit on the line. */
static void describe_numbers(const struct page *p, uint32_t dtype, const uint8_t *data, size_t n, size_t used)
{
    size_t left = room(p, used + 2);
    for (size_t i = 0; i < n; i++) {
        char text[LEAT_CLI_NUMBER];
        leat_cli_number(dtype, data, i, text);
        size_t width = strlen(text) + (i > 0);
        if (width > left) {
            leat_buf_str(p->out, " …");
            return;
        }
        leat_buf_printf(p->out, "%s%s", i ? " " : "", text);
        left -= width;
    }
}

static void describe_array(const struct page *p, const struct leat_field *f, const struct leat_cell *cell,
                           const uint8_t *data)
{
    uint32_t bytes = leat_dtype_bytes(f->dtype);
    size_t before = p->out->len;
    leat_buf_printf(p->out, "%s ", leat_dtype_name(f->dtype));
    if (f->type == LEAT_FIELD_TOKENS)
        leat_buf_printf(p->out, "x %" PRIu32, bytes ? cell->raw / bytes : 0);
    for (uint32_t i = 0; f->type != LEAT_FIELD_TOKENS && i < f->dims_n; i++)
        leat_buf_printf(p->out, "%s%" PRIu32, i ? "x" : "", cell->dims[i]);
    leat_buf_str(p->out, ": ");
    if (bytes)
        describe_numbers(p, f->dtype, data, cell->raw / bytes, p->out->len - before);
}

/* Indented, this many lines at most. What is no JSON is shown as text. */
static void describe_json(const struct page *p, const char *data, size_t n)
{
    json_t *value = NULL;
    char *text = NULL;
    if (n <= JSON_MAX && leat_json_read(data, n, JSON_DECODE_ANY, &value, NULL) == LEAT_OK)
        text = leat_json_write(value, JSON_ENCODE_ANY | JSON_INDENT(2));
    json_decref(value);
    if (!text) {
        describe_text(p, data, n);
        return;
    }
    size_t lines = 0;
    for (const char *at = text; at && lines < JSON_LINES; lines++) {
        const char *end = strchr(at, '\n');
        if (lines)
            leat_buf_printf(p->out, "\n%*s", (int)p->indent, "");
        leat_cli_escape_rest(p->out, at, end ? (size_t)(end - at) : strlen(at), room(p, 0));
        at = end ? end + 1 : NULL;
        if (at && lines + 1 == JSON_LINES)
            leat_buf_printf(p->out, "\n%*s…", (int)p->indent, "");
    }
    free(text);
}

static leat_status describe_value(const struct page *p, const struct leat_chunk *c, const struct leat_field *f,
                                  const struct leat_cell *cell, struct leat_error *err)
{
    const void *data = "";
    void *own = NULL;
    leat_status rc = LEAT_OK;
    if (cell->absent) {
        leat_buf_str(p->out, "none");
        return LEAT_OK;
    }
    if (leat_field_has_data(f) && (f->type != LEAT_FIELD_IMAGE || cell->image.width == 0))
        rc = leat_chunk_view(c, cell, &data, &own, err);
    if (rc != LEAT_OK)
        return rc;
    switch (f->type) {
    case LEAT_FIELD_INT:
        describe_int(p, f, cell->number);
        break;
    case LEAT_FIELD_FLOAT:
        leat_buf_printf(p->out, "%.17g", cell->real);
        break;
    case LEAT_FIELD_IMAGE:
        describe_image(p, cell, data);
        break;
    case LEAT_FIELD_STRING:
        describe_text(p, data, cell->raw);
        break;
    case LEAT_FIELD_JSON:
        describe_json(p, data, cell->raw);
        break;
    case LEAT_FIELD_ARRAY:
    case LEAT_FIELD_TOKENS:
        describe_array(p, f, cell, data);
        break;
    default:
        describe_bytes(p, data, cell->raw);
    }
    free(own);
    return LEAT_OK;
}

leat_status leat_cli_describe_sample(const struct leat_chunk *c, uint32_t i, uint64_t number, size_t columns,
                                     struct leat_buf *out, struct leat_error *err)
{
    size_t names = 0;
    size_t n;
    const char *key = leat_chunk_key(c, i, &n);
    leat_status rc = LEAT_OK;
    for (uint32_t f = 0; f < c->schema.n; f++) {
        size_t length = strlen(c->schema.fields[f].name);
        names = length > names && length < 24 ? length : names;
    }
    struct page p = {.out = out, .columns = columns, .indent = 2 + names + 2 + 6 + 2};
    leat_buf_printf(out, "sample %" PRIu64 "  ", number);
    if (n)
        leat_cli_escape(out, key, n, columns > 40 ? columns - 32 : 8);
    else
        leat_buf_str(out, "(no key)");
    leat_buf_char(out, '\n');
    for (uint32_t f = 0; rc == LEAT_OK && f < c->schema.n; f++) {
        const struct leat_field *field = &c->schema.fields[f];
        struct leat_cell cell = leat_chunk_cell(c, i, f);
        leat_buf_printf(out, "  %-*s  %-6s  ", (int)names, field->name, leat_field_type_name(field->type));
        if (leat_field_check(field, NULL) != LEAT_OK)
            leat_buf_str(out, "(needs a newer Leat)");
        else
            rc = describe_value(&p, c, field, &cell, err);
        leat_buf_char(out, '\n');
    }
    return rc == LEAT_OK ? leat_buf_check(out, "what is shown of a sample", err) : rc;
}
