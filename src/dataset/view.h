/* What the order counts of a dataset: its samples as they are stored, or blocks of tokens.
 *
 * A view is named by a text, the same in settings, states and agreements. Canonical forms:
 *   "samples"
 *   "blocks=2048 shift=1"                the chunk's tokens one after the other, cut every 2048; each block has one
 * more "blocks=2048 shift=1 documents=fit"  documents packed into blocks by best fit, inside a chunk; long ones are cut
 *   "… field=NAME"                       where several fields have tokens
 * Any thread may ask: what it keeps of chunks is locked. */
#ifndef LEAT_DATASET_VIEW_H
#define LEAT_DATASET_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/chunk.h"
#include "dataset/dataset.h"

#define LEAT_VIEW_NAME_MAX 64 /* bytes, with the NUL */

struct leat_view;

/* text: NULL or "" is "samples". Borrows the dataset. Reads the table of samples where it must know their lengths. */
leat_status leat_view_open(struct leat_dataset *d, const char *text, struct leat_view **out, struct leat_error *err);
void leat_view_close(struct leat_view *v); /* NULL is allowed */

const char *leat_view_name(const struct leat_view *v);       /* the canonical text */
const uint32_t *leat_view_counts(const struct leat_view *v); /* units in each chunk */
uint64_t leat_view_units(const struct leat_view *v);
uint64_t leat_view_lost(const struct leat_view *v); /* tokens that are in no block, in an epoch */
bool leat_view_is_blocks(const struct leat_view *v);

/* Views of samples: which sample of the chunk a unit is. */
uint32_t leat_view_sample(const struct leat_view *v, uint32_t chunk, uint32_t unit);

/* Views of blocks, and only those, from here on. */
uint32_t leat_view_block_tokens(const struct leat_view *v); /* of a block, with the shift */
uint32_t leat_view_shift(const struct leat_view *v);
uint32_t leat_view_field(const struct leat_view *v);   /* which field has the tokens */
uint32_t leat_view_dtype(const struct leat_view *v);   /* of them as they are stored: enum leat_dtype_code */
bool leat_view_fits(const struct leat_view *v);        /* documents are packed: blocks may end with padding */
bool leat_view_documents(const struct leat_view *v);   /* whether samples say where documents end */
uint64_t leat_view_tokens(const struct leat_view *v);  /* in an epoch, each counted once, lost ones too */
uint64_t leat_view_padding(const struct leat_view *v); /* places of blocks that hold none, in an epoch */

/* A stretch of tokens that lie one after the other in the chunk. */
struct leat_view_run {
    const uint8_t *data;
    uint32_t n;      /* tokens, at least 1 */
    uint32_t sample; /* of the chunk, which the first of them belongs to */
};

/* The way through a block's tokens. With `documents` a run never goes on from one sample into the next; without, runs
 * are as long as they can be. Close it, also before its end; a zeroed one is allowed. */
struct leat_view_walk {
    const struct leat_view *view;
    const struct leat_chunk *chunk;
    struct leat_view_plan *plan;
    bool documents;
    uint32_t sample; /* or part, that comes next */
    uint64_t at;     /* byte of the chunk, token of the sequence, or part: what comes next … */
    uint64_t end;    /* … and where the block ends */
    uint64_t limit;  /* byte of the chunk where its own tokens end */
};

/* unit < counts[number]; `chunk` is chunk `number`. LEAT_CORRUPT when it has other lengths than the table of samples
 * says. */
leat_status leat_view_walk(const struct leat_view *v, const struct leat_chunk *chunk, uint32_t number, uint32_t unit,
                           bool documents, struct leat_view_walk *out, struct leat_error *err);
bool leat_view_walk_next(struct leat_view_walk *w, struct leat_view_run *out); /* false: that was all */
void leat_view_walk_close(struct leat_view_walk *w);

/* Begins to bring a block from memory that comes next. Blocks of a shuffled order lie anywhere, so that each would
 * begin with waiting for it. */
void leat_view_ahead(const struct leat_view *v, const struct leat_chunk *chunk, uint32_t number, uint32_t unit);

#endif
