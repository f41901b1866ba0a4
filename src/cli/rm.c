#include <errno.h>
#include <fts.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/deletes.h"
#include "cli/progress.h"
#include "cli/store_options.h"

struct rm_settings {
    struct leat_cli_store store;
    struct leat_cli_progress progress;
    bool recursive;
    bool dry_run;
    bool json;
};

static const struct leat_option options[] = {
    {"recursive", 'r', LEAT_OPTION_FLAG, offsetof(struct rm_settings, recursive), NULL, NULL, NULL,
     "delete a folder: everything with a key that begins with URL/"},
    {"dry-run", 'n', LEAT_OPTION_FLAG, offsetof(struct rm_settings, dry_run), NULL, NULL, NULL,
     "print what would be deleted, delete nothing"},
    {"json", 0, LEAT_OPTION_FLAG, offsetof(struct rm_settings, json), NULL, NULL, NULL,
     "print {\"deleted\": N} at the end; with --dry-run a line {\"would_delete\": KEY} per object"},
    LEAT_PROGRESS_OPTIONS(offsetof(struct rm_settings, progress)),
    LEAT_STORE_OPTIONS(offsetof(struct rm_settings, store)),
    {0},
};

static void print_would(const char *key, const struct rm_settings *s)
{
    if (s->json) {
        json_t *line = json_object();
        leat_cli_json_name(line, "would_delete", key, strlen(key));
        json_dumpf(line, stdout, JSON_COMPACT);
        json_decref(line);
    } else {
        fputs("would delete ", stdout);
        leat_cli_print_name(key, isatty(STDOUT_FILENO));
    }
    putchar('\n');
}

static leat_status delete_listed(struct leat_cli_deletes *d, const char *folder, const struct rm_settings *s,
                                 struct leat_error *err)
{
    struct leat_list *list = NULL;
    struct leat_list_entry e;
    bool end = false;
    leat_status rc = leat_store_list_open(d->store, folder, true, &list, err);
    while (rc == LEAT_OK) {
        rc = leat_store_list_next(list, &e, &end, err);
        if (rc != LEAT_OK || end)
            break;
        if (s->dry_run)
            print_would(e.key, s);
        else
            rc = leat_cli_delete(d, e.key, err);
        if (rc == LEAT_OK && leat_cli_interrupted())
            rc = leat_fail(err, LEAT_CANCELLED, "interrupted");
        if (ferror(stdout)) /* nobody reads on */
            break;
    }
    leat_store_list_close(list);
    return rc == LEAT_OK ? leat_cli_deletes_wait(d, err) : rc;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static leat_status delete_entry(struct leat_cli_deletes *d, const FTSENT *e, const struct rm_settings *s,
                                struct leat_error *err)
{
    switch (e->fts_info) {
    case FTS_D:
        return LEAT_OK;
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        return leat_fail_errno(err, e->fts_errno, "cannot delete '%s'", e->fts_path);
    case FTS_DP:
        if (!s->dry_run && rmdir(e->fts_accpath) < 0 && errno != ENOENT)
            return leat_fail_errno(err, errno, "cannot delete the folder '%s'", e->fts_path);
        return LEAT_OK;
    default:
        if (s->dry_run)
            print_would(e->fts_path, s);
        else if (unlink(e->fts_accpath) < 0 && errno != ENOENT)
            return leat_fail_errno(err, errno, "cannot delete '%s'", e->fts_path);
        pthread_mutex_lock(&d->wait.mu);
        d->deleted += !s->dry_run;
        pthread_mutex_unlock(&d->wait.mu);
        return LEAT_OK;
    }
}

/* A folder of files is deleted with all that is in it, and not by its listing: that shows what links lead to, which
 * is somewhere else, and leaves out what cannot be an object. */
static leat_status delete_tree(struct leat_cli_deletes *d, char *path, const struct rm_settings *s,
                               struct leat_error *err)
{
    char *const paths[] = {path, NULL};
    FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    if (!fts)
        return leat_fail_errno(err, errno, "cannot delete '%s'", path);
    leat_status rc = LEAT_OK;
    FTSENT *e;
    errno = 0;
    while (rc == LEAT_OK && (e = fts_read(fts))) {
        rc = delete_entry(d, e, s, err);
        if (rc == LEAT_OK && leat_cli_interrupted())
            rc = leat_fail(err, LEAT_CANCELLED, "interrupted");
        errno = 0;
    }
    if (rc == LEAT_OK && errno)
        rc = leat_fail_errno(err, errno, "cannot delete '%s'", path);
    fts_close(fts);
    return rc;
}

/* Refuses what nobody means: the root, the folder one is in or one above it, and through a link another place. */
static leat_status check_path(const char *path, struct leat_error *err)
{
    char *bare = strdup(path);
    char *real = realpath(path, NULL);
    char *here = getcwd(NULL, 0);
    struct stat st;
    leat_status rc = LEAT_OK;
    size_t n = bare ? strlen(bare) : 0;
    while (n > 1 && bare[n - 1] == '/')
        bare[--n] = '\0';
    size_t real_n = real ? strlen(real) : 0;
    bool above = real && here && strncmp(real, here, real_n) == 0 && (here[real_n] == '/' || !here[real_n]);
    if (!bare)
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for a path");
    else if (real && (above || strcmp(real, "/") == 0))
        rc = leat_fail(err, LEAT_INVALID, "'%s' is not deleted: it contains the current folder", path);
    else if (lstat(bare, &st) == 0 && S_ISLNK(st.st_mode))
        rc = leat_fail(err, LEAT_INVALID, "'%s' is a link; without --recursive the link itself is deleted", path);
    free(bare);
    free(real);
    free(here);
    return rc;
}

static void look(void *user, struct leat_progress_state *out)
{
    struct leat_cli_deletes *d = user;
    pthread_mutex_lock(&d->wait.mu);
    out->done = d->deleted;
    out->counted = true;
    pthread_mutex_unlock(&d->wait.mu);
}

static leat_status delete_folder(struct leat_cli_deletes *d, char **key, const struct rm_settings *s,
                                 struct leat_error *err)
{
    bool folder = false;
    bool files = leat_store_can(d->store, LEAT_STORE_LOCAL);
    leat_status rc = leat_cli_is_folder(d->store, *key, &folder, err);
    if (rc == LEAT_OK && !folder)
        rc = leat_fail(err, LEAT_NOT_FOUND, "there is no folder '%s'%s", d->url, files ? "" : " with anything in it");
    if (rc == LEAT_OK && files)
        rc = check_path(*key, err);
    if (rc == LEAT_OK)
        rc = leat_cli_open_folder(d->store, key, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_progress *progress = s->dry_run ? NULL : leat_progress_open(&s->progress, "objects deleted", look, d);
    rc = files ? delete_tree(d, *key, s, err) : delete_listed(d, *key, s, err);
    leat_progress_close(progress);
    return rc;
}

/* Whether a version is there which cannot be looked at: a marker of deletion, where the server does not say so. */
static bool is_listed(struct leat_store *store, const char *key, const char *version)
{
    struct leat_list *list = NULL;
    struct leat_list_entry e;
    bool found = false;
    bool end = false;
    leat_status rc = leat_store_list_versions(store, key, true, &list, NULL);
    while (rc == LEAT_OK && !end && !found) {
        rc = leat_store_list_next(list, &e, &end, NULL);
        found = rc == LEAT_OK && !end && strcmp(e.key, key) == 0 && strcmp(e.version, version) == 0;
        end |= rc == LEAT_OK && !end && strcmp(e.key, key) > 0;
    }
    leat_store_list_close(list);
    return found;
}

/* DELETE itself does not say whether there was something. A link is deleted, wherever it leads. */
static leat_status check_one(struct leat_cli_deletes *d, const char *key, const char *version, struct leat_error *err)
{
    struct leat_object object;
    struct stat st;
    bool folder = false;
    if (leat_store_can(d->store, LEAT_STORE_LOCAL) && lstat(key, &st) == 0 && S_ISLNK(st.st_mode))
        return LEAT_OK;
    if (*version) {
        leat_status looked = leat_store_look_version(d->store, key, version, &object, err);
        return looked == LEAT_EXISTS || (looked == LEAT_NOT_FOUND && is_listed(d->store, key, version)) ? LEAT_OK
                                                                                                        : looked;
    }
    leat_status rc = leat_store_stat(d->store, key, &object, err);
    if (rc == LEAT_NOT_FOUND && leat_cli_is_folder(d->store, key, &folder, NULL) == LEAT_OK && folder)
        rc = leat_fail(err, LEAT_INVALID, "'%s' is a folder; add --recursive to delete what is in it", d->url);
    return rc;
}

static leat_status delete_one(struct leat_cli_deletes *d, char *key, const struct rm_settings *s,
                              struct leat_error *err)
{
    const char *version = "";
    leat_status rc = leat_store_split_version(d->store, key, &version, err);
    if (rc == LEAT_OK)
        rc = check_one(d, key, version, err);
    if (rc == LEAT_OK && s->dry_run)
        print_would(key, s);
    else if (rc == LEAT_OK && *version)
        rc = leat_store_delete_version(d->store, key, version, err);
    else if (rc == LEAT_OK)
        rc = leat_store_delete(d->store, key, err);
    d->deleted += rc == LEAT_OK && !s->dry_run;
    return rc;
}

static leat_status delete_url(const char *url, const struct rm_settings *s, uint64_t *deleted, struct leat_error *err)
{
    struct leat_cli_deletes d = {.url = url};
    char *key = NULL;
    leat_cli_deletes_init(&d);
    leat_status rc = leat_cli_store_open(&s->store, url, &d.store, &key, err);
    if (rc == LEAT_OK)
        rc = s->recursive ? delete_folder(&d, &key, s, err) : delete_one(&d, key, s, err);
    leat_store_close(d.store); /* ends what is still on its way */
    *deleted += d.deleted;
    free(key);
    leat_cli_deletes_end(&d);
    return rc;
}

static int run(const void *settings, int argc, char **argv)
{
    const struct rm_settings *s = settings;
    struct leat_error err;
    uint64_t deleted = 0;
    int status = LEAT_EXIT_OK;
    for (int i = 0; i < argc && !leat_cli_interrupted(); i++) {
        int failed = delete_url(argv[i], s, &deleted, &err) == LEAT_OK ? LEAT_EXIT_OK : leat_cli_fail(&err);
        status = status != LEAT_EXIT_OK ? status : failed;
    }
    if (s->json)
        printf("{\"deleted\":%" PRIu64 "}\n", deleted);
    int printed = leat_cli_finish();
    return status != LEAT_EXIT_OK ? status : printed;
}

const struct leat_command leat_command_rm = {
    .name = "rm",
    .arguments = "URL…",
    .summary = "delete objects",
    .details = "Without --recursive, URL must name one object. With it, URL is a folder: 'train' means the objects "
               "below 'train/', never 'train2'. In the file system, links are deleted, not what they point to. "
               "Objects are deleted many at a time; after Ctrl-C or an error some are gone and the rest is "
               "untouched.\n\nOne version of an object is deleted for good by its id, as "
               "s3://BUCKET/KEY?versionId=ID; deleting a marker of deletion brings the object back.",
    .examples = "  leat rm s3://bucket/old.tar\n  leat rm --recursive --dry-run s3://bucket/tmp\n",
    .options = options,
    .settings_size = sizeof(struct rm_settings),
    .arguments_min = 1,
    .arguments_max = 1000000,
    .run = run,
};
