/* Azure's dialect: block blobs, at "/account/container/key" as Azurite has them. */
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "serve/auth.h"
#include "serve/dialect.h"
#include "serve/ops.h"
#include "serve/upload.h"
#include "serve/xml.h"

#define XML_MAX    ((size_t)16 << 20)
#define BLOCKS_MAX 50000

/* Kept with a blob that was made of blocks, and shown to nobody: a digest of the list of their names. */
#define BLOCKS LEAT_SERVE_HIDDEN "blocks"

static void put_block(struct leat_serve_call *c);
static void put_block_list(struct leat_serve_call *c);
static void get_block_list(struct leat_serve_call *c);

static const struct leat_serve_op ops[] = {
    {"ListBlobs", "GET", LEAT_SERVE_BUCKET, "comp", "list", LEAT_SERVE_BODY_NONE, false, leat_serve_list_objects},
    {"GetBlockList", "GET", LEAT_SERVE_OBJECT, "comp", "blocklist", LEAT_SERVE_BODY_NONE, false, get_block_list},
    {"PutBlock", "PUT", LEAT_SERVE_OBJECT, "comp", "block", LEAT_SERVE_BODY_FILE, true, put_block},
    {"PutBlockList", "PUT", LEAT_SERVE_OBJECT, "comp", "blocklist", LEAT_SERVE_BODY_MEMORY, true, put_block_list},
    {"GetBlob", "GET", LEAT_SERVE_OBJECT, NULL, NULL, LEAT_SERVE_BODY_NONE, false, leat_serve_get_object},
    {"GetBlobProperties", "HEAD", LEAT_SERVE_OBJECT, NULL, NULL, LEAT_SERVE_BODY_NONE, false, leat_serve_get_object},
    {"PutBlob", "PUT", LEAT_SERVE_OBJECT, NULL, NULL, LEAT_SERVE_BODY_FILE, true, leat_serve_put_object},
    {"DeleteBlob", "DELETE", LEAT_SERVE_OBJECT, NULL, NULL, LEAT_SERVE_BODY_NONE, true, leat_serve_delete_object},
    {0},
};

static const char *const headers[] = {
    "x-ms-date",
    "x-ms-version",
    "x-ms-range",
    "x-ms-blob-type",
    "x-ms-blob-content-type",
    "x-ms-client-request-id",
    "x-ms-return-client-request-id",
    "x-ms-copy-source", /* only to be refused in Azure's own words */
    NULL,
};

static bool condition(struct leat_serve_call *c, struct leat_serve_condition *out)
{
    const char *match = leat_request_header(c->x, "If-Match");
    const char *none = leat_request_header(c->x, "If-None-Match");
    unsigned long long version = 0;
    *out = (struct leat_serve_condition){.absent = none != NULL};
    if (none && (!c->op->writes || strcmp(none, "*") != 0)) {
        leat_serve_failf(c, LEAT_SERVE_NOT_IMPLEMENTED, "If-None-Match can only be * and only of a write.");
        return false;
    }
    if (match && strcmp(match, "*") == 0)
        out->present = true;
    else if (match) /* what is no tag of this server's is no version of the blob */
        out->version = sscanf(match, "\"0x%llX\"", &version) == 1 && version ? (int64_t)version : -1;
    return true;
}

static void add_md5(struct leat_serve_call *c, const char *name, const unsigned char *md5)
{
    char text[32];
    EVP_EncodeBlock((unsigned char *)text, md5, LEAT_SERVE_MD5);
    leat_request_add_header(c->x, name, text);
}

static void describe(struct leat_serve_call *c, const struct leat_serve_object *o, bool whole, bool range)
{
    unsigned char md5[LEAT_SERVE_MD5];
    (void)whole;
    leat_request_add_header(c->x, "x-ms-blob-type", "BlockBlob");
    leat_request_add_header(c->x, "x-ms-version", "2021-12-02");
    if (leat_unhex(o->etag, md5, sizeof md5)) /* it was put whole */
        add_md5(c, range ? "x-ms-blob-content-md5" : "Content-MD5", md5);
}

static void confirm(struct leat_serve_call *c, const struct leat_serve_writer *w, const unsigned char *md5)
{
    (void)w;
    leat_request_add_header(c->x, "x-ms-version", "2021-12-02");
    if (md5)
        add_md5(c, "Content-MD5", md5);
}

/* Blocks of a blob that nobody has put together yet are an upload whose name follows from the key. */
static void upload_of(const struct leat_serve_call *c, char id[LEAT_SERVE_UPLOAD_ID])
{
    uint8_t digest[LEAT_MD5_SIZE];
    leat_md5(c->key.data, c->key.n, digest);
    leat_hex(digest, sizeof digest, id);
}

static leat_status place_block(struct leat_serve_call *c, const struct leat_serve_part *block, struct leat_error *err)
{
    char id[LEAT_SERVE_UPLOAD_ID];
    struct leat_serve_upload u;
    upload_of(c, id);
    leat_status rc = leat_serve_upload_open(c->bucket, id, &u, err);
    if (rc == LEAT_NOT_FOUND) {
        rc = leat_serve_upload_make(c->bucket, c->key, "", id, err);
        if (rc == LEAT_OK)
            rc = leat_serve_upload_open(c->bucket, id, &u, err);
    }
    if (rc != LEAT_OK)
        return rc;
    rc = leat_serve_upload_place(&u, &c->writer, block, err);
    leat_serve_upload_close(&u);
    return rc;
}

static void put_block(struct leat_serve_call *c)
{
    struct leat_serve_part block = {0};
    struct leat_error err;
    const char *name = leat_serve_arg(c, "blockid");
    if (!name || !*name || strlen(name) > LEAT_SERVE_BLOCK_MAX) {
        leat_serve_failf(c, LEAT_SERVE_INVALID_ARGUMENT, "There is no block id, or it is too long.");
        return;
    }
    snprintf(block.block, sizeof block.block, "%s", name);
    pthread_mutex_lock(&c->bucket->mu);
    leat_status rc = place_block(c, &block, &err);
    pthread_mutex_unlock(&c->bucket->mu);
    if (rc != LEAT_OK) {
        leat_serve_fail_status(c, &err);
        return;
    }
    confirm(c, &c->writer, c->md5);
    leat_serve_reply(c, 201, "", "", 0);
}

/* The list of names that the client sends, one after the other with a NUL after each. */
static leat_status read_name(const char *path, const char *text, size_t n, void *user, struct leat_error *err)
{
    struct leat_buf *names = user;
    bool known = strcmp(path, "BlockList/Latest") == 0 || strcmp(path, "BlockList/Uncommitted") == 0;
    if (!text)
        return LEAT_OK;
    if (!known || n == 0 || n > LEAT_SERVE_BLOCK_MAX || memchr(text, '\0', n))
        return leat_fail(err, LEAT_INVALID, "not a list of blocks that is understood here");
    return leat_buf_add(names, text, n) && leat_buf_char(names, '\0') ? LEAT_OK
                                                                      : leat_fail(err, LEAT_NO_MEMORY, "no memory");
}

static const struct leat_serve_part *find_block(const struct leat_serve_upload *u, const char *name)
{
    for (size_t i = 0; u->part && i < u->parts; i++) {
        if (strcmp(u->part[i].block, name) == 0)
            return &u->part[i];
    }
    return NULL;
}

/* LEAT_CHANGED: a block is not there. */
static leat_status join_blocks(struct leat_serve_call *c, const struct leat_buf *names, struct leat_serve_writer *to,
                               struct leat_serve_upload *u, struct leat_error *err)
{
    char id[LEAT_SERVE_UPLOAD_ID];
    upload_of(c, id);
    leat_status rc = leat_serve_upload_open(c->bucket, id, u, err);
    if (rc == LEAT_NOT_FOUND && names->len)
        return leat_fail(err, LEAT_CHANGED, "there are no such blocks");
    if (rc != LEAT_OK && rc != LEAT_NOT_FOUND)
        return rc;
    rc = LEAT_OK;
    for (size_t at = 0; rc == LEAT_OK && names->data && at < names->len; at += strlen(names->data + at) + 1) {
        const struct leat_serve_part *block = find_block(u, names->data + at);
        rc = block ? leat_serve_upload_append(u, block, to, err) : leat_fail(err, LEAT_CHANGED, "a block is missing");
    }
    return rc;
}

/* The same list once more, since its answer was lost: the blob is what it was to become. */
static bool is_done(struct leat_serve_call *c, const char *line, struct leat_serve_writer *w, char *etag)
{
    struct leat_serve_object o = {.fd = -1};
    if (leat_serve_object_open(c->bucket, c->key, &o, NULL) != LEAT_OK)
        return false;
    bool same = o.headers.data && strstr(o.headers.data, line);
    w->modified_ns = o.modified_ns;
    memcpy(etag, o.etag, sizeof o.etag);
    leat_serve_object_close(&o);
    return same;
}

static void commit_blocks(struct leat_serve_call *c, const struct leat_buf *names)
{
    struct leat_serve_writer w = {.fd = -1};
    struct leat_serve_upload u = {.dir = -1};
    struct leat_serve_condition wanted;
    struct leat_buf kept;
    struct leat_error err;
    uint8_t digest[LEAT_MD5_SIZE];
    char hex[2 * LEAT_MD5_SIZE + 1];
    char line[sizeof BLOCKS + sizeof hex + 4];
    char etag[LEAT_SERVE_ETAG];
    if (!c->serve->dialect->condition(c, &wanted))
        return;
    leat_md5(names->data ? names->data : "", names->len, digest);
    leat_hex(digest, sizeof digest, hex);
    snprintf(line, sizeof line, BLOCKS ": %s\n", hex);
    snprintf(etag, sizeof etag, "%s-blocks", hex); /* no MD5 of the content */
    leat_buf_init(&kept, LEAT_SERVE_HEADERS_MAX);
    leat_serve_kept_headers(c, &kept);
    leat_buf_str(&kept, line);
    leat_status rc = leat_serve_writer_open(c->bucket, &w, &err);
    if (rc == LEAT_OK)
        rc = join_blocks(c, names, &w, &u, &err);
    bool missing = rc == LEAT_CHANGED;
    if (rc == LEAT_OK)
        rc = kept.failed ? leat_fail(&err, LEAT_INVALID, "the headers to keep are too large")
                         : leat_serve_writer_commit(&w, c->key, &wanted, kept.data, etag, &err);
    if (rc == LEAT_OK && u.dir >= 0) {
        pthread_mutex_lock(&c->bucket->mu);
        leat_serve_upload_remove(c->bucket, &u);
        pthread_mutex_unlock(&c->bucket->mu);
    }
    if (rc == LEAT_OK || (missing && is_done(c, line, &w, etag)))
        leat_serve_reply_written(c, &w, etag, NULL);
    else if (missing)
        leat_serve_fail(c, LEAT_SERVE_INVALID_PART);
    else
        leat_serve_fail_status(c, &err);
    leat_serve_upload_close(&u);
    leat_serve_writer_close(&w);
    leat_buf_free(&kept);
}

static void put_block_list(struct leat_serve_call *c)
{
    struct leat_buf names;
    struct leat_error err;
    leat_buf_init(&names, (size_t)BLOCKS_MAX * (LEAT_SERVE_BLOCK_MAX + 1));
    if (leat_serve_xml_read(c->body.data, c->body.len, read_name, &names, &err) != LEAT_OK)
        leat_serve_fail(c, LEAT_SERVE_MALFORMED_XML);
    else
        commit_blocks(c, &names);
    leat_buf_free(&names);
}

static void get_block_list(struct leat_serve_call *c)
{
    char id[LEAT_SERVE_UPLOAD_ID];
    struct leat_serve_upload u;
    struct leat_error err;
    struct leat_buf xml;
    upload_of(c, id);
    leat_status rc = leat_serve_upload_open(c->bucket, id, &u, &err);
    if (rc != LEAT_OK) {
        leat_serve_fail_status(c, &err);
        return;
    }
    leat_buf_init(&xml, XML_MAX);
    leat_buf_str(&xml, LEAT_SERVE_XML_HEAD "<BlockList><UncommittedBlocks>");
    for (size_t i = 0; i < u.parts; i++) {
        leat_buf_str(&xml, "<Block>");
        leat_serve_xml_string(&xml, "Name", u.part[i].block);
        leat_serve_xml_number(&xml, "Size", u.part[i].size);
        leat_buf_str(&xml, "</Block>");
    }
    leat_buf_str(&xml, "</UncommittedBlocks></BlockList>\n");
    leat_serve_upload_close(&u);
    leat_serve_reply_xml(c, 200, &xml);
}

const struct leat_serve_dialect leat_serve_azure = {
    .name = "azure",
    .prefix = "x-ms-",
    .meta = "x-ms-meta-",
    .request_id = "x-ms-request-id",
    .type = "application/octet-stream",
    .created = 201,
    .has_account = true,
    .is_strict = true,
    .is_versioned = true,
    .ops = ops,
    .headers = headers,
    .authorize = leat_serve_authorize_azure,
    .condition = condition,
    .describe = describe,
    .confirm = confirm,
};
