/* Copying large blocks that nobody reads soon. */
#ifndef LEAT_BASE_COPY_H
#define LEAT_BASE_COPY_H

#include <stddef.h>

/* memcpy() whose stores go past the caches where the processor can do that: the destination's old content is not
 * fetched first, and what other threads have in the caches stays there. For blocks larger than a cache; a reader
 * that follows at once finds nothing in the cache. */
void leat_copy_past_caches(void *to, const void *from, size_t n);

#endif
