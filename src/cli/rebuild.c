#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dataset.h"
#include "dataset/pack.h"

struct rebuild_settings {
    struct leat_cli_store store;
    const char *packings;
};

static const struct leat_option options[] = {
    {"packing", 0, LEAT_OPTION_LIST, offsetof(struct rebuild_settings, packings), "ID", NULL, NULL,
     "which packing, where chunks of several are there: 32 hexadecimal digits. Given several times: a dataset of "
     "these packings, in this order"},
    LEAT_STORE_OPTIONS(offsetof(struct rebuild_settings, store)),
    {0},
};

typedef uint8_t pack_id[LEAT_PACK_ID_BYTES];

/* *out is the caller's to free. */
static leat_status parse_packings(const char *text, pack_id **out, uint32_t *n, struct leat_error *err)
{
    uint32_t max = 1;
    for (const char *p = text; *p; p++)
        max += *p == ',';
    pack_id *list = calloc(max, sizeof *list);
    if (!list)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a list of packings");
    for (uint32_t i = 0; i < max; i++) {
        char hex[2 * LEAT_PACK_ID_BYTES + 1] = "";
        size_t length = strcspn(text, ",");
        if (length < sizeof hex)
            memcpy(hex, text, length);
        if (!leat_unhex(hex, list[i], sizeof list[i])) {
            leat_status rc = leat_fail(err, LEAT_INVALID, "--packing: '%.*s' is not 32 hexadecimal digits",
                                       (int)(length < 80 ? length : 80), text);
            free(list);
            return rc;
        }
        text += length + (text[length] == ',');
    }
    *out = list;
    *n = max;
    return LEAT_OK;
}

static int run(const void *settings, int argc, char **argv)
{
    (void)argc;
    const struct rebuild_settings *s = settings;
    struct leat_home home = {0};
    struct leat_error err;
    pack_id *packings = NULL;
    uint32_t n = 0;
    uint8_t id[LEAT_SHA256_SIZE];
    char hex[2 * LEAT_SHA256_SIZE + 1];
    leat_status rc = s->packings ? parse_packings(s->packings, &packings, &n, &err) : LEAT_OK;
    if (rc == LEAT_OK)
        rc = leat_cli_home_open(&s->store, argv[0], &home, &err);
    if (rc == LEAT_OK)
        rc = leat_pack_rebuild(&home, (const pack_id *)packings, n, id, &err);
    leat_home_close(&home);
    free(packings);
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
               "and comes to the same id as before. It fails, and changes nothing, when chunks are missing.\n\n"
               "Where chunks of several packings are there, --packing says which are meant. Given several times, the "
               "dataset has the chunks of the first, then those of the second, and so on, as if each had been added "
               "to those before it.",
    .examples = "  leat rebuild s3://bucket/imagenet/train\n"
                "  leat rebuild --packing 6d1f…e0 --packing 0b77…3c s3://bucket/photos\n",
    .options = options,
    .settings_size = sizeof(struct rebuild_settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
