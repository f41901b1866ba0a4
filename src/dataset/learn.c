#include "dataset/learn.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "dataset/publish.h"

struct learn {
    struct leat_home home; /* the dataset's, without a version */
    struct leat_buf root;
    struct leat_pointer pointer;
    struct leat_rely old; /* the root so far: a version that was deleted meanwhile must not come back without chunks */
};

/* The root with the checksums that are known now. Returns how many it did not have. */
static uint32_t fill_in(const struct leat_dataset *d, struct leat_buf *out)
{
    const struct leat_root *r = leat_dataset_root(d);
    size_t sums_at = (size_t)((const uint8_t *)r->sums - r->data);
    uint32_t n = 0;
    leat_buf_add(out, r->data, r->size);
    for (uint32_t c = 0; !out->failed && c < r->chunks; c++) {
        uint64_t sum = r->sums[c] ? 0 : leat_dataset_learned(d, c);
        if (!sum)
            continue;
        leat_put_u64(out->data + sums_at + 8 * (size_t)c, sum);
        n++;
    }
    return n;
}

/* `name` NULL: the current version. A pointer to another version is none of ours; begin() has looked before, so that
 * the one that moves it after this is noticed. */
static leat_status move_pointer(struct learn *l, const char *name, const char *object, struct leat_error *err)
{
    const struct leat_publish_opts opts = {.name = name, .keep_current = name != NULL, .replace = true};
    struct leat_publish publish;
    struct leat_pointer now;
    leat_status rc = leat_publish_begin(&l->home, &opts, &publish, err);
    if (rc == LEAT_OK)
        rc = leat_home_pointer(&l->home, object, &now, err);
    if (rc == LEAT_NOT_FOUND)
        return LEAT_OK;
    if (rc == LEAT_OK && memcmp(now.id, l->pointer.id, sizeof now.id) == 0)
        rc = leat_publish_root(&l->home, &l->root, &l->pointer, &publish, err);
    return rc;
}

static leat_status move_name(void *user, const char *name, const struct leat_list_entry *entry, struct leat_error *err)
{
    char object[LEAT_NAME_MAX];
    (void)entry;
    leat_status rc = leat_name_named(name, object, NULL);
    return rc == LEAT_OK ? move_pointer(user, name, object, err) : LEAT_OK; /* no name: somebody's file */
}

leat_status leat_learn(const struct leat_dataset *d, uint32_t *n, struct leat_error *err)
{
    struct learn l = {.home = *leat_dataset_home(d)};
    struct leat_publish nothing = {.guarded = true}; /* only the version's own pointer */
    l.home.id = l.home.name = NULL;
    leat_buf_init(&l.root, LEAT_ROOT_MAX);
    uint32_t found = fill_in(d, &l.root);
    leat_status rc = leat_buf_check(&l.root, "the snapshot's root", err);
    if (rc == LEAT_OK && found) {
        memcpy(l.pointer.id, leat_dataset_id(d), sizeof l.pointer.id);
        leat_sha256(l.root.data, l.root.len, l.pointer.root);
        rc = leat_rely_on_root(&l.old, leat_dataset_root_id(d), err);
        nothing.rely = &l.old;
        if (rc == LEAT_OK)
            rc = leat_publish_root(&l.home, &l.root, &l.pointer, &nothing, err);
        if (rc == LEAT_OK)
            rc = leat_home_each(&l.home, LEAT_NAME_NAMES, move_name, &l, err);
        if (rc == LEAT_OK)
            rc = move_pointer(&l, NULL, LEAT_NAME_POINTER, err);
    }
    leat_buf_free(&l.root);
    leat_rely_free(&l.old);
    if (rc == LEAT_OK)
        *n = found;
    return rc;
}
