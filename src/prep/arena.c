#include "prep/arena.h"

#include <assert.h>
#include <stdlib.h>

#define BLOCK_MIN ((size_t)1 << 20)
/* What a rare giant needed is freed after it; a thread's ordinary samples stay below this. */
#define KEEP_MAX ((size_t)64 << 20)

/* Pieces lie side by side, so that reading past one would be seen by nobody: under AddressSanitizer there is a gap
 * after each that must not be touched, and neither must what has not been taken. */
#if defined(__SANITIZE_ADDRESS__)
#define LEAT_ARENA_GUARDED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LEAT_ARENA_GUARDED 1
#endif
#endif

#ifdef LEAT_ARENA_GUARDED
#include <sanitizer/asan_interface.h>
#define GAP ((size_t)256)
static void forbid(const volatile void *p, size_t n)
{
    __asan_poison_memory_region(p, n);
}
static void allow(const volatile void *p, size_t n)
{
    __asan_unpoison_memory_region(p, n);
}
#else
#define GAP ((size_t)0)
static void forbid(const volatile void *p, size_t n)
{
}
static void allow(const volatile void *p, size_t n)
{
}
#endif

struct leat_arena_block {
    struct leat_arena_block *next;
    size_t size; /* after the header */
    size_t used;
};

static_assert(sizeof(struct leat_arena_block) <= LEAT_ARENA_ALIGN, "the header takes one unit of alignment");

static size_t aligned(size_t n)
{
    return (n + LEAT_ARENA_ALIGN - 1) & ~(size_t)(LEAT_ARENA_ALIGN - 1);
}

void leat_arena_init(struct leat_arena *a, size_t max)
{
    *a = (struct leat_arena){.max = max};
}

static void free_blocks(struct leat_arena *a)
{
    while (a->blocks) {
        struct leat_arena_block *next = a->blocks->next;
        allow(a->blocks, LEAT_ARENA_ALIGN + a->blocks->size);
        free(a->blocks);
        a->blocks = next;
    }
}

void leat_arena_free(struct leat_arena *a)
{
    free_blocks(a);
    a->used = 0;
}

static struct leat_arena_block *add_block(struct leat_arena *a, size_t bytes)
{
    size_t size = bytes < BLOCK_MIN ? BLOCK_MIN : bytes;
    struct leat_arena_block *b = aligned_alloc(LEAT_ARENA_ALIGN, LEAT_ARENA_ALIGN + size);
    if (!b)
        return NULL;
    *b = (struct leat_arena_block){.next = a->blocks, .size = size};
    forbid((char *)b + LEAT_ARENA_ALIGN, size);
    a->blocks = b;
    return b;
}

void *leat_arena_take(struct leat_arena *a, size_t bytes)
{
    if (bytes > a->max || aligned(bytes) > a->max - a->used) {
        a->full = true;
        return NULL;
    }
    size_t taken = aligned(bytes) + GAP;
    struct leat_arena_block *b = a->blocks;
    if (!b || b->size - b->used < taken) {
        b = add_block(a, taken);
        if (!b)
            return NULL;
    }
    void *p = (char *)b + LEAT_ARENA_ALIGN + b->used;
    allow(p, bytes);
    b->used += taken;
    a->used += aligned(bytes);
    return p;
}

void leat_arena_reset(struct leat_arena *a)
{
    size_t used = 0;
    for (const struct leat_arena_block *b = a->blocks; b; b = b->next)
        used += b->used;
    a->used = 0;
    a->full = false;
    if (!a->blocks)
        return;
    if (!a->blocks->next && a->blocks->size <= KEEP_MAX) {
        forbid((char *)a->blocks + LEAT_ARENA_ALIGN, used);
        a->blocks->used = 0;
        return;
    }
    free_blocks(a);
    if (used <= KEEP_MAX)
        add_block(a, aligned(used + used / 4)); /* without memory: later */
}

leat_status leat_arena_fail(const struct leat_arena *a, struct leat_error *err)
{
    if (a->full)
        return leat_fail(err, LEAT_LIMIT, "the picture needs more than the limit of %zu bytes of memory", a->max);
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for a picture");
}
