#include "prep_unit.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/random.h"

static const char *const levels[] = {"avx2", "avx512"};

/* Output sizes from one pixel to far above the source, so that every way through the passes is taken. */
TEST(every_vector_level_gives_the_bytes_of_plain_c)
{
    static const char *const filters[] = {"bilinear", "bicubic", "nearest"};
    static const char *const kinds[] = {"",
                                        "layout=nchw",
                                        "colour=gray",
                                        "dtype=float32 mean=0.4:0.5:0.6 std=0.2",
                                        "dtype=float16 layout=nchw std=0.22",
                                        "dtype=bfloat16 mean=0.5"};
    struct leat_scratch *plain = scratch_open("scalar");
    struct leat_rng r = leat_rng(5, 5);
    static uint8_t want[700 * 700 * 3 * 4];
    static uint8_t got[700 * 700 * 3 * 4];
    for (unsigned l = 0; l < COUNT(levels); l++) {
        if (!leat_kernels_named(levels[l]))
            continue;
        struct leat_scratch *vector = scratch_open(levels[l]);
        for (unsigned i = 0; i < unit_number(0, 60); i++) {
            char text[200];
            struct leat_error err;
            struct jpeg_choice choice = {.h = 1 + (int)leat_rng_below(&r, 2), .v = 1 + (int)leat_rng_below(&r, 2)};
            uint32_t w = 1 + (uint32_t)leat_rng_below(&r, i % 7 ? 300 : 1500);
            uint32_t h = 1 + (uint32_t)leat_rng_below(&r, 300);
            uint32_t ow = 1 + (uint32_t)leat_rng_below(&r, i % 5 ? 260 : 700);
            uint32_t oh = 1 + (uint32_t)leat_rng_below(&r, i % 11 ? 260 : 700);
            snprintf(text, sizeof text, "%s resize=%ux%u flip=%d filter=%s %s", i % 3 ? "" : "mode=fast", ow, oh,
                     (int)leat_rng_below(&r, 2), filters[leat_rng_below(&r, 3)],
                     kinds[leat_rng_below(&r, COUNT(kinds))]);
            struct leat_pipeline *p = pipeline_make(text);
            uint64_t bytes = leat_pipeline_bytes(p, ow, oh);
            struct encoded e = jpeg_of(w, h, &choice);
            assert_ok(leat_pipeline_run(p, plain, e.data, e.size, leat_rng(1, i), want, bytes, &err), err);
            got[bytes] = 0x5a;
            assert_ok(leat_pipeline_run(p, vector, e.data, e.size, leat_rng(1, i), got, bytes, &err), err);
            if (memcmp(want, got, bytes) != 0)
                fail_msg("%s of %ux%u differs at level %s", text, w, h, levels[l]);
            assert_int_equal(got[bytes], 0x5a);
            free(e.data);
            leat_pipeline_free(p);
        }
        leat_scratch_close(vector);
    }
    leat_scratch_close(plain);
}

/* A row of n samples that may be read LEAT_ROW_PAD bytes after its end, and not one more: there the process ends. */
struct guarded {
    uint8_t *pages;
    size_t bytes;
    uint8_t *row;
};

static struct guarded guarded_row(uint32_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t inside = (n + LEAT_ROW_PAD + page - 1) / page * page;
    struct guarded g = {.bytes = inside + page};
    g.pages = mmap(NULL, g.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.pages != MAP_FAILED);
    assert_int_equal(mprotect(g.pages + inside, page, PROT_NONE), 0);
    g.row = g.pages + inside - LEAT_ROW_PAD - n;
    for (uint32_t i = 0; i < n; i++)
        g.row[i] = (uint8_t)(i * 7);
    return g;
}

TEST(no_level_reads_farther_behind_a_row_than_it_may)
{
    static const uint32_t cases[][2] = {{65500, 8}, {65535, 1}, {60000, 77}, {4096, 8}, {1300, 1}, {700, 9}, {64, 224}};
    static const char *const names[] = {"scalar", "avx2", "avx512"};
    struct leat_arena arena;
    struct leat_error err;
    leat_arena_init(&arena, (size_t)1 << 28);
    for (size_t i = 0; i < COUNT(cases) * 8 * COUNT(names); i++) {
        const struct leat_kernels *k = leat_kernels_named(names[i % COUNT(names)]);
        const uint32_t *c = cases[i / COUNT(names) % COUNT(cases)];
        unsigned kind = (unsigned)(i / COUNT(names) / COUNT(cases));
        if (!k)
            continue;
        struct leat_axis_spec spec = {.filter = kind & 1 ? LEAT_FILTER_BICUBIC : LEAT_FILTER_BILINEAR,
                                      .samples = c[0],
                                      .length = c[0],
                                      .size = c[1],
                                      .first = kind & 2 ? c[1] / 2 : 0,
                                      .count = kind & 2 ? c[1] - c[1] / 2 : c[1],
                                      .reversed = kind & 4};
        struct leat_axis axis;
        struct leat_axis plain;
        struct guarded g = guarded_row(c[0]);
        uint8_t want[256 + 64];
        uint8_t got[256 + 64];
        leat_arena_reset(&arena);
        assert_ok(leat_axis_make(&axis, &spec, &k->shape, &arena, &err), err);
        assert_ok(leat_axis_make(&plain, &spec, &leat_kernels_scalar.shape, &arena, &err), err);
        assert_int_equal(axis.end, c[0]);
        k->across(&axis, 1, &(const uint8_t *){g.row + axis.begin}, &(uint8_t *){got});
        leat_kernels_scalar.across(&plain, 1, &(const uint8_t *){g.row + plain.begin}, &(uint8_t *){want});
        assert_memory_equal(got, want, spec.count);
        munmap(g.pages, g.bytes);
    }
    leat_arena_free(&arena);
}

TEST(a_very_wide_picture_becomes_very_small)
{
    struct leat_error err;
    static const char *const texts[] = {"resize=8x8", "resize=8x8 filter=bicubic", "resize=8x8 mode=fast",
                                        "resize=40x8 filter=bicubic colour=gray"};
    struct encoded e = jpeg_of(65500, 40, &(struct jpeg_choice){0});
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct leat_scratch *s = scratch_open(NULL);
        uint8_t out[40 * 8 * 3];
        assert_ok(run_text(s, texts[i], &e, out, i == 3 ? 40 * 8 : 8 * 8 * 3, &err), err);
        leat_scratch_close(s);
    }
    free(e.data);
}

/* The rules once more, in floating point and with no regard to speed. */
static double reference(const uint8_t *line, size_t step, uint32_t n, uint32_t size, uint32_t i)
{
    double scale = (double)n / size;
    double support = scale < 1 ? 1 : scale;
    double center = (i + 0.5) * scale;
    double sum = 0;
    double total = 0;
    for (uint32_t j = 0; j < n; j++) {
        double distance = fabs(j + 0.5 - center) / support;
        double w = distance < 1 ? 1 - distance : 0;
        sum += w * line[j * step];
        total += w;
    }
    return sum / total;
}

TEST(bilinear_is_within_a_level_of_its_definition)
{
    static const uint32_t sizes[][4] = {{97, 61, 224, 224}, {300, 211, 64, 50}, {640, 200, 33, 199}, {50, 50, 50, 20}};
    struct leat_scratch *s = scratch_open(NULL);
    for (size_t k = 0; k < COUNT(sizes); k++) {
        uint32_t w = sizes[k][0];
        uint32_t h = sizes[k][1];
        uint32_t ow = sizes[k][2];
        uint32_t oh = sizes[k][3];
        struct encoded e = jpeg_of(w, h, &(struct jpeg_choice){.gray = true});
        uint8_t *whole = malloc((size_t)w * h);
        uint8_t *across = malloc((size_t)ow * h);
        uint8_t *out = malloc((size_t)ow * oh);
        char text[80];
        struct leat_error err;
        assert_ok(run_text(s, "colour=gray", &e, whole, (uint64_t)w * h, &err), err);
        snprintf(text, sizeof text, "colour=gray resize=%ux%u", ow, oh);
        assert_ok(run_text(s, text, &e, out, (uint64_t)ow * oh, &err), err);
        for (uint32_t y = 0; y < h; y++) {
            for (uint32_t x = 0; x < ow; x++)
                across[(size_t)ow * y + x] = (uint8_t)(reference(whole + (size_t)w * y, 1, w, ow, x) + 0.5);
        }
        for (uint32_t y = 0; y < oh; y++) {
            for (uint32_t x = 0; x < ow; x++) {
                double want = reference(across + x, ow, h, oh, y);
                assert_true(fabs(out[(size_t)ow * y + x] - want) < 1.6);
            }
        }
        free(whole);
        free(across);
        free(out);
        free(e.data);
    }
    leat_scratch_close(s);
}

TEST(a_flat_picture_stays_flat)
{
    struct leat_scratch *s = scratch_open(NULL);
    for (unsigned v = 0; v < 256; v += 15) {
        struct picture p = {90, 70, malloc(90 * 70 * 3)};
        memset(p.rgb, (int)v, 90 * 70 * 3);
        struct encoded e = jpeg_make(&p, &(struct jpeg_choice){.gray = true, .quality = 100});
        static uint8_t out[224 * 224];
        static const char *const texts[] = {"colour=gray resize=224x224", "colour=gray resize=13x29",
                                            "colour=gray resize=100x20 filter=bicubic"};
        static const size_t sizes[] = {224 * 224, 13 * 29, 100 * 20};
        for (size_t i = 0; i < COUNT(texts); i++) {
            struct leat_error err;
            assert_ok(run_text(s, texts[i], &e, out, sizes[i], &err), err);
            for (size_t j = 0; j < sizes[i]; j++)
                assert_int_equal(out[j], v);
        }
        free(p.rgb);
        free(e.data);
    }
    leat_scratch_close(s);
}

TEST(floats_are_normalised_samples)
{
    struct leat_scratch *s = scratch_open(NULL);
    struct leat_error err;
    struct encoded e = jpeg_of(37, 29, &(struct jpeg_choice){0});
    enum { N = 37 * 29 };
    static uint8_t bytes[N * 3];
    static float f32[N * 3];
    static float planes[N * 3];
    static uint16_t bf16[N * 3];
    const double mean[] = {0.485, 0.456, 0.406};
    const double std[] = {0.229, 0.224, 0.225};
#define NORMAL " mean=0.485:0.456:0.406 std=0.229:0.224:0.225"
    assert_ok(run_text(s, "", &e, bytes, sizeof bytes, &err), err);
    assert_ok(run_text(s, "dtype=float32" NORMAL, &e, f32, sizeof f32, &err), err);
    assert_ok(run_text(s, "dtype=float32 layout=nchw" NORMAL, &e, planes, sizeof planes, &err), err);
    assert_ok(run_text(s, "dtype=bfloat16" NORMAL, &e, bf16, sizeof bf16, &err), err);
    for (size_t i = 0; i < N * 3; i++) {
        double want = (bytes[i] / 255.0 - mean[i % 3]) / std[i % 3];
        assert_true(fabs(f32[i] - want) < 1e-6);
        assert_true(planes[i % 3 * N + i / 3] == f32[i]);
        uint32_t bits = (uint32_t)bf16[i] << 16;
        float wide;
        memcpy(&wide, &bits, 4);
        assert_true(fabs(wide - want) <= fabs(want) / 256 + 1e-6);
    }
    free(e.data);
    leat_scratch_close(s);
}

/* Every half there is, against the vector unit's own rounding. */
TEST(halves_round_as_the_processor_rounds_them)
{
    static const double stds[] = {1e-3, 0.0173, 0.229, 1, 40, 5000, 1e5};
    uint8_t in[256 + LEAT_ROW_PAD];
    for (unsigned i = 0; i < 256; i++)
        in[i] = (uint8_t)i;
    for (size_t k = 0; k < COUNT(stds); k++) {
        struct leat_affine map = {(float)(1 / (255 * stds[k])), (float)(-0.3 / stds[k])};
        uint16_t want[256];
        leat_kernels_scalar.to_f16(in, 256, &map, 1, want);
        for (unsigned l = 0; l < COUNT(levels); l++) {
            uint16_t got[256];
            if (!leat_kernels_named(levels[l]))
                continue;
            leat_kernels_named(levels[l])->to_f16(in, 256, &map, 1, got);
            assert_memory_equal(got, want, sizeof got);
        }
    }
}
