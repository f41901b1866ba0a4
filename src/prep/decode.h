/* What the decoders are asked for, the same for all formats. */
#ifndef LEAT_PREP_DECODE_H
#define LEAT_PREP_DECODE_H

#include "prep/image.h"
#include "prep/sink.h"

enum leat_colour {
    LEAT_COLOUR_RGB,
    LEAT_COLOUR_GRAY,
    LEAT_COLOUR_INDEX, /* one channel as stored: palette numbers or grey values, for masks */
    LEAT_COLOUR_RGBA,  /* and alpha as a fourth channel */
    LEAT_COLOUR_COUNT
};

enum leat_damage {
    LEAT_DAMAGE_ERROR, /* damage met on the way to the wanted rows is LEAT_CORRUPT */
    LEAT_DAMAGE_ROWS,  /* the rows that are there; grey for the rest */
    LEAT_DAMAGE_COUNT
};

struct leat_source {
    const uint8_t *data;
    size_t size;
    struct leat_image_info info;
};

struct leat_decode {
    enum leat_colour colour;
    enum leat_damage damage;
    bool wide;             /* samples of more than 8 bits are wanted whole */
    uint8_t background[3]; /* under what is transparent; alpha that is to be dropped is not in the source's info */
    struct leat_image_limits limits;
    const struct leat_kernels *kernels;
    struct leat_arena *arena;
};

/* How many planes of rows a source gives under a choice of colour: 1 or 3. */
unsigned leat_decode_planes(const struct leat_image_info *info, enum leat_colour colour);

/* Rows of a decoder that knows only interleaved pixels, made into planes and given on. */
struct leat_splitter {
    struct leat_rows *to;
    const struct leat_kernels *kernels;
    unsigned components; /* of the rows: 1 grey, 3 colour, 4 colour and alpha */
    unsigned planes;     /* wanted */
    uint8_t background[3];
    uint32_t width;
    uint8_t *plane[3];
};

leat_status leat_splitter_open(struct leat_splitter *s, const struct leat_decode *decode, struct leat_rows *to,
                               unsigned components, unsigned planes, uint32_t width, struct leat_error *err);
void leat_splitter_give(struct leat_splitter *s, const uint8_t *pixels);
void leat_splitter_give_gray(struct leat_splitter *s); /* a row that is missing */

#endif
