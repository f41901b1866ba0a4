#include "agent/values.h"

#include <stdlib.h>
#include <string.h>

#include "agent/ask.h"
#include "base/dtype.h"
#include "base/json.h"

/* What compressed values become is not known before; a batch that needs more than this gets memory of its own. */
#define ZSTD_TIMES 3

void leat_values_free(struct leat_value_plan *v)
{
    free(v->fallback);
    v->fallback = NULL;
}

/* Making */

/* Of one shape, dims[0 … n). */
static leat_status shape_fixed(const uint32_t *dims, uint32_t n, uint32_t dtype, struct leat_ring_column *column,
                               struct leat_error *err)
{
    uint64_t bytes = leat_dtype_bytes(dtype);
    column->dtype = dtype;
    column->dims_n = n;
    for (uint32_t d = 0; d < n; d++) {
        column->dims[d] = dims[d];
        bytes = bytes > LEAT_CHUNK_MAX ? bytes : bytes * dims[d];
    }
    if (bytes > LEAT_CHUNK_MAX)
        return leat_fail(err, LEAT_LIMIT, "a value of this shape has more than 4 GiB");
    column->stride = bytes;
    return LEAT_OK;
}

/* The shape that an array or tokens are padded to. */
static leat_status shape_padded(const struct leat_ask *ask, const struct leat_field *f, struct leat_value_plan *v,
                                struct leat_ring_column *column, struct leat_error *err)
{
    bool tokens = f->type == LEAT_FIELD_TOKENS;
    uint32_t n = tokens ? 1 : f->dims_n;
    uint32_t varying = tokens ? 1 : f->varying;
    if (!varying)
        return leat_fail(err, LEAT_INVALID, "field '%s' has a fixed shape: there is nothing to pad", f->name);
    if (ask->pad_n == 1 && varying == 1) {
        for (uint32_t d = 0; d < n; d++)
            v->dims[d] = tokens || !f->dims[d] ? ask->pad[0] : f->dims[d];
    } else {
        for (uint32_t d = 0; d < n && ask->pad_n == n; d++) {
            v->dims[d] = ask->pad[d];
            if (f->dims[d] && f->dims[d] != ask->pad[d])
                return leat_fail(err, LEAT_INVALID, "dimension %u of field '%s' is %u and cannot be padded to %u", d,
                                 f->name, f->dims[d], ask->pad[d]);
        }
        if (ask->pad_n != n)
            return leat_fail(err, LEAT_INVALID,
                             "field '%s' has %u dimensions and %u of them vary: it cannot be padded to %u", f->name, n,
                             varying, ask->pad_n);
    }
    v->dims_n = n;
    v->padded = true;
    v->cut = ask->cut;
    return shape_fixed(v->dims, n, v->to, column, err);
}

static void shape_ragged(uint32_t dtype, uint64_t arena_bytes, struct leat_ring_column *column)
{
    column->dtype = dtype;
    column->ragged = 1;
    column->arena_bytes = arena_bytes;
}

/* Numbers of the field's own type. */
static leat_status make_typed(const struct leat_ask *ask, const struct leat_field *f, uint64_t arena_bytes,
                              struct leat_value_plan *v, struct leat_ring_column *column, struct leat_error *err)
{
    uint32_t from = leat_dtype_bytes(f->dtype);
    uint32_t to = ask->dtype ? leat_dtype_bytes(ask->dtype) : from;
    v->from = f->dtype;
    v->to = ask->dtype ? ask->dtype : f->dtype;
    if (v->to != v->from && (leat_dtype_is_float(v->to) || v->to == LEAT_BOOL || to <= from ||
                             (leat_dtype_is_signed(v->from) && !leat_dtype_is_signed(v->to))))
        return leat_fail(err, LEAT_INVALID, "field '%s' holds %s, which does not always fit into %s", f->name,
                         leat_dtype_name(v->from), leat_dtype_name(v->to));
    if (ask->value) {
        leat_status rc = leat_ask_number(ask->value, ask->value_n, v->to, v->fill, err);
        if (rc != LEAT_OK)
            return rc;
    }
    if (ask->pad_n)
        return shape_padded(ask, f, v, column, err);
    if (f->type == LEAT_FIELD_ARRAY && !f->varying) {
        v->dims_n = f->dims_n;
        memcpy(v->dims, f->dims, sizeof v->dims);
        return shape_fixed(f->dims, f->dims_n, v->to, column, err);
    }
    shape_ragged(v->to, arena_bytes * to / from, column);
    column->dims_n = f->type == LEAT_FIELD_TOKENS ? 1 : f->dims_n;
    for (uint32_t d = 0; d < f->dims_n; d++)
        column->dims[d] = f->dims[d];
    return LEAT_OK;
}

static leat_status make_number(const struct leat_ask *ask, const struct leat_field *f, struct leat_value_plan *v,
                               struct leat_ring_column *column, struct leat_error *err)
{
    bool real = f->type == LEAT_FIELD_FLOAT;
    v->to = ask->dtype ? ask->dtype : real ? LEAT_F32 : LEAT_I64;
    bool good = real ? v->to == LEAT_F32 || v->to == LEAT_F64 : !leat_dtype_is_float(v->to) && v->to != LEAT_BOOL;
    if (!good)
        return leat_fail(err, LEAT_INVALID, "field '%s' is of type %s and cannot be converted to %s", f->name,
                         leat_field_type_name(f->type), leat_dtype_name(v->to));
    return shape_fixed(NULL, 0, v->to, column, err);
}

static int digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Text as it is, bytes from hexadecimal digits. */
static leat_status keep_fallback(uint32_t kind, const char *text, struct leat_value_plan *v, struct leat_error *err)
{
    size_t n = strlen(text);
    if (kind == LEAT_OUTPUT_JSON && !leat_json_check(text, n, NULL))
        return leat_fail(err, LEAT_INVALID, "the default '%.40s' is not JSON", text);
    v->fallback = malloc(n + 1);
    if (!v->fallback)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a default");
    memcpy(v->fallback, text, n);
    v->fallback_n = n;
    if (kind != LEAT_OUTPUT_BYTES)
        return LEAT_OK;
    v->fallback_n = n / 2;
    for (size_t i = 0; i < n / 2; i++) {
        int high = digit(text[2 * i]);
        int low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return leat_fail(err, LEAT_INVALID, "the default '%.40s' is not in hexadecimal digits", text);
        v->fallback[i] = (char)(16 * high + low);
    }
    return n % 2 ? leat_fail(err, LEAT_INVALID, "the default '%.40s' is not in hexadecimal digits", text) : LEAT_OK;
}

/* What samples get that lack the field. */
static leat_status make_fallback(uint32_t kind, const char *text, struct leat_value_plan *v,
                                 const struct leat_ring_column *column, struct leat_error *err)
{
    memcpy(v->lacking, v->fill, sizeof v->lacking);
    if (!text)
        return LEAT_OK;
    if (!column->ragged)
        return leat_ask_number(text, strlen(text), v->to, v->lacking, err);
    if (kind == LEAT_OUTPUT_ARRAY || kind == LEAT_OUTPUT_TOKENS)
        return leat_fail(err, LEAT_INVALID,
                         "values that vary in length have no default: pad them, or ask for has() as well (missing "
                         "ones are empty)");
    return keep_fallback(kind, text, v, err);
}

static leat_status make(const struct leat_ask *ask, const struct leat_field *f, uint64_t arena_bytes,
                        struct leat_output_plan *plan, struct leat_ring_column *column, struct leat_error *err)
{
    struct leat_value_plan *v = &plan->value;
    uint32_t several = f->type == LEAT_FIELD_ARRAY ? f->varying : 1;
    if (f->encoding == LEAT_ENCODING_ZSTD)
        arena_bytes *= ZSTD_TIMES;
    switch (plan->kind) {
    case LEAT_OUTPUT_INT:
    case LEAT_OUTPUT_FLOAT:
        return make_number(ask, f, v, column, err);
    case LEAT_OUTPUT_ARRAY:
    case LEAT_OUTPUT_TOKENS:
        return make_typed(ask, f, arena_bytes, v, column, err);
    case LEAT_OUTPUT_HAS:
        return shape_fixed(NULL, 0, v->to = LEAT_BOOL, column, err);
    case LEAT_OUTPUT_LENGTH:
        if (!several)
            return leat_fail(err, LEAT_INVALID, "field '%s' has a fixed shape: its length does not vary", f->name);
        return shape_fixed(&several, several > 1, v->to = LEAT_I64, column, err);
    default:
        shape_ragged(v->to = LEAT_U8, arena_bytes, column);
        return LEAT_OK;
    }
}

leat_status leat_values_make(const struct leat_output *asked, const struct leat_field *f, uint64_t arena_bytes,
                             struct leat_output_plan *plan, struct leat_ring_column *column, struct leat_error *err)
{
    struct leat_ask ask;
    leat_status rc = leat_ask_read(asked, leat_output_kind_find(plan->kind), &ask, err);
    if (rc != LEAT_OK)
        return rc;
    rc = make(&ask, f, arena_bytes, plan, column, err);
    if (rc == LEAT_OK)
        rc = make_fallback(plan->kind, ask.fallback, &plan->value, column, err);
    plan->value.has_fallback = ask.fallback != NULL;
    return rc == LEAT_OK ? rc : leat_fail_context(err, rc, "output '%s'", asked->name);
}

/* Writing */

typedef uint16_t __attribute__((aligned(1), may_alias)) any_u16; /* values lie anywhere in a chunk */
typedef uint32_t __attribute__((aligned(1), may_alias)) any_u32;
typedef int32_t __attribute__((aligned(1), may_alias)) any_i32;
typedef uint64_t __attribute__((aligned(1), may_alias)) any_u64;

/* To a wider type; whether there is a sign makes no difference there but to negative numbers. */
static void widen(const struct leat_value_plan *v, const void *from, uint64_t n, void *to)
{
    const any_u16 *u16 = from;
    const any_u32 *u32 = from;
    const any_i32 *i32 = from;
    any_u32 *to32 = to;
    any_u64 *to64 = to;
    if (v->from == v->to)
        memcpy(to, from, n * leat_dtype_bytes(v->to));
    else if (v->from == LEAT_U16 && leat_dtype_bytes(v->to) == 4)
        for (uint64_t i = 0; i < n; i++)
            to32[i] = u16[i];
    else if (v->from == LEAT_U16)
        for (uint64_t i = 0; i < n; i++)
            to64[i] = u16[i];
    else if (v->from == LEAT_U32)
        for (uint64_t i = 0; i < n; i++)
            to64[i] = u32[i];
    else
        for (uint64_t i = 0; i < n; i++)
            to64[i] = (uint64_t)(int64_t)i32[i];
}

static void repeat(const uint8_t *number, uint32_t item, void *to, uint64_t bytes)
{
    static const uint8_t zeros[8];
    char *at = to;
    if (memcmp(number, zeros, item) == 0)
        memset(to, 0, bytes);
    else
        for (uint64_t i = 0; i < bytes; i += item)
            memcpy(at + i, number, item);
}

/* The first `count` tokens. */
static leat_status write_tokens(const struct leat_output_plan *p, const struct leat_sample *s,
                                const struct leat_cell *cell, uint64_t count, char *to, struct leat_error *err)
{
    const void *data;
    void *own;
    if (p->value.from == p->value.to && count * leat_dtype_bytes(p->value.to) == cell->raw)
        return leat_chunk_value(s->chunk, cell, to, err); /* without a copy on the way */
    leat_status rc = leat_chunk_view(s->chunk, cell, &data, &own, err);
    if (rc != LEAT_OK)
        return rc;
    widen(&p->value, data, count, to);
    free(own);
    return LEAT_OK;
}

/* Copies what both shapes have of dimensions d … n, row by row. */
static void copy_box(const uint32_t *from_dims, const uint32_t *to_dims, uint32_t n, uint32_t item, const char *from,
                     char *to)
{
    if (n == 0) {
        memcpy(to, from, item);
        return;
    }
    uint64_t from_step = item;
    uint64_t to_step = item;
    bool alike = true;
    for (uint32_t d = 1; d < n; d++) {
        from_step *= from_dims[d];
        to_step *= to_dims[d];
        alike = alike && from_dims[d] == to_dims[d];
    }
    uint32_t rows = from_dims[0] < to_dims[0] ? from_dims[0] : to_dims[0];
    if (alike) {
        memcpy(to, from, rows * to_step);
        return;
    }
    for (uint32_t i = 0; i < rows && from_step; i++)
        copy_box(from_dims + 1, to_dims + 1, n - 1, item, from + i * from_step, to + i * to_step);
}

static leat_status check_fits(const struct leat_value_plan *v, const uint32_t *dims, struct leat_error *err)
{
    for (uint32_t d = 0; d < v->dims_n && !v->cut; d++) {
        if (dims[d] > v->dims[d])
            return leat_fail(err, LEAT_LIMIT, "dimension %u has %u values, more than pad=%u: use a larger pad, or cut",
                             d, dims[d], v->dims[d]);
    }
    return LEAT_OK;
}

static leat_status write_padded(const struct leat_output_plan *p, const struct leat_sample *s, uint64_t bytes, char *to,
                                struct leat_error *err)
{
    const struct leat_value_plan *v = &p->value;
    struct leat_cell cell = leat_chunk_cell(s->chunk, s->index, p->field);
    bool tokens = p->kind == LEAT_OUTPUT_TOKENS;
    uint64_t n = cell.raw / leat_dtype_bytes(v->from);
    if (tokens)
        cell.dims[0] = (uint32_t)n;
    leat_status rc = check_fits(v, cell.dims, err);
    if (rc != LEAT_OK)
        return rc;
    if (tokens) {
        n = n < v->dims[0] ? n : v->dims[0];
        uint64_t used = n * leat_dtype_bytes(v->to);
        repeat(v->fill, leat_dtype_bytes(v->to), to + used, bytes - used);
        return write_tokens(p, s, &cell, n, to, err);
    }
    const void *data;
    void *own;
    rc = leat_chunk_view(s->chunk, &cell, &data, &own, err);
    if (rc != LEAT_OK)
        return rc;
    repeat(v->fill, leat_dtype_bytes(v->to), to, bytes);
    copy_box(cell.dims, v->dims, v->dims_n, leat_dtype_bytes(v->to), data, to);
    free(own);
    return LEAT_OK;
}

static leat_status write_number(const struct leat_output_plan *p, const struct leat_cell *cell, uint64_t bytes,
                                char *to, struct leat_error *err)
{
    uint8_t number[8];
    if (p->kind == LEAT_OUTPUT_FLOAT)
        leat_ask_put_real(cell->real, p->value.to, number);
    else if (!leat_ask_put_int(cell->number, p->value.to, number))
        return leat_fail(err, LEAT_LIMIT, "%lld does not fit into %s", (long long)cell->number,
                         leat_dtype_name(p->value.to));
    memcpy(to, number, bytes);
    return LEAT_OK;
}

void leat_values_shape(const struct leat_output_plan *p, const struct leat_sample *s, uint64_t *to)
{
    const struct leat_field *f = &s->chunk->schema.fields[p->field];
    struct leat_cell cell = leat_chunk_cell(s->chunk, s->index, p->field);
    for (uint32_t d = 0; d < f->dims_n; d++) {
        if (!f->dims[d])
            *to++ = cell.dims[d];
    }
}

static void write_length(const struct leat_output_plan *p, const struct leat_sample *s, const struct leat_cell *cell,
                         uint64_t bytes, char *to)
{
    const struct leat_field *f = &s->chunk->schema.fields[p->field];
    uint64_t numbers[LEAT_DIMS_MAX] = {cell->raw};
    if (f->type == LEAT_FIELD_TOKENS)
        numbers[0] = cell->raw / leat_dtype_bytes(f->dtype);
    if (f->type == LEAT_FIELD_ARRAY)
        leat_values_shape(p, s, numbers);
    memcpy(to, numbers, bytes);
}

uint64_t leat_values_bytes(const struct leat_output_plan *p, const struct leat_sample *s)
{
    const struct leat_value_plan *v = &p->value;
    struct leat_cell cell = leat_chunk_cell(s->chunk, s->index, p->field);
    if (p->kind == LEAT_OUTPUT_TOKENS)
        return cell.raw / leat_dtype_bytes(v->from) * leat_dtype_bytes(v->to);
    return cell.absent ? v->fallback_n : cell.raw;
}

static leat_status write_value(const struct leat_output_plan *p, const struct leat_ring_column *c,
                               const struct leat_sample *s, char *to, uint64_t bytes, struct leat_error *err)
{
    const struct leat_value_plan *v = &p->value;
    struct leat_cell cell = leat_chunk_cell(s->chunk, s->index, p->field);
    if (p->kind == LEAT_OUTPUT_HAS)
        *to = !cell.absent;
    else if (p->kind == LEAT_OUTPUT_LENGTH)
        write_length(p, s, &cell, bytes, to);
    else if (cell.absent && c->ragged)
        memcpy(to, v->fallback ? v->fallback : "", bytes);
    else if (cell.absent)
        repeat(v->lacking, leat_dtype_bytes(v->to), to, bytes);
    else if (p->kind == LEAT_OUTPUT_INT || p->kind == LEAT_OUTPUT_FLOAT)
        return write_number(p, &cell, bytes, to, err);
    else if (v->padded)
        return write_padded(p, s, bytes, to, err);
    else if (p->kind == LEAT_OUTPUT_TOKENS)
        return write_tokens(p, s, &cell, bytes / leat_dtype_bytes(v->to), to, err);
    else
        return leat_chunk_value(s->chunk, &cell, to, err);
    return LEAT_OK;
}

leat_status leat_values_write(const struct leat_output_plan *p, const struct leat_ring_column *c,
                              const struct leat_sample *s, void *to, uint64_t bytes, struct leat_error *err)
{
    size_t at;
    leat_status rc = write_value(p, c, s, to, bytes, err);
    if (rc == LEAT_OK && p->kind == LEAT_OUTPUT_JSON && bytes && !leat_json_check(to, bytes, &at))
        rc = leat_fail(err, LEAT_CORRUPT, "its value is not JSON (byte %zu)", at);
    if (rc == LEAT_OK)
        return rc;
    leat_fail_context(err, rc, "field '%s'", s->chunk->schema.fields[p->field].name);
    return leat_sample_fail(s, rc, err);
}
