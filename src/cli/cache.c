/* leat cache: what the disk cache of this user holds. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/parse.h"
#include "cache/disk_folder.h"
#include "cache/disk_survey.h"
#include "cli/cli.h"
#include "cli/commands.h"

#define OWNERS_MAX 16u

struct cache_settings {
    const char *dir;
    bool json;
    bool force;
};

static const struct leat_option options[] = {
    {"cache-dir", 0, LEAT_OPTION_STRING, offsetof(struct cache_settings, dir), "FOLDER", NULL, "LEAT_CACHE_DIR",
     "folder of the cache (default: $XDG_CACHE_HOME/leat, else ~/.cache/leat)"},
    {"json", 0, LEAT_OPTION_FLAG, offsetof(struct cache_settings, json), NULL, NULL, NULL,
     "ls, clear: print a JSON object"},
    {"force", 0, LEAT_OPTION_FLAG, offsetof(struct cache_settings, force), NULL, NULL, NULL,
     "clear: remove what agents use, too; they go on without it"},
    {0},
};

struct totals {
    uint64_t segments;
    uint64_t chunks;
    uint64_t bytes;
    uint64_t allocated;
    uint64_t damaged;
    int64_t made_s;    /* the oldest */
    int64_t changed_s; /* the latest */
    uint32_t owners[OWNERS_MAX];
    unsigned owners_n;
};

static void add_segment(void *user, const struct leat_disk_segment_info *info)
{
    struct totals *t = user;
    unsigned i = 0;
    t->segments++;
    t->chunks += info->chunks;
    t->bytes += info->bytes;
    t->allocated += info->allocated;
    t->damaged += info->damaged;
    if (info->made_s && (!t->made_s || info->made_s < t->made_s))
        t->made_s = info->made_s;
    if (info->changed_s > t->changed_s)
        t->changed_s = info->changed_s;
    while (i < t->owners_n && t->owners[i] != info->owner)
        i++;
    if (info->in_use && i == t->owners_n && i < OWNERS_MAX)
        t->owners[t->owners_n++] = info->owner;
}

static json_t *totals_json(const char *dir, const struct totals *t)
{
    json_t *owners = json_array();
    json_t *line = json_object();
    for (unsigned i = 0; i < t->owners_n; i++)
        json_array_append_new(owners, json_integer(t->owners[i]));
    leat_cli_json_name(line, "folder", dir, strlen(dir));
    json_object_set_new(line, "bytes", json_integer((json_int_t)t->bytes));
    json_object_set_new(line, "chunks", json_integer((json_int_t)t->chunks));
    json_object_set_new(line, "segments", json_integer((json_int_t)t->segments));
    json_object_set_new(line, "damaged", json_integer((json_int_t)t->damaged));
    json_object_set_new(line, "disk_bytes", json_integer((json_int_t)t->allocated));
    json_object_set_new(line, "agents", owners);
    json_object_set_new(line, "made_s", json_integer(t->made_s));
    json_object_set_new(line, "changed_s", json_integer(t->changed_s));
    return line;
}

static int print_json(json_t *line)
{
    char *text = leat_json_write(line, JSON_COMPACT);
    json_decref(line);
    if (!text)
        return leat_cli_failf(LEAT_NO_MEMORY, "no memory for the answer");
    puts(text);
    free(text);
    return leat_cli_finish();
}

static int list(const char *dir, const struct cache_settings *s)
{
    struct totals t = {0};
    struct leat_error err;
    char bytes[LEAT_FORMAT_SIZE];
    char disk[LEAT_FORMAT_SIZE];
    char made[LEAT_CLI_TIME];
    char changed[LEAT_CLI_TIME];
    if (leat_disk_survey(dir, add_segment, &t, &err) != LEAT_OK)
        return leat_cli_fail(&err);
    if (s->json)
        return print_json(totals_json(dir, &t));
    printf("%s: %s in %" PRIu64 " chunks, %" PRIu64 " segments, %s on disk", dir, leat_format_size(t.bytes, bytes),
           t.chunks, t.segments, leat_format_size(t.allocated, disk));
    leat_cli_format_time(t.made_s, made);
    leat_cli_format_time(t.changed_s, changed);
    printf(", begun %s, changed %s", made, changed);
    printf(", used by %u agent%s", t.owners_n, t.owners_n == 1 ? "" : "s");
    for (unsigned i = 0; i < t.owners_n; i++)
        printf("%s%" PRIu32, i ? ", " : " (process id ", t.owners[i]);
    printf("%s\n", t.owners_n ? ")" : "");
    if (t.damaged)
        printf("%" PRIu64 " segments are damaged or of another release\n", t.damaged);
    return leat_cli_finish();
}

static int clear(const char *dir, const struct cache_settings *s)
{
    struct leat_disk_cleared done;
    struct leat_error err;
    char freed[LEAT_FORMAT_SIZE];
    char kept[LEAT_FORMAT_SIZE];
    if (leat_disk_clear(dir, s->force, &done, &err) != LEAT_OK)
        return leat_cli_fail(&err);
    if (s->json) {
        return print_json(json_pack("{s:I,s:I,s:I,s:I}", "removed", (json_int_t)done.removed, "freed_bytes",
                                    (json_int_t)done.freed, "kept", (json_int_t)done.kept, "kept_bytes",
                                    (json_int_t)done.kept_bytes));
    }
    printf("removed %" PRIu64 " segments, %s\n", done.removed, leat_format_size(done.freed, freed));
    if (done.kept)
        printf("kept %" PRIu64 " segments, %s, that agents use (--force removes them too)\n", done.kept,
               leat_format_size(done.kept_bytes, kept));
    return leat_cli_finish();
}

static int run(const void *settings, int argc, char **argv)
{
    const struct cache_settings *s = settings;
    struct leat_error err;
    char dir[LEAT_DISK_PATH];
    (void)argc;
    if (!s->dir && leat_disk_default_dir(dir, &err) != LEAT_OK)
        return leat_cli_fail(&err);
    if (s->dir && (size_t)snprintf(dir, sizeof dir, "%s", s->dir) >= sizeof dir)
        return leat_cli_failf(LEAT_INVALID, "--cache-dir is longer than %d bytes", LEAT_DISK_PATH - 1);
    if (strcmp(argv[0], "path") == 0) {
        puts(dir);
        return leat_cli_finish();
    }
    if (strcmp(argv[0], "ls") == 0)
        return list(dir, s);
    if (strcmp(argv[0], "clear") == 0)
        return clear(dir, s);
    return leat_cli_failf(LEAT_INVALID, "'%s' is not one of ls, clear, path", argv[0]);
}

const struct leat_command leat_command_cache = {
    .name = "cache",
    .arguments = "ls|clear|path",
    .summary = "list or clear the cache on disk",
    .details =
        "A job that is given a cache folder finds there what earlier jobs have read, and shares it with other "
        "running jobs. ls says what is in the folder, clear removes what no running agent uses, path prints where "
        "the folder is. No folder is made or used unless a job asks for it.\n\nWhat is in the cache can be removed "
        "at any time, also with rm: it is fetched again.",
    .examples = "  leat cache ls\n  leat cache clear\n  du -sh \"$(leat cache path)\"\n",
    .options = options,
    .settings_size = sizeof(struct cache_settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
