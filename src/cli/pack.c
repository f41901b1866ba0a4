#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dataset.h"
#include "cli/progress.h"
#include "dataset/pack_folder.h"
#include "prep/image.h"

struct pack_settings {
    struct leat_cli_store store;
    bool keep_order;
    uint64_t seed;
    uint64_t chunk_size;
    const char *labels;
    const char *classes;
    const char *field;
    uint64_t jobs;
    bool replace;
    const char *name;
    bool no_current;
    bool quiet;
    bool json;
};

static const struct leat_option options[] = {
    {"keep-order", 0, LEAT_OPTION_FLAG, offsetof(struct pack_settings, keep_order), NULL, NULL, NULL,
     "number the samples in the order of their paths instead of permuting them"},
    {"seed", 0, LEAT_OPTION_U64, offsetof(struct pack_settings, seed), "N", "0", NULL, "of the permutation"},
    {"chunk-size", 0, LEAT_OPTION_SIZE, offsetof(struct pack_settings, chunk_size), "SIZE", "8MiB", NULL,
     "chunks become as large as that at most, unless a single sample is larger"},
    {"labels", 0, LEAT_OPTION_STRING, offsetof(struct pack_settings, labels), "HOW", "auto", NULL,
     "folder: the first folder of a path is the sample's label, the int field 'cls'; none: no labels; auto: folder, if "
     "every file lies in one"},
    {"classes", 0, LEAT_OPTION_STRING, offsetof(struct pack_settings, classes), "LIST", NULL, NULL,
     "numbers of the labels: a text file with a name per line, the first is 0, or a packed dataset whose names are "
     "taken "
     "over. A folder that is not in the list is an error. Without it the folders that are there are numbered, and a "
     "validation set that lacks a class has other numbers than the training set"},
    {"field", 0, LEAT_OPTION_STRING, offsetof(struct pack_settings, field), "NAME", NULL, NULL,
     "name of the field that holds the file (else its ending, such as 'jpg'; with several, 'image' or 'data')"},
    {"jobs", 'j', LEAT_OPTION_U64, offsetof(struct pack_settings, jobs), "N", NULL, "LEAT_JOBS",
     "threads (else one for each CPU)"},
    {"replace", 0, LEAT_OPTION_FLAG, offsetof(struct pack_settings, replace), NULL, NULL, NULL,
     "make this the current dataset although there is one at DEST already, and give it the name although another "
     "version "
     "has it; only if nobody else has published there since packing began. The old version stays and can be opened by "
     "its id"},
    {"name", 0, LEAT_OPTION_STRING, offsetof(struct pack_settings, name), "NAME", NULL, NULL,
     "name this version: 'DEST?name=NAME' opens it, whatever becomes the current one later"},
    {"no-current", 0, LEAT_OPTION_FLAG, offsetof(struct pack_settings, no_current), NULL, NULL, NULL,
     "with --name: leave the current dataset as it is"},
    {"quiet", 'q', LEAT_OPTION_FLAG, offsetof(struct pack_settings, quiet), NULL, NULL, NULL,
     "no progress and no summary"},
    {"json", 0, LEAT_OPTION_FLAG, offsetof(struct pack_settings, json), NULL, NULL, NULL,
     "print id, samples, chunks and bytes as JSON at the end"},
    LEAT_STORE_OPTIONS(offsetof(struct pack_settings, store)),
    {0},
};

struct packing {
    struct leat_home from;
    struct leat_home to;
    struct leat_scan files;
    struct leat_classes classes;
    struct leat_pack_progress progress;
};

static bool stop(void *user)
{
    (void)user;
    return leat_cli_interrupted();
}

/* What the header of an image says, as the format keeps it. */
static bool probe(const void *data, size_t n, struct leat_picture *out)
{
    static const uint8_t kinds[LEAT_IMAGE_TYPE_COUNT] = {
        [LEAT_IMAGE_JPEG] = LEAT_PICTURE_JPEG,
        [LEAT_IMAGE_PNG] = LEAT_PICTURE_PNG,
        [LEAT_IMAGE_WEBP] = LEAT_PICTURE_WEBP, /* the format has no numbers for the others: 0, unknown */
    };
    struct leat_image_info info;
    if (leat_image_probe(data, n, &info, NULL) != LEAT_OK)
        return false;
    /* A palette takes the place of three channels, or four. */
    uint8_t channels = info.palette ? (info.alpha ? 4 : 3) : info.components;
    uint64_t depth = info.bits > 8 ? 2 : 1;
    uint64_t decoded = (uint64_t)info.width * info.height;
    decoded = decoded > UINT32_MAX ? UINT32_MAX : decoded * channels * depth;
    *out = (struct leat_picture){
        .width = info.width,
        .height = info.height,
        .decoded_bytes = decoded > UINT32_MAX ? UINT32_MAX : (uint32_t)decoded,
        .kind = kinds[info.type],
        .channels = channels,
        .orientation = info.orientation,
        .flags = info.progressive ? LEAT_PICTURE_PROGRESSIVE : 0,
    };
    return true;
}

static void look(void *user, struct leat_progress_state *out)
{
    struct packing *p = user;
    out->done = atomic_load_explicit(&p->progress.bytes, memory_order_relaxed) +
                atomic_load_explicit(&p->progress.digested, memory_order_relaxed);
    out->items = atomic_load_explicit(&p->progress.samples, memory_order_relaxed);
    out->total = p->files.bytes + atomic_load_explicit(&p->progress.to_digest, memory_order_relaxed);
}

static leat_status parse_labels(const char *text, enum leat_scan_labels *out, struct leat_error *err)
{
    static const char *const names[] = {"auto", "folder", "none"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = (enum leat_scan_labels)i;
            return LEAT_OK;
        }
    }
    return leat_fail(err, LEAT_INVALID, "--labels: '%s' is not auto, folder or none", text);
}

/* What lies there as an object is a text file, else it is a dataset. */
static leat_status load_classes(const struct pack_settings *s, struct leat_classes *out, struct leat_error *err)
{
    struct leat_dataset *dataset;
    struct leat_store_opts opts;
    struct leat_url url = {0};
    struct leat_store *store = NULL;
    char *text = NULL;
    char *key = NULL;
    size_t n;
    leat_status rc = leat_cli_store_opts(&s->store, &opts, err);
    if (rc == LEAT_OK)
        rc = leat_url_parse(s->classes, &url, err);
    if (rc == LEAT_OK)
        rc = leat_store_open(&url, &opts, &store, err);
    if (rc == LEAT_OK && !(key = leat_store_key(&url)))
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for a name");
    if (rc == LEAT_OK)
        rc = *key ? leat_store_load(store, key, LEAT_CLASSES_TEXT_MAX, &text, &n, NULL, err) : LEAT_NOT_FOUND;
    if (rc == LEAT_OK) {
        rc = leat_classes_read(text, n, out, err);
    } else if (rc == LEAT_NOT_FOUND) {
        rc = leat_cli_dataset_open(&s->store, s->classes, &dataset, err);
        if (rc == LEAT_OK) {
            rc = leat_classes_of(&leat_dataset_root(dataset)->schema, out, err);
            leat_dataset_close(dataset);
        }
    }
    free(text);
    free(key);
    leat_store_close(store);
    leat_url_free(&url);
    return rc == LEAT_OK ? rc : leat_fail_context(err, rc, "--classes %s", s->classes);
}

/* A dataset inside the folder it is made of would be packed itself the next time. */
static leat_status check_places(const struct packing *p, struct leat_error *err)
{
    if (leat_cli_lies_in(p->from.store, p->from.prefix, p->to.store, p->to.prefix))
        return leat_fail(err, LEAT_INVALID, "'%s' lies in '%s': the next packing would pack the dataset too", p->to.url,
                         p->from.url);
    return LEAT_OK;
}

static leat_status pack(const struct pack_settings *s, struct packing *p, struct leat_pack_result *out,
                        struct leat_error *err)
{
    struct leat_scan_opts scan = {.field = s->field, .stop = stop};
    struct leat_pack_folder_opts opts = {
        .keep_order = s->keep_order,
        .seed = s->seed,
        .chunk_bytes = s->chunk_size,
        .threads = s->jobs < 1000 ? (unsigned)s->jobs : 1000,
        .publish = {.name = s->name, .keep_current = s->no_current, .replace = s->replace},
        .probe = probe,
        .stop = stop};
    leat_status rc = parse_labels(s->labels, &scan.labels, err);
    if (rc == LEAT_OK && s->classes && scan.labels == LEAT_LABELS_NONE)
        rc = leat_fail(err, LEAT_INVALID, "--classes numbers labels, and --labels none wants none");
    if (rc == LEAT_OK)
        rc = check_places(p, err);
    if (rc == LEAT_OK && s->classes) {
        rc = load_classes(s, &p->classes, err);
        scan.classes = &p->classes;
    }
    if (rc == LEAT_OK)
        rc = leat_scan_open(&p->from, &scan, &p->files, err);
    if (rc != LEAT_OK)
        return rc;
    if (s->no_current && !s->name)
        return leat_fail(err, LEAT_INVALID, "--no-current needs a --name that the version can be found by");
    struct leat_progress *progress = s->quiet ? NULL : leat_progress_open("samples", look, p);
    rc = leat_pack_folder(&p->from, &p->files, &p->to, &opts, &p->progress, out, err);
    leat_progress_close(progress);
    return rc;
}

static void print_result(const struct pack_settings *s, const struct packing *p, const struct leat_pack_result *r)
{
    char id[2 * LEAT_SHA256_SIZE + 1];
    char size[LEAT_FORMAT_SIZE];
    uint64_t unreadable = atomic_load(&p->progress.unreadable);
    leat_hex(r->id, sizeof r->id, id);
    if (s->json) {
        printf("{\"id\": \"%s\", \"samples\": %" PRIu64 ", \"chunks\": %" PRIu32 ", \"bytes\": %" PRIu64
               ", \"labels\": %" PRIu32 ", \"hidden\": %" PRIu64 ", \"unreadable_images\": %" PRIu64
               ", \"sorted_by_class\": %s, \"guarded\": %s}\n",
               id, r->samples, r->chunks, r->bytes, p->files.labels_n, p->files.skipped, unreadable,
               r->mix.sorted ? "true" : "false", r->guarded ? "true" : "false");
        return;
    }
    printf("%" PRIu64 " samples in %" PRIu32 " chunks, %s", r->samples, r->chunks, leat_format_size(r->bytes, size));
    if (p->files.labels)
        printf(", %" PRIu32 " labels", p->files.labels_n);
    printf("\nid %s\n", id);
    if (p->files.skipped)
        printf("left out: %" PRIu64 " hidden files\n", p->files.skipped);
    if (unreadable)
        printf("%" PRIu64 " files look like images but have no header that can be read\n", unreadable);
    if (!r->guarded)
        printf("%s knows no conditions (If-None-Match): somebody who had published there at the same moment would not "
               "have been noticed\n",
               p->to.url);
    if (r->mix.sorted)
        leat_cli_print_mix("the chunks are sorted by class", &r->mix, r->chunks, r->bytes);
}

static int run(const void *settings, int argc, char **argv)
{
    (void)argc;
    const struct pack_settings *s = settings;
    struct packing p = {0};
    struct leat_pack_result result;
    struct leat_error err;
    leat_status rc = s->chunk_size >= 4096 && s->chunk_size <= 1u << 30
                         ? leat_cli_home_open(&s->store, argv[0], &p.from, &err)
                         : leat_fail(&err, LEAT_INVALID, "--chunk-size: between 4KiB and 1GiB");
    if (rc == LEAT_OK)
        rc = leat_cli_home_open(&s->store, argv[1], &p.to, &err);
    if (rc == LEAT_OK)
        rc = pack(s, &p, &result, &err);
    if (rc == LEAT_OK && !(s->quiet && !s->json))
        print_result(s, &p, &result);
    leat_scan_close(&p.files);
    leat_classes_close(&p.classes);
    leat_home_close(&p.to);
    leat_home_close(&p.from);
    return rc == LEAT_OK ? leat_cli_finish() : leat_cli_fail(&err);
}

const struct leat_command leat_command_pack = {
    .name = "pack",
    .arguments = "DIR DEST",
    .summary = "make a dataset of a folder of files",
    .details =
        "Every file below DIR (a folder, or a prefix in a bucket) becomes a sample whose key is its path. Where all of "
        "them lie in folders, as in an ImageFolder, the first folder is the label: an int field 'cls', numbered by "
        "the folders' sorted names, or by a list (--classes). Hidden files are left out.\n\n"
        "Samples are permuted by a fixed seed, so that a folder sorted by class does not make chunks of one class, "
        "unless --keep-order is given. The same files packed with the same options give the same dataset, byte for "
        "byte; anything else gives another. Files on disk are read twice for that (their MD5 is part of the id that "
        "every "
        "chunk carries), objects of a bucket only where their ETag is not an MD5. A file that changes meanwhile is an "
        "error.\n\n"
        "The snapshot is published last: an interrupted packing leaves nothing that looks like a dataset. Of two who "
        "pack into one place at the same time the second gets an error, and what it packed can still be opened by its "
        "id. --replace replaces the version that was there when packing began, and no later one.\n\n"
        "With --name the version gets a name as well, and becomes the current one unless --no-current is given; the "
        "name "
        "is written first.\n\n"
        "Memory: three chunks for each job, 60 bytes and the path for each file, 150 bytes for each chunk, and at most "
        "256 MiB for the snapshot, whose tables go to a temporary file in TMPDIR (/var/tmp) from 64 MiB on: 40 bytes "
        "for "
        "each sample, its row and its key.",
    .examples = "  leat pack /data/imagenet/train s3://bucket/imagenet/train\n"
                "  leat pack --keep-order --labels none photos /datasets/photos\n"
                "  leat pack --classes s3://bucket/imagenet/train /data/imagenet/val s3://bucket/imagenet/val\n"
                "  leat pack --replace --name may-release photos /datasets/photos\n",
    .options = options,
    .settings_size = sizeof(struct pack_settings),
    .arguments_min = 2,
    .arguments_max = 2,
    .run = run,
};
