#include "dataset/keys.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "dataset/chunk.h"

/* Three parts: where each key ends (8 bytes per sample), an index sorted by hash (16 bytes per sample: hash and
 * sample), and the keys themselves, in the order of the samples. */
#define END_BYTES   8u
#define INDEX_BYTES 16u

struct entry {
    uint64_t hash;
    uint64_t sample;
};

static uint64_t keys_start(const struct leat_keys *k)
{
    return k->samples * (END_BYTES + INDEX_BYTES); /* the root has checked that the section is as large */
}

static leat_status locate(const struct leat_keys *k, uint64_t sample, uint64_t *start, uint64_t *end,
                          struct leat_error *err)
{
    uint8_t bytes[2 * END_BYTES] = {0};
    leat_status rc = sample ? k->fetch(k->user, (sample - 1) * END_BYTES, bytes, sizeof bytes, err)
                            : k->fetch(k->user, 0, bytes + END_BYTES, END_BYTES, err);
    if (rc != LEAT_OK)
        return rc;
    *start = leat_get_u64(bytes);
    *end = leat_get_u64(bytes + END_BYTES);
    if (*start > *end || *end - *start > LEAT_KEY_MAX || *end > k->size - keys_start(k))
        return leat_fail(err, LEAT_CORRUPT, "the key of sample %" PRIu64 " lies outside its section", sample);
    return LEAT_OK;
}

leat_status leat_keys_get(const struct leat_keys *k, uint64_t sample, struct leat_buf *out, struct leat_error *err)
{
    uint64_t start;
    uint64_t end;
    leat_status rc = locate(k, sample, &start, &end, err);
    while (rc == LEAT_OK && start < end) {
        uint8_t piece[4096];
        size_t n = end - start < sizeof piece ? (size_t)(end - start) : sizeof piece;
        rc = k->fetch(k->user, keys_start(k) + start, piece, n, err);
        if (rc == LEAT_OK && !leat_buf_add(out, piece, n))
            rc = leat_buf_check(out, "a key", err);
        start += n;
    }
    return rc;
}

static leat_status entry_at(const struct leat_keys *k, uint64_t i, struct entry *out, struct leat_error *err)
{
    uint8_t bytes[INDEX_BYTES];
    leat_status rc = k->fetch(k->user, k->samples * END_BYTES + i * INDEX_BYTES, bytes, sizeof bytes, err);
    if (rc != LEAT_OK)
        return rc;
    out->hash = leat_get_u64(bytes);
    out->sample = leat_get_u64(bytes + 8);
    if (out->sample >= k->samples)
        return leat_fail(err, LEAT_CORRUPT, "entry %" PRIu64 " of the keys' index names sample %" PRIu64, i,
                         out->sample);
    return LEAT_OK;
}

/* The first entry from low … high whose hash is not below `hash`; entries outside are known to be. */
static leat_status bisect(const struct leat_keys *k, uint64_t hash, uint64_t low, uint64_t high, uint64_t *out,
                          struct leat_error *err)
{
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        struct entry e;
        leat_status rc = entry_at(k, middle, &e, err);
        if (rc != LEAT_OK)
            return rc;
        if (e.hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    *out = low;
    return LEAT_OK;
}

/* Hashes are spread evenly, so the entry lies near its proportional place, some square roots of the number of keys
 * away at most: one or two blocks are read where halving the whole index would read one for every step. */
static leat_status lower_bound(const struct leat_keys *k, uint64_t hash, uint64_t *out, struct leat_error *err)
{
    uint64_t guess = (uint64_t)(((unsigned __int128)hash * k->samples) >> 64);
    uint64_t reach = 64;
    while (reach < k->samples / reach)
        reach *= 2;
    reach *= 4;
    uint64_t low = guess > reach ? guess - reach : 0;
    uint64_t high = reach < k->samples - guess ? guess + reach : k->samples;
    struct entry e;
    leat_status rc = LEAT_OK;
    if (low > 0) {
        rc = entry_at(k, low - 1, &e, err);
        low = rc == LEAT_OK && e.hash < hash ? low : 0;
    }
    if (rc == LEAT_OK && high < k->samples) {
        rc = entry_at(k, high, &e, err);
        high = rc == LEAT_OK && e.hash >= hash ? high : k->samples;
    }
    return rc == LEAT_OK ? bisect(k, hash, low, high, out, err) : rc;
}

/* Whether a sample has this key. */
static leat_status compare(const struct leat_keys *k, uint64_t sample, const void *key, size_t n, bool *same,
                           struct leat_error *err)
{
    struct leat_buf found;
    uint64_t start;
    uint64_t end;
    *same = false;
    leat_status rc = locate(k, sample, &start, &end, err);
    if (rc != LEAT_OK || end - start != n)
        return rc;
    leat_buf_init(&found, LEAT_KEY_MAX);
    rc = leat_keys_get(k, sample, &found, err);
    *same = rc == LEAT_OK && found.len == n && memcmp(found.data, key, n) == 0;
    leat_buf_free(&found);
    return rc;
}

leat_status leat_keys_find(const struct leat_keys *k, const void *key, size_t n, uint64_t *sample, uint64_t *count,
                           struct leat_error *err)
{
    uint64_t hash = leat_xxh3(key, n);
    uint64_t at = 0;
    uint64_t first = 0;
    uint64_t found = 0;
    leat_status rc = n ? lower_bound(k, hash, &at, err) : LEAT_OK;
    for (; n && rc == LEAT_OK && at < k->samples && found < LEAT_KEYS_COUNT_MAX; at++) {
        struct entry e;
        bool same;
        rc = entry_at(k, at, &e, err);
        if (rc != LEAT_OK || e.hash != hash)
            break;
        if (k->counts && !k->counts(k->user, e.sample))
            continue;
        rc = compare(k, e.sample, key, n, &same, err);
        if (rc == LEAT_OK && same && found++ == 0)
            first = e.sample;
    }
    if (rc != LEAT_OK)
        return rc;
    if (!found)
        return leat_fail(err, LEAT_NOT_FOUND, "no sample has the key '%.*s'", n < 300 ? (int)n : 300,
                         (const char *)key);
    *sample = first;
    *count = found;
    return LEAT_OK;
}

leat_status leat_keys_repeat(const struct leat_keys *k, bool *out, struct leat_error *err)
{
    struct entry before = {0};
    bool repeat = false;
    leat_status rc = LEAT_OK;
    for (uint64_t i = 0; rc == LEAT_OK && !repeat && i < k->samples; i++) {
        struct entry e;
        rc = entry_at(k, i, &e, err);
        if (rc == LEAT_OK && i && e.hash == before.hash) {
            uint64_t start = 0;
            uint64_t end = 0;
            rc = locate(k, e.sample, &start, &end, err);
            repeat = end > start; /* samples without a key have the same hash, too */
        }
        before = e;
    }
    if (rc == LEAT_OK)
        *out = repeat;
    return rc;
}
