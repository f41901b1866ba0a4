#include <stdlib.h>
#include <string.h>

#include "dataset/pack.h"
#include "dataset/publish.h"
#include "dataset/snapshot.h"

struct rebuild {
    const struct leat_home *home;
    const uint8_t *pack; /* wanted, or NULL */
    bool chosen;
    uint8_t first_pack[LEAT_PACK_ID_BYTES];
    struct leat_snapshot *snapshot;
};

/* The digest a chunk's object is named by; false for anything else that lies there. */
static bool chunk_name(const char *key, uint8_t sha[LEAT_SHA256_SIZE])
{
    const char *name = strrchr(key, '/');
    return name && leat_unhex(name + 1, sha, LEAT_SHA256_SIZE);
}

typedef leat_status visit_chunk(struct rebuild *r, const char *key, uint64_t size, const uint8_t *sha,
                                struct leat_error *err);

static leat_status each_chunk(struct rebuild *r, visit_chunk *visit, uint32_t *n, struct leat_error *err)
{
    struct leat_list *list = NULL;
    struct leat_list_entry entry;
    bool end = false;
    char *prefix = leat_home_key(r->home, LEAT_NAME_CHUNKS);
    if (!prefix)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a name");
    leat_status rc = leat_store_list_open(r->home->store, prefix, true, &list, err);
    while (rc == LEAT_OK) {
        uint8_t sha[LEAT_SHA256_SIZE];
        rc = leat_store_list_next(list, &entry, &end, err);
        if (rc != LEAT_OK || end)
            break;
        if (!chunk_name(entry.key, sha))
            continue;
        ++*n;
        if (visit)
            rc = visit(r, entry.key, entry.size, sha, err);
    }
    leat_store_list_close(list);
    free(prefix);
    return rc;
}

static leat_status take(struct rebuild *r, const struct leat_chunk *c, const uint8_t *sha, struct leat_error *err)
{
    if (r->pack && memcmp(c->pack, r->pack, sizeof c->pack) != 0)
        return LEAT_OK; /* another packing's */
    if (!r->chosen)
        memcpy(r->first_pack, c->pack, sizeof c->pack);
    r->chosen = true;
    if (memcmp(c->pack, r->first_pack, sizeof c->pack) != 0) {
        char a[2 * LEAT_PACK_ID_BYTES + 1];
        char b[2 * LEAT_PACK_ID_BYTES + 1];
        leat_hex(r->first_pack, sizeof r->first_pack, a);
        leat_hex(c->pack, sizeof c->pack, b);
        return leat_fail(err, LEAT_INVALID, "chunks of several packings are there (%s, %s): say which (--packing)", a,
                         b);
    }
    return leat_snapshot_add(r->snapshot, c, sha, err);
}

static leat_status visit(struct rebuild *r, const char *key, uint64_t size, const uint8_t *sha, struct leat_error *err)
{
    struct leat_chunk chunk;
    uint8_t found[LEAT_SHA256_SIZE];
    if (size > LEAT_CHUNK_MAX)
        return leat_fail(err, LEAT_CORRUPT, "%s is too large for a chunk", key);
    void *data = malloc(size ? (size_t)size : 1);
    leat_status rc =
        data ? leat_store_get(r->home->store, key, 0, size, data, NULL, err)
             : leat_fail(err, LEAT_NO_MEMORY, "no memory for a chunk of %llu bytes", (unsigned long long)size);
    if (rc == LEAT_OK) {
        leat_sha256(data, (size_t)size, found);
        if (memcmp(found, sha, sizeof found) != 0)
            rc = leat_fail(err, LEAT_CORRUPT, "the bytes of %s are not those its name promises", key);
    }
    if (rc == LEAT_OK)
        rc = leat_chunk_read(data, (size_t)size, &chunk, err);
    if (rc == LEAT_OK)
        rc = take(r, &chunk, sha, err);
    free(data);
    return rc;
}

leat_status leat_pack_rebuild(const struct leat_home *home, const uint8_t *pack, uint8_t id[LEAT_SHA256_SIZE],
                              struct leat_error *err)
{
    struct rebuild r = {.home = home, .pack = pack};
    uint32_t listed = 0;
    uint32_t again = 0;
    leat_status rc = each_chunk(&r, NULL, &listed, err);
    if (rc == LEAT_OK && listed == 0)
        rc = leat_fail(err, LEAT_NOT_FOUND, "there are no chunks at %s", home->url);
    if (rc == LEAT_OK)
        rc = leat_snapshot_open(listed, &r.snapshot, err);
    if (rc == LEAT_OK)
        rc = each_chunk(&r, visit, &again, err);
    if (rc == LEAT_OK)
        rc = leat_home_publish(home, r.snapshot, id, err);
    leat_snapshot_close(r.snapshot);
    return rc;
}
