/* Copies that a server makes by itself, and what goes with an object besides its bytes. */
#include <string.h>

#include "base/log.h"
#include "store/attributes.h"
#include "store/copy_impl.h"

/* What a resume leaves out: the same size, and not older than the source. */
bool leat_copy_same(const struct leat_object *source, const struct leat_object *there)
{
    return there->size == source->size && there->modified_s >= source->modified_s;
}

/* What the copy gets: what the source had, by what its name says where it had nothing, and what was asked for. */
leat_status leat_copy_attributes(const struct job *job, struct leat_buf *text, struct leat_error *err)
{
    const struct leat_copy *c = job->copy;
    bool same = leat_store_same_scheme(c->opts.from, c->opts.to);
    const char *guess = leat_store_can(c->opts.from, LEAT_STORE_LOCAL) ? leat_attributes_guess(job->to_key) : NULL;
    struct leat_buf had = *text;
    leat_status rc = leat_buf_check(&had, "an object's attributes", err);
    leat_buf_init(text, LEAT_ATTRIBUTES_MAX);
    const char *at = had.len ? had.data : NULL;
    const char *name;
    const char *value;
    size_t name_n;
    size_t value_n;
    while (rc == LEAT_OK && leat_attributes_next(&at, &name, &name_n, &value, &value_n)) {
        if (same || strncmp(name, "storage-", 8) != 0) /* each kind has classes of its own */
            leat_buf_printf(text, "%.*s: %.*s\n", (int)name_n, name, (int)value_n, value);
    }
    leat_buf_free(&had);
    if (rc == LEAT_OK && guess)
        rc = leat_attributes_set(text, "content-type", guess, err);
    if (rc == LEAT_OK)
        rc = leat_attributes_merge(text, c->opts.attributes, err);
    return rc == LEAT_OK ? leat_buf_check(text, "an object's attributes", err) : rc;
}

/* With its attributes. */
leat_status leat_copy_look(struct leat_store *store, const char *key, const char *version, struct leat_object *out,
                           struct leat_buf *attributes, struct leat_error *err)
{
    struct leat_object meant = {0};
    struct leat_object object = {0};
    struct leat_store_op op = {.verb = LEAT_STORE_STAT,
                               .key = key,
                               .verify = true,
                               .known = &meant,
                               .found = leat_store_can(store, LEAT_STORE_LOCAL) ? NULL : attributes,
                               .object = &object};
    strncat(meant.version, version, sizeof meant.version - 1);
    leat_status rc = leat_store_run(store, &op, err);
    if (rc == LEAT_OK) {
        *out = object;
        memcpy(out->version, meant.version, sizeof out->version);
    }
    return rc;
}

bool leat_copy_there_already(const struct job *job)
{
    struct leat_object there;
    return leat_store_stat(job->copy->opts.to, job->to_key, &there, NULL) == LEAT_OK &&
           leat_copy_same(&job->object, &there);
}

/* How the server is to copy an object. The first one is copied here and now, to see whether it can. */
leat_status leat_copy_by_server(struct job *job, bool *done, struct leat_error *err)
{
    struct leat_copy *c = job->copy;
    leat_status rc = LEAT_OK;
    bool whole = job->object.size <= c->server_whole;
    if (!whole && !c->server_parts)
        return LEAT_OK; /* too large for it: by this machine */
    job->by_server = true;
    job->source = (struct leat_store_source){leat_store_host(c->opts.from), job->from_key, &job->object};
    if (!whole || c->opts.attributes) {
        rc = leat_copy_attributes(job, &job->attributes, err);
    } else { /* a copy has all the source's but this one */
        leat_buf_clear(&job->attributes);
        if (job->object.storage_class[0])
            rc = leat_attributes_set(&job->attributes, "storage-class", job->object.storage_class, err);
    }
    if (rc != LEAT_OK || c->server_did || !whole)
        return rc;
    if (c->opts.resume && leat_copy_there_already(job)) { /* which is found out again, and it is left out */
        job->by_server = false;
        return LEAT_OK;
    }
    struct leat_store_op op = {.verb = LEAT_STORE_COPY,
                               .key = job->to_key,
                               .source = &job->source,
                               .attributes = job->attributes.len ? job->attributes.data : NULL};
    rc = leat_store_run(c->opts.to, &op, err);
    if (rc == LEAT_UNSUPPORTED) {
        leat_log(LEAT_LOG_WARN, "the server does not copy by itself (%s): the bytes come through this machine",
                 err ? err->text : "");
        c->by_server = job->by_server = false;
        leat_buf_clear(&job->attributes); /* what a copy lacks is not what the source has */
        return leat_copy_look(c->opts.from, job->from_key, job->object.version, &job->object, &job->attributes, err);
    }
    c->server_did = rc == LEAT_OK;
    *done = rc == LEAT_OK;
    pthread_mutex_lock(&c->mu);
    c->progress.bytes_planned += *done ? job->object.size : 0;
    c->progress.bytes += *done ? job->object.size : 0;
    c->progress.objects += *done;
    pthread_mutex_unlock(&c->mu);
    return rc;
}

/* Whether both ends are of one server that can copy, and as the same user; and how much it copies at once. */
bool leat_copy_one_server(struct leat_copy *c)
{
    const struct leat_copy_opts *opts = &c->opts;
    struct leat_store_place from;
    struct leat_store_place to;
    if (!leat_store_can(opts->from, LEAT_STORE_COPIES) || !leat_store_can(opts->to, LEAT_STORE_COPIES))
        return false;
    leat_store_place(opts->from, &from);
    leat_store_place(opts->to, &to);
    c->server_whole = to.copies_whole;
    c->server_parts = to.copies_parts;
    return from.server[0] && strcmp(from.server, to.server) == 0 && strcmp(from.key_id, to.key_id) == 0;
}
