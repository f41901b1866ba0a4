#include "store/hedge.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define SHARE      50u            /* one in 50: 2 % */
#define SAVED      32u            /* second requests that may follow each other where few were needed before */
#define LEAST      32u            /* answers before anything is said */
#define RECOUNT    16u            /* answers between two looks at all of them */
#define LATE_LEAST (20 * LEAT_MS) /* below this a second request gains nothing that anybody would notice */

static struct leat_hedge_class *class_of(struct leat_hedge *h, uint64_t length)
{
    uint32_t i = 0;
    for (uint64_t most = 64u << 10; i + 1 < LEAT_HEDGE_CLASSES && length > most; most *= 4)
        i++;
    return &h->classes[i];
}

uint64_t leat_hedge_begin(struct leat_hedge *h, uint64_t length)
{
    h->requests++;
    h->bytes += length;
    /* What was not needed for long is forgotten: a bad minute must not be allowed what a good day has saved. */
    uint64_t most = h->extra_requests + SAVED;
    if (h->requests / SHARE > most) {
        h->bytes = h->bytes / h->requests * (most * SHARE);
        h->requests = most * SHARE;
    }
    return class_of(h, length)->late_ns;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void leat_hedge_took(struct leat_hedge *h, uint64_t length, uint64_t ns)
{
    struct leat_hedge_class *c = class_of(h, length);
    uint64_t us = ns / 1000;
    c->took_us[c->n++ % LEAT_HEDGE_RECENT] = us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
    if (c->n < LEAST || c->n % RECOUNT)
        return;
    uint32_t sorted[LEAT_HEDGE_RECENT];
    uint32_t n = c->n < LEAT_HEDGE_RECENT ? c->n : LEAT_HEDGE_RECENT;
    memcpy(sorted, c->took_us, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_number);
    uint64_t late = 2000ull * sorted[(uint64_t)n * 95 / 100];
    c->late_ns = late > LATE_LEAST ? late : LATE_LEAST;
}

bool leat_hedge_take(struct leat_hedge *h, uint64_t length)
{
    if ((h->extra_requests + 1) * SHARE > h->requests || (h->extra_bytes + length) * SHARE > h->bytes)
        return false;
    h->extra_requests++;
    h->extra_bytes += length;
    return true;
}
