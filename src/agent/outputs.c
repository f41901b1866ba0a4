#include "agent/outputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/pictures.h"
#include "agent/sounds.h"
#include "base/buf.h"
#include "leat/loader.h"

static const struct {
    const char *name;
    uint32_t kind;
    uint32_t type; /* of the field; 0: none needed */
} kinds[] = {
    {"image", LEAT_OUTPUT_IMAGE, LEAT_FIELD_IMAGE},
    {"int", LEAT_OUTPUT_INT, LEAT_FIELD_INT},
    {"bytes", LEAT_OUTPUT_BYTES, LEAT_FIELD_BYTES},
    {"string", LEAT_OUTPUT_STRING, LEAT_FIELD_STRING},
    {"key", LEAT_OUTPUT_KEY, 0},
    {"index", LEAT_OUTPUT_INDEX, 0},
    {"valid", LEAT_OUTPUT_VALID, 0},
    {"drawn", LEAT_OUTPUT_DRAWN, LEAT_FIELD_IMAGE},
    {"boxes", LEAT_OUTPUT_BOXES, LEAT_FIELD_BYTES},
    {"sound", LEAT_OUTPUT_SOUND, LEAT_FIELD_BYTES},
};

static void list_fields(const struct leat_schema *schema, char *out, size_t n)
{
    size_t at = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < schema->n && at < n; i++)
        at += (size_t)snprintf(out + at, n - at, "%s%s (%s)", i ? ", " : "", schema->fields[i].name,
                               leat_field_type_name(schema->fields[i].type));
}

static leat_status find_field(const char *output, const char *field, size_t k, const struct leat_schema *schema,
                              uint32_t *out, struct leat_error *err)
{
    char fields[300];
    uint32_t i = field ? leat_schema_find(schema, field) : LEAT_FIELDS_MAX;
    if (i == LEAT_FIELDS_MAX) {
        list_fields(schema, fields, sizeof fields);
        return leat_fail(err, LEAT_INVALID, "output '%s': the dataset has no field '%s'; it has %s", output,
                         field ? field : "", fields);
    }
    leat_status rc = leat_field_check(&schema->fields[i], err);
    if (rc != LEAT_OK)
        return leat_fail_context(err, rc, "output '%s'", output);
    if (schema->fields[i].needs & LEAT_FIELD_OPTIONAL)
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "output '%s': field '%s' is optional, and a batch cannot say which samples lack it", output,
                         field);
    uint32_t type = schema->fields[i].type;
    /* bytes() takes any field that has bytes, as they are stored */
    bool fits =
        type == kinds[k].type || (kinds[k].kind == LEAT_OUTPUT_BYTES && leat_field_has_data(&schema->fields[i]));
    if (!fits)
        return leat_fail(err, LEAT_INVALID, "output '%s': field '%s' is of type %s, not %s", output, field,
                         leat_field_type_name(type), kinds[k].name);
    *out = i;
    return LEAT_OK;
}

static leat_status make_one(const struct leat_output *asked, const struct leat_schema *schema, uint64_t arena_bytes,
                            struct leat_output_plan *plan, struct leat_ring_column *column, struct leat_error *err)
{
    const char *name = asked->name;
    size_t k = 0;
    while (k < sizeof kinds / sizeof *kinds && kinds[k].kind != asked->kind)
        k++;
    if (k == sizeof kinds / sizeof *kinds)
        return leat_fail(err, LEAT_INVALID, "output '%s' is of an unknown kind (%u)", name, asked->kind);
    if (asked->view > LEAT_VIEW_MAX)
        return leat_fail(err, LEAT_INVALID, "output '%s' has view %u: 0 to %d are possible", name, asked->view,
                         LEAT_VIEW_MAX);
    plan->kind = kinds[k].kind;
    plan->view = asked->view;
    snprintf(column->name, sizeof column->name, "%s", name);
    column->kind = plan->kind;
    leat_status rc = kinds[k].type ? find_field(name, asked->field, k, schema, &plan->field, err) : LEAT_OK;
    if (rc != LEAT_OK)
        return rc;
    if (leat_output_is_picture(plan->kind))
        rc = leat_picture_make(asked, schema, plan, column, err);
    if (plan->kind == LEAT_OUTPUT_SOUND)
        rc = leat_sounds_make(asked, arena_bytes, plan, column, err);
    if (rc != LEAT_OK)
        return rc;
    switch (plan->kind) {
    case LEAT_OUTPUT_IMAGE:
    case LEAT_OUTPUT_DRAWN:
    case LEAT_OUTPUT_SOUND:
        return LEAT_OK;
    case LEAT_OUTPUT_INT:
    case LEAT_OUTPUT_INDEX:
        column->dtype = LEAT_I64;
        column->stride = sizeof(int64_t);
        return LEAT_OK;
    case LEAT_OUTPUT_VALID:
        column->dtype = LEAT_U8;
        column->stride = 1;
        return LEAT_OK;
    default:
        column->dtype = LEAT_U8;
        column->ragged = 1;
        column->arena_bytes = arena_bytes;
        return LEAT_OK;
    }
}

leat_status leat_outputs_make(const struct leat_output *outputs, size_t n, const struct leat_schema *schema,
                              uint32_t samples_max, uint64_t ragged_bytes, struct leat_outputs *out,
                              struct leat_error *err)
{
    struct leat_outputs o = {.samples_max = samples_max};
    leat_status rc = LEAT_OK;
    if (n == 0 || n > LEAT_RING_COLUMNS_MAX)
        return leat_fail(err, LEAT_INVALID, "%zu outputs: between 1 and %u are possible", n, LEAT_RING_COLUMNS_MAX);
    leat_status all = LEAT_OK; /* what is wrong with all outputs that something is wrong with */
    struct leat_buf problems;  /* of all outputs: nobody wants to be told one at a time */
    leat_buf_init(&problems, 16 << 10);
    for (size_t i = 0; i < n; i++) {
        struct leat_error one;
        uint64_t arena = ragged_bytes * samples_max;
        rc = make_one(&outputs[i], schema, arena, &o.plans[i], &o.columns[i], &one);
        o.n++;
        if (rc == LEAT_NO_MEMORY) {
            if (err)
                *err = one;
            break;
        }
        if (rc != LEAT_OK) {
            all = problems.len && rc != all ? LEAT_INVALID : rc;
            leat_buf_printf(&problems, "%s%s", problems.len ? "; " : "", one.text);
        }
    }
    if (rc != LEAT_NO_MEMORY)
        rc = leat_buf_check(&problems, "the list of what is wrong with the outputs", err);
    if (rc == LEAT_OK && problems.len)
        rc = leat_fail(err, all, "%s", problems.data);
    leat_buf_free(&problems);
    if (rc == LEAT_OK) {
        o.slot_bytes = leat_ring_layout(o.columns, o.n, samples_max);
        if (!o.slot_bytes)
            rc = leat_fail(err, LEAT_LIMIT, "a batch of %u samples of this size does not fit any memory", samples_max);
    }
    if (rc != LEAT_OK)
        leat_outputs_free(&o);
    else
        *out = o;
    return rc;
}

void leat_outputs_free(struct leat_outputs *o)
{
    for (uint32_t i = 0; i < o->n; i++) {
        leat_pipeline_free(o->plans[i].pipeline);
        leat_sound_free(o->plans[i].sound);
    }
    o->n = 0;
}

static const void *ragged_data(const struct leat_output_plan *p, const struct leat_sample *s, size_t *n)
{
    if (p->kind == LEAT_OUTPUT_KEY)
        return leat_chunk_key(s->chunk, s->index, n);
    struct leat_cell cell = leat_chunk_cell(s->chunk, s->index, p->field);
    *n = cell.size;
    return leat_chunk_data(s->chunk, &cell);
}

uint64_t leat_outputs_ragged(const struct leat_outputs *o, uint32_t column, const struct leat_sample *s)
{
    const struct leat_output_plan *p = &o->plans[column];
    size_t n = 0;
    if (p->kind == LEAT_OUTPUT_BOXES)
        return leat_picture_boxes(p, s, NULL, &n, NULL) == LEAT_OK ? n : 0; /* writing says what is wrong */
    if (p->kind == LEAT_OUTPUT_SOUND)
        return o->columns[column].ragged && leat_sounds_bytes(p, s, &n, NULL) == LEAT_OK ? n : 0;
    if (o->columns[column].ragged)
        ragged_data(p, s, &n);
    return n;
}

static leat_status write_ragged(const struct leat_slot_view *view, uint32_t column, uint32_t place,
                                const struct leat_output_plan *p, const struct leat_sample *s,
                                struct leat_scratch *scratch, struct leat_error *err)
{
    size_t n = 0;
    const void *data = NULL;
    char *to;
    leat_status rc = LEAT_OK;
    if (p->kind == LEAT_OUTPUT_BOXES)
        rc = leat_picture_boxes(p, s, NULL, &n, err);
    else if (p->kind == LEAT_OUTPUT_SOUND)
        rc = leat_sounds_bytes(p, s, &n, err);
    else
        data = ragged_data(p, s, &n);
    if (rc != LEAT_OK || !n)
        return rc;
    if (view->kept[column]) {
        to = malloc(n);
        if (!to)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for a value of %zu bytes", n);
        view->kept[column][place] = (struct leat_kept){to, n};
    } else {
        to = view->arena[column] + (place ? view->ends[column][place - 1] : 0);
    }
    if (p->kind == LEAT_OUTPUT_BOXES)
        return leat_picture_boxes(p, s, to, &n, err);
    if (p->kind == LEAT_OUTPUT_SOUND)
        return leat_sounds_write(p, s, scratch, to, n, err);
    memcpy(to, data, n);
    return LEAT_OK;
}

leat_status leat_outputs_write(const struct leat_outputs *o, const struct leat_slot_view *view, uint32_t place,
                               const struct leat_sample *s, struct leat_scratch *scratch, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (uint32_t i = 0; i < o->n; i++) {
        const struct leat_output_plan *p = &o->plans[i];
        const struct leat_ring_column *c = &o->columns[i];
        char *to = view->slot + c->offset + place * c->stride;
        int64_t number;
        if (c->ragged) {
            leat_status one = write_ragged(view, i, place, p, s, scratch, err);
            rc = one == LEAT_OK ? rc : one;
            continue;
        }
        switch (p->kind) {
        case LEAT_OUTPUT_IMAGE:
        case LEAT_OUTPUT_DRAWN:
            break;
        case LEAT_OUTPUT_SOUND:
            rc = rc == LEAT_OK ? leat_sounds_write(p, s, scratch, to, c->stride, err) : rc;
            break;
        case LEAT_OUTPUT_INT:
            number = leat_chunk_cell(s->chunk, s->index, p->field).number;
            memcpy(to, &number, sizeof number);
            break;
        case LEAT_OUTPUT_INDEX:
            number = (int64_t)s->number;
            memcpy(to, &number, sizeof number);
            break;
        default:
            *to = (char)s->valid;
        }
    }
    return rc == LEAT_OK ? leat_pictures_write(o, view, place, s, scratch, err) : rc;
}

void leat_outputs_repeat(const struct leat_outputs *o, const struct leat_slot_view *view, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < o->n; i++) {
        const struct leat_ring_column *c = &o->columns[i];
        if (o->plans[i].kind == LEAT_OUTPUT_IMAGE || o->plans[i].kind == LEAT_OUTPUT_DRAWN ||
            o->plans[i].kind == LEAT_OUTPUT_INT || (o->plans[i].kind == LEAT_OUTPUT_SOUND && !c->ragged))
            memcpy(view->slot + c->offset + to * c->stride, view->slot + c->offset + from * c->stride, c->stride);
    }
}

void leat_outputs_set_valid(const struct leat_outputs *o, const struct leat_slot_view *view, uint32_t place, bool valid)
{
    for (uint32_t i = 0; i < o->n; i++) {
        if (o->plans[i].kind == LEAT_OUTPUT_VALID)
            view->slot[o->columns[i].offset + place] = (char)valid;
    }
}

bool leat_outputs_pictures(const struct leat_outputs *o)
{
    for (uint32_t c = 0; c < o->n; c++) {
        if (o->plans[c].pipeline)
            return true;
    }
    return false;
}

/* Entropy decoding goes by bytes and everything after it by pixels; a byte of a photograph costs about as much as four
 * pixels of it. */
uint64_t leat_outputs_cost(const struct leat_outputs *o, const struct leat_sample *s)
{
    uint64_t cost = 1;
    for (uint32_t c = 0; c < o->n; c++) {
        const struct leat_output_plan *p = &o->plans[c];
        if (!p->pipeline && !o->columns[c].ragged)
            continue;
        struct leat_cell cell = leat_chunk_cell(s->chunk, s->index, p->field);
        cost += p->pipeline ? 4ull * cell.size + (uint64_t)cell.image.width * cell.image.height : cell.size / 16;
    }
    return cost;
}

leat_status leat_sample_fail(const struct leat_sample *s, leat_status rc, struct leat_error *err)
{
    size_t n;
    const char *key = leat_chunk_key(s->chunk, s->index, &n);
    return leat_fail_context(err, rc, "sample %llu ('%.*s')", (unsigned long long)s->number, (int)(n > 200 ? 200 : n),
                             key);
}
