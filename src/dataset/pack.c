#include "dataset/pack.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/snapshot.h"

#define SPARE_MAX   8u
#define SPARE_BYTES ((size_t)32 << 20)

struct leat_pack {
    const struct leat_home *home;
    struct leat_schema schema;
    uint64_t chunk_bytes;
    uint32_t chunks; /* in the end; 0: not known */
    uint8_t id[LEAT_PACK_ID_BYTES];
    bool look;                   /* chunks are there already */
    struct leat_publish publish; /* finish only */
    pthread_mutex_t mutex;
    struct {                             /* hold mutex */
        struct leat_chunk_builder *open; /* being filled by leat_pack_add */
        uint32_t next;                   /* number of the next chunk of leat_pack_add */
        struct leat_snapshot *snapshot;
        struct leat_rely reused;          /* chunks that were stored already */
        struct leat_buf spare[SPARE_MAX]; /* memory of chunks that were stored, for the next ones */
        uint32_t spare_n;
    } locked;
};

/* Fresh memory of 8 MiB costs two thousand page faults. */
static struct leat_buf take_buffer(struct leat_pack *p)
{
    struct leat_buf b;
    leat_buf_init(&b, LEAT_CHUNK_MAX);
    pthread_mutex_lock(&p->mutex);
    if (p->locked.spare_n)
        b = p->locked.spare[--p->locked.spare_n];
    pthread_mutex_unlock(&p->mutex);
    return b;
}

static void give_buffer(struct leat_pack *p, struct leat_buf *b)
{
    pthread_mutex_lock(&p->mutex);
    bool keep = !b->failed && b->cap <= SPARE_BYTES && p->locked.spare_n < SPARE_MAX;
    if (keep)
        p->locked.spare[p->locked.spare_n++] = *b;
    pthread_mutex_unlock(&p->mutex);
    if (!keep)
        leat_buf_free(b);
}

/* Whether there are chunks at all, so that looking for one makes sense. */
static leat_status look_for_chunks(const struct leat_home *home, bool *out, struct leat_error *err)
{
    struct leat_list *list = NULL;
    struct leat_list_entry entry;
    bool end = true;
    char *prefix = leat_home_key(home, LEAT_NAME_CHUNKS);
    if (!prefix)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a name");
    leat_status rc = leat_store_list_open(home->store, prefix, true, &list, err);
    if (rc == LEAT_OK)
        rc = leat_store_list_next(list, &entry, &end, err);
    leat_store_list_close(list);
    free(prefix);
    if (rc == LEAT_NOT_FOUND || rc == LEAT_UNSUPPORTED || rc == LEAT_DENIED)
        rc = LEAT_OK; /* who may write need not be allowed to list */
    *out = rc == LEAT_OK && !end;
    return rc;
}

/* Whether the store holds this chunk already. The name and the size of an object do not prove it: it may have been
 * damaged since it was stored. A store states a checksum, a file is read; where there is neither, the answer is no. */
static leat_status is_stored(const struct leat_pack *p, const char *key, const struct leat_buf *bytes, bool *out,
                             struct leat_error *err)
{
    struct leat_object object;
    struct leat_store *store = p->home->store;
    leat_status rc = leat_store_look(store, key, &object, err);
    *out = false;
    if (rc == LEAT_NO_MEMORY || rc == LEAT_CANCELLED)
        return rc;
    if (rc != LEAT_OK || object.size != bytes->len)
        return LEAT_OK;
    if (leat_store_can(store, LEAT_STORE_LOCAL))
        return leat_store_has_bytes(store, key, bytes->data, bytes->len, out, NULL, err);
    *out = object.checksum.kind != LEAT_CHECKSUM_NONE && !object.checksum.parts &&
           leat_checksum_fits(&object.checksum, bytes->data, bytes->len);
    return LEAT_OK;
}

/* Stores the chunk unless it is there. */
static leat_status put_once(const struct leat_pack *p, const char *name, const struct leat_buf *bytes, bool *there,
                            struct leat_error *err)
{
    *there = false;
    char *key = leat_home_key(p->home, name);
    if (!key)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a name");
    leat_status rc = p->look ? is_stored(p, key, bytes, there, err) : LEAT_OK;
    if (rc == LEAT_OK && !*there)
        rc = leat_store_put(p->home->store, key, bytes->data, bytes->len, NULL, err);
    free(key);
    return rc;
}

leat_status leat_pack_open(const struct leat_home *home, const struct leat_pack_opts *opts, struct leat_pack **out,
                           struct leat_error *err)
{
    struct leat_publish publish;
    leat_status rc = leat_publish_begin(home, &opts->publish, &publish, err);
    if (rc == LEAT_OK)
        rc = leat_publish_check(&publish, opts->schema, NULL, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_pack *p = calloc(1, sizeof *p);
    if (!p)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for packing");
    pthread_mutex_init(&p->mutex, NULL);
    p->home = home;
    p->publish = publish;
    p->schema = *opts->schema;
    p->chunk_bytes = opts->chunk_bytes ? opts->chunk_bytes : LEAT_CHUNK_BYTES;
    p->chunks = opts->chunks;
    memcpy(p->id, opts->id, sizeof p->id);
    rc = look_for_chunks(home, &p->look, err);
    if (rc == LEAT_OK)
        rc = leat_snapshot_open(LEAT_PACK_CHUNKS_MAX, opts->memory, &p->locked.snapshot, err);
    if (rc != LEAT_OK) {
        leat_pack_close(p);
        return rc;
    }
    *out = p;
    return LEAT_OK;
}

void leat_pack_set_id(struct leat_pack *p, const uint8_t id[LEAT_PACK_ID_BYTES], uint32_t chunks)
{
    memcpy(p->id, id, sizeof p->id);
    p->chunks = chunks;
}

void leat_pack_close(struct leat_pack *p)
{
    if (!p)
        return;
    leat_chunk_builder_close(p->locked.open);
    while (p->locked.spare_n)
        leat_buf_free(&p->locked.spare[--p->locked.spare_n]);
    leat_snapshot_close(p->locked.snapshot);
    leat_rely_free(&p->locked.reused);
    pthread_mutex_destroy(&p->mutex);
    free(p);
}

static leat_status put_chunk(struct leat_pack *p, struct leat_chunk_builder *b, uint32_t number, uint32_t total,
                             struct leat_error *err)
{
    struct leat_buf bytes;
    struct leat_chunk chunk;
    uint8_t sha[LEAT_SHA256_SIZE];
    char name[LEAT_NAME_MAX];
    bool there = false;
    bytes = take_buffer(p);
    leat_status rc = leat_chunk_builder_finish(b, p->id, number, total, &bytes, err);
    if (rc == LEAT_OK)
        rc = leat_chunk_read(bytes.data, bytes.len, &chunk, err);
    if (rc == LEAT_OK) {
        leat_sha256(bytes.data, bytes.len, sha);
        leat_name_chunk(sha, name);
        rc = put_once(p, name, &bytes, &there, err);
    }
    if (rc == LEAT_OK) {
        pthread_mutex_lock(&p->mutex);
        if (there)
            rc = leat_rely_on_chunk(&p->locked.reused, sha, err);
        if (rc == LEAT_OK)
            rc = leat_snapshot_add(p->locked.snapshot, &chunk, sha, err);
        pthread_mutex_unlock(&p->mutex);
    }
    give_buffer(p, &bytes);
    return rc;
}

leat_status leat_pack_put(struct leat_pack *p, struct leat_chunk_builder *b, uint32_t number, struct leat_error *err)
{
    return put_chunk(p, b, number, p->chunks, err);
}

/* Puts the sample into a new chunk, which takes the place of the open one; *full is that one then. A sample that is
 * refused changes nothing. Hold the mutex. */
static leat_status start_chunk(struct leat_pack *p, const void *key, size_t key_n, const struct leat_value *values,
                               struct leat_chunk_builder **full, struct leat_error *err)
{
    struct leat_chunk_builder *fresh;
    leat_status rc = leat_chunk_builder_open(&p->schema, &fresh, err);
    if (rc != LEAT_OK)
        return rc;
    rc = leat_chunk_builder_add(fresh, key, key_n, values, err);
    if (rc != LEAT_OK) {
        leat_chunk_builder_close(fresh);
        return rc;
    }
    *full = p->locked.open;
    p->locked.open = fresh;
    return LEAT_OK;
}

leat_status leat_pack_add(struct leat_pack *p, const void *key, size_t key_n, const struct leat_value *values,
                          struct leat_error *err)
{
    struct leat_chunk_builder *full = NULL;
    uint32_t number = 0;
    leat_status rc;
    pthread_mutex_lock(&p->mutex);
    if (p->locked.open && leat_chunk_builder_size_with(p->locked.open, key_n, values) <= p->chunk_bytes)
        rc = leat_chunk_builder_add(p->locked.open, key, key_n, values, err);
    else
        rc = start_chunk(p, key, key_n, values, &full, err);
    if (full)
        number = p->locked.next++;
    pthread_mutex_unlock(&p->mutex);
    if (full)
        rc = leat_pack_put(p, full, number, err);
    leat_chunk_builder_close(full);
    return rc;
}

struct leat_pack_totals leat_pack_totals(struct leat_pack *p)
{
    pthread_mutex_lock(&p->mutex);
    struct leat_pack_totals t = {
        .chunks = leat_snapshot_chunks(p->locked.snapshot),
        .reused = (uint32_t)p->locked.reused.n,
        .samples = leat_snapshot_samples(p->locked.snapshot),
        .bytes = leat_snapshot_bytes(p->locked.snapshot),
    };
    pthread_mutex_unlock(&p->mutex);
    return t;
}

leat_status leat_pack_finish(struct leat_pack *p, uint8_t id[LEAT_SHA256_SIZE], struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    if (p->locked.open) /* never empty: it was opened for a sample */
        rc = put_chunk(p, p->locked.open, p->locked.next, p->locked.next + 1, err);
    const struct leat_snapshot *snapshot = p->locked.snapshot;
    struct leat_pointer pointer;
    p->publish.rely = &p->locked.reused;
    if (rc == LEAT_OK)
        rc = leat_publish(p->home, &snapshot, 1, &p->publish, &pointer, err);
    if (rc == LEAT_OK)
        memcpy(id, pointer.id, sizeof pointer.id);
    return rc;
}

bool leat_pack_guarded(const struct leat_pack *p)
{
    return p->publish.guarded;
}
