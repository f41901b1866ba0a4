#include "agent/outputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/pictures.h"
#include "agent/sounds.h"
#include "agent/values.h"
#include "base/buf.h"
#include "base/copy.h"
#include "base/guess.h"
#include "leat/loader.h"

static void list_fields(const struct leat_schema *schema, char *out, size_t n)
{
    size_t at = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < schema->n && at < n; i++)
        at += (size_t)snprintf(out + at, n - at, "%s%s (%s)", i ? ", " : "", schema->fields[i].name,
                               leat_field_type_name(schema->fields[i].type));
}

/* Whether batches say which samples lack the field. */
static bool has_asked(const struct leat_output *outputs, size_t n, const char *field)
{
    for (size_t i = 0; i < n; i++) {
        if (outputs[i].kind == LEAT_OUTPUT_HAS && outputs[i].field && strcmp(outputs[i].field, field) == 0)
            return true;
    }
    return false;
}

static leat_status find_field(const struct leat_output *asked, const struct leat_output_kind_row *row,
                              const struct leat_schema *schema, uint32_t *out, struct leat_error *err)
{
    char fields[300];
    char meant[LEAT_GUESS_TEXT];
    const char *field = asked->field ? asked->field : "";
    uint32_t i = leat_schema_find(schema, field);
    if (i == LEAT_FIELDS_MAX) {
        struct leat_guess g = leat_guess_of(field);
        for (uint32_t k = 0; k < schema->n; k++)
            leat_guess_try(&g, schema->fields[k].name);
        list_fields(schema, fields, sizeof fields);
        return leat_fail(err, LEAT_INVALID, "output '%s': the dataset has no field '%s'%s it has %s", asked->name,
                         field, g.word ? leat_guess_text(&g, meant) : ";", fields);
    }
    leat_status rc = leat_field_check(&schema->fields[i], err);
    if (rc != LEAT_OK)
        return leat_fail_context(err, rc, "output '%s'", asked->name);
    const char *type = leat_field_type_name(schema->fields[i].type);
    if (!leat_kind_list_has(row->fields, type, strlen(type)))
        return leat_fail(err, LEAT_INVALID, "output '%s': field '%s' is of type %s, not %s", asked->name, field, type,
                         row->fields);
    *out = i;
    return LEAT_OK;
}

/* Of a view of blocks. Keys, numbers and the mask are the same for all views. */
static leat_status make_block(const struct leat_output *asked, const struct leat_schema *schema,
                              const struct leat_view *view, uint64_t arena_bytes, struct leat_output_plan *plan,
                              struct leat_ring_column *column, struct leat_error *err)
{
    leat_status rc = leat_tokens_make(asked, schema, view, &plan->block, column, err);
    plan->kind = column->kind = asked->kind;
    plan->field = leat_view_field(view);
    snprintf(column->name, sizeof column->name, "%s", asked->name);
    column->arena_bytes = column->ragged ? arena_bytes : 0;
    return rc;
}

static leat_status make_one(const struct leat_output *asked, const struct leat_schema *schema,
                            const struct leat_view *view, uint64_t arena_bytes, struct leat_output_plan *plan,
                            struct leat_ring_column *column, struct leat_error *err)
{
    const char *name = asked->name;
    if (view && leat_view_is_blocks(view) && asked->kind != LEAT_OUTPUT_KEY && asked->kind != LEAT_OUTPUT_INDEX &&
        asked->kind != LEAT_OUTPUT_VALID && asked->kind != LEAT_OUTPUT_STREAM)
        return make_block(asked, schema, view, arena_bytes, plan, column, err);
    const struct leat_output_kind_row *row = leat_output_kind_find(asked->kind);
    if (!row)
        return leat_fail(err, LEAT_INVALID, "output '%s' is of an unknown kind (%u)", name, asked->kind);
    if (asked->view > LEAT_VIEW_MAX)
        return leat_fail(err, LEAT_INVALID, "output '%s' has view %u: 0 to %d are possible", name, asked->view,
                         LEAT_VIEW_MAX);
    if (leat_tokens_only(asked->kind))
        return leat_fail(err, LEAT_INVALID, "output '%s': %s needs blocks of tokens: give the loader view=\"blocks=…\"",
                         name, row->name);
    plan->kind = row->kind;
    plan->view = asked->view;
    snprintf(column->name, sizeof column->name, "%s", name);
    column->kind = plan->kind;
    leat_status rc = *row->fields ? find_field(asked, row, schema, &plan->field, err) : LEAT_OK;
    if (rc != LEAT_OK)
        return rc;
    if (plan->kind == LEAT_OUTPUT_SOUND)
        return leat_sounds_make(asked, arena_bytes, plan, column, err);
    if (leat_output_is_picture(plan->kind))
        rc = leat_picture_make(asked, schema, plan, column, err);
    else if (*row->fields)
        rc = leat_values_make(asked, &schema->fields[plan->field], arena_bytes, plan, column, err);
    if (plan->kind == LEAT_OUTPUT_INDEX || plan->kind == LEAT_OUTPUT_STREAM) {
        column->dtype = LEAT_I64;
        column->stride = sizeof(int64_t);
    } else if (plan->kind == LEAT_OUTPUT_VALID) {
        column->dtype = LEAT_U8;
        column->stride = 1;
    } else if (plan->kind == LEAT_OUTPUT_KEY || plan->kind == LEAT_OUTPUT_BOXES) {
        column->dtype = LEAT_U8;
        column->ragged = 1;
        column->arena_bytes = arena_bytes;
    }
    return rc;
}

/* A batch cannot show that a value is not there: an output of an optional field says what to put in its place, or asks
 * which samples have it. */
static leat_status check_optional(const struct leat_output *outputs, size_t n, size_t i,
                                  const struct leat_schema *schema, const struct leat_output_plan *plan,
                                  struct leat_error *err)
{
    const struct leat_output_kind_row *row = leat_output_kind_find(plan->kind);
    const struct leat_field *f = &schema->fields[plan->field];
    if (!*row->fields || !(f->needs & LEAT_FIELD_OPTIONAL) || plan->kind == LEAT_OUTPUT_HAS ||
        plan->value.has_fallback || has_asked(outputs, n, f->name))
        return LEAT_OK;
    return leat_fail(err, LEAT_INVALID, "output '%s': field '%s' is optional: %sask for has('%s') as well",
                     outputs[i].name, f->name, strstr(row->words, "default") ? "give it a default, or " : "", f->name);
}

leat_status leat_outputs_make(const struct leat_output *outputs, size_t n, const struct leat_schema *schema,
                              uint32_t samples_max, uint64_t ragged_bytes, struct leat_outputs *out,
                              struct leat_error *err)
{
    return leat_outputs_make_of(NULL, outputs, n, schema, samples_max, ragged_bytes, out, err);
}

leat_status leat_outputs_make_of(const struct leat_view *view, const struct leat_output *outputs, size_t n,
                                 const struct leat_schema *schema, uint32_t samples_max, uint64_t ragged_bytes,
                                 struct leat_outputs *out, struct leat_error *err)
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
        rc = make_one(&outputs[i], schema, view, arena, &o.plans[i], &o.columns[i], &one);
        o.n++;
        if (rc == LEAT_OK)
            rc = check_optional(outputs, n, i, schema, &o.plans[i], &one);
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
        leat_values_free(&o->plans[i].value);
    }
    o->n = 0;
}

static bool lacks(const struct leat_output_plan *p, const struct leat_sample *s)
{
    return leat_chunk_cell(s->chunk, s->index, p->field).absent;
}

/* Bytes of a ragged value. */
static leat_status ragged_bytes(const struct leat_output_plan *p, const struct leat_sample *s, size_t *n,
                                struct leat_error *err)
{
    *n = 0;
    if (p->kind == LEAT_OUTPUT_KEY)
        leat_chunk_key(s->chunk, s->index, n);
    else if (p->kind == LEAT_OUTPUT_BOXES)
        return leat_picture_boxes(p, s, NULL, n, err);
    else if (p->kind == LEAT_OUTPUT_SOUND)
        return lacks(p, s) ? LEAT_OK : leat_sounds_bytes(p, s, n, err);
    else
        *n = leat_values_bytes(p, s);
    return LEAT_OK;
}

uint64_t leat_outputs_ragged(const struct leat_outputs *o, uint32_t column, const struct leat_sample *s)
{
    size_t n;
    if (!o->columns[column].ragged)
        return 0;
    return ragged_bytes(&o->plans[column], s, &n, NULL) == LEAT_OK ? n : 0; /* writing says what is wrong */
}

/* How long they are is known when they are: such columns are kept. */
static leat_status write_borders(const struct leat_slot_view *view, uint32_t column, uint32_t place,
                                 const struct leat_output_plan *p, const struct leat_sample *s, struct leat_error *err)
{
    void *data = NULL;
    size_t n = 0;
    leat_status rc = leat_tokens_borders(&p->block, s, &data, &n, err);
    if (rc == LEAT_OK)
        view->kept[column][place] = (struct leat_kept){data, n};
    return rc;
}

static leat_status write_ragged(const struct leat_outputs *o, const struct leat_slot_view *view, uint32_t column,
                                uint32_t place, const struct leat_sample *s, struct leat_scratch *scratch,
                                struct leat_error *err)
{
    const struct leat_output_plan *p = &o->plans[column];
    const struct leat_ring_column *c = &o->columns[column];
    size_t n;
    char *to;
    struct leat_sample begins;
    if (p->block.view)
        return write_borders(view, column, place, p, s, err);
    if (s->view) { /* its key: that of the sample it begins in */
        begins = *s;
        leat_status found = leat_tokens_first(s, &begins.index, err);
        if (found != LEAT_OK)
            return found;
        s = &begins;
    }
    leat_status rc = ragged_bytes(p, s, &n, err);
    uint32_t sizes = leat_ring_shape_numbers(c);
    if (sizes)
        leat_values_shape(p, s, (uint64_t *)(view->slot + leat_ring_shape_at(c, o->samples_max, place)));
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
        rc = leat_picture_boxes(p, s, to, &n, err);
    else if (p->kind == LEAT_OUTPUT_SOUND)
        rc = leat_sounds_write(p, s, scratch, to, n, err);
    else if (p->kind == LEAT_OUTPUT_KEY)
        memcpy(to, leat_chunk_key(s->chunk, s->index, &n), n);
    else
        rc = leat_values_write(p, c, s, to, n, err);
    if (rc != LEAT_OK) /* not what another batch has left there; JSON of blanks is none */
        memset(to, p->kind == LEAT_OUTPUT_JSON ? ' ' : 0, n);
    return rc;
}

/* What has one shape, but for pictures. */
static leat_status write_fixed(const struct leat_output_plan *p, const struct leat_ring_column *c,
                               const struct leat_sample *s, char *to, struct leat_scratch *scratch,
                               struct leat_error *err)
{
    int64_t number = p->kind == LEAT_OUTPUT_STREAM ? (int64_t)s->stream : (int64_t)s->number;
    if (p->block.view)
        return leat_tokens_write(&p->block, s, to, err);
    switch (p->kind) {
    case LEAT_OUTPUT_SOUND:
        if (!lacks(p, s))
            return leat_sounds_write(p, s, scratch, to, c->stride, err);
        memset(to, 0, c->stride);
        return LEAT_OK;
    case LEAT_OUTPUT_INDEX:
    case LEAT_OUTPUT_STREAM:
        memcpy(to, &number, sizeof number);
        return LEAT_OK;
    case LEAT_OUTPUT_VALID:
        *to = (char)s->valid;
        return LEAT_OK;
    default:
        return leat_values_write(p, c, s, to, c->stride, err);
    }
}

bool leat_outputs_costly(const struct leat_outputs *o, uint32_t column)
{
    uint32_t kind = o->plans[column].kind;
    return kind == LEAT_OUTPUT_IMAGE || kind == LEAT_OUTPUT_DRAWN ||
           (kind == LEAT_OUTPUT_SOUND && !o->columns[column].ragged);
}

static char *place_of(const struct leat_ring_column *c, const struct leat_slot_view *view, uint32_t place)
{
    return view->slot + c->offset + place * c->stride;
}

leat_status leat_outputs_write_light(const struct leat_outputs *o, const struct leat_slot_view *view, uint32_t place,
                                     const struct leat_sample *s, struct leat_scratch *scratch, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (uint32_t i = 0; i < o->n; i++) {
        const struct leat_ring_column *c = &o->columns[i];
        leat_status one = LEAT_OK;
        if (c->ragged)
            one = write_ragged(o, view, i, place, s, scratch, err);
        else if (!leat_outputs_costly(o, i))
            one = write_fixed(&o->plans[i], c, s, place_of(c, view, place), scratch, err);
        rc = one == LEAT_OK ? rc : one;
    }
    return rc;
}

leat_status leat_outputs_write_costly(const struct leat_outputs *o, const struct leat_slot_view *view, uint32_t place,
                                      const struct leat_sample *s, const char *decoded, struct leat_scratch *scratch,
                                      struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (uint32_t i = 0; i < o->n; i++) {
        const struct leat_ring_column *c = &o->columns[i];
        leat_status one = LEAT_OK;
        if (!c->ragged && o->plans[i].kind == LEAT_OUTPUT_SOUND)
            one = write_fixed(&o->plans[i], c, s, place_of(c, view, place), scratch, err);
        rc = one == LEAT_OK ? rc : one;
    }
    return rc == LEAT_OK ? leat_pictures_write(o, view, place, s, decoded, scratch, err) : rc;
}

leat_status leat_outputs_write(const struct leat_outputs *o, const struct leat_slot_view *view, uint32_t place,
                               const struct leat_sample *s, struct leat_scratch *scratch, struct leat_error *err)
{
    leat_status rc = leat_outputs_write_light(o, view, place, s, scratch, err);
    return rc == LEAT_OK ? leat_outputs_write_costly(o, view, place, s, NULL, scratch, err) : rc;
}

void leat_outputs_apart(const struct leat_outputs *o, struct leat_outputs *out)
{
    uint64_t at = 0;
    *out = *o;
    for (uint32_t i = 0; i < o->n; i++) {
        if (!leat_outputs_costly(o, i))
            continue;
        out->columns[i].offset = at;
        at += (o->columns[i].stride + LEAT_RING_LINE - 1) / LEAT_RING_LINE * LEAT_RING_LINE;
    }
    out->samples_max = 1;
    out->slot_bytes = at;
}

void leat_outputs_put(const struct leat_outputs *o, const struct leat_slot_view *view, uint32_t place,
                      const struct leat_outputs *apart, const char *from)
{
    for (uint32_t i = 0; i < o->n; i++) {
        if (leat_outputs_costly(o, i))
            leat_copy_past_caches(place_of(&o->columns[i], view, place), from + apart->columns[i].offset,
                                  o->columns[i].stride); /* the rank reads it when its turn comes */
    }
}

/* Whether a place that could not be filled gets another sample's value. */
static bool repeats(const struct leat_outputs *o, uint32_t i)
{
    const struct leat_output_plan *p = &o->plans[i];
    if (o->columns[i].ragged || p->kind == LEAT_OUTPUT_INDEX || p->kind == LEAT_OUTPUT_STREAM ||
        p->kind == LEAT_OUTPUT_VALID)
        return false;
    for (uint32_t j = 0; j < o->n && (p->kind == LEAT_OUTPUT_LENGTH || p->kind == LEAT_OUTPUT_HAS); j++) {
        if (o->columns[j].ragged && o->plans[j].kind != LEAT_OUTPUT_KEY && o->plans[j].field == p->field)
            return false;
    }
    return true;
}

void leat_outputs_repeat(const struct leat_outputs *o, const struct leat_slot_view *view, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < o->n; i++) {
        const struct leat_ring_column *c = &o->columns[i];
        if (repeats(o, i))
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
        cost += p->pipeline ? 4ull * cell.size + (uint64_t)cell.image.width * cell.image.height : cell.raw / 16;
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
