#include "leat/dataset.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/abi.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/thread.h"
#include "client/opts.h"
#include "client/request.h"
#include "dataset/dataset.h"

#define CACHE_DEFAULT ((uint64_t)64 << 20)
#define KEPT_MAX      1024u /* chunks, however small */

/* A chunk in memory: counted by the samples that were handed out, and once by the list of those kept. */
struct kept {
    _Atomic uint32_t count;
    uint32_t chunk;
    void *data;
    struct leat_chunk c;
};

/* What belongs to one process. A child of a fork makes another: the store's threads are not in it, and the mutex may be
 * in the hands of a thread that is not either. */
struct inside {
    pid_t pid;
    struct leat_dataset *dataset;
    pthread_mutex_t mutex;
    pthread_cond_t arrived;
    struct {                         /* hold mutex */
        struct kept *kept[KEPT_MAX]; /* the last one used first */
        uint32_t kept_n;
        uint64_t bytes;
        uint32_t *loading; /* chunks that threads are fetching */
        uint32_t loading_n;
        uint32_t loading_cap;
    } locked;
};

struct leat_data {
    char *url; /* in full */
    char *endpoint_url;
    char *region;
    char *profile;
    struct leat_store_opts store;
    uint64_t cache;
    uint64_t samples;
    uint8_t id[LEAT_SHA256_SIZE];
    char version[2 * LEAT_SHA256_SIZE + 1];
    struct leat_schema schema;       /* of the first inside, whose root stays as long as this does */
    char *abouts[LEAT_FIELDS_MAX];   /* NUL-terminated copies */
    struct inside *first;            /* this one's maker's */
    _Atomic(struct inside *) inside; /* this process's */
};

struct leat_data_sample {
    struct kept *kept;
    uint32_t index;
    _Atomic(void *) raw[LEAT_FIELDS_MAX]; /* values that had to be decompressed */
};

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for a dataset");
}

static void drop_kept(struct kept *k)
{
    if (k && atomic_fetch_sub(&k->count, 1) == 1) {
        free(k->data);
        free(k);
    }
}

static void close_inside(struct inside *in)
{
    if (!in)
        return;
    for (uint32_t i = 0; i < in->locked.kept_n; i++)
        drop_kept(in->locked.kept[i]);
    free(in->locked.loading);
    leat_dataset_close(in->dataset);
    pthread_cond_destroy(&in->arrived);
    pthread_mutex_destroy(&in->mutex);
    free(in);
}

/* id NULL: whichever version the address says. */
static leat_status open_inside(const struct leat_data *d, const uint8_t *id, struct inside **out,
                               struct leat_error *err)
{
    struct inside *in = calloc(1, sizeof *in);
    if (!in)
        return no_memory(err);
    pthread_mutex_init(&in->mutex, NULL);
    leat_cond_init(&in->arrived);
    in->pid = getpid();
    leat_status rc = leat_dataset_open(d->url, &d->store, id, &in->dataset, err);
    if (rc != LEAT_OK) {
        close_inside(in);
        return rc;
    }
    *out = in;
    return LEAT_OK;
}

/* In a child the parent's is left as it is: it cannot be closed there. */
static leat_status find_inside(struct leat_data *d, struct inside **out, struct leat_error *err)
{
    struct inside *in = atomic_load(&d->inside);
    if (in->pid == getpid()) {
        *out = in;
        return LEAT_OK;
    }
    struct inside *fresh = NULL;
    leat_status rc = open_inside(d, d->id, &fresh, err);
    if (rc != LEAT_OK)
        return rc;
    if (atomic_compare_exchange_strong(&d->inside, &in, fresh)) {
        *out = fresh;
        return LEAT_OK;
    }
    close_inside(fresh); /* another thread was faster */
    *out = in;
    return LEAT_OK;
}

/* Opening */

static leat_status copy_text(const char *text, char **out, struct leat_error *err)
{
    if (!text)
        return LEAT_OK;
    *out = strdup(text);
    return *out ? LEAT_OK : no_memory(err);
}

static leat_status take_opts(struct leat_data *d, const struct leat_data_opts *theirs, struct leat_error *err)
{
    struct leat_data_opts o;
    leat_status rc = leat_abi_take(theirs, "leat_data_opts", &o, sizeof o, err);
    if (rc == LEAT_OK && (!o.url || !*o.url))
        rc = leat_fail(err, LEAT_INVALID, "no dataset URL");
    if (rc == LEAT_OK)
        rc = leat_request_address(o.url, o.version, &d->url, err);
    struct leat_store_opts store = {.endpoint_url = o.endpoint_url,
                                    .region = o.region,
                                    .profile = o.profile,
                                    .anonymous = o.anonymous,
                                    .timeout_ns = o.timeout_ns,
                                    .stop = o.stop,
                                    .stop_user = o.stop_user};
    if (rc == LEAT_OK)
        rc = leat_opts_store(&store, err);
    if (rc == LEAT_OK)
        rc = copy_text(store.endpoint_url, &d->endpoint_url, err);
    if (rc == LEAT_OK)
        rc = copy_text(store.region, &d->region, err);
    if (rc == LEAT_OK)
        rc = copy_text(o.profile, &d->profile, err);
    if (rc != LEAT_OK)
        return rc;
    d->cache = o.cache ? o.cache : CACHE_DEFAULT;
    store.endpoint_url = d->endpoint_url;
    store.region = d->region;
    store.profile = d->profile;
    d->store = store;
    return LEAT_OK;
}

static leat_status copy_abouts(struct leat_data *d, struct leat_error *err)
{
    for (uint32_t f = 0; f < d->schema.n; f++) {
        const struct leat_field *field = &d->schema.fields[f];
        d->abouts[f] = leat_bytes_text(field->about, field->about_n);
        if (!d->abouts[f])
            return no_memory(err);
    }
    return LEAT_OK;
}

leat_status leat_data_open(const struct leat_data_opts *opts, struct leat_data **out, struct leat_error *err)
{
    struct leat_data *d = calloc(1, sizeof *d);
    if (!d)
        return no_memory(err);
    leat_status rc = take_opts(d, opts, err);
    if (rc == LEAT_OK)
        rc = open_inside(d, NULL, &d->first, err);
    if (rc == LEAT_OK) {
        atomic_init(&d->inside, d->first);
        d->samples = leat_dataset_samples(d->first->dataset);
        d->schema = leat_dataset_root(d->first->dataset)->schema;
        memcpy(d->id, leat_dataset_id(d->first->dataset), sizeof d->id);
        leat_hex(d->id, sizeof d->id, d->version);
        rc = copy_abouts(d, err);
    }
    if (rc != LEAT_OK) {
        leat_data_close(d);
        return rc;
    }
    *out = d;
    return LEAT_OK;
}

void leat_data_close(struct leat_data *d)
{
    if (!d)
        return;
    struct inside *in = d->first ? atomic_load(&d->inside) : NULL;
    if (in && in->pid == getpid())
        close_inside(in);
    for (uint32_t f = 0; f < LEAT_FIELDS_MAX; f++)
        free(d->abouts[f]);
    free(d->url);
    free(d->endpoint_url);
    free(d->region);
    free(d->profile);
    free(d);
}

uint64_t leat_data_samples(const struct leat_data *d)
{
    return d->samples;
}

const char *leat_data_version(const struct leat_data *d)
{
    return d->version;
}

/* Fields */

size_t leat_data_fields(const struct leat_data *d)
{
    return d->schema.n;
}

leat_status leat_data_field(const struct leat_data *d, size_t i, struct leat_data_field *out, struct leat_error *err)
{
    if (i >= d->schema.n)
        return leat_fail(err, LEAT_NOT_FOUND, "there is no field %zu: the dataset has %u", i, d->schema.n);
    const struct leat_field *f = &d->schema.fields[i];
    struct leat_data_field mine = {
        .name = f->name, .about = d->abouts[i], .type = f->type, .optional = (f->needs & LEAT_FIELD_OPTIONAL) != 0};
    return leat_abi_give(&mine, sizeof mine, "leat_data_field", out, err);
}

/* Chunks */

/* The chunk, counted once more, or NULL. Hold the mutex. */
static struct kept *find_kept(struct inside *in, uint32_t chunk)
{
    for (uint32_t i = 0; i < in->locked.kept_n; i++) {
        struct kept *k = in->locked.kept[i];
        if (k->chunk != chunk)
            continue;
        memmove(in->locked.kept + 1, in->locked.kept, i * sizeof(struct kept *));
        in->locked.kept[0] = k;
        atomic_fetch_add(&k->count, 1);
        return k;
    }
    return NULL;
}

/* Puts it before the others and lets go of what is too much; the newest always stays. Hold the mutex. */
static void keep(struct inside *in, struct kept *k, uint64_t most)
{
    uint32_t n = in->locked.kept_n;
    in->locked.bytes += k->c.size;
    while (n && (in->locked.bytes > most || n == KEPT_MAX)) {
        n--;
        in->locked.bytes -= in->locked.kept[n]->c.size;
        drop_kept(in->locked.kept[n]);
    }
    memmove(in->locked.kept + 1, in->locked.kept, n * sizeof(struct kept *));
    in->locked.kept[0] = k;
    in->locked.kept_n = n + 1;
    atomic_fetch_add(&k->count, 1);
}

static bool is_loading(const struct inside *in, uint32_t chunk)
{
    for (uint32_t i = 0; i < in->locked.loading_n; i++) {
        if (in->locked.loading[i] == chunk)
            return true;
    }
    return false;
}

/* Hold the mutex. */
static leat_status begin_loading(struct inside *in, uint32_t chunk, struct leat_error *err)
{
    if (in->locked.loading_n == in->locked.loading_cap) {
        uint32_t cap = in->locked.loading_cap ? 2 * in->locked.loading_cap : 8;
        uint32_t *more = realloc(in->locked.loading, cap * sizeof *more);
        if (!more)
            return no_memory(err);
        in->locked.loading = more;
        in->locked.loading_cap = cap;
    }
    in->locked.loading[in->locked.loading_n++] = chunk;
    return LEAT_OK;
}

static void end_loading(struct inside *in, uint32_t chunk)
{
    for (uint32_t i = 0; i < in->locked.loading_n; i++) {
        if (in->locked.loading[i] == chunk) {
            in->locked.loading[i] = in->locked.loading[--in->locked.loading_n];
            break;
        }
    }
    pthread_cond_broadcast(&in->arrived);
}

static leat_status load(struct inside *in, uint32_t chunk, struct kept **out, struct leat_error *err)
{
    struct kept *k = calloc(1, sizeof *k);
    if (!k)
        return no_memory(err);
    leat_status rc = leat_dataset_load(in->dataset, chunk, &k->data, &k->c, err);
    if (rc != LEAT_OK) {
        free(k);
        return rc;
    }
    k->chunk = chunk;
    atomic_init(&k->count, 1);
    *out = k;
    return LEAT_OK;
}

/* The chunk, counted for the caller. Threads that want one chunk fetch it once; when that fails, each of the others
 * tries itself, and its own deadline ends it. */
static leat_status take_chunk(struct leat_data *d, struct inside *in, uint32_t chunk, struct kept **out,
                              struct leat_error *err)
{
    struct kept *k;
    leat_status rc = LEAT_OK;
    pthread_mutex_lock(&in->mutex);
    while (!(k = find_kept(in, chunk)) && is_loading(in, chunk)) {
        leat_cond_wait(&in->arrived, &in->mutex, leat_after(200 * LEAT_MS));
        if (d->store.stop) { /* it may take the interpreter's lock, which others hold while they wait for ours */
            pthread_mutex_unlock(&in->mutex);
            bool stopped = d->store.stop(d->store.stop_user);
            if (stopped)
                return leat_fail(err, LEAT_CANCELLED, "interrupted");
            pthread_mutex_lock(&in->mutex);
        }
    }
    if (!k)
        rc = begin_loading(in, chunk, err);
    pthread_mutex_unlock(&in->mutex);
    if (k || rc != LEAT_OK) {
        *out = k;
        return rc;
    }
    rc = load(in, chunk, &k, err);
    pthread_mutex_lock(&in->mutex);
    if (rc == LEAT_OK)
        keep(in, k, d->cache);
    end_loading(in, chunk);
    pthread_mutex_unlock(&in->mutex);
    if (rc == LEAT_OK)
        *out = k;
    return rc;
}

/* Samples */

leat_status leat_data_find(struct leat_data *d, const void *key, size_t n, uint64_t *out, struct leat_error *err)
{
    struct inside *in = NULL;
    uint64_t count;
    leat_status rc = find_inside(d, &in, err);
    return rc == LEAT_OK ? leat_dataset_find(in->dataset, key, n, out, &count, err) : rc;
}

leat_status leat_data_get(struct leat_data *d, uint64_t number, struct leat_data_sample **out, struct leat_error *err)
{
    struct inside *in = NULL;
    struct kept *k = NULL;
    uint32_t index = 0;
    if (number >= d->samples)
        return leat_fail(err, LEAT_NOT_FOUND, "there is no sample %" PRIu64 ": the dataset has %" PRIu64, number,
                         d->samples);
    struct leat_data_sample *s = calloc(1, sizeof *s);
    leat_status rc = s ? find_inside(d, &in, err) : no_memory(err);
    if (rc == LEAT_OK)
        rc = take_chunk(d, in, leat_dataset_locate(in->dataset, number, &index), &k, err);
    if (rc != LEAT_OK) {
        free(s);
        return rc;
    }
    s->kept = k;
    s->index = index;
    *out = s;
    return LEAT_OK;
}

void leat_data_release(struct leat_data_sample *s)
{
    if (!s)
        return;
    for (uint32_t f = 0; f < s->kept->c.schema.n; f++)
        free(atomic_load(&s->raw[f]));
    drop_kept(s->kept);
    free(s);
}

const void *leat_data_key(const struct leat_data_sample *s, size_t *n)
{
    return leat_chunk_key(&s->kept->c, s->index, n);
}

/* Where the value's bytes lie. Of two threads that decompress one, the first one's stays. */
static leat_status find_bytes(struct leat_data_sample *s, uint32_t field, const struct leat_cell *cell,
                              const void **out, struct leat_error *err)
{
    void *own = NULL;
    void *before = atomic_load(&s->raw[field]);
    if (before) {
        *out = before;
        return LEAT_OK;
    }
    leat_status rc = leat_chunk_view(&s->kept->c, cell, out, &own, err);
    if (rc == LEAT_OK && own && !atomic_compare_exchange_strong(&s->raw[field], &before, own)) {
        free(own);
        *out = before;
    }
    return rc;
}

leat_status leat_data_value(struct leat_data_sample *s, size_t field, struct leat_data_value *out,
                            struct leat_error *err)
{
    const struct leat_chunk *c = &s->kept->c;
    if (field >= c->schema.n)
        return leat_fail(err, LEAT_NOT_FOUND, "there is no field %zu: the dataset has %u", field, c->schema.n);
    const struct leat_field *f = &c->schema.fields[field];
    struct leat_data_value v = {.type = f->type};
    leat_status rc = leat_field_check(f, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_cell cell = leat_chunk_cell(c, s->index, (uint32_t)field);
    v.absent = cell.absent;
    if (!cell.absent) {
        v.number = cell.number;
        v.real = cell.real;
        v.width = cell.image.width;
        v.height = cell.image.height;
        v.dtype = f->dtype;
        v.dims_n = f->dims_n;
        for (uint32_t i = 0; i < f->dims_n; i++)
            v.dims[i] = cell.dims[i];
    }
    if (!cell.absent && leat_field_has_data(f)) {
        v.bytes = cell.raw;
        rc = find_bytes(s, (uint32_t)field, &cell, &v.data, err);
    }
    return rc == LEAT_OK ? leat_abi_give(&v, sizeof v, "leat_data_value", out, err) : rc;
}
