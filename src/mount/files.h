/* A dataset as files: each sample is a file whose path is its key, with the bytes of one field; or, where there are
 * several, a file for each field that has bytes (leat_path_add_field()). The catalog is made at the opening, from the
 * snapshot's rows and keys; chunks come when a file of theirs is read, whole and verified, and are kept within a
 * budget, in memory and on disk.
 *
 * Thread-safe after the opening. */
#ifndef LEAT_MOUNT_FILES_H
#define LEAT_MOUNT_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/dataset.h"
#include "mount/hold.h"
#include "mount/tree.h"

struct leat_files;

struct leat_files_opts {
    struct leat_dataset *dataset; /* borrowed */
    uint32_t field;               /* one with bytes; the first of several */
    bool several;                 /* every field that has bytes is a file */
    uint64_t memory;              /* bytes of chunks that are kept */
    unsigned ahead;               /* chunks that are loaded ahead of one that is read in their order; 0: none */
    const char *cache_dir;        /* chunks are kept here too; NULL: in memory only */
    uint64_t cache;               /* bytes of it; 0: as leat_disk_opts has it */

    /* Asked now and then while the catalog is made: true ends it. May be NULL. */
    bool (*stop)(void *user);
    /* A sample that cannot be shown, in a sentence. */
    void (*left_out)(void *user, const char *why);
    /* A chunk could not be loaded: what readers of its files get EIO for, in a sentence. From any thread. */
    void (*failed)(void *user, const char *why);
    void *user;
};

leat_status leat_files_open(const struct leat_files_opts *opts, struct leat_files **out, struct leat_error *err);
void leat_files_close(struct leat_files *f); /* NULL is allowed */

const struct leat_tree *leat_files_tree(const struct leat_files *f);
uint64_t leat_files_left_out(const struct leat_files *f);
uint64_t leat_files_bytes(const struct leat_files *f); /* of all files */
int64_t leat_files_time(const struct leat_files *f);   /* when the version was made, in seconds since 1970 */

/* Bytes of a file, in memory that stays until it is given back. */
struct leat_files_part {
    const void *data;
    size_t n;               /* fewer than asked for at the file's end */
    struct leat_held *held; /* NULL: nothing to give back */
};

/* ino: of a file. */
leat_status leat_files_read(struct leat_files *f, uint64_t ino, uint64_t at, size_t n, struct leat_files_part *out,
                            struct leat_error *err);
void leat_files_give(struct leat_files *f, struct leat_files_part *part);

void leat_files_stats(struct leat_files *f, struct leat_hold_stats *out);

#endif
