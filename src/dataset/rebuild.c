#include <stdlib.h>
#include <string.h>

#include "dataset/fetch.h"
#include "dataset/pack.h"
#include "dataset/piece.h"
#include "dataset/snapshot.h"

struct rebuild {
    const struct leat_home *home;
    bool chosen; /* packs are those asked for, else the one that was met first */
    uint32_t n;
    uint8_t (*packs)[LEAT_PACK_ID_BYTES];
    struct leat_snapshot **snapshots; /* one for each */
    struct leat_rely chunks;          /* that are in them */
    uint64_t all_bytes;               /* as listed the first time */
    uint64_t bytes;                   /* read so far */
    leat_pack_read *read;
    void *user;
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
        if (!visit) {
            r->all_bytes += entry.size;
            continue;
        }
        rc = visit(r, entry.key, entry.size, sha, err);
        r->bytes += entry.size;
        if (r->read)
            r->read(r->user, r->bytes, r->all_bytes, *n);
    }
    leat_store_list_close(list);
    free(prefix);
    return rc;
}

static leat_status add(struct rebuild *r, uint32_t i, const struct leat_chunk *c, const uint8_t *sha,
                       struct leat_error *err)
{
    leat_status rc = leat_rely_on_chunk(&r->chunks, sha, err);
    return rc == LEAT_OK ? leat_snapshot_add(r->snapshots[i], c, sha, err) : rc;
}

static leat_status take(struct rebuild *r, const struct leat_chunk *c, const uint8_t *sha, struct leat_error *err)
{
    for (uint32_t i = 0; i < r->n; i++) {
        if (memcmp(c->pack, r->packs[i], sizeof c->pack) == 0)
            return add(r, i, c, sha, err);
    }
    if (r->chosen)
        return LEAT_OK; /* another packing's */
    if (r->n) {
        char a[2 * LEAT_PACK_ID_BYTES + 1];
        char b[2 * LEAT_PACK_ID_BYTES + 1];
        leat_hex(r->packs[0], sizeof r->packs[0], a);
        leat_hex(c->pack, sizeof c->pack, b);
        return leat_fail(err, LEAT_INVALID,
                         "there are chunks of several packings (%s, %s): say which to use, and in which order "
                         "(--packing)",
                         a, b);
    }
    memcpy(r->packs[r->n++], c->pack, sizeof c->pack);
    return add(r, 0, c, sha, err);
}

/* The bytes that the name promises, or LEAT_CORRUPT. */
static leat_status fetch_once(const struct rebuild *r, const struct leat_pieces *pieces, const uint8_t *sha, void *data,
                              struct leat_error *err)
{
    uint8_t found[LEAT_SHA256_SIZE];
    struct leat_fetch_opts opts = {.store = r->home->store, .pieces = pieces, .into = data};
    leat_status rc = leat_fetch_run(&opts, err);
    if (rc != LEAT_OK)
        return rc;
    leat_sha256(data, (size_t)pieces->bytes, found);
    if (memcmp(found, sha, sizeof found) != 0)
        return leat_fail(err, LEAT_CORRUPT, "%s does not hold the bytes that its name stands for", pieces->list[0].key);
    return LEAT_OK;
}

static leat_status visit(struct rebuild *r, const char *key, uint64_t size, const uint8_t *sha, struct leat_error *err)
{
    struct leat_chunk chunk;
    struct leat_pieces pieces = {0};
    if (size > LEAT_CHUNK_MAX)
        return leat_fail(err, LEAT_CORRUPT, "%s is too large for a chunk", key);
    leat_status rc = leat_pieces_of(r->home, key + strlen(r->home->prefix), 0, size, size, &pieces, err);
    if (rc != LEAT_OK)
        return rc;
    void *data = malloc(size ? (size_t)size : 1);
    rc = data ? fetch_once(r, &pieces, sha, data, err)
              : leat_fail(err, LEAT_NO_MEMORY, "no memory for a chunk of %llu bytes", (unsigned long long)size);
    if (rc == LEAT_CORRUPT)
        rc = fetch_once(r, &pieces, sha, data, err); /* damaged on the way, perhaps */
    leat_pieces_free(&pieces);
    if (rc == LEAT_OK)
        rc = leat_chunk_read(data, (size_t)size, &chunk, err);
    if (rc == LEAT_OK)
        rc = take(r, &chunk, sha, err);
    free(data);
    return rc;
}

static leat_status prepare(struct rebuild *r, const uint8_t (*packs)[LEAT_PACK_ID_BYTES], uint32_t n, uint32_t listed,
                           struct leat_error *err)
{
    uint32_t room = n ? n : 1;
    leat_status rc = LEAT_OK;
    r->chosen = n > 0;
    r->packs = calloc(room, sizeof *r->packs);
    r->snapshots = calloc(room, sizeof(struct leat_snapshot *));
    if (!r->packs || !r->snapshots)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a list of %u packings", room);
    for (uint32_t i = 0; rc == LEAT_OK && i < n; i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (memcmp(packs[k], packs[i], sizeof packs[i]) == 0)
                return leat_fail(err, LEAT_INVALID, "a packing is named twice");
        }
        memcpy(r->packs[i], packs[i], sizeof packs[i]);
    }
    for (uint32_t i = 0; rc == LEAT_OK && i < room; i++)
        rc = leat_snapshot_open(listed, 0, &r->snapshots[i], err);
    r->n = n;
    return rc;
}

/* Recipes are in no chunk: a dataset that has some cannot be made again from what is stored. False as well when the
 * snapshot is lost, or cannot be read. */
static bool is_indexed(const struct leat_home *home)
{
    struct leat_pointer pointer;
    struct leat_root root;
    char name[LEAT_NAME_MAX];
    char *data = NULL;
    size_t n = 0;
    if (leat_home_pointer(home, LEAT_NAME_POINTER, &pointer, NULL) != LEAT_OK)
        return false;
    leat_name_root(pointer.root, name);
    char *key = leat_home_key(home, name);
    bool indexed = key && leat_store_load(home->store, key, LEAT_ROOT_MAX, &data, &n, NULL, NULL) == LEAT_OK &&
                   leat_root_map(data, n, &root, NULL) == LEAT_OK && leat_root_indexed(&root);
    free(key);
    free(data);
    return indexed;
}

leat_status leat_pack_rebuild(const struct leat_home *home, const uint8_t (*packs)[LEAT_PACK_ID_BYTES], uint32_t n,
                              leat_pack_read *read, void *user, uint8_t id[LEAT_SHA256_SIZE], struct leat_error *err)
{
    struct rebuild r = {.home = home, .read = read, .user = user};
    struct leat_pointer pointer;
    uint32_t listed = 0;
    uint32_t again = 0;
    const struct leat_publish_opts opts = {.replace = true};
    struct leat_publish publish = {0};
    leat_status rc = leat_publish_begin(home, &opts, &publish, err);
    if (rc == LEAT_OK && is_indexed(home))
        rc = leat_fail(err, LEAT_UNSUPPORTED,
                       "the dataset at %s was made by 'leat index', and its snapshot is there; such a snapshot "
                       "cannot be rebuilt, because nothing else says where the data is: index it again",
                       home->url);
    if (rc == LEAT_OK)
        rc = each_chunk(&r, NULL, &listed, err);
    if (rc == LEAT_OK && listed == 0)
        rc =
            leat_fail(err, LEAT_NOT_FOUND,
                      "there are no chunks at %s; a dataset made by 'leat index' has none and cannot be rebuilt: index "
                      "it again",
                      home->url);
    if (rc == LEAT_OK)
        rc = prepare(&r, packs, n, listed, err);
    if (rc == LEAT_OK)
        rc = each_chunk(&r, visit, &again, err);
    publish.rely = &r.chunks;
    if (rc == LEAT_OK)
        rc = leat_publish(home, (const struct leat_snapshot *const *)r.snapshots, n ? n : 1, &publish, &pointer, err);
    if (rc == LEAT_OK)
        memcpy(id, pointer.id, sizeof pointer.id);
    for (uint32_t i = 0; r.snapshots && i < (n ? n : 1); i++)
        leat_snapshot_close(r.snapshots[i]);
    free(r.snapshots);
    free(r.packs);
    leat_rely_free(&r.chunks);
    return rc;
}
