#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/store_options.h"
#include "store/stream.h"

struct cat_settings {
    struct leat_cli_store store;
    uint64_t offset;
    const char *length;
};

static const struct leat_option options[] = {
    {"offset", 0, LEAT_OPTION_SIZE, offsetof(struct cat_settings, offset), "SIZE", NULL, NULL,
     "begin so many bytes into the object"},
    {"length", 0, LEAT_OPTION_STRING, offsetof(struct cat_settings, length), "SIZE", NULL, NULL,
     "write so many bytes at most"},
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

static int run(const void *settings, int argc, char **argv)
{
    const struct cat_settings *s = settings;
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

const struct leat_command leat_command_cat = {
    .name = "cat",
    .arguments = "URL…",
    .summary = "write objects to standard output",
    .details = "Large objects are fetched in parts, several at a time, and written in order. An object that changes "
               "meanwhile is an error: bytes of two versions are never mixed.",
    .examples = "  leat cat s3://bucket/train/labels.csv | head\n"
                "  leat cat --offset 1MiB --length 64KiB s3://bucket/shard-000.tar | xxd\n",
    .options = options,
    .settings_size = sizeof(struct cat_settings),
    .arguments_min = 1,
    .arguments_max = 1000000,
    .run = run,
};
