/* The snapshot's section of keys: from a sample's number to its key and back. The layout is made for reading few
 * blocks of it; docs/format.md. Bytes in memory; no I/O. */
#ifndef LEAT_DATASET_KEYS_H
#define LEAT_DATASET_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

/* How a reader gets at bytes of the section, verified: copies n bytes from `at` on. */
typedef leat_status leat_keys_fetch(void *user, uint64_t at, void *into, size_t n, struct leat_error *err);

struct leat_keys {
    uint64_t samples;
    uint64_t size; /* of the section */
    leat_keys_fetch *fetch;
    bool (*counts)(void *user, uint64_t sample); /* others are not found; NULL: all count */
    void *user;
};

/* Appends the key of a sample (< samples) to `out`. */
leat_status leat_keys_get(const struct leat_keys *k, uint64_t sample, struct leat_buf *out, struct leat_error *err);

/* The first sample with the key, and how many have it; counted up to LEAT_KEYS_COUNT_MAX, which means that many or
 * more. LEAT_NOT_FOUND when none has it. */
#define LEAT_KEYS_COUNT_MAX 1000u
leat_status leat_keys_find(const struct leat_keys *k, const void *key, size_t n, uint64_t *sample, uint64_t *count,
                           struct leat_error *err);

/* Whether two samples may have the same key: false is certain, true may be a collision of hashes. Reads the whole
 * index. */
leat_status leat_keys_repeat(const struct leat_keys *k, bool *out, struct leat_error *err);

#endif
