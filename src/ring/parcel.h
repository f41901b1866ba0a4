/* What a packet does not hold: it goes in a descriptor of its own, behind a packet that says so (LEAT_MESSAGE_LONG).
 * The machines of a large job are named in such messages. */
#ifndef LEAT_RING_PARCEL_H
#define LEAT_RING_PARCEL_H

#include "ring/message.h"
#include "ring/wire.h"

#define LEAT_PARCEL_MAX (1u << 20) /* bytes of a message */

/* As leat_wire_send(), for messages of any size up to that. One with descriptors has to fit into a packet. */
leat_status leat_parcel_send(int fd, const char *text, size_t n, const int *fds, size_t fds_n, struct leat_error *err);

/* As leat_message_open(), for a packet that came. Where it only says that the message is in its descriptor, that is
 * read, closed and taken off the list: *parcel has it then, parcel->data is the caller's to free(), and `out` points
 * into it. LEAT_INVALID: there is none in it. Does not wait. */
struct leat_parcel {
    char *data; /* NULL: the packet was all */
    size_t n;
};
leat_status leat_parcel_open(const char *packet, size_t n, int *fds, size_t *fds_n, struct leat_parcel *parcel,
                             enum leat_message_kind *kind, struct leat_part *out, struct leat_error *err);

/* A descriptor with these bytes, which nobody can change the size of; -1: no memory. */
int leat_parcel_file(const void *data, size_t n);

#endif
