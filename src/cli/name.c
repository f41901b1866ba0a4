#include <stdio.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dataset.h"
#include "dataset/versions.h"

struct name_settings {
    struct leat_cli_store store;
    bool current;
    bool delete;
    bool replace;
};

static const struct leat_option options[] = {
    {"current", 0, LEAT_OPTION_FLAG, offsetof(struct name_settings, current), NULL, NULL, NULL,
     "make this version the current one, which addresses without ?id= and ?name= mean"},
    {"replace", 0, LEAT_OPTION_FLAG, offsetof(struct name_settings, replace), NULL, NULL, NULL,
     "take the name from another version; with --current, make this version the current one although another is"},
    {"delete", 'd', LEAT_OPTION_FLAG, offsetof(struct name_settings, delete), NULL, NULL, NULL,
     "remove the name; the version stays"},
    LEAT_STORE_OPTIONS(offsetof(struct name_settings, store)),
    {0},
};

static leat_status check_usage(const struct name_settings *s, int argc, struct leat_error *err)
{
    if (s->delete &&(s->current || s->replace))
        return leat_fail(err, LEAT_INVALID, "--delete cannot be combined with --current or --replace");
    if (argc == 2 && s->current)
        return leat_fail(err, LEAT_INVALID, "give a name or --current, not both");
    if (argc == 1 && !s->current)
        return leat_fail(err, LEAT_INVALID, "give the name, or --current");
    return LEAT_OK;
}

static leat_status set_name(const struct leat_home *home, const char *name, bool replace, struct leat_error *err)
{
    struct leat_pointer p;
    char hex[2 * LEAT_SHA256_SIZE + 1];
    leat_status rc = leat_home_resolve(home, NULL, &p, err);
    if (rc == LEAT_OK)
        rc = leat_versions_name(home, name, &p, replace, err);
    if (rc == LEAT_EXISTS)
        return leat_fail_context(err, rc, name ? "--replace moves a name" : "--replace makes another version current");
    if (rc != LEAT_OK)
        return rc;
    leat_hex(p.id, sizeof p.id, hex);
    printf("%s %s\n", name ? name : "current", hex);
    return LEAT_OK;
}

static leat_status delete_name(const struct leat_home *home, const char *name, struct leat_error *err)
{
    leat_status rc = leat_home_check_plain(home, err);
    return rc == LEAT_OK ? leat_versions_forget(home, name, err) : rc;
}

static int run(const void *settings, int argc, char **argv)
{
    const struct name_settings *s = settings;
    const char *name = argc == 2 ? argv[1] : NULL;
    struct leat_home home = {0};
    struct leat_error err;
    leat_status rc = check_usage(s, argc, &err);
    if (rc == LEAT_OK)
        rc = leat_cli_home_open(&s->store, argv[0], &home, &err);
    if (rc == LEAT_OK)
        rc = s->delete ? delete_name(&home, name, &err) : set_name(&home, name, s->replace, &err);
    leat_home_close(&home);
    return rc == LEAT_OK ? leat_cli_finish() : leat_cli_fail(&err);
}

const struct leat_command leat_command_name = {
    .name = "name",
    .arguments = "DATASET NAME | --current DATASET",
    .summary = "give a version of a dataset a name",
    .details = "Old versions stay when a dataset is packed again with --replace; 'leat info --versions' lists them. "
               "This command gives a name to the version that DATASET means: the current one, or the one in ?id=ID "
               "or ?name=NAME at its end. DATASET?name=NAME then means that version. A name has 1 to 63 letters, "
               "digits, '_', '.' and '-', and begins with a letter or digit. --current makes that version the current "
               "one: what starts to train without ?id= and ?name= from then on reads it.",
    .examples = "  leat name s3://bucket/photos may-release\n"
                "  leat name 's3://bucket/photos?id=1f0c2e88' before-cleaning\n"
                "  leat name --current --replace 's3://bucket/photos?name=may-release'\n"
                "  leat name --delete s3://bucket/photos before-cleaning\n",
    .options = options,
    .settings_size = sizeof(struct name_settings),
    .arguments_min = 1,
    .arguments_max = 2,
    .run = run,
};
