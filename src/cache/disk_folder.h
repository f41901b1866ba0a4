/* The folder of a disk cache: where it is, whose it is, and on what it lies. */
#ifndef LEAT_CACHE_DISK_FOLDER_H
#define LEAT_CACHE_DISK_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define LEAT_DISK_PATH 4096

/* LEAT_CACHE_DIR, else $XDG_CACHE_HOME/leat, else ~/.cache/leat. Makes nothing. */
leat_status leat_disk_default_dir(char out[LEAT_DISK_PATH], struct leat_error *err);

/* Opens it; with `make` it and its parents are made (0700) where they are not. LEAT_DENIED when it is not this user's,
 * when others can reach it, or when somebody else's symbolic link leads to it. */
leat_status leat_disk_folder_open(const char *dir, bool make, int *fd, struct leat_error *err);

struct leat_disk_folder_space {
    uint64_t total;   /* bytes of the file system */
    uint64_t free;    /* what this user may still write */
    uint64_t reserve; /* what a cache leaves free for others: a twentieth of the file system, at most 1 GiB */
};
leat_status leat_disk_folder_space(int fd, struct leat_disk_folder_space *out, struct leat_error *err);

/* What a person should know about the file system, as the end of a sentence about the folder; NULL: nothing. */
const char *leat_disk_folder_caveat(int fd);

#endif
