/* What is refused before anything is looked at: requests that a web page makes without its user's knowledge, and those
 * that ask for what this server does not do. A feature that is ignored would be a promise that is not kept. */
#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "serve/dialect.h"
#include "serve/ops.h"

/* Headers that S3 acts on and this does not: by their beginning, and the values that ask for nothing. */
static const struct {
    const char *begin;
    const char *harmless[2];
} refused[] = {
    {"x-amz-server-side-encryption", {NULL}},
    {"x-amz-copy-source-server-side-encryption", {NULL}},
    {"x-amz-copy-source-if-none-match", {NULL}},
    {"x-amz-copy-source-if-modified-since", {NULL}},
    {"x-amz-copy-source-if-unmodified-since", {NULL}},
    {"x-amz-trailer", {NULL}},
    {"x-amz-decoded-content-length", {NULL}},
    {"x-amz-write-offset-bytes", {NULL}},
    {"x-amz-rename-source", {NULL}},
    {"x-amz-object-lock-", {NULL}},
    {"x-amz-bypass-governance-retention", {"false", NULL}},
    {"x-amz-mfa", {NULL}},
    {"x-amz-website-redirect-location", {NULL}},
    {"x-amz-tagging", {"", "COPY"}}, /* of tagging-directive: what there is, which is nothing */
    {"x-amz-grant-", {NULL}},
    {"x-amz-acl", {"private", "bucket-owner-full-control"}},
    {"x-amz-if-match-", {NULL}},
    {"x-amz-expected-bucket-owner", {NULL}},
    {"x-amz-source-expected-bucket-owner", {NULL}},
    {"x-amz-create-session-mode", {NULL}},
};

/* Conditions by date, on other versions than the one there, and on the range alone. */
static const char *const conditions[] = {"if-modified-since", "if-unmodified-since", "if-range"};

struct look {
    const struct leat_serve_dialect *dialect;
    const char *found;
    bool deletes;
};

/* Of a protocol that lists what is understood of its own. */
static bool is_known(const struct leat_serve_dialect *d, const char *name)
{
    if (!d->headers || strncasecmp(name, d->prefix, strlen(d->prefix)) != 0 ||
        strncasecmp(name, d->meta, strlen(d->meta)) == 0)
        return true;
    for (size_t i = 0; d->headers[i]; i++) {
        if (strcasecmp(name, d->headers[i]) == 0)
            return true;
    }
    return false;
}

static void look_at(const char *name, const char *value, void *user)
{
    struct look *l = user;
    if (!is_known(l->dialect, name) ||
        (l->deletes && (strcasecmp(name, "if-match") == 0 || strcasecmp(name, "if-none-match") == 0)))
        l->found = name;
    for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++) {
        if (strcasecmp(name, conditions[i]) == 0)
            l->found = name;
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (strncasecmp(name, refused[i].begin, strlen(refused[i].begin)) != 0)
            continue;
        bool harmless = false;
        for (size_t k = 0; k < 2; k++)
            harmless |= refused[i].harmless[k] && strcmp(value, refused[i].harmless[k]) == 0;
        if (!harmless)
            l->found = name;
    }
}

bool leat_serve_guard_features(struct leat_serve_call *c)
{
    const char *method = leat_request_method(c->x);
    struct look l = {.dialect = c->serve->dialect};
    l.deletes = l.dialect == &leat_serve_s3 && strcmp(method, "DELETE") == 0;
    leat_request_headers(c->x, look_at, &l);
    bool reads = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    if (!l.found && reads && leat_serve_arg(c, "partNumber"))
        l.found = "partNumber";
    if (!l.found)
        return true;
    leat_serve_failf(c, LEAT_SERVE_NOT_IMPLEMENTED, "%s is not implemented here.", l.found);
    return false;
}

/* The name in "name:port" or "[address]:port". */
static size_t host_name(const char *host, char *out, size_t size)
{
    bool v6 = *host == '[';
    const char *from = host + v6;
    size_t n = strcspn(from, v6 ? "]" : ":");
    if (n >= size)
        n = 0;
    memcpy(out, from, n);
    out[n] = '\0';
    return n;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text);
    size_t end_n = strlen(end);
    return n >= end_n && strcasecmp(text + n - end_n, end) == 0 && (n == end_n || text[n - end_n - 1] == '.');
}

/* An address in digits or localhost: names that nobody else can point here (DNS rebinding). */
static bool own_host(const char *host)
{
    char name[256];
    struct in6_addr address;
    if (!host || !host_name(host, name, sizeof name))
        return false;
    return inet_pton(AF_INET, name, &address) == 1 || inet_pton(AF_INET6, name, &address) == 1 ||
           ends_with(name, "localhost");
}

static bool bound_here(const char *address)
{
    return !address || strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

bool leat_serve_guard_origin(struct leat_serve_call *c, bool control)
{
    const struct leat_serve_options *o = &c->serve->options;
    const char *host = leat_request_header(c->x, "Host");
    const char *origin = leat_request_header(c->x, "Origin");
    const char *site = leat_request_header(c->x, "Sec-Fetch-Site");
    if (o->access_key && !control)
        return true; /* a page has no keys to sign with */
    const char *after = origin ? strstr(origin, "://") : NULL;
    bool foreign = (origin && (!after || !host || strcasecmp(after + 3, host) != 0)) ||
                   (site && strcasecmp(site, "same-origin") != 0 && strcasecmp(site, "none") != 0);
    if (foreign) {
        leat_serve_failf(c, LEAT_SERVE_ACCESS_DENIED, "Web pages of other origins may not use this server.");
        return false;
    }
    /* Beyond this machine it has names that it does not know, and --anonymous has let everybody in. */
    if (bound_here(o->bind) && !own_host(host)) {
        leat_serve_failf(c, LEAT_SERVE_ACCESS_DENIED,
                         "This server does not go by that name: use its address or localhost.");
        return false;
    }
    return true;
}
