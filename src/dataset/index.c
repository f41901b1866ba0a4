#include "dataset/index.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/add.h"
#include "dataset/pack.h"
#include "dataset/snapshot.h"

struct leat_index {
    const struct leat_home *home;
    uint8_t id[LEAT_PACK_ID_BYTES];
    uint32_t chunks;                /* in the end; 0: not known */
    struct leat_schema schema;      /* as it was read from … */
    struct leat_buf encoded_schema; /* … these bytes */
    struct leat_publish publish;    /* finish only */
    pthread_mutex_t mutex;
    struct { /* hold mutex */
        struct leat_snapshot *snapshot;
        struct leat_pins pins;
    } locked;
};

leat_status leat_index_open(const struct leat_home *to, const struct leat_index_opts *opts, struct leat_index **out,
                            struct leat_error *err)
{
    struct leat_publish publish;
    leat_status rc = leat_publish_begin(to, &opts->publish, &publish, err);
    if (rc == LEAT_OK)
        rc = leat_publish_check(&publish, opts->schema, opts->id, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_index *x = calloc(1, sizeof *x);
    if (!x)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for indexing");
    pthread_mutex_init(&x->mutex, NULL);
    x->home = to;
    x->publish = publish;
    x->chunks = opts->chunks;
    memcpy(x->id, opts->id, sizeof x->id);
    leat_buf_init(&x->encoded_schema, LEAT_SCHEMA_MAX);
    rc = leat_schema_write(opts->schema, &x->encoded_schema, err);
    if (rc == LEAT_OK)
        rc = leat_schema_read(x->encoded_schema.data, x->encoded_schema.len, &x->schema, err);
    if (rc == LEAT_OK)
        rc = leat_snapshot_open(LEAT_PACK_CHUNKS_MAX, opts->memory, &x->locked.snapshot, err);
    if (rc == LEAT_OK && opts->publish.add_to)
        rc = leat_add_sources(opts->publish.add_to, x->locked.snapshot, err);
    if (rc != LEAT_OK) {
        leat_index_close(x);
        return rc;
    }
    *out = x;
    return LEAT_OK;
}

void leat_index_close(struct leat_index *x)
{
    if (!x)
        return;
    leat_snapshot_close(x->locked.snapshot);
    leat_buf_free(&x->encoded_schema);
    pthread_mutex_destroy(&x->mutex);
    free(x);
}

leat_status leat_index_source(struct leat_index *x, const char *url, uint32_t *out, struct leat_error *err)
{
    char *store;
    leat_status rc = leat_source_url(url, &store, err);
    if (rc != LEAT_OK)
        return rc;
    pthread_mutex_lock(&x->mutex);
    rc = leat_snapshot_source(x->locked.snapshot, store, out, err);
    pthread_mutex_unlock(&x->mutex);
    free(store);
    return rc;
}

/* What rows and keys say is read from the lead, which is freed afterwards. */
static leat_status read_lead(const struct leat_index *x, const struct leat_recipe *r, void **out,
                             struct leat_chunk *chunk, struct leat_error *err)
{
    void *lead = malloc((size_t)r->lead_bytes);
    if (!lead)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the rows of a chunk");
    *out = lead;
    leat_recipe_lead(r, &x->schema, lead);
    return leat_chunk_read_lead(lead, (size_t)r->lead_bytes, chunk, err);
}

/* Whether there is such a source, and the pieces can lie there. Who reads them later stands in another folder. Adds up
 * how they are pinned. */
static leat_status check_pieces(struct leat_index *x, const struct leat_recipe *r, uint64_t sum, struct leat_pins *pins,
                                struct leat_error *err)
{
    struct leat_pieces pieces = {0};
    pthread_mutex_lock(&x->mutex);
    const char *url = leat_snapshot_source_url(x->locked.snapshot, r->source);
    bool files = url && strcmp(url, "file:///") == 0;
    pthread_mutex_unlock(&x->mutex);
    if (!url)
        return leat_fail(err, LEAT_INVALID, "there is no source %u", r->source);
    leat_status rc = leat_recipe_pieces(r, &pieces, err);
    for (uint32_t i = 0; files && rc == LEAT_OK && i < pieces.n; i++) {
        if (pieces.list[i].key[0] != '/')
            rc = leat_fail(err, LEAT_INVALID, "'%s' is relative to this folder: an index needs the whole path",
                           pieces.list[i].key);
    }
    if (rc == LEAT_OK)
        leat_pins_add(pins, &pieces, files, sum != 0);
    leat_pieces_free(&pieces);
    return rc;
}

leat_status leat_index_put(struct leat_index *x, struct leat_recipe_builder *b, uint32_t source, uint32_t number,
                           uint64_t sum, struct leat_error *err)
{
    struct leat_buf bytes;
    struct leat_recipe recipe;
    struct leat_chunk chunk;
    uint8_t sha[LEAT_SHA256_SIZE];
    uint64_t size;
    void *lead = NULL;
    struct leat_pins pins = {0};
    leat_buf_init(&bytes, LEAT_CHUNK_MAX);
    leat_status rc = leat_recipe_finish(b, source, x->id, number, x->chunks, &bytes, &size, err);
    if (rc == LEAT_OK)
        rc = leat_recipe_read(bytes.data, bytes.len, &x->schema, &recipe, err);
    if (rc == LEAT_OK)
        rc = check_pieces(x, &recipe, sum, &pins, err);
    if (rc == LEAT_OK)
        rc = read_lead(x, &recipe, &lead, &chunk, err);
    if (rc == LEAT_OK) {
        leat_sha256(bytes.data, bytes.len, sha);
        pthread_mutex_lock(&x->mutex);
        rc = leat_snapshot_add_made(x->locked.snapshot, &chunk, sha, sum, bytes.data, bytes.len, err);
        if (rc == LEAT_OK)
            leat_pins_sum(&x->locked.pins, &pins);
        pthread_mutex_unlock(&x->mutex);
    }
    free(lead);
    leat_buf_free(&bytes);
    return rc;
}

leat_status leat_index_finish(struct leat_index *x, uint8_t id[LEAT_SHA256_SIZE], struct leat_error *err)
{
    const struct leat_snapshot *snapshot = x->locked.snapshot;
    struct leat_pointer pointer;
    leat_snapshot_end(x->locked.snapshot);
    leat_status rc = leat_publish(x->home, &snapshot, 1, &x->publish, &pointer, err);
    if (rc == LEAT_OK)
        memcpy(id, pointer.id, sizeof pointer.id);
    return rc;
}

struct leat_pins leat_index_pins(const struct leat_index *x)
{
    return x->locked.pins;
}

bool leat_index_guarded(const struct leat_index *x)
{
    return x->publish.guarded;
}
