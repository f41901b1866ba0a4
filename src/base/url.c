#include "base/url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/parse.h"

#define KEY_MAX    1024 /* S3's limit */
#define BUCKET_MAX 255
#define URL_MAX    8192

static const struct {
    const char *name;
    enum leat_scheme scheme;
} schemes[] = {
    {"s3", LEAT_SCHEME_S3}, {"gs", LEAT_SCHEME_GS},     {"az", LEAT_SCHEME_AZ},     {"abfss", LEAT_SCHEME_AZ},
    {"hf", LEAT_SCHEME_HF}, {"file", LEAT_SCHEME_FILE}, {"http", LEAT_SCHEME_HTTP}, {"https", LEAT_SCHEME_HTTPS},
};

const char *leat_scheme_name(enum leat_scheme scheme)
{
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        if (schemes[i].scheme == scheme)
            return schemes[i].name;
    }
    return "?";
}

void leat_url_free(struct leat_url *url)
{
    if (!url)
        return;
    free(url->host);
    free(url->path);
    free(url->query);
    *url = (struct leat_url){0};
}

static bool find_scheme(const char *text, size_t n, enum leat_scheme *out)
{
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        if (strlen(schemes[i].name) == n && strncasecmp(schemes[i].name, text, n) == 0) {
            *out = schemes[i].scheme;
            return true;
        }
    }
    return false;
}

static bool all_in(const char *text, size_t n, const char *more)
{
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!plain && (!c || !strchr(more, c)))
            return false;
    }
    return true;
}

static leat_status set_parts(struct leat_url *url, enum leat_scheme scheme, const char *host, size_t host_n,
                             const char *path, size_t path_n, const char *query, struct leat_error *err)
{
    url->scheme = scheme;
    url->host = leat_bytes_text(host, host_n);
    url->path = leat_bytes_text(path, path_n);
    url->query = strdup(query);
    if (url->host && url->path && url->query)
        return LEAT_OK;
    leat_url_free(url);
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for a URL");
}

/* Up to the first '/'; an access point's ARN goes on to the end of its name. */
static size_t bucket_length(const char *rest)
{
    static const char *const resources[] = {":accesspoint/", ":outpost/"};
    size_t n = strcspn(rest, "/");
    for (size_t i = 0; strncmp(rest, "arn:", 4) == 0 && i < sizeof resources / sizeof *resources; i++) {
        size_t m = strlen(resources[i]) - 1; /* up to the '/' */
        if (rest[n] == '/' && n >= m && strncmp(rest + n - m, resources[i], m) == 0)
            return n + 1 + strcspn(rest + n + 1, "/");
    }
    return n;
}

static leat_status parse_bucket(const char *text, const char *rest, enum leat_scheme scheme, struct leat_url *url,
                                struct leat_error *err)
{
    size_t n = bucket_length(rest);
    if (n == 0)
        return leat_fail(err, LEAT_INVALID, "'%s' names no bucket; write %s://BUCKET/KEY", text,
                         leat_scheme_name(scheme));
    if (n > BUCKET_MAX || !all_in(rest, n, strncmp(rest, "arn:", 4) == 0 ? ".-_:/" : ".-_:"))
        return leat_fail(err, LEAT_INVALID, "'%.*s' is not a bucket name (letters, digits, '.', '-', '_')",
                         (int)(n > 80 ? 80 : n), rest);
    const char *key = rest[n] ? rest + n + 1 : rest + n;
    if (strlen(key) > KEY_MAX)
        return leat_fail(err, LEAT_INVALID, "the key '%.60s…' is longer than %d bytes", key, KEY_MAX);
    return set_parts(url, scheme, rest, n, key, strlen(key), "", err);
}

static leat_status check_key(const char *key, struct leat_error *err)
{
    if (strlen(key) > KEY_MAX)
        return leat_fail(err, LEAT_INVALID, "the key '%.60s…' is longer than %d bytes", key, KEY_MAX);
    return LEAT_OK;
}

/* "account/container/key" */
static leat_status parse_az(const char *text, const char *rest, struct leat_url *url, struct leat_error *err)
{
    size_t account = strcspn(rest, "/");
    size_t container = rest[account] ? strcspn(rest + account + 1, "/") : 0;
    size_t n = account + 1 + container;
    if (!account || !container || account > 63 || container > 63 || !all_in(rest, account, "-") ||
        !all_in(rest + account + 1, container, "-$"))
        return leat_fail(err, LEAT_INVALID, "'%.200s' names no container; write az://ACCOUNT/CONTAINER/KEY", text);
    const char *key = rest[n] ? rest + n + 1 : rest + n;
    leat_status rc = check_key(key, err);
    return rc == LEAT_OK ? set_parts(url, LEAT_SCHEME_AZ, rest, n, key, strlen(key), "", err) : rc;
}

/* "container@account.dfs.core.windows.net/key", which is the same place. */
static leat_status parse_abfss(const char *text, const char *rest, struct leat_url *url, struct leat_error *err)
{
    static const char own[] = ".dfs.core.windows.net";
    char host[160];
    size_t n = strcspn(rest, "/");
    size_t container = strcspn(rest, "@/");
    size_t account = container < n ? strcspn(rest + container + 1, "./") : 0;
    size_t end = container + 1 + account;
    if (!container || !account || container > 63 || account > 63 || !all_in(rest, container, "-$") ||
        !all_in(rest + container + 1, account, "-"))
        return leat_fail(err, LEAT_INVALID, "'%.200s' is not abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH",
                         text);
    if (n - end != sizeof own - 1 || strncasecmp(rest + end, own, sizeof own - 1) != 0)
        return leat_fail(err, LEAT_INVALID,
                         "'%.200s' is in another cloud than %s; write az://ACCOUNT/CONTAINER/KEY and name its endpoint",
                         text, own + 1);
    const char *key = rest[n] ? rest + n + 1 : rest + n;
    leat_status rc = check_key(key, err);
    if (rc != LEAT_OK)
        return rc;
    snprintf(host, sizeof host, "%.*s/%.*s", (int)account, rest + container + 1, (int)container, rest);
    return set_parts(url, LEAT_SCHEME_AZ, host, strlen(host), key, strlen(key), "", err);
}

/* How many bytes of "revision/path" are the revision: up to the slash, but for the Hub's own refs, which hold some. */
static size_t revision_length(const char *text)
{
    static const char *const refs[] = {"refs/pr/", "refs/convert/"};
    for (size_t i = 0; i < sizeof refs / sizeof *refs; i++) {
        size_t n = strlen(refs[i]);
        if (strncmp(text, refs[i], n) == 0)
            return n + strcspn(text + n, "/");
    }
    return strcspn(text, "/");
}

/* "datasets/owner/name@revision/path". In the host a slash of the revision is written %2F, as the Hub's own library
 * does, so that it can be told from the path's. */
static leat_status parse_hf(const char *text, const char *rest, struct leat_url *url, struct leat_error *err)
{
    static const char *const types[] = {"datasets", "models", "spaces"};
    char host[400];
    size_t type = strcspn(rest, "/");
    size_t owner = rest[type] ? strcspn(rest + type + 1, "/@") : 0;
    bool whole = owner && rest[type + 1 + owner] == '/';
    const char *name = whole ? rest + type + 1 + owner + 1 : "";
    size_t name_n = strcspn(name, "/@");
    bool known = false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        known |= strlen(types[i]) == type && strncmp(types[i], rest, type) == 0;
    if (!known || !name_n || owner > 96 || name_n > 96 || !all_in(rest + type + 1, owner, "-._") ||
        !all_in(name, name_n, "-._"))
        return leat_fail(err, LEAT_INVALID,
                         "'%.200s' names no repository; write hf://datasets/OWNER/NAME[@REVISION]/PATH", text);
    const char *revision = name + name_n;
    size_t n = *revision == '@' ? revision_length(++revision) : 0;
    if ((n == 0 && revision[-1] == '@') || n > 160)
        return leat_fail(err, LEAT_INVALID, "'%.200s' has no revision after '@', or one that is too long", text);
    size_t at = (size_t)snprintf(host, sizeof host, "%.*s%s", (int)(name + name_n - rest), rest, n ? "@" : "");
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)revision[i] <= ' ' || strchr("?#@", revision[i]))
            return leat_fail(err, LEAT_INVALID, "'%.200s': a revision cannot hold such a character", text);
        at += (size_t)snprintf(host + at, sizeof host - at, revision[i] == '/' ? "%%2F" : "%c", revision[i]);
        if (at >= sizeof host)
            return leat_fail(err, LEAT_INVALID, "'%.200s' is too long", text);
    }
    const char *key = revision + n + (revision[n] == '/');
    leat_status rc = check_key(key, err);
    return rc == LEAT_OK ? set_parts(url, LEAT_SCHEME_HF, host, at, key, strlen(key), "", err) : rc;
}

static leat_status parse_http(const char *text, const char *rest, enum leat_scheme scheme, struct leat_url *url,
                              struct leat_error *err)
{
    size_t n = strcspn(rest, "/?#");
    int shown = (int)strcspn(text, "?"); /* a query may be a signature: errors do not repeat it */
    char host[256];
    unsigned port;
    char name[256];
    if (memchr(rest, '@', n))
        return leat_fail(err, LEAT_INVALID,
                         "a URL may not contain a user name or password; use a header or a signed URL instead");
    if (n == 0 || n >= sizeof host)
        return leat_fail(err, LEAT_INVALID, "'%.*s' names no host", shown, text);
    memcpy(host, rest, n);
    host[n] = '\0';
    if (!leat_url_split_host(host, name, sizeof name, &port))
        return leat_fail(err, LEAT_INVALID, "'%s' is not a host with an optional port, in '%.*s'", host, shown, text);
    const char *path = rest + n;
    for (const char *p = path; *p; p++) {
        if ((unsigned char)*p <= ' ' || *p == 0x7f)
            return leat_fail(err, LEAT_INVALID, "'%.*s' has a space or control character; write it as %%%02X", shown,
                             text, (unsigned char)*p);
    }
    size_t path_n = strcspn(path, "?#");
    const char *query = path[path_n] == '?' ? path + path_n + 1 : "";
    char *fragment = strchr(query, '#');
    leat_status rc = path_n ? set_parts(url, scheme, host, n, path, path_n, query, err)
                            : set_parts(url, scheme, host, n, "/", 1, query, err);
    if (rc == LEAT_OK && fragment)
        url->query[fragment - query] = '\0';
    return rc;
}

static leat_status parse_file(const char *text, const char *rest, struct leat_url *url, struct leat_error *err)
{
    if (strncmp(rest, "localhost/", 10) == 0)
        rest += 9;
    if (*rest != '/')
        return leat_fail(err, LEAT_INVALID, "'%s' is not absolute; write file:///PATH or a plain path", text);
    return set_parts(url, LEAT_SCHEME_FILE, "", 0, rest, strlen(rest), "", err);
}

/* "s3:/bucket" is a slip of the hand, and taken for a path it would make folders of that name. */
static bool lacks_slashes(const char *text)
{
    enum leat_scheme scheme;
    size_t n = strcspn(text, ":/");
    return text[n] == ':' && find_scheme(text, n, &scheme);
}

leat_status leat_url_parse(const char *text, struct leat_url *out, struct leat_error *err)
{
    struct leat_url url = {0};
    enum leat_scheme scheme;
    if (!*text)
        return leat_fail(err, LEAT_INVALID, "an empty address; write s3://BUCKET/KEY, a path or an http:// URL");
    if (strlen(text) > URL_MAX)
        return leat_fail(err, LEAT_INVALID, "the address '%.60s…' is longer than %d bytes", text, URL_MAX);
    const char *sep = strstr(text, "://");
    size_t scheme_n = sep ? (size_t)(sep - text) : 0;
    bool plain = !sep || scheme_n == 0 || !all_in(text, scheme_n, "+.-");
    leat_status rc;
    if (plain && lacks_slashes(text)) {
        int n = (int)strcspn(text, ":");
        rc = leat_fail(err, LEAT_INVALID, "'%.*s:' without '//' after it; write %.*s://…, or ./%.*s:… for a path", n,
                       text, n, text, n, text);
    } else if (plain) {
        rc = set_parts(&url, LEAT_SCHEME_FILE, "", 0, text, strlen(text), "", err);
    } else if (!find_scheme(text, scheme_n, &scheme)) {
        rc = leat_fail(
            err, LEAT_INVALID,
            "'%.*s://' is not known here; use s3://, gs://, az://, abfss://, hf://, http://, https://, file:// "
            "or a plain path",
            (int)(scheme_n > 40 ? 40 : scheme_n), text);
    } else if (scheme == LEAT_SCHEME_S3 || scheme == LEAT_SCHEME_GS) {
        rc = parse_bucket(text, sep + 3, scheme, &url, err);
    } else if (scheme == LEAT_SCHEME_AZ) {
        rc = strncasecmp(text, "az", 2) == 0 ? parse_az(text, sep + 3, &url, err)
                                             : parse_abfss(text, sep + 3, &url, err);
    } else if (scheme == LEAT_SCHEME_HF) {
        rc = parse_hf(text, sep + 3, &url, err);
    } else if (scheme == LEAT_SCHEME_FILE) {
        rc = parse_file(text, sep + 3, &url, err);
    } else {
        rc = parse_http(text, sep + 3, scheme, &url, err);
    }
    if (rc == LEAT_OK)
        *out = url;
    return rc;
}

bool leat_url_split_host(const char *text, char *host, size_t host_size, unsigned *port)
{
    const char *end;
    size_t n;
    if (*text == '[') {
        end = strchr(text, ']');
        n = end ? (size_t)(end - text) + 1 : 0;
        if (!end || n == 2 || !all_in(text + 1, n - 2, ":.%"))
            return false;
        end++;
    } else {
        n = strcspn(text, ":");
        end = text + n;
        if (!all_in(text, n, ".-_"))
            return false;
    }
    if (n == 0 || n >= host_size)
        return false;
    uint64_t number = 0;
    if (*end == ':') {
        for (const char *p = end + 1; *p; p++) {
            if (*p < '0' || *p > '9')
                return false;
        }
        if (leat_parse_u64(end + 1, "port", &number, NULL) != LEAT_OK || number == 0 || number > 65535)
            return false;
    } else if (*end) {
        return false;
    }
    memcpy(host, text, n);
    host[n] = '\0';
    *port = (unsigned)number;
    return true;
}

bool leat_url_decode(struct leat_buf *out, const char *text, size_t n, bool plus)
{
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (c == '+' && plus) {
            c = ' ';
        } else if (c == '%') {
            char hex[3] = {i + 1 < n ? text[i + 1] : '\0', i + 2 < n ? text[i + 2] : '\0', '\0'};
            if (!leat_unhex(hex, &c, 1))
                return false;
            i += 2;
        }
        leat_buf_char(out, c);
    }
    return !out->failed;
}
