#include "store/s3_xml.h"

#include <expat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/parse.h"
#include "base/url.h"
#include "net/http.h"

#define DEPTH_MAX   16
#define NAME_SIZE   64
#define PAGE_KEYS   10000 /* S3 sends 1000 at most */
#define STRINGS_MAX (64u << 20)
#define TEXT_MAX    8192 /* 1024 bytes of key, each as %XX or as &#xx; */

/* Calls back for every element that holds text only, with its parent's name, and at the end of every element. */
struct walk {
    XML_Parser parser;
    char names[DEPTH_MAX][NAME_SIZE];
    unsigned depth;
    struct leat_buf text;
    bool bad;
    bool no_memory; /* … and that is why */
    void (*leaf)(struct walk *w, const char *parent, const char *name, const char *text);
    void (*end)(struct walk *w, const char *name);
    void *user;
};

static void give_up(struct walk *w)
{
    w->bad = true;
    XML_StopParser(w->parser, XML_FALSE);
}

static void run_out(struct walk *w)
{
    w->no_memory = true;
    give_up(w);
}

/* Gives up because of a buffer that was too small, or could not grow. */
static void give_up_buffer(struct walk *w, const struct leat_buf *buf)
{
    if (buf->full)
        give_up(w);
    else
        run_out(w);
}

static void XMLCALL on_start(void *user, const XML_Char *name, const XML_Char **attributes)
{
    struct walk *w = user;
    bool encoded = false;
    for (const XML_Char **a = attributes; a[0] && a[1]; a += 2) /* how Azure writes names that XML cannot hold */
        encoded |= strcmp(a[0], "Encoded") == 0 && strcmp(a[1], "true") == 0;
    const char *colon = strrchr(name, ':'); /* a namespace prefix says nothing here */
    name = colon ? colon + 1 : name;
    if (w->depth == DEPTH_MAX || strlen(name) > 48) {
        give_up(w);
        return;
    }
    snprintf(w->names[w->depth++], NAME_SIZE, "%.48s%s", name, encoded ? ":encoded" : "");
    leat_buf_clear(&w->text);
}

static void XMLCALL on_end(void *user, const XML_Char *name)
{
    struct walk *w = user;
    (void)name;
    if (!w->depth)
        return;
    w->depth--;
    if (w->leaf)
        w->leaf(w, w->depth ? w->names[w->depth - 1] : "", w->names[w->depth], w->text.data);
    if (w->end)
        w->end(w, w->names[w->depth]);
    leat_buf_clear(&w->text);
}

static void XMLCALL on_text(void *user, const XML_Char *text, int n)
{
    struct walk *w = user;
    if (!leat_buf_add(&w->text, text, (size_t)n))
        give_up_buffer(w, &w->text);
}

/* No server we talk to declares entities; a document that does is an attack. */
static void XMLCALL on_doctype(void *user, const XML_Char *name, const XML_Char *system, const XML_Char *public,
                               int internal)
{
    (void)name;
    (void)system;
    (void)public;
    (void)internal;
    give_up(user);
}

static bool walk_xml(struct walk *w, const char *xml, size_t n)
{
    if (n > INT32_MAX)
        return false;
    w->parser = XML_ParserCreate("UTF-8");
    if (!w->parser) {
        w->no_memory = true;
        return false;
    }
    leat_buf_init(&w->text, TEXT_MAX);
    XML_SetUserData(w->parser, w);
    XML_SetElementHandler(w->parser, on_start, on_end);
    XML_SetCharacterDataHandler(w->parser, on_text);
    XML_SetStartDoctypeDeclHandler(w->parser, on_doctype);
    bool ok = XML_Parse(w->parser, xml, (int)n, 1) == XML_STATUS_OK && !w->bad;
    w->no_memory |= XML_GetErrorCode(w->parser) == XML_ERROR_NO_MEMORY;
    XML_ParserFree(w->parser);
    leat_buf_free(&w->text);
    return ok;
}

int64_t leat_s3_parse_time(const char *text)
{
    struct tm t = {0};
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &t);
    if (!end || (*end != '.' && *end != 'Z' && *end))
        return 0;
    time_t s = timegm(&t);
    return s > 0 ? (int64_t)s : 0;
}

static void set_text(char *out, size_t size, const char *text)
{
    size_t n = strlen(text);
    if (n < size && !*out)
        memcpy(out, text, n + 1);
}

static void answer_leaf(struct walk *w, const char *parent, const char *name, const char *text)
{
    struct leat_s3_answer *a = w->user;
    (void)parent;
    if (w->depth == 0)
        return;
    if (strcmp(name, "Code") == 0)
        set_text(a->code, sizeof a->code, text);
    else if (strcmp(name, "Message") == 0) {
        if (!a->message[0])
            snprintf(a->message, sizeof a->message, "%s", text);
    } else if (strcmp(name, "Region") == 0)
        set_text(a->region, sizeof a->region, text);
    else if (strcmp(name, "ETag") == 0)
        set_text(a->etag, sizeof a->etag, text);
    else if (strcmp(name, "ChecksumCRC32C") == 0)
        set_text(a->crc32c, sizeof a->crc32c, text);
    else if (strcmp(name, "UploadId") == 0)
        set_text(a->upload_id, sizeof a->upload_id, text);
}

static void answer_end(struct walk *w, const char *name)
{
    struct leat_s3_answer *a = w->user;
    if (w->depth == 0)
        set_text(a->root, sizeof a->root, name);
}

bool leat_s3_parse_answer(const char *xml, size_t n, struct leat_s3_answer *out)
{
    *out = (struct leat_s3_answer){0};
    struct walk w = {.leaf = answer_leaf, .end = answer_end, .user = out};
    return walk_xml(&w, xml, n);
}

struct leaves {
    leat_xml_leaf *leaf;
    void *user;
};

static void any_leaf(struct walk *w, const char *parent, const char *name, const char *text)
{
    const struct leaves *l = w->user;
    l->leaf(parent, name, text, l->user);
}

bool leat_xml_leaves(const char *xml, size_t n, leat_xml_leaf *leaf, void *user)
{
    struct leaves l = {leaf, user};
    struct walk w = {.leaf = any_leaf, .user = &l};
    return walk_xml(&w, xml, n);
}

/* A page being read: the elements of the entry at hand, turned into an entry when it ends. */
struct page_walk {
    struct leat_s3_page page;
    struct leat_s3_entry entry;
    bool has_key;
    bool url_encoded; /* keys are percent-encoded */
    bool truncated;
    bool folder;      /* Azure's directory */
    bool generations; /* Google's tell the version, not the ETag */
    bool versions;
    size_t next_key; /* of a list of versions: where the next page begins; 0: not said */
    size_t next_version;
};

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Adds a string with its NUL to the page; its offset, or SIZE_MAX. */
static size_t add_string(struct leat_s3_page *page, const char *text, bool decode)
{
    size_t at = page->strings.len;
    if (!decode) {
        leat_buf_add(&page->strings, text, strlen(text) + 1);
        return page->strings.failed ? SIZE_MAX : at;
    }
    for (const char *p = text; *p; p++) {
        char c = (char)(*p == '+' ? ' ' : *p);
        if (c == '%') {
            int hi = hex_value(p[1]);
            int lo = hi < 0 ? -1 : hex_value(p[2]);
            if (lo < 0 || (hi == 0 && lo == 0))
                return SIZE_MAX;
            c = (char)(hi << 4 | lo);
            p += 2;
        }
        leat_buf_char(&page->strings, c);
    }
    leat_buf_add(&page->strings, "", 1);
    return page->strings.failed ? SIZE_MAX : at;
}

/* Some servers leave out the quotes here that they send in headers. */
static size_t add_etag(struct leat_s3_page *page, const char *text)
{
    size_t at = page->strings.len;
    if (!*text || *text == '"' || strncmp(text, "W/", 2) == 0)
        return add_string(page, text, false);
    leat_buf_printf(&page->strings, "\"%s\"", text);
    leat_buf_add(&page->strings, "", 1);
    return page->strings.failed ? SIZE_MAX : at;
}

static void take_key(struct walk *w, const char *text)
{
    struct page_walk *p = w->user;
    p->entry.key = add_string(&p->page, text, p->url_encoded);
    p->has_key = true;
    if (p->entry.key == SIZE_MAX && p->page.strings.failed)
        give_up_buffer(w, &p->page.strings);
    else if (p->entry.key == SIZE_MAX)
        give_up(w);
}

static bool is_entry(const struct page_walk *p, const char *name)
{
    return p->versions ? strcmp(name, "Version") == 0 || strcmp(name, "DeleteMarker") == 0
                       : strcmp(name, "Contents") == 0;
}

static void page_leaf(struct walk *w, const char *parent, const char *name, const char *text)
{
    struct page_walk *p = w->user;
    if (is_entry(p, parent)) {
        if (strcmp(name, "Key") == 0)
            take_key(w, text);
        else if (strcmp(name, "Size") == 0) {
            if (leat_parse_u64(text, "Size", &p->entry.size, NULL) != LEAT_OK)
                give_up(w);
        } else if (p->generations && strcmp(name, "Generation") == 0) {
            char tag[32];
            snprintf(tag, sizeof tag, "\"g%.20s\"", text);
            p->entry.etag = add_string(&p->page, tag, false);
            if (p->entry.etag == SIZE_MAX)
                give_up_buffer(w, &p->page.strings);
        } else if (!p->generations && strcmp(name, "ETag") == 0) {
            p->entry.etag = add_etag(&p->page, text);
            if (p->entry.etag == SIZE_MAX)
                give_up_buffer(w, &p->page.strings);
        } else if (strcmp(name, "LastModified") == 0) {
            p->entry.modified_s = leat_s3_parse_time(text);
        } else if (strcmp(name, "StorageClass") == 0) {
            p->entry.storage_class = add_string(&p->page, strcmp(text, "STANDARD") == 0 ? "" : text, false);
            if (p->entry.storage_class == SIZE_MAX)
                give_up_buffer(w, &p->page.strings);
        } else if (p->versions && strcmp(name, "VersionId") == 0) {
            p->entry.version = add_string(&p->page, text, false);
            if (p->entry.version == SIZE_MAX)
                give_up_buffer(w, &p->page.strings);
        } else if (p->versions && strcmp(name, "IsLatest") == 0) {
            p->entry.latest = strcmp(text, "true") == 0;
        }
    } else if (strcmp(parent, "CommonPrefixes") == 0 && strcmp(name, "Prefix") == 0) {
        take_key(w, text);
    } else if (w->depth == 1 && strcmp(name, "IsTruncated") == 0) {
        p->truncated = strcmp(text, "true") == 0;
    } else if (p->versions && w->depth == 1 && strcmp(name, "NextKeyMarker") == 0) {
        p->next_key = add_string(&p->page, text, false);
        if (p->next_key == SIZE_MAX)
            give_up_buffer(w, &p->page.strings);
    } else if (p->versions && w->depth == 1 && strcmp(name, "NextVersionIdMarker") == 0) {
        p->next_version = add_string(&p->page, text, false);
        if (p->next_version == SIZE_MAX)
            give_up_buffer(w, &p->page.strings);
    } else if (!p->versions && w->depth == 1 && strcmp(name, "NextContinuationToken") == 0 && !p->page.token) {
        p->page.token = strdup(text);
        if (!p->page.token)
            run_out(w);
    }
}

static bool add_entry(struct leat_s3_page *page, const struct leat_s3_entry *entry)
{
    if (page->n == page->cap) {
        size_t cap = page->cap ? page->cap * 2 : 256;
        struct leat_s3_entry *more = realloc(page->entries, cap * sizeof *more);
        if (!more)
            return false;
        page->entries = more;
        page->cap = cap;
    }
    page->entries[page->n++] = *entry;
    return true;
}

static void page_end(struct walk *w, const char *name)
{
    struct page_walk *p = w->user;
    struct leat_s3_page *page = &p->page;
    bool contents = is_entry(p, name);
    if (w->depth == 0 && strcmp(name, p->versions ? "ListVersionsResult" : "ListBucketResult") != 0) {
        give_up(w);
        return;
    }
    if (w->depth != 1 || (!contents && strcmp(name, "CommonPrefixes") != 0))
        return;
    if (!p->has_key || page->n == PAGE_KEYS) {
        give_up(w);
        return;
    }
    p->entry.prefix = !contents;
    p->entry.deleted = strcmp(name, "DeleteMarker") == 0;
    if (!add_entry(page, &p->entry)) {
        run_out(w);
        return;
    }
    p->entry = (struct leat_s3_entry){0};
    p->has_key = false;
}

static int by_key(const void *a, const void *b, void *strings)
{
    const struct leat_s3_entry *x = a;
    const struct leat_s3_entry *y = b;
    int c = strcmp((char *)strings + x->key, (char *)strings + y->key);
    return c ? c : (x->key > y->key) - (x->key < y->key); /* versions of a key stay in the order they came in */
}

void leat_s3_page_free(struct leat_s3_page *page)
{
    if (!page)
        return;
    if (page->strings.data)
        leat_buf_free(&page->strings);
    free(page->entries);
    free(page->token);
    *page = (struct leat_s3_page){0};
}

static void set_versions_token(struct walk *w, struct page_walk *p)
{
    struct leat_buf token;
    leat_buf_init(&token, 16u << 10);
    const char *key = p->page.strings.data + p->next_key;
    /* Ceph's radosgw encodes the keys, but not the one to go on with: it is the last one as it stands. */
    bool plain = p->page.n && strcmp(key, p->page.strings.data + p->page.entries[p->page.n - 1].key) == 0;
    if (plain || !p->url_encoded)
        leat_buf_str(&token, key);
    else if (!leat_url_decode(&token, key, strlen(key), true) || memchr(token.data, '\0', token.len))
        leat_buf_clear(&token);
    leat_buf_printf(&token, "\n%s", p->page.strings.data + p->next_version);
    p->page.token = leat_buf_take(&token);
    w->no_memory |= !p->page.token;
}

/* Walks the document and sorts what it held. */
static leat_status finish_page(struct walk *w, struct page_walk *p, const char *xml, size_t n, struct leat_s3_page *out,
                               struct leat_error *err)
{
    bool read = walk_xml(w, xml, n);
    if (read && p->versions && p->truncated && p->next_key)
        set_versions_token(w, p);
    if (!read || w->no_memory || (p->truncated && !p->page.token)) {
        leat_s3_page_free(&p->page);
        if (w->no_memory)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for a list");
        return leat_fail(err, LEAT_SERVER, "the server's list cannot be read");
    }
    if (!p->truncated) {
        free(p->page.token);
        p->page.token = NULL;
    }
    if (p->page.n)
        qsort_r(p->page.entries, p->page.n, sizeof *p->page.entries, by_key, p->page.strings.data);
    *out = p->page;
    return LEAT_OK;
}

static leat_status parse_page(const char *xml, size_t n, bool generations, bool versions, struct leat_s3_page *out,
                              struct leat_error *err)
{
    struct page_walk p = {.generations = generations, .versions = versions};
    leat_buf_init(&p.page.strings, STRINGS_MAX);
    leat_buf_add(&p.page.strings, "", 1); /* offset 0 is the empty string */
    /* EncodingType stands behind some of the keys it is about, so it is looked for first. */
    p.url_encoded = memmem(xml, n, "<EncodingType>url</EncodingType>", 32) != NULL;
    struct walk w = {.leaf = page_leaf, .end = page_end, .user = &p};
    return finish_page(&w, &p, xml, n, out, err);
}

leat_status leat_s3_parse_page(const char *xml, size_t n, struct leat_s3_page *out, struct leat_error *err)
{
    return parse_page(xml, n, false, false, out, err);
}

leat_status leat_s3_parse_generations(const char *xml, size_t n, struct leat_s3_page *out, struct leat_error *err)
{
    return parse_page(xml, n, true, false, out, err);
}

leat_status leat_s3_parse_versions(const char *xml, size_t n, struct leat_s3_page *out, struct leat_error *err)
{
    return parse_page(xml, n, false, true, out, err);
}

/* Azure's: an entry begins with its Name and goes on until the next one's. */
static void az_leaf(struct walk *w, const char *parent, const char *name, const char *text)
{
    struct page_walk *p = w->user;
    bool prefix = strcmp(parent, "BlobPrefix") == 0;
    bool encoded = strcmp(name, "Name:encoded") == 0;
    if ((prefix || strcmp(parent, "Blob") == 0) && (encoded || strcmp(name, "Name") == 0)) {
        bool url_encoded = p->url_encoded;
        p->entry.prefix = prefix;
        p->url_encoded = encoded;
        take_key(w, text);
        p->url_encoded = url_encoded;
    } else if (strcmp(parent, "Properties") == 0 && strcmp(name, "Content-Length") == 0) {
        if (leat_parse_u64(text, "Content-Length", &p->entry.size, NULL) != LEAT_OK)
            give_up(w);
    } else if (strcmp(parent, "Properties") == 0 && strcmp(name, "Etag") == 0) {
        p->entry.etag = add_etag(&p->page, text);
        if (p->entry.etag == SIZE_MAX)
            give_up_buffer(w, &p->page.strings);
    } else if (strcmp(parent, "Properties") == 0 && strcmp(name, "Last-Modified") == 0) {
        p->entry.modified_s = leat_http_parse_date(text);
    } else if (strcmp(parent, "Properties") == 0 && strcmp(name, "ResourceType") == 0) {
        p->folder = strcmp(text, "directory") == 0; /* of an account with folders: no object */
    } else if (w->depth == 1 && strcmp(name, "NextMarker") == 0 && *text && !p->page.token) {
        p->truncated = true;
        p->page.token = strdup(text);
        if (!p->page.token)
            run_out(w);
    }
}

static void az_end(struct walk *w, const char *name)
{
    struct page_walk *p = w->user;
    if (w->depth == 0 && strcmp(name, "EnumerationResults") != 0) {
        give_up(w);
        return;
    }
    if (w->depth != 2 || (strcmp(name, "Blob") != 0 && strcmp(name, "BlobPrefix") != 0))
        return;
    if (!p->has_key || p->page.n == PAGE_KEYS)
        give_up(w);
    else if ((p->entry.prefix || !p->folder) && !add_entry(&p->page, &p->entry))
        run_out(w);
    p->entry = (struct leat_s3_entry){0};
    p->has_key = p->folder = false;
}

leat_status leat_az_parse_page(const char *xml, size_t n, struct leat_s3_page *out, struct leat_error *err)
{
    struct page_walk p = {0};
    struct walk w = {.leaf = az_leaf, .end = az_end, .user = &p};
    leat_buf_init(&p.page.strings, STRINGS_MAX);
    leat_buf_add(&p.page.strings, "", 1); /* offset 0 is the empty string */
    return finish_page(&w, &p, xml, n, out, err);
}
