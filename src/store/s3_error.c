/* What a bucket's refusals mean, in a person's words. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "store/bucket.h"
#include "store/exchange.h"
#include "store/gs.h"
#include "store/hide.h"

/* What S3's error codes mean here. Codes not listed go by the HTTP status. */
static const struct {
    const char *code;
    leat_status status;
    const char *advice; /* shown instead of the server's message */
} meanings[] = {
    {"NoSuchKey", LEAT_NOT_FOUND, "there is no such object"},
    {"NoSuchBucket", LEAT_NOT_FOUND, "there is no such bucket"},
    {"NoSuchUpload", LEAT_NOT_FOUND, "the upload is no longer known to the server"},
    {"AccessDenied", LEAT_DENIED, NULL},
    {"AllAccessDisabled", LEAT_DENIED, NULL},
    {"InvalidAccessKeyId", LEAT_DENIED, "the server does not know this access key"},
    {"SignatureDoesNotMatch", LEAT_DENIED, "the secret key does not belong to the access key"},
    {"ExpiredToken", LEAT_DENIED, "the session token has expired"},
    {"ExpiredTokenException", LEAT_DENIED, "the session token has expired"},
    {"TokenRefreshRequired", LEAT_DENIED, "the session token has to be renewed"},
    {"InvalidToken", LEAT_DENIED, "the session token is not valid"},
    {"SlowDown", LEAT_THROTTLED, "the server asks to slow down"},
    {"ServiceUnavailable", LEAT_THROTTLED, "the server is not available"},
    {"RequestLimitExceeded", LEAT_THROTTLED, "the server asks to slow down"},
    {"Throttling", LEAT_THROTTLED, "the server asks to slow down"},
    {"InternalError", LEAT_SERVER, "the server had an internal error"},
    {"OperationAborted", LEAT_SERVER, NULL},
    {"ConditionalRequestConflict", LEAT_SERVER, "someone else is writing it at the same time"},
    {"RequestTimeout", LEAT_NETWORK, "the request did not arrive in time"},
    {"BadDigest", LEAT_CORRUPT, "the data was damaged on its way to the server"},
    {"XAmzContentChecksumMismatch", LEAT_CORRUPT, "the data was damaged on its way to the server"}, /* MinIO's */
    {"XAmzContentSHA256Mismatch", LEAT_CORRUPT, "the data was damaged on its way to the server"},
    {"IncompleteBody", LEAT_NETWORK, "the data did not arrive whole"},
    {"InvalidObjectState", LEAT_UNSUPPORTED, "the object is archived; restore it first"},
    {"RequestTimeTooSkewed", LEAT_DENIED, "this machine's clock is too far from the server's"},
};

void leat_s3_explain(const struct bucket *b, struct leat_store_op *op, const struct leat_s3_answer *answer)
{
    const struct leat_aws *aws = &b->aws;
    const struct leat_http_head *head = &op->own->call.head;
    /* An error document under 200 that says nothing to us is the server's fault. */
    leat_status status = head->code < 300 ? LEAT_SERVER : leat_exchange_code_status(head->code);
    const char *advice = NULL;
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++) {
        if (strcmp(meanings[i].code, answer->code) == 0) {
            status = meanings[i].status;
            advice = meanings[i].advice;
        }
    }
    op->own->expired = strcmp(answer->code, "ExpiredToken") == 0 ||
                       strcmp(answer->code, "ExpiredTokenException") == 0 ||
                       strcmp(answer->code, "TokenRefreshRequired") == 0 ||
                       strcmp(answer->code, "InvalidAccessKeyId") == 0; /* as keys that were rotated are called */
    /* The answer to a HEAD cannot say why: of keys that expire, 400 says that they have. */
    op->own->expired |= head->code == 400 && !answer->code[0] && aws->expires_s;
    op->own->expired |= head->code == 401 && leat_gs_bearer(aws);
    bool writes = op->verb == LEAT_STORE_PUT || op->verb == LEAT_STORE_UPLOAD_FINISH;
    if (head->code == 405 && head->deleted) {
        status = LEAT_EXISTS;
        advice = "this version is a marker: the object was deleted then";
    }
    if (head->code == 412)
        status = op->create_only ? LEAT_EXISTS : LEAT_CHANGED;
    if (writes && op->if_match && strcmp(answer->code, "NoSuchKey") == 0) {
        status = LEAT_CHANGED;
        advice = "the object to be replaced is gone";
    }
    op->own->retry_after_ns = leat_http_retry_after(head);
    char keys[128] = "";
    if (status == LEAT_DENIED && aws->access_key)
        snprintf(keys, sizeof keys, "; keys are from %s", aws->keys_from);
    else if (status == LEAT_DENIED && leat_store_settings(op->own->store)->anonymous)
        snprintf(keys, sizeof keys, "; the request was anonymous, as --no-sign-request asks");
    else if (status == LEAT_DENIED)
        snprintf(keys, sizeof keys, "; no keys were found (%s), so the request was anonymous",
                 b->dialect->google ? "GOOGLE_APPLICATION_CREDENTIALS, gcloud" : "AWS_ACCESS_KEY_ID, ~/.aws");
    if (!advice && status == LEAT_NOT_FOUND)
        advice = "there is no such object or bucket";
    if (!advice && status == LEAT_CHANGED)
        advice = "the object has changed since it was looked at";
    if (!advice && status == LEAT_EXISTS)
        advice = "it exists already";
    if (head->code >= 300 && head->code < 400)
        advice = "the bucket is in another place; name it with --region or --endpoint-url";
    char said[sizeof answer->message];
    memcpy(said, answer->message, sizeof said);
    leat_hide_secrets(said, aws, leat_store_headers(op->own->store));
    if (!advice && said[0])
        advice = said;
    if (!advice) /* the answer to a HEAD has nothing more to say */
        advice = status == LEAT_DENIED      ? "access denied"
                 : status == LEAT_THROTTLED ? "the server asks to slow down"
                                            : "the server refused";
    size_t n = strlen(advice);
    n -= n && advice[n - 1] == '.'; /* a server's own sentence; ours goes on */
    op->status = leat_fail(&op->own->err, status, "%.*s%s (%s%s%u)", (int)n, advice, keys, answer->code,
                           answer->code[0] ? ", " : "", head->code);
}

void leat_bucket_explain_endpoint(const struct leat_aws *aws, struct leat_store_op *op)
{
    struct leat_error why = op->own->err;
    if (why.status == LEAT_CANCELLED || why.status == LEAT_NO_MEMORY)
        return;
    leat_fail(&op->own->err, why.status, "%s; the endpoint is %s%s", why.text, aws->endpoint_url ? "from " : "",
              aws->endpoint_from);
    op->own->err.os_error = why.os_error;
}
