#include "dataset/pack_origin.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/thread.h"
#include "dataset/pack.h"
#include "dataset/pack_inside.h"

#define THREADS_MAX 256u

/* Threads that store wait for a disk or a bucket most of the time: this many more of them. */
#define STORING 6u

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for packing");
}

/* Samples */

/* Whether a sample that has this wrong with it can be left out: not where everything else would fail as well. */
static bool can_skip(const struct pack_job *j, leat_status rc)
{
    switch (rc) {
    case LEAT_INVALID:
    case LEAT_NOT_FOUND:
    case LEAT_DENIED:
    case LEAT_CHANGED:
    case LEAT_CORRUPT:
    case LEAT_IO:
    case LEAT_LIMIT:
    case LEAT_UNSUPPORTED:
        return j->opts->skip && !j->storing;
    default:
        return false;
    }
}

/* The sample is left out, or the whole fails. */
static leat_status refuse(struct pack_worker *w, uint32_t i, uint64_t place, leat_status rc, struct leat_error *err)
{
    struct pack_job *j = w->job;
    const struct leat_origin_sample *s = &w->samples[i];
    if (!can_skip(j, rc))
        return rc;
    j->bad[leat_cut_sample(&j->cut, place)] = 1;
    atomic_fetch_add_explicit(&j->progress->skipped, 1, memory_order_relaxed);
    pthread_mutex_lock(&j->mutex);
    if (j->opts->skipped)
        j->opts->skipped(j->opts->skipped_user, s->key, s->key_n, err);
    pthread_mutex_unlock(&j->mutex);
    return LEAT_OK;
}

static leat_status take_image(struct pack_worker *w, struct leat_value *v, struct leat_error *err)
{
    const struct leat_pack_images *images = w->job->opts->images;
    if (!images)
        return LEAT_OK;
    leat_buf_clear(&w->changed);
    leat_status rc = images->image(w->images, v->data, v->size, &w->changed, &v->image, err);
    if (rc != LEAT_OK && rc != LEAT_NO_MEMORY && !images->changes && !w->job->opts->skip) {
        v->image = (struct leat_picture){0};
        atomic_fetch_add_explicit(&w->job->progress->unreadable, 1, memory_order_relaxed);
        return LEAT_OK;
    }
    if (rc == LEAT_OK && w->changed.len) {
        v->data = w->changed.data;
        v->size = w->changed.len;
        atomic_fetch_add_explicit(&w->job->progress->changed, 1, memory_order_relaxed);
    }
    return rc;
}

static leat_status add_sample(struct pack_worker *w, uint32_t i, struct leat_error *err)
{
    const struct leat_schema *schema = &w->job->origin->schema;
    const struct leat_origin_sample *s = &w->samples[i];
    struct leat_value values[LEAT_FIELDS_MAX];
    struct leat_buf owned[LEAT_FIELDS_MAX]; /* images that were changed, until the builder has copied them */
    uint32_t owned_n = 0;
    leat_status rc = LEAT_OK;
    for (uint32_t f = 0; rc == LEAT_OK && f < schema->n; f++) {
        const struct leat_origin_value *from = &s->values[f];
        values[f] = (struct leat_value){
            .absent = from->absent, .number = from->number, .real = from->real, .image = from->image};
        if (from->absent || !leat_field_has_data(&schema->fields[f]))
            continue;
        values[f].data = pack_value(w, i, f);
        values[f].size = (size_t)from->size;
        if (schema->fields[f].type == LEAT_FIELD_IMAGE)
            rc = take_image(w, &values[f], err);
        if (rc == LEAT_OK && w->changed.len && values[f].data == w->changed.data) {
            owned[owned_n++] = w->changed;
            leat_buf_init(&w->changed, LEAT_CHUNK_MAX);
        }
    }
    if (rc == LEAT_OK)
        rc = leat_chunk_builder_add(w->b, s->key, s->key_n, values, err);
    for (uint32_t k = 0; k < owned_n; k++)
        leat_buf_free(&owned[k]);
    if (rc != LEAT_OK)
        leat_fail_context(err, rc, "'%.*s'", s->key_n < 200 ? (int)s->key_n : 200, (const char *)s->key);
    return rc;
}

static uint64_t sample_bytes(const struct pack_worker *w, uint32_t i)
{
    const struct leat_schema *schema = &w->job->origin->schema;
    uint64_t bytes = 0;
    for (uint32_t f = 0; f < schema->n; f++) {
        if (pack_lies_elsewhere(&schema->fields[f], &w->samples[i].values[f]))
            bytes += w->samples[i].values[f].size;
    }
    return bytes;
}

/* Chunks */

/* `adding`: samples go into the builder; else only their digests are wanted. */
static leat_status take_group(struct pack_worker *w, uint64_t first, uint64_t end, bool adding, uint32_t *n,
                              struct leat_error *err)
{
    struct pack_job *j = w->job;
    leat_status rc = pack_read_group(w, first, end, n, err);
    if (rc == LEAT_OK && !j->storing)
        pack_digest_group(w, first, *n);
    for (uint32_t i = 0; rc == LEAT_OK && i < *n; i++) {
        uint64_t bytes = sample_bytes(w, i);
        struct leat_error *why = &w->errors[i];
        leat_status mine = why->status;
        if (mine == LEAT_OK && adding)
            mine = add_sample(w, i, why);
        if (mine != LEAT_OK)
            rc = refuse(w, i, first + i, mine, why);
        if (rc != LEAT_OK)
            *err = *why;
        if (!j->storing) {
            atomic_fetch_add_explicit(&j->progress->digested, bytes, memory_order_relaxed);
        } else {
            atomic_fetch_add_explicit(&j->progress->samples, 1, memory_order_relaxed);
            atomic_fetch_add_explicit(&j->progress->bytes, bytes, memory_order_relaxed);
        }
    }
    return rc;
}

static leat_status take_chunk(struct pack_worker *w, uint32_t chunk, bool adding, struct leat_error *err)
{
    const struct pack_job *j = w->job;
    uint64_t at = j->cut.starts[chunk];
    leat_status rc = LEAT_OK;
    while (rc == LEAT_OK && at < j->cut.starts[chunk + 1]) {
        uint32_t n = 0;
        if (pack_stopped(j))
            return leat_fail(err, LEAT_CANCELLED, "interrupted");
        rc = take_group(w, at, j->cut.starts[chunk + 1], adding, &n, err);
        at += n;
    }
    return rc;
}

static leat_status fresh_builder(struct pack_worker *w, struct leat_error *err)
{
    leat_chunk_builder_close(w->b);
    w->b = NULL;
    return leat_chunk_builder_open(&w->job->origin->schema, &w->b, err);
}

/* Whether the digests of all samples of a chunk are known without reading; notes those that are. */
static leat_status chunk_known(struct pack_worker *w, uint32_t chunk, bool *known, struct leat_error *err)
{
    const struct pack_job *j = w->job;
    leat_status rc = LEAT_OK;
    *known = true;
    for (uint64_t at = j->cut.starts[chunk]; rc == LEAT_OK && at < j->cut.starts[chunk + 1]; at++) {
        uint64_t i = leat_cut_sample(&j->cut, at);
        rc = leat_origin_sample(j->origin, i, &w->rooms[0], &w->samples[0], err);
        if (rc == LEAT_OK && !pack_known_digest(j->origin, &w->samples[0], j->digests[i]))
            *known = false;
    }
    return rc;
}

static leat_status look_at_chunk(struct pack_worker *w, uint32_t chunk, struct leat_error *err)
{
    struct pack_job *j = w->job;
    bool known = false;
    leat_status rc = j->opts->skip ? LEAT_OK : chunk_known(w, chunk, &known, err);
    if (rc != LEAT_OK || known)
        return rc;
    uint64_t size = j->opts->cut.chunk_bytes ? j->opts->cut.chunk_bytes : LEAT_CHUNK_BYTES;
    bool keep = atomic_fetch_add(&j->kept_bytes, size) + size <= j->keep;
    if (!keep)
        atomic_fetch_sub(&j->kept_bytes, size);
    if (keep || j->opts->skip)
        rc = fresh_builder(w, err);
    if (rc == LEAT_OK)
        rc = take_chunk(w, chunk, keep || j->opts->skip, err);
    if (rc == LEAT_OK && keep) {
        size_t now = leat_chunk_builder_size(w->b);
        if (now > size) /* a sample larger than chunks are meant to be */
            atomic_fetch_add(&j->kept_bytes, now - size);
        j->kept[chunk] = w->b;
        w->b = NULL;
    }
    return rc;
}

static leat_status store_chunk(struct pack_worker *w, uint32_t chunk, struct leat_error *err)
{
    struct pack_job *j = w->job;
    struct leat_chunk_builder *kept = j->kept[chunk];
    if (kept) {
        uint64_t samples = leat_chunk_builder_samples(kept);
        size_t bytes = leat_chunk_builder_size(kept);
        leat_status rc = leat_pack_put(j->pack, kept, chunk, err);
        leat_chunk_builder_close(kept);
        j->kept[chunk] = NULL;
        atomic_fetch_add_explicit(&j->progress->samples, samples, memory_order_relaxed);
        atomic_fetch_add_explicit(&j->progress->bytes, bytes, memory_order_relaxed);
        return rc;
    }
    leat_status rc = w->b && leat_chunk_builder_samples(w->b) == 0 ? LEAT_OK : fresh_builder(w, err);
    if (rc == LEAT_OK)
        rc = take_chunk(w, chunk, true, err);
    return rc == LEAT_OK ? leat_pack_put(j->pack, w->b, chunk, err) : rc;
}

/* Threads */

static void *run_worker(void *arg)
{
    struct pack_worker *w = arg;
    struct pack_job *j = w->job;
    struct leat_error err;
    leat_status rc = LEAT_OK;
    while (rc == LEAT_OK && !atomic_load(&j->failed)) {
        uint32_t chunk = atomic_fetch_add(&j->next, 1);
        if (chunk >= j->cut.chunks)
            return NULL;
        if (pack_stopped(j))
            rc = leat_fail(&err, LEAT_CANCELLED, "interrupted");
        else
            rc = j->storing ? store_chunk(w, chunk, &err) : look_at_chunk(w, chunk, &err);
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

static void close_worker(struct pack_worker *w)
{
    if (w->started)
        pthread_join(w->thread, NULL);
    if (w->job->opts->images)
        w->job->opts->images->close(w->images);
    for (uint32_t i = 0; w->rooms && i < PACK_GROUP; i++)
        leat_origin_room_free(&w->rooms[i]);
    leat_chunk_builder_close(w->b);
    leat_buf_free(&w->changed);
    free(w->rooms);
    free(w->read_of);
    free(w->digests);
    free(w->reads);
    free(w->data);
    leat_wait_end(&w->wait);
}

static leat_status open_worker(struct pack_job *j, struct pack_worker *w, struct leat_error *err)
{
    size_t values = (size_t)PACK_GROUP * j->origin->schema.n + 1;
    leat_status rc = LEAT_OK;
    w->job = j;
    pack_wait_init(w);
    leat_buf_init(&w->changed, LEAT_CHUNK_MAX);
    w->rooms = calloc(PACK_GROUP, sizeof *w->rooms);
    w->read_of = calloc(values, sizeof *w->read_of);
    w->digests = calloc(values, sizeof *w->digests);
    if (!w->rooms || !w->read_of || !w->digests)
        return no_memory(err);
    if (j->opts->images)
        rc = j->opts->images->open(j->opts->images->user, &w->images, err);
    if (rc == LEAT_OK)
        rc = leat_thread_start(&w->thread, "leat-pack", run_worker, w, err);
    w->started = rc == LEAT_OK;
    return rc;
}

/* All chunks, looked at or stored. */
static leat_status run_threads(struct pack_job *j, struct leat_error *err)
{
    unsigned n = j->opts->threads ? j->opts->threads : leat_cpu_count();
    n += j->storing ? STORING : 0;
    n = n > THREADS_MAX ? THREADS_MAX : n;
    n = n > j->cut.chunks ? j->cut.chunks : n;
    struct pack_worker *workers = calloc(n + 1, sizeof *workers);
    if (!workers)
        return no_memory(err);
    leat_status rc = LEAT_OK;
    unsigned opened = 0;
    atomic_store(&j->next, 0);
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

/* The whole */

/* Takes samples that are left out from the plan, and chunks that are empty then. */
static leat_status drop_bad(struct pack_job *j, struct leat_error *err)
{
    uint64_t samples = 0;
    uint32_t chunks = 0;
    if (!atomic_load(&j->progress->skipped))
        return LEAT_OK;
    if (!j->cut.order) {
        j->cut.order = malloc((j->origin->samples + 1) * sizeof *j->cut.order);
        if (!j->cut.order)
            return no_memory(err);
        for (uint64_t i = 0; i < j->origin->samples; i++)
            j->cut.order[i] = i;
    }
    for (uint32_t c = 0; c < j->cut.chunks; c++) {
        uint64_t first = samples;
        uint64_t end = j->cut.starts[c + 1];
        for (uint64_t at = j->cut.starts[c]; at < end; at++) {
            if (!j->bad[j->cut.order[at]])
                j->cut.order[samples++] = j->cut.order[at];
        }
        struct leat_chunk_builder *kept = j->kept[c];
        j->kept[c] = NULL;
        j->cut.starts[chunks] = first; /* chunks <= c: it was read already */
        if (samples > first)
            j->kept[chunks++] = kept;
        else
            leat_chunk_builder_close(kept);
    }
    if (!chunks)
        return leat_fail(err, LEAT_INVALID, "none of the %" PRIu64 " samples can be read, so there is nothing to pack",
                         j->origin->samples);
    j->cut.starts[chunks] = samples;
    j->cut.chunks = chunks;
    return LEAT_OK;
}

static int64_t label_of(const struct pack_job *j, uint32_t field, uint64_t place, struct leat_origin_room *room)
{
    struct leat_origin_sample s;
    leat_status rc = leat_origin_sample(j->origin, leat_cut_sample(&j->cut, place), room, &s, NULL);
    return rc == LEAT_OK ? s.values[field].number : 0;
}

/* Of the first int field whose values have names. */
static struct leat_mix_result judge_mix(const struct pack_job *j)
{
    const struct leat_schema *schema = &j->origin->schema;
    struct leat_mix mix = {0};
    struct leat_origin_room room = {0};
    uint32_t field = 0;
    while (field < schema->n && (schema->fields[field].type != LEAT_FIELD_INT || !schema->fields[field].about_n))
        field++;
    for (uint32_t i = 0; field < schema->n && i < leat_mix_chunks(j->cut.chunks); i++) {
        uint32_t chunk = leat_mix_chunk(j->cut.chunks, i);
        uint32_t n = (uint32_t)(j->cut.starts[chunk + 1] - j->cut.starts[chunk]);
        for (uint32_t k = 0; k < leat_mix_samples(j->cut.chunks, n); k++) {
            uint64_t place = j->cut.starts[chunk] + leat_mix_sample(j->cut.chunks, n, k);
            leat_mix_add(&mix, i, label_of(j, field, place, &room));
        }
    }
    leat_origin_room_free(&room);
    return leat_mix_judge(&mix);
}

/* Everything up to the packing's id. */
static leat_status prepare(struct pack_job *j, struct leat_error *err)
{
    leat_status rc = leat_cut_make(j->origin, &j->opts->cut, &j->cut, err);
    if (rc != LEAT_OK)
        return rc;
    j->keep = j->opts->keep ? j->opts->keep : leat_memory_available() / 4;
    j->digests = calloc(j->origin->samples + 1, sizeof *j->digests);
    j->kept = calloc((size_t)j->cut.chunks + 1, sizeof(struct leat_chunk_builder *));
    j->bad = j->opts->skip ? calloc(j->origin->samples + 1, 1) : NULL;
    if (!j->digests || !j->kept || (j->opts->skip && !j->bad))
        return no_memory(err);
    atomic_store_explicit(&j->progress->to_digest, j->origin->bytes, memory_order_relaxed);
    rc = run_threads(j, err);
    atomic_store_explicit(&j->progress->to_digest, atomic_load(&j->progress->digested), memory_order_relaxed);
    return rc == LEAT_OK ? drop_bad(j, err) : rc;
}

static leat_status store(struct pack_job *j, struct leat_pack_result *out, struct leat_error *err)
{
    uint8_t id[LEAT_PACK_ID_BYTES];
    leat_status rc = pack_id(j, id, err);
    if (rc != LEAT_OK)
        return rc;
    leat_pack_set_id(j->pack, id, j->cut.chunks);
    j->storing = true;
    rc = run_threads(j, err);
    if (rc == LEAT_OK)
        rc = leat_pack_finish(j->pack, out->id, err);
    if (rc == LEAT_OK) {
        struct leat_pack_totals totals = leat_pack_totals(j->pack);
        out->chunks = totals.chunks;
        out->reused = totals.reused;
        out->samples = totals.samples;
        out->bytes = totals.bytes;
        out->guarded = leat_pack_guarded(j->pack);
        out->mix = judge_mix(j);
    }
    return rc;
}

leat_status leat_pack_origin(const struct leat_origin *origin, const struct leat_home *to,
                             const struct leat_pack_origin_opts *opts, struct leat_pack_progress *progress,
                             struct leat_pack_result *out, struct leat_error *err)
{
    struct pack_job j = {.origin = origin, .opts = opts, .progress = progress};
    struct leat_pack_opts pack = {.schema = &origin->schema,
                                  .chunk_bytes = opts->cut.chunk_bytes,
                                  .publish = opts->publish,
                                  .memory = opts->memory};
    pthread_mutex_init(&j.mutex, NULL);
    /* Says at once when a dataset is there already. */
    leat_status rc = leat_pack_open(to, &pack, &j.pack, err);
    if (rc == LEAT_OK)
        rc = prepare(&j, err);
    if (rc == LEAT_OK)
        rc = store(&j, out, err);
    for (uint32_t c = 0; j.kept && c < j.cut.chunks; c++)
        leat_chunk_builder_close(j.kept[c]);
    leat_pack_close(j.pack);
    leat_cut_free(&j.cut);
    free(j.kept);
    free(j.digests);
    free(j.bad);
    pthread_mutex_destroy(&j.mutex);
    return rc;
}
