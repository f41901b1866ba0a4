/* Google's dialect: the XML interface, which is S3's under other names, with generations in the place of ETags. */
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/parse.h"
#include "serve/auth.h"
#include "serve/dialect.h"
#include "serve/ops.h"

static const struct leat_serve_op ops[] = {
    {"ListObjects", "GET", LEAT_SERVE_BUCKET, "list-type", "2", LEAT_SERVE_BODY_NONE, false, leat_serve_list_objects},
    {"ListParts", "GET", LEAT_SERVE_OBJECT, "uploadId", NULL, LEAT_SERVE_BODY_NONE, false, leat_serve_list_parts},
    {"GetObject", "GET", LEAT_SERVE_OBJECT, NULL, NULL, LEAT_SERVE_BODY_NONE, false, leat_serve_get_object},
    {"HeadObject", "HEAD", LEAT_SERVE_OBJECT, NULL, NULL, LEAT_SERVE_BODY_NONE, false, leat_serve_get_object},
    {"UploadPart", "PUT", LEAT_SERVE_OBJECT, "uploadId", NULL, LEAT_SERVE_BODY_FILE, true, leat_serve_upload_part},
    {"PutObject", "PUT", LEAT_SERVE_OBJECT, NULL, NULL, LEAT_SERVE_BODY_FILE, true, leat_serve_put_object},
    {"CreateUpload", "POST", LEAT_SERVE_OBJECT, "uploads", NULL, LEAT_SERVE_BODY_MEMORY, true,
     leat_serve_create_upload},
    {"CompleteUpload", "POST", LEAT_SERVE_OBJECT, "uploadId", NULL, LEAT_SERVE_BODY_MEMORY, true,
     leat_serve_complete_upload},
    {"AbortUpload", "DELETE", LEAT_SERVE_OBJECT, "uploadId", NULL, LEAT_SERVE_BODY_NONE, true, leat_serve_abort_upload},
    {"DeleteObject", "DELETE", LEAT_SERVE_OBJECT, NULL, NULL, LEAT_SERVE_BODY_NONE, true, leat_serve_delete_object},
    {0},
};

static const char *const headers[] = {
    "x-goog-date", "x-goog-content-sha256", "x-goog-hash", "x-goog-if-generation-match", "x-goog-api-client", NULL,
};

static bool condition(struct leat_serve_call *c, struct leat_serve_condition *out)
{
    const char *wanted = leat_request_header(c->x, "x-goog-if-generation-match");
    uint64_t generation = 0;
    *out = (struct leat_serve_condition){0};
    if (!wanted)
        return true;
    if (leat_parse_u64(wanted, "generation", &generation, NULL) != LEAT_OK || generation > INT64_MAX) {
        leat_serve_failf(c, LEAT_SERVE_INVALID_ARGUMENT, "x-goog-if-generation-match is not a generation.");
        return false;
    }
    out->absent = generation == 0; /* none is allowed to be there */
    out->version = (int64_t)generation;
    return true;
}

static bool crc_of_file(int fd, uint64_t n, uint32_t *out)
{
    static const size_t block = (size_t)256 << 10;
    char *data = malloc(block);
    uint64_t at = 0;
    *out = 0;
    while (data && at < n) {
        ssize_t got = pread(fd, data, block, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        *out = leat_crc32c(*out, data, (size_t)got);
        at += (uint64_t)got;
    }
    free(data);
    return data && at == n;
}

static void add_hash(struct leat_serve_call *c, int fd, uint64_t n)
{
    char text[32] = "crc32c=";
    uint32_t crc;
    if (!crc_of_file(fd, n, &crc))
        return; /* it shrinks under our hands: what is sent of it will break off */
    uint8_t bytes[4] = {(uint8_t)(crc >> 24), (uint8_t)(crc >> 16), (uint8_t)(crc >> 8), (uint8_t)crc};
    EVP_EncodeBlock((unsigned char *)text + strlen(text), bytes, sizeof bytes);
    leat_request_add_header(c->x, "x-goog-hash", text);
}

static void add_generation(struct leat_serve_call *c, int64_t modified_ns)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)modified_ns);
    leat_request_add_header(c->x, "x-goog-generation", text);
    leat_request_add_header(c->x, "x-goog-metageneration", "1");
}

static void describe(struct leat_serve_call *c, const struct leat_serve_object *o, bool whole, bool range)
{
    char size[24];
    (void)range;
    snprintf(size, sizeof size, "%llu", (unsigned long long)o->size);
    add_generation(c, o->modified_ns);
    leat_request_add_header(c->x, "x-goog-stored-content-length", size);
    leat_request_add_header(c->x, "x-goog-stored-content-encoding", "identity");
    if (whole)
        add_hash(c, o->fd, o->size);
}

static void confirm(struct leat_serve_call *c, const struct leat_serve_writer *w, const unsigned char *md5)
{
    (void)md5;
    if (w->modified_ns) /* a part is no version of anything yet */
        add_generation(c, w->modified_ns);
    add_hash(c, w->fd, w->size);
}

const struct leat_serve_dialect leat_serve_gcs = {
    .name = "gcs",
    .prefix = "x-goog-",
    .meta = "x-goog-meta-",
    .request_id = "x-guploader-uploadid",
    .type = "application/octet-stream",
    .created = 200,
    .is_strict = true,
    .is_versioned = true,
    .ops = ops,
    .headers = headers,
    .authorize = leat_serve_authorize_v4,
    .condition = condition,
    .describe = describe,
    .confirm = confirm,
};
