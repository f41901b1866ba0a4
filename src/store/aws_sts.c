/* AWS's Security Token Service: keys for a role, by other keys or by a web identity. And single sign-on, whose portal
 * hands them out for a token that `aws sso login` has left. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/url.h"
#include "store/aws_ask.h"
#include "store/aws_keys.h"
#include "store/hide.h"
#include "store/keys.h"
#include "store/sign.h"

#define TIMEOUT   (10 * LEAT_S)
#define ATTEMPTS  3u
#define URL_MAX   1024
#define TOKEN_MAX (64u << 10)
#define WEB_TOKEN "WebIdentityToken"

static void add_form(struct leat_buf *form, const char *name, const char *value)
{
    if (!value)
        return;
    leat_buf_printf(form, "&%s=", name);
    leat_sign_encode(form, value, strlen(value), false);
}

#define CONTENT_TYPE "application/x-www-form-urlencoded; charset=utf-8"

/* The lines of the head, each with its NUL; signed where there are keys to sign with. */
static leat_status make_head(const struct leat_url *url, const char *region, const char *form,
                             const struct leat_aws *base, int64_t offset_s, struct leat_buf *lines, size_t *n,
                             struct leat_error *err)
{
    char date[LEAT_SIGN_DATE];
    uint8_t digest[LEAT_SHA256_SIZE];
    char hash[2 * LEAT_SHA256_SIZE + 1];
    struct leat_buf authorization;
    leat_buf_str(lines, "Content-Type: " CONTENT_TYPE);
    leat_buf_add(lines, "", 1);
    *n = 1;
    if (!base)
        return leat_buf_check(lines, "a request", err);
    leat_buf_init(&authorization, 4096);
    leat_sha256(form, strlen(form), digest);
    leat_hex(digest, sizeof digest, hash);
    struct leat_sign_keys keys = {base->access_key, base->secret_key, base->session_token};
    struct leat_sign_pair header = {"content-type", CONTENT_TYPE};
    struct leat_sign_request request = {
        .method = "POST",
        .host = url->host,
        .path = *url->path ? url->path : "/",
        .headers = &header,
        .headers_n = 1,
        .payload_hash = hash,
        .region = region,
        .service = "sts",
        .time_s = leat_wall_s() + offset_s,
    };
    leat_status rc = leat_sign(&keys, &request, date, &authorization, err);
    const char *values[] = {date, hash, authorization.data, base->session_token};
    static const char *const names[] = {"x-amz-date", "x-amz-content-sha256", "Authorization", "x-amz-security-token"};
    for (size_t i = 0; i < 4 && rc == LEAT_OK && values[i]; i++, ++*n) {
        leat_buf_printf(lines, "%s: %s", names[i], values[i]);
        leat_buf_add(lines, "", 1);
    }
    leat_buf_free(&authorization);
    return rc == LEAT_OK ? leat_buf_check(lines, "a request", err) : rc;
}

/* Takes the keys out of the answer, or says what stands in their place. */
static leat_status take_answer(const struct leat_ask *ask, const struct leat_aws *base, const char *host,
                               const char *role_arn, struct leat_aws *aws, struct leat_error *err)
{
    struct leat_ask_keys a;
    leat_status rc;
    bool parsed = leat_ask_read_keys(ask, &a);
    if (ask->code == 200 && parsed && a.access[0] && a.secret[0] && a.token[0]) {
        rc = leat_aws_set_keys(aws, a.access, a.secret, a.token, err);
        aws->expires_s = a.expires_s;
    } else {
        char *token = strstr(ask->body, WEB_TOKEN "=");
        struct leat_aws told = {.session_token = token ? token + strlen(WEB_TOKEN "=") : NULL};
        leat_hide_secrets(a.message, base ? base : &told, NULL);
        rc = leat_fail(err, ask->code >= 500 ? LEAT_SERVER : LEAT_DENIED, "%s gives no keys for '%s': %s (%s%s%u)",
                       host, role_arn, a.message[0] ? a.message : "it does not say why", a.code, a.code[0] ? ", " : "",
                       ask->code);
    }
    explicit_bzero(&a, sizeof a);
    return rc;
}

/* The answer is the caller's to free, also when it fails. */
static leat_status ask_signed(struct leat_ask *ask, const struct leat_url *url, const char *region,
                              const struct leat_aws *base, int64_t offset_s, struct leat_error *err)
{
    struct leat_buf lines;
    leat_buf_init(&lines, 64u << 10);
    leat_status rc = make_head(url, region, ask->body, base, offset_s, &lines, &ask->headers_n, err);
    const char *line = lines.data;
    for (size_t i = 0; rc == LEAT_OK && i < ask->headers_n; i++, line += strlen(line) + 1)
        ask->headers[i] = line;
    if (rc == LEAT_OK)
        rc = leat_ask(ask, err);
    leat_keys_forget(&lines);
    return rc;
}

static leat_status ask_sts(const struct leat_aws_lookup *l, const char *form, const struct leat_aws *base,
                           const char *role_arn, struct leat_aws *aws, struct leat_error *err)
{
    const char *region = l->region ? l->region : "us-east-1";
    char usual[160] = "https://sts.amazonaws.com";
    char url[URL_MAX];
    struct leat_url parts = {0};
    int64_t offset_s = 0;
    if (l->region)
        snprintf(usual, sizeof usual, "https://sts%s.%.60s.amazonaws.com%s",
                 leat_aws_wants_fips(l->files, l->profile) ? "-fips" : "", region,
                 strncmp(region, "cn-", 3) == 0 ? ".cn" : "");
    leat_status rc = leat_aws_service_url(l, "sts", usual, url, sizeof url - 1, err);
    if (rc == LEAT_OK)
        rc = leat_url_parse(url, &parts, err);
    if (rc != LEAT_OK)
        return leat_fail_context(err, rc, "the address of STS");
    struct leat_ask ask = {
        .method = "POST",
        .url = url,
        .body = form,
        .timeout_ns = TIMEOUT,
        .attempts = ATTEMPTS,
        .ca_bundle = l->ca_bundle,
        .stop = l->stop,
        .stop_user = l->stop_user,
    };
    snprintf(url + strlen(url), sizeof url - strlen(url), "%s", *parts.path ? "" : "/");
    rc = ask_signed(&ask, &parts, region, base, offset_s, err);
    if (rc == LEAT_OK && base && leat_ask_reclock(&ask, &offset_s)) {
        leat_ask_free(&ask);
        rc = ask_signed(&ask, &parts, region, base, offset_s, err);
    }
    if (rc != LEAT_OK)
        leat_fail_context(err, rc, "cannot ask %s for keys of '%s'", parts.host, role_arn);
    else
        rc = take_answer(&ask, base, parts.host, role_arn, aws, err);
    leat_ask_free(&ask);
    leat_url_free(&parts);
    return rc;
}

static void begin_form(struct leat_buf *form, const char *action, const char *role_arn, const char *session)
{
    char own[64];
    snprintf(own, sizeof own, "leat-%lld", (long long)leat_wall_s());
    leat_buf_init(form, 96u << 10);
    leat_buf_printf(form, "Action=%s&Version=2011-06-15", action);
    add_form(form, "RoleArn", role_arn);
    add_form(form, "RoleSessionName", session ? session : own);
}

leat_status leat_aws_assume_role(const struct leat_aws_lookup *l, const char *profile, const char *role_arn,
                                 const struct leat_aws *base, struct leat_aws *aws, struct leat_error *err)
{
    struct leat_buf form;
    begin_form(&form, "AssumeRole", role_arn, leat_aws_files_get(l->files, profile, "role_session_name"));
    add_form(&form, "ExternalId", leat_aws_files_get(l->files, profile, "external_id"));
    add_form(&form, "DurationSeconds", leat_aws_files_get(l->files, profile, "duration_seconds"));
    leat_status rc = leat_buf_check(&form, "a request", err);
    if (rc == LEAT_OK)
        rc = ask_sts(l, form.data, base, role_arn, aws, err);
    leat_buf_free(&form);
    if (rc == LEAT_OK)
        snprintf(aws->keys_from, sizeof aws->keys_from, "the role of profile '%.50s'", profile);
    return rc;
}

/* A small text file without the line break at its end; the caller wipes and frees it. */
static char *read_text(const char *path, struct leat_error *err)
{
    struct leat_buf b;
    char piece[4096];
    ssize_t n = 1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        leat_fail_errno(err, errno, "cannot read '%s'", path);
        return NULL;
    }
    leat_buf_init(&b, TOKEN_MAX);
    while ((n = read(fd, piece, sizeof piece)) > 0)
        leat_buf_add(&b, piece, (size_t)n);
    close(fd);
    explicit_bzero(piece, sizeof piece);
    while (b.len && (b.data[b.len - 1] == '\n' || b.data[b.len - 1] == '\r'))
        b.data[--b.len] = '\0';
    if (n < 0 || b.failed || !b.len) {
        leat_buf_free(&b);
        leat_fail(err, LEAT_INVALID, "'%s' is empty, too long or cannot be read", path);
        return NULL;
    }
    return leat_buf_take(&b);
}

leat_status leat_aws_web_identity(const struct leat_aws_lookup *l, const char *role_arn, const char *session,
                                  const char *token_file, struct leat_aws *aws, struct leat_error *err)
{
    struct leat_error why = {0};
    struct leat_buf form;
    char *token = read_text(token_file, &why);
    if (!token) {
        if (err)
            *err = why;
        return why.status;
    }
    begin_form(&form, "AssumeRoleWithWebIdentity", role_arn, session);
    add_form(&form, WEB_TOKEN, token);
    explicit_bzero(token, strlen(token));
    free(token);
    leat_status rc = leat_buf_check(&form, "a request", err);
    if (rc == LEAT_OK)
        rc = ask_sts(l, form.data, NULL, role_arn, aws, err);
    if (form.data)
        explicit_bzero(form.data, form.len);
    leat_buf_free(&form);
    if (rc == LEAT_OK)
        snprintf(aws->keys_from, sizeof aws->keys_from, "the web identity in '%.50s'", token_file);
    return rc;
}

/* The token that `aws sso login` left: ~/.aws/sso/cache/SHA1(session or start URL).json. */
static leat_status read_sso_token(const char *profile, const char *name, json_t **out, struct leat_error *err)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    char hex[2 * 20 + 1];
    char file[80];
    char path[4096];
    struct leat_error why = {0};
    if (EVP_Digest(name, strlen(name), digest, NULL, EVP_sha1(), NULL) != 1)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for AWS settings");
    leat_hex(digest, 20, hex);
    snprintf(file, sizeof file, "sso/cache/%s.json", hex);
    char *text = leat_aws_path(NULL, file, path, sizeof path) ? read_text(path, &why) : NULL;
    if (!text)
        return leat_fail(err, LEAT_DENIED, "profile '%s': not signed in; run: aws sso login --profile %s", profile,
                         profile);
    leat_status rc = leat_json_read(text, strlen(text), 0, out, NULL);
    explicit_bzero(text, strlen(text));
    free(text);
    if (rc != LEAT_OK)
        return leat_fail(err, rc, "'%s' is not what `aws sso login` writes", path);
    const char *token = json_string_value(json_object_get(*out, "accessToken"));
    uint64_t expires_s = leat_aws_expiry(json_string_value(json_object_get(*out, "expiresAt")));
    if (token && *token && expires_s > (uint64_t)leat_wall_s())
        return LEAT_OK;
    json_decref(*out);
    return leat_fail(err, LEAT_DENIED, "profile '%s': the sign-in has expired; run: aws sso login --profile %s",
                     profile, profile);
}

static leat_status take_sso(const struct leat_ask *ask, const char *profile, struct leat_aws *aws,
                            struct leat_error *err)
{
    json_t *value = NULL;
    if (ask->code != 200)
        return leat_fail(err, ask->code >= 500 ? LEAT_SERVER : LEAT_DENIED,
                         "profile '%s': single sign-on gives no keys for its account and role (%u)%s%s", profile,
                         ask->code, ask->code == 401 ? "; run: aws sso login --profile " : "",
                         ask->code == 401 ? profile : "");
    leat_status rc = leat_json_read(ask->text.data, ask->text.len, 0, &value, NULL);
    const json_t *keys = json_object_get(value, "roleCredentials");
    const char *access = json_string_value(json_object_get(keys, "accessKeyId"));
    const char *secret = json_string_value(json_object_get(keys, "secretAccessKey"));
    const char *token = json_string_value(json_object_get(keys, "sessionToken"));
    json_int_t ms = json_integer_value(json_object_get(keys, "expiration"));
    if (rc != LEAT_OK || !access || !secret)
        rc = leat_fail(err, LEAT_DENIED, "profile '%s': single sign-on's answer has no keys in it", profile);
    else
        rc = leat_aws_set_keys(aws, access, secret, token, err);
    aws->expires_s = leat_ask_here(ask, ms > 0 ? (uint64_t)ms / 1000 : 0);
    snprintf(aws->keys_from, sizeof aws->keys_from, "single sign-on of profile '%.40s'", profile);
    json_decref(value);
    return rc;
}

leat_status leat_aws_sso(const struct leat_aws_lookup *l, const char *profile, struct leat_aws *aws,
                         struct leat_error *err)
{
    const char *session = leat_aws_files_get(l->files, profile, "sso_session");
    const char *start = session ? leat_aws_files_section(l->files, "sso-session", session, "sso_start_url")
                                : leat_aws_files_get(l->files, profile, "sso_start_url");
    const char *region = session ? leat_aws_files_section(l->files, "sso-session", session, "sso_region")
                                 : leat_aws_files_get(l->files, profile, "sso_region");
    const char *account = leat_aws_files_get(l->files, profile, "sso_account_id");
    const char *name = leat_aws_files_get(l->files, profile, "sso_role_name");
    char usual[160];
    char base[URL_MAX];
    json_t *token = NULL;
    if (!start || !region || !account || !name)
        return leat_fail(err, LEAT_INVALID, "profile '%s' lacks %s for single sign-on", profile,
                         !start     ? "sso_start_url"
                         : !region  ? "sso_region"
                         : !account ? "sso_account_id"
                                    : "sso_role_name");
    snprintf(usual, sizeof usual, "https://portal.sso.%.60s.amazonaws.com", region);
    leat_status rc = leat_aws_service_url(l, "sso", usual, base, sizeof base, err);
    if (rc == LEAT_OK)
        rc = read_sso_token(profile, session ? session : start, &token, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_buf url;
    struct leat_buf header;
    struct leat_sign_pair query[] = {{"role_name", name}, {"account_id", account}};
    leat_buf_init(&url, 4096);
    leat_buf_init(&header, TOKEN_MAX);
    leat_buf_printf(&url, "%s/federation/credentials?", base);
    leat_sign_query(&url, query, 2);
    leat_buf_printf(&header, "x-amz-sso_bearer_token: %s", json_string_value(json_object_get(token, "accessToken")));
    json_decref(token);
    rc = leat_buf_check(&url, "a request", err);
    if (rc == LEAT_OK)
        rc = leat_buf_check(&header, "a request", err);
    struct leat_ask ask = {
        .method = "GET",
        .url = url.data,
        .headers = {header.data},
        .headers_n = 1,
        .timeout_ns = TIMEOUT,
        .attempts = ATTEMPTS,
        .ca_bundle = l->ca_bundle,
        .stop = l->stop,
        .stop_user = l->stop_user,
    };
    if (rc == LEAT_OK) {
        rc = leat_ask(&ask, err);
        if (rc != LEAT_OK)
            leat_fail_context(err, rc, "cannot ask single sign-on for keys");
        else
            rc = take_sso(&ask, profile, aws, err);
        leat_ask_free(&ask);
    }
    if (header.data)
        explicit_bzero(header.data, header.len);
    leat_buf_free(&header);
    leat_buf_free(&url);
    return rc;
}
