#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/dataset.h"
#include "cli/progress.h"
#include "dataset/npy.h"
#include "dataset/slice.h"
#include "mount/path.h"
#include "mount/tree.h"

struct unpack_settings {
    struct leat_cli_store store;
    const char *field;
    uint64_t jobs;
    struct leat_cli_progress progress;
};

static const struct leat_option options[] = {
    {"field", 0, LEAT_OPTION_STRING, offsetof(struct unpack_settings, field), "NAME", NULL, NULL,
     "the only field to write, to a file with the path of the key (default: all that hold bytes)"},
    {"jobs", 'j', LEAT_OPTION_U64, offsetof(struct unpack_settings, jobs), "N", NULL, "LEAT_JOBS",
     "threads (default: one per CPU)"},
    {"quiet", 'q', LEAT_OPTION_FLAG, offsetof(struct unpack_settings, progress.quiet), NULL, NULL, NULL,
     "no progress and no summary"},
    LEAT_PROGRESS_OPTION(offsetof(struct unpack_settings, progress)),
    LEAT_STORE_OPTIONS(offsetof(struct unpack_settings, store)),
    {0},
};

struct unpacking {
    struct leat_dataset *dataset;
    struct leat_home to;
    bool keys_repeat;
    bool several;   /* fields: each has a file of its own */
    uint32_t field; /* the only one */
    struct {        /* hold mutex; gone before the first file is written */
        pthread_mutex_t mutex;
        struct leat_tree *tree;
    } planned;
    _Atomic uint64_t written;
    _Atomic uint64_t refused;
};

/* What is known of a sample before its bytes are here. */
struct sample {
    uint64_t number;
    const char *key;
    size_t key_n;
    const uint8_t *row;
};

static const struct leat_schema *schema_of(const struct unpacking *u)
{
    return &leat_dataset_root(u->dataset)->schema;
}

/* Whether there is room for every field's ending behind the last part of the path. */
static bool good_endings(const struct leat_schema *schema, const char *key, size_t n)
{
    size_t last = n;
    size_t longest = 0;
    while (last > 0 && key[last - 1] != '/')
        last--;
    for (uint32_t f = 0; f < schema->n; f++) {
        size_t length = strlen(schema->fields[f].name);
        longest = length > longest ? length : longest;
    }
    return n - last + 1 + longest + sizeof LEAT_PATH_NPY - 1 <= LEAT_PATH_NAME_MAX;
}

static void leave_out(struct unpacking *u, const char *what)
{
    fprintf(stderr, "leat: %s: left out\n", what);
    atomic_fetch_add(&u->refused, 1);
}

static bool is_absent(const struct unpacking *u, const struct sample *s, uint32_t field)
{
    return leat_cell_read(&schema_of(u)->fields[field], s->row).absent;
}

/* Whether the sample is written, in *good; if it is not and `say`, the reason is printed. Of samples with one key the
 * first is written. */
static leat_status check_sample(struct unpacking *u, const struct sample *s, bool say, bool *good,
                                struct leat_error *err)
{
    char what[500];
    uint64_t first = s->number;
    uint64_t count;
    size_t n = s->key_n;
    leat_status rc = n && u->keys_repeat ? leat_dataset_find(u->dataset, s->key, n, &first, &count, err) : LEAT_OK;
    char *shown = leat_cli_show_key(s->key, n);
    *good = false;
    if (rc != LEAT_OK || !shown)
        rc = rc != LEAT_OK ? rc : leat_fail(err, LEAT_NO_MEMORY, "no memory for a name");
    else if (n == 0)
        snprintf(what, sizeof what, "sample %" PRIu64 " has no key", s->number);
    else if (!leat_path_good(s->key, n) || (u->several && !good_endings(schema_of(u), s->key, n)))
        snprintf(what, sizeof what, "key '%.300s' cannot be a path", shown);
    else if (first != s->number)
        snprintf(what, sizeof what, "sample %" PRIu64 " has the key '%.300s', as sample %" PRIu64 " has", s->number,
                 shown, first);
    else if (!u->several && is_absent(u, s, u->field))
        snprintf(what, sizeof what, "sample %" PRIu64 " ('%.300s') has no '%s'", s->number, shown,
                 schema_of(u)->fields[u->field].name);
    else
        *good = true;
    free(shown);
    if (rc == LEAT_OK && !*good && say)
        leave_out(u, what);
    return rc;
}

/* The path of a value's file: *npy, with a header. The caller frees it. */
static leat_status path_of(const struct unpacking *u, const char *key, size_t n, uint32_t field, struct leat_buf *out,
                           bool *npy, struct leat_error *err)
{
    leat_buf_init(out, LEAT_PATH_MAX + 2 * LEAT_PATH_NAME_MAX);
    leat_buf_add(out, key, n);
    *npy = u->several && leat_path_add_field(out, &schema_of(u)->fields[field], field == u->field);
    return leat_buf_check(out, "a path", err);
}

static bool has_file(const struct unpacking *u, const struct sample *s, uint32_t field)
{
    return u->several ? leat_field_has_data(&schema_of(u)->fields[field]) && !is_absent(u, s, field)
                      : field == u->field;
}

/* Files that would overwrite each other */

static leat_status plan_sample(struct unpacking *u, const struct sample *s, struct leat_error *err)
{
    bool good = false;
    bool npy;
    leat_status rc = check_sample(u, s, false, &good, err);
    for (uint32_t f = 0; rc == LEAT_OK && good && f < schema_of(u)->n; f++) {
        struct leat_buf path;
        if (!has_file(u, s, f))
            continue;
        rc = path_of(u, s->key, s->key_n, f, &path, &npy, err);
        struct leat_tree_file file = {.path = path.data, .path_n = path.len, .sample = s->number, .field = f};
        pthread_mutex_lock(&u->planned.mutex);
        if (rc == LEAT_OK)
            rc = leat_tree_add(u->planned.tree, &file, err);
        pthread_mutex_unlock(&u->planned.mutex);
        leat_buf_free(&path);
    }
    return rc;
}

static leat_status plan_chunk(void *user, uint32_t chunk, uint64_t first, struct leat_error *err)
{
    struct unpacking *u = user;
    struct leat_slice slice = {0};
    uint32_t n = leat_dataset_counts(u->dataset)[chunk];
    leat_status rc = leat_slice_open(u->dataset, chunk, LEAT_SLICE_KEYS | LEAT_SLICE_ROWS, &slice, err);
    for (uint32_t i = 0; rc == LEAT_OK && i < n; i++) {
        uint32_t index = leat_dataset_index(u->dataset, chunk, i);
        struct sample s = {.number = first + i, .row = leat_slice_row(&slice, index)};
        s.key = leat_slice_key(&slice, index, &s.key_n);
        rc = plan_sample(u, &s, err);
    }
    leat_slice_close(&slice);
    return rc;
}

/* A sample's key for people; the caller frees it. NULL: it cannot be read. */
static char *key_of(const struct unpacking *u, uint64_t sample)
{
    struct leat_buf key;
    leat_buf_init(&key, LEAT_KEY_MAX);
    char *shown =
        leat_dataset_key(u->dataset, sample, &key, NULL) == LEAT_OK ? leat_cli_show_key(key.data, key.len) : NULL;
    leat_buf_free(&key);
    return shown;
}

static leat_status refuse(void *user, enum leat_tree_why why, const struct leat_tree_file *file,
                          const struct leat_tree_file *other, struct leat_error *err)
{
    struct unpacking *u = user;
    const struct leat_field *fields = schema_of(u)->fields;
    if (why == LEAT_TREE_FOLDER && !leat_store_can(u->to.store, LEAT_STORE_LOCAL))
        return LEAT_OK; /* a bucket knows no folders */
    char *path = leat_cli_show_key(file->path, file->path_n);
    char *a = key_of(u, other->sample);
    char *b = key_of(u, file->sample);
    const char *what = why == LEAT_TREE_FOLDER ? "a file and a folder in the same place" : "the same file";
    leat_status rc =
        leat_fail(err, LEAT_INVALID,
                  "'%s' of sample %" PRIu64 " ('%.120s') and '%s' of sample %" PRIu64 " ('%.120s') would be %s, "
                  "'%.120s': nothing was written. 'leat select' leaves out either sample%s",
                  fields[other->field].name, other->sample, a ? a : "", fields[file->field].name, file->sample,
                  b ? b : "", what, path ? path : "",
                  why == LEAT_TREE_FOLDER ? "; a bucket can hold both"
                  : u->several            ? "; --field writes one field only"
                                          : "");
    free(path);
    free(a);
    free(b);
    return rc;
}

/* Before the first file is written: no two may have one path, and on a file system none may be a folder of another. */
static leat_status check_paths(struct unpacking *u, const struct unpack_settings *s, struct leat_error *err)
{
    struct leat_cli_chunks run = {
        .dataset = u->dataset, .threads = s->jobs < 1000 ? (unsigned)s->jobs : 1000, .visit = plan_chunk, .user = u};
    run.progress.quiet = true;
    leat_status rc = leat_tree_open(&u->planned.tree, err);
    pthread_mutex_init(&u->planned.mutex, NULL);
    if (rc == LEAT_OK)
        rc = leat_cli_each_chunk(&run, err);
    if (rc == LEAT_OK)
        rc = leat_tree_build(u->planned.tree, refuse, u, err);
    pthread_mutex_destroy(&u->planned.mutex);
    leat_tree_close(u->planned.tree);
    u->planned.tree = NULL;
    return rc;
}

/* Writing */

/* One value. */
static leat_status write_value(struct unpacking *u, const struct leat_chunk *c, uint32_t i, uint32_t field,
                               struct leat_error *err)
{
    const struct leat_field *f = &c->schema.fields[field];
    struct leat_cell cell = leat_chunk_cell(c, i, field);
    struct leat_buf name;
    struct leat_buf file;
    const void *data = NULL;
    void *own = NULL;
    size_t n;
    bool npy;
    const char *key = leat_chunk_key(c, i, &n);
    leat_buf_init(&file, SIZE_MAX);
    leat_status rc = path_of(u, key, n, field, &name, &npy, err);
    if (rc == LEAT_OK)
        rc = leat_chunk_view(c, &cell, &data, &own, err);
    if (rc == LEAT_OK && npy) {
        rc = leat_npy_head(f, &cell, &file, err);
        leat_buf_add(&file, data, cell.raw);
        if (rc == LEAT_OK)
            rc = leat_buf_check(&file, "an array", err);
        data = file.data;
    }
    if (rc == LEAT_OK)
        rc = leat_home_put(&u->to, name.data, data, file.len ? file.len : cell.raw, err);
    free(own);
    leat_buf_free(&file);
    leat_buf_free(&name);
    if (rc == LEAT_OK)
        atomic_fetch_add(&u->written, 1);
    return rc;
}

static leat_status write_sample(struct unpacking *u, const struct leat_chunk *c, uint32_t i, uint64_t number,
                                struct leat_error *err)
{
    bool good;
    struct sample s = {.number = number, .row = leat_chunk_row(c, i)};
    s.key = leat_chunk_key(c, i, &s.key_n);
    leat_status rc = check_sample(u, &s, true, &good, err);
    for (uint32_t f = 0; rc == LEAT_OK && good && f < c->schema.n; f++) {
        if (has_file(u, &s, f))
            rc = write_value(u, c, i, f, err);
    }
    return rc;
}

static leat_status write_chunk(void *user, uint32_t chunk, uint64_t first, const struct leat_chunk *c,
                               struct leat_error *err)
{
    struct unpacking *u = user;
    uint32_t n = leat_dataset_counts(u->dataset)[chunk];
    leat_status rc = LEAT_OK;
    for (uint32_t i = 0; rc == LEAT_OK && i < n; i++)
        rc = leat_cli_interrupted() ? leat_fail(err, LEAT_CANCELLED, "interrupted")
                                    : write_sample(u, c, leat_dataset_index(u->dataset, chunk, i), first + i, err);
    return rc;
}

static leat_status unpack(const struct unpack_settings *s, struct leat_dataset *d, struct unpacking *u,
                          struct leat_error *err)
{
    const struct leat_root *root = leat_dataset_root(d);
    uint32_t fields = 0;
    leat_status rc = leat_cli_pick_field(&root->schema, s->field, &u->field, err);
    for (uint32_t f = 0; f < root->schema.n; f++)
        fields += leat_field_has_data(&root->schema.fields[f]);
    u->several = !s->field && fields > 1;
    for (uint32_t f = 0; rc == LEAT_OK && f < root->schema.n; f++) {
        if (u->several || f == u->field)
            rc = leat_field_check(&root->schema.fields[f], err);
    }
    if (rc == LEAT_OK)
        rc = leat_dataset_keys_repeat(d, &u->keys_repeat, err);
    if (rc != LEAT_OK)
        return rc;
    u->dataset = d;
    if (!leat_field_has_data(&root->schema.fields[u->field]))
        return leat_fail(err, LEAT_INVALID, "field '%s' has no bytes to write to a file", s->field);
    rc = check_paths(u, s, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_cli_chunks run = {.dataset = d,
                                  .threads = s->jobs < 1000 ? (unsigned)s->jobs : 1000,
                                  .progress = s->progress,
                                  .each = write_chunk,
                                  .user = u};
    return leat_cli_each_chunk(&run, err);
}

/* What is not in the files is said: labels in folders' names are, other numbers are not. */
static void print_numbers(const struct leat_schema *schema)
{
    const char *before = "not in the files: ";
    for (uint32_t f = 0; f < schema->n; f++) {
        if (leat_field_has_data(&schema->fields[f]))
            continue;
        printf("%s%s", before, schema->fields[f].name);
        before = ", ";
    }
    if (*before == ',')
        printf(" ('leat ls --samples --json' lists them)\n");
}

static int run(const void *settings, int argc, char **argv)
{
    const struct unpack_settings *s = settings;
    struct leat_dataset *d = NULL;
    struct unpacking u = {0};
    struct leat_error err;
    leat_status rc = leat_cli_store_one_kind(&s->store, argv, argc, NULL, &err);
    if (rc == LEAT_OK)
        rc = leat_cli_dataset_open(&s->store, argv[0], &d, &err);
    if (rc == LEAT_OK)
        rc = leat_cli_home_open(&s->store, argv[1], &u.to, &err);
    if (rc == LEAT_OK)
        rc = leat_home_check_plain(&u.to, &err);
    if (rc == LEAT_OK)
        rc = unpack(s, d, &u, &err);
    if (rc == LEAT_OK && !u.refused && !s->progress.quiet) {
        printf("%" PRIu64 " files\n", atomic_load(&u.written));
        print_numbers(&leat_dataset_root(d)->schema);
    }
    leat_home_close(&u.to);
    leat_dataset_close(d);
    if (rc != LEAT_OK)
        return leat_cli_fail(&err);
    if (u.refused)
        return leat_cli_failf(LEAT_INVALID, "%" PRIu64 " samples were left out, %" PRIu64 " written",
                              atomic_load(&u.refused), atomic_load(&u.written));
    return leat_cli_finish();
}

const struct leat_command leat_command_unpack = {
    .name = "unpack",
    .arguments = "DATASET DEST",
    .summary = "write the samples of a dataset to files",
    .details =
        "Every sample becomes a file below DEST (a folder, or a prefix in a bucket) whose path is its key. If several "
        "fields hold bytes, each becomes a file with the field's name as its ending (key.jpg, key.txt), as 'leat pack "
        "--group' reads them; arrays and tokens are then .npy files. A key that has an ending stays the path of the "
        "first "
        "field. A missing value has no file. Ints and floats are "
        "not written. Existing files are replaced. Left out, with a message and exit status 2, are samples whose key "
        "would lead out of "
        "DEST or cannot be a path, samples without a key or a value, and all but the first of samples with the same "
        "key.\n\nBefore anything is written, the paths of all files are compared: if two values would be the same "
        "file (the keys 'a' and 'a.txt' with a field 'txt'), or on a file system a file would also be a folder (the "
        "keys 'a' and 'a/b'), that is an error which names both.",
    .examples = "  leat unpack s3://bucket/photos ./photos\n",
    .options = options,
    .settings_size = sizeof(struct unpack_settings),
    .arguments_min = 2,
    .arguments_max = 2,
    .run = run,
};
