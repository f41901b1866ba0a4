#include <string.h>

#include "serve/ops.h"

/* The first that fits counts, so those with an argument stand before those without. */
static const struct leat_serve_op ops[] = {
    {"ListBuckets", "GET", LEAT_SERVE_SERVICE, NULL, LEAT_SERVE_BODY_NONE, false, leat_serve_list_buckets},
    {"HeadBucket", "HEAD", LEAT_SERVE_BUCKET, NULL, LEAT_SERVE_BODY_NONE, false, leat_serve_head_bucket},
    {"CreateBucket", "PUT", LEAT_SERVE_BUCKET, NULL, LEAT_SERVE_BODY_MEMORY, true, leat_serve_create_bucket},
    {"DeleteBucket", "DELETE", LEAT_SERVE_BUCKET, NULL, LEAT_SERVE_BODY_NONE, true, leat_serve_delete_bucket},
    {"GetBucketLocation", "GET", LEAT_SERVE_BUCKET, "location", LEAT_SERVE_BODY_NONE, false, leat_serve_get_location},
    {"ListObjectsV2", "GET", LEAT_SERVE_BUCKET, "list-type", LEAT_SERVE_BODY_NONE, false, leat_serve_list_objects},
    {"ListObjects", "GET", LEAT_SERVE_BUCKET, NULL, LEAT_SERVE_BODY_NONE, false, leat_serve_list_objects},
    {"GetObject", "GET", LEAT_SERVE_OBJECT, NULL, LEAT_SERVE_BODY_NONE, false, leat_serve_get_object},
    {"HeadObject", "HEAD", LEAT_SERVE_OBJECT, NULL, LEAT_SERVE_BODY_NONE, false, leat_serve_get_object},
    {"PutObject", "PUT", LEAT_SERVE_OBJECT, NULL, LEAT_SERVE_BODY_FILE, true, leat_serve_put_object},
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
