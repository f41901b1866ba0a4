#include "cli/origin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/dataset.h"
#include "cli/listing.h"

#define MANIFEST_MAX ((size_t)4 << 30)

/* Settings */

/* Which of the words it is. */
static leat_status pick(const char *option, const char *text, const char *const *words, int *out,
                        struct leat_error *err)
{
    char list[200] = "";
    for (int i = 0; words[i]; i++) {
        if (strcmp(text, words[i]) == 0) {
            *out = i;
            return LEAT_OK;
        }
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", i == 0 ? "" : words[i + 1] ? ", " : " or ", words[i]);
    }
    return leat_fail(err, LEAT_INVALID, "--%s: '%s' is not %s", option, text, list);
}

leat_status leat_cli_read_wishes(const struct leat_cli_origin *s, struct leat_cli_opened *o, struct leat_error *err)
{
    struct leat_buf names;
    leat_buf_init(&names, 1u << 20);
    for (size_t i = 0; i < s->types.count; i++)
        leat_buf_add(&names, s->types.item[i], strlen(s->types.item[i]) + 1);
    o->wish_names = leat_buf_take(&names);
    if (!o->wish_names)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for --type");
    char *at = o->wish_names;
    for (size_t i = 0; i < s->types.count; i++) {
        size_t n = strlen(at);
        char *equals = strchr(at, '=');
        uint32_t type = equals ? leat_field_type_find(equals + 1, strlen(equals + 1)) : 0;
        if (!equals || equals == at || !type)
            return leat_fail(err, LEAT_INVALID,
                             "--type: '%s' is not NAME=TYPE with bytes, image, string, json, int or float", at);
        *equals = '\0';
        for (size_t k = 0; k < i; k++) {
            if (strcmp(o->wishes[k].name, at) == 0)
                return leat_fail(err, LEAT_INVALID, "--type: '%s' is given twice", at);
        }
        o->wishes[i] = (struct leat_type_wish){at, (enum leat_field_type)type};
        at += n + 1;
    }
    return LEAT_OK;
}

/* One source of labels, or none: what else was said could only be ignored. */
static leat_status check_labels(const struct leat_cli_origin *s, int labels, struct leat_error *err)
{
    int sources = (labels == LEAT_LABELS_FOLDER) + (s->label_regex != NULL) + (s->label_column != NULL);
    if (sources > 1)
        return leat_fail(err, LEAT_INVALID,
                         "labels come from only one of --labels folder, --label-regex and --label-column");
    if (labels == LEAT_LABELS_NONE && (sources || s->classes))
        return leat_fail(err, LEAT_INVALID, "--labels none means no labels, but %s asks for them",
                         s->label_regex    ? "--label-regex"
                         : s->label_column ? "--label-column"
                                           : "--classes");
    if (s->label_column && !s->manifest)
        return leat_fail(err, LEAT_INVALID, "--label-column names a column of a manifest: give --manifest");
    if (s->path_column && !s->manifest)
        return leat_fail(err, LEAT_INVALID, "--path-column names a column of a manifest: give --manifest");
    return LEAT_OK;
}

/* What lies there as an object is a text file, else it is a dataset. */
leat_status leat_cli_classes(const struct leat_cli_store *settings, const char *where, struct leat_classes *out,
                             struct leat_error *err)
{
    struct leat_dataset *dataset;
    struct leat_store_opts opts;
    struct leat_url url = {0};
    struct leat_store *store = NULL;
    char *text = NULL;
    char *key = NULL;
    size_t n;
    leat_status rc = leat_cli_store_opts(settings, &opts, err);
    if (rc == LEAT_OK)
        rc = leat_url_parse(where, &url, err);
    if (rc == LEAT_OK)
        rc = leat_store_open(&url, &opts, &store, err);
    if (rc == LEAT_OK && !(key = leat_store_key(&url)))
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for a name");
    if (rc == LEAT_OK)
        rc = *key ? leat_store_load(store, key, LEAT_CLASSES_TEXT_MAX, &text, &n, NULL, err) : LEAT_NOT_FOUND;
    if (rc == LEAT_OK) {
        rc = leat_classes_read(text, n, out, err);
    } else if (rc == LEAT_NOT_FOUND) {
        rc = leat_cli_dataset_open(settings, where, &dataset, err);
        if (rc == LEAT_OK) {
            rc = leat_classes_of(&leat_dataset_root(dataset)->schema, out, err);
            leat_dataset_close(dataset);
        }
    }
    free(text);
    free(key);
    leat_store_close(store);
    leat_url_free(&url);
    return rc == LEAT_OK ? rc : leat_fail_context(err, rc, "--classes %s", where);
}

static leat_status load_manifest(const struct leat_cli_origin_opts *opts, struct leat_cli_opened *o,
                                 struct leat_error *err)
{
    const struct leat_cli_origin *s = opts->settings;
    struct leat_manifest_opts m = {
        .what = s->manifest, .path = s->path_column, .wishes = o->wishes, .wishes_n = (uint32_t)s->types.count};
    struct leat_store *store = NULL;
    char *key = NULL;
    char *text = NULL;
    size_t n;
    leat_status rc = leat_manifest_format(s->manifest, &m.format, err);
    if (rc != LEAT_OK)
        return leat_fail_context(err, rc, "--manifest");
    rc = leat_cli_store_open(opts->store, s->manifest, &store, &key, err);
    if (rc == LEAT_OK)
        rc = leat_store_load(store, key, MANIFEST_MAX, &text, &n, NULL, err);
    if (rc == LEAT_OK)
        rc = leat_manifest_read(text, n, &m, &o->manifest, err);
    free(text);
    free(key);
    leat_store_close(store);
    return rc;
}

/* Formats */

/* Where there is nothing but shards, what is in them is meant. */
static leat_status check_no_shards(const struct leat_listing *l, struct leat_error *err)
{
    for (uint64_t i = 0; i < l->n; i++) {
        const char *key = leat_listing_key(l, i);
        size_t n = strlen(key);
        if (n < 4 || strcmp(key + n - 4, ".tar") != 0)
            return LEAT_OK;
    }
    return leat_fail(
        err, LEAT_INVALID,
        "all objects are tar shards, such as '%s': use --format tar to index what is in them, or --format raw to "
        "make each a sample",
        leat_listing_key(l, 0));
}

static leat_status open_raw(const struct leat_cli_origin_opts *opts, char **urls, uint32_t n, struct leat_cli_opened *o,
                            struct leat_error *err)
{
    static const char *const labels[] = {"auto", "folder", "none", NULL};
    static const char *const missing[] = {"error", "optional", "skip", NULL};
    const struct leat_cli_origin *s = opts->settings;
    struct leat_listing list = {0};
    struct leat_cli_known known = {0};
    int how = 0;
    int lacking = 0;
    leat_status rc = pick("labels", s->labels, labels, &how, err);
    if (rc == LEAT_OK && s->dtype)
        rc = leat_fail(err, LEAT_INVALID, "--dtype is for tokens: --format tokens");
    if (rc == LEAT_OK)
        rc = pick("missing", s->missing, missing, &lacking, err);
    if (rc == LEAT_OK && lacking && !s->group)
        rc = leat_fail(err, LEAT_INVALID, "--missing is about samples of several files: give --group");
    if (rc == LEAT_OK && s->only_new && (!opts->add_to || s->manifest))
        rc = leat_fail(err, LEAT_INVALID, "%s",
                       opts->add_to ? "--only-new does not go with --manifest: leave out those rows"
                                    : "--only-new is about the dataset that is added to: give --add-to");
    if (rc == LEAT_OK)
        rc = check_labels(s, how, err);
    if (rc == LEAT_OK)
        rc = leat_cli_read_wishes(s, o, err);
    for (uint32_t i = 0; rc == LEAT_OK && i < n; i++) {
        if (urls[i][0] == '@')
            rc = leat_fail(err, LEAT_INVALID, "'%s': lists of URLs are for --format tar and --format tokens", urls[i]);
    }
    if (rc == LEAT_OK && n)
        rc = leat_cli_homes_open(opts, urls, n, o, err);
    if (rc == LEAT_OK && s->classes)
        rc = leat_cli_classes(opts->store, s->classes, &o->classes, err);
    if (rc == LEAT_OK && s->manifest)
        rc = load_manifest(opts, o, err);
    if (rc == LEAT_OK)
        rc = opts->merge ? leat_cli_listing_merge(opts, o, &list, err) : leat_cli_listing_open(opts, o, &list, err);
    if (rc == LEAT_OK && strcmp(s->format, "auto") == 0)
        rc = check_no_shards(&list, err);
    struct leat_raw_opts raw = {.field = s->field,
                                .grouped = s->group,
                                .missing = (enum leat_raw_missing)lacking,
                                .wishes = o->wishes,
                                .wishes_n = (uint32_t)s->types.count,
                                .labels = (enum leat_raw_labels)how,
                                .label_regex = s->label_regex,
                                .label_column = s->label_column,
                                .classes = s->classes ? &o->classes : NULL,
                                .manifest = s->manifest ? &o->manifest : NULL,
                                .known = s->only_new ? leat_cli_known_has : NULL,
                                .known_user = &known};
    if (rc == LEAT_OK && opts->add_to)
        rc = leat_cli_known_open(opts->add_to, &known, err);
    if (rc == LEAT_OK)
        rc = leat_origin_raw_open(&list, &raw, &o->counts, &o->origin, err);
    else
        leat_listing_close(&list);
    if (rc == LEAT_OK && opts->add_to)
        rc = leat_cli_check_new(&known, opts->add_to, o->origin, err);
    leat_cli_known_close(&known);
    o->raw = rc == LEAT_OK;
    return rc;
}

/* A format: its name, the endings of URLs that mean it without --format, and how it is opened. */
static const struct {
    const char *name;
    const char *endings[4];
    leat_status (*open)(const struct leat_cli_origin_opts *opts, char **urls, uint32_t n, struct leat_cli_opened *o,
                        struct leat_error *err);
} formats[] = {
    {"raw", {NULL}, open_raw},
    {"tar", {".tar", ".tar.gz", ".tgz", NULL}, leat_cli_open_tar},
    {"tokens", {".bin", ".npy", NULL}, leat_cli_open_tokens},
};

#define FORMATS (sizeof formats / sizeof *formats)

static bool ends_so(const char *url, const char *const *endings)
{
    for (; *endings; endings++) {
        size_t n = strlen(url);
        size_t k = strlen(*endings);
        if (n > k && strcmp(url + n - k, *endings) == 0)
            return true;
    }
    return false;
}

static leat_status find_format(const struct leat_cli_origin *s, char **urls, uint32_t n, size_t *out,
                               struct leat_error *err)
{
    const char *words[FORMATS + 2] = {"auto"};
    int at = 0;
    for (size_t i = 0; i < FORMATS; i++)
        words[i + 1] = formats[i].name;
    leat_status rc = pick("format", s->format, words, &at, err);
    if (rc != LEAT_OK)
        return rc;
    *out = at ? (size_t)at - 1 : 0;
    for (size_t i = 0; at == 0 && n && i < FORMATS; i++)
        *out = ends_so(urls[0], formats[i].endings) ? i : *out;
    return LEAT_OK;
}

static leat_status check_parts(size_t format, struct leat_error *err)
{
    return formats[format].open == open_raw
               ? LEAT_OK
               : leat_fail(err, LEAT_INVALID, "--part and --merge are for raw objects, not for %s",
                           formats[format].name);
}

leat_status leat_cli_origin_open(const struct leat_cli_origin_opts *opts, char **urls, uint32_t n,
                                 struct leat_cli_opened *out, struct leat_error *err)
{
    size_t format = 0;
    leat_status rc = find_format(opts->settings, urls, n, &format, err);
    if (rc == LEAT_OK && opts->merge)
        rc = check_parts(format, err);
    return rc == LEAT_OK ? formats[format].open(opts, urls, n, out, err) : rc;
}

leat_status leat_cli_origin_check_part(const struct leat_cli_origin *s, char **urls, uint32_t n, struct leat_error *err)
{
    const char *given = leat_cli_origin_raw_option(s);
    size_t format = 0;
    leat_status rc = find_format(s, urls, n, &format, err);
    if (rc == LEAT_OK)
        rc = check_parts(format, err);
    if (rc == LEAT_OK && (given || s->types.count || s->dtype))
        rc = leat_fail(err, LEAT_INVALID, "--part only lists: give %s to --merge",
                       given            ? given
                       : s->types.count ? "--type"
                                        : "--dtype");
    return rc;
}

void leat_cli_origin_close(struct leat_cli_opened *o)
{
    leat_origin_close(o->origin);
    leat_manifest_close(&o->manifest);
    leat_classes_close(&o->classes);
    for (uint32_t i = 0; i < o->homes_n; i++)
        leat_home_close(&o->homes[i]);
    free(o->homes);
    free(o->wish_names);
    *o = (struct leat_cli_opened){0};
}
