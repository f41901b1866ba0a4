/* From encoded bytes to pixels in a batch: described once, compiled once, run for every sample.
 *
 * A pipeline is constant after it is made: any number of threads may run it. A scratch belongs to one thread at
 * a time and holds all memory that running needs. Same bytes and same draws, same output: on any thread, with
 * any scratch, at any vector level. */
#ifndef LEAT_PREP_PIPELINE_H
#define LEAT_PREP_PIPELINE_H

#include "base/buf.h"
#include "prep/decode.h"
#include "prep/effect.h"

#define LEAT_FOLLOW_MAX 64

struct leat_prep_description {
    struct leat_steps steps;
    struct leat_effects effects; /* after the steps */
    bool fast;                   /* false: pixels exactly as a full decode has them, resized by Pillow's rules */
    enum leat_colour colour;
    enum leat_filter filter;
    enum leat_layout layout;
    enum leat_dtype dtype;
    bool deep;      /* samples of 16 bits stay so; uint16 does that anyway */
    double mean[3]; /* floats are (sample / 255 - mean) / std; a std of 0 counts as 1 */
    double std[3];
    bool blend;            /* false: alpha is dropped, as convert("RGB") does */
    uint8_t background[3]; /* under what is transparent, when it is blended */
    uint8_t fill[3];       /* around a picture smaller than its crop, or moved */
    bool filled;           /* fill was chosen: torchvision's fill=…, which is not quite the same as none even for 0 */
    bool upright;          /* turn as EXIF says; false: as stored */
    bool refuse_animation; /* false: an animation's first frame is its picture */
    enum leat_damage damage;
    char follow[LEAT_FOLLOW_MAX];    /* another field of the sample whose picture's draws this one takes; "": none. For
                                        code that knows fields: here it is only carried */
    struct leat_image_limits limits; /* zeros: presets; memory_bytes belongs to the scratch */
};

/* The text form, for command lines and messages between processes; docs/prep.md has its words:
 * "random_resized_crop=224 scale=0.08:1 flip=0.5 layout=nchw dtype=float16 mean=0.485:0.456:0.406 std=0.2". */
leat_status leat_prep_parse(const char *text, struct leat_prep_description *out, struct leat_error *err);

struct leat_pipeline;

leat_status leat_pipeline_make(const struct leat_prep_description *description, struct leat_pipeline **out,
                               struct leat_error *err);
void leat_pipeline_free(struct leat_pipeline *pipeline); /* NULL is allowed */

/* Channels, 1, 3 or 4, and the size of every output; 0x0 where it depends on the picture. */
unsigned leat_pipeline_channels(const struct leat_pipeline *pipeline);
void leat_pipeline_size(const struct leat_pipeline *pipeline, uint32_t *width, uint32_t *height);

/* The picture's own size, turned as the pipeline turns it. */
void leat_pipeline_upright(const struct leat_pipeline *pipeline, const struct leat_image_info *info, uint32_t *width,
                           uint32_t *height);

/* Bytes of an output of a size. */
uint64_t leat_pipeline_bytes(const struct leat_pipeline *pipeline, uint32_t width, uint32_t height);

/* What is drawn for a sample. */
struct leat_drawn {
    struct leat_geometry geometry;
    struct leat_ops ops;
};

/* What running would do to a picture, without its pixels. */
leat_status leat_pipeline_plan(const struct leat_pipeline *pipeline, const struct leat_image_info *info,
                               struct leat_rng draws, struct leat_drawn *out, struct leat_error *err);

/* Several outputs of one picture, each with its pipeline and draws. What can share a decode does (all of mode=exact
 * with the same colour, damage, background and orientation): the bytes are those of running one after the other. */
struct leat_view {
    const struct leat_pipeline *pipeline;
    struct leat_rng draws;
    void *to;
    uint64_t to_bytes;
    /* Another picture of the sample whose draws to follow, for a mask of another size: what is drawn is drawn for that
     * picture, and its crop carried over to this one. NULL: none. */
    const struct leat_image_info *like;
    /* The picture as leat_whole_decode() has left it for a pipeline that decodes alike. NULL: it is decoded. */
    const uint8_t *whole;
};

/* What running a view would do: where it follows another picture, the crop is in its own pixels. */
leat_status leat_view_plan(const struct leat_view *view, const struct leat_image_info *info, struct leat_drawn *out,
                           struct leat_error *err);

struct leat_scratch;

/* memory_bytes 0: the preset. kernels NULL: the best there are. */
leat_status leat_scratch_open(uint64_t memory_bytes, const struct leat_kernels *kernels, struct leat_scratch **out,
                              struct leat_error *err);
void leat_scratch_close(struct leat_scratch *scratch); /* NULL is allowed */

/* Gives back what the last sample took, and what the next one may take from. */
struct leat_arena *leat_scratch_begin(struct leat_scratch *scratch);

/* Writes exactly leat_pipeline_bytes() into `to`, which must be that large (size_bytes says); on failure what is
 * there is undefined. Outputs that share their draws (a picture and its mask) are given the same `draws`;
 * two views of a sample are given different ones. */
leat_status leat_pipeline_run(const struct leat_pipeline *pipeline, struct leat_scratch *scratch, const void *data,
                              size_t data_bytes, struct leat_rng draws, void *to, uint64_t to_bytes,
                              struct leat_error *err);

/* Several outputs of one picture. What can share a decode does (all of mode=exact with the same colour, damage,
 * background and orientation): the bytes are those of running one after the other. */
leat_status leat_pipeline_run_views(struct leat_scratch *scratch, const void *data, size_t data_bytes,
                                    const struct leat_view *views, unsigned n, struct leat_error *err);

/* A picture decoded whole, for runs at other times and with draws of their own: every pixel as a full decode has it, a
 * plane a channel. What is cropped out of it is what decoding for the crop alone would have given, so only pipelines of
 * mode=exact with samples of 8 bits in at most three channels can use it; leat_pipeline_takes_whole() says. */
bool leat_pipeline_takes_whole(const struct leat_pipeline *pipeline);
bool leat_pipelines_decode_alike(const struct leat_pipeline *a, const struct leat_pipeline *b);
void leat_pipeline_identify_decode(const struct leat_pipeline *pipeline,
                                   struct leat_buf *id); /* those alike: the same */
uint64_t leat_whole_bytes(const struct leat_pipeline *pipeline, const struct leat_image_info *info);

/* Writes leat_whole_bytes(). Damage anywhere is an error, whatever the pipeline says: it may lie outside of a crop, and
 * so only decoding for the crop itself tells what comes of it. */
leat_status leat_whole_decode(const struct leat_pipeline *pipeline, struct leat_scratch *scratch, const void *data,
                              size_t data_bytes, uint8_t *to, struct leat_error *err);

/* The draws of one view of one occurrence of a sample. key comes from leat_key("augment", seed, epoch, dataset id),
 * once an epoch. */
struct leat_rng leat_prep_draws(uint64_t key, uint64_t sample, uint32_t occurrence, uint32_t view);

#endif
