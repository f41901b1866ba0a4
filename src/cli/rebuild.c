#include <stdio.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dataset.h"
#include "dataset/pack.h"

struct rebuild_settings {
    struct leat_cli_store store;
    const char *packing;
};

static const struct leat_option options[] = {
    {"packing", 0, LEAT_OPTION_STRING, offsetof(struct rebuild_settings, packing), "ID", NULL, NULL,
     "which packing, where chunks of several are there: 32 hexadecimal digits"},
    LEAT_STORE_OPTIONS(offsetof(struct rebuild_settings, store)),
    {0},
};

static int run(const void *settings, int argc, char **argv)
{
    (void)argc;
    const struct rebuild_settings *s = settings;
    struct leat_home home;
    struct leat_error err;
    uint8_t packing[LEAT_PACK_ID_BYTES];
    uint8_t id[LEAT_SHA256_SIZE];
    char hex[2 * LEAT_SHA256_SIZE + 1];
    if (s->packing && !leat_unhex(s->packing, packing, sizeof packing))
        return leat_cli_failf(LEAT_INVALID, "--packing: '%s' is not 32 hexadecimal digits", s->packing);
    if (leat_cli_home_open(&s->store, argv[0], &home, &err) != LEAT_OK)
        return leat_cli_fail(&err);
    leat_status rc = leat_pack_rebuild(&home, s->packing ? &packing : NULL, s->packing ? 1 : 0, id, &err);
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
    .summary = "make a dataset's lost snapshot again from its chunks",
    .details = "Chunks describe themselves. This reads all of them, writes sample table, keys, root and pointer anew, "
               "and comes to the same id as before. It fails, and changes nothing, when chunks are missing.",
    .examples = "  leat rebuild s3://bucket/imagenet/train\n",
    .options = options,
    .settings_size = sizeof(struct rebuild_settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
