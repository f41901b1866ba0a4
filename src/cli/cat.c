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
#include "dataset/npy.h"
#include "store/stream.h"

struct cat_settings {
    struct leat_cli_store store;
    uint64_t offset;
    const char *length;
    const char *sample;
    const char *field;
    bool npy;
};

static const struct leat_option options[] = {
    {"offset", 0, LEAT_OPTION_SIZE, offsetof(struct cat_settings, offset), "SIZE", NULL, NULL,
     "start at this byte of the object"},
    {"length", 0, LEAT_OPTION_STRING, offsetof(struct cat_settings, length), "SIZE", NULL, NULL,
     "write at most this many bytes"},
    {"sample", 'n', LEAT_OPTION_STRING, offsetof(struct cat_settings, sample), "N", NULL, NULL,
     "write the sample with this number; URL is a dataset"},
    {"field", 0, LEAT_OPTION_STRING, offsetof(struct cat_settings, field), "NAME", NULL, NULL,
     "field of the sample to write (default: the first that holds bytes)"},
    {"npy", 0, LEAT_OPTION_FLAG, offsetof(struct cat_settings, npy), NULL, NULL, NULL,
     "write an array or tokens as a .npy file instead of bare numbers"},
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

static leat_status write_object(struct leat_store *store, char *key, uint64_t offset, uint64_t length, bool *left,
                                struct leat_error *err)
{
    struct leat_object object;
    struct leat_stream *stream = NULL;
    const char *version = "";
    leat_status rc = leat_store_split_version(store, key, &version, err);
    if (rc == LEAT_OK)
        rc = leat_store_look_version(store, key, version, &object, err);
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
    if (leat_cli_store_one_kind(&s->store, argv, argc, NULL, &err) != LEAT_OK)
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
    if (s->sample || s->field || s->npy)
        return true;
    if (argc != 2 || leat_cli_home_open(&s->store, argv[0], &home, NULL) != LEAT_OK)
        return false;
    bool versioned = home.id || home.name;
    leat_status rc = versioned ? LEAT_OK : leat_home_pointer(&home, LEAT_NAME_POINTER, &pointer, NULL);
    leat_home_close(&home);
    return rc == LEAT_OK || rc == LEAT_VERSION || rc == LEAT_CORRUPT; /* which opening it will say */
}

static leat_status write_npy_head(const struct leat_field *f, const struct leat_cell *cell, bool *left,
                                  struct leat_error *err)
{
    struct leat_buf head;
    if (f->type != LEAT_FIELD_ARRAY && f->type != LEAT_FIELD_TOKENS)
        return leat_fail(err, LEAT_INVALID, "--npy: field '%s' is %s, neither an array nor tokens", f->name,
                         leat_field_type_name(f->type));
    leat_buf_init(&head, 4096);
    leat_status rc = leat_npy_head(f, cell, &head, err);
    if (rc == LEAT_OK)
        rc = write_out(head.data, head.len, left, err);
    leat_buf_free(&head);
    return rc;
}

static leat_status write_field(const struct leat_chunk *c, uint32_t i, uint32_t field, bool npy, bool *left,
                               struct leat_error *err)
{
    struct leat_cell cell = leat_chunk_cell(c, i, field);
    leat_status rc = leat_field_check(&c->schema.fields[field], err);
    if (rc == LEAT_OK && npy && !cell.absent)
        rc = write_npy_head(&c->schema.fields[field], &cell, left, err);
    if (rc != LEAT_OK)
        return rc;
    if (cell.absent)
        return leat_fail(err, LEAT_NOT_FOUND, "the sample has no '%s', which is optional",
                         c->schema.fields[field].name);
    if (leat_field_has_data(&c->schema.fields[field])) {
        const void *data;
        void *own;
        rc = leat_chunk_view(c, &cell, &data, &own, err);
        if (rc == LEAT_OK) {
            rc = write_out(data, cell.raw, left, err);
            free(own);
        }
        return rc;
    }
    char text[40]; /* 17 digits tell any two numbers apart */
    int n = c->schema.fields[field].type == LEAT_FIELD_FLOAT
                ? snprintf(text, sizeof text, "%.17g\n", cell.real)
                : snprintf(text, sizeof text, "%" PRId64 "\n", cell.number);
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
    if (rc == LEAT_OK && sample >= leat_dataset_samples(d))
        rc = leat_fail(err, LEAT_NOT_FOUND, "there is no sample %" PRIu64 ": the dataset has %" PRIu64, sample,
                       leat_dataset_samples(d));
    if (rc == LEAT_OK) {
        uint32_t index;
        uint32_t chunk = leat_dataset_locate(d, sample, &index);
        rc = leat_dataset_load(d, chunk, &data, &c, err);
        if (rc == LEAT_OK)
            rc = write_field(&c, index, field, s->npy, left, err);
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
    .details =
        "Large objects are fetched in parts, several at a time, and written in order. If an object changes "
        "meanwhile, that is an error: bytes of two versions are never mixed.\n\nIf the first URL is a dataset, the "
        "sample with the given key or number is written: the bytes of one field, or an int or float as text. Arrays "
        "and tokens are written as bare numbers, or with --npy as a file that numpy can read. 'leat show' shows all "
        "fields.",
    .examples = "  leat cat s3://bucket/train/labels.csv | head\n"
                "  leat cat --offset 1MiB --length 64KiB s3://bucket/shard-000.tar | xxd\n"
                "  leat cat s3://bucket/imagenet/train n01440764/n01440764_18.JPEG > fish.jpg\n"
                "  leat cat 's3://bucket/model.pt?versionId=3HL4kqtJvjVBH40Nrjfkd' > model.pt\n"
                "  leat cat -n 17 --field cls s3://bucket/imagenet/train\n",
    .options = options,
    .settings_size = sizeof(struct cat_settings),
    .arguments_min = 1,
    .arguments_max = 1000000,
    .run = run,
};
