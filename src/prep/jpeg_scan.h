/* Entropy decoding of baseline JPEG, in place of libjpeg's where the file is of the common kind: one interleaved scan
 * of Huffman codes. libjpeg reads the headers; the tables it found are used here.
 *
 * Why it is faster: a code, the length of its extra bits and its run of zeros come from one look into a table; the
 * bits are topped up eight bytes at a time; nothing but the end of a block depends on a branch that cannot be
 * foreseen; and blocks outside the crop are passed over without being written down. */
#ifndef LEAT_PREP_JPEG_SCAN_H
#define LEAT_PREP_JPEG_SCAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

#include "prep/kernels.h"

struct leat_jpeg_planes;

/* Looked up at once: 4 KiB a table, so that those of a file stay in the first-level cache; few codes are longer.
 * Photographs with tables of their own pay for every bit more when the tables are made: 11 bits cost 2 % more at ~500
 * pixels. */
#define LEAT_SCAN_BITS 10

/* One Huffman table, by the next bits of the file.
 *
 * entry: bits 0-7 how many bits the symbol takes, its extra bits included; 8-14 zeros before the coefficient; 16-31
 * the coefficient, where its extra bits are in sight too. Else bit 15 is set and 16-20 hold the code's own length,
 * 24-27 the extra bits' count; with no length, the code itself is longer or does not exist.
 *
 * jump, for blocks that are not wanted: as many whole symbols as are in sight. Bits 0-7 how many bits they take, 8-15
 * how far they go with the place of an end of block counted, 16-23 how far they really go. 0: not one. */
struct leat_scan_table {
    uint32_t entry[1 << LEAT_SCAN_BITS];
    uint32_t jump[1 << LEAT_SCAN_BITS];
    uint64_t limit[18]; /* by length: codes of that length are below this, left-aligned in 16 bits; 0: none */
    int32_t offset[18]; /* from a code to its place among the values */
    JHUFF_TBL made_of;  /* what it was made from: files of one origin share their tables */
    bool ac;
    bool made;
};

struct leat_bit_source {
    const uint8_t *end;
    int padding; /* bits handed out that are zeros after the end of the data */
};

struct leat_scan {
    struct leat_scan_table dc[NUM_HUFF_TBLS];
    struct leat_scan_table ac[NUM_HUFF_TBLS];

    /* of the file at hand */
    const struct jpeg_decompress_struct *cinfo;
    const struct leat_kernels *kernels;
    const uint8_t *at;
    struct leat_bit_source from;
    uint64_t bits;         /* left-aligned */
    int count;             /* of them that are there */
    uint32_t last_dc[3];   /* wraps where a file is made to make it */
    uint32_t restart_left; /* MCUs until the next restart marker */
    uint32_t restart_next; /* its number */
    uint32_t mcus;         /* of a row */
    uint32_t first;        /* columns of MCUs that are wanted */
    uint32_t last;
    const uint16_t *quant[3]; /* in the block's order */
    const char *damage;       /* what is wrong with the data; from there on blocks are grey */
};

#define LEAT_SCAN_OVERRUN "coefficients run over the end of their block"

/* Whether codes of these lengths can exist. NULL is no table. */
bool leat_scan_table_sound(const JHUFF_TBL *table);
bool leat_scan_first_sound(const JHUFF_TBL *table); /* and its symbols are those of first coefficients, at most 15 */

/* Whether the file at its first scan is of the common kind, its tables sound. */
bool leat_scan_suits(const struct jpeg_decompress_struct *cinfo);

/* After jpeg_read_header(). cinfo must stay as it is until the last row. */
void leat_scan_begin(struct leat_scan *scan, const struct jpeg_decompress_struct *cinfo,
                     const struct leat_kernels *kernels, uint32_t first, uint32_t last);

/* The next row of MCUs: into the planes' buffers, or passed over. */
void leat_scan_row(struct leat_scan *scan, const struct leat_jpeg_planes *planes, bool wanted);

#endif
