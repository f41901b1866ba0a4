/* Tokens for language models, as they lie in files: bare, after llm.c's header, in .npy, or in Megatron's .bin with an
 * .idx beside it. One field, `tokens`.
 *
 * A chunk is 2^k tokens of one file, and one more where the file goes on, so that blocks of seq_len + 1 lose nothing at
 * its end. Without documents it is one sample (key: name of the file, ':', its first token). With documents each of
 * them, or what of it lies in the chunk, is a sample (name, '#', number of the document, and '+' and a number of tokens
 * where it began before the chunk); one that goes on has the token beyond the end as well. No token is read. */
#ifndef LEAT_DATASET_TOKEN_ORIGIN_H
#define LEAT_DATASET_TOKEN_ORIGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/origin.h"

struct leat_token_opts {
    const struct leat_store_opts *store; /* NULL: defaults */
    const char *dtype;                   /* of files that do not say it: "uint16", "uint32", "int32"; NULL: none */
    uint64_t chunk_bytes;                /* 0: LEAT_CHUNK_BYTES. The largest power of two of tokens in it is taken */
    bool (*stop)(void *user);            /* asked now and then: true ends it with LEAT_CANCELLED; may be NULL */
    void *stop_user;
};

struct leat_token_counts {
    uint64_t files;
    uint64_t tokens;
    uint64_t documents; /* 0: the files have none */
    uint64_t other;     /* objects below the prefixes that are no token files */
};

/* What the addresses may be: shards.h; endings .bin, .npy. counts may be NULL. */
leat_status leat_origin_tokens_open(const char *const *urls, size_t n, const struct leat_token_opts *opts,
                                    struct leat_token_counts *counts, struct leat_origin **out, struct leat_error *err);

#endif
