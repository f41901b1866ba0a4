#include "dataset/gc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/root.h"

#define ID_DIGITS_MIN 8u

/* Names that are referred to, in a table with open places. A digest of zeros is nobody's. */
struct marks {
    uint8_t (*table)[LEAT_SHA256_SIZE];
    size_t places; /* a power of two */
    size_t n;
};

struct version {
    uint8_t id[LEAT_SHA256_SIZE];
    int64_t written_s;
    uint64_t size;
    bool kept; /* by a name, or it is the current one */
    bool dropped;
};

struct look {
    const struct leat_home *home;
    const struct leat_gc_opts *opts;
    struct marks marks;
    struct version *versions;
    size_t versions_n;
    struct leat_gc gc;
    size_t cap; /* of its list */
};

static const uint8_t nobody[LEAT_SHA256_SIZE];

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for a list of objects");
}

static bool stopped(const struct look *l)
{
    return l->opts->stop && l->opts->stop(l->opts->user);
}

/* Marks */

static uint8_t *place_of(const struct marks *m, const uint8_t sha[LEAT_SHA256_SIZE])
{
    uint64_t hash;
    memcpy(&hash, sha, sizeof hash);
    size_t at = (size_t)hash & (m->places - 1);
    while (memcmp(m->table[at], nobody, LEAT_SHA256_SIZE) != 0 && memcmp(m->table[at], sha, LEAT_SHA256_SIZE) != 0)
        at = (at + 1) & (m->places - 1);
    return m->table[at];
}

static bool has(const struct marks *m, const uint8_t sha[LEAT_SHA256_SIZE])
{
    return m->places && memcmp(place_of(m, sha), sha, LEAT_SHA256_SIZE) == 0;
}

static leat_status grow(struct marks *m, struct leat_error *err)
{
    struct marks wider = {.places = m->places ? 2 * m->places : 1024};
    wider.table = calloc(wider.places, sizeof *wider.table);
    if (!wider.table)
        return no_memory(err);
    for (size_t i = 0; i < m->places; i++) {
        if (memcmp(m->table[i], nobody, LEAT_SHA256_SIZE) != 0)
            memcpy(place_of(&wider, m->table[i]), m->table[i], LEAT_SHA256_SIZE);
    }
    wider.n = m->n;
    free(m->table);
    *m = wider;
    return LEAT_OK;
}

static leat_status mark(struct marks *m, const uint8_t sha[LEAT_SHA256_SIZE], struct leat_error *err)
{
    leat_status rc = m->n * 2 >= m->places ? grow(m, err) : LEAT_OK;
    if (rc != LEAT_OK || has(m, sha))
        return rc;
    memcpy(place_of(m, sha), sha, LEAT_SHA256_SIZE);
    m->n++;
    return LEAT_OK;
}

static leat_status mark_root(struct look *l, const struct leat_root *root, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (uint32_t i = 0; rc == LEAT_OK && i < root->sections_n; i++)
        rc = mark(&l->marks, root->sections[i].name, err);
    for (uint32_t c = 0; rc == LEAT_OK && c < root->chunks; c++)
        rc = mark(&l->marks, leat_root_chunk_name(root, c), err);
    return rc;
}

static leat_status load_root(const struct look *l, const char *name, const uint8_t sha[LEAT_SHA256_SIZE], char **data,
                             struct leat_root *root, struct leat_error *err)
{
    uint8_t found[LEAT_SHA256_SIZE];
    size_t n;
    char *key = leat_home_key(l->home, name);
    if (!key)
        return no_memory(err);
    leat_status rc = leat_store_load(l->home->store, key, LEAT_ROOT_MAX, data, &n, NULL, err);
    free(key);
    if (rc != LEAT_OK)
        return rc;
    leat_sha256(*data, n, found);
    if (memcmp(found, sha, sizeof found) != 0)
        return leat_fail(err, LEAT_CORRUPT, "%s does not hold the bytes that its name stands for", name);
    return leat_root_read(*data, n, root, err);
}

static leat_status unknown(const char *object, leat_status rc, struct leat_error *err)
{
    if (rc == LEAT_CORRUPT || rc == LEAT_VERSION)
        return leat_fail_context(err, rc, "what %s refers to is unknown, so nothing is deleted", object);
    return rc;
}

/* What a pointer leads to. Marked before its root is read: two pointers to one root need it once. */
static leat_status mark_pointer(struct look *l, const char *object, const struct leat_pointer *p,
                                struct leat_error *err)
{
    struct leat_root root;
    char *data = NULL;
    char name[LEAT_NAME_MAX];
    if (has(&l->marks, p->root))
        return LEAT_OK;
    leat_name_root(p->root, name);
    leat_status rc = load_root(l, name, p->root, &data, &root, err);
    if (rc == LEAT_CORRUPT) { /* damaged on the way, perhaps */
        free(data);
        data = NULL;
        rc = load_root(l, name, p->root, &data, &root, err);
    }
    if (rc == LEAT_OK)
        rc = mark(&l->marks, p->root, err);
    if (rc == LEAT_OK)
        rc = mark_root(l, &root, err);
    free(data);
    if (rc == LEAT_NOT_FOUND)
        rc = leat_fail(err, LEAT_CORRUPT, "%s is missing: an incomplete copy, or a lost object", name);
    return unknown(object, rc, err);
}

/* Pointers */

static struct version *version_of(const struct look *l, const uint8_t id[LEAT_SHA256_SIZE])
{
    for (size_t i = 0; i < l->versions_n; i++) {
        if (memcmp(l->versions[i].id, id, LEAT_SHA256_SIZE) == 0)
            return &l->versions[i];
    }
    return NULL;
}

static leat_status note_version(void *user, const char *name, const struct leat_list_entry *entry,
                                struct leat_error *err)
{
    struct look *l = user;
    struct version v = {.written_s = entry->modified_s, .size = entry->size};
    if (!leat_unhex(name, v.id, sizeof v.id) || version_of(l, v.id))
        return LEAT_OK; /* not ours, or seen before */
    struct version *versions = realloc(l->versions, (l->versions_n + 1) * sizeof *versions);
    if (!versions)
        return no_memory(err);
    l->versions = versions;
    versions[l->versions_n++] = v;
    return LEAT_OK;
}

/* A pointer that was listed, or the current one. One that has gone since then may have moved, so that what it
 * protects is not known. */
static leat_status listed_pointer(const struct look *l, const char *object, struct leat_pointer *out,
                                  struct leat_error *err)
{
    leat_status rc = leat_home_pointer(l->home, object, out, err);
    if (rc == LEAT_NOT_FOUND && strcmp(object, LEAT_NAME_POINTER) != 0)
        rc = leat_fail(err, LEAT_CHANGED, "someone else has just deleted %s; nothing is deleted: run 'leat gc' again",
                       object);
    return unknown(object, rc, err);
}

/* A pointer that people use keeps its version. */
static leat_status note_pointer(struct look *l, const char *object, struct leat_error *err)
{
    struct leat_pointer p;
    leat_status rc = listed_pointer(l, object, &p, err);
    if (rc != LEAT_OK)
        return rc;
    struct version *v = version_of(l, p.id);
    if (v)
        v->kept = true;
    return mark_pointer(l, object, &p, err);
}

static leat_status note_name(void *user, const char *name, const struct leat_list_entry *entry, struct leat_error *err)
{
    (void)entry;
    char object[LEAT_NAME_MAX];
    if (leat_name_named(name, object, NULL) != LEAT_OK)
        return LEAT_OK; /* not ours */
    return note_pointer(user, object, err);
}

static leat_status mark_versions(struct look *l, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (size_t i = 0; rc == LEAT_OK && i < l->versions_n; i++) {
        struct leat_pointer p;
        char object[LEAT_NAME_MAX];
        if (l->versions[i].dropped)
            continue;
        leat_name_version(l->versions[i].id, object);
        rc = listed_pointer(l, object, &p, err);
        if (rc == LEAT_OK)
            rc = mark_pointer(l, object, &p, err);
        if (rc == LEAT_OK && stopped(l))
            rc = leat_fail(err, LEAT_CANCELLED, "interrupted");
    }
    return rc;
}

static leat_status note_pointers(struct look *l, struct leat_error *err)
{
    leat_status rc = leat_home_each(l->home, LEAT_NAME_VERSIONS, note_version, l, err);
    if (rc == LEAT_OK)
        rc = leat_home_each(l->home, LEAT_NAME_NAMES, note_name, l, err);
    if (rc != LEAT_OK)
        return rc;
    rc = note_pointer(l, LEAT_NAME_POINTER, err);
    return rc == LEAT_NOT_FOUND ? LEAT_OK : rc; /* no current version */
}

/* Versions that are given up */

static leat_status drop_one(struct look *l, const char *text, struct leat_error *err)
{
    struct version *found = NULL;
    size_t digits = strlen(text);
    for (size_t i = 0; i < l->versions_n; i++) {
        char hex[2 * LEAT_SHA256_SIZE + 1];
        leat_hex(l->versions[i].id, LEAT_SHA256_SIZE, hex);
        if (digits < ID_DIGITS_MIN || strncmp(hex, text, digits) != 0)
            continue;
        if (found)
            return leat_fail(err, LEAT_INVALID, "several versions of %s begin with %.64s: give more digits",
                             l->home->url, text);
        found = &l->versions[i];
    }
    if (!found)
        return leat_fail(
            err, LEAT_NOT_FOUND,
            "the dataset at %s has no version %.64s; 'leat info --versions' lists them, and 8 digits of an "
            "id are enough",
            l->home->url, text);
    if (found->kept)
        return leat_fail(err, LEAT_EXISTS,
                         "version %.64s of %s is protected: it has a name or is the current one; 'leat name "
                         "--delete' removes a name",
                         text, l->home->url);
    found->dropped = true;
    return LEAT_OK;
}

static int newest_first(const void *a, const void *b)
{
    const struct version *x = a;
    const struct version *y = b;
    if (x->written_s != y->written_s)
        return x->written_s > y->written_s ? -1 : 1;
    return memcmp(x->id, y->id, sizeof x->id);
}

static leat_status drop_versions(struct look *l, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (size_t i = 0; rc == LEAT_OK && i < l->opts->drop_n; i++)
        rc = drop_one(l, l->opts->drop[i], err);
    if (rc != LEAT_OK || !l->opts->keep_last)
        return rc;
    size_t left = 0;
    if (l->versions_n)
        qsort(l->versions, l->versions_n, sizeof *l->versions, newest_first);
    for (size_t i = 0; i < l->versions_n; i++) {
        struct version *v = &l->versions[i];
        if (v->written_s == 0)
            return leat_fail(err, LEAT_UNSUPPORTED,
                             "the store does not say when versions were written: name those to give up (--drop)");
        v->dropped |= i >= *l->opts->keep_last && !v->kept;
        left += !v->dropped;
    }
    if (l->versions_n && !left && !l->marks.n)
        return leat_fail(
            err, LEAT_INVALID,
            "no version of %s would be left: none has a name or is the current one. 'leat rm -r' deletes a "
            "whole dataset",
            l->home->url);
    return LEAT_OK;
}

/* Objects */

static leat_status note_garbage(struct look *l, const struct leat_gc_object *o, struct leat_error *err)
{
    struct leat_gc *g = &l->gc;
    if (g->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 256;
        struct leat_gc_object *list = realloc(g->list, cap * sizeof *list);
        if (!list)
            return no_memory(err);
        g->list = list;
        l->cap = cap;
    }
    g->list[g->n++] = *o;
    return LEAT_OK;
}

static void count(struct leat_gc_sum *sum, uint64_t size)
{
    sum->objects++;
    sum->bytes += size;
}

static leat_status note_object(struct look *l, const struct leat_gc_object *o, struct leat_error *err)
{
    if (has(&l->marks, o->sha)) {
        count(&l->gc.used[o->kind], o->size);
        return LEAT_OK;
    }
    if (o->modified_s == 0 || o->modified_s >= l->opts->before_s) {
        count(&l->gc.young[o->kind], o->size);
        return LEAT_OK;
    }
    return note_garbage(l, o, err);
}

static leat_status list_objects(struct look *l, const char *folder, enum leat_gc_kind kind, struct leat_error *err)
{
    struct leat_list *list = NULL;
    struct leat_list_entry entry;
    bool end = false;
    char *prefix = leat_home_key(l->home, folder);
    if (!prefix)
        return no_memory(err);
    leat_status rc = leat_store_list_open(l->home->store, prefix, true, &list, err);
    if (rc == LEAT_OK)
        rc = leat_store_list_next(list, &entry, &end, err);
    if (rc == LEAT_NOT_FOUND) { /* a folder that is not there is empty */
        rc = LEAT_OK;
        end = true;
    }
    while (rc == LEAT_OK && !end) {
        struct leat_gc_object o = {.kind = kind, .size = entry.size, .modified_s = entry.modified_s};
        const char *slash = strrchr(entry.key, '/');
        if (leat_unhex(slash ? slash + 1 : entry.key, o.sha, sizeof o.sha)) /* else it is not ours */
            rc = note_object(l, &o, err);
        if (rc == LEAT_OK && stopped(l))
            rc = leat_fail(err, LEAT_CANCELLED, "interrupted");
        if (rc == LEAT_OK)
            rc = leat_store_list_next(list, &entry, &end, err);
    }
    leat_store_list_close(list);
    free(prefix);
    return rc;
}

/* Takes out what somebody who published while the objects were listed refers to. */
static void sift(struct look *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->gc.n; i++) {
        struct leat_gc_object *o = &l->gc.list[i];
        const struct version *v = o->kind == LEAT_GC_VERSION ? version_of(l, o->sha) : NULL;
        bool used = v ? v->kept : has(&l->marks, o->sha);
        count(used ? &l->gc.used[o->kind] : &l->gc.gone[o->kind], o->size);
        if (!used)
            l->gc.list[n++] = *o;
    }
    l->gc.n = n;
}

/* Without any version all chunks would be garbage, and they are what a lost snapshot is made of again. */
static leat_status check_versions(const struct look *l, struct leat_error *err)
{
    struct leat_pointer p;
    if (l->versions_n || l->marks.n)
        return LEAT_OK;
    leat_status rc = leat_home_resolve(l->home, NULL, &p, err); /* says what is there instead */
    return rc == LEAT_OK ? leat_fail(err, LEAT_CHANGED, "someone else has just published at %s", l->home->url) : rc;
}

static leat_status look(struct look *l, struct leat_error *err)
{
    leat_status rc = note_pointers(l, err);
    if (rc == LEAT_OK)
        rc = check_versions(l, err);
    if (rc == LEAT_OK)
        rc = drop_versions(l, err);
    if (rc == LEAT_OK)
        rc = mark_versions(l, err);
    for (size_t i = 0; rc == LEAT_OK && i < l->versions_n; i++) {
        const struct version *v = &l->versions[i];
        struct leat_gc_object o = {.kind = LEAT_GC_VERSION, .size = v->size, .modified_s = v->written_s};
        memcpy(o.sha, v->id, sizeof o.sha);
        if (v->dropped)
            rc = note_garbage(l, &o, err);
        else
            count(&l->gc.used[LEAT_GC_VERSION], v->size);
    }
    if (rc == LEAT_OK)
        rc = list_objects(l, "leat/roots/", LEAT_GC_ROOT, err);
    if (rc == LEAT_OK)
        rc = list_objects(l, "leat/sections/", LEAT_GC_SECTION, err);
    if (rc == LEAT_OK)
        rc = list_objects(l, LEAT_NAME_CHUNKS, LEAT_GC_CHUNK, err);
    if (rc == LEAT_OK)
        rc = note_pointers(l, err);
    if (rc == LEAT_OK)
        rc = mark_versions(l, err);
    if (rc == LEAT_OK)
        sift(l);
    return rc;
}

leat_status leat_gc_look(const struct leat_home *h, const struct leat_gc_opts *opts, struct leat_gc *out,
                         struct leat_error *err)
{
    struct look l = {.home = h, .opts = opts};
    leat_status rc = leat_home_check_plain(h, err);
    if (rc == LEAT_OK)
        rc = look(&l, err);
    free(l.marks.table);
    free(l.versions);
    if (rc != LEAT_OK) {
        leat_gc_free(&l.gc);
        return rc;
    }
    *out = l.gc;
    return LEAT_OK;
}

leat_status leat_gc_confirm(const struct leat_home *h, const struct leat_gc_opts *opts, const struct leat_gc *g,
                            struct leat_error *err)
{
    struct look l = {.home = h, .opts = opts};
    size_t needed = 0;
    leat_status rc = note_pointers(&l, err);
    if (rc == LEAT_OK)
        rc = mark_versions(&l, err);
    for (size_t i = 0; rc == LEAT_OK && i < g->n; i++)
        needed += g->list[i].kind != LEAT_GC_VERSION && has(&l.marks, g->list[i].sha);
    free(l.marks.table);
    free(l.versions);
    if (needed)
        rc = leat_fail(err, LEAT_CHANGED,
                       "someone else has published at %s meanwhile, and needs %zu of the objects on the list: 'leat "
                       "verify' says whether any are missing, and packing again stores them",
                       h->url, needed);
    return rc;
}

void leat_gc_free(struct leat_gc *g)
{
    free(g->list);
    *g = (struct leat_gc){0};
}

void leat_gc_name(const struct leat_gc_object *o, char out[LEAT_NAME_MAX])
{
    switch (o->kind) {
    case LEAT_GC_VERSION:
        leat_name_version(o->sha, out);
        break;
    case LEAT_GC_ROOT:
        leat_name_root(o->sha, out);
        break;
    case LEAT_GC_SECTION:
        leat_name_section(o->sha, out);
        break;
    default:
        leat_name_chunk(o->sha, out);
    }
}
