/* Google's keys, in the order of its own libraries: a pair for signing (GS_ACCESS_KEY_ID, as GDAL and DuckDB call it),
 * the file that GOOGLE_APPLICATION_CREDENTIALS names, the one that gcloud leaves, the metadata server. What is said and
 * does not work is an error: going on with another identity, or none, is not what was asked for. */
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "store/aws_keys.h"
#include "store/gs.h"
#include "store/keys.h"

#define SCOPE        "https://www.googleapis.com/auth/devstorage.read_write"
#define TOKEN_URL    "https://oauth2.googleapis.com/token"
#define LIFE_S       3600
#define METADATA     "metadata.google.internal"
#define FORM_TYPE    "Content-Type: application/x-www-form-urlencoded"
#define METADATA_MAX LEAT_S

struct finding {
    const struct leat_store_opts *opts;
    const char *file; /* the credentials', for messages */
    json_t *json;
    struct leat_aws *aws;
};

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text && *text ? text : NULL;
}

static leat_status lacks(const struct finding *f, const char *name, struct leat_error *err)
{
    return leat_fail(err, LEAT_INVALID, "'%s' has no %s", f->file, name);
}

/* Appends base64 of the URL-safe kind, without padding. */
static void add_base64(struct leat_buf *out, const void *data, size_t n)
{
    unsigned char text[8];
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i += 3) {
        size_t k = n - i < 3 ? n - i : 3;
        EVP_EncodeBlock(text, p + i, (int)k);
        for (size_t j = 0; j < k + 1; j++)
            leat_buf_char(out, (char)(text[j] == '+' ? '-' : text[j] == '/' ? '_' : text[j]));
    }
}

static void add_json(struct leat_buf *out, json_t *value)
{
    char *text = leat_json_write(value, JSON_COMPACT);
    if (text)
        add_base64(out, text, strlen(text));
    else
        out->failed = true;
    free(text);
    json_decref(value);
}

/* Appends ".SIGNATURE" by RS256. */
static bool sign_jwt(struct leat_buf *jwt, const char *pem)
{
    unsigned char signature[1024];
    size_t n = sizeof signature;
    char no_password[] = ""; /* else OpenSSL would ask for one */
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, no_password) : NULL;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool ok = key && ctx && EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA &&
              EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 &&
              EVP_DigestSign(ctx, signature, &n, (const unsigned char *)jwt->data, jwt->len) == 1;
    if (ok) {
        leat_buf_char(jwt, '.');
        add_base64(jwt, signature, n);
    }
    ERR_clear_error();
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(key);
    BIO_free(bio);
    return ok;
}

/* Sends a form to a token service and takes the token of its answer. Where the
 * form has the time in it, *offset_s is as in leat_ask_reclock(); else NULL. */
static leat_status post_form(const struct finding *f, const char *url, const struct leat_buf *form, const char *who,
                             const char *id, int64_t *offset_s, struct leat_error *err)
{
    leat_status rc = leat_buf_check(form, "a request for a token", err);
    if (rc == LEAT_OK)
        rc = leat_keys_may_go_to(url, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_ask ask = leat_keys_question(f->opts, "POST", url);
    ask.headers[0] = FORM_TYPE;
    ask.headers_n = 1;
    ask.body = form->data;
    rc = leat_keys_token(&ask, who, LEAT_GS_BEARER, id, f->aws, err);
    if (offset_s)
        leat_ask_reclock(&ask, offset_s);
    return rc;
}

/* Asks with an assertion, which is good for an hour from *offset_s after this machine's time. */
static leat_status assert_identity(const struct finding *f, int64_t *offset_s, struct leat_error *err)
{
    const char *email = text_of(f->json, "client_email");
    const char *key = text_of(f->json, "private_key");
    const char *key_id = text_of(f->json, "private_key_id");
    const char *url = text_of(f->json, "token_uri");
    if (!email || !key)
        return lacks(f, email ? "private_key" : "client_email", err);
    url = url ? url : TOKEN_URL;
    json_int_t now_s = (json_int_t)leat_wall_s() + *offset_s;
    struct leat_buf jwt;
    struct leat_buf form;
    leat_buf_init(&jwt, 16u << 10);
    leat_buf_init(&form, 32u << 10);
    json_t *head = json_pack("{s:s,s:s}", "alg", "RS256", "typ", "JWT");
    if (head && key_id)
        json_object_set_new(head, "kid", json_string(key_id));
    add_json(&jwt, head);
    leat_buf_char(&jwt, '.');
    add_json(&jwt, json_pack("{s:s,s:s,s:s,s:I,s:I}", "iss", email, "scope", SCOPE, "aud", url, "iat", now_s, "exp",
                             now_s + LIFE_S));
    leat_status rc = leat_buf_check(&jwt, "a request for a token", err);
    if (rc == LEAT_OK && !sign_jwt(&jwt, key))
        rc = leat_fail(err, LEAT_INVALID, "the private_key in '%s' is not an RSA key that can be read", f->file);
    if (rc == LEAT_OK)
        rc = leat_buf_check(&jwt, "a request for a token", err);
    if (rc == LEAT_OK) {
        leat_keys_form(&form, "grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer");
        leat_keys_form(&form, "assertion", jwt.data);
        rc = post_form(f, url, &form, "Google's token service", email, offset_s, err);
    }
    leat_keys_forget(&jwt);
    leat_keys_forget(&form);
    return rc;
}

static leat_status service_account(const struct finding *f, struct leat_error *err)
{
    int64_t offset_s = 0;
    leat_status rc = assert_identity(f, &offset_s, err);
    return rc != LEAT_OK && offset_s ? assert_identity(f, &offset_s, err) : rc;
}

static leat_status authorized_user(const struct finding *f, struct leat_error *err)
{
    static const char *const names[] = {"client_id", "client_secret", "refresh_token"};
    const char *url = text_of(f->json, "token_uri");
    struct leat_buf form;
    leat_status rc = LEAT_OK;
    leat_buf_init(&form, 32u << 10);
    leat_keys_form(&form, "grant_type", "refresh_token");
    for (size_t i = 0; rc == LEAT_OK && i < sizeof names / sizeof *names; i++) {
        const char *value = text_of(f->json, names[i]);
        if (value)
            leat_keys_form(&form, names[i], value);
        else
            rc = lacks(f, names[i], err);
    }
    if (rc == LEAT_OK)
        rc = post_form(f, url ? url : TOKEN_URL, &form, "Google's token service", "a user's login", NULL, err);
    if (rc == LEAT_DENIED)
        leat_fail_context(err, rc, "the login in '%s' (gcloud auth application-default login renews it)", f->file);
    leat_keys_forget(&form);
    return rc;
}

/* The subject's token in a file's or a service's text: all of it, or a field of JSON. */
static leat_status take_subject(const json_t *format, const char *text, size_t n, struct leat_buf *out,
                                struct leat_error *err)
{
    const char *type = text_of(format, "type");
    const char *field = text_of(format, "subject_token_field_name");
    if (!type || strcmp(type, "text") == 0) {
        while (n && strchr(" \t\r\n", text[n - 1]))
            n--;
        leat_buf_add(out, text, n);
    } else if (strcmp(type, "json") == 0 && field) {
        json_t *value = NULL;
        leat_status rc = leat_json_read(text, n, 0, &value, NULL);
        const char *token = text_of(value, field);
        if (rc == LEAT_OK && token)
            leat_buf_str(out, token);
        json_decref(value);
        if (rc == LEAT_NO_MEMORY)
            return leat_fail(err, rc, "no memory for a token");
    }
    if (!out->len && !out->failed)
        return leat_fail(err, LEAT_DENIED, "the source of the subject's token (credential_source) holds none");
    return leat_buf_check(out, "a token", err);
}

static leat_status subject_token(const struct finding *f, struct leat_buf *out, struct leat_error *err)
{
    json_t *source = json_object_get(f->json, "credential_source");
    const json_t *format = json_object_get(source, "format");
    const char *file = text_of(source, "file");
    const char *url = text_of(source, "url");
    leat_status rc;
    if (file) {
        struct leat_buf text;
        rc = leat_keys_read_file(file, "credential_source of external_account", &text, err);
        if (rc != LEAT_OK)
            return rc;
        rc = take_subject(format, text.data, text.len, out, err);
        leat_keys_forget(&text);
        return rc;
    }
    if (!url || json_object_get(source, "environment_id"))
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "'%s': of external_account only tokens from a file or a URL are supported (credential_source)",
                         f->file);
    struct leat_ask ask = leat_keys_question(f->opts, "GET", url);
    struct leat_buf lines[LEAT_ASK_HEADERS_MAX];
    size_t n = 0;
    const char *name;
    json_t *value;
    rc = LEAT_OK;
    json_object_foreach (json_object_get(source, "headers"), name, value) {
        if (n == LEAT_ASK_HEADERS_MAX || !json_is_string(value) || strpbrk(name, "\r\n") ||
            strpbrk(json_string_value(value), "\r\n")) {
            rc = leat_fail(err, LEAT_INVALID, "'%s': the headers of its credential_source cannot be sent", f->file);
            break;
        }
        leat_buf_init(&lines[n], 16u << 10);
        leat_buf_printf(&lines[n], "%s: %s", name, json_string_value(value));
        ask.headers[n] = lines[n].data;
        n++;
        if (rc == LEAT_OK)
            rc = leat_buf_check(&lines[n - 1], "a header", err);
    }
    ask.headers_n = n;
    if (rc == LEAT_OK)
        rc = leat_ask(&ask, err);
    if (rc == LEAT_OK && ask.code != 200)
        rc = leat_fail(err, LEAT_DENIED, "the source of the subject's token answers %u", ask.code);
    else if (rc == LEAT_OK)
        rc = take_subject(format, ask.text.data, ask.text.len, out, err);
    for (size_t i = 0; i < n; i++)
        leat_keys_forget(&lines[i]);
    leat_ask_free(&ask);
    return rc;
}

/* The federated token stands for a service account after another exchange. */
static leat_status impersonate(const struct finding *f, const char *url, struct leat_error *err)
{
    struct leat_aws federated = *f->aws;
    struct leat_buf header;
    leat_status rc = leat_keys_may_go_to(url, err);
    *f->aws = (struct leat_aws){0};
    leat_buf_init(&header, 32u << 10);
    leat_buf_printf(&header, "Authorization: Bearer %s", federated.session_token);
    if (rc == LEAT_OK)
        rc = leat_buf_check(&header, "a header", err);
    if (rc == LEAT_OK) {
        struct leat_ask ask = leat_keys_question(f->opts, "POST", url);
        ask.headers[0] = "Content-Type: application/json";
        ask.headers[1] = header.data;
        ask.headers_n = 2;
        ask.body = "{\"delegates\": null, \"scope\": [\"" SCOPE "\"], \"lifetime\": \"3600s\"}";
        rc = leat_keys_token(&ask, "Google's service for impersonation", LEAT_GS_BEARER, "an impersonated account",
                             f->aws, err);
    }
    leat_keys_forget(&header);
    f->aws->endpoint_url = federated.endpoint_url;
    memcpy(f->aws->endpoint_from, federated.endpoint_from, sizeof federated.endpoint_from);
    f->aws->since_s = federated.since_s;
    f->aws->addressing = federated.addressing;
    federated.endpoint_url = NULL;
    leat_aws_free(&federated);
    return rc;
}

static leat_status external_account(const struct finding *f, struct leat_error *err)
{
    static const char *const refused[] = {"client_id", "client_secret", "workforce_pool_user_project"};
    const char *audience = text_of(f->json, "audience");
    const char *type = text_of(f->json, "subject_token_type");
    const char *url = text_of(f->json, "token_url");
    const char *account = text_of(f->json, "service_account_impersonation_url");
    struct leat_buf subject;
    struct leat_buf form;
    if (!audience || !type || !url)
        return lacks(f, !audience ? "audience" : !type ? "subject_token_type" : "token_url", err);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (text_of(f->json, refused[i]))
            return leat_fail(err, LEAT_UNSUPPORTED, "'%s': %s of external_account is not supported", f->file,
                             refused[i]);
    }
    leat_buf_init(&subject, 64u << 10);
    leat_buf_init(&form, 256u << 10);
    leat_status rc = subject_token(f, &subject, err);
    if (rc == LEAT_OK) {
        leat_keys_form(&form, "grant_type", "urn:ietf:params:oauth:grant-type:token-exchange");
        leat_keys_form(&form, "audience", audience);
        leat_keys_form(&form, "scope", account ? "https://www.googleapis.com/auth/iam" : SCOPE);
        leat_keys_form(&form, "requested_token_type", "urn:ietf:params:oauth:token-type:access_token");
        leat_keys_form(&form, "subject_token", subject.data);
        leat_keys_form(&form, "subject_token_type", type);
        rc = post_form(f, url, &form, "Google's exchange of tokens", "workload identity", NULL, err);
    }
    leat_keys_forget(&subject);
    leat_keys_forget(&form);
    return rc == LEAT_OK && account ? impersonate(f, account, err) : rc;
}

static leat_status from_file(struct finding *f, const char *path, const char *said, struct leat_error *err)
{
    struct leat_buf text;
    json_t *json = NULL;
    f->file = path;
    leat_status rc = leat_keys_read_file(path, said, &text, err);
    if (rc != LEAT_OK)
        return rc;
    rc = leat_json_read(text.data ? text.data : "", text.len, 0, &json, NULL);
    leat_keys_forget(&text);
    if (rc == LEAT_NO_MEMORY)
        return leat_fail(err, rc, "no memory for keys");
    f->json = json;
    const char *type = text_of(json, "type");
    if (rc != LEAT_OK || !type)
        rc = leat_fail(err, LEAT_INVALID, "'%s' (%s) holds no credentials of Google's", path, said);
    else if (strcmp(type, "service_account") == 0)
        rc = service_account(f, err);
    else if (strcmp(type, "authorized_user") == 0)
        rc = authorized_user(f, err);
    else if (strcmp(type, "external_account") == 0)
        rc = external_account(f, err);
    else
        rc = leat_fail(err, LEAT_UNSUPPORTED, "'%s' holds credentials of the type '%.60s', which is not supported",
                       path, type);
    if (rc == LEAT_OK)
        snprintf(f->aws->keys_from, sizeof f->aws->keys_from, "%.40s (%.30s)", said, type);
    json_decref(json);
    return rc;
}

static leat_status from_metadata(struct finding *f, struct leat_error *err)
{
    const char *host = leat_aws_variable("GCE_METADATA_HOST");
    const char *off = leat_aws_variable("NO_GCE_CHECK");
    uint32_t attempts = host ? 3 : leat_keys_attempts_here("/sys/class/dmi/id/product_name", "Google");
    char url[400];
    struct leat_error why = {0};
    if (!attempts || (off && strcasecmp(off, "true") == 0))
        return LEAT_OK;
    if (snprintf(url, sizeof url, "http://%s/computeMetadata/v1/instance/service-accounts/default/token",
                 host ? host : METADATA) >= (int)sizeof url)
        return leat_fail(err, LEAT_INVALID, "GCE_METADATA_HOST is too long");
    struct leat_ask ask = leat_keys_question(f->opts, "GET", url);
    ask.headers[0] = "Metadata-Flavor: Google";
    ask.headers_n = 1;
    ask.direct = true;
    ask.timeout_ns = METADATA_MAX;
    ask.attempts = attempts;
    leat_status rc =
        leat_keys_token(&ask, "the metadata server", LEAT_GS_BEARER, "the machine's service account", f->aws, &why);
    if (rc == LEAT_OK)
        snprintf(f->aws->keys_from, sizeof f->aws->keys_from, "Google's metadata server");
    /* Nobody has said that there is such a server: that none answers is no error. */
    bool silent = rc == LEAT_NETWORK || rc == LEAT_TIMEOUT || attempts < 3;
    if (rc != LEAT_OK && !host && silent && rc != LEAT_NO_MEMORY && rc != LEAT_CANCELLED)
        return LEAT_OK;
    if (rc != LEAT_OK && err)
        *err = why;
    return rc;
}

leat_status leat_gs_find_keys(const struct leat_url *url, const struct leat_store_opts *opts, struct leat_aws *aws,
                              struct leat_error *err)
{
    struct finding f = {.opts = opts, .aws = aws};
    const char *id = leat_aws_variable("GS_ACCESS_KEY_ID");
    const char *secret = leat_aws_variable("GS_SECRET_ACCESS_KEY");
    const char *file = leat_aws_variable("GOOGLE_APPLICATION_CREDENTIALS");
    const char *config = leat_aws_variable("CLOUDSDK_CONFIG");
    const char *home = leat_aws_variable("HOME");
    char path[4096];
    (void)url;
    if (!id != !secret)
        return leat_fail(err, LEAT_INVALID, "only one of GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY is set");
    if (id) {
        snprintf(aws->keys_from, sizeof aws->keys_from, "GS_ACCESS_KEY_ID");
        return leat_keys_set(aws, LEAT_GS_HMAC, id, secret, NULL, err);
    }
    if (file)
        return from_file(&f, file, "GOOGLE_APPLICATION_CREDENTIALS", err);
    int n = config ? snprintf(path, sizeof path, "%s/application_default_credentials.json", config)
                   : snprintf(path, sizeof path, "%s/.config/gcloud/application_default_credentials.json",
                              home ? home : "");
    if (n > 0 && n < (int)sizeof path && (config || home) && access(path, F_OK) == 0)
        return from_file(&f, path, "gcloud's login", err);
    return from_metadata(&f, err);
}
