/* Listing a repository. The Hub lists folders, not prefixes, and promises no order: so all pages of a folder are read,
 * what begins with the prefix is kept, and sorted. A repository has some hundred thousand files at most. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/json.h"
#include "base/log.h"
#include "store/hf.h"
#include "store/list_check.h"
#include "store/s3_xml.h"

#define STRINGS_MAX (1u << 30)

struct hf_list {
    struct leat_list list; /* first member */
    struct leat_store *store;
    char *prefix;
    bool recursive;
    bool filled;
    struct leat_s3_page page;
    size_t at;
    struct leat_error failed; /* status LEAT_OK: nothing has */
};

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for a listing");
}

/* Offset of a copy of the pieces, one after the other. */
static size_t add_string(struct leat_buf *b, const char *a, const char *between, const char *c)
{
    size_t at = b->len;
    leat_buf_str(b, a);
    leat_buf_str(b, between);
    leat_buf_str(b, c);
    leat_buf_add(b, "", 1);
    return at;
}

/* {"type": "file", "path": …, "oid": …, "size": …, "lfs": {"oid": …, "size": …}} */
static leat_status add_entry(const json_t *item, struct leat_s3_page *page, struct leat_error *err)
{
    const char *type = json_string_value(json_object_get(item, "type"));
    const char *path = json_string_value(json_object_get(item, "path"));
    const json_t *lfs = json_object_get(item, "lfs");
    const json_t *from = json_is_object(lfs) ? lfs : item;
    const char *oid = json_string_value(json_object_get(from, "oid"));
    const json_t *size = json_object_get(from, "size");
    if (!type || !path || !*path)
        return leat_fail(err, LEAT_SERVER, "the server's list has an entry without a type or a path");
    bool folder = strcmp(type, "directory") == 0;
    if (!folder && strcmp(type, "file") != 0) {
        leat_log(LEAT_LOG_WARN, "'%.200s' is left out of the list: the Hub calls it a '%.40s'", path, type);
        return LEAT_OK;
    }
    if (!folder && (!oid || !json_is_integer(size) || json_integer_value(size) < 0))
        return leat_fail(err, LEAT_SERVER, "the server's list does not say how long '%.200s' is, or which version",
                         path);
    struct leat_s3_entry e = {.prefix = folder, .size = folder ? 0 : (uint64_t)json_integer_value(size)};
    e.key = add_string(&page->strings, path, folder ? "/" : "", "");
    e.etag = folder ? add_string(&page->strings, "", "", "") : add_string(&page->strings, "\"", oid, "\"");
    if (page->strings.failed)
        return leat_buf_check(&page->strings, "a listing", err);
    if (page->n == page->cap) {
        size_t cap = page->cap ? 2 * page->cap : 256;
        struct leat_s3_entry *more = realloc(page->entries, cap * sizeof *more);
        if (!more)
            return no_memory(err);
        page->entries = more;
        page->cap = cap;
    }
    page->entries[page->n++] = e;
    return LEAT_OK;
}

leat_status leat_hf_parse_page(const char *text, size_t n, struct leat_s3_page *page, struct leat_error *err)
{
    json_t *json = NULL;
    leat_status rc = leat_json_read(text, n, 0, &json, NULL);
    if (rc == LEAT_NO_MEMORY)
        return no_memory(err);
    if (rc != LEAT_OK || !json_is_array(json))
        rc = leat_fail(err, LEAT_SERVER, "the answer is not a list");
    for (size_t i = 0; rc == LEAT_OK && i < json_array_size(json); i++)
        rc = add_entry(json_array_get(json, i), page, err);
    json_decref(json);
    return rc;
}

bool leat_hf_parse_link(const char *value, size_t n, char *out, size_t size)
{
    static const char rel[] = "rel=\"next\"";
    const char *end = value + n;
    out[0] = '\0';
    while (value < end) {
        const char *open = memchr(value, '<', (size_t)(end - value));
        const char *close = open ? memchr(open, '>', (size_t)(end - open)) : NULL;
        if (!close)
            return true;
        const char *stop = memchr(close, '<', (size_t)(end - close));
        stop = stop ? stop : end;
        value = stop;
        if (!memmem(close, (size_t)(stop - close), rel, sizeof rel - 1))
            continue;
        const char *query = memchr(open, '?', (size_t)(close - open));
        size_t length = query ? (size_t)(close - query - 1) : 0;
        if (!length || length >= size)
            return false;
        for (size_t i = 1; i <= length; i++) { /* it becomes part of an address */
            if ((unsigned char)query[i] <= ' ' || query[i] == '#')
                return false;
        }
        memcpy(out, query + 1, length);
        out[length] = '\0';
        return true;
    }
    return true;
}

static int by_key(const void *a, const void *b, void *strings)
{
    const struct leat_s3_entry *x = a;
    const struct leat_s3_entry *y = b;
    return strcmp((const char *)strings + x->key, (const char *)strings + y->key);
}

/* Sorted, without the folders of a list that shows what is in them; a list that repeats itself is none. */
static leat_status put_in_order(struct hf_list *l, struct leat_error *err)
{
    struct leat_s3_page *p = &l->page;
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++) {
        if (!l->recursive || !p->entries[i].prefix)
            p->entries[n++] = p->entries[i];
    }
    p->n = n;
    if (n)
        qsort_r(p->entries, n, sizeof *p->entries, by_key, p->strings.data);
    for (size_t i = 1; i < n; i++) {
        if (by_key(&p->entries[i - 1], &p->entries[i], p->strings.data) == 0)
            return leat_fail(err, LEAT_SERVER, "the server's list has '%.200s' twice",
                             leat_s3_page_string(p, p->entries[i].key));
    }
    return LEAT_OK;
}

/* Adds a page's entries that begin with the prefix. token: of the page after it, or NULL. */
static leat_status take_page(struct hf_list *l, struct leat_list_check *check, const char *json, size_t n,
                             const char *token, struct leat_error *err)
{
    struct leat_s3_page *p = &l->page;
    size_t first = p->n;
    size_t kept = first;
    leat_status rc = leat_hf_parse_page(json, n, p, err);
    if (rc == LEAT_OK)
        rc = leat_list_check_page(check, p, first, token, err);
    for (size_t i = first; rc == LEAT_OK && i < p->n; i++) {
        if (strncmp(leat_s3_page_string(p, p->entries[i].key), l->prefix, strlen(l->prefix)) == 0)
            p->entries[kept++] = p->entries[i];
    }
    if (rc == LEAT_OK)
        p->n = kept;
    return rc == LEAT_OK ? rc
                         : leat_fail_context(err, rc, "cannot list 'hf://%s/%s'", leat_store_host(l->store), l->prefix);
}

/* The page that `token` begins, the first one when it is NULL. *next: the token of the one after it, NULL when there is
 * none. */
static leat_status fetch_page(struct hf_list *l, struct leat_list_check *check, const char *token, char **next,
                              struct leat_error *err)
{
    struct leat_buf text;
    struct leat_store_op op = {
        .verb = LEAT_STORE_LIST,
        .key = l->prefix,
        .delimiter = l->recursive ? NULL : "/",
        .token = token,
        .text = &text,
    };
    *next = NULL;
    leat_buf_init(&text, 0);
    leat_status rc = leat_store_run(l->store, &op, err);
    const char *end = rc == LEAT_OK ? memchr(text.data, '\n', text.len) : NULL; /* of the next page's query */
    size_t query_n = end ? (size_t)(end - text.data) : 0;
    if (query_n && !(*next = leat_bytes_text(text.data, query_n)))
        rc = no_memory(err);
    if (rc == LEAT_OK && end)
        rc = take_page(l, check, end + 1, text.len - query_n - 1, *next, err);
    leat_buf_free(&text);
    return rc;
}

static leat_status fill(struct hf_list *l, struct leat_error *err)
{
    const char *slash = strrchr(l->prefix, '/'); /* the folder that is asked for ends there */
    char *token = NULL;
    struct leat_list_check check;
    leat_status rc = LEAT_OK;
    leat_buf_init(&l->page.strings, STRINGS_MAX);
    leat_buf_add(&l->page.strings, "", 1); /* offset 0 is the empty string */
    leat_list_check_init(&check, l->prefix, slash ? (size_t)(slash + 1 - l->prefix) : 0, false, false);
    do {
        char *next;
        rc = fetch_page(l, &check, token, &next, err);
        free(token);
        token = next;
    } while (rc == LEAT_OK && token);
    free(token);
    leat_list_check_free(&check);
    return rc == LEAT_OK ? put_in_order(l, err) : rc;
}

static leat_status next(struct leat_list *list, struct leat_list_entry *entry, bool *end, struct leat_error *err)
{
    struct hf_list *l = (struct hf_list *)list;
    if (!l->filled) {
        l->filled = true;
        fill(l, &l->failed);
    }
    if (l->failed.status != LEAT_OK) { /* a list that broke off must never pass for one that ended */
        if (err)
            *err = l->failed;
        return l->failed.status;
    }
    *end = l->at == l->page.n;
    if (*end)
        return LEAT_OK;
    const struct leat_s3_entry *e = &l->page.entries[l->at++];
    *entry = (struct leat_list_entry){
        .key = leat_s3_page_string(&l->page, e->key),
        .prefix = e->prefix,
        .size = e->size,
        .etag = leat_s3_page_string(&l->page, e->etag),
    };
    return LEAT_OK;
}

static void close_list(struct leat_list *list)
{
    struct hf_list *l = (struct hf_list *)list;
    leat_s3_page_free(&l->page);
    free(l->prefix);
    free(l);
}

leat_status leat_hf_list_open(struct leat_store *store, const char *prefix, bool recursive, struct leat_list **out,
                              struct leat_error *err)
{
    struct hf_list *l = calloc(1, sizeof *l);
    char *copy = strdup(prefix);
    if (!l || !copy) {
        free(l);
        free(copy);
        return no_memory(err);
    }
    l->list.next = next;
    l->list.close = close_list;
    l->store = store;
    l->prefix = copy;
    l->recursive = recursive;
    *out = &l->list;
    return LEAT_OK;
}
