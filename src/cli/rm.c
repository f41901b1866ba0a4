#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/store_options.h"

#define IN_FLIGHT 128u

struct rm_settings {
    struct leat_cli_store store;
    bool recursive;
    bool dry_run;
    bool json;
};

static const struct leat_option options[] = {
    {"recursive", 'r', LEAT_OPTION_FLAG, offsetof(struct rm_settings, recursive), NULL, NULL, NULL,
     "delete a folder: everything whose key begins with URL/"},
    {"dry-run", 'n', LEAT_OPTION_FLAG, offsetof(struct rm_settings, dry_run), NULL, NULL, NULL,
     "print what would be deleted, delete nothing"},
    {"json", 0, LEAT_OPTION_FLAG, offsetof(struct rm_settings, json), NULL, NULL, NULL,
     "print {\"deleted\": N} at the end"},
    LEAT_STORE_OPTIONS(offsetof(struct rm_settings, store)),
    {0},
};

/* Deletes on their way. */
struct deletes {
    struct leat_store *store;
    pthread_mutex_t mu;
    pthread_cond_t cond;
    uint32_t in_flight;    /* hold mu */
    uint64_t deleted;      /* hold mu */
    struct leat_error err; /* hold mu: the first failure */
};

struct one {
    struct leat_store_op op; /* first member */
    struct deletes *d;
    char *key;
};

static void on_deleted(struct leat_store_op *op)
{
    struct one *one = (struct one *)op;
    struct deletes *d = one->d;
    pthread_mutex_lock(&d->mu);
    if (op->status == LEAT_OK)
        d->deleted++;
    else if (d->err.status == LEAT_OK)
        d->err = op->err;
    d->in_flight--;
    pthread_cond_signal(&d->cond);
    pthread_mutex_unlock(&d->mu);
    free(one->key);
    free(one);
}

static leat_status wait_below(struct deletes *d, uint32_t most, struct leat_error *err)
{
    pthread_mutex_lock(&d->mu);
    while (d->in_flight > most && !leat_cli_interrupted())
        leat_cond_wait(&d->cond, &d->mu, leat_after(100 * LEAT_MS));
    leat_status rc = d->err.status;
    if (rc != LEAT_OK)
        *err = d->err;
    pthread_mutex_unlock(&d->mu);
    if (rc == LEAT_OK && leat_cli_interrupted())
        rc = leat_fail(err, LEAT_CANCELLED, "interrupted");
    return rc;
}

static leat_status send_delete(struct deletes *d, const char *key, struct leat_error *err)
{
    leat_status rc = wait_below(d, IN_FLIGHT - 1, err);
    if (rc != LEAT_OK)
        return rc;
    struct one *one = calloc(1, sizeof *one);
    if (one)
        one->key = strdup(key);
    if (!one || !one->key) {
        free(one);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to delete '%s'", key);
    }
    one->d = d;
    one->op.verb = LEAT_STORE_DELETE;
    one->op.key = one->key;
    one->op.done = on_deleted;
    pthread_mutex_lock(&d->mu);
    d->in_flight++;
    pthread_mutex_unlock(&d->mu);
    leat_store_submit(d->store, &one->op);
    return LEAT_OK;
}

static leat_status delete_listed(struct deletes *d, const char *folder, bool dry_run, struct leat_error *err)
{
    struct leat_list *list = NULL;
    struct leat_list_entry e;
    bool end = false;
    leat_status rc = leat_store_list_open(d->store, folder, true, &list, err);
    while (rc == LEAT_OK) {
        rc = leat_store_list_next(list, &e, &end, err);
        if (rc != LEAT_OK || end)
            break;
        if (dry_run) {
            printf("would delete %s\n", e.key);
            d->deleted++;
        } else {
            rc = send_delete(d, e.key, err);
        }
        if (rc == LEAT_OK && leat_cli_interrupted())
            rc = leat_fail(err, LEAT_CANCELLED, "interrupted");
    }
    leat_store_list_close(list);
    return rc;
}

static void look(void *user, struct leat_progress_state *out)
{
    struct deletes *d = user;
    pthread_mutex_lock(&d->mu);
    out->items = d->deleted;
    pthread_mutex_unlock(&d->mu);
}

static leat_status delete_folder(struct deletes *d, char **key, const struct rm_settings *s, struct leat_error *err)
{
    bool folder = false;
    size_t n = strlen(*key);
    if (leat_store_scheme(d->store) == LEAT_SCHEME_FILE && strspn(*key, "/.") == n)
        return leat_fail(err, LEAT_INVALID, "'%s' is not deleted as a whole; name what is in it", *key);
    leat_status rc = leat_cli_is_folder(d->store, *key, &folder, err);
    if (rc == LEAT_OK && !folder)
        rc = leat_fail(err, LEAT_NOT_FOUND, "there is no folder '%s' with anything in it", *key);
    if (rc == LEAT_OK && n)
        rc = leat_cli_open_folder(d->store, key, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_progress *progress = s->dry_run ? NULL : leat_progress_open("deleted", look, d);
    rc = delete_listed(d, *key, s->dry_run, err);
    if (rc == LEAT_OK)
        rc = wait_below(d, 0, err);
    leat_progress_close(progress);
    if (rc == LEAT_OK && !s->dry_run && leat_store_scheme(d->store) == LEAT_SCHEME_FILE)
        rc = leat_cli_remove_folders(*key, err);
    return rc;
}

static leat_status delete_one(struct deletes *d, const char *key, bool dry_run, struct leat_error *err)
{
    struct leat_object object;
    leat_status rc = leat_store_stat(d->store, key, &object, err); /* DELETE itself does not say whether it was there */
    if (rc != LEAT_OK)
        return rc;
    d->deleted = 1;
    if (dry_run) {
        printf("would delete %s\n", key);
        return LEAT_OK;
    }
    return leat_store_delete(d->store, key, err);
}

static int run(const void *settings, int argc, char **argv)
{
    const struct rm_settings *s = settings;
    struct leat_error err;
    uint64_t deleted = 0;
    leat_status rc = LEAT_OK;
    for (int i = 0; i < argc && rc == LEAT_OK; i++) {
        struct deletes d = {0};
        char *key = NULL;
        pthread_mutex_init(&d.mu, NULL);
        leat_cond_init(&d.cond);
        rc = leat_cli_store_open(&s->store, argv[i], &d.store, &key, &err);
        if (rc == LEAT_OK)
            rc = s->recursive ? delete_folder(&d, &key, s, &err) : delete_one(&d, key, s->dry_run, &err);
        leat_store_close(d.store); /* ends what is still on its way */
        deleted += d.deleted;
        free(key);
        pthread_cond_destroy(&d.cond);
        pthread_mutex_destroy(&d.mu);
    }
    if (s->json)
        printf("{\"deleted\":%" PRIu64 "}\n", deleted);
    if (rc != LEAT_OK)
        return leat_cli_fail(&err);
    return leat_cli_finish();
}

const struct leat_command leat_command_rm = {
    .name = "rm",
    .arguments = "URL…",
    .summary = "delete objects",
    .details = "Without --recursive URL must name one object. With it, URL is a folder: 'train' means the objects "
               "below 'train/', never 'train2'. Objects are deleted many at a time; after Ctrl-C or an error some are "
               "gone and the rest is untouched.",
    .examples = "  leat rm s3://bucket/old.tar\n  leat rm --recursive --dry-run s3://bucket/tmp\n",
    .options = options,
    .settings_size = sizeof(struct rm_settings),
    .arguments_min = 1,
    .arguments_max = 1000000,
    .run = run,
};
