#include "dataset/identity.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define TAG       "leat-idn"
#define TAG_BYTES 8u

/* Sums are part of it: of two roots with the same recipes one may have been indexed after the objects had changed. */
static void make_one(const struct leat_root *root, uint32_t chunk, const uint8_t place[LEAT_SHA256_SIZE], uint8_t *out)
{
    uint8_t bytes[TAG_BYTES + LEAT_SHA256_SIZE + 8 + LEAT_SHA256_SIZE];
    struct leat_writer w = leat_writer(bytes, sizeof bytes);
    leat_write_bytes(&w, TAG, TAG_BYTES);
    leat_write_bytes(&w, leat_root_chunk_name(root, chunk), LEAT_SHA256_SIZE);
    leat_write_u64(&w, root->sums[chunk]);
    leat_write_bytes(&w, place, LEAT_SHA256_SIZE);
    leat_sha256(bytes, sizeof bytes, out);
}

/* The content id covers schema, counts and selection, too. */
static leat_status make_whole(const struct leat_root *root, const struct leat_identities *i,
                              uint8_t out[LEAT_SHA256_SIZE], struct leat_error *err)
{
    struct leat_sha256 *h = leat_sha256_open();
    if (!h)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a digest");
    leat_sha256_add(h, root->id, LEAT_SHA256_SIZE);
    leat_sha256_add(h, i->chunks, (size_t)root->chunks * LEAT_SHA256_SIZE);
    leat_sha256_finish(h, out);
    return LEAT_OK;
}

leat_status leat_identities_make(const struct leat_root *root, struct leat_recipes *recipes,
                                 struct leat_identities *out, struct leat_error *err)
{
    struct leat_identities i = {.chunks = root->names};
    uint8_t place[LEAT_SHA256_SIZE];
    leat_status rc = recipes ? leat_recipes_digest_place(recipes, place, err) : LEAT_OK;
    if (rc == LEAT_OK && recipes) {
        i.chunks = i.made = malloc((size_t)root->chunks * LEAT_SHA256_SIZE + 1);
        if (!i.made)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for the identities of %u chunks", root->chunks);
    }
    for (uint32_t c = 0; rc == LEAT_OK && recipes && c < root->chunks; c++) {
        uint8_t *to = i.made + (size_t)c * LEAT_SHA256_SIZE;
        if (leat_recipes_bytes(recipes, c))
            make_one(root, c, place, to);
        else
            memcpy(to, leat_root_chunk_name(root, c), LEAT_SHA256_SIZE);
    }
    if (rc == LEAT_OK)
        rc = make_whole(root, &i, i.whole, err);
    if (rc != LEAT_OK) {
        leat_identities_free(&i);
        return rc;
    }
    *out = i;
    return LEAT_OK;
}

void leat_identities_free(struct leat_identities *i)
{
    free(i->made);
    *i = (struct leat_identities){0};
}
