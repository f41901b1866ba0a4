/* Listing a bucket: a page is read by the caller while the next one is on its way. */
#include <stdlib.h>
#include <string.h>

#include "store/bucket.h"
#include "store/list_check.h"
#include "store/s3_xml.h"
#include "store/wait.h"

struct bucket_list {
    struct leat_list list; /* first member */
    struct leat_store *store;
    char *prefix;
    bool recursive;
    bool versions;
    struct leat_s3_page page; /* being read */
    size_t at;
    char *after; /* where the first page begins, or NULL */
    char *token; /* of the page on its way */
    struct leat_list_check check;
    bool on_its_way;
    struct leat_error failed; /* status LEAT_OK: nothing has */
    struct leat_store_op op;
    struct leat_error err; /* of op */
    struct leat_buf text;  /* … and its page */
    struct leat_wait wait;
};

static void cancel(void *arg)
{
    struct bucket_list *l = arg;
    leat_store_cancel(l->store, &l->op);
}

static void ask(struct bucket_list *l)
{
    l->op = (struct leat_store_op){
        .verb = LEAT_STORE_LIST,
        .key = l->prefix,
        .delimiter = l->recursive ? NULL : "/",
        .token = l->token,
        .after = l->after,
        .versions = l->versions,
        .err = &l->err,
        .text = &l->text,
    };
    l->on_its_way = true;
    leat_wait_submit(&l->wait, l->store, &l->op);
}

static void await(struct bucket_list *l)
{
    leat_wait_for(&l->wait, 0, cancel, l);
    l->on_its_way = false;
}

/* A list that broke off must never pass for one that ended, however often it is asked. */
static leat_status fail_again(const struct bucket_list *l, struct leat_error *err)
{
    if (err)
        *err = l->failed;
    return l->failed.status;
}

typedef leat_status parse_page(const char *xml, size_t n, struct leat_s3_page *out, struct leat_error *err);

static const struct bucket *bucket_of(struct leat_store *store)
{
    return (const struct bucket *)leat_store_backend(store);
}

static parse_page *parse_of(const struct bucket_list *l)
{
    return l->versions ? leat_s3_parse_versions : bucket_of(l->store)->dialect->page;
}

/* Takes the page that was on its way and sends for the one after it. */
static leat_status turn_page(struct bucket_list *l, struct leat_error *err)
{
    await(l);
    leat_s3_page_free(&l->page);
    l->at = 0;
    leat_status rc = l->op.status;
    if (rc != LEAT_OK)
        l->failed = l->err;
    else
        rc = parse_of(l)(l->text.data, l->text.len, &l->page, &l->failed);
    leat_buf_free(&l->text);
    if (rc == LEAT_OK)
        rc = leat_list_check_page(&l->check, &l->page, 0, l->page.token, &l->failed);
    if (rc != LEAT_OK && l->op.status == LEAT_OK)
        leat_fail_context(&l->failed, rc, "cannot list '%s://%s/%s'", leat_scheme_name(leat_store_scheme(l->store)),
                          leat_store_host(l->store), l->prefix);
    free(l->token);
    l->token = NULL;
    if (rc != LEAT_OK) {
        leat_s3_page_free(&l->page); /* nothing of it is handed out */
        return fail_again(l, err);
    }
    l->token = l->page.token;
    l->page.token = NULL;
    if (l->token)
        ask(l);
    return LEAT_OK;
}

static leat_status next(struct leat_list *list, struct leat_list_entry *entry, bool *end, struct leat_error *err)
{
    struct bucket_list *l = (struct bucket_list *)list;
    while (l->at == l->page.n) { /* a page may be empty and still have a successor */
        if (l->failed.status != LEAT_OK)
            return fail_again(l, err);
        if (!l->on_its_way) {
            *end = true;
            return LEAT_OK;
        }
        leat_status rc = turn_page(l, err);
        if (rc != LEAT_OK)
            return rc;
    }
    const struct leat_s3_entry *e = &l->page.entries[l->at++];
    *entry = (struct leat_list_entry){
        .key = leat_s3_page_string(&l->page, e->key),
        .prefix = e->prefix,
        .size = e->size,
        .modified_s = e->modified_s,
        .etag = leat_s3_page_string(&l->page, e->etag),
        .storage_class = leat_s3_page_string(&l->page, e->storage_class),
        .version = leat_s3_page_string(&l->page, e->version),
        .latest = e->latest,
        .deleted = e->deleted,
    };
    *end = false;
    return LEAT_OK;
}

static void close_list(struct leat_list *list)
{
    struct bucket_list *l = (struct bucket_list *)list;
    if (l->on_its_way) {
        leat_store_cancel(l->store, &l->op);
        await(l);
        leat_buf_free(&l->text);
    }
    leat_s3_page_free(&l->page);
    leat_list_check_free(&l->check);
    leat_wait_end(&l->wait);
    free(l->token);
    free(l->prefix);
    free(l->after);
    free(l);
}

static leat_status open_list(struct leat_store *store, const char *prefix, bool recursive, bool versions,
                             const char *after, struct leat_list **out, struct leat_error *err)
{
    struct bucket_list *l = calloc(1, sizeof *l);
    char *copy = strdup(prefix);
    char *from = after ? strdup(after) : NULL;
    if (!l || !copy || (after && !from)) {
        free(l);
        free(copy);
        free(from);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a listing");
    }
    l->list.next = next;
    l->list.close = close_list;
    l->store = store;
    l->prefix = copy;
    l->after = from;
    l->recursive = recursive;
    l->versions = versions;
    const struct bucket *b = bucket_of(store);
    leat_list_check_init(&l->check, copy, strlen(copy), b->dialect->ordered && !b->directory, versions);
    leat_wait_init_for(&l->wait, store);
    ask(l);
    *out = &l->list;
    return LEAT_OK;
}

leat_status leat_bucket_list_open(struct leat_store *store, const char *prefix, bool recursive, struct leat_list **out,
                                  struct leat_error *err)
{
    return open_list(store, prefix, recursive, false, NULL, out, err);
}

leat_status leat_bucket_list_after(struct leat_store *store, const char *prefix, const char *after,
                                   struct leat_list **out, struct leat_error *err)
{
    return open_list(store, prefix, true, false, after, out, err);
}

leat_status leat_bucket_list_versions(struct leat_store *store, const char *prefix, bool recursive,
                                      struct leat_list **out, struct leat_error *err)
{
    return open_list(store, prefix, recursive, true, NULL, out, err);
}
