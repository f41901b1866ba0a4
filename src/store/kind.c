#include "store/kind.h"

#include <stdlib.h>
#include <string.h>

#include "store/access.h"
#include "store/s3_session.h"
#include "store/store_impl.h"

#define EVERYTHING (LEAT_STORE_BUCKET | LEAT_STORE_LISTS | LEAT_STORE_WRITES)

/* A bucket of S3 Express has keys of its own: those of a session. */
static size_t s3_place(const char *host)
{
    return leat_s3_has_sessions(host) ? strlen(host) : 0;
}

static size_t az_place(const char *host)
{
    return strcspn(host, "/"); /* the account */
}

static const struct leat_kind kinds[] = {
    [LEAT_SCHEME_FILE] = {leat_file_open, NULL, NULL, LEAT_STORE_LOCAL | LEAT_STORE_LISTS | LEAT_STORE_WRITES,
                          "a folder"},
    [LEAT_SCHEME_S3] = {leat_s3_open, leat_s3_keys, s3_place,
                        EVERYTHING | LEAT_STORE_MD5 | LEAT_STORE_S3 | LEAT_STORE_VERSIONS | LEAT_STORE_COPIES |
                            LEAT_STORE_ATTRIBUTES,
                        "a bucket"},
    [LEAT_SCHEME_GS] = {leat_gs_open, leat_gs_keys, NULL, EVERYTHING | LEAT_STORE_COPIES, "a bucket"},
    [LEAT_SCHEME_AZ] = {leat_az_open, leat_az_keys, az_place, EVERYTHING | LEAT_STORE_MD5 | LEAT_STORE_COPIES,
                        "a container"},
    [LEAT_SCHEME_HF] = {leat_hf_open, leat_hf_keys, NULL, LEAT_STORE_BUCKET | LEAT_STORE_LISTS,
                        "a repository of the Hub"},
    [LEAT_SCHEME_HTTP] = {leat_web_open, NULL, NULL, LEAT_STORE_QUERIES, "a web server"},
    [LEAT_SCHEME_HTTPS] = {leat_web_open, NULL, NULL, LEAT_STORE_QUERIES, "a web server"},
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

bool leat_store_wants_md5(const struct leat_store *store)
{
    return leat_store_can(store, LEAT_STORE_MD5) && !atomic_load_explicit(&store->states_crc32c, memory_order_relaxed);
}

bool leat_store_wants_crc32c(const struct leat_store *store)
{
    return leat_store_can(store, LEAT_STORE_S3);
}

const char *leat_store_access_place(const struct leat_store *store)
{
    return store->given ? store->place : NULL;
}

void leat_store_states_crc32c(struct leat_store *store)
{
    atomic_store_explicit(&store->states_crc32c, true, memory_order_relaxed);
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

leat_status leat_kind_keys(const struct leat_url *url, const struct leat_store_opts *opts, bool fresh,
                           struct leat_aws *out, struct leat_error *err)
{
    if (opts->access)
        return leat_access_take(opts->access, url, opts->place, out, err);
    return leat_kind(url->scheme)->keys(url, opts, fresh, out, err);
}

leat_status leat_kind_headers(enum leat_scheme scheme, const struct leat_store_opts *opts, char **out,
                              struct leat_error *err)
{
    unsigned traits = leat_kind(scheme)->traits;
    char *text = NULL;
    if ((traits & LEAT_STORE_LOCAL) || opts->bearer || opts->other)
        return LEAT_OK; /* a machine of one's own job is asked for none */
    leat_status rc = leat_extras_text(&opts->extras, &text, err);
    if (rc == LEAT_OK && text && !(traits & LEAT_STORE_S3)) {
        explicit_bzero(text, strlen(text));
        free(text);
        return leat_fail(err, LEAT_UNSUPPORTED, "%s://: headers, encryption and who pays can be set for s3:// only",
                         leat_scheme_name(scheme));
    }
    if (rc == LEAT_OK)
        *out = text;
    return rc;
}
