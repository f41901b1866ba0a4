/* Conditions on a sample, as people write them: cls == 3 and width >= 256. docs/versions.md has the language.
 * Parsed once; then a pure function of a sample's row, key and, where it must, bytes. */
#ifndef LEAT_DATASET_WHERE_H
#define LEAT_DATASET_WHERE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/schema.h"
#include "dataset/slice.h"

struct leat_where;

/* LEAT_INVALID, with the column, for what is not a condition on these fields. Copies what it needs of both. */
leat_status leat_where_parse(const char *text, const struct leat_schema *schema, struct leat_where **out,
                             struct leat_error *err);
void leat_where_free(struct leat_where *w); /* NULL is allowed */

bool leat_where_reads_keys(const struct leat_where *w);
bool leat_where_reads_chunks(const struct leat_where *w); /* perhaps: only where the rest leaves it open */

/* Sample i of the slice, which has rows and, where they are read, keys. Any thread. */
leat_status leat_where_match(struct leat_where *w, struct leat_slice *s, uint32_t i, bool *out, struct leat_error *err);

/* Whether matching asked for widths of pictures and none was known, as in an index of objects that nobody has read. */
bool leat_where_lacks_sizes(const struct leat_where *w);

#endif
