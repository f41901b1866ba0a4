#include "store/aws.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/ini.h"

static void wipe(char *secret)
{
    if (secret)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

void leat_aws_free(struct leat_aws *aws)
{
    if (!aws)
        return;
    free(aws->access_key);
    wipe(aws->secret_key);
    wipe(aws->session_token);
    free(aws->region);
    free(aws->endpoint_url);
    *aws = (struct leat_aws){0};
}

static const char *variable(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

/* The first of them that is set, NULL: none. */
static const char *first_set(const char *const *names)
{
    while (*names && !variable(*names))
        names++;
    return *names;
}

/* Reading one of the two files. The same profile may be in both; what was found first stays. */
struct profile {
    struct leat_aws *aws;
    const char *name;
    bool config; /* ~/.aws/config writes [profile NAME], ~/.aws/credentials [NAME] */
    bool found;
    bool failed;
    bool take_keys;
};

static void keep(struct profile *p, char **field, const char *value)
{
    if (*field || !*value)
        return;
    *field = strdup(value);
    if (!*field)
        p->failed = true;
}

static void keep_endpoint(struct profile *p, const char *value)
{
    if (!p->aws->endpoint_url)
        snprintf(p->aws->endpoint_from, sizeof p->aws->endpoint_from, "profile '%.60s'", p->name);
    keep(p, &p->aws->endpoint_url, value);
}

static bool names_profile(const struct profile *p, const char *section)
{
    if (p->config && strncmp(section, "profile ", 8) == 0)
        return strcmp(section + 8 + strspn(section + 8, " \t"), p->name) == 0;
    return strcmp(section, p->name) == 0 && (!p->config || strcmp(section, "default") == 0);
}

static leat_status take_line(const char *section, const char *key, const char *value, unsigned line, void *user,
                             struct leat_error *err)
{
    struct profile *p = user;
    (void)line;
    (void)err;
    if (!names_profile(p, section))
        return LEAT_OK;
    p->found = true;
    struct leat_aws *aws = p->aws;
    if (strcmp(key, "aws_access_key_id") == 0 && p->take_keys)
        keep(p, &aws->access_key, value);
    else if (strcmp(key, "aws_secret_access_key") == 0 && p->take_keys)
        keep(p, &aws->secret_key, value);
    else if (strcmp(key, "aws_session_token") == 0 && p->take_keys)
        keep(p, &aws->session_token, value);
    else if (strcmp(key, "region") == 0)
        keep(p, &aws->region, value);
    else if (strcmp(key, "endpoint_url") == 0 || strcmp(key, "s3.endpoint_url") == 0)
        keep_endpoint(p, value);
    else if (strcmp(key, "s3.addressing_style") == 0 && aws->addressing == LEAT_ADDRESSING_AUTO)
        aws->addressing = strcmp(value, "path") == 0      ? LEAT_ADDRESSING_PATH
                          : strcmp(value, "virtual") == 0 ? LEAT_ADDRESSING_VIRTUAL
                                                          : LEAT_ADDRESSING_AUTO;
    return LEAT_OK;
}

static bool aws_path(const char *set, const char *name, char *out, size_t n)
{
    const char *path = variable(set);
    const char *home = variable("HOME");
    int len = path ? snprintf(out, n, "%s", path) : home ? snprintf(out, n, "%s/.aws/%s", home, name) : -1;
    return len > 0 && (size_t)len < n;
}

static leat_status read_file(struct profile *p, const char *set, const char *name, struct leat_error *err)
{
    char path[4096];
    if (!aws_path(set, name, path, sizeof path))
        return LEAT_OK;
    leat_status rc = leat_ini_read(path, take_line, p, err);
    return rc == LEAT_NOT_FOUND ? LEAT_OK : rc;
}

static leat_status read_profile(struct leat_aws *aws, const char *named, bool take_keys, struct leat_error *err)
{
    struct profile p = {.aws = aws, .name = named ? named : "default", .take_keys = take_keys};
    leat_status rc = read_file(&p, "AWS_SHARED_CREDENTIALS_FILE", "credentials", err);
    p.config = true;
    if (rc == LEAT_OK)
        rc = read_file(&p, "AWS_CONFIG_FILE", "config", err);
    if (rc != LEAT_OK)
        return rc;
    if (p.failed)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for AWS settings");
    if (named && !p.found)
        return leat_fail(err, LEAT_INVALID, "there is no profile '%s' in ~/.aws/credentials or ~/.aws/config", named);
    if (p.take_keys && !aws->access_key != !aws->secret_key)
        return leat_fail(err, LEAT_INVALID, "profile '%s' has only one of aws_access_key_id and aws_secret_access_key",
                         p.name);
    if (p.take_keys && aws->access_key)
        snprintf(aws->keys_from, sizeof aws->keys_from, "profile '%.60s'", p.name);
    return LEAT_OK;
}

static leat_status set_text(char **field, const char *value, struct leat_error *err)
{
    if (!value)
        return LEAT_OK;
    *field = strdup(value);
    return *field ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for AWS settings");
}

/* "2026-11-16T12:00:00Z" in seconds since 1970; 0 for anything else: then the server says when the time has come. */
static uint64_t expiry(const char *text)
{
    struct tm t = {0};
    const char *end = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &t) : NULL;
    time_t at = end && (*end == 'Z' || strncmp(end, "+00:00", 6) == 0) ? timegm(&t) : 0;
    return at > 0 ? (uint64_t)at : 0;
}

static leat_status read_environment_keys(struct leat_aws *aws, struct leat_error *err)
{
    const char *access = variable("AWS_ACCESS_KEY_ID");
    const char *secret = variable("AWS_SECRET_ACCESS_KEY");
    if (!access != !secret)
        return leat_fail(err, LEAT_INVALID, "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set");
    leat_status rc = set_text(&aws->access_key, access, err);
    if (rc == LEAT_OK)
        rc = set_text(&aws->secret_key, secret, err);
    if (rc == LEAT_OK && access)
        rc = set_text(&aws->session_token, variable("AWS_SESSION_TOKEN"), err);
    if (access) {
        snprintf(aws->keys_from, sizeof aws->keys_from, "AWS_ACCESS_KEY_ID");
        aws->expires_s = expiry(variable("AWS_CREDENTIAL_EXPIRATION"));
    }
    return rc;
}

/* Everything was said by the caller. */
static leat_status take_given(const struct leat_store_opts *opts, struct leat_aws *out, struct leat_error *err)
{
    struct leat_aws aws = {.addressing = opts->addressing, .keys_from = "the loader"};
    leat_status rc = set_text(&aws.access_key, opts->access_key, err);
    if (rc == LEAT_OK)
        rc = set_text(&aws.secret_key, opts->secret_key, err);
    if (rc == LEAT_OK)
        rc = set_text(&aws.session_token, opts->session_token, err);
    if (rc == LEAT_OK)
        rc = set_text(&aws.region, opts->region, err);
    if (rc == LEAT_OK)
        rc = set_text(&aws.endpoint_url, opts->endpoint_url, err);
    snprintf(aws.endpoint_from, sizeof aws.endpoint_from, "%s", aws.endpoint_url ? "the loader" : "AWS's own");
    if (rc != LEAT_OK)
        leat_aws_free(&aws);
    else
        *out = aws;
    return rc;
}

/* They become lines of a request's head. (A line break at the end is what reading them from a file leaves.) */
static leat_status check_keys(const struct leat_aws *aws, struct leat_error *err)
{
    const char *const texts[] = {aws->access_key, aws->secret_key, aws->session_token};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        for (const char *p = texts[i]; p && *p; p++) {
            if ((unsigned char)*p < ' ' || *p == 0x7f)
                return leat_fail(err, LEAT_INVALID, "there is a control character in the keys from %s", aws->keys_from);
        }
    }
    return LEAT_OK;
}

leat_status leat_aws_load(const struct leat_store_opts *opts, struct leat_aws *out, struct leat_error *err)
{
    if (opts->keys_given)
        return take_given(opts, out, err);
    static const char *const regions[] = {"AWS_REGION", "AWS_DEFAULT_REGION", NULL};
    static const char *const endpoints[] = {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "S3_ENDPOINT_URL", NULL};
    struct leat_aws aws = {.addressing = opts->addressing, .endpoint_from = "AWS's own"};
    const char *profile = opts->profile ? opts->profile : variable("AWS_PROFILE");
    const char *region = first_set(regions);
    const char *endpoint = first_set(endpoints);
    leat_status rc = set_text(&aws.region, opts->region ? opts->region : region ? getenv(region) : NULL, err);
    if (rc == LEAT_OK)
        rc = set_text(&aws.endpoint_url,
                      opts->endpoint_url ? opts->endpoint_url
                      : endpoint         ? getenv(endpoint)
                                         : NULL,
                      err);
    if (aws.endpoint_url)
        snprintf(aws.endpoint_from, sizeof aws.endpoint_from, "%s", opts->endpoint_url ? "--endpoint-url" : endpoint);
    /* A profile named on the command line is meant, whatever keys the environment has. */
    if (rc == LEAT_OK && !opts->profile && !opts->anonymous)
        rc = read_environment_keys(&aws, err);
    if (rc == LEAT_OK)
        rc = read_profile(&aws, profile, !aws.access_key && !opts->anonymous, err);
    if (rc == LEAT_OK)
        rc = check_keys(&aws, err);
    if (rc != LEAT_OK)
        leat_aws_free(&aws);
    else
        *out = aws;
    return rc;
}
