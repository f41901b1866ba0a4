/* Running pipelines by their text, for tests. */
#ifndef LEAT_TESTS_PREP_UNIT_H
#define LEAT_TESTS_PREP_UNIT_H

#include "images.h"
#include "prep/pipeline.h"
#include "unit.h"

static inline struct leat_scratch *scratch_open(const char *level)
{
    struct leat_scratch *s;
    struct leat_error err;
    assert_ok(leat_scratch_open(0, level ? leat_kernels_named(level) : NULL, &s, &err), err);
    return s;
}

static inline struct leat_pipeline *pipeline_make(const char *text)
{
    struct leat_prep_description d;
    struct leat_pipeline *p;
    struct leat_error err;
    assert_ok(leat_prep_parse(text, &d, &err), err);
    assert_ok(leat_pipeline_make(&d, &p, &err), err);
    return p;
}

static inline leat_status run_text(struct leat_scratch *s, const char *text, const struct encoded *e, void *out,
                                   uint64_t bytes, struct leat_error *err)
{
    struct leat_pipeline *p = pipeline_make(text);
    leat_status rc = leat_pipeline_run(p, s, e->data, e->size, leat_rng(1, 2), out, bytes, err);
    leat_pipeline_free(p);
    return rc;
}

/* A picture of some size, encoded, with nothing else to free. */
static inline struct encoded jpeg_of(uint32_t width, uint32_t height, const struct jpeg_choice *choice)
{
    struct picture p = picture_make(width, height, width * 31 + height);
    struct encoded e = jpeg_make(&p, choice);
    free(p.rgb);
    return e;
}

#endif
