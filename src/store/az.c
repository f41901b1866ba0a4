/* Azure's dialect: where its containers are, and what its answers mean. */
#include "store/az.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "store/keys.h"
#include "store/kind.h"

static bool begins(const char *text, const char *with)
{
    return text && strncmp(text, with, strlen(with)) == 0;
}

/* b->bucket is "account/container"; the endpoint is the account's. */
static leat_status place(struct bucket *b, struct leat_error *err)
{
    char own[160];
    b->odd_etags = true; /* they are no MD5s; what is stated of the bytes has a header of its own */
    snprintf(own, sizeof own, "https://%.*s.blob.core.windows.net", (int)strcspn(b->bucket, "/"), b->bucket);
    leat_status rc = leat_bucket_set_endpoint(b, b->aws.endpoint_url ? b->aws.endpoint_url : own, err);
    if (rc == LEAT_OK && (begins(b->aws.access_key, LEAT_AZ_BEARER) || begins(b->aws.access_key, LEAT_AZ_SAS)))
        rc = leat_keys_may_go(b->scheme, b->endpoint, err);
    return rc;
}

static const struct {
    const char *code;
    leat_status status;
    const char *advice;
} meanings[] = {
    {"BlobNotFound", LEAT_NOT_FOUND, "there is no such object"},
    {"ContainerNotFound", LEAT_NOT_FOUND, "there is no such container"},
    {"ResourceNotFound", LEAT_NOT_FOUND, "there is no such object or container"},
    {"ContainerBeingDeleted", LEAT_NOT_FOUND, "the container is being deleted"},
    {"AuthenticationFailed", LEAT_DENIED, "the key or the signature is not right, or the clock is wrong"},
    {"AuthorizationFailure", LEAT_DENIED, "access denied"},
    {"AuthorizationPermissionMismatch", LEAT_DENIED, "these keys do not have the right to do this"},
    {"InsufficientAccountPermissions", LEAT_DENIED, "these keys do not have the right to do this"},
    {"PublicAccessNotPermitted", LEAT_DENIED, "the account allows nobody without keys"},
    {"NoAuthenticationInformation", LEAT_DENIED, "access denied"},
    {"KeyBasedAuthenticationNotPermitted", LEAT_DENIED, "the account takes tokens only, no account keys"},
    {"InvalidAuthenticationInfo", LEAT_DENIED, "the token has expired or is not valid"},
    {"ServerBusy", LEAT_THROTTLED, "the server asks to slow down"},
    {"OperationTimedOut", LEAT_SERVER, "the server took too long"},
    {"InternalError", LEAT_SERVER, "the server had an internal error"},
    {"Md5Mismatch", LEAT_CORRUPT, "the data was damaged on its way to the server"},
    {"Crc64Mismatch", LEAT_CORRUPT, "the data was damaged on its way to the server"},
    {"CannotVerifyCopySource", LEAT_UNSUPPORTED, "the server cannot read the source with these keys"},
    {"CopyAcrossAccountsNotSupported", LEAT_UNSUPPORTED, "the server does not copy between accounts"},
    {"PendingCopyOperation", LEAT_BUSY, "another copy to it is under way"},
    {"BlobAlreadyExists", LEAT_EXISTS, "it exists already"},
    {"BlobArchived", LEAT_UNSUPPORTED, "the object is archived; restore it first"},
    {"InvalidBlockList", LEAT_NOT_FOUND, "the upload's parts are no longer there"},
    {"SnapshotsPresent", LEAT_BUSY, "it has snapshots, which have to be deleted first"},
};

#define COPY_PAUSE (LEAT_S / 2)

/* A copy is refused while another to the same place is under way, which may be one's own: its answer was lost, or an
 * earlier run did not wait for it. What is there tells. */
static void explain_copy(struct leat_store_op *op, const char *code)
{
    if (!op->own->looking && strcmp(code, "PendingCopyOperation") == 0) {
        op->own->looking = op->own->found_copy = true;
        op->own->retry_after_ns = COPY_PAUSE;
        op->status = leat_fail(&op->own->err, LEAT_SERVER, "a copy to it is under way");
    } else if (op->own->looking && op->status == LEAT_NOT_FOUND) { /* somebody has deleted it */
        op->own->looking = op->own->found_copy = false;
        op->status = leat_fail(&op->own->err, LEAT_SERVER, "the server's copy is gone");
    }
}

static void explain(const struct bucket *b, struct leat_store_op *op, const struct leat_s3_answer *answer)
{
    const struct leat_http_head *head = &op->own->call.head;
    leat_status status = head->code < 300 ? LEAT_SERVER : leat_exchange_code_status(head->code);
    const char *advice = NULL;
    char keys[160] = "";
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++) {
        if (strcmp(meanings[i].code, answer->code) == 0) {
            status = meanings[i].status;
            advice = meanings[i].advice;
        }
    }
    /* A SAS that is over is called no other than one that was never right. The user may have given another. */
    bool refused = strcmp(answer->code, "AuthenticationFailed") == 0 || !answer->code[0];
    op->own->expired = (head->code == 401 && begins(b->aws.access_key, LEAT_AZ_BEARER)) ||
                       (head->code == 403 && refused && begins(b->aws.access_key, LEAT_AZ_SAS));
    if (head->code == 412)
        status = op->create_only ? LEAT_EXISTS : LEAT_CHANGED;
    if (head->code == 404 && op->if_match && op->verb != LEAT_STORE_STAT && op->verb != LEAT_STORE_GET)
        status = LEAT_CHANGED;
    op->own->retry_after_ns = leat_http_retry_after(head);
    if (status == LEAT_DENIED && b->aws.access_key)
        snprintf(keys, sizeof keys, "; keys are from %s", b->aws.keys_from);
    else if (status == LEAT_DENIED)
        snprintf(keys, sizeof keys, "; the request was anonymous%s",
                 leat_store_settings(op->own->store)->anonymous ? ", as --no-sign-request asks"
                                                                : ", since no keys were found (AZURE_STORAGE_KEY, …)");
    if (!advice)
        advice = status == LEAT_NOT_FOUND   ? "there is no such object or container"
                 : status == LEAT_CHANGED   ? "the object has changed since it was looked at"
                 : status == LEAT_EXISTS    ? "it exists already"
                 : status == LEAT_DENIED    ? "access denied"
                 : status == LEAT_THROTTLED ? "the server asks to slow down"
                                            : "the server refused";
    op->status = leat_fail(&op->own->err, status, "%s%s (%s%s%u)", advice, keys, answer->code,
                           answer->code[0] ? ", " : "", head->code);
    if (op->verb == LEAT_STORE_COPY)
        explain_copy(op, answer->code);
}

/* The parts that the journal tells of must all be there still. */
static void check_blocks(struct leat_store_op *op)
{
    const struct leat_buf *text = &op->own->call.text;
    for (uint32_t i = 0; i < op->parts_n && op->status == LEAT_OK; i++) {
        char id[LEAT_AZ_BLOCK];
        leat_az_block_id(op->upload, i + 1, id);
        if (op->parts[i].etag[0] && (!text->len || !memmem(text->data, text->len, id, strlen(id))))
            op->status = leat_fail(&op->own->err, LEAT_CHANGED, "parts of the upload are no longer there");
    }
}

/* Whether what is said of the destination is of the copy that was asked for: by the name that the server gave it, or by
 * its source where that answer never came. A copy that is under way fails when its source changes, so that one of this
 * source is of the version that is meant. */
static bool is_ours(const struct leat_store_op *op)
{
    const struct leat_http_head *head = &op->own->call.head;
    if (!op->own->looking)
        return true;
    if (op->own->found_copy)
        return op->own->same_source;
    return !op->own->token || !head->copy_id[0] || strcmp(op->own->token, head->copy_id) == 0;
}

/* Whether what the server says of a copy that was found under way is what it said of the source. */
static bool is_same(const struct leat_store_op *op)
{
    const struct leat_object *source = op->source->object;
    const struct leat_http_head *head = &op->own->call.head;
    struct leat_checksum made;
    bool known = source->checksum.kind == LEAT_CHECKSUM_MD5 && leat_checksum_of(head, false, &made) &&
                 made.kind == LEAT_CHECKSUM_MD5;
    return (!head->has_length || head->content_length == source->size) &&
           (!known || memcmp(made.value, source->checksum.value, LEAT_MD5_SIZE) == 0);
}

/* Within an account it is usually there at once; else it is looked at until it is, or the time is over. What did not
 * come to a good end is asked for again. */
static void take_copy(struct leat_store_op *op)
{
    const struct leat_http_head *head = &op->own->call.head;
    bool ours = is_ours(op);
    if (!op->own->looking && head->copy_id[0]) {
        free(op->own->token);
        op->own->token = strdup(head->copy_id); /* NULL: whichever copy is found is taken for it */
    }
    if (strcmp(head->copy_status, "pending") == 0) {
        op->own->looking = true;
        op->own->tries = 1;
        op->own->retry_after_ns = COPY_PAUSE;
        op->status = ours ? leat_fail(&op->own->err, LEAT_SERVER, "the server is still copying")
                          : leat_fail(&op->own->err, LEAT_BUSY, "a copy of something else to it is under way");
    } else if (ours && strcmp(head->copy_status, "success") == 0 && (!op->own->found_copy || is_same(op))) {
        memcpy(op->own->object.etag, head->etag, sizeof op->own->object.etag);
    } else if (op->own->looking) {
        op->own->looking = op->own->found_copy = false;
        op->status = ours
                         ? leat_fail(&op->own->err, LEAT_SERVER, "the server's copy has failed (%s)", head->copy_status)
                         : leat_fail(&op->own->err, LEAT_SERVER, "something else was copied to it meanwhile");
    } else {
        op->status = leat_fail(&op->own->err, LEAT_UNSUPPORTED, "the server cannot copy by itself");
    }
}

static uint64_t copies_whole(const struct bucket *b)
{
    (void)b;
    return UINT64_MAX;
}

static void take(const struct bucket *b, struct leat_store_op *op)
{
    struct leat_http_call *call = &op->own->call;
    uint8_t digest[LEAT_MD5_SIZE];
    char hex[2 * LEAT_MD5_SIZE + 1];
    switch (op->verb) {
    case LEAT_STORE_LIST:
        leat_bucket_take_page(b, op);
        return;
    case LEAT_STORE_UPLOAD_STAT:
        check_blocks(op);
        return;
    case LEAT_STORE_COPY:
        take_copy(op);
        return;
    case LEAT_STORE_UPLOAD_PART: /* a block has no tag; the server has compared its MD5 */
        leat_store_sent(op, op->data_n);
        op->own->object.size = op->data_n;
        if (op->sums && op->sums->md5_known)
            memcpy(digest, op->sums->md5, sizeof digest);
        else
            leat_md5(op->data, op->data_n, digest);
        leat_hex(digest, sizeof digest, hex);
        snprintf(op->own->object.etag, sizeof op->own->object.etag, "\"%s\"", hex);
        leat_bucket_check_stored(op);
        return;
    case LEAT_STORE_PUT:
        leat_store_sent(op, op->data_n);
        op->own->object.size = op->data_n;
        /* fall through */
    case LEAT_STORE_UPLOAD_FINISH:
        memcpy(op->own->object.etag, call->head.etag, sizeof op->own->object.etag);
        if (call->head.code != 201 || !call->head.etag[0])
            op->status = leat_fail(&op->own->err, LEAT_SERVER, "the server did not confirm what it stored");
        else if (op->verb == LEAT_STORE_PUT)
            leat_bucket_check_stored(op);
        return;
    default:
        return;
    }
}

static const struct bucket_dialect dialect = {
    .vendor = "Azure",
    .page_root = "EnumerationResults",
    .place = place,
    .make = leat_az_request_make,
    .explain = explain,
    .page = leat_az_parse_page,
    .take = take,
    .copies_whole = copies_whole,
};

leat_status leat_az_open(struct leat_store *store, const struct leat_url *url, struct leat_backend **out,
                         struct leat_error *err)
{
    return leat_bucket_open(store, url, &dialect, out, err);
}

leat_status leat_az_keys(const struct leat_url *url, const struct leat_store_opts *opts, bool fresh,
                         struct leat_aws *out, struct leat_error *err)
{
    static const char *const endpoints[] = {"AZURE_STORAGE_ENDPOINT", NULL};
    static const char *const variables[] = {"AZURE_STORAGE_CONNECTION_STRING",
                                            "AZURE_STORAGE_ACCOUNT",
                                            "AZURE_STORAGE_KEY",
                                            "AZURE_STORAGE_SAS_TOKEN",
                                            "AZURE_TENANT_ID",
                                            "AZURE_CLIENT_ID",
                                            "AZURE_CLIENT_SECRET",
                                            "AZURE_FEDERATED_TOKEN_FILE",
                                            "AZURE_AUTHORITY_HOST",
                                            "AZURE_POD_IDENTITY_AUTHORITY_HOST",
                                            "IDENTITY_ENDPOINT",
                                            "IDENTITY_HEADER",
                                            NULL};
    static const struct leat_keys_kind kind = {
        .scheme = "az",
        .endpoint_variables = endpoints,
        .own = "Azure's own",
        .variables = variables,
        .find = leat_az_find_keys,
    };
    return leat_keys_load(&kind, url, opts, fresh, out, err);
}
