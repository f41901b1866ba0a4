#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "serve/dialect.h"
#include "serve/ops.h"
#include "serve/upload.h"
#include "serve/xml.h"
#include "store/sign.h"

#define PART_MIN ((uint64_t)5 << 20)
#define XML_MAX  ((size_t)16 << 20)
#define LIST_MAX 1000

static void fail_upload(struct leat_serve_call *c, const struct leat_error *err)
{
    if (err->status == LEAT_NOT_FOUND)
        leat_serve_fail(c, LEAT_SERVE_NO_SUCH_UPLOAD);
    else
        leat_serve_fail_status(c, err);
}

/* The upload that the call names, for the key that it names. Answers nothing: the bucket's lock may be held. */
static leat_status open_upload(struct leat_serve_call *c, struct leat_serve_upload *u, struct leat_error *err)
{
    leat_status rc = leat_serve_upload_open(c->bucket, leat_serve_arg(c, "uploadId"), u, err);
    if (rc != LEAT_OK)
        return rc;
    if (u->key.len == c->key.n && memcmp(u->key.data, c->key.data, c->key.n) == 0)
        return LEAT_OK;
    leat_serve_upload_close(u);
    return leat_fail(err, LEAT_NOT_FOUND, "the upload is of another key");
}

static void begin_xml(struct leat_serve_call *c, struct leat_buf *xml, const char *root)
{
    leat_buf_init(xml, XML_MAX);
    leat_buf_printf(xml, LEAT_SERVE_XML_HEAD "<%s" LEAT_SERVE_XML_NS ">", root);
    leat_serve_xml_string(xml, "Bucket", c->bucket_name);
}

void leat_serve_create_upload(struct leat_serve_call *c)
{
    char id[LEAT_SERVE_UPLOAD_ID];
    struct leat_error err;
    struct leat_buf headers;
    struct leat_buf xml;
    leat_buf_init(&headers, LEAT_SERVE_HEADERS_MAX);
    leat_serve_kept_headers(c, &headers);
    if (headers.failed) {
        leat_buf_free(&headers);
        leat_serve_fail_headers(c);
        return;
    }
    leat_status rc = leat_serve_upload_new_id(id, &err);
    if (rc == LEAT_OK) {
        pthread_mutex_lock(&c->bucket->mu);
        rc = leat_serve_upload_make(c->bucket, c->key, headers.data ? headers.data : "", id, &err);
        pthread_mutex_unlock(&c->bucket->mu);
    }
    leat_buf_free(&headers);
    if (rc != LEAT_OK) {
        leat_serve_fail_status(c, &err);
        return;
    }
    begin_xml(c, &xml, "InitiateMultipartUploadResult");
    leat_serve_xml_element(&xml, "Key", c->key.data, c->key.n);
    leat_serve_xml_string(&xml, "UploadId", id);
    leat_buf_str(&xml, "</InitiateMultipartUploadResult>\n");
    leat_serve_reply_xml(c, 200, &xml);
}

static leat_status place_part(struct leat_serve_call *c, const struct leat_serve_part *part, struct leat_error *err)
{
    struct leat_serve_upload u;
    leat_status rc = open_upload(c, &u, err);
    if (rc != LEAT_OK)
        return rc;
    rc = leat_serve_upload_place(&u, &c->writer, part, err);
    leat_serve_upload_close(&u);
    return rc;
}

void leat_serve_upload_part(struct leat_serve_call *c)
{
    struct leat_error err;
    uint64_t number;
    struct leat_serve_part part = {0};
    if (!leat_serve_arg_number(c, "partNumber", 0, LEAT_SERVE_PARTS_MAX, &number))
        return;
    if (number < 1) {
        leat_serve_failf(c, LEAT_SERVE_INVALID_ARGUMENT, "partNumber is not from 1 to %d.", LEAT_SERVE_PARTS_MAX);
        return;
    }
    bool copied = leat_request_header(c->x, "x-amz-copy-source") != NULL;
    if (copied && !leat_serve_copy_part(c))
        return;
    part.number = (unsigned)number;
    leat_hex(c->md5, sizeof c->md5, part.md5);
    pthread_mutex_lock(&c->bucket->mu);
    leat_status rc = place_part(c, &part, &err);
    pthread_mutex_unlock(&c->bucket->mu);
    if (rc != LEAT_OK) {
        fail_upload(c, &err);
        return;
    }
    if (copied)
        leat_serve_reply_part_copied(c, part.md5);
    else
        leat_serve_reply_written(c, &c->writer, part.md5, c->md5);
}

/* The parts that the client wants, in its order. */
struct wanted {
    struct leat_serve_part *part;
    size_t n;
    struct leat_serve_part now;
    bool has_number;
    bool unordered;
};

static leat_status want(const char *path, const char *text, size_t n, void *user, struct leat_error *err)
{
    struct wanted *w = user;
    if (strcmp(path, "CompleteMultipartUpload/Part/PartNumber") == 0 && text) {
        int used = 0;
        w->has_number = sscanf(text, "%5u%n", &w->now.number, &used) == 1 && (size_t)used == n;
    } else if (strcmp(path, "CompleteMultipartUpload/Part/ETag") == 0 && text) {
        bool quoted = n >= 2 && text[0] == '"' && text[n - 1] == '"';
        snprintf(w->now.md5, sizeof w->now.md5, "%.*s", (int)(n - 2 * quoted), text + quoted);
    } else if (strcmp(path, "CompleteMultipartUpload/Part") == 0) {
        if (!w->has_number || w->n == LEAT_SERVE_PARTS_MAX)
            return leat_fail(err, LEAT_INVALID, "a part without a number, or more parts than allowed");
        if (w->n && w->part[w->n - 1].number >= w->now.number)
            w->unordered = true;
        w->part[w->n++] = w->now;
        w->has_number = false;
        w->now = (struct leat_serve_part){0};
    }
    return LEAT_OK;
}

static const struct leat_serve_part *find_part(const struct leat_serve_upload *u, const struct leat_serve_part *like)
{
    for (size_t i = 0; i < u->parts; i++) {
        if (u->part[i].number == like->number && strcasecmp(u->part[i].md5, like->md5) == 0)
            return &u->part[i];
    }
    return NULL;
}

/* Finds the parts wanted among those there, and their sizes. False: answered. */
static bool match_parts(struct leat_serve_call *c, const struct leat_serve_upload *u, struct wanted *w)
{
    for (size_t i = 0; i < w->n; i++) {
        const struct leat_serve_part *found = find_part(u, &w->part[i]);
        if (!found) {
            leat_serve_failf(c, LEAT_SERVE_INVALID_PART, "Part %u is not there, or has another ETag.",
                             w->part[i].number);
            return false;
        }
        w->part[i] = *found;
        if (i + 1 < w->n && found->size < PART_MIN) {
            leat_serve_fail(c, LEAT_SERVE_ENTITY_TOO_SMALL);
            return false;
        }
    }
    return true;
}

/* The tag of an object made of parts: the MD5 of their MD5s, and their number. */
static leat_status tag_parts(const struct wanted *w, char etag[LEAT_SERVE_ETAG], struct leat_error *err)
{
    unsigned char md5[EVP_MAX_MD_SIZE];
    char hex[LEAT_SERVE_MD5_HEX + 1];
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    if (!ctx || EVP_DigestInit_ex(ctx, EVP_md5(), NULL) != 1) {
        EVP_MD_CTX_free(ctx);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a digest");
    }
    for (size_t i = 0; i < w->n; i++) {
        leat_unhex(w->part[i].md5, md5, LEAT_SERVE_MD5);
        EVP_DigestUpdate(ctx, md5, LEAT_SERVE_MD5);
    }
    EVP_DigestFinal_ex(ctx, md5, NULL);
    EVP_MD_CTX_free(ctx);
    leat_hex(md5, LEAT_SERVE_MD5, hex);
    snprintf(etag, LEAT_SERVE_ETAG, "%s-%zu", hex, w->n);
    return LEAT_OK;
}

/* Puts the parts together in a new file and names it. Without the lock, so that nobody waits for gigabytes. */
static leat_status assemble(struct leat_serve_call *c, const struct leat_serve_upload *u, const struct wanted *w,
                            const struct leat_serve_condition *condition, struct leat_serve_writer *writer,
                            char etag[LEAT_SERVE_ETAG], struct leat_error *err)
{
    leat_status rc = tag_parts(w, etag, err);
    if (rc == LEAT_OK)
        rc = leat_serve_writer_open(c->bucket, writer, err);
    for (size_t i = 0; rc == LEAT_OK && i < w->n; i++)
        rc = leat_serve_upload_append(u, &w->part[i], writer, err);
    if (rc == LEAT_OK) {
        rc = leat_serve_writer_commit(writer, c->key, condition, u->headers.data, etag, err);
        if (rc == LEAT_NOT_FOUND) /* the object of If-Match, not the upload */
            rc = leat_fail(err, LEAT_CHANGED, "the object to be replaced is gone");
    }
    return rc;
}

static void complete(struct leat_serve_call *c, const struct leat_serve_upload *u, const struct wanted *w)
{
    char etag[LEAT_SERVE_ETAG];
    struct leat_error err;
    struct leat_buf xml;
    struct leat_serve_condition condition;
    struct leat_serve_writer writer = {.fd = -1};
    if (!c->serve->dialect->condition(c, &condition))
        return;
    leat_status rc = assemble(c, u, w, &condition, &writer, etag, &err);
    if (rc == LEAT_OK)
        c->serve->dialect->confirm(c, &writer, NULL);
    leat_serve_writer_close(&writer);
    if (rc != LEAT_OK) {
        fail_upload(c, &err);
        return;
    }
    pthread_mutex_lock(&c->bucket->mu);
    leat_serve_upload_remove(c->bucket, u);
    pthread_mutex_unlock(&c->bucket->mu);
    begin_xml(c, &xml, "CompleteMultipartUploadResult");
    leat_serve_xml_element(&xml, "Key", c->key.data, c->key.n);
    leat_buf_printf(&xml, "<Location>/%s/", c->bucket_name);
    leat_sign_encode(&xml, c->key.data, c->key.n, true);
    leat_buf_printf(&xml, "</Location><ETag>&quot;%s&quot;</ETag></CompleteMultipartUploadResult>\n", etag);
    leat_serve_reply_xml(c, 200, &xml);
}

void leat_serve_complete_upload(struct leat_serve_call *c)
{
    struct leat_error err;
    struct leat_serve_upload u;
    struct wanted w = {.part = calloc(LEAT_SERVE_PARTS_MAX, sizeof *w.part)};
    if (!w.part) {
        leat_serve_fail(c, LEAT_SERVE_INTERNAL_ERROR);
    } else if (leat_serve_xml_read(c->body.data, c->body.len, want, &w, &err) != LEAT_OK || w.n == 0) {
        leat_serve_fail(c, LEAT_SERVE_MALFORMED_XML);
    } else if (w.unordered) {
        leat_serve_fail(c, LEAT_SERVE_INVALID_PART_ORDER);
    } else if (open_upload(c, &u, &err) != LEAT_OK) {
        fail_upload(c, &err);
    } else {
        if (match_parts(c, &u, &w))
            complete(c, &u, &w);
        leat_serve_upload_close(&u);
    }
    free(w.part);
}

void leat_serve_abort_upload(struct leat_serve_call *c)
{
    struct leat_serve_upload u;
    struct leat_error err;
    pthread_mutex_lock(&c->bucket->mu);
    leat_status rc = open_upload(c, &u, &err);
    if (rc == LEAT_OK) {
        leat_serve_upload_remove(c->bucket, &u);
        leat_serve_upload_close(&u);
    }
    pthread_mutex_unlock(&c->bucket->mu);
    if (rc == LEAT_OK)
        leat_serve_reply(c, 204, "", "", 0);
    else
        fail_upload(c, &err);
}

void leat_serve_list_parts(struct leat_serve_call *c)
{
    struct leat_serve_upload u;
    struct leat_error err;
    struct leat_buf xml;
    uint64_t max;
    uint64_t after;
    uint64_t n = 0;
    unsigned last = 0;
    bool truncated = false;
    if (!leat_serve_arg_number(c, "max-parts", LIST_MAX, INT32_MAX, &max) ||
        !leat_serve_arg_number(c, "part-number-marker", 0, INT32_MAX, &after))
        return;
    if (open_upload(c, &u, &err) != LEAT_OK) {
        fail_upload(c, &err);
        return;
    }
    max = max > LIST_MAX ? LIST_MAX : max;
    begin_xml(c, &xml, "ListPartsResult");
    leat_serve_xml_element(&xml, "Key", c->key.data, c->key.n);
    leat_serve_xml_string(&xml, "UploadId", u.id);
    leat_serve_xml_number(&xml, "PartNumberMarker", after);
    leat_serve_xml_number(&xml, "MaxParts", max);
    for (size_t i = 0; i < u.parts; i++) {
        const struct leat_serve_part *p = &u.part[i];
        if (p->number <= after)
            continue;
        if (n == max) {
            truncated = true;
            break;
        }
        leat_buf_str(&xml, "<Part>");
        leat_serve_xml_number(&xml, "PartNumber", p->number);
        leat_serve_xml_time(&xml, "LastModified", p->modified_ns);
        leat_buf_printf(&xml, "<ETag>&quot;%s&quot;</ETag>", p->md5);
        leat_serve_xml_number(&xml, "Size", p->size);
        leat_buf_str(&xml, "</Part>");
        last = p->number;
        n++;
    }
    leat_serve_upload_close(&u);
    if (truncated)
        leat_serve_xml_number(&xml, "NextPartNumberMarker", last);
    leat_serve_xml_string(&xml, "IsTruncated", truncated ? "true" : "false");
    leat_buf_str(&xml, "<StorageClass>STANDARD</StorageClass></ListPartsResult>\n");
    leat_serve_reply_xml(c, 200, &xml);
}
