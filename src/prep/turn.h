/* Turning pictures upright: EXIF's orientations 2 to 8. What is mirrored costs nothing: weights are counted from the
 * other end. Where rows and columns change places, a stored row is an upright column, and columns become rows at the
 * end. */
#ifndef LEAT_PREP_TURN_H
#define LEAT_PREP_TURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How the stored picture differs from the upright one. Mirrored: counted from the other end of the stored one's axis.
 */
struct leat_turning {
    bool exchanged; /* rows and columns */
    bool mirror_x;  /* of the stored picture's own axes */
    bool mirror_y;
};

struct leat_turning leat_turning_of(uint8_t orientation); /* 0 and 1: upright */

/* Eight rows out of columns: sample y of column x, at columns[x * stride + y], to rows[y * n_padded + x], n_padded a
 * multiple of 8. Columns are readable for 8 samples, and as many as n_padded of them. */
void leat_turn_rows(const uint8_t *columns, size_t stride, size_t n_padded, uint8_t *rows);

#endif
