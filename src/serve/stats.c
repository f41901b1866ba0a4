#include "serve/stats.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "store/sign.h"

#define TALLIES_MAX 512 /* calls × statuses in use: a few dozen */
#define LOG_BATCH   200 /* requests written out at a time: nobody waits long to be counted */

/* One count for each name that occurred. The names are constant strings. */
struct tally {
    const char *group; /* "calls", "methods", "faults" */
    const char *name;
    unsigned status; /* of calls */
    uint64_t n;
};

struct entry {
    struct leat_serve_record record;
    char *bucket;
    char *key;
    char *range;
};

struct leat_serve_stats {
    pthread_mutex_t mu;
    uint64_t opened_ns;
    uint64_t requests;
    uint64_t bytes_sent;
    uint64_t bytes_received;
    struct tally tally[TALLIES_MAX];
    size_t tallies;
    uint64_t last_number;
    uint64_t log_max;
    struct entry *log; /* entry of request k: log[k % log_max] */
};

struct leat_serve_stats *leat_serve_stats_open(uint64_t log_max)
{
    struct leat_serve_stats *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    pthread_mutex_init(&s->mu, NULL);
    s->opened_ns = leat_now_ns();
    s->log_max = log_max;
    s->log = calloc(log_max, sizeof *s->log);
    if (!s->log) {
        leat_serve_stats_close(s);
        return NULL;
    }
    return s;
}

static void clear_entry(struct entry *e)
{
    free(e->bucket);
    free(e->key);
    free(e->range);
    *e = (struct entry){0};
}

void leat_serve_stats_close(struct leat_serve_stats *s)
{
    if (!s)
        return;
    for (uint64_t i = 0; s->log && i < s->log_max; i++)
        clear_entry(&s->log[i]);
    free(s->log);
    pthread_mutex_destroy(&s->mu);
    free(s);
}

static void count(struct leat_serve_stats *s, const char *group, const char *name, unsigned status)
{
    size_t i = 0;
    while (i < s->tallies && (s->tally[i].status != status || strcmp(s->tally[i].group, group) != 0 ||
                              strcmp(s->tally[i].name, name) != 0))
        i++;
    if (i == TALLIES_MAX)
        return;
    if (i == s->tallies)
        s->tally[s->tallies++] = (struct tally){.group = group, .name = name, .status = status};
    s->tally[i].n++;
}

static void remember(struct leat_serve_stats *s, const struct leat_serve_record *r)
{
    struct entry *e = &s->log[r->number % s->log_max];
    clear_entry(e);
    e->record = *r;
    e->bucket = r->bucket ? strdup(r->bucket) : NULL;
    e->range = r->range ? strdup(r->range) : NULL;
    e->key = r->key.n ? malloc(r->key.n) : NULL;
    if (e->key)
        memcpy(e->key, r->key.data, r->key.n);
    else
        e->record.key.n = 0;
}

void leat_serve_stats_count(struct leat_serve_stats *s, struct leat_serve_record *record)
{
    pthread_mutex_lock(&s->mu);
    record->number = ++s->last_number;
    s->requests++;
    s->bytes_sent += record->sent;
    s->bytes_received += record->received;
    count(s, "calls", record->call, record->status);
    count(s, "methods", record->method, 0);
    if (*record->fault)
        count(s, "faults", record->fault, 0);
    remember(s, record);
    pthread_mutex_unlock(&s->mu);
}

void leat_serve_stats_end(struct leat_serve_stats *s, uint64_t number, uint64_t unsent, uint64_t took_ns)
{
    pthread_mutex_lock(&s->mu);
    struct entry *e = &s->log[number % s->log_max];
    s->bytes_sent -= unsent < s->bytes_sent ? unsent : s->bytes_sent;
    if (number && e->record.number == number) {
        e->record.sent -= unsent < e->record.sent ? unsent : e->record.sent;
        e->record.took_ns = took_ns;
    }
    pthread_mutex_unlock(&s->mu);
}

void leat_serve_stats_reset(struct leat_serve_stats *s)
{
    pthread_mutex_lock(&s->mu);
    s->opened_ns = leat_now_ns();
    s->requests = s->bytes_sent = s->bytes_received = 0;
    s->tallies = 0;
    for (uint64_t i = 0; i < s->log_max; i++)
        clear_entry(&s->log[i]);
    pthread_mutex_unlock(&s->mu);
}

/* group → name (→ status) → count */
static json_t *tallies(const struct leat_serve_stats *s, const char *group)
{
    json_t *out = json_object();
    for (size_t i = 0; i < s->tallies; i++) {
        const struct tally *t = &s->tally[i];
        if (strcmp(t->group, group) != 0)
            continue;
        json_t *n = json_integer((json_int_t)t->n);
        if (strcmp(group, "calls") != 0) {
            json_object_set_new(out, t->name, n);
            continue;
        }
        char status[16];
        snprintf(status, sizeof status, "%u", t->status);
        if (!json_object_get(out, t->name))
            json_object_set_new(out, t->name, json_object());
        json_object_set_new(json_object_get(out, t->name), status, n);
    }
    return out;
}

static bool dump(json_t *json, struct leat_buf *out)
{
    char *text = leat_json_write(json, JSON_COMPACT);
    json_decref(json);
    if (!text)
        return false;
    leat_buf_str(out, text);
    free(text);
    return leat_buf_char(out, '\n');
}

bool leat_serve_stats_json(struct leat_serve_stats *s, struct leat_server_connections connections, struct leat_buf *out)
{
    pthread_mutex_lock(&s->mu);
    json_t *json =
        json_pack("{s:f, s:I, s:I, s:I, s:{s:I, s:I, s:I}, s:o, s:o, s:o, s:I}", "uptime_s",
                  (double)(leat_now_ns() - s->opened_ns) / 1e9, "requests", (json_int_t)s->requests, "bytes_sent",
                  (json_int_t)s->bytes_sent, "bytes_received", (json_int_t)s->bytes_received, "connections", "open",
                  (json_int_t)connections.open, "peak", (json_int_t)connections.peak, "total",
                  (json_int_t)connections.total, "calls", tallies(s, "calls"), "methods", tallies(s, "methods"),
                  "faults", tallies(s, "faults"), "last_number", (json_int_t)s->last_number);
    pthread_mutex_unlock(&s->mu);
    return dump(json, out);
}

/* A key that is no UTF-8 cannot be JSON text: percent-encoded, and called so. */
static void set_key(json_t *json, const char *key, size_t n)
{
    json_t *text = json_stringn(key, n);
    if (text) {
        json_object_set_new(json, "key", text);
        return;
    }
    struct leat_buf encoded;
    leat_buf_init(&encoded, 4 * LEAT_SERVE_KEY_MAX);
    leat_sign_encode(&encoded, key, n, true);
    json_object_set_new(json, "key_encoded", json_string(encoded.data));
    leat_buf_free(&encoded);
}

static json_t *entry_json(const struct entry *e)
{
    const struct leat_serve_record *r = &e->record;
    json_t *json =
        json_pack("{s:I, s:f, s:f, s:s, s:s, s:i, s:I, s:I}", "number", (json_int_t)r->number, "time_s",
                  (double)r->time_ns / 1e9, "took_s", (double)r->took_ns / 1e9, "call", r->call, "method", r->method,
                  "status", (int)r->status, "sent", (json_int_t)r->sent, "received", (json_int_t)r->received);
    if (!json)
        return NULL;
    if (e->bucket)
        json_object_set_new(json, "bucket", json_string(e->bucket));
    if (e->key)
        set_key(json, e->key, r->key.n);
    if (e->range)
        json_object_set_new(json, "range", json_string(e->range));
    if (*r->fault)
        json_object_set_new(json, "fault", json_string(r->fault));
    return json;
}

/* Some requests from `from` to `last`; *next is where to go on. */
static bool log_some(struct leat_serve_stats *s, uint64_t from, uint64_t last, uint64_t *next, struct leat_buf *out)
{
    bool ok = true;
    pthread_mutex_lock(&s->mu);
    uint64_t first = s->last_number >= s->log_max ? s->last_number - s->log_max + 1 : 1;
    uint64_t k = from > first ? from : first;
    uint64_t stop = k + LOG_BATCH;
    for (; ok && k <= last && k < stop; k++) {
        const struct entry *e = &s->log[k % s->log_max];
        if (e->record.number == k)
            ok = dump(entry_json(e), out);
    }
    *next = k;
    pthread_mutex_unlock(&s->mu);
    return ok;
}

bool leat_serve_stats_log(struct leat_serve_stats *s, uint64_t after, struct leat_buf *out)
{
    bool ok = true;
    pthread_mutex_lock(&s->mu);
    uint64_t last = s->last_number; /* those that come meanwhile are for the next time */
    pthread_mutex_unlock(&s->mu);
    for (uint64_t next = after < last ? after + 1 : last + 1; ok && next <= last;)
        ok = log_some(s, next, last, &next, out);
    return ok;
}
