#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "images.h"
#include "prep/pipeline.h"

static struct leat_scratch *scratch_open(const char *level)
{
    struct leat_scratch *s;
    struct leat_error err;
    const struct leat_kernels *k = level ? leat_kernels_named(level) : NULL;
    assert_int_equal(leat_scratch_open(0, k, &s, &err), LEAT_OK);
    return s;
}

static leat_status run_text(struct leat_scratch *s, const char *text, const struct encoded *e, void *out,
                            uint64_t bytes, struct leat_error *err)
{
    struct leat_prep_description d;
    struct leat_pipeline *p;
    leat_status rc = leat_prep_parse(text, &d, err);
    assert_int_equal(rc, LEAT_OK);
    assert_int_equal(leat_pipeline_make(&d, &p, err), LEAT_OK);
    rc = leat_pipeline_run(p, s, e->data, e->size, leat_rng(1, 2), out, bytes, err);
    leat_pipeline_free(p);
    return rc;
}

/* `crops` random boxes out of a file, each compared with the same box of a full decode. */
static void check_crops(struct leat_scratch *s, const struct encoded *e, bool gray, unsigned crops, uint32_t *state)
{
    uint32_t w;
    uint32_t h;
    unsigned channels = gray ? 1 : 3;
    uint8_t *whole = jpeg_decode_whole(e, gray ? JCS_GRAYSCALE : JCS_RGB, &w, &h);
    uint8_t *out = malloc((size_t)w * h * 3);
    for (unsigned i = 0; i < crops; i++) {
        char text[120];
        struct leat_error err;
        uint32_t cw = 1 + noise_bits(state) % w;
        uint32_t ch = 1 + noise_bits(state) % h;
        if (i % 4 == 0)
            cw = 1 + cw % (w < 5 ? w : 5);
        if (i % 5 == 0)
            ch = 1 + ch % (h < 5 ? h : 5);
        uint32_t x = noise_bits(state) % (w - cw + 1);
        uint32_t y = noise_bits(state) % (h - ch + 1);
        snprintf(text, sizeof text, "crop=%ux%u+%u+%u%s", cw, ch, x, y, gray ? " colour=gray" : "");
        leat_status rc = run_text(s, text, e, out, (uint64_t)cw * ch * channels, &err);
        if (rc != LEAT_OK)
            fail_msg("%s of %ux%u: %s", text, w, h, err.text);
        for (uint32_t r = 0; r < ch; r++) {
            const uint8_t *want = whole + ((size_t)w * (y + r) + x) * channels;
            if (memcmp(out + (size_t)cw * channels * r, want, (size_t)cw * channels) != 0)
                fail_msg("%s of %ux%u: row %u differs", text, w, h, r);
        }
    }
    free(out);
    free(whole);
}

static const struct {
    int h, v, ch, cv;
} samplings[] = {{1, 1, 1, 1}, {2, 1, 1, 1}, {2, 2, 1, 1}, {1, 2, 1, 1}, {2, 1, 2, 1}, {1, 2, 1, 2},
                 {2, 2, 1, 2}, {2, 2, 2, 1}, {4, 1, 1, 1}, {4, 2, 1, 1}, {1, 4, 1, 1}};

static const uint32_t sizes[][2] = {{1, 1},   {2, 3},   {7, 5},   {8, 8},    {9, 16},   {16, 17},
                                    {17, 16}, {33, 31}, {64, 48}, {100, 75}, {131, 97}, {250, 187}};

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void sweep(const struct jpeg_choice *base, const char *level, unsigned crops)
{
    struct leat_scratch *s = scratch_open(level);
    uint32_t state = 12345;
    for (size_t i = 0; i < COUNT(samplings); i++) {
        for (size_t j = 0; j < COUNT(sizes); j++) {
            struct jpeg_choice c = *base;
            c.h = samplings[i].h;
            c.v = samplings[i].v;
            c.chroma_h = samplings[i].ch;
            c.chroma_v = samplings[i].cv;
            c.quality = j % 2 ? 75 : 95;
            struct picture p = picture_make(sizes[j][0], sizes[j][1], (uint32_t)(i * 100 + j));
            struct encoded e = jpeg_make(&p, &c);
            check_crops(s, &e, false, crops, &state);
            check_crops(s, &e, true, crops / 4 + 1, &state);
            free(e.data);
            free(p.rgb);
        }
    }
    leat_scratch_close(s);
}

static void exact_crops_equal_a_full_decode(void **state)
{
    sweep(&(struct jpeg_choice){0}, NULL, 120);
}

static void exact_crops_equal_a_full_decode_at_every_vector_level(void **state)
{
    static const char *const levels[] = {"scalar", "avx2", "avx512"};
    for (size_t i = 0; i < COUNT(levels); i++) {
        if (leat_kernels_named(levels[i]))
            sweep(&(struct jpeg_choice){0}, levels[i], 6);
    }
}

static void exact_crops_of_progressive_files_equal_a_full_decode(void **state)
{
    sweep(&(struct jpeg_choice){.progressive = true}, NULL, 6);
}

static void exact_crops_of_files_with_restarts_equal_a_full_decode(void **state)
{
    sweep(&(struct jpeg_choice){.restart = 3}, NULL, 6);
}

static void exact_crops_of_gray_and_rgb_files_equal_a_full_decode(void **state)
{
    static const struct jpeg_choice kinds[] = {{.gray = true}, {.gray = true, .progressive = true}, {.rgb = true}};
    struct leat_scratch *s = scratch_open(NULL);
    uint32_t seed = 99;
    for (size_t k = 0; k < COUNT(kinds); k++) {
        for (size_t j = 0; j < COUNT(sizes); j++) {
            struct picture p = picture_make(sizes[j][0], sizes[j][1], (uint32_t)j);
            struct encoded e = jpeg_make(&p, &kinds[k]);
            check_crops(s, &e, false, 20, &seed);
            if (kinds[k].gray)
                check_crops(s, &e, true, 20, &seed);
            free(e.data);
            free(p.rgb);
        }
    }
    leat_scratch_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_crops_equal_a_full_decode),
        cmocka_unit_test(exact_crops_equal_a_full_decode_at_every_vector_level),
        cmocka_unit_test(exact_crops_of_progressive_files_equal_a_full_decode),
        cmocka_unit_test(exact_crops_of_files_with_restarts_equal_a_full_decode),
        cmocka_unit_test(exact_crops_of_gray_and_rgb_files_equal_a_full_decode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
