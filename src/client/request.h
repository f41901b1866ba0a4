/* From a caller's options to the request that opens a loader. */
#ifndef LEAT_CLIENT_REQUEST_H
#define LEAT_CLIENT_REQUEST_H

#include "base/error.h"
#include "dataset/sources.h"
#include "leat/loader.h"
#include "ring/request.h"
#include "store/access.h"

/* Checks the options (all that is wrong with them, in one sentence) and copies them into a request of its own, without
 * keys and without a cursor. */
leat_status leat_request_make(const struct leat_loader_opts *opts, struct leat_request *out, struct leat_error *err);

/* An address that holds in any folder: plain paths are relative to ours. The version (a content id, a name or NULL)
 * becomes part of it. The caller frees *out. */
leat_status leat_request_address(const char *text, const char *version, char **out, struct leat_error *err);

struct leat_request_finding {
    const struct leat_sources_list *more; /* stores that the data of its datasets are in */
    const char *place;                    /* only this one; NULL: all */
    bool fresh;                           /* as leat_access_resolve() */
    bool (*stop)(void *user);             /* asked several times a second; NULL: nobody can stop it */
    void *stop_user;
};

/* Finds out how to reach the stores of a request's datasets in this process's environment: the agent has another. What
 * the options say of buckets is for the kind that the addresses name, else for that of `more`. */
leat_status leat_request_access(const struct leat_request *r, const struct leat_request_finding *how,
                                struct leat_access **out, struct leat_error *err);

#endif
