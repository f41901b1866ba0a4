/* Any bytes as the section of keys: looking up by number and by key stays inside it and ends. */
#include "base/buf.h"
#include "dataset/chunk.h"
#include "dataset/keys.h"

#include "fuzz.h"

struct memory {
    const uint8_t *data;
    size_t n;
};

static leat_status fetch(void *user, uint64_t at, void *into, size_t n, struct leat_error *err)
{
    const struct memory *m = user;
    if (at > m->n || n > m->n - at)
        return leat_fail(err, LEAT_CORRUPT, "outside");
    memcpy(into, m->data + at, n);
    return LEAT_OK;
}

/* What is found has that key, and the count fits. */
static void check_found(const struct leat_keys *k, const struct leat_buf *key, uint64_t sample, uint64_t count)
{
    struct leat_buf found;
    struct leat_error err;
    leat_buf_init(&found, LEAT_KEY_MAX);
    PROMISE(sample < k->samples && count >= 1 && count <= k->samples);
    PROMISE(leat_keys_get(k, sample, &found, &err) == LEAT_OK);
    PROMISE(found.len == key->len && memcmp(found.data, key->data, key->len) == 0);
    leat_buf_free(&found);
}

FUZZ(keys)
{
    if (size == 0)
        return;
    struct memory m = {data + 1, size - 1};
    struct leat_keys k = {.samples = data[0], .size = m.n, .fetch = fetch, .user = &m};
    struct leat_error err;
    struct leat_buf key;
    if (k.samples * 24 > k.size)
        return; /* a root that says so is refused */
    leat_buf_init(&key, LEAT_KEY_MAX);
    for (uint64_t i = 0; i < k.samples; i++) {
        uint64_t sample;
        uint64_t count;
        leat_buf_clear(&key);
        if (leat_keys_get(&k, i, &key, &err) != LEAT_OK)
            continue;
        if (leat_keys_find(&k, key.data, key.len, &sample, &count, &err) == LEAT_OK)
            check_found(&k, &key, sample, count);
    }
    bool repeat;
    leat_keys_repeat(&k, &repeat, &err);
    leat_buf_free(&key);
}
