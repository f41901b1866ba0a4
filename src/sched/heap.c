#include "sched/heap.h"

#include <stdlib.h>

bool leat_sched_heap_reserve(struct leat_sched_heap *h, size_t members)
{
    if (members < h->cap)
        return true;
    size_t cap = h->cap ? h->cap * 2 : 64;
    while (cap <= members)
        cap *= 2;
    struct leat_sched_place **list = realloc(h->list, cap * sizeof(struct leat_sched_place *));
    if (!list)
        return false;
    h->list = list;
    h->cap = cap;
    return true;
}

void leat_sched_heap_free(struct leat_sched_heap *h)
{
    free(h->list);
    *h = (struct leat_sched_heap){0};
}

static void set(struct leat_sched_heap *h, size_t at, struct leat_sched_place *p)
{
    h->list[at] = p;
    p->at = at;
}

static void rise(struct leat_sched_heap *h, struct leat_sched_place *p)
{
    size_t at = p->at;
    for (; at > 1 && h->list[at / 2]->key < p->key; at /= 2)
        set(h, at, h->list[at / 2]);
    set(h, at, p);
}

static void sink(struct leat_sched_heap *h, struct leat_sched_place *p)
{
    size_t at = p->at;
    for (size_t child; (child = 2 * at) <= h->n; at = child) {
        if (child < h->n && h->list[child + 1]->key > h->list[child]->key)
            child++;
        if (h->list[child]->key <= p->key)
            break;
        set(h, at, h->list[child]);
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
    struct leat_sched_place *last = h->list[h->n--];
    if (last != p) {
        set(h, p->at, last);
        rise(h, last);
        sink(h, last);
    }
    p->at = 0;
}
