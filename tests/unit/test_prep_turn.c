/* A picture that is turned on its way is the one that was turned first. */

#include "prep/png_write.h"
#include "prep_unit.h"

#include "base/random.h"

#define SIDE_MAX 160

/* EXIF's own words: where the stored picture's first row and first column lie in the upright one. */
static void upright_place(unsigned orientation, uint32_t w, uint32_t h, uint32_t x, uint32_t y, uint32_t *ux,
                          uint32_t *uy)
{
    bool bottom = orientation == 3 || orientation == 4;
    bool right = orientation == 2 || orientation == 3;
    if (orientation <= 4) {
        *ux = right ? w - 1 - x : x;
        *uy = bottom ? h - 1 - y : y;
        return;
    }
    /* 5: row 0 is the left side, column 0 the top; 6: right, top; 7: right, bottom; 8: left, bottom. */
    *ux = orientation == 6 || orientation == 7 ? h - 1 - y : y;
    *uy = orientation == 7 || orientation == 8 ? w - 1 - x : x;
}

static struct encoded turned_png(struct leat_scratch *s, const struct encoded *e, uint32_t w, uint32_t h,
                                 unsigned orientation)
{
    static uint8_t stored[SIDE_MAX * SIDE_MAX * 3];
    static uint8_t upright[SIDE_MAX * SIDE_MAX * 3];
    struct leat_error err;
    struct leat_buf out;
    uint32_t width = orientation > 4 ? h : w;
    uint32_t height = orientation > 4 ? w : h;
    assert_ok(run_text(s, "", e, stored, (uint64_t)w * h * 3, &err), err);
    for (uint32_t y = 0; y < h; y++) {
        for (uint32_t x = 0; x < w; x++) {
            uint32_t ux;
            uint32_t uy;
            upright_place(orientation, w, h, x, y, &ux, &uy);
            memcpy(upright + ((size_t)width * uy + ux) * 3, stored + ((size_t)w * y + x) * 3, 3);
        }
    }
    leat_buf_init(&out, (size_t)1 << 24);
    assert_ok(leat_png_write(upright, width, height, 3, &out, &err), err);
    return (struct encoded){(uint8_t *)out.data, out.len};
}

static void compare(struct leat_scratch *s, const char *text, const struct encoded *turned, const struct encoded *png,
                    unsigned orientation)
{
    static uint8_t want[300 * 300 * 3 * 4];
    static uint8_t got[sizeof want];
    struct leat_error err;
    struct leat_drawn drawn;
    const uint32_t *size = drawn.geometry.output;
    struct leat_image_info info;
    struct leat_pipeline *p = pipeline_make(text);
    assert_ok(leat_image_probe(png->data, png->size, &info, &err), err);
    assert_ok(leat_pipeline_plan(p, &info, leat_rng(1, 2), &drawn, &err), err);
    uint64_t bytes = leat_pipeline_bytes(p, size[0], size[1]);
    assert_true(bytes <= sizeof want);
    assert_ok(leat_pipeline_run(p, s, png->data, png->size, leat_rng(1, 2), want, bytes, &err), err);
    assert_ok(leat_pipeline_run(p, s, turned->data, turned->size, leat_rng(1, 2), got, bytes, &err), err);
    if (memcmp(got, want, bytes) != 0)
        fail_msg("'%s' of orientation %u differs", text, orientation);
    leat_pipeline_free(p);
}

TEST(every_orientation_is_as_if_turned_first)
{
    static const char *const levels[] = {"scalar", "avx2", "avx512"};
    static const char *const kinds[] = {"",
                                        "layout=nchw",
                                        "dtype=float16 std=0.3",
                                        "filter=bicubic",
                                        "filter=nearest",
                                        "damage=rows layout=nchw dtype=float32"};
    struct leat_rng r = leat_rng(9, 9);
    for (unsigned i = 0; i < unit_number(0, 144); i++) { /* six times each level and orientation */
        const char *level = levels[i % COUNT(levels)];
        unsigned orientation = 1 + i / 3 % 8;
        char text[200];
        if (!leat_kernels_named(level))
            continue;
        struct leat_scratch *s = scratch_open(level);
        uint32_t w = 8 + (uint32_t)leat_rng_below(&r, SIDE_MAX - 8);
        uint32_t h = 8 + (uint32_t)leat_rng_below(&r, SIDE_MAX - 8);
        struct encoded e = jpeg_of(w, h, &(struct jpeg_choice){.orientation = (uint8_t)orientation});
        struct encoded png = turned_png(s, &e, w, h, orientation);
        const char *kind = kinds[leat_rng_below(&r, COUNT(kinds))];
        unsigned a = 1 + (unsigned)leat_rng_below(&r, 200);
        unsigned b = 1 + (unsigned)leat_rng_below(&r, 200);
        static const char *const steps[][2] = {
            {"flip=0", NULL},
            {"flip=1", NULL},
            {"resize=", " flip=1"},
            {"resize=", ""},
            {"center_crop=", " fill=7"},
            {"random_resized_crop=", " flip"},
            {"resize=40 center_crop=", " flip=1"},
            {"random_crop=7x5", NULL},
        };
        const char *const *step = steps[leat_rng_below(&r, COUNT(steps))];
        char size[24];
        snprintf(size, sizeof size, "%ux%u", a, b);
        snprintf(text, sizeof text, "orientation=upright %s %s%s%s", kind, step[0], step[1] ? size : "",
                 step[1] ? step[1] : "");
        compare(s, text, &e, &png, orientation);
        free(e.data);
        free(png.data);
        leat_scratch_close(s);
    }
}
