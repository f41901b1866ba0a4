/* Turning pictures upright: EXIF's orientations 2 to 8. Rare, so the part that is wanted is kept whole. */
#ifndef LEAT_PREP_TURN_H
#define LEAT_PREP_TURN_H

#include "prep/sink.h"

struct leat_turn {
    struct leat_rows rows; /* first: a turn is a receiver of whole rows, as stored */
    unsigned planes;
    uint32_t width; /* as stored, of the part that is wanted */
    uint32_t height;
    uint32_t taken;
    uint8_t *plane[3];
    uint8_t *line[3]; /* a turned row */
};

/* Whether width and height change places. */
bool leat_orientation_swaps(uint8_t orientation);

/* A box of the upright picture, in the stored one of width x height. */
struct leat_box leat_orientation_box(uint8_t orientation, uint32_t width, uint32_t height, const struct leat_box *box);

leat_status leat_turn_open(struct leat_turn *turn, struct leat_arena *arena, unsigned planes, uint32_t width,
                           uint32_t height, struct leat_error *err);
void leat_turn_into(struct leat_turn *turn, uint8_t orientation, struct leat_rows *to);

#endif
