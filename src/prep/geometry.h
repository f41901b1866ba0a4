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
    LEAT_STEP_VFLIP,               /* upside down, with a probability */
    LEAT_STEP_LONGEST,             /* the longer side to width */
    LEAT_STEP_LETTERBOX,           /* resized to fit width x height, the rest filled evenly around it */
    LEAT_STEP_SCALE_JITTER,        /* resized by a factor in scale of what fits width x height, then cut or filled */
    LEAT_STEP_KIND_COUNT
};

/* What padding is made of. */
enum leat_border {
    LEAT_BORDER_CONSTANT,  /* the fill colour */
    LEAT_BORDER_EDGE,      /* the picture's last pixel again and again */
    LEAT_BORDER_REFLECT,   /* the picture backwards, without its last pixel */
    LEAT_BORDER_SYMMETRIC, /* the picture backwards */
    LEAT_BORDER_COUNT
};

struct leat_step {
    enum leat_step_kind kind;
    uint32_t width;
    uint32_t height;
    uint32_t x;
    uint32_t y;
    double scale[2]; /* of the picture's area; of what fits */
    double ratio[2]; /* width / height */
    double probability;
    uint32_t padding; /* random crop: pixels added on every side first */
    uint32_t limit;   /* resize to a shorter side: most of the longer one; 0: none */
    enum leat_border border;
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
    bool vflip;
    enum leat_border border; /* what is around the window */
};

/* Refuses values out of range, more than one resize, a resize after a padding step, anything after a flip. */
leat_status leat_steps_check(const struct leat_steps *steps, struct leat_error *err);

/* The size every output will have, or 0x0 where it depends on the picture. */
void leat_steps_output(const struct leat_steps *steps, uint32_t *width, uint32_t *height);

/* Draws in the order of the steps: same draws and same size, same geometry. */
leat_status leat_steps_apply(const struct leat_steps *steps, uint32_t width, uint32_t height, struct leat_rng draws,
                             struct leat_geometry *out, struct leat_error *err);

#endif
