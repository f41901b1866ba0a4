#include "dataset/home.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID_DIGITS     (2 * LEAT_SHA256_SIZE)
#define ID_DIGITS_MIN 8

static const char hex_digits[] = "0123456789abcdefABCDEF";

/* "id=…" and "name=…" of the query that ends a dataset's address. */
static leat_status set_version(struct leat_home *h, const char *query, struct leat_error *err)
{
    char object[LEAT_NAME_MAX];
    size_t n = strlen(query);
    if (strstr(query, "&id=") || strstr(query, "&name="))
        return leat_fail(err, LEAT_INVALID, "give ?id= or ?name=, not both: '?%.100s'", query);
    if (strncmp(query, "name=", 5) == 0) {
        h->name = strdup(query + 5);
        return h->name ? leat_name_named(h->name, object, err) : leat_fail(err, LEAT_NO_MEMORY, "no memory for a name");
    }
    if (n < 3 + ID_DIGITS_MIN || n > 3 + ID_DIGITS || strspn(query + 3, hex_digits) != n - 3)
        return leat_fail(err, LEAT_INVALID,
                         "'?%.100s' is not the id of a version: %d hexadecimal digits, or at least the first %d", query,
                         ID_DIGITS, ID_DIGITS_MIN);
    h->id = strdup(query + 3);
    if (!h->id)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for an id");
    for (char *p = h->id; *p; p++)
        *p = (char)(*p >= 'A' && *p <= 'F' ? *p + 'a' - 'A' : *p);
    return LEAT_OK;
}

/* Copies the address and takes the version off its end. */
static leat_status split_version(struct leat_home *h, const char *url, struct leat_error *err)
{
    h->url = strdup(url);
    if (!h->url)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for an address");
    char *query = strrchr(h->url, '?');
    if (!query || (strncmp(query, "?id=", 4) != 0 && strncmp(query, "?name=", 6) != 0))
        return LEAT_OK;
    *query = '\0';
    size_t n = strcspn(h->url, "?");
    if (strncmp(h->url + n, "?id=", 4) == 0 || strncmp(h->url + n, "?name=", 6) == 0)
        return leat_fail(err, LEAT_INVALID, "give ?id= or ?name= once: '%.200s'", url);
    return set_version(h, query + 1, err);
}

static leat_status open_place(struct leat_home *h, const struct leat_store_opts *opts, struct leat_error *err)
{
    struct leat_url parsed = {0};
    leat_status rc = leat_url_parse(h->url, &parsed, err);
    if (rc != LEAT_OK)
        return rc;
    size_t n = strlen(parsed.path);
    h->prefix = malloc(n + 2);
    if (!h->prefix) {
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for an address");
    } else if (parsed.query && *parsed.query) {
        rc = leat_fail(err, LEAT_INVALID, "the address of a dataset takes ?id=… or ?name=… and no other query: %s",
                       h->url);
    } else {
        memcpy(h->prefix, parsed.path, n);
        while (n > 1 && h->prefix[n - 1] == '/')
            n--;
        if (n > 0 && h->prefix[n - 1] != '/')
            h->prefix[n++] = '/';
        h->prefix[n] = '\0';
        rc = leat_store_open(&parsed, opts, &h->store, err);
    }
    leat_url_free(&parsed);
    return rc;
}

leat_status leat_home_open(const char *url, const struct leat_store_opts *opts, struct leat_home *out,
                           struct leat_error *err)
{
    struct leat_home h = {0};
    leat_status rc = split_version(&h, url, err);
    if (rc == LEAT_OK)
        rc = open_place(&h, opts, err);
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
    free(h->id);
    free(h->name);
    *h = (struct leat_home){0};
}

leat_status leat_home_check_plain(const struct leat_home *h, struct leat_error *err)
{
    if (!h->id && !h->name)
        return LEAT_OK;
    return leat_fail(err, LEAT_INVALID, "?%s= says which version to read, not where to write: %s",
                     h->id ? "id" : "name", h->url);
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

static leat_status count_one(void *user, const char *name, const struct leat_list_entry *entry, struct leat_error *err)
{
    (void)name;
    (void)entry;
    (void)err;
    ++*(uint32_t *)user;
    return LEAT_OK;
}

/* Puts into words what lies where a dataset was expected. */
static leat_status explain_missing(const struct leat_home *h, struct leat_error *err)
{
    uint32_t versions = 0;
    if (leat_home_each(h, LEAT_NAME_VERSIONS, count_one, &versions, NULL) == LEAT_OK && versions)
        return leat_fail(err, LEAT_NOT_FOUND,
                         "the dataset at %s has no current version: it has no " LEAT_NAME_POINTER
                         ". 'leat info --versions %s' lists the others; 'leat rebuild %s' rebuilds a lost snapshot",
                         h->url, h->url, h->url);
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
                         ". Packing was not finished, or the snapshot is lost: 'leat rebuild %s' rebuilds it",
                         h->url, h->url);
    return leat_fail(err, LEAT_NOT_FOUND,
                     "no dataset at %s: there are %s%u files and %u folders (the first: '%s'); 'leat pack %s DEST' "
                     "makes a dataset from them",
                     h->url, files + folders == LOOK_MAX ? "more than " : "", files, folders, first, h->url);
}

static leat_status read_pointer(const struct leat_home *h, const char *object, const char *key, const uint8_t *id,
                                struct leat_pointer *out, struct leat_error *err)
{
    char *text;
    size_t n;
    struct leat_pointer p;
    leat_status rc = leat_store_load(h->store, key, LEAT_POINTER_MAX, &text, &n, NULL, err);
    if (rc != LEAT_OK)
        return rc;
    rc = leat_pointer_read(object, text, n, &p, err);
    free(text);
    if (rc == LEAT_OK && id && memcmp(p.id, id, LEAT_SHA256_SIZE) != 0)
        rc = leat_fail(err, LEAT_CORRUPT, "%s of %s is the pointer of another version", object, h->url);
    if (rc == LEAT_OK)
        *out = p;
    return rc;
}

/* id, where it is not NULL, is the content id that the pointer must name. One that cannot be read is read once more: it
 * has no checksum, so that damage on the way may also look like a format to come. */
static leat_status load_pointer(const struct leat_home *h, const char *object, const uint8_t *id,
                                struct leat_pointer *out, struct leat_error *err)
{
    char *key = leat_home_key(h, object);
    if (!key)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a name");
    leat_status rc = read_pointer(h, object, key, id, out, err);
    if (rc == LEAT_CORRUPT || rc == LEAT_VERSION)
        rc = read_pointer(h, object, key, id, out, err);
    free(key);
    return rc;
}

leat_status leat_home_pointer(const struct leat_home *h, const char *object, struct leat_pointer *out,
                              struct leat_error *err)
{
    return load_pointer(h, object, NULL, out, err);
}

leat_status leat_home_each(const struct leat_home *h, const char *folder, leat_home_visit *visit, void *user,
                           struct leat_error *err)
{
    struct leat_list *list = NULL;
    struct leat_list_entry entry;
    bool end = false;
    char *prefix = leat_home_key(h, folder);
    if (!prefix)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a name");
    leat_status rc = leat_store_list_open(h->store, prefix, false, &list, err);
    if (rc == LEAT_OK)
        rc = leat_store_list_next(list, &entry, &end, err);
    if (rc ==
        LEAT_NOT_FOUND) { /* a missing folder is an empty one; only here, or a listing cut short would look whole */
        rc = LEAT_OK;
        end = true;
    }
    while (rc == LEAT_OK && !end) {
        if (!entry.prefix)
            rc = visit(user, entry.key + strlen(prefix), &entry, err);
        if (rc == LEAT_OK)
            rc = leat_store_list_next(list, &entry, &end, err);
    }
    leat_store_list_close(list);
    free(prefix);
    return rc;
}

/* Which version has an id that begins so */

struct search {
    const char *start;
    uint32_t found;
    char first[ID_DIGITS + 1];
    char second[ID_DIGITS + 1];
};

static leat_status compare_start(void *user, const char *name, const struct leat_list_entry *entry,
                                 struct leat_error *err)
{
    (void)entry;
    (void)err;
    struct search *s = user;
    uint8_t id[LEAT_SHA256_SIZE];
    if (!leat_unhex(name, id, sizeof id) || strncmp(name, s->start, strlen(s->start)) != 0)
        return LEAT_OK;
    if (s->found < 2)
        memcpy(s->found ? s->second : s->first, name, ID_DIGITS + 1);
    s->found++;
    return LEAT_OK;
}

/* Whether there is neither a current version nor any other. */
static bool is_missing(const struct leat_home *h)
{
    struct leat_pointer current;
    uint32_t versions = 0;
    return leat_home_pointer(h, LEAT_NAME_POINTER, &current, NULL) == LEAT_NOT_FOUND &&
           leat_home_each(h, LEAT_NAME_VERSIONS, count_one, &versions, NULL) == LEAT_OK && !versions;
}

static leat_status no_version(const struct leat_home *h, const char *id, struct leat_error *err)
{
    if (is_missing(h))
        return explain_missing(h, err);
    return leat_fail(err, LEAT_NOT_FOUND, "the dataset at %s has no version %s; 'leat info --versions %s' lists them",
                     h->url, id, h->url);
}

static leat_status complete_id(const struct leat_home *h, uint8_t id[LEAT_SHA256_SIZE], struct leat_error *err)
{
    struct search s = {.start = h->id};
    if (leat_unhex(h->id, id, LEAT_SHA256_SIZE))
        return LEAT_OK;
    leat_status rc = leat_home_each(h, LEAT_NAME_VERSIONS, compare_start, &s, err);
    if (rc != LEAT_OK)
        return leat_fail_context(err, rc, "looking for the version %s… of %s", h->id, h->url);
    if (s.found > 1)
        return leat_fail(err, LEAT_INVALID, "%s versions of %s begin with %s (%.16s…, %.16s…): give more digits",
                         s.found == 2 ? "two" : "several", h->url, h->id, s.first, s.second);
    if (s.found == 0)
        return no_version(h, h->id, err);
    leat_unhex(s.first, id, LEAT_SHA256_SIZE);
    return LEAT_OK;
}

static leat_status resolve_id(const struct leat_home *h, const uint8_t id[LEAT_SHA256_SIZE], struct leat_pointer *out,
                              struct leat_error *err)
{
    char object[LEAT_NAME_MAX];
    leat_name_version(id, object);
    leat_status rc = load_pointer(h, object, id, out, err);
    return rc == LEAT_NOT_FOUND ? no_version(h, object + strlen(LEAT_NAME_VERSIONS), err) : rc;
}

/* Names */

struct names {
    struct leat_buf text;
    uint32_t n;
};

static leat_status note_name(void *user, const char *name, const struct leat_list_entry *entry, struct leat_error *err)
{
    (void)entry;
    (void)err;
    struct names *names = user;
    leat_buf_printf(&names->text, "%s%s", names->n++ ? ", " : "", name);
    return LEAT_OK;
}

static leat_status no_name(const struct leat_home *h, struct leat_error *err)
{
    struct names names = {0};
    leat_buf_init(&names.text, 400);
    if (is_missing(h))
        return explain_missing(h, err);
    leat_status rc = leat_home_each(h, LEAT_NAME_NAMES, note_name, &names, NULL);
    if (rc != LEAT_OK)
        rc = leat_fail(err, LEAT_NOT_FOUND, "no version of the dataset at %s has the name '%s'", h->url, h->name);
    else
        rc =
            leat_fail(err, LEAT_NOT_FOUND, "no version of the dataset at %s has the name '%s'; %s%s%s", h->url, h->name,
                      names.n ? "there are: " : "none has a name", names.text.data, names.text.full ? ", …" : "");
    leat_buf_free(&names.text);
    return rc;
}

static leat_status resolve_name(const struct leat_home *h, struct leat_pointer *out, struct leat_error *err)
{
    char object[LEAT_NAME_MAX];
    leat_status rc = leat_name_named(h->name, object, err);
    if (rc == LEAT_OK)
        rc = leat_home_pointer(h, object, out, err);
    return rc == LEAT_NOT_FOUND ? no_name(h, err) : rc;
}

leat_status leat_home_resolve(const struct leat_home *h, const uint8_t *id, struct leat_pointer *out,
                              struct leat_error *err)
{
    char hex[ID_DIGITS + 1];
    uint8_t whole[LEAT_SHA256_SIZE];
    if (id)
        leat_hex(id, LEAT_SHA256_SIZE, hex);
    if (id && h->id && strncmp(hex, h->id, strlen(h->id)) != 0)
        return leat_fail(err, LEAT_INVALID, "version %s is asked for, but the address of %s says ?id=%s", hex, h->url,
                         h->id);
    if (id)
        return resolve_id(h, id, out, err);
    if (h->name)
        return resolve_name(h, out, err);
    if (h->id) {
        leat_status rc = complete_id(h, whole, err);
        return rc == LEAT_OK ? resolve_id(h, whole, out, err) : rc;
    }
    leat_status rc = leat_home_pointer(h, LEAT_NAME_POINTER, out, err);
    return rc == LEAT_NOT_FOUND ? explain_missing(h, err) : rc;
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
