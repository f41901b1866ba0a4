#include <malloc.h>
#include <pthread.h>

#include "prep_unit.h"

/* "test_prep_pipeline 1000000" runs as many; the suite has less time. */
static unsigned samples = 20000;

enum { PICTURES = 12, SIDE = 96, BYTES = SIDE * SIDE * 3 };

static const char rrc[] = "random_resized_crop=96 flip";

struct job {
    pthread_t thread;
    const struct leat_pipeline *pipeline;
    const struct encoded *pictures;
    unsigned first;
    uint8_t (*out)[BYTES];
};

static void *work(void *arg)
{
    struct job *j = arg;
    struct leat_scratch *s = scratch_open(NULL);
    struct leat_error err;
    for (unsigned i = 0; i < PICTURES; i++) {
        unsigned n = (j->first + i) % PICTURES; /* another order in each thread */
        assert_ok(leat_pipeline_run(j->pipeline, s, j->pictures[n].data, j->pictures[n].size,
                                    leat_prep_draws(3, n, 0, 0), j->out[n], BYTES, &err),
                  err);
    }
    leat_scratch_close(s);
    return NULL;
}

TEST(same_draws_give_the_same_bytes_on_any_thread)
{
    enum { THREADS = 4 };
    static uint8_t out[THREADS][PICTURES][BYTES];
    static const char *const texts[] = {"random_resized_crop=96 flip", "mode=fast random_resized_crop=96 flip"};
    struct encoded pictures[PICTURES];
    for (unsigned i = 0; i < PICTURES; i++)
        pictures[i] = jpeg_of(100 + 37 * i, 330 - 20 * i, &(struct jpeg_choice){.progressive = i % 3 == 0});
    for (size_t t = 0; t < COUNT(texts); t++) {
        struct leat_pipeline *p = pipeline_make(texts[t]);
        struct job jobs[THREADS];
        for (unsigned i = 0; i < THREADS; i++) {
            jobs[i] = (struct job){.pipeline = p, .pictures = pictures, .first = i * 5, .out = out[i]};
            assert_int_equal(pthread_create(&jobs[i].thread, NULL, work, &jobs[i]), 0);
        }
        for (unsigned i = 0; i < THREADS; i++)
            pthread_join(jobs[i].thread, NULL);
        for (unsigned i = 1; i < THREADS; i++)
            assert_memory_equal(out[0], out[i], sizeof out[0]);
        leat_pipeline_free(p);
    }
    for (unsigned i = 0; i < PICTURES; i++)
        free(pictures[i].data);
}

TEST(a_picture_and_its_mask_share_their_draws_and_two_views_do_not)
{
    struct leat_pipeline *image = pipeline_make("random_resized_crop=96 flip color_jitter=0.4 rotate=-30:30 equalize");
    struct leat_pipeline *mask = pipeline_make("random_resized_crop=96 flip rotate=-30:30 filter=nearest colour=index");
    struct leat_image_info info = {.width = 300, .height = 200, .orientation = 1, .components = 3};
    struct leat_error err;
    for (unsigned i = 0; i < 100; i++) {
        struct leat_drawn a;
        struct leat_drawn b;
        assert_ok(leat_pipeline_plan(image, &info, leat_prep_draws(1, i, 0, 0), &a, &err), err);
        assert_ok(leat_pipeline_plan(mask, &info, leat_prep_draws(1, i, 0, 0), &b, &err), err);
        assert_memory_equal(&a.geometry.crop, &b.geometry.crop, sizeof a.geometry.crop);
        assert_int_equal(a.geometry.flip, b.geometry.flip);
        assert_int_equal(a.ops.op[1].kind, LEAT_OP_AFFINE);
        assert_true(a.ops.op[1].v[0] == b.ops.op[0].v[0]);
        assert_ok(leat_pipeline_plan(mask, &info, leat_prep_draws(1, i, 0, 1), &b, &err), err);
        assert_memory_not_equal(&a.geometry.crop, &b.geometry.crop, sizeof a.geometry.crop);
        assert_true(a.ops.op[1].v[0] != b.ops.op[0].v[0]);
    }
    leat_pipeline_free(image);
    leat_pipeline_free(mask);
}

TEST(a_destination_of_another_size_is_refused)
{
    struct leat_scratch *s = scratch_open(NULL);
    struct leat_error err;
    uint8_t out[10];
    struct encoded e = jpeg_of(30, 20, &(struct jpeg_choice){0});
    assert_fails(run_text(s, rrc, &e, out, 10, &err), err, LEAT_INVALID, "27648 bytes, not 10");
    uint32_t w;
    uint32_t h;
    struct leat_pipeline *p = pipeline_make(rrc);
    leat_pipeline_size(p, &w, &h);
    assert_int_equal(w, 96);
    assert_int_equal(h, 96);
    assert_int_equal(leat_pipeline_bytes(p, w, h), BYTES);
    leat_pipeline_free(p);
    p = pipeline_make("resize=50");
    leat_pipeline_size(p, &w, &h);
    assert_int_equal(w, 0);
    leat_pipeline_free(p);
    free(e.data);
    leat_scratch_close(s);
}

TEST(a_scratch_works_on_after_any_error)
{
    struct leat_scratch *s = scratch_open(NULL);
    struct leat_error err;
    static uint8_t want[BYTES];
    static uint8_t got[BYTES];
    struct encoded e = jpeg_of(200, 150, &(struct jpeg_choice){0});
    assert_ok(run_text(s, rrc, &e, want, BYTES, &err), err);
    uint32_t seed = 5;
    for (unsigned i = 0; i < 2000; i++) {
        uint8_t *copy = malloc(e.size);
        memcpy(copy, e.data, e.size);
        for (unsigned k = 0; k < 1 + i % 4; k++)
            copy[noise_bits(&seed) % (i % 2 ? e.size : 700)] ^= (uint8_t)(1 + noise_bits(&seed) % 255);
        struct encoded bad = {copy, e.size};
        run_text(s, i % 3 ? rrc : "mode=fast random_resized_crop=96 flip", &bad, got, BYTES, &err);
        free(copy);
        assert_ok(run_text(s, rrc, &e, got, BYTES, &err), err);
        assert_memory_equal(got, want, BYTES);
    }
    free(e.data);
    leat_scratch_close(s);
}

TEST(many_samples_do_not_grow_memory)
{
    struct leat_scratch *s = scratch_open(NULL);
    struct leat_pipeline *p = pipeline_make("random_resized_crop=8 flip");
    struct encoded pictures[3];
    struct leat_error err;
    uint8_t out[8 * 8 * 3];
    size_t before = 0;
    for (unsigned i = 0; i < 3; i++)
        pictures[i] = jpeg_of(16 + 8 * i, 16, &(struct jpeg_choice){.progressive = i == 2});
    for (unsigned i = 0; i < samples; i++) {
        const struct encoded *e = &pictures[i % 16 ? i % 2 : 2];
        assert_ok(leat_pipeline_run(p, s, e->data, e->size, leat_prep_draws(1, i, 0, 0), out, sizeof out, &err), err);
        if (i == 1000)
            before = mallinfo2().uordblks;
    }
    assert_int_equal(mallinfo2().uordblks, before);
    for (unsigned i = 0; i < 3; i++)
        free(pictures[i].data);
    leat_pipeline_free(p);
    leat_scratch_close(s);
}

TEST(crops_of_a_whole_picture_are_those_of_the_file)
{
    static const char *const texts[] = {
        "random_resized_crop=96 flip",
        "random_resized_crop=96 flip colour=gray",
        "random_crop=96 flip color_jitter=0.4 rotate=-30:30",
        "resize=96 center_crop=96 dtype=float16 layout=nchw std=0.2",
    };
    static const struct jpeg_choice choices[] = {{.progressive = true}, {.h = 1, .v = 1}, {.gray = true},
                                                 {.cmyk = true},        {.h = 2, .v = 1}, {.orientation = 6}};
    static uint8_t expected[2 * BYTES];
    static uint8_t out[2 * BYTES];
    struct leat_scratch *s = scratch_open(NULL);
    struct leat_error err;
    for (unsigned n = 0; n < COUNT(texts) * COUNT(choices); n++) {
        struct leat_pipeline *p = pipeline_make(texts[n % COUNT(texts)]);
        struct encoded e = jpeg_of(301, 222, &choices[n / COUNT(texts)]);
        struct leat_image_info info;
        uint64_t bytes = leat_pipeline_bytes(p, SIDE, SIDE);
        assert_true(leat_pipeline_takes_whole(p));
        assert_ok(leat_image_probe(e.data, e.size, &info, &err), err);
        uint8_t *whole = malloc(leat_whole_bytes(p, &info));
        assert_ok(leat_whole_decode(p, s, e.data, e.size, whole, &err), err);
        for (unsigned i = 0; i < 20; i++) {
            struct leat_view view = {
                .pipeline = p, .draws = leat_prep_draws(3, i, 0, 0), .to = out, .to_bytes = bytes, .whole = whole};
            assert_ok(leat_pipeline_run(p, s, e.data, e.size, view.draws, expected, bytes, &err), err);
            assert_ok(leat_pipeline_run_views(s, e.data, e.size, &view, 1, &err), err);
            assert_memory_equal(out, expected, bytes);
        }
        free(whole);
        free(e.data);
        leat_pipeline_free(p);
    }
    leat_scratch_close(s);
}

/* Whether a crop is hurt by it only decoding for the crop tells. */
TEST(a_picture_that_is_damaged_anywhere_is_not_decoded_whole)
{
    static const char *const texts[] = {"random_crop=96", "random_crop=96 damage=rows"};
    static uint8_t whole[301 * 222 * 3 + 1024];
    struct encoded e = jpeg_of(301, 222, &(struct jpeg_choice){0});
    struct leat_scratch *s = scratch_open(NULL);
    for (unsigned n = 0; n < COUNT(texts); n++) {
        struct leat_pipeline *p = pipeline_make(texts[n]);
        assert_int_equal(leat_whole_decode(p, s, e.data, e.size - e.size / 10, whole, NULL), LEAT_CORRUPT);
        leat_pipeline_free(p);
    }
    struct leat_pipeline *fast = pipeline_make("mode=fast random_crop=96");
    struct leat_pipeline *wide = pipeline_make("random_crop=96 colour=rgba");
    assert_false(leat_pipeline_takes_whole(fast)); /* its scale follows from the crop */
    assert_false(leat_pipeline_takes_whole(wide));
    leat_pipeline_free(fast);
    leat_pipeline_free(wide);
    leat_scratch_close(s);
    free(e.data);
}

static void begin(void)
{
    samples = (unsigned)unit_number(0, samples);
}

TEST_GROUP(begin, NULL);
