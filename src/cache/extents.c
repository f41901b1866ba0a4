#include "cache/extents.h"

#include <stdlib.h>
#include <string.h>

static bool reserve(struct leat_extents *x, size_t count)
{
    if (count <= x->cap)
        return true;
    size_t cap = x->cap ? 2 * x->cap : 16;
    if (cap < count)
        cap = count;
    struct leat_extent *more = reallocarray(x->free, cap, sizeof *more);
    if (!more)
        return false;
    x->free = more;
    x->cap = cap;
    return true;
}

bool leat_extents_init(struct leat_extents *x, uint64_t from, uint64_t end)
{
    *x = (struct leat_extents){0};
    if (!reserve(x, 1))
        return false;
    if (end > from)
        x->free[x->count++] = (struct leat_extent){from, end - from};
    return true;
}

void leat_extents_free(struct leat_extents *x)
{
    free(x->free);
    *x = (struct leat_extents){0};
}

/* The number of stretches that begin before `at`. */
static size_t before(const struct leat_extents *x, uint64_t at)
{
    size_t low = 0;
    size_t high = x->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (x->free[mid].at < at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static void drop(struct leat_extents *x, size_t i)
{
    memmove(&x->free[i], &x->free[i + 1], (x->count - i - 1) * sizeof *x->free);
    x->count--;
}

static void insert(struct leat_extents *x, size_t i, uint64_t at, uint64_t n)
{
    memmove(&x->free[i + 1], &x->free[i], (x->count - i) * sizeof *x->free);
    x->free[i] = (struct leat_extent){at, n};
    x->count++;
}

bool leat_extents_take(struct leat_extents *x, uint64_t n, uint64_t *at)
{
    if (n == 0 || !reserve(x, x->taken + 2))
        return false;
    for (size_t i = 0; i < x->count; i++) {
        struct leat_extent *e = &x->free[i];
        if (e->n < n)
            continue;
        *at = e->at;
        e->at += n;
        e->n -= n;
        if (e->n == 0)
            drop(x, i);
        x->taken++;
        return true;
    }
    return false;
}

bool leat_extents_take_at(struct leat_extents *x, uint64_t at, uint64_t n)
{
    size_t i = before(x, at + 1);
    if (n == 0 || i == 0 || !reserve(x, x->taken + 2))
        return false;
    struct leat_extent e = x->free[--i];
    if (at + n < at || at + n > e.at + e.n)
        return false;
    x->taken++;
    x->free[i].n = at - e.at;
    uint64_t behind = e.at + e.n - at - n;
    if (x->free[i].n == 0 && behind)
        x->free[i] = (struct leat_extent){at + n, behind};
    else if (x->free[i].n == 0)
        drop(x, i);
    else if (behind)
        insert(x, i + 1, at + n, behind);
    return true;
}

void leat_extents_give(struct leat_extents *x, uint64_t at, uint64_t n)
{
    size_t i = before(x, at);
    bool left = i > 0 && x->free[i - 1].at + x->free[i - 1].n == at;
    bool right = i < x->count && at + n == x->free[i].at;
    x->taken--;
    if (left && right) {
        x->free[i - 1].n += n + x->free[i].n;
        drop(x, i);
    } else if (left) {
        x->free[i - 1].n += n;
    } else if (right) {
        x->free[i].at = at;
        x->free[i].n += n;
    } else {
        insert(x, i, at, n);
    }
}

uint64_t leat_extents_longest(const struct leat_extents *x)
{
    uint64_t longest = 0;
    for (size_t i = 0; i < x->count; i++)
        longest = x->free[i].n > longest ? x->free[i].n : longest;
    return longest;
}
