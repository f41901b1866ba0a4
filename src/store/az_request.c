/* One request to Azure: what it asks, where, and its signature. */
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/url.h"
#include "store/az.h"

#define VERSION       "2021-12-02"
#define LIST_TEXT_MAX (32u << 20) /* 5000 names of 1024 bytes, and what is said of each */
#define UPLOAD_ID     16          /* hex digits */

void leat_az_block_id(const char *upload, uint32_t part, char out[LEAT_AZ_BLOCK])
{
    char plain[UPLOAD_ID + 8];
    int n = snprintf(plain, sizeof plain, "%.*s-%06u", UPLOAD_ID, upload, part % 1000000);
    EVP_EncodeBlock((unsigned char *)out, (const unsigned char *)plain, n);
}

static void block_list(struct bucket_request *r, const struct leat_store_op *op)
{
    char id[LEAT_AZ_BLOCK];
    leat_buf_str(&r->body, "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>");
    for (uint32_t i = 0; i < op->parts_n; i++) {
        leat_az_block_id(op->upload, i + 1, id);
        /* "Latest" finds them whether or not an attempt whose answer was lost has put them together already. */
        leat_buf_printf(&r->body, "<Latest>%s</Latest>", id);
    }
    leat_buf_str(&r->body, "</BlockList>");
}

/* The server compares it with what arrives. */
static void add_md5(struct leat_store_op *op, struct bucket_request *r)
{
    uint8_t digest[LEAT_MD5_SIZE];
    if (op->sums && op->sums->md5_known)
        memcpy(digest, op->sums->md5, sizeof digest);
    else
        leat_md5(op->data, op->data_n, digest);
    EVP_EncodeBlock((unsigned char *)r->sum, digest, sizeof digest);
    leat_bucket_add_header(r, "content-md5", r->sum);
}

static leat_status new_upload(struct leat_store_op *op, struct leat_error *err)
{
    uint8_t random[UPLOAD_ID / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return leat_fail(err, LEAT_IO, "no random numbers for an upload's name");
    leat_hex(random, sizeof random, op->upload_id);
    return LEAT_OK;
}

static bool by_sas(const struct bucket *b)
{
    return b->aws.access_key && strncmp(b->aws.access_key, LEAT_AZ_SAS, sizeof LEAT_AZ_SAS - 1) == 0;
}

static void add_url(const struct bucket *b, const char *container, const char *key, struct leat_buf *out)
{
    leat_buf_printf(out, "%s://%s", b->scheme, b->endpoint);
    leat_sign_encode(out, b->base, strlen(b->base), true);
    leat_sign_encode(out, container, strlen(container), true);
    if (*key)
        leat_buf_char(out, '/');
    leat_sign_encode(out, key, strlen(key), true);
}

/* Copy Blob. Both are of one account, so that what authorises the request also does for its source; a SAS has to stand
 * with each. */
static void ask_copy(const struct bucket *b, struct leat_store_op *op, struct bucket_request *r)
{
    const struct leat_store_source *s = op->source;
    const char *container = strchr(s->bucket, '/');
    op->own->call.body = "";
    add_url(b, container ? container : "", s->key, &r->body);
    if (by_sas(b))
        leat_buf_printf(&r->body, "?%s", b->aws.session_token);
    leat_bucket_add_header(r, "x-ms-copy-source", r->body.data ? r->body.data : "");
    if (leat_exchange_tells(s->object->etag))
        leat_bucket_add_header(r, "x-ms-source-if-match", s->object->etag);
}

/* An address without its query, as what it stands for: servers may encode it in other ways than it came. */
static bool plain_address(const char *text, size_t n, struct leat_buf *out)
{
    const char *query = memchr(text, '?', n);
    leat_buf_init(out, 16 << 10);
    return leat_url_decode(out, text, query ? (size_t)(query - text) : n, false) && leat_buf_char(out, '\0');
}

/* "x-ms-copy-source: ADDRESS" in what is said of a copy's destination. */
static void on_copy_header(struct leat_http_call *call, const char *line, size_t n)
{
    static const char name[] = "x-ms-copy-source:";
    const struct leat_store_op *op = call->user;
    const struct bucket *b = (const struct bucket *)leat_store_backend(op->own->store);
    const char *container = strchr(op->source->bucket, '/');
    struct leat_buf encoded;
    struct leat_buf meant = {0};
    struct leat_buf said = {0};
    if (n == 0)
        op->own->same_source = false;
    if (n < sizeof name || strncasecmp(line, name, sizeof name - 1) != 0)
        return;
    for (n -= sizeof name - 1, line += sizeof name - 1; n && *line == ' '; n--)
        line++;
    leat_buf_init(&encoded, 16 << 10);
    add_url(b, container ? container : "", op->source->key, &encoded);
    op->own->same_source = !encoded.failed && plain_address(encoded.data, encoded.len, &meant) &&
                           plain_address(line, n, &said) && strcmp(meant.data, said.data) == 0;
    leat_buf_free(&encoded);
    leat_buf_free(&meant);
    leat_buf_free(&said);
}

/* Method, query, headers and body by verb; no method where there is nothing to ask. */
static void describe(const struct bucket *b, struct leat_store_op *op, struct bucket_request *r)
{
    struct leat_http_call *call = &op->own->call;
    switch (op->verb) {
    case LEAT_STORE_STAT:
        r->method = "HEAD";
        break;
    case LEAT_STORE_GET:
        r->method = op->length ? "GET" : "HEAD";
        break;
    case LEAT_STORE_PUT:
    case LEAT_STORE_UPLOAD_PART:
        r->method = "PUT";
        call->body = op->data_n ? op->data : "";
        call->body_n = op->data_n;
        add_md5(op, r);
        if (op->verb == LEAT_STORE_UPLOAD_PART) {
            leat_az_block_id(op->upload, op->part, r->block);
            leat_bucket_add_query(r, "comp", "block");
            leat_bucket_add_query(r, "blockid", r->block);
        } else {
            leat_bucket_add_header(r, "x-ms-blob-type", "BlockBlob");
        }
        leat_bucket_add_header(r, "content-type", "application/octet-stream");
        break;
    case LEAT_STORE_DELETE:
        r->method = "DELETE";
        break;
    case LEAT_STORE_UPLOAD_STAT:
        r->method = "GET";
        leat_bucket_add_query(r, "comp", "blocklist");
        leat_bucket_add_query(r, "blocklisttype", "uncommitted");
        call->text_max = LIST_TEXT_MAX;
        break;
    case LEAT_STORE_UPLOAD_FINISH:
        r->method = "PUT";
        leat_bucket_add_query(r, "comp", "blocklist");
        block_list(r, op);
        leat_bucket_add_header(r, "content-type", "application/xml");
        leat_bucket_add_header(r, "x-ms-blob-content-type", "application/octet-stream");
        call->body = r->body.data;
        call->body_n = r->body.len;
        break;
    case LEAT_STORE_COPY: /* and, once it has begun, whether it has ended */
        r->method = op->own->looking ? "HEAD" : "PUT";
        if (op->own->looking)
            call->header = on_copy_header;
        else
            ask_copy(b, op, r);
        break;
    case LEAT_STORE_UPLOAD_OPEN:
    case LEAT_STORE_UPLOAD_ABORT: /* there is no such call: Azure forgets blocks that nobody puts together in a week */
        break;
    case LEAT_STORE_LIST:
        r->method = "GET";
        leat_bucket_add_query(r, "restype", "container");
        leat_bucket_add_query(r, "comp", "list");
        if (*op->key)
            leat_bucket_add_query(r, "prefix", op->key);
        if (op->delimiter)
            leat_bucket_add_query(r, "delimiter", op->delimiter);
        if (op->token)
            leat_bucket_add_query(r, "marker", op->token);
        call->text_max = LIST_TEXT_MAX;
        break;
    }
    leat_exchange_begin(op, r->range);
    if (r->range[0])
        leat_bucket_add_header(r, "range", r->range);
    if (leat_exchange_pin(op))
        leat_bucket_add_header(r, "if-match", leat_exchange_pin(op));
    if (op->create_only)
        leat_bucket_add_header(r, "if-none-match", "*");
}

static void address(const struct bucket *b, const struct leat_store_op *op, struct bucket_request *r)
{
    const char *key = op->verb == LEAT_STORE_LIST ? "" : op->key;
    const char *container = strchr(b->bucket, '/');
    leat_buf_printf(&r->path, "%s%s%s%s", b->base, container ? container : "", *key ? "/" : "", key);
    add_url(b, container ? container : "", key, &r->url);
    if (r->query_n) {
        leat_buf_char(&r->url, '?');
        leat_sign_query(&r->url, r->query, r->query_n);
    }
}

static const char *header_of(const struct bucket_request *r, const char *name)
{
    for (size_t i = 0; i < r->headers_n; i++) {
        if (strcmp(r->headers[i].name, name) == 0)
            return r->headers[i].value;
    }
    return "";
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct leat_sign_pair *)a)->name, ((const struct leat_sign_pair *)b)->name);
}

/* What the account's key signs: https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key */
static void string_to_sign(const struct bucket *b, const struct leat_http_call *call, const struct bucket_request *r,
                           struct leat_buf *out)
{
    struct leat_sign_pair sorted[LEAT_BUCKET_HEADERS_MAX + LEAT_BUCKET_QUERY_MAX];
    leat_buf_printf(out, "%s\n\n\n", r->method);
    if (call->body && call->body_n)
        leat_buf_printf(out, "%zu", call->body_n);
    leat_buf_printf(out, "\n%s\n%s\n\n\n%s\n%s\n\n%s\n", header_of(r, "content-md5"), header_of(r, "content-type"),
                    header_of(r, "if-match"), header_of(r, "if-none-match"), header_of(r, "range"));
    memcpy(sorted, r->headers, r->headers_n * sizeof *sorted);
    qsort(sorted, r->headers_n, sizeof *sorted, by_name);
    for (size_t i = 0; i < r->headers_n; i++) {
        if (strncmp(sorted[i].name, "x-ms-", 5) == 0)
            leat_buf_printf(out, "%s:%s\n", sorted[i].name, sorted[i].value);
    }
    leat_buf_printf(out, "/%.*s", (int)strcspn(b->bucket, "/"), b->bucket);
    leat_sign_encode(out, r->path.data, r->path.len, true);
    memcpy(sorted, r->query, r->query_n * sizeof *sorted);
    qsort(sorted, r->query_n, sizeof *sorted, by_name);
    for (size_t i = 0; i < r->query_n; i++)
        leat_buf_printf(out, "\n%s:%s", sorted[i].name, sorted[i].value);
}

static leat_status sign_shared(const struct bucket *b, const struct leat_http_call *call, struct bucket_request *r,
                               struct leat_error *err)
{
    unsigned char key[256];
    uint8_t digest[LEAT_SHA256_SIZE];
    char signature[64];
    char value[160];
    struct leat_buf text;
    size_t n = strlen(b->aws.secret_key);
    size_t padding = n > 1 ? (b->aws.secret_key[n - 1] == '=') + (b->aws.secret_key[n - 2] == '=') : 0;
    int key_n = n <= 256 && n % 4 == 0 && n
                    ? EVP_DecodeBlock(key, (const unsigned char *)b->aws.secret_key, (int)n) - (int)padding
                    : -1;
    if (key_n <= 0)
        return leat_fail(err, LEAT_INVALID, "the account's key from %s is not base64", b->aws.keys_from);
    leat_buf_init(&text, 64u << 10);
    string_to_sign(b, call, r, &text);
    leat_status rc = leat_buf_check(&text, "what is signed", err);
    if (rc == LEAT_OK) {
        leat_hmac_sha256(key, (size_t)key_n, text.data, text.len, digest);
        EVP_EncodeBlock((unsigned char *)signature, digest, sizeof digest);
        snprintf(value, sizeof value, "SharedKey %.*s:%s", (int)strcspn(b->bucket, "/"), b->bucket, signature);
        leat_bucket_add_line(r, "Authorization", value);
    }
    OPENSSL_cleanse(key, sizeof key);
    leat_buf_free(&text);
    return rc;
}

leat_status leat_az_request_make(const struct bucket *b, struct leat_store_op *op, struct bucket_request *r,
                                 struct leat_error *err)
{
    const char *id = b->aws.access_key;
    leat_status rc = LEAT_OK;
    op->own->bucket = true;
    op->own->odd_etags = true;
    op->own->keys = b->keys_number;
    if (op->verb == LEAT_STORE_UPLOAD_OPEN)
        return new_upload(op, err);
    if (op->verb == LEAT_STORE_UPLOAD_COPY)
        return leat_fail(err, LEAT_UNSUPPORTED, "Azure copies objects whole");
    describe(b, op, r);
    if (!r->method)
        return LEAT_OK;
    leat_exchange_date(leat_wall_s() + b->clock_offset_s, r->date);
    leat_bucket_add_header(r, "x-ms-date", r->date);
    leat_bucket_add_header(r, "x-ms-version", VERSION);
    address(b, op, r);
    for (size_t i = 0; i < r->headers_n; i++)
        leat_bucket_add_line(r, r->headers[i].name, r->headers[i].value);
    if (id && strncmp(id, LEAT_AZ_KEY, sizeof LEAT_AZ_KEY - 1) == 0)
        rc = sign_shared(b, &op->own->call, r, err);
    else if (by_sas(b))
        leat_buf_printf(&r->url, "%c%s", r->query_n ? '&' : '?', b->aws.session_token);
    else if (id)
        leat_bucket_add_bearer(r, b->aws.session_token);
    return rc == LEAT_OK ? leat_bucket_request_end(op, r, err) : rc;
}
