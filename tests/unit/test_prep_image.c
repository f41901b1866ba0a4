/* What is known of a picture from its header, and JPEG transcoding. */

#include "prep/jpeg.h"
#include "prep_unit.h"

TEST(jpeg_headers_are_read_without_decoding)
{
    static const struct {
        struct jpeg_choice choice;
        unsigned components;
    } rows[] = {
        {{0}, 3},
        {{.gray = true}, 1},
        {{.cmyk = true}, 4},
        {{.progressive = true, .orientation = 6}, 3},
        {{.arithmetic = true}, 3},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct leat_image_info info;
        struct leat_error err;
        struct encoded e = jpeg_of(123, 45, &rows[i].choice);
        assert_ok(leat_image_probe(e.data, e.size, &info, &err), err);
        assert_int_equal(info.type, LEAT_IMAGE_JPEG);
        assert_int_equal(info.width, 123);
        assert_int_equal(info.height, 45);
        assert_int_equal(info.components, rows[i].components);
        assert_int_equal(info.bits, 8);
        assert_int_equal(info.progressive, rows[i].choice.progressive);
        assert_int_equal(info.arithmetic, rows[i].choice.arithmetic);
        assert_int_equal(info.orientation, rows[i].choice.orientation ? rows[i].choice.orientation : 1);
        free(e.data);
    }
}

TEST(a_header_cut_anywhere_is_refused_or_whole)
{
    struct encoded e = jpeg_of(50, 40, &(struct jpeg_choice){.orientation = 8});
    for (size_t n = 0; n < e.size; n++) {
        struct leat_image_info info;
        struct leat_error err;
        uint8_t *copy = malloc(n + 1);
        memcpy(copy, e.data, n);
        leat_status rc = leat_image_probe(copy, n, &info, &err);
        if (rc == LEAT_OK)
            assert_true(info.width == 50 && info.height == 40 && info.orientation == 8);
        else
            assert_true(rc == LEAT_CORRUPT || rc == LEAT_UNSUPPORTED);
        free(copy);
    }
    free(e.data);
}

TEST(orientation_survives_any_nonsense)
{
    static const uint8_t big[] = "MM\0*\0\0\0\10\0\2\1\1\0\3\0\0\0\1\0\0\0\0\1\22\0\3\0\0\0\1\0\7\0\0";
    assert_int_equal(leat_exif_orientation(big, sizeof big - 1), 7);
    for (size_t n = 0; n < sizeof big; n++) {
        uint8_t copy[sizeof big];
        memcpy(copy, big, n);
        uint8_t o = leat_exif_orientation(copy, n);
        assert_true(o <= 1 || o == 7);
    }
    for (size_t i = 0; i < sizeof big; i++) {
        for (unsigned v = 0; v < 256; v++) {
            uint8_t copy[sizeof big];
            memcpy(copy, big, sizeof big);
            copy[i] = (uint8_t)v;
            uint8_t o = leat_exif_orientation(copy, sizeof big - 1);
            assert_true(o <= 8);
        }
    }
}

/* All coefficients of a file, one after the other. */
static int16_t *coefficients_of(const uint8_t *data, size_t size, size_t *count)
{
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr messages;
    int16_t *out = NULL;
    *count = 0;
    cinfo.err = jpeg_std_error(&messages);
    jpeg_create_decompress(&cinfo);
    jpeg_mem_src(&cinfo, data, size);
    jpeg_read_header(&cinfo, TRUE);
    jvirt_barray_ptr *arrays = jpeg_read_coefficients(&cinfo);
    for (int c = 0; c < cinfo.num_components; c++) {
        const jpeg_component_info *info = &cinfo.comp_info[c];
        for (JDIMENSION y = 0; y < info->height_in_blocks; y++) {
            JBLOCKARRAY rows = cinfo.mem->access_virt_barray((j_common_ptr)&cinfo, arrays[c], y, 1, FALSE);
            size_t n = (size_t)info->width_in_blocks * DCTSIZE2;
            out = realloc(out, (*count + n) * sizeof *out);
            memcpy(out + *count, rows[0], n * sizeof *out);
            *count += n;
        }
    }
    jpeg_finish_decompress(&cinfo);
    jpeg_destroy_decompress(&cinfo);
    return out;
}

static void transcode(const struct encoded *e, enum leat_jpeg_keep keep, struct leat_buf *out)
{
    struct leat_arena arena;
    struct leat_jpeg *jpeg;
    struct leat_error err;
    struct leat_source source = {.data = e->data, .size = e->size};
    struct leat_image_limits limits = leat_image_limits_filled(NULL);
    leat_arena_init(&arena, (size_t)1 << 28);
    leat_buf_init(out, (size_t)1 << 24);
    assert_ok(leat_jpeg_open(&arena, &jpeg, &err), err);
    assert_ok(leat_image_probe(e->data, e->size, &source.info, &err), err);
    assert_ok(leat_jpeg_transcode(jpeg, &source, &limits, keep, out, &err), err);
    leat_jpeg_close(jpeg);
    leat_arena_free(&arena);
}

TEST(transcoding_keeps_every_coefficient)
{
    static const struct jpeg_choice choices[] = {
        {.progressive = true},
        {.progressive = true, .h = 1, .v = 1},
        {.progressive = true, .gray = true},
        {.progressive = true, .cmyk = true, .h = 1, .v = 1},
        {.progressive = true, .rgb = true},
        {.restart = 2},
        {0},
    };
    for (size_t i = 0; i < COUNT(choices); i++) {
        struct encoded e = jpeg_of(133, 99, &choices[i]);
        struct leat_buf out;
        struct leat_image_info info;
        struct leat_error err;
        transcode(&e, LEAT_JPEG_KEEP_NONE, &out);
        assert_ok(leat_image_probe(out.data, out.len, &info, &err), err);
        assert_false(info.progressive);
        size_t a;
        size_t b;
        int16_t *before = coefficients_of(e.data, e.size, &a);
        int16_t *after = coefficients_of((const uint8_t *)out.data, out.len, &b);
        assert_int_equal(a, b);
        assert_memory_equal(before, after, a * sizeof *before);
        if (!choices[i].progressive)
            assert_true(out.len <= e.size); /* tables made for the picture */
        /* And so the same pixels. */
        static uint8_t pixels[2][133 * 99 * 3];
        struct leat_scratch *s = scratch_open(NULL);
        struct encoded made = {(uint8_t *)out.data, out.len};
        assert_ok(run_text(s, "", &e, pixels[0], sizeof pixels[0], &err), err);
        assert_ok(run_text(s, "", &made, pixels[1], sizeof pixels[1], &err), err);
        assert_memory_equal(pixels[0], pixels[1], sizeof pixels[0]);
        leat_scratch_close(s);
        free(before);
        free(after);
        free(e.data);
        leat_buf_free(&out);
    }
}

/* Adobe's marker is written by the transcoder, whether the source has it or not: it must not change the colours. */
TEST(transcoding_keeps_the_colours_of_cmyk_without_a_marker)
{
    static uint8_t pixels[2][60 * 44 * 3];
    struct leat_scratch *s = scratch_open(NULL);
    struct leat_error err;
    struct leat_buf out;
    struct encoded e = jpeg_of(60, 44, &(struct jpeg_choice){.cmyk = true, .h = 1, .v = 1});
    uint8_t *adobe = memmem(e.data, e.size, "\xff\xee", 2);
    assert_non_null(adobe);
    size_t n = 2 + ((size_t)adobe[2] << 8 | adobe[3]);
    e.size -= n;
    memmove(adobe, adobe + n, e.size - (size_t)(adobe - e.data));
    transcode(&e, LEAT_JPEG_KEEP_NONE, &out);
    struct encoded made = {(uint8_t *)out.data, out.len};
    assert_non_null(memmem(made.data, made.size, "Adobe", 5));
    assert_ok(run_text(s, "", &e, pixels[0], sizeof pixels[0], &err), err);
    assert_ok(run_text(s, "", &made, pixels[1], sizeof pixels[1], &err), err);
    assert_memory_equal(pixels[1], pixels[0], sizeof pixels[0]);
    leat_buf_free(&out);
    free(e.data);
    leat_scratch_close(s);
}

TEST(transcoding_keeps_what_it_is_told_to_keep)
{
    struct encoded e = jpeg_of(64, 48, &(struct jpeg_choice){.progressive = true, .orientation = 6});
    static const struct {
        enum leat_jpeg_keep keep;
        unsigned orientation;
    } rows[] = {{LEAT_JPEG_KEEP_NONE, 1}, {LEAT_JPEG_KEEP_ORIENTATION, 6}, {LEAT_JPEG_KEEP_ALL, 6}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct leat_buf out;
        struct leat_image_info info;
        struct leat_error err;
        transcode(&e, rows[i].keep, &out);
        assert_ok(leat_image_probe(out.data, out.len, &info, &err), err);
        assert_int_equal(info.orientation, rows[i].orientation);
        leat_buf_free(&out);
    }
    free(e.data);
}

TEST(transcoding_refuses_damage_and_leaves_the_output_alone)
{
    struct encoded e = jpeg_of(120, 90, &(struct jpeg_choice){.progressive = true});
    struct leat_arena arena;
    struct leat_jpeg *jpeg;
    struct leat_error err;
    struct leat_buf out;
    struct leat_image_limits limits = leat_image_limits_filled(NULL);
    leat_arena_init(&arena, (size_t)1 << 28);
    leat_buf_init(&out, (size_t)1 << 24);
    leat_buf_str(&out, "before");
    assert_ok(leat_jpeg_open(&arena, &jpeg, &err), err);
    struct leat_source source = {.data = e.data, .size = e.size * 2 / 3};
    assert_ok(leat_image_probe(e.data, source.size, &source.info, &err), err);
    assert_fails(leat_jpeg_transcode(jpeg, &source, &limits, LEAT_JPEG_KEEP_ALL, &out, &err), err, LEAT_CORRUPT,
                 "damaged");
    assert_string_equal(out.data, "before");
    leat_jpeg_close(jpeg);
    leat_arena_free(&arena);
    leat_buf_free(&out);
    free(e.data);
}
