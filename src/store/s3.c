/* S3's dialect: where its buckets are. What is asked is in s3_request.c, what refusals mean in s3_error.c. */
#include "store/s3.h"

#include <stdio.h>
#include <string.h>

#include "store/bucket.h"
#include "store/kind.h"

/* It becomes part of a host's name and of what is signed. */
bool leat_s3_can_be_region(const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");
    return n && !text[n];
}

/* Where AWS keeps a region's buckets. */
void leat_s3_set_aws_endpoint(struct bucket *b)
{
    const char *suffix = strncmp(b->region, "cn-", 3) == 0 ? ".cn" : "";
    snprintf(b->endpoint, sizeof b->endpoint, "s3.%s.amazonaws.com%s", b->region, suffix);
}

/* Names that can be the first label of a host with a certificate for one label. */
static bool bucket_fits_host(const char *bucket)
{
    size_t n = strlen(bucket);
    if (n < 3 || n > 63)
        return false;
    for (const char *p = bucket; *p; p++) {
        if (!((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') || *p == '-'))
            return false;
    }
    return true;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text);
    size_t end_n = strlen(end);
    return n >= end_n && strcmp(text + n - end_n, end) == 0;
}

static leat_status place(struct bucket *b, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    b->region_known = b->aws.region != NULL;
    if (b->region_known && (!leat_s3_can_be_region(b->aws.region) || strlen(b->aws.region) >= sizeof b->region))
        return leat_fail(err, LEAT_INVALID, "'%.60s' is not the name of a region", b->aws.region);
    snprintf(b->region, sizeof b->region, "%s", b->aws.region ? b->aws.region : "us-east-1");
    b->aws_own = b->aws.endpoint_url == NULL;
    if (b->aws_own)
        leat_s3_set_aws_endpoint(b);
    else
        rc = leat_bucket_set_endpoint(b, b->aws.endpoint_url, err);
    b->virtual_host = b->aws.addressing == LEAT_ADDRESSING_AUTO ? b->aws_own && bucket_fits_host(b->bucket)
                                                                : b->aws.addressing == LEAT_ADDRESSING_VIRTUAL;
    b->odd_etags = ends_with(b->bucket, "--x-s3");
    b->unpacks = ends_with(b->endpoint, "storage.googleapis.com");
    return rc;
}

static const struct bucket_dialect dialect = {
    .vendor = "AWS",
    .page_root = "ListBucketResult",
    .regions = true,
    .place = place,
    .make = leat_s3_request_make,
    .explain = leat_s3_explain,
    .page = leat_s3_parse_page,
};

leat_status leat_s3_open(struct leat_store *store, const struct leat_url *url, struct leat_backend **out,
                         struct leat_error *err)
{
    return leat_bucket_open(store, url, &dialect, out, err);
}

leat_status leat_s3_keys(const struct leat_url *url, const struct leat_store_opts *opts, bool fresh,
                         struct leat_aws *out, struct leat_error *err)
{
    (void)url;
    if (opts->keys_given && opts->access_key && leat_kind_foreign(opts->access_key))
        return leat_fail(err, LEAT_UNSUPPORTED, LEAT_BUCKET_OTHER_KEYS, "s3");
    return fresh ? leat_aws_load_anew(opts, out, err) : leat_aws_load(opts, out, err);
}
