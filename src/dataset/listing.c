#include "dataset/listing.h"

#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/thread.h"
#include "dataset/chunk.h"
#include "dataset/names.h"
#include "dataset/origin.h"

#define TEXT_MAX        ((size_t)1 << 40)
#define THREADS_DEFAULT 16u
#define THREADS_MAX     256u
#define UNITS_MAX       2000u /* two pages: a list that is worth dividing shows it at the price of two requests */
#define DEPTH_MAX       16

void leat_listing_close(struct leat_listing *l)
{
    if (!l)
        return;
    leat_buf_free(&l->text);
    free(l->at);
    free(l->sizes);
    free(l->home_ends);
    *l = (struct leat_listing){0};
}

const char *leat_listing_key(const struct leat_listing *l, uint64_t i)
{
    return l->text.data + l->at[i];
}

const char *leat_listing_etag(const struct leat_listing *l, uint64_t i)
{
    const char *key = leat_listing_key(l, i);
    return key + strlen(key) + 1;
}

uint32_t leat_listing_home(const struct leat_listing *l, uint64_t i)
{
    uint32_t low = 0;
    uint32_t high = l->homes_n - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (i < l->home_ends[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

const char *leat_listing_path(const struct leat_listing *l, uint64_t i)
{
    return leat_listing_key(l, i) + strlen(l->homes[leat_listing_home(l, i)].prefix);
}

static leat_status no_memory(uint64_t n, struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for the list of %" PRIu64 " objects", n);
}

static leat_status reserve(struct leat_listing *l, uint64_t n, struct leat_error *err)
{
    if (n <= l->cap)
        return LEAT_OK;
    uint64_t cap = l->cap + l->cap / 2 < n ? n : l->cap + l->cap / 2;
    cap = cap < 256 ? 256 : cap;
    uint64_t *at = realloc(l->at, cap * sizeof *at);
    l->at = at ? at : l->at;
    uint64_t *sizes = realloc(l->sizes, cap * sizeof *sizes);
    l->sizes = sizes ? sizes : l->sizes;
    if (!at || !sizes)
        return no_memory(cap, err);
    l->cap = cap;
    return LEAT_OK;
}

leat_status leat_listing_add(struct leat_listing *l, const char *key, uint64_t size, const char *etag,
                             struct leat_error *err)
{
    leat_status rc = reserve(l, l->n + 1, err);
    if (rc != LEAT_OK)
        return rc;
    if (strlen(key) > LEAT_KEY_MAX)
        return leat_fail(err, LEAT_LIMIT, "the path '%.200s…' has %zu bytes; a key has at most %u", key, strlen(key),
                         LEAT_KEY_MAX);
    l->at[l->n] = l->text.len;
    l->sizes[l->n] = size;
    leat_buf_add(&l->text, key, strlen(key) + 1);
    leat_buf_add(&l->text, etag, strlen(etag) + 1);
    l->n++;
    l->bytes += size;
    return leat_buf_check(&l->text, "the list of objects", err);
}

leat_status leat_listing_append(struct leat_listing *to, const struct leat_listing *from, struct leat_error *err)
{
    leat_status rc = reserve(to, to->n + from->n, err);
    if (rc != LEAT_OK)
        return rc;
    for (uint64_t i = 0; i < from->n; i++)
        to->at[to->n + i] = to->text.len + from->at[i];
    if (from->n)
        memcpy(to->sizes + to->n, from->sizes, from->n * sizeof *from->sizes);
    leat_buf_add(&to->text, from->text.data, from->text.len);
    to->n += from->n;
    to->bytes += from->bytes;
    to->hidden += from->hidden;
    return leat_buf_check(&to->text, "the list of objects", err);
}

leat_status leat_listing_begin(struct leat_listing *l, const struct leat_home *homes, uint32_t n,
                               struct leat_error *err)
{
    *l = (struct leat_listing){.homes = homes, .homes_n = n, .home_ends = calloc(n, sizeof *l->home_ends)};
    leat_buf_init(&l->text, TEXT_MAX);
    return l->home_ends ? LEAT_OK : no_memory(0, err);
}

/* Listing */

/* What one thread lists at a time. */
struct unit {
    char *prefix; /* NULL: objects of the first level, which are known already */
    struct leat_listing found;
    struct leat_buf last; /* the key that was seen last */
    bool done;            /* hold the mutex of the job */
};

struct job {
    const struct leat_home *home;
    const struct leat_listing_opts *opts;
    char *own; /* path, below the home, of the dataset's own objects: they are not data; NULL: none */
    struct leat_listing *out;
    uint32_t number;   /* of the home */
    const char *after; /* all up to this key is in the list already; NULL: nothing is */
    struct unit *units;
    uint32_t n;
    uint32_t cap;
    _Atomic uint32_t next;
    _Atomic bool failed;
    _Atomic bool unsorted; /* the store promises no order, so nobody can go on after a key */
    pthread_mutex_t mutex;
    struct { /* hold mutex */
        uint32_t taken;
        uint64_t kept;        /* objects that somebody keeps */
        uint64_t kept_hidden; /* … and how many were hidden by then */
        uint64_t kept_ns;     /* when that was … */
        bool keeping;         /* … if ever */
        leat_status rc;
        struct leat_error err;
    } locked;
};

static bool stopped(const struct job *j)
{
    return atomic_load(&j->failed) || (j->opts->stop && j->opts->stop(j->opts->stop_user));
}

/* Whether this part is to list what has this key: its first folder below the home decides, by its name alone. So
 * however the parts divide their lists, and whatever comes and goes between them, each object belongs to one. */
static bool mine(const struct job *j, const char *key)
{
    if (j->opts->parts < 2)
        return true;
    const char *path = key + strlen(j->home->prefix);
    const char *slash = strchr(path, '/');
    return leat_xxh3(path, slash ? (size_t)(slash - path) : strlen(path)) % j->opts->parts == j->opts->part;
}

static bool hidden(const char *path)
{
    return path[0] == '.' || strstr(path, "/.") != NULL;
}

static leat_status note(struct job *j, struct leat_listing *l, const struct leat_list_entry *e, struct leat_error *err)
{
    const char *path = e->key + strlen(j->home->prefix);
    size_t n = strlen(path);
    size_t pointer = strlen(LEAT_NAME_POINTER);
    if (j->after && strcmp(e->key, j->after) <= 0)
        return LEAT_OK;
    if (j->own && strncmp(path, j->own, strlen(j->own)) == 0)
        return LEAT_OK;
    if (n >= pointer && strcmp(path + n - pointer, LEAT_NAME_POINTER) == 0 &&
        (n == pointer || path[n - pointer - 1] == '/'))
        return leat_fail(err, LEAT_INVALID,
                         "'%s' belongs to a dataset inside the data: name the other folders, or move it", e->key);
    if (hidden(path)) {
        l->hidden++;
        return LEAT_OK;
    }
    if (!n || path[n - 1] == '/') /* buckets may hold empty objects that stand for folders */
        return LEAT_OK;
    if (j->opts->seen)
        atomic_fetch_add_explicit(j->opts->seen, 1, memory_order_relaxed);
    return leat_listing_add(l, e->key, e->size, e->etag ? e->etag : "", err);
}

/* Gives the caller the chance to keep what is new since the last time. */
static leat_status keep(struct job *j, const char *after, bool end, struct leat_error *err)
{
    const struct leat_listing_opts *o = j->opts;
    bool due = end ? j->locked.keeping : leat_now_ns() - j->locked.kept_ns >= o->keep_every_ns;
    if (!o->keep || !due || !after || j->out->n == j->locked.kept || atomic_load(&j->unsorted))
        return LEAT_OK;
    leat_status rc =
        o->keep(o->keep_user, j->out, j->number, j->locked.kept, j->out->hidden - j->locked.kept_hidden, after, err);
    j->locked.kept = j->out->n;
    j->locked.kept_hidden = j->out->hidden;
    j->locked.kept_ns = leat_now_ns();
    j->locked.keeping = true;
    return rc;
}

/* Whatever is finished at the front goes into the list, so that it is in the order of the units. */
static leat_status take_finished(struct job *j, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    while (rc == LEAT_OK && j->locked.taken < j->n && j->units[j->locked.taken].done) {
        struct unit *u = &j->units[j->locked.taken++];
        rc = leat_listing_append(j->out, &u->found, err);
        leat_listing_close(&u->found);
        if (rc == LEAT_OK && u->last.len)
            rc = keep(j, u->last.data, j->locked.taken == j->n, err);
    }
    return rc;
}

/* A long list goes into the whole on the way, once it is the first that is not finished. */
static leat_status take_begun(struct job *j, struct unit *u, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    pthread_mutex_lock(&j->mutex);
    if (j->locked.taken < j->n && &j->units[j->locked.taken] == u) {
        rc = leat_listing_append(j->out, &u->found, err);
        u->found.n = 0;
        u->found.bytes = 0;
        u->found.hidden = 0;
        leat_buf_clear(&u->found.text);
        if (rc == LEAT_OK)
            rc = keep(j, u->last.data, false, err);
    }
    pthread_mutex_unlock(&j->mutex);
    return rc;
}

static leat_status list_unit(struct job *j, struct unit *u, struct leat_error *err)
{
    struct leat_list *list = NULL;
    struct leat_list_entry entry;
    bool end = false;
    bool inside = j->after && strncmp(j->after, u->prefix, strlen(u->prefix)) == 0;
    leat_status rc = inside ? leat_store_list_after(j->home->store, u->prefix, j->after, &list, err)
                            : leat_store_list_open(j->home->store, u->prefix, true, &list, err);
    for (uint64_t n = 0; rc == LEAT_OK; n++) {
        rc = leat_store_list_next(list, &entry, &end, err);
        if (rc != LEAT_OK || end)
            break;
        if (u->last.len && strcmp(u->last.data, entry.key) > 0)
            atomic_store(&j->unsorted, true);
        leat_buf_clear(&u->last);
        if (!leat_buf_str(&u->last, entry.key))
            rc = leat_buf_check(&u->last, "a key", err);
        if (rc == LEAT_OK && mine(j, entry.key)) /* a list that could not be divided has those of other parts too */
            rc = note(j, &u->found, &entry, err);
        if (rc == LEAT_OK && n % 1024 == 1023)
            rc = stopped(j) ? leat_fail(err, LEAT_CANCELLED, "interrupted") : take_begun(j, u, err);
    }
    leat_store_list_close(list);
    return rc;
}

static void *run_thread(void *arg)
{
    struct job *j = arg;
    for (;;) {
        uint32_t i = atomic_fetch_add(&j->next, 1);
        if (i >= j->n || atomic_load(&j->failed))
            return NULL;
        struct leat_error err;
        leat_status rc = j->units[i].prefix ? list_unit(j, &j->units[i], &err) : LEAT_OK;
        pthread_mutex_lock(&j->mutex);
        j->units[i].done = rc == LEAT_OK;
        if (rc == LEAT_OK)
            rc = take_finished(j, &err);
        if (rc != LEAT_OK && (j->locked.rc == LEAT_OK || j->locked.rc == LEAT_CANCELLED)) {
            j->locked.rc = rc;
            j->locked.err = err;
        }
        pthread_mutex_unlock(&j->mutex);
        if (rc != LEAT_OK)
            atomic_store(&j->failed, true);
    }
}

static leat_status run_threads(struct job *j, struct leat_error *err)
{
    pthread_t threads[THREADS_MAX];
    unsigned n = j->opts->threads ? j->opts->threads : THREADS_DEFAULT;
    unsigned started = 0;
    leat_status rc = LEAT_OK;
    n = n > THREADS_MAX ? THREADS_MAX : n;
    n = n > j->n ? j->n : n;
    while (rc == LEAT_OK && started < n) {
        rc = leat_thread_start(&threads[started], "leat-list", run_thread, j, err);
        started += rc == LEAT_OK;
    }
    if (rc != LEAT_OK)
        atomic_store(&j->failed, true);
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    if (rc == LEAT_OK && j->locked.rc != LEAT_OK) {
        rc = j->locked.rc;
        *err = j->locked.err;
    }
    return rc;
}

/* Dividing */

static void free_units(struct job *j)
{
    for (uint32_t i = 0; i < j->n; i++) {
        free(j->units[i].prefix);
        leat_listing_close(&j->units[i].found);
        leat_buf_free(&j->units[i].last);
    }
    free(j->units);
    j->units = NULL;
    j->n = 0;
    j->cap = 0;
}

static leat_status new_unit(struct job *j, const char *prefix, struct leat_error *err)
{
    if (j->n == j->cap) {
        uint32_t cap = j->cap ? 2 * j->cap : 16;
        struct unit *units = realloc(j->units, cap * sizeof *units);
        if (!units)
            return no_memory(cap, err);
        j->units = units;
        j->cap = cap;
    }
    struct unit *u = &j->units[j->n++];
    *u = (struct unit){0};
    leat_buf_init(&u->found.text, TEXT_MAX);
    leat_buf_init(&u->last, LEAT_KEY_MAX + 1);
    u->prefix = prefix ? strdup(prefix) : NULL;
    return prefix && !u->prefix ? no_memory(j->n, err) : LEAT_OK;
}

/* Whether everything in the folder comes before what is to be listed. */
static bool passed(const struct job *j, const char *folder)
{
    return j->after && strcmp(folder, j->after) < 0 && strncmp(folder, j->after, strlen(folder)) != 0;
}

/* Puts what one level says into units. *whole: it cannot be divided. */
static leat_status look_at_level(struct job *j, const char *prefix, bool *whole, struct leat_error *err)
{
    struct leat_list *list = NULL;
    struct leat_list_entry entry;
    bool end = false;
    uint32_t entries = 0;
    leat_status rc = leat_store_list_open(j->home->store, prefix, false, &list, err);
    while (rc == LEAT_OK && entries <= UNITS_MAX) {
        rc = leat_store_list_next(list, &entry, &end, err);
        if (rc != LEAT_OK || end)
            break;
        entries++;
        if (!mine(j, entry.key) || (entry.prefix && passed(j, entry.key)))
            continue;
        if (entry.prefix)
            rc = new_unit(j, entry.key, err);
        else if (!j->n || j->units[j->n - 1].prefix)
            rc = new_unit(j, NULL, err);
        if (rc == LEAT_OK && !entry.prefix) {
            rc = note(j, &j->units[j->n - 1].found, &entry, err);
            leat_buf_clear(&j->units[j->n - 1].last);
            leat_buf_str(&j->units[j->n - 1].last, entry.key);
        }
    }
    leat_store_list_close(list);
    *whole = entries > UNITS_MAX;
    return rc;
}

/* Folders of the first level that has more than one; all in one list where there is none. */
static leat_status divide(struct job *j, struct leat_error *err)
{
    char *prefix = strdup(j->home->prefix);
    bool whole = false;
    leat_status rc = prefix ? LEAT_OK : no_memory(0, err);
    for (int depth = 0; rc == LEAT_OK && !whole && depth < DEPTH_MAX; depth++) {
        rc = look_at_level(j, prefix, &whole, err);
        if (rc != LEAT_OK || whole || j->n != 1 || !j->units[0].prefix || j->opts->parts > 1)
            break;
        free(prefix);
        prefix = j->units[0].prefix;
        j->units[0].prefix = NULL;
        free_units(j);
    }
    if (rc == LEAT_OK && (whole || (j->n == 0 && strcmp(prefix, j->home->prefix) != 0))) {
        free_units(j);
        rc = new_unit(j, prefix, err);
    }
    free(prefix);
    return rc;
}

/* The path of `inner` below `outer`, both ending with '/', or NULL: it does not lie there. Paths of files are compared
 * as the file system sees them. The caller frees it. */
static char *path_below(const struct leat_home *outer, const struct leat_home *inner)
{
    char *below = NULL;
    if (!leat_origin_same_store(outer, inner))
        return NULL;
    if (!leat_store_can(outer->store, LEAT_STORE_LOCAL)) {
        size_t n = strlen(outer->prefix);
        return strncmp(inner->prefix, outer->prefix, n) == 0 ? strdup(inner->prefix + n) : NULL;
    }
    char *above = realpath(*outer->prefix ? outer->prefix : ".", NULL);
    char *under = realpath(*inner->prefix ? inner->prefix : ".", NULL);
    size_t n = above ? strlen(above) : 0;
    n -= n && above[n - 1] == '/'; /* the root folder */
    if (above && under && strncmp(above, under, n) == 0 && (under[n] == '/' || !under[n])) {
        const char *rest = under + n + (under[n] == '/');
        below = malloc(strlen(rest) + 2);
        if (below) {
            memcpy(below, rest, strlen(rest) + 1);
            memcpy(below + strlen(rest), *rest ? "/" : "", *rest ? 2 : 1);
        }
    }
    free(above);
    free(under);
    return below;
}

static leat_status find_own(struct job *j, struct leat_error *err)
{
    static const char folder[] = "leat/";
    char *below = j->opts->to ? path_below(j->home, j->opts->to) : NULL;
    if (!below)
        return LEAT_OK;
    j->own = malloc(strlen(below) + sizeof folder);
    if (j->own) {
        memcpy(j->own, below, strlen(below));
        memcpy(j->own + strlen(below), folder, sizeof folder);
    }
    free(below);
    return j->own ? LEAT_OK : no_memory(0, err);
}

static leat_status list_home(uint32_t number, const struct leat_listing_opts *opts, struct leat_listing *out,
                             struct leat_error *err)
{
    const struct leat_home *home = &out->homes[number];
    const struct leat_listing_known *known = opts->known && opts->known[number].after ? &opts->known[number] : NULL;
    struct job j = {.home = home, .number = number, .opts = opts, .out = out, .after = known ? known->after : NULL};
    struct leat_store_stats before;
    struct leat_store_stats after;
    uint64_t had = out->n;
    uint64_t hidden = out->hidden;
    pthread_mutex_init(&j.mutex, NULL);
    leat_store_stats(home->store, &before);
    leat_status rc = known ? leat_listing_append(out, known->list, err) : LEAT_OK;
    if (known)
        leat_listing_close(known->list);
    j.locked.kept = out->n;
    j.locked.kept_hidden = out->hidden;
    j.locked.kept_ns = leat_now_ns();
    j.locked.keeping = known;
    if (rc == LEAT_OK)
        rc = find_own(&j, err);
    if (rc == LEAT_OK)
        rc = divide(&j, err);
    if (rc == LEAT_OK && j.n)
        rc = run_threads(&j, err);
    if (rc == LEAT_OK && out->n == had && opts->parts < 2)
        rc = leat_fail(err, LEAT_NOT_FOUND, "there are no objects in %s%s", home->url,
                       out->hidden > hidden ? " but hidden ones" : "");
    leat_store_stats(home->store, &after);
    out->requests += after.requests - before.requests;
    free_units(&j);
    free(j.own);
    pthread_mutex_destroy(&j.mutex);
    return rc;
}

/* One folder in another, or named twice, would give its objects twice. */
static leat_status check_homes(const struct leat_home *homes, uint32_t n, struct leat_error *err)
{
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < n; k++) {
            char *below = i == k ? NULL : path_below(&homes[i], &homes[k]);
            bool inside = below;
            free(below);
            if (inside)
                return leat_fail(err, LEAT_INVALID, "%s is inside %s: its objects would be samples twice", homes[k].url,
                                 homes[i].url);
        }
    }
    return LEAT_OK;
}

static int by_key(const void *a, const void *b, void *user)
{
    const struct leat_listing *l = user;
    return strcmp(l->text.data + *(const uint64_t *)a, l->text.data + *(const uint64_t *)b);
}

/* Stores list in the order of keys, but for some that promise none; parts are not in order either. */
static leat_status sort_home(struct leat_listing *l, uint64_t first, uint64_t end, struct leat_error *err)
{
    uint64_t n = end - first;
    uint64_t(*pairs)[2] = malloc(n * sizeof *pairs);
    if (!pairs)
        return no_memory(n, err);
    for (uint64_t i = 0; i < n; i++) {
        pairs[i][0] = l->at[first + i];
        pairs[i][1] = l->sizes[first + i];
    }
    qsort_r(pairs, n, sizeof *pairs, by_key, l);
    for (uint64_t i = 0; i < n; i++) {
        l->at[first + i] = pairs[i][0];
        l->sizes[first + i] = pairs[i][1];
    }
    free(pairs);
    return LEAT_OK;
}

leat_status leat_listing_finish(struct leat_listing *l, struct leat_error *err)
{
    for (uint32_t h = 0; h < l->homes_n; h++) {
        uint64_t first = h ? l->home_ends[h - 1] : 0;
        bool sorted = true;
        for (uint64_t i = first + 1; sorted && i < l->home_ends[h]; i++)
            sorted = strcmp(leat_listing_key(l, i - 1), leat_listing_key(l, i)) < 0;
        leat_status rc = sorted ? LEAT_OK : sort_home(l, first, l->home_ends[h], err);
        for (uint64_t i = first + 1; rc == LEAT_OK && !sorted && i < l->home_ends[h]; i++) {
            if (strcmp(leat_listing_key(l, i - 1), leat_listing_key(l, i)) == 0)
                rc = leat_fail(err, LEAT_CORRUPT, "the listing of %s has '%s' twice: list it again", l->homes[h].url,
                               leat_listing_key(l, i));
        }
        if (rc != LEAT_OK)
            return rc;
    }
    return LEAT_OK;
}

leat_status leat_listing_open(const struct leat_home *homes, uint32_t n, const struct leat_listing_opts *opts,
                              struct leat_listing *out, struct leat_error *err)
{
    struct leat_listing l = {0};
    leat_status rc = leat_listing_begin(&l, homes, n, err);
    if (rc == LEAT_OK)
        rc = check_homes(homes, n, err);
    for (uint32_t h = 0; rc == LEAT_OK && h < n; h++) {
        rc = list_home(h, opts, &l, err);
        l.home_ends[h] = l.n;
    }
    if (rc == LEAT_OK)
        rc = leat_listing_finish(&l, err);
    if (rc != LEAT_OK) {
        leat_listing_close(&l);
        return rc;
    }
#ifdef __GLIBC__
    malloc_trim(0); /* what the threads' lists took is theirs for good otherwise: 50 MB for a million objects */
#endif
    *out = l;
    return LEAT_OK;
}
