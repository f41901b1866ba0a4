#include <stdlib.h>
#include <string.h>

#include "store/access.h"
#include "store/apart.h"
#include "store/kind.h"

#define TEXTS 6

static void list_texts(struct leat_store_opts *o, const char **texts[TEXTS])
{
    const char **const all[TEXTS] = {&o->endpoint_url, &o->region, &o->profile, &o->ca_bundle, &o->bearer, &o->pin};
    memcpy(texts, all, sizeof all);
}

leat_status leat_store_opts_copy(const struct leat_store_opts *opts, struct leat_store_opts *out,
                                 struct leat_error *err)
{
    struct leat_store_opts copy = *opts;
    struct leat_access *access = NULL;
    const char **texts[TEXTS];
    leat_status rc = opts->access ? leat_access_copy(opts->access, &access, err) : LEAT_OK;
    copy.access = access;
    list_texts(&copy, texts);
    for (size_t i = 0; i < TEXTS; i++) {
        const char *text = *texts[i];
        *texts[i] = rc == LEAT_OK && text ? strdup(text) : NULL;
        if (rc == LEAT_OK && text && !*texts[i])
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the settings of a store");
    }
    if (rc == LEAT_OK)
        *out = copy;
    else
        leat_store_opts_free(&copy);
    return rc;
}

void leat_store_opts_free(struct leat_store_opts *opts)
{
    const char **texts[TEXTS];
    list_texts(opts, texts);
    for (size_t i = 0; i < TEXTS; i++) {
        char *text = (char *)(uintptr_t)*texts[i];
        if (text)
            explicit_bzero(text, strlen(text)); /* a token is among them */
        free(text);
    }
    leat_access_free((struct leat_access *)(uintptr_t)opts->access);
    *opts = (struct leat_store_opts){0};
}

const char *leat_store_endpoint_from(const struct leat_store_opts *opts)
{
    return opts->apart ? "its section in the config file" : "--endpoint-url";
}

struct leat_store_opts leat_store_opts_of(const struct leat_store_opts *opts, bool other)
{
    struct leat_store_opts o = *opts;
    if (other) {
        o.endpoint_url = o.region = o.profile = NULL;
        o.addressing = LEAT_ADDRESSING_AUTO;
        o.extras = (struct leat_extras){0};
        o.other = true;
    }
    return o;
}

leat_status leat_store_opts_owner(const struct leat_store_opts *opts, const char *const *urls, size_t n,
                                  enum leat_scheme *out, bool *found, struct leat_error *err)
{
    struct leat_apart *apart = NULL;
    leat_status rc = leat_apart_read(&apart, err);
    *found = false;
    for (size_t i = 0; rc == LEAT_OK && i < n; i++) {
        struct leat_url url = {0};
        rc = leat_url_parse(urls[i], &url, err);
        if (rc != LEAT_OK) { /* addresses of datasets have been read before */
            leat_fail_context(err, rc, "source '%s'", urls[i]);
            break;
        }
        bool meant = leat_store_url_can(&url, LEAT_STORE_BUCKET) && !leat_apart_has(apart, &url);
        enum leat_scheme scheme = url.scheme;
        leat_url_free(&url);
        if (!meant)
            continue;
        if (*found && scheme != *out && (opts->endpoint_url || opts->region || opts->profile))
            rc = leat_fail(err, LEAT_INVALID,
                           "an endpoint, a region or a profile is said for %s:// and %s:// alike: each kind of store "
                           "has its own; say it by their variables, or by sections of the config file",
                           leat_scheme_name(*out), leat_scheme_name(scheme));
        if (!*found)
            *out = scheme;
        *found = true;
    }
    if (rc != LEAT_OK)
        *found = false;
    leat_apart_free(apart);
    return rc;
}
