#include "prep_unit.h"

#include "prep/drawn.h"

/* A black picture with one bright square, in PNG's place a JPEG of good quality: where the square ends up says where
 * its box should be. */
static struct encoded spot(uint32_t width, uint32_t height, const uint32_t box[4], uint8_t orientation)
{
    struct picture p = {width, height, calloc((size_t)width * height, 3)};
    for (uint32_t y = box[1]; y < box[3]; y++)
        memset(p.rgb + 3 * ((size_t)y * width + box[0]), 255, 3 * (size_t)(box[2] - box[0]));
    struct encoded e = jpeg_make(&p, &(struct jpeg_choice){.quality = 98, .h = 1, .v = 1, .orientation = orientation});
    free(p.rgb);
    return e;
}

static const char *const texts[] = {
    "random_resized_crop=96 scale=0.5:1 flip vflip",
    "resize=120 random_crop=100 flip",
    "letterbox=90 vflip",
    "scale_jitter=110 scale=0.6:1.6",
    "random_crop=150x120 padding=20 flip",
    "random_resized_crop=96 scale=0.8:1 flip rotate=-40:40 interpolation=bilinear",
    "random_resized_crop=96 scale=0.8:1 affine=-20:20 translate=0.1 scale=0.8:1.2 shear=-10:10:-5:5 "
    "interpolation=bilinear",
    "resize=96x80 flip perspective=0.4 p=1",
    "resize=96x80 affine=10 affine=0 translate=0.1 invert=0",
};

TEST(boxes_lie_where_the_pixels_do)
{
    static uint8_t out[160 * 160 * 3];
    const uint32_t box[4] = {70, 50, 120, 96};
    const float in[4] = {70, 50, 120, 96};
    struct encoded e = spot(200, 150, box, 0);
    struct leat_image_info info = {.width = 200, .height = 150, .orientation = 1};
    struct leat_scratch *s = scratch_open(NULL);
    unsigned seen = 0;
    for (unsigned i = 0; i < COUNT(texts) * 20; i++) {
        struct leat_pipeline *p = pipeline_make(texts[i % COUNT(texts)]);
        struct leat_drawn drawn;
        struct leat_error err;
        float got[LEAT_BOX_OUT] = {0};
        assert_ok(leat_pipeline_plan(p, &info, leat_rng(9, i), &drawn, &err), err);
        uint32_t w = drawn.geometry.output[0];
        uint32_t h = drawn.geometry.output[1];
        assert_ok(leat_pipeline_run(p, s, e.data, e.size, leat_rng(9, i), out, (uint64_t)w * h * 3, &err), err);
        double low[2] = {1e9, 1e9};
        double high[2] = {0, 0};
        for (uint32_t k = 0; k < w * h; k++) {
            double at[2] = {k % w, (double)(k / w)};
            for (int d = 0; d < 2 && out[3 * k + 1] > 127; d++) {
                low[d] = at[d] < low[d] ? at[d] : low[d];
                high[d] = at[d] + 1 > high[d] ? at[d] + 1 : high[d];
            }
        }
        size_t n = leat_boxes_follow(&drawn, in, 1, got);
        if (n == 1 && low[0] < high[0]) {
            seen++;
            for (int d = 0; d < 2; d++) {
                if (fabs(got[d] - low[d]) > 2.0 || fabs(got[2 + d] - high[d]) > 2.0)
                    fail_msg("%s, %u: %g … %g along %d, but pixels from %g to %g", texts[i % COUNT(texts)], i, got[d],
                             got[2 + d], d, low[d], high[d]);
            }
        }
        leat_pipeline_free(p);
    }
    assert_true(seen > COUNT(texts) * 16);
    leat_scratch_close(s);
    free(e.data);
}

TEST(boxes_are_cut_and_those_outside_dropped)
{
    struct leat_pipeline *p = pipeline_make("crop=100x50+20+30 resize=200x100");
    struct leat_image_info info = {.width = 300, .height = 200, .orientation = 1};
    struct leat_drawn drawn;
    struct leat_error err;
    assert_ok(leat_pipeline_plan(p, &info, leat_rng(1, 1), &drawn, &err), err);
    const float in[][4] = {{0, 0, 19, 29}, {10, 10, 40, 60}, {30, 40, 50, 60}, {119.8f, 40, 200, 60}, {NAN, 0, 1, 1}};
    float out[5 * LEAT_BOX_OUT];
    assert_int_equal(leat_boxes_follow(&drawn, in, 5, out), 2);
    const float want[] = {0, 0, 40, 60, 1, 20, 20, 60, 60, 2};
    for (int i = 0; i < 10; i++)
        assert_true(out[i] == want[i]);
    float numbers[LEAT_DRAWN_NUMBERS];
    leat_drawn_numbers(&drawn, 300, 200, numbers);
    const float first[] = {300, 200, 20, 30, 100, 50, 200, 100, 0, 0, 0, 2, 0, -40, 0, 2, -60, 0, 0, 1};
    for (int i = 0; i < LEAT_DRAWN_NUMBERS; i++)
        assert_true(numbers[i] == first[i]);
    leat_pipeline_free(p);
}

/* The mask of half the size, and one stored lying on its side, show the same place. */
TEST(a_mask_of_another_size_follows_its_picture)
{
    enum { SIDE = 64 };
    static uint8_t large[SIDE * SIDE];
    static uint8_t small[SIDE * SIDE];
    static const uint32_t boxes[][4] = {{60, 80, 180, 160}, {30, 40, 90, 80}, {80, 60, 160, 180}};
    static const uint32_t sizes[][2] = {{300, 240}, {150, 120}, {240, 300}};
    struct leat_scratch *s = scratch_open(NULL);
    struct leat_pipeline *p = pipeline_make(
        "orientation=upright random_resized_crop=64 scale=0.3:1 flip rotate=-20:20 filter=nearest colour=gray");
    struct leat_image_info info = {.width = 300, .height = 240, .orientation = 1};
    struct encoded picture = spot(300, 240, boxes[0], 0);
    for (unsigned k = 1; k < 3; k++) {
        struct encoded mask = spot(sizes[k][0], sizes[k][1], boxes[k], k == 2 ? 5 : 0);
        for (unsigned i = 0; i < 40; i++) {
            struct leat_error err;
            struct leat_view view = {p, leat_rng(7, i), large, sizeof large, NULL};
            assert_ok(leat_pipeline_run_views(s, picture.data, picture.size, &view, 1, &err), err);
            view.to = small;
            view.like = &info;
            assert_ok(leat_pipeline_run_views(s, mask.data, mask.size, &view, 1, &err), err);
            unsigned differ = 0;
            for (unsigned n = 0; n < SIDE * SIDE; n++)
                differ += (large[n] > 127) != (small[n] > 127);
            if (differ > SIDE * SIDE / 20)
                fail_msg("mask %u, draw %u: %u pixels differ", k, i, differ);
        }
        free(mask.data);
    }
    free(picture.data);
    leat_pipeline_free(p);
    leat_scratch_close(s);
}
