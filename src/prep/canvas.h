/* A whole picture as planes of bytes, and operations on it. What maps levels to levels is gathered in tables and done
 * in one pass. All memory comes from the arena; there is nothing to close. */
#ifndef LEAT_PREP_CANVAS_H
#define LEAT_PREP_CANVAS_H

#include "prep/arena.h"
#include "prep/effect.h"
#include "prep/geometry.h"
#include "prep/kernels.h"

struct leat_canvas {
    uint32_t width;
    uint32_t height;
    unsigned planes;   /* 1 or 3 */
    uint8_t *plane[3]; /* one after the other, without a gap; room after the last */
    uint8_t *other[3]; /* as large, for what cannot be done in place; NULL until it is needed */
    const struct leat_kernels *kernels;
    struct leat_arena *arena;
    bool filled; /* outside of what is moved is `fill`; otherwise 0 */
    uint8_t fill[3];
    bool pending; /* the tables have not been applied yet */
    uint8_t table[3][256];
    /* A mixture under way: the picture as it was, and the sum so far. */
    uint8_t *kept[3];
    float *sum[3];
    float weight; /* of the chain under way; below 0: none */
};

leat_status leat_canvas_open(struct leat_canvas *canvas, const struct leat_kernels *kernels, struct leat_arena *arena,
                             unsigned planes, uint32_t width, uint32_t height, struct leat_error *err);

/* Makes the padding around the window from what is in it. The window has been flipped already. */
void leat_canvas_border(struct leat_canvas *canvas, const struct leat_geometry *geometry);

leat_status leat_canvas_run(struct leat_canvas *canvas, const struct leat_ops *ops, struct leat_error *err);

/* One operation each, from plane to plane; smooth.c and warp.c. */
leat_status leat_canvas_blur(struct leat_canvas *canvas, const struct leat_op *op, struct leat_error *err);
leat_status leat_canvas_sharpen(struct leat_canvas *canvas, double factor, struct leat_error *err);
leat_status leat_canvas_warp(struct leat_canvas *canvas, const struct leat_op *op, struct leat_error *err);

/* The other planes, taken if they are not there yet; and what is in them becomes the picture. */
leat_status leat_canvas_others(struct leat_canvas *canvas, struct leat_error *err);
void leat_canvas_swap(struct leat_canvas *canvas);

#endif
