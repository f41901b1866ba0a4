#include "dataset/listing_save.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "dataset/chunk.h"

#define MAGIC     "leat-lst"
#define VERSION   1u
#define HEAD      32u
#define PAGE_HEAD 32u
#define NAME_ROOM 96
#define ID_DIGITS 16

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for a part of a listing");
}

/* Writing */

static void put_u64(struct leat_buf *out, uint64_t v)
{
    uint8_t bytes[8];
    leat_put_u64(bytes, v);
    leat_buf_add(out, bytes, sizeof bytes);
}

static void put_u32(struct leat_buf *out, uint32_t v)
{
    uint8_t bytes[4];
    leat_put_u32(bytes, v);
    leat_buf_add(out, bytes, sizeof bytes);
}

static void put_page(const struct leat_listing *l, const struct leat_saved_page *p, struct leat_buf *out)
{
    size_t from = p->first < l->n ? (size_t)l->at[p->first] : l->text.len;
    size_t to = p->end < l->n ? (size_t)l->at[p->end] : l->text.len;
    put_u32(out, p->home);
    put_u32(out, (uint32_t)strlen(p->after));
    put_u64(out, p->end - p->first);
    put_u64(out, p->hidden);
    put_u64(out, to - from);
    leat_buf_str(out, p->after);
    for (uint64_t i = p->first; i < p->end; i++)
        put_u64(out, l->sizes[i]);
    leat_buf_add(out, l->text.data + from, to - from);
}

leat_status leat_saved_write(const struct leat_listing *l, const struct leat_saved_head *head,
                             const struct leat_saved_page *pages, uint32_t n, struct leat_buf *out,
                             struct leat_error *err)
{
    leat_buf_add(out, MAGIC, 8);
    put_u32(out, VERSION);
    put_u32(out, head->part);
    put_u32(out, head->parts);
    put_u32(out, l->homes_n);
    put_u32(out, n);
    put_u32(out, 0);
    for (uint32_t h = 0; h < l->homes_n; h++)
        leat_buf_add(out, l->homes[h].url, strlen(l->homes[h].url) + 1);
    for (uint32_t i = 0; i < n; i++)
        put_page(l, &pages[i], out);
    if (!out->failed)
        put_u64(out, leat_xxh3(out->data, out->len));
    return leat_buf_check(out, "a part of a listing", err);
}

/* Reading */

void leat_saved_close(struct leat_saved *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->homes_n; i++) {
        if (s->urls)
            free(s->urls[i]);
        if (s->after)
            free(s->after[i]);
        if (s->lists)
            leat_listing_close(&s->lists[i]);
    }
    free(s->urls);
    free(s->after);
    free(s->lists);
    free(s->parts);
    *s = (struct leat_saved){0};
}

static leat_status damaged(const char *what, struct leat_error *err)
{
    return leat_fail(err, LEAT_CORRUPT, "a part of a listing is damaged: %s", what);
}

/* The next text up to its NUL, or NULL. */
static const char *read_text(struct leat_reader *r)
{
    const char *text = (const char *)r->data + r->at;
    const char *end = r->bad ? NULL : memchr(text, '\0', leat_reader_left(r));
    return end ? (const char *)leat_read_bytes(r, (size_t)(end - text) + 1) : NULL;
}

/* The places; the first one read says which they are, all others must agree. */
static leat_status read_places(struct leat_reader *r, uint32_t n, struct leat_saved *s, struct leat_error *err)
{
    bool first = !s->urls;
    if (n == 0 || n > LEAT_SAVED_PLACES || (!first && n != s->homes_n))
        return damaged("another number of places", err);
    if (first) {
        s->urls = calloc(n, sizeof *s->urls);
        s->after = calloc(n, sizeof *s->after);
        s->lists = calloc(n, sizeof *s->lists);
        s->parts = calloc(LEAT_LISTING_PARTS, sizeof *s->parts);
        s->homes_n = n;
        if (!s->urls || !s->after || !s->lists || !s->parts)
            return no_memory(err);
    }
    for (uint32_t i = 0; i < n; i++) {
        const char *url = read_text(r);
        if (!url)
            return damaged("its places", err);
        if (!first && strcmp(url, s->urls[i]) != 0)
            return leat_fail(err, LEAT_INVALID, "one part lists %s, and another %s", s->urls[i], url);
        if (first && !(s->urls[i] = strdup(url)))
            return no_memory(err);
        if (first) {
            leat_status rc = leat_listing_begin(&s->lists[i], NULL, 1, err);
            if (rc != LEAT_OK)
                return rc;
        }
    }
    return LEAT_OK;
}

static leat_status read_page(struct leat_reader *r, struct leat_saved *s, struct leat_error *err)
{
    uint32_t home = leat_read_u32(r);
    uint32_t after_n = leat_read_u32(r);
    uint64_t n = leat_read_u64(r);
    uint64_t hidden = leat_read_u64(r);
    uint64_t text_n = leat_read_u64(r);
    const char *after = (const char *)leat_read_bytes(r, after_n);
    if (r->bad || home >= s->homes_n || n > leat_reader_left(r) / 8)
        return damaged("a page", err);
    const uint8_t *sizes = leat_read_bytes(r, (size_t)n * 8);
    if (!sizes || text_n > leat_reader_left(r))
        return damaged("a page's objects", err);
    struct leat_reader text = leat_reader(leat_read_bytes(r, (size_t)text_n), (size_t)text_n);
    for (uint64_t i = 0; i < n; i++) {
        const char *key = read_text(&text);
        const char *etag = key ? read_text(&text) : NULL;
        if (!etag || !*key)
            return damaged("a key", err);
        leat_status rc = leat_listing_add(&s->lists[home], key, leat_get_u64(sizes + 8 * i), etag, err);
        if (rc != LEAT_OK)
            return rc;
    }
    if (leat_reader_left(&text))
        return damaged("something follows a page's keys", err);
    s->lists[home].hidden += hidden;
    free(s->after[home]);
    s->after[home] = leat_bytes_text(after, after_n);
    return s->after[home] ? LEAT_OK : no_memory(err);
}

leat_status leat_saved_read(const void *data, size_t n, struct leat_saved *s, struct leat_error *err)
{
    struct leat_reader r = leat_reader(data, n < 8 ? 0 : n - 8);
    const void *magic = leat_read_bytes(&r, 8);
    uint32_t version = leat_read_u32(&r);
    struct leat_saved_head head = {.part = leat_read_u32(&r), .parts = leat_read_u32(&r)};
    uint32_t homes = leat_read_u32(&r);
    uint32_t pages = leat_read_u32(&r);
    leat_read_u32(&r);
    if (r.bad || memcmp(magic, MAGIC, 8) != 0)
        return damaged("it does not begin like one", err);
    if (version != VERSION)
        return leat_fail(err, LEAT_VERSION, "a part of a listing is of version %u, which needs another Leat", version);
    if (leat_get_u64((const uint8_t *)data + n - 8) != leat_xxh3(data, n - 8))
        return damaged("its checksum", err);
    if (head.parts > LEAT_LISTING_PARTS || (head.parts && head.part >= head.parts))
        return damaged("its number", err);
    if (s->urls && s->head.parts != head.parts)
        return leat_fail(
            err, LEAT_INVALID,
            "it is one of %u parts, and another is one of %u: list all parts of one number, and remove the "
            "others (leat rm)",
            head.parts, s->head.parts);
    leat_status rc = read_places(&r, homes, s, err);
    for (uint32_t i = 0; rc == LEAT_OK && i < pages; i++)
        rc = read_page(&r, s, err);
    if (rc == LEAT_OK && leat_reader_left(&r))
        rc = damaged("something follows it", err);
    if (rc != LEAT_OK)
        return rc;
    s->head = head;
    if (head.parts)
        s->parts[head.part] = true;
    s->objects++;
    return LEAT_OK;
}

/* Beside a dataset */

static leat_status list_id(const struct leat_home *homes, uint32_t n, char out[ID_DIGITS + 1], struct leat_error *err)
{
    uint8_t sha[LEAT_SHA256_SIZE];
    struct leat_sha256 *h = leat_sha256_open();
    if (!h)
        return no_memory(err);
    for (uint32_t i = 0; i < n; i++)
        leat_sha256_add(h, homes[i].url, strlen(homes[i].url) + 1);
    leat_sha256_finish(h, sha);
    leat_hex(sha, ID_DIGITS / 2, out);
    return LEAT_OK;
}

struct visiting {
    const struct leat_home *to;
    char id[ID_DIGITS + 1]; /* "": any, and then the first one's */
    bool any;               /* nobody has said whose list is meant: there must be only one */
    bool parts;
    bool forget;
    struct leat_saved *out;
};

static bool of_kind(const struct visiting *v, const char *name)
{
    const char *kind = v->parts ? "-part-" : "-saved-";
    return strlen(name) > ID_DIGITS && strncmp(name + ID_DIGITS, kind, strlen(kind)) == 0;
}

static void note_time(struct leat_saved *s, int64_t written_s)
{
    if (s->objects == 1 || written_s > s->newest_s)
        s->newest_s = written_s;
    if (s->objects == 1 || written_s < s->oldest_s) {
        s->oldest_s = written_s;
        s->oldest_part = s->head.part;
    }
}

/* What one run has saved is numbered without a gap: one that somebody has removed would be missing objects. */
static leat_status check_next(const struct visiting *v, const char *name, struct leat_error *err)
{
    char expected[NAME_ROOM];
    snprintf(expected, sizeof expected, "%.*s-saved-%08u", ID_DIGITS, name, v->out->objects);
    return strcmp(name, expected) == 0 ? LEAT_OK : leat_fail(err, LEAT_CORRUPT, "%s is not there", expected);
}

static leat_status visit(void *user, const char *name, const struct leat_list_entry *entry, struct leat_error *err)
{
    struct visiting *v = user;
    char object[NAME_ROOM + sizeof LEAT_PARTIAL];
    char *data = NULL;
    size_t n;
    if (!of_kind(v, name) || strlen(name) >= NAME_ROOM)
        return LEAT_OK;
    bool other = *v->id && strncmp(name, v->id, ID_DIGITS) != 0;
    if (other && v->any)
        return leat_fail(err, LEAT_INVALID,
                         "%s has parts of listings of several places: name the places (leat index --merge URL… DEST)",
                         v->to->url);
    if (other)
        return LEAT_OK;
    snprintf(object, sizeof object, "%s%s", LEAT_PARTIAL, name);
    char *key = leat_home_key(v->to, object);
    if (!key)
        return no_memory(err);
    leat_status rc;
    if (v->forget) {
        rc = leat_store_delete(v->to->store, key, err);
    } else {
        rc = v->parts ? LEAT_OK : check_next(v, name, err);
        if (rc == LEAT_OK)
            rc = leat_store_load(v->to->store, key, LEAT_SAVED_MAX, &data, &n, NULL, err);
        if (rc == LEAT_OK)
            rc = leat_saved_read(data, n, v->out, err);
        if (rc != LEAT_OK)
            leat_fail_context(err, rc, "%s", object);
        else
            note_time(v->out, entry->modified_s);
        if (!*v->id)
            memcpy(v->id, name, ID_DIGITS);
    }
    free(data);
    free(key);
    return rc;
}

static leat_status visit_all(const struct leat_home *to, const struct leat_home *homes, uint32_t n, struct visiting *v,
                             struct leat_error *err)
{
    leat_status rc = homes ? list_id(homes, n, v->id, err) : LEAT_OK;
    v->any = !homes;
    return rc == LEAT_OK ? leat_home_each(to, LEAT_PARTIAL, visit, v, err) : rc;
}

leat_status leat_saved_load(const struct leat_home *to, const struct leat_home *homes, uint32_t n, bool parts,
                            struct leat_saved *out, struct leat_error *err)
{
    struct leat_saved s = {0};
    struct visiting v = {.to = to, .parts = parts, .out = &s};
    leat_status rc = visit_all(to, homes, n, &v, err);
    if (rc != LEAT_OK) {
        leat_saved_close(&s);
        return rc;
    }
    *out = s;
    return LEAT_OK;
}

leat_status leat_saved_forget(const struct leat_home *to, const struct leat_home *homes, uint32_t n, bool parts,
                              struct leat_error *err)
{
    struct visiting v = {.to = to, .parts = parts, .forget = true};
    return visit_all(to, homes, n, &v, err);
}

leat_status leat_saved_put(const struct leat_home *to, const struct leat_listing *l, const struct leat_saved_head *head,
                           const struct leat_saved_page *pages, uint32_t n, uint32_t number, struct leat_error *err)
{
    char id[ID_DIGITS + 1];
    char object[NAME_ROOM + sizeof LEAT_PARTIAL];
    struct leat_buf data;
    leat_buf_init(&data, LEAT_SAVED_MAX);
    leat_status rc = list_id(l->homes, l->homes_n, id, err);
    if (rc == LEAT_OK && head->parts)
        snprintf(object, sizeof object, "%s%s-part-%04u-of-%04u", LEAT_PARTIAL, id, head->part + 1, head->parts);
    else if (rc == LEAT_OK)
        snprintf(object, sizeof object, "%s%s-saved-%08u", LEAT_PARTIAL, id, number);
    if (rc == LEAT_OK)
        rc = leat_saved_write(l, head, pages, n, &data, err);
    if (rc == LEAT_OK)
        rc = leat_home_put(to, object, data.data, data.len, err);
    leat_buf_free(&data);
    return rc;
}
