/* Files of tokens, as people have them: bare numbers, numbers after llm.c's header (nanoGPT's speed runs write it,
 * too), and numpy's .npy. What the beginning of a file says; bytes in memory, no I/O.
 *
 * Megatron's .bin is bare, and its .idx says the rest: megatron.h. */
#ifndef LEAT_DATASET_TOKENS_H
#define LEAT_DATASET_TOKENS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "leat/loader.h"

#define LEAT_TOKENS_HEAD_MAX (64u << 10) /* bytes that are looked at */

struct leat_tokens_file {
    uint32_t dtype;  /* LEAT_U16, LEAT_U32 or LEAT_I32 */
    uint64_t offset; /* of the first token */
    uint64_t tokens; /* at least one */
};

uint32_t leat_tokens_bytes(uint32_t dtype);    /* of one; 0: none of the three */
const char *leat_tokens_dtype(uint32_t dtype); /* "uint16" */
leat_status leat_tokens_dtype_find(const char *name, uint32_t *out, struct leat_error *err);

/* head: the file's first bytes, LEAT_TOKENS_HEAD_MAX or all there are. dtype: what the user says; 0: nothing. A file
 * that says another is refused, and one that says nothing needs it. The length must be exactly what the numbers say. */
leat_status leat_tokens_look(const void *head, size_t n, uint64_t file_bytes, uint32_t dtype,
                             struct leat_tokens_file *out, struct leat_error *err);

#endif
