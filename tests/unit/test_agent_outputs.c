#include "prep_unit.h"

#include "agent/outputs.h"
#include "prep/drawn.h"

#define SAMPLES 12
#define SIDE    48

/* Samples of a picture with a bright box in it, a mask of half its size, and the box. */
static void make_chunk(struct leat_buf *out)
{
    static const uint8_t pack[LEAT_PACK_ID_BYTES] = {1};
    struct leat_schema schema = {0};
    struct leat_chunk_builder *b;
    struct leat_error err;
    assert_ok(leat_schema_add(&schema, "jpg", LEAT_FIELD_IMAGE, NULL, &err), err);
    assert_ok(leat_schema_add(&schema, "mask", LEAT_FIELD_IMAGE, NULL, &err), err);
    assert_ok(leat_schema_add(&schema, "box", LEAT_FIELD_BYTES, NULL, &err), err);
    assert_ok(leat_chunk_builder_open(&schema, &b, &err), err);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint32_t size[2] = {120 + 10 * i, 100};
        const float box[2][4] = {{20 + 2.0f * (float)i, 30, 80, 90}, {0, 0, 1, 1}};
        struct leat_value values[3] = {{0}};
        struct encoded e[2];
        for (unsigned k = 0; k < 2; k++) {
            struct picture p = {size[0] >> k, size[1] >> k, calloc((size_t)(size[0] >> k) * (size[1] >> k), 3)};
            for (uint32_t y = 30u >> k; y < 90u >> k; y++) {
                for (uint32_t x = (20 + 2 * i) >> k; x < 80u >> k; x++)
                    memset(p.rgb + 3 * ((size_t)y * p.width + x), 255, 3);
            }
            e[k] = jpeg_make(&p, &(struct jpeg_choice){.quality = 97, .h = 1, .v = 1});
            values[k].data = e[k].data;
            values[k].size = e[k].size;
            free(p.rgb);
        }
        values[2].data = box;
        values[2].size = i == SAMPLES - 1 ? sizeof box - 3 : sizeof box; /* the last is no whole number of boxes */
        assert_ok(leat_chunk_builder_add(b, "k", 1, values, &err), err);
        free(e[0].data);
        free(e[1].data);
    }
    assert_ok(leat_chunk_builder_finish(b, pack, 0, 1, out, &err), err);
    leat_chunk_builder_close(b);
}

static const char steps[] = "random_resized_crop=48 scale=0.4:1 flip rotate=-15:15";
static const char mask_steps[] =
    "random_resized_crop=48 scale=0.4:1 flip rotate=-15:15 filter=nearest colour=gray follow=jpg";

static struct leat_output output(const char *name, uint32_t kind, const char *field, const char *pipeline)
{
    return (struct leat_output){sizeof(struct leat_output), name, kind, 0, field, pipeline};
}

TEST(masks_boxes_and_numbers_follow_the_picture)
{
    static const char follows[] = "random_resized_crop=48 scale=0.4:1 flip rotate=-15:15 follow=jpg";
    struct leat_output asked[] = {
        output("x", LEAT_OUTPUT_IMAGE, "jpg", steps),
        output("m", LEAT_OUTPUT_IMAGE, "mask", mask_steps),
        output("small", LEAT_OUTPUT_IMAGE, "jpg", "resize=8x8"),
        output("d", LEAT_OUTPUT_DRAWN, "jpg", steps),
        output("b", LEAT_OUTPUT_BOXES, "box", follows),
    };
    struct leat_buf bytes;
    struct leat_chunk chunk;
    struct leat_outputs o;
    struct leat_error err;
    struct leat_scratch *scratch = scratch_open(NULL);
    leat_buf_init(&bytes, 1 << 22);
    make_chunk(&bytes);
    assert_ok(leat_chunk_read(bytes.data, bytes.len, &chunk, &err), err);
    assert_ok(leat_outputs_make(asked, COUNT(asked), &chunk.schema, SAMPLES, 64, &o, &err), err);
    struct leat_kept kept[SAMPLES] = {{0}};
    struct leat_slot_view view = {.slot = calloc(1, o.slot_bytes)};
    view.kept[4] = kept;
    unsigned boxes = 0;
    for (uint32_t i = 0; i + 1 < SAMPLES; i++) {
        struct leat_sample s = {.chunk = &chunk, .index = i, .number = 1000 + i, .key = 77, .valid = true};
        assert_ok(leat_outputs_write(&o, &view, i, &s, scratch, &err), err);
        assert_int_equal(kept[i].bytes, leat_outputs_ragged(&o, 4, &s));
        const uint8_t *x = (uint8_t *)view.slot + o.columns[0].offset + i * o.columns[0].stride;
        const uint8_t *m = (uint8_t *)view.slot + o.columns[1].offset + i * o.columns[1].stride;
        float d[LEAT_DRAWN_NUMBERS];
        memcpy(d, view.slot + o.columns[3].offset + i * o.columns[3].stride, sizeof d);
        unsigned differ = 0;
        float low[2] = {1e9f, 1e9f};
        float high[2] = {0, 0};
        for (uint32_t k = 0; k < SIDE * SIDE; k++) {
            differ += (x[3 * k] > 127) != (m[k] > 127);
            float at[2] = {(float)(k % SIDE), (float)(k / SIDE)};
            for (int c = 0; c < 2 && x[3 * k] > 127; c++) {
                low[c] = at[c] < low[c] ? at[c] : low[c];
                high[c] = at[c] + 1 > high[c] ? at[c] + 1 : high[c];
            }
        }
        assert_true(differ < SIDE * SIDE / 16);
        assert_true(d[LEAT_DRAWN_PICTURE] == (float)(120 + 10 * i) && d[LEAT_DRAWN_OUTPUT] == SIDE);
        float box[LEAT_BOX_OUT];
        if (kept[i].bytes == sizeof box) {
            boxes++;
            memcpy(box, kept[i].data, sizeof box);
            for (int c = 0; c < 2; c++)
                assert_true(fabsf(box[c] - low[c]) < 2.5f && fabsf(box[2 + c] - high[c]) < 2.5f);
            assert_true(box[4] == 0);
        }
        free(kept[i].data);
    }
    assert_true(boxes > SAMPLES / 2);
    struct leat_sample bad = {.chunk = &chunk, .index = SAMPLES - 1, .number = 5, .key = 77, .valid = true};
    assert_fails(leat_outputs_write(&o, &view, 0, &bad, scratch, &err), err, LEAT_CORRUPT, "whole number of boxes");
    free(view.slot);
    leat_outputs_free(&o);
    leat_scratch_close(scratch);
    leat_buf_free(&bytes);
}

TEST(outputs_that_cannot_follow_are_refused)
{
    struct leat_buf bytes;
    struct leat_chunk chunk;
    struct leat_outputs o;
    struct leat_error err;
    leat_buf_init(&bytes, 1 << 22);
    make_chunk(&bytes);
    assert_ok(leat_chunk_read(bytes.data, bytes.len, &chunk, &err), err);
    const struct {
        struct leat_output output;
        const char *word;
    } rows[] = {
        {output("b", LEAT_OUTPUT_BOXES, "box", steps), "follow=FIELD"},
        {output("b", LEAT_OUTPUT_BOXES, "jpg", mask_steps), "type image"},
        {output("m", LEAT_OUTPUT_IMAGE, "mask", "resize=8x8 follow=box"), "follow=box"},
        {output("m", LEAT_OUTPUT_IMAGE, "mask", "resize=8x8 follow=none"), "follow=none"},
        {output("d", LEAT_OUTPUT_DRAWN, "box", steps), "type bytes"},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_fails(leat_outputs_make(&rows[i].output, 1, &chunk.schema, 4, 64, &o, &err), err, LEAT_INVALID,
                     rows[i].word);
    leat_buf_free(&bytes);
}
