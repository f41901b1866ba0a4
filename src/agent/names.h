/* The names by which ranks find an agent: its lock, its socket and its log, in a folder that cleaners of temporary
 * files may come through. The lock is the right to the other names. As long as an agent has it, it makes again what was
 * removed; when the lock's own file was removed, the one that locks a new one first has the names from then on.
 *
 * On one thread at a time. */
#ifndef LEAT_AGENT_NAMES_H
#define LEAT_AGENT_NAMES_H

#include <sys/stat.h>

#include "base/error.h"
#include "ring/wire.h"

struct leat_names {
    struct leat_wire_paths paths;
    int lock_fd;        /* -1: not locked */
    struct stat socket; /* of the one we listen at */
};

/* Takes the lock. LEAT_BUSY: another agent has it. lock_fd must be -1 before the first call. */
leat_status leat_names_lock(struct leat_names *n, struct leat_error *err);

/* Makes the socket; *fd listens. Holding the lock. */
leat_status leat_names_listen(struct leat_names *n, int *fd, struct leat_error *err);

/* Whether the names are still there and ours. LEAT_OK: they are; *fd is -1. LEAT_NOT_FOUND: some were gone and have
 * been made again, and *fd listens instead of the socket before it. LEAT_BUSY: they are another agent's now. Others: it
 * should be tried again. */
leat_status leat_names_keep(struct leat_names *n, int *fd, struct leat_error *err);

/* Removes the socket, then the lock with a log that is empty, unless they are another agent's. */
void leat_names_hide(struct leat_names *n);
void leat_names_drop(struct leat_names *n);

#endif
