#include "dataset/pack.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/snapshot.h"

struct leat_pack {
    const struct leat_home *home;
    struct leat_schema schema;
    uint64_t chunk_bytes;
    uint32_t chunks; /* in the end; 0: not known */
    uint8_t id[LEAT_PACK_ID_BYTES];
    struct leat_publish publish; /* finish only */
    pthread_mutex_t mutex;
    struct {                             /* hold mutex */
        struct leat_chunk_builder *open; /* being filled by leat_pack_add */
        uint32_t next;                   /* number of the next chunk of leat_pack_add */
        struct leat_snapshot *snapshot;
    } locked;
};

leat_status leat_pack_open(const struct leat_home *home, const struct leat_pack_opts *opts, struct leat_pack **out,
                           struct leat_error *err)
{
    struct leat_publish publish;
    leat_status rc = leat_publish_begin(home, &opts->publish, &publish, err);
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
    rc = leat_snapshot_open(LEAT_PACK_CHUNKS_MAX, opts->memory, &p->locked.snapshot, err);
    if (rc != LEAT_OK) {
        leat_pack_close(p);
        return rc;
    }
    *out = p;
    return LEAT_OK;
}

void leat_pack_set_id(struct leat_pack *p, const uint8_t id[LEAT_PACK_ID_BYTES])
{
    memcpy(p->id, id, sizeof p->id);
}

void leat_pack_close(struct leat_pack *p)
{
    if (!p)
        return;
    leat_chunk_builder_close(p->locked.open);
    leat_snapshot_close(p->locked.snapshot);
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
    leat_buf_init(&bytes, LEAT_CHUNK_MAX);
    leat_status rc = leat_chunk_builder_finish(b, p->id, number, total, &bytes, err);
    if (rc == LEAT_OK)
        rc = leat_chunk_read(bytes.data, bytes.len, &chunk, err);
    if (rc == LEAT_OK) {
        leat_sha256(bytes.data, bytes.len, sha);
        leat_name_chunk(sha, name);
        rc = leat_home_put(p->home, name, bytes.data, bytes.len, err);
    }
    if (rc == LEAT_OK) {
        pthread_mutex_lock(&p->mutex);
        rc = leat_snapshot_add(p->locked.snapshot, &chunk, sha, err);
        pthread_mutex_unlock(&p->mutex);
    }
    leat_buf_free(&bytes);
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
