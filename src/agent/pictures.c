#include "agent/pictures.h"

#include <stdlib.h>
#include <string.h>

#include "prep/drawn.h"

bool leat_output_is_picture(uint32_t kind)
{
    return kind == LEAT_OUTPUT_IMAGE || kind == LEAT_OUTPUT_DRAWN || kind == LEAT_OUTPUT_BOXES;
}

static uint32_t dtype_code(enum leat_dtype dtype)
{
    switch (dtype) {
    case LEAT_DTYPE_FLOAT32:
        return LEAT_F32;
    case LEAT_DTYPE_FLOAT16:
        return LEAT_F16;
    case LEAT_DTYPE_BFLOAT16:
        return LEAT_BF16;
    case LEAT_DTYPE_UINT16:
        return LEAT_U16;
    default:
        return LEAT_U8;
    }
}

static leat_status shape_image(const char *name, const struct leat_prep_description *d,
                               const struct leat_pipeline *pipeline, struct leat_ring_column *column,
                               struct leat_error *err)
{
    uint32_t width;
    uint32_t height;
    leat_pipeline_size(pipeline, &width, &height);
    if (!width || !height)
        return leat_fail(err, LEAT_INVALID,
                         "output '%s' has no fixed size: add resize and crop steps (for example resize=256 "
                         "center_crop=224), or take the encoded bytes",
                         name);
    uint32_t channels = leat_pipeline_channels(pipeline);
    bool planar = d->layout == LEAT_LAYOUT_NCHW;
    column->dtype = dtype_code(d->dtype);
    column->dims_n = 3;
    column->dims[0] = planar ? channels : height;
    column->dims[1] = planar ? height : width;
    column->dims[2] = planar ? width : channels;
    column->stride = leat_pipeline_bytes(pipeline, width, height);
    return LEAT_OK;
}

/* The image field that the pipeline follows. */
static leat_status find_like(const char *name, const char *field, const struct leat_schema *schema,
                             struct leat_output_plan *plan, struct leat_error *err)
{
    uint32_t i = leat_schema_find(schema, field);
    if (i == LEAT_FIELDS_MAX || schema->fields[i].type != LEAT_FIELD_IMAGE ||
        (schema->fields[i].needs & LEAT_FIELD_OPTIONAL))
        return leat_fail(err, LEAT_INVALID, "output '%s': follow=%s is not an image field that every sample has", name,
                         field);
    plan->follows = true;
    plan->like = i;
    return LEAT_OK;
}

leat_status leat_picture_make(const struct leat_output *asked, const struct leat_schema *schema,
                              struct leat_output_plan *plan, struct leat_ring_column *column, struct leat_error *err)
{
    struct leat_prep_description d;
    leat_status rc = leat_prep_parse(asked->pipeline ? asked->pipeline : "", &d, err);
    if (rc == LEAT_OK)
        rc = leat_pipeline_make(&d, &plan->pipeline, err);
    if (rc != LEAT_OK)
        return leat_fail_context(err, rc, "output '%s'", asked->name);
    if (*d.follow)
        rc = find_like(asked->name, d.follow, schema, plan, err);
    if (rc != LEAT_OK)
        return rc;
    if (plan->kind == LEAT_OUTPUT_IMAGE)
        return shape_image(asked->name, &d, plan->pipeline, column, err);
    if (plan->kind == LEAT_OUTPUT_DRAWN) {
        column->dtype = LEAT_F32;
        column->dims_n = 1;
        column->dims[0] = LEAT_DRAWN_NUMBERS;
        column->stride = LEAT_DRAWN_NUMBERS * sizeof(float);
        return LEAT_OK;
    }
    if (!plan->follows)
        return leat_fail(err, LEAT_INVALID,
                         "output '%s': boxes need follow=FIELD in their pipeline: the image "
                         "field that they belong to",
                         asked->name);
    return LEAT_OK;
}

static leat_status probe(const struct leat_sample *s, uint32_t field, struct leat_image_info *out,
                         struct leat_error *err)
{
    struct leat_cell cell = leat_chunk_cell(s->chunk, s->index, field);
    return leat_image_probe(leat_chunk_data(s->chunk, &cell), cell.size, out, err);
}

/* What an output asks of the sample. `like` keeps the picture it follows. */
static leat_status view_of(const struct leat_output_plan *p, const struct leat_sample *s, struct leat_image_info *like,
                           struct leat_view *out, struct leat_error *err)
{
    *out = (struct leat_view){.pipeline = p->pipeline, .draws = leat_prep_draws(s->key, s->number, 0, p->view)};
    if (!p->follows)
        return LEAT_OK;
    out->like = like;
    return probe(s, p->like, like, err);
}

static leat_status write_drawn(const struct leat_output_plan *p, const struct leat_sample *s, char *to,
                               struct leat_error *err)
{
    struct leat_image_info like;
    struct leat_image_info info;
    struct leat_view view;
    struct leat_drawn drawn;
    float numbers[LEAT_DRAWN_NUMBERS];
    uint32_t width;
    uint32_t height;
    if (leat_chunk_cell(s->chunk, s->index, p->field).absent) {
        memset(to, 0, sizeof numbers);
        return LEAT_OK;
    }
    leat_status rc = view_of(p, s, &like, &view, err);
    if (rc == LEAT_OK)
        rc = probe(s, p->field, &info, err);
    if (rc == LEAT_OK)
        rc = leat_view_plan(&view, &info, &drawn, err);
    if (rc != LEAT_OK)
        return leat_sample_fail(s, rc, err);
    leat_pipeline_upright(p->pipeline, &info, &width, &height);
    leat_drawn_numbers(&drawn, width, height, numbers);
    memcpy(to, numbers, sizeof numbers);
    return LEAT_OK;
}

/* Whole pictures lie one after the other: one for each way in which a field is decoded, that of its first output. */

static uint32_t first_alike(const struct leat_outputs *o, uint32_t i)
{
    uint32_t k = 0;
    while (k < i && (o->plans[k].kind != LEAT_OUTPUT_IMAGE || o->plans[k].field != o->plans[i].field ||
                     !leat_pipelines_decode_alike(o->plans[k].pipeline, o->plans[i].pipeline)))
        k++;
    return k;
}

static bool is_decoded(const struct leat_outputs *o, uint32_t i, const struct leat_sample *s)
{
    return o->plans[i].kind == LEAT_OUTPUT_IMAGE && first_alike(o, i) == i &&
           !leat_chunk_cell(s->chunk, s->index, o->plans[i].field).absent;
}

/* Of output `i`, rounded up to where the next one begins; 0: it cannot be looked at. */
static uint64_t whole_bytes(const struct leat_outputs *o, uint32_t i, const struct leat_sample *s)
{
    struct leat_image_info info;
    if (probe(s, o->plans[i].field, &info, NULL) != LEAT_OK)
        return 0;
    return (leat_whole_bytes(o->plans[i].pipeline, &info) + LEAT_RING_LINE - 1) / LEAT_RING_LINE * LEAT_RING_LINE;
}

/* Where that of output `i` lies. */
static uint64_t whole_at(const struct leat_outputs *o, uint32_t i, const struct leat_sample *s)
{
    uint64_t at = 0;
    for (uint32_t k = 0, end = first_alike(o, i); k < end; k++)
        at += is_decoded(o, k, s) ? whole_bytes(o, k, s) : 0;
    return at;
}

bool leat_pictures_apart(const struct leat_outputs *o)
{
    bool any = false;
    for (uint32_t i = 0; i < o->n; i++) {
        if (o->plans[i].kind != LEAT_OUTPUT_IMAGE)
            continue;
        any = true;
        if (!leat_pipeline_takes_whole(o->plans[i].pipeline))
            return false;
    }
    return any;
}

void leat_pictures_identify(const struct leat_outputs *o, struct leat_buf *id)
{
    for (uint32_t i = 0; i < o->n; i++) {
        if (o->plans[i].kind != LEAT_OUTPUT_IMAGE || first_alike(o, i) != i)
            continue;
        leat_buf_printf(id, "whole %u ", o->plans[i].field);
        leat_pipeline_identify_decode(o->plans[i].pipeline, id);
    }
}

uint64_t leat_pictures_bytes(const struct leat_outputs *o, const struct leat_sample *s)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < o->n; i++) {
        uint64_t bytes = is_decoded(o, i, s) ? whole_bytes(o, i, s) : LEAT_RING_LINE;
        if (!bytes)
            return 0;
        sum += bytes;
    }
    return sum;
}

leat_status leat_pictures_decode(const struct leat_outputs *o, const struct leat_sample *s,
                                 struct leat_scratch *scratch, char *to, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (uint32_t i = 0; rc == LEAT_OK && i < o->n; i++) {
        if (!is_decoded(o, i, s))
            continue;
        struct leat_cell cell = leat_chunk_cell(s->chunk, s->index, o->plans[i].field);
        rc = leat_whole_decode(o->plans[i].pipeline, scratch, leat_chunk_data(s->chunk, &cell), cell.size,
                               (uint8_t *)to + whole_at(o, i, s), err);
    }
    return rc;
}

/* All images made from one field, the first of which is output `first`. */
static leat_status write_field(const struct leat_outputs *o, const struct leat_slot_view *view, uint32_t place,
                               uint32_t first, const struct leat_sample *s, const char *decoded,
                               struct leat_scratch *scratch, struct leat_error *err)
{
    struct leat_image_info like[LEAT_RING_COLUMNS_MAX];
    struct leat_view views[LEAT_RING_COLUMNS_MAX];
    uint32_t field = o->plans[first].field;
    unsigned n = 0;
    leat_status rc = LEAT_OK;
    for (uint32_t i = first; rc == LEAT_OK && i < o->n; i++) {
        const struct leat_ring_column *c = &o->columns[i];
        if (o->plans[i].kind != LEAT_OUTPUT_IMAGE || o->plans[i].field != field)
            continue;
        rc = view_of(&o->plans[i], s, &like[n], &views[n], err);
        views[n].to = view->slot + c->offset + place * c->stride;
        views[n].to_bytes = c->stride;
        if (decoded)
            views[n].whole = (const uint8_t *)decoded + whole_at(o, i, s);
        n++;
    }
    struct leat_cell cell = leat_chunk_cell(s->chunk, s->index, field);
    if (rc == LEAT_OK && cell.absent)
        for (unsigned i = 0; i < n; i++)
            memset(views[i].to, 0, views[i].to_bytes);
    else if (rc == LEAT_OK)
        rc = leat_pipeline_run_views(scratch, leat_chunk_data(s->chunk, &cell), cell.size, views, n, err);
    return rc == LEAT_OK ? rc : leat_sample_fail(s, rc, err);
}

leat_status leat_pictures_write(const struct leat_outputs *o, const struct leat_slot_view *view, uint32_t place,
                                const struct leat_sample *s, const char *decoded, struct leat_scratch *scratch,
                                struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (uint32_t i = 0; rc == LEAT_OK && i < o->n; i++) {
        const struct leat_output_plan *p = &o->plans[i];
        if (p->kind == LEAT_OUTPUT_DRAWN)
            rc = write_drawn(p, s, view->slot + o->columns[i].offset + place * o->columns[i].stride, err);
        bool first = p->kind == LEAT_OUTPUT_IMAGE;
        for (uint32_t j = 0; first && j < i; j++)
            first = o->plans[j].kind != LEAT_OUTPUT_IMAGE || o->plans[j].field != p->field;
        if (first)
            rc = write_field(o, view, place, i, s, decoded, scratch, err);
    }
    return rc;
}

leat_status leat_picture_boxes(const struct leat_output_plan *p, const struct leat_sample *s, void *to, size_t *bytes,
                               struct leat_error *err)
{
    struct leat_cell cell = leat_chunk_cell(s->chunk, s->index, p->field);
    struct leat_rng draws = leat_prep_draws(s->key, s->number, 0, p->view);
    struct leat_image_info info;
    struct leat_drawn drawn;
    const void *data;
    void *own = NULL;
    leat_status rc = LEAT_OK;
    if (cell.raw % (LEAT_BOX_IN * sizeof(float)))
        rc = leat_fail(err, LEAT_CORRUPT, "%u bytes are not a whole number of boxes (four float32 each)", cell.raw);
    if (rc == LEAT_OK)
        rc = probe(s, p->like, &info, err);
    if (rc == LEAT_OK)
        rc = leat_pipeline_plan(p->pipeline, &info, draws, &drawn, err);
    if (rc == LEAT_OK)
        rc = leat_chunk_view(s->chunk, &cell, &data, &own, err);
    if (rc != LEAT_OK)
        return leat_sample_fail(s, rc, err);
    size_t n = leat_boxes_follow(&drawn, data, cell.raw / (LEAT_BOX_IN * sizeof(float)), to);
    free(own);
    *bytes = n * LEAT_BOX_OUT * sizeof(float);
    return LEAT_OK;
}
