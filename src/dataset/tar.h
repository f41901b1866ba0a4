/* Tar archives, read from front to back: ustar, pax, GNU and the old form without a magic, told apart header by header.
 * Bytes in memory to members; no I/O.
 *
 * Names may come from headers of their own (pax "path", GNU long names), sizes may be octal, base-256 or pax "size";
 * what a global pax header says holds until the next one. Every header's checksum is checked. Hard links, devices and
 * folders are members too: the one that reads decides what to do with them. Sparse and multi-volume members are refused
 * with LEAT_UNSUPPORTED: their bytes do not lie in the archive one after the other. */
#ifndef LEAT_DATASET_TAR_H
#define LEAT_DATASET_TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define LEAT_TAR_BLOCK     512u
#define LEAT_TAR_NAME_MAX  (64u << 10) /* bytes of a name */
#define LEAT_TAR_EXTRA_MAX (1u << 20)  /* bytes of one header that says more: pax records, a long name */

struct leat_tar;

enum leat_tar_kind {
    LEAT_TAR_FILE,
    LEAT_TAR_LINK,  /* hard or symbolic: has no bytes */
    LEAT_TAR_FOLDER /* or a device, a pipe, a label: nothing that samples are made of */
};

struct leat_tar_member {
    enum leat_tar_kind kind;
    const char *name; /* NUL-terminated, and without a NUL inside; valid until the next event */
    size_t name_n;
    uint64_t header; /* where its first header begins in the archive … */
    uint64_t offset; /* … and where its bytes do */
    uint64_t size;
};

enum leat_tar_event {
    LEAT_TAR_MORE,   /* what was given has been used up */
    LEAT_TAR_MEMBER, /* its bytes follow: leat_tar_member() */
    LEAT_TAR_DATA    /* what was used are the next bytes of the member */
};

leat_status leat_tar_open(struct leat_tar **out, struct leat_error *err);
void leat_tar_close(struct leat_tar *t); /* NULL is allowed */

/* Takes the next bytes of the archive, up to the next event; *used of the n are done with then. After an error it can
 * only be closed. LEAT_CORRUPT says the byte; for what is no tar archive at all LEAT_INVALID, with advice where it is
 * compressed. */
leat_status leat_tar_feed(struct leat_tar *t, const void *data, size_t n, size_t *used, enum leat_tar_event *event,
                          struct leat_error *err);

/* The archive ends here. LEAT_CORRUPT, with the byte and the member, when it should go on. */
leat_status leat_tar_finish(const struct leat_tar *t, struct leat_error *err);

const struct leat_tar_member *leat_tar_member(const struct leat_tar *t); /* after LEAT_TAR_MEMBER */
uint64_t leat_tar_left(const struct leat_tar *t);                        /* bytes of the member still to come */
bool leat_tar_ended(const struct leat_tar *t);                           /* the end mark has been seen */

/* Whether a member with this name is part of a sample, by WebDataset's rules: the last part of its path has a dot with
 * something before and after it, and the first part is not "__…__". ending.h splits it into key and field. */
bool leat_tar_is_part(const char *name);

#endif
