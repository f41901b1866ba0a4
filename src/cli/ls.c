#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dataset.h"
#include "cli/store_options.h"
#include "dataset/slice.h"

struct ls_settings {
    struct leat_cli_store store;
    bool recursive;
    bool json;
    bool human;
    bool total;
    bool samples;
    bool null;
    bool versions;
};

static const struct leat_option options[] = {
    {"samples", 's', LEAT_OPTION_FLAG, offsetof(struct ls_settings, samples), NULL, NULL, NULL,
     "URL is a dataset: list the numbers and keys of its samples (unprintable bytes as \\xHH)"},
    {"null", '0', LEAT_OPTION_FLAG, offsetof(struct ls_settings, null), NULL, NULL, NULL,
     "only the keys, unchanged, each followed by a NUL: for xargs -0"},
    {"recursive", 'r', LEAT_OPTION_FLAG, offsetof(struct ls_settings, recursive), NULL, NULL, NULL,
     "list everything below, not only the next level"},
    {"versions", 0, LEAT_OPTION_FLAG, offsetof(struct ls_settings, versions), NULL, NULL, NULL,
     "all versions of each object, with their ids, the newest first, and markers of deletion (s3)"},
    {"human", 'H', LEAT_OPTION_FLAG, offsetof(struct ls_settings, human), NULL, NULL, NULL,
     "print sizes as 1.21 GiB instead of bytes"},
    {"total", 't', LEAT_OPTION_FLAG, offsetof(struct ls_settings, total), NULL, NULL, NULL,
     "print only how many objects and bytes there are"},
    {"json", 0, LEAT_OPTION_FLAG, offsetof(struct ls_settings, json), NULL, NULL, NULL,
     "one JSON object per line: key, size, modified, etag; or prefix (key_hex, prefix_hex for names that are not "
     "UTF-8)"},
    LEAT_STORE_OPTIONS(offsetof(struct ls_settings, store)),
    {0},
};

struct counts {
    uint64_t objects;
    uint64_t bytes;
    uint64_t prefixes;
};

static void print_json(const struct leat_list_entry *e)
{
    char modified[LEAT_CLI_TIME];
    json_t *line = json_object();
    leat_cli_json_name(line, e->prefix ? "prefix" : "key", e->key, strlen(e->key));
    if (!e->prefix) {
        leat_cli_format_time(e->modified_s, modified);
        json_object_set_new(line, "size", json_integer((json_int_t)e->size));
        json_object_set_new(line, "modified", json_string(modified));
        json_object_set_new(line, "etag", json_string(e->etag));
        if (e->version && *e->version) {
            json_object_set_new(line, "version", json_string(e->version));
            json_object_set_new(line, "latest", json_boolean(e->latest));
            json_object_set_new(line, "deleted", json_boolean(e->deleted));
        }
    }
    json_dumpf(line, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(line);
}

static void print_null(const char *key, size_t n)
{
    fwrite(key, 1, n, stdout);
    putchar('\0');
}

static void print_line(const struct leat_list_entry *e, bool human, bool versions, bool terminal)
{
    char modified[LEAT_CLI_TIME] = "";
    char size[LEAT_FORMAT_SIZE] = "";
    if (!e->prefix)
        leat_cli_format_time(e->modified_s, modified);
    if (e->deleted)
        snprintf(size, sizeof size, "deleted");
    else if (!e->prefix && human)
        leat_format_size(e->size, size);
    else if (!e->prefix)
        snprintf(size, sizeof size, "%" PRIu64, e->size);
    printf("%14s  %20s  ", size, modified);
    if (versions)
        printf("%-32s  ", e->prefix ? "" : e->version);
    leat_cli_print_name(e->key, terminal);
    putchar('\n');
}

static leat_status list(struct leat_store *store, const char *prefix, const struct ls_settings *s,
                        struct counts *counts, struct leat_error *err)
{
    struct leat_list *l = NULL;
    struct leat_list_entry e;
    bool end = false;
    bool terminal = isatty(STDOUT_FILENO);
    leat_status rc = s->versions ? leat_store_list_versions(store, prefix, s->recursive, &l, err)
                                 : leat_store_list_open(store, prefix, s->recursive, &l, err);
    while (rc == LEAT_OK && !leat_cli_interrupted()) {
        rc = leat_store_list_next(l, &e, &end, err);
        if (rc != LEAT_OK || end)
            break;
        counts->prefixes += e.prefix;
        counts->objects += !e.prefix;
        counts->bytes += e.size;
        if (s->total)
            continue;
        if (s->null)
            print_null(e.key, strlen(e.key));
        else if (s->json)
            print_json(&e);
        else
            print_line(&e, s->human, s->versions, terminal);
        if (ferror(stdout))
            break;
    }
    leat_store_list_close(l);
    if (rc == LEAT_OK && leat_cli_interrupted())
        rc = leat_fail(err, LEAT_CANCELLED, "interrupted");
    return rc;
}

static void print_total(const struct counts *c, bool json)
{
    char size[LEAT_FORMAT_SIZE];
    if (json)
        printf("{\"objects\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"prefixes\":%" PRIu64 "}\n", c->objects, c->bytes,
               c->prefixes);
    else
        printf("%" PRIu64 " object%s, %" PRIu64 " bytes (%s)\n", c->objects, c->objects == 1 ? "" : "s", c->bytes,
               leat_format_size(c->bytes, size));
}

/* A bucket that could be listed, or a folder of files, is there although it holds nothing. */
static bool is_empty(struct leat_store *store, const char *key)
{
    bool folder = false;
    if (!leat_store_can(store, LEAT_STORE_LOCAL))
        return !*key;
    return leat_cli_is_folder(store, key, &folder, NULL) == LEAT_OK && folder;
}

/* Samples of a dataset */

/* JSON has no word for these; null would be a value that is not there. */
static json_t *describe_real(double v)
{
    return isfinite(v) ? json_real(v) : json_string(isnan(v) ? "NaN" : v > 0 ? "Infinity" : "-Infinity");
}

/* What the row alone says. */
static void describe_row(json_t *line, const struct leat_schema *schema, const uint8_t *row)
{
    for (uint32_t f = 0; f < schema->n; f++) {
        const struct leat_field *field = &schema->fields[f];
        if (leat_field_check(field, NULL) != LEAT_OK)
            continue;
        struct leat_cell cell = leat_cell_read(field, row);
        json_t *value = json_null();
        if (!cell.absent && field->type == LEAT_FIELD_INT)
            value = json_integer(cell.number);
        else if (!cell.absent && field->type == LEAT_FIELD_FLOAT)
            value = describe_real(cell.real);
        else if (!cell.absent && field->type == LEAT_FIELD_IMAGE)
            value = json_pack("{s:I,s:I,s:I}", "size", (json_int_t)cell.raw, "width", (json_int_t)cell.image.width,
                              "height", (json_int_t)cell.image.height);
        else if (!cell.absent)
            value = json_pack("{s:I}", "size", (json_int_t)cell.raw);
        json_object_set_new(line, field->name, value ? value : json_null());
    }
}

static void print_sample(const struct ls_settings *s, const struct leat_slice *slice, uint32_t index, uint64_t sample)
{
    size_t n;
    const char *key = leat_slice_key(slice, index, &n);
    if (s->null) {
        print_null(key, n);
    } else if (s->json) {
        json_t *line = json_object();
        json_t *fields = json_object();
        json_object_set_new(line, "sample", json_integer((json_int_t)sample));
        leat_cli_json_name(line, "key", key, n);
        describe_row(fields, &leat_dataset_root(slice->dataset)->schema, leat_slice_row(slice, index));
        json_object_set_new(line, "fields", fields);
        json_dumpf(line, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(line);
    } else {
        char *shown = leat_cli_show_key(key, n);
        printf("%" PRIu64 "\t%s\n", sample, shown ? shown : "?");
        free(shown);
    }
}

static leat_status list_samples(const struct ls_settings *s, struct leat_dataset *d, struct leat_error *err)
{
    const uint32_t *counts = leat_dataset_counts(d);
    unsigned wants = LEAT_SLICE_KEYS | (s->json ? LEAT_SLICE_ROWS : 0u);
    uint64_t sample = 0;
    leat_status rc = LEAT_OK;
    for (uint32_t c = 0; rc == LEAT_OK && c < leat_dataset_root(d)->chunks && !ferror(stdout); c++) {
        struct leat_slice slice = {0};
        if (counts[c] == 0)
            continue;
        rc = leat_cli_interrupted() ? leat_fail(err, LEAT_CANCELLED, "interrupted")
                                    : leat_slice_open(d, c, wants, &slice, err);
        for (uint32_t i = 0; rc == LEAT_OK && i < counts[c]; i++)
            print_sample(s, &slice, leat_dataset_index(d, c, i), sample++);
        leat_slice_close(&slice);
    }
    return rc;
}

static int run_samples(const struct ls_settings *s, const char *url)
{
    struct leat_dataset *d = NULL;
    struct leat_error err;
    leat_status rc = LEAT_OK;
    if (s->recursive || s->human)
        rc = leat_fail(&err, LEAT_INVALID, "--samples cannot be combined with --recursive or --human");
    if (rc == LEAT_OK)
        rc = leat_cli_dataset_open(&s->store, url, &d, &err);
    if (rc == LEAT_OK && s->total)
        printf(s->json ? "{\"samples\":%" PRIu64 "}\n" : "%" PRIu64 " samples\n", leat_dataset_samples(d));
    else if (rc == LEAT_OK)
        rc = list_samples(s, d, &err);
    leat_dataset_close(d);
    return rc == LEAT_OK ? leat_cli_finish() : leat_cli_fail(&err);
}

static int run(const void *settings, int argc, char **argv)
{
    const struct ls_settings *s = settings;
    struct leat_error err;
    if (s->null && (s->json || s->total))
        return leat_cli_failf(LEAT_INVALID, "--null cannot be combined with --json or --total");
    if (s->versions && (s->samples || s->total || s->null))
        return leat_cli_failf(LEAT_INVALID, "--versions cannot be combined with --samples, --total or --null");
    if (s->samples)
        return run_samples(s, argc ? argv[0] : "./");
    struct leat_store *store = NULL;
    char *key = NULL;
    struct counts counts = {0};
    const char *where = argc ? argv[0] : "./";
    leat_status rc = leat_cli_store_open(&s->store, where, &store, &key, &err);
    if (rc == LEAT_OK && !s->versions) /* an object that was deleted is no folder, but has versions */
        rc = leat_cli_open_folder(store, &key, &err);
    if (rc == LEAT_OK)
        rc = list(store, key, s, &counts, &err);
    bool nothing = rc == LEAT_OK && !counts.objects && !counts.prefixes && !is_empty(store, key);
    leat_store_close(store);
    free(key);
    if (rc != LEAT_OK)
        return leat_cli_fail(&err);
    if (nothing)
        return leat_cli_failf(LEAT_NOT_FOUND, "there is nothing at '%s'", where);
    if (s->total)
        print_total(&counts, s->json);
    return leat_cli_finish();
}

const struct leat_command leat_command_ls = {
    .name = "ls",
    .arguments = "[URL]",
    .summary = "list a bucket, a prefix or a folder",
    .details = "Prints size, time of change and key, sorted by the bytes of the keys, in constant memory whatever "
               "the number of objects. Without --recursive, everything after the next '/' is shown as one line. An "
               "empty bucket or folder is an empty list; if there is nothing at the URL, that is an error.\n\nWith "
               "--versions, URL is what keys begin with. A version is read, copied and deleted as "
               "s3://BUCKET/KEY?versionId=ID.\n\nWith "
               "--samples, URL is a dataset, and its samples are listed in the order of their numbers. --json adds "
               "what is known of their fields without reading chunks.",
    .examples = "  leat ls s3://bucket/train/\n  leat ls --recursive --json s3://bucket | wc -l\n"
                "  leat ls --recursive --total s3://bucket/train\n"
                "  leat ls --versions s3://bucket/model.pt\n"
                "  leat ls --samples 's3://bucket/photos?name=val' | head\n",
    .options = options,
    .settings_size = sizeof(struct ls_settings),
    .arguments_max = 1,
    .run = run,
};
