#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dataset.h"
#include "dataset/mix.h"
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
     "list the versions of the dataset, oldest first"},
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
    if (leat_field_has_data(f) && f->encoding == LEAT_ENCODING_ZSTD)
        json_object_set_new(field, "zstd", json_true());
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
    static const char *const names[] = {[LEAT_SECTION_SAMPLES] = "samples",
                                        [LEAT_SECTION_KEYS] = "keys",
                                        [LEAT_SECTION_RECIPES] = "recipes",
                                        [LEAT_SECTION_SOURCES] = "sources",
                                        [LEAT_SECTION_SELECTION] = "selection"};
    return kind < sizeof names / sizeof *names && names[kind] ? names[kind] : "unknown";
}

/* The field whose values are classes; LEAT_FIELDS_MAX: there is none. */
static uint32_t class_field(const struct leat_schema *schema)
{
    for (uint32_t f = 0; f < schema->n; f++) {
        const struct leat_field *field = &schema->fields[f];
        json_t *about = field->about_n ? json_loadb(field->about, field->about_n, 0, NULL) : NULL;
        bool named = json_array_size(json_object_get(about, "names")) > 0;
        json_decref(about);
        if (field->type == LEAT_FIELD_INT && leat_field_check(field, NULL) == LEAT_OK &&
            (named || strcmp(field->name, "cls") == 0))
            return f;
    }
    return LEAT_FIELDS_MAX;
}

/* Looks at the labels of a few samples in the table of samples. *known is false without classes. */
static leat_status judge_mix(struct leat_dataset *d, bool *known, struct leat_mix_result *out, struct leat_error *err)
{
    const struct leat_root *r = leat_dataset_root(d);
    const uint32_t *counts = leat_dataset_counts(d);
    uint32_t field = class_field(&r->schema);
    struct leat_mix mix = {0};
    uint8_t *row = malloc(r->schema.row_bytes + 1);
    leat_status rc = row ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for a row");
    uint64_t first = 0; /* sample of the chunk */
    *known = field < LEAT_FIELDS_MAX && leat_root_section(r, LEAT_SECTION_SAMPLES);
    for (uint32_t c = 0, i = 0; *known && rc == LEAT_OK && i < leat_mix_chunks(r->chunks); first += counts[c++]) {
        if (c != leat_mix_chunk(r->chunks, i))
            continue;
        for (uint32_t k = 0; rc == LEAT_OK && counts[c] && k < leat_mix_samples(r->chunks, counts[c]); k++) {
            rc = leat_dataset_row(d, first + leat_mix_sample(r->chunks, counts[c], k), row, err);
            if (rc == LEAT_OK)
                leat_mix_add(&mix, i, leat_cell_read(&r->schema.fields[field], row).number);
        }
        i++;
    }
    free(row);
    *out = leat_mix_judge(&mix);
    return rc;
}

/* Of a large index a part of the recipes is read. */
#define PINS_BYTES (16u << 20)

struct pinned {
    struct leat_pins pins;
    uint32_t looked_at;
    uint32_t of;
    struct leat_error err; /* why it is not known */
};

static void describe_pins(const struct pinned *p, json_t *info)
{
    char text[LEAT_CLI_PINS];
    json_t *pins = p->err.status == LEAT_OK ? json_loads(leat_cli_json_pins(&p->pins, text), 0, NULL) : json_null();
    json_object_set_new(info, "pinned", pins);
    json_object_set_new(info, "pinned_of", json_integer(p->looked_at));
}

static void print_pins(const struct pinned *p)
{
    char text[LEAT_CLI_PINS];
    if (p->err.status != LEAT_OK)
        printf("  pinned   is unknown: %s\n", p->err.text);
    else if (p->of)
        printf("  pinned   %s", leat_cli_say_pins(&p->pins, text));
    if (p->err.status == LEAT_OK && p->looked_at < p->of)
        printf(" (of %" PRIu32 " that were looked at)", p->looked_at);
    if (p->err.status == LEAT_OK && p->pins.length)
        printf("; 'leat verify --learn' stores checksums");
    if (p->err.status == LEAT_OK && p->of)
        putchar('\n');
}

static void describe_sums(const struct leat_dataset *d, json_t *info)
{
    const struct leat_root *r = leat_dataset_root(d);
    const struct leat_sources_list *l = leat_dataset_sources(d);
    json_object_set_new(info, "checksums", json_string(l ? "indexed" : "packed"));
    if (!l)
        return;
    json_object_set_new(info, "checksums_known", json_integer(r->chunks - leat_root_unsummed(r)));
    json_t *sources = json_array();
    for (uint32_t i = 0; i < l->n; i++)
        json_array_append_new(sources, json_string(l->urls[i]));
    json_object_set_new(info, "sources", sources);
}

static json_t *describe(const struct leat_dataset *d, const struct pinned *pinned)
{
    const struct leat_root *r = leat_dataset_root(d);
    struct leat_cli_used used = leat_cli_used(d);
    char id[2 * LEAT_SHA256_SIZE + 1];
    leat_hex(leat_dataset_id(d), LEAT_SHA256_SIZE, id);
    json_t *info = json_object();
    json_object_set_new(info, "url", json_string(leat_dataset_home(d)->url));
    json_object_set_new(info, "id", json_string(id));
    leat_hex(leat_dataset_root_id(d), LEAT_SHA256_SIZE, id);
    json_object_set_new(info, "root", json_string(id));
    json_object_set_new(info, "format", json_integer(LEAT_FORMAT_VERSION));
    json_object_set_new(info, "samples", json_integer((json_int_t)leat_dataset_samples(d)));
    json_object_set_new(info, "chunks", json_integer(used.chunks));
    json_object_set_new(info, "bytes", json_integer((json_int_t)used.bytes));
    json_object_set_new(info, "window", json_integer(leat_order_window_default(r->chunks, r->bytes)));
    describe_sums(d, info);
    if (leat_dataset_sources(d))
        describe_pins(pinned, info);
    if (leat_root_is_selection(r))
        json_object_set_new(info, "selected_from",
                            json_pack("{s:I,s:I,s:I}", "samples", (json_int_t)r->samples, "chunks",
                                      (json_int_t)r->chunks, "bytes", (json_int_t)r->bytes));
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

static const char *say_sums(const struct leat_root *r, char *out, size_t n)
{
    uint32_t unknown = leat_root_unsummed(r);
    if (unknown == r->chunks)
        snprintf(out, n, "none with a checksum yet");
    else if (unknown)
        snprintf(out, n, "%" PRIu32 " of them with a checksum", r->chunks - unknown);
    else
        snprintf(out, n, "every one with a checksum");
    return out;
}

/* Where the data of an indexed dataset lie. */
static void print_sources(const struct leat_dataset *d)
{
    const struct leat_sources_list *l = leat_dataset_sources(d);
    for (uint32_t i = 0; l && i < l->n; i++)
        printf("  %s %s\n", i ? "       " : "data in", l->urls[i]);
}

static void print_text(const struct leat_dataset *d, const struct pinned *pinned, const json_t *info)
{
    const struct leat_root *r = leat_dataset_root(d);
    char sums[80];
    char bytes[LEAT_FORMAT_SIZE];
    char mean[LEAT_FORMAT_SIZE];
    char window[LEAT_FORMAT_SIZE];
    struct leat_cli_used used = leat_cli_used(d);
    uint32_t w = leat_order_window_default(r->chunks, r->bytes);
    uint64_t mean_bytes = used.chunks ? used.bytes / used.chunks : 0;
    printf("%s\n", leat_dataset_home(d)->url);
    printf("  id       %s\n", json_string_value(json_object_get(info, "id")));
    printf("  samples  %" PRIu64, leat_dataset_samples(d));
    if (leat_root_is_selection(r))
        printf(", selected from %" PRIu64 " in %" PRIu32 " chunks", r->samples, r->chunks);
    printf("\n  chunks   %" PRIu32 " of %s, %s in total, %s\n", used.chunks, leat_format_size(mean_bytes, mean),
           leat_format_size(used.bytes, bytes), say_sums(r, sums, sizeof sums));
    print_sources(d);
    print_pins(pinned);
    if (w >= used.chunks)
        printf("  window   %" PRIu32 " by default: all chunks are mixed at once\n", w);
    else
        printf("  window   %" PRIu32 " chunks by default, %s\n", w, leat_format_size(w * mean_bytes, window));
    for (uint32_t f = 0; f < r->schema.n; f++) {
        const struct leat_field *field = &r->schema.fields[f];
        json_t *about = field->about_n ? json_loadb(field->about, field->about_n, 0, NULL) : NULL;
        size_t names = json_array_size(json_object_get(about, "names"));
        printf("  field    %s: %s", field->name, leat_field_type_name(field->type));
        if (leat_field_kind(field->type) && leat_field_kind(field->type)->typed)
            printf(" of %s", leat_dtype_name(field->dtype));
        for (uint32_t k = 0; k < field->dims_n; k++) {
            char size[16] = "*"; /* it varies */
            if (field->dims[k])
                snprintf(size, sizeof size, "%u", field->dims[k]);
            printf("%s%s", k ? " x " : ", ", size);
        }
        if (names)
            printf(", %zu names", names);
        if (leat_field_has_data(field) && field->encoding == LEAT_ENCODING_ZSTD)
            printf(", zstd");
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
    struct leat_mix_result mix = {0};
    bool known;
    bool looked = judge_mix(d, &known, &mix, &err) == LEAT_OK;
    known = known && looked;
    struct pinned pinned = {0};
    if (leat_dataset_sources(d)) {
        leat_status rc = leat_pins_count(d, PINS_BYTES, &pinned.pins, &pinned.looked_at, &pinned.of, &pinned.err);
        leat_error_settle(&pinned.err, rc);
    }
    json_t *info = describe(d, &pinned);
    json_object_set_new(info, "sorted_by_class", known ? json_boolean(mix.sorted) : json_null());
    if (s->json) {
        json_dumpf(info, stdout, JSON_INDENT(2));
        putchar('\n');
    } else {
        print_text(d, &pinned, info);
        if (!looked)
            printf("  sorted   by class or not is unknown: %s\n", err.text);
        else if (mix.sorted)
            leat_cli_print_mix("  sorted   by class", &mix, leat_dataset_root(d)->chunks, leat_dataset_root(d)->bytes);
    }
    json_decref(info);
    leat_dataset_close(d);
    return leat_cli_finish();
}

const struct leat_command leat_command_info = {
    .name = "info",
    .arguments = "DATASET",
    .summary = "describe a dataset",
    .details =
        "Reads the pointer and the root of the dataset's snapshot. If the dataset has classes, it also reads the "
        "labels of at most 256 samples, to see whether the chunks are sorted by class. For data indexed in place it "
        "reads "
        "recipes, at most 16 MiB of them, to report how chunks are pinned to the data that were indexed.\n\nAs in "
        "every command that "
        "reads a dataset, the address may end with ?id=ID (the id of a version, or at least its first 8 digits) or "
        "?name=NAME; without them it means the current version. --versions lists all versions.",
    .examples = "  leat info s3://bucket/imagenet/train\n  leat info --json /datasets/photos | jq .samples\n"
                "  leat info --versions s3://bucket/imagenet/train\n"
                "  leat info 's3://bucket/imagenet/train?id=1f0c2e88'\n",
    .options = options,
    .settings_size = sizeof(struct info_settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
