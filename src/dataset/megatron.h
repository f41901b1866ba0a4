/* Megatron's .idx: which documents a .bin of tokens holds. Bytes through a function to numbers; no I/O of its own, and
 * memory that does not grow with the file.
 *
 *   9 bytes "MMIDIDX\0\0", u64 version 1, u8 dtype, u64 sequences S, u64 D, then
 *   i32 tokens of each sequence, i64 where each begins in the .bin, in bytes, i64 × D: the sequence that each document
 *   begins with, and S at the end. (With one more byte a sequence where they have modes, which do not matter here.) */
#ifndef LEAT_DATASET_MEGATRON_H
#define LEAT_DATASET_MEGATRON_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* n bytes of the .idx from `at` on. */
typedef leat_status leat_megatron_fetch(void *user, uint64_t at, void *into, size_t n, struct leat_error *err);

struct leat_megatron {
    leat_megatron_fetch *fetch;
    void *user;
    uint64_t idx_bytes;
    uint64_t bin_bytes;
};

struct leat_megatron_head {
    uint32_t dtype; /* LEAT_U16, LEAT_U32 or LEAT_I32 */
    uint64_t sequences;
    uint64_t documents;
    uint64_t tokens; /* that the .bin has room for */
};

leat_status leat_megatron_open(const struct leat_megatron *m, struct leat_megatron_head *out, struct leat_error *err);

/* Each document in turn: its tokens begin and end here. They lie one after the other and fill the .bin; an index that
 * says otherwise is LEAT_CORRUPT, with the sequence or document. */
typedef leat_status leat_megatron_visit(void *user, uint64_t begin, uint64_t end, struct leat_error *err);
leat_status leat_megatron_each(const struct leat_megatron *m, const struct leat_megatron_head *head,
                               leat_megatron_visit *visit, void *user, struct leat_error *err);

#endif
