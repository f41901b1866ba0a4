#include "store/apart.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/guess.h"
#include "base/ini.h"
#include "base/parse.h"

#define HEADERS_MAX 8u

enum setting {
    ENDPOINT_URL,
    REGION,
    PROFILE,
    NO_SIGN_REQUEST,
    ADDRESSING,
    CA_BUNDLE,
    REQUESTER_PAYS,
    SSE,
    SSE_KMS_KEY,
    SSE_C_KEY_FILE,
    HEADER,
    SETTINGS
};

static const struct {
    const char *name; /* as the option's */
    bool s3;          /* S3's only */
    bool headers;     /* headers, encryption, who pays: they count together, see leat_apart_opts() */
} settings[SETTINGS] = {
    [ENDPOINT_URL] = {"endpoint-url", false, false},
    [REGION] = {"region", true, false},
    [PROFILE] = {"profile", true, false},
    [NO_SIGN_REQUEST] = {"no-sign-request", false, false},
    [ADDRESSING] = {"addressing", true, false},
    [CA_BUNDLE] = {"ca-bundle", false, false},
    [REQUESTER_PAYS] = {"requester-pays", true, true},
    [SSE] = {"sse", true, true},
    [SSE_KMS_KEY] = {"sse-kms-key", true, true},
    [SSE_C_KEY_FILE] = {"sse-c-key-file", true, true},
    [HEADER] = {"header", true, true},
};

struct section {
    char name[LEAT_ACCESS_PLACE]; /* "s3://bucket" */
    enum leat_scheme scheme;
    unsigned line;
    char *values[SETTINGS]; /* NULL: not said; of headers, the last */
    char *headers[HEADERS_MAX];
    size_t headers_n;
    bool anonymous;
    bool pays;
    bool speaks_of_headers;
    enum leat_store_addressing addressing;
};

struct leat_apart {
    char path[4096];
    size_t n;
    struct section *sections;
};

void leat_apart_free(struct leat_apart *apart)
{
    for (size_t i = 0; apart && i < apart->n; i++) {
        struct section *s = &apart->sections[i];
        for (size_t k = 0; k < SETTINGS; k++)
            free(s->values[k]);
        for (size_t k = 0; k < s->headers_n; k++)
            free(s->headers[k]);
    }
    if (apart)
        free(apart->sections);
    free(apart);
}

size_t leat_apart_count(const struct leat_apart *apart)
{
    return apart->n;
}

const char *leat_apart_name(const struct leat_apart *apart, size_t i)
{
    return apart->sections[i].name;
}

size_t leat_apart_fits(const char *name, const struct leat_url *url)
{
    const char *scheme = leat_scheme_name(url->scheme);
    size_t n = strlen(scheme);
    if (strncmp(name, scheme, n) != 0 || strncmp(name + n, "://", 3) != 0 || !name[n + 3])
        return 0;
    const char *host = name + n + 3;
    size_t host_n = strlen(host);
    if (strncmp(url->host, host, host_n) != 0)
        return 0;
    char after = url->host[host_n];
    return after == '\0' || after == '/' || after == '@' ? strlen(name) : 0;
}

static const struct section *find(const struct leat_apart *apart, const struct leat_url *url)
{
    const struct section *best = NULL;
    size_t longest = 0;
    for (size_t i = 0; i < apart->n; i++) {
        size_t n = leat_apart_fits(apart->sections[i].name, url);
        if (n > longest)
            best = &apart->sections[i];
        longest = n > longest ? n : longest;
    }
    return best;
}

bool leat_apart_has(const struct leat_apart *apart, const struct leat_url *url)
{
    return find(apart, url) != NULL;
}

/* Reading */

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for the settings of stores");
}

/* "s3://bucket" of [store s3://bucket], in its one form. An account of Azure may stand without a container. */
static leat_status take_name(const struct leat_apart *a, const char *said, unsigned line, struct section *out,
                             struct leat_error *err)
{
    struct leat_url url = {0};
    char text[300];
    size_t n = strlen(said);
    bool quoted = n >= 2 && said[0] == '"' && said[n - 1] == '"';
    snprintf(text, sizeof text, "%.*s", (int)(quoted ? n - 2 : n), said + quoted);
    bool account = strncmp(text, "az://", 5) == 0 && text[5] && !strchr(text + 5, '/');
    if (account)
        strncat(text, "/x", sizeof text - strlen(text) - 1);
    leat_status rc = strstr(text, "://") ? leat_url_parse(text, &url, err) : LEAT_INVALID;
    bool bucket = rc == LEAT_OK && leat_store_url_can(&url, LEAT_STORE_BUCKET) && !*url.path;
    if (rc == LEAT_OK && bucket) {
        out->scheme = url.scheme;
        size_t host_n = account ? strlen(url.host) - 2 : strlen(url.host);
        int made =
            snprintf(out->name, sizeof out->name, "%s://%.*s", leat_scheme_name(url.scheme), (int)host_n, url.host);
        bucket = made > 0 && (size_t)made < sizeof out->name;
    }
    leat_url_free(&url);
    if (rc == LEAT_NO_MEMORY)
        return rc;
    if (!bucket)
        return leat_fail(err, LEAT_INVALID,
                         "%.150s line %u: '%.80s' is not the address of a bucket: write [store s3://BUCKET], gs://, "
                         "az:// or hf://",
                         a->path, line, said);
    return LEAT_OK;
}

static leat_status begin_section(struct leat_apart *a, const char *header, unsigned line, struct leat_error *err)
{
    struct section s = {.line = line};
    leat_status rc = take_name(a, header + strspn(header, " \t"), line, &s, err);
    if (rc != LEAT_OK)
        return rc;
    for (size_t i = 0; i < a->n; i++) {
        if (strcmp(a->sections[i].name, s.name) == 0)
            return leat_fail(err, LEAT_INVALID, "%.150s line %u: a second section for %.200s", a->path, line, s.name);
    }
    if (a->n == LEAT_APART_MAX)
        return leat_fail(err, LEAT_LIMIT, "%.150s has more than %u sections for stores", a->path, LEAT_APART_MAX);
    struct section *more = realloc(a->sections, (a->n + 1) * sizeof *more);
    if (!more)
        return no_memory(err);
    a->sections = more;
    a->sections[a->n++] = s;
    return LEAT_OK;
}

static leat_status unknown(const struct leat_apart *a, const char *key, unsigned line, struct leat_error *err)
{
    char meant[LEAT_GUESS_TEXT];
    struct leat_guess guess = leat_guess_of(key);
    for (size_t i = 0; i < SETTINGS; i++)
        leat_guess_try(&guess, settings[i].name);
    return leat_fail(err, LEAT_INVALID, "%.150s line %u: %.80s is not a setting of a store%s", a->path, line, key,
                     leat_guess_text(&guess, meant));
}

static leat_status take_choice(struct section *s, enum setting which, const char *value, const char *what,
                               struct leat_error *err)
{
    static const char *const styles[] = {"auto", "path", "virtual"};
    if (which == NO_SIGN_REQUEST)
        return leat_parse_flag(value, what, &s->anonymous, err);
    if (which == REQUESTER_PAYS)
        return leat_parse_flag(value, what, &s->pays, err);
    if (which != ADDRESSING)
        return LEAT_OK;
    unsigned i = 0;
    while (i < 3 && strcmp(value, styles[i]) != 0)
        i++;
    if (i == 3)
        return leat_fail(err, LEAT_INVALID, "%s: '%.60s' is not auto, path or virtual", what, value);
    s->addressing = (enum leat_store_addressing)i;
    return LEAT_OK;
}

static leat_status take_value(const struct leat_apart *a, struct section *s, const char *key, const char *value,
                              unsigned line, struct leat_error *err)
{
    char what[300];
    size_t i = 0;
    while (i < SETTINGS && strcmp(key, settings[i].name) != 0)
        i++;
    if (i == SETTINGS)
        return unknown(a, key, line, err);
    snprintf(what, sizeof what, "%.150s line %u: %s", a->path, line, key);
    if (!*value)
        return leat_fail(err, LEAT_INVALID, "%s has no value", what);
    if (settings[i].s3 && s->scheme != LEAT_SCHEME_S3)
        return leat_fail(err, LEAT_UNSUPPORTED, "%s is for s3:// only", what);
    if (s->values[i] && i != HEADER)
        return leat_fail(err, LEAT_INVALID, "%s is said twice for %.200s", what, s->name);
    leat_status rc = take_choice(s, (enum setting)i, value, what, err);
    if (rc == LEAT_OK && i == HEADER && s->headers_n == HEADERS_MAX)
        rc = leat_fail(err, LEAT_LIMIT, "%s: more than %u", what, HEADERS_MAX);
    if (rc != LEAT_OK)
        return rc;
    s->speaks_of_headers |= settings[i].headers;
    char *copy = strdup(value);
    if (!copy)
        return no_memory(err);
    if (i == HEADER)
        s->headers[s->headers_n++] = copy;
    else
        s->values[i] = copy;
    return LEAT_OK;
}

static leat_status take_line(const char *section, const char *key, const char *value, unsigned line, void *user,
                             struct leat_error *err)
{
    struct leat_apart *a = user;
    if (!leat_ini_names_store(section))
        return LEAT_OK; /* a command's */
    if (!*key)
        return begin_section(a, section + strlen("store"), line, err);
    return take_value(a, &a->sections[a->n - 1], key, value, line, err);
}

leat_status leat_apart_read(struct leat_apart **out, struct leat_error *err)
{
    struct leat_apart *a = calloc(1, sizeof *a);
    if (!a)
        return no_memory(err);
    bool needed = leat_ini_own(a->path, sizeof a->path);
    leat_status rc = *a->path ? leat_ini_read(a->path, take_line, a, err) : LEAT_OK;
    if (rc == LEAT_NOT_FOUND && !needed)
        rc = LEAT_OK;
    if (rc == LEAT_OK)
        *out = a;
    else
        leat_apart_free(a);
    return rc;
}

/* Use */

/* Headers that are said for all buckets are meant for one way to reach them: with another, nobody could tell. */
static leat_status refuse_headers(const struct leat_apart *apart, const struct section *s,
                                  const struct leat_store_opts *opts, struct leat_error *err)
{
    char *text = NULL;
    if (s->scheme != LEAT_SCHEME_S3 || opts->other)
        return LEAT_OK;
    leat_status rc = leat_extras_text(&opts->extras, &text, err);
    if (rc != LEAT_OK || !text)
        return rc;
    explicit_bzero(text, strlen(text));
    free(text);
    return leat_fail(err, LEAT_INVALID,
                     "headers, encryption or who pays are said for all buckets, and %.200s has a section of its own "
                     "(%.150s line %u): say them there, or requester-pays = false where they are not for it",
                     s->name, apart->path, s->line);
}

leat_status leat_apart_opts(const struct leat_apart *apart, const struct leat_url *url,
                            const struct leat_store_opts *opts, struct leat_store_opts *out, struct leat_error *err)
{
    const struct section *s = find(apart, url);
    struct leat_store_opts o = *opts;
    if (!s) {
        *out = o;
        return LEAT_OK;
    }
    if (o.said && !o.other)
        return leat_fail(err, LEAT_INVALID,
                         "%.200s has a section of its own (%.150s line %u): no endpoint, region, profile, addressing "
                         "or no-sign-request can be given beside it",
                         s->name, apart->path, s->line);
    leat_status rc = s->speaks_of_headers ? LEAT_OK : refuse_headers(apart, s, opts, err);
    if (rc != LEAT_OK)
        return rc;
    o.endpoint_url = s->values[ENDPOINT_URL];
    o.region = s->values[REGION];
    o.profile = s->values[PROFILE];
    o.anonymous = s->anonymous;
    o.addressing = s->addressing;
    if (s->values[CA_BUNDLE])
        o.ca_bundle = s->values[CA_BUNDLE];
    o.extras = (struct leat_extras){.alone = true,
                                    .requester_pays = s->pays,
                                    .sse = s->values[SSE],
                                    .sse_kms_key = s->values[SSE_KMS_KEY],
                                    .sse_c_file = s->values[SSE_C_KEY_FILE],
                                    .lines = (const char *const *)s->headers,
                                    .lines_n = s->headers_n};
    o.other = false;
    o.apart = true;
    *out = o;
    return LEAT_OK;
}
