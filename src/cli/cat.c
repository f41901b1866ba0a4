#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dataset.h"
#include "cli/store_options.h"
#include "dataset/keys.h"
#include "store/stream.h"

struct cat_settings {
    struct leat_cli_store store;
    uint64_t offset;
    const char *length;
    const char *sample;
    const char *field;
};

static const struct leat_option options[] = {
    {"offset", 0, LEAT_OPTION_SIZE, offsetof(struct cat_settings, offset), "SIZE", NULL, NULL,
     "begin so many bytes into the object"},
    {"length", 0, LEAT_OPTION_STRING, offsetof(struct cat_settings, length), "SIZE", NULL, NULL,
     "write so many bytes at most"},
    {"sample", 'n', LEAT_OPTION_STRING, offsetof(struct cat_settings, sample), "N", NULL, NULL,
     "URL is a dataset: write its sample with this number"},
    {"field", 0, LEAT_OPTION_STRING, offsetof(struct cat_settings, field), "NAME", NULL, NULL,
     "of a sample: the field to write (else the first with bytes)"},
    LEAT_STORE_OPTIONS(offsetof(struct cat_settings, store)),
    {0},
};

/* *left: the reader has gone, which needs no message. */
static leat_status write_out(const char *data, size_t n, bool *left, struct leat_error *err)
{
    while (n) {
        ssize_t done = write(STDOUT_FILENO, data, n);
        if (leat_cli_interrupted()) /* a write that was under way may have ended half done, or with EINTR */
            return leat_fail(err, LEAT_CANCELLED, "interrupted");
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0) {
            *left = errno == EPIPE;
            return leat_fail_errno(err, errno, "cannot write to standard output");
        }
        data += done;
        n -= (size_t)done;
    }
    return LEAT_OK;
}

static leat_status write_object(struct leat_store *store, const char *key, uint64_t offset, uint64_t length, bool *left,
                                struct leat_error *err)
{
    struct leat_object object;
    struct leat_stream *stream = NULL;
    leat_status rc = leat_store_stat(store, key, &object, err);
    if (rc == LEAT_OK)
        rc = leat_stream_open(store, key, &object, offset, length, 0, 0, &stream, err);
    size_t n = 1;
    while (rc == LEAT_OK && n) {
        const void *data;
        rc = leat_stream_next(stream, &data, &n, err);
        if (rc == LEAT_OK)
            rc = write_out(data, n, left, err);
    }
    leat_stream_close(stream);
    return rc;
}

/* Each of them, whatever became of the one before; the first failure is the command's. */
static int write_objects(const struct cat_settings *s, int argc, char **argv)
{
    struct leat_error err;
    uint64_t length = UINT64_MAX;
    bool left = false;
    int status = LEAT_EXIT_OK;
    if (s->length && leat_parse_size(s->length, "--length", &length, &err) != LEAT_OK)
        return leat_cli_fail(&err);
    for (int i = 0; i < argc && !left && !leat_cli_interrupted(); i++) {
        struct leat_store *store = NULL;
        char *key = NULL;
        leat_status rc = leat_cli_store_open(&s->store, argv[i], &store, &key, &err);
        if (rc == LEAT_OK)
            rc = write_object(store, key, s->offset, length, &left, &err);
        leat_store_close(store);
        free(key);
        int failed = left ? LEAT_EXIT_FAILURE : rc != LEAT_OK ? leat_cli_fail(&err) : LEAT_EXIT_OK;
        status = status != LEAT_EXIT_OK ? status : failed;
    }
    return status;
}

/* Two arguments are a dataset and a key when there is a dataset at the first: such a URL is no object itself. */
static bool names_dataset(const struct cat_settings *s, int argc, char **argv)
{
    struct leat_home home;
    struct leat_pointer pointer;
    if (s->sample || s->field)
        return true;
    if (argc != 2 || leat_cli_home_open(&s->store, argv[0], &home, NULL) != LEAT_OK)
        return false;
    bool versioned = home.id || home.name;
    leat_status rc = versioned ? LEAT_OK : leat_home_pointer(&home, LEAT_NAME_POINTER, &pointer, NULL);
    leat_home_close(&home);
    return rc == LEAT_OK || rc == LEAT_VERSION || rc == LEAT_CORRUPT; /* which opening it will say */
}

static leat_status write_field(const struct leat_chunk *c, uint32_t i, uint32_t field, bool *left,
                               struct leat_error *err)
{
    struct leat_cell cell = leat_chunk_cell(c, i, field);
    leat_status rc = leat_field_check(&c->schema.fields[field], err);
    if (rc != LEAT_OK)
        return rc;
    if (cell.absent)
        return leat_fail(err, LEAT_NOT_FOUND, "the sample has no '%s', which is optional",
                         c->schema.fields[field].name);
    if (leat_field_has_data(&c->schema.fields[field]))
        return write_out((const char *)leat_chunk_data(c, &cell), cell.size, left, err);
    char text[32];
    int n = snprintf(text, sizeof text, "%" PRId64 "\n", cell.number);
    return write_out(text, (size_t)n, left, err);
}

/* Keys may repeat: which of the samples is written is said. */
static leat_status find_sample(struct leat_dataset *d, const char *key, uint64_t *sample, struct leat_error *err)
{
    uint64_t count;
    leat_status rc = leat_dataset_find(d, key, strlen(key), sample, &count, err);
    if (rc == LEAT_OK && count > 1)
        fprintf(stderr, "leat: %s%" PRIu64 " samples have the key '%s'; this is the first, number %" PRIu64 "\n",
                count == LEAT_KEYS_COUNT_MAX ? "at least " : "", count, key, *sample);
    return rc;
}

static leat_status write_sample(const struct cat_settings *s, int argc, char **argv, bool *left, struct leat_error *err)
{
    struct leat_dataset *d = NULL;
    struct leat_chunk c;
    void *data = NULL;
    uint64_t sample = 0;
    uint32_t field = 0;
    if (argc != (s->sample ? 1 : 2))
        return leat_fail(err, LEAT_INVALID, "give a dataset and a key, or a dataset and -n NUMBER");
    leat_status rc = s->sample ? leat_parse_u64(s->sample, "--sample", &sample, err) : LEAT_OK;
    if (rc == LEAT_OK)
        rc = leat_cli_dataset_open(&s->store, argv[0], &d, err);
    if (rc == LEAT_OK)
        rc = leat_cli_pick_field(&leat_dataset_root(d)->schema, s->field, &field, err);
    if (rc == LEAT_OK && !s->sample)
        rc = find_sample(d, argv[1], &sample, err);
    if (rc == LEAT_OK && sample >= leat_dataset_root(d)->samples)
        rc = leat_fail(err, LEAT_NOT_FOUND, "there is no sample %" PRIu64 ": the dataset has %" PRIu64, sample,
                       leat_dataset_root(d)->samples);
    if (rc == LEAT_OK) {
        uint32_t index;
        uint32_t chunk = leat_dataset_locate(d, sample, &index);
        rc = leat_dataset_load(d, chunk, &data, &c, err);
        if (rc == LEAT_OK)
            rc = write_field(&c, index, field, left, err);
    }
    free(data);
    leat_dataset_close(d);
    return rc;
}

static int run(const void *settings, int argc, char **argv)
{
    const struct cat_settings *s = settings;
    struct leat_error err;
    if (!names_dataset(s, argc, argv))
        return write_objects(s, argc, argv);
    bool left = false;
    if (write_sample(s, argc, argv, &left, &err) == LEAT_OK)
        return LEAT_EXIT_OK;
    return left ? LEAT_EXIT_FAILURE : leat_cli_fail(&err);
}

const struct leat_command leat_command_cat = {
    .name = "cat",
    .arguments = "URL… | DATASET KEY | -n N DATASET",
    .summary = "write objects, or a sample of a dataset, to standard output",
    .details = "Large objects are fetched in parts, several at a time, and written in order. An object that changes "
               "meanwhile is an error: bytes of two versions are never mixed.\n\n"
               "Where the first URL is a dataset, the sample with the given key or number is written: its bytes, or an "
               "int as text.",
    .examples = "  leat cat s3://bucket/train/labels.csv | head\n"
                "  leat cat --offset 1MiB --length 64KiB s3://bucket/shard-000.tar | xxd\n"
                "  leat cat s3://bucket/imagenet/train n01440764/n01440764_18.JPEG > fish.jpg\n"
                "  leat cat -n 17 --field cls s3://bucket/imagenet/train\n",
    .options = options,
    .settings_size = sizeof(struct cat_settings),
    .arguments_min = 1,
    .arguments_max = 1000000,
    .run = run,
};
