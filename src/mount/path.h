/* Keys as paths: which can be one, and how paths are sorted. Keys are bytes of any kind. Pure. */
#ifndef LEAT_MOUNT_PATH_H
#define LEAT_MOUNT_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "dataset/schema.h"

#define LEAT_PATH_MAX      4000u /* bytes of a key that can be a path; the folder above it needs some too */
#define LEAT_PATH_NAME_MAX 255u
#define LEAT_PATH_NPY      ".npy"

/* False for a key that would lead out of its folder, or that no file can have: "..", ".", empty parts, a NUL, and names
 * or paths that are too long. */
bool leat_path_good(const char *key, size_t n);

/* Where several fields of a sample hold bytes, each is a file. `path` holds the key and gets ".FIELD", and ".npy" for
 * numbers, whose types and shapes would be lost otherwise. A key that has an ending is the path of a file already: that
 * of the first of the fields, and it stays as it is. True when the file is a .npy. */
bool leat_path_add_field(struct leat_buf *path, const struct leat_field *f, bool first);

/* By the bytes, with '/' before all others: what lies below a folder follows where a file of the folder's name would
 * be, without anything in between, and names within a folder are sorted by their bytes. */
int leat_path_compare(const char *a, size_t an, const char *b, size_t bn);

/* Whether `path` lies in the folder `folder`, however deep. */
bool leat_path_below(const char *folder, size_t folder_n, const char *path, size_t n);

#endif
