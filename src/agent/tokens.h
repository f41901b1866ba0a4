/* Outputs of a view of blocks: the tokens of a block, and where in it documents begin. Everything about documents is
 * said of the block's first seq_len tokens, which is what a model is given; the shift has only been its targets. */
#ifndef LEAT_AGENT_TOKENS_H
#define LEAT_AGENT_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/view.h"
#include "leat/loader.h"
#include "ring/ring.h"

struct leat_sample;

struct leat_tokens_plan {
    const struct leat_view *view; /* NULL: no output of blocks. Borrowed */
    uint32_t kind;                /* enum leat_output_kind */
    uint32_t dtype;               /* of the output */
    bool ends;                    /* a token `eos` ends a document … */
    bool begins;                  /* … and `bos` begins one; neither: the dataset knows */
    int64_t eos;
    int64_t bos;
    uint8_t fill[8]; /* of places without a token, in the output's dtype */
    uint32_t most;   /* documents in a fixed column of borders; 0: ragged */
};

/* Whether only blocks have outputs of this kind. */
bool leat_tokens_only(uint32_t kind);

/* Refuses what a block does not have. `schema` is the view's dataset's. */
leat_status leat_tokens_make(const struct leat_output *asked, const struct leat_schema *schema,
                             const struct leat_view *view, struct leat_tokens_plan *plan,
                             struct leat_ring_column *column, struct leat_error *err);

/* What becomes of the tokens, for the log; what the user should know goes to `notice` too, unless something is there.
 */
void leat_tokens_say(const struct leat_view *view, const char *url, char *notice, size_t n);

/* Which sample of its chunk a block begins with. */
leat_status leat_tokens_first(const struct leat_sample *sample, uint32_t *index, struct leat_error *err);

/* It comes next: begins to bring its tokens from memory. Any sample may be said, and none has to. */
void leat_tokens_ahead(const struct leat_sample *sample);

/* Writes a fixed output. */
leat_status leat_tokens_write(const struct leat_tokens_plan *plan, const struct leat_sample *sample, void *to,
                              struct leat_error *err);

/* The borders of a block's documents, ragged: into memory that the caller frees. */
leat_status leat_tokens_borders(const struct leat_tokens_plan *plan, const struct leat_sample *sample, void **out,
                                size_t *bytes, struct leat_error *err);

#endif
