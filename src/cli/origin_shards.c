/* Origins that lie in large files: tar shards, files of tokens. */
#include <string.h>

#include "cli/cli.h"
#include "cli/origin.h"
#include "client/probe.h"

static bool stop(void *user)
{
    (void)user;
    return leat_cli_interrupted();
}

static bool probe(const void *data, size_t n, struct leat_picture *out)
{
    return leat_picture_probe(data, n, out, NULL) == LEAT_OK;
}

const char *leat_cli_origin_raw_option(const struct leat_cli_origin *s)
{
    return s->group                           ? "--group"
           : strcmp(s->missing, "error") != 0 ? "--missing"
           : s->field                         ? "--field"
           : strcmp(s->labels, "auto") != 0   ? "--labels"
           : s->label_regex                   ? "--label-regex"
           : s->label_column                  ? "--label-column"
           : s->classes                       ? "--classes"
           : s->manifest                      ? "--manifest"
           : s->path_column                   ? "--path-column"
           : s->only_new                      ? "--only-new"
                                              : NULL;
}

/* What only raw objects have cannot be honoured here. */
static leat_status check_not_raw(const struct leat_cli_origin_opts *opts, const char *format, struct leat_error *err)
{
    bool saves = !opts->unsaved && opts->save_every_ns != LEAT_CLI_SAVE_EVERY_NS;
    const char *given = leat_cli_origin_raw_option(opts->settings);
    given = given ? given : opts->fresh ? "--fresh" : saves ? "--save-every" : NULL;
    if (given)
        return leat_fail(err, LEAT_INVALID, "%s is for raw objects, and these are read as %s (--format)", given,
                         format);
    if (opts->seed)
        return leat_fail(err, LEAT_INVALID,
                         "--seed is for raw objects, which are permuted: samples of %s keep their "
                         "order",
                         format);
    return LEAT_OK;
}

static leat_status check_merge(const struct leat_cli_origin_opts *opts, const char *what, struct leat_error *err)
{
    if (opts->merge)
        return leat_fail(err, LEAT_UNSUPPORTED, "--merge is for listings of raw objects; %s are not indexed in parts",
                         what);
    return LEAT_OK;
}

leat_status leat_cli_open_tar(const struct leat_cli_origin_opts *opts, char **urls, uint32_t n,
                              struct leat_cli_opened *o, struct leat_error *err)
{
    const struct leat_cli_origin *s = opts->settings;
    struct leat_store_opts store;
    leat_status rc = check_not_raw(opts, "tar", err);
    if (rc == LEAT_OK && s->dtype)
        rc = leat_fail(err, LEAT_INVALID, "--dtype is for tokens, and these are read as tar (--format)");
    if (rc == LEAT_OK)
        rc = check_merge(opts, "tar shards", err);
    if (rc == LEAT_OK)
        rc = leat_cli_read_wishes(s, o, err);
    if (rc == LEAT_OK)
        rc = leat_cli_store_opts(opts->store, &store, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_tar_opts tar = {.store = &store,
                                .chunk_bytes = opts->chunk_bytes,
                                .threads = opts->threads,
                                .wishes = o->wishes,
                                .wishes_n = (uint32_t)s->types.count,
                                .names_only = opts->dry,
                                .probe = probe,
                                .stop = stop};
    return leat_origin_tar_open((const char *const *)urls, n, &tar, &o->tar_progress, &o->tar, &o->origin, err);
}

leat_status leat_cli_open_tokens(const struct leat_cli_origin_opts *opts, char **urls, uint32_t n,
                                 struct leat_cli_opened *o, struct leat_error *err)
{
    const struct leat_cli_origin *s = opts->settings;
    struct leat_store_opts store;
    leat_status rc = check_not_raw(opts, "tokens", err);
    if (rc == LEAT_OK && s->types.count)
        rc = leat_fail(err, LEAT_INVALID, "--type is not for tokens: --dtype says how large they are");
    if (rc == LEAT_OK)
        rc = check_merge(opts, "token files", err);
    if (rc == LEAT_OK)
        rc = leat_cli_store_opts(opts->store, &store, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_token_opts tokens = {
        .store = &store, .dtype = s->dtype, .chunk_bytes = opts->chunk_bytes, .stop = stop};
    return leat_origin_tokens_open((const char *const *)urls, n, &tokens, &o->tokens, &o->origin, err);
}
