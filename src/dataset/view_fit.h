/* Documents packed into blocks by best fit, the longest first: for the documents of one chunk. The same sizes give the
 * same blocks in every release, since positions in the order count blocks: docs/tokens.md says how, to the letter.
 * Arithmetic only. */
#ifndef LEAT_DATASET_VIEW_FIT_H
#define LEAT_DATASET_VIEW_FIT_H

#include <stdint.h>

#include "base/error.h"

/* Room for the work, used again and again; one thread at a time. */
struct leat_fitter;

leat_status leat_fitter_open(uint32_t room, struct leat_fitter **out, struct leat_error *err); /* tokens of a block */
void leat_fitter_close(struct leat_fitter *f);                                                 /* NULL is allowed */

/* Tokens number part × room … of a document, room of them or as many as there are. */
struct leat_fit_part {
    uint32_t document;
    uint32_t part;
};

/* Packs n documents, whose tokens are all together fewer than 2^32. What it finds stays until the next call. */
leat_status leat_fitter_pack(struct leat_fitter *f, const uint32_t *tokens, uint32_t n, struct leat_error *err);
uint32_t leat_fitter_blocks(const struct leat_fitter *f);
uint32_t leat_fitter_parts(const struct leat_fitter *f);

/* Writes where each block's parts begin (blocks + 1 of them) and the parts, block by block. */
void leat_fitter_write(const struct leat_fitter *f, uint32_t *starts, struct leat_fit_part *parts);

#endif
