/* read_objects [options] URL: reads the objects below URL into memory, whole, over and over if told so, and prints
 * one JSON object about it. Buffers are recycled, as a loader's are; nothing looks at the bytes. */
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/option.h"
#include "base/thread.h"
#include "store/store.h"

#define RATE_EVERY (100 * LEAT_MS)
#define RATES_MAX  6000u
#define TOOK_MAX   (1u << 20)

struct settings {
    uint64_t connections;
    uint64_t ahead;
    uint64_t passes;
    uint64_t duration_ns;
    bool hedge;
};

static const struct leat_option options[] = {
    {"connections", 'c', LEAT_OPTION_U64, offsetof(struct settings, connections), "N", NULL, NULL,
     "requests in flight at a time; without it their number adapts"},
    {"ahead", 'a', LEAT_OPTION_U64, offsetof(struct settings, ahead), "N", "64", NULL,
     "objects asked for at a time, each with a buffer of its own; at least the connections"},
    {"passes", 'n', LEAT_OPTION_U64, offsetof(struct settings, passes), "N", "1", NULL, "how often to read them all"},
    {"duration", 'd', LEAT_OPTION_DURATION, offsetof(struct settings, duration_ns), "TIME", NULL, NULL,
     "go on for this long, whatever --passes says"},
    {"hedge", 0, LEAT_OPTION_FLAG, offsetof(struct settings, hedge), NULL, NULL, NULL,
     "a second request for what is late"},
    {0},
};

struct object {
    char *key;
    uint64_t size;
};

struct slot {
    struct leat_store_op op; /* first member */
    struct leat_error err;
    struct reader *reader;
    uint64_t began_ns;
};

struct reader {
    struct leat_store *store;
    struct object *objects;
    size_t objects_n;
    uint64_t largest;
    struct slot *slots;
    uint32_t slots_n;
    pthread_mutex_t mu;
    pthread_cond_t cond;
    uint64_t next;              /* hold mu: which object is read next, counted over all passes */
    uint64_t end;               /* hold mu: where to stop */
    uint32_t busy;              /* hold mu */
    uint64_t bytes;             /* hold mu: of finished objects */
    uint64_t finished;          /* hold mu */
    uint32_t *took_us;          /* hold mu: the first TOOK_MAX of them, from being asked for to being there */
    struct leat_error err;      /* hold mu: the first failure */
    double rates[RATES_MAX];    /* bytes a second, one for each RATE_EVERY */
    uint32_t limits[RATES_MAX]; /* requests allowed in flight at its end */
    size_t rates_n;
};

static leat_status add_object(struct reader *r, const struct leat_list_entry *e, struct leat_error *err)
{
    struct object *more = realloc(r->objects, (r->objects_n + 1) * sizeof *more);
    if (!more)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a list of objects");
    r->objects = more;
    more[r->objects_n].key = strdup(e->key);
    more[r->objects_n].size = e->size;
    if (!more[r->objects_n++].key)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a list of objects");
    r->largest = e->size > r->largest ? e->size : r->largest;
    return LEAT_OK;
}

static leat_status list_objects(struct reader *r, const char *prefix, struct leat_error *err)
{
    struct leat_list *list = NULL;
    struct leat_list_entry e;
    bool end = false;
    leat_status rc = leat_store_list_open(r->store, prefix, true, &list, err);
    while (rc == LEAT_OK) {
        rc = leat_store_list_next(list, &e, &end, err);
        if (rc != LEAT_OK || end)
            break;
        if (e.size)
            rc = add_object(r, &e, err);
    }
    leat_store_list_close(list);
    if (rc == LEAT_OK && !r->objects_n)
        rc = leat_fail(err, LEAT_NOT_FOUND, "there is nothing to read in '%s'", prefix);
    return rc;
}

static void on_done(struct leat_store_op *op);

/* Hold mu. */
static void ask(struct reader *r, struct slot *slot)
{
    const struct object *o = &r->objects[r->next++ % r->objects_n];
    void *into = slot->op.into;
    slot->op = (struct leat_store_op){
        .verb = LEAT_STORE_GET, .key = o->key, .length = o->size, .into = into, .err = &slot->err, .done = on_done};
    slot->began_ns = leat_now_ns();
    r->busy++;
    leat_store_submit(r->store, &slot->op);
}

static void on_done(struct leat_store_op *op)
{
    struct slot *slot = (struct slot *)op;
    struct reader *r = slot->reader;
    pthread_mutex_lock(&r->mu);
    r->busy--;
    if (op->status == LEAT_OK) {
        r->bytes += op->got;
        if (r->finished < TOOK_MAX)
            r->took_us[r->finished] = (uint32_t)((leat_now_ns() - slot->began_ns) / 1000);
        r->finished++;
    } else if (r->err.status == LEAT_OK) {
        r->err = slot->err;
        r->end = 0;
    }
    if (r->next < r->end)
        ask(r, slot);
    if (!r->busy)
        pthread_cond_signal(&r->cond);
    pthread_mutex_unlock(&r->mu);
}

static leat_status make_slots(struct reader *r, uint32_t n, struct leat_error *err)
{
    r->slots = calloc(n, sizeof *r->slots);
    if (!r->slots)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for %u buffers", n);
    r->slots_n = n;
    for (uint32_t i = 0; i < n; i++) {
        r->slots[i].reader = r;
        r->slots[i].op.into = malloc(r->largest);
        if (!r->slots[i].op.into)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for %u buffers", n);
        memset(r->slots[i].op.into, 1, r->largest); /* its pages are there before the clock starts */
    }
    return LEAT_OK;
}

static leat_status read_objects(struct reader *r, const struct settings *s, struct leat_error *err)
{
    uint64_t start = leat_now_ns();
    uint64_t tick = start;
    uint64_t seen = 0;
    pthread_mutex_lock(&r->mu);
    r->end = s->duration_ns ? UINT64_MAX : s->passes * r->objects_n;
    for (uint32_t i = 0; i < r->slots_n && r->next < r->end; i++)
        ask(r, &r->slots[i]);
    while (r->busy) {
        leat_cond_wait(&r->cond, &r->mu, tick + RATE_EVERY);
        uint64_t now = leat_now_ns();
        if (now < tick + RATE_EVERY)
            continue;
        struct leat_store_stats stats;
        leat_store_stats(r->store, &stats);
        if (r->rates_n < RATES_MAX) {
            r->limits[r->rates_n] = stats.in_flight_max;
            r->rates[r->rates_n++] = (double)(stats.bytes_in - seen) * 1e9 / (double)(now - tick);
        }
        seen = stats.bytes_in;
        tick = now;
        if (s->duration_ns && now - start >= s->duration_ns)
            r->end = 0;
    }
    pthread_mutex_unlock(&r->mu);
    if (r->err.status != LEAT_OK && err)
        *err = r->err;
    return r->err.status;
}

static double seconds(struct timeval a, struct timeval b)
{
    return (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_usec - a.tv_usec) / 1e6;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Of sorted times, in seconds. */
static double part(const struct reader *r, double share)
{
    uint64_t n = r->finished < TOOK_MAX ? r->finished : TOOK_MAX;
    return n ? r->took_us[(uint64_t)(share * (double)(n - 1))] / 1e6 : 0;
}

static void print_result(const struct reader *r, double elapsed_s, const struct rusage *a, const struct rusage *b)
{
    struct leat_store_stats stats;
    leat_store_stats(r->store, &stats);
    json_t *rates = json_array();
    json_t *limits = json_array();
    for (size_t i = 0; i < r->rates_n; i++) {
        json_array_append_new(rates, json_real(r->rates[i]));
        json_array_append_new(limits, json_integer(r->limits[i]));
    }
    qsort(r->took_us, r->finished < TOOK_MAX ? r->finished : TOOK_MAX, sizeof *r->took_us, by_number);
    json_t *result = json_pack(
        "{s:I,s:I,s:f,s:f,s:f,s:I,s:I,s:I,s:I,s:o,s:o,s:f,s:f,s:f,s:I,s:I,s:I,s:I}", "bytes", (json_int_t)r->bytes,
        "objects", (json_int_t)r->finished, "seconds", elapsed_s, "user_s", seconds(a->ru_utime, b->ru_utime),
        "system_s", seconds(a->ru_stime, b->ru_stime), "requests", (json_int_t)stats.requests, "retries",
        (json_int_t)stats.retries, "throttled", (json_int_t)stats.throttled, "peak_kib", (json_int_t)b->ru_maxrss,
        "rates", rates, "limits", limits, "p50_s", part(r, 0.5), "p99_s", part(r, 0.99), "p999_s", part(r, 0.999),
        "bytes_in", (json_int_t)stats.bytes_in, "hedges", (json_int_t)stats.hedges, "hedges_won",
        (json_int_t)stats.hedges_won, "hedged_bytes", (json_int_t)stats.hedged_bytes);
    json_dumpf(result, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(result);
}

static void close_reader(struct reader *r)
{
    leat_store_close(r->store);
    for (uint32_t i = 0; i < r->slots_n; i++)
        free(r->slots[i].op.into);
    for (size_t i = 0; i < r->objects_n; i++)
        free(r->objects[i].key);
    free(r->took_us);
    free(r->slots);
    free(r->objects);
    pthread_cond_destroy(&r->cond);
    pthread_mutex_destroy(&r->mu);
    free(r);
}

static int run(const void *settings, int argc, char **argv)
{
    const struct settings *s = settings;
    struct leat_store_opts opts = {.connections = (uint32_t)s->connections,
                                   .hedge = s->hedge ? LEAT_HEDGE_ON : LEAT_HEDGE_OFF};
    struct reader *r = calloc(1, sizeof *r);
    struct leat_url url = {0};
    struct leat_error err = {0};
    struct rusage before;
    struct rusage after;
    (void)argc;
    if (r)
        r->took_us = malloc(TOOK_MAX * sizeof *r->took_us);
    if (!r || !r->took_us) {
        free(r);
        return 1;
    }
    pthread_mutex_init(&r->mu, NULL);
    leat_cond_init(&r->cond);
    leat_status rc = leat_url_parse(argv[0], &url, &err);
    if (rc == LEAT_OK)
        rc = leat_store_open(&url, &opts, &r->store, &err);
    if (rc == LEAT_OK)
        rc = list_objects(r, url.path, &err);
    if (rc == LEAT_OK)
        rc = make_slots(r, (uint32_t)(s->ahead > s->connections ? s->ahead : s->connections), &err);
    if (rc == LEAT_OK) {
        uint64_t start = leat_now_ns();
        getrusage(RUSAGE_SELF, &before);
        rc = read_objects(r, s, &err);
        getrusage(RUSAGE_SELF, &after);
        print_result(r, (double)(leat_now_ns() - start) / 1e9, &before, &after);
    }
    if (rc != LEAT_OK)
        fprintf(stderr, "read_objects: %s\n", err.text);
    leat_url_free(&url);
    close_reader(r);
    return rc == LEAT_OK ? 0 : 1;
}

static const struct leat_command command = {
    .name = "read_objects",
    .arguments = "URL",
    .summary = "read the objects below URL into memory and say how fast that was",
    .options = options,
    .settings_size = sizeof(struct settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};

int main(int argc, char **argv)
{
    struct leat_settings_source source = {.argc = argc - 1, .argv = argv + 1, .environ = environ};
    struct leat_settings *settings;
    struct leat_error err;
    bool help = false;
    if (leat_settings_read(&command, &source, &settings, &help, &err) != LEAT_OK) {
        fprintf(stderr, "read_objects: %s\n", err.text);
        return 2;
    }
    int status = 0;
    if (help)
        leat_command_help(&command, stdout);
    else
        status = run(leat_settings_get(settings), leat_settings_argc(settings), leat_settings_argv(settings));
    leat_settings_free(settings);
    return status;
}
