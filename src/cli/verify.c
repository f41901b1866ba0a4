#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dataset.h"
#include "cli/progress.h"
#include "dataset/learn.h"

struct verify_settings {
    struct leat_cli_store store;
    uint64_t jobs;
    struct leat_cli_progress progress;
    bool learn;
};

static const struct leat_option options[] = {
    {"jobs", 'j', LEAT_OPTION_U64, offsetof(struct verify_settings, jobs), "N", NULL, "LEAT_JOBS",
     "threads (default: one per CPU)"},
    {"quiet", 'q', LEAT_OPTION_FLAG, offsetof(struct verify_settings, progress.quiet), NULL, NULL, NULL,
     "no progress and no summary"},
    LEAT_PROGRESS_OPTION(offsetof(struct verify_settings, progress)),
    {"learn", 0, LEAT_OPTION_FLAG, offsetof(struct verify_settings, learn), NULL, NULL, NULL,
     "for data indexed in place: if everything is good, store the checksums of what was read"},
    LEAT_STORE_OPTIONS(offsetof(struct verify_settings, store)),
    {0},
};

struct verification {
    struct leat_dataset *dataset;
    bool rows; /* there is a table of samples to compare with the chunks' */
    bool keys; /* likewise keys */
    uint32_t bad;
    leat_status first; /* of the failures */
};

static leat_status compare_row(const struct verification *v, uint64_t sample, const struct leat_chunk *c, uint32_t i,
                               uint8_t *row, struct leat_error *err)
{
    leat_status rc = v->rows ? leat_dataset_row(v->dataset, sample, row, err) : LEAT_OK;
    if (rc == LEAT_OK && v->rows && memcmp(row, leat_chunk_row(c, i), c->schema.row_bytes) != 0)
        rc = leat_fail(err, LEAT_CORRUPT, "sample %" PRIu64 " differs between the snapshot and its chunk", sample);
    return rc;
}

static leat_status compare_key(const struct verification *v, uint64_t sample, const struct leat_chunk *c, uint32_t i,
                               struct leat_buf *key, struct leat_error *err)
{
    size_t n;
    const char *own = leat_chunk_key(c, i, &n);
    leat_buf_clear(key);
    leat_status rc = v->keys ? leat_dataset_key(v->dataset, sample, key, err) : LEAT_OK;
    if (rc == LEAT_OK && v->keys && (key->len != n || memcmp(key->data, own, n) != 0))
        rc = leat_fail(err, LEAT_CORRUPT, "sample %" PRIu64 " has different keys in the snapshot and in its chunk",
                       sample);
    return rc;
}

/* The sections must say of every sample what its chunk says. */
static leat_status compare_samples(const struct verification *v, uint32_t chunk, uint64_t first,
                                   const struct leat_chunk *c, struct leat_error *err)
{
    uint32_t n = leat_dataset_counts(v->dataset)[chunk];
    uint8_t *row = malloc((size_t)c->schema.row_bytes + 1);
    struct leat_buf key;
    leat_buf_init(&key, LEAT_KEY_MAX);
    leat_status rc = row ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for a row");
    for (uint32_t i = 0; rc == LEAT_OK && i < n; i++) {
        uint32_t index = leat_dataset_index(v->dataset, chunk, i);
        rc = compare_row(v, first + i, c, index, row, err);
        if (rc == LEAT_OK)
            rc = compare_key(v, first + i, c, index, &key, err);
    }
    leat_buf_free(&key);
    free(row);
    return rc;
}

static leat_status check_chunk(void *user, uint32_t chunk, uint64_t first, const struct leat_chunk *c,
                               struct leat_error *err)
{
    struct verification *v = user;
    const struct leat_root *root = leat_dataset_root(v->dataset);
    uint8_t sha[LEAT_SHA256_SIZE];
    if (c->lead_bytes) /* its name is the recipe's, which was compared on the way, as was what is known of the data */
        return compare_samples(v, chunk, first, c, err);
    leat_status rc = leat_chunk_check(c, err);
    if (rc != LEAT_OK)
        return rc;
    leat_sha256(c->data, c->size, sha);
    if (memcmp(sha, leat_root_chunk_name(root, chunk), sizeof sha) != 0)
        return leat_fail(err, LEAT_CORRUPT, "chunk %u does not hold the bytes that its name stands for", chunk);
    return compare_samples(v, chunk, first, c, err);
}

static bool report(void *user, uint32_t chunk, const struct leat_error *err)
{
    (void)chunk;
    struct verification *v = user;
    fprintf(stderr, "leat: %s\n", err->text);
    if (v->bad++ == 0)
        v->first = err->status;
    return true;
}

static leat_status verify(struct verification *v, const struct verify_settings *s, struct leat_error *err)
{
    const struct leat_root *root = leat_dataset_root(v->dataset);
    for (uint32_t i = 0; i < root->sections_n; i++) {
        const struct leat_section *section = &root->sections[i];
        leat_status rc = leat_dataset_check_section(v->dataset, section, err);
        if (rc != LEAT_OK)
            return rc;
        bool readable = leat_section_check(section, err) == LEAT_OK;
        v->rows |= readable && section->kind == LEAT_SECTION_SAMPLES;
        v->keys |= readable && section->kind == LEAT_SECTION_KEYS;
        if (!readable)
            fprintf(stderr, "leat: only the digests of a section were checked: %s\n", err->text);
    }
    struct leat_cli_chunks run = {.dataset = v->dataset,
                                  .threads = s->jobs < 1000 ? (unsigned)s->jobs : 1000,
                                  .progress = s->progress,
                                  .each = check_chunk,
                                  .failed = report,
                                  .user = v};
    return leat_cli_each_chunk(&run, err);
}

/* What is good is worth keeping. */
static int learn(const struct verification *v, const struct verify_settings *s)
{
    struct leat_error err;
    uint32_t n = 0;
    if (!leat_dataset_sources(v->dataset))
        return leat_cli_failf(LEAT_INVALID, "%s was packed: it has all checksums already",
                              leat_dataset_home(v->dataset)->url);
    if (leat_learn(v->dataset, &n, &err) != LEAT_OK)
        return leat_cli_fail(&err);
    if (!s->progress.quiet)
        printf("%" PRIu32 " checksums learned\n", n);
    return LEAT_EXIT_OK;
}

static int run(const void *settings, int argc, char **argv)
{
    (void)argc;
    const struct verify_settings *s = settings;
    struct verification v = {0};
    struct leat_error err;
    char size[LEAT_FORMAT_SIZE];
    if (leat_cli_dataset_open(&s->store, argv[0], &v.dataset, &err) != LEAT_OK)
        return leat_cli_fail(&err);
    struct leat_cli_used used = leat_cli_used(v.dataset);
    leat_status rc = verify(&v, s, &err);
    int status = LEAT_EXIT_OK;
    if (rc != LEAT_OK)
        status = leat_cli_fail(&err);
    else if (v.bad)
        status =
            leat_cli_failf(v.first, "%" PRIu32 " of %" PRIu32 " chunks are damaged or missing", v.bad, used.chunks);
    else if (!s->progress.quiet)
        printf("%" PRIu64 " samples in %" PRIu32 " chunks, %s: all good%s\n", leat_dataset_samples(v.dataset),
               used.chunks, leat_format_size(used.bytes, size),
               leat_root_unsummed(leat_dataset_root(v.dataset))
                   ? "; chunks without a checksum were compared by length and ETag only"
                   : "");
    if (status == LEAT_EXIT_OK && s->learn)
        status = learn(&v, s);
    leat_dataset_close(v.dataset);
    return status == LEAT_EXIT_OK ? leat_cli_finish() : status;
}

const struct leat_command leat_command_verify = {
    .name = "verify",
    .arguments = "DATASET",
    .summary = "read a whole dataset and check every byte",
    .details =
        "Checks the snapshot's sections against the digests in its root, every chunk against its checksum, its name "
        "and the checksums inside it, and every sample's row and key in the snapshot against its chunk. For data "
        "indexed in place, the objects are checked against what is known of them: lengths, ETags, checksums. Each "
        "damaged or missing chunk is named, and the exit status is 6 or 3. For a selection, only chunks with "
        "selected samples are read. 'leat rebuild' rebuilds a lost snapshot.\n\nWith --learn, the checksums of data "
        "that was read for the first time are stored in the snapshot, which stays the same version: later readers "
        "get these bytes or an error, even if the store has no ETags.",
    .examples = "  leat verify s3://bucket/imagenet/train\n"
                "  leat verify --learn s3://bucket/index  # once, after 'leat index'\n",
    .options = options,
    .settings_size = sizeof(struct verify_settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
