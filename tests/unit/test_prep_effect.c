#include "prep_unit.h"

#include "prep/deviate.h"
#include "prep/words.h"

static const char *const levels[] = {"avx2", "avx512"};

static const char *const texts[] = {
    "brightness=0.3:1.7 contrast=0.3:1.7 saturation=0.3:1.7 hue=-0.5:0.5",
    "color_jitter=0.4:0.4:0.2:0.1 gaussian_blur=23 sigma=0.1:2 solarize=128 p=1",
    "grayscale=1",
    "invert=1 posterize=3 p=1",
    "equalize=1 autocontrast=1",
    "sharpness=0:2 p=1",
    "gaussian_blur=5 sigma=3",
    "rotate=-180:180",
    "rotate=-180:180 interpolation=bilinear fill=1:2:3",
    "affine=-20:20 translate=0.1:0.3 scale=0.5:2 shear=-20:20:-20:20",
    "affine=-20:20 translate=0.1:0.3 scale=0.5:2 shear=-20:20:-20:20 interpolation=bilinear",
    "perspective=0.9 p=1",
    "perspective=0.9 p=1 interpolation=nearest fill=9",
    "erase=1 value=3:4:5 cutout=20",
    "rand_augment",
    "trivial_augment",
    "auto_augment=imagenet",
    "auto_augment=cifar10",
    "auto_augment=svhn",
    "augmix",
    "three_augment",
};

TEST(every_vector_level_gives_the_bytes_of_plain_c)
{
    static const uint32_t sizes[][2] = {{96, 96}, {131, 57}, {33, 200}, {64, 64}};
    static const char *const kinds[] = {"", "layout=nchw dtype=float16 std=0.2", "colour=gray", "dtype=float32"};
    static uint8_t want[200 * 200 * 3 * 4];
    static uint8_t got[200 * 200 * 3 * 4];
    struct leat_scratch *plain = scratch_open("scalar");
    struct encoded e = jpeg_of(300, 240, &(struct jpeg_choice){0});
    for (unsigned l = 0; l < COUNT(levels); l++) {
        if (!leat_kernels_named(levels[l]))
            continue;
        struct leat_scratch *vector = scratch_open(levels[l]);
        for (unsigned i = 0; i < COUNT(texts) * 3; i++) {
            const uint32_t *size = sizes[i % COUNT(sizes)];
            char text[300];
            struct leat_error err;
            snprintf(text, sizeof text, "resize=%ux%u flip %s %s", size[0], size[1], texts[i % COUNT(texts)],
                     kinds[i % COUNT(kinds)]);
            struct leat_pipeline *p = pipeline_make(text);
            uint64_t bytes = leat_pipeline_bytes(p, size[0], size[1]);
            assert_ok(leat_pipeline_run(p, plain, e.data, e.size, leat_rng(1, i), want, bytes, &err), err);
            got[bytes] = 0x5a;
            assert_ok(leat_pipeline_run(p, vector, e.data, e.size, leat_rng(1, i), got, bytes, &err), err);
            if (memcmp(want, got, bytes) != 0)
                fail_msg("%s differs at level %s", text, levels[l]);
            assert_int_equal(got[bytes], 0x5a);
            leat_pipeline_free(p);
        }
        leat_scratch_close(vector);
    }
    free(e.data);
    leat_scratch_close(plain);
}

static uint32_t side_of(const struct leat_pipeline *p)
{
    uint32_t w;
    uint32_t h;
    leat_pipeline_size(p, &w, &h);
    return w;
}

/* Two global and eight local views, a grey one, a fast one and an empty one, out of one decode. */
TEST(views_of_one_decode_are_those_of_many)
{
    enum { VIEWS = 13, BYTES = 96 * 96 * 3 };
    static uint8_t want[VIEWS][BYTES];
    static uint8_t got[VIEWS][BYTES];
    static const struct jpeg_choice kinds[] = {{0}, {.progressive = true}, {.orientation = 6}, {.gray = true}};
    const char *words[VIEWS];
    for (unsigned i = 0; i < VIEWS; i++)
        words[i] = i < 2
                       ? "random_resized_crop=96 scale=0.4:1 flip color_jitter=0.4:0.4:0.2:0.1 p=0.8 solarize=128 p=0.2"
                       : "random_resized_crop=48 scale=0.05:0.4 flip gaussian_blur=9 p=0.5";
    words[10] = "random_resized_crop=40 colour=gray";
    words[11] = "mode=fast random_resized_crop=40";
    words[12] = "center_crop=500 crop=10x10+0+0 fill=7";
    struct leat_scratch *s = scratch_open(NULL);
    struct leat_pipeline *p[VIEWS];
    for (unsigned i = 0; i < VIEWS; i++)
        p[i] = pipeline_make(words[i]);
    for (unsigned k = 0; k < COUNT(kinds) * 8; k++) {
        struct encoded e = jpeg_of(200 + k, 170, &kinds[k % COUNT(kinds)]);
        struct leat_view views[VIEWS];
        struct leat_error err;
        for (unsigned i = 0; i < VIEWS; i++) {
            uint64_t bytes = leat_pipeline_bytes(p[i], side_of(p[i]), side_of(p[i]));
            views[i] = (struct leat_view){p[i], leat_prep_draws(3, k, 0, i), got[i], bytes, NULL};
            assert_ok(leat_pipeline_run(p[i], s, e.data, e.size, views[i].draws, want[i], bytes, &err), err);
        }
        assert_ok(leat_pipeline_run_views(s, e.data, e.size, views, VIEWS, &err), err);
        for (unsigned i = 0; i < VIEWS; i++)
            assert_memory_equal(want[i], got[i], views[i].to_bytes);
        free(e.data);
    }
    for (unsigned i = 0; i < VIEWS; i++)
        leat_pipeline_free(p[i]);
    leat_scratch_close(s);
}

/* A padded crop against the picture itself, mirrored by hand. */
TEST(padding_is_made_from_the_picture)
{
    enum { N = 20, PAD = 6 };
    static const char *const borders[] = {"constant", "edge", "reflect", "symmetric"};
    static uint8_t whole[N * N * 3];
    static uint8_t got[N * N * 3];
    struct encoded e = jpeg_of(N, N, &(struct jpeg_choice){0});
    struct leat_scratch *s = scratch_open(NULL);
    struct leat_error err;
    assert_ok(run_text(s, "", &e, whole, sizeof whole, &err), err);
    for (unsigned k = 0; k < 4 * 40; k++) {
        char text[100];
        unsigned b = k % 4;
        struct leat_drawn drawn;
        struct leat_image_info info = {.width = N, .height = N, .orientation = 1};
        snprintf(text, sizeof text, "random_crop=%d padding=%d border=%s flip vflip fill=9", N, PAD, borders[b]);
        struct leat_pipeline *p = pipeline_make(text);
        assert_ok(leat_pipeline_plan(p, &info, leat_rng(4, k), &drawn, &err), err);
        assert_ok(leat_pipeline_run(p, s, e.data, e.size, leat_rng(4, k), got, sizeof got, &err), err);
        const struct leat_geometry *g = &drawn.geometry;
        for (int i = 0; i < N * N; i++) {
            int at[2] = {g->flip ? N - 1 - i % N : i % N, g->vflip ? N - 1 - i / N : i / N};
            int shift[2] = {(int)g->crop.x - (int)g->place[0], (int)g->crop.y - (int)g->place[1]};
            bool outside = false;
            for (int d = 0; d < 2; d++) {
                int v = at[d] + shift[d];
                int past = v >= N;
                outside = outside || v < 0 || past;
                int edge = past ? N - 1 : 0;
                if (v < 0 || past)
                    v = b == 1 ? edge : b == 2 ? 2 * edge - v : 2 * edge - v + (past ? 1 : -1);
                at[d] = v;
            }
            for (int c = 0; c < 3; c++)
                assert_int_equal(got[3 * i + c], b == 0 && outside ? 9 : whole[3 * (at[1] * N + at[0]) + c]);
        }
        leat_pipeline_free(p);
    }
    free(e.data);
    leat_scratch_close(s);
}

/* Promised to be the same on every machine and in every release. */
TEST(draws_are_these_and_stay_these)
{
    static const struct {
        const char *text;
        const char *want;
    } rows[] = {
        {"color_jitter=0.4:0.4:0.2:0.1", "contrast 1.0845669596708221, hue 0.019212829841239884, brightness "
                                         "1.1401359240135576, saturation 1.0401380613157098"},
        {"rotate=-30:30 gaussian_blur=23",
         "affine -5.9481606503419471 0 0 1 0 0 0 0 nearest, gaussian_blur 23 0.15919865655183316"},
        {"affine=-10:10 translate=0.1 scale=0.9:1.1 shear=-5:5",
         "affine -5.9002164558401837 10 -5 0.94034942320199644 2.6082464649432913 0 0 0 nearest"},
        {"perspective=0.5 p=1",
         "perspective 1.3261924982070923 0.179215207695961 -65.807823181152344 0.12740740180015564 1.5288887023925781 "
         "-80.394065856933594 0.00016878408496268094 0.00061104667838662863 bilinear"},
        {"erase=1", "erase 63 56 148 85 0 0 0"},
        {"cutout=16", "erase 97 164 16 16 0 0 0"},
        {"rand_augment", "equalize, affine 0 0 0 1 0 -5.1427647611435159 -112 -100 nearest"},
        {"trivial_augment", "affine 0 -8 0 1 0 0 0 0 nearest"},
        {"auto_augment", "equalize"},
        {"augmix depth=1 width=2", "mix 0.82529127597808838, chain 0.027354298159480095, posterize 4, chain "
                                   "0.14735442399978638, contrast 1, mixed"},
        {"three_augment", "gaussian_blur 13 0.35532866451517409"},
    };
    struct leat_image_info info = {.width = 224, .height = 200, .orientation = 1};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct leat_pipeline *p = pipeline_make(rows[i].text);
        struct leat_drawn drawn;
        struct leat_error err;
        char text[2000] = "";
        assert_ok(leat_pipeline_plan(p, &info, leat_prep_draws(1, 2, 3, 4), &drawn, &err), err);
        for (unsigned k = 0; k < drawn.ops.count; k++) {
            size_t n = strlen(text);
            snprintf(text + n, sizeof text - n, k ? ", " : "%s", "");
            leat_op_print(&drawn.ops.op[k], text + strlen(text), sizeof text - strlen(text));
        }
        if (strcmp(text, rows[i].want) != 0)
            fail_msg("%s draws\n        {\"%s\", \"%s\"},", rows[i].text, rows[i].text, text);
        leat_pipeline_free(p);
    }
}

TEST(sines_and_normals_are_what_they_should_be)
{
    struct leat_rng r = leat_rng(8, 8);
    for (int i = -800; i <= 800; i++) {
        double s;
        double c;
        leat_prep_sincos(i * 0.9, &s, &c);
        assert_true(fabs(s - sin(i * 0.9 * acos(-1) / 180)) < 1e-14);
        assert_true(fabs(c - cos(i * 0.9 * acos(-1) / 180)) < 1e-14);
    }
    static const double shapes[] = {0.2, 1.0, 3.5};
    for (unsigned k = 0; k < COUNT(shapes); k++) {
        enum { N = 20000 };
        double sum = 0;
        double squares = 0;
        for (int i = 0; i < N; i++) {
            double g = leat_prep_gamma(&r, shapes[k]);
            sum += g;
            squares += g * g;
        }
        double mean = sum / N;
        double variance = squares / N - mean * mean;
        assert_true(fabs(mean / shapes[k] - 1) < 5 / sqrt(N * shapes[k]));
        assert_true(fabs(variance / shapes[k] - 1) < 0.2);
    }
    double tiny[3];
    leat_prep_dirichlet(&r, 1e-3, 3, tiny);
    assert_true(fabs(tiny[0] + tiny[1] + tiny[2] - 1) < 1e-12);
}

TEST(effects_that_cannot_work_are_refused)
{
    static const struct {
        const char *text;
        const char *word;
    } rows[] = {
        {"brightness", "not a number"},
        {"brightness=-1", "between 0 and 100"},
        {"brightness=2:1", "not a range"},
        {"hue=0.6", "between -0.5 and 0.5"},
        {"color_jitter=0.1:0.1:0.1:0.6", "hue"},
        {"color_jitter=0.1:0.1:0.1:0.1:0.1", "more than 4"},
        {"gaussian_blur=4", "odd"},
        {"posterize=2.5", "whole"},
        {"posterize=9", "between 0 and 8"},
        {"solarize=1 p=1.5", "between 0 and 1"},
        {"p=0.5", "belongs after"},
        {"rotate=1 sigma=2", "belongs after"},
        {"rotate=1 interpolation=bicubic", "nearest, bilinear"},
        {"affine=0 shear=1:2:3", "one, two or four"},
        {"rand_augment=2 magnitude=31", "below bins"},
        {"auto_augment=coco", "imagenet, cifar10, svhn"},
        {"augmix=3 width=9", "between 1 and 8"},
        {"invert crop=1x1+0+0", "come first"},
        {"augmix width=8 depth=8 augmix width=8 depth=8", "operations"},
        {"colour=index filter=nearest invert", ""},
    };
    for (size_t i = 0; i + 1 < COUNT(rows); i++) {
        struct leat_prep_description d;
        struct leat_error err;
        if (leat_prep_parse(rows[i].text, &d, &err) != LEAT_INVALID)
            fail_msg("'%s' is taken", rows[i].text);
        if (!strstr(err.text, rows[i].word))
            fail_msg("'%s': '%s' does not say '%s'", rows[i].text, err.text, rows[i].word);
    }
    struct leat_prep_description d;
    struct leat_pipeline *p;
    struct leat_error err;
    assert_ok(leat_prep_parse(rows[COUNT(rows) - 1].text, &d, &err), err);
    assert_fails(leat_pipeline_make(&d, &p, &err), err, LEAT_INVALID, "palette");
    assert_ok(leat_prep_parse("brightness=1", &d, &err), err);
    d.effects.effect[0].range[1] = NAN; /* filled in by hand, not parsed */
    assert_fails(leat_pipeline_make(&d, &p, &err), err, LEAT_INVALID, "brightness");
    struct encoded e = jpeg_of(30, 8, &(struct jpeg_choice){0});
    struct leat_scratch *s = scratch_open(NULL);
    uint8_t out[30 * 8 * 3];
    assert_fails(run_text(s, "gaussian_blur=23", &e, out, sizeof out, &err), err, LEAT_INVALID, "taps");
    leat_scratch_close(s);
    free(e.data);
}
