/* Numbers of format 1 that its writers and readers share: docs/format.md. */
#ifndef LEAT_DATASET_LAYOUT_H
#define LEAT_DATASET_LAYOUT_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"

#define CHUNK_MAGIC       "leat-chk"
#define CHUNK_BODY_SUM_AT 72 /* u64: XXH3 of everything after the head */

#define ROOT_MAGIC        "leat-snp"
#define ROOT_HEAD         192u
#define ROOT_SECTION_HEAD 64u
#define ROOT_PACKING_HEAD 32u
#define ROOT_ID_AT        64  /* the content id */
#define ROOT_DIGEST       16u /* bytes of SHA-256 kept of each block */

#define SCHEMA_HEAD       8u
#define SCHEMA_FIELD_HEAD 32u

#define CONTENT_MAGIC "leat-cid" /* what the content id's digest begins with */

/* Must-understand bits that this Leat understands. */
#define CHUNK_NEEDS  0u
#define ROOT_NEEDS   0u
#define SCHEMA_NEEDS 0u

static inline uint64_t layout_padded(uint64_t n)
{
    return (n + 7) / 8 * 8;
}

/* What roots and chunks begin with: magic, format, bytes of the head, bytes of the object, must-understand bits,
 * bits that may be ignored. */
struct layout_head {
    uint32_t bytes; /* of the head: at least head_min, a multiple of 8, within the object */
    uint64_t needs; /* not compared with anything yet */
    uint64_t flags;
};

#define LAYOUT_HEAD 40u /* bytes that layout_read_head takes */

/* `what` is the object in messages. LEAT_VERSION for another format than this Leat's. */
leat_status layout_read_head(struct leat_reader *r, const char *magic, const char *what, uint32_t head_min,
                             struct layout_head *out, struct leat_error *err);
void layout_write_head(struct leat_writer *w, const char *magic, uint32_t head, uint64_t size);

/* LEAT_VERSION, naming object and bit, when there is a bit that is not known. */
leat_status layout_check_needs(uint64_t needs, uint64_t known, const char *what, struct leat_error *err);

#endif
