#include <string.h>

#include "serve/dialect.h"
#include "serve/ops.h"

/* What the protocols have and this has not. Without the list, "PUT /bucket/key?acl" would replace the object. */
static const char *const missing[] = {
    "accelerate",
    "acl",
    "analytics",
    "attributes",
    "cors",
    "delete",
    "encryption",
    "inventory",
    "legal-hold",
    "lease",
    "lifecycle",
    "location",
    "logging",
    "metadata",
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
    "session",
    "snapshot",
    "tagging",
    "torrent",
    "versionId",
    "versioning",
    "versions",
    "website",
    "intelligent-tiering",
    "ownershipControls",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
    "versionid",
    "X-Amz-Algorithm",
    "X-Goog-Algorithm",
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
    for (const struct leat_serve_op *op = c->serve->dialect->ops; op->name; op++) {
        const char *value = op->arg ? leat_serve_arg(c, op->arg) : NULL;
        if (op->level == level && strcmp(op->method, method) == 0 && (!op->arg || value) &&
            (!op->value || strcmp(value, op->value) == 0))
            return op;
    }
    if (leat_serve_arg(c, "comp")) /* of Azure's further calls */
        return NULL;
    *why = LEAT_SERVE_METHOD_NOT_ALLOWED;
    return NULL;
}
