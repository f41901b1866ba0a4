#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dataset.h"
#include "cli/origin.h"
#include "cli/pack_images.h"
#include "cli/progress.h"

#define QUALITY 90u /* of JPEGs, unless --quality says otherwise */

struct pack_settings {
    struct leat_cli_store store;
    struct leat_cli_origin origin;
    bool keep_order;
    uint64_t seed;
    uint64_t chunk_size;
    struct leat_option_list compress;
    const char *on_error;
    const char *errors;
    const char *jpeg;
    uint64_t max_side;
    uint64_t quality;
    uint64_t jobs;
    uint64_t memory;
    bool replace;
    bool add_to;
    const char *name;
    bool no_current;
    struct leat_cli_progress progress;
    bool json;
};

static const struct leat_option options[] = {
    LEAT_ORIGIN_OPTIONS(offsetof(struct pack_settings, origin)),
    {"keep-order", 0, LEAT_OPTION_FLAG, offsetof(struct pack_settings, keep_order), NULL, NULL, NULL,
     "number the samples in the order of their paths, or of the manifest, instead of permuting them"},
    {"seed", 0, LEAT_OPTION_U64, offsetof(struct pack_settings, seed), "N", "0", NULL, "of the permutation"},
    {"chunk-size", 0, LEAT_OPTION_SIZE, offsetof(struct pack_settings, chunk_size), "SIZE", "8MiB", NULL,
     "largest size of a chunk, unless a single sample is larger"},
    {"compress", 0, LEAT_OPTION_LIST, offsetof(struct pack_settings, compress), "FIELD", NULL, NULL,
     "store the values of this field with zstd, those that gain by it; all: every field that can be, which images and "
     "numbers cannot. May be given several times"},
    {"on-error", 0, LEAT_OPTION_STRING, offsetof(struct pack_settings, on_error), "WHAT", "error", NULL,
     "what to do with a sample that cannot be read: error ends the command, skip leaves the sample out. skip also "
     "leaves out images whose header cannot be read and invalid JSON"},
    {"errors", 0, LEAT_OPTION_STRING, offsetof(struct pack_settings, errors), "FILE", NULL, NULL,
     "with --on-error skip: write a line for each sample left out to this file: key, tab, reason; '-' is standard "
     "error"},
    {"jpeg", 0, LEAT_OPTION_STRING, offsetof(struct pack_settings, jpeg), "HOW", "keep", NULL,
     "baseline: store progressive JPEGs as baseline JPEGs, which decode faster; pixels, EXIF and colour profiles "
     "stay the same, bit for bit. keep: store them as they are"},
    {"max-side", 0, LEAT_OPTION_U64, offsetof(struct pack_settings, max_side), "N", NULL, NULL,
     "resize images whose longer side has more than N pixels to N, turn them as EXIF says, and encode them again: "
     "JPEGs as JPEG (see --quality), others as PNG"},
    {"quality", 0, LEAT_OPTION_U64, offsetof(struct pack_settings, quality), "N", "90", NULL,
     "with --max-side: quality of the JPEGs that are written, 1 to 100"},
    {"jobs", 'j', LEAT_OPTION_U64, offsetof(struct pack_settings, jobs), "N", NULL, "LEAT_JOBS",
     "threads (default: one per CPU)"},
    {"memory", 0, LEAT_OPTION_SIZE, offsetof(struct pack_settings, memory), "SIZE", NULL, "LEAT_PACK_MEMORY",
     "memory for files that were read for their digests and wait to be stored; what does not fit is read twice "
     "(default: a quarter of what is free)"},
    {"replace", 0, LEAT_OPTION_FLAG, offsetof(struct pack_settings, replace), NULL, NULL, NULL,
     "make this the current dataset even if there is one at DEST already, and give it the name even if another "
     "version has it, but only if no one else has published there since packing began. The old version stays and "
     "can be opened by its id"},
    {"add-to", 'a', LEAT_OPTION_FLAG, offsetof(struct pack_settings, add_to), NULL, NULL, NULL,
     "add the samples to the dataset at DEST, after its own: a new version that shares its chunks. Fields must be "
     "the same; the names of labels are those of the dataset"},
    {"name", 0, LEAT_OPTION_STRING, offsetof(struct pack_settings, name), "NAME", NULL, NULL,
     "name this version: 'DEST?name=NAME' opens it even after another one has become current"},
    {"no-current", 0, LEAT_OPTION_FLAG, offsetof(struct pack_settings, no_current), NULL, NULL, NULL,
     "with --name: leave the current dataset as it is"},
    {"quiet", 'q', LEAT_OPTION_FLAG, offsetof(struct pack_settings, progress.quiet), NULL, NULL, NULL,
     "no progress and no summary"},
    LEAT_PROGRESS_OPTION(offsetof(struct pack_settings, progress)),
    {"json", 0, LEAT_OPTION_FLAG, offsetof(struct pack_settings, json), NULL, NULL, NULL, "print the summary as JSON"},
    LEAT_STORE_OPTIONS(offsetof(struct pack_settings, store)),
    {0},
};

struct packing {
    const struct pack_settings *s;
    struct leat_home to;
    struct leat_dataset *add_to; /* NULL: nothing */
    struct leat_cli_origin origin;
    struct leat_cli_opened opened;
    struct leat_cli_images images;
    bool skip;
    FILE *errors; /* NULL: nobody wants the list */
    bool listed;  /* all of it could be written so far */
    struct leat_pack_progress progress;
    struct leat_pack_result result;
};

static bool stop(void *user)
{
    (void)user;
    return leat_cli_interrupted();
}

static void look_listing(void *user, struct leat_progress_state *out)
{
    struct packing *p = user;
    out->counted = true;
    out->growing = true;
    out->done = atomic_load_explicit(&p->opened.seen, memory_order_relaxed);
}

static void look(void *user, struct leat_progress_state *out)
{
    struct packing *p = user;
    out->done = atomic_load_explicit(&p->progress.bytes, memory_order_relaxed) +
                atomic_load_explicit(&p->progress.digested, memory_order_relaxed);
    out->items = atomic_load_explicit(&p->progress.samples, memory_order_relaxed);
    out->total = p->opened.origin->bytes + atomic_load_explicit(&p->progress.to_digest, memory_order_relaxed);
}

/* What was left out */

static void note_skipped(void *user, const void *key, size_t key_n, const struct leat_error *err)
{
    struct packing *p = user;
    if (!p->errors)
        return;
    char *shown = leat_cli_show_key(key, key_n);
    if (fprintf(p->errors, "%s\t%s\n", shown ? shown : "?", err->text) < 0)
        p->listed = false;
    free(shown);
}

static leat_status open_errors(struct packing *p, struct leat_error *err)
{
    p->listed = true;
    if (!p->s->errors)
        return LEAT_OK;
    if (!p->skip)
        return leat_fail(err, LEAT_INVALID, "--errors lists what --on-error skip leaves out");
    p->errors = strcmp(p->s->errors, "-") == 0 ? stderr : fopen(p->s->errors, "w");
    return p->errors ? LEAT_OK : leat_fail_errno(err, errno, "cannot write %s", p->s->errors);
}

static leat_status close_errors(struct packing *p, leat_status rc, struct leat_error *err)
{
    bool good = p->listed && (!p->errors || fflush(p->errors) == 0);
    if (p->errors && p->errors != stderr)
        good = fclose(p->errors) == 0 && good;
    p->errors = NULL;
    return rc == LEAT_OK && !good ? leat_fail(err, LEAT_IO, "cannot write all of %s", p->s->errors) : rc;
}

/* Settings */

static leat_status read_images(struct packing *p, struct leat_error *err)
{
    const struct pack_settings *s = p->s;
    if (strcmp(s->jpeg, "keep") != 0 && strcmp(s->jpeg, "baseline") != 0)
        return leat_fail(err, LEAT_INVALID, "--jpeg: '%s' is not keep or baseline", s->jpeg);
    if (s->max_side > 65535)
        return leat_fail(err, LEAT_INVALID, "--max-side: between 1 and 65535");
    if (s->quality < 1 || s->quality > 100)
        return leat_fail(err, LEAT_INVALID, "--quality: between 1 and 100");
    if (s->quality != QUALITY && !s->max_side)
        return leat_fail(err, LEAT_INVALID, "--quality is that of pictures made smaller: give --max-side");
    p->images = (struct leat_cli_images){.baseline = strcmp(s->jpeg, "baseline") == 0,
                                         .max_side = (uint32_t)s->max_side,
                                         .quality = (uint32_t)s->quality};
    return LEAT_OK;
}

static leat_status check_settings(struct packing *p, struct leat_error *err)
{
    const struct pack_settings *s = p->s;
    p->skip = strcmp(s->on_error, "skip") == 0;
    if (!p->skip && strcmp(s->on_error, "error") != 0)
        return leat_fail(err, LEAT_INVALID, "--on-error: '%s' is not error or skip", s->on_error);
    if (s->chunk_size < 4096 || s->chunk_size > 1u << 30)
        return leat_fail(err, LEAT_INVALID, "--chunk-size: between 4KiB and 1GiB");
    if (s->no_current && !s->name)
        return leat_fail(err, LEAT_INVALID, "--no-current needs --name");
    if (s->keep_order && s->seed)
        return leat_fail(err, LEAT_INVALID, "--seed is of the permutation that --keep-order leaves out");
    return read_images(p, err);
}

/* Packing */

static unsigned jobs_of(const struct pack_settings *s)
{
    return s->jobs < 1000 ? (unsigned)s->jobs : 1000;
}

static leat_status open_origin(struct packing *p, char **urls, uint32_t n, struct leat_error *err)
{
    struct leat_cli_origin_opts opts = {.settings = &p->origin,
                                        .store = &p->s->store,
                                        .to = &p->to,
                                        .unsaved = true,
                                        .add_to = p->add_to,
                                        .seed = p->s->seed,
                                        .threads = jobs_of(p->s),
                                        .chunk_bytes = p->s->chunk_size};
    struct leat_progress *progress = leat_progress_open(&p->s->progress, "objects", look_listing, p);
    leat_status rc = leat_cli_origin_open(&opts, urls, n, &p->opened, err);
    leat_progress_close(progress);
    return rc;
}

/* A dataset inside the folder it is made of would be packed itself the next time. */
static leat_status check_places(const struct packing *p, struct leat_error *err)
{
    for (uint32_t i = 0; i < p->opened.homes_n; i++) {
        const struct leat_home *from = &p->opened.homes[i];
        if (leat_cli_lies_in(from->store, from->prefix, p->to.store, p->to.prefix))
            return leat_fail(err, LEAT_INVALID, "'%s' is inside '%s': packing again would pack the dataset itself",
                             p->to.url, from->url);
    }
    return LEAT_OK;
}

/* Asking for other pictures where there are none would be ignored. */
static leat_status check_images(const struct packing *p, struct leat_error *err)
{
    const struct leat_schema *schema = &p->opened.origin->schema;
    for (uint32_t f = 0; f < schema->n; f++) {
        if (schema->fields[f].type == LEAT_FIELD_IMAGE)
            return LEAT_OK;
    }
    if (!p->images.baseline && !p->images.max_side)
        return LEAT_OK;
    return leat_fail(err, LEAT_INVALID, "%s is for images, and no field holds any (--type NAME=image)",
                     p->images.max_side ? "--max-side" : "--jpeg baseline");
}

static leat_status compress(struct packing *p, struct leat_error *err)
{
    struct leat_schema *schema = &p->opened.origin->schema;
    const struct leat_option_list *wanted = &p->s->compress;
    leat_status rc = LEAT_OK;
    for (size_t i = 0; rc == LEAT_OK && i < wanted->count; i++) {
        uint32_t field = leat_schema_find(schema, wanted->item[i]);
        uint32_t able = 0;
        if (field < LEAT_FIELDS_MAX) {
            rc = leat_schema_compress(schema, field, err);
            continue;
        }
        for (uint32_t f = 0; strcmp(wanted->item[i], "all") == 0 && f < schema->n; f++)
            able += leat_field_kind(schema->fields[f].type)->zstd && leat_schema_compress(schema, f, err) == LEAT_OK;
        if (!able)
            rc = leat_fail(err, LEAT_INVALID, "--compress %s: there is no such field that can be compressed",
                           wanted->item[i]);
    }
    return rc;
}

/* Files of a folder, with labels by the names of folders or none. */
static bool is_plain(const struct packing *p)
{
    const struct leat_cli_origin *o = &p->s->origin;
    return p->opened.raw && !o->group && !o->manifest && !o->label_regex && !o->label_column;
}

static leat_status pack(struct packing *p, struct leat_error *err)
{
    const struct pack_settings *s = p->s;
    struct leat_pack_images images;
    struct leat_pack_origin_opts opts = {
        .cut = {.keep_order = s->keep_order, .seed = s->seed, .chunk_bytes = s->chunk_size},
        .threads = jobs_of(s),
        .publish = {.name = s->name, .keep_current = s->no_current, .replace = s->replace, .add_to = p->add_to},
        .keep = s->memory,
        .images = &images,
        .plain = is_plain(p),
        .skip = p->skip,
        .skipped = note_skipped,
        .skipped_user = p,
        .stop = stop};
    leat_cli_images(&p->images, &images);
    struct leat_progress *progress = leat_progress_open(&s->progress, "samples", look, p);
    leat_status rc = leat_pack_origin(p->opened.origin, &p->to, &opts, &p->progress, &p->result, err);
    leat_progress_close(progress);
    return rc;
}

static void print_json(const struct packing *p, const char *id)
{
    const struct leat_pack_result *r = &p->result;
    printf("{\"id\": \"%s\", \"samples\": %" PRIu64 ", \"chunks\": %" PRIu32 ", \"bytes\": %" PRIu64
           ", \"labels\": %" PRIu32 ", \"hidden\": %" PRIu64 ", \"unreadable_images\": %" PRIu64
           ", \"changed_images\": %" PRIu64 ", \"skipped\": %" PRIu64 ", \"reused_chunks\": %" PRIu32
           ", \"sorted_by_class\": %s, \"guarded\": %s}\n",
           id, r->samples, r->chunks, r->bytes, p->opened.counts.classes, p->opened.counts.hidden,
           atomic_load(&p->progress.unreadable), atomic_load(&p->progress.changed), atomic_load(&p->progress.skipped),
           r->reused, r->mix.sorted ? "true" : "false", r->guarded ? "true" : "false");
}

/* Its length without the space at its end, which is part of a packing's identity. */
static size_t trimmed(const char *text)
{
    size_t n = strlen(text);
    return n && text[n - 1] == ' ' ? n - 1 : n;
}

static void print_result(const struct packing *p)
{
    const struct leat_pack_result *r = &p->result;
    char id[2 * LEAT_SHA256_SIZE + 1];
    char size[LEAT_FORMAT_SIZE];
    uint64_t unreadable = atomic_load(&p->progress.unreadable);
    uint64_t changed = atomic_load(&p->progress.changed);
    uint64_t skipped = atomic_load(&p->progress.skipped);
    leat_hex(r->id, sizeof r->id, id);
    if (p->s->json) {
        print_json(p, id);
        return;
    }
    printf("%" PRIu64 " samples in %" PRIu32 " chunks, %s", r->samples, r->chunks, leat_format_size(r->bytes, size));
    if (p->opened.counts.classes)
        printf(", %" PRIu32 " labels", p->opened.counts.classes);
    printf("\nid %s\n", id);
    if (r->reused)
        printf("%" PRIu32 " of the chunks were there already\n", r->reused);
    if (p->opened.counts.hidden)
        printf("left out: %" PRIu64 " hidden files\n", p->opened.counts.hidden);
    if (p->opened.counts.known)
        printf("left out: %" PRIu64 " samples that were there already\n", p->opened.counts.known);
    if (skipped)
        printf("left out: %" PRIu64 " samples that cannot be read%s\n", skipped,
               p->s->errors ? "" : " (--errors FILE lists them)");
    if (changed)
        printf("%" PRIu64 " images were encoded again (%.*s)\n", changed, (int)trimmed(p->images.what), p->images.what);
    if (unreadable)
        printf("%" PRIu64 " files look like images, but their header cannot be read\n", unreadable);
    if (!r->guarded)
        printf("%s does not support conditions (If-None-Match): if someone else published there at the same moment, "
               "it went unnoticed\n",
               p->to.url);
    if (r->mix.sorted)
        leat_cli_print_mix("the chunks are sorted by class", &r->mix, r->chunks, r->bytes);
}

static int run(const void *settings, int argc, char **argv)
{
    const struct pack_settings *s = settings;
    struct packing p = {.s = s, .origin = s->origin};
    struct leat_error err;
    leat_status rc = check_settings(&p, &err);
    if (rc == LEAT_OK)
        rc = leat_cli_store_one_kind(&s->store, argv, argc,
                                     (const char *const[2]){s->origin.manifest, s->origin.classes}, &err);
    if (rc == LEAT_OK)
        rc = leat_cli_home_open(&s->store, argv[argc - 1], &p.to, &err);
    if (rc == LEAT_OK)
        rc = leat_home_check_plain(&p.to, &err);
    if (rc == LEAT_OK && s->add_to)
        rc = leat_cli_add_to(&s->store, argv[argc - 1], &p.origin, &p.add_to, &err);
    if (rc == LEAT_OK)
        rc = open_origin(&p, argv, (uint32_t)argc - 1, &err);
    if (rc == LEAT_OK)
        rc = check_places(&p, &err);
    if (rc == LEAT_OK)
        rc = check_images(&p, &err);
    if (rc == LEAT_OK)
        rc = compress(&p, &err);
    if (rc == LEAT_OK)
        rc = open_errors(&p, &err);
    if (rc == LEAT_OK)
        rc = pack(&p, &err);
    rc = close_errors(&p, rc, &err);
    if (rc == LEAT_OK && !(s->progress.quiet && !s->json))
        print_result(&p);
    leat_cli_origin_close(&p.opened);
    leat_dataset_close(p.add_to);
    leat_home_close(&p.to);
    return rc == LEAT_OK ? leat_cli_finish() : leat_cli_fail(&err);
}

const struct leat_command leat_command_pack = {
    .name = "pack",
    .arguments = "URL… DEST",
    .summary = "make a dataset from files, shards or tables",
    .details =
        "Samples come from one or more folders or prefixes in buckets, and are stored in chunks at DEST. Every file "
        "is a sample whose key is its path; with --group, files whose names differ only in their endings are one "
        "sample; with --manifest, a table lists the samples. 'leat index' has the same options and leaves the data "
        "where it is.\n\nIf all files are in folders, as in an ImageFolder, the first folder is the label: an int "
        "field 'cls', numbered by the sorted names of the folders, or by a list (--classes). Hidden files are left "
        "out.\n\nSamples are permuted by a fixed seed, so that a folder sorted by class does not make chunks of one "
        "class, unless --keep-order is given; samples of shards and token files stay in their order. The same "
        "files, packed with the same options, give the same dataset, byte for byte; anything else gives another. To "
        "this end the MD5 of every file must be known before the first chunk is stored. Buckets list it; other "
        "files are read first and kept in memory until they are stored (--memory), or read again. If a file changes "
        "meanwhile, that is an error.\n\nThe snapshot is published last: an interrupted packing leaves nothing that "
        "looks like a dataset. Run it again, and it stores only the chunks that are still missing. If two commands "
        "pack into the same place at the same time, the second gets an error; what it packed can still be opened by "
        "its id. --replace replaces the version that was there when packing began, and no later one.\n\n--add-to "
        "makes a version from the current one and the new samples, in the time that packing the new ones takes: old "
        "chunks are shared, and old samples keep their numbers. Such a version is rebuilt from its packings ('leat "
        "rebuild --packing').\n\nWith --name the version also gets a name, and becomes the current one unless "
        "--no-current is given; the name is written first.\n\nMemory: --memory, four chunks per thread, 80 bytes "
        "and the path per file, 190 bytes per chunk, and at most 256 MiB for the snapshot, whose tables move to a "
        "temporary file in TMPDIR (/var/tmp) from 64 MiB on: 40 bytes per sample, its row and its key.",
    .examples = "  leat pack /data/imagenet/train s3://bucket/imagenet/train\n"
                "  leat pack --keep-order --labels none photos /datasets/photos\n"
                "  leat pack --classes s3://bucket/imagenet/train \\\n"
                "      /data/imagenet/val s3://bucket/imagenet/val\n"
                "  leat pack --group s3://bucket/pairs s3://bucket/pairs-packed\n"
                "  leat pack --on-error skip --errors bad.txt --max-side 512 \\\n"
                "      photos /datasets/small\n"
                "  leat pack --replace --name may-release photos /datasets/photos\n",
    .options = options,
    .settings_size = sizeof(struct pack_settings),
    .arguments_min = 2,
    .arguments_max = 10000,
    .run = run,
};
