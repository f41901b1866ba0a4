/* What the files of views share. */
#ifndef LEAT_DATASET_VIEW_IMPL_H
#define LEAT_DATASET_VIEW_IMPL_H

#include <pthread.h>

#include "dataset/view.h"
#include "dataset/view_fit.h"
#include "dataset/view_text.h"

/* Where the tokens of a chunk are that is not one stretch of them: made when the chunk is read, and kept for a while
 * among others. */
struct leat_view_plan {
    uint32_t chunk;
    uint32_t users;
    size_t bytes;
    struct leat_view_plan *older, *newer; /* of those that are kept */
    bool kept;
    uint32_t n; /* samples that count; blocks */
    union {
        uint32_t *ends;   /* cut: tokens up to the end of each sample */
        uint32_t *starts; /* fit: which part each block begins with; n + 1 */
    };
    uint32_t *parts;              /* fit: documents that are whole, or LEAT_VIEW_CUT and a number in … */
    struct leat_fit_part *pieces; /* … parts of longer ones */
};

#define LEAT_VIEW_CUT (1u << 31) /* no chunk has that many documents: each has a row of 8 bytes */

struct leat_view {
    struct leat_dataset *dataset;
    const struct leat_field *field; /* blocks; NULL: samples. As what follows */
    struct leat_view_text text;
    uint32_t field_number;
    uint32_t token_bytes;
    bool stretch;     /* a chunk's tokens lie one after the other, to its end */
    uint32_t overlap; /* tokens at the end of a stretch that are the beginning of the next chunk's, where it goes on */
    uint64_t stretch_tokens; /* of a chunk at most, without the overlap; 0: a power of two */
    bool selection;          /* not all samples count */
    bool documents;
    char name[LEAT_VIEW_NAME_MAX];
    uint32_t *counts; /* NULL: the dataset's */
    uint32_t *begins; /* byte of each chunk where its stretch begins; 0: not known. Only to be quick */
    uint64_t units;
    uint64_t tokens;
    uint64_t lost;
    uint64_t padding;

    pthread_mutex_t mutex;
    struct {                           /* hold mutex */
        struct leat_view_plan **plans; /* by chunk; NULL: there is none */
        struct leat_view_plan *oldest, *newest;
        size_t bytes;
        size_t most;
    } kept;
};

/* The tokens of a chunk. */
struct leat_view_span {
    uint64_t at;     /* stretch: the byte where it begins */
    uint64_t tokens; /* that blocks may be cut from, the overlap included */
    uint64_t own;    /* … without it */
};

static inline uint32_t leat_view_room(const struct leat_view *v)
{
    return v->text.length + v->text.shift;
}

/* `rows` are those of all samples of the chunk, `bytes` its size. LEAT_CORRUPT if they are impossible. */
leat_status leat_view_measure(const struct leat_view *v, uint32_t chunk, const uint8_t *rows, uint64_t bytes,
                              struct leat_view_span *out, struct leat_error *err);

/* Byte of the chunk where its own tokens end: what lies beyond is counted in the next one. */
leat_status leat_view_limit(const struct leat_view *v, uint32_t chunk, const uint8_t *rows, uint64_t bytes,
                            uint64_t *out, struct leat_error *err);

/* Tokens of each sample that counts, without the overlap: leat_dataset_counts()[chunk] of them. */
leat_status leat_view_lengths(const struct leat_view *v, uint32_t chunk, const uint8_t *rows, uint64_t bytes,
                              uint32_t *out, struct leat_error *err);

/* Blocks that this many tokens are cut into. */
uint64_t leat_view_cut(const struct leat_view *v, const struct leat_view_span *span);

void leat_view_plans_free(struct leat_view *v);

#endif
