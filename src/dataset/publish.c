#include "dataset/publish.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "dataset/add.h"
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

/* Whether the pointer that may be replaced leads to the version that is added to. */
static leat_status leads_to(const struct leat_home *h, const struct leat_dataset *d, bool *out, struct leat_error *err)
{
    struct leat_pointer current;
    leat_status rc = leat_home_pointer(h, LEAT_NAME_POINTER, &current, err);
    *out = rc == LEAT_OK && memcmp(current.id, leat_dataset_id(d), sizeof current.id) == 0;
    return rc == LEAT_NOT_FOUND ? LEAT_OK : rc;
}

static leat_status check_add_to(const struct leat_home *h, const struct leat_publish_opts *opts,
                                const struct leat_publish *p, struct leat_error *err)
{
    bool same = false;
    leat_status rc = p->current.there ? leads_to(h, opts->add_to, &same, err) : LEAT_OK;
    if (rc == LEAT_OK && p->current.there && !same && !opts->replace)
        rc = leat_fail(err, LEAT_EXISTS,
                       "the current version of %s is not the one that is added to; --replace replaces it, --name "
                       "with --no-current leaves it",
                       h->url);
    return rc;
}

leat_status leat_publish_begin(const struct leat_home *h, const struct leat_publish_opts *opts,
                               struct leat_publish *out, struct leat_error *err)
{
    struct leat_publish p = {.add_to = opts->add_to, .guarded = true};
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
        return leat_fail(
            err, LEAT_EXISTS,
            "there is a version '%s' at %s already; --replace (replace=True) gives its name to the new one", opts->name,
            h->url);
    if (opts->add_to)
        rc = check_add_to(h, opts, &p, err);
    if (rc != LEAT_OK)
        return rc;
    if (p.current.there && !opts->replace && !opts->add_to)
        return leat_fail(
            err, LEAT_EXISTS,
            "there is a dataset at %s already; --replace (replace=True) replaces it, --name with --no-current adds a "
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
    bool bucket = leat_store_can(h->store, LEAT_STORE_BUCKET);
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
        return leat_fail(err, LEAT_CHANGED, "%s has changed", seen->object);
    if (rc == LEAT_OK)
        rc = leat_store_put(h->store, key, text, strlen(text), NULL, err);
    if (rc == LEAT_OK)
        rc = leat_store_load(h->store, key, LEAT_POINTER_MAX, &found, &n, NULL, err);
    if (rc == LEAT_OK && (n != strlen(text) || memcmp(found, text, n) != 0))
        rc = leat_fail(err, LEAT_CHANGED, "%s has changed", seen->object);
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
        rc = leat_fail(err, rc,
                       "someone else has published at %s meanwhile, and %s points to that. What was packed is stored "
                       "too: '%s?id=%s' opens it",
                       h->url, seen->object, h->url, id);
    }
    return rc;
}

/* Whether what the new version shares with others is still there. */
static leat_status check_shared(const struct leat_home *h, const struct leat_publish *p, struct leat_error *err)
{
    struct leat_rely old = {0};
    leat_status rc = p->add_to ? leat_rely_on_root(&old, leat_dataset_root_id(p->add_to), err) : LEAT_OK;
    if (rc == LEAT_OK)
        rc = leat_rely_check(&old, h, err);
    if (rc == LEAT_OK && p->rely)
        rc = leat_rely_check(p->rely, h, err);
    leat_rely_free(&old);
    return rc;
}

leat_status leat_publish_root(const struct leat_home *h, const struct leat_buf *root,
                              const struct leat_pointer *pointer, struct leat_publish *p, struct leat_error *err)
{
    char name[LEAT_NAME_MAX];
    char text[LEAT_POINTER_MAX];
    leat_name_root(pointer->root, name);
    leat_pointer_write(pointer, text);
    leat_status rc = leat_home_put(h, name, root->data, root->len, err);
    if (rc == LEAT_OK)
        rc = check_shared(h, p, err);
    if (rc == LEAT_OK)
        rc = put_version(h, p, pointer, text, err);
    if (rc == LEAT_OK)
        rc = put_pointer(h, p, &p->named, pointer, text, err);
    if (rc == LEAT_OK)
        rc = put_pointer(h, p, &p->current, pointer, text, err);
    return rc;
}

leat_status leat_publish_check(const struct leat_publish *p, const struct leat_schema *schema, const uint8_t *pack,
                               struct leat_error *err)
{
    leat_status rc = p->add_to ? leat_add_check(p->add_to, schema, err) : LEAT_OK;
    return rc == LEAT_OK && p->add_to && pack ? leat_add_check_packing(p->add_to, pack, err) : rc;
}

/* Those of the version that is added to, then the new ones. The caller frees the list, not what is in it. */
static leat_status join(const struct leat_publish *p, const struct leat_snapshot *const *packings, uint32_t n,
                        struct leat_add *old, const struct leat_snapshot ***out, struct leat_error *err)
{
    leat_status rc = p->add_to ? leat_add_load(p->add_to, 0, old, err) : LEAT_OK;
    for (uint32_t i = 0; rc == LEAT_OK && i < n && leat_snapshot_chunks(packings[i]); i++)
        rc = leat_publish_check(p, leat_snapshot_schema(packings[i]), leat_snapshot_pack(packings[i]), err);
    if (rc != LEAT_OK)
        return rc;
    const struct leat_snapshot **all = malloc(((size_t)old->n + n + 1) * sizeof(struct leat_snapshot *));
    if (!all)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a list of packings");
    for (uint32_t i = 0; i < old->n; i++)
        all[i] = old->packings[i];
    for (uint32_t i = 0; i < n; i++)
        all[old->n + i] = packings[i];
    *out = all;
    return LEAT_OK;
}

leat_status leat_publish(const struct leat_home *h, const struct leat_snapshot *const *packings, uint32_t n,
                         struct leat_publish *p, struct leat_pointer *out, struct leat_error *err)
{
    struct leat_snapshot_files files = {0};
    struct leat_add old = {0};
    const struct leat_snapshot **all = NULL;
    leat_status rc = join(p, packings, n, &old, &all, err);
    if (rc == LEAT_OK)
        rc = leat_snapshot_write(all, old.n + n, &files, err);
    for (uint32_t i = 0; rc == LEAT_OK && i < files.sections_n; i++)
        rc = put_section(h, &files, i, err);
    if (rc == LEAT_OK)
        rc = leat_publish_root(h, &files.root, &files.pointer, p, err);
    if (rc == LEAT_OK)
        *out = files.pointer;
    leat_snapshot_files_free(&files);
    free(all);
    leat_add_free(&old);
    return rc;
}
