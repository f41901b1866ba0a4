#include "store/kind.h"

#include <string.h>

#include "store/az.h"
#include "store/gs.h"
#include "store/hf.h"

#define EVERYTHING (LEAT_STORE_BUCKET | LEAT_STORE_LISTS | LEAT_STORE_WRITES)

static const struct leat_kind kinds[] = {
    [LEAT_SCHEME_FILE] = {leat_file_open, NULL, LEAT_STORE_LOCAL | LEAT_STORE_LISTS | LEAT_STORE_WRITES, "a folder"},
    [LEAT_SCHEME_S3] = {leat_s3_open, leat_s3_keys,
                        EVERYTHING | LEAT_STORE_MD5 | LEAT_STORE_S3 | LEAT_STORE_VERSIONS | LEAT_STORE_COPIES |
                            LEAT_STORE_ATTRIBUTES,
                        "a bucket"},
    [LEAT_SCHEME_GS] = {leat_gs_open, leat_gs_keys, EVERYTHING, "a bucket"},
    [LEAT_SCHEME_AZ] = {leat_az_open, leat_az_keys, EVERYTHING | LEAT_STORE_MD5, "a container"},
    [LEAT_SCHEME_HF] = {leat_hf_open, leat_hf_keys, LEAT_STORE_BUCKET | LEAT_STORE_LISTS, "a repository of the Hub"},
    [LEAT_SCHEME_HTTP] = {leat_web_open, NULL, LEAT_STORE_QUERIES, "a web server"},
    [LEAT_SCHEME_HTTPS] = {leat_web_open, NULL, LEAT_STORE_QUERIES, "a web server"},
};

const struct leat_kind *leat_kind(enum leat_scheme scheme)
{
    return &kinds[scheme];
}

bool leat_store_can(const struct leat_store *store, unsigned traits)
{
    return (leat_kind(leat_store_scheme(store))->traits & traits) == traits;
}

bool leat_store_url_can(const struct leat_url *url, unsigned traits)
{
    return (kinds[url->scheme].traits & traits) == traits;
}

bool leat_store_same(const struct leat_store *a, const struct leat_store *b)
{
    return leat_store_scheme(a) == leat_store_scheme(b) && strcmp(leat_store_host(a), leat_store_host(b)) == 0;
}

bool leat_store_same_scheme(const struct leat_store *a, const struct leat_store *b)
{
    return leat_store_scheme(a) == leat_store_scheme(b);
}

bool leat_store_same_kind(const struct leat_store *store, const struct leat_url *url)
{
    return leat_store_scheme(store) == url->scheme;
}

bool leat_store_holds(const struct leat_store *store, const struct leat_url *url)
{
    return leat_store_scheme(store) == url->scheme && strcmp(leat_store_host(store), url->host) == 0;
}

bool leat_kind_foreign(const char *access_key)
{
    static const char *const prefixes[] = {LEAT_GS_BEARER, LEAT_GS_HMAC,   LEAT_AZ_KEY,
                                           LEAT_AZ_SAS,    LEAT_AZ_BEARER, LEAT_HF_TOKEN};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        if (strncmp(access_key, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    }
    return false;
}

leat_status leat_store_keys(const struct leat_url *url, const struct leat_store_opts *opts, struct leat_aws *out,
                            struct leat_error *err)
{
    const struct leat_kind *kind = leat_kind(url->scheme);
    return kind->keys ? kind->keys(url, opts, false, out, err) : leat_aws_load(opts, out, err);
}
