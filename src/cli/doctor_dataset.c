/* leat doctor: the dataset, how fast its chunks come, and how fast this machine makes pictures of them. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/parse.h"
#include "base/thread.h"
#include "cli/cli.h"
#include "cli/doctor.h"
#include "prep/pipeline.h"

#define CHUNKS      5   /* whose first byte is asked for */
#define PARALLEL    32u /* connections, as many as a loader begins with */
#define RANGE       (8u << 20)
#define THREADS_MAX 256u
/* Pictures per second, for a first idea; docs/doctor.md has the sources. */
#define USUAL      "a ResNet-50 in bf16 takes about 1,200 on a V100, 2,500 on an A100, 6,700 on an H200"
#define LISTED_MAX 1000u

static bool is_file(const struct leat_doctor *d)
{
    return leat_store_can(d->home.store, LEAT_STORE_LOCAL);
}

/* Something large to read, where there is no dataset; *n counts what is listed. */
static void find_object(struct leat_doctor *d, unsigned *n, uint64_t *size)
{
    struct leat_list *list = NULL;
    struct leat_list_entry entry;
    struct leat_error err;
    bool end = false;
    leat_status rc = leat_store_list_open(d->home.store, d->home.prefix, true, &list, &err);
    *n = 0;
    *size = 0;
    while (rc == LEAT_OK && *n < LISTED_MAX) {
        rc = leat_store_list_next(list, &entry, &end, &err);
        if (rc != LEAT_OK || end)
            break;
        ++*n;
        if (entry.size <= *size)
            continue;
        char *key = strdup(entry.key);
        if (!key)
            break;
        free(d->object);
        d->object = key;
        *size = entry.size;
    }
    leat_store_list_close(list);
}

static void say_no_dataset(struct leat_doctor *d, const struct leat_error *why, struct leat_findings *f)
{
    unsigned n = 0;
    uint64_t size = 0;
    char text[LEAT_FORMAT_SIZE];
    if (leat_store_can(d->home.store, LEAT_STORE_LISTS))
        find_object(d, &n, &size);
    if (!n)
        leat_findings_say(
            f, LEAT_HEALTH_BAD, "dataset",
            "Look at the address: 'leat ls' lists what is there; 'leat pack' and 'leat index' make a dataset", "%s",
            why->text);
    else
        leat_findings_say(f, LEAT_HEALTH_NOTE, "dataset", "Make one of the objects with 'leat pack' or 'leat index'",
                          "none here, but %u%s objects, the largest of %s", n, n == LISTED_MAX ? " or more" : "",
                          leat_format_size(size, text));
    d->ended |= !n || is_file(d);
}

void leat_doctor_dataset(struct leat_doctor *d, struct leat_findings *f)
{
    struct leat_store_opts opts;
    struct leat_error err = {0};
    char id[2 * LEAT_SHA256_SIZE + 1];
    char bytes[LEAT_FORMAT_SIZE];
    leat_status rc = leat_doctor_store_opts(d, &opts, &err);
    if (rc == LEAT_OK)
        rc = leat_dataset_open(d->url, &opts, NULL, &d->dataset, &err);
    if (rc == LEAT_NOT_FOUND) {
        say_no_dataset(d, &err, f);
        return;
    }
    if (rc != LEAT_OK) {
        d->ended = true;
        leat_findings_say(f, LEAT_HEALTH_BAD, "dataset",
                          rc == LEAT_VERSION ? "Update Leat on this machine"
                          : rc == LEAT_CORRUPT
                              ? "'leat verify' says what is damaged, 'leat rebuild' makes a lost snapshot"
                          : rc == LEAT_DENIED ? "Allow s3:GetObject below this address"
                                              : "Try again, and look at the address",
                          "%s", rc == LEAT_CANCELLED ? "it was not opened in time" : err.text);
        return;
    }
    const struct leat_root *r = leat_dataset_root(d->dataset);
    leat_hex(leat_dataset_id(d->dataset), LEAT_SHA256_SIZE, id);
    leat_findings_say(f, LEAT_HEALTH_OK, "dataset", "",
                      "version %.12s, format %d, %" PRIu64 " samples in %" PRIu32 " chunk%s, %s, %s", id,
                      LEAT_FORMAT_VERSION, leat_dataset_samples(d->dataset), r->chunks, r->chunks == 1 ? "" : "s",
                      leat_format_size(r->bytes, bytes), leat_dataset_sources(d->dataset) ? "indexed" : "packed");
    leat_findings_number(f, "samples", (double)leat_dataset_samples(d->dataset));
    leat_findings_number(f, "chunks", r->chunks);
    leat_findings_number(f, "bytes", (double)r->bytes);
}

/* The i-th of n chunks that lie evenly in the dataset. */
static uint32_t spread(const struct leat_dataset *d, uint32_t i, uint32_t n)
{
    uint32_t chunks = leat_dataset_root(d)->chunks;
    return n ? (uint32_t)((uint64_t)(i % n) * chunks / n) : 0;
}

/* The first byte of a chunk, which nobody may have asked for in a while. */
static leat_status time_chunk(struct leat_doctor *d, uint32_t chunk, double *seconds, struct leat_error *err)
{
    struct leat_pieces pieces = {0};
    struct leat_store *store = leat_dataset_home(d->dataset)->store;
    uint32_t recipe_n = leat_dataset_recipe_bytes(d->dataset, chunk);
    leat_status rc = recipe_n ? leat_dataset_recipe_pieces(d->dataset, chunk, &pieces, err)
                              : leat_dataset_pieces(d->dataset, chunk, &pieces, err);
    if (rc == LEAT_OK && recipe_n) {
        uint8_t *recipe = malloc(recipe_n);
        uint8_t *into = malloc(leat_dataset_root(d->dataset)->sizes[chunk]);
        if (!recipe || !into)
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for a chunk");
        else
            rc = leat_store_get(store, pieces.list[0].key, pieces.list[0].offset, pieces.list[0].length, recipe, NULL,
                                err);
        leat_pieces_free(&pieces);
        pieces = (struct leat_pieces){0};
        if (rc == LEAT_OK)
            rc = leat_dataset_begin(d->dataset, chunk, recipe, into, &pieces, &store, err);
        free(recipe);
        free(into);
    }
    if (rc == LEAT_OK && pieces.n)
        rc = leat_doctor_time_byte(store, pieces.list[0].key, pieces.list[0].offset, seconds, err);
    leat_pieces_free(&pieces);
    return rc;
}

void leat_doctor_first_byte(struct leat_doctor *d, struct leat_findings *f)
{
    double samples[CHUNKS];
    struct leat_error err = {0};
    unsigned n = 0;
    leat_status rc = LEAT_OK;
    if (!d->dataset || is_file(d))
        return;
    uint32_t chunks = leat_dataset_root(d->dataset)->chunks;
    uint32_t asked = chunks < CHUNKS ? chunks : CHUNKS;
    for (uint32_t i = 0; rc == LEAT_OK && i < asked && leat_now_ns() + LEAT_S / 2 < d->deadline_ns; i++) {
        rc = time_chunk(d, spread(d->dataset, i, asked), &samples[n], &err);
        n += rc == LEAT_OK;
    }
    if (rc != LEAT_OK) {
        leat_findings_say(f, LEAT_HEALTH_BAD, "first byte",
                          rc == LEAT_NOT_FOUND || rc == LEAT_CHANGED
                              ? "'leat verify' says what else is missing; pack or index again"
                              : "Allow s3:GetObject on everything below the dataset's address",
                          "%s", err.text);
        d->ended = true;
    } else if (n) {
        double median = leat_doctor_median(samples, n);
        leat_findings_say(f, LEAT_HEALTH_OK, "first byte", "", "%.1f ms to that of a chunk, median of %u", median * 1e3,
                          n);
        leat_findings_number(f, "median_s", median);
    }
}

/* Fetching as much as time and --bytes allow, with this many at a time. */
struct line {
    struct leat_doctor *doctor;
    struct leat_dataset *dataset; /* NULL: ranges of an object instead */
    struct leat_store *store;
    const char *key;
    uint64_t size;
    uint64_t end_ns;
    _Atomic uint32_t next;
    _Atomic uint64_t got; /* of what has come in full */
    pthread_mutex_t mu;
    struct { /* hold mu */
        leat_status rc;
        struct leat_error err;
        void *data; /* the first chunk, kept for the decoder */
        struct leat_chunk chunk;
    } locked;
};

static bool line_over(void *user)
{
    const struct line *l = user;
    return leat_cli_interrupted() || leat_now_ns() >= l->end_ns;
}

static leat_status fetch_one(struct line *l, uint32_t i, struct leat_error *err)
{
    if (!l->dataset) {
        uint64_t n = l->size < RANGE ? l->size : RANGE;
        uint64_t places = l->size / n;
        void *into = malloc(n);
        leat_status rc = into ? leat_store_get(l->store, l->key, i % places * n, n, into, NULL, err)
                              : leat_fail(err, LEAT_NO_MEMORY, "no memory to fetch into");
        free(into);
        atomic_fetch_add(&l->got, rc == LEAT_OK ? n : 0);
        return rc;
    }
    struct leat_chunk chunk;
    void *data = NULL;
    uint32_t chunks = leat_dataset_root(l->dataset)->chunks;
    /* A stride that is prime to most numbers visits all of them before it comes again. */
    leat_status rc = leat_dataset_load(l->dataset, (uint32_t)((uint64_t)i * 7919u % chunks), &data, &chunk, err);
    if (rc != LEAT_OK)
        return rc;
    atomic_fetch_add(&l->got, chunk.size);
    pthread_mutex_lock(&l->mu);
    if (!l->locked.data) {
        l->locked.data = data;
        l->locked.chunk = chunk;
        data = NULL;
    }
    pthread_mutex_unlock(&l->mu);
    free(data);
    return LEAT_OK;
}

static void *run_line(void *arg)
{
    struct line *l = arg;
    while (!line_over(l) && atomic_load(&l->got) < l->doctor->settings->bytes) {
        struct leat_error err = {0};
        leat_status rc = fetch_one(l, atomic_fetch_add(&l->next, 1), &err);
        if (rc == LEAT_OK)
            continue;
        pthread_mutex_lock(&l->mu);
        if (rc != LEAT_CANCELLED && l->locked.rc == LEAT_OK) {
            l->locked.rc = rc;
            l->locked.err = err;
        }
        pthread_mutex_unlock(&l->mu);
        break;
    }
    return NULL;
}

static uint64_t bytes_in(const struct line *l)
{
    struct leat_store_stats stats = {0};
    if (l->dataset)
        leat_dataset_stats(l->dataset, &stats);
    else
        leat_store_stats(l->store, &stats);
    return stats.bytes_in;
}

/* Bytes per second with this many connections. A chunk that came is left to the decoder. */
static leat_status measure_line(struct leat_doctor *d, unsigned connections, double *rate, struct leat_error *err)
{
    struct line l = {.doctor = d, .key = d->object, .end_ns = leat_after(d->settings->time_ns)};
    struct leat_store_opts opts;
    struct leat_home home = {0};
    pthread_t threads[PARALLEL];
    unsigned n = 0;
    leat_status rc = leat_doctor_store_opts(d, &opts, err);
    opts.connections = connections;
    opts.stop = line_over;
    opts.stop_user = &l;
    l.end_ns = d->deadline_ns; /* opening is not counted */
    if (rc == LEAT_OK && d->dataset)
        rc = leat_dataset_open(d->url, &opts, leat_dataset_id(d->dataset), &l.dataset, err);
    else if (rc == LEAT_OK)
        rc = leat_home_open(d->url, &opts, &home, err);
    l.store = home.store;
    struct leat_object object = {0};
    if (rc == LEAT_OK && !d->dataset)
        rc = leat_store_stat(l.store, l.key, &object, err);
    l.size = object.size;
    if (rc == LEAT_OK && (d->dataset || l.size)) {
        pthread_mutex_init(&l.mu, NULL);
        uint64_t before = bytes_in(&l);
        uint64_t began = leat_now_ns();
        l.end_ns = leat_after(d->settings->time_ns);
        while (n < connections && leat_thread_start(&threads[n], "leat-line", run_line, &l, NULL) == LEAT_OK)
            n++;
        for (unsigned i = 0; i < n; i++)
            pthread_join(threads[i], NULL);
        double seconds = (double)(leat_now_ns() - began) / 1e9;
        *rate = (double)(bytes_in(&l) - before) / seconds;
        rc = l.locked.rc;
        *err = l.locked.err;
        if (!d->chunk_data) {
            d->chunk_data = l.locked.data;
            d->chunk = l.locked.chunk;
            l.locked.data = NULL;
        }
        free(l.locked.data);
        pthread_mutex_destroy(&l.mu);
    }
    leat_dataset_close(l.dataset);
    leat_home_close(&home);
    return rc;
}

static void say_need(struct leat_doctor *d, double rate, struct leat_findings *f)
{
    char text[LEAT_FORMAT_SIZE];
    char rate_text[LEAT_FORMAT_SIZE];
    uint64_t samples = d->dataset ? leat_dataset_samples(d->dataset) : 0;
    uint64_t needs = d->settings->needs;
    if (!samples)
        return;
    double mean = (double)leat_dataset_root(d->dataset)->bytes / (double)leat_dataset_root(d->dataset)->samples;
    double carried = rate / mean;
    bool little = needs && carried < (double)needs;
    leat_format_rate(rate, rate_text);
    leat_findings_say(
        f, little ? LEAT_HEALTH_BAD : LEAT_HEALTH_OK, "supply",
        little ? "Keep more of it on the machine (ram=, cache=), store smaller pictures, or take a machine "
                 "with a better line"
               : "",
        "%s is %.0f samples of %s per second%s", rate_text, carried, leat_format_size((uint64_t)(mean + 0.5), text),
        needs ? little ? ", fewer than needed" : ", enough" : "");
    leat_findings_number(f, "samples_per_s", carried);
    if (needs)
        leat_findings_number(f, "needed_per_s", (double)needs);
}

void leat_doctor_line(struct leat_doctor *d, struct leat_findings *f)
{
    double one = 0;
    double many = 0;
    char one_text[LEAT_FORMAT_SIZE];
    char many_text[LEAT_FORMAT_SIZE];
    struct leat_error err = {0};
    if (!d->dataset && !d->object)
        return;
    unsigned parallel = is_file(d) ? 4 : PARALLEL;
    leat_status rc = measure_line(d, 1, &one, &err);
    if (rc == LEAT_OK)
        rc = measure_line(d, parallel, &many, &err);
    if (rc != LEAT_OK) {
        leat_findings_say(f, LEAT_HEALTH_BAD, "line",
                          rc == LEAT_CORRUPT     ? "'leat verify' says which chunks are damaged"
                          : rc == LEAT_THROTTLED ? "The bucket asks to slow down: others may be using it"
                                                 : "Try again, and look at the network",
                          "%s", err.text);
        d->ended = true;
        return;
    }
    bool behind = d->disk_rate > 0 && !is_file(d) && d->disk_rate < many;
    leat_findings_say(f, behind ? LEAT_HEALTH_NOTE : LEAT_HEALTH_OK, "line",
                      behind ? "The cache folder's disk is slower: a cache there saves requests, not time" : "",
                      "%s with one connection, %s with %u%s", leat_format_rate(one, one_text),
                      leat_format_rate(many, many_text), parallel,
                      is_file(d) ? " threads; what the kernel had in memory counts too" : "");
    leat_findings_number(f, "one_bytes_per_s", one);
    leat_findings_number(f, "many_bytes_per_s", many);
    say_need(d, many, f);
}

/* Decoding, on all cores. */
struct decoding {
    const struct leat_chunk *chunk;
    uint32_t field;
    const struct leat_pipeline *pipeline;
    uint64_t bytes; /* of an output */
    uint64_t end_ns;
    _Atomic uint32_t next;
    _Atomic uint64_t done;
    _Atomic uint64_t failed;
};

static leat_status decode_one(const struct decoding *w, struct leat_scratch *scratch, void *to, uint32_t i)
{
    struct leat_cell cell = leat_chunk_cell(w->chunk, i % w->chunk->samples, w->field);
    const void *data = NULL;
    void *own = NULL;
    leat_status rc = leat_chunk_view(w->chunk, &cell, &data, &own, NULL);
    if (rc == LEAT_OK)
        rc = leat_pipeline_run(w->pipeline, scratch, data, cell.raw, leat_prep_draws(0, i, 0, 0), to, w->bytes, NULL);
    free(own);
    return rc;
}

static void *run_decoding(void *arg)
{
    struct decoding *w = arg;
    struct leat_scratch *scratch = NULL;
    void *to = malloc(w->bytes);
    if (to && leat_scratch_open(0, NULL, &scratch, NULL) == LEAT_OK) {
        while (leat_now_ns() < w->end_ns && !leat_cli_interrupted()) {
            if (decode_one(w, scratch, to, atomic_fetch_add(&w->next, 1)) == LEAT_OK)
                atomic_fetch_add(&w->done, 1);
            else
                atomic_fetch_add(&w->failed, 1);
        }
    }
    leat_scratch_close(scratch);
    free(to);
    return NULL;
}

static void say_decoding(struct leat_doctor *d, const struct decoding *w, double seconds, unsigned threads,
                         struct leat_findings *f)
{
    double rate = (double)w->done / seconds;
    uint64_t needs = d->settings->needs;
    bool slow = needs && rate < (double)needs;
    if (!w->done) {
        leat_findings_say(f, LEAT_HEALTH_BAD, "decode", "'leat show' says what is in the samples",
                          "none of %" PRIu64 " pictures could be decoded", (uint64_t)w->failed);
        return;
    }
    leat_findings_say(f,
                      slow        ? LEAT_HEALTH_BAD
                      : w->failed ? LEAT_HEALTH_NOTE
                                  : LEAT_HEALTH_OK,
                      "decode",
                      slow ? "Take more cores, store smaller pictures (leat pack --max-side), or decode with .fast()"
                      : w->failed ? "Some pictures are damaged: on_error=\"skip\" leaves them out"
                                  : "",
                      "%.0f pictures per second on %u cores, %.0f per core%s", rate, threads, rate / threads,
                      !needs ? "; " USUAL
                      : slow ? ", fewer than needed"
                             : ", enough");
    leat_findings_number(f, "pictures_per_s", rate);
    leat_findings_number(f, "cores", threads);
    leat_findings_number(f, "failed", (double)w->failed);
    if (needs)
        leat_findings_number(f, "needed_per_s", (double)needs);
}

void leat_doctor_decode(struct leat_doctor *d, struct leat_findings *f)
{
    struct leat_prep_description description;
    struct leat_pipeline *pipeline = NULL;
    struct leat_error err = {0};
    pthread_t threads[THREADS_MAX];
    unsigned cores = leat_cpu_count() < THREADS_MAX ? leat_cpu_count() : THREADS_MAX;
    unsigned n = 0;
    uint32_t width = 0;
    uint32_t height = 0;
    if (!d->dataset || !d->chunk_data)
        return;
    struct decoding w = {.chunk = &d->chunk, .field = UINT32_MAX};
    for (uint32_t i = 0; w.field == UINT32_MAX && i < d->chunk.schema.n; i++) {
        if (d->chunk.schema.fields[i].type == LEAT_FIELD_IMAGE)
            w.field = i;
    }
    if (w.field == UINT32_MAX) {
        leat_findings_say(f, LEAT_HEALTH_SKIPPED, "decode", "", "the dataset has no pictures");
        return;
    }
    leat_status rc = leat_prep_parse(d->settings->pipeline, &description, &err);
    if (rc == LEAT_OK)
        rc = leat_pipeline_make(&description, &pipeline, &err);
    if (rc == LEAT_OK)
        leat_pipeline_size(pipeline, &width, &height);
    if (rc == LEAT_OK && !width)
        rc = leat_fail(&err, LEAT_INVALID, "its pictures would be of different sizes");
    if (rc != LEAT_OK) {
        leat_pipeline_free(pipeline);
        leat_findings_say(f, LEAT_HEALTH_BAD, "decode", "'leat image --words' lists what can be said", "--pipeline: %s",
                          err.text);
        return;
    }
    w.pipeline = pipeline;
    w.bytes = leat_pipeline_bytes(pipeline, width, height);
    uint64_t began = leat_now_ns();
    w.end_ns = leat_after(d->settings->time_ns);
    while (n < cores && leat_thread_start(&threads[n], "leat-decode", run_decoding, &w, NULL) == LEAT_OK)
        n++;
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    say_decoding(d, &w, (double)(leat_now_ns() - began) / 1e9, n ? n : 1, f);
    leat_pipeline_free(pipeline);
}
