#include "dataset/publish.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "store/upload.h"

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for a name");
}

static leat_status look_at(const struct leat_home *h, const char *object, struct leat_publish_seen *out,
                           struct leat_error *err)
{
    struct leat_object found;
    char *key = leat_home_key(h, object);
    if (!key)
        return no_memory(err);
    leat_status rc = leat_store_stat(h->store, key, &found, err);
    free(key);
    if (rc != LEAT_OK && rc != LEAT_NOT_FOUND)
        return rc;
    memcpy(out->object, object, strlen(object) + 1);
    out->there = rc == LEAT_OK;
    if (out->there)
        memcpy(out->etag, found.etag, sizeof out->etag);
    return LEAT_OK;
}

leat_status leat_publish_begin(const struct leat_home *h, const struct leat_publish_opts *opts,
                               struct leat_publish *out, struct leat_error *err)
{
    struct leat_publish p = {.guarded = true};
    char object[LEAT_NAME_MAX];
    leat_status rc = leat_home_check_plain(h, err);
    if (rc == LEAT_OK && opts->keep_current && !opts->name)
        rc = leat_fail(err, LEAT_INVALID, "a dataset that is not the current one needs a name");
    if (rc == LEAT_OK && opts->name)
        rc = leat_name_named(opts->name, object, err);
    if (rc == LEAT_OK && opts->name)
        rc = look_at(h, object, &p.named, err);
    if (rc == LEAT_OK && !opts->keep_current)
        rc = look_at(h, LEAT_NAME_POINTER, &p.current, err);
    if (rc != LEAT_OK)
        return rc;
    if (p.named.there && !opts->replace)
        return leat_fail(err, LEAT_EXISTS,
                         "there is a version '%s' at %s already; --replace gives its name to the new one", opts->name,
                         h->url);
    if (p.current.there && !opts->replace)
        return leat_fail(err, LEAT_EXISTS,
                         "there is a dataset at %s already; --replace replaces it, --name with --no-current adds a "
                         "version beside it",
                         h->url);
    *out = p;
    return LEAT_OK;
}

/* Sections */

static leat_status upload_piece(void *user, const void *data, size_t n, struct leat_error *err)
{
    return leat_upload_add(user, data, n, err);
}

static leat_status put_section(const struct leat_home *h, const struct leat_snapshot_files *files, uint32_t i,
                               struct leat_error *err)
{
    const struct leat_root_section *s = &files->sections[i];
    struct leat_upload *upload = NULL;
    char name[LEAT_NAME_MAX];
    leat_name_section(s->name, name);
    char *key = leat_home_key(h, name);
    leat_status rc = key ? leat_upload_open(h->store, key, s->size, 0, &upload, err) : no_memory(err);
    if (rc == LEAT_OK)
        rc = leat_snapshot_emit(files, s->kind, upload_piece, upload, err);
    if (rc == LEAT_OK)
        rc = leat_upload_finish(upload, err);
    leat_upload_close(upload);
    free(key);
    return rc;
}

/* Pointers */

/* Whether the store keeps to a condition that cannot hold: that an object which is there is not, or has another tag.
 * Writes the bytes it has already where the store does not. */
static leat_status try_condition(const struct leat_home *h, const char *key, const char *text, const char *if_match,
                                 bool *kept, struct leat_error *err)
{
    struct leat_store_op op = {.verb = LEAT_STORE_PUT,
                               .key = key,
                               .data = text,
                               .data_n = strlen(text),
                               .if_match = if_match,
                               .create_only = !if_match};
    leat_status rc = leat_store_run(h->store, &op, err);
    *kept = *kept && (rc == LEAT_EXISTS || rc == LEAT_CHANGED);
    return rc == LEAT_EXISTS || rc == LEAT_CHANGED || rc == LEAT_UNSUPPORTED ? LEAT_OK : rc;
}

/* Stores the version's own pointer, which is the same for everybody who publishes this content, and finds out with it
 * whether the store can be trusted with the others. A file system can, or says that it cannot. */
static leat_status put_version(const struct leat_home *h, struct leat_publish *p, const struct leat_pointer *pointer,
                               const char *text, struct leat_error *err)
{
    char name[LEAT_NAME_MAX];
    leat_name_version(pointer->id, name);
    char *key = leat_home_key(h, name);
    if (!key)
        return no_memory(err);
    bool creates = (*p->named.object && !p->named.there) || (*p->current.object && !p->current.there);
    bool replaces = p->named.there || p->current.there;
    bool bucket = leat_store_scheme(h->store) == LEAT_SCHEME_S3;
    leat_status rc = leat_store_put(h->store, key, text, strlen(text), NULL, err);
    if (rc == LEAT_OK && bucket && creates)
        rc = try_condition(h, key, text, NULL, &p->guarded, err);
    if (rc == LEAT_OK && bucket && replaces)
        rc = try_condition(h, key, text, "\"00000000000000000000000000000000\"", &p->guarded, err);
    free(key);
    return rc;
}

/* Without conditions: looks before and after. Nobody is kept from writing in between. */
static leat_status put_unguarded(const struct leat_home *h, const struct leat_publish_seen *seen, const char *key,
                                 const char *text, struct leat_error *err)
{
    struct leat_publish_seen now = {0};
    char *found = NULL;
    size_t n = 0;
    leat_status rc = look_at(h, seen->object, &now, err);
    if (rc == LEAT_OK && (now.there != seen->there || strcmp(now.etag, seen->etag) != 0))
        return leat_fail(err, LEAT_CHANGED, "%s is another now", seen->object);
    if (rc == LEAT_OK)
        rc = leat_store_put(h->store, key, text, strlen(text), NULL, err);
    if (rc == LEAT_OK)
        rc = leat_store_load(h->store, key, LEAT_POINTER_MAX, &found, &n, NULL, err);
    if (rc == LEAT_OK && (n != strlen(text) || memcmp(found, text, n) != 0))
        rc = leat_fail(err, LEAT_CHANGED, "%s is another now", seen->object);
    free(found);
    return rc;
}

static leat_status put_pointer(const struct leat_home *h, struct leat_publish *p, const struct leat_publish_seen *seen,
                               const struct leat_pointer *pointer, const char *text, struct leat_error *err)
{
    if (!*seen->object)
        return LEAT_OK;
    char *key = leat_home_key(h, seen->object);
    if (!key)
        return no_memory(err);
    leat_status rc = LEAT_UNSUPPORTED;
    if (p->guarded)
        rc = leat_store_put_if(h->store, key, text, strlen(text), seen->there ? seen->etag : NULL, NULL, err);
    if (rc == LEAT_UNSUPPORTED) {
        p->guarded = false;
        rc = put_unguarded(h, seen, key, text, err);
    }
    free(key);
    if (rc == LEAT_EXISTS || rc == LEAT_CHANGED) {
        char id[2 * LEAT_SHA256_SIZE + 1];
        leat_hex(pointer->id, sizeof pointer->id, id);
        rc =
            leat_fail(err, rc,
                      "somebody else has published at %s meanwhile, and %s leads there. What was packed is stored too: "
                      "'%s?id=%s' opens it",
                      h->url, seen->object, h->url, id);
    }
    return rc;
}

leat_status leat_publish(const struct leat_home *h, const struct leat_snapshot *const *packings, uint32_t n,
                         struct leat_publish *p, struct leat_pointer *out, struct leat_error *err)
{
    struct leat_snapshot_files files;
    char name[LEAT_NAME_MAX];
    char text[LEAT_POINTER_MAX];
    leat_status rc = leat_snapshot_write(packings, n, &files, err);
    for (uint32_t i = 0; rc == LEAT_OK && i < LEAT_SNAPSHOT_SECTIONS; i++)
        rc = put_section(h, &files, i, err);
    if (rc == LEAT_OK) {
        leat_name_root(files.pointer.root, name);
        rc = leat_home_put(h, name, files.root.data, files.root.len, err);
    }
    if (rc == LEAT_OK) {
        leat_pointer_write(&files.pointer, text);
        rc = put_version(h, p, &files.pointer, text, err);
    }
    if (rc == LEAT_OK)
        rc = put_pointer(h, p, &p->named, &files.pointer, text, err);
    if (rc == LEAT_OK)
        rc = put_pointer(h, p, &p->current, &files.pointer, text, err);
    if (rc == LEAT_OK)
        *out = files.pointer;
    leat_snapshot_files_free(&files);
    return rc;
}
