/* S3's dialect. */
#include <string.h>

#include "serve/auth.h"
#include "serve/dialect.h"
#include "serve/ops.h"

/* The first that fits counts, so those with an argument stand before those without. */
static const struct leat_serve_op ops[] = {
    {"ListObjectsV2", "GET", LEAT_SERVE_BUCKET, "list-type", "2", LEAT_SERVE_BODY_NONE, false, leat_serve_list_objects},
    {"ListParts", "GET", LEAT_SERVE_OBJECT, "uploadId", NULL, LEAT_SERVE_BODY_NONE, false, leat_serve_list_parts},
    {"GetObject", "GET", LEAT_SERVE_OBJECT, NULL, NULL, LEAT_SERVE_BODY_NONE, false, leat_serve_get_object},
    {"HeadObject", "HEAD", LEAT_SERVE_OBJECT, NULL, NULL, LEAT_SERVE_BODY_NONE, false, leat_serve_get_object},
    {"UploadPart", "PUT", LEAT_SERVE_OBJECT, "uploadId", NULL, LEAT_SERVE_BODY_FILE, true, leat_serve_upload_part},
    {"PutObject", "PUT", LEAT_SERVE_OBJECT, NULL, NULL, LEAT_SERVE_BODY_FILE, true, leat_serve_put_object},
    {"CreateMultipartUpload", "POST", LEAT_SERVE_OBJECT, "uploads", NULL, LEAT_SERVE_BODY_MEMORY, true,
     leat_serve_create_upload},
    {"CompleteMultipartUpload", "POST", LEAT_SERVE_OBJECT, "uploadId", NULL, LEAT_SERVE_BODY_MEMORY, true,
     leat_serve_complete_upload},
    {"AbortMultipartUpload", "DELETE", LEAT_SERVE_OBJECT, "uploadId", NULL, LEAT_SERVE_BODY_NONE, true,
     leat_serve_abort_upload},
    {"DeleteObject", "DELETE", LEAT_SERVE_OBJECT, NULL, NULL, LEAT_SERVE_BODY_NONE, true, leat_serve_delete_object},
    {0},
};

static bool condition(struct leat_serve_call *c, struct leat_serve_condition *out)
{
    const char *none = leat_request_header(c->x, "If-None-Match");
    *out = (struct leat_serve_condition){.absent = none != NULL, .match = leat_request_header(c->x, "If-Match")};
    if (!none || (c->op->writes && strcmp(none, "*") == 0))
        return true;
    leat_serve_failf(c, LEAT_SERVE_NOT_IMPLEMENTED, "If-None-Match can only be * and only of a write.");
    return false;
}

static void describe(struct leat_serve_call *c, const struct leat_serve_object *o, bool whole, bool range)
{
    (void)c;
    (void)o;
    (void)whole;
    (void)range;
}

/* What the body was compared with. */
static void confirm(struct leat_serve_call *c, const struct leat_serve_writer *w, const unsigned char *md5)
{
    const char *checksum;
    const char *header = md5 ? leat_serve_digest_header(c->digest, &checksum) : NULL;
    (void)w;
    if (header)
        leat_request_add_header(c->x, header, checksum);
}

const struct leat_serve_dialect leat_serve_s3 = {
    .name = "s3",
    .prefix = "x-amz-",
    .meta = "x-amz-meta-",
    .request_id = "x-amz-request-id",
    .type = "binary/octet-stream",
    .created = 200,
    .ops = ops,
    .authorize = leat_serve_authorize_v4,
    .condition = condition,
    .describe = describe,
    .confirm = confirm,
};
