/* S3's dialect: where its buckets are. What is asked is in s3_request.c, what refusals mean in s3_error.c. */
#include "store/s3.h"

#include <stdio.h>
#include <string.h>

#include "store/bucket.h"
#include "store/keys.h"
#include "store/kind.h"
#include "store/s3_session.h"
#include "store/s3_site.h"

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text);
    size_t end_n = strlen(end);
    return n >= end_n && strcmp(text + n - end_n, end) == 0;
}

leat_status leat_s3_settle(struct bucket *b, const char *region, struct leat_error *err)
{
    struct leat_s3_site site;
    const struct leat_s3_asked asked = {
        .bucket = b->bucket,
        .region = region,
        .endpoint = b->aws_own ? NULL : b->endpoint,
        .fips = b->fips,
        .dual_stack = b->dual_stack,
        .addressing = b->aws.addressing,
    };
    leat_status rc = leat_s3_locate(&asked, &site, err);
    if (rc != LEAT_OK)
        return rc;
    memcpy(b->label, site.label, sizeof b->label);
    memcpy(b->endpoint, site.host, sizeof b->endpoint);
    memcpy(b->region, site.region, sizeof b->region);
    b->service = site.service;
    b->virtual_host = site.virtual_host;
    b->fixed = site.fixed;
    b->global = site.global;
    b->directory = b->odd_etags = site.directory;
    return LEAT_OK;
}

leat_status leat_s3_place(struct bucket *b, struct leat_error *err)
{
    char own[LEAT_S3_REGION_MAX] = "";
    leat_status rc = LEAT_OK;
    b->region_known = b->aws.region != NULL;
    if (b->aws.endpoint_url)
        rc = leat_bucket_set_endpoint(b, b->aws.endpoint_url, err);
    if (rc != LEAT_OK)
        return rc;
    b->aws_own = !b->aws.endpoint_url || (strcmp(b->scheme, "https") == 0 && !b->base[0] &&
                                          leat_s3_own_host(b->endpoint, own, &b->fips, &b->dual_stack));
    b->unpacks = ends_with(b->endpoint, "storage.googleapis.com");
    rc = leat_s3_settle(b, own[0] ? own : b->aws.region, err);
    const char *extras = b->store ? leat_store_headers(b->store) : NULL;
    if (rc == LEAT_OK && extras && strstr(extras, "-customer-key:"))
        rc = leat_keys_may_go(b->scheme, b->endpoint, err); /* the key itself is sent */
    return rc == LEAT_OK ? leat_s3_check_session(b, err) : rc;
}

static const struct bucket_dialect dialect = {
    .vendor = "AWS",
    .page_root = "ListBucketResult",
    .regions = true,
    .ordered = true,
    .place = leat_s3_place,
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
    bool expired = false;
    leat_status rc = fresh ? leat_aws_load_anew(opts, out, err) : leat_aws_load(opts, out, err);
    if (rc != LEAT_OK || !leat_s3_has_sessions(url->host))
        return rc;
    rc = leat_s3_begin_session(url->host, opts, fresh, out, &expired, err);
    if (rc == LEAT_OK)
        return rc;
    leat_aws_free(out);
    if (!expired || fresh)
        return rc;
    rc = leat_aws_load_anew(opts, out, err); /* what was kept for a moment may have expired in it */
    if (rc == LEAT_OK)
        rc = leat_s3_begin_session(url->host, opts, true, out, &expired, err);
    if (rc != LEAT_OK)
        leat_aws_free(out);
    return rc;
}
