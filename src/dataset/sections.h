/* Reads the sections of an open dataset's snapshot. Blocks come by range, in runs of about a megabyte, and every one is
 * verified; a run that arrives damaged is fetched once more. A few runs are kept.
 *
 * Any thread may call. Threads that want different runs fetch them side by side; of those that want the same run one
 * fetches it and the others wait. */
#ifndef LEAT_DATASET_SECTIONS_H
#define LEAT_DATASET_SECTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/home.h"
#include "dataset/root.h"

struct leat_sections;

/* `home` and `root` stay until it is closed. */
leat_status leat_sections_open(const struct leat_home *home, const struct leat_root *root, struct leat_sections **out,
                               struct leat_error *err);
void leat_sections_close(struct leat_sections *s); /* nobody reads any more; NULL is allowed */

/* Copies n bytes from byte `at` on, which the caller has checked to be there. */
leat_status leat_sections_read(struct leat_sections *s, const struct leat_section *section, uint64_t at, void *into,
                               size_t n, struct leat_error *err);

/* Every block of a section, from the store, against its digest. */
leat_status leat_sections_check(const struct leat_sections *s, const struct leat_section *section,
                                struct leat_error *err);

#endif
