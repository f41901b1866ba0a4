#include "store/gs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "store/keys.h"
#include "store/kind.h"

#define ENDPOINT "https://storage.googleapis.com"

static bool begins(const char *text, const char *with)
{
    return text && strncmp(text, with, strlen(with)) == 0;
}

bool leat_gs_bearer(const struct leat_aws *aws)
{
    return begins(aws->access_key, LEAT_GS_BEARER);
}

const char *leat_gs_key_id(const struct leat_aws *aws)
{
    return begins(aws->access_key, LEAT_GS_HMAC) ? aws->access_key + sizeof LEAT_GS_HMAC - 1 : aws->access_key;
}

void leat_gs_generation(const char *tag, char out[LEAT_ETAG_MAX])
{
    size_t n = begins(tag, "\"g") ? strspn(tag + 2, "0123456789") : 0;
    bool good = n && strcmp(tag + 2 + n, "\"") == 0;
    snprintf(out, LEAT_ETAG_MAX, "%.*s", good ? (int)n : 1, good ? tag + 2 : "1");
}

void leat_gs_describe(struct leat_store_op *op, struct bucket_request *r)
{
    const char *pin = op->own->looking ? NULL : leat_exchange_pin(op);
    if (r->range[0])
        leat_bucket_add_header(r, "range", r->range);
    if (pin)
        leat_gs_generation(pin, r->pin);
    else if (op->create_only && !op->own->looking)
        snprintf(r->pin, sizeof r->pin, "0");
    if (r->pin[0])
        leat_bucket_add_header(r, "x-goog-if-generation-match", r->pin);
    if (op->verb == LEAT_STORE_PUT || op->verb == LEAT_STORE_UPLOAD_PART) {
        /* The server refuses bytes that were damaged on the way. */
        memcpy(r->sum, "crc32c=", 7);
        leat_checksum_write(LEAT_CHECKSUM_CRC32C, leat_crc32c(0, op->data, op->data_n), r->sum + 7);
        leat_bucket_add_header(r, "x-goog-hash", r->sum);
    }
}

static leat_status place(struct bucket *b, struct leat_error *err)
{
    b->odd_etags = true; /* an MD5 only of objects of a certain kind; the CRC is there for all */
    b->unpacks = true;
    b->service = "storage";
    snprintf(b->label, sizeof b->label, "%s", b->bucket);
    snprintf(b->region, sizeof b->region, "auto");
    leat_status rc = leat_bucket_set_endpoint(b, b->aws.endpoint_url ? b->aws.endpoint_url : ENDPOINT, err);
    if (rc == LEAT_OK && leat_gs_bearer(&b->aws))
        rc = leat_keys_may_go(b->scheme, b->endpoint, err);
    return rc;
}

static leat_status make(const struct bucket *b, struct leat_store_op *op, struct bucket_request *r,
                        struct leat_error *err)
{
    bool rewrites = op->verb == LEAT_STORE_COPY && leat_gs_bearer(&b->aws);
    return rewrites ? leat_gs_copy_make(b, op, r, err) : leat_s3_request_make(b, op, r, err);
}

static uint64_t copies_whole(const struct bucket *b)
{
    return leat_gs_bearer(&b->aws) ? UINT64_MAX : LEAT_S3_COPIES_WHOLE;
}

static const struct bucket_dialect dialect = {
    .vendor = "Google",
    .page_root = "ListBucketResult",
    .google = true,
    .ordered = true,
    .place = place,
    .make = make,
    .step = leat_gs_copy_step,
    .copies_whole = copies_whole,
    .explain = leat_s3_explain,
    .page = leat_s3_parse_generations,
};

leat_status leat_gs_open(struct leat_store *store, const struct leat_url *url, struct leat_backend **out,
                         struct leat_error *err)
{
    return leat_bucket_open(store, url, &dialect, out, err);
}

leat_status leat_gs_keys(const struct leat_url *url, const struct leat_store_opts *opts, bool fresh,
                         struct leat_aws *out, struct leat_error *err)
{
    static const char *const endpoints[] = {"STORAGE_EMULATOR_HOST", NULL};
    static const char *const variables[] = {"GS_ACCESS_KEY_ID",
                                            "GS_SECRET_ACCESS_KEY",
                                            "GOOGLE_APPLICATION_CREDENTIALS",
                                            "CLOUDSDK_CONFIG",
                                            "HOME",
                                            "XDG_CONFIG_HOME",
                                            "GCE_METADATA_HOST",
                                            "NO_GCE_CHECK",
                                            NULL};
    static const struct leat_keys_kind kind = {
        .scheme = "gs",
        .endpoint_variables = endpoints,
        .own = "Google's own",
        .variables = variables,
        .find = leat_gs_find_keys,
    };
    return leat_keys_load(&kind, url, opts, fresh, out, err);
}
