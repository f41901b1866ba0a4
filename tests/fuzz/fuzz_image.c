/* Any bytes as a picture, through a pipeline the first byte chooses: every decoder, both modes, both policies. */

#include "fuzz.h"
#include "prep/jpeg.h"
#include "prep/pipeline.h"

#define SIDE 64

static const char *const texts[] = {
    "random_resized_crop=64 flip orientation=upright",
    "mode=fast random_resized_crop=64 flip damage=rows",
    "random_resized_crop=64 filter=bicubic damage=rows layout=nchw dtype=float16",
    "mode=fast random_resized_crop=64 scale=0.9:1 colour=gray",
    "center_crop=64 fill=1:2:3 damage=rows alpha=blend background=9 orientation=upright",
    "resize=64x64 filter=nearest colour=index",
    "resize=64x64 damage=rows",
    "mode=fast resize=64x64 dtype=bfloat16 damage=rows alpha=blend orientation=upright",
    "random_resized_crop=64 flip dtype=uint16 damage=rows orientation=upright",
    "random_resized_crop=64 filter=bicubic colour=rgba layout=nchw",
    "center_crop=64 colour=gray bits=16 dtype=float16 alpha=blend",
    "resize=64x64 filter=nearest colour=index dtype=uint16 damage=rows",
};

#define TEXTS (sizeof texts / sizeof *texts)

static struct leat_scratch *scratch;
static struct leat_pipeline *pipelines[TEXTS];
static struct leat_arena arena;
static struct leat_jpeg *jpeg;

static void open_all(void)
{
    struct leat_error err;
    if (leat_scratch_open((uint64_t)256 << 20, NULL, &scratch, &err) != LEAT_OK)
        abort();
    leat_arena_init(&arena, (size_t)256 << 20);
    if (leat_jpeg_open(&arena, &jpeg, &err) != LEAT_OK)
        abort();
    for (size_t i = 0; i < TEXTS; i++) {
        struct leat_prep_description d;
        if (leat_prep_parse(texts[i], &d, &err) != LEAT_OK)
            abort();
        /* Small enough that the time goes into files, not into pixels. */
        d.limits = (struct leat_image_limits){.pixels = 1 << 20, .dimension = 4096, .scans = 20};
        if (leat_pipeline_make(&d, &pipelines[i], &err) != LEAT_OK)
            abort();
    }
}

FUZZ(image)
{
    static uint8_t out[SIDE * SIDE * 4 * 4];
    struct leat_error err;
    struct leat_image_limits limits = {.memory_bytes = 1 << 28, .pixels = 1 << 20, .dimension = 4096, .scans = 20};
    if (!scratch)
        open_all();
    if (size < 1)
        return;
    const struct leat_pipeline *p = pipelines[data[0] % TEXTS];
    struct leat_source source = {.data = data + 1, .size = size - 1};
    leat_pipeline_run(p, scratch, source.data, source.size, leat_rng(data[0], 1), out,
                      leat_pipeline_bytes(p, SIDE, SIDE), &err);
    if (leat_image_probe(source.data, source.size, &source.info, &err) == LEAT_OK &&
        source.info.type == LEAT_IMAGE_JPEG && leat_image_check(&source.info, &limits, &err) == LEAT_OK) {
        struct leat_buf buf;
        leat_arena_reset(&arena);
        leat_buf_init(&buf, (size_t)64 << 20);
        leat_jpeg_transcode(jpeg, &source, &limits, (enum leat_jpeg_keep)(data[0] % 3), &buf, &err);
        leat_buf_free(&buf);
    }
}
