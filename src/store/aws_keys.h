/* Where keys come from, in AWS's order: the environment; of the profile a role, a web identity, single sign-on, the
 * credentials file, a program, the config file; the container's endpoint; the instance. Whatever is configured and does
 * not work is an error: going on with other keys, or with none, would be another identity than the one asked for. */
#ifndef LEAT_STORE_AWS_KEYS_H
#define LEAT_STORE_AWS_KEYS_H

#include "base/hash.h"
#include "store/aws.h"
#include "store/aws_files.h"

struct leat_aws_lookup {
    const struct leat_aws_files *files;
    const char *profile; /* the one in force */
    bool profile_said;   /* by its name and not by a variable: keys in the environment do not count */
    const char *region;  /* NULL: not known */
    const char *ca_bundle;
    bool (*stop)(void *user); /* as in leat_store_opts */
    void *stop_user;
};

/* Fills in keys, expires_s and keys_from; leaves them alone where there are none. May wait for a service: seconds. */
leat_status leat_aws_keys(const struct leat_aws_lookup *lookup, struct leat_aws *aws, struct leat_error *err);

/* The same; keys of a service that somebody else in this process has just been given are taken over, unless `fresh`. */
leat_status leat_aws_kept_keys(const struct leat_aws_lookup *lookup, bool fresh, struct leat_aws *aws,
                               struct leat_error *err);

/* What was found under a digest of everything that was asked, for others in this process; for some 20 s. */
bool leat_aws_take_kept(const uint8_t of[LEAT_SHA256_SIZE], struct leat_aws *aws);
void leat_aws_keep(const uint8_t of[LEAT_SHA256_SIZE], const struct leat_aws *aws);

/* They become lines of a request's head: LEAT_INVALID when they cannot. */
leat_status leat_aws_check_keys(const struct leat_aws *aws, struct leat_error *err);

/* The services, each on its own. `base` signs the request for a role. */
leat_status leat_aws_assume_role(const struct leat_aws_lookup *lookup, const char *profile, const char *role_arn,
                                 const struct leat_aws *base, struct leat_aws *aws, struct leat_error *err);
leat_status leat_aws_web_identity(const struct leat_aws_lookup *lookup, const char *role_arn, const char *session,
                                  const char *token_file, struct leat_aws *aws, struct leat_error *err);
leat_status leat_aws_sso(const struct leat_aws_lookup *lookup, const char *profile, struct leat_aws *aws,
                         struct leat_error *err);
leat_status leat_aws_process(const struct leat_aws_lookup *lookup, const char *profile, const char *command,
                             struct leat_aws *aws, struct leat_error *err);
leat_status leat_aws_container(const struct leat_aws_lookup *lookup, struct leat_aws *aws, struct leat_error *err);
/* Leaves aws alone on machines that are no instances, and on instances without a role. */
leat_status leat_aws_instance(const struct leat_aws_lookup *lookup, struct leat_aws *aws, struct leat_error *err);

/* Settings that concern every service: AWS_USE_FIPS_ENDPOINT, AWS_USE_DUALSTACK_ENDPOINT,
 * AWS_IGNORE_CONFIGURED_ENDPOINT_URLS, and what the profile calls them. */
bool leat_aws_wants_fips(const struct leat_aws_files *files, const char *profile);
bool leat_aws_wants_dualstack(const struct leat_aws_files *files, const char *profile);
bool leat_aws_ignores_endpoints(const struct leat_aws_files *files, const char *profile);

/* What they share. */
leat_status leat_aws_set_keys(struct leat_aws *aws, const char *access_key, const char *secret_key,
                              const char *session_token, struct leat_error *err);
/* {"AccessKeyId", "SecretAccessKey", "Token" or "SessionToken", "Expiration"}; `who` is what errors call the source. */
leat_status leat_aws_take_json(const char *text, size_t n, const char *who, struct leat_aws *aws,
                               struct leat_error *err);
/* "2026-11-16T12:00:00Z", with a fraction or "+00:00" too, in seconds since 1970; 0 for anything else. */
uint64_t leat_aws_expiry(const char *text);
/* Where a service is: variables, the profile's services, `usual`. LEAT_INVALID when it does not fit. */
leat_status leat_aws_service_url(const struct leat_aws_lookup *lookup, const char *service, const char *usual,
                                 char *out, size_t n, struct leat_error *err);

#endif
