/* A selection of samples: format 1, section kind 5 (docs/format.md). Bytes in memory; no I/O.
 *
 * A dataset that is a selection shares the chunks and tables of the one it was made of, and counts only some of their
 * samples. Memory: an eighth of a byte per sample, some more for looking up, and 12 bytes per chunk. */
#ifndef LEAT_DATASET_SELECTION_H
#define LEAT_DATASET_SELECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "dataset/names.h"
#include "dataset/root.h"

struct leat_selection;

/* Takes over `data`, which malloc gave, also when it fails; the root must stay. Every number is checked against the n
 * bytes there are and the root. */
leat_status leat_selection_read(void *data, size_t n, const struct leat_root *root, struct leat_selection **out,
                                struct leat_error *err);
void leat_selection_free(struct leat_selection *s); /* NULL is allowed */

/* The most bytes that the section of a root's selection can have. */
uint64_t leat_selection_most(const struct leat_root *root);

const uint32_t *leat_selection_counts(const struct leat_selection *s); /* samples that count, in each chunk */

/* Where the i-th (< counts[chunk]) sample of a chunk that counts lies in the chunk. */
uint32_t leat_selection_index(const struct leat_selection *s, uint32_t chunk, uint32_t i);

/* Whether the sample at `index` of a chunk counts; *i is then its number among those that do. */
bool leat_selection_rank(const struct leat_selection *s, uint32_t chunk, uint32_t index, uint32_t *i);

/* Making one: begins with no sample. Threads may work on different chunks at the same time. */
struct leat_selection_builder;

leat_status leat_selection_builder_open(const struct leat_root *root, struct leat_selection_builder **out,
                                        struct leat_error *err);     /* the root must stay */
void leat_selection_builder_close(struct leat_selection_builder *b); /* NULL is allowed */
void leat_selection_set(struct leat_selection_builder *b, uint32_t chunk, uint32_t index, bool counts);
bool leat_selection_has(const struct leat_selection_builder *b, uint32_t chunk, uint32_t index);
uint32_t leat_selection_in_chunk(const struct leat_selection_builder *b, uint32_t chunk);
uint64_t leat_selection_total(const struct leat_selection_builder *b);

/* The finished selection: the bytes of its section, and of a root over the same chunks as the builder's root. What was
 * a selection before is one of the same chunks afterwards. LEAT_INVALID when it has no samples. */
struct leat_selection_files {
    struct leat_buf section;
    uint8_t section_name[LEAT_SHA256_SIZE];
    struct leat_buf root;
    struct leat_pointer pointer;
};
leat_status leat_selection_write(const struct leat_selection_builder *b, struct leat_selection_files *out,
                                 struct leat_error *err);       /* freed by the caller, also after a failure */
void leat_selection_files_free(struct leat_selection_files *f); /* zeroed ones are allowed */

#endif
