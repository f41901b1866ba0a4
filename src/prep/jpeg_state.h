/* Inside of the JPEG decoder, shared by its files. */
#ifndef LEAT_PREP_JPEG_STATE_H
#define LEAT_PREP_JPEG_STATE_H

#include <setjmp.h>

#include "prep/jpeg.h"
#include "prep/jpeg_memory.h"
#include "prep/jpeg_scan.h"
#include "prep/jpeg_scans.h"

/* libjpeg's own errors leave by longjmp to `jump`: the one that calls into libjpeg sets it first, and keeps nothing
 * in plain local variables that changes after that. */
struct leat_jpeg {
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr messages;
    struct jpeg_progress_mgr progress;
    struct leat_jpeg_memory memory;
    struct leat_scan scan;
    struct leat_scans scans;
    bool created;
    jmp_buf jump;
    leat_status status; /* of the error that jumped */
    uint32_t scans_max;
    bool damaged; /* a warning that touches pixels; text says which */
    char text[JMSG_LENGTH_MAX];
};

/* Also for compressors: cinfo->err must be &jpeg->messages. */
void leat_jpeg_start(struct leat_jpeg *jpeg, const struct leat_source *source, const struct leat_image_limits *limits);
leat_status leat_jpeg_fail(struct leat_jpeg *jpeg, struct leat_error *err); /* after a jump; makes it idle again */
leat_status leat_jpeg_check_damage(struct leat_jpeg *jpeg, enum leat_damage damage, struct leat_error *err);

/* Reads the header and compares it with what the probe saw. Call under the jump. */
leat_status leat_jpeg_header(struct leat_jpeg *jpeg, const struct leat_source *source, struct leat_error *err);

/* The planes of a component, two rows of iMCUs at a time. */
struct leat_jpeg_plane {
    uint32_t width; /* of the whole plane, in samples */
    uint32_t height;
    uint32_t left; /* wanted: columns and rows */
    uint32_t top;
    uint32_t right;
    uint32_t bottom;
    uint32_t columns; /* samples of an iMCU */
    uint32_t rows;
    uint32_t first; /* column where the buffer starts */
    uint8_t *data;  /* two rows of iMCUs; readable before and after every row */
    size_t stride;
};

#define LEAT_JPEG_ROWS_MAX 16 /* of an iMCU of the planes that are taken raw */

struct leat_jpeg_planes {
    unsigned count;
    bool own;       /* entropy decoding by leat_scan, not by libjpeg */
    bool own_scans; /* by leat_scans */
    struct leat_jpeg_plane plane[3];
    uint32_t step;       /* the row of iMCUs read last */
    uint32_t step_first; /* that is wanted */
    uint32_t step_last;
};

/* Whether the file has planes as most have: grey, or luma with chroma of the same or half the size. */
bool leat_jpeg_planes_suit(const struct jpeg_decompress_struct *cinfo);

/* After the header and cinfo->scale_denom: fills in what is known of the planes before decoding. */
void leat_jpeg_planes_layout(struct jpeg_decompress_struct *cinfo, unsigned count, struct leat_jpeg_planes *planes);

/* Starts decoding; left … bottom of every plane are set. Both jump on errors. */
void leat_jpeg_planes_begin(struct leat_jpeg *jpeg, struct leat_jpeg_planes *planes,
                            const struct leat_kernels *kernels);
bool leat_jpeg_planes_next(struct leat_jpeg *jpeg, struct leat_jpeg_planes *planes); /* false after step_last */

/* A row of a plane, at a column. Only rows of the last two steps are there. */
static inline uint8_t *leat_jpeg_plane_row(const struct leat_jpeg_plane *p, uint32_t row, uint32_t column)
{
    size_t slot = (row / p->rows & 1) * p->rows + row % p->rows;
    return p->data + slot * p->stride + (column - p->first);
}

#endif
