/* What was drawn for a sample, as numbers: for boxes, points and masks that have to follow their picture. */
#ifndef LEAT_PREP_DRAWN_H
#define LEAT_PREP_DRAWN_H

#include "prep/pipeline.h"

/* The numbers of an output: part of the interface. */
enum leat_drawn_number {
    LEAT_DRAWN_PICTURE = 0, /* width and height, upright */
    LEAT_DRAWN_CROP = 2,    /* x, y, width, height in the picture */
    LEAT_DRAWN_OUTPUT = 6,  /* width and height */
    LEAT_DRAWN_FLIP = 8,    /* 1 or 0 */
    LEAT_DRAWN_VFLIP = 9,   /* 1 or 0 */
    LEAT_DRAWN_ANGLE = 10,  /* degrees, clockwise; of all rotations together */
    LEAT_DRAWN_MATRIX = 11, /* 3 x 3, rows first: from places in the picture to places in the output */
    LEAT_DRAWN_NUMBERS = 20
};

/* Places are counted in pixels from the corner at the top left: the first pixel reaches from 0 to 1. What AugMix moves
 * in its chains is not counted: its mixture has no single place for anything. */
void leat_drawn_matrix(const struct leat_drawn *drawn, double out[9]);
void leat_drawn_numbers(const struct leat_drawn *drawn, uint32_t width, uint32_t height, float out[LEAT_DRAWN_NUMBERS]);

#define LEAT_BOX_IN  4 /* floats: left, top, right, bottom */
#define LEAT_BOX_OUT 5 /* and which one of those that came in */

/* Boxes of the picture as they lie in the output: around their corners, cut at its edges; those of which less than a
 * pixel is left in either direction are dropped. Returns how many are left; out has room for as many, and may be
 * NULL. Neither needs to be aligned. */
size_t leat_boxes_follow(const struct leat_drawn *drawn, const void *in, size_t n, void *out);

#endif
