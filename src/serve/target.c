#include "serve/target.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/url.h"
#include "serve/dialect.h"

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

/* The path's next component, decoded and owned by the caller; NULL: broken. */
static char *component(const char **path)
{
    size_t end = strcspn(*path, "/");
    size_t n;
    char *text = decoded(*path, end, false, &n);
    *path += end;
    *path += **path == '/';
    if (text && strlen(text) != n) {
        free(text);
        return NULL;
    }
    return text;
}

bool leat_serve_target_parse(struct leat_serve_call *c, const char *path, const char *query, enum leat_serve_code *why)
{
    *why = LEAT_SERVE_INVALID_URI;
    if (*path != '/' || !parse_args(c, query))
        return false;
    path++;
    bool has_account = c->serve->dialect->has_account;
    c->account = has_account ? component(&path) : NULL;
    c->bucket_name = component(&path);
    if (!c->bucket_name || (has_account && !c->account))
        return false;
    c->key_data = decoded(path, strlen(path), false, &c->key.n);
    if (!c->key_data)
        return false;
    c->key.data = c->key_data;
    *why = LEAT_SERVE_KEY_TOO_LONG;
    return c->key.n <= LEAT_SERVE_KEY_MAX;
}

void leat_serve_target_free(struct leat_serve_call *c)
{
    free(c->account);
    free(c->bucket_name);
    free(c->key_data);
    for (size_t i = 0; i < c->args; i++) {
        free(c->arg[i].name);
        free(c->arg[i].value);
    }
    c->account = c->bucket_name = c->key_data = NULL;
    c->args = 0;
}
