#include "dataset/home.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

leat_status leat_home_open(const char *url, const struct leat_store_opts *opts, struct leat_home *out,
                           struct leat_error *err)
{
    struct leat_url parsed = {0};
    struct leat_home h = {0};
    leat_status rc = leat_url_parse(url, &parsed, err);
    if (rc != LEAT_OK)
        return rc;
    size_t n = strlen(parsed.path);
    h.url = strdup(url);
    h.prefix = malloc(n + 2);
    if (!h.url || !h.prefix) {
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for an address");
    } else if (parsed.query && *parsed.query) {
        rc = leat_fail(err, LEAT_INVALID, "the address of a dataset has no '?': %s", url);
    } else {
        memcpy(h.prefix, parsed.path, n);
        while (n > 1 && h.prefix[n - 1] == '/')
            n--;
        if (n > 0 && h.prefix[n - 1] != '/')
            h.prefix[n++] = '/';
        h.prefix[n] = '\0';
        rc = leat_store_open(&parsed, opts, &h.store, err);
    }
    leat_url_free(&parsed);
    if (rc != LEAT_OK) {
        leat_home_close(&h);
        return rc;
    }
    *out = h;
    return LEAT_OK;
}

void leat_home_close(struct leat_home *h)
{
    if (!h)
        return;
    leat_store_close(h->store);
    free(h->prefix);
    free(h->url);
    *h = (struct leat_home){0};
}

char *leat_home_key(const struct leat_home *h, const char *name)
{
    size_t prefix = strlen(h->prefix);
    size_t n = strlen(name);
    char *key = malloc(prefix + n + 1);
    if (!key)
        return NULL;
    memcpy(key, h->prefix, prefix);
    memcpy(key + prefix, name, n + 1);
    return key;
}

#define LOOK_MAX 1000 /* entries counted for a message */

/* Puts into words what lies where a dataset was expected. */
static leat_status explain_missing(const struct leat_home *h, struct leat_error *err)
{
    struct leat_list *list;
    struct leat_list_entry entry;
    bool end = false;
    uint32_t files = 0;
    uint32_t folders = 0;
    char first[80] = "";
    if (leat_store_list_open(h->store, h->prefix, false, &list, NULL) != LEAT_OK)
        return leat_fail(err, LEAT_NOT_FOUND, "no dataset at %s: it has no " LEAT_NAME_POINTER, h->url);
    while (files + folders < LOOK_MAX && leat_store_list_next(list, &entry, &end, NULL) == LEAT_OK && !end) {
        folders += entry.prefix;
        files += !entry.prefix;
        if (!*first)
            snprintf(first, sizeof first, "%s", entry.key + strlen(h->prefix));
    }
    leat_store_list_close(list);
    if (files + folders == 0)
        return leat_fail(err, LEAT_NOT_FOUND, "no dataset at %s: nothing is there", h->url);
    if (strcmp(first, "leat/") == 0 && files + folders == 1)
        return leat_fail(err, LEAT_NOT_FOUND,
                         "no dataset at %s: it has no " LEAT_NAME_POINTER
                         ". Packing was not finished, or the snapshot is lost, which 'leat rebuild %s' makes again",
                         h->url, h->url);
    return leat_fail(err, LEAT_NOT_FOUND,
                     "no dataset at %s: there are %s%u files and %u folders ('%s' first); 'leat pack %s DEST' makes "
                     "a dataset of them",
                     h->url, files + folders == LOOK_MAX ? "more than " : "", files, folders, first, h->url);
}

leat_status leat_home_current(const struct leat_home *h, uint8_t id[LEAT_SHA256_SIZE], struct leat_error *err)
{
    char *key = leat_home_key(h, LEAT_NAME_POINTER);
    char *text = NULL;
    size_t n;
    if (!key)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a name");
    leat_status rc = leat_store_load(h->store, key, LEAT_POINTER_MAX, &text, &n, NULL, err);
    if (rc == LEAT_OK)
        rc = leat_pointer_read(text, n, id, err);
    else if (rc == LEAT_NOT_FOUND)
        rc = explain_missing(h, err);
    free(text);
    free(key);
    return rc;
}

leat_status leat_home_put(const struct leat_home *h, const char *name, const void *data, size_t n,
                          struct leat_error *err)
{
    char *key = leat_home_key(h, name);
    if (!key)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a name");
    leat_status rc = leat_store_put(h->store, key, data, n, NULL, err);
    free(key);
    return rc;
}
