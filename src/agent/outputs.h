/* What a loader's batches are made of: its outputs, compiled against the dataset's schema, and how one sample is
 * written into a slot. Constant once made: any number of threads may write. */
#ifndef LEAT_AGENT_OUTPUTS_H
#define LEAT_AGENT_OUTPUTS_H

#include "agent/tokens.h"
#include "base/error.h"
#include "dataset/chunk.h"
#include "leat/loader.h"
#include "prep/pipeline.h"
#include "prep/sound.h"
#include "ring/ring.h"

/* How an output is made of what a field holds as it is: values.h. */
struct leat_value_plan {
    uint32_t from; /* enum leat_dtype_code of what is stored; 0: bytes */
    uint32_t to;   /* of the column */
    bool padded;   /* to `dims`, with `fill`; what is longer is cut off or an error */
    bool cut;
    uint32_t dims_n;
    uint32_t dims[LEAT_DIMS_MAX];
    uint8_t fill[8];    /* one number of type `to` */
    uint8_t lacking[8]; /* the same, for samples that lack the field */
    char *fallback;     /* ragged columns: for those */
    size_t fallback_n;
    bool has_fallback;
};

struct leat_output_plan {
    uint32_t kind; /* enum leat_output_kind */
    uint32_t field;
    uint32_t view; /* draws: outputs with the same number share them */
    struct leat_pipeline *pipeline;
    struct leat_sound *sound;
    bool follows; /* the draws and size of another field's picture, `like` */
    uint32_t like;
    struct leat_tokens_plan block; /* of views of blocks; its view is NULL elsewhere */
    struct leat_value_plan value;
};

struct leat_outputs {
    struct leat_output_plan plans[LEAT_RING_COLUMNS_MAX];
    struct leat_ring_column columns[LEAT_RING_COLUMNS_MAX];
    uint32_t n;
    uint32_t samples_max;
    uint64_t slot_bytes;
};

/* A pure function of what is asked and the schema. `ragged_bytes` is what to reserve for a sample's ragged values. */
leat_status leat_outputs_make(const struct leat_output *outputs, size_t n, const struct leat_schema *schema,
                              uint32_t samples_max, uint64_t ragged_bytes, struct leat_outputs *out,
                              struct leat_error *err);
/* The same for what a view counts (NULL: samples), which is borrowed. */
leat_status leat_outputs_make_of(const struct leat_view *view, const struct leat_output *outputs, size_t n,
                                 const struct leat_schema *schema, uint32_t samples_max, uint64_t ragged_bytes,
                                 struct leat_outputs *out, struct leat_error *err);
void leat_outputs_free(struct leat_outputs *o); /* a zeroed one is allowed */

/* A sample on its way into a slot. */
struct leat_sample {
    const struct leat_chunk *chunk;
    uint32_t index;  /* in the chunk; 0 for a block */
    uint64_t number; /* in the dataset, or the view */
    uint64_t key;    /* of the epoch's draws */
    bool valid;
    uint32_t stream;              /* of a mixture */
    const struct leat_view *view; /* of blocks; NULL: of samples */
    uint32_t chunk_number;        /* views of blocks … */
    uint32_t unit;                /* … and which block of the chunk */
};

/* Says which sample an error is about. */
leat_status leat_sample_fail(const struct leat_sample *sample, leat_status rc, struct leat_error *err);

/* Bytes of a ragged output of a sample; 0 for the others. */
uint64_t leat_outputs_ragged(const struct leat_outputs *o, uint32_t column, const struct leat_sample *sample);

/* About what a sample costs to make, to be compared with others of the same outputs: pixels where they are known, and
 * bytes. */
uint64_t leat_outputs_cost(const struct leat_outputs *o, const struct leat_sample *sample);
bool leat_outputs_pictures(const struct leat_outputs *o); /* whether any has to be decoded */

/* A ragged value whose place in the slot is not known yet. */
struct leat_kept {
    void *data;
    size_t bytes;
};

/* Where the values of a slot go. */
struct leat_slot_view {
    char *slot;
    struct leat_kept *kept[LEAT_RING_COLUMNS_MAX]; /* by place, of ragged columns; NULL: they go to the arena */
    char *arena[LEAT_RING_COLUMNS_MAX];            /* of ragged columns, in the slot or elsewhere */
    uint64_t *ends[LEAT_RING_COLUMNS_MAX]; /* of ragged columns: our own copy, the rank can write to the slot's */
};

/* Writes everything of one sample at `place`; the ends of ragged columns must be known, unless they are kept. */
leat_status leat_outputs_write(const struct leat_outputs *o, const struct leat_slot_view *view, uint32_t place,
                               const struct leat_sample *sample, struct leat_scratch *scratch, struct leat_error *err);

/* The same in two parts: what has to be decoded and has one shape (pictures, what was drawn for them, sounds that are
 * cut or padded), and the rest. The first is a function of the sample, its draws and the outputs alone, so that it can
 * be made elsewhere: leat_outputs_apart() lays out these columns of one sample by themselves, in slot_bytes bytes (0:
 * there are none), for leat_outputs_write_costly() with place 0; what it points to stays the first one's. `decoded` is
 * what leat_pictures_decode() has left; NULL: they are decoded. */
leat_status leat_outputs_write_light(const struct leat_outputs *o, const struct leat_slot_view *view, uint32_t place,
                                     const struct leat_sample *sample, struct leat_scratch *scratch,
                                     struct leat_error *err);
leat_status leat_outputs_write_costly(const struct leat_outputs *o, const struct leat_slot_view *view, uint32_t place,
                                      const struct leat_sample *sample, const char *decoded,
                                      struct leat_scratch *scratch, struct leat_error *err);
void leat_outputs_apart(const struct leat_outputs *o, struct leat_outputs *out);
void leat_outputs_put(const struct leat_outputs *o, const struct leat_slot_view *view, uint32_t place,
                      const struct leat_outputs *apart, const char *from);
bool leat_outputs_costly(const struct leat_outputs *o, uint32_t column);

/* Puts what has a fixed shape of the sample at `from` also at `to`, for a place that could not be filled: what is seen
 * and what it is called belong together. Key, index and whatever is ragged stay those of the sample that failed, and so
 * do length and has of a field that is there as a ragged output. */
void leat_outputs_repeat(const struct leat_outputs *o, const struct leat_slot_view *view, uint32_t from, uint32_t to);
void leat_outputs_set_valid(const struct leat_outputs *o, const struct leat_slot_view *view, uint32_t place,
                            bool valid);

#endif
