#include "cache/memory.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAPPED_LEAST (1u << 20)
#define CLASSES      16u /* in each doubling: chunks of a dataset differ by a sample or two */

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

static uint64_t capacity_of(uint64_t bytes)
{
    uint64_t doubling = MAPPED_LEAST;
    while (doubling <= bytes / 2)
        doubling *= 2;
    return round_up(bytes, doubling / CLASSES);
}

void leat_cache_memory_free(struct leat_cache_memory *m)
{
    if (m->capacity)
        munmap(m->data, (size_t)m->capacity);
    else
        free(m->data);
    *m = (struct leat_cache_memory){0};
}

struct giving {
    struct leat_task task; /* first member */
    struct leat_cache_memory memory;
};

static void give(struct leat_task *task)
{
    struct leat_cache_memory m = ((struct giving *)task)->memory; /* it goes with the task */
    leat_cache_memory_free(&m);
}

struct leat_task *leat_cache_memory_give(struct leat_cache_memory *m)
{
    struct giving *g = m->data;
    if (!m->capacity) {
        leat_cache_memory_free(m);
        return NULL;
    }
    *g = (struct giving){.task.run = give, .memory = *m};
    *m = (struct leat_cache_memory){0};
    return &g->task;
}

bool leat_cache_memory_fits(const struct leat_cache_memory *m, uint64_t bytes)
{
    return bytes >= MAPPED_LEAST && m->capacity == capacity_of(bytes);
}

struct leat_cache_memory leat_cache_memory_get(uint64_t bytes, struct leat_cache_memory *spare)
{
    struct leat_cache_memory m = {0};
    if (bytes >= MAPPED_LEAST)
        m.capacity = capacity_of(bytes);
    if (leat_cache_memory_fits(spare, bytes)) {
        /* What its predecessor had beyond our end is nobody's now. */
        uint64_t end = round_up(bytes, (uint64_t)sysconf(_SC_PAGESIZE));
        m.data = spare->data;
        *spare = (struct leat_cache_memory){0};
        if (end < m.capacity)
            madvise((char *)m.data + end, (size_t)(m.capacity - end), MADV_DONTNEED);
        return m;
    }
    leat_cache_memory_free(spare);
    if (m.capacity) {
        m.data = mmap(NULL, (size_t)m.capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (m.data == MAP_FAILED)
            m = (struct leat_cache_memory){0};
    } else {
        m.data = malloc((size_t)bytes);
    }
    return m;
}
