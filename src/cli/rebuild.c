#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dataset.h"
#include "cli/progress.h"
#include "dataset/pack.h"

struct rebuild_settings {
    struct leat_cli_store store;
    struct leat_option_list packings;
    struct leat_cli_progress progress;
};

static const struct leat_option options[] = {
    {"packing", 0, LEAT_OPTION_LIST, offsetof(struct rebuild_settings, packings), "ID", NULL, NULL,
     "which packing to rebuild, if there are chunks of several: 32 hexadecimal digits. If given several times: a "
     "dataset of these packings, in this order"},
    LEAT_PROGRESS_OPTIONS(offsetof(struct rebuild_settings, progress)),
    LEAT_STORE_OPTIONS(offsetof(struct rebuild_settings, store)),
    {0},
};

typedef uint8_t pack_id[LEAT_PACK_ID_BYTES];

static leat_status parse_packings(const struct leat_option_list *texts, pack_id *out, struct leat_error *err)
{
    for (size_t i = 0; i < texts->count; i++) {
        if (!leat_unhex(texts->item[i], out[i], sizeof out[i]))
            return leat_fail(err, LEAT_INVALID, "--packing: '%.80s' is not 32 hexadecimal digits", texts->item[i]);
    }
    return LEAT_OK;
}

/* Written by the one who reads chunks, read by the progress. */
struct watch {
    _Atomic uint64_t bytes;
    _Atomic uint64_t all_bytes;
    _Atomic uint32_t chunks;
};

static void on_read(void *user, uint64_t bytes, uint64_t all_bytes, uint32_t chunks)
{
    struct watch *w = user;
    w->all_bytes = all_bytes;
    w->bytes = bytes;
    w->chunks = chunks;
}

static void look(void *user, struct leat_progress_state *out)
{
    struct watch *w = user;
    out->done = w->bytes;
    out->total = w->all_bytes;
    out->items = w->chunks;
}

static int run(const void *settings, int argc, char **argv)
{
    (void)argc;
    const struct rebuild_settings *s = settings;
    struct leat_home home = {0};
    struct leat_error err;
    pack_id packings[LEAT_OPTION_LIST_MAX];
    uint32_t n = (uint32_t)s->packings.count;
    uint8_t id[LEAT_SHA256_SIZE];
    char hex[2 * LEAT_SHA256_SIZE + 1];
    leat_status rc = parse_packings(&s->packings, packings, &err);
    if (rc == LEAT_OK)
        rc = leat_cli_home_open(&s->store, argv[0], &home, &err);
    if (rc == LEAT_OK) {
        struct watch w = {0};
        struct leat_progress *progress = leat_progress_open(&s->progress, "chunks", look, &w);
        rc = leat_pack_rebuild(&home, (const pack_id *)packings, n, on_read, &w, id, &err);
        leat_progress_close(progress);
    }
    leat_home_close(&home);
    if (rc != LEAT_OK)
        return leat_cli_fail(&err);
    leat_hex(id, sizeof id, hex);
    printf("id %s\n", hex);
    return leat_cli_finish();
}

const struct leat_command leat_command_rebuild = {
    .name = "rebuild",
    .arguments = "DATASET",
    .summary = "rebuild a dataset's lost snapshot from its chunks",
    .details = "Chunks describe themselves. This command reads all of them and writes sample table, keys, root and "
               "pointer again, with the same id as before. If chunks are missing, it fails and changes "
               "nothing.\n\nIf there are chunks of several packings, --packing says which to use. If it is given "
               "several times, the dataset has the chunks of the first packing, then those of the second, and so "
               "on, as if each had been added to those before it.",
    .examples = "  leat rebuild s3://bucket/imagenet/train\n"
                "  leat rebuild --packing 6d1f…e0 --packing 0b77…3c s3://bucket/photos\n",
    .options = options,
    .settings_size = sizeof(struct rebuild_settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
