/* Entropy decoding of baseline JPEG, in place of libjpeg's where the file is of the common kind: one interleaved scan
 * of Huffman codes. libjpeg reads the headers; the tables it found are used here.
 *
 * Why it is faster: two symbols and their coefficients come from one look into a table; bits are topped up beside the
 * look and without a branch, from bytes that were freed of what is stuffed in between; nothing but the end of a block
 * and rare symbols depends on a branch that cannot be foreseen; and blocks outside the crop are passed over without
 * being written down. */
#ifndef LEAT_PREP_JPEG_SCAN_H
#define LEAT_PREP_JPEG_SCAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

#include "prep/jpeg_codes.h"
#include "prep/jpeg_stream.h"
#include "prep/kernels.h"

struct leat_jpeg_planes;

struct leat_bit_source {
    const uint8_t *end;
    int padding; /* bits handed out that are zeros after the end of the data */
};

struct leat_scan {
    struct leat_jpeg_first_codes dc[NUM_HUFF_TBLS];
    struct leat_jpeg_codes ac[NUM_HUFF_TBLS];

    /* of the file at hand */
    const struct jpeg_decompress_struct *cinfo;
    const struct leat_kernels *kernels;
    struct leat_jpeg_stream stream;
    struct leat_jpeg_reader reader;
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

/* Whether the file at its first scan is of the common kind, its tables sound. */
bool leat_scan_suits(const struct jpeg_decompress_struct *cinfo);

/* After jpeg_read_header(). cinfo must stay as it is until the last row. */
void leat_scan_begin(struct leat_scan *scan, const struct jpeg_decompress_struct *cinfo,
                     const struct leat_kernels *kernels, uint32_t first, uint32_t last);

/* The next row of MCUs: into the planes' buffers, or passed over. */
void leat_scan_row(struct leat_scan *scan, const struct leat_jpeg_planes *planes, bool wanted);

#endif
