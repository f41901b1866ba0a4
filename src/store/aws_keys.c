#include "store/aws_keys.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"

#define CHAIN_MAX 5 /* roles that are taken on by way of others */

leat_status leat_aws_set_keys(struct leat_aws *aws, const char *access_key, const char *secret_key,
                              const char *session_token, struct leat_error *err)
{
    char *access = strdup(access_key);
    char *secret = strdup(secret_key);
    char *token = session_token && *session_token ? strdup(session_token) : NULL;
    if (!access || !secret || (session_token && *session_token && !token)) {
        free(access);
        free(secret);
        free(token);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for AWS settings");
    }
    aws->access_key = access;
    aws->secret_key = secret;
    aws->session_token = token;
    return LEAT_OK;
}

uint64_t leat_aws_expiry(const char *text)
{
    struct tm t = {0};
    const char *end = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &t) : NULL;
    if (end && *end == '.')
        end += 1 + strspn(end + 1, "0123456789");
    time_t at =
        end && (strcmp(end, "Z") == 0 || strcmp(end, "UTC") == 0 || strncmp(end, "+00:00", 6) == 0) ? timegm(&t) : 0;
    return at > 0 ? (uint64_t)at : 0;
}

leat_status leat_aws_take_json(const char *text, size_t n, const char *who, struct leat_aws *aws,
                               struct leat_error *err)
{
    json_t *value = NULL;
    leat_status rc = leat_json_read(text, n, 0, &value, NULL);
    if (rc == LEAT_NO_MEMORY)
        return leat_fail(err, rc, "no memory for AWS settings");
    const char *access = json_string_value(json_object_get(value, "AccessKeyId"));
    const char *secret = json_string_value(json_object_get(value, "SecretAccessKey"));
    const char *token = json_string_value(json_object_get(value, "Token"));
    if (!token)
        token = json_string_value(json_object_get(value, "SessionToken"));
    const json_t *expires = json_object_get(value, "Expiration");
    uint64_t expires_s = leat_aws_expiry(json_string_value(expires));
    if (!access || !secret || !*access || !*secret)
        rc = leat_fail(err, LEAT_DENIED, "%s gave no keys (there is no AccessKeyId in its answer)", who);
    else if (expires && !json_is_null(expires) && !expires_s)
        rc = leat_fail(err, LEAT_INVALID, "%s gave keys with an expiry time that cannot be read", who);
    else
        rc = leat_aws_set_keys(aws, access, secret, token, err);
    aws->expires_s = rc == LEAT_OK ? expires_s : 0;
    json_decref(value);
    return rc;
}

leat_status leat_aws_service_url(const struct leat_aws_lookup *l, const char *service, const char *usual, char *out,
                                 size_t n, struct leat_error *err)
{
    char name[64];
    char key[64];
    snprintf(name, sizeof name, "AWS_ENDPOINT_URL_%s", service);
    for (char *p = name; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    snprintf(key, sizeof key, "%s.endpoint_url", service);
    const char *services = leat_aws_files_get(l->files, l->profile, "services");
    const char *url = leat_aws_variable(name);
    if (!url)
        url = leat_aws_variable("AWS_ENDPOINT_URL");
    if (!url && services)
        url = leat_aws_files_section(l->files, "services", services, key);
    if (!url)
        url = leat_aws_files_get(l->files, l->profile, "endpoint_url");
    if (leat_aws_ignores_endpoints(l->files, l->profile) || !url)
        url = usual;
    size_t len = strlen(url);
    while (len && url[len - 1] == '/')
        len--;
    if (len >= n)
        return leat_fail(err, LEAT_INVALID, "the address of AWS's service '%s' is too long", service);
    memcpy(out, url, len);
    out[len] = '\0';
    return LEAT_OK;
}

static leat_status environment(struct leat_aws *aws, struct leat_error *err)
{
    const char *access = leat_aws_variable("AWS_ACCESS_KEY_ID");
    const char *secret = leat_aws_variable("AWS_SECRET_ACCESS_KEY");
    if (!access != !secret)
        return leat_fail(err, LEAT_INVALID, "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set");
    if (!access)
        return LEAT_OK;
    snprintf(aws->keys_from, sizeof aws->keys_from, "AWS_ACCESS_KEY_ID");
    aws->expires_s = leat_aws_expiry(leat_aws_variable("AWS_CREDENTIAL_EXPIRATION"));
    return leat_aws_set_keys(aws, access, secret, leat_aws_variable("AWS_SESSION_TOKEN"), err);
}

/* Keys that stand in the files themselves. A pair may be divided over the two. */
static leat_status stored(const struct leat_aws_lookup *l, const char *profile, bool config, struct leat_aws *aws,
                          struct leat_error *err)
{
    const char *access = leat_aws_files_of(l->files, config, profile, "aws_access_key_id");
    const char *secret = leat_aws_files_get(l->files, profile, "aws_secret_access_key");
    if (!access && !(config && secret))
        return LEAT_OK;
    if (!access || !secret)
        return leat_fail(err, LEAT_INVALID, "profile '%s' has only one of aws_access_key_id and aws_secret_access_key",
                         profile);
    snprintf(aws->keys_from, sizeof aws->keys_from, "profile '%.60s'", profile);
    return leat_aws_set_keys(aws, access, secret, leat_aws_files_get(l->files, profile, "aws_session_token"), err);
}

static leat_status from_profile(const struct leat_aws_lookup *l, const char *profile, unsigned depth,
                                struct leat_aws *aws, struct leat_error *err);

/* credential_source: what signs for the role is no profile. */
static leat_status from_source(const struct leat_aws_lookup *l, const char *profile, const char *source,
                               struct leat_aws *aws, struct leat_error *err)
{
    leat_status rc;
    if (strcmp(source, "Environment") == 0)
        rc = environment(aws, err);
    else if (strcmp(source, "Ec2InstanceMetadata") == 0)
        rc = leat_aws_instance(l, aws, err);
    else if (strcmp(source, "EcsContainer") == 0)
        rc = leat_aws_container(l, aws, err);
    else
        return leat_fail(err, LEAT_INVALID, "profile '%s': credential_source = %.60s is not known", profile, source);
    if (rc == LEAT_OK && !aws->access_key)
        rc = leat_fail(err, LEAT_DENIED, "profile '%s': there are no keys in its credential_source = %s", profile,
                       source);
    return rc;
}

static leat_status role(const struct leat_aws_lookup *l, const char *profile, const char *arn, unsigned depth,
                        struct leat_aws *aws, struct leat_error *err)
{
    const char *by = leat_aws_files_get(l->files, profile, "source_profile");
    const char *source = leat_aws_files_get(l->files, profile, "credential_source");
    struct leat_aws base = {0};
    leat_status rc;
    if (!by == !source)
        return leat_fail(err, LEAT_INVALID,
                         "profile '%s' has a role_arn and %s of source_profile and credential_source", profile,
                         by ? "both" : "none");
    if (leat_aws_files_get(l->files, profile, "mfa_serial"))
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "profile '%s' asks for a code (mfa_serial), which cannot be given here; use temporary keys",
                         profile);
    if (depth >= CHAIN_MAX)
        return leat_fail(err, LEAT_INVALID,
                         "profile '%s': its source_profile leads back to itself, or through too "
                         "many profiles",
                         profile);
    if (source) {
        rc = from_source(l, profile, source, &base, err);
    } else if (strcmp(by, profile) == 0) { /* its own keys sign for its role */
        rc = stored(l, by, false, &base, err);
        if (rc == LEAT_OK && !base.access_key)
            rc = stored(l, by, true, &base, err);
    } else if (!leat_aws_files_has(l->files, by)) {
        return leat_fail(err, LEAT_INVALID, "profile '%s': there is no profile '%s', its source_profile", profile, by);
    } else {
        rc = from_profile(l, by, depth + 1, &base, err);
    }
    if (rc == LEAT_OK && !base.access_key)
        rc = leat_fail(err, LEAT_INVALID, "profile '%s': its source_profile '%s' has no keys", profile, by);
    if (rc == LEAT_OK)
        rc = leat_aws_assume_role(l, profile, arn, &base, aws, err);
    leat_aws_free(&base);
    return rc;
}

static bool any_of(const struct leat_aws_lookup *l, const char *profile, const char *const *keys)
{
    while (*keys && !leat_aws_files_get(l->files, profile, *keys))
        keys++;
    return *keys != NULL;
}

static leat_status from_profile(const struct leat_aws_lookup *l, const char *profile, unsigned depth,
                                struct leat_aws *aws, struct leat_error *err)
{
    static const char *const sso[] = {"sso_session", "sso_start_url", "sso_account_id", "sso_role_name", NULL};
    bool first = depth == 0 && !l->profile_said;
    const char *arn = leat_aws_files_get(l->files, profile, "role_arn");
    const char *token_file = leat_aws_files_get(l->files, profile, "web_identity_token_file");
    const char *session = leat_aws_files_get(l->files, profile, "role_session_name");
    if (arn && !token_file)
        return role(l, profile, arn, depth, aws, err);
    if (first && leat_aws_variable("AWS_WEB_IDENTITY_TOKEN_FILE")) {
        token_file = leat_aws_variable("AWS_WEB_IDENTITY_TOKEN_FILE");
        arn = leat_aws_variable("AWS_ROLE_ARN") ? leat_aws_variable("AWS_ROLE_ARN") : arn;
        session = leat_aws_variable("AWS_ROLE_SESSION_NAME");
    }
    if (token_file && !arn)
        return leat_fail(err, LEAT_INVALID,
                         "there is a web identity token but no role for it (AWS_ROLE_ARN, role_arn)");
    if (token_file)
        return leat_aws_web_identity(l, arn, session, token_file, aws, err);
    if (any_of(l, profile, sso))
        return leat_aws_sso(l, profile, aws, err);
    leat_status rc = stored(l, profile, false, aws, err);
    if (rc != LEAT_OK || aws->access_key)
        return rc;
    const char *command = leat_aws_files_get(l->files, profile, "credential_process");
    if (command)
        return leat_aws_process(l, profile, command, aws, err);
    return stored(l, profile, true, aws, err);
}

leat_status leat_aws_keys(const struct leat_aws_lookup *l, struct leat_aws *aws, struct leat_error *err)
{
    leat_status rc = l->profile_said ? LEAT_OK : environment(aws, err);
    if (rc == LEAT_OK && !aws->access_key)
        rc = from_profile(l, l->profile, 0, aws, err);
    if (rc == LEAT_OK && !aws->access_key &&
        (leat_aws_variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") ||
         leat_aws_variable("AWS_CONTAINER_CREDENTIALS_FULL_URI")))
        rc = leat_aws_container(l, aws, err);
    if (rc == LEAT_OK && !aws->access_key)
        rc = leat_aws_instance(l, aws, err);
    return rc;
}
