#include "mount/tree.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "mount/path.h"
#include "mount/table.h"

struct file {
    uint64_t path_at;
    uint64_t sample;
    uint32_t bytes;
    uint32_t folder;
    uint16_t path_n;
    uint16_t name_n;
    uint16_t field;
};

struct folder {
    uint64_t first;    /* of its children in their table */
    uint64_t children; /* … and how many; while they are filled in, how many are there */
    uint64_t via;      /* its first file, in whose path the folder's own is */
    uint32_t parent;
    uint32_t subfolders;
    uint16_t path_n; /* 0: the root */
    uint16_t name_n;
};

#define FOLDERS_MAX UINT32_MAX
#define DEPTH_MAX   (LEAT_PATH_MAX / 2 + 2) /* each folder takes two bytes of a path at least */

struct leat_tree {
    struct leat_table paths;
    struct leat_table files;
    struct leat_table folders;
    struct leat_table children; /* u64 each: their numbers, folder by folder, by name */
    uint64_t files_n;
    uint64_t folders_n;
};

static struct file *file_at(const struct leat_tree *t, uint64_t i)
{
    return (struct file *)t->files.data + i;
}

static struct folder *folder_at(const struct leat_tree *t, uint64_t i)
{
    return (struct folder *)t->folders.data + i;
}

static const char *path_of(const struct leat_tree *t, const struct file *f)
{
    return (const char *)t->paths.data + f->path_at;
}

leat_status leat_tree_open(struct leat_tree **out, struct leat_error *err)
{
    struct leat_tree *t = calloc(1, sizeof *t);
    if (!t)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a catalog");
    *out = t;
    return LEAT_OK;
}

void leat_tree_close(struct leat_tree *t)
{
    if (!t)
        return;
    leat_table_close(&t->paths);
    leat_table_close(&t->files);
    leat_table_close(&t->folders);
    leat_table_close(&t->children);
    free(t);
}

leat_status leat_tree_add(struct leat_tree *t, const struct leat_tree_file *file, struct leat_error *err)
{
    void *path = NULL;
    void *record = NULL;
    uint64_t at = t->paths.used;
    if (file->path_n > UINT16_MAX || file->field > UINT16_MAX)
        return leat_fail(err, LEAT_INTERNAL, "a path of %zu bytes for field %" PRIu32, file->path_n, file->field);
    leat_status rc = leat_table_add(&t->paths, file->path_n, &path, err);
    if (rc == LEAT_OK)
        rc = leat_table_add(&t->files, sizeof(struct file), &record, err);
    if (rc != LEAT_OK)
        return rc;
    const char *slash = memrchr(file->path, '/', file->path_n);
    memcpy(path, file->path, file->path_n);
    *(struct file *)record = (struct file){
        .path_at = at,
        .sample = file->sample,
        .bytes = file->bytes,
        .path_n = (uint16_t)file->path_n,
        .name_n = (uint16_t)(file->path_n - (slash ? (size_t)(slash + 1 - file->path) : 0)),
        .field = (uint16_t)file->field,
    };
    t->files_n++;
    return LEAT_OK;
}

/* Building */

static int compare(const void *left, const void *right, void *arg)
{
    const struct leat_tree *t = arg;
    const struct file *a = left;
    const struct file *b = right;
    int order = leat_path_compare(path_of(t, a), a->path_n, path_of(t, b), b->path_n);
    if (order)
        return order;
    if (a->sample != b->sample)
        return a->sample < b->sample ? -1 : 1;
    return a->field < b->field ? -1 : a->field > b->field;
}

/* The folders from the root to where the last file lies. */
struct trail {
    uint32_t folder[DEPTH_MAX];
    uint32_t depth; /* folder[0] is the root */
};

static leat_status add_folder(struct leat_tree *t, uint32_t parent, uint64_t via, size_t path_n, size_t name_n,
                              struct leat_error *err)
{
    void *record = NULL;
    if (t->folders_n >= FOLDERS_MAX)
        return leat_fail(err, LEAT_LIMIT, "more than %u folders", FOLDERS_MAX);
    leat_status rc = leat_table_add(&t->folders, sizeof(struct folder), &record, err);
    if (rc != LEAT_OK)
        return rc;
    *(struct folder *)record =
        (struct folder){.via = via, .parent = parent, .path_n = (uint16_t)path_n, .name_n = (uint16_t)name_n};
    if (t->folders_n++) {
        folder_at(t, parent)->children++;
        folder_at(t, parent)->subfolders++;
    }
    return LEAT_OK;
}

/* Goes up to the deepest folder of the trail that the path lies in, and down from there, making what is new. `i` is
 * where the file will be. */
static leat_status enter(struct leat_tree *t, struct trail *trail, const struct file *f, uint64_t i,
                         struct leat_error *err)
{
    const char *path = path_of(t, f);
    leat_status rc = LEAT_OK;
    while (trail->depth > 1) {
        const struct folder *d = folder_at(t, trail->folder[trail->depth - 1]);
        if (leat_path_below(path_of(t, file_at(t, d->via)), d->path_n, path, f->path_n))
            break;
        trail->depth--;
    }
    size_t from = folder_at(t, trail->folder[trail->depth - 1])->path_n;
    from += from > 0; /* and its '/' */
    const char *slash;
    while (rc == LEAT_OK && (slash = memchr(path + from, '/', f->path_n - from))) {
        size_t path_n = (size_t)(slash - path);
        uint32_t parent = trail->folder[trail->depth - 1];
        rc = add_folder(t, parent, i, path_n, path_n - from, err);
        if (rc == LEAT_OK)
            trail->folder[trail->depth++] = (uint32_t)(t->folders_n - 1);
        from = path_n + 1;
    }
    return rc;
}

static struct leat_tree_file show(const struct leat_tree *t, const struct file *f)
{
    return (struct leat_tree_file){
        .path = path_of(t, f), .path_n = f->path_n, .sample = f->sample, .field = f->field, .bytes = f->bytes};
}

/* Leaves out what cannot be beside the file before it: *same, the file itself; else the one before, where this one
 * lies below it. */
static leat_status settle(struct leat_tree *t, uint64_t *kept, const struct file *f, leat_tree_refuse *refuse,
                          void *user, bool *same, struct leat_error *err)
{
    const struct file *before = *kept ? file_at(t, *kept - 1) : NULL;
    *same = false;
    if (!before)
        return LEAT_OK;
    struct leat_tree_file this = show(t, f);
    struct leat_tree_file that = show(t, before);
    *same = this.path_n == that.path_n && memcmp(this.path, that.path, this.path_n) == 0;
    if (*same)
        return refuse(user, LEAT_TREE_SAME, &this, &that, err);
    if (!leat_path_below(that.path, that.path_n, this.path, this.path_n))
        return LEAT_OK;
    folder_at(t, before->folder)->children--;
    (*kept)--;
    return refuse(user, LEAT_TREE_FOLDER, &that, &this, err);
}

/* Finds the folders and counts their children; files that are left out are taken from the table. */
static leat_status find_folders(struct leat_tree *t, leat_tree_refuse *refuse, void *user, struct leat_error *err)
{
    struct trail *trail = calloc(1, sizeof *trail);
    uint64_t kept = 0;
    leat_status rc = trail ? add_folder(t, 0, 0, 0, 0, err) : leat_fail(err, LEAT_NO_MEMORY, "no memory for a catalog");
    if (rc == LEAT_OK)
        trail->depth = 1;
    for (uint64_t i = 0; rc == LEAT_OK && i < t->files_n; i++) {
        struct file f = *file_at(t, i);
        bool same;
        rc = settle(t, &kept, &f, refuse, user, &same, err);
        if (rc != LEAT_OK || same)
            continue;
        *file_at(t, kept) = f; /* before enter(), which looks at the path of a folder's first file */
        rc = enter(t, trail, &f, kept, err);
        if (rc != LEAT_OK)
            continue;
        file_at(t, kept)->folder = trail->folder[trail->depth - 1];
        folder_at(t, file_at(t, kept)->folder)->children++;
        kept++;
    }
    t->files_n = kept;
    free(trail);
    return rc;
}

static void append(struct leat_tree *t, uint32_t parent, uint64_t ino)
{
    struct folder *d = folder_at(t, parent);
    ((uint64_t *)t->children.data)[d->first + d->children++] = ino;
}

static leat_status fill_in(struct leat_tree *t, struct leat_error *err)
{
    void *room = NULL;
    uint64_t all = 0;
    uint64_t next = 1; /* folder */
    leat_status rc = leat_table_add(&t->children, (t->files_n + t->folders_n) * sizeof(uint64_t), &room, err);
    if (rc != LEAT_OK)
        return rc;
    for (uint64_t i = 0; i < t->folders_n; i++) {
        struct folder *d = folder_at(t, i);
        d->first = all;
        all += d->children;
        d->children = 0;
    }
    if (all != t->files_n + t->folders_n - 1) /* all but the root are somebody's children */
        return leat_fail(err, LEAT_INTERNAL, "a catalog of %" PRIu64 " files has %" PRIu64 " entries", t->files_n, all);
    for (uint64_t i = 0; i < t->files_n; i++) {
        for (; next < t->folders_n && folder_at(t, next)->via == i; next++)
            append(t, folder_at(t, next)->parent, LEAT_TREE_ROOT + next);
        append(t, file_at(t, i)->folder, LEAT_TREE_ROOT + t->folders_n + i);
    }
    return LEAT_OK;
}

leat_status leat_tree_build(struct leat_tree *t, leat_tree_refuse *refuse, void *user, struct leat_error *err)
{
    if (t->files_n)
        qsort_r(t->files.data, t->files_n, sizeof(struct file), compare, t);
    leat_status rc = find_folders(t, refuse, user, err);
    return rc == LEAT_OK ? fill_in(t, err) : rc;
}

/* Asking */

uint64_t leat_tree_files(const struct leat_tree *t)
{
    return t->files_n;
}

uint64_t leat_tree_folders(const struct leat_tree *t)
{
    return t->folders_n;
}

bool leat_tree_has(const struct leat_tree *t, uint64_t ino)
{
    return ino >= LEAT_TREE_ROOT && ino - LEAT_TREE_ROOT < t->folders_n + t->files_n;
}

bool leat_tree_is_folder(const struct leat_tree *t, uint64_t ino)
{
    return ino - LEAT_TREE_ROOT < t->folders_n;
}

static const struct folder *folder_of(const struct leat_tree *t, uint64_t ino)
{
    return folder_at(t, ino - LEAT_TREE_ROOT);
}

static const struct file *file_of(const struct leat_tree *t, uint64_t ino)
{
    return file_at(t, ino - LEAT_TREE_ROOT - t->folders_n);
}

struct leat_tree_file leat_tree_file(const struct leat_tree *t, uint64_t ino)
{
    return show(t, file_of(t, ino));
}

uint64_t leat_tree_children(const struct leat_tree *t, uint64_t ino)
{
    return folder_of(t, ino)->children;
}

uint64_t leat_tree_subfolders(const struct leat_tree *t, uint64_t ino)
{
    return folder_of(t, ino)->subfolders;
}

uint64_t leat_tree_child(const struct leat_tree *t, uint64_t ino, uint64_t i)
{
    return ((const uint64_t *)t->children.data)[folder_of(t, ino)->first + i];
}

uint64_t leat_tree_parent(const struct leat_tree *t, uint64_t ino)
{
    return LEAT_TREE_ROOT + (leat_tree_is_folder(t, ino) ? folder_of(t, ino)->parent : file_of(t, ino)->folder);
}

const char *leat_tree_name(const struct leat_tree *t, uint64_t ino, size_t *n)
{
    bool folder = leat_tree_is_folder(t, ino);
    const struct folder *d = folder ? folder_of(t, ino) : NULL;
    const struct file *f = folder ? NULL : file_of(t, ino);
    if (d && d->path_n == 0) {
        *n = 0;
        return "";
    }
    *n = d ? d->name_n : f->name_n;
    return path_of(t, d ? file_at(t, d->via) : f) + (d ? d->path_n : f->path_n) - *n;
}

uint64_t leat_tree_find(const struct leat_tree *t, uint64_t ino, const char *name, size_t n)
{
    uint64_t low = 0;
    uint64_t high = leat_tree_children(t, ino);
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        uint64_t child = leat_tree_child(t, ino, middle);
        size_t other_n;
        const char *other = leat_tree_name(t, child, &other_n);
        int order = leat_path_compare(other, other_n, name, n);
        if (order == 0)
            return child;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}
