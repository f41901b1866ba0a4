/* The kinds of stores: one row for each scheme of an address. */
#ifndef LEAT_STORE_KIND_H
#define LEAT_STORE_KIND_H

#include "store/aws.h"
#include "store/backend.h"

struct leat_kind {
    leat_status (*open)(struct leat_store *store, const struct leat_url *url, struct leat_backend **out,
                        struct leat_error *err);
    /* Keys and endpoint, from wherever this kind has them: leat_kind_keys(). NULL: it has none. `fresh`: those that
     * were kept are no longer good. */
    leat_status (*keys)(const struct leat_url *url, const struct leat_store_opts *opts, bool fresh,
                        struct leat_aws *out, struct leat_error *err);
    /* How many bytes of a host belong to its place (access.h): what one set of keys is for. NULL: none, all stores of
     * the kind are reached alike. */
    size_t (*place)(const char *host);
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

/* What opts.access has for the store; else what its kind finds. For kinds with keys. */
leat_status leat_kind_keys(const struct leat_url *url, const struct leat_store_opts *opts, bool fresh,
                           struct leat_aws *out, struct leat_error *err);

/* The headers that were asked for, by options or variables, where the kind takes any; NULL: none. The caller wipes and
 * frees them. LEAT_UNSUPPORTED: there are some, and it takes none. */
leat_status leat_kind_headers(enum leat_scheme scheme, const struct leat_store_opts *opts, char **out,
                              struct leat_error *err);

const struct leat_kind *leat_kind(enum leat_scheme scheme);

#endif
