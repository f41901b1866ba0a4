/* An array that grows, in a file without a name that is mapped: the kernel may write it out and take its memory for
 * something else, so that a catalog of a hundred million keys costs disk and not memory. It lies in TMPDIR, else
 * /var/tmp, and nothing is left of it whatever happens. Room is taken on the disk before it is used: a full disk is an
 * error here and not a signal later. Not thread-safe while it grows. */
#ifndef LEAT_MOUNT_TABLE_H
#define LEAT_MOUNT_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct leat_table {
    void *data;    /* moves when it grows */
    uint64_t used; /* bytes */
    uint64_t room;
    int fd; /* of a zeroed table: none yet, as long as room is 0 */
};

/* Room for n bytes more at the end; *out is where. Zeroed tables are empty ones. */
leat_status leat_table_add(struct leat_table *t, uint64_t n, void **out, struct leat_error *err);
void leat_table_close(struct leat_table *t); /* zeroed ones are allowed */

#endif
