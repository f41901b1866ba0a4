/* The little protocol beside the ring: messages (ring/message.h) with descriptors over a UNIX socket, one packet for
 * each. And where that socket is. */
#ifndef LEAT_RING_WIRE_H
#define LEAT_RING_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* What both sides of a socket must have in common: it stands in the socket's name, so that releases with the same
 * protocol share an agent and others never meet. Raised by changes that an older side would misread; never by a new
 * field. */
#ifndef LEAT_WIRE_PROTOCOL
#define LEAT_WIRE_PROTOCOL 2
#endif
#define LEAT_WIRE_MAX (64u << 10) /* bytes of a packet; for longer messages see ring/parcel.h */
#define LEAT_WIRE_FDS 4u

/* Sends one message with up to LEAT_WIRE_FDS descriptors, which stay the caller's. LEAT_BUSY when the other side
 * does not read (the socket is never waited for). LEAT_NETWORK when it is gone. */
leat_status leat_wire_send(int fd, const char *text, size_t n, const int *fds, size_t fds_n, struct leat_error *err);

/* Takes one message if there is one: LEAT_BUSY when there is none, LEAT_NETWORK when the other side is gone. The
 * text gets a NUL after it. Descriptors become the caller's. */
leat_status leat_wire_receive(int fd, char text[LEAT_WIRE_MAX + 1], size_t *n, int fds[LEAT_WIRE_FDS], size_t *fds_n,
                              struct leat_error *err);

/* The agent's files, in a folder that is this user's and that nobody else can write to: $LEAT_RUNTIME_DIR, else
 * $XDG_RUNTIME_DIR/leat, else /tmp/leat-UID, else /dev/shm/leat-UID. One that is missing is made, with mode 0700. */
#define LEAT_WIRE_PATH  104 /* a UNIX socket's name holds 107 bytes */
#define LEAT_WIRE_SCOPE 200

struct leat_wire_paths {
    char folder[LEAT_WIRE_PATH];
    char socket[LEAT_WIRE_PATH]; /* "FOLDER/pPROTOCOL-SCOPE.sock" and so on */
    char lock[LEAT_WIRE_PATH];
    char log[LEAT_WIRE_PATH];
    char scope[LEAT_WIRE_SCOPE];
};

/* Makes the folder when it is missing and checks whose it is. `scope` NULL: LEAT_SCOPE, "slurm-JOB", "default". */
leat_status leat_wire_find(const char *scope, struct leat_wire_paths *out, struct leat_error *err);

/* The files that belong to a socket of this name, for an agent that was told it. */
leat_status leat_wire_at(const char *socket, const char *scope, struct leat_wire_paths *out, struct leat_error *err);

/* A connected socket, non-blocking, close-on-exec. LEAT_NOT_FOUND when no agent listens, LEAT_BUSY when too many
 * others are waiting to be let in. */
leat_status leat_wire_connect(const struct leat_wire_paths *paths, int *fd, struct leat_error *err);

/* A listening one; a stale socket of the same name is replaced, so hold the lock. */
leat_status leat_wire_listen(const struct leat_wire_paths *paths, int *fd, struct leat_error *err);

#endif
