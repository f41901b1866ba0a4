#include <stdlib.h>
#include <string.h>

#include "serve/dialect.h"
#include "serve/ops.h"
#include "serve/xml.h"
#include "store/sign.h"

#define KEYS_MAX  1000
#define BLOBS_MAX 5000
#define XML_MAX   ((size_t)32 << 20)

/* A page of a listing. Keys and common prefixes, in order, as S3 counts both towards max-keys. */
struct page {
    struct leat_serve_key prefix;
    struct leat_serve_key delimiter;
    struct leat_serve_key after; /* begin after this; n 0: at the beginning */
    bool resumed;                /* goes on with an earlier page */
    uint64_t max;
    bool url; /* encoding-type=url */

    struct leat_serve_names keys;
    struct leat_serve_names prefixes;
    bool truncated;
    struct leat_buf last; /* what the next page begins after */
};

static struct leat_serve_key arg_key(const struct leat_serve_call *c, const char *name)
{
    const struct leat_serve_arg *a = leat_serve_arg_bytes(c, name);
    return a ? (struct leat_serve_key){a->value, a->value_n} : (struct leat_serve_key){"", 0};
}

static bool has_prefix(struct leat_serve_key key, struct leat_serve_key prefix)
{
    return key.n >= prefix.n && memcmp(key.data, prefix.data, prefix.n) == 0;
}

/* Up to and including the delimiter after the prefix, or 0 when there is none. */
static size_t common_prefix(struct leat_serve_key key, const struct page *p)
{
    if (!p->delimiter.n || key.n < p->prefix.n)
        return 0;
    const char *rest = key.data + p->prefix.n;
    const char *at = memmem(rest, key.n - p->prefix.n, p->delimiter.data, p->delimiter.n);
    return at ? (size_t)(at - key.data) + p->delimiter.n : 0;
}

/* The least text that is greater than every one beginning with `text`; false when there is none. Without memory for
 * it, *out has failed. */
static bool successor(const char *text, size_t n, struct leat_buf *out)
{
    while (n && (unsigned char)text[n - 1] == 0xff)
        n--;
    if (!n)
        return false;
    leat_buf_clear(out);
    if (leat_buf_add(out, text, n))
        out->data[n - 1] = (char)((unsigned char)out->data[n - 1] + 1);
    return true;
}

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for a listing");
}

static leat_status seek(struct leat_serve_index *ix, const struct leat_buf *at, struct leat_error *err)
{
    if (at->failed)
        return no_memory(err);
    return leat_serve_index_seek(ix, (struct leat_serve_key){at->data, at->len}, err);
}

/* Where the page begins: after `after`, and if that is (in) a common prefix after all of it. */
static leat_status seek_start(struct leat_serve_index *ix, const struct page *p, bool *any, struct leat_error *err)
{
    struct leat_buf at;
    leat_buf_init(&at, LEAT_SERVE_KEY_MAX + 8);
    leat_status rc = LEAT_OK;
    *any = true;
    if (p->after.n && leat_serve_compare(p->after, p->prefix) >= 0) {
        size_t common = has_prefix(p->after, p->prefix) ? common_prefix(p->after, p) : 0;
        if (common)
            *any = successor(p->after.data, common, &at);
        else
            leat_buf_add(&at, p->after.data, p->after.n), leat_buf_char(&at, '\0');
    } else {
        leat_buf_add(&at, p->prefix.data, p->prefix.n);
    }
    if (*any)
        rc = seek(ix, &at, err);
    leat_buf_free(&at);
    return rc;
}

/* Notes the key or its common prefix; *skip when the index has to go after a common prefix. */
static leat_status note(struct page *p, struct leat_serve_key key, size_t common, struct leat_error *err)
{
    struct leat_serve_names *to = common ? &p->prefixes : &p->keys;
    size_t n = common ? common : key.n;
    leat_buf_clear(&p->last);
    if (!leat_serve_names_append(to, key.data, n, false) || !leat_buf_add(&p->last, key.data, n))
        return no_memory(err);
    return LEAT_OK;
}

static leat_status fill(struct leat_serve_index *ix, struct page *p, struct leat_error *err)
{
    struct leat_buf at;
    bool any;
    leat_buf_init(&at, LEAT_SERVE_KEY_MAX + 8);
    leat_status rc = seek_start(ix, p, &any, err);
    while (rc == LEAT_OK && any) {
        struct leat_serve_key key;
        rc = leat_serve_index_next(ix, &key, &any, err);
        if (rc != LEAT_OK || !any || !has_prefix(key, p->prefix))
            break;
        if (p->keys.n + p->prefixes.n >= p->max) {
            p->truncated = true;
            break;
        }
        size_t common = common_prefix(key, p);
        rc = note(p, key, common, err);
        if (rc == LEAT_OK && common) {
            any = successor(p->last.data, common, &at);
            if (any)
                rc = seek(ix, &at, err);
        }
    }
    leat_buf_free(&at);
    return rc;
}

static void add_key(struct leat_buf *xml, const char *name, const char *key, size_t n, bool url)
{
    if (!url) {
        leat_serve_xml_element(xml, name, key, n);
        return;
    }
    leat_serve_xml_open(xml, name);
    leat_sign_encode(xml, key, n, true);
    leat_serve_xml_close(xml, name);
}

/* A blob's name, which is escaped in another way where XML cannot hold it. */
static void add_name(struct leat_buf *xml, struct leat_serve_key key)
{
    bool odd = false;
    for (size_t i = 0; i < key.n; i++)
        odd |= (unsigned char)key.data[i] < ' ';
    if (!odd) {
        leat_serve_xml_element(xml, "Name", key.data, key.n);
        return;
    }
    leat_buf_str(xml, "<Name Encoded=\"true\">");
    leat_sign_encode(xml, key.data, key.n, true);
    leat_serve_xml_close(xml, "Name");
}

static void add_blob(struct leat_serve_call *c, struct leat_buf *xml, struct leat_serve_key key,
                     const struct leat_serve_object *o)
{
    char tag[LEAT_SERVE_TAG];
    char date[40];
    leat_serve_tag(c, o->etag, o->modified_ns, tag);
    tag[strlen(tag) - 1] = '\0'; /* here without its quotes */
    leat_serve_http_date(o->modified_ns, date);
    leat_buf_str(xml, "<Blob>");
    add_name(xml, key);
    leat_buf_str(xml, "<Properties>");
    leat_serve_xml_string(xml, "Last-Modified", date);
    leat_serve_xml_string(xml, "Etag", tag + 1);
    leat_serve_xml_number(xml, "Content-Length", o->size);
    leat_buf_str(xml, "<BlobType>BlockBlob</BlobType></Properties></Blob>");
}

static void add_object(struct leat_serve_call *c, struct leat_buf *xml, struct leat_serve_key key,
                       const struct leat_serve_object *o, bool url)
{
    leat_buf_str(xml, "<Contents>");
    add_key(xml, "Key", key.data, key.n, url);
    leat_serve_xml_time(xml, "LastModified", o->modified_ns);
    leat_buf_str(xml, "<ETag>&quot;");
    leat_buf_str(xml, o->etag);
    leat_buf_str(xml, "&quot;</ETag>");
    leat_serve_xml_number(xml, "Size", o->size);
    if (c->serve->dialect->is_versioned)
        leat_serve_xml_number(xml, "Generation", (uint64_t)o->modified_ns);
    leat_buf_str(xml, "<StorageClass>STANDARD</StorageClass></Contents>");
}

/* Of the keys only those that were removed since are left out: a list that lacks others would be a lie. */
static leat_status add_contents(struct leat_serve_call *c, const struct page *p, struct leat_buf *xml,
                                struct leat_error *err)
{
    struct leat_serve_lookup lookup = {.bucket = c->bucket, .dir = -1};
    bool blobs = c->serve->dialect->has_account;
    leat_status rc = LEAT_OK;
    for (size_t i = 0; rc == LEAT_OK && i < p->keys.n; i++) {
        struct leat_serve_key key = {p->keys.text + p->keys.entry[i].at, p->keys.entry[i].n};
        struct leat_serve_object o = {.fd = -1};
        rc = leat_serve_object_look(&lookup, key, &o, err);
        if (rc == LEAT_OK && blobs)
            add_blob(c, xml, key, &o);
        else if (rc == LEAT_OK)
            add_object(c, xml, key, &o, p->url);
        if (rc == LEAT_OK)
            leat_serve_object_close(&o);
        else if (rc == LEAT_NOT_FOUND)
            rc = LEAT_OK;
    }
    leat_serve_lookup_end(&lookup);
    for (size_t i = 0; i < p->prefixes.n; i++) {
        struct leat_serve_key key = {p->prefixes.text + p->prefixes.entry[i].at, p->prefixes.entry[i].n};
        leat_buf_str(xml, blobs ? "<BlobPrefix>" : "<CommonPrefixes>");
        if (blobs)
            add_name(xml, key);
        else
            add_key(xml, "Prefix", key.data, key.n, p->url);
        leat_buf_str(xml, blobs ? "</BlobPrefix>" : "</CommonPrefixes>");
    }
    return rc;
}

/* Tokens are opaque to clients: the last key in hexadecimal after a letter, so that none has to be escaped. */
static bool decode_token(const char *token, struct leat_buf *out)
{
    size_t n = strlen(token);
    if (n < 1 || *token != 'k' || n % 2 == 0 || n / 2 > LEAT_SERVE_KEY_MAX)
        return false;
    for (size_t i = 1; i < n; i += 2) {
        char hex[3] = {token[i], token[i + 1], '\0'};
        char c;
        if (!leat_unhex(hex, &c, 1))
            return false;
        leat_buf_char(out, c);
    }
    return !out->failed;
}

static void add_token(struct leat_buf *xml, const char *name, const struct page *p)
{
    leat_serve_xml_open(xml, name);
    leat_buf_str(xml, p->truncated ? "k" : "");
    for (size_t i = 0; p->truncated && i < p->last.len; i++)
        leat_buf_printf(xml, "%02x", (unsigned char)p->last.data[i]);
    leat_serve_xml_close(xml, name);
}

static leat_status render_blobs(struct leat_serve_call *c, const struct page *p, struct leat_buf *xml,
                                struct leat_error *err)
{
    leat_buf_str(xml, LEAT_SERVE_XML_HEAD "<EnumerationResults ServiceEndpoint=\"/\" ContainerName=\"");
    leat_serve_xml_text(xml, c->bucket_name, strlen(c->bucket_name));
    leat_buf_str(xml, "\">");
    leat_serve_xml_number(xml, "MaxResults", p->max);
    leat_buf_str(xml, "<Blobs>");
    leat_status rc = add_contents(c, p, xml, err);
    leat_buf_str(xml, "</Blobs>");
    add_token(xml, "NextMarker", p);
    leat_buf_str(xml, "</EnumerationResults>\n");
    return rc;
}

static leat_status render_objects(struct leat_serve_call *c, const struct page *p, struct leat_buf *xml,
                                  struct leat_error *err)
{
    leat_buf_str(xml, LEAT_SERVE_XML_HEAD "<ListBucketResult" LEAT_SERVE_XML_NS ">");
    leat_serve_xml_string(xml, "Name", c->bucket_name);
    add_key(xml, "Prefix", p->prefix.data, p->prefix.n, p->url);
    if (p->delimiter.n)
        add_key(xml, "Delimiter", p->delimiter.data, p->delimiter.n, p->url);
    leat_serve_xml_number(xml, "MaxKeys", p->max);
    if (p->url)
        leat_serve_xml_string(xml, "EncodingType", "url");
    leat_serve_xml_string(xml, "IsTruncated", p->truncated ? "true" : "false");
    leat_status rc = add_contents(c, p, xml, err);
    leat_serve_xml_number(xml, "KeyCount", p->keys.n + p->prefixes.n);
    if (p->truncated)
        add_token(xml, "NextContinuationToken", p);
    leat_buf_str(xml, "</ListBucketResult>\n");
    return rc;
}

static void list(struct leat_serve_call *c, struct page *p)
{
    struct leat_error err;
    struct leat_buf xml;
    leat_status rc = LEAT_OK;
    struct leat_serve_bucket *b = c->bucket;
    if (p->max) {
        pthread_mutex_lock(&b->mu);
        bool slash = p->delimiter.n == 1 && p->delimiter.data[0] == '/';
        leat_serve_index_begin(b->index, !p->resumed, slash ? p->prefix.n : SIZE_MAX);
        rc = fill(b->index, p, &err);
        leat_serve_index_end(b->index);
        pthread_mutex_unlock(&b->mu);
    }
    leat_buf_init(&xml, XML_MAX);
    if (rc == LEAT_OK)
        rc = c->serve->dialect->has_account ? render_blobs(c, p, &xml, &err) : render_objects(c, p, &xml, &err);
    if (rc == LEAT_OK) {
        leat_serve_reply_xml(c, 200, &xml);
        return;
    }
    leat_buf_free(&xml);
    leat_serve_fail_status(c, &err);
}

void leat_serve_list_objects(struct leat_serve_call *c)
{
    bool blobs = c->serve->dialect->has_account;
    const uint64_t most = blobs ? BLOBS_MAX : KEYS_MAX;
    const char *encoding = leat_serve_arg(c, "encoding-type");
    const char *token = leat_serve_arg(c, blobs ? "marker" : "continuation-token");
    struct page p = {.prefix = arg_key(c, "prefix"), .delimiter = arg_key(c, "delimiter")};
    struct leat_buf after;
    p.url = encoding && strcmp(encoding, "url") == 0;
    p.after = arg_key(c, "start-after");
    if (!leat_serve_arg_number(c, blobs ? "maxresults" : "max-keys", most, INT32_MAX, &p.max))
        return;
    if (p.max > most)
        p.max = most;
    leat_buf_init(&p.last, LEAT_SERVE_KEY_MAX);
    leat_buf_init(&after, LEAT_SERVE_KEY_MAX);
    p.resumed = token && *token;
    if (p.resumed && !decode_token(token, &after)) {
        leat_serve_failf(c, LEAT_SERVE_INVALID_ARGUMENT, "The continuation token is not one of this server's.");
    } else if (p.after.n > LEAT_SERVE_KEY_MAX || p.prefix.n > LEAT_SERVE_KEY_MAX) {
        leat_serve_fail(c, LEAT_SERVE_KEY_TOO_LONG);
    } else {
        if (p.resumed)
            p.after = (struct leat_serve_key){after.data, after.len};
        list(c, &p);
    }
    leat_serve_names_free(&p.keys);
    leat_serve_names_free(&p.prefixes);
    leat_buf_free(&p.last);
    leat_buf_free(&after);
}
