/* What all who look for keys outside AWS share: where the endpoint is said, keys that were kept, tokens of
 * OAuth services, small files with secrets. */
#ifndef LEAT_STORE_KEYS_H
#define LEAT_STORE_KEYS_H

#include "store/aws.h"
#include "store/aws_ask.h"

struct leat_keys_kind {
    const char *scheme;                    /* "gs" */
    const char *const *endpoint_variables; /* NULL at the end */
    const char *own;                       /* "Google's own": the endpoint when nothing is said */
    const char *const *variables;          /* everything that decides which keys are found; NULL at the end */
    leat_status (*find)(const struct leat_url *url, const struct leat_store_opts *opts, struct leat_aws *aws,
                        struct leat_error *err);
};

/* As struct leat_kind's `keys`. */
leat_status leat_keys_load(const struct leat_keys_kind *kind, const struct leat_url *url,
                           const struct leat_store_opts *opts, bool fresh, struct leat_aws *out,
                           struct leat_error *err);

/* A token that anybody who sees it can use goes over TLS, or stays on this machine; else LEAT_DENIED. */
leat_status leat_keys_may_go(const char *scheme, const char *endpoint, struct leat_error *err);
leat_status leat_keys_may_go_to(const char *text, struct leat_error *err);

/* "access_key" becomes prefix and id. */
leat_status leat_keys_set(struct leat_aws *aws, const char *prefix, const char *id, const char *secret,
                          const char *token, struct leat_error *err);

/* Asks an OAuth service and takes its access_token and when that ends (expires_in, expires_on). `who` is what errors
 * call it; `id` is for people. */
leat_status leat_keys_token(struct leat_ask *ask, const char *who, const char *prefix, const char *id,
                            struct leat_aws *aws, struct leat_error *err);

/* A question with the usual patience. */
struct leat_ask leat_keys_question(const struct leat_store_opts *opts, const char *method, const char *url);

/* "name=value" of a form, percent-encoded, after '&' where it is not the first. */
void leat_keys_form(struct leat_buf *out, const char *name, const char *value);

/* All of a small file; what errors call it is `what`. Wiped by leat_keys_forget(). */
leat_status leat_keys_read_file(const char *path, const char *what, struct leat_buf *out, struct leat_error *err);
void leat_keys_forget(struct leat_buf *secret);

/* Whether the machine's firmware says that it is this vendor's: 3 attempts for its metadata, 0 when it says otherwise,
 * 1 when it says nothing. */
uint32_t leat_keys_attempts_here(const char *dmi_file, const char *text);

#endif
