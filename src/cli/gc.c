#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dataset.h"
#include "cli/deletes.h"
#include "cli/progress.h"
#include "dataset/gc.h"

struct gc_settings {
    struct leat_cli_store store;
    uint64_t older_ns;
    uint64_t keep_last;
    struct leat_option_list drop;
    bool yes;
    bool dry_run;
    bool list;
    bool json;
    struct leat_cli_progress progress;
};

static const struct leat_option options[] = {
    {"yes", 'y', LEAT_OPTION_FLAG, offsetof(struct gc_settings, yes), NULL, NULL, NULL,
     "delete; without this option nothing is deleted"},
    {"dry-run", 'n', LEAT_OPTION_FLAG, offsetof(struct gc_settings, dry_run), NULL, NULL, NULL,
     "only say what would be deleted (the default)"},
    {"older-than", 0, LEAT_OPTION_DURATION, offsetof(struct gc_settings, older_ns), "TIME", "7d", NULL,
     "keep what is younger: a running 'leat pack' may still need it"},
    {"keep-last", 0, LEAT_OPTION_U64, offsetof(struct gc_settings, keep_last), "N", NULL, NULL,
     "give up all versions except the N newest, the current one and those with names; 0 keeps only these"},
    {"drop", 0, LEAT_OPTION_LIST, offsetof(struct gc_settings, drop), "ID", NULL, NULL,
     "give up this version (8 digits of its id are enough); may be given several times"},
    {"list", 'l', LEAT_OPTION_FLAG, offsetof(struct gc_settings, list), NULL, NULL, NULL,
     "list each object: size, time, name"},
    {"json", 0, LEAT_OPTION_FLAG, offsetof(struct gc_settings, json), NULL, NULL, NULL, "print JSON"},
    {"quiet", 'q', LEAT_OPTION_FLAG, offsetof(struct gc_settings, progress.quiet), NULL, NULL, NULL, "no progress"},
    LEAT_PROGRESS_OPTION(offsetof(struct gc_settings, progress)),
    LEAT_STORE_OPTIONS(offsetof(struct gc_settings, store)),
    {0},
};

static const char *const kinds[LEAT_GC_KINDS] = {"versions", "roots", "sections", "chunks"};

/* Asked for each version and object that is looked at: counts them too. */
static bool stop(void *user)
{
    _Atomic uint64_t *looked = user;
    atomic_fetch_add_explicit(looked, 1, memory_order_relaxed);
    return leat_cli_interrupted();
}

static void look_around(void *user, struct leat_progress_state *out)
{
    _Atomic uint64_t *looked = user;
    out->done = atomic_load_explicit(looked, memory_order_relaxed);
    out->counted = true;
}

static struct leat_gc_sum add_up(const struct leat_gc_sum sums[LEAT_GC_KINDS])
{
    struct leat_gc_sum all = {0};
    for (unsigned k = 0; k < LEAT_GC_KINDS; k++) {
        all.objects += sums[k].objects;
        all.bytes += sums[k].bytes;
    }
    return all;
}

static void print_list(const struct leat_gc *g)
{
    for (size_t i = 0; i < g->n; i++) {
        char name[LEAT_NAME_MAX];
        char modified[LEAT_CLI_TIME];
        leat_gc_name(&g->list[i], name);
        leat_cli_format_time(g->list[i].modified_s, modified);
        printf("%14" PRIu64 "  %20s  %s\n", g->list[i].size, modified, name);
    }
}

static void print_text(const struct leat_gc *g, bool deleted)
{
    char size[LEAT_FORMAT_SIZE];
    struct leat_gc_sum gone = add_up(g->gone);
    struct leat_gc_sum young = add_up(g->young);
    struct leat_gc_sum used = add_up(g->used);
    for (unsigned k = 0; k < LEAT_GC_KINDS; k++) {
        if (g->gone[k].objects)
            printf("  %10" PRIu64 " %-8s  %s\n", g->gone[k].objects, kinds[k],
                   leat_format_size(g->gone[k].bytes, size));
    }
    printf("%s %" PRIu64 " objects, %s\n", deleted ? "deleted" : "would delete", gone.objects,
           leat_format_size(gone.bytes, size));
    if (young.objects)
        printf("left: %" PRIu64 " objects, %s, too young to delete (--older-than)\n", young.objects,
               leat_format_size(young.bytes, size));
    printf("in use: %" PRIu64 " objects, %s, by %" PRIu64 " versions\n", used.objects,
           leat_format_size(used.bytes, size), g->used[LEAT_GC_VERSION].objects);
    if (!deleted && gone.objects)
        puts("nothing was deleted; --yes deletes it");
}

static json_t *describe_sums(const struct leat_gc_sum sums[LEAT_GC_KINDS])
{
    json_t *all = json_object();
    for (unsigned k = 0; k < LEAT_GC_KINDS; k++)
        json_object_set_new(
            all, kinds[k],
            json_pack("{s:I,s:I}", "objects", (json_int_t)sums[k].objects, "bytes", (json_int_t)sums[k].bytes));
    return all;
}

static leat_status print_json(const struct leat_gc *g, bool deleted, bool list, struct leat_error *err)
{
    json_t *root = json_object();
    json_object_set_new(root, "deleted", json_boolean(deleted));
    json_object_set_new(root, "garbage", describe_sums(g->gone));
    json_object_set_new(root, "young", describe_sums(g->young));
    json_object_set_new(root, "used", describe_sums(g->used));
    if (list) {
        json_t *names = json_array();
        for (size_t i = 0; i < g->n; i++) {
            char name[LEAT_NAME_MAX];
            leat_gc_name(&g->list[i], name);
            json_array_append_new(names, json_string(name));
        }
        json_object_set_new(root, "objects", names);
    }
    return leat_cli_print_json(root, 17, err);
}

struct watch {
    struct leat_cli_deletes deletes;
    const struct leat_gc *gc;
};

static void look(void *user, struct leat_progress_state *out)
{
    struct watch *w = user;
    pthread_mutex_lock(&w->deletes.wait.mu);
    out->done = w->deletes.deleted;
    out->total = w->gc->n;
    out->counted = true;
    pthread_mutex_unlock(&w->deletes.wait.mu);
}

/* Pointers first, all of them, then roots, and so on: the one that opens a version meanwhile finds all of it or
 * nothing. The pointers are read again after each kind. */
static leat_status delete_all(struct leat_home *home, const struct leat_gc_opts *opts, const struct leat_gc *g,
                              const struct leat_cli_progress *how, struct leat_error *err)
{
    struct watch w = {.deletes = {.url = home->url, .store = home->store}, .gc = g};
    leat_status rc = LEAT_OK;
    leat_cli_deletes_init(&w.deletes);
    struct leat_progress *progress = leat_progress_open(how, "objects deleted", look, &w);
    for (size_t i = 0; rc == LEAT_OK && i < g->n; i++) {
        char name[LEAT_NAME_MAX];
        bool next_kind = i && g->list[i].kind != g->list[i - 1].kind;
        if (next_kind)
            rc = leat_cli_deletes_wait(&w.deletes, err);
        if (rc == LEAT_OK && next_kind)
            rc = leat_gc_confirm(home, opts, g, err);
        leat_gc_name(&g->list[i], name);
        char *key = leat_home_key(home, name);
        if (!key)
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for a name");
        if (rc == LEAT_OK)
            rc = leat_cli_delete(&w.deletes, key, err);
        free(key);
    }
    if (rc == LEAT_OK)
        rc = leat_cli_deletes_wait(&w.deletes, err);
    if (rc == LEAT_OK && g->n)
        rc = leat_gc_confirm(home, opts, g, err);
    leat_progress_close(progress);
    uint64_t deleted = w.deletes.deleted;
    leat_store_close(home->store); /* ends what is still on its way */
    home->store = NULL;
    leat_cli_deletes_end(&w.deletes);
    if (rc != LEAT_OK)
        return leat_fail_context(err, rc, "%" PRIu64 " of %zu objects are deleted; run 'leat gc' again for the rest",
                                 deleted, g->n);
    return LEAT_OK;
}

static int run(const void *settings, int argc, char **argv)
{
    (void)argc;
    const struct gc_settings *s = settings;
    struct leat_home home = {0};
    struct leat_gc g = {0};
    struct leat_error err;
    _Atomic uint64_t looked = 0;
    struct leat_gc_opts opts = {.before_s = (int64_t)time(NULL) - (int64_t)(s->older_ns / LEAT_S),
                                .keep_last = leat_cli_said("keep-last") ? &s->keep_last : NULL,
                                .drop = s->drop.item,
                                .drop_n = s->drop.count,
                                .stop = stop,
                                .user = &looked};
    leat_status rc =
        s->yes && s->dry_run ? leat_fail(&err, LEAT_INVALID, "give --yes or --dry-run, not both") : LEAT_OK;
    if (rc == LEAT_OK)
        rc = leat_cli_home_open(&s->store, argv[0], &home, &err);
    if (rc == LEAT_OK) {
        struct leat_progress *progress = leat_progress_open(&s->progress, "objects looked at", look_around, &looked);
        rc = leat_gc_look(&home, &opts, &g, &err);
        leat_progress_close(progress);
    }
    if (rc == LEAT_OK && s->list && !s->json)
        print_list(&g);
    if (rc == LEAT_OK && s->yes)
        rc = delete_all(&home, &opts, &g, &s->progress, &err);
    if (rc == LEAT_OK && s->json)
        rc = print_json(&g, s->yes, s->list, &err);
    else if (rc == LEAT_OK)
        print_text(&g, s->yes);
    leat_gc_free(&g);
    leat_home_close(&home);
    return rc == LEAT_OK ? leat_cli_finish() : leat_cli_fail(&err);
}

const struct leat_command leat_command_gc = {
    .name = "gc",
    .arguments = "DATASET",
    .summary = "find and delete what no version of a dataset needs",
    .details =
        "Versions share chunks, and nothing is deleted when one is replaced. This command reads the root of every "
        "version, lists all objects, and says which of them no version refers to: leftovers of interrupted "
        "packings, and objects that only versions given up here (--drop, --keep-last) use. With --yes it deletes "
        "them.\n\nThe current version and versions with a name are protected; 'leat name --delete' removes a name. "
        "A job that reads a version by its id fails when that version is given up.\n\nObjects younger than "
        "--older-than stay, because packing stores chunks long before it publishes them. Do not make it shorter "
        "than the longest packing that may be running or may be continued. If the root of a version is "
        "damaged or missing, or a pointer cannot be read, nothing is deleted until that version is given up or "
        "repaired.",
    .examples = "  leat gc s3://bucket/photos\n"
                "  leat gc s3://bucket/photos --keep-last 3 --yes\n"
                "  leat gc /datasets/photos --drop 1f0c2e88 --older-than 1h --list\n",
    .options = options,
    .settings_size = sizeof(struct gc_settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
