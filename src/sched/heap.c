#include "sched/heap.h"

#define PAGE_PLACES (LEAT_SCHED_PAGE / sizeof(struct leat_sched_place *))

bool leat_sched_heap_reserve(struct leat_sched_heap *h, size_t members)
{
    for (; h->cap <= members; h->cap += PAGE_PLACES) {
        if (!leat_sched_pages_make(&h->list, h->cap * sizeof(struct leat_sched_place *)))
            return false;
    }
    return true;
}

void leat_sched_heap_free(struct leat_sched_heap *h)
{
    leat_sched_pages_free(&h->list);
    *h = (struct leat_sched_heap){0};
}

static void set(struct leat_sched_heap *h, size_t at, struct leat_sched_place *p)
{
    *(struct leat_sched_place **)leat_sched_pages_at(&h->list, at * sizeof(struct leat_sched_place *)) = p;
    p->at = at;
}

static uint64_t key_at(const struct leat_sched_heap *h, size_t at)
{
    return leat_sched_heap_at(h, at)->key;
}

static void rise(struct leat_sched_heap *h, struct leat_sched_place *p)
{
    size_t at = p->at;
    for (; at > 1 && key_at(h, at / 2) < p->key; at /= 2)
        set(h, at, leat_sched_heap_at(h, at / 2));
    set(h, at, p);
}

static void sink(struct leat_sched_heap *h, struct leat_sched_place *p)
{
    size_t at = p->at;
    for (size_t child; (child = 2 * at) <= h->n; at = child) {
        if (child < h->n && key_at(h, child + 1) > key_at(h, child))
            child++;
        if (key_at(h, child) <= p->key)
            break;
        set(h, at, leat_sched_heap_at(h, child));
    }
    set(h, at, p);
}

void leat_sched_heap_put(struct leat_sched_heap *h, struct leat_sched_place *p, uint64_t key)
{
    uint64_t old = p->key;
    p->key = key;
    if (!p->at) {
        set(h, ++h->n, p);
        rise(h, p);
    } else if (key > old) {
        rise(h, p);
    } else {
        sink(h, p);
    }
}

void leat_sched_heap_remove(struct leat_sched_heap *h, struct leat_sched_place *p)
{
    if (!p->at)
        return;
    struct leat_sched_place *last = leat_sched_heap_at(h, h->n--);
    if (last != p) {
        set(h, p->at, last);
        rise(h, last);
        sink(h, last);
    }
    p->at = 0;
}
