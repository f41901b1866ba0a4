#include "serve/target.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/url.h"

#define TARGET_MAX ((size_t)64 << 10)

const char *leat_serve_target_path(const char *target)
{
    size_t scheme = strncasecmp(target, "http://", 7) == 0 ? 7 : strncasecmp(target, "https://", 8) == 0 ? 8 : 0;
    if (!scheme)
        return target;
    const char *slash = strchr(target + scheme, '/');
    return slash ? slash : "/";
}

/* Decoded, NUL-terminated and owned by the caller; NULL when broken, too long or without memory. */
static char *decoded(const char *text, size_t n, bool plus, size_t *out_n)
{
    struct leat_buf out;
    leat_buf_init(&out, TARGET_MAX);
    if (!leat_url_decode(&out, text, n, plus)) {
        leat_buf_free(&out);
        return NULL;
    }
    *out_n = out.len;
    return leat_buf_take(&out);
}

/* The bucket in "BUCKET.domain:port" or "BUCKET.s3.domain", "" for the domain alone, NULL for any other host. */
static char *bucket_of_host(const char *host, const char *domain)
{
    size_t n = host ? strcspn(host, ":") : 0;
    size_t d = strlen(domain);
    if (!host || n < d || strncasecmp(host + n - d, domain, d) != 0)
        return NULL;
    n -= d;
    if (n >= 3 && strncasecmp(host + n - 3, "s3.", 3) == 0 && (n == 3 || host[n - 4] == '.'))
        n -= 3;
    if (n == 0)
        return strdup("");
    return host[n - 1] == '.' ? leat_bytes_text(host, n - 1) : NULL;
}

static bool parse_args(struct leat_serve_call *c, const char *query)
{
    for (const char *p = query; *p;) {
        size_t n = strcspn(p, "&");
        const char *equals = memchr(p, '=', n);
        size_t name_n = equals ? (size_t)(equals - p) : n;
        if (n) {
            struct leat_serve_arg *a = &c->arg[c->args];
            size_t ignored;
            if (c->args == LEAT_SERVE_ARGS_MAX)
                return false;
            a->name = decoded(p, name_n, true, &ignored);
            a->value = equals ? decoded(equals + 1, n - name_n - 1, true, &a->value_n) : strdup("");
            c->args++;
            if (!a->name || !a->value)
                return false;
        }
        p += n;
        p += *p == '&';
    }
    return true;
}

bool leat_serve_target_parse(struct leat_serve_call *c, const char *host, const char *path, const char *query,
                             enum leat_serve_code *why)
{
    const char *domain = c->serve->options.domain ? c->serve->options.domain : "localhost";
    *why = LEAT_SERVE_INVALID_URI;
    if (*path != '/' || !parse_args(c, query))
        return false;
    path++;
    size_t n;
    char *bucket = bucket_of_host(host, domain);
    if (bucket && !*bucket) {
        free(bucket);
        bucket = NULL;
    }
    if (!bucket) {
        size_t end = strcspn(path, "/");
        bucket = decoded(path, end, false, &n);
        path += end;
        path += *path == '/';
        if (!bucket || strlen(bucket) != n) {
            free(bucket);
            return false;
        }
    }
    c->bucket_name = bucket;
    c->key_data = decoded(path, strlen(path), false, &c->key.n);
    if (!c->key_data)
        return false;
    c->key.data = c->key_data;
    *why = LEAT_SERVE_KEY_TOO_LONG;
    return c->key.n <= LEAT_SERVE_KEY_MAX;
}

void leat_serve_target_free(struct leat_serve_call *c)
{
    free(c->bucket_name);
    free(c->key_data);
    for (size_t i = 0; i < c->args; i++) {
        free(c->arg[i].name);
        free(c->arg[i].value);
    }
    c->bucket_name = c->key_data = NULL;
    c->args = 0;
}
