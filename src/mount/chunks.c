#include "mount/chunks.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "cache/disk.h"

struct leat_chunks {
    struct leat_dataset *dataset;
    struct leat_disk *disk; /* NULL: none */
};

leat_status leat_chunks_open(struct leat_dataset *d, const char *dir, uint64_t budget, struct leat_chunks **out,
                             struct leat_error *err)
{
    struct leat_chunks *c = calloc(1, sizeof *c);
    if (!c)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a mount");
    c->dataset = d;
    struct leat_disk_opts opts = {.dir = dir, .budget = budget};
    leat_status rc = dir ? leat_dataset_identify(d, err) : LEAT_OK;
    if (rc == LEAT_OK && dir)
        rc = leat_disk_open(&opts, &c->disk, err);
    if (rc != LEAT_OK) {
        leat_chunks_close(c);
        return rc;
    }
    *out = c;
    return LEAT_OK;
}

void leat_chunks_close(struct leat_chunks *c)
{
    if (!c)
        return;
    leat_disk_close(c->disk);
    free(c);
}

void leat_loaded_free(struct leat_loaded *l)
{
    if (!l)
        return;
    free(l->data);
    free(l);
}

/* An operation of the disk that is waited for. It always ends: the disk has a deadline of its own. */
struct wait {
    struct leat_disk_op op; /* first member */
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    bool over; /* hold mutex */
};

static void end(struct leat_disk_op *op)
{
    struct wait *w = (struct wait *)op;
    pthread_mutex_lock(&w->mutex);
    w->over = true;
    pthread_cond_signal(&w->ended);
    pthread_mutex_unlock(&w->mutex);
}

static leat_status use_disk(struct leat_chunks *c, enum leat_disk_kind kind, uint32_t chunk, void *data)
{
    const struct leat_root *root = leat_dataset_root(c->dataset);
    struct wait w = {.op = {.kind = kind, .data = data, .bytes = root->sizes[chunk], .done = end}};
    memcpy(w.op.name, leat_dataset_identities(c->dataset) + (size_t)chunk * LEAT_SHA256_SIZE, sizeof w.op.name);
    pthread_mutex_init(&w.mutex, NULL);
    leat_cond_init(&w.ended);
    leat_disk_submit(c->disk, &w.op);
    pthread_mutex_lock(&w.mutex);
    while (!w.over)
        leat_cond_wait(&w.ended, &w.mutex, LEAT_NEVER);
    pthread_mutex_unlock(&w.mutex);
    pthread_cond_destroy(&w.ended);
    pthread_mutex_destroy(&w.mutex);
    return w.op.err.status;
}

/* Whatever is wrong with the disk, the store has it too. */
static bool load_from_disk(struct leat_chunks *c, uint32_t chunk, struct leat_loaded *l)
{
    size_t n = leat_dataset_root(c->dataset)->sizes[chunk];
    if (!c->disk)
        return false;
    l->data = malloc(n);
    bool good = l->data && use_disk(c, LEAT_DISK_READ, chunk, l->data) == LEAT_OK &&
                leat_dataset_open_chunk(c->dataset, chunk, l->data, n, &l->chunk, NULL) == LEAT_OK;
    if (!good) {
        free(l->data);
        l->data = NULL;
    }
    return good;
}

leat_status leat_chunks_load(struct leat_chunks *c, uint32_t chunk, struct leat_loaded **out, struct leat_error *err)
{
    struct leat_loaded *l = calloc(1, sizeof *l);
    void *data = NULL;
    if (!l)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for chunk %" PRIu32, chunk);
    if (!load_from_disk(c, chunk, l)) {
        leat_status rc = leat_dataset_load(c->dataset, chunk, &data, &l->chunk, err);
        if (rc != LEAT_OK) {
            leat_loaded_free(l);
            return leat_dataset_recipe_bytes(c->dataset, chunk)
                       ? leat_fail_context(err, rc, "chunk %" PRIu32 " of %s", chunk,
                                           leat_dataset_home(c->dataset)->url)
                       : rc;
        }
        l->data = data;
        if (c->disk)
            use_disk(c, LEAT_DISK_WRITE, chunk, l->data);
    }
    *out = l;
    return LEAT_OK;
}
