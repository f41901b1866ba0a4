/* Adding to a dataset: what is there already must not come twice. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "cli/dataset.h"
#include "cli/origin.h"
#include "cli/text.h"
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

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Hashes of the new samples' keys, sorted. The caller frees them. */
static leat_status hash_keys(const struct leat_origin *o, uint64_t **out, struct leat_error *err)
{
    struct leat_origin_room room = {0};
    uint64_t *hashes = malloc((size_t)(o->samples + 1) * sizeof *hashes);
    leat_status rc = hashes ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for %" PRIu64 " keys", o->samples);
    for (uint64_t i = 0; rc == LEAT_OK && i < o->samples; i++) {
        struct leat_origin_sample sample;
        rc = o->ops->sample(o, i, &room, &sample, err);
        if (rc == LEAT_OK)
            hashes[i] = leat_xxh3(sample.key, sample.key_n);
    }
    leat_origin_room_free(&room);
    if (rc != LEAT_OK) {
        free(hashes);
        return rc;
    }
    qsort(hashes, (size_t)o->samples, sizeof *hashes, by_number);
    *out = hashes;
    return LEAT_OK;
}

/* How many of the chunk's samples have one of these keys; *shown, the caller's to free, is the first such key. */
static leat_status count_known(struct leat_dataset *d, uint32_t chunk, const uint64_t *hashes, uint64_t n,
                               uint64_t *known, char **shown, struct leat_error *err)
{
    struct leat_slice slice = {0};
    leat_status rc = leat_slice_open(d, chunk, LEAT_SLICE_KEYS, &slice, err);
    for (uint32_t i = 0; rc == LEAT_OK && i < slice.samples; i++) {
        size_t key_n;
        const char *key = leat_slice_key(&slice, i, &key_n);
        uint64_t hash = leat_xxh3(key, key_n);
        if (key_n == 0 || !bsearch(&hash, hashes, (size_t)n, sizeof *hashes, by_number))
            continue;
        if (*known == 0)
            *shown = leat_cli_show_key(key, key_n);
        *known += 1;
    }
    leat_slice_close(&slice);
    return rc;
}

leat_status leat_cli_check_new(struct leat_dataset *d, const struct leat_cli_opened *o, struct leat_error *err)
{
    const struct leat_root *root = leat_dataset_root(d);
    uint64_t *hashes = NULL;
    uint64_t known = 0;
    char *shown = NULL;
    if (!o->raw) /* keys of shards are often numbers that begin again in each */
        return LEAT_OK;
    leat_status rc = hash_keys(o->origin, &hashes, err);
    for (uint32_t c = 0; rc == LEAT_OK && c < root->chunks; c++)
        rc = count_known(d, c, hashes, o->origin->samples, &known, &shown, err);
    if (rc == LEAT_OK && known)
        rc =
            leat_fail(err, LEAT_EXISTS,
                      "%s has samples with %" PRIu64 " of these keys already, such as '%s', and would have them twice: "
                      "add a folder or --manifest with only what is new, or make it again (--replace)",
                      leat_dataset_home(d)->url, known, shown ? shown : "");
    free(shown);
    free(hashes);
    return rc;
}
