#include <math.h>

#include "prep/deviate.h"
#include "prep/geometry.h"
#include "prep/pipeline.h"
#include "unit.h"

static struct leat_steps steps_of(const char *text)
{
    struct leat_prep_description d;
    struct leat_error err;
    assert_ok(leat_prep_parse(text, &d, &err), err);
    return d.steps;
}

static struct leat_geometry apply(const char *text, uint32_t w, uint32_t h, uint64_t stream)
{
    struct leat_steps steps = steps_of(text);
    struct leat_geometry g;
    struct leat_error err;
    assert_ok(leat_steps_apply(&steps, w, h, leat_rng(77, stream), &g, &err), err);
    return g;
}

/* torchvision's get_params, word for word in what it does, on another generator. */
static double other_unit(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

static struct leat_box other_crop(uint32_t w, uint32_t h, const double scale[2], const double ratio[2], uint64_t *state)
{
    for (int i = 0; i < 10; i++) {
        double area = (double)w * h * (scale[0] + other_unit(state) * (scale[1] - scale[0]));
        double aspect = exp(log(ratio[0]) + other_unit(state) * (log(ratio[1]) - log(ratio[0])));
        int cw = (int)rint(sqrt(area * aspect));
        int ch = (int)rint(sqrt(area / aspect));
        if (cw > 0 && cw <= (int)w && ch > 0 && ch <= (int)h) {
            uint32_t y = (uint32_t)(other_unit(state) * ((int)h - ch + 1));
            uint32_t x = (uint32_t)(other_unit(state) * ((int)w - cw + 1));
            return (struct leat_box){x, y, (uint32_t)cw, (uint32_t)ch};
        }
    }
    double in = (double)w / h;
    int cw = (int)w;
    int ch = (int)h;
    if (in < ratio[0])
        ch = (int)rint(cw / ratio[0]);
    else if (in > ratio[1])
        cw = (int)rint(ch * ratio[1]);
    return (struct leat_box){((uint32_t)((int)w - cw)) / 2, (uint32_t)((int)h - ch) / 2, (uint32_t)cw, (uint32_t)ch};
}

static int compare(const void *a, const void *b)
{
    double d = *(const double *)a - *(const double *)b;
    return d < 0 ? -1 : d > 0;
}

/* The largest distance between two empirical distributions (Kolmogorov and Smirnov's). */
static double distance(double *a, double *b, size_t n)
{
    double worst = 0;
    size_t i = 0;
    size_t j = 0;
    qsort(a, n, sizeof *a, compare);
    qsort(b, n, sizeof *b, compare);
    while (i < n && j < n) {
        double v = a[i] < b[j] ? a[i] : b[j];
        while (i < n && a[i] <= v)
            i++;
        while (j < n && b[j] <= v)
            j++;
        double d = fabs((double)i - (double)j) / (double)n;
        worst = d > worst ? d : worst;
    }
    return worst;
}

TEST(random_resized_crops_are_distributed_as_torchvisions)
{
    enum { N = 20000 };
    static const struct {
        uint32_t w, h;
        const char *text;
        double scale[2], ratio[2];
    } cases[] = {
        {500, 375, "random_resized_crop=224", {0.08, 1}, {3.0 / 4, 4.0 / 3}},
        {375, 500, "random_resized_crop=224 scale=0.35:1", {0.35, 1}, {3.0 / 4, 4.0 / 3}},
        {1000, 90, "random_resized_crop=224", {0.08, 1}, {3.0 / 4, 4.0 / 3}}, /* mostly the fallback */
        {60, 700, "random_resized_crop=224 ratio=0.5:0.7", {0.08, 1}, {0.5, 0.7}},
        {300, 300, "random_resized_crop=224 scale=0.9:1 ratio=1:3", {0.9, 1}, {1, 3}},
    };
    /* A difference this large or larger comes by chance once in ten thousand. */
    const double limit = 2.225 * sqrt(2.0 / N);
    double *a = malloc(4 * N * sizeof *a);
    double *b = malloc(4 * N * sizeof *b);
    for (size_t c = 0; c < COUNT(cases); c++) {
        uint64_t other = 3;
        for (size_t i = 0; i < N; i++) {
            struct leat_box ours = apply(cases[c].text, cases[c].w, cases[c].h, i).crop;
            struct leat_box theirs = other_crop(cases[c].w, cases[c].h, cases[c].scale, cases[c].ratio, &other);
            const struct leat_box both[] = {ours, theirs};
            for (int k = 0; k < 2; k++) {
                double *to = k ? b : a;
                to[i] = (double)both[k].width * both[k].height;
                to[N + i] = (double)both[k].width / both[k].height;
                to[2 * N + i] = both[k].x;
                to[3 * N + i] = both[k].y;
            }
        }
        for (int k = 0; k < 4; k++) {
            double d = distance(a + k * N, b + k * N, N);
            if (d > limit)
                fail_msg("case %zu, quantity %d: distance %g over %g", c, k, d, limit);
        }
    }
    free(a);
    free(b);
}

TEST(crops_stay_inside_and_flips_come_half_the_time)
{
    unsigned flips = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        uint32_t w = 1 + (uint32_t)(i % 97);
        uint32_t h = 1 + (uint32_t)(i % 61);
        struct leat_geometry g = apply("random_resized_crop=32 flip", w, h, i);
        assert_true(g.crop.width >= 1 && g.crop.x + g.crop.width <= w);
        assert_true(g.crop.height >= 1 && g.crop.y + g.crop.height <= h);
        flips += g.flip;
    }
    assert_true(flips > 9700 && flips < 10300);
    assert_true(apply("flip=1", 9, 9, 1).flip);
    assert_false(apply("flip=0", 9, 9, 1).flip);
}

/* Promised to be the same on every machine and in every release. */
TEST(draws_are_these_and_stay_these)
{
    struct leat_geometry g = apply("random_resized_crop=224 flip", 500, 375, 1);
    uint32_t first[] = {g.crop.x, g.crop.y, g.crop.width, g.crop.height, g.flip};
    g = apply("resize=256 random_crop=224 flip", 640, 480, 2);
    uint32_t second[] = {g.window.x, g.window.y, g.resized[0], g.resized[1], g.flip};
    const uint32_t want_first[] = {12, 5, 488, 366, 1};
    const uint32_t want_second[] = {89, 23, 341, 256, 0};
    for (int i = 0; i < 5; i++) {
        if (first[i] != want_first[i] || second[i] != want_second[i])
            fail_msg("drawn: %u, %u, %u, %u, %u and %u, %u, %u, %u, %u", first[0], first[1], first[2], first[3],
                     first[4], second[0], second[1], second[2], second[3], second[4]);
    }
    struct leat_rng a = leat_prep_draws(5, 6, 7, 8);
    struct leat_rng b = leat_prep_draws(5, 6, 8, 8);
    assert_int_not_equal(leat_rng_u64(&a), leat_rng_u64(&b));
}

TEST(exponentials_agree_with_the_c_library)
{
    for (double x = -7; x <= 7; x += 0.0137) {
        assert_true(fabs(leat_prep_exp(x) / exp(x) - 1) < 1e-13);
        assert_true(fabs(leat_prep_ln(exp(x)) - x) < 1e-12);
    }
    assert_true(leat_prep_exp(0) == 1);
    assert_true(fabs(leat_prep_ln(1)) < 1e-15);
}

static void boxes_are(const struct leat_geometry *g, const uint32_t v[14])
{
    const uint32_t got[14] = {g->crop.x,     g->crop.y,    g->crop.width, g->crop.height,  g->resized[0],
                              g->resized[1], g->window.x,  g->window.y,   g->window.width, g->window.height,
                              g->output[0],  g->output[1], g->place[0],   g->place[1]};
    for (int i = 0; i < 14; i++) {
        if (got[i] != v[i])
            fail_msg("number %d is %u, not %u", i, got[i], v[i]);
    }
}

TEST(steps_come_down_to_one_crop_one_resize_one_window)
{
    struct leat_geometry g = apply("resize=256 center_crop=224", 500, 375, 0);
    boxes_are(&g, (uint32_t[]){0, 0, 500, 375, 341, 256, 58, 16, 224, 224, 224, 224, 0, 0});
    g = apply("crop=100x50+10+20 resize=20x30 crop=5x6+7+8", 500, 375, 0);
    boxes_are(&g, (uint32_t[]){10, 20, 100, 50, 20, 30, 7, 8, 5, 6, 5, 6, 0, 0});
    g = apply("crop=100x50+10+20 crop=30x20+5+6", 500, 375, 0);
    boxes_are(&g, (uint32_t[]){15, 26, 30, 20, 30, 20, 0, 0, 30, 20, 30, 20, 0, 0});
    g = apply("center_crop=100x41", 61, 50, 0);
    boxes_are(&g, (uint32_t[]){0, 4, 61, 41, 61, 41, 0, 0, 61, 41, 100, 41, 19, 0});
    g = apply("letterbox=100x80", 50, 20, 0);
    boxes_are(&g, (uint32_t[]){0, 0, 50, 20, 100, 40, 0, 0, 100, 40, 100, 80, 0, 20});
    g = apply("longest=64", 100, 401, 0);
    boxes_are(&g, (uint32_t[]){0, 0, 100, 401, 16, 64, 0, 0, 16, 64, 16, 64, 0, 0});
    g = apply("resize=80 limit=133", 100, 300, 0); /* torchvision's Resize(80, max_size=133) */
    boxes_are(&g, (uint32_t[]){0, 0, 100, 300, 44, 133, 0, 0, 44, 133, 44, 133, 0, 0});
    g = apply("resize=80 limit=133", 100, 120, 0);
    boxes_are(&g, (uint32_t[]){0, 0, 100, 120, 80, 96, 0, 0, 80, 96, 80, 96, 0, 0});
    g = apply("scale_jitter=100 scale=0.5:0.5", 200, 100, 0);
    boxes_are(&g, (uint32_t[]){0, 0, 200, 100, 50, 25, 0, 0, 50, 25, 100, 100, 0, 0});
    g = apply("center_crop=100 crop=10x10+0+0", 20, 20, 0);
    assert_int_equal(g.window.width, 0);
    assert_int_equal(g.output[0], 10);
    assert_int_equal(g.place[0], 0);
}

TEST(padded_crops_reach_every_place)
{
    unsigned seen[2][9] = {{0}};
    for (uint64_t i = 0; i < 2000; i++) {
        struct leat_geometry g = apply("random_crop=32 padding=4 border=reflect", 32, 32, i);
        assert_int_equal(g.border, LEAT_BORDER_REFLECT);
        seen[0][4 + g.place[0] - g.crop.x]++;
        seen[1][4 + g.place[1] - g.crop.y]++;
        assert_int_equal(g.window.width, 32 - g.place[0] - g.crop.x);
    }
    for (int i = 0; i < 9; i++)
        assert_true(seen[0][i] > 150 && seen[1][i] > 150);
    unsigned upside = 0;
    for (uint64_t i = 0; i < 2000; i++)
        upside += apply("vflip=0.25", 9, 9, i).vflip;
    assert_true(upside > 420 && upside < 580);
    for (uint64_t i = 0; i < 500; i++) {
        struct leat_geometry g = apply("scale_jitter=100 scale=0.1:2", 90, 160, i);
        assert_true(g.resized[0] >= 5 && g.resized[0] <= 113 && g.resized[1] >= 10 && g.resized[1] <= 200);
        assert_true(g.window.y + g.window.height <= g.resized[1] && g.output[0] == 100 && g.output[1] == 100);
    }
}

TEST(descriptions_that_cannot_work_are_refused)
{
    static const struct {
        const char *text;
        const char *word;
    } rows[] = {
        {"resize=10 resize=20", "resized once"},
        {"center_crop=10 resize=20", "resize first"},
        {"flip crop=1x1+0+0", "flip last"},
        {"random_resized_crop=0", "between 1"},
        {"random_resized_crop=70000", "between 1"},
        {"random_resized_crop=10 scale=0:1", "scale"},
        {"random_resized_crop=10 scale=0.5:0.4", "scale"},
        {"random_resized_crop=10 ratio=0:2", "ratio"},
        {"scale=0.1:1", "belongs after"},
        {"crop=10", "size like"},
        {"crop=10x10+1", "size like"},
        {"resize=10x", "size like"},
        {"resize=-1", "size like"},
        {"flip=1.5", "between 0 and 1"},
        {"flip=nan", "flip"},
        {"mean=1:2", "one or three"},
        {"mean=1:2:3:4", "more than 3"},
        {"std=0.2:0:0.2", "above 0"},
        {"dtype=uint8 mean=0.5", "cannot hold normalised"},
        {"std=0.2 dtype=uint8", "cannot hold normalised"},
        {"fill=300", "255"},
        {"layout=hwc", "nhwc, nchw"},
        {"blur=3", "blur"},
        {"longest=0", "between 1"},
        {"letterbox=10 resize=3", "resized once"},
        {"random_crop=8 padding=4 border=reflect", "at least 9"},
        {"random_crop=9 padding=4 border=reflect center_crop=3", "made from the picture"},
        {"center_crop=40 random_crop=9 padding=4 border=edge", "made from padding"},
        {"scale_jitter=10 scale=0:1", "scale"},
        {"crop=1x1+0+0 crop=1x1+0+0 crop=1x1+0+0 crop=1x1+0+0 crop=1x1+0+0 crop=1x1+0+0 crop=1x1+0+0 crop=1x1+0+0 "
         "crop=1x1+0+0",
         "more than 8"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct leat_prep_description d;
        struct leat_error err;
        if (leat_prep_parse(rows[i].text, &d, &err) != LEAT_INVALID)
            fail_msg("'%s' is taken", rows[i].text);
        if (!strstr(err.text, rows[i].word))
            fail_msg("'%s': '%s' does not say '%s'", rows[i].text, err.text, rows[i].word);
    }
    struct leat_steps steps = steps_of("random_crop=100");
    struct leat_geometry g;
    struct leat_error err;
    assert_fails(leat_steps_apply(&steps, 99, 500, leat_rng(1, 1), &g, &err), err, LEAT_INVALID, "resize before");
    steps = steps_of("resize=60000");
    assert_fails(leat_steps_apply(&steps, 10, 500, leat_rng(1, 1), &g, &err), err, LEAT_LIMIT, "over");
}
