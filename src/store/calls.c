/* The calls that wait for their operation, and lists. */
#include <stdlib.h>
#include <string.h>

#include "store/backend.h"
#include "store/wait.h"

#define LOAD_FIRST (64u << 10)

struct running {
    struct leat_store *store;
    struct leat_store_op *op;
};

static void cancel_running(void *arg)
{
    const struct running *r = arg;
    leat_store_cancel(r->store, r->op);
}

leat_status leat_store_run(struct leat_store *store, struct leat_store_op *op, struct leat_error *err)
{
    struct running r = {store, op};
    struct leat_wait w;
    leat_wait_init_for(&w, store);
    if (op->ignore_stop)
        w.stop = NULL;
    op->err = err;
    leat_wait_submit(&w, store, op);
    leat_wait_for(&w, 0, cancel_running, &r);
    leat_wait_end(&w);
    return op->status;
}

leat_status leat_store_stat(struct leat_store *store, const char *key, struct leat_object *out, struct leat_error *err)
{
    struct leat_object object = {0};
    struct leat_store_op op = {.verb = LEAT_STORE_STAT, .key = key, .object = &object};
    leat_status rc = leat_store_run(store, &op, err);
    if (rc == LEAT_OK)
        *out = object;
    return rc;
}

leat_status leat_store_look(struct leat_store *store, const char *key, struct leat_object *out, struct leat_error *err)
{
    struct leat_object object = {0};
    struct leat_store_op op = {.verb = LEAT_STORE_STAT, .key = key, .verify = true, .object = &object};
    leat_status rc = leat_store_run(store, &op, err);
    if (rc == LEAT_OK)
        *out = object;
    return rc;
}

leat_status leat_store_get(struct leat_store *store, const char *key, uint64_t offset, uint64_t length, void *into,
                           const char *if_match, struct leat_error *err)
{
    struct leat_store_op op = {
        .verb = LEAT_STORE_GET, .key = key, .offset = offset, .length = length, .into = into, .if_match = if_match};
    return leat_store_run(store, &op, err);
}

leat_status leat_store_load(struct leat_store *store, const char *key, size_t max, char **data, size_t *n,
                            struct leat_object *object, struct leat_error *err)
{
    size_t first = max < LOAD_FIRST ? max : LOAD_FIRST;
    char *text = malloc(first + 1);
    if (!text)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to load '%s'", key);
    struct leat_object whole;
    struct leat_store_op op = {.verb = LEAT_STORE_GET,
                               .key = key,
                               .length = first,
                               .into = text,
                               .short_ok = true,
                               .verify = true,
                               .object = &whole};
    leat_status rc = leat_store_run(store, &op, err);
    if (rc != LEAT_OK)
        goto fail;
    size_t got = (size_t)op.got;
    if (whole.size == UINT64_MAX) {
        rc = leat_fail(err, LEAT_UNSUPPORTED, "cannot load '%s': the server does not say how long it is", key);
        goto fail;
    }
    if (whole.size > max) {
        rc = leat_fail(err, LEAT_LIMIT, "'%s' holds %llu bytes, more than the %zu allowed here", key,
                       (unsigned long long)whole.size, max);
        goto fail;
    }
    if (whole.size > got) {
        char *more = realloc(text, (size_t)whole.size + 1);
        if (!more) {
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory to load '%s'", key);
            goto fail;
        }
        text = more;
        rc = leat_store_get(store, key, got, whole.size - got, text + got, whole.etag[0] ? whole.etag : NULL, err);
        if (rc != LEAT_OK)
            goto fail;
        got = (size_t)whole.size;
    }
    text[got] = '\0';
    *data = text;
    *n = got;
    if (object)
        *object = whole;
    return LEAT_OK;
fail:
    free(text);
    return rc;
}

leat_status leat_store_put(struct leat_store *store, const char *key, const void *data, size_t n,
                           struct leat_object *object, struct leat_error *err)
{
    struct leat_object stored = {0};
    struct leat_store_op op = {.verb = LEAT_STORE_PUT, .key = key, .data = data, .data_n = n, .object = &stored};
    leat_status rc = leat_store_run(store, &op, err);
    if (rc == LEAT_OK && object)
        *object = stored;
    return rc;
}

leat_status leat_store_has_bytes(struct leat_store *store, const char *key, const void *data, size_t n, bool *out,
                                 struct leat_object *object, struct leat_error *err)
{
    char *found = NULL;
    size_t found_n;
    leat_status rc = leat_store_load(store, key, n, &found, &found_n, object, err);
    if (rc == LEAT_NO_MEMORY || rc == LEAT_CANCELLED)
        return rc;
    *out = rc == LEAT_OK && found_n == n && memcmp(found, data, n) == 0;
    free(found);
    return LEAT_OK;
}

/* Ceph's radosgw 16 compares If-Match with the tag without its quotes. True when the object is the one expected all the
 * same and `bare` has the tag to try. */
static bool try_bare(struct leat_store *store, const char *key, const char *if_match, char bare[LEAT_ETAG_MAX])
{
    struct leat_object now;
    size_t n = if_match ? strlen(if_match) : 0;
    if (!leat_store_can(store, LEAT_STORE_S3) || n < 3 || n >= LEAT_ETAG_MAX || if_match[0] != '"' ||
        leat_store_stat(store, key, &now, NULL) != LEAT_OK || strcmp(now.etag, if_match) != 0)
        return false;
    memcpy(bare, if_match + 1, n - 2);
    bare[n - 2] = '\0';
    return true;
}

leat_status leat_store_put_if(struct leat_store *store, const char *key, const void *data, size_t n,
                              const char *if_match, struct leat_object *object, struct leat_error *err)
{
    struct leat_object stored;
    struct leat_store_op op = {.verb = LEAT_STORE_PUT,
                               .key = key,
                               .data = data,
                               .data_n = n,
                               .if_match = if_match,
                               .create_only = !if_match,
                               .object = &stored};
    char bare[LEAT_ETAG_MAX];
    leat_status rc = leat_store_run(store, &op, err);
    if (rc == LEAT_CHANGED && try_bare(store, key, if_match, bare)) {
        op.if_match = bare;
        rc = leat_store_run(store, &op, err);
    }
    bool ours = false;
    if ((rc == LEAT_EXISTS || rc == LEAT_CHANGED) &&
        leat_store_has_bytes(store, key, data, n, &ours, &stored, NULL) == LEAT_OK && ours)
        rc = LEAT_OK;
    if (rc == LEAT_OK && object)
        *object = stored;
    return rc;
}

leat_status leat_store_delete(struct leat_store *store, const char *key, struct leat_error *err)
{
    struct leat_store_op op = {.verb = LEAT_STORE_DELETE, .key = key};
    return leat_store_run(store, &op, err);
}

#define VERSION_MARK "?versionId="

leat_status leat_store_split_version(const struct leat_store *store, char *key, const char **version,
                                     struct leat_error *err)
{
    char *mark = NULL;
    for (char *p = leat_store_can(store, LEAT_STORE_VERSIONS) ? strstr(key, VERSION_MARK) : NULL; p;
         p = strstr(p + 1, VERSION_MARK))
        mark = p;
    *version = "";
    if (!mark)
        return LEAT_OK;
    const char *id = mark + sizeof VERSION_MARK - 1;
    size_t n = strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-+/=");
    if (!n || id[n] || n >= LEAT_VERSION_MAX)
        return leat_fail(err, LEAT_INVALID, "'%.100s' is not the id of a version; `leat ls --versions` shows them", id);
    *mark = '\0';
    *version = id;
    return LEAT_OK;
}

static void set_version(struct leat_object *object, const char *version)
{
    *object = (struct leat_object){0};
    strncat(object->version, version, sizeof object->version - 1);
}

leat_status leat_store_look_version(struct leat_store *store, const char *key, const char *version,
                                    struct leat_object *out, struct leat_error *err)
{
    struct leat_object meant;
    struct leat_object object = {0};
    struct leat_store_op op = {.verb = LEAT_STORE_STAT, .key = key, .verify = true, .known = &meant, .object = &object};
    set_version(&meant, version);
    leat_status rc = leat_store_run(store, &op, err);
    if (rc == LEAT_OK) {
        *out = object;
        memcpy(out->version, meant.version, sizeof out->version);
    }
    return rc;
}

leat_status leat_store_delete_version(struct leat_store *store, const char *key, const char *version,
                                      struct leat_error *err)
{
    struct leat_object meant;
    struct leat_store_op op = {.verb = LEAT_STORE_DELETE, .key = key, .known = &meant};
    set_version(&meant, version);
    return leat_store_run(store, &op, err);
}

leat_status leat_store_list_open(struct leat_store *store, const char *prefix, bool recursive, struct leat_list **out,
                                 struct leat_error *err)
{
    const struct leat_backend *backend = leat_store_backend(store);
    if (!backend->ops->list_open)
        return leat_fail(err, LEAT_UNSUPPORTED, "%s://%s is a web server: it cannot list what it holds",
                         leat_scheme_name(leat_store_scheme(store)), leat_store_host(store));
    return backend->ops->list_open(store, prefix, recursive, out, err);
}

leat_status leat_store_list_versions(struct leat_store *store, const char *prefix, bool recursive,
                                     struct leat_list **out, struct leat_error *err)
{
    const struct leat_backend *backend = leat_store_backend(store);
    if (!leat_store_can(store, LEAT_STORE_VERSIONS) || !backend->ops->list_versions)
        return leat_fail(err, LEAT_UNSUPPORTED, "versions of objects can be listed in s3:// only");
    return backend->ops->list_versions(store, prefix, recursive, out, err);
}

leat_status leat_store_list_after(struct leat_store *store, const char *prefix, const char *after,
                                  struct leat_list **out, struct leat_error *err)
{
    const struct leat_backend *backend = leat_store_backend(store);
    if (!backend->ops->list_after)
        return leat_store_list_open(store, prefix, true, out, err);
    return backend->ops->list_after(store, prefix, after, out, err);
}

leat_status leat_store_list_next(struct leat_list *list, struct leat_list_entry *entry, bool *end,
                                 struct leat_error *err)
{
    return list->next(list, entry, end, err);
}

void leat_store_list_close(struct leat_list *list)
{
    if (list)
        list->close(list);
}

struct placing {
    struct leat_store *store;
    struct leat_store_place *out;
};

static void place_here(void *arg)
{
    const struct placing *p = arg;
    const struct leat_backend *backend = leat_store_backend(p->store);
    if (backend->ops->place)
        backend->ops->place(backend, p->out);
    p->out->sends_whole = backend->warned_whole;
    p->out->date_s = backend->date_s;
}

void leat_store_place(struct leat_store *store, struct leat_store_place *out)
{
    struct placing p = {store, out};
    *out = (struct leat_store_place){0};
    leat_store_call(store, place_here, &p);
}

char *leat_store_key(const struct leat_url *url)
{
    struct leat_buf key;
    if (!url->query || !*url->query)
        return strdup(url->path);
    leat_buf_init(&key, 16 << 10);
    leat_buf_printf(&key, "%s?%s", url->path, url->query);
    return leat_buf_take(&key);
}

bool leat_store_perform(struct leat_store *store, struct leat_store_op *op)
{
    const struct leat_backend *backend = leat_store_backend(store);
    if (!backend->ops->perform || (op->verb != LEAT_STORE_STAT && op->verb != LEAT_STORE_GET))
        return false;
    struct leat_store_own own = {.op = op, .store = store};
    op->own = &own;
    op->status = LEAT_OK;
    op->got = 0;
    op->too_short = false;
    backend->ops->perform(op);
    op->own = NULL;
    if (op->err && op->status != LEAT_OK)
        *op->err = own.err;
    if (op->object)
        *op->object = own.object;
    return true;
}

bool leat_store_stopped(const struct leat_store *store)
{
    const struct leat_store_opts *opts = leat_store_settings(store);
    return opts->stop && opts->stop(opts->stop_user);
}

char *leat_store_lasting_url(struct leat_store *store, const char *url)
{
    struct leat_store_place place;
    struct leat_buf out;
    const char *host = leat_store_host(store);
    leat_store_place(store, &place);
    if (!place.commit[0])
        return strdup(url);
    leat_buf_init(&out, 1024);
    leat_buf_printf(&out, "%s://%.*s@%s/", leat_scheme_name(leat_store_scheme(store)), (int)strcspn(host, "@"), host,
                    place.commit);
    return leat_buf_take(&out);
}
