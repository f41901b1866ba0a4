#include <string.h>

#include "prep/jpeg_state.h"

static uint32_t at_most(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* How chroma relates to luma. */
struct chroma {
    bool half_width;
    bool half_height;
    uint32_t left; /* columns that are upsampled */
    uint32_t right;
    uint8_t *up[2]; /* one row each, as wide as the box */
};

/* Which chroma a box of luma needs. The filter looks at one neighbour on each side. */
static void want_chroma(struct leat_jpeg_planes *planes, const struct leat_box *box, struct chroma *c)
{
    for (unsigned i = 1; i < planes->count; i++) {
        struct leat_jpeg_plane *p = &planes->plane[i];
        unsigned x = c->half_width;
        unsigned y = c->half_height;
        c->left = box->x >> x;
        c->right = ((box->x + box->width - 1) >> x) + 1;
        uint32_t top = box->y >> y;
        uint32_t bottom = ((box->y + box->height - 1) >> y) + 1;
        p->left = x && c->left ? c->left - 1 : c->left;
        p->right = x ? at_most(c->right + 1, p->width) : c->right;
        p->top = y && top ? top - 1 : top;
        p->bottom = y ? at_most(bottom + 1, p->height) : bottom;
    }
}

/* The plane's edge repeats its last sample, once per row and step, so that upsampling needs no special case. */
static void repeat_edges(const struct leat_jpeg_planes *planes)
{
    for (unsigned i = 1; i < planes->count; i++) {
        const struct leat_jpeg_plane *p = &planes->plane[i];
        for (uint32_t r = 0; r < p->rows; r++) {
            uint8_t *row = leat_jpeg_plane_row(p, planes->step * p->rows + r, p->first);
            if (p->left == 0)
                row[-1] = row[0];
            if (p->right == p->width)
                row[p->width - p->first] = row[p->width - p->first - 1];
        }
    }
}

static const uint8_t *upsample(const struct leat_kernels *k, const struct leat_jpeg_plane *p, const struct chroma *c,
                               uint32_t y, uint8_t *out)
{
    uint32_t row = y >> c->half_height;
    const uint8_t *near = leat_jpeg_plane_row(p, row, c->left);
    if (!c->half_width && !c->half_height)
        return near;
    if (!c->half_height) {
        k->up_h2v1(near, c->right - c->left, out);
        return out;
    }
    uint32_t other = y & 1 ? at_most(row + 1, p->height - 1) : row ? row - 1 : 0;
    const uint8_t *far = leat_jpeg_plane_row(p, other, c->left);
    if (c->half_width)
        k->up_h2v2(near, far, c->right - c->left, out);
    else
        k->up_h1v2(near, far, y & 1 ? 2 : 1, c->right - c->left, out);
    return out;
}

static leat_status planes_rows(struct leat_jpeg *jpeg, const struct leat_decode *decode, const struct leat_box *box,
                               struct leat_rows *to, struct leat_error *err)
{
    const struct leat_kernels *k = decode->kernels;
    const struct jpeg_decompress_struct *cinfo = &jpeg->cinfo;
    bool colour = decode->colour == LEAT_COLOUR_RGB && cinfo->num_components == 3;
    struct leat_jpeg_planes planes;
    struct chroma c = {0};
    leat_jpeg_planes_layout(&jpeg->cinfo, colour ? 3 : 1, &planes);
    if (colour) {
        c.half_width = cinfo->comp_info[1].h_samp_factor < cinfo->max_h_samp_factor;
        c.half_height = cinfo->comp_info[1].v_samp_factor < cinfo->max_v_samp_factor;
    }
    struct leat_jpeg_plane *luma = &planes.plane[0];
    luma->left = box->x;
    luma->top = box->y;
    luma->right = box->x + box->width;
    luma->bottom = box->y + box->height;
    want_chroma(&planes, box, &c);
    size_t line = 2 * (size_t)box->width + 64 + LEAT_ROW_PAD;
    uint8_t *rgb[3] = {NULL};
    for (unsigned i = 0; colour && i < 3; i++) {
        rgb[i] = leat_arena_take(decode->arena, line);
        if (i < 2)
            c.up[i] = leat_arena_take(decode->arena, line);
        if (!rgb[i] || (i < 2 && !c.up[i]))
            return leat_arena_fail(decode->arena, err);
    }
    leat_jpeg_planes_begin(jpeg, &planes, decode->kernels);
    uint32_t y = box->y;
    while (leat_jpeg_planes_next(jpeg, &planes)) {
        repeat_edges(&planes);
        uint32_t end = (planes.step + 1) * luma->rows;
        /* The last row of a step waits for the chroma below it. */
        if (c.half_height && planes.step < planes.step_last && end > 0)
            end--;
        for (; y < at_most(end, luma->bottom); y++) {
            const uint8_t *row[3] = {leat_jpeg_plane_row(luma, y, box->x), NULL, NULL};
            if (colour) {
                uint32_t skip = box->x - (c.left << c.half_width);
                const uint8_t *cb = upsample(k, &planes.plane[1], &c, y, c.up[0]);
                const uint8_t *cr = upsample(k, &planes.plane[2], &c, y, c.up[1]);
                k->ycc_rgb(row[0], cb + skip, cr + skip, box->width, rgb[0], rgb[1], rgb[2]);
                memcpy(row, (const uint8_t *const[3]){rgb[0], rgb[1], rgb[2]}, sizeof row);
            }
            to->give(to, row);
        }
    }
    return LEAT_OK;
}

/* Ink to light. It is stored inverted, as Adobe began to: other programs assume so of files without Adobe's marker. */
static void cmyk_to_rgb(uint8_t *pixel, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        unsigned k = pixel[4 * i + 3];
        for (unsigned c = 0; c < 3; c++) {
            unsigned t = (255u - pixel[4 * i + c]) * k + 128;
            pixel[3 * i + c] = (uint8_t)(k - ((t + (t >> 8)) >> 8));
        }
    }
}

/* The general way, by libjpeg's own rows of pixels, for files that are rare: four components, RGB, odd sampling. */
static leat_status scanline_rows(struct leat_jpeg *jpeg, const struct leat_decode *decode, const struct leat_box *box,
                                 struct leat_rows *to, struct leat_error *err)
{
    struct jpeg_decompress_struct *cinfo = &jpeg->cinfo;
    unsigned planes = decode->colour == LEAT_COLOUR_RGB && cinfo->num_components > 1 ? 3 : 1;
    switch (cinfo->jpeg_color_space) {
    case JCS_CMYK:
    case JCS_YCCK:
        cinfo->out_color_space = JCS_CMYK;
        break;
    case JCS_GRAYSCALE:
        cinfo->out_color_space = JCS_GRAYSCALE;
        break;
    case JCS_YCbCr:
        cinfo->out_color_space = planes == 1 ? JCS_GRAYSCALE : JCS_RGB;
        break;
    case JCS_RGB:
        cinfo->out_color_space = JCS_RGB;
        break;
    default:
        return leat_fail(err, LEAT_UNSUPPORTED, "JPEG with %d components of unknown colours is not decoded",
                         cinfo->num_components);
    }
    cinfo->dct_method = JDCT_ISLOW;
    jpeg_start_decompress(cinfo);
    bool ink = cinfo->out_color_space == JCS_CMYK;
    unsigned components = ink ? 3 : (unsigned)cinfo->output_components;
    struct leat_splitter splitter;
    leat_status rc = leat_splitter_open(&splitter, decode, to, components, planes, box->width, err);
    if (rc != LEAT_OK)
        return rc;
    size_t pixel = ink ? 4 : components;
    JSAMPROW row = leat_arena_take(decode->arena, cinfo->output_width * pixel + LEAT_ROW_PAD);
    if (!row)
        return leat_arena_fail(decode->arena, err);
    while (cinfo->output_scanline < box->y + box->height) {
        uint32_t y = cinfo->output_scanline;
        jpeg_read_scanlines(cinfo, &row, 1);
        if (y < box->y)
            continue;
        if (ink)
            cmyk_to_rgb(row + pixel * box->x, box->width);
        leat_splitter_give(&splitter, row + pixel * box->x);
    }
    return LEAT_OK;
}

static leat_status rows(struct leat_jpeg *jpeg, const struct leat_source *source, const struct leat_decode *decode,
                        const struct leat_box *box, struct leat_rows *to, struct leat_error *err)
{
    leat_jpeg_start(jpeg, source, &decode->limits);
    leat_status rc = leat_jpeg_header(jpeg, source, err);
    if (rc != LEAT_OK)
        return rc;
    if (leat_jpeg_planes_suit(&jpeg->cinfo))
        return planes_rows(jpeg, decode, box, to, err);
    return scanline_rows(jpeg, decode, box, to, err);
}

leat_status leat_jpeg_rows(struct leat_jpeg *jpeg, const struct leat_source *source, const struct leat_decode *decode,
                           const struct leat_box *box, struct leat_rows *to, struct leat_error *err)
{
    if (setjmp(jpeg->jump))
        return leat_jpeg_fail(jpeg, err);
    leat_status rc = rows(jpeg, source, decode, box, to, err);
    jpeg_abort_decompress(&jpeg->cinfo);
    return rc == LEAT_OK ? leat_jpeg_check_damage(jpeg, decode->damage, err) : rc;
}
