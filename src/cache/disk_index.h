/* Where the chunks on disk are: a chunk's name to its segment and slot there. */
#ifndef LEAT_CACHE_DISK_INDEX_H
#define LEAT_CACHE_DISK_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct leat_segment;

struct leat_disk_place {
    struct leat_segment *segment; /* NULL: nowhere */
    uint32_t slot;
};

struct leat_disk_index {
    struct leat_disk_place *places; /* 2^bits of them, at most three quarters used */
    unsigned bits;
    size_t count;
};

/* Room for n more; false without memory. After that, n calls of leat_disk_index_add() cannot fail. */
bool leat_disk_index_reserve(struct leat_disk_index *x, size_t more);
void leat_disk_index_free(struct leat_disk_index *x); /* zeroed ones are allowed */

struct leat_disk_place leat_disk_index_find(const struct leat_disk_index *x, const uint8_t name[32]);

/* The slot's name is the key; it must not be there yet, and stays as it is until it is removed. */
void leat_disk_index_add(struct leat_disk_index *x, struct leat_disk_place place);
void leat_disk_index_remove(struct leat_disk_index *x, const uint8_t name[32]); /* one that is there */

#endif
