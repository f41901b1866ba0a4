#include "store/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/parse.h"
#include "store/aws_keys.h"
#include "store/sign.h"

#define FILE_MAX    (256u << 10)
#define TIMEOUT     (10 * LEAT_S)
#define ATTEMPTS    3u
#define SECONDS_MAX 1000000000000u /* 30,000 years */

/* Everything that decides which keys come: the variables, and when files that they name were written. */
static bool digest_question(const struct leat_keys_kind *kind, const struct leat_url *url,
                            uint8_t out[LEAT_SHA256_SIZE])
{
    struct leat_buf b;
    leat_buf_init(&b, 1u << 20);
    leat_buf_printf(&b, "%s|%s|", kind->scheme, url->host);
    for (const char *const *name = kind->variables; *name; name++) {
        const char *value = leat_aws_variable(*name);
        struct stat st = {0};
        if (value && stat(value, &st) < 0)
            st = (struct stat){0};
        leat_buf_printf(&b, "%s=%s|%lld.%09ld|%lld|", *name, value ? value : "", (long long)st.st_mtim.tv_sec,
                        st.st_mtim.tv_nsec, (long long)st.st_ino);
    }
    bool ok = !b.failed;
    if (ok)
        leat_sha256(b.data, b.len, out);
    leat_keys_forget(&b);
    return ok;
}

static leat_status find(const struct leat_keys_kind *kind, const struct leat_url *url,
                        const struct leat_store_opts *opts, bool fresh, struct leat_aws *aws, struct leat_error *err)
{
    uint8_t of[LEAT_SHA256_SIZE];
    bool keeps = digest_question(kind, url, of);
    if (keeps && !fresh && leat_aws_take_kept(of, aws))
        return LEAT_OK;
    leat_status rc = kind->find(url, opts, aws, err);
    if (rc == LEAT_OK && keeps && aws->access_key && aws->expires_s)
        leat_aws_keep(of, aws);
    return rc;
}

leat_status leat_keys_load(const struct leat_keys_kind *kind, const struct leat_url *url,
                           const struct leat_store_opts *opts, bool fresh, struct leat_aws *out, struct leat_error *err)
{
    struct leat_aws aws = {.addressing = opts->addressing, .since_s = (uint64_t)leat_wall_s()};
    leat_status rc = LEAT_OK;
    const char *from = "--endpoint-url";
    const char *endpoint = opts->endpoint_url;
    for (const char *const *name = kind->endpoint_variables; !endpoint && *name; name++) {
        endpoint = leat_aws_variable(*name);
        from = *name;
    }
    if (endpoint && !(aws.endpoint_url = strdup(endpoint)))
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for settings");
    snprintf(aws.endpoint_from, sizeof aws.endpoint_from, "%s", endpoint ? from : kind->own);
    if (rc == LEAT_OK && !opts->anonymous)
        rc = find(kind, url, opts, fresh, &aws, err);
    if (rc == LEAT_OK)
        rc = leat_aws_check_keys(&aws, err);
    if (rc != LEAT_OK)
        leat_aws_free(&aws);
    else
        *out = aws;
    return rc;
}

static bool is_here(const char *host)
{
    char name[256];
    unsigned port;
    if (!leat_url_split_host(host, name, sizeof name, &port))
        return false;
    return strcmp(name, "localhost") == 0 || strcmp(name, "[::1]") == 0 ||
           (strncmp(name, "127.", 4) == 0 && strspn(name, "0123456789.") == strlen(name));
}

leat_status leat_keys_may_go(const char *scheme, const char *endpoint, struct leat_error *err)
{
    if (strcmp(scheme, "https") == 0 || is_here(endpoint))
        return LEAT_OK;
    return leat_fail(err, LEAT_DENIED,
                     "the endpoint %s://%s has no TLS, and a token would be readable on the way: use https://, or "
                     "--no-sign-request where none is needed",
                     scheme, endpoint);
}

leat_status leat_keys_may_go_to(const char *text, struct leat_error *err)
{
    struct leat_url url = {0};
    leat_status rc = leat_url_parse(text, &url, err);
    if (rc == LEAT_OK && url.scheme != LEAT_SCHEME_HTTP && url.scheme != LEAT_SCHEME_HTTPS)
        rc = leat_fail(err, LEAT_INVALID, "the address of a service for keys is not http:// or https://");
    else if (rc == LEAT_OK)
        rc = leat_keys_may_go(leat_scheme_name(url.scheme), url.host, err);
    leat_url_free(&url);
    return rc;
}

leat_status leat_keys_set(struct leat_aws *aws, const char *prefix, const char *id, const char *secret,
                          const char *token, struct leat_error *err)
{
    struct leat_buf name;
    leat_buf_init(&name, 1024);
    leat_buf_printf(&name, "%s%s", prefix, id);
    leat_status rc = leat_buf_check(&name, "the name of a key", err);
    if (rc == LEAT_OK)
        rc = leat_aws_set_keys(aws, name.data, secret, token, err);
    leat_buf_free(&name);
    return rc;
}

struct leat_ask leat_keys_question(const struct leat_store_opts *opts, const char *method, const char *url)
{
    return (struct leat_ask){
        .method = method,
        .url = url,
        .timeout_ns = TIMEOUT,
        .attempts = ATTEMPTS,
        .ca_bundle = opts->ca_bundle,
        .stop = opts->stop,
        .stop_user = opts->stop_user,
    };
}

/* A number, or text that is one. Whatever it is, it can be reckoned with. */
static uint64_t seconds(const json_t *value)
{
    const char *text = json_string_value(value);
    uint64_t v = 0;
    if (json_is_number(value))
        v = json_number_value(value) < SECONDS_MAX ? (uint64_t)fmax(json_number_value(value), 0) : SECONDS_MAX;
    else if (text && leat_parse_u64(text, "expiry", &v, NULL) != LEAT_OK)
        v = 0;
    return v < SECONDS_MAX ? v : SECONDS_MAX;
}

/* OAuth's short name of what is wrong ("invalid_grant"), and nothing that could repeat a secret. */
static const char *reason(const json_t *answer, char out[64])
{
    const json_t *error = json_object_get(answer, "error");
    const char *text = json_string_value(error);
    if (!text)
        text = json_string_value(json_object_get(error, "status"));
    size_t n = text ? strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") : 0;
    snprintf(out, 64, "%s%.*s", n ? ", " : "", (int)(n < 60 ? n : 60), text ? text : "");
    return out;
}

leat_status leat_keys_token(struct leat_ask *ask, const char *who, const char *prefix, const char *id,
                            struct leat_aws *aws, struct leat_error *err)
{
    json_t *answer = NULL;
    char why[64];
    leat_status rc = leat_ask(ask, err);
    if (rc != LEAT_OK) {
        leat_ask_free(ask);
        return leat_fail_context(err, rc, "cannot ask %s for a token", who);
    }
    rc = leat_json_read(ask->text.data, ask->text.len, 0, &answer, NULL);
    const char *token = json_string_value(json_object_get(answer, "access_token"));
    if (!token)
        token = json_string_value(json_object_get(answer, "accessToken"));
    uint64_t lives_s = seconds(json_object_get(answer, "expires_in"));
    uint64_t expires_s = seconds(json_object_get(answer, "expires_on"));
    const char *expires = json_string_value(json_object_get(answer, "expireTime"));
    if (expires)
        expires_s = leat_aws_expiry(expires);
    expires_s = leat_ask_here(ask, expires_s);
    if (!expires_s && lives_s)
        expires_s = (uint64_t)leat_wall_s() + lives_s;
    if (rc == LEAT_NO_MEMORY)
        rc = leat_fail(err, rc, "no memory for a token");
    else if (ask->code != 200)
        rc = leat_fail(err, ask->code >= 500 ? LEAT_SERVER : LEAT_DENIED, "%s gives no token (%u%s)", who, ask->code,
                       reason(answer, why));
    else if (rc != LEAT_OK || !token || !*token)
        rc = leat_fail(err, LEAT_DENIED, "%s gives no token (there is no access_token in its answer)", who);
    else if (!expires_s)
        rc = leat_fail(err, LEAT_INVALID, "%s gives a token without saying when it ends", who);
    else
        rc = leat_keys_set(aws, prefix, id, "", token, err);
    if (rc == LEAT_OK)
        aws->expires_s = expires_s;
    json_decref(answer);
    leat_ask_free(ask);
    return rc;
}

void leat_keys_form(struct leat_buf *out, const char *name, const char *value)
{
    leat_buf_printf(out, "%s%s=", out->len ? "&" : "", name);
    leat_sign_encode(out, value, strlen(value), false);
}

leat_status leat_keys_read_file(const char *path, const char *what, struct leat_buf *out, struct leat_error *err)
{
    char piece[4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : 1;
    leat_buf_init(out, FILE_MAX);
    while (n > 0 && !out->failed) {
        n = read(fd, piece, sizeof piece);
        if (n > 0)
            leat_buf_add(out, piece, (size_t)n);
    }
    int e = errno;
    explicit_bzero(piece, sizeof piece);
    if (fd >= 0)
        close(fd);
    leat_status rc =
        n < 0 ? leat_fail_errno(err, e, "cannot read '%s' (%s)", path, what) : leat_buf_check(out, what, err);
    if (rc != LEAT_OK)
        leat_keys_forget(out);
    return rc;
}

void leat_keys_forget(struct leat_buf *secret)
{
    if (secret->data)
        explicit_bzero(secret->data, secret->len);
    leat_buf_free(secret);
}

uint32_t leat_keys_attempts_here(const char *dmi_file, const char *text)
{
    char said[128] = "";
    int fd = open(dmi_file, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, said, sizeof said - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 1;
    return strcasestr(said, text) ? ATTEMPTS : 0;
}
