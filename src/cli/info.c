#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dataset.h"
#include "dataset/versions.h"
#include "order/order.h"

struct info_settings {
    struct leat_cli_store store;
    bool json;
    bool versions;
};

static const struct leat_option options[] = {
    {"json", 0, LEAT_OPTION_FLAG, offsetof(struct info_settings, json), NULL, NULL, NULL, "print JSON"},
    {"versions", 'V', LEAT_OPTION_FLAG, offsetof(struct info_settings, versions), NULL, NULL, NULL,
     "list the versions of the dataset that are there, the oldest first"},
    LEAT_STORE_OPTIONS(offsetof(struct info_settings, store)),
    {0},
};

static json_t *describe_field(const struct leat_field *f)
{
    json_t *field = json_object();
    json_object_set_new(field, "name", json_string(f->name));
    json_object_set_new(field, "type", json_string(leat_field_type_name(f->type)));
    if (f->needs & LEAT_FIELD_OPTIONAL)
        json_object_set_new(field, "optional", json_true());
    if (leat_field_check(f, NULL) != LEAT_OK)
        json_object_set_new(field, "needs_newer", json_true());
    if (f->about_n) {
        json_t *about = json_loadb(f->about, f->about_n, 0, NULL);
        if (about)
            json_object_set_new(field, "about", about);
    }
    return field;
}

static const char *section_name(uint32_t kind)
{
    if (kind == LEAT_SECTION_SAMPLES)
        return "samples";
    return kind == LEAT_SECTION_KEYS ? "keys" : "unknown";
}

static json_t *describe(const struct leat_dataset *d)
{
    const struct leat_root *r = leat_dataset_root(d);
    char id[2 * LEAT_SHA256_SIZE + 1];
    leat_hex(leat_dataset_id(d), LEAT_SHA256_SIZE, id);
    json_t *info = json_object();
    json_object_set_new(info, "url", json_string(leat_dataset_home(d)->url));
    json_object_set_new(info, "id", json_string(id));
    leat_hex(leat_dataset_root_id(d), LEAT_SHA256_SIZE, id);
    json_object_set_new(info, "root", json_string(id));
    json_object_set_new(info, "format", json_integer(LEAT_FORMAT_VERSION));
    json_object_set_new(info, "samples", json_integer((json_int_t)r->samples));
    json_object_set_new(info, "chunks", json_integer(r->chunks));
    json_object_set_new(info, "bytes", json_integer((json_int_t)r->bytes));
    json_object_set_new(info, "window", json_integer(leat_order_window_default(r->chunks, r->bytes)));
    json_object_set_new(info, "checksums", json_string("packed"));
    json_t *fields = json_array();
    for (uint32_t f = 0; f < r->schema.n; f++)
        json_array_append_new(fields, describe_field(&r->schema.fields[f]));
    json_object_set_new(info, "fields", fields);
    json_t *sections = json_object();
    for (uint32_t s = 0; s < r->sections_n; s++)
        json_object_set_new(sections, section_name(r->sections[s].kind), json_integer((json_int_t)r->sections[s].size));
    json_object_set_new(sections, "root", json_integer((json_int_t)r->size));
    json_object_set_new(info, "snapshot", sections);
    return info;
}

static void print_text(const struct leat_dataset *d, const json_t *info)
{
    const struct leat_root *r = leat_dataset_root(d);
    char bytes[LEAT_FORMAT_SIZE];
    char mean[LEAT_FORMAT_SIZE];
    char window[LEAT_FORMAT_SIZE];
    uint32_t w = leat_order_window_default(r->chunks, r->bytes);
    uint64_t mean_bytes = r->chunks ? r->bytes / r->chunks : 0;
    printf("%s\n", leat_dataset_home(d)->url);
    printf("  id       %s\n", json_string_value(json_object_get(info, "id")));
    printf("  samples  %" PRIu64 "\n", r->samples);
    printf("  chunks   %" PRIu32 " of %s, %s in all, every one with a checksum\n", r->chunks,
           leat_format_size(mean_bytes, mean), leat_format_size(r->bytes, bytes));
    if (w >= r->chunks)
        printf("  window   %" PRIu32 " by default: all chunks are mixed at once\n", w);
    else
        printf("  window   %" PRIu32 " chunks by default, %s\n", w, leat_format_size(w * mean_bytes, window));
    for (uint32_t f = 0; f < r->schema.n; f++) {
        const struct leat_field *field = &r->schema.fields[f];
        json_t *about = field->about_n ? json_loadb(field->about, field->about_n, 0, NULL) : NULL;
        size_t names = json_array_size(json_object_get(about, "names"));
        printf("  field    %s: %s", field->name, leat_field_type_name(field->type));
        if (names)
            printf(", %zu names", names);
        if (field->needs & LEAT_FIELD_OPTIONAL)
            printf(", optional");
        if (leat_field_check(field, NULL) != LEAT_OK)
            printf(", needs a newer Leat");
        putchar('\n');
        json_decref(about);
    }
}

static json_t *describe_version(const struct leat_version *v)
{
    char hex[2 * LEAT_SHA256_SIZE + 1];
    char written[LEAT_CLI_TIME];
    json_t *line = json_object();
    json_t *names = json_array();
    leat_hex(v->pointer.id, LEAT_SHA256_SIZE, hex);
    json_object_set_new(line, "id", json_string(hex));
    leat_hex(v->pointer.root, LEAT_SHA256_SIZE, hex);
    json_object_set_new(line, "root", json_string(hex));
    json_object_set_new(line, "current", json_boolean(v->current));
    for (size_t i = 0; i < v->names_n; i++)
        json_array_append_new(names, json_string(v->names[i]));
    json_object_set_new(line, "names", names);
    leat_cli_format_time(v->written_s, written);
    json_object_set_new(line, "written", v->written_s ? json_string(written) : json_null());
    if (v->err.status == LEAT_OK) {
        json_object_set_new(line, "samples", json_integer((json_int_t)v->head.samples));
        json_object_set_new(line, "chunks", json_integer(v->head.chunks));
        json_object_set_new(line, "bytes", json_integer((json_int_t)v->head.bytes));
    } else {
        json_object_set_new(line, "error", json_string(v->err.text));
    }
    return line;
}

static void print_version(const struct leat_version *v)
{
    char hex[2 * LEAT_SHA256_SIZE + 1];
    char written[LEAT_CLI_TIME];
    char bytes[LEAT_FORMAT_SIZE];
    leat_hex(v->pointer.id, LEAT_SHA256_SIZE, hex);
    leat_cli_format_time(v->written_s, written);
    printf("%.12s  ", hex);
    if (v->err.status == LEAT_OK)
        printf("%12" PRIu64 "  %8" PRIu32 "  %10s", v->head.samples, v->head.chunks,
               leat_format_size(v->head.bytes, bytes));
    else
        printf("%12s  %8s  %10s", "?", "?", "?");
    printf("  %-20s  %s  %s", written, hex, v->current ? "current" : v->names_n ? "" : "-");
    for (size_t i = 0; i < v->names_n; i++)
        printf("%s%s", i || v->current ? ", " : "", v->names[i]);
    if (v->err.status != LEAT_OK)
        printf("  (%s)", v->err.text);
    putchar('\n');
}

static int list_versions(const struct info_settings *s, const char *url)
{
    struct leat_home home;
    struct leat_versions v = {0};
    struct leat_error err;
    leat_status rc = leat_cli_home_open(&s->store, url, &home, &err);
    if (rc != LEAT_OK)
        return leat_cli_fail(&err);
    if (home.id || home.name)
        rc = leat_fail(&err, LEAT_INVALID, "--versions lists all of them: leave out ?%s=", home.id ? "id" : "name");
    else
        rc = leat_versions_open(&home, &v, &err);
    leat_home_close(&home);
    if (rc != LEAT_OK)
        return leat_cli_fail(&err);
    if (!s->json)
        printf("%-12s  %12s  %8s  %10s  %-20s  %-64s  %s\n", "version", "samples", "chunks", "bytes", "written", "id",
               "names");
    json_t *all = json_array();
    for (size_t i = 0; i < v.n; i++) {
        if (s->json)
            json_array_append_new(all, describe_version(&v.list[i]));
        else
            print_version(&v.list[i]);
    }
    if (s->json) {
        json_dumpf(all, stdout, JSON_INDENT(2));
        putchar('\n');
    }
    json_decref(all);
    leat_versions_close(&v);
    return leat_cli_finish();
}

static int run(const void *settings, int argc, char **argv)
{
    (void)argc;
    const struct info_settings *s = settings;
    struct leat_dataset *d;
    struct leat_error err;
    if (s->versions)
        return list_versions(s, argv[0]);
    if (leat_cli_dataset_open(&s->store, argv[0], &d, &err) != LEAT_OK)
        return leat_cli_fail(&err);
    json_t *info = describe(d);
    if (s->json) {
        json_dumpf(info, stdout, JSON_INDENT(2));
        putchar('\n');
    } else {
        print_text(d, info);
    }
    json_decref(info);
    leat_dataset_close(d);
    return leat_cli_finish();
}

const struct leat_command leat_command_info = {
    .name = "info",
    .arguments = "DATASET",
    .summary = "say what is in a dataset",
    .details = "Reads the pointer and the root of the dataset's snapshot, nothing else.\n\n"
               "As in every command that reads a dataset, its address may end with ?id=ID (the version's id, or at "
               "least 8 digits of its beginning) or ?name=NAME; else the current version is meant. --versions lists "
               "what there is.",
    .examples = "  leat info s3://bucket/imagenet/train\n  leat info --json /datasets/photos | jq .samples\n"
                "  leat info --versions s3://bucket/imagenet/train\n"
                "  leat info 's3://bucket/imagenet/train?id=1f0c2e88'\n",
    .options = options,
    .settings_size = sizeof(struct info_settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
