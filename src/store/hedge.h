/* When a read is late, and whether a second request for it may be sent.
 *
 * A pure controller, as the pace: it is told what was asked and how long answers took, by size of the range, and never
 * looks at a clock. Late is what takes twice as long as 95 of 100 reads of its size took lately. So a few slow answers
 * in a hundred are asked for again, and a store that is slow as a whole is not. Second requests are never more than
 * 2 % of the requests, nor of the bytes. */
#ifndef LEAT_STORE_HEDGE_H
#define LEAT_STORE_HEDGE_H

#include <stdbool.h>
#include <stdint.h>

#define LEAT_HEDGE_CLASSES 7u   /* up to 64 KiB, 256 KiB, 1, 4, 16, 64 MiB, more */
#define LEAT_HEDGE_RECENT  128u /* answers that are looked at */

struct leat_hedge_class {
    uint32_t took_us[LEAT_HEDGE_RECENT]; /* the last ones, oldest overwritten */
    uint32_t n;                          /* in all */
    uint64_t late_ns;                    /* 0: not known yet */
};

struct leat_hedge {
    struct leat_hedge_class classes[LEAT_HEDGE_CLASSES];
    uint64_t requests; /* that were not second ones … */
    uint64_t bytes;    /* … and what they asked for */
    uint64_t extra_requests;
    uint64_t extra_bytes;
};

/* A read of `length` bytes begins. Returns after how long it is late; 0: that is not known yet. */
uint64_t leat_hedge_begin(struct leat_hedge *h, uint64_t length);

/* It was answered. */
void leat_hedge_took(struct leat_hedge *h, uint64_t length, uint64_t ns);

/* A second request for it: true, and counted, if it may be sent. */
bool leat_hedge_take(struct leat_hedge *h, uint64_t length);

#endif
