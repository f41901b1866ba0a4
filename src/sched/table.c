/* Chunks by name. An entry exists while its chunk is in memory, on disk, on its way or wanted.
 *
 * There may be ten million of them, and a step takes no longer for that. The table grows by one bucket at a time, whose
 * chunks come from one other (linear hashing), and nothing is moved for it. Sets come and go in parts: a new one gets
 * to know the chunks that are here already, and a closed one is forgotten by those that it had, LOOKS of them in a
 * step. */
#include <stdlib.h>
#include <string.h>

#include "sched/inside.h"

#define LOOKS         512u /* chunks and buckets looked at in a step: half a millisecond when none is in the CPU's cache */
#define BUCKETS_FIRST 256u

/* Buckets are 0 … n - 1. Those from the greatest power of two on have taken theirs from the bucket that far below;
 * chunks of buckets that are still to come lie there too. */
static size_t bucket_of(size_t n, const uint8_t *name)
{
    uint64_t h;
    size_t power = (size_t)1 << (63 - __builtin_clzll(n));
    memcpy(&h, name, sizeof h); /* a digest: any bytes of it are as good as a hash */
    size_t bucket = (size_t)h & (2 * power - 1);
    return bucket < n ? bucket : bucket - power;
}

static struct leat_sched_chunk **head(const struct leat_sched *s, size_t bucket)
{
    return leat_sched_pages_at(&s->table, bucket * sizeof(struct leat_sched_chunk *));
}

struct leat_sched_chunk *leat_sched_bucket(const struct leat_sched *s, size_t i)
{
    return *head(s, i);
}

struct leat_sched_chunk *leat_sched_find(const struct leat_sched *s, const uint8_t name[LEAT_SCHED_NAME])
{
    if (!s->buckets)
        return NULL;
    struct leat_sched_chunk *c = *head(s, bucket_of(s->buckets, name));
    while (c && memcmp(c->name, name, LEAT_SCHED_NAME) != 0)
        c = c->chain;
    return c;
}

/* One more bucket; without memory the chains become longer. */
static void grow(struct leat_sched *s)
{
    size_t added = s->buckets;
    if (!leat_sched_pages_make(&s->table, (added ? added : BUCKETS_FIRST - 1) * sizeof(struct leat_sched_chunk *)))
        return;
    s->buckets = added ? added + 1 : BUCKETS_FIRST;
    if (!added)
        return;
    size_t power = (size_t)1 << (63 - __builtin_clzll(added));
    struct leat_sched_chunk **from = head(s, added - power);
    while (*from) {
        struct leat_sched_chunk *c = *from;
        if (bucket_of(s->buckets, c->name) != added) {
            from = &c->chain;
            continue;
        }
        *from = c->chain;
        c->chain = *head(s, added);
        *head(s, added) = c;
    }
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
    struct leat_sched_chunk **first = head(s, bucket_of(s->buckets, name));
    memcpy(c->name, name, LEAT_SCHED_NAME);
    c->bytes = bytes;
    c->chain = *first;
    *first = c;
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
            set->refs++;
            return true;
        }
    }
    struct leat_sched_ref *r = malloc(sizeof *r);
    if (!r)
        return false;
    *r = (struct leat_sched_ref){.set = set, .number = number, .next = c->ref.next};
    c->ref.next = r;
    set->refs++;
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
static bool unrefer_one(struct leat_sched_chunk *c, struct leat_sched_set *set)
{
    for (struct leat_sched_ref **p = &c->ref.next; *p; p = &(*p)->next) {
        if ((*p)->set == set) {
            struct leat_sched_ref *r = *p;
            *p = r->next;
            free(r);
            set->refs--;
            return true;
        }
    }
    if (c->ref.set != set)
        return false;
    struct leat_sched_ref *next = c->ref.next;
    set->refs--;
    if (next) {
        c->ref = *next;
        free(next);
    } else {
        c->ref = (struct leat_sched_ref){0};
    }
    return true;
}

/* Chunks that are known already, from disk or another dataset, are needed by a new set too. Until one has been looked
 * at, its next use there is not known, and it may go too early. */
static uint32_t recognize(struct leat_sched_set *set, uint32_t most)
{
    uint32_t n = 0;
    if (!set->sched->known)
        set->recognized = set->chunks; /* what comes from now on is told by those who send for it */
    for (; set->recognized < set->chunks && n < most; n++) {
        uint32_t number = set->recognized++;
        struct leat_sched_chunk *c = leat_sched_find(set->sched, set->names + (size_t)number * LEAT_SCHED_NAME);
        if (c)
            leat_sched_refer(c, set, number);
    }
    return n;
}

/* Chunks of a closed set forget it. Those that move to a new bucket meanwhile are met there. */
static uint32_t sweep(struct leat_sched_set *set, uint32_t most)
{
    struct leat_sched *s = set->sched;
    uint32_t n = 0;
    for (; set->refs && set->swept < s->buckets && n < most; n++) {
        struct leat_sched_chunk *next;
        for (struct leat_sched_chunk *c = leat_sched_bucket(s, set->swept++); c; c = next) {
            n++;
            next = c->chain;
            if (c->source == set)
                c->source = NULL;
            bool had = false;
            while (unrefer_one(c, set))
                had = true;
            if (!had)
                continue;
            leat_sched_loose(s, c);
            leat_sched_settle(s, c);
        }
    }
    return n;
}

void leat_sched_look_after(struct leat_sched *s)
{
    uint32_t left = LOOKS;
    for (struct leat_sched_set *set = s->sets; set && left; set = set->next) {
        uint32_t n = recognize(set, left);
        left = n < left ? left - n : 0;
    }
    for (struct leat_sched_set **p = &s->closed; *p && left;) {
        struct leat_sched_set *set = *p;
        uint32_t n = sweep(set, left);
        left = n < left ? left - n : 0;
        if (set->refs || set->ending) {
            p = &set->next;
            continue;
        }
        *p = set->next;
        leat_sched_pages_free(&set->epochs);
        free(set);
    }
    s->more = s->more || !left;
}

void leat_sched_settle(struct leat_sched *s, struct leat_sched_chunk *c)
{
    if (c->state != LEAT_SCHED_ABSENT || c->on_disk || c->storing || c->pins || c->wants || c->guests)
        return;
    leat_sched_unahead(c);
    struct leat_sched_chunk **p = head(s, bucket_of(s->buckets, c->name));
    while (*p != c)
        p = &(*p)->chain;
    *p = c->chain;
    s->known--;
    s->opts.ops->gone(s->opts.user, c);
    if (c->ref.set)
        c->ref.set->refs--;
    struct leat_sched_ref *next;
    for (struct leat_sched_ref *r = c->ref.next; r; r = next) {
        next = r->next;
        r->set->refs--;
        free(r);
    }
    free(c);
}
