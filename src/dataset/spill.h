/* Bytes that are written from front to back and read again later: in memory while they are few, then in a file that has
 * no name, so that nothing is left of it whatever happens. It lies in TMPDIR, else /var/tmp (/tmp is memory itself on
 * many systems). Not thread-safe. */
#ifndef LEAT_DATASET_SPILL_H
#define LEAT_DATASET_SPILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct leat_spill;

/* memory: bytes that are kept before a file is made. */
leat_status leat_spill_open(size_t memory, struct leat_spill **out, struct leat_error *err);
void leat_spill_close(struct leat_spill *s); /* NULL is allowed */

/* Appends; *at (may be NULL) is where. LEAT_NO_SPACE, with the folder, when the disk is full. */
leat_status leat_spill_add(struct leat_spill *s, const void *data, size_t n, uint64_t *at, struct leat_error *err);
leat_status leat_spill_read(const struct leat_spill *s, uint64_t at, void *into, size_t n, struct leat_error *err);

uint64_t leat_spill_size(const struct leat_spill *s);
bool leat_spill_on_disk(const struct leat_spill *s);

#endif
