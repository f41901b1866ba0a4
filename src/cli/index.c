#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dataset.h"
#include "cli/origin.h"
#include "cli/progress.h"
#include "dataset/index_origin.h"
#include "dataset/listing_save.h"
#include "dataset/mix.h"

struct index_settings {
    struct leat_cli_store store;
    struct leat_cli_origin origin;
    bool dry_run;
    bool fresh;
    uint64_t save_every_ns;
    const char *part;
    bool merge;
    bool keep_order;
    uint64_t seed;
    uint64_t chunk_size;
    uint64_t threads;
    bool replace;
    bool add_to;
    const char *name;
    bool no_current;
    struct leat_cli_progress progress;
    bool json;
};

static const struct leat_option options[] = {
    LEAT_ORIGIN_OPTIONS(offsetof(struct index_settings, origin)),
    {"dry-run", 0, LEAT_OPTION_FLAG, offsetof(struct index_settings, dry_run), NULL, NULL, NULL,
     "only say what there is and what reading it costs; write nothing"},
    {"part", 0, LEAT_OPTION_STRING, offsetof(struct index_settings, part), "I/N", NULL, NULL,
     "raw: only list part I of N (1/N … N/N, for example each on its own machine) and save that at DEST; --merge "
     "makes the dataset from all parts. The first folder of each path decides which part lists it"},
    {"merge", 0, LEAT_OPTION_FLAG, offsetof(struct index_settings, merge), NULL, NULL, NULL,
     "raw: make the dataset from the parts at DEST; the URLs may be left out"},
    {"fresh", 0, LEAT_OPTION_FLAG, offsetof(struct index_settings, fresh), NULL, NULL, NULL,
     "raw: list everything again, even if an interrupted run has listed some of it"},
    {"save-every", 0, LEAT_OPTION_DURATION, offsetof(struct index_settings, save_every_ns), "TIME", "10s", NULL,
     "raw: how often the listing is saved at DEST (leat/partial/), so that it can continue where it was interrupted"},
    {"keep-order", 0, LEAT_OPTION_FLAG, offsetof(struct index_settings, keep_order), NULL, NULL, NULL,
     "number the samples in the order of their paths, or of the manifest, instead of permuting them"},
    {"seed", 0, LEAT_OPTION_U64, offsetof(struct index_settings, seed), "N", "0", NULL, "of the permutation"},
    {"chunk-size", 0, LEAT_OPTION_SIZE, offsetof(struct index_settings, chunk_size), "SIZE", "8MiB", NULL,
     "largest size of a chunk, unless a single sample is larger"},
    {"threads", 'j', LEAT_OPTION_U64, offsetof(struct index_settings, threads), "N", NULL, "LEAT_INDEX_THREADS",
     "lists at the same time (default: 16), and threads (default: one per CPU)"},
    {"replace", 0, LEAT_OPTION_FLAG, offsetof(struct index_settings, replace), NULL, NULL, NULL,
     "make this the current dataset even if there is one at DEST already, and give it the name even if another "
     "version has it, but only if no one else has published there since indexing began. The old version stays and "
     "can be opened by its id"},
    {"add-to", 'a', LEAT_OPTION_FLAG, offsetof(struct index_settings, add_to), NULL, NULL, NULL,
     "add the samples to the dataset at DEST, after its own: a new version that shares its chunks. Fields must be "
     "the same; the names of labels are those of the dataset"},
    {"name", 0, LEAT_OPTION_STRING, offsetof(struct index_settings, name), "NAME", NULL, NULL,
     "name this version: 'DEST?name=NAME' opens it even after another one has become current"},
    {"no-current", 0, LEAT_OPTION_FLAG, offsetof(struct index_settings, no_current), NULL, NULL, NULL,
     "with --name: leave the current dataset as it is"},
    {"quiet", 'q', LEAT_OPTION_FLAG, offsetof(struct index_settings, progress.quiet), NULL, NULL, NULL,
     "no progress and no summary"},
    LEAT_PROGRESS_OPTION(offsetof(struct index_settings, progress)),
    {"json", 0, LEAT_OPTION_FLAG, offsetof(struct index_settings, json), NULL, NULL, NULL, "print the summary as JSON"},
    LEAT_STORE_OPTIONS(offsetof(struct index_settings, store)),
    {0},
};

struct indexing {
    const struct index_settings *s;
    struct leat_cli_origin origin;
    struct leat_home to;
    struct leat_dataset *add_to; /* NULL: nothing */
    struct leat_cli_opened opened;
    struct leat_cut cut;
    struct leat_index_result result;
    struct leat_mix_result mix;
    uint64_t opened_ns; /* how long listing took */
    _Atomic bool made;  /* the origin is there, and samples are counted */
    _Atomic uint64_t samples;
};

static bool stop(void *user)
{
    (void)user;
    return leat_cli_interrupted();
}

static void look_listing(void *user, struct leat_progress_state *out)
{
    struct indexing *x = user;
    struct leat_tar_progress *tar = &x->opened.tar_progress;
    out->total = atomic_load_explicit(&tar->total, memory_order_relaxed);
    if (out->total) { /* shards are read */
        out->done = atomic_load_explicit(&tar->bytes, memory_order_relaxed);
        out->items = atomic_load_explicit(&tar->shards, memory_order_relaxed);
        return;
    }
    out->counted = true;
    out->growing = true;
    out->done = atomic_load_explicit(&x->opened.seen, memory_order_relaxed);
}

static void look_making(void *user, struct leat_progress_state *out)
{
    struct indexing *x = user;
    out->counted = true;
    out->done = atomic_load_explicit(&x->samples, memory_order_relaxed);
    out->total = x->opened.origin->samples;
}

/* Requests and what they cost */

/* Amazon S3, Standard, us-east-1: what most others charge too, within a factor of two. */
#define USD_PER_LIST (0.005 / 1000) /* PUT, too */
#define USD_PER_GET  (0.0004 / 1000)
#define PRICES_SOURCE                                                                                                  \
    "S3 Standard, us-east-1, aws.amazon.com/s3/pricing: 0.005 USD per 1,000 LIST, 0.0004 per 1,000 GET"

/* What a request takes from its sending to its last byte, for small objects in the bucket's own region, and how many
 * the feed has in flight at most: as docs/benchmarks.md assumes. */
#define REQUEST_S   0.055
#define CONNECTIONS 256.0

static bool has_prices(const struct indexing *x)
{
    for (uint32_t i = 0; i < x->opened.homes_n; i++) {
        if (leat_store_can(x->opened.homes[i].store, LEAT_STORE_S3))
            return true;
    }
    struct leat_origin_object first;
    return x->opened.homes_n == 0 && x->opened.origin->ops->object(x->opened.origin, 0, &first, NULL) == LEAT_OK &&
           leat_store_can(first.home->store, LEAT_STORE_S3);
}

/* Requests of one epoch that finds nothing cached. Each chunk costs one more for its recipe where that lies in a bucket
 * too. */
static uint64_t epoch_requests(const struct indexing *x)
{
    const struct leat_origin *o = x->opened.origin;
    const struct leat_raw_counts *c = &x->opened.counts;
    bool read = o->samples > 0; /* shards of a dry run are not */
    uint64_t chunks = read ? x->cut.chunks : o->bytes / x->s->chunk_size + o->objects;
    uint64_t recipes = leat_store_can(x->to.store, LEAT_STORE_LOCAL) ? 0 : chunks;
    return recipes + (!read || o->in_place ? chunks : o->objects - c->unnamed - c->known);
}

static void print_dry(const struct indexing *x)
{
    const struct leat_origin *o = x->opened.origin;
    uint64_t gets = epoch_requests(x);
    double minutes = (double)gets * REQUEST_S / CONNECTIONS / 60;
    char size[LEAT_FORMAT_SIZE];
    char took[LEAT_FORMAT_SIZE];
    bool priced = has_prices(x);
    if (x->s->json) {
        printf("{\"format\": \"%s\", \"objects\": %" PRIu32 ", \"samples\": ", o->kind, o->objects);
        if (o->samples == 0) /* not read yet */
            printf("null, \"chunks\": null");
        else
            printf("%" PRIu64 ", \"chunks\": %" PRIu32, o->samples, x->cut.chunks);
        printf(", \"bytes\": %" PRIu64 ", \"list_requests\": %" PRIu64 ", \"list_s\": %.3f, \"list_usd\": %.6f, "
               "\"epoch_requests\": %" PRIu64 ", \"epoch_usd\": %.6f, \"epoch_minutes\": %.6f}\n",
               o->bytes, o->requests, (double)x->opened_ns / 1e9, priced ? (double)o->requests * USD_PER_LIST : 0, gets,
               priced ? (double)gets * USD_PER_GET : 0, minutes);
        return;
    }
    if (o->samples == 0)
        printf("%" PRIu32 " shards, %s; the number of samples is known after indexing, which reads them once\n",
               o->objects, leat_format_size(o->bytes, size));
    else
        printf("%" PRIu32 " objects, %s: %" PRIu64 " samples in %" PRIu32 " chunks\n", o->objects,
               leat_format_size(o->bytes, size), o->samples, x->cut.chunks);
    printf("listing: %" PRIu64 " requests, %s", o->requests, leat_format_duration(x->opened_ns, took));
    if (priced)
        printf(", %.4f USD; indexing lists once more and stores a few objects", (double)o->requests * USD_PER_LIST);
    printf("\nan epoch without a cache: %" PRIu64 " requests", gets);
    if (priced)
        printf(", %.4f USD, at least %.1f minutes with %.0f connections and %.0f ms per request\n(%s)",
               (double)gets * USD_PER_GET, minutes, CONNECTIONS, REQUEST_S * 1000, PRICES_SOURCE);
    printf("\nnothing was written (--dry-run)\n");
}

/* Indexing */

static struct leat_mix_result judge_mix(const struct indexing *x)
{
    struct leat_mix mix = {0};
    for (uint32_t i = 0; x->opened.raw && x->opened.counts.classes && i < leat_mix_chunks(x->cut.chunks); i++) {
        uint32_t chunk = leat_mix_chunk(x->cut.chunks, i);
        uint32_t n = (uint32_t)(x->cut.starts[chunk + 1] - x->cut.starts[chunk]);
        for (uint32_t k = 0; k < leat_mix_samples(x->cut.chunks, n); k++) {
            uint64_t place = x->cut.starts[chunk] + leat_mix_sample(x->cut.chunks, n, k);
            leat_mix_add(&mix, i, leat_origin_raw_label(x->opened.origin, leat_cut_sample(&x->cut, place)));
        }
    }
    return leat_mix_judge(&mix);
}

static struct leat_cli_origin_opts origin_opts(const struct indexing *x)
{
    const struct index_settings *s = x->s;
    return (struct leat_cli_origin_opts){.settings = &x->origin,
                                         .store = &s->store,
                                         .to = &x->to,
                                         .threads = s->threads < 1000 ? (unsigned)s->threads : 1000,
                                         .chunk_bytes = s->chunk_size,
                                         .dry = s->dry_run,
                                         .fresh = s->fresh,
                                         .save_every_ns = s->save_every_ns,
                                         .merge = s->merge,
                                         .add_to = x->add_to,
                                         .seed = s->seed};
}

static leat_status open_origin(struct indexing *x, char **urls, uint32_t n, struct leat_error *err)
{
    const struct index_settings *s = x->s;
    struct leat_cli_origin_opts opts = origin_opts(x);
    struct leat_progress *progress = leat_progress_open(&s->progress, "objects", look_listing, x);
    uint64_t began = leat_now_ns();
    leat_status rc = leat_cli_origin_open(&opts, urls, n, &x->opened, err);
    x->opened_ns = leat_now_ns() - began;
    leat_progress_close(progress);
    return rc;
}

static leat_status make_index(struct indexing *x, struct leat_error *err)
{
    const struct index_settings *s = x->s;
    struct leat_index_origin_opts opts = {
        .cut = {.keep_order = s->keep_order, .seed = s->seed, .chunk_bytes = s->chunk_size},
        .threads = s->threads < 1000 ? (unsigned)s->threads : 1000,
        .publish = {.name = s->name, .keep_current = s->no_current, .replace = s->replace, .add_to = x->add_to},
        .stop = stop,
        .samples = &x->samples};
    if (s->dry_run && x->opened.origin->samples == 0) /* they would have to be read */
        return LEAT_OK;
    leat_status rc = leat_cut_make(x->opened.origin, &opts.cut, &x->cut, err);
    if (rc != LEAT_OK || s->dry_run)
        return rc;
    x->mix = judge_mix(x);
    struct leat_progress *progress = leat_progress_open(&s->progress, "samples", look_making, x);
    rc = leat_index_origin(x->opened.origin, &x->cut, &x->to, &opts, &x->result, err);
    leat_progress_close(progress);
    return rc;
}

/* Listing a part for others to merge. */
static leat_status make_part(struct indexing *x, char **urls, uint32_t n, struct leat_error *err)
{
    const struct index_settings *s = x->s;
    struct leat_cli_origin_opts opts = origin_opts(x);
    const char *slash = strchr(s->part, '/');
    char first[24] = "";
    uint64_t part = 0;
    uint64_t parts = 0;
    uint64_t objects;
    if (slash && (size_t)(slash - s->part) < sizeof first) {
        memcpy(first, s->part, (size_t)(slash - s->part));
        if (leat_parse_u64(first, "part", &part, NULL) != LEAT_OK ||
            leat_parse_u64(slash + 1, "part", &parts, NULL) != LEAT_OK)
            part = 0;
    }
    if (part < 1 || part > parts || parts > LEAT_LISTING_PARTS)
        return leat_fail(err, LEAT_INVALID, "--part: '%s' is not I/N with I from 1 to N, and N at most %u", s->part,
                         LEAT_LISTING_PARTS);
    leat_status rc = leat_cli_origin_check_part(&s->origin, urls, n, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_progress *progress = leat_progress_open(&s->progress, "objects", look_listing, x);
    rc = leat_cli_origin_part(&opts, urls, n, (uint32_t)part - 1, (uint32_t)parts, &x->opened, &objects, err);
    leat_progress_close(progress);
    if (rc != LEAT_OK)
        return rc;
    if (s->json)
        printf("{\"part\": %" PRIu64 ", \"parts\": %" PRIu64 ", \"objects\": %" PRIu64 "}\n", part, parts, objects);
    else if (!s->progress.quiet)
        printf("part %" PRIu64 " of %" PRIu64 ": %" PRIu64
               " objects; when all parts are there: leat index --merge %s\n",
               part, parts, objects, x->to.url);
    return LEAT_OK;
}

static void print_result(const struct indexing *x)
{
    const struct leat_origin *o = x->opened.origin;
    const struct leat_raw_counts *c = &x->opened.counts;
    char id[2 * LEAT_SHA256_SIZE + 1];
    char size[LEAT_FORMAT_SIZE];
    char pins[LEAT_CLI_PINS];
    leat_hex(x->result.id, sizeof x->result.id, id);
    if (x->s->json) {
        printf("{\"id\": \"%s\", \"format\": \"%s\", \"samples\": %" PRIu64 ", \"chunks\": %" PRIu32
               ", \"objects\": %" PRIu32 ", \"bytes\": %" PRIu64 ", \"labels\": %" PRIu32 ", \"hidden\": %" PRIu64
               ", \"incomplete\": %" PRIu64 ", \"unnamed\": %" PRIu64 ", \"known\": %" PRIu64
               ", \"skipped_members\": %" PRIu64 ", \"other_objects\": %" PRIu64 ", \"tokens\": %" PRIu64
               ", \"documents\": %" PRIu64 ", \"list_requests\": %" PRIu64
               ", \"list_s\": %.3f, \"sorted_by_class\": %s, \"guarded\": %s, \"pinned\": %s}\n",
               id, o->kind, o->samples, x->cut.chunks, o->objects, o->bytes, c->classes, c->hidden, c->incomplete,
               c->unnamed, c->known, x->opened.tar.skipped, x->opened.tar.other + x->opened.tokens.other,
               x->opened.tokens.tokens, x->opened.tokens.documents, o->requests, (double)x->opened_ns / 1e9,
               x->mix.sorted ? "true" : "false", x->result.guarded ? "true" : "false",
               leat_cli_json_pins(&x->result.pins, pins));
        return;
    }
    printf("%" PRIu64 " samples in %" PRIu32 " chunks, %" PRIu32 " objects, %s", o->samples, x->cut.chunks, o->objects,
           leat_format_size(o->bytes, size));
    if (c->classes)
        printf(", %" PRIu32 " labels", c->classes);
    printf("\npinned: %s\nid %s\n", leat_cli_say_pins(&x->result.pins, pins), id);
    if (c->hidden)
        printf("left out: %" PRIu64 " hidden files\n", c->hidden);
    if (c->incomplete)
        printf("left out: %" PRIu64 " samples that lack a file (--missing skip)\n", c->incomplete);
    if (c->unnamed)
        printf("left out: %" PRIu64 " samples that the manifest does not name\n", c->unnamed);
    if (c->known)
        printf("left out: %" PRIu64 " samples that were there already\n", c->known);
    if (x->opened.tokens.tokens) {
        printf("%" PRIu64 " tokens", x->opened.tokens.tokens);
        if (x->opened.tokens.documents)
            printf(", %" PRIu64 " documents", x->opened.tokens.documents);
        printf("\n");
    }
    if (x->opened.tar.skipped)
        printf("left out: %" PRIu64 " members that are not part of a sample, such as '%s'\n", x->opened.tar.skipped,
               x->opened.tar.skipped_name);
    if (x->opened.tar.other + x->opened.tokens.other)
        printf("left out: %" PRIu64 " objects with other endings\n", x->opened.tar.other + x->opened.tokens.other);
    if (!x->result.guarded)
        printf("%s does not support conditions (If-None-Match): if someone else published there at the same moment, "
               "it went unnoticed\n",
               x->to.url);
    if (x->mix.sorted)
        leat_cli_print_mix("the chunks are sorted by class", &x->mix, x->cut.chunks, o->bytes);
}

static leat_status check(const struct index_settings *s, int urls, struct leat_error *err)
{
    if (s->chunk_size < 4096 || s->chunk_size > 1u << 30)
        return leat_fail(err, LEAT_INVALID, "--chunk-size: between 4KiB and 1GiB");
    if (s->no_current && !s->name)
        return leat_fail(err, LEAT_INVALID, "--no-current needs --name");
    if (s->part && (s->merge || s->dry_run))
        return leat_fail(err, LEAT_INVALID, "--part only lists: it cannot be combined with --merge or --dry-run");
    if (s->part && (s->keep_order || s->seed || s->name || s->replace || s->add_to))
        return leat_fail(err, LEAT_INVALID, "--part only lists: give %s to --merge",
                         s->keep_order ? "--keep-order"
                         : s->seed     ? "--seed"
                         : s->name     ? "--name"
                         : s->replace  ? "--replace"
                                       : "--add-to");
    if ((s->part || s->merge) && (s->fresh || s->save_every_ns != LEAT_CLI_SAVE_EVERY_NS))
        return leat_fail(err, LEAT_INVALID, "%s is about a listing in one go, without --part and --merge",
                         s->fresh ? "--fresh" : "--save-every");
    if (s->keep_order && s->seed)
        return leat_fail(err, LEAT_INVALID, "--seed is of the permutation that --keep-order leaves out");
    if (urls == 0 && !s->merge)
        return leat_fail(err, LEAT_INVALID,
                         "leat index needs URL… DEST: what to index, and where to store the dataset");
    return LEAT_OK;
}

/* Everything but the opening of DEST. */
static leat_status do_index(struct indexing *x, char **urls, uint32_t n, struct leat_error *err)
{
    const struct index_settings *s = x->s;
    struct leat_cli_origin_opts opts = origin_opts(x);
    if (s->part)
        return make_part(x, urls, n, err);
    leat_status rc = open_origin(x, urls, n, err);
    if (rc == LEAT_OK)
        rc = make_index(x, err);
    if (rc != LEAT_OK)
        return rc;
    if (s->dry_run) {
        print_dry(x);
        return LEAT_OK;
    }
    if (!(s->progress.quiet && !s->json))
        print_result(x);
    return leat_cli_origin_done(&opts, &x->opened, err);
}

static int run(const void *settings, int argc, char **argv)
{
    const struct index_settings *s = settings;
    struct indexing x = {.s = s, .origin = s->origin};
    struct leat_error err;
    leat_status rc = check(s, argc - 1, &err);
    if (rc == LEAT_OK)
        rc = leat_cli_store_one_kind(&s->store, argv, argc,
                                     (const char *const[2]){s->origin.manifest, s->origin.classes}, &err);
    if (rc == LEAT_OK)
        rc = leat_cli_home_open(&s->store, argv[argc - 1], &x.to, &err);
    if (rc == LEAT_OK)
        rc = leat_home_check_plain(&x.to, &err);
    if (rc == LEAT_OK && s->add_to)
        rc = leat_cli_add_to(&s->store, argv[argc - 1], &x.origin, &x.add_to, &err);
    if (rc == LEAT_OK)
        rc = do_index(&x, argv, (uint32_t)argc - 1, &err);
    leat_cut_free(&x.cut);
    leat_cli_origin_close(&x.opened);
    leat_dataset_close(x.add_to);
    leat_home_close(&x.to);
    return rc == LEAT_OK ? leat_cli_finish() : leat_cli_fail(&err);
}

const struct leat_command leat_command_index = {
    .name = "index",
    .arguments = "[URL…] DEST",
    .summary = "make a dataset from objects that stay where they are",
    .details =
        "Every object below the URLs (prefixes of buckets, folders) becomes a sample, without being copied or read: "
        "DEST gets a snapshot that says where each object is, how long it is and which ETag it has. Training reads "
        "the objects themselves. If one has changed since, that is an error, never other data: index again. Objects "
        "whose "
        "server states neither an ETag nor a date are read once, for a checksum; the summary counts how chunks are "
        "pinned. DEST "
        "may be anywhere, even in the same folder: its own objects (leat/…) are not samples.\n\nA sample's key is "
        "its path below the URL; with several URLs, below the last folder that they share. Hidden files are left "
        "out. Samples are permuted by a fixed seed, so that a bucket sorted by class does not make chunks of one "
        "class, unless --keep-order is given. The same objects, indexed with the same options, give the same "
        "dataset.\n\nWith --group, objects whose names differ only after the first dot are one sample with a field "
        "for each ending, as in WebDataset. Files are taken as they are: a number in a text file stays text. For "
        "numbers, use a manifest.\n\nTar shards (--format tar, or URLs that end in .tar) are read once, from start "
        "to end: members that follow each other and have the same path up to the first dot of their name are one "
        "sample, as in WebDataset. A chunk is a range of a shard, and its checksum is known. Files of tokens "
        "(--format tokens, .bin and .npy) are not read otherwise: a chunk is a range of tokens, a power of two of "
        "them. For "
        "both, a URL may have braces ('s3://bucket/{000..127}.tar'), be a prefix, or name a list ('@shards.txt'); "
        "their order stays.\n\nThe snapshot is published last: an interrupted indexing leaves nothing that looks "
        "like a dataset. Listings that take longer than --save-every are saved at DEST from time to time; within a "
        "day, the same command continues with them and says so. Several machines can share the listing: each lists "
        "one part (--part 1/8, 2/8, …), then one merges them (--merge), with the options about samples; the result "
        "is the same as without parts.\n\n--add-to makes a version from the current one and the new samples: its "
        "chunks are shared, and its samples keep their numbers.\n\nMemory: key, ETag and 40 bytes per object, and at "
        "most 256 MiB for the "
        "snapshot.",
    .examples = "  leat index s3://bucket/imagenet/train s3://my-bucket/imagenet-index\n"
                "  leat index --group --missing skip s3://bucket/captions /datasets/captions\n"
                "  leat index --manifest labels.csv --label-column species \\\n"
                "      s3://bucket/photos /datasets/photos\n"
                "  leat index --type cls=int \\\n"
                "      's3://bucket/train-{000000..004095}.tar' /datasets/train\n"
                "  leat index --dtype uint16 /data/fineweb/train.bin /datasets/fineweb\n"
                "  leat index --label-regex 'class_(\\d+)/' --dry-run \\\n"
                "      s3://bucket/a s3://bucket/b /datasets/ab\n",
    .options = options,
    .settings_size = sizeof(struct index_settings),
    .arguments_min = 1,
    .arguments_max = 1000,
    .run = run,
};
