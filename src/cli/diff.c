#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dataset.h"
#include "cli/progress.h"
#include "dataset/diff.h"

#define NAMED 10u /* of each kind, without --all */

enum { EXIT_SAME = 0, EXIT_DIFFERENT = 1, EXIT_TROUBLE = 2 }; /* as diff(1) */

struct diff_settings {
    struct leat_cli_store store;
    bool bytes;
    bool all;
    bool brief;
    bool json;
    struct leat_cli_progress progress;
};

static const struct leat_option options[] = {
    {"bytes", 'b', LEAT_OPTION_FLAG, offsetof(struct diff_settings, bytes), NULL, NULL, NULL,
     "read chunks that only one of them has, and compare the bytes of values"},
    {"all", 'a', LEAT_OPTION_FLAG, offsetof(struct diff_settings, all), NULL, NULL, NULL,
     "name every sample that differs, not only the first 10 of each kind"},
    {"brief", 0, LEAT_OPTION_FLAG, offsetof(struct diff_settings, brief), NULL, NULL, NULL, "do not name samples"},
    {"json", 0, LEAT_OPTION_FLAG, offsetof(struct diff_settings, json), NULL, NULL, NULL,
     "print JSON: the numbers, and the samples that are named"},
    {"quiet", 'q', LEAT_OPTION_FLAG, offsetof(struct diff_settings, progress.quiet), NULL, NULL, NULL,
     "print nothing; the exit status tells"},
    LEAT_PROGRESS_OPTION(offsetof(struct diff_settings, progress)),
    LEAT_STORE_OPTIONS(offsetof(struct diff_settings, store)),
    {0},
};

struct comparing {
    const struct diff_settings *settings;
    struct leat_dataset *datasets[2];
    struct leat_diff_progress progress;
    uint64_t total; /* entries of both */
    json_t *named;
};

static bool stop(void *user)
{
    (void)user;
    return leat_cli_interrupted();
}

static void each(void *user, enum leat_diff_kind kind, uint64_t sample, const char *key, size_t n)
{
    static const char *const words[] = {"added", "removed", "changed"};
    static const char signs[] = {'+', '-', '~'};
    struct comparing *c = user;
    if (c->settings->json) {
        json_t *line = json_object();
        json_object_set_new(line, "what", json_string(words[kind]));
        json_object_set_new(line, "sample", json_integer((json_int_t)sample));
        leat_cli_json_name(line, "key", key, n);
        json_array_append_new(c->named, line);
        return;
    }
    char *shown = leat_cli_show_key(key, n);
    printf("%c %s\n", signs[kind], shown ? shown : "?");
    free(shown);
}

static void look(void *user, struct leat_progress_state *out)
{
    struct comparing *c = user;
    out->items = atomic_load_explicit(&c->progress.entries, memory_order_relaxed);
    out->done = out->items * 16;
    out->total = c->total * 16;
}

static void print_text(const struct comparing *c, const struct leat_diff *d)
{
    uint64_t shown = c->settings->all ? UINT64_MAX : c->settings->brief ? 0 : NAMED;
    fputs(d->fields.data, stdout);
    if (!c->settings->brief && (d->added > shown || d->removed > shown || d->changed > shown))
        puts("… (--all names every sample)");
    printf("%" PRIu64 " samples, then %" PRIu64 ": %" PRIu64 " added, %" PRIu64 " removed, %" PRIu64
           " changed, %" PRIu64 " the same\n",
           leat_dataset_samples(c->datasets[0]), leat_dataset_samples(c->datasets[1]), d->added, d->removed, d->changed,
           d->same);
    if (d->unread)
        printf("%" PRIu64 " of these are in other chunks, and only their rows were compared (--bytes compares all)\n",
               d->unread);
    if (d->keyless[0] || d->keyless[1])
        printf("not compared: %" PRIu64 " and %" PRIu64 " samples without a key\n", d->keyless[0], d->keyless[1]);
}

static leat_status print_json(struct comparing *c, const struct leat_diff *d, bool different, struct leat_error *err)
{
    json_t *root = json_pack("{s:b,s:I,s:I,s:I,s:I,s:I,s:[II],s:[II],s:s,s:o}", "different", different, "added",
                             (json_int_t)d->added, "removed", (json_int_t)d->removed, "changed", (json_int_t)d->changed,
                             "same", (json_int_t)d->same, "unread", (json_int_t)d->unread, "samples",
                             (json_int_t)leat_dataset_samples(c->datasets[0]),
                             (json_int_t)leat_dataset_samples(c->datasets[1]), "without_key", (json_int_t)d->keyless[0],
                             (json_int_t)d->keyless[1], "fields", d->fields.data, "named", c->named);
    c->named = NULL;
    return leat_cli_print_json(root, 17, err);
}

static leat_status compare(struct comparing *c, bool *different, struct leat_error *err)
{
    const struct diff_settings *s = c->settings;
    struct leat_diff d = {0};
    bool named = !s->brief && !s->progress.quiet;
    struct leat_diff_opts opts = {.bytes = s->bytes,
                                  .each_max = s->all ? UINT64_MAX : NAMED,
                                  .each = named ? each : NULL,
                                  .stop = stop,
                                  .user = c};
    c->total = leat_dataset_root(c->datasets[0])->samples + leat_dataset_root(c->datasets[1])->samples;
    c->named = json_array();
    struct leat_progress *progress = leat_progress_open(&s->progress, "samples", look, c);
    leat_status rc = leat_diff(c->datasets[0], c->datasets[1], &opts, &c->progress, &d, err);
    leat_progress_close(progress);
    *different = d.added || d.removed || d.changed || d.fields.len || d.keyless[0] != d.keyless[1];
    if (rc == LEAT_OK && s->json)
        rc = print_json(c, &d, *different, err);
    else if (rc == LEAT_OK && !s->progress.quiet)
        print_text(c, &d);
    leat_diff_free(&d);
    json_decref(c->named);
    return rc;
}

static int run(const void *settings, int argc, char **argv)
{
    struct comparing c = {.settings = settings};
    struct leat_error err;
    bool different = false;
    leat_status rc = leat_cli_store_one_kind(&c.settings->store, argv, argc, NULL, &err);
    if (rc == LEAT_OK)
        rc = leat_cli_dataset_open(&c.settings->store, argv[0], &c.datasets[0], &err);
    if (rc == LEAT_OK)
        rc = leat_cli_dataset_open(&c.settings->store, argv[1], &c.datasets[1], &err);
    if (rc == LEAT_OK)
        rc = compare(&c, &different, &err);
    leat_dataset_close(c.datasets[0]);
    leat_dataset_close(c.datasets[1]);
    int status = rc == LEAT_OK ? leat_cli_finish() : leat_cli_fail(&err);
    if (status == LEAT_EXIT_OK)
        return different ? EXIT_DIFFERENT : EXIT_SAME;
    return status == LEAT_EXIT_FAILURE ? EXIT_TROUBLE : status;
}

const struct leat_command leat_command_diff = {
    .name = "diff",
    .arguments = "DATASET DATASET",
    .summary = "compare two datasets or versions",
    .details =
        "Compares samples with the same key: '+' is only in the second dataset, '-' only in the first, '~' has "
        "another value in a field that both have. Samples in chunks that both datasets share are equal and need no "
        "comparison. For others, the rows are compared: numbers, sizes, shapes, headers of images; with --bytes "
        "also the values, which are read from the chunks. Order does not matter.\n\nThe exit status is 0 if there "
        "is no difference, 1 if there is one, and 2 or more if the datasets could not be compared. Memory is "
        "bounded whatever their size. Samples are listed in the order of the hashes of their keys.",
    .examples = "  leat diff 's3://bucket/photos?name=may' s3://bucket/photos\n"
                "  leat diff --all --bytes /datasets/a /datasets/b | grep '^~'\n",
    .options = options,
    .settings_size = sizeof(struct diff_settings),
    .arguments_min = 2,
    .arguments_max = 2,
    .run = run,
};
