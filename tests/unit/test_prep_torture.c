/* Memory runs out at every single allocation, those inside libjpeg, libspng, libwebp and zlib included: malloc and
 * its family are defined here, over the C library's own. Sanitizers bring their own malloc: there the test counts
 * nothing, and test_prep_alloc looks for leaks instead. */

#include <webp/encode.h>

#include "prep/jpeg.h"
#include "prep/png_write.h"
#include "prep_unit.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define COUNTED 0
#else
#define COUNTED 1
#endif

static bool armed;
static long left; /* until the one that fails; then all fail */
static unsigned long taken;

#if COUNTED
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);

static bool fails(void)
{
    taken++;
    return armed && left-- <= 0;
}

void *malloc(size_t n)
{
    return fails() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    return fails() ? NULL : __libc_realloc(p, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    return fails() ? NULL : __libc_memalign(alignment, n);
}
#endif

enum { SIDE = 40, BYTES = SIDE * SIDE * 3, KINDS = 6 };

static struct encoded made[KINDS];

static int keep_webp(const uint8_t *data, size_t size, const WebPPicture *picture)
{
    struct encoded *e = picture->custom_ptr;
    e->data = realloc(e->data, e->size + size);
    memcpy(e->data + e->size, data, size);
    e->size += size;
    return 1;
}

static struct encoded webp_of(uint32_t w, uint32_t h)
{
    struct encoded e = {0};
    struct picture p = picture_make(w, h, 9);
    WebPConfig config;
    WebPPicture picture;
    assert_true(WebPConfigInit(&config));
    assert_true(WebPPictureInit(&picture));
    picture.width = (int)w;
    picture.height = (int)h;
    picture.writer = keep_webp;
    picture.custom_ptr = &e;
    assert_true(WebPPictureImportRGB(&picture, p.rgb, (int)w * 3));
    assert_true(WebPEncode(&config, &picture));
    WebPPictureFree(&picture);
    free(p.rgb);
    return e;
}

static struct encoded png_of(uint32_t w, uint32_t h)
{
    struct picture p = picture_make(w, h, 4);
    struct leat_buf out;
    struct leat_error err;
    leat_buf_init(&out, (size_t)1 << 24);
    assert_ok(leat_png_write(p.rgb, w, h, 3, &out, &err), err);
    free(p.rgb);
    size_t size = out.len;
    return (struct encoded){(uint8_t *)leat_buf_take(&out), size};
}

static leat_status prepare_all(const char *text, uint8_t (*out)[BYTES], struct leat_error *err)
{
    struct leat_prep_description d;
    struct leat_pipeline *p = NULL;
    struct leat_scratch *s = NULL;
    leat_status rc = leat_prep_parse(text, &d, err);
    if (rc == LEAT_OK)
        rc = leat_pipeline_make(&d, &p, err);
    if (rc == LEAT_OK)
        rc = leat_scratch_open(0, NULL, &s, err);
    for (unsigned i = 0; rc == LEAT_OK && i < KINDS; i++)
        rc = leat_pipeline_run(p, s, made[i].data, made[i].size, leat_rng(1, i), out[i], BYTES, err);
    leat_scratch_close(s);
    leat_pipeline_free(p);
    return rc;
}

TEST(memory_running_out_anywhere_is_a_clean_error)
{
    static uint8_t want[KINDS][BYTES];
    static uint8_t got[KINDS][BYTES];
    static const char *const texts[] = {
        "orientation=upright random_resized_crop=40 flip", "mode=fast random_resized_crop=40 flip",
        "random_resized_crop=40 flip damage=rows", "random_resized_crop=40 flip sharpness=2 p=1 rotate=9 equalize=1"};
    for (size_t t = 0; t < COUNT(texts); t++) {
        struct leat_error err;
        leat_status rc = LEAT_NO_MEMORY;
        assert_ok(prepare_all(texts[t], want, &err), err);
        left = -1;
        for (long n = 0; left < 0 && n < 5000; n++) {
            left = n;
            armed = COUNTED;
            rc = prepare_all(texts[t], got, &err);
            armed = false;
            /* libwebp calls some of its own want of memory damage, and then the rows there are may be none. */
            bool webp = rc == LEAT_OK ? t == 2 : strstr(err.text, "WebP") != NULL;
            /* Or nothing was lost by it. */
            bool unharmed = rc == LEAT_OK && memcmp(got, want, sizeof got) == 0;
            if (left < 0 && rc != LEAT_NO_MEMORY && !webp && !unharmed)
                fail_msg("%s, allocation %ld: %s (%s)", texts[t], n, err.text, leat_status_name(rc));
        }
        assert_true(left >= 0);
        assert_int_equal(rc, LEAT_OK);
        assert_memory_equal(got, want, sizeof got);
    }
}

TEST(memory_running_out_in_transcoding_is_a_clean_error)
{
    struct leat_error err;
    leat_status rc = LEAT_NO_MEMORY;
    struct leat_image_limits limits = leat_image_limits_filled(NULL);
    for (long n = 0; rc != LEAT_OK && n < 5000; n++) {
        struct leat_source source = {.data = made[1].data, .size = made[1].size};
        struct leat_arena arena;
        struct leat_jpeg *jpeg = NULL;
        struct leat_buf out;
        leat_arena_init(&arena, (size_t)1 << 28);
        leat_buf_init(&out, (size_t)1 << 24);
        left = n;
        armed = COUNTED;
        rc = leat_jpeg_open(&arena, &jpeg, &err);
        if (rc == LEAT_OK)
            rc = leat_image_probe(source.data, source.size, &source.info, &err);
        if (rc == LEAT_OK)
            rc = leat_jpeg_transcode(jpeg, &source, &limits, LEAT_JPEG_KEEP_ALL, &out, &err);
        armed = false;
        assert_true(rc == LEAT_OK || rc == LEAT_NO_MEMORY);
        leat_buf_free(&out);
        leat_jpeg_close(jpeg);
        leat_arena_free(&arena);
    }
    assert_int_equal(rc, LEAT_OK);
}

TEST(in_steady_state_jpegs_allocate_nothing)
{
    struct leat_scratch *s = scratch_open(NULL);
    static const char *const texts[] = {"orientation=upright random_resized_crop=40 flip",
                                        "mode=fast random_resized_crop=40 flip"};
    struct leat_error err;
    uint8_t out[BYTES];
    for (size_t t = 0; t < COUNT(texts); t++) {
        struct leat_pipeline *p = pipeline_make(texts[t]);
        for (unsigned i = 0; i < 300; i++) {
            unsigned long before = taken;
            const struct encoded *e = &made[i % 4]; /* the JPEGs, a progressive one among them */
            assert_ok(leat_pipeline_run(p, s, e->data, e->size, leat_rng(1, i), out, sizeof out, &err), err);
            if (i >= 20)
                assert_int_equal(taken, before);
        }
        leat_pipeline_free(p);
    }
    leat_scratch_close(s);
}

static void make_all(void)
{
    made[0] = jpeg_of(300, 200, &(struct jpeg_choice){0});
    made[1] = jpeg_of(200, 210, &(struct jpeg_choice){.progressive = true});
    made[2] = jpeg_of(100, 90, &(struct jpeg_choice){.cmyk = true});
    made[3] = jpeg_of(100, 90, &(struct jpeg_choice){.orientation = 6});
    made[4] = png_of(120, 100);
    /* Lossy only: libwebp 1.2.4 itself reads through NULL when it gets no memory for lossless tables. */
    made[5] = webp_of(200, 190);
}

static void free_all(void)
{
    for (unsigned i = 0; i < KINDS; i++)
        free(made[i].data);
}

TEST_GROUP(make_all, free_all);
