/* What the targets share that hold a decoder against the library it stands for: the same pixels or both refuse, a crop
 * is a part of the whole, and no picture depends on those before it (the scratch is never opened again). The first four
 * bytes of an input choose the crop, the rest is the file. */
#ifndef LEAT_TESTS_DIFFER_H
#define LEAT_TESTS_DIFFER_H

#include "fuzz.h"
#include "prep/pipeline.h"

#define DIFFER_HEAD   4
#define DIFFER_PIXELS (1 << 18)

/* What the library makes of a file. */
struct differ_whole {
    bool fine;    /* it refuses nothing, and warns of nothing that touches pixels */
    bool compare; /* its pixels are to be ours */
    uint8_t rgb[DIFFER_PIXELS * 3];
};

static inline struct leat_scratch *differ_scratch(void)
{
    static struct leat_scratch *scratch;
    struct leat_error err;
    if (!scratch)
        PROMISE(leat_scratch_open((uint64_t)256 << 20, NULL, &scratch, &err) == LEAT_OK);
    return scratch;
}

/* Runs the description with one crop, or none. */
static inline leat_status differ_run(struct leat_prep_description d, const struct leat_box *crop,
                                     const struct leat_source *source, uint8_t *out, struct leat_error *err)
{
    struct leat_pipeline *p;
    const struct leat_image_info *info = &source->info;
    uint64_t pixels = crop ? (uint64_t)crop->width * crop->height : (uint64_t)info->width * info->height;
    d.limits = (struct leat_image_limits){.pixels = DIFFER_PIXELS, .dimension = 4096, .scans = 60};
    if (crop) {
        d.steps.step[0] = (struct leat_step){
            .kind = LEAT_STEP_CROP, .x = crop->x, .y = crop->y, .width = crop->width, .height = crop->height};
        d.steps.count = 1;
    }
    PROMISE(leat_pipeline_make(&d, &p, err) == LEAT_OK);
    leat_status rc =
        leat_pipeline_run(p, differ_scratch(), source->data, source->size, leat_rng(0, 0), out, pixels * 3, err);
    leat_pipeline_free(p);
    fuzz_check_error(rc, err);
    return rc;
}

static inline struct leat_box differ_crop(const uint8_t *head, const struct leat_image_info *info)
{
    struct leat_box b = {.width = 1 + head[2] * info->width / 256, .height = 1 + head[3] * info->height / 256};
    b.x = head[0] * (info->width - b.width + 1) / 256;
    b.y = head[1] * (info->height - b.height + 1) / 256;
    return b;
}

/* Whole, then a crop of it, which must be the same pixels. False: the whole was refused, and err says why. */
static inline bool differ_ours(struct leat_prep_description d, const uint8_t *head, const struct leat_source *source,
                               uint8_t *whole, struct leat_error *err)
{
    static uint8_t part[DIFFER_PIXELS * 3];
    struct leat_box b = differ_crop(head, &source->info);
    struct leat_error ignored;
    leat_status rc = differ_run(d, NULL, source, whole, err);
    leat_status cut = differ_run(d, &b, source, part, &ignored);
    if (rc != LEAT_OK)
        return false;
    PROMISE(cut == LEAT_OK);
    for (uint32_t y = 0; y < b.height; y++)
        PROMISE(memcmp(part + (size_t)b.width * 3 * y, whole + ((size_t)source->info.width * (b.y + y) + b.x) * 3,
                       (size_t)b.width * 3) == 0);
    return true;
}

/* True when the input is a small picture of this type. */
static inline bool differ_source(const uint8_t *data, size_t size, enum leat_image_type type, struct leat_source *out)
{
    struct leat_error err;
    if (size < DIFFER_HEAD)
        return false;
    *out = (struct leat_source){.data = data + DIFFER_HEAD, .size = size - DIFFER_HEAD};
    return leat_image_probe(out->data, out->size, &out->info, &err) == LEAT_OK && out->info.type == type &&
           (uint64_t)out->info.width * out->info.height <= DIFFER_PIXELS && out->info.width <= 4096 &&
           out->info.height <= 4096;
}

#endif
