/* Where decoded rows go: resized, flipped, coloured and written into the destination as they arrive, so that
 * nothing larger than a few rows is kept. */
#ifndef LEAT_PREP_SINK_H
#define LEAT_PREP_SINK_H

#include "prep/geometry.h"
#include "prep/kernels.h"
#include "prep/turn.h"

enum leat_layout {
    LEAT_LAYOUT_NHWC, /* red, green, blue of a pixel side by side */
    LEAT_LAYOUT_NCHW, /* a plane a channel */
    LEAT_LAYOUT_COUNT
};

enum leat_dtype {
    LEAT_DTYPE_UINT8,
    LEAT_DTYPE_FLOAT32,
    LEAT_DTYPE_FLOAT16,
    LEAT_DTYPE_BFLOAT16,
    LEAT_DTYPE_UINT16,
    LEAT_DTYPE_COUNT
};

size_t leat_dtype_size(enum leat_dtype dtype);

struct leat_target {
    void *data;
    unsigned channels; /* 1 or 3, and 4 in wide.h */
    enum leat_layout layout;
    enum leat_dtype dtype;
    struct leat_affine map[3]; /* by channel; for floats */
    uint8_t fill[3];           /* around a window smaller than the output */
    enum leat_filter filter;
};

/* Receives the wanted rows of a picture from top to bottom, one pointer a plane: red, green and blue, or grey.
 * The rows belong to the giver and may be read LEAT_ROW_PAD bytes beyond their end. */
struct leat_rows {
    void (*give)(struct leat_rows *rows, const uint8_t *const *row);
};

struct leat_sink_plane {
    struct leat_axis across;
    struct leat_axis down;
    uint32_t left; /* among the plane's samples, the first one wanted: columns and rows */
    uint32_t top;
    uint32_t width; /* wanted */
    uint32_t height;
    uint8_t *ring; /* rows after the horizontal pass; as they came where rows and columns are exchanged */
    size_t stride;
    uint32_t rows;  /* of the ring */
    uint32_t taken; /* rows received so far */
};

struct leat_sink {
    struct leat_rows rows; /* first: a sink is a receiver of whole rows */
    const struct leat_kernels *kernels;
    struct leat_arena *arena;
    struct leat_target target;
    struct leat_geometry geometry;
    unsigned planes;
    bool ycc;
    struct leat_sink_plane plane[3];
    uint32_t next;        /* output row of the window */
    uint8_t *line[3];     /* one row a plane, after the vertical pass */
    const uint8_t **taps; /* rows of a vertical sum */
    struct leat_turning turn;
    uint8_t *column[3];   /* of the window, where rows and columns are exchanged */
    size_t column_stride; /* from one column to the next */
};

/* A plane's samples against the picture's pixels: 1 for whole pictures, 1/2, 1/4 … for subsampled or reduced ones. */
struct leat_plane_scale {
    double x;
    double y;
    uint32_t width; /* of the whole plane, in samples, upright */
    uint32_t height;
    uint8_t orientation; /* EXIF: how whole rows will come; 0 and 1: upright. Not for planes of their own */
};

/* planes: 1, or 3 that share `scale[0]` (ycc false) or have each their own (ycc true). Fills what is outside the
 * window. All memory comes from the arena; there is nothing to close. */
leat_status leat_sink_open(struct leat_sink *sink, const struct leat_kernels *kernels, struct leat_arena *arena,
                           const struct leat_target *target, const struct leat_geometry *geometry, unsigned planes,
                           bool ycc, const struct leat_plane_scale *scale, struct leat_error *err);

/* A row of one plane, at its first wanted sample, where planes arrive by themselves. */
void leat_sink_give_plane(struct leat_sink *sink, unsigned plane, const uint8_t *row);

/* Writes the output rows that what has arrived allows. Whole rows do it by themselves. */
void leat_sink_drain(struct leat_sink *sink);

/* The part of the picture that has to be decoded, for a sink of whole rows; of the stored one, where it is turned. */
struct leat_box leat_sink_wants(const struct leat_sink *sink);

/* n pixels of as many planes as there are channels, to pixel `at` of a destination of `pixels`. */
void leat_target_put(const struct leat_target *target, const struct leat_kernels *kernels, const uint8_t *const *row,
                     size_t n, size_t at, size_t pixels);

/* Fills the whole destination with the fill colour. */
void leat_target_fill(const struct leat_target *target, const struct leat_kernels *kernels, uint64_t pixels);

#endif
