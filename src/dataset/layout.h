/* Numbers of format 1 that its writers and readers share: docs/format.md. */
#ifndef LEAT_DATASET_LAYOUT_H
#define LEAT_DATASET_LAYOUT_H

#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"

#define CHUNK_MAGIC       "leat-chk"
#define CHUNK_BODY_SUM_AT 72 /* u64: XXH3 of everything after the head; 0 in one that is made of a recipe */
#define CHUNK_LEAD_AT     80 /* u32: in one that is made of a recipe, where the data of the pieces begin */
#define CHUNK_MADE        1u /* a must-understand bit: made of a recipe, in memory; never an object */

#define RECIPE_MAGIC "leat-rcp"
#define RECIPE_HEAD  72u
#define RECIPE_PIECE 32u /* bytes of a piece's entry */

#define SOURCE_HEAD 16u /* bytes of a source's record before its URL */

#define ROOT_MAGIC        "leat-snp"
#define ROOT_HEAD         192u
#define ROOT_SECTION_HEAD 64u
#define ROOT_PACKING_HEAD 32u
#define ROOT_ID_AT        64  /* the content id */
#define ROOT_DIGEST       16u /* bytes of SHA-256 kept of each block */

#define ROOT_SELECTED_AT 120 /* u64: samples of the selection */
#define ROOT_SELECTION   1u  /* a must-understand bit of the root: only some samples count */

#define SCHEMA_HEAD       8u
#define SCHEMA_FIELD_HEAD 32u

#define CONTENT_MAGIC "leat-cid" /* what the content id's digest begins with */

/* Must-understand bits that this Leat understands. */
#define CHUNK_NEEDS  CHUNK_MADE
#define ROOT_NEEDS   ROOT_SELECTION
#define SCHEMA_NEEDS 0u
#define RECIPE_NEEDS 0u
#define SOURCE_NEEDS 0u

static inline uint64_t layout_padded(uint64_t n)
{
    return (n + 7) / 8 * 8;
}

/* What roots, chunks and recipes begin with: magic, format, bytes of the head, bytes of the object, must-understand
 * bits, bits that may be ignored. */
struct layout_head {
    uint32_t bytes; /* of the head: at least head_min, a multiple of 8, within the object */
    uint64_t needs; /* not compared with anything yet */
    uint64_t flags;
};

#define LAYOUT_HEAD     40u /* bytes that layout_read_head takes */
#define LAYOUT_NEEDS_AT 24  /* u64 */

/* `what` is the object in messages. LEAT_VERSION for another format than this Leat's. */
leat_status layout_read_head(struct leat_reader *r, const char *magic, const char *what, uint32_t head_min,
                             struct layout_head *out, struct leat_error *err);
void layout_write_head(struct leat_writer *w, const char *magic, uint32_t head, uint64_t size);

/* LEAT_VERSION, naming object and bit, when there is a bit that is not known. */
leat_status layout_check_needs(uint64_t needs, uint64_t known, const char *what, struct leat_error *err);

void layout_add_u32(struct leat_buf *b, uint32_t v);
void layout_add_u64(struct leat_buf *b, uint64_t v);

#endif
