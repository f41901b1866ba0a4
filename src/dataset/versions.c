#include "dataset/versions.h"

#include <stdlib.h>
#include <string.h>

#include "dataset/fetch.h"
#include "dataset/piece.h"

static leat_status peek_once(const struct leat_home *h, const struct leat_pointer *p, const struct leat_pieces *pieces,
                             struct leat_root_peek *out, struct leat_error *err)
{
    uint8_t head[LEAT_ROOT_PEEK];
    struct leat_root_peek found;
    struct leat_fetch_opts opts = {.store = h->store, .pieces = pieces, .into = head};
    leat_status rc = leat_fetch_run(&opts, err);
    if (rc == LEAT_OK)
        rc = leat_root_peek(head, sizeof head, &found, err);
    if (rc == LEAT_OK && memcmp(found.id, p->id, sizeof found.id) != 0)
        rc = leat_fail(err, LEAT_CORRUPT, "the root '%s' has another content id than the pointer to it",
                       pieces->list[0].key);
    if (rc == LEAT_OK)
        *out = found;
    return rc;
}

/* The head of the root that a pointer names. Its digest is over the whole root, so that only what the head itself shows
 * to be damaged is read once more. */
static leat_status peek(const struct leat_home *h, const struct leat_pointer *p, struct leat_root_peek *out,
                        struct leat_error *err)
{
    char name[LEAT_NAME_MAX];
    struct leat_pieces pieces = {0};
    leat_name_root(p->root, name);
    leat_status rc = leat_pieces_of(h, name, 0, LEAT_ROOT_PEEK, 0, &pieces, err);
    if (rc == LEAT_OK)
        rc = peek_once(h, p, &pieces, out, err);
    if (rc == LEAT_CORRUPT || rc == LEAT_VERSION)
        rc = peek_once(h, p, &pieces, out, err);
    leat_pieces_free(&pieces);
    return rc;
}

/* Listing */

struct listing {
    const struct leat_home *home;
    struct leat_versions v;
};

/* The version with this id, new when there was none. NULL without memory. */
static struct leat_version *version_of(struct leat_versions *v, const struct leat_pointer *p)
{
    for (size_t i = 0; i < v->n; i++) {
        if (memcmp(v->list[i].pointer.id, p->id, sizeof p->id) == 0)
            return &v->list[i];
    }
    struct leat_version *list = realloc(v->list, (v->n + 1) * sizeof *list);
    if (!list)
        return NULL;
    v->list = list;
    list[v->n] = (struct leat_version){.pointer = *p};
    return &list[v->n++];
}

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for a list of versions");
}

/* Takes note of the pointer in an object. A pointer that cannot be read is not left out: its version carries the error.
 * LEAT_NOT_FOUND when the object is not there. */
static leat_status note(struct listing *l, const char *object, struct leat_version **out, struct leat_error *err)
{
    struct leat_pointer p;
    struct leat_error why;
    *out = NULL;
    leat_status rc = leat_home_pointer(l->home, object, &p, &why);
    if (rc != LEAT_OK && rc != LEAT_CORRUPT && rc != LEAT_VERSION) {
        if (err)
            *err = why;
        return rc;
    }
    if (rc != LEAT_OK) {
        uint8_t id[LEAT_SHA256_SIZE];
        p = (struct leat_pointer){0};
        if (leat_unhex(strrchr(object, '/') + 1, id, sizeof id))
            memcpy(p.id, id, sizeof id);
    }
    *out = version_of(&l->v, &p);
    if (!*out)
        return no_memory(err);
    if (rc != LEAT_OK)
        (*out)->err = why;
    return LEAT_OK;
}

static leat_status note_version(void *user, const char *name, const struct leat_list_entry *entry,
                                struct leat_error *err)
{
    char object[LEAT_NAME_MAX];
    uint8_t id[LEAT_SHA256_SIZE];
    struct leat_version *version;
    if (!leat_unhex(name, id, sizeof id))
        return LEAT_OK; /* not ours */
    leat_name_version(id, object);
    leat_status rc = note(user, object, &version, err);
    if (rc == LEAT_OK)
        version->written_s = entry->modified_s;
    return rc;
}

static leat_status note_name(void *user, const char *name, const struct leat_list_entry *entry, struct leat_error *err)
{
    (void)entry;
    char object[LEAT_NAME_MAX];
    struct leat_version *version;
    if (leat_name_named(name, object, NULL) != LEAT_OK)
        return LEAT_OK; /* not ours */
    leat_status rc = note(user, object, &version, err);
    if (rc != LEAT_OK)
        return rc;
    char **names = realloc(version->names, (version->names_n + 1) * sizeof *names);
    if (!names)
        return no_memory(err);
    version->names = names;
    names[version->names_n] = strdup(name);
    return names[version->names_n++] ? LEAT_OK : no_memory(err);
}

static int by_time(const void *a, const void *b)
{
    const struct leat_version *x = a;
    const struct leat_version *y = b;
    if (x->written_s != y->written_s)
        return x->written_s < y->written_s ? -1 : 1;
    return memcmp(x->pointer.id, y->pointer.id, sizeof x->pointer.id);
}

static leat_status look(struct listing *l, struct leat_error *err)
{
    struct leat_version *current;
    leat_status rc = leat_home_each(l->home, LEAT_NAME_VERSIONS, note_version, l, err);
    if (rc == LEAT_OK)
        rc = leat_home_each(l->home, LEAT_NAME_NAMES, note_name, l, err);
    if (rc != LEAT_OK)
        return rc;
    rc = note(l, LEAT_NAME_POINTER, &current, err);
    if (rc == LEAT_NOT_FOUND && l->v.n == 0) {
        struct leat_pointer p;
        return leat_home_resolve(l->home, NULL, &p, err); /* says what is there instead */
    }
    if (rc == LEAT_NOT_FOUND)
        rc = LEAT_OK;
    else if (rc == LEAT_OK)
        current->current = true;
    for (size_t i = 0; rc == LEAT_OK && i < l->v.n; i++) {
        struct leat_version *v = &l->v.list[i];
        if (v->err.status == LEAT_OK)
            leat_error_settle(&v->err, peek(l->home, &v->pointer, &v->head, &v->err));
        if (v->err.status == LEAT_CANCELLED) {
            *err = v->err;
            rc = LEAT_CANCELLED;
        }
    }
    if (rc == LEAT_OK && l->v.n)
        qsort(l->v.list, l->v.n, sizeof *l->v.list, by_time);
    return rc;
}

leat_status leat_versions_open(const struct leat_home *h, struct leat_versions *out, struct leat_error *err)
{
    struct listing l = {.home = h};
    struct leat_error own;
    leat_status rc = look(&l, err ? err : &own);
    if (rc != LEAT_OK) {
        leat_versions_close(&l.v);
        return rc;
    }
    *out = l.v;
    return LEAT_OK;
}

void leat_versions_close(struct leat_versions *v)
{
    for (size_t i = 0; i < v->n; i++) {
        for (size_t k = 0; k < v->list[i].names_n; k++)
            free(v->list[i].names[k]);
        free(v->list[i].names);
    }
    free(v->list);
    *v = (struct leat_versions){0};
}

/* Names */

static leat_status put(const struct leat_home *h, const char *object, const struct leat_pointer *p, bool create_only,
                       struct leat_error *err)
{
    char text[LEAT_POINTER_MAX];
    char *key = leat_home_key(h, object);
    if (!key)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a name");
    leat_pointer_write(p, text);
    struct leat_store_op op = {
        .verb = LEAT_STORE_PUT, .key = key, .data = text, .data_n = strlen(text), .create_only = create_only};
    leat_status rc = leat_store_run(h->store, &op, err);
    free(key);
    return rc;
}

/* `name` NULL: the current version. */
static leat_status taken(const struct leat_home *h, const char *name, const struct leat_pointer *there,
                         struct leat_error *err)
{
    char hex[2 * LEAT_SHA256_SIZE + 1];
    leat_hex(there->id, LEAT_SHA256_SIZE, hex);
    if (!name)
        return leat_fail(err, LEAT_EXISTS, "version %.16s… of %s is the current one", hex, h->url);
    return leat_fail(err, LEAT_EXISTS, "'%s' is already the name of version %.16s… of %s", name, hex, h->url);
}

leat_status leat_versions_name(const struct leat_home *h, const char *name, const struct leat_pointer *p, bool replace,
                               struct leat_error *err)
{
    char object[LEAT_NAME_MAX] = LEAT_NAME_POINTER;
    struct leat_root_peek head;
    struct leat_pointer there;
    leat_status rc = name ? leat_name_named(name, object, err) : LEAT_OK;
    if (rc == LEAT_OK)
        rc = peek(h, p, &head, err);
    if (rc != LEAT_OK)
        return rc;
    if (replace)
        return put(h, object, p, false, err);
    rc = leat_home_pointer(h, object, &there, err);
    if (rc == LEAT_NOT_FOUND)
        return put(h, object, p, true, err); /* LEAT_EXISTS when somebody else was faster */
    if (rc == LEAT_OK && memcmp(there.id, p->id, sizeof p->id) != 0)
        rc = taken(h, name, &there, err);
    return rc == LEAT_OK ? put(h, object, p, false, err) : rc;
}

leat_status leat_versions_forget(const struct leat_home *h, const char *name, struct leat_error *err)
{
    char object[LEAT_NAME_MAX];
    struct leat_object found;
    leat_status rc = leat_name_named(name, object, err);
    if (rc != LEAT_OK)
        return rc;
    char *key = leat_home_key(h, object);
    if (!key)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a name");
    rc = leat_store_stat(h->store, key, &found, err);
    if (rc == LEAT_NOT_FOUND)
        rc = leat_fail(err, LEAT_NOT_FOUND, "no version of the dataset at %s has the name '%s'", h->url, name);
    if (rc == LEAT_OK)
        rc = leat_store_delete(h->store, key, err);
    free(key);
    return rc;
}
