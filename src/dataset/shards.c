#include "dataset/shards.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dataset/index.h"
#include "store/wait.h"

#define LIST_BYTES_MAX ((size_t)1 << 30) /* of an @FILE */
#define STATS          64u               /* asked for at a time */

struct finding {
    const struct leat_shards_opts *opts;
    struct leat_shards shards;
    uint32_t known;  /* of the list: size and ETag are there; those from here on are to be asked for */
    bool missing_ok; /* what is not there loses its key */
};

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for the list of shards");
}

void leat_shards_close(struct leat_shards *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->n; i++) {
        free(s->list[i].key);
        free(s->list[i].etag);
    }
    free(s->list);
    for (uint32_t i = 0; i < s->homes_n; i++) {
        leat_home_close(s->homes[i]);
        free(s->homes[i]);
    }
    free(s->homes);
    *s = (struct leat_shards){0};
}

/* The home of the store that a URL lies in. */
static leat_status find_home(struct finding *f, const char *url, const struct leat_url *parsed,
                             const struct leat_home **out, struct leat_error *err)
{
    struct leat_shards *s = &f->shards;
    for (uint32_t i = 0; i < s->homes_n; i++) {
        if (leat_store_holds(s->homes[i]->store, parsed)) {
            *out = s->homes[i];
            return LEAT_OK;
        }
    }
    if (s->homes_n == LEAT_SOURCES_MAX)
        return leat_fail(err, LEAT_LIMIT, "the %ss lie in more than %u stores", f->opts->what, LEAT_SOURCES_MAX);
    struct leat_home **homes = realloc(s->homes, (s->homes_n + 1) * sizeof(struct leat_home *));
    if (!homes)
        return no_memory(err);
    s->homes = homes;
    struct leat_home *home = calloc(1, sizeof *home);
    if (!home)
        return no_memory(err);
    leat_status rc = leat_home_open(url, f->opts->store, home, err);
    if (rc != LEAT_OK) {
        free(home);
        return rc;
    }
    s->homes[s->homes_n++] = home;
    *out = home;
    return LEAT_OK;
}

/* Takes over the key, whatever happens. */
static leat_status add_shard(struct finding *f, const struct leat_home *home, char *key, size_t name_at,
                             const struct leat_list_entry *entry, struct leat_error *err)
{
    struct leat_shards *s = &f->shards;
    char *etag = entry ? strdup(entry->etag ? entry->etag : "") : NULL;
    leat_status rc = key && (etag || !entry) ? LEAT_OK : no_memory(err);
    if (rc == LEAT_OK && s->n == LEAT_SHARDS_MAX)
        rc = leat_fail(err, LEAT_LIMIT, "there are more than %u %ss", LEAT_SHARDS_MAX, f->opts->what);
    if (rc == LEAT_OK && s->n == s->cap) {
        uint32_t cap = s->cap ? 2 * s->cap : 64;
        struct leat_shard *list = realloc(s->list, cap * sizeof *list);
        if (list) {
            s->list = list;
            s->cap = cap;
        } else {
            rc = no_memory(err);
        }
    }
    if (rc != LEAT_OK) {
        free(key);
        free(etag);
        return rc;
    }
    s->list[s->n++] = (struct leat_shard){
        .home = home, .key = key, .name = key + name_at, .size = entry ? entry->size : 0, .etag = etag};
    return LEAT_OK;
}

static bool ends_with(const char *text, const char *ending)
{
    size_t n = strlen(text);
    size_t m = strlen(ending);
    return n > m && strcmp(text + n - m, ending) == 0;
}

static bool wanted(const struct finding *f, const char *name)
{
    for (const char *const *e = f->opts->endings; *e; e++) {
        if (ends_with(name, *e))
            return true;
    }
    return false;
}

static bool hidden(const char *path)
{
    return path[0] == '.' || strstr(path, "/.") != NULL;
}

static bool stopped(const struct finding *f)
{
    return f->opts->stop && f->opts->stop(f->opts->stop_user);
}

static leat_status list_prefix(struct finding *f, const struct leat_home *home, const char *prefix, const char *url,
                               struct leat_error *err)
{
    struct leat_list *list = NULL;
    struct leat_list_entry entry;
    bool end = false;
    uint32_t before = f->shards.n;
    uint64_t seen = 0;
    leat_status rc = leat_store_list_open(home->store, prefix, true, &list, err);
    while (rc == LEAT_OK) {
        rc = leat_store_list_next(list, &entry, &end, err);
        if (rc != LEAT_OK || end)
            break;
        const char *name = entry.key + strlen(prefix);
        size_t n = strlen(name);
        if (n == 0 || name[n - 1] == '/' || hidden(name))
            continue;
        if (wanted(f, name))
            rc = add_shard(f, home, strdup(entry.key), strlen(prefix), &entry, err);
        else if (f->opts->refuse)
            rc = f->opts->refuse(name, err);
        f->shards.skipped += rc == LEAT_OK && !wanted(f, name);
        if (rc == LEAT_OK && ++seen % 1024 == 0 && stopped(f))
            rc = leat_fail(err, LEAT_CANCELLED, "interrupted");
    }
    leat_store_list_close(list);
    f->shards.requests += 1 + seen / 1000;
    if (rc == LEAT_OK && f->shards.n == before)
        return leat_fail(err, LEAT_NOT_FOUND, "there is no %s below %.300s (names that end in %s)", f->opts->what, url,
                         f->opts->endings[0]);
    return rc;
}

/* What one shard is, asked for with others. */
struct asked {
    struct leat_store_op op;
    struct leat_error err;
    struct leat_object object;
    struct leat_store *store; /* NULL: nothing was asked */
};

static bool stop_asking(void *user)
{
    return stopped(user);
}

static void cancel_asked(void *arg)
{
    struct asked *asked = arg;
    for (uint32_t i = 0; i < STATS; i++) {
        if (asked[i].store)
            leat_store_cancel(asked[i].store, &asked[i].op);
    }
}

/* Asks for the sizes and ETags of up to STATS shards at a time. */
static leat_status ask_some(struct finding *f, struct asked *asked, struct leat_error *err)
{
    struct leat_shards *s = &f->shards;
    struct leat_wait wait;
    uint32_t n = s->n - f->known < STATS ? s->n - f->known : STATS;
    leat_status rc = LEAT_OK;
    leat_wait_init(&wait, stop_asking, f);
    for (uint32_t i = 0; i < STATS; i++) {
        struct asked *a = &asked[i];
        const struct leat_shard *shard = i < n ? &s->list[f->known + i] : NULL;
        a->store = shard && shard->key ? shard->home->store : NULL;
        if (!a->store)
            continue;
        a->op =
            (struct leat_store_op){.verb = LEAT_STORE_STAT, .key = shard->key, .err = &a->err, .object = &a->object};
        leat_wait_submit(&wait, a->store, &a->op);
    }
    leat_wait_for(&wait, 0, cancel_asked, asked);
    leat_wait_end(&wait);
    for (uint32_t i = 0; rc == LEAT_OK && i < n; i++) {
        struct leat_shard *shard = &s->list[f->known + i];
        if (!shard->key)
            continue;
        s->requests++;
        if (f->missing_ok && asked[i].op.status == LEAT_NOT_FOUND) {
            free(shard->key);
            shard->key = NULL;
            continue;
        }
        if (asked[i].op.status != LEAT_OK) {
            *err = asked[i].err;
            rc = asked[i].op.status;
            break;
        }
        shard->size = asked[i].object.size;
        shard->etag = strdup(asked[i].object.etag);
        rc = shard->etag ? LEAT_OK : no_memory(err);
    }
    f->known += n;
    return rc;
}

/* Sizes and ETags of what was named, not listed. */
static leat_status ask(struct finding *f, struct leat_error *err)
{
    struct asked *asked = calloc(STATS, sizeof *asked);
    leat_status rc = asked ? LEAT_OK : no_memory(err);
    while (rc == LEAT_OK && f->known < f->shards.n)
        rc = ask_some(f, asked, err);
    free(asked);
    return rc;
}

/* Parses an address. Paths become absolute: the one that reads the samples later does it from another folder. */
static leat_status parse_whole(const char *url, struct leat_url *out, struct leat_error *err)
{
    struct leat_url parsed = {0};
    leat_status rc = leat_url_parse(url, &parsed, err);
    if (rc == LEAT_OK && leat_store_url_can(&parsed, LEAT_STORE_LOCAL) && parsed.path[0] != '/') {
        struct leat_buf path;
        char *here = getcwd(NULL, 0);
        leat_buf_init(&path, 64 << 10);
        leat_buf_printf(&path, "%s/%s", here ? here : "", parsed.path);
        free(parsed.path);
        parsed.path = here ? leat_buf_take(&path) : NULL;
        rc = parsed.path ? LEAT_OK : leat_fail(err, LEAT_IO, "cannot tell which folder '%.300s' is in", url);
        leat_buf_free(&path);
        free(here);
    }
    if (rc == LEAT_OK)
        *out = parsed;
    else
        leat_url_free(&parsed);
    return rc;
}

static leat_status add_one(void *user, const char *url, struct leat_error *err)
{
    struct finding *f = user;
    struct leat_url parsed = {0};
    const struct leat_home *home = NULL;
    char *key = NULL;
    leat_status rc = parse_whole(url, &parsed, err);
    if (rc == LEAT_OK)
        rc = find_home(f, url, &parsed, &home, err);
    if (rc == LEAT_OK) {
        key = leat_store_key(&parsed);
        rc = key ? LEAT_OK : no_memory(err);
    }
    if (rc == LEAT_OK && f->opts->refuse)
        rc = f->opts->refuse(key, err);
    if (rc == LEAT_OK && wanted(f, key)) {
        const char *slash = strrchr(key, '/');
        rc = add_shard(f, home, key, slash ? (size_t)(slash + 1 - key) : 0, NULL, err);
        key = NULL;
    } else if (rc == LEAT_OK) {
        struct leat_buf prefix;
        rc = ask(f, err); /* those before it, so that the order stays and what is not asked for is the end */
        leat_buf_init(&prefix, 64 << 10);
        leat_buf_str(&prefix, key);
        if (prefix.len && prefix.data[prefix.len - 1] != '/')
            leat_buf_char(&prefix, '/');
        if (rc == LEAT_OK)
            rc = leat_buf_check(&prefix, "an address", err);
        if (rc == LEAT_OK)
            rc = list_prefix(f, home, prefix.data, url, err);
        leat_buf_free(&prefix);
        f->known = f->shards.n;
    }
    free(key);
    leat_url_free(&parsed);
    return rc;
}

static leat_status add_lines(struct finding *f, const char *file, char *text, struct leat_error *err)
{
    unsigned line = 0;
    for (char *p = text; p && *p;) {
        char *end = strchr(p, '\n');
        line++;
        if (end)
            *end = '\0';
        size_t n = strlen(p);
        if (n && p[n - 1] == '\r')
            p[n - 1] = '\0';
        if (*p == '@')
            return leat_fail(err, LEAT_INVALID, "%.300s, line %u: a list cannot name another list", file, line);
        if (*p && *p != '#') {
            leat_status rc = leat_braces_each(p, add_one, f, err);
            if (rc != LEAT_OK)
                return leat_fail_context(err, rc, "%.300s, line %u", file, line);
        }
        p = end ? end + 1 : NULL;
    }
    return LEAT_OK;
}

static leat_status add_list(struct finding *f, const char *file, struct leat_error *err)
{
    struct leat_url parsed = {0};
    struct leat_store *store = NULL;
    char *key = NULL;
    char *text = NULL;
    size_t n = 0;
    leat_status rc = leat_url_parse(file, &parsed, err);
    if (rc == LEAT_OK)
        rc = leat_store_open(&parsed, f->opts->store, &store, err);
    if (rc == LEAT_OK) {
        key = leat_store_key(&parsed);
        rc = key ? leat_store_load(store, key, LIST_BYTES_MAX, &text, &n, NULL, err) : no_memory(err);
    }
    if (rc == LEAT_OK && memchr(text, '\0', n))
        rc = leat_fail(err, LEAT_INVALID, "%.300s is not a list of addresses: it contains NULs", file);
    if (rc == LEAT_OK)
        rc = add_lines(f, file, text, err);
    free(text);
    free(key);
    leat_store_close(store);
    leat_url_free(&parsed);
    return rc;
}

static int by_place(const void *a, const void *b)
{
    const struct leat_shard *x = *(const struct leat_shard *const *)a;
    const struct leat_shard *y = *(const struct leat_shard *const *)b;
    if (x->home != y->home)
        return (uintptr_t)x->home < (uintptr_t)y->home ? -1 : 1;
    return strcmp(x->key, y->key);
}

/* A shard named twice would give each of its samples twice. */
static leat_status check_twice(const struct leat_shards *s, struct leat_error *err)
{
    const struct leat_shard **sorted = malloc((s->n + (size_t)1) * sizeof(const struct leat_shard *));
    if (!sorted)
        return no_memory(err);
    for (uint32_t i = 0; i < s->n; i++)
        sorted[i] = &s->list[i];
    qsort(sorted, s->n, sizeof(const struct leat_shard *), by_place);
    leat_status rc = LEAT_OK;
    for (uint32_t i = 1; rc == LEAT_OK && i < s->n; i++) {
        if (by_place(&sorted[i - 1], &sorted[i]) == 0)
            rc = leat_fail(err, LEAT_INVALID, "'%.300s' is named twice", sorted[i]->key);
    }
    free(sorted);
    return rc;
}

leat_status leat_shards_open(const char *const *urls, size_t n, const struct leat_shards_opts *opts,
                             struct leat_shards *out, struct leat_error *err)
{
    struct finding f = {.opts = opts};
    leat_status rc = LEAT_OK;
    for (size_t i = 0; rc == LEAT_OK && i < n; i++)
        rc = urls[i][0] == '@' ? add_list(&f, urls[i] + 1, err) : leat_braces_each(urls[i], add_one, &f, err);
    if (rc == LEAT_OK)
        rc = ask(&f, err);
    if (rc == LEAT_OK && f.shards.n == 0)
        rc = leat_fail(err, LEAT_INVALID, "no %s is named", opts->what);
    if (rc == LEAT_OK)
        rc = check_twice(&f.shards, err);
    if (rc != LEAT_OK) {
        leat_shards_close(&f.shards);
        return rc;
    }
    for (uint32_t i = 0; i < f.shards.n; i++)
        f.shards.bytes += f.shards.list[i].size;
    *out = f.shards;
    return LEAT_OK;
}

leat_status leat_shards_beside(const struct leat_shards *s, const char *ending, const char *other,
                               const struct leat_shards_opts *opts, struct leat_shards *out, struct leat_error *err)
{
    struct finding f = {.opts = opts, .missing_ok = true};
    size_t cut = strlen(ending);
    leat_status rc = LEAT_OK;
    f.shards.list = calloc(s->n + (size_t)1, sizeof *f.shards.list);
    if (!f.shards.list)
        return no_memory(err);
    for (; rc == LEAT_OK && f.shards.n < s->n; f.shards.n++) {
        const struct leat_shard *from = &s->list[f.shards.n];
        struct leat_shard *to = &f.shards.list[f.shards.n];
        size_t n = strlen(from->key);
        to->home = from->home;
        if (!ends_with(from->key, ending))
            continue;
        to->key = malloc(n - cut + strlen(other) + 1);
        rc = to->key ? LEAT_OK : no_memory(err);
        if (rc == LEAT_OK) {
            memcpy(to->key, from->key, n - cut);
            memcpy(to->key + n - cut, other, strlen(other) + 1);
            to->name = to->key + (from->name - from->key);
        }
    }
    if (rc == LEAT_OK)
        rc = ask(&f, err);
    if (rc != LEAT_OK) {
        leat_shards_close(&f.shards);
        return rc;
    }
    *out = f.shards;
    return LEAT_OK;
}
