/* The kinds of stores: one row for each scheme of an address. */
#ifndef LEAT_STORE_KIND_H
#define LEAT_STORE_KIND_H

#include "store/aws.h"
#include "store/backend.h"

struct leat_kind {
    leat_status (*open)(struct leat_store *store, const struct leat_url *url, struct leat_backend **out,
                        struct leat_error *err);
    /* Keys and endpoint, from wherever this kind has them: leat_store_keys(). NULL: it has none. `fresh`: those that
     * were kept are no longer good. */
    leat_status (*keys)(const struct leat_url *url, const struct leat_store_opts *opts, bool fresh,
                        struct leat_aws *out, struct leat_error *err);
    unsigned traits;  /* enum leat_store_trait */
    const char *name; /* "a web server" */
};

leat_status leat_s3_keys(const struct leat_url *url, const struct leat_store_opts *opts, bool fresh,
                         struct leat_aws *out, struct leat_error *err);
leat_status leat_gs_keys(const struct leat_url *url, const struct leat_store_opts *opts, bool fresh,
                         struct leat_aws *out, struct leat_error *err);

leat_status leat_az_keys(const struct leat_url *url, const struct leat_store_opts *opts, bool fresh,
                         struct leat_aws *out, struct leat_error *err);

leat_status leat_hf_keys(const struct leat_url *url, const struct leat_store_opts *opts, bool fresh,
                         struct leat_aws *out, struct leat_error *err);

/* Keys of another kind of store than S3, by what they are called. */
bool leat_kind_foreign(const char *access_key);

const struct leat_kind *leat_kind(enum leat_scheme scheme);

#endif
