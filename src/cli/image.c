#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "prep/pipeline.h"
#include "prep/png_write.h"
#include "prep/sound.h"

#define FILE_MAX  ((size_t)1 << 30)
#define SHEET_MAX ((uint64_t)1 << 30)
#define GAP       4 /* pixels between the pictures of a sheet */

struct image_settings {
    const char *pipeline;
    const char *crop;
    const char *random_crop;
    const char *random_resized_crop;
    const char *scale;
    const char *ratio;
    const char *resize;
    const char *center_crop;
    const char *flip;
    const char *filter;
    const char *mode;
    const char *colour;
    const char *orientation;
    const char *alpha;
    const char *damage;
    const char *output;
    bool words;
    bool sound_words;
    uint64_t seed;
    uint64_t epoch;
    uint64_t draws;
};

#define FIELD(name) offsetof(struct image_settings, name)

static const struct leat_option options[] = {
    {"crop", 0, LEAT_OPTION_STRING, FIELD(crop), "WxH+X+Y", NULL, NULL, "cut out this box"},
    {"random-resized-crop", 0, LEAT_OPTION_STRING, FIELD(random_resized_crop), "SIZE", NULL, NULL,
     "cut out a box of random area and aspect ratio, and resize it"},
    {"scale", 0, LEAT_OPTION_STRING, FIELD(scale), "MIN:MAX", NULL, NULL,
     "area of the random resized crop as a share of the picture (default: 0.08:1)"},
    {"ratio", 0, LEAT_OPTION_STRING, FIELD(ratio), "MIN:MAX", NULL, NULL,
     "width over height of the random resized crop (default: 3/4 to 4/3)"},
    {"resize", 0, LEAT_OPTION_STRING, FIELD(resize), "SIZE", NULL, NULL,
     "resize: one number for the shorter side, or 320x240"},
    {"center-crop", 0, LEAT_OPTION_STRING, FIELD(center_crop), "SIZE", NULL, NULL, "cut out the middle"},
    {"random-crop", 0, LEAT_OPTION_STRING, FIELD(random_crop), "SIZE", NULL, NULL, "cut out a box at random"},
    {"flip", 0, LEAT_OPTION_STRING, FIELD(flip), "P", NULL, NULL, "mirror left to right with this probability"},
    {"filter", 0, LEAT_OPTION_STRING, FIELD(filter), "NAME", NULL, NULL, "bilinear (default), bicubic or nearest"},
    {"mode", 0, LEAT_OPTION_STRING, FIELD(mode), "NAME", NULL, NULL, "exact (default) or fast"},
    {"colour", 0, LEAT_OPTION_STRING, FIELD(colour), "NAME", NULL, NULL, "rgb (default), gray, index or rgba"},
    {"orientation", 0, LEAT_OPTION_STRING, FIELD(orientation), "NAME", NULL, NULL,
     "stored (default), or upright: turned as EXIF says"},
    {"alpha", 0, LEAT_OPTION_STRING, FIELD(alpha), "NAME", NULL, NULL, "drop (default), or blend: over the background"},
    {"damage", 0, LEAT_OPTION_STRING, FIELD(damage), "NAME", NULL, NULL,
     "a damaged file is an error (default), or gives the rows that are there: rows"},
    {"pipeline", 'p', LEAT_OPTION_STRING, FIELD(pipeline), "TEXT", NULL, NULL,
     "a whole pipeline, as for a loader; the options above are added after it"},
    {"words", 0, LEAT_OPTION_FLAG, FIELD(words), NULL, NULL, NULL,
     "list the words of a pipeline: steps, augmentations, their parameters and settings"},
    {"sound-words", 0, LEAT_OPTION_FLAG, FIELD(sound_words), NULL, NULL, NULL, "list the words for sounds"},
    {"seed", 0, LEAT_OPTION_U64, FIELD(seed), "N", "0", NULL, "of the random draws"},
    {"epoch", 0, LEAT_OPTION_U64, FIELD(epoch), "N", "0", NULL, "of the random draws"},
    {"draws", 'n', LEAT_OPTION_U64, FIELD(draws), "N", "1", NULL, "show each file this many times, side by side"},
    {"output", 'o', LEAT_OPTION_STRING, FIELD(output), "FILE", NULL, NULL,
     "write the result here, as PNG; '-' is standard output"},
    {0},
};

/* One picture of the sheet. */
struct cell {
    uint8_t *pixels;
    uint32_t width;
    uint32_t height;
};

struct sheet {
    struct cell *cells; /* by file, then draw */
    uint64_t bytes;     /* of all that are there */
    size_t files;
    size_t draws;
    unsigned channels;
};

/* The options in the order in which steps make sense, as the pipeline's own words. */
static leat_status describe(const struct image_settings *s, struct leat_prep_description *out, struct leat_error *err)
{
    const struct {
        const char *word;
        const char *value;
    } words[] = {
        {"crop", s->crop},
        {"random_resized_crop", s->random_resized_crop},
        {"scale", s->scale},
        {"ratio", s->ratio},
        {"resize", s->resize},
        {"center_crop", s->center_crop},
        {"random_crop", s->random_crop},
        {"flip", s->flip},
        {"filter", s->filter},
        {"mode", s->mode},
        {"colour", s->colour},
        {"orientation", s->orientation},
        {"alpha", s->alpha},
        {"damage", s->damage},
    };
    struct leat_buf text;
    leat_buf_init(&text, 4096);
    leat_buf_str(&text, s->pipeline ? s->pipeline : "");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (words[i].value)
            leat_buf_printf(&text, " %s=%s", words[i].word, words[i].value);
    }
    leat_status rc = leat_buf_check(&text, "the pipeline", err);
    if (rc == LEAT_OK)
        rc = leat_prep_parse(text.data, out, err);
    leat_buf_free(&text);
    if (rc == LEAT_OK && out->dtype != LEAT_DTYPE_UINT8)
        rc = leat_fail(err, LEAT_INVALID, "dtype: pictures shown here are uint8");
    if (rc == LEAT_OK && *out->follow)
        rc = leat_fail(err, LEAT_INVALID, "follow=%s: files have no fields; follow is for loaders", out->follow);
    /* A sheet is put together from pixels side by side. */
    out->layout = LEAT_LAYOUT_NHWC;
    return rc;
}

static leat_status read_file(const char *path, struct leat_buf *out, struct leat_error *err)
{
    FILE *f = fopen(path, "rb");
    char block[65536];
    size_t n;
    if (!f)
        return leat_fail_errno(err, errno, "cannot read %s", path);
    while ((n = fread(block, 1, sizeof block, f)) > 0 && leat_buf_add(out, block, n))
        ;
    leat_status rc = ferror(f) ? leat_fail_errno(err, errno, "cannot read %s", path) : leat_buf_check(out, path, err);
    fclose(f);
    return rc;
}

static void print_info(const char *path, const struct leat_image_info *info)
{
    printf("%s: %s %" PRIu32 "x%" PRIu32 ", %u component%s of %u bits", path, leat_image_type_name(info->type),
           info->width, info->height, info->components, info->components == 1 ? "" : "s", info->bits);
    if (info->palette)
        printf(", palette");
    if (info->alpha)
        printf(", alpha");
    if (info->progressive)
        printf(info->type == LEAT_IMAGE_PNG ? ", interlaced" : ", progressive");
    if (info->arithmetic)
        printf(", arithmetic coding");
    if (info->orientation != 1)
        printf(", orientation %u", info->orientation);
    putchar('\n');
}

static void print_drawn(uint64_t draw, const struct leat_drawn *drawn)
{
    const struct leat_geometry *g = &drawn->geometry;
    printf("  draw %" PRIu64 ": %" PRIu32 "x%" PRIu32 "+%" PRIu32 "+%" PRIu32, draw, g->crop.width, g->crop.height,
           g->crop.x, g->crop.y);
    if (g->resized[0] != g->crop.width || g->resized[1] != g->crop.height)
        printf(" to %" PRIu32 "x%" PRIu32, g->resized[0], g->resized[1]);
    if (g->output[0] != g->resized[0] || g->output[1] != g->resized[1])
        printf(", of it %" PRIu32 "x%" PRIu32, g->output[0], g->output[1]);
    printf("%s%s", g->flip ? ", mirrored" : "", g->vflip ? ", upside down" : "");
    for (unsigned i = 0; i < drawn->ops.count; i++) {
        char text[300];
        leat_op_print(&drawn->ops.op[i], text, sizeof text);
        printf("%s%s", i ? ", " : "; ", text);
    }
    putchar('\n');
}

static leat_status prepare(const struct leat_pipeline *pipeline, struct leat_scratch *scratch,
                           const struct leat_buf *file, const struct leat_image_info *info, struct leat_rng draws,
                           struct cell *out, struct leat_drawn *drawn, struct leat_error *err)
{
    const struct leat_geometry *g = &drawn->geometry;
    leat_status rc = leat_pipeline_plan(pipeline, info, draws, drawn, err);
    if (rc != LEAT_OK)
        return rc;
    uint64_t bytes = leat_pipeline_bytes(pipeline, g->output[0], g->output[1]);
    if (bytes > SHEET_MAX)
        return leat_fail(err, LEAT_LIMIT, "a picture of %" PRIu32 "x%" PRIu32 " is too large to show", g->output[0],
                         g->output[1]);
    out->pixels = malloc((size_t)bytes);
    if (!out->pixels)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a picture");
    out->width = g->output[0];
    out->height = g->output[1];
    return leat_pipeline_run(pipeline, scratch, file->data, file->len, draws, out->pixels, bytes, err);
}

/* Only what will be part of a sheet stays in memory. */
static leat_status keep(const struct image_settings *s, struct cell *cell, struct sheet *sheet, struct leat_error *err)
{
    if (!s->output) {
        free(cell->pixels);
        cell->pixels = NULL;
        return LEAT_OK;
    }
    sheet->bytes += (uint64_t)cell->width * cell->height * sheet->channels;
    if (sheet->bytes > SHEET_MAX)
        return leat_fail(err, LEAT_LIMIT, "a sheet of more than %" PRIu64 " bytes: ask for fewer draws or files",
                         SHEET_MAX);
    return LEAT_OK;
}

static leat_status show_file(const struct image_settings *s, const struct leat_pipeline *pipeline,
                             struct leat_scratch *scratch, const char *path, size_t number, struct sheet *sheet,
                             struct leat_error *err)
{
    uint64_t key = leat_key("augment", s->seed, s->epoch, NULL, 0);
    struct leat_buf file;
    struct leat_image_info info;
    bool quiet = s->output && strcmp(s->output, "-") == 0;
    leat_buf_init(&file, FILE_MAX);
    leat_status rc = read_file(path, &file, err);
    if (rc == LEAT_OK) {
        rc = leat_image_probe(file.data, file.len, &info, err);
        if (rc == LEAT_OK && !quiet)
            print_info(path, &info);
        for (uint64_t i = 0; rc == LEAT_OK && i < s->draws && !leat_cli_interrupted(); i++) {
            struct leat_drawn drawn;
            struct cell *cell = &sheet->cells[number * sheet->draws + i];
            rc = prepare(pipeline, scratch, &file, &info, leat_prep_draws(key, number, (uint32_t)i, 0), cell, &drawn,
                         err);
            if (rc == LEAT_OK && !quiet)
                print_drawn(i, &drawn);
            if (rc == LEAT_OK)
                rc = keep(s, cell, sheet, err);
        }
        if (rc != LEAT_OK)
            leat_fail_context(err, rc, "%s", path);
    }
    leat_buf_free(&file);
    if (rc == LEAT_OK && leat_cli_interrupted())
        rc = leat_fail(err, LEAT_CANCELLED, "interrupted");
    return rc;
}

/* All cells in one picture, one row per file, on white. */
static leat_status join(const struct sheet *sheet, struct cell *out, struct leat_error *err)
{
    uint32_t widest = 0;
    uint64_t height = 0;
    unsigned c = sheet->channels;
    for (size_t f = 0; f < sheet->files; f++) {
        uint32_t tallest = 0;
        for (size_t d = 0; d < sheet->draws; d++) {
            const struct cell *cell = &sheet->cells[f * sheet->draws + d];
            widest = cell->width > widest ? cell->width : widest;
            tallest = cell->height > tallest ? cell->height : tallest;
        }
        height += tallest + (f ? GAP : 0);
    }
    uint64_t width = (uint64_t)sheet->draws * (widest + GAP) - GAP;
    if (width > INT32_MAX || height > INT32_MAX || width * height * c > SHEET_MAX)
        return leat_fail(err, LEAT_LIMIT,
                         "a sheet of %" PRIu64 "x%" PRIu64 " is too large: ask for fewer draws or files", width,
                         height);
    out->pixels = malloc(width * height * c);
    if (!out->pixels)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the sheet");
    memset(out->pixels, 255, width * height * c);
    out->width = (uint32_t)width;
    out->height = (uint32_t)height;
    uint64_t top = 0;
    for (size_t f = 0; f < sheet->files; f++) {
        uint32_t tallest = 0;
        for (size_t d = 0; d < sheet->draws; d++) {
            const struct cell *cell = &sheet->cells[f * sheet->draws + d];
            for (uint32_t y = 0; y < cell->height; y++)
                memcpy(out->pixels + ((top + y) * width + d * (widest + GAP)) * c,
                       cell->pixels + (size_t)cell->width * y * c, (size_t)cell->width * c);
            tallest = cell->height > tallest ? cell->height : tallest;
        }
        top += tallest + GAP;
    }
    return LEAT_OK;
}

static leat_status write_file(const char *path, const struct leat_buf *png, struct leat_error *err)
{
    if (strcmp(path, "-") == 0) {
        fwrite(png->data, 1, png->len, stdout);
        return LEAT_OK; /* leat_cli_finish() looks at stdout */
    }
    FILE *f = fopen(path, "wb");
    if (!f)
        return leat_fail_errno(err, errno, "cannot write %s", path);
    struct stat st;
    bool ours = fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode); /* never a device or a pipe */
    bool ok = fwrite(png->data, 1, png->len, f) == png->len;
    int reason = errno;
    if (fclose(f) != 0 && ok) {
        ok = false;
        reason = errno;
    }
    if (ok)
        return LEAT_OK;
    if (ours)
        remove(path);
    return leat_fail_errno(err, reason, "cannot write %s", path);
}

static leat_status write_sheet(const char *path, const struct sheet *sheet, struct leat_error *err)
{
    struct cell joined = {0};
    struct leat_buf png;
    leat_buf_init(&png, SIZE_MAX / 2);
    leat_status rc = join(sheet, &joined, err);
    if (rc == LEAT_OK)
        rc = leat_png_write(joined.pixels, joined.width, joined.height, sheet->channels, &png, err);
    if (rc == LEAT_OK)
        rc = write_file(path, &png, err);
    leat_buf_free(&png);
    free(joined.pixels);
    return rc;
}

static leat_status show(const struct image_settings *s, int argc, char **argv, struct leat_error *err)
{
    struct leat_prep_description description;
    struct leat_pipeline *pipeline = NULL;
    struct leat_scratch *scratch = NULL;
    struct sheet sheet = {.files = (size_t)argc, .draws = s->draws};
    if (s->draws < 1 || s->draws > 10000)
        return leat_fail(err, LEAT_INVALID, "--draws: %" PRIu64 " is not between 1 and 10000", s->draws);
    leat_status rc = describe(s, &description, err);
    if (rc == LEAT_OK)
        rc = leat_pipeline_make(&description, &pipeline, err);
    if (rc == LEAT_OK)
        rc = leat_scratch_open(0, NULL, &scratch, err);
    if (rc == LEAT_OK) {
        sheet.channels = leat_pipeline_channels(pipeline);
        sheet.cells = calloc(sheet.files * sheet.draws, sizeof *sheet.cells);
        if (!sheet.cells)
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the sheet");
    }
    for (int i = 0; rc == LEAT_OK && i < argc; i++)
        rc = show_file(s, pipeline, scratch, argv[i], (size_t)i, &sheet, err);
    if (rc == LEAT_OK && s->output)
        rc = write_sheet(s->output, &sheet, err);
    for (size_t i = 0; sheet.cells && i < sheet.files * sheet.draws; i++)
        free(sheet.cells[i].pixels);
    free(sheet.cells);
    leat_scratch_close(scratch);
    leat_pipeline_free(pipeline);
    return rc;
}

/* What the value of a word looks like. */
static const char *form_of(enum leat_word_type type)
{
    static const char *const forms[] = {
        [LEAT_WORD_BOX] = "=WxH+X+Y",    [LEAT_WORD_SIZE] = "=SIZE",
        [LEAT_WORD_SIDE] = "=SIZE",      [LEAT_WORD_COUNT] = "=N",
        [LEAT_WORD_NUMBER] = "=X",       [LEAT_WORD_WHOLE] = "=N",
        [LEAT_WORD_RANGE] = "=LOW:HIGH", [LEAT_WORD_SPAN] = "=LOW:HIGH",
        [LEAT_WORD_PAIR] = "=X:Y",       [LEAT_WORD_SHEAR] = "=LOW:HIGH:LOW:HIGH",
        [LEAT_WORD_JITTER] = "=B:C:S:H", [LEAT_WORD_CHANNELS] = "=R:G:B",
        [LEAT_WORD_COLOUR] = "=R:G:B",   [LEAT_WORD_LEVELS] = "=R:G:B",
        [LEAT_WORD_CHOICE] = "=NAME",    [LEAT_WORD_FLAG] = "=NAME",
        [LEAT_WORD_TEXT] = "=FIELD",
    };
    return forms[type];
}

static void print_words(const struct leat_word *words)
{
    printf("%-34s  %-12s  %-34s  %s\n", "WORD", "DEFAULT", "VALUES", "MEANING");
    for (const struct leat_word *w = words; w->name; w++) {
        char values[100] = "-";
        char word[60];
        if (w->low != w->high)
            snprintf(values, sizeof values, "%g to %g", w->low, w->high);
        for (int i = 0; w->choices && w->choices[i]; i++) {
            size_t n = i ? strlen(values) : 0;
            snprintf(values + n, sizeof values - n, "%s%s", i ? ", " : "", w->choices[i]);
        }
        snprintf(word, sizeof word, "%s%s%s", w->place == LEAT_WORD_PARAMETER ? "  " : "", w->name, form_of(w->type));
        printf("%-34s  %-12s  %-34s  %s\n", word, w->preset && *w->preset ? w->preset : "-", values, w->help);
    }
}

static int run(const void *settings, int argc, char **argv)
{
    struct leat_error err;
    const struct image_settings *s = settings;
    if (s->words || s->sound_words)
        print_words(s->words ? leat_words : leat_sound_words);
    else if (argc == 0)
        leat_fail(&err, LEAT_INVALID, "which FILE? (--words lists what a pipeline can do)");
    if (!s->words && !s->sound_words && (argc == 0 || show(s, argc, argv, &err) != LEAT_OK))
        return leat_cli_fail(&err);
    return leat_cli_finish();
}

const struct leat_command leat_command_image = {
    .name = "image",
    .arguments = "[FILE…]",
    .summary = "show what a pipeline does to pictures",
    .details = "Decodes JPEG, PNG, WebP, TIFF, BMP, GIF, AVIF and JPEG XL files, applies the steps a loader would "
               "apply, prints which part of each picture was drawn and writes the result as PNG. With several draws "
               "or files the result is a sheet: one row per file, one column per draw.\n\nAugmentations and "
               "everything else that a pipeline can have are given with -p; --words lists them. The numbers drawn "
               "for them are printed too.\n\nSteps are applied in the order in which they are listed below. The "
               "draws of a file depend on its position among the arguments, the seed and the epoch, and are the "
               "same on every machine.",
    .examples = "  leat image cat.jpg\n"
                "  leat image cat.jpg --random-resized-crop 224 --flip 0.5 \\\n"
                "      --seed 1 -n 8 -o sheet.png\n"
                "  leat image cat.jpg -n 8 -o sheet.png \\\n"
                "      -p 'random_resized_crop=224 flip trivial_augment erase=0.1'\n"
                "  leat image *.jpg --resize 256 --center-crop 224 -o eval.png\n",
    .options = options,
    .settings_size = sizeof(struct image_settings),
    .arguments_min = 0,
    .arguments_max = 10000,
    .run = run,
};
