#include <string.h>

#include "prep/jpeg_state.h"

/* What libjpeg calls its states, in every version there is: ready for scanlines, ready for raw planes. */
#define STATE_SCANLINES 205
#define STATE_RAW       206

#define FRONT 64 /* bytes before a row: room for the neighbour of its first sample */

#if JPEG_LIB_VERSION >= 70
#define DCT_SIZE(component) ((component)->DCT_h_scaled_size)
#define DCT_SIZE_MIN(cinfo) ((cinfo)->min_DCT_h_scaled_size)
#else
#define DCT_SIZE(component) ((component)->DCT_scaled_size)
#define DCT_SIZE_MIN(cinfo) ((cinfo)->min_DCT_scaled_size)
#endif

bool leat_jpeg_planes_suit(const struct jpeg_decompress_struct *cinfo)
{
    const jpeg_component_info *c = cinfo->comp_info;
    if (c[0].h_samp_factor > 2 || c[0].v_samp_factor > 2)
        return false;
    if (cinfo->num_components == 1 && cinfo->jpeg_color_space == JCS_GRAYSCALE)
        return true;
    /* Pictures narrower than this are upsampled by other rules. */
    if (cinfo->num_components != 3 || cinfo->jpeg_color_space != JCS_YCbCr || cinfo->image_width < 8)
        return false;
    return c[1].h_samp_factor == c[2].h_samp_factor && c[1].v_samp_factor == c[2].v_samp_factor &&
           c[0].h_samp_factor == cinfo->max_h_samp_factor && c[0].v_samp_factor == cinfo->max_v_samp_factor;
}

void leat_jpeg_planes_layout(struct jpeg_decompress_struct *cinfo, unsigned count, struct leat_jpeg_planes *planes)
{
    jpeg_calc_output_dimensions(cinfo);
    *planes = (struct leat_jpeg_planes){.count = count};
    for (unsigned i = 0; i < count; i++) {
        const jpeg_component_info *c = &cinfo->comp_info[i];
        struct leat_jpeg_plane *p = &planes->plane[i];
        uint64_t across = (uint64_t)c->h_samp_factor * DCT_SIZE(c);
        uint64_t down = (uint64_t)c->v_samp_factor * DCT_SIZE(c);
        uint64_t across_all = (uint64_t)cinfo->max_h_samp_factor * DCTSIZE;
        uint64_t down_all = (uint64_t)cinfo->max_v_samp_factor * DCTSIZE;
        p->width = (uint32_t)((cinfo->image_width * across + across_all - 1) / across_all);
        p->height = (uint32_t)((cinfo->image_height * down + down_all - 1) / down_all);
        /* The blocks of a single component are not grouped, whatever its sampling factors say. */
        p->columns = (uint32_t)(cinfo->num_components == 1 ? (uint64_t)DCT_SIZE(c) : across);
        p->rows = (uint32_t)down;
    }
}

/* Restricts decoding to columns first … last of iMCUs. jpeg_crop_scanline() insists on the state for scanlines,
 * but what it sets holds for raw planes just as well: which blocks go through the inverse DCT. */
static void crop_columns(struct jpeg_decompress_struct *cinfo, struct leat_jpeg_planes *planes, uint32_t first,
                         uint32_t last)
{
    JDIMENSION unit = planes->plane[0].columns;
    JDIMENSION x = first * unit;
    JDIMENSION width = (last - first + 1) * unit;
    if (width > cinfo->output_width - x)
        width = cinfo->output_width - x;
    if (cinfo->global_state != STATE_RAW || width == cinfo->output_width)
        first = 0;
    else {
        cinfo->global_state = STATE_SCANLINES;
        jpeg_crop_scanline(cinfo, &x, &width);
        cinfo->global_state = STATE_RAW;
    }
    for (unsigned i = 0; i < planes->count; i++)
        planes->plane[i].first = first * planes->plane[i].columns;
}

/* Sets every plane's buffer up. Chroma that is not wanted gets none: it is not transformed either. */
static void take_buffers(struct leat_jpeg *jpeg, struct leat_jpeg_planes *planes)
{
    j_common_ptr common = (j_common_ptr)&jpeg->cinfo;
    for (unsigned i = 0; i < planes->count; i++) {
        struct leat_jpeg_plane *p = &planes->plane[i];
        uint32_t blocks = (p->width + p->columns - 1) / p->columns;
        size_t columns = (size_t)blocks * p->columns - p->first;
        p->stride = FRONT + (columns + 63) / 64 * 64 + LEAT_ROW_PAD;
        size_t bytes = p->stride * p->rows * 2;
        p->data = common->mem->alloc_large(common, JPOOL_IMAGE, bytes);
        memset(p->data, 0, bytes); /* padding that is read is at least defined */
        p->data += FRONT;
    }
}

/* The first one is what is said. */
static void note_damage(struct leat_jpeg *jpeg, const char *damage)
{
    if (!damage || jpeg->damaged)
        return;
    jpeg->damaged = true;
    snprintf(jpeg->text, sizeof jpeg->text, "%s", damage);
}

void leat_jpeg_planes_begin(struct leat_jpeg *jpeg, struct leat_jpeg_planes *planes, const struct leat_kernels *kernels)
{
    struct jpeg_decompress_struct *cinfo = &jpeg->cinfo;
    uint32_t first = UINT32_MAX;
    uint32_t last = 0;
    planes->step_first = UINT32_MAX;
    for (unsigned i = 0; i < planes->count; i++) {
        const struct leat_jpeg_plane *p = &planes->plane[i];
        uint32_t left = p->left / p->columns;
        uint32_t right = (p->right - 1) / p->columns;
        uint32_t top = p->top / p->rows;
        uint32_t bottom = (p->bottom - 1) / p->rows;
        first = left < first ? left : first;
        last = right > last ? right : last;
        planes->step_first = top < planes->step_first ? top : planes->step_first;
        planes->step_last = bottom > planes->step_last ? bottom : planes->step_last;
    }
    planes->step = UINT32_MAX;
    planes->own = leat_scan_suits(cinfo);
    if (planes->own) {
        for (unsigned i = 0; i < planes->count; i++)
            planes->plane[i].first = first * planes->plane[i].columns;
        leat_scan_begin(&jpeg->scan, cinfo, kernels, first, last);
        take_buffers(jpeg, planes);
        return;
    }
    planes->own_scans =
        leat_scans_read(&jpeg->scans, cinfo, jpeg->memory.arena, kernels, jpeg->scans_max, planes, first, last);
    if (planes->own_scans) {
        for (unsigned i = 0; i < planes->count; i++)
            planes->plane[i].first = first * planes->plane[i].columns;
        take_buffers(jpeg, planes);
        return;
    }
    note_damage(jpeg, jpeg->scans.damage);
    /* libjpeg would look for an upsampler that raw planes do not have if a crop were a sample wide. */
    if (first == last && first > 0)
        first--;
    for (int i = (int)planes->count; i < cinfo->num_components; i++)
        cinfo->comp_info[i].component_needed = FALSE;
    cinfo->raw_data_out = TRUE;
    cinfo->dct_method = JDCT_ISLOW;
    jpeg_start_decompress(cinfo);
    /* Where coefficients are missing libjpeg smooths over the edges of blocks, and at the edge of a crop otherwise than
     * inside: nothing is cut off then. */
    if (cinfo->progressive_mode)
        crop_columns(cinfo, planes, 0, (cinfo->output_width - 1) / planes->plane[0].columns);
    else
        crop_columns(cinfo, planes, first, last);
    take_buffers(jpeg, planes);
}

static void set_needed(struct jpeg_decompress_struct *cinfo, const struct leat_jpeg_planes *planes, bool needed)
{
    for (unsigned i = 0; i < planes->count; i++)
        cinfo->comp_info[i].component_needed = needed;
}

static void next_by_scan(struct leat_jpeg *jpeg, struct leat_jpeg_planes *planes)
{
    do {
        planes->step++;
        leat_scan_row(&jpeg->scan, planes, planes->step >= planes->step_first);
    } while (planes->step < planes->step_first);
    note_damage(jpeg, jpeg->scan.damage);
}

bool leat_jpeg_planes_next(struct leat_jpeg *jpeg, struct leat_jpeg_planes *planes)
{
    struct jpeg_decompress_struct *cinfo = &jpeg->cinfo;
    JSAMPROW rows[MAX_COMPONENTS][LEAT_JPEG_ROWS_MAX];
    JSAMPARRAY image[MAX_COMPONENTS];
    JDIMENSION lines = (JDIMENSION)cinfo->max_v_samp_factor * (JDIMENSION)DCT_SIZE_MIN(cinfo);
    if (planes->step != UINT32_MAX && planes->step >= planes->step_last)
        return false;
    if (planes->own) {
        next_by_scan(jpeg, planes);
        return true;
    }
    if (planes->own_scans) {
        planes->step = planes->step == UINT32_MAX ? planes->step_first : planes->step + 1;
        leat_scans_row(&jpeg->scans, planes);
        return true;
    }
    do {
        uint32_t step = ++planes->step;
        for (int i = 0; i < cinfo->num_components; i++) {
            image[i] = rows[i];
            const struct leat_jpeg_plane *p = &planes->plane[i];
            for (uint32_t r = 0; i < (int)planes->count && r < p->rows; r++)
                rows[i][r] = leat_jpeg_plane_row(p, step * p->rows + r, p->first);
        }
        /* Rows above are decoded for the bits they take, not transformed. */
        set_needed(cinfo, planes, step >= planes->step_first);
        jpeg_read_raw_data(cinfo, image, lines);
    } while (planes->step < planes->step_first);
    return true;
}
