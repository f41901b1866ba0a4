#include "store/extras.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "base/parse.h"

#define KEY_BYTES 32
#define KEY_TEXT  44 /* in base64 */

static void add(struct leat_buf *out, char scope, const char *name, const char *value)
{
    leat_buf_printf(out, "%c %s: %s\n", scope, name, value);
}

/* The key as 32 bytes. Nothing of it is in an error. */
static leat_status decode_key(const char *text, size_t n, const char *from, uint8_t key[KEY_BYTES],
                              struct leat_error *err)
{
    unsigned char decoded[KEY_TEXT];
    if (n == KEY_BYTES) {
        memcpy(key, text, KEY_BYTES);
        return LEAT_OK;
    }
    while (n && (text[n - 1] == '\n' || text[n - 1] == '\r' || text[n - 1] == ' '))
        n--;
    bool good = n == KEY_TEXT && text[KEY_TEXT - 1] == '=' && text[KEY_TEXT - 2] != '=' &&
                EVP_DecodeBlock(decoded, (const unsigned char *)text, (int)n) == KEY_BYTES + 1;
    if (good)
        memcpy(key, decoded, KEY_BYTES);
    explicit_bzero(decoded, sizeof decoded);
    return good ? LEAT_OK
                : leat_fail(err, LEAT_INVALID, "%s holds no key for SSE-C: 32 bytes, or their base64, are one", from);
}

static leat_status read_key(const char *file, bool alone, uint8_t key[KEY_BYTES], bool *found, struct leat_error *err)
{
    const char *variable = alone ? NULL : getenv("LEAT_SSE_C_KEY");
    char text[256];
    *found = true;
    if (!file && variable && *variable)
        return decode_key(variable, strlen(variable), "LEAT_SSE_C_KEY", key, err);
    *found = file != NULL;
    if (!file)
        return LEAT_OK;
    FILE *f = fopen(file, "re");
    if (!f)
        return leat_fail_errno(err, errno, "cannot read the key for SSE-C from '%s'", file);
    size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    leat_status rc = decode_key(text, n, file, key, err);
    explicit_bzero(text, sizeof text);
    return rc;
}

static void add_key(struct leat_buf *out, const uint8_t key[KEY_BYTES])
{
    uint8_t digest[LEAT_MD5_SIZE];
    char text[KEY_TEXT + 1];
    char md5[25];
    leat_md5(key, KEY_BYTES, digest);
    EVP_EncodeBlock((unsigned char *)text, key, KEY_BYTES);
    EVP_EncodeBlock((unsigned char *)md5, digest, sizeof digest);
    add(out, LEAT_EXTRA_KEY, "x-amz-server-side-encryption-customer-algorithm", "AES256");
    add(out, LEAT_EXTRA_KEY, "x-amz-server-side-encryption-customer-key", text);
    add(out, LEAT_EXTRA_KEY, "x-amz-server-side-encryption-customer-key-md5", md5);
    add(out, LEAT_EXTRA_SOURCE, "x-amz-copy-source-server-side-encryption-customer-algorithm", "AES256");
    add(out, LEAT_EXTRA_SOURCE, "x-amz-copy-source-server-side-encryption-customer-key", text);
    add(out, LEAT_EXTRA_SOURCE, "x-amz-copy-source-server-side-encryption-customer-key-md5", md5);
    explicit_bzero(text, sizeof text);
}

/* Headers that the store makes itself, and that would break a request or its signature. */
static bool is_ours(const char *name, size_t n)
{
    static const char *const ours[] = {
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "content-md5",
        "content-type",
        "expect",
        "host",
        "if-match",
        "if-none-match",
        "proxy-authorization",
        "range",
        "te",
        "transfer-encoding",
        "upgrade",
        "x-amz-content-sha256",
        "x-amz-copy-source",
        "x-amz-date",
        "x-amz-security-token",
        "x-amz-s3session-token",
    };
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        if (strlen(ours[i]) == n && strncasecmp(ours[i], name, n) == 0)
            return true;
    }
    return false;
}

static leat_status add_line(const char *line, struct leat_buf *out, struct leat_error *err)
{
    size_t n = strcspn(line, ":");
    const char *value = line + n + (line[n] == ':');
    bool good = n && line[n] == ':';
    for (size_t i = 0; i < n; i++)
        good = good && (unsigned char)line[i] > ' ' && (unsigned char)line[i] < 0x7f && line[i] != ';';
    value += strspn(value, " \t");
    for (const char *p = value; *p; p++)
        good = good && ((unsigned char)*p >= ' ' || *p == '\t') && *p != 0x7f;
    if (!good) /* the value may be a secret */
        return leat_fail(err, LEAT_INVALID, "a header must be written as NAME: VALUE, in one line");
    if (is_ours(line, n))
        return leat_fail(err, LEAT_INVALID, "the header %.*s cannot be set: Leat makes it", (int)n, line);
    leat_buf_printf(out, "%c %.*s: %s\n", LEAT_EXTRA_ALWAYS, (int)n, line, value);
    return LEAT_OK;
}

static const char *variable(const char *said, const char *name)
{
    const char *set = said ? NULL : getenv(name);
    return set && *set ? set : said;
}

/* With what the environment says of the rest. */
static leat_status complete(struct leat_extras *e, const char **line, struct leat_error *err)
{
    const char *pays = e->alone ? NULL : variable(NULL, "LEAT_REQUESTER_PAYS");
    *line = NULL;
    if (e->alone)
        return LEAT_OK;
    e->sse = variable(e->sse, "LEAT_SSE");
    e->sse_kms_key = variable(e->sse_kms_key, "LEAT_SSE_KMS_KEY");
    e->sse_c_file = variable(e->sse_c_file, "LEAT_SSE_C_KEY_FILE");
    *line = e->lines_n ? NULL : variable(NULL, "LEAT_HEADER");
    if (*line) {
        e->lines = line;
        e->lines_n = 1;
    }
    return pays && !e->requester_pays ? leat_parse_flag(pays, "LEAT_REQUESTER_PAYS", &e->requester_pays, err) : LEAT_OK;
}

leat_status leat_extras_make(const struct leat_extras *extras, struct leat_buf *out, struct leat_error *err)
{
    struct leat_extras given = *extras;
    struct leat_extras *e = &given;
    const char *line;
    uint8_t key[KEY_BYTES];
    bool found = false;
    leat_status rc = complete(e, &line, err);
    if (rc == LEAT_OK)
        rc = read_key(e->sse_c_file, e->alone, key, &found, err);
    if (rc != LEAT_OK)
        return rc;
    if (e->sse && strcmp(e->sse, "AES256") != 0 && strcmp(e->sse, "aws:kms") != 0 &&
        strcmp(e->sse, "aws:kms:dsse") != 0)
        rc = leat_fail(err, LEAT_INVALID, "--sse: '%.60s' is not AES256, aws:kms or aws:kms:dsse", e->sse);
    else if (e->sse_kms_key && (!e->sse || strncmp(e->sse, "aws:kms", 7) != 0))
        rc = leat_fail(err, LEAT_INVALID, "--sse-kms-key is for --sse aws:kms or aws:kms:dsse");
    else if (e->sse && found)
        rc = leat_fail(err, LEAT_INVALID, "--sse and a key for SSE-C exclude each other");
    else if (e->lines_n > LEAT_EXTRAS_LINES - 8)
        rc = leat_fail(err, LEAT_LIMIT, "more than %u headers", LEAT_EXTRAS_LINES - 8);
    if (rc == LEAT_OK && e->requester_pays)
        add(out, LEAT_EXTRA_ALWAYS, "x-amz-request-payer", "requester");
    if (rc == LEAT_OK && e->sse)
        add(out, LEAT_EXTRA_WRITE, "x-amz-server-side-encryption", e->sse);
    if (rc == LEAT_OK && e->sse_kms_key && strpbrk(e->sse_kms_key, "\r\n"))
        rc = leat_fail(err, LEAT_INVALID, "--sse-kms-key: there is a line break in it");
    else if (rc == LEAT_OK && e->sse_kms_key)
        add(out, LEAT_EXTRA_WRITE, "x-amz-server-side-encryption-aws-kms-key-id", e->sse_kms_key);
    if (rc == LEAT_OK && found)
        add_key(out, key);
    explicit_bzero(key, sizeof key);
    for (size_t i = 0; rc == LEAT_OK && i < e->lines_n; i++)
        rc = add_line(e->lines[i], out, err);
    return rc == LEAT_OK ? leat_buf_check(out, "the headers that were asked for", err) : rc;
}

void leat_extras_free(struct leat_buf *text)
{
    if (text->data)
        explicit_bzero(text->data, text->len);
    leat_buf_free(text);
}

leat_status leat_extras_text(const struct leat_extras *extras, char **out, struct leat_error *err)
{
    struct leat_buf text;
    leat_buf_init(&text, LEAT_EXTRAS_MAX);
    leat_status rc = leat_extras_make(extras, &text, err);
    bool some = rc == LEAT_OK && text.len;
    char *taken = some ? leat_buf_take(&text) : NULL;
    leat_extras_free(&text);
    if (some && !taken)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for headers");
    if (rc == LEAT_OK)
        *out = taken;
    return rc;
}
