#include "dataset/join.h"

#include <stdlib.h>
#include <string.h>

#include "dataset/add.h"
#include "dataset/dataset.h"

#define MEMORY     ((size_t)64 << 20) /* of the tables of all versions, before they go to files */
#define MEMORY_MIN ((size_t)64 << 10)

/* What is known of the chunks of a version, in lists. */
struct join {
    struct leat_add *versions;
    uint32_t n;
    const struct leat_snapshot **packings; /* of all of them */
    uint32_t packings_n;
    struct leat_rely roots;
};

static leat_status load_versions(struct join *j, const char *url, const struct leat_store_opts *store,
                                 const uint8_t (*ids)[LEAT_SHA256_SIZE], uint32_t n, struct leat_error *err)
{
    size_t memory = MEMORY / n > MEMORY_MIN ? MEMORY / n : MEMORY_MIN;
    leat_status rc = LEAT_OK;
    for (uint32_t i = 0; rc == LEAT_OK && i < n; i++) {
        struct leat_dataset *d = NULL;
        rc = leat_dataset_open(url, store, ids[i], &d, err);
        if (rc == LEAT_OK)
            rc = leat_add_load(d, memory, &j->versions[j->n], err);
        if (rc == LEAT_OK)
            j->packings_n += j->versions[j->n++].n;
        if (rc == LEAT_OK)
            rc = leat_rely_on_root(&j->roots, leat_dataset_root_id(d), err);
        leat_dataset_close(d);
    }
    return rc;
}

static leat_status list_packings(struct join *j, struct leat_error *err)
{
    uint32_t at = 0;
    j->packings = calloc(j->packings_n + 1u, sizeof(const struct leat_snapshot *));
    if (!j->packings)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a list of %u packings", j->packings_n);
    for (uint32_t i = 0; i < j->n; i++) {
        for (uint32_t k = 0; k < j->versions[i].n; k++)
            j->packings[at++] = j->versions[i].packings[k];
    }
    return LEAT_OK;
}

leat_status leat_join(const char *url, const struct leat_store_opts *store, const uint8_t (*ids)[LEAT_SHA256_SIZE],
                      uint32_t n, const struct leat_publish_opts *opts, uint8_t id[LEAT_SHA256_SIZE],
                      struct leat_error *err)
{
    struct join j = {.versions = calloc(n, sizeof *j.versions)};
    struct leat_publish publish = {0};
    struct leat_home home = {0};
    struct leat_pointer pointer;
    leat_status rc = j.versions ? leat_home_open(url, store, &home, err)
                                : leat_fail(err, LEAT_NO_MEMORY, "no memory for a list of %u versions", n);
    if (rc == LEAT_OK)
        rc = leat_publish_begin(&home, opts, &publish, err);
    if (rc == LEAT_OK)
        rc = load_versions(&j, url, store, ids, n, err);
    if (rc == LEAT_OK)
        rc = list_packings(&j, err);
    publish.rely = &j.roots;
    if (rc == LEAT_OK)
        rc = leat_publish(&home, j.packings, j.packings_n, &publish, &pointer, err);
    if (rc == LEAT_OK)
        memcpy(id, pointer.id, sizeof pointer.id);
    for (uint32_t i = 0; i < j.n; i++)
        leat_add_free(&j.versions[i]);
    free(j.packings);
    free(j.versions);
    leat_rely_free(&j.roots);
    leat_home_close(&home);
    return rc;
}
