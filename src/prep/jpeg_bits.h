/* What the entropy decoders share: a reader of bits, the order of coefficients, the way from a block to samples. */
#ifndef LEAT_PREP_JPEG_BITS_H
#define LEAT_PREP_JPEG_BITS_H

#include <string.h>

#include "prep/jpeg_scan.h"

/* Symbols lead so far, one at the last place but one and the end of the block after it. */
#define LEAT_JPEG_ORDER_MAX (64 + LEAT_CODES_END)

/* From the order in the file to the place in the block. After the 64 all lead to one place that nobody reads. */
static const uint8_t leat_jpeg_order[LEAT_JPEG_ORDER_MAX] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18,
    11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43,
    36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45,
    38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63, [64 ... LEAT_JPEG_ORDER_MAX - 1] = 64,
};

/* The extra bits after a code are a number with its sign folded in: below half, it is negative. `bits` starts with
 * them. */
static inline __attribute__((always_inline)) int leat_bits_signed(uint64_t bits, unsigned extra)
{
    int raw = (int)(bits >> 1 >> (63 - extra));
    int below = (int)(~bits >> 63);
    return raw - (((1 << extra) - 1) & -below);
}

/* The standard allows ten blocks to an MCU, and libjpeg decodes no more. */
static inline bool leat_jpeg_mcu_legal(const struct jpeg_decompress_struct *cinfo)
{
    int blocks = 0;
    for (int i = 0; i < cinfo->num_components; i++)
        blocks += cinfo->comp_info[i].h_samp_factor * cinfo->comp_info[i].v_samp_factor;
    return cinfo->num_components == 1 || blocks <= D_MAX_BLOCKS_IN_MCU;
}

/* The reader's state while a scan is decoded: kept in registers. */
struct leat_bits {
    uint64_t bits;
    uint32_t count; /* only its low byte counts: whole entries are subtracted from it */
    const uint8_t *at;
};

#define LEAT_BITS_COUNT(b) ((uint8_t)(b)->count)

/* The code of the marker at or after `at`, and where it stands; 0 at the end. As libjpeg looks for one: any number of
 * 0xff may come before it, and what is no marker is passed over. */
static inline uint8_t leat_bits_marker(const uint8_t *at, const uint8_t *end, const uint8_t **behind)
{
    while (at < end && (at = memchr(at, 0xff, (size_t)(end - at)))) {
        while (at < end && *at == 0xff)
            at++;
        if (at < end && *at != 0) {
            *behind = at + 1;
            return *at;
        }
    }
    return 0;
}

/* Byte by byte: where an 0xff comes, and at the end. A marker stays where it is, and zeros follow. */
static __attribute__((noinline)) struct leat_bits leat_bits_refill_slowly(struct leat_bit_source *s, struct leat_bits b)
{
    b.count = LEAT_BITS_COUNT(&b);
    b.bits &= b.count ? ~(uint64_t)0 << (64 - b.count) : 0;
    while (b.count < 56) {
        uint64_t byte = 0;
        const uint8_t *next = b.at;
        while (next < s->end && *next == 0xff)
            next++;
        if (next == b.at && next < s->end) {
            byte = *b.at++;
        } else if (next < s->end && *next == 0) {
            byte = 0xff; /* however many there were */
            b.at = next + 1;
        } else {
            s->padding += 8;
        }
        b.bits |= byte << (56 - b.count);
        b.count += 8;
    }
    return b;
}

static inline __attribute__((always_inline)) void leat_bits_refill(struct leat_bit_source *s, struct leat_bits *b)
{
    if (s->end - b->at >= 8) {
        uint64_t x;
        memcpy(&x, b->at, 8);
        /* No byte is 0xff: none of the complement is 0. */
        if (!((~x - 0x0101010101010101u) & x & 0x8080808080808080u)) {
            unsigned count = LEAT_BITS_COUNT(b);
            unsigned bytes = (63 - count) >> 3;
            b->bits |= __builtin_bswap64(x) >> count;
            b->at += bytes;
            b->count = count + 8 * bytes;
            return;
        }
    }
    *b = leat_bits_refill_slowly(s, *b);
}

/* Passes the restart marker of a number; false when another marker comes, or none. */
static inline bool leat_bits_restart(struct leat_bit_source *s, struct leat_bits *b, unsigned number)
{
    const uint8_t *behind = NULL;
    if (leat_bits_marker(b->at, s->end, &behind) != 0xd0 + number)
        return false;
    *b = (struct leat_bits){.at = behind};
    s->padding = 0;
    return true;
}

static inline __attribute__((always_inline)) void leat_block_transform(const struct leat_kernels *kernels,
                                                                       unsigned size, const int16_t *values,
                                                                       const uint16_t *quant, bool flat, uint8_t *to,
                                                                       size_t stride)
{
    if (size == 8 && !flat) {
        kernels->idct(values, quant, to, stride);
        return;
    }
    if (!flat && size > 1) {
        leat_idct_reduced(values, quant, size, to, stride);
        return;
    }
    int v = (((int16_t)(values[0] * quant[0]) + 4) >> 3) + 128;
    for (unsigned y = 0; y < size; y++)
        memset(to + stride * y, v < 0 ? 0 : v > 255 ? 255 : v, size);
}

#endif
