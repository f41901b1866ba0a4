/* Numbers of format 1 that its writers and readers share: docs/format.md. */
#ifndef LEAT_DATASET_LAYOUT_H
#define LEAT_DATASET_LAYOUT_H

#include <stdint.h>

#define CHUNK_MAGIC       "leat-chk"
#define CHUNK_BODY_SUM_AT 48 /* u64: XXH3 of everything behind the head */
#define CHUNK_TOTAL_AT    56 /* u32: chunks of the packing, 0 when that was not known yet */
#define CHUNK_HEAD_SUM_AT 60 /* u32: CRC32C of the head before it */

#define ROOT_MAGIC        "leat-snp"
#define ROOT_HEAD         80u
#define ROOT_SECTION_HEAD 48u
#define ROOT_DIGEST       16u /* bytes of SHA-256 kept of each block */

static inline uint64_t layout_padded(uint64_t n)
{
    return (n + 7) / 8 * 8;
}

#endif
