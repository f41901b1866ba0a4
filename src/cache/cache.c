#include "cache/cache.h"

#include <stdlib.h>

struct leat_cache {
    uint64_t budget;
    uint64_t used;
    uint64_t pinned;
    struct leat_cache_entry *entries; /* of all sets */
    struct leat_cache_stats stats;
};

struct leat_cache_set {
    struct leat_cache *cache;
    leat_cache_next_use *next_use;
    void (*forget)(void *user, struct leat_cache_entry *entry);
    void *user;
    uint32_t chunks;
    struct leat_cache_entry **by_chunk;
};

leat_status leat_cache_open(uint64_t budget, struct leat_cache **out, struct leat_error *err)
{
    struct leat_cache *c = calloc(1, sizeof *c);
    if (!c)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a cache");
    c->budget = budget;
    *out = c;
    return LEAT_OK;
}

void leat_cache_close(struct leat_cache *c)
{
    free(c);
}

uint64_t leat_cache_budget(const struct leat_cache *c)
{
    return c->budget;
}

uint64_t leat_cache_used(const struct leat_cache *c)
{
    return c->used;
}

uint64_t leat_cache_pinned(const struct leat_cache *c)
{
    return c->pinned;
}

leat_status leat_cache_set_open(struct leat_cache *cache, uint32_t chunks, leat_cache_next_use *next_use,
                                void (*forget)(void *user, struct leat_cache_entry *entry), void *user,
                                struct leat_cache_set **out, struct leat_error *err)
{
    struct leat_cache_set *s = calloc(1, sizeof *s);
    if (s)
        s->by_chunk = calloc((size_t)chunks + 1, sizeof(struct leat_cache_entry *));
    if (!s || !s->by_chunk) {
        free(s);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a cache of %u chunks", chunks);
    }
    s->cache = cache;
    s->chunks = chunks;
    s->next_use = next_use;
    s->forget = forget;
    s->user = user;
    *out = s;
    return LEAT_OK;
}

void leat_cache_set_close(struct leat_cache_set *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->chunks; i++) {
        struct leat_cache_entry *e = s->by_chunk[i];
        if (e && e->pins) {
            s->cache->pinned -= e->bytes;
            e->pins = 0;
        }
        if (e)
            leat_cache_remove(e);
    }
    free(s->by_chunk);
    free(s);
}

struct leat_cache_entry *leat_cache_find(const struct leat_cache_set *s, uint32_t chunk)
{
    return chunk < s->chunks ? s->by_chunk[chunk] : NULL;
}

/* Takes the entry out and leaves its memory in *spare. */
static void take_out(struct leat_cache_entry *e, struct leat_cache_memory *spare)
{
    struct leat_cache *c = e->set->cache;
    e->set->by_chunk[e->chunk] = NULL;
    *(e->prev ? &e->prev->next : &c->entries) = e->next;
    if (e->next)
        e->next->prev = e->prev;
    c->used -= e->bytes;
    c->stats.entries--;
    leat_cache_memory_free(spare);
    *spare = e->memory;
    free(e);
}

void leat_cache_remove(struct leat_cache_entry *e)
{
    struct leat_cache_memory memory = {0};
    take_out(e, &memory);
    leat_cache_memory_free(&memory);
}

/* The evictable entry whose next use is farthest away, and that distance. */
static struct leat_cache_entry *farthest(struct leat_cache *c, uint64_t *use)
{
    struct leat_cache_entry *best = NULL;
    for (struct leat_cache_entry *e = c->entries; e; e = e->next) {
        /* The analyzer does not see that take_out() has unlinked what it freed. */
        if (e->pins || !e->ready) /* NOLINT(clang-analyzer-unix.Malloc) */
            continue;
        uint64_t u = e->set->next_use(e->set->user, e->chunk);
        if (!best || u > *use) {
            best = e;
            *use = u;
        }
        if (u == LEAT_CACHE_NEVER)
            break;
    }
    return best;
}

/* Evicts until `bytes` fit. What was evicted before it turned out not to be enough was needed later than `use`.
 * What is needed now comes before all that is not pinned, chunks that are in use at this distance too: a small cache is
 * full of those, and would wait for room for ever. */
static bool make_room(struct leat_cache *c, uint64_t bytes, uint64_t use, struct leat_cache_memory *spare)
{
    if (bytes > c->budget)
        return false;
    while (c->used > c->budget - bytes) {
        uint64_t far = 0;
        struct leat_cache_entry *e = farthest(c, &far);
        if (!e || (far <= use && use > 0))
            return false;
        c->stats.evictions++;
        e->set->forget(e->set->user, e);
        take_out(e, spare);
    }
    return true;
}

struct leat_cache_entry *leat_cache_add(struct leat_cache_set *s, uint32_t chunk, uint64_t bytes, uint64_t use)
{
    struct leat_cache *c = s->cache;
    struct leat_cache_memory spare = {0};
    struct leat_cache_memory memory = {0};
    if (chunk >= s->chunks || s->by_chunk[chunk])
        return NULL;
    struct leat_cache_entry *e = calloc(1, sizeof *e);
    if (e && make_room(c, bytes, use, &spare))
        memory = leat_cache_memory_get(bytes, &spare);
    leat_cache_memory_free(&spare);
    if (!memory.data) {
        free(e);
        return NULL;
    }
    e->set = s;
    e->chunk = chunk;
    e->bytes = bytes;
    e->memory = memory;
    e->data = memory.data;
    e->next = c->entries;
    if (e->next)
        e->next->prev = e;
    c->entries = e;
    s->by_chunk[chunk] = e;
    c->used += bytes;
    c->stats.entries++;
    return e;
}

void leat_cache_pin(struct leat_cache_entry *e)
{
    if (e->pins++ == 0)
        e->set->cache->pinned += e->bytes;
}

void leat_cache_unpin(struct leat_cache_entry *e)
{
    if (--e->pins == 0)
        e->set->cache->pinned -= e->bytes;
}

void leat_cache_stats(const struct leat_cache *c, struct leat_cache_stats *out)
{
    *out = c->stats;
}
