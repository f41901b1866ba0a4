/* Azure's keys: a connection string, the account's key, a SAS, a program's secret, workload identity (a federated token
 * in a file), managed identity (App Service's endpoint or the machine's). The first that is configured counts, and must
 * work. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "store/aws_keys.h"
#include "store/az.h"
#include "store/keys.h"

#define RESOURCE     "https://storage.azure.com"
#define AUTHORITY    "https://login.microsoftonline.com"
#define IMDS         "http://169.254.169.254"
#define AZURE_ASSET  "7783-7084-3265-9085-8269-3286-77" /* what Azure's firmware has for a serial number */
#define METADATA_MAX LEAT_S

struct finding {
    const struct leat_store_opts *opts;
    struct leat_aws *aws;
    char account[64];
};

/* A value of "Name=value;Name=value"; false when it is not there or does not fit. */
static bool field(const char *text, const char *name, char *out, size_t size)
{
    size_t name_n = strlen(name);
    while (*text) {
        size_t n = strcspn(text, ";");
        if (n > name_n && text[name_n] == '=' && strncasecmp(text, name, name_n) == 0) {
            if (n - name_n - 1 >= size)
                return false;
            memcpy(out, text + name_n + 1, n - name_n - 1);
            out[n - name_n - 1] = '\0';
            return *out != '\0';
        }
        text += n;
        text += *text == ';';
    }
    return false;
}

/* Keys of one account are no use for another, and must not be sent there. */
static leat_status check_account(const struct finding *f, const char *said, const char *where, struct leat_error *err)
{
    if (!said || strcasecmp(said, f->account) == 0)
        return LEAT_OK;
    return leat_fail(err, LEAT_INVALID, "the address is of account '%s', and %s is of '%.63s'", f->account, where,
                     said);
}

static leat_status set_sas(const struct finding *f, const char *token, struct leat_error *err)
{
    token += *token == '?';
    if (!strstr(token, "sig="))
        return leat_fail(err, LEAT_INVALID, "the SAS from %s has no signature (sig=)", f->aws->keys_from);
    if (strpbrk(token, " #"))
        return leat_fail(err, LEAT_INVALID, "there is a space or '#' in the SAS from %s", f->aws->keys_from);
    return leat_keys_set(f->aws, LEAT_AZ_SAS, f->account, "", token, err);
}

static leat_status from_connection(struct finding *f, const char *text, struct leat_error *err)
{
    static const char where[] = "AZURE_STORAGE_CONNECTION_STRING";
    char account[64];
    char value[4096];
    struct leat_buf endpoint;
    bool named = field(text, "AccountName", account, sizeof account);
    snprintf(f->aws->keys_from, sizeof f->aws->keys_from, "%s", where);
    if (field(text, "UseDevelopmentStorage", value, sizeof value))
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "UseDevelopmentStorage is not supported: write out AccountName, AccountKey and BlobEndpoint");
    leat_status rc = check_account(f, named ? account : NULL, where, err);
    if (rc != LEAT_OK)
        return rc;
    leat_buf_init(&endpoint, 4096);
    if (field(text, "BlobEndpoint", value, sizeof value)) {
        leat_buf_str(&endpoint, value);
    } else if (field(text, "EndpointSuffix", value, sizeof value)) {
        char scheme[8];
        bool plain = field(text, "DefaultEndpointsProtocol", scheme, sizeof scheme) && strcmp(scheme, "http") == 0;
        leat_buf_printf(&endpoint, "%s://%s.blob.%s", plain ? "http" : "https", f->account, value);
    }
    rc = leat_buf_check(&endpoint, "the endpoint", err);
    if (rc == LEAT_OK && endpoint.len && !f->aws->endpoint_url) {
        f->aws->endpoint_url = leat_buf_take(&endpoint);
        snprintf(f->aws->endpoint_from, sizeof f->aws->endpoint_from, "%s", where);
        rc = f->aws->endpoint_url ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for settings");
    }
    leat_buf_free(&endpoint);
    if (rc != LEAT_OK)
        return rc;
    if (field(text, "AccountKey", value, sizeof value))
        rc = leat_keys_set(f->aws, LEAT_AZ_KEY, f->account, value, NULL, err);
    else if (field(text, "SharedAccessSignature", value, sizeof value))
        rc = set_sas(f, value, err);
    else
        rc = leat_fail(err, LEAT_INVALID, "%s has neither AccountKey nor SharedAccessSignature", where);
    explicit_bzero(value, sizeof value);
    return rc;
}

/* A token of Microsoft's login for a program, which shows its secret or somebody's word for it. */
static leat_status from_login(const struct finding *f, const char *tenant, const char *client, const char *secret,
                              const char *assertion, struct leat_error *err)
{
    const char *authority = leat_aws_variable("AZURE_AUTHORITY_HOST");
    struct leat_buf url;
    struct leat_buf form;
    leat_buf_init(&url, 2048);
    leat_buf_init(&form, 256u << 10);
    authority = authority ? authority : AUTHORITY;
    size_t n = strlen(authority);
    leat_buf_printf(&url, "%s%.*s/%s/oauth2/v2.0/token", strstr(authority, "://") ? "" : "https://",
                    (int)(n - (n && authority[n - 1] == '/')), authority, tenant);
    leat_keys_form(&form, "grant_type", "client_credentials");
    leat_keys_form(&form, "client_id", client);
    leat_keys_form(&form, "scope", RESOURCE "/.default");
    if (secret) {
        leat_keys_form(&form, "client_secret", secret);
    } else {
        leat_keys_form(&form, "client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
        leat_keys_form(&form, "client_assertion", assertion);
    }
    leat_status rc = leat_buf_check(&url, "an address", err);
    if (rc == LEAT_OK)
        rc = leat_buf_check(&form, "a request for a token", err);
    if (rc == LEAT_OK)
        rc = leat_keys_may_go_to(url.data, err);
    if (rc == LEAT_OK) {
        struct leat_ask ask = leat_keys_question(f->opts, "POST", url.data);
        ask.headers[0] = "Content-Type: application/x-www-form-urlencoded";
        ask.headers_n = 1;
        ask.body = form.data;
        rc = leat_keys_token(&ask, "Microsoft's login", LEAT_AZ_BEARER, client, f->aws, err);
    }
    leat_buf_free(&url);
    leat_keys_forget(&form);
    return rc;
}

static leat_status from_workload(const struct finding *f, const char *tenant, const char *client, const char *file,
                                 struct leat_error *err)
{
    struct leat_buf token;
    leat_status rc = leat_keys_read_file(file, "AZURE_FEDERATED_TOKEN_FILE", &token, err);
    if (rc != LEAT_OK)
        return rc;
    while (token.len && strchr(" \t\r\n", token.data[token.len - 1]))
        token.data[--token.len] = '\0';
    snprintf(f->aws->keys_from, sizeof f->aws->keys_from, "AZURE_FEDERATED_TOKEN_FILE");
    rc = token.len ? from_login(f, tenant, client, NULL, token.data, err)
                   : leat_fail(err, LEAT_INVALID, "'%s' (AZURE_FEDERATED_TOKEN_FILE) is empty", file);
    leat_keys_forget(&token);
    return rc;
}

/* App Service's endpoint, or the machine's own. */
static leat_status from_machine(const struct finding *f, const char *client, struct leat_error *err)
{
    const char *endpoint = leat_aws_variable("IDENTITY_ENDPOINT");
    const char *header = leat_aws_variable("IDENTITY_HEADER");
    const char *imds = leat_aws_variable("AZURE_POD_IDENTITY_AUTHORITY_HOST");
    bool app = endpoint && header;
    uint32_t attempts = app || imds ? 3 : leat_keys_attempts_here("/sys/class/dmi/id/chassis_asset_tag", AZURE_ASSET);
    struct leat_error why = {0};
    struct leat_buf url;
    struct leat_buf line;
    if (!attempts)
        return LEAT_OK;
    leat_buf_init(&url, 4096);
    leat_buf_init(&line, 8192);
    if (app) {
        leat_buf_printf(&url, "%s%sapi-version=2019-08-01", endpoint, strchr(endpoint, '?') ? "&" : "?");
        leat_buf_printf(&line, "X-IDENTITY-HEADER: %s", header);
    } else {
        size_t n = strlen(imds ? imds : IMDS);
        const char *host = imds ? imds : IMDS;
        leat_buf_printf(&url, "%.*s/metadata/identity/oauth2/token?api-version=2018-02-01",
                        (int)(n - (n && host[n - 1] == '/')), host);
        leat_buf_str(&line, "Metadata: true");
    }
    leat_keys_form(&url, "resource", RESOURCE "/");
    if (client)
        leat_keys_form(&url, "client_id", client);
    leat_status rc = leat_buf_check(&url, "an address", &why);
    if (rc == LEAT_OK)
        rc = leat_buf_check(&line, "a header", &why);
    if (rc == LEAT_OK) {
        struct leat_ask ask = leat_keys_question(f->opts, "GET", url.data);
        ask.headers[0] = line.data;
        ask.headers_n = 1;
        ask.direct = true;
        ask.timeout_ns = METADATA_MAX;
        ask.attempts = attempts;
        rc = leat_keys_token(&ask, "the machine's identity service", LEAT_AZ_BEARER,
                             client ? client : "the machine's identity", f->aws, &why);
    }
    if (rc == LEAT_OK)
        snprintf(f->aws->keys_from, sizeof f->aws->keys_from, "the machine's managed identity");
    leat_buf_free(&url);
    leat_keys_forget(&line);
    bool silent = rc == LEAT_NETWORK || rc == LEAT_TIMEOUT || attempts < 3;
    if (rc != LEAT_OK && !app && !imds && silent && rc != LEAT_NO_MEMORY && rc != LEAT_CANCELLED)
        return LEAT_OK; /* nobody has said that there is such a service */
    if (rc != LEAT_OK && err)
        *err = why;
    return rc;
}

leat_status leat_az_find_keys(const struct leat_url *url, const struct leat_store_opts *opts, struct leat_aws *aws,
                              struct leat_error *err)
{
    const char *connection = leat_aws_variable("AZURE_STORAGE_CONNECTION_STRING");
    const char *account = leat_aws_variable("AZURE_STORAGE_ACCOUNT");
    const char *key = leat_aws_variable("AZURE_STORAGE_KEY");
    const char *sas = leat_aws_variable("AZURE_STORAGE_SAS_TOKEN");
    const char *tenant = leat_aws_variable("AZURE_TENANT_ID");
    const char *client = leat_aws_variable("AZURE_CLIENT_ID");
    const char *secret = leat_aws_variable("AZURE_CLIENT_SECRET");
    const char *file = leat_aws_variable("AZURE_FEDERATED_TOKEN_FILE");
    struct finding f = {.opts = opts, .aws = aws};
    snprintf(f.account, sizeof f.account, "%.*s", (int)strcspn(url->host, "/"), url->host);
    if (connection)
        return from_connection(&f, connection, err);
    if (key || sas) {
        leat_status rc = check_account(&f, account, "AZURE_STORAGE_ACCOUNT", err);
        snprintf(aws->keys_from, sizeof aws->keys_from, "%s", key ? "AZURE_STORAGE_KEY" : "AZURE_STORAGE_SAS_TOKEN");
        if (rc != LEAT_OK)
            return rc;
        return key ? leat_keys_set(aws, LEAT_AZ_KEY, f.account, key, NULL, err) : set_sas(&f, sas, err);
    }
    if ((secret || file) && (!tenant || !client))
        return leat_fail(err, LEAT_INVALID, "%s is set, and %s is not",
                         secret ? "AZURE_CLIENT_SECRET" : "AZURE_FEDERATED_TOKEN_FILE",
                         tenant ? "AZURE_CLIENT_ID" : "AZURE_TENANT_ID");
    if (secret) {
        snprintf(aws->keys_from, sizeof aws->keys_from, "AZURE_CLIENT_SECRET");
        return from_login(&f, tenant, client, secret, NULL, err);
    }
    if (file)
        return from_workload(&f, tenant, client, file, err);
    return from_machine(&f, client, err);
}
