#include "dataset/scan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "base/json.h"
#include "dataset/chunk.h"

#define KEYS_MAX  ((size_t)1 << 38)
#define NAMES_MAX (LEAT_SCHEMA_MAX - (4u << 10)) /* bytes of labels' names: they stand in every schema */
#define SHOWN_MAX 200u

const char *leat_scan_key(const struct leat_scan *s, uint64_t i, size_t *n)
{
    uint64_t start = i ? s->ends[i - 1] : 0;
    *n = (size_t)(s->ends[i] - start);
    return s->keys.data + start;
}

void leat_scan_close(struct leat_scan *s)
{
    if (!s)
        return;
    leat_buf_free(&s->keys);
    leat_buf_free(&s->about);
    free(s->ends);
    free(s->sizes);
    free(s->tags);
    free(s->digests);
    free(s->labels);
    *s = (struct leat_scan){0};
}

static bool hidden(const char *path)
{
    return path[0] == '.' || strstr(path, "/.") != NULL;
}

/* The text between an ETag's quotes. */
static const char *bare_tag(const char *etag, size_t *n)
{
    size_t quoted = *etag == '"';
    *n = strlen(etag);
    if (quoted && *n >= 2)
        *n -= 2;
    return etag + quoted;
}

uint64_t leat_scan_tag(const char *etag)
{
    size_t n;
    const char *bare = bare_tag(etag, &n);
    return leat_xxh3(bare, n);
}

bool leat_scan_known(const struct leat_scan *s, uint64_t i)
{
    static const uint8_t zeros[LEAT_MD5_SIZE];
    return memcmp(s->digests[i], zeros, sizeof zeros) != 0;
}

static void note_etag(struct leat_scan *s, const char *etag)
{
    char hex[2 * LEAT_MD5_SIZE + 1];
    size_t n;
    const char *bare = bare_tag(etag, &n);
    s->tags[s->n] = leat_scan_tag(etag);
    memset(s->digests[s->n], 0, LEAT_MD5_SIZE);
    if (n != 2 * LEAT_MD5_SIZE)
        return;
    memcpy(hex, bare, n);
    hex[n] = '\0';
    if (!leat_unhex(hex, s->digests[s->n], LEAT_MD5_SIZE))
        memset(s->digests[s->n], 0, LEAT_MD5_SIZE);
}

/* All tables get room for `cap` files; what a table had stays when there is no memory for it. */
static bool resize(struct leat_scan *s, uint64_t cap)
{
    uint64_t *ends = realloc(s->ends, cap * sizeof *ends);
    s->ends = ends ? ends : s->ends;
    uint64_t *sizes = realloc(s->sizes, cap * sizeof *sizes);
    s->sizes = sizes ? sizes : s->sizes;
    uint64_t *tags = realloc(s->tags, cap * sizeof *tags);
    s->tags = tags ? tags : s->tags;
    uint8_t(*digests)[LEAT_MD5_SIZE] = realloc(s->digests, cap * sizeof *digests);
    s->digests = digests ? digests : s->digests;
    return ends && sizes && tags && digests;
}

static leat_status add_file(struct leat_scan *s, const char *path, const struct leat_list_entry *entry,
                            struct leat_error *err)
{
    if (s->n == s->cap) {
        uint64_t cap = s->cap ? 2 * s->cap : 1024;
        if (!resize(s, cap))
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for the list of %" PRIu64 " files", cap);
        s->cap = cap;
    }
    if (strlen(path) > LEAT_KEY_MAX)
        return leat_fail(err, LEAT_LIMIT, "the path '%.200s…' has %zu bytes; a key has at most %u", path, strlen(path),
                         LEAT_KEY_MAX);
    leat_buf_str(&s->keys, path);
    s->ends[s->n] = s->keys.len;
    s->sizes[s->n] = entry->size;
    note_etag(s, entry->etag);
    s->n++;
    s->bytes += entry->size;
    return leat_buf_check(&s->keys, "the list of files", err);
}

static leat_status list_files(const struct leat_home *from, const struct leat_scan_opts *opts, struct leat_scan *s,
                              struct leat_error *err)
{
    struct leat_list *list = NULL;
    struct leat_list_entry entry;
    bool end = false;
    size_t prefix = strlen(from->prefix);
    leat_status rc = leat_store_list_open(from->store, from->prefix, true, &list, err);
    while (rc == LEAT_OK) {
        rc = leat_store_list_next(list, &entry, &end, err);
        if (rc != LEAT_OK || end)
            break;
        const char *path = entry.key + prefix;
        size_t n = strlen(path);
        if (strcmp(path, LEAT_NAME_POINTER) == 0)
            rc = leat_fail(err, LEAT_INVALID, "%s is a packed dataset already", from->url);
        else if (hidden(path))
            s->skipped++;
        else if (n && path[n - 1] != '/') /* buckets may hold empty objects that stand for folders */
            rc = add_file(s, path, &entry, err);
        if (rc == LEAT_OK && opts->stop && s->n % 1024 == 0 && opts->stop(opts->stop_user))
            rc = leat_fail(err, LEAT_CANCELLED, "interrupted");
    }
    leat_store_list_close(list);
    if (rc == LEAT_OK && s->n) { /* gives back what the tables could still have grown by */
        resize(s, s->n);
        s->cap = s->n;
    }
    if (rc == LEAT_OK && s->n == 0)
        rc = leat_fail(err, LEAT_NOT_FOUND, "there are no files in %s%s", from->url,
                       s->skipped ? " but hidden ones" : "");
    return rc;
}

/* Labels */

static size_t folder_length(const char *key, size_t n)
{
    const char *slash = memchr(key, '/', n);
    return slash ? (size_t)(slash - key) : 0;
}

struct folder {
    const char *name; /* into the keys */
    size_t n;
    uint32_t first; /* in the order of the files */
    uint32_t label;
};

static int by_name(const void *a, const void *b)
{
    const struct folder *x = a;
    const struct folder *y = b;
    int order = memcmp(x->name, y->name, x->n < y->n ? x->n : y->n);
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

static int by_first(const void *a, const void *b)
{
    const struct folder *x = a;
    const struct folder *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

static int shown(size_t n)
{
    return (int)(n < SHOWN_MAX ? n : SHOWN_MAX);
}

/* The name of class i: of the list, or of the folder. */
static const char *class_name(const struct leat_classes *classes, const struct folder *folders, uint32_t i, size_t *n)
{
    if (classes)
        return leat_classes_name(classes, i, n);
    *n = folders[i].n;
    return folders[i].name;
}

/* {"names": […]} */
static leat_status describe_labels(struct leat_scan *s, const struct leat_classes *classes,
                                   const struct folder *folders, struct leat_error *err)
{
    json_t *about = json_object();
    json_t *names = json_array();
    leat_status rc = about && names && json_object_set(about, "names", names) == 0
                         ? LEAT_OK
                         : leat_fail(err, LEAT_NO_MEMORY, "no memory for %u classes", s->labels_n);
    for (uint32_t i = 0; rc == LEAT_OK && i < s->labels_n; i++) {
        size_t n;
        const char *name = class_name(classes, folders, i, &n);
        if (json_array_append_new(names, json_stringn(name, n)) != 0)
            rc = leat_fail(err, LEAT_INVALID, "'%.*s' cannot be the name of a class: it is not UTF-8 (--labels none)",
                           shown(n), name);
    }
    char *text = rc == LEAT_OK ? leat_json_write(about, 0) : NULL;
    if (rc == LEAT_OK && !text)
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for %u classes", s->labels_n);
    if (rc == LEAT_OK && strlen(text) > NAMES_MAX)
        rc = leat_fail(err, LEAT_LIMIT,
                       "the names of the %u classes take %zu bytes; there is room for %u (--labels none)", s->labels_n,
                       strlen(text), NAMES_MAX);
    if (rc == LEAT_OK && !leat_buf_str(&s->about, text))
        rc = leat_buf_check(&s->about, "the names of the classes", err);
    free(text);
    json_decref(names);
    json_decref(about);
    return rc;
}

/* Gives each folder its number. They are sorted by name. */
static leat_status number_classes(struct leat_scan *s, const struct leat_classes *classes, struct folder *folders,
                                  uint32_t n, struct leat_error *err)
{
    for (uint32_t i = 0; i < n; i++) {
        folders[i].label = i;
        if (classes && !leat_classes_find(classes, folders[i].name, folders[i].n, &folders[i].label))
            return leat_fail(err, LEAT_INVALID, "the folder '%.*s' is not in the list of %u classes (--classes)",
                             shown(folders[i].n), folders[i].name, classes->n);
    }
    s->labels_n = classes ? classes->n : n;
    return describe_labels(s, classes, folders, err);
}

/* Folders are numbered by the bytes of their names, as ImageFolder does. The files are sorted by path, where '/'
 * takes part, so a folder's files stand together but the folders themselves may be in another order. */
static leat_status number_folders(struct leat_scan *s, const struct leat_classes *classes, struct folder *folders,
                                  struct leat_error *err)
{
    s->labels = malloc(s->n * sizeof *s->labels);
    if (!s->labels)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for %" PRIu64 " labels", s->n);
    uint32_t at = 0; /* folder of the file, in the order of the files */
    for (uint64_t i = 0; i < s->n; i++) {
        size_t n;
        const char *key = leat_scan_key(s, i, &n);
        size_t folder = folder_length(key, n);
        if (i == 0 || folders[at - 1].n != folder || memcmp(folders[at - 1].name, key, folder) != 0) {
            folders[at] = (struct folder){key, folder, at, 0};
            at++;
        }
        s->labels[i] = at - 1;
    }
    qsort(folders, at, sizeof *folders, by_name);
    leat_status rc = number_classes(s, classes, folders, at, err);
    if (rc != LEAT_OK)
        return rc;
    qsort(folders, at, sizeof *folders, by_first);
    for (uint64_t i = 0; i < s->n; i++)
        s->labels[i] = folders[s->labels[i]].label;
    return LEAT_OK;
}

static leat_status find_labels(struct leat_scan *s, enum leat_scan_labels wanted, const struct leat_classes *classes,
                               struct leat_error *err)
{
    uint64_t folders = 1; /* an upper bound of different ones */
    if (classes)          /* whoever names classes wants labels */
        wanted = LEAT_LABELS_FOLDER;
    if (wanted == LEAT_LABELS_NONE)
        return LEAT_OK;
    for (uint64_t i = 0; i < s->n; i++) {
        size_t n;
        size_t before;
        const char *key = leat_scan_key(s, i, &n);
        if (folder_length(key, n) == 0) {
            if (wanted == LEAT_LABELS_AUTO)
                return LEAT_OK;
            return leat_fail(err, LEAT_INVALID, "'%.*s' lies in no folder that could be its label", shown(n), key);
        }
        const char *last = i ? leat_scan_key(s, i - 1, &before) : key;
        size_t length = folder_length(key, n);
        if (i % 65536 == 0 && folders > UINT32_MAX - 65536)
            return leat_fail(err, LEAT_LIMIT, "there are more than 2^32 folders that could be classes (--labels none)");
        folders += i && (folder_length(last, before) != length || memcmp(last, key, length) != 0);
    }
    struct folder *table = malloc((size_t)folders * sizeof *table);
    if (!table)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for %" PRIu64 " labels", folders);
    leat_status rc = number_folders(s, classes, table, err);
    free(table);
    return rc;
}

/* Fields */

/* "jpg" for "a/b.JPEG"; "" when there is none that could be a name. */
static void ending(const char *key, size_t n, char out[16])
{
    size_t at = n;
    out[0] = '\0';
    while (at > 0 && key[at - 1] != '.' && key[at - 1] != '/')
        at--;
    if (at < 2 || key[at - 1] != '.' || key[at - 2] == '/' || n - at == 0 || n - at > 15)
        return;
    for (size_t i = at; i < n; i++) {
        char c = (char)(key[i] >= 'A' && key[i] <= 'Z' ? key[i] + 32 : key[i]);
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')))
            return;
        out[i - at] = c;
    }
    out[n - at] = '\0';
    if (strcmp(out, "jpeg") == 0)
        memcpy(out, "jpg", 4);
    if (strcmp(out, "tiff") == 0)
        memcpy(out, "tif", 4);
}

static bool one_of(const char *text, const char *const *list)
{
    for (; *list; list++) {
        if (strcmp(text, *list) == 0)
            return true;
    }
    return false;
}

static leat_status make_schema(struct leat_scan *s, const char *field, struct leat_error *err)
{
    static const char *const pictures[] = {"jpg", "png", "webp", "tif", "bmp", "gif", "avif", "jxl", NULL};
    static const char *const texts[] = {"txt", "json", "csv", "md", NULL};
    char first[16];
    bool same = true;
    bool all_pictures = true;
    size_t n;
    const char *key = leat_scan_key(s, 0, &n);
    ending(key, n, first);
    for (uint64_t i = 0; i < s->n; i++) {
        char other[16];
        key = leat_scan_key(s, i, &n);
        ending(key, n, other);
        same = same && strcmp(first, other) == 0;
        all_pictures = all_pictures && one_of(other, pictures);
    }
    enum leat_field_type type = all_pictures                   ? LEAT_FIELD_IMAGE
                                : same && one_of(first, texts) ? LEAT_FIELD_STRING
                                                               : LEAT_FIELD_BYTES;
    const char *name = same && *first ? first : all_pictures ? "image" : "data";
    leat_status rc = leat_schema_add(&s->schema, field ? field : name, type, NULL, err);
    if (rc == LEAT_OK && s->labels)
        rc = leat_schema_add(&s->schema, "cls", LEAT_FIELD_INT, s->about.len ? s->about.data : NULL, err);
    return rc;
}

leat_status leat_scan_open(const struct leat_home *from, const struct leat_scan_opts *opts, struct leat_scan *out,
                           struct leat_error *err)
{
    struct leat_scan s = {0};
    leat_buf_init(&s.keys, KEYS_MAX);
    leat_buf_init(&s.about, NAMES_MAX);
    leat_status rc = list_files(from, opts, &s, err);
    if (rc == LEAT_OK)
        rc = find_labels(&s, opts->labels, opts->classes, err);
    if (rc == LEAT_OK)
        rc = make_schema(&s, opts->field, err);
    if (rc != LEAT_OK) {
        leat_scan_close(&s);
        return rc;
    }
    *out = s;
    return LEAT_OK;
}
