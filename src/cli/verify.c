#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dataset.h"

struct verify_settings {
    struct leat_cli_store store;
    uint64_t jobs;
    bool quiet;
};

static const struct leat_option options[] = {
    {"jobs", 'j', LEAT_OPTION_U64, offsetof(struct verify_settings, jobs), "N", NULL, "LEAT_JOBS",
     "threads (else one for each CPU)"},
    {"quiet", 'q', LEAT_OPTION_FLAG, offsetof(struct verify_settings, quiet), NULL, NULL, NULL,
     "no progress and no summary"},
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
        rc = leat_fail(err, LEAT_CORRUPT, "sample %" PRIu64 " is another in the snapshot than in its chunk", sample);
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
        rc = leat_fail(err, LEAT_CORRUPT, "sample %" PRIu64 " has another key in the snapshot than in its chunk",
                       sample);
    return rc;
}

/* The sections must say of every sample what its chunk says. */
static leat_status compare_samples(const struct verification *v, uint64_t first, const struct leat_chunk *c,
                                   struct leat_error *err)
{
    uint8_t *row = malloc((size_t)c->schema.row_bytes + 1);
    struct leat_buf key;
    leat_buf_init(&key, LEAT_KEY_MAX);
    leat_status rc = row ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for a row");
    for (uint32_t i = 0; rc == LEAT_OK && i < c->samples; i++) {
        rc = compare_row(v, first + i, c, i, row, err);
        if (rc == LEAT_OK)
            rc = compare_key(v, first + i, c, i, &key, err);
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
    leat_status rc = leat_chunk_check(c, err);
    if (rc != LEAT_OK)
        return rc;
    leat_sha256(c->data, c->size, sha);
    if (memcmp(sha, leat_root_chunk_name(root, chunk), sizeof sha) != 0)
        return leat_fail(err, LEAT_CORRUPT, "chunk %u does not have the bytes its name promises", chunk);
    return compare_samples(v, first, c, err);
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
                                  .quiet = s->quiet,
                                  .each = check_chunk,
                                  .failed = report,
                                  .user = v};
    return leat_cli_each_chunk(&run, err);
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
    const struct leat_root *root = leat_dataset_root(v.dataset);
    leat_status rc = verify(&v, s, &err);
    int status = LEAT_EXIT_OK;
    if (rc != LEAT_OK)
        status = leat_cli_fail(&err);
    else if (v.bad)
        status =
            leat_cli_failf(v.first, "%" PRIu32 " of %" PRIu32 " chunks are damaged or missing", v.bad, root->chunks);
    else if (!s->quiet)
        printf("%" PRIu64 " samples in %" PRIu32 " chunks, %s: all good\n", root->samples, root->chunks,
               leat_format_size(root->bytes, size));
    leat_dataset_close(v.dataset);
    return status == LEAT_EXIT_OK ? leat_cli_finish() : status;
}

const struct leat_command leat_command_verify = {
    .name = "verify",
    .arguments = "DATASET",
    .summary = "read a whole dataset and check every byte of it",
    .details = "Checks the snapshot's sections against the digests in its root, every chunk against its checksum, its "
               "name and its own checksums, and every sample's row and key in the snapshot against its chunk. Names "
               "each chunk that is damaged or missing; the exit status is 6 or 3 then. A lost snapshot can be made "
               "again with 'leat rebuild'.",
    .examples = "  leat verify s3://bucket/imagenet/train\n",
    .options = options,
    .settings_size = sizeof(struct verify_settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
