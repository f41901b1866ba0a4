#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dataset.h"
#include "cli/sample.h"
#include "cli/text.h"
#include "prep/pipeline.h"
#include "prep/png_write.h"

#define COUNT_MAX 10000u
#define TEXT_MAX  ((size_t)16 << 20)
#define SHEET_MAX ((uint64_t)1 << 30) /* bytes of its pixels */
#define GAP       4u                  /* pixels between pictures */

struct show_settings {
    struct leat_cli_store store;
    const char *key;
    const char *count;
    const char *output;
    const char *field;
    uint64_t size;
    uint64_t columns;
    uint64_t width;
};

static const struct leat_option options[] = {
    {"key", 'k', LEAT_OPTION_STRING, offsetof(struct show_settings, key), "KEY", NULL, NULL,
     "the sample with this key"},
    {"count", 'c', LEAT_OPTION_STRING, offsetof(struct show_settings, count), "N", NULL, NULL,
     "how many samples to show, from that one on (default: 1; on a sheet 25)"},
    {"output", 'o', LEAT_OPTION_STRING, offsetof(struct show_settings, output), "FILE", NULL, NULL,
     "write the pictures to a sheet, a PNG file; their numbers and keys are printed row by row"},
    {"field", 0, LEAT_OPTION_STRING, offsetof(struct show_settings, field), "NAME", NULL, NULL,
     "image field for the sheet (default: the first)"},
    {"size", 0, LEAT_OPTION_U64, offsetof(struct show_settings, size), "PIXELS", "160", NULL,
     "pixels of the longer side of a picture on the sheet"},
    {"columns", 0, LEAT_OPTION_U64, offsetof(struct show_settings, columns), "N", "0", NULL,
     "pictures per row of the sheet (0: about as many as there are rows)"},
    {"width", 0, LEAT_OPTION_U64, offsetof(struct show_settings, width), "N", "0", NULL,
     "characters per line (0: the width of the terminal, 100 if there is none)"},
    LEAT_STORE_OPTIONS(offsetof(struct show_settings, store)),
    {0},
};

struct showing {
    const struct show_settings *settings;
    struct leat_dataset *dataset;
    uint64_t first;
    uint64_t n;
    void *data; /* of the chunk at hand */
    struct leat_chunk chunk;
    uint32_t chunk_number; /* UINT32_MAX: none */
};

/* The chunk of a sample, and where it lies there. Samples that follow each other are mostly in the same. */
static leat_status load(struct showing *s, uint64_t sample, uint32_t *index, struct leat_error *err)
{
    uint32_t number = leat_dataset_locate(s->dataset, sample, index);
    if (number == s->chunk_number)
        return LEAT_OK;
    free(s->data);
    s->data = NULL;
    s->chunk_number = UINT32_MAX;
    leat_status rc = leat_dataset_load(s->dataset, number, &s->data, &s->chunk, err);
    if (rc == LEAT_OK)
        s->chunk_number = number;
    return rc;
}

static leat_status show_text(struct showing *s, struct leat_error *err)
{
    size_t columns = s->settings->width ? (size_t)s->settings->width : leat_cli_columns();
    leat_status rc = LEAT_OK;
    for (uint64_t i = 0; rc == LEAT_OK && i < s->n && !ferror(stdout); i++) {
        struct leat_buf text;
        uint32_t index = 0;
        leat_buf_init(&text, TEXT_MAX);
        rc =
            leat_cli_interrupted() ? leat_fail(err, LEAT_CANCELLED, "interrupted") : load(s, s->first + i, &index, err);
        if (rc == LEAT_OK)
            rc = leat_cli_describe_sample(&s->chunk, index, s->first + i, columns, &text, err);
        if (rc == LEAT_OK)
            printf("%s%s", i ? "\n" : "", text.data);
        leat_buf_free(&text);
    }
    return rc;
}

/* The sheet */

struct sheet {
    uint8_t *pixels; /* RGB */
    uint64_t columns;
    uint32_t side; /* of a place */
    uint64_t width;
    uint64_t height;
    uint64_t failed;
    struct leat_error why; /* the first failure */
};

static leat_status pick_image(const struct leat_schema *schema, const char *name, uint32_t *out, struct leat_error *err)
{
    for (uint32_t f = 0; f < schema->n; f++) {
        if (schema->fields[f].type != LEAT_FIELD_IMAGE || (name && strcmp(schema->fields[f].name, name) != 0))
            continue;
        *out = f;
        return leat_field_check(&schema->fields[f], err);
    }
    return leat_fail(err, LEAT_INVALID,
                     name ? "'%s' is not an image field of the dataset" : "the dataset has no images%s",
                     name ? name : "");
}

static leat_status make_sheet(const struct showing *s, struct sheet *out, struct leat_error *err)
{
    const struct show_settings *set = s->settings;
    uint64_t columns = set->columns ? set->columns : (uint64_t)ceil(sqrt((double)s->n));
    if (set->size < 8 || set->size > 4096)
        return leat_fail(err, LEAT_INVALID, "--size: %" PRIu64 " is not between 8 and 4096", set->size);
    if (columns > s->n)
        columns = s->n;
    uint64_t rows = (s->n + columns - 1) / columns;
    out->side = (uint32_t)set->size;
    out->columns = columns;
    out->width = columns * (out->side + GAP) - GAP;
    out->height = rows * (out->side + GAP) - GAP;
    if (out->width * out->height * 3 > SHEET_MAX)
        return leat_fail(err, LEAT_LIMIT,
                         "a sheet of %" PRIu64 "x%" PRIu64 " is too large: show fewer samples or smaller", out->width,
                         out->height);
    out->pixels = malloc(out->width * out->height * 3);
    if (!out->pixels)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the sheet");
    memset(out->pixels, 255, out->width * out->height * 3);
    return LEAT_OK;
}

/* Decodes a picture into its place, as large as fits there, upright. */
static leat_status draw(struct sheet *sheet, uint64_t place, struct leat_scratch *scratch, const void *data, size_t n,
                        struct leat_error *err)
{
    struct leat_prep_description description;
    struct leat_pipeline *pipeline = NULL;
    struct leat_image_info info;
    uint32_t size[2];
    char text[64];
    uint8_t *pixels = NULL;
    leat_status rc = leat_image_probe(data, n, &info, err);
    if (rc != LEAT_OK)
        return rc;
    bool turned = info.orientation > 4;
    double wide = turned ? info.height : info.width;
    double high = turned ? info.width : info.height;
    double scale = sheet->side / fmax(wide, high);
    size[0] = (uint32_t)fmin(fmax(round(wide * scale), 1), sheet->side);
    size[1] = (uint32_t)fmin(fmax(round(high * scale), 1), sheet->side);
    snprintf(text, sizeof text, "resize=%" PRIu32 "x%" PRIu32 " mode=fast", size[0], size[1]);
    rc = leat_prep_parse(text, &description, err);
    if (rc == LEAT_OK)
        rc = leat_pipeline_make(&description, &pipeline, err);
    uint64_t bytes = (uint64_t)size[0] * size[1] * 3;
    if (rc == LEAT_OK && leat_pipeline_bytes(pipeline, size[0], size[1]) != bytes)
        rc = leat_fail(err, LEAT_INTERNAL, "a picture of another size than was asked for");
    if (rc == LEAT_OK && !(pixels = malloc(bytes)))
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for a picture");
    if (rc == LEAT_OK)
        rc = leat_pipeline_run(pipeline, scratch, data, n, leat_prep_draws(0, 0, 0, 0), pixels, bytes, err);
    uint64_t left = place % sheet->columns * (sheet->side + GAP) + (sheet->side - size[0]) / 2;
    uint64_t top = place / sheet->columns * (sheet->side + GAP) + (sheet->side - size[1]) / 2;
    for (uint32_t y = 0; rc == LEAT_OK && y < size[1]; y++)
        memcpy(sheet->pixels + ((top + y) * sheet->width + left) * 3, pixels + (size_t)y * size[0] * 3,
               (size_t)size[0] * 3);
    free(pixels);
    leat_pipeline_free(pipeline);
    return rc;
}

/* What cannot be decoded is a grey place, a line that says why, and in the end the exit status. */
static leat_status add_picture(struct showing *s, struct sheet *sheet, uint64_t i, uint32_t field,
                               struct leat_scratch *scratch, struct leat_error *err)
{
    struct leat_error why = {0};
    const void *data = NULL;
    void *own = NULL;
    uint32_t index = 0;
    size_t key_n;
    leat_status rc = load(s, s->first + i, &index, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_cell cell = leat_chunk_cell(&s->chunk, index, field);
    leat_status seen = cell.absent ? LEAT_OK : leat_chunk_view(&s->chunk, &cell, &data, &own, &why);
    if (seen == LEAT_OK && !cell.absent)
        seen = draw(sheet, i, scratch, data, cell.raw, &why);
    free(own);
    const char *key = leat_chunk_key(&s->chunk, index, &key_n);
    char *shown = leat_cli_show_key(key, key_n);
    printf("%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%s%s%s\n", i / sheet->columns, i % sheet->columns, s->first + i,
           shown ? shown : "",
           cell.absent       ? "\tno picture"
           : seen == LEAT_OK ? ""
                             : "\t",
           seen == LEAT_OK ? "" : why.text);
    free(shown);
    if (seen != LEAT_OK && sheet->failed++ == 0)
        sheet->why = why;
    for (uint32_t y = 0; seen != LEAT_OK && y < sheet->side; y++) {
        uint64_t row = i / sheet->columns * (sheet->side + GAP) + y;
        memset(sheet->pixels + (row * sheet->width + i % sheet->columns * (sheet->side + GAP)) * 3, 160,
               (size_t)sheet->side * 3);
    }
    return LEAT_OK;
}

static leat_status write_sheet(const struct sheet *sheet, const char *path, struct leat_error *err)
{
    struct leat_buf png;
    leat_buf_init(&png, SIZE_MAX / 2);
    leat_status rc = leat_png_write(sheet->pixels, (uint32_t)sheet->width, (uint32_t)sheet->height, 3, &png, err);
    if (rc == LEAT_OK)
        rc = leat_cli_write_file(path, &png, err);
    leat_buf_free(&png);
    return rc;
}

static leat_status show_sheet(struct showing *s, struct leat_error *err)
{
    struct sheet sheet = {0};
    struct leat_scratch *scratch = NULL;
    uint32_t field = 0;
    leat_status rc = pick_image(&leat_dataset_root(s->dataset)->schema, s->settings->field, &field, err);
    if (rc == LEAT_OK)
        rc = make_sheet(s, &sheet, err);
    if (rc == LEAT_OK)
        rc = leat_scratch_open(0, NULL, &scratch, err);
    for (uint64_t i = 0; rc == LEAT_OK && i < s->n; i++)
        rc = leat_cli_interrupted() ? leat_fail(err, LEAT_CANCELLED, "interrupted")
                                    : add_picture(s, &sheet, i, field, scratch, err);
    if (rc == LEAT_OK)
        rc = write_sheet(&sheet, s->settings->output, err);
    leat_scratch_close(scratch);
    free(sheet.pixels);
    if (rc == LEAT_OK && sheet.failed)
        rc = leat_fail(err, sheet.why.status, "%" PRIu64 " of %" PRIu64 " pictures cannot be shown: %s", sheet.failed,
                       s->n, sheet.why.text);
    return rc;
}

static leat_status read_place(struct showing *s, int argc, char **argv, struct leat_error *err)
{
    const struct show_settings *set = s->settings;
    uint64_t samples = leat_dataset_samples(s->dataset);
    uint64_t same = 0;
    leat_status rc = LEAT_OK;
    s->n = set->output ? 25 : 1;
    if (argc > 1 && set->key)
        return leat_fail(err, LEAT_INVALID, "give a number or a key, not both");
    if (argc > 1)
        rc = leat_parse_u64(argv[1], "the sample's number", &s->first, err);
    if (rc == LEAT_OK && set->key)
        rc = leat_dataset_find(s->dataset, set->key, strlen(set->key), &s->first, &same, err);
    if (rc == LEAT_OK && set->count)
        rc = leat_parse_u64(set->count, "--count", &s->n, err);
    if (rc == LEAT_OK && (s->n == 0 || s->n > COUNT_MAX))
        rc = leat_fail(err, LEAT_INVALID, "--count: %" PRIu64 " is not between 1 and %u", s->n, COUNT_MAX);
    if (rc == LEAT_OK && s->first >= samples)
        rc = leat_fail(err, LEAT_NOT_FOUND, "there is no sample %" PRIu64 ": the dataset has %" PRIu64, s->first,
                       samples);
    if (rc == LEAT_OK && s->n > samples - s->first)
        s->n = samples - s->first;
    if (rc == LEAT_OK && same > 1)
        fprintf(stderr, "leat: %" PRIu64 " samples have this key; this is the first, number %" PRIu64 "\n", same,
                s->first);
    return rc;
}

static int run(const void *settings, int argc, char **argv)
{
    struct showing s = {.settings = settings, .chunk_number = UINT32_MAX};
    struct leat_error err;
    leat_status rc = leat_cli_dataset_open(&s.settings->store, argv[0], &s.dataset, &err);
    if (rc == LEAT_OK)
        rc = read_place(&s, argc, argv, &err);
    if (rc == LEAT_OK)
        rc = s.settings->output ? show_sheet(&s, &err) : show_text(&s, &err);
    free(s.data);
    leat_dataset_close(s.dataset);
    return rc == LEAT_OK ? leat_cli_finish() : leat_cli_fail(&err);
}

const struct leat_command leat_command_show = {
    .name = "show",
    .arguments = "DATASET [NUMBER]",
    .summary = "show a sample of a dataset in readable form",
    .details =
        "Prints the number and key of a sample (default: sample 0), and each of its fields: type, size and format "
        "of an image, text in quotes, shape and first numbers of an array, first tokens, JSON indented, the name of "
        "a label. What is too long for the line is cut. Unprintable bytes are shown as \\xHH. 'leat cat' writes a "
        "whole value.\n\nWith -o, pictures are written to a sheet, in rows. Their places are printed: row, column, "
        "number, key, separated by tabs. A picture that cannot be decoded leaves a grey place, and the command ends "
        "with an error.",
    .examples = "  leat show s3://bucket/imagenet/train 17\n"
                "  leat show --key n01440764/n01440764_18.JPEG s3://bucket/imagenet/train\n"
                "  leat show -c 100 -o sheet.png 's3://bucket/photos?name=large-cats'\n",
    .options = options,
    .settings_size = sizeof(struct show_settings),
    .arguments_min = 1,
    .arguments_max = 2,
    .run = run,
};
