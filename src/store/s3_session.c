#include "store/s3_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/hash.h"
#include "store/aws_ask.h"
#include "store/aws_keys.h"
#include "store/hide.h"
#include "store/s3_site.h"

#define TIMEOUT  (10 * LEAT_S)
#define ATTEMPTS 3u

bool leat_s3_is_session(const struct leat_aws *aws)
{
    return aws->access_key && strncmp(aws->access_key, LEAT_S3_SESSION, sizeof LEAT_S3_SESSION - 1) == 0;
}

bool leat_s3_has_sessions(const char *bucket)
{
    const char *disabled = leat_aws_variable("AWS_S3_DISABLE_EXPRESS_SESSION_AUTH");
    return leat_s3_is_directory(bucket) && !(disabled && strcasecmp(disabled, "true") == 0);
}

const char *leat_s3_key_id(const struct leat_aws *aws)
{
    const char *colon = leat_s3_is_session(aws) ? strrchr(aws->access_key, ':') : NULL;
    return colon ? colon + 1 : aws->access_key;
}

leat_status leat_s3_check_session(const struct bucket *b, struct leat_error *err)
{
    const char *of = leat_s3_is_session(&b->aws) ? b->aws.access_key + sizeof LEAT_S3_SESSION - 1 : NULL;
    size_t n = of ? strcspn(of, ":") : 0;
    if (!of || (b->directory && strlen(b->bucket) == n && strncmp(of, b->bucket, n) == 0))
        return LEAT_OK;
    return leat_fail(err, LEAT_UNSUPPORTED,
                     "the keys that the job has are a session of bucket '%.*s', which opens no other bucket", (int)n,
                     of);
}

/* The texts of a request for a session. */
struct asking {
    struct leat_buf host;
    struct leat_buf path;
    struct leat_buf url;
    struct leat_buf lines; /* each with its NUL */
    const char *line[8];
    size_t lines_n;
};

static void add_line(struct asking *a, size_t *offsets, const char *name, const char *value)
{
    offsets[a->lines_n++] = a->lines.len;
    leat_buf_printf(&a->lines, "%s: %s", name, value);
    leat_buf_add(&a->lines, "", 1);
}

static leat_status make(const struct bucket *b, bool read_only, int64_t offset_s, struct asking *a,
                        struct leat_error *err)
{
    static const struct leat_sign_pair query = {"session", ""};
    static const struct leat_sign_pair mode = {"x-amz-create-session-mode", "ReadOnly"};
    const struct leat_aws *aws = &b->aws;
    struct leat_sign_keys keys = {aws->access_key, aws->secret_key, aws->session_token};
    struct leat_buf authorization;
    char date[LEAT_SIGN_DATE];
    uint8_t digest[LEAT_SHA256_SIZE];
    char hash[2 * LEAT_SHA256_SIZE + 1];
    size_t offsets[8];
    leat_sha256("", 0, digest);
    leat_hex(digest, sizeof digest, hash);
    leat_buf_printf(&a->host, "%s%s%s", b->virtual_host ? b->label : "", b->virtual_host ? "." : "", b->endpoint);
    leat_buf_printf(&a->path, "%s%s%s", b->base, b->virtual_host ? "" : "/", b->virtual_host ? "/" : b->label);
    leat_buf_printf(&a->url, "%s://%s%s?session=", b->scheme, a->host.data, a->path.data);
    struct leat_sign_request request = {
        .method = "GET",
        .host = a->host.data,
        .path = a->path.data,
        .query = &query,
        .query_n = 1,
        .headers = &mode,
        .headers_n = read_only,
        .payload_hash = hash,
        .region = b->region,
        .service = b->service,
        .time_s = leat_wall_s() + offset_s,
    };
    leat_buf_init(&authorization, 4096);
    leat_status rc = leat_sign(&keys, &request, date, &authorization, err);
    if (rc == LEAT_OK) {
        add_line(a, offsets, "x-amz-date", date);
        add_line(a, offsets, "x-amz-content-sha256", hash);
        add_line(a, offsets, "Authorization", authorization.data);
        if (aws->session_token && *aws->session_token)
            add_line(a, offsets, "x-amz-security-token", aws->session_token);
        if (read_only)
            add_line(a, offsets, mode.name, mode.value);
        rc = leat_buf_check(&a->lines, "a request", err);
    }
    for (size_t i = 0; rc == LEAT_OK && i < a->lines_n; i++)
        a->line[i] = a->lines.data + offsets[i];
    leat_buf_free(&authorization);
    return rc;
}

static void asking_free(struct asking *a)
{
    if (a->lines.data)
        explicit_bzero(a->lines.data, a->lines.len);
    leat_buf_free(&a->host);
    leat_buf_free(&a->path);
    leat_buf_free(&a->url);
    leat_buf_free(&a->lines);
}

/* *again: it was refused for the time, and *offset_s is right now. */
static leat_status ask_once(const struct bucket *b, const struct leat_store_opts *opts, bool read_only,
                            int64_t *offset_s, bool *again, unsigned *code, struct leat_ask_keys *out,
                            struct leat_error *err)
{
    struct asking a = {0};
    leat_buf_init(&a.host, 1024);
    leat_buf_init(&a.path, 1024);
    leat_buf_init(&a.url, 4096);
    leat_buf_init(&a.lines, 16u << 10);
    leat_status rc = make(b, read_only, *offset_s, &a, err);
    struct leat_ask question = {
        .method = "GET",
        .url = a.url.data,
        .timeout_ns = TIMEOUT,
        .attempts = ATTEMPTS,
        .ca_bundle = opts->ca_bundle,
        .stop = opts->stop,
        .stop_user = opts->stop_user,
    };
    for (size_t i = 0; i < a.lines_n; i++)
        question.headers[question.headers_n++] = a.line[i];
    if (rc == LEAT_OK) {
        rc = leat_ask(&question, err);
        *code = question.code;
        *again = rc == LEAT_OK && leat_ask_reclock(&question, offset_s);
        leat_ask_read_keys(&question, out);
        leat_ask_free(&question);
    }
    asking_free(&a);
    return rc;
}

static leat_status ask(const struct bucket *b, const struct leat_store_opts *opts, bool read_only, unsigned *code,
                       struct leat_ask_keys *out, struct leat_error *err)
{
    int64_t offset_s = 0;
    bool again = false;
    leat_status rc = ask_once(b, opts, read_only, &offset_s, &again, code, out, err);
    return again ? ask_once(b, opts, read_only, &offset_s, &again, code, out, err) : rc;
}

/* Moves found's keys to aws and frees those that were there. */
static void move_keys(struct leat_aws *found, struct leat_aws *aws)
{
    struct leat_aws old = {
        .access_key = aws->access_key, .secret_key = aws->secret_key, .session_token = aws->session_token};
    aws->access_key = found->access_key;
    aws->secret_key = found->secret_key;
    aws->session_token = found->session_token;
    aws->expires_s = found->expires_s;
    aws->since_s = found->since_s;
    leat_aws_free(&old);
}

static leat_status take_session(const struct leat_ask_keys *s, const char *bucket, struct leat_aws *aws,
                                struct leat_error *err)
{
    char id[600];
    struct leat_aws found = {.expires_s = s->expires_s, .since_s = (uint64_t)leat_wall_s()};
    snprintf(id, sizeof id, LEAT_S3_SESSION "%s:%s", bucket, s->access);
    leat_status rc = leat_aws_set_keys(&found, id, s->secret, s->token, err);
    if (rc == LEAT_OK)
        move_keys(&found, aws);
    else
        leat_aws_free(&found);
    return rc;
}

/* By bucket, address and the keys that began it. */
static void digest_question(const struct bucket *b, uint8_t out[LEAT_SHA256_SIZE])
{
    struct leat_buf text;
    leat_buf_init(&text, 64u << 10);
    leat_buf_printf(&text, LEAT_S3_SESSION "%s|%s|%s|%s", b->bucket, b->endpoint, b->aws.access_key, b->aws.secret_key);
    leat_sha256(text.data, text.len, out);
    if (text.data)
        explicit_bzero(text.data, text.len);
    leat_buf_free(&text);
}

static leat_status begin(struct bucket *b, const struct leat_store_opts *opts, struct leat_aws *aws, bool *expired,
                         struct leat_error *err)
{
    struct leat_ask_keys s = {0};
    unsigned code = 0;
    leat_status rc = ask(b, opts, false, &code, &s, err);
    if (rc == LEAT_OK && code == 403 && strcmp(s.code, "AccessDenied") == 0) { /* who may only read may say so */
        struct leat_ask_keys second = {0};
        unsigned second_code = 0;
        if (ask(b, opts, true, &second_code, &second, err) == LEAT_OK && second_code == 200) {
            s = second;
            code = second_code;
        }
        explicit_bzero(&second, sizeof second);
    }
    if (rc == LEAT_OK && code == 200 && s.access[0] && s.secret[0] && s.token[0]) {
        rc = take_session(&s, b->bucket, aws, err);
    } else if (rc == LEAT_OK) {
        leat_hide_secrets(s.message, &b->aws, NULL);
        *expired = strcmp(s.code, "ExpiredToken") == 0 || strcmp(s.code, "InvalidAccessKeyId") == 0;
        leat_status status = code >= 500 ? LEAT_SERVER : code == 404 ? LEAT_NOT_FOUND : LEAT_DENIED;
        rc = leat_fail(err, status, "bucket '%s' gives no session: %s (%s%s%u); keys are from %s", b->bucket,
                       s.message[0] ? s.message : "it does not say why", s.code, s.code[0] ? ", " : "", code,
                       aws->keys_from);
    } else {
        rc = leat_fail_context(err, rc, "a session of bucket '%s'", b->bucket);
    }
    explicit_bzero(&s, sizeof s);
    return rc;
}

leat_status leat_s3_begin_session(const char *bucket, const struct leat_store_opts *opts, bool fresh,
                                  struct leat_aws *aws, bool *expired, struct leat_error *err)
{
    struct bucket *b = calloc(1, sizeof *b);
    char *name = strdup(bucket);
    uint8_t of[LEAT_SHA256_SIZE];
    leat_status rc = b && name ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for a session");
    *expired = false;
    if (rc == LEAT_OK) {
        b->bucket = name;
        b->aws = *aws; /* borrowed */
        b->scheme = "https";
        rc = leat_s3_place(b, err);
    }
    if (rc == LEAT_OK && b->directory && aws->access_key) {
        struct leat_aws kept = {0};
        digest_question(b, of);
        if (!fresh && leat_aws_take_kept(of, &kept)) {
            move_keys(&kept, aws);
        } else {
            rc = begin(b, opts, aws, expired, err);
            if (rc == LEAT_OK)
                leat_aws_keep(of, aws);
        }
    }
    free(name);
    free(b);
    return rc;
}
