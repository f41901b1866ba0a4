#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/store_options.h"
#include "store/attributes.h"
#include "store/copy.h"

struct cp_settings {
    struct leat_cli_store store;
    bool recursive;
    bool resume;
    bool through;
    const char *content_type;
    const char *storage_class;
    struct leat_option_list metadata;
    bool json;
    struct leat_cli_progress progress;
    uint64_t part_size;
    uint64_t memory;
};

static const struct leat_option options[] = {
    {"recursive", 'r', LEAT_OPTION_FLAG, offsetof(struct cp_settings, recursive), NULL, NULL, NULL,
     "copy everything below SRC to below DST"},
    {"resume", 0, LEAT_OPTION_FLAG, offsetof(struct cp_settings, resume), NULL, NULL, NULL,
     "continue an interrupted copy: skip objects that are at DST with the same size and are not older, and parts of "
     "large objects that have arrived"},
    {"part-size", 0, LEAT_OPTION_SIZE, offsetof(struct cp_settings, part_size), "SIZE", "8MiB", "LEAT_PART_SIZE",
     "copy larger objects in parts of this size, at least 5MiB"},
    {"memory", 0, LEAT_OPTION_SIZE, offsetof(struct cp_settings, memory), "SIZE", "256MiB", "LEAT_COPY_MEMORY",
     "memory for data in transit"},
    {"content-type", 0, LEAT_OPTION_STRING, offsetof(struct cp_settings, content_type), "TYPE", NULL, NULL,
     "the copies' content type (default: the source's; of a file, what its name says)"},
    {"metadata", 0, LEAT_OPTION_LIST, offsetof(struct cp_settings, metadata), "NAME=VALUE", NULL, NULL,
     "give the copies this pair, beside those that the source has; may be repeated"},
    {"storage-class", 0, LEAT_OPTION_STRING, offsetof(struct cp_settings, storage_class), "NAME", NULL, NULL,
     "the copies' storage class, for example STANDARD_IA (default: the source's within a kind of store)"},
    {"through", 0, LEAT_OPTION_FLAG, offsetof(struct cp_settings, through), NULL, NULL, NULL,
     "let the bytes come through this machine also where the server could copy them by itself"},
    {"quiet", 'q', LEAT_OPTION_FLAG, offsetof(struct cp_settings, progress.quiet), NULL, NULL, NULL,
     "no progress and no summary"},
    LEAT_PROGRESS_OPTION(offsetof(struct cp_settings, progress)),
    {"json", 0, LEAT_OPTION_FLAG, offsetof(struct cp_settings, json), NULL, NULL, NULL,
     "print the numbers of objects, skipped objects and bytes as JSON"},
    LEAT_STORE_OPTIONS(offsetof(struct cp_settings, store)),
    {0},
};

struct ends {
    const char *from_url; /* as they were given: for messages */
    const char *to_url;
    struct leat_store *from;
    struct leat_store *to;
    char *from_key;
    char *to_key;
    const char *version; /* of the source; "": as it is now */
    bool whole;          /* all objects have been added: the total is known */
    struct leat_copy *copy;
};

static void look(void *user, struct leat_progress_state *out)
{
    struct ends *e = user;
    struct leat_copy_progress p;
    leat_copy_progress(e->copy, &p);
    out->done = p.bytes + p.bytes_moving;
    out->total = p.bytes_planned;
    out->items = p.objects + p.skipped;
    out->growing = !__atomic_load_n(&e->whole, __ATOMIC_RELAXED);
}

/* $XDG_STATE_HOME/leat, else ~/.local/state/leat where there is a home. False: nowhere to keep it. */
static bool journal_folder(char *out, size_t n)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    struct stat st;
    int len = -1;
    if (state && *state)
        len = snprintf(out, n, "%s/leat", state);
    else if (home && *home && stat(home, &st) == 0 && S_ISDIR(st.st_mode))
        len = snprintf(out, n, "%s/.local/state/leat", home);
    return len > 0 && (size_t)len < n;
}

/* A key from a bucket must not lead out of the folder it is copied to. */
static bool safe_path(const char *rest)
{
    if (*rest == '/')
        return false;
    for (const char *p = rest; *p;) {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && *p == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        p += n;
        p += *p == '/';
    }
    return true;
}

static bool is_web(const struct leat_store *store)
{
    return leat_store_can(store, LEAT_STORE_QUERIES);
}

/* What the copy of one object is called in a folder; a web address's query is not part of it. The caller frees it. */
static char *last_name(const struct leat_store *store, const char *key)
{
    size_t n = is_web(store) ? strcspn(key, "?") : strlen(key);
    const char *slash = memrchr(key, '/', n);
    const char *name = slash ? slash + 1 : key;
    return leat_bytes_text(name, (size_t)(key + n - name));
}

static char *join(const char *folder, const char *rest)
{
    struct leat_buf b;
    size_t n = strlen(folder);
    leat_buf_init(&b, 16 << 10);
    leat_buf_printf(&b, "%s%s%s", folder, n && folder[n - 1] != '/' ? "/" : "", rest);
    return leat_buf_take(&b);
}

static bool same_file(const char *a, const char *b)
{
    struct stat x;
    struct stat y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Where DST is a folder, the object goes into it under its own name. */
static leat_status name_target(struct ends *e, struct leat_error *err)
{
    bool folder = false;
    size_t n = strlen(e->to_key);
    leat_status rc = LEAT_OK;
    if (leat_store_can(e->to, LEAT_STORE_LOCAL)) /* in a bucket only a '/' at the end makes a folder */
        rc = leat_cli_is_folder(e->to, e->to_key, &folder, err);
    if (rc != LEAT_OK)
        return rc;
    char *name = last_name(e->from, e->from_key);
    char *longer = name ? join(e->to_key, name) : NULL;
    if (!longer) {
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for a key");
    } else if (!*name) {
        int shown = (int)(is_web(e->from) ? strcspn(e->from_url, "?") : strlen(e->from_url));
        rc = leat_fail(err, LEAT_INVALID, "'%.*s' names a folder%s", shown, e->from_url,
                       is_web(e->from) ? ", not a file in it" : "; add --recursive to copy what is in it");
    } else if (folder || n == 0 || e->to_key[n - 1] == '/') {
        free(e->to_key);
        e->to_key = longer;
        longer = NULL;
    }
    free(name);
    free(longer);
    return rc;
}

static leat_status copy_one(struct ends *e, struct leat_error *err)
{
    bool folder = false;
    leat_status rc = leat_store_split_version(e->from, e->from_key, &e->version, err);
    if (rc == LEAT_OK)
        rc = name_target(e, err);
    if (rc != LEAT_OK)
        return rc;
    if (leat_cli_same_store(e->from, e->to) &&
        ((strcmp(e->from_key, e->to_key) == 0 && !*e->version) ||
         (leat_store_can(e->from, LEAT_STORE_LOCAL) && same_file(e->from_key, e->to_key))))
        return leat_fail(err, LEAT_INVALID, "'%s' and '%s' are the same object", e->from_url, e->to_url);
    rc = leat_copy_add_version(e->copy, e->from_key, e->version, e->to_key, err);
    if (rc == LEAT_NOT_FOUND && leat_cli_is_folder(e->from, e->from_key, &folder, NULL) == LEAT_OK && folder)
        rc = leat_fail(err, LEAT_INVALID, "'%s' is a folder; add --recursive to copy what is in it", e->from_url);
    __atomic_store_n(&e->whole, true, __ATOMIC_RELAXED);
    return rc;
}

/* Copying a folder into itself would never end. */
static leat_status check_apart(const struct ends *e, struct leat_error *err)
{
    if (leat_cli_lies_in(e->from, e->from_key, e->to, e->to_key))
        return leat_fail(err, LEAT_INVALID, "'%s' is inside '%s': a folder cannot be copied into itself", e->to_url,
                         e->from_url);
    return LEAT_OK;
}

static leat_status add_listed(struct ends *e, const struct leat_list_entry *entry, struct leat_error *err)
{
    const char *rest = entry->key + strlen(e->from_key);
    size_t n = strlen(rest);
    bool to_file = leat_store_can(e->to, LEAT_STORE_LOCAL);
    if (to_file && (n == 0 || rest[n - 1] == '/') && entry->size == 0)
        return LEAT_OK; /* the empty object by which some tools mark a folder */
    if (to_file && (!safe_path(rest) || rest[n - 1] == '/'))
        return leat_fail(err, LEAT_INVALID, "the key '%s' cannot be a path below '%s'", entry->key, e->to_url);
    struct leat_object known = {.size = entry->size, .modified_s = entry->modified_s};
    snprintf(known.etag, sizeof known.etag, "%s", entry->etag);
    snprintf(known.storage_class, sizeof known.storage_class, "%s", entry->storage_class ? entry->storage_class : "");
    char *to = join(e->to_key, rest);
    if (!to)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a key");
    leat_status rc = leat_copy_add(e->copy, entry->key, &known, to, err);
    free(to);
    return rc;
}

static leat_status copy_folder(struct ends *e, struct leat_error *err)
{
    struct leat_list *list = NULL;
    struct leat_list_entry entry;
    bool end = false;
    bool any = false;
    bool folder = false;
    leat_status rc = LEAT_OK;
    if (is_web(e->from))
        return leat_store_list_open(e->from, e->from_key, true, &list, err); /* which says that it cannot */
    rc = leat_cli_is_folder(e->from, e->from_key, &folder, err);
    if (rc == LEAT_OK && !folder)
        rc = leat_fail(err, LEAT_NOT_FOUND, "there is no folder '%s' with anything in it", e->from_url);
    if (rc == LEAT_OK)
        rc = check_apart(e, err);
    if (rc == LEAT_OK)
        rc = leat_cli_open_folder(e->from, &e->from_key, err);
    if (rc == LEAT_OK)
        rc = leat_store_list_open(e->from, e->from_key, true, &list, err);
    while (rc == LEAT_OK) {
        rc = leat_store_list_next(list, &entry, &end, err);
        if (rc != LEAT_OK || end)
            break;
        any = true;
        rc = add_listed(e, &entry, err);
    }
    leat_store_list_close(list);
    if (rc == LEAT_OK && !any)
        rc = leat_fail(err, LEAT_NOT_FOUND, "there is nothing in '%s'", e->from_url);
    __atomic_store_n(&e->whole, true, __ATOMIC_RELAXED);
    return rc;
}

static bool stop(void *user)
{
    (void)user;
    return leat_cli_interrupted();
}

/* What was asked for, as the store wants it. The caller frees it. */
static leat_status read_attributes(const struct cp_settings *s, const struct ends *e, struct leat_buf *out,
                                   struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    bool any = s->content_type || s->storage_class || s->metadata.count;
    leat_buf_init(out, LEAT_ATTRIBUTES_MAX);
    if (any && !leat_store_can(e->to, LEAT_STORE_ATTRIBUTES))
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "'%s': --content-type, --metadata and --storage-class are for objects in s3://", e->to_url);
    if (s->content_type)
        rc = leat_attributes_set(out, "content-type", s->content_type, err);
    if (rc == LEAT_OK && s->storage_class)
        rc = leat_attributes_set(out, "storage-class", s->storage_class, err);
    for (size_t i = 0; rc == LEAT_OK && i < s->metadata.count; i++) {
        const char *equals = strchr(s->metadata.item[i], '=');
        char name[160];
        int n = equals
                    ? snprintf(name, sizeof name, "meta-%.*s", (int)(equals - s->metadata.item[i]), s->metadata.item[i])
                    : -1;
        rc = n > 5 && (size_t)n < sizeof name
                 ? leat_attributes_set(out, name, equals + 1, err)
                 : leat_fail(err, LEAT_INVALID, "--metadata: '%.100s' is not NAME=VALUE", s->metadata.item[i]);
    }
    return rc;
}

static leat_status copy_all(struct ends *e, const struct cp_settings *s, struct leat_copy_progress *totals,
                            struct leat_error *err)
{
    char journal[4096];
    struct leat_buf attributes;
    leat_status rc = read_attributes(s, e, &attributes, err);
    struct leat_copy_opts opts = {
        .from = e->from,
        .to = e->to,
        .part_size = s->part_size,
        .memory = s->memory,
        .resume = s->resume,
        .through = s->through,
        .attributes = attributes.len ? attributes.data : NULL,
        .journal = journal_folder(journal, sizeof journal) ? journal : NULL,
        .stop = stop,
    };
    if (rc == LEAT_OK)
        rc = leat_copy_open(&opts, &e->copy, err);
    if (rc != LEAT_OK) {
        leat_buf_free(&attributes);
        return rc;
    }
    struct leat_progress *progress = leat_progress_open(&s->progress, "objects", look, e);
    rc = s->recursive ? copy_folder(e, err) : copy_one(e, err);
    if (rc == LEAT_OK)
        rc = leat_copy_wait(e->copy, err);
    leat_progress_close(progress);
    leat_copy_progress(e->copy, totals);
    leat_copy_close(e->copy);
    leat_buf_free(&attributes);
    return rc;
}

static void print_totals(const struct cp_settings *s, const struct leat_copy_progress *p)
{
    char size[LEAT_FORMAT_SIZE];
    if (s->json)
        printf("{\"objects\":%" PRIu64 ",\"skipped\":%" PRIu64 ",\"bytes\":%" PRIu64 "}\n", p->objects, p->skipped,
               p->bytes);
    else if (!s->progress.quiet)
        printf("copied %" PRIu64 " object%s, %s%s", p->objects, p->objects == 1 ? "" : "s",
               leat_format_size(p->bytes, size), p->skipped ? "" : "\n");
    if (!s->json && !s->progress.quiet && p->skipped)
        printf("; %" PRIu64 " were there already\n", p->skipped);
}

static int run(const void *settings, int argc, char **argv)
{
    const struct cp_settings *s = settings;
    struct leat_error err;
    struct ends e = {.from_url = argv[0], .to_url = argv[1]};
    struct leat_copy_progress totals = {0};
    if (s->part_size < LEAT_PART_MIN || s->part_size > 5ull << 30)
        return leat_cli_failf(LEAT_INVALID, "--part-size: between 5MiB and 5GiB");
    leat_status rc = leat_cli_store_one_kind(&s->store, argv, argc, NULL, &err);
    if (rc == LEAT_OK)
        rc = leat_cli_store_open(&s->store, argv[0], &e.from, &e.from_key, &err);
    if (rc == LEAT_OK)
        rc = leat_cli_store_open(&s->store, argv[1], &e.to, &e.to_key, &err);
    if (rc == LEAT_OK)
        rc = copy_all(&e, s, &totals, &err);
    leat_store_close(e.from);
    leat_store_close(e.to);
    free(e.from_key);
    free(e.to_key);
    if (rc == LEAT_CANCELLED)
        return leat_cli_failf(rc, "interrupted after %" PRIu64 " objects; run it again with --resume to continue",
                              totals.objects + totals.skipped);
    bool lasting = rc == LEAT_INVALID || rc == LEAT_UNSUPPORTED; /* it would fail the same way again */
    if (rc != LEAT_OK && !lasting && (totals.objects || totals.resumable))
        return leat_cli_failf(rc, "%s; run it again with --resume to continue", err.text);
    if (rc != LEAT_OK)
        return leat_cli_fail(&err);
    print_totals(s, &totals);
    return leat_cli_finish();
}

const struct leat_command leat_command_cp = {
    .name = "cp",
    .arguments = "SRC DST",
    .summary = "copy objects and folders, between any two stores",
    .details = "Copies one object, or with --recursive everything below SRC to below DST. Objects appear at their "
               "destination complete or not at all. Many objects are copied at the same time, large ones in parts. "
               "The number of requests in flight adapts to the throughput.\n\nAfter an interruption, --resume "
               "continues where the copy stopped. Which parts of large objects have arrived is recorded in "
               "$XDG_STATE_HOME/leat (default ~/.local/state/leat).\n\nBetween buckets of one S3 server, of "
               "Google, or of one account of Azure, the server copies by itself: nothing comes through this machine. "
               "Content type, metadata and storage class go with the object; between kinds of stores only where the "
               "copy is to S3.",
    .examples = "  leat cp model.pt s3://bucket/models/\n  leat cp --recursive ./train s3://bucket/train\n"
                "  leat cp --recursive --resume s3://bucket/train /data/train\n",
    .options = options,
    .settings_size = sizeof(struct cp_settings),
    .arguments_min = 2,
    .arguments_max = 2,
    .run = run,
};
