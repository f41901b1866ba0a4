/* Leat's own allocations fail in turn; under the sanitizers this shows what leaks on the way out. */

#include "fail_alloc.h"
#include "prep/jpeg.h"
#include "prep_unit.h"

static struct encoded picture;

static leat_status prepare(void *user, struct leat_error *err)
{
    struct leat_prep_description d;
    struct leat_pipeline *p = NULL;
    struct leat_scratch *s = NULL;
    static uint8_t out[64 * 64 * 3];
    leat_status rc = leat_prep_parse(user, &d, err);
    if (rc == LEAT_OK)
        rc = leat_pipeline_make(&d, &p, err);
    if (rc == LEAT_OK)
        rc = leat_scratch_open(0, NULL, &s, err);
    if (rc == LEAT_OK)
        rc = leat_pipeline_run(p, s, picture.data, picture.size, leat_rng(1, 1), out, sizeof out, err);
    leat_scratch_close(s);
    leat_pipeline_free(p);
    return rc;
}

TEST(pipelines)
{
    static char exact[] = "random_resized_crop=64 flip";
    static char fast[] = "mode=fast random_resized_crop=64 flip";
    static char effects[] = "random_resized_crop=64 color_jitter=0.4:0.4:0.4:0.1 gaussian_blur=9 augmix=3";
    picture = jpeg_of(1500, 1000, &(struct jpeg_choice){.progressive = true});
    assert_true(fail_alloc_each(prepare, exact) > 3);
    assert_true(fail_alloc_each(prepare, fast) > 3);
    assert_true(fail_alloc_each(prepare, effects) > 3);
    free(picture.data);
}

static leat_status transcode(void *user, struct leat_error *err)
{
    (void)user;
    struct leat_source source = {.data = picture.data, .size = picture.size};
    struct leat_image_limits limits = leat_image_limits_filled(NULL);
    struct leat_arena arena;
    struct leat_jpeg *jpeg = NULL;
    struct leat_buf out;
    leat_arena_init(&arena, (size_t)1 << 28);
    leat_buf_init(&out, (size_t)1 << 24);
    leat_status rc = leat_jpeg_open(&arena, &jpeg, err);
    if (rc == LEAT_OK)
        rc = leat_image_probe(source.data, source.size, &source.info, err);
    if (rc == LEAT_OK)
        rc = leat_jpeg_transcode(jpeg, &source, &limits, LEAT_JPEG_KEEP_ALL, &out, err);
    leat_buf_free(&out);
    leat_jpeg_close(jpeg);
    leat_arena_free(&arena);
    return rc;
}

TEST(transcoding)
{
    picture = jpeg_of(900, 700, &(struct jpeg_choice){.progressive = true});
    assert_true(fail_alloc_each(transcode, NULL) > 3);
    free(picture.data);
}
