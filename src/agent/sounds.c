#include "agent/sounds.h"

#include <stdlib.h>

#include "leat/loader.h"

/* A sound is several times its file; a batch that needs more than this gets memory of its own. */
#define RAGGED_TIMES 4

leat_status leat_sounds_make(const struct leat_output *asked, uint64_t arena_bytes, struct leat_output_plan *plan,
                             struct leat_ring_column *column, struct leat_error *err)
{
    struct leat_sound_description d;
    uint32_t channels;
    uint32_t bands;
    uint64_t length;
    leat_status rc = leat_sound_parse(asked->pipeline ? asked->pipeline : "", &d, err);
    if (rc == LEAT_OK)
        rc = leat_sound_make(&d, &plan->sound, err);
    if (rc != LEAT_OK)
        return leat_fail_context(err, rc, "output '%s'", asked->name);
    leat_sound_shape(plan->sound, &channels, &bands, &length);
    if (!length) {
        column->dtype = LEAT_U8;
        column->ragged = 1;
        column->arena_bytes = arena_bytes * RAGGED_TIMES;
        return LEAT_OK;
    }
    column->dtype = d.half ? LEAT_F16 : LEAT_F32;
    column->dims[column->dims_n++] = channels;
    if (bands)
        column->dims[column->dims_n++] = bands;
    column->dims[column->dims_n++] = length;
    column->stride = length * channels * (bands ? bands : 1) * (d.half ? 2 : 4);
    return LEAT_OK;
}

leat_status leat_sounds_bytes(const struct leat_output_plan *p, const struct leat_sample *s, size_t *bytes,
                              struct leat_error *err)
{
    struct leat_cell cell = leat_chunk_cell(s->chunk, s->index, p->field);
    uint64_t n = 0;
    const void *data;
    void *own;
    leat_status rc = leat_chunk_view(s->chunk, &cell, &data, &own, err);
    if (rc == LEAT_OK) {
        rc = leat_sound_bytes(p->sound, data, cell.raw, &n, err);
        free(own);
    }
    if (rc != LEAT_OK)
        return leat_sample_fail(s, rc, err);
    *bytes = n;
    return LEAT_OK;
}

leat_status leat_sounds_write(const struct leat_output_plan *p, const struct leat_sample *s,
                              struct leat_scratch *scratch, void *to, uint64_t bytes, struct leat_error *err)
{
    struct leat_cell cell = leat_chunk_cell(s->chunk, s->index, p->field);
    struct leat_rng draws = leat_prep_draws(s->key, s->number, 0, p->view);
    const void *data;
    void *own;
    leat_status rc = leat_chunk_view(s->chunk, &cell, &data, &own, err);
    if (rc == LEAT_OK) {
        rc = leat_sound_run(p->sound, scratch, data, cell.raw, draws, to, bytes, err);
        free(own);
    }
    return rc == LEAT_OK ? rc : leat_sample_fail(s, rc, err);
}
