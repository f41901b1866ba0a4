#include "client/request.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/environment.h"
#include "base/url.h"
#include "client/opts.h"
#include "dataset/kind.h"
#include "ring/blend.h"
#include "ring/settings.h"

static void check_output(const struct leat_loader_opts *o, size_t i, struct leat_buf *b)
{
    const struct leat_output *out = &o->outputs[i];
    const struct leat_output_kind_row *kind = leat_output_kind_find(out->kind);
    const char *and = b->len ? "; " : "";
    if (!out->name || !*out->name || strlen(out->name) >= LEAT_RING_NAME) {
        leat_buf_printf(b, "%san output without a name, or with one longer than %u bytes", and, LEAT_RING_NAME - 1);
        return;
    }
    if (!kind)
        leat_buf_printf(b, "%soutput '%s' is of no known kind", and, out->name);
    else if (*kind->fields && (!out->field || !*out->field))
        leat_buf_printf(b, "%soutput '%s' names no field", and, out->name);
    if (out->view > LEAT_VIEW_MAX)
        leat_buf_printf(b, "%soutput '%s' has view %u: at most %d is possible", b->len ? "; " : "", out->name,
                        out->view, LEAT_VIEW_MAX);
    for (size_t j = 0; j < i; j++) {
        if (o->outputs[j].name && strcmp(out->name, o->outputs[j].name) == 0)
            leat_buf_printf(b, "%stwo outputs called '%s'", b->len ? "; " : "", out->name);
    }
}

static leat_status check(const struct leat_loader_opts *o, struct leat_error *err)
{
    struct leat_buf b;
    leat_buf_init(&b, 4096);
    if (!o->mix && (!o->url || !*o->url))
        leat_buf_str(&b, "no dataset URL");
    if (o->mix && ((o->url && *o->url) || o->version))
        leat_buf_str(&b, "a mixture takes the URLs and versions of its streams: leave out url and version");
    leat_settings_check(o, &b);
    leat_environment_check(environ, &b);
    if (!o->outputs_n || o->outputs_n > LEAT_RING_COLUMNS_MAX)
        leat_buf_printf(&b, "%s%zu outputs: between 1 and %u are possible", b.len ? "; " : "", o->outputs_n,
                        LEAT_RING_COLUMNS_MAX);
    for (size_t i = 0; i < o->outputs_n && i < LEAT_RING_COLUMNS_MAX; i++)
        check_output(o, i, &b);
    leat_status rc = leat_buf_check(&b, "the list of what is wrong", err);
    if (rc == LEAT_OK && b.len)
        rc = leat_fail(err, LEAT_INVALID, "%s", b.data);
    leat_buf_free(&b);
    return rc;
}

static bool is_id(const char *text)
{
    size_t n = strspn(text, "0123456789abcdefABCDEF");
    return !text[n] && n >= 8 && n <= 64;
}

leat_status leat_request_address(const char *text, const char *version, char **out, struct leat_error *err)
{
    struct leat_url url = {0};
    struct leat_buf b;
    leat_buf_init(&b, 16 << 10);
    leat_status rc = leat_url_parse(text, &url, err);
    if (rc == LEAT_OK && !leat_store_url_can(&url, LEAT_STORE_LOCAL)) {
        leat_buf_str(&b, text);
    } else if (rc == LEAT_OK && url.path[0] == '/') {
        leat_buf_str(&b, url.path);
    } else if (rc == LEAT_OK) {
        char *here = getcwd(NULL, 0);
        if (here)
            leat_buf_printf(&b, "%s/%s", here, url.path);
        else
            rc = leat_fail(err, LEAT_INVALID, "'%.200s' is a relative path, and the current folder no longer exists",
                           text);
        free(here);
    }
    leat_url_free(&url);
    if (rc == LEAT_OK && version) {
        const char *said = strrchr(b.data, '?');
        if (said && (strncmp(said, "?id=", 4) == 0 || strncmp(said, "?name=", 6) == 0))
            rc = leat_fail(err, LEAT_INVALID, "the address says '%.100s' and version says '%.100s': give one of them",
                           said, version);
        leat_buf_printf(&b, "?%s=%s", is_id(version) ? "id" : "name", version);
    }
    if (rc == LEAT_OK)
        rc = leat_buf_check(&b, "the dataset's address", err);
    if (rc == LEAT_OK)
        *out = leat_buf_take(&b);
    leat_buf_free(&b);
    return rc;
}

/* A mixture with the addresses of its streams in full. *url: the one that messages name, the first. */
static leat_status full_mix(const char *given, char **mix, char **url, struct leat_error *err)
{
    struct leat_blend_spec *b = calloc(1, sizeof *b);
    leat_status rc = b ? leat_blend_read(given, b, err) : leat_fail(err, LEAT_NO_MEMORY, "no memory for a mixture");
    for (uint32_t i = 0; rc == LEAT_OK && i < b->n; i++) {
        char *full;
        rc = leat_request_address(b->streams[i].url, NULL, &full, err);
        if (rc != LEAT_OK)
            break;
        free(b->streams[i].url);
        b->streams[i].url = full;
    }
    if (rc == LEAT_OK)
        rc = leat_blend_write(b, mix, err);
    if (rc == LEAT_OK) {
        *url = b->streams[0].url;
        b->streams[0].url = NULL;
    }
    if (b)
        leat_blend_free(b);
    free(b);
    return rc;
}

/* In full, since the agent's folder is another. *out NULL: none was said. */
static leat_status full_cache_dir(const char *said, char **out, struct leat_error *err)
{
    struct leat_buf b;
    const char *set = getenv("LEAT_CACHE_DIR"); /* which the agent reads */
    *out = NULL;
    if (!said && set && *set && *set != '/')
        return leat_fail(err, LEAT_INVALID, "LEAT_CACHE_DIR: '%.200s' is not an absolute path", set);
    if (!said)
        return LEAT_OK;
    if (!*said || *said == '~')
        return leat_fail(err, LEAT_INVALID, "cache_dir='%.200s' is not a full path: only shells expand '~'", said);
    leat_buf_init(&b, PATH_MAX - 1);
    char *here = *said == '/' ? NULL : getcwd(NULL, 0);
    leat_status rc = LEAT_OK;
    if (*said != '/' && !here)
        rc = leat_fail(err, LEAT_INVALID,
                       "cache_dir='%.200s' is a relative path, and the current folder no longer "
                       "exists",
                       said);
    leat_buf_printf(&b, "%s%s%s", here ? here : "", here ? "/" : "", said);
    free(here);
    if (rc == LEAT_OK)
        rc = leat_buf_check(&b, "the path in cache_dir", err);
    if (rc == LEAT_OK)
        *out = leat_buf_take(&b);
    leat_buf_free(&b);
    return rc;
}

leat_status leat_request_make(const struct leat_loader_opts *o, struct leat_request *out, struct leat_error *err)
{
    struct leat_request given = {.opts = *o};
    char *url = NULL;
    char *mix = NULL;
    char *cache_dir = NULL;
    leat_status rc = check(o, err);
    if (rc == LEAT_OK)
        rc = full_cache_dir(o->cache_dir, &cache_dir, err);
    if (rc == LEAT_OK)
        rc = o->mix ? full_mix(o->mix, &mix, &url, err) : leat_request_address(o->url, o->version, &url, err);
    if (rc == LEAT_OK) {
        given.url = url;
        given.opts.mix = mix;
        given.opts.cache_dir = cache_dir;
        memcpy(given.outputs, o->outputs, o->outputs_n * sizeof *o->outputs);
        rc = leat_request_copy(&given, out, err);
    }
    free(cache_dir);
    free(mix);
    free(url);
    return rc;
}

/* The addresses of a request: its own, or its streams', which *mix keeps; the caller frees that. */
static leat_status list_addresses(const struct leat_request *r, const char *urls[LEAT_BLEND_STREAMS_MAX], size_t *n,
                                  struct leat_blend_spec **mix, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    *mix = NULL;
    *n = 1;
    urls[0] = r->url;
    if (!r->opts.mix)
        return LEAT_OK;
    struct leat_blend_spec *b = calloc(1, sizeof *b);
    rc = b ? leat_blend_read(r->opts.mix, b, err) : leat_fail(err, LEAT_NO_MEMORY, "no memory for a mixture");
    if (rc != LEAT_OK) {
        free(b);
        return rc;
    }
    for (*n = 0; *n < b->n; (*n)++)
        urls[*n] = b->streams[*n].url;
    *mix = b;
    return LEAT_OK;
}

struct finding {
    struct leat_store_opts opts;
    enum leat_scheme owner; /* the kind of buckets that these are said of … */
    bool owned;             /* … if there is one */
    const char *place;      /* the one that is wanted; NULL: all */
    bool fresh;
    struct leat_access *access;
};

static leat_status find_access(struct finding *f, const char *text, struct leat_error *err)
{
    struct leat_url url = {0};
    char place[LEAT_ACCESS_PLACE];
    leat_status rc = leat_url_parse(text, &url, err);
    if (rc != LEAT_OK)
        return rc;
    leat_access_place(f->access, &url, place);
    struct leat_store_opts opts = leat_store_opts_of(&f->opts, f->owned && url.scheme != f->owner);
    if (!leat_access_has(f->access, &url) && (!f->place || strcmp(place, f->place) == 0))
        rc = leat_access_resolve(f->access, &url, &opts, f->fresh, err);
    leat_url_free(&url);
    return rc;
}

static leat_status find_all(struct finding *f, const char *const *urls, size_t n, const struct leat_sources_list *more,
                            struct leat_error *err)
{
    leat_status rc = leat_store_opts_owner(&f->opts, urls, n, &f->owner, &f->owned, err);
    if (rc == LEAT_OK && !f->owned)
        rc = leat_store_opts_owner(&f->opts, (const char *const *)more->urls, more->n, &f->owner, &f->owned, err);
    for (size_t i = 0; rc == LEAT_OK && i < n; i++)
        rc = find_access(f, urls[i], err);
    for (size_t i = 0; rc == LEAT_OK && i < more->n; i++) {
        rc = find_access(f, more->urls[i], err);
        if (rc != LEAT_OK)
            leat_fail_context(err, rc, "keys for the data of '%.200s' in %.100s", urls[0], more->urls[i]);
    }
    return rc;
}

leat_status leat_request_access(const struct leat_request *r, const struct leat_request_finding *how,
                                struct leat_access **out, struct leat_error *err)
{
    struct leat_blend_spec *mix;
    const char *urls[LEAT_BLEND_STREAMS_MAX];
    size_t n;
    struct finding f = {.opts = {.endpoint_url = r->opts.endpoint_url,
                                 .region = r->opts.region,
                                 .profile = r->opts.profile,
                                 .anonymous = r->opts.anonymous,
                                 .stop = how->stop,
                                 .stop_user = how->stop_user},
                        .place = how->place,
                        .fresh = how->fresh};
    leat_status rc = list_addresses(r, urls, &n, &mix, err);
    if (rc != LEAT_OK)
        return rc;
    rc = leat_opts_store(&f.opts, err);
    if (rc == LEAT_OK)
        rc = leat_access_begin(&f.access, err);
    if (rc == LEAT_OK)
        rc = find_all(&f, urls, n, how->more, err);
    if (rc == LEAT_OK)
        *out = f.access;
    else
        leat_access_free(f.access);
    if (mix)
        leat_blend_free(mix);
    free(mix);
    return rc;
}
