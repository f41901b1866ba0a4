#include "dataset/index_origin.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/thread.h"
#include "dataset/fetch.h"
#include "dataset/index.h"
#include "dataset/recipe.h"

#define THREADS_MAX 256u

struct job {
    const struct leat_origin *origin;
    const struct leat_cut *cut;
    const struct leat_index_origin_opts *opts;
    struct leat_index *index;
    char *folder;              /* the current one, with a '/': paths in a snapshot are whole */
    struct leat_buf encoded;   /* the schema, and … */
    struct leat_schema schema; /* … as it is read from these bytes */
    uint64_t *sums;            /* of each chunk's pieces; NULL: all objects have versions, and none is needed */
    bool measuring;            /* the workers find these */
    _Atomic uint32_t next;
    _Atomic bool failed;
    pthread_mutex_t mutex;
    struct { /* hold mutex */
        leat_status rc;
        struct leat_error err;
    } locked;
};

struct worker {
    struct job *job;
    pthread_t thread;
    bool started;
    struct leat_recipe_builder *builder;
    struct leat_origin_room room;
    struct leat_value *values; /* LEAT_FIELDS_MAX */
    struct leat_buf key;
    /* The chunk that is made. */
    const struct leat_home *home; /* where its objects lie; NULL: none so far */
    struct leat_origin_chunk own; /* the stretch that the origin has cut … */
    uint64_t own_at;              /* … and where it lies among the chunk's pieces */
};

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for an index");
}

static bool stopped(const struct job *j)
{
    return atomic_load(&j->failed) || (j->opts->stop && j->opts->stop(j->opts->stop_user));
}

/* What moves is named by where it is now: the dataset must not. The caller frees *out. */
static leat_status source_url(const struct leat_home *home, char **out, struct leat_error *err)
{
    char *url = leat_store_lasting_url(home->store, home->url);
    if (!url)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the URL of a source");
    leat_status rc = leat_source_url(url, out, err);
    free(url);
    return rc;
}

/* The same input, indexed the same way, makes the same dataset; anything else makes another. */

static void add_bytes(struct leat_sha256 *h, const void *data, uint64_t n)
{
    uint8_t length[8];
    leat_put_u64(length, n);
    leat_sha256_add(h, length, sizeof length);
    leat_sha256_add(h, data, (size_t)n);
}

static void add_number(struct leat_sha256 *h, uint64_t v)
{
    uint8_t number[8];
    leat_put_u64(number, v);
    leat_sha256_add(h, number, sizeof number);
}

static void add_value(struct leat_sha256 *h, const struct leat_origin_value *v)
{
    uint64_t real;
    memcpy(&real, &v->real, sizeof real);
    add_number(h, v->absent ? 0 : v->data ? 1 : 2);
    if (v->absent)
        return;
    add_number(h, (uint64_t)v->number);
    add_number(h, real);
    if (v->data) {
        add_bytes(h, v->data, v->size);
        return;
    }
    add_number(h, v->object);
    add_number(h, v->offset);
    add_number(h, v->size);
}

/* Where an object is, and which version of it. */
static leat_status add_object(struct leat_sha256 *h, const struct job *j, const struct leat_origin_object *object,
                              const struct leat_home **last, struct leat_error *err)
{
    bool relative = leat_store_can(object->home->store, LEAT_STORE_LOCAL) && *object->key != '/';
    const char *folder = relative ? j->folder : "";
    leat_status rc = LEAT_OK;
    if (object->home != *last) {
        char *url;
        rc = source_url(object->home, &url, err);
        if (rc != LEAT_OK)
            return rc;
        add_bytes(h, url, strlen(url));
        free(url);
    }
    *last = object->home;
    add_number(h, strlen(folder) + strlen(object->key));
    leat_sha256_add(h, folder, strlen(folder));
    leat_sha256_add(h, object->key, strlen(object->key));
    add_bytes(h, object->etag, strlen(object->etag));
    add_number(h, object->size);
    return LEAT_OK;
}

static leat_status make_id(const struct job *j, uint8_t id[LEAT_PACK_ID_BYTES], struct leat_error *err)
{
    static const char tag[] = "leat indexing 2"; /* 1 said neither where objects are nor what is in them */
    const struct leat_origin *o = j->origin;
    const struct leat_home *last = NULL;
    struct leat_origin_room room = {0};
    uint8_t sha[LEAT_SHA256_SIZE];
    struct leat_sha256 *h = leat_sha256_open();
    leat_status rc = LEAT_OK;
    if (!h)
        return no_memory(err);
    leat_sha256_add(h, tag, sizeof tag);
    add_bytes(h, o->kind, strlen(o->kind));
    add_number(h, j->cut->order != NULL);
    add_number(h, j->cut->order ? j->opts->cut.seed : 0);
    add_number(h, j->opts->cut.chunk_bytes);
    add_number(h, o->samples);
    add_bytes(h, j->encoded.data, j->encoded.len);
    for (uint32_t i = 0; rc == LEAT_OK && i < o->objects; i++) {
        struct leat_origin_object object;
        rc = o->ops->object(o, i, &object, err);
        if (rc == LEAT_OK)
            rc = add_object(h, j, &object, &last, err);
    }
    for (uint32_t c = 0; j->sums && c < j->cut->chunks; c++)
        add_number(h, j->sums[c]);
    for (uint64_t i = 0; rc == LEAT_OK && i < o->samples; i++) {
        struct leat_origin_sample s;
        rc = leat_origin_sample(o, i, &room, &s, err);
        if (rc != LEAT_OK)
            break;
        add_bytes(h, s.key, s.key_n);
        for (uint32_t f = 0; f < o->schema.n; f++)
            add_value(h, &s.values[f]);
    }
    leat_sha256_finish(h, sha);
    memcpy(id, sha, LEAT_PACK_ID_BYTES);
    leat_origin_room_free(&room);
    return rc;
}

/* Making a chunk's recipe */

/* Notes `length` bytes of an object; *at: where they will lie. */
static leat_status place(struct worker *w, uint32_t number, uint64_t offset, uint64_t length, uint64_t *at,
                         struct leat_error *err)
{
    const struct leat_origin *o = w->job->origin;
    struct leat_origin_object object;
    leat_status rc = o->ops->object(o, number, &object, err);
    if (rc != LEAT_OK)
        return rc;
    if (w->home && w->home != object.home && !leat_origin_same_store(w->home, object.home))
        return leat_fail(err, LEAT_INTERNAL, "a chunk has pieces of two stores");
    w->home = object.home;
    leat_buf_clear(&w->key);
    if (leat_store_can(object.home->store, LEAT_STORE_LOCAL) && *object.key != '/')
        leat_buf_str(&w->key, w->job->folder);
    leat_buf_str(&w->key, object.key);
    if (w->key.failed)
        return no_memory(err);
    struct leat_recipe_place p = {
        .key = w->key.data, .offset = offset, .length = length, .object_bytes = object.size, .pin = object.etag};
    return leat_recipe_place(w->builder, &p, at, err);
}

static leat_status place_value(struct worker *w, const struct leat_origin_value *v, struct leat_value *out,
                               struct leat_error *err)
{
    if (v->size > LEAT_CHUNK_MAX)
        return leat_fail(err, LEAT_LIMIT, "a value of %" PRIu64 " bytes is too large for a chunk", v->size);
    out->elsewhere = true;
    out->size = (size_t)v->size;
    if (!w->job->origin->ops->chunk)
        return place(w, v->object, v->offset, v->size, &out->at, err);
    if (v->object != w->own.object || v->offset < w->own.offset || v->offset + v->size > w->own.offset + w->own.length)
        return leat_fail(err, LEAT_INTERNAL, "a sample lies outside of its chunk");
    out->at = w->own_at + (v->offset - w->own.offset);
    return LEAT_OK;
}

static leat_status add_sample(struct worker *w, uint64_t sample, struct leat_error *err)
{
    const struct leat_schema *schema = &w->job->origin->schema;
    struct leat_origin_sample s;
    leat_status rc = leat_origin_sample(w->job->origin, sample, &w->room, &s, err);
    for (uint32_t f = 0; rc == LEAT_OK && f < schema->n; f++) {
        const struct leat_origin_value *v = &s.values[f];
        struct leat_value *out = &w->values[f];
        *out = (struct leat_value){.absent = v->absent, .number = v->number, .real = v->real, .image = v->image};
        if (v->absent || !leat_field_has_data(&schema->fields[f]))
            continue;
        if (v->data) {
            out->data = v->data;
            out->size = (size_t)v->size;
        } else {
            rc = place_value(w, v, out, err);
        }
    }
    if (rc == LEAT_OK)
        rc = leat_recipe_add(w->builder, s.key, s.key_n, w->values, err);
    if (rc != LEAT_OK)
        return rc;
    if (w->job->opts->samples && !w->job->measuring)
        atomic_fetch_add_explicit(w->job->opts->samples, 1, memory_order_relaxed);
    return LEAT_OK;
}

static leat_status add_source(const struct job *j, const struct leat_home *home, uint32_t *out, struct leat_error *err)
{
    char *url;
    leat_status rc = source_url(home, &url, err);
    if (rc != LEAT_OK)
        return rc;
    rc = leat_index_source(j->index, url, out, err);
    free(url);
    return rc;
}

/* Leaves the chunk's recipe in the builder. */
static leat_status build_chunk(struct worker *w, uint32_t chunk, struct leat_error *err)
{
    const struct job *j = w->job;
    leat_status rc = LEAT_OK;
    w->home = NULL;
    if (j->origin->ops->chunk)
        rc = place(w, w->own.object, w->own.offset, w->own.length, &w->own_at, err);
    for (uint64_t at = j->cut->starts[chunk]; rc == LEAT_OK && at < j->cut->starts[chunk + 1]; at++)
        rc = add_sample(w, leat_cut_sample(j->cut, at), err);
    if (rc == LEAT_OK && !w->home) { /* nothing but empty and absent values: any source will do */
        struct leat_origin_object object;
        rc = j->origin->ops->object(j->origin, 0, &object, err);
        w->home = object.home;
    }
    return rc;
}

/* XXH3 of pieces whose versions their store does not state; 0 where it does. */
static leat_status read_pieces(const struct worker *w, const struct leat_pieces *pieces, uint64_t *sum,
                               struct leat_error *err)
{
    uint32_t i = 0;
    while (i < pieces->n && leat_store_pin(pieces->list[i].pin) != LEAT_STORE_PIN_NONE)
        i++;
    *sum = 0;
    if (i == pieces->n)
        return LEAT_OK;
    void *data = malloc((size_t)pieces->bytes);
    if (!data)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the %" PRIu64 " bytes of a chunk", pieces->bytes);
    struct leat_fetch_opts opts = {.store = w->home->store, .pieces = pieces, .into = data, .foreign = true};
    leat_status rc = leat_fetch_run(&opts, err);
    if (rc == LEAT_OK)
        *sum = leat_xxh3(data, (size_t)pieces->bytes);
    else
        leat_fail_context(err, rc, "reading '%.300s' for a checksum, since its server states no version of it",
                          pieces->list[i].key);
    free(data);
    return rc;
}

static leat_status measure_chunk(struct worker *w, uint32_t chunk, struct leat_error *err)
{
    static const uint8_t none[LEAT_PACK_ID_BYTES];
    struct job *j = w->job;
    struct leat_pieces pieces = {0};
    struct leat_recipe recipe;
    struct leat_buf bytes;
    uint64_t size;
    if (w->own.sum) {
        j->sums[chunk] = w->own.sum;
        return LEAT_OK;
    }
    leat_buf_init(&bytes, LEAT_CHUNK_MAX);
    leat_status rc = build_chunk(w, chunk, err);
    if (rc == LEAT_OK)
        rc = leat_recipe_finish(w->builder, 0, none, chunk, j->cut->chunks, &bytes, &size, err);
    if (rc == LEAT_OK)
        rc = leat_recipe_read(bytes.data, bytes.len, &j->schema, &recipe, err);
    if (rc == LEAT_OK)
        rc = leat_recipe_pieces(&recipe, &pieces, err);
    if (rc == LEAT_OK)
        rc = read_pieces(w, &pieces, &j->sums[chunk], err);
    leat_pieces_free(&pieces);
    leat_buf_free(&bytes);
    return rc;
}

static leat_status make_chunk(struct worker *w, uint32_t chunk, struct leat_error *err)
{
    const struct job *j = w->job;
    leat_status rc = LEAT_OK;
    uint32_t source = 0;
    w->own = (struct leat_origin_chunk){0};
    if (stopped(j))
        return leat_fail(err, LEAT_CANCELLED, "interrupted");
    if (j->origin->ops->chunk)
        rc = j->origin->ops->chunk(j->origin, chunk, &w->own, err);
    if (rc == LEAT_OK && j->measuring)
        return measure_chunk(w, chunk, err);
    if (rc == LEAT_OK)
        rc = build_chunk(w, chunk, err);
    if (rc == LEAT_OK)
        rc = add_source(j, w->home, &source, err);
    uint64_t sum = j->sums ? j->sums[chunk] : w->own.sum;
    return rc == LEAT_OK ? leat_index_put(j->index, w->builder, source, chunk, sum, err) : rc;
}

static void *run_worker(void *arg)
{
    struct worker *w = arg;
    struct job *j = w->job;
    struct leat_error err;
    leat_status rc = LEAT_OK;
    while (rc == LEAT_OK && !atomic_load(&j->failed)) {
        uint32_t chunk = atomic_fetch_add(&j->next, 1);
        if (chunk >= j->cut->chunks)
            return NULL;
        rc = make_chunk(w, chunk, &err);
    }
    if (rc == LEAT_OK)
        return NULL;
    pthread_mutex_lock(&j->mutex);
    if (j->locked.rc == LEAT_OK || j->locked.rc == LEAT_CANCELLED) { /* others are cancelled because of the first */
        j->locked.rc = rc;
        j->locked.err = err;
    }
    pthread_mutex_unlock(&j->mutex);
    atomic_store(&j->failed, true);
    return NULL;
}

static void close_worker(struct worker *w)
{
    if (w->started)
        pthread_join(w->thread, NULL);
    leat_recipe_builder_close(w->builder);
    leat_origin_room_free(&w->room);
    leat_buf_free(&w->key);
    free(w->values);
}

static leat_status open_worker(struct job *j, struct worker *w, struct leat_error *err)
{
    w->job = j;
    leat_buf_init(&w->key, 1u << 17);
    w->values = calloc(LEAT_FIELDS_MAX, sizeof *w->values);
    leat_status rc = w->values ? leat_recipe_builder_open(&j->origin->schema, &w->builder, err) : no_memory(err);
    if (rc == LEAT_OK)
        rc = leat_thread_start(&w->thread, "leat-index", run_worker, w, err);
    w->started = rc == LEAT_OK;
    return rc;
}

static leat_status run_threads(struct job *j, struct leat_error *err)
{
    unsigned n = j->opts->threads ? j->opts->threads : leat_cpu_count();
    n = n > THREADS_MAX ? THREADS_MAX : n;
    n = n > j->cut->chunks ? j->cut->chunks : n;
    struct worker *workers = calloc(n, sizeof *workers);
    if (!workers)
        return no_memory(err);
    leat_status rc = LEAT_OK;
    unsigned opened = 0;
    while (rc == LEAT_OK && opened < n)
        rc = open_worker(j, &workers[opened++], err);
    if (rc != LEAT_OK)
        atomic_store(&j->failed, true);
    for (unsigned i = 0; i < opened; i++)
        close_worker(&workers[i]);
    free(workers);
    if (rc == LEAT_OK && j->locked.rc != LEAT_OK) { /* all threads are joined */
        *err = j->locked.err;
        rc = j->locked.rc;
    }
    return rc;
}

/* Where the store does not state the version of some object: what is in it. */
static leat_status measure(struct job *j, struct leat_error *err)
{
    const struct leat_origin *o = j->origin;
    bool all = true;
    leat_status rc = LEAT_OK;
    for (uint32_t i = 0; rc == LEAT_OK && all && i < o->objects; i++) {
        struct leat_origin_object object;
        rc = o->ops->object(o, i, &object, err);
        all = rc != LEAT_OK || leat_store_pin(object.etag) != LEAT_STORE_PIN_NONE;
    }
    if (rc != LEAT_OK || all)
        return rc;
    j->sums = calloc((size_t)j->cut->chunks + 1, sizeof *j->sums);
    if (!j->sums)
        return no_memory(err);
    j->measuring = true;
    rc = run_threads(j, err);
    j->measuring = false;
    atomic_store(&j->next, 0);
    return rc;
}

/* The sources' numbers must not depend on which thread asks first. */
static leat_status note_sources(struct job *j, struct leat_error *err)
{
    const struct leat_home *last = NULL;
    for (uint32_t i = 0; i < j->origin->objects; i++) {
        struct leat_origin_object object;
        uint32_t source;
        leat_status rc = j->origin->ops->object(j->origin, i, &object, err);
        if (rc == LEAT_OK && object.home != last)
            rc = add_source(j, object.home, &source, err);
        if (rc != LEAT_OK)
            return rc;
        last = object.home;
    }
    return LEAT_OK;
}

static leat_status find_folder(struct job *j, struct leat_error *err)
{
    char *folder = getcwd(NULL, 0);
    if (!folder)
        return leat_fail_errno(err, errno, "cannot find out the current folder");
    j->folder = malloc(strlen(folder) + 2);
    if (j->folder) {
        memcpy(j->folder, folder, strlen(folder));
        memcpy(j->folder + strlen(folder), "/", 2);
    }
    free(folder);
    return j->folder ? LEAT_OK : no_memory(err);
}

leat_status leat_index_origin(const struct leat_origin *o, const struct leat_cut *cut, const struct leat_home *to,
                              const struct leat_index_origin_opts *opts, struct leat_index_result *out,
                              struct leat_error *err)
{
    struct job j = {.origin = o, .cut = cut, .opts = opts};
    struct leat_index_opts index = {
        .schema = &o->schema, .chunks = cut->chunks, .publish = opts->publish, .memory = opts->memory};
    pthread_mutex_init(&j.mutex, NULL);
    leat_buf_init(&j.encoded, LEAT_SCHEMA_MAX);
    leat_status rc = find_folder(&j, err);
    if (rc == LEAT_OK)
        rc = leat_schema_write(&o->schema, &j.encoded, err);
    if (rc == LEAT_OK)
        rc = leat_schema_read(j.encoded.data, j.encoded.len, &j.schema, err);
    if (rc == LEAT_OK)
        rc = measure(&j, err);
    if (rc == LEAT_OK)
        rc = make_id(&j, index.id, err);
    if (rc == LEAT_OK)
        rc = leat_index_open(to, &index, &j.index, err);
    if (rc == LEAT_OK)
        rc = note_sources(&j, err);
    if (rc == LEAT_OK)
        rc = run_threads(&j, err);
    if (rc == LEAT_OK)
        rc = leat_index_finish(j.index, out->id, err);
    if (rc == LEAT_OK)
        out->guarded = leat_index_guarded(j.index);
    if (rc == LEAT_OK)
        out->pins = leat_index_pins(j.index);
    leat_index_close(j.index);
    leat_buf_free(&j.encoded);
    free(j.sums);
    free(j.folder);
    pthread_mutex_destroy(&j.mutex);
    return rc;
}
