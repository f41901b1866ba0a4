/* Huffman tables of a baseline JPEG as the entropy decoder looks them up: by the next bits of the file. */
#ifndef LEAT_PREP_JPEG_CODES_H
#define LEAT_PREP_JPEG_CODES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

/* Whether codes of these lengths can exist. NULL is no table. */
bool leat_jpeg_codes_sound(const JHUFF_TBL *table);
bool leat_jpeg_codes_first_sound(
    const JHUFF_TBL *table); /* and its symbols are those of first coefficients, up to 15 */

/* 8 KiB for a table of the others, so that those of a file stay in the first-level cache. */
#define LEAT_CODES_BITS       11
#define LEAT_CODES_FIRST_BITS 9

/* How far a symbol goes that ends a block: farther than any that runs over the block's end. */
#define LEAT_CODES_END 80

/* Codes that are too long for the table are found by their numbers. */
struct leat_jpeg_long_codes {
    uint32_t limit[18]; /* by length: codes of that length are below this, left-aligned in 16 bits; 0: none */
    int32_t offset[18]; /* from a code to its place among the values */
    JHUFF_TBL made_of;  /* what it was made from: files of one origin share their tables */
    bool made;
};

/* Of first coefficients. Entry: bits 0-5 how many bits the symbol takes, extra bits included; 8-11 how many of them are
 * extra. 0: the code is longer, or does not exist. */
struct leat_jpeg_first_codes {
    uint16_t look[1 << LEAT_CODES_FIRST_BITS];
    struct leat_jpeg_long_codes rest;
};

/* Of the others: a symbol and its coefficient, and the next symbol with its own where that is in sight too.
 *
 * Entry: bits 0-5 how many bits they take; 6-9 zeros before the first coefficient; 10-16 how far they go together, the
 * last one's place included, LEAT_CODES_END + 1 for the end of a block; 17-24 the first coefficient; 25-31 the second,
 * whose place is the last that they go to; 0 where there is none, and then that place is the first's.
 *
 * Where the extra bits of the first are not in sight, or it is too large, bits 0-5 are 0, 17-20 hold how many extra
 * bits it has, and 21-24 the code's own length; with no length, the code is longer or does not exist. */
struct leat_jpeg_codes {
    uint32_t look[1 << LEAT_CODES_BITS];
    struct leat_jpeg_long_codes rest;
};

#define LEAT_CODES_TAKES(e)  ((e)&63)
#define LEAT_CODES_RUN(e)    ((e) >> 6 & 15)
#define LEAT_CODES_FAR(e)    ((e) >> 10 & 127)
#define LEAT_CODES_VALUE(e)  ((int32_t)((e) << 7) >> 24)
#define LEAT_CODES_SECOND(e) ((int32_t)(e) >> 25)
#define LEAT_CODES_EXTRA(e)  ((e) >> 17 & 15)
#define LEAT_CODES_LENGTH(e) ((e) >> 21 & 15)

/* The tables must be sound. What was made from the same one is kept. */
void leat_jpeg_first_codes_make(struct leat_jpeg_first_codes *codes, const JHUFF_TBL *from);
void leat_jpeg_codes_make(struct leat_jpeg_codes *codes, const JHUFF_TBL *from);

/* The symbol whose code `bits` starts with, of any length, and that length; false when there is none. */
bool leat_jpeg_codes_find(const struct leat_jpeg_long_codes *codes, uint64_t bits, unsigned *length, uint8_t *symbol);

#endif
