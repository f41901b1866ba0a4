#include "cli/store_options.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "cli/cli.h"

#define CONNECTIONS_MAX 4096u

static bool stop(void *user)
{
    (void)user;
    return leat_cli_interrupted();
}

leat_status leat_cli_store_opts(const struct leat_cli_store *s, struct leat_store_opts *out, struct leat_error *err)
{
    static const char *const styles[] = {"auto", "path", "virtual"};
    int style = 0;
    while (style < 3 && strcmp(s->addressing, styles[style]) != 0)
        style++;
    if (style == 3)
        return leat_fail(err, LEAT_INVALID, "--addressing: '%s' is not auto, path or virtual", s->addressing);
    static const char *const whens[] = {"auto", "on", "off"};
    int when = 0;
    while (when < 3 && strcmp(s->hedge, whens[when]) != 0)
        when++;
    if (when == 3)
        return leat_fail(err, LEAT_INVALID, "--hedge: '%s' is not auto, on or off", s->hedge);
    if (s->connections > CONNECTIONS_MAX)
        return leat_fail(err, LEAT_INVALID, "--connections: at most %u", CONNECTIONS_MAX);
    if (s->attempts == 0 || s->attempts > 1000)
        return leat_fail(err, LEAT_INVALID, "--attempts: between 1 and 1000");
    if (s->timeout_ns == 0 || s->inactivity_ns == 0)
        return leat_fail(err, LEAT_INVALID, "--timeout and --inactivity must be more than 0");
    *out = (struct leat_store_opts){
        .said = leat_cli_said("endpoint-url") || leat_cli_said("region") || leat_cli_said("profile") ||
                leat_cli_said("addressing") || leat_cli_said("no-sign-request"),
        .endpoint_url = s->endpoint_url,
        .region = s->region,
        .profile = s->profile,
        .anonymous = s->no_sign_request,
        .addressing = (enum leat_store_addressing)style,
        .ca_bundle = s->ca_bundle,
        .extras = {.requester_pays = s->requester_pays,
                   .sse = s->sse,
                   .sse_kms_key = s->sse_kms_key,
                   .sse_c_file = s->sse_c_key_file,
                   .lines = s->headers.item,
                   .lines_n = s->headers.count},
        .hedge = (enum leat_store_hedge)when,
        .connections = (uint32_t)s->connections,
        .attempts = (uint32_t)s->attempts,
        .timeout_ns = s->timeout_ns,
        .inactivity_ns = s->inactivity_ns,
        .stop = stop,
    };
    return LEAT_OK;
}

leat_status leat_cli_store_one_kind(const struct leat_cli_store *settings, char *const *urls, int n,
                                    const char *const beside[2], struct leat_error *err)
{
    struct leat_store_opts said = {.endpoint_url = settings->endpoint_url};
    enum leat_scheme kind;
    bool found;
    if (!said.endpoint_url)
        return LEAT_OK;
    size_t count = 0;
    const char **all = malloc(((size_t)n + 2) * sizeof *all);
    if (!all)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for addresses");
    for (int i = 0; i < n; i++)
        all[count++] = urls[i];
    for (size_t i = 0; beside && i < 2; i++) {
        if (beside[i])
            all[count++] = beside[i];
    }
    leat_status rc = leat_store_opts_owner(&said, all, count, &kind, &found, err);
    free((void *)all);
    return rc;
}

leat_status leat_cli_store_open(const struct leat_cli_store *settings, const char *text, struct leat_store **store,
                                char **key, struct leat_error *err)
{
    struct leat_url url = {0};
    struct leat_store_opts opts;
    leat_status rc = leat_cli_store_opts(settings, &opts, err);
    if (rc == LEAT_OK)
        rc = leat_url_parse(text, &url, err);
    if (rc != LEAT_OK)
        return rc;
    char *k = leat_store_key(&url);
    rc = k ? leat_store_open(&url, &opts, store, err) : leat_fail(err, LEAT_NO_MEMORY, "no memory for a key");
    if (rc == LEAT_OK)
        *key = k;
    else
        free(k);
    leat_url_free(&url);
    return rc;
}

static char *with_slash(const char *key)
{
    struct leat_buf b;
    leat_buf_init(&b, 16 << 10);
    leat_buf_printf(&b, "%s/", key);
    return leat_buf_take(&b);
}

leat_status leat_cli_is_folder(struct leat_store *store, const char *key, bool *out, struct leat_error *err)
{
    size_t n = strlen(key);
    struct stat st;
    if (leat_store_can(store, LEAT_STORE_LOCAL)) {
        *out = stat(n ? key : ".", &st) == 0 && S_ISDIR(st.st_mode);
        return LEAT_OK;
    }
    *out = false;
    if (!leat_store_can(store, LEAT_STORE_LISTS))
        return LEAT_OK;
    char *prefix = n && key[n - 1] != '/' ? with_slash(key) : strdup(key);
    struct leat_list *list = NULL;
    struct leat_list_entry entry;
    bool end = true;
    leat_status rc = prefix ? leat_store_list_open(store, prefix, false, &list, err)
                            : leat_fail(err, LEAT_NO_MEMORY, "no memory for a key");
    if (rc == LEAT_OK)
        rc = leat_store_list_next(list, &entry, &end, err);
    leat_store_list_close(list);
    free(prefix);
    *out = rc == LEAT_OK && !end;
    return rc;
}

leat_status leat_cli_open_folder(struct leat_store *store, char **key, struct leat_error *err)
{
    size_t n = strlen(*key);
    bool folder = false;
    if (n == 0 || (*key)[n - 1] == '/')
        return LEAT_OK;
    leat_status rc = leat_cli_is_folder(store, *key, &folder, err);
    if (rc != LEAT_OK || !folder)
        return rc;
    char *longer = with_slash(*key);
    if (!longer)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a key");
    free(*key);
    *key = longer;
    return LEAT_OK;
}

bool leat_cli_same_store(const struct leat_store *a, const struct leat_store *b)
{
    return leat_store_same(a, b);
}

/* The real path of the nearest folder at or above `path` that is there; the caller frees it. */
static char *nearest(const char *path)
{
    struct leat_buf b;
    char *real = NULL;
    leat_buf_init(&b, 8192);
    leat_buf_str(&b, *path ? path : ".");
    while (!b.failed && !(real = realpath(b.data, NULL)) && strrchr(b.data, '/') > b.data)
        *strrchr(b.data, '/') = '\0';
    leat_buf_free(&b);
    return real ? real : realpath(*path == '/' ? "/" : ".", NULL);
}

/* `whole` begins with all of `part`, and a name ends there. */
static bool begins_with(const char *whole, const char *part)
{
    size_t n = strlen(part);
    return strncmp(whole, part, n) == 0 && (n == 0 || part[n - 1] == '/' || whole[n] == '/' || whole[n] == '\0');
}

bool leat_cli_lies_in(const struct leat_store *outer_store, const char *outer, const struct leat_store *inner_store,
                      const char *inner)
{
    if (!leat_cli_same_store(outer_store, inner_store))
        return false;
    if (!leat_store_can(outer_store, LEAT_STORE_LOCAL))
        return begins_with(inner, outer);
    char *above = realpath(*outer ? outer : ".", NULL);
    char *below = nearest(inner);
    bool inside = above && below && begins_with(below, above);
    free(above);
    free(below);
    return inside;
}
