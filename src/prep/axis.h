/* One direction of a resize: for every output position, which samples it is made of and with what weights.
 *
 * The rules are those of Pillow and of torchvision's antialiased resize: the filter's support grows with the
 * reduction, it is cut at the edge of the crop and the rest is scaled to a sum of 1. Weights are 16-bit with
 * one common shift, chosen as torchvision chooses it, so that results agree with it bit for bit. */
#ifndef LEAT_PREP_AXIS_H
#define LEAT_PREP_AXIS_H

#include <stdbool.h>
#include <stdint.h>

#include "prep/arena.h"

enum leat_filter {
    LEAT_FILTER_BILINEAR,
    LEAT_FILTER_BICUBIC,
    LEAT_FILTER_NEAREST, /* for masks: no new values appear */
    LEAT_FILTER_COUNT
};

struct leat_axis_spec {
    enum leat_filter filter;
    uint32_t samples; /* there are; the filter is cut at both ends of them */
    double offset;    /* of the box among the samples; a fraction only where a plane is subsampled */
    double length;    /* of the box, in samples */
    uint32_t size;    /* outputs the whole box becomes */
    uint32_t first;   /* of them, those wanted */
    uint32_t count;
    bool reversed; /* last output first */
    bool mirrored; /* the samples lie in memory in the other order: begin and start count from their other end */
};

/* How a vector unit wants the weights of the horizontal pass: outputs in groups, each group in lanes that
 * look at one window of samples. All 0: it does not. */
struct leat_axis_shape {
    uint32_t group;  /* outputs */
    uint32_t lane;   /* outputs that share a window */
    uint32_t window; /* bytes */
    uint32_t wide;   /* bytes, where it can look at more at some cost; 0: it cannot */
};

struct leat_axis {
    uint32_t count;  /* outputs */
    uint32_t taps;   /* samples of an output, at most */
    uint32_t stride; /* of weight; even, zero outside an output's own */
    uint32_t shift;
    uint32_t begin; /* the first sample that is used at all, */
    uint32_t end;   /* and one after the last */
    bool copy;      /* outputs are the samples from begin to end, unchanged */

    uint32_t *start; /* by output, counted from begin; taps further it is never beyond end */
    int16_t *weight; /* by output and tap */

    /* The same again for vector units; groups is 0 where an output's samples do not fit the window. */
    uint32_t groups;
    uint32_t lanes;  /* of a group */
    bool wide;       /* some sample lies outside the window, and all inside the wide one */
    uint32_t *base;  /* by lane */
    uint8_t *index;  /* by output: where in the window a pair of samples starts, spread to 4 bytes */
    int16_t *packed; /* by group, pair of taps, output: two weights */
};

/* Everything comes from the arena. */
leat_status leat_axis_make(struct leat_axis *axis, const struct leat_axis_spec *spec,
                           const struct leat_axis_shape *shape, struct leat_arena *arena, struct leat_error *err);

#endif
