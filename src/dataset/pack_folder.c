#include "dataset/pack_folder.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/random.h"
#include "base/thread.h"
#include "dataset/layout.h"
#include "dataset/pack.h"

/* A thread has so many reads in flight, or so many bytes where files are large. */
#define GROUP       64u
#define GROUP_BYTES (16u << 20)
#define THREADS_MAX 256u

struct job {
    const struct leat_home *from;
    const struct leat_scan *files;
    const struct leat_pack_folder_opts *opts;
    struct leat_pack_progress *progress;
    struct leat_pack *pack;
    uint64_t *order;  /* file by sample */
    uint64_t *starts; /* first sample of each chunk, and one more */
    uint32_t chunks;
    uint8_t (*digests)[LEAT_MD5_SIZE]; /* by file: the scan's, and those found by reading */
    bool digesting;                    /* files are read for their digests, nothing is packed yet */
    _Atomic uint32_t next;             /* chunk to be built */
    _Atomic bool failed;
    pthread_mutex_t mutex;
    struct { /* hold mutex */
        leat_status rc;
        struct leat_error err;
    } locked;
};

/* One thread and its group of reads. */
struct worker {
    struct job *job;
    pthread_t thread;
    bool started;
    struct leat_chunk_builder *builder;
    struct leat_store_op *ops;
    char *keys[GROUP];
    uint8_t *data;
    size_t data_cap;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    struct { /* hold mutex */
        uint32_t pending;
    } locked;
};

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for packing");
}

static bool stopped(const struct job *j)
{
    return atomic_load(&j->failed) || (j->opts->stop && j->opts->stop(j->opts->stop_user));
}

/* Planning */

static leat_status make_order(struct job *j, struct leat_error *err)
{
    j->order = malloc((j->files->n + 1) * sizeof *j->order);
    if (!j->order)
        return no_memory(err);
    for (uint64_t i = 0; i < j->files->n; i++)
        j->order[i] = i;
    if (!j->opts->keep_order)
        leat_shuffle_u64(leat_key("pack 1", j->opts->seed, 0, NULL, 0), 0, j->order, j->files->n);
    return LEAT_OK;
}

/* What cannot be a sample is said before anything is read. `more`: bytes of its key and data. */
static leat_status check_file(const struct job *j, uint64_t fixed, uint64_t i, uint64_t more, struct leat_error *err)
{
    size_t n;
    const char *key = leat_scan_key(j->files, j->order[i], &n);
    uint64_t size = fixed + j->files->schema.row_bytes + layout_padded(4) + more;
    if (size <= LEAT_CHUNK_MAX)
        return LEAT_OK;
    return leat_fail(err, LEAT_LIMIT, "'%.*s' has %" PRIu64 " bytes; a sample with its key has less than 4 GiB",
                     n < 200 ? (int)n : 200, key, j->files->sizes[j->order[i]]);
}

/* Cuts the samples into chunks that stay below the size wanted: the builder's own arithmetic, on the sizes listed. */
static leat_status plan_chunks(struct job *j, uint64_t schema_bytes, struct leat_error *err)
{
    uint64_t wanted = j->opts->chunk_bytes ? j->opts->chunk_bytes : LEAT_CHUNK_BYTES;
    uint64_t cap = 0;
    uint64_t fixed = LEAT_CHUNK_HEAD + schema_bytes;
    uint64_t n = 0;
    uint64_t bytes = 0; /* keys and data of the chunk so far */
    for (uint64_t i = 0; i < j->files->n; i++) {
        size_t key_n;
        leat_scan_key(j->files, j->order[i], &key_n);
        uint64_t more = key_n + j->files->sizes[j->order[i]];
        uint64_t size = fixed + (n + 1) * j->files->schema.row_bytes + layout_padded((n + 1) * 4) + bytes + more;
        leat_status rc = check_file(j, fixed, i, more, err);
        if (rc != LEAT_OK)
            return rc;
        if (i == 0 || size > wanted) {
            if (j->chunks == LEAT_PACK_CHUNKS_MAX)
                return leat_fail(err, LEAT_LIMIT, "there would be more than %u chunks: make them larger (--chunk-size)",
                                 LEAT_PACK_CHUNKS_MAX);
            if (j->chunks + 1 >= cap) {
                cap = cap ? 2 * cap : 64;
                uint64_t *starts = realloc(j->starts, cap * sizeof *starts);
                if (!starts)
                    return no_memory(err);
                j->starts = starts;
            }
            j->starts[j->chunks++] = i;
            n = 0;
            bytes = 0;
        }
        n++;
        bytes += more;
    }
    j->starts[j->chunks] = j->files->n;
    return LEAT_OK;
}

static struct leat_mix_result judge_mix(const struct job *j)
{
    struct leat_mix mix = {0};
    for (uint32_t i = 0; j->files->labels && i < leat_mix_chunks(j->chunks); i++) {
        uint32_t chunk = leat_mix_chunk(j->chunks, i);
        uint32_t n = (uint32_t)(j->starts[chunk + 1] - j->starts[chunk]);
        for (uint32_t k = 0; k < leat_mix_samples(j->chunks, n); k++) {
            uint64_t sample = j->starts[chunk] + leat_mix_sample(j->chunks, n, k);
            leat_mix_add(&mix, i, j->files->labels[j->order[sample]]);
        }
    }
    return leat_mix_judge(&mix);
}

/* The same files, packed the same way, make the same dataset; anything else makes another. */
static leat_status packing_id(const struct job *j, const struct leat_buf *schema, uint8_t id[LEAT_PACK_ID_BYTES],
                              struct leat_error *err)
{
    static const char tag[] = "leat packing 1";
    uint8_t numbers[32];
    uint8_t sha[LEAT_SHA256_SIZE];
    struct leat_sha256 *h = leat_sha256_open();
    if (!h)
        return no_memory(err);
    leat_put_u64(numbers, j->opts->keep_order);
    leat_put_u64(numbers + 8, j->opts->keep_order ? 0 : j->opts->seed);
    leat_put_u64(numbers + 16, j->files->n);
    leat_put_u64(numbers + 24, j->opts->chunk_bytes);
    leat_sha256_add(h, tag, sizeof tag);
    leat_sha256_add(h, numbers, sizeof numbers);
    leat_put_u64(numbers, schema->len);
    leat_sha256_add(h, numbers, 8);
    leat_sha256_add(h, schema->data, schema->len);
    for (uint64_t i = 0; i < j->files->n; i++) {
        size_t n;
        const char *key = leat_scan_key(j->files, i, &n);
        leat_put_u64(numbers, n);
        leat_put_u64(numbers + 8, j->files->sizes[i]);
        leat_sha256_add(h, numbers, 16);
        leat_sha256_add(h, key, n);
        leat_sha256_add(h, j->digests[i], LEAT_MD5_SIZE);
    }
    leat_sha256_finish(h, sha);
    memcpy(id, sha, LEAT_PACK_ID_BYTES);
    return LEAT_OK;
}

/* Reading a group of files */

static void read_done(struct leat_store_op *op)
{
    struct worker *w = op->user;
    pthread_mutex_lock(&w->mutex);
    if (--w->locked.pending == 0)
        pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->mutex);
}

/* How many of the samples from `first` on make a group, and their bytes. */
static uint32_t group_size(const struct job *j, uint64_t first, uint64_t end, size_t *bytes)
{
    uint32_t n = 0;
    *bytes = 0;
    while (first + n < end && n < GROUP) {
        uint64_t size = j->files->sizes[j->order[first + n]];
        if (n && *bytes + size > GROUP_BYTES)
            break;
        *bytes += (size_t)size;
        n++;
    }
    return n;
}

static leat_status start_reads(struct worker *w, uint64_t first, uint32_t n, struct leat_error *err)
{
    const struct job *j = w->job;
    size_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        size_t key_n;
        const char *key = leat_scan_key(j->files, j->order[first + i], &key_n);
        size_t prefix = strlen(j->from->prefix);
        w->keys[i] = malloc(prefix + key_n + 1);
        if (!w->keys[i])
            return no_memory(err);
        memcpy(w->keys[i], j->from->prefix, prefix);
        memcpy(w->keys[i] + prefix, key, key_n);
        w->keys[i][prefix + key_n] = '\0';
        uint64_t size = j->files->sizes[j->order[first + i]];
        w->ops[i] = (struct leat_store_op){.verb = size ? LEAT_STORE_GET : LEAT_STORE_STAT,
                                           .key = w->keys[i],
                                           .length = size,
                                           .into = w->data + at,
                                           .done = read_done,
                                           .user = w};
        at += (size_t)w->ops[i].length;
    }
    w->locked.pending = n; /* nothing is in flight yet */
    for (uint32_t i = 0; i < n; i++)
        leat_store_submit(j->from->store, &w->ops[i]);
    return LEAT_OK;
}

/* Waits until no read is in flight, whatever happens: the operations' memory is this thread's. */
static void wait_reads(struct worker *w, uint32_t n)
{
    bool cancelled = false;
    pthread_mutex_lock(&w->mutex);
    while (w->locked.pending) {
        leat_cond_wait(&w->cond, &w->mutex, leat_after(200 * LEAT_MS));
        if (!cancelled && w->locked.pending && stopped(w->job)) {
            cancelled = true;
            pthread_mutex_unlock(&w->mutex);
            for (uint32_t i = 0; i < n; i++)
                leat_store_cancel(w->job->from->store, &w->ops[i]);
            pthread_mutex_lock(&w->mutex);
        }
    }
    pthread_mutex_unlock(&w->mutex);
}

/* Whether the file could be read and is the one that was listed. */
static leat_status check_read(const struct job *j, uint64_t file, const struct leat_store_op *op,
                              struct leat_error *err)
{
    size_t key_n;
    const char *key = leat_scan_key(j->files, file, &key_n);
    bool seen = op->status == LEAT_OK || *op->object.etag; /* a file that is too short ends in an error, too */
    if (seen && op->object.size != op->length)
        return leat_fail(err, LEAT_CHANGED,
                         "'%.*s' changed while it was packed: it had %" PRIu64 " bytes and has %" PRIu64, (int)key_n,
                         key, op->length, op->object.size);
    if (op->status != LEAT_OK) {
        *err = op->err;
        return op->status;
    }
    if (leat_scan_tag(op->object.etag) != j->files->tags[file])
        return leat_fail(err, LEAT_CHANGED, "'%.*s' changed while it was packed", (int)key_n, key);
    return LEAT_OK;
}

static void digest_file(const struct job *j, uint64_t file, const struct leat_store_op *op)
{
    leat_md5(op->into, (size_t)op->length, j->digests[file]);
    atomic_fetch_add_explicit(&j->progress->digested, op->length, memory_order_relaxed);
}

static leat_status add_sample(struct worker *w, uint64_t file, const struct leat_store_op *op, struct leat_error *err)
{
    const struct job *j = w->job;
    struct leat_value values[2] = {{.data = op->into, .size = (size_t)op->length}};
    size_t key_n;
    const char *key = leat_scan_key(j->files, file, &key_n);
    if (j->files->labels)
        values[1].number = j->files->labels[file];
    if (j->files->schema.fields[0].type == LEAT_FIELD_IMAGE && j->opts->probe &&
        !j->opts->probe(op->into, (size_t)op->length, &values[0].image))
        atomic_fetch_add_explicit(&j->progress->unreadable, 1, memory_order_relaxed);
    leat_status rc = leat_chunk_builder_add(w->builder, key, key_n, values, err);
    atomic_fetch_add_explicit(&j->progress->samples, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&j->progress->bytes, op->length, memory_order_relaxed);
    return rc;
}

static leat_status pack_group(struct worker *w, uint64_t first, uint32_t n, size_t bytes, struct leat_error *err)
{
    if (bytes > w->data_cap || !w->data) {
        uint8_t *data = realloc(w->data, bytes + 1);
        if (!data)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for files of %zu bytes", bytes);
        w->data = data;
        w->data_cap = bytes;
    }
    leat_status rc = start_reads(w, first, n, err);
    if (rc == LEAT_OK)
        wait_reads(w, n);
    for (uint32_t i = 0; rc == LEAT_OK && i < n; i++) {
        uint64_t file = w->job->order[first + i];
        rc = check_read(w->job, file, &w->ops[i], err);
        if (rc == LEAT_OK && w->job->digesting)
            digest_file(w->job, file, &w->ops[i]);
        else if (rc == LEAT_OK)
            rc = add_sample(w, file, &w->ops[i], err);
    }
    for (uint32_t i = 0; i < n; i++) {
        free(w->keys[i]);
        w->keys[i] = NULL;
    }
    return rc;
}

static bool group_known(const struct job *j, uint64_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!leat_scan_known(j->files, j->order[first + i]))
            return false;
    }
    return true;
}

static leat_status pack_chunk(struct worker *w, uint32_t chunk, struct leat_error *err)
{
    const struct job *j = w->job;
    uint64_t at = j->starts[chunk];
    leat_status rc = LEAT_OK;
    while (rc == LEAT_OK && at < j->starts[chunk + 1]) {
        size_t bytes;
        uint32_t n = group_size(j, at, j->starts[chunk + 1], &bytes);
        if (stopped(j))
            rc = leat_fail(err, LEAT_CANCELLED, "interrupted");
        else if (!j->digesting || !group_known(j, at, n))
            rc = pack_group(w, at, n, bytes, err);
        at += n;
    }
    return rc == LEAT_OK && !j->digesting ? leat_pack_put(j->pack, w->builder, chunk, err) : rc;
}

static void *run_worker(void *arg)
{
    struct worker *w = arg;
    struct job *j = w->job;
    struct leat_error err;
    leat_status rc = LEAT_OK;
    while (rc == LEAT_OK && !atomic_load(&j->failed)) {
        uint32_t chunk = atomic_fetch_add(&j->next, 1);
        if (chunk >= j->chunks)
            return NULL;
        rc = pack_chunk(w, chunk, &err);
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
    leat_chunk_builder_close(w->builder);
    free(w->ops);
    free(w->data);
    pthread_mutex_destroy(&w->mutex);
    pthread_cond_destroy(&w->cond);
}

static leat_status open_worker(struct job *j, struct worker *w, struct leat_error *err)
{
    w->job = j;
    pthread_mutex_init(&w->mutex, NULL);
    leat_cond_init(&w->cond);
    w->ops = calloc(GROUP, sizeof *w->ops);
    leat_status rc = w->ops ? leat_chunk_builder_open(&j->files->schema, &w->builder, err) : no_memory(err);
    if (rc == LEAT_OK)
        rc = leat_thread_start(&w->thread, "leat-pack", run_worker, w, err);
    w->started = rc == LEAT_OK;
    return rc;
}

static leat_status run_threads(struct job *j, struct leat_error *err)
{
    unsigned n = j->opts->threads ? j->opts->threads : leat_cpu_count();
    if (n > THREADS_MAX)
        n = THREADS_MAX;
    if (n > j->chunks)
        n = j->chunks;
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

/* Reads what must be read before the packing has an id. */
static leat_status digest_files(struct job *j, struct leat_error *err)
{
    uint64_t unknown = 0;
    uint64_t bytes = 0;
    j->digests = j->files->digests;
    for (uint64_t i = 0; i < j->files->n; i++) {
        unknown += !leat_scan_known(j->files, i);
        bytes += leat_scan_known(j->files, i) ? 0 : j->files->sizes[i];
    }
    if (!unknown)
        return LEAT_OK;
    atomic_store_explicit(&j->progress->to_digest, bytes, memory_order_relaxed);
    j->digesting = true;
    leat_status rc = run_threads(j, err);
    j->digesting = false;
    atomic_store(&j->next, 0);
    return rc;
}

static leat_status open_pack(struct job *j, const struct leat_home *to, struct leat_error *err)
{
    struct leat_buf schema;
    struct leat_pack_opts opts = {.schema = &j->files->schema,
                                  .chunk_bytes = j->opts->chunk_bytes,
                                  .publish = j->opts->publish,
                                  .memory = j->opts->memory};
    leat_buf_init(&schema, LEAT_SCHEMA_MAX);
    leat_status rc = leat_schema_write(&j->files->schema, &schema, err);
    if (rc == LEAT_OK)
        rc = make_order(j, err);
    if (rc == LEAT_OK)
        rc = plan_chunks(j, schema.len, err);
    opts.chunks = j->chunks;
    if (rc == LEAT_OK) /* says at once when a dataset is there already */
        rc = leat_pack_open(to, &opts, &j->pack, err);
    if (rc == LEAT_OK)
        rc = digest_files(j, err);
    if (rc == LEAT_OK)
        rc = packing_id(j, &schema, opts.id, err);
    if (rc == LEAT_OK)
        leat_pack_set_id(j->pack, opts.id);
    leat_buf_free(&schema);
    return rc;
}

leat_status leat_pack_folder(const struct leat_home *from, const struct leat_scan *files, const struct leat_home *to,
                             const struct leat_pack_folder_opts *opts, struct leat_pack_progress *progress,
                             struct leat_pack_result *out, struct leat_error *err)
{
    struct job j = {.from = from, .files = files, .opts = opts, .progress = progress};
    pthread_mutex_init(&j.mutex, NULL);
    leat_status rc = open_pack(&j, to, err);
    if (rc == LEAT_OK)
        rc = run_threads(&j, err);
    if (rc == LEAT_OK)
        rc = leat_pack_finish(j.pack, out->id, err);
    if (rc == LEAT_OK) {
        struct leat_pack_totals totals = leat_pack_totals(j.pack);
        out->chunks = totals.chunks;
        out->samples = totals.samples;
        out->bytes = totals.bytes;
        out->guarded = leat_pack_guarded(j.pack);
        out->mix = judge_mix(&j);
    }
    leat_pack_close(j.pack);
    free(j.starts);
    free(j.order);
    pthread_mutex_destroy(&j.mutex);
    return rc;
}
