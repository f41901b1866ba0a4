/* The catalog of a mount: paths of files as a tree of folders. Files are added in any order, then the tree is built
 * once; after that nothing changes, and any thread may ask.
 *
 * Numbers of files and folders (inode numbers) follow from the sorted paths alone: the same files have the same numbers
 * in every mount. The root is 1, other folders follow, then the files. */
#ifndef LEAT_MOUNT_TREE_H
#define LEAT_MOUNT_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define LEAT_TREE_ROOT 1u

struct leat_tree;

struct leat_tree_file {
    const char *path; /* the tree's memory; not NUL-terminated */
    size_t path_n;
    uint64_t sample;
    uint32_t field;
    uint32_t bytes;
};

/* Why a file is not in the tree. */
enum leat_tree_why {
    LEAT_TREE_SAME,   /* another has the same path, that of a smaller sample number */
    LEAT_TREE_FOLDER, /* others lie below it, so that it is a folder */
};
typedef leat_status leat_tree_refuse(void *user, enum leat_tree_why why, const struct leat_tree_file *file,
                                     const struct leat_tree_file *other, struct leat_error *err);

leat_status leat_tree_open(struct leat_tree **out, struct leat_error *err);
void leat_tree_close(struct leat_tree *t); /* NULL is allowed */

/* The path is one that leat_path_good() allows, plus an ending of at most 64 bytes. Copied. */
leat_status leat_tree_add(struct leat_tree *t, const struct leat_tree_file *file, struct leat_error *err);

/* Once. `refuse` is called for each file that cannot be in it; what it returns ends the building, unless LEAT_OK. */
leat_status leat_tree_build(struct leat_tree *t, leat_tree_refuse *refuse, void *user, struct leat_error *err);

uint64_t leat_tree_files(const struct leat_tree *t);
uint64_t leat_tree_folders(const struct leat_tree *t); /* the root is one */

bool leat_tree_is_folder(const struct leat_tree *t, uint64_t ino); /* of a number that is there */
bool leat_tree_has(const struct leat_tree *t, uint64_t ino);

/* The file with the number, which is one's. */
struct leat_tree_file leat_tree_file(const struct leat_tree *t, uint64_t ino);

/* Of a folder: how many children it has, the i-th by name, and the one with a name (0: none has it). */
uint64_t leat_tree_children(const struct leat_tree *t, uint64_t ino);
uint64_t leat_tree_child(const struct leat_tree *t, uint64_t ino, uint64_t i);
uint64_t leat_tree_find(const struct leat_tree *t, uint64_t ino, const char *name, size_t n);

uint64_t leat_tree_parent(const struct leat_tree *t, uint64_t ino); /* the root's is the root */
const char *leat_tree_name(const struct leat_tree *t, uint64_t ino,
                           size_t *n);                                  /* not NUL-terminated; the root has none */
uint64_t leat_tree_subfolders(const struct leat_tree *t, uint64_t ino); /* of a folder, the next level only */

#endif
