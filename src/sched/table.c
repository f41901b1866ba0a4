/* Chunks by name. An entry exists while its chunk is in memory, on disk, on its way or wanted. */
#include <stdlib.h>
#include <string.h>

#include "sched/inside.h"

static size_t bucket_of(const struct leat_sched *s, const uint8_t *name)
{
    uint64_t h;
    memcpy(&h, name, sizeof h); /* a digest: any bytes of it are as good as a hash */
    return (size_t)h & (s->buckets - 1);
}

struct leat_sched_chunk *leat_sched_find(const struct leat_sched *s, const uint8_t name[LEAT_SCHED_NAME])
{
    if (!s->buckets)
        return NULL;
    struct leat_sched_chunk *c = s->table[bucket_of(s, name)];
    while (c && memcmp(c->name, name, LEAT_SCHED_NAME) != 0)
        c = c->chain;
    return c;
}

/* Doubles the table; without memory the chains become longer. */
static void grow(struct leat_sched *s)
{
    size_t old = s->buckets;
    size_t buckets = old ? old * 2 : 256;
    struct leat_sched_chunk **table = calloc(buckets, sizeof(struct leat_sched_chunk *));
    if (!table)
        return;
    struct leat_sched_chunk **from = s->table;
    s->table = table;
    s->buckets = buckets;
    for (size_t i = 0; i < old; i++) {
        struct leat_sched_chunk *next;
        for (struct leat_sched_chunk *c = from[i]; c; c = next) {
            size_t b = bucket_of(s, c->name);
            next = c->chain;
            c->chain = table[b];
            table[b] = c;
        }
    }
    free(from);
}

struct leat_sched_chunk *leat_sched_add(struct leat_sched *s, const uint8_t name[LEAT_SCHED_NAME], uint64_t bytes)
{
    if (s->known >= s->buckets)
        grow(s);
    if (!s->buckets || !leat_sched_heap_reserve(&s->in_ram, s->known + 1) ||
        !leat_sched_heap_reserve(&s->on_disk, s->known + 1))
        return NULL;
    struct leat_sched_chunk *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    size_t b = bucket_of(s, name);
    memcpy(c->name, name, LEAT_SCHED_NAME);
    c->bytes = bytes;
    c->chain = s->table[b];
    s->table[b] = c;
    s->known++;
    s->chunk_max = bytes > s->chunk_max ? bytes : s->chunk_max;
    return c;
}

bool leat_sched_refer(struct leat_sched_chunk *c, struct leat_sched_set *set, uint32_t number)
{
    for (struct leat_sched_ref *r = &c->ref; r; r = r->next) {
        if (r->set == set && r->number == number)
            return true;
        if (!r->set) {
            r->set = set;
            r->number = number;
            return true;
        }
    }
    struct leat_sched_ref *r = malloc(sizeof *r);
    if (!r)
        return false;
    *r = (struct leat_sched_ref){.set = set, .number = number, .next = c->ref.next};
    c->ref.next = r;
    return true;
}

struct leat_sched_chunk *leat_sched_touch(struct leat_sched_set *set, uint32_t number)
{
    struct leat_sched *s = set->sched;
    const uint8_t *name = set->names + (size_t)number * LEAT_SCHED_NAME;
    struct leat_sched_chunk *c = leat_sched_find(s, name);
    if (!c)
        c = leat_sched_add(s, name, set->sizes[number]);
    if (c && !leat_sched_refer(c, set, number)) {
        leat_sched_settle(s, c);
        c = NULL;
    }
    return c;
}

/* A mixture may have a chunk twice. False: it is not the set's any more. */
static bool unrefer_one(struct leat_sched_chunk *c, const struct leat_sched_set *set)
{
    for (struct leat_sched_ref **p = &c->ref.next; *p; p = &(*p)->next) {
        if ((*p)->set == set) {
            struct leat_sched_ref *r = *p;
            *p = r->next;
            free(r);
            return true;
        }
    }
    if (c->ref.set != set)
        return false;
    struct leat_sched_ref *next = c->ref.next;
    if (next) {
        c->ref = *next;
        free(next);
    } else {
        c->ref = (struct leat_sched_ref){0};
    }
    return true;
}

void leat_sched_unrefer(struct leat_sched_set *set)
{
    struct leat_sched *s = set->sched;
    for (size_t i = 0; i < s->buckets; i++) {
        struct leat_sched_chunk *next;
        for (struct leat_sched_chunk *c = s->table[i]; c; c = next) {
            next = c->chain;
            if (c->source == set)
                c->source = NULL;
            while (unrefer_one(c, set))
                ;
            leat_sched_loose(s, c);
            leat_sched_settle(s, c);
        }
    }
}

void leat_sched_settle(struct leat_sched *s, struct leat_sched_chunk *c)
{
    if (c->state != LEAT_SCHED_ABSENT || c->on_disk || c->storing || c->pins || c->wants || c->guests)
        return;
    leat_sched_unahead(c);
    struct leat_sched_chunk **p = &s->table[bucket_of(s, c->name)];
    while (*p != c)
        p = &(*p)->chain;
    *p = c->chain;
    s->known--;
    s->opts.ops->gone(s->opts.user, c);
    struct leat_sched_ref *next;
    for (struct leat_sched_ref *r = c->ref.next; r; r = next) {
        next = r->next;
        free(r);
    }
    free(c);
}
