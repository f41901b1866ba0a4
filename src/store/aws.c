#include "store/aws.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "store/aws_keys.h"
#include "store/s3_site.h"

#define RENEW_EARLY_S 300 /* before they expire: as early as AWS's own clients */
#define OVER_AGAIN_S  60

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
    wipe(aws->headers);
    free(aws->region);
    free(aws->endpoint_url);
    free(aws->ca_bundle);
    *aws = (struct leat_aws){0};
}

/* The first of them that is set, NULL: none. */
static const char *first_set(const char *const *names)
{
    while (*names && !leat_aws_variable(*names))
        names++;
    return *names;
}

static leat_status set_text(char **field, const char *value, struct leat_error *err)
{
    if (!value)
        return LEAT_OK;
    *field = strdup(value);
    return *field ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for AWS settings");
}

leat_status leat_aws_copy(const struct leat_aws *aws, struct leat_aws *out, struct leat_error *err)
{
    struct leat_aws copy = *aws;
    char **const texts[] = {&copy.access_key,   &copy.secret_key, &copy.session_token, &copy.region,
                            &copy.endpoint_url, &copy.headers,    &copy.ca_bundle};
    leat_status rc = LEAT_OK;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *text = *texts[i];
        *texts[i] = NULL;
        if (rc == LEAT_OK)
            rc = set_text(texts[i], text, err);
    }
    if (rc != LEAT_OK)
        leat_aws_free(&copy);
    else
        *out = copy;
    return rc;
}

void leat_aws_swap_keys(struct leat_aws *a, struct leat_aws *b)
{
    struct leat_aws was = *a;
    a->access_key = b->access_key;
    a->secret_key = b->secret_key;
    a->session_token = b->session_token;
    a->expires_s = b->expires_s;
    a->since_s = b->since_s;
    memcpy(a->keys_from, b->keys_from, sizeof a->keys_from);
    b->access_key = was.access_key;
    b->secret_key = was.secret_key;
    b->session_token = was.session_token;
    b->expires_s = was.expires_s;
    b->since_s = was.since_s;
    memcpy(b->keys_from, was.keys_from, sizeof b->keys_from);
}

/* They become lines of a request's head. (A line break at the end is what reading them from a file leaves.) */
leat_status leat_aws_check_keys(const struct leat_aws *aws, struct leat_error *err)
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

static bool is_true(const struct leat_aws_files *files, const char *variable, const char *profile, const char *key)
{
    const char *value = variable ? leat_aws_variable(variable) : NULL;
    if (!value)
        value = leat_aws_files_get(files, profile, key);
    return value && strcasecmp(value, "true") == 0;
}

bool leat_aws_wants_fips(const struct leat_aws_files *files, const char *profile)
{
    return is_true(files, "AWS_USE_FIPS_ENDPOINT", profile, "use_fips_endpoint");
}

bool leat_aws_wants_dualstack(const struct leat_aws_files *files, const char *profile)
{
    return is_true(files, "AWS_USE_DUALSTACK_ENDPOINT", profile, "use_dualstack_endpoint") ||
           is_true(files, NULL, profile, "s3.use_dualstack_endpoint");
}

bool leat_aws_ignores_endpoints(const struct leat_aws_files *files, const char *profile)
{
    return is_true(files, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", profile, "ignore_configured_endpoint_urls");
}

/* The endpoint that the profile says, and where: its services, its own. */
static leat_status profile_endpoint(const struct leat_aws_lookup *l, struct leat_aws *aws, struct leat_error *err)
{
    const char *services = leat_aws_files_get(l->files, l->profile, "services");
    const char *url = services ? leat_aws_files_section(l->files, "services", services, "s3.endpoint_url") : NULL;
    if (!url)
        url = leat_aws_files_get(l->files, l->profile, "s3.endpoint_url");
    if (!url)
        url = leat_aws_files_get(l->files, l->profile, "endpoint_url");
    if (url)
        snprintf(aws->endpoint_from, sizeof aws->endpoint_from, "profile '%.60s'", l->profile);
    return set_text(&aws->endpoint_url, url, err);
}

/* AWS's own endpoints of a special kind, which belong to a region. The name of the host says the kind to those who
 * open the bucket: leat_s3_own_host(). */
static leat_status special_endpoint(const struct leat_aws_lookup *l, struct leat_aws *aws, struct leat_error *err)
{
    bool fips = leat_aws_wants_fips(l->files, l->profile);
    bool dual = leat_aws_wants_dualstack(l->files, l->profile);
    char url[200];
    if (is_true(l->files, NULL, l->profile, "s3.use_accelerate_endpoint"))
        return leat_fail(err, LEAT_UNSUPPORTED, "profile '%s': s3.use_accelerate_endpoint is not supported",
                         l->profile);
    if (!fips && !dual)
        return LEAT_OK;
    const char *what = fips ? "a FIPS endpoint (use_fips_endpoint)" : "a dual-stack endpoint (use_dualstack_endpoint)";
    if (aws->endpoint_url)
        return leat_fail(err, LEAT_INVALID, "%s is asked for, and %s gives an endpoint: only one of them is possible",
                         what, aws->endpoint_from);
    if (!aws->region)
        return leat_fail(err, LEAT_INVALID, "%s is asked for, but no region is known: set AWS_REGION", what);
    snprintf(url, sizeof url, "https://s3%s%s.%.60s.%s", fips ? "-fips" : "", dual ? ".dualstack" : "", aws->region,
             leat_s3_suffix(aws->region));
    snprintf(aws->endpoint_from, sizeof aws->endpoint_from, "%s", fips ? "AWS's own, FIPS" : "AWS's own, dual-stack");
    return set_text(&aws->endpoint_url, url, err);
}

static leat_status look_up_place(const struct leat_store_opts *opts, const struct leat_aws_lookup *l,
                                 struct leat_aws *aws, struct leat_error *err)
{
    static const char *const regions[] = {"AWS_REGION", "AWS_DEFAULT_REGION", NULL};
    static const char *const endpoints[] = {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "S3_ENDPOINT_URL", NULL};
    bool ignored = leat_aws_ignores_endpoints(l->files, l->profile);
    /* What the environment says is said for all buckets. */
    const char *region = opts->apart ? NULL : first_set(regions);
    const char *endpoint = ignored || opts->apart ? NULL : first_set(endpoints);
    const char *style = leat_aws_files_get(l->files, l->profile, "s3.addressing_style");
    leat_status rc = set_text(&aws->region,
                              opts->region ? opts->region
                              : region     ? getenv(region)
                                           : leat_aws_files_get(l->files, l->profile, "region"),
                              err);
    if (aws->addressing == LEAT_ADDRESSING_AUTO && style)
        aws->addressing = strcmp(style, "path") == 0      ? LEAT_ADDRESSING_PATH
                          : strcmp(style, "virtual") == 0 ? LEAT_ADDRESSING_VIRTUAL
                                                          : LEAT_ADDRESSING_AUTO;
    if (rc == LEAT_OK && (opts->endpoint_url || endpoint)) {
        rc = set_text(&aws->endpoint_url, opts->endpoint_url ? opts->endpoint_url : getenv(endpoint), err);
        snprintf(aws->endpoint_from, sizeof aws->endpoint_from, "%s",
                 opts->endpoint_url ? leat_store_endpoint_from(opts) : endpoint);
    } else if (rc == LEAT_OK && !ignored) {
        rc = profile_endpoint(l, aws, err);
    }
    return rc == LEAT_OK ? special_endpoint(l, aws, err) : rc;
}

void leat_aws_account(const char *key_id, char out[LEAT_AWS_ACCOUNT])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    uint64_t bits = 0;
    out[0] = '\0';
    if (strlen(key_id) != 20 || (strncmp(key_id, "AKIA", 4) != 0 && strncmp(key_id, "ASIA", 4) != 0))
        return;
    for (unsigned i = 4; i < 14; i++) { /* 50 bits; the account is 40 of them, after the first */
        const char *digit = strchr(digits, key_id[i]);
        if (!digit || !*digit)
            return;
        bits = bits << 5 | (uint64_t)(digit - digits);
    }
    uint64_t account = (bits >> 2 & 0x7fffffffff80u) >> 7;
    if (account)
        snprintf(out, LEAT_AWS_ACCOUNT, "%012llu", (unsigned long long)account);
}

uint64_t leat_aws_renew_at(const struct leat_aws *aws)
{
    if (!aws->expires_s)
        return 0;
    if (aws->expires_s <=
        aws->since_s) /* over when they came: where nothing tells that a clock is wrong, a server does */
        return aws->since_s + OVER_AGAIN_S;
    uint64_t life = aws->expires_s - aws->since_s;
    uint64_t early = life / 2 < RENEW_EARLY_S ? life / 2 : RENEW_EARLY_S;
    return aws->expires_s - early;
}

static leat_status load(const struct leat_store_opts *opts, bool fresh, struct leat_aws *out, struct leat_error *err)
{
    struct leat_aws aws = {.addressing = opts->addressing, .endpoint_from = "AWS's own"};
    const char *named = opts->profile ? opts->profile : leat_aws_variable("AWS_PROFILE");
    struct leat_aws_files *files = NULL;
    leat_status rc = leat_aws_files_read(&files, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_aws_lookup l = {
        .files = files,
        .profile = named ? named : "default",
        .profile_said = opts->profile != NULL,
        .ca_bundle = opts->ca_bundle,
        .stop = opts->stop,
        .stop_user = opts->stop_user,
    };
    if (named && !leat_aws_files_has(files, named))
        rc = leat_fail(err, LEAT_INVALID, "there is no profile '%s' in ~/.aws/credentials or ~/.aws/config", named);
    if (rc == LEAT_OK)
        rc = look_up_place(opts, &l, &aws, err);
    l.region = aws.region;
    aws.since_s = (uint64_t)leat_wall_s();
    if (rc == LEAT_OK && !opts->anonymous)
        rc = leat_aws_kept_keys(&l, fresh, &aws, err);
    if (rc == LEAT_OK)
        rc = leat_aws_check_keys(&aws, err);
    leat_aws_files_free(files);
    if (rc != LEAT_OK)
        leat_aws_free(&aws);
    else
        *out = aws;
    return rc;
}

leat_status leat_aws_load(const struct leat_store_opts *opts, struct leat_aws *out, struct leat_error *err)
{
    return load(opts, false, out, err);
}

leat_status leat_aws_load_anew(const struct leat_store_opts *opts, struct leat_aws *out, struct leat_error *err)
{
    return load(opts, true, out, err);
}
