/* The settings of a loader as one table: the public struct, the names people use, the wire and the checks share it. A
 * new setting is a field of struct leat_loader_opts and a row here. */
#ifndef LEAT_RING_SETTINGS_H
#define LEAT_RING_SETTINGS_H

#include "base/buf.h"
#include "base/error.h"
#include "leat/loader.h"
#include "ring/message.h"

#define LEAT_SLOTS_DEFAULT   4u
#define LEAT_LOADER_NAME_MAX 60              /* bytes of a loader's name */
#define LEAT_TIMEOUT_DEFAULT 600000000000ull /* ns */

/* Appends what is wrong with single values, and with values beside each other, to a list for people. */
void leat_settings_check(const struct leat_loader_opts *o, struct leat_buf *b);

/* Every setting that is not at its default, as fields of a message; and back into a zeroed struct. Texts point into the
 * message. Values that the table does not allow are refused. */
void leat_settings_write(const struct leat_loader_opts *o, struct leat_buf *b);
leat_status leat_settings_read_message(struct leat_part p, struct leat_loader_opts *out, struct leat_error *err);

#endif
