#include "prep/jpeg_state.h"

/* The largest reduction that leaves at least the pixels that are wanted. Only these have vector code. */
static unsigned choose_denominator(const struct leat_geometry *g)
{
    unsigned d = 8;
    while (d > 1 && (g->crop.width < d * (uint64_t)g->resized[0] || g->crop.height < d * (uint64_t)g->resized[1]))
        d /= 2;
    return d;
}

static leat_status fast(struct leat_jpeg *jpeg, const struct leat_source *source, const struct leat_decode *decode,
                        const struct leat_target *target, const struct leat_geometry *geometry, struct leat_error *err)
{
    struct jpeg_decompress_struct *cinfo = &jpeg->cinfo;
    leat_jpeg_start(jpeg, source, &decode->limits);
    leat_status rc = leat_jpeg_header(jpeg, source, err);
    if (rc != LEAT_OK)
        return rc;
    if (!leat_jpeg_planes_suit(cinfo))
        return leat_fail(err, LEAT_UNSUPPORTED, "JPEG without planes that could be resized one by one");
    cinfo->scale_num = 1;
    cinfo->scale_denom = choose_denominator(geometry);
    bool colour = decode->colour == LEAT_COLOUR_RGB && cinfo->num_components == 3;
    struct leat_jpeg_planes planes;
    struct leat_plane_scale scale[3];
    struct leat_sink sink;
    leat_jpeg_planes_layout(cinfo, colour ? 3 : 1, &planes);
    for (unsigned i = 0; i < planes.count; i++) {
        const struct leat_jpeg_plane *p = &planes.plane[i];
        /* Of a single component with sampling factors its blocks are still the picture's. */
        double unit = cinfo->num_components == 1 ? 1.0 : cinfo->max_h_samp_factor;
        scale[i].x = p->columns / (unit * DCTSIZE);
        scale[i].y = (double)p->rows / (cinfo->max_v_samp_factor * DCTSIZE);
        scale[i].width = p->width;
        scale[i].height = p->height;
        scale[i].orientation = 1;
    }
    rc = leat_sink_open(&sink, decode->kernels, decode->arena, target, geometry, planes.count, colour, scale, err);
    if (rc != LEAT_OK)
        return rc;
    for (unsigned i = 0; i < planes.count; i++) {
        planes.plane[i].left = sink.plane[i].left;
        planes.plane[i].top = sink.plane[i].top;
        planes.plane[i].right = sink.plane[i].left + sink.plane[i].width;
        planes.plane[i].bottom = sink.plane[i].top + sink.plane[i].height;
    }
    leat_jpeg_planes_begin(jpeg, &planes, decode->kernels);
    while (leat_jpeg_planes_next(jpeg, &planes)) {
        for (unsigned i = 0; i < planes.count; i++) {
            const struct leat_jpeg_plane *p = &planes.plane[i];
            uint32_t y = planes.step * p->rows;
            uint32_t end = y + p->rows < p->bottom ? y + p->rows : p->bottom;
            for (y = y > p->top ? y : p->top; y < end; y++)
                leat_sink_give_plane(&sink, i, leat_jpeg_plane_row(p, y, p->left));
        }
        leat_sink_drain(&sink);
    }
    return LEAT_OK;
}

leat_status leat_jpeg_fast(struct leat_jpeg *jpeg, const struct leat_source *source, const struct leat_decode *decode,
                           const struct leat_target *target, const struct leat_geometry *geometry,
                           struct leat_error *err)
{
    /* Measured: without a reduction, planes one by one cost what exact rows cost. */
    if (choose_denominator(geometry) == 1)
        return leat_fail(err, LEAT_UNSUPPORTED, "JPEG too small to reduce");
    if (setjmp(jpeg->jump))
        return leat_jpeg_fail(jpeg, err);
    leat_status rc = fast(jpeg, source, decode, target, geometry, err);
    jpeg_abort_decompress(&jpeg->cinfo);
    return rc == LEAT_OK ? leat_jpeg_check_damage(jpeg, decode->damage, err) : rc;
}
