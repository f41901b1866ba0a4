/* Adding to a dataset: what is there already must not come twice. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "cli/dataset.h"
#include "cli/origin.h"
#include "dataset/slice.h"

leat_status leat_cli_add_to(const struct leat_cli_store *store, const char *dest, struct leat_cli_origin *s,
                            struct leat_dataset **out, struct leat_error *err)
{
    struct leat_classes classes = {0};
    leat_status rc = leat_cli_dataset_open(store, dest, out, err);
    if (rc != LEAT_OK || s->classes || strcmp(s->labels, "none") == 0)
        return rc;
    if (leat_classes_of(&leat_dataset_root(*out)->schema, &classes, NULL) == LEAT_OK)
        s->classes = dest;
    leat_classes_close(&classes);
    return LEAT_OK;
}

/* 128 bits, since a sample whose key only looks known would be left out without a word. */
struct leat_cli_key_hash {
    uint64_t whole;
    uint64_t rest; /* without its first byte */
};

static struct leat_cli_key_hash hash_key(const void *key, size_t n)
{
    return (struct leat_cli_key_hash){leat_xxh3(key, n), n ? leat_xxh3((const char *)key + 1, n - 1) : 0};
}

static int by_hash(const void *a, const void *b)
{
    const struct leat_cli_key_hash *x = a;
    const struct leat_cli_key_hash *y = b;
    int c = (x->whole > y->whole) - (x->whole < y->whole);
    return c ? c : (x->rest > y->rest) - (x->rest < y->rest);
}

leat_status leat_cli_known_open(struct leat_dataset *d, struct leat_cli_known *out, struct leat_error *err)
{
    const struct leat_root *root = leat_dataset_root(d);
    uint64_t samples = 0;
    for (uint32_t c = 0; c < root->chunks; c++)
        samples += root->counts[c];
    struct leat_cli_known k = {.hashes = malloc((size_t)(samples + 1) * sizeof *k.hashes)};
    leat_status rc = k.hashes ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for %" PRIu64 " keys", samples);
    for (uint32_t c = 0; rc == LEAT_OK && c < root->chunks; c++) {
        struct leat_slice slice = {0};
        rc = leat_slice_open(d, c, LEAT_SLICE_KEYS, &slice, err);
        for (uint32_t i = 0; rc == LEAT_OK && i < slice.samples; i++) {
            size_t n;
            const char *key = leat_slice_key(&slice, i, &n);
            if (n)
                k.hashes[k.n++] = hash_key(key, n);
        }
        leat_slice_close(&slice);
    }
    if (rc != LEAT_OK) {
        leat_cli_known_close(&k);
        return leat_fail_context(err, rc, "the keys of %s", leat_dataset_home(d)->url);
    }
    qsort(k.hashes, (size_t)k.n, sizeof *k.hashes, by_hash);
    *out = k;
    return LEAT_OK;
}

void leat_cli_known_close(struct leat_cli_known *k)
{
    free(k->hashes);
    *k = (struct leat_cli_known){0};
}

bool leat_cli_known_has(const void *known, const void *key, size_t n)
{
    const struct leat_cli_known *k = known;
    struct leat_cli_key_hash hash = hash_key(key, n);
    return n && bsearch(&hash, k->hashes, (size_t)k->n, sizeof *k->hashes, by_hash);
}

leat_status leat_cli_check_new(const struct leat_cli_known *k, const struct leat_dataset *d,
                               const struct leat_origin *o, struct leat_error *err)
{
    struct leat_origin_room room = {0};
    uint64_t known = 0;
    char *shown = NULL;
    leat_status rc = LEAT_OK;
    for (uint64_t i = 0; rc == LEAT_OK && i < o->samples; i++) {
        struct leat_origin_sample sample;
        rc = leat_origin_sample(o, i, &room, &sample, err);
        if (rc != LEAT_OK || !leat_cli_known_has(k, sample.key, sample.key_n))
            continue;
        if (known++ == 0)
            shown = leat_cli_show_key(sample.key, sample.key_n);
    }
    leat_origin_room_free(&room);
    if (rc == LEAT_OK && known)
        rc =
            leat_fail(err, LEAT_EXISTS,
                      "%s has samples with %" PRIu64 " of these keys already, such as '%s', and would have them twice: "
                      "--only-new leaves them out",
                      leat_dataset_home(d)->url, known, shown ? shown : "");
    free(shown);
    return rc;
}
