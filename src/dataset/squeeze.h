/* Compresses values of a chunk that is being built, one after the other, with zstd, and back. */
#ifndef LEAT_DATASET_SQUEEZE_H
#define LEAT_DATASET_SQUEEZE_H

#include <stdbool.h>
#include <stddef.h>

/* Zeroed: nothing is allocated until the first value. */
struct leat_squeeze {
    struct ZSTD_CCtx_s *context;
    void *out;
    size_t out_bytes; /* that `out` has room for */
    bool failed;      /* memory ran out */
};

void leat_squeeze_free(struct leat_squeeze *s);

/* Compressed, when it gains a twentieth at least: bytes in s->out, until the next call. 0: not, or memory ran out. */
size_t leat_squeeze(struct leat_squeeze *s, const void *data, size_t n);

/* Decompresses one frame; what ZSTD_decompress() returns. From any thread: each keeps a context, because making one
 * costs as much as decompressing 4 KiB. */
size_t leat_unsqueeze(void *to, size_t to_bytes, const void *frame, size_t n);

#endif
