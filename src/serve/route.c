#include <string.h>

#include "serve/ops.h"

/* The first that fits counts, so those with an argument stand before those without. */
static const struct leat_serve_op ops[] = {
    {"ListBuckets", "GET", LEAT_SERVE_SERVICE, NULL, LEAT_SERVE_BODY_NONE, false, leat_serve_list_buckets},
    {"HeadBucket", "HEAD", LEAT_SERVE_BUCKET, NULL, LEAT_SERVE_BODY_NONE, false, leat_serve_head_bucket},
    {"CreateBucket", "PUT", LEAT_SERVE_BUCKET, NULL, LEAT_SERVE_BODY_MEMORY, true, leat_serve_create_bucket},
    {"DeleteBucket", "DELETE", LEAT_SERVE_BUCKET, NULL, LEAT_SERVE_BODY_NONE, true, leat_serve_delete_bucket},
    {"GetBucketLocation", "GET", LEAT_SERVE_BUCKET, "location", LEAT_SERVE_BODY_NONE, false, leat_serve_get_location},
    {"ListMultipartUploads", "GET", LEAT_SERVE_BUCKET, "uploads", LEAT_SERVE_BODY_NONE, false, leat_serve_list_uploads},
    {"ListObjectsV2", "GET", LEAT_SERVE_BUCKET, "list-type", LEAT_SERVE_BODY_NONE, false, leat_serve_list_objects},
    {"ListObjects", "GET", LEAT_SERVE_BUCKET, NULL, LEAT_SERVE_BODY_NONE, false, leat_serve_list_objects},
    {"DeleteObjects", "POST", LEAT_SERVE_BUCKET, "delete", LEAT_SERVE_BODY_MEMORY, true, leat_serve_delete_objects},
    {"ListParts", "GET", LEAT_SERVE_OBJECT, "uploadId", LEAT_SERVE_BODY_NONE, false, leat_serve_list_parts},
    {"GetObject", "GET", LEAT_SERVE_OBJECT, NULL, LEAT_SERVE_BODY_NONE, false, leat_serve_get_object},
    {"HeadObject", "HEAD", LEAT_SERVE_OBJECT, NULL, LEAT_SERVE_BODY_NONE, false, leat_serve_get_object},
    {"UploadPart", "PUT", LEAT_SERVE_OBJECT, "uploadId", LEAT_SERVE_BODY_FILE, true, leat_serve_upload_part},
    {"PutObject", "PUT", LEAT_SERVE_OBJECT, NULL, LEAT_SERVE_BODY_FILE, true, leat_serve_put_object},
    {"CreateMultipartUpload", "POST", LEAT_SERVE_OBJECT, "uploads", LEAT_SERVE_BODY_MEMORY, true,
     leat_serve_create_upload},
    {"CompleteMultipartUpload", "POST", LEAT_SERVE_OBJECT, "uploadId", LEAT_SERVE_BODY_MEMORY, true,
     leat_serve_complete_upload},
    {"AbortMultipartUpload", "DELETE", LEAT_SERVE_OBJECT, "uploadId", LEAT_SERVE_BODY_NONE, true,
     leat_serve_abort_upload},
    {"DeleteObject", "DELETE", LEAT_SERVE_OBJECT, NULL, LEAT_SERVE_BODY_NONE, true, leat_serve_delete_object},
};

/* What S3 has and this has not. Without the list, "GET /bucket?acl" would list the bucket. */
static const char *const missing[] = {
    "accelerate",
    "acl",
    "analytics",
    "attributes",
    "cors",
    "encryption",
    "inventory",
    "legal-hold",
    "lifecycle",
    "logging",
    "metrics",
    "notification",
    "object-lock",
    "policy",
    "policyStatus",
    "publicAccessBlock",
    "replication",
    "requestPayment",
    "restore",
    "retention",
    "select",
    "tagging",
    "torrent",
    "versionId",
    "versioning",
    "versions",
    "website",
    "intelligent-tiering",
    "ownershipControls",
};

const struct leat_serve_op *leat_serve_route(const struct leat_serve_call *c, const char *method,
                                             enum leat_serve_code *why)
{
    enum leat_serve_level level = !*c->bucket_name ? LEAT_SERVE_SERVICE
                                  : c->key.n       ? LEAT_SERVE_OBJECT
                                                   : LEAT_SERVE_BUCKET;
    *why = LEAT_SERVE_NOT_IMPLEMENTED;
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
        if (leat_serve_arg(c, missing[i]))
            return NULL;
    }
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        const struct leat_serve_op *op = &ops[i];
        if (op->level == level && strcmp(op->method, method) == 0 && (!op->arg || leat_serve_arg(c, op->arg)))
            return op;
    }
    *why = LEAT_SERVE_METHOD_NOT_ALLOWED;
    return NULL;
}
