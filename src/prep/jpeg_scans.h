/* Entropy decoding of progressive JPEG, in place of libjpeg's where the file is of the common kind: complete, in order,
 * Huffman codes. libjpeg reads the headers up to the first scan; whatever is unusual or damaged is left to it from
 * there on, as if nothing had been tried.
 *
 * Why it is faster: a block remembers in one word which coefficients it has, so that the places a refining scan
 * passes over are counted at once and not one by one; blocks outside the crop have nothing but that word; and only
 * those inside are transformed. */
#ifndef LEAT_PREP_JPEG_SCANS_H
#define LEAT_PREP_JPEG_SCANS_H

#include "prep/arena.h"
#include "prep/jpeg_scan.h"

#define LEAT_SCANS_BITS 9

/* One Huffman table, by the next bits of the file. */
struct leat_scans_table {
    uint16_t look[1 << LEAT_SCANS_BITS]; /* length << 8 | symbol; 0: longer, or there is none */
    uint32_t limit[18];                  /* as in struct leat_scan_table */
    int32_t offset[18];
    uint8_t values[256];
    bool there;
};

/* A component's blocks. The grid is that of whole MCUs; a scan of this component alone goes over `width` x `height`. */
struct leat_scans_plane {
    uint32_t across;
    uint32_t down;
    uint32_t width;
    uint32_t height;
    uint64_t *has;   /* by block: bit 63 - k is set when coefficient k, in the file's order, is not zero */
    int16_t *values; /* of the blocks in the box; 64 each, in the block's order. NULL: the component is not wanted */
    uint32_t left;   /* the box, in blocks */
    uint32_t top;
    uint32_t right;
    uint32_t bottom;
    int8_t bits_left[64]; /* of each coefficient still to come; -1: none has come */
};

struct leat_scans {
    struct leat_scans_table dc[NUM_HUFF_TBLS];
    struct leat_scans_table ac[NUM_HUFF_TBLS];

    /* of the file at hand */
    struct jpeg_decompress_struct *cinfo;
    const struct leat_kernels *kernels;
    struct leat_bit_source from;
    const uint8_t *at;
    unsigned components;
    unsigned restart_interval;
    struct leat_scans_plane plane[3];
    const char *damage; /* that libjpeg would pass over without a word; NULL: none was met */
};

/* After jpeg_read_header(): all scans, for the columns of MCUs first … last of the rows planes->step_first … step_last.
 * False: not a file of the common kind, damaged, or too large to be tried; cinfo is as it was. Jumps when there
 * is no memory. */
bool leat_scans_read(struct leat_scans *scans, struct jpeg_decompress_struct *cinfo, const struct leat_arena *arena,
                     const struct leat_kernels *kernels, uint32_t scans_max, const struct leat_jpeg_planes *planes,
                     uint32_t first, uint32_t last);

/* The row planes->step of MCUs into the planes' buffers. */
void leat_scans_row(const struct leat_scans *scans, const struct leat_jpeg_planes *planes);

#endif
