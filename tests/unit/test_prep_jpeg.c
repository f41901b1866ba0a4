#include "prep_unit.h"

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

TEST(exact_crops_equal_a_full_decode)
{
    sweep(&(struct jpeg_choice){0}, NULL, 120);
}

TEST(exact_crops_equal_a_full_decode_at_every_vector_level)
{
    static const char *const levels[] = {"scalar", "avx2", "avx512"};
    for (size_t i = 0; i < COUNT(levels); i++) {
        if (leat_kernels_named(levels[i]))
            sweep(&(struct jpeg_choice){0}, levels[i], 6);
    }
}

TEST(exact_crops_of_progressive_files_equal_a_full_decode)
{
    sweep(&(struct jpeg_choice){.progressive = true}, NULL, 6);
}

TEST(exact_crops_of_progressive_files_equal_a_full_decode_at_every_vector_level)
{
    static const char *const levels[] = {"scalar", "avx2", "avx512"};
    for (size_t i = 0; i < COUNT(levels); i++) {
        if (leat_kernels_named(levels[i]))
            sweep(&(struct jpeg_choice){.progressive = true}, levels[i], 2);
    }
}

TEST(progressive_files_of_any_script_equal_a_full_decode)
{
    for (unsigned script = JPEG_SCRIPT_BITS; script <= JPEG_SCRIPT_INCOMPLETE; script++) {
        sweep(&(struct jpeg_choice){.progressive = true, .script = script}, NULL, 2);
        sweep(&(struct jpeg_choice){.progressive = true, .script = script, .restart = 5}, NULL, 1);
    }
}

TEST(exact_crops_of_files_with_restarts_equal_a_full_decode)
{
    sweep(&(struct jpeg_choice){.restart = 3}, NULL, 6);
}

TEST(exact_crops_of_files_with_tables_of_their_own_equal_a_full_decode)
{
    sweep(&(struct jpeg_choice){.optimize = true}, NULL, 6);
}

TEST(exact_crops_of_gray_and_rgb_files_equal_a_full_decode)
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

TEST(damage_is_an_error_or_the_rows_that_are_there)
{
    struct leat_scratch *s = scratch_open(NULL);
    struct leat_error err;
    struct encoded e = jpeg_of(160, 128, &(struct jpeg_choice){0});
    static uint8_t whole[160 * 128 * 3];
    static uint8_t part[160 * 128 * 3];
    assert_ok(run_text(s, "", &e, whole, sizeof whole, &err), err);
    struct encoded cut = {e.data, e.size / 2};
    assert_fails(run_text(s, "", &cut, part, sizeof part, &err), err, LEAT_CORRUPT, "damaged JPEG");
    assert_ok(run_text(s, "damage=rows", &cut, part, sizeof part, &err), err);
    assert_memory_equal(part, whole, 160 * 3 * 32);
    assert_memory_not_equal(part, whole, sizeof whole);
    /* What lies above the damage does not suffer from it. */
    static uint8_t top[160 * 16 * 3];
    assert_ok(run_text(s, "crop=160x16+0+0", &cut, top, sizeof top, &err), err);
    assert_memory_equal(top, whole, sizeof top);
    free(e.data);
    leat_scratch_close(s);
}

TEST(truncation_at_every_length_is_an_error_and_never_more)
{
    struct leat_scratch *s = scratch_open(NULL);
    for (int progressive = 0; progressive < 2; progressive++) {
        struct encoded e = jpeg_of(40, 33, &(struct jpeg_choice){.progressive = progressive});
        static uint8_t out[40 * 33 * 3];
        for (size_t n = 3; n < e.size - 2; n++) { /* fewer do not show the format */
            struct leat_error err;
            /* A copy of its own, so that a sanitizer sees any read after the end. */
            struct encoded cut = {malloc(n + 1), n};
            memcpy(cut.data, e.data, n);
            assert_int_equal(run_text(s, "", &cut, out, sizeof out, &err), LEAT_CORRUPT);
            leat_status rc = run_text(s, "damage=rows mode=fast", &cut, out, sizeof out, &err);
            assert_true(rc == LEAT_OK || rc == LEAT_CORRUPT);
            free(cut.data);
        }
        free(e.data);
    }
    leat_scratch_close(s);
}

TEST(hostile_files_meet_limits_that_say_their_name)
{
    struct leat_scratch *s = scratch_open(NULL);
    struct leat_scratch *poor;
    struct leat_error err;
    static uint8_t out[400 * 300 * 3];
    struct encoded e = jpeg_of(400, 300, &(struct jpeg_choice){.progressive = true});
    struct leat_prep_description d;
    assert_ok(leat_prep_parse("", &d, &err), err);
    static const struct {
        struct leat_image_limits limits;
        const char *word;
    } cases[] = {
        {{.dimension = 399}, "399 pixels per side"},
        {{.pixels = 119999}, "119999 pixels"},
        {{.scans = 3}, "limit of 3"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct leat_pipeline *p;
        d.limits = cases[i].limits;
        assert_ok(leat_pipeline_make(&d, &p, &err), err);
        assert_fails(leat_pipeline_run(p, s, e.data, e.size, leat_rng(0, 0), out, sizeof out, &err), err, LEAT_LIMIT,
                     cases[i].word);
        leat_pipeline_free(p);
    }
    /* 400x300 in three components, two of them a quarter, are 360,000 bytes of coefficients. */
    assert_ok(leat_scratch_open(300000, NULL, &poor, &err), err);
    assert_fails(run_text(poor, "", &e, out, sizeof out, &err), err, LEAT_LIMIT, "300000 bytes");
    struct encoded small = jpeg_of(40, 30, &(struct jpeg_choice){0});
    assert_ok(run_text(poor, "", &small, out, 40 * 30 * 3, &err), err);
    leat_scratch_close(poor);
    leat_scratch_close(s);
    free(small.data);
    free(e.data);
}

TEST(arithmetic_coding_is_refused)
{
    struct leat_scratch *s = scratch_open(NULL);
    struct leat_error err;
    static uint8_t out[64 * 64 * 3];
    struct encoded e = jpeg_of(64, 64, &(struct jpeg_choice){.arithmetic = true});
    assert_fails(run_text(s, "", &e, out, sizeof out, &err), err, LEAT_UNSUPPORTED, "arithmetic");
    assert_fails(run_text(s, "mode=fast", &e, out, sizeof out, &err), err, LEAT_UNSUPPORTED, "arithmetic");
    free(e.data);
    leat_scratch_close(s);
}

/* A copy without the segments of a marker before the first scan. */
static struct encoded without(const struct encoded *e, uint8_t code)
{
    struct encoded out = {malloc(e->size), 2};
    memcpy(out.data, e->data, 2);
    for (size_t at = 2; at < e->size;) {
        bool scan = e->data[at + 1] == 0xda;
        size_t n = scan ? e->size - at : 2 + ((size_t)e->data[at + 2] << 8 | e->data[at + 3]);
        if (e->data[at + 1] != code || scan) {
            memcpy(out.data + out.size, e->data + at, n);
            out.size += n;
        }
        at += n;
    }
    return out;
}

#define KIND_SIDE 48

/* Files of every kind, those that leave tables out and those that are refused among them. */
static size_t every_kind(struct encoded *out)
{
    static const struct jpeg_choice choices[] = {
        {.quality = 50},
        {.quality = 95, .optimize = true},
        {.progressive = true, .quality = 30},
        {.gray = true},
        {.cmyk = true, .quality = 70},
        {.rgb = true},
        {.restart = 2},
        {.progressive = true, .script = JPEG_SCRIPT_INCOMPLETE},
        {.arithmetic = true},
    };
    size_t n = 0;
    for (size_t i = 0; i < COUNT(choices); i++) {
        out[n++] = jpeg_of(KIND_SIDE, KIND_SIDE, &choices[i]);
        if (i < 3) {
            out[n] = without(&out[n - 1], 0xc4);
            out[n + 1] = without(&out[n - 1], 0xdb);
            n += 2;
        }
    }
    out[n] = jpeg_of(KIND_SIDE, KIND_SIDE, &(struct jpeg_choice){.optimize = true});
    out[n].size = out[n].size * 2 / 3;
    return n + 1;
}

TEST(no_file_depends_on_the_one_before_it)
{
    static const char *const texts[] = {"", "mode=fast resize=11x9", "colour=gray crop=9x20+30+20 damage=rows"};
    static uint8_t want[KIND_SIDE * KIND_SIDE * 3];
    static uint8_t got[sizeof want];
    struct encoded kind[32];
    size_t n = every_kind(kind);
    for (size_t t = 0; t < COUNT(texts); t++) {
        uint64_t bytes = t == 0 ? sizeof want : t == 1 ? 11 * 9 * 3 : 9 * 20;
        for (size_t i = 0; i < n * n; i++) {
            struct leat_error err;
            struct leat_scratch *fresh = scratch_open(NULL);
            struct leat_scratch *used = scratch_open(NULL);
            leat_status rc = run_text(fresh, texts[t], &kind[i % n], want, bytes, &err);
            run_text(used, texts[t], &kind[i / n], got, bytes, &err);
            assert_int_equal(run_text(used, texts[t], &kind[i % n], got, bytes, &err), rc);
            if (rc == LEAT_OK && memcmp(got, want, bytes) != 0)
                fail_msg("'%s' of file %zu depends on file %zu before it", texts[t], i % n, i / n);
            leat_scratch_close(fresh);
            leat_scratch_close(used);
        }
    }
    for (size_t i = 0; i < n; i++)
        free(kind[i].data);
}

/* Frames of Motion JPEG leave the standard tables out. */
TEST(missing_codes_are_the_standard_ones_and_missing_quantisation_is_an_error)
{
    static uint8_t want[90 * 70 * 3];
    static uint8_t got[sizeof want];
    struct leat_scratch *s = scratch_open(NULL);
    struct leat_error err;
    struct encoded e = jpeg_of(90, 70, &(struct jpeg_choice){0});
    struct encoded frame = without(&e, 0xc4);
    struct encoded bare = without(&e, 0xdb);
    assert_true(frame.size < e.size && bare.size < e.size);
    assert_ok(run_text(s, "", &e, want, sizeof want, &err), err);
    assert_ok(run_text(s, "", &frame, got, sizeof got, &err), err);
    assert_memory_equal(got, want, sizeof want);
    assert_fails(run_text(s, "", &bare, got, sizeof got, &err), err, LEAT_CORRUPT, "uantization table");
    free(e.data);
    free(frame.data);
    free(bare.data);
    leat_scratch_close(s);
}
