#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/pack_inside.h"
#include "dataset/recipe.h"

#define NO_READ UINT32_MAX

bool pack_stopped(const struct pack_job *j)
{
    return atomic_load(&j->failed) || (j->opts->stop && j->opts->stop(j->opts->stop_user));
}

const void *pack_value(const struct pack_worker *w, uint32_t i, uint32_t field)
{
    const struct leat_origin_value *v = &w->samples[i].values[field];
    uint32_t read = w->read_of[i * w->job->origin->schema.n + field];
    if (v->data || read == NO_READ)
        return v->data ? v->data : "";
    return w->data + w->reads[read].at + (v->offset - w->reads[read].offset);
}

/* Planning the reads */

static leat_status more_reads(struct pack_worker *w, struct leat_error *err)
{
    uint32_t cap = w->reads_cap ? 2 * w->reads_cap : PACK_GROUP;
    struct pack_read *reads = realloc(w->reads, cap * sizeof *reads);
    if (!reads)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for packing");
    w->reads = reads;
    w->reads_cap = cap;
    return LEAT_OK;
}

/* Values that follow each other in an object are read together, with what little lies between. */
static bool extend_last(struct pack_worker *w, const struct leat_origin_value *v)
{
    struct pack_read *last = w->reads_n ? &w->reads[w->reads_n - 1] : NULL;
    if (!last || last->object != v->object || v->offset < last->offset ||
        v->offset > last->offset + last->length + LEAT_RECIPE_GAP)
        return false;
    uint64_t end = v->offset + v->size;
    if (end > last->offset + last->length)
        last->length = end - last->offset;
    return true;
}

static leat_status plan_value(struct pack_worker *w, const struct leat_origin_value *v, uint32_t *read,
                              struct leat_error *err)
{
    if (extend_last(w, v)) {
        *read = w->reads_n - 1;
        return LEAT_OK;
    }
    leat_status rc = w->reads_n < w->reads_cap ? LEAT_OK : more_reads(w, err);
    if (rc != LEAT_OK)
        return rc;
    w->reads[w->reads_n] = (struct pack_read){.object = v->object, .offset = v->offset, .length = v->size};
    *read = w->reads_n++;
    return LEAT_OK;
}

static leat_status plan_sample(struct pack_worker *w, uint32_t i, uint64_t place, uint64_t *bytes,
                               struct leat_error *err)
{
    const struct leat_origin *o = w->job->origin;
    leat_status rc = leat_origin_sample(o, leat_cut_sample(&w->job->cut, place), &w->rooms[i], &w->samples[i], err);
    for (uint32_t f = 0; rc == LEAT_OK && f < o->schema.n; f++) {
        const struct leat_origin_value *v = &w->samples[i].values[f];
        uint32_t *read = &w->read_of[i * o->schema.n + f];
        *read = NO_READ;
        if (!pack_lies_elsewhere(&o->schema.fields[f], v))
            continue;
        *bytes += v->size;
        rc = plan_value(w, v, read, err);
    }
    return rc;
}

/* Takes samples in until the group is full, and says where their bytes will be. */
static leat_status plan_group(struct pack_worker *w, uint64_t first, uint64_t end, uint32_t *n, struct leat_error *err)
{
    uint64_t bytes = 0;
    size_t at = 0;
    leat_status rc = LEAT_OK;
    w->reads_n = 0;
    *n = 0;
    while (rc == LEAT_OK && first + *n < end && *n < PACK_GROUP && bytes < PACK_GROUP_BYTES) {
        w->errors[*n].status = LEAT_OK;
        rc = plan_sample(w, *n, first + *n, &bytes, err);
        ++*n;
    }
    for (uint32_t r = 0; rc == LEAT_OK && r < w->reads_n; r++) {
        w->reads[r].at = at;
        at += (size_t)w->reads[r].length;
    }
    if (rc == LEAT_OK && (at > w->data_cap || !w->data)) {
        uint8_t *data = realloc(w->data, at + 1);
        if (!data)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for files of %zu bytes", at);
        w->data = data;
        w->data_cap = at;
    }
    return rc;
}

/* Reading */

static void make_op(struct pack_worker *w, uint32_t r, const char *key)
{
    struct pack_read *read = &w->reads[r];
    read->op = (struct leat_store_op){.verb = read->length ? LEAT_STORE_GET : LEAT_STORE_STAT,
                                      .key = key,
                                      .offset = read->offset,
                                      .length = read->length,
                                      .into = w->data + read->at,
                                      .err = &read->err,
                                      .object = &read->found};
}

/* Begins a read. Files are read here and now, which costs far less than handing them to other threads; what fails then
 * goes the usual way, with its retries. */
static leat_status start_read(struct pack_worker *w, uint32_t r, struct leat_error *err)
{
    struct pack_read *read = &w->reads[r];
    struct leat_origin_object object;
    leat_status rc = w->job->origin->ops->object(w->job->origin, read->object, &object, err);
    if (rc != LEAT_OK)
        return rc;
    snprintf(read->etag, sizeof read->etag, "%s", object.etag);
    read->object_bytes = object.size;
    make_op(w, r, object.key);
    if (leat_store_perform(object.home->store, &read->op) && read->op.status == LEAT_OK)
        return LEAT_OK;
    make_op(w, r, object.key);
    leat_wait_submit(&w->wait, object.home->store, &read->op);
    return LEAT_OK;
}

struct reading {
    struct pack_worker *w;
    uint32_t n; /* reads that were begun */
};

static void cancel_reads(void *arg)
{
    const struct reading *g = arg;
    for (uint32_t r = 0; r < g->n; r++) {
        struct leat_origin_object object;
        if (g->w->job->origin->ops->object(g->w->job->origin, g->w->reads[r].object, &object, NULL) == LEAT_OK)
            leat_store_cancel(object.home->store, &g->w->reads[r].op);
    }
}

static bool stop_reads(void *user)
{
    return pack_stopped(user);
}

void pack_wait_init(struct pack_worker *w)
{
    leat_wait_init(&w->wait, stop_reads, w->job);
}

/* An ETag without its quotes. */
static const char *bare(const char *etag, size_t *n)
{
    *n = strlen(etag);
    if (*n >= 2 && etag[0] == '"' && etag[*n - 1] == '"') {
        *n -= 2;
        return etag + 1;
    }
    return etag;
}

static bool same_tag(const char *a, const char *b)
{
    size_t a_n;
    size_t b_n;
    a = bare(a, &a_n);
    b = bare(b, &b_n);
    return a_n == b_n && memcmp(a, b, a_n) == 0;
}

/* Whether the object could be read and is the one that was listed. */
static leat_status check_read(const struct pack_worker *w, uint32_t r, struct leat_error *err)
{
    const struct pack_read *read = &w->reads[r];
    const struct leat_store_op *op = &read->op;
    const struct leat_object *found = &read->found;
    bool seen = op->status == LEAT_OK || *found->etag; /* one that is too short ends in an error, too */
    if (seen && found->size != read->object_bytes)
        return leat_fail(err, LEAT_CHANGED,
                         "'%s' changed while it was packed: it had %" PRIu64 " bytes and has %" PRIu64, op->key,
                         read->object_bytes, found->size);
    if (op->status != LEAT_OK) {
        *err = read->err;
        return op->status;
    }
    if (*read->etag && *found->etag && !same_tag(read->etag, found->etag))
        return leat_fail(err, LEAT_CHANGED, "'%s' changed while it was packed", op->key);
    return LEAT_OK;
}

static void check_group(struct pack_worker *w, uint32_t n)
{
    uint32_t fields = w->job->origin->schema.n;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t f = 0; f < fields && w->errors[i].status == LEAT_OK; f++) {
            uint32_t r = w->read_of[i * fields + f];
            struct leat_error err = {0};
            if (r != NO_READ && check_read(w, r, &err) != LEAT_OK)
                w->errors[i] = err;
        }
    }
}

leat_status pack_read_group(struct pack_worker *w, uint64_t first, uint64_t end, uint32_t *n, struct leat_error *err)
{
    uint32_t started = 0;
    leat_status rc = plan_group(w, first, end, n, err);
    while (rc == LEAT_OK && started < w->reads_n) {
        rc = start_read(w, started, err);
        started += rc == LEAT_OK;
    }
    struct reading reading = {w, started};
    leat_wait_for(&w->wait, 0, cancel_reads, &reading); /* whatever happens: the operations' memory is this thread's */
    if (rc == LEAT_OK)
        check_group(w, *n);
    return rc;
}
