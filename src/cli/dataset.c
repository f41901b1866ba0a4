#include "cli/dataset.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/thread.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "order/order.h"

#define THREADS_MAX 64u

leat_status leat_cli_home_open(const struct leat_cli_store *settings, const char *url, struct leat_home *out,
                               struct leat_error *err)
{
    struct leat_store_opts opts;
    leat_status rc = leat_cli_store_opts(settings, &opts, err);
    return rc == LEAT_OK ? leat_home_open(url, &opts, out, err) : rc;
}

leat_status leat_cli_dataset_open(const struct leat_cli_store *settings, const char *url, struct leat_dataset **out,
                                  struct leat_error *err)
{
    struct leat_store_opts opts;
    leat_status rc = leat_cli_store_opts(settings, &opts, err);
    return rc == LEAT_OK ? leat_dataset_open(url, &opts, NULL, out, err) : rc;
}

struct sweep {
    const struct leat_cli_chunks *run;
    const struct leat_root *root;
    const uint32_t *counts; /* of samples that count */
    uint64_t *firsts;       /* number of each chunk's first one */
    uint64_t total;         /* bytes, for the progress */
    _Atomic uint32_t next;
    _Atomic uint64_t bytes;
    _Atomic uint64_t samples;
    _Atomic bool over;
    pthread_mutex_t mutex;
    struct { /* hold mutex */
        leat_status rc;
        struct leat_error err;
    } locked;
};

static leat_status visit(struct sweep *s, uint32_t chunk, struct leat_error *err)
{
    struct leat_chunk c;
    void *data = NULL;
    leat_status rc;
    if (s->run->visit)
        rc = s->run->visit(s->run->user, chunk, s->firsts[chunk], err);
    else
        rc = leat_dataset_load(s->run->dataset, chunk, &data, &c, err);
    if (rc == LEAT_OK && !s->run->visit)
        rc = s->run->each(s->run->user, chunk, s->firsts[chunk], &c, err);
    free(data);
    atomic_fetch_add_explicit(&s->bytes, s->root->sizes[chunk], memory_order_relaxed);
    atomic_fetch_add_explicit(&s->samples, s->counts[chunk], memory_order_relaxed);
    return rc;
}

static void *run_sweep(void *arg)
{
    struct sweep *s = arg;
    while (!atomic_load(&s->over)) {
        uint32_t chunk = atomic_fetch_add(&s->next, 1);
        struct leat_error err;
        if (chunk >= s->root->chunks)
            break;
        if (s->counts[chunk] == 0)
            continue;
        leat_status rc =
            leat_cli_interrupted() ? leat_fail(&err, LEAT_CANCELLED, "interrupted") : visit(s, chunk, &err);
        if (rc == LEAT_OK)
            continue;
        pthread_mutex_lock(&s->mutex);
        bool go_on = rc != LEAT_CANCELLED && s->run->failed && s->run->failed(s->run->user, chunk, &err);
        if (!go_on && s->locked.rc == LEAT_OK) {
            s->locked.rc = rc;
            s->locked.err = err;
        }
        pthread_mutex_unlock(&s->mutex);
        if (!go_on)
            atomic_store(&s->over, true);
    }
    return NULL;
}

static void look(void *user, struct leat_progress_state *out)
{
    struct sweep *s = user;
    out->done = atomic_load_explicit(&s->bytes, memory_order_relaxed);
    out->items = atomic_load_explicit(&s->samples, memory_order_relaxed);
    out->total = s->total;
}

static leat_status run_threads(struct sweep *s, struct leat_error *err)
{
    pthread_t threads[THREADS_MAX];
    unsigned n = s->run->threads ? s->run->threads : leat_cpu_count();
    unsigned started = 0;
    leat_status rc = LEAT_OK;
    if (n > THREADS_MAX)
        n = THREADS_MAX;
    while (rc == LEAT_OK && started < n) {
        rc = leat_thread_start(&threads[started], "leat-chunks", run_sweep, s, err);
        started += rc == LEAT_OK;
    }
    if (rc != LEAT_OK)
        atomic_store(&s->over, true);
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    if (rc == LEAT_OK && s->locked.rc != LEAT_OK) { /* no other thread is left */
        *err = s->locked.err;
        rc = s->locked.rc;
    }
    return rc;
}

leat_status leat_cli_each_chunk(const struct leat_cli_chunks *run, struct leat_error *err)
{
    struct sweep s = {.run = run, .root = leat_dataset_root(run->dataset), .counts = leat_dataset_counts(run->dataset)};
    s.firsts = malloc(((size_t)s.root->chunks + 1) * sizeof *s.firsts);
    if (!s.firsts)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a table of %u chunks", s.root->chunks);
    uint64_t first = 0;
    for (uint32_t c = 0; c < s.root->chunks; c++) {
        s.firsts[c] = first;
        first += s.counts[c];
        s.total += s.counts[c] ? s.root->sizes[c] : 0;
    }
    pthread_mutex_init(&s.mutex, NULL);
    struct leat_progress *progress = leat_progress_open(&run->progress, "samples", look, &s);
    leat_status rc = run_threads(&s, err);
    leat_progress_close(progress);
    pthread_mutex_destroy(&s.mutex);
    free(s.firsts);
    return rc;
}

struct leat_cli_used leat_cli_used(const struct leat_dataset *d)
{
    const struct leat_root *root = leat_dataset_root(d);
    const uint32_t *counts = leat_dataset_counts(d);
    struct leat_cli_used used = {0};
    for (uint32_t c = 0; c < root->chunks; c++) {
        used.chunks += counts[c] > 0;
        used.bytes += counts[c] ? root->sizes[c] : 0;
    }
    return used;
}

leat_status leat_cli_pick_field(const struct leat_schema *schema, const char *name, uint32_t *out,
                                struct leat_error *err)
{
    for (uint32_t f = 0; f < schema->n; f++) {
        if (name ? strcmp(schema->fields[f].name, name) == 0 : leat_field_has_data(&schema->fields[f])) {
            *out = f;
            return LEAT_OK;
        }
    }
    struct leat_buf names;
    leat_buf_init(&names, 300);
    for (uint32_t f = 0; f < schema->n; f++)
        leat_buf_printf(&names, "%s%s", f ? ", " : "", schema->fields[f].name);
    leat_status rc =
        leat_fail(err, LEAT_INVALID, "there is no field '%s'; the dataset has: %s", name ? name : "", names.data);
    leat_buf_free(&names);
    return rc;
}

const char *leat_cli_say_pins(const struct leat_pins *pins, char out[LEAT_CLI_PINS])
{
    const struct {
        uint32_t n;
        const char *how;
    } ways[] = {{pins->etag, "ETag"},
                {pins->date, "date and size"},
                {pins->checksum, "a checksum"},
                {pins->length, "nothing but their length"}};
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (ways[i].n)
            at += (size_t)snprintf(out + at, LEAT_CLI_PINS - at, "%s%" PRIu32 "%s by %s", at ? ", " : "", ways[i].n,
                                   at ? "" : " chunks", ways[i].how);
    }
    return out;
}

const char *leat_cli_json_pins(const struct leat_pins *pins, char out[LEAT_CLI_PINS])
{
    snprintf(out, LEAT_CLI_PINS,
             "{\"etag\": %" PRIu32 ", \"date\": %" PRIu32 ", \"checksum\": %" PRIu32 ", \"length\": %" PRIu32 "}",
             pins->etag, pins->date, pins->checksum, pins->length);
    return out;
}

char *leat_cli_show_key(const char *key, size_t n)
{
    struct leat_buf b;
    leat_buf_init(&b, 8 * n + 16);
    leat_cli_escape(&b, key, n, LEAT_CLI_UNCUT);
    return leat_buf_take(&b);
}

void leat_cli_print_mix(const char *what, const struct leat_mix_result *mix, uint32_t chunks, uint64_t bytes)
{
    printf("%s: two samples of the same chunk are of one class in %.0f of 100 cases, two of different chunks in %.0f. ",
           what, 100 * mix->within, 100 * mix->across);
    if (leat_order_window_default(chunks, bytes) >= chunks)
        puts("By default a dataset this small is mixed as a whole; with a smaller window, batches would have few "
             "classes");
    else
        printf("Batches will have few classes: pack without --keep-order, or load with a window of %" PRIu32
               " chunks, which is all of them\n",
               chunks);
}
