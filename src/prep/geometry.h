/* Which part of a picture is wanted and what becomes of it: pure arithmetic on sizes and random draws.
 *
 * However many steps there are, they come down to one crop of the picture, one resize of it, one window of the
 * result and one place for that window in the output. */
#ifndef LEAT_PREP_GEOMETRY_H
#define LEAT_PREP_GEOMETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/random.h"

enum leat_step_kind {
    LEAT_STEP_CROP,                /* width, height at x, y */
    LEAT_STEP_CENTER_CROP,         /* width, height; a smaller picture is padded with the fill colour */
    LEAT_STEP_RANDOM_CROP,         /* width, height, anywhere; a smaller picture is refused */
    LEAT_STEP_RANDOM_RESIZED_CROP, /* width, height; area in scale, aspect in ratio */
    LEAT_STEP_RESIZE,              /* to width x height, or with height 0 the shorter side to width */
    LEAT_STEP_FLIP,                /* left to right, with a probability */
    LEAT_STEP_KIND_COUNT
};

struct leat_step {
    enum leat_step_kind kind;
    uint32_t width;
    uint32_t height;
    uint32_t x;
    uint32_t y;
    double scale[2]; /* of the picture's area */
    double ratio[2]; /* width / height */
    double probability;
};

#define LEAT_STEPS_MAX 8

struct leat_steps {
    struct leat_step step[LEAT_STEPS_MAX];
    unsigned count;
};

struct leat_box {
    uint32_t x;
    uint32_t y;
    uint32_t width;
    uint32_t height;
};

struct leat_geometry {
    struct leat_box crop;   /* of the picture, upright */
    uint32_t resized[2];    /* width and height the crop becomes */
    struct leat_box window; /* of that, what is kept */
    uint32_t output[2];     /* width and height */
    uint32_t place[2];      /* of the window in the output; around it is fill */
    bool flip;              /* the output, as the last thing */
};

/* Refuses values out of range, more than one resize, a resize behind a padding step, anything behind a flip. */
leat_status leat_steps_check(const struct leat_steps *steps, struct leat_error *err);

/* The size every output will have, or 0x0 where it depends on the picture. */
void leat_steps_output(const struct leat_steps *steps, uint32_t *width, uint32_t *height);

/* Draws in the order of the steps: same draws and same size, same geometry. */
leat_status leat_steps_apply(const struct leat_steps *steps, uint32_t width, uint32_t height, struct leat_rng draws,
                             struct leat_geometry *out, struct leat_error *err);

/* e^x and its inverse from additions, multiplications and divisions alone, so that a crop is the same on every
 * machine; good to a few units in the last place. */
double leat_prep_exp(double x);
double leat_prep_ln(double x); /* x > 0 */

#endif
