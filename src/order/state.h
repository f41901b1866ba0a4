/* State 1 (docs/order.md): what a loader has to keep to go on exactly where it was. A list of streams, each an
 * order's arguments and a cursor in it, as JSON. The same on every rank. */
#ifndef LEAT_ORDER_STATE_H
#define LEAT_ORDER_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "order/mixture.h"
#include "order/order.h"

#define LEAT_ORDER_STATE_VERSION 1
#define LEAT_ORDER_STATE_MAX     (1u << 20) /* bytes of a text that is read: members that are ignored count too */

/* One order and the place reached in it. */
struct leat_order_stream {
    uint8_t dataset[32];            /* the content id */
    char view[LEAT_ORDER_VIEW_MAX]; /* UTF-8 */
    uint64_t units;                 /* in an epoch */
    bool shuffle;
    uint64_t seed;   /* without shuffle too: random operations are drawn from it, unless they have one of their own */
    uint32_t window; /* 1 without shuffle */
    uint64_t epoch;
    uint64_t position; /* in the order of that epoch: units already delivered */
};

struct leat_order_state {
    uint32_t streams_n; /* at least 1 */
    struct leat_order_stream streams[LEAT_ORDER_STREAMS_MAX];
    /* A mixture: the place reached in it, from which those in the streams follow. parts_n 0: there is one stream, and
     * its own place counts. */
    struct leat_mixture_part *parts; /* what was read is the state's: leat_order_state_free() */
    uint32_t parts_n;
    uint64_t epoch_units;
    uint64_t epoch;
    uint64_t position;
    /* Random operations are drawn from a seed of their own, and not from the streams'. */
    bool draws_apart;
    uint64_t draw_seed;
};

/* What random operations are drawn from. */
uint64_t leat_order_state_draws(const struct leat_order_state *s);

void leat_order_state_free(struct leat_order_state *s); /* what reading has allocated; zeroed ones are allowed */

/* Puts the streams of a mixture where they are when `epoch` and `position` of it are reached. */
void leat_order_state_move(struct leat_order_state *s, const struct leat_mixture *m, uint64_t epoch, uint64_t position);

/* The stream at the beginning of an order. */
struct leat_order_stream leat_order_stream(const struct leat_order_spec *spec, const struct leat_order *o);

/* JSON on one line, the caller's to free(). Refuses what leat_order_state_read() would not take. */
leat_status leat_order_state_write(const struct leat_order_state *s, char **out, struct leat_error *err);

/* Takes a whole state or refuses it: LEAT_VERSION for one of another version and for one that needs what this
 * Leat does not know, LEAT_LIMIT for one that is too large, else LEAT_INVALID. */
leat_status leat_order_state_read(const char *json, size_t n, struct leat_order_state *out, struct leat_error *err);

/* Whether a stream can be continued by a loader whose own is `mine` (epoch and position may differ): else
 * LEAT_INVALID, naming everything that differs. `who` says whose the other is: "the state", "rank 3". */
leat_status leat_order_stream_fits(const struct leat_order_stream *theirs, const struct leat_order_stream *mine,
                                   const char *who, struct leat_error *err);

/* The same for all streams of two states, and for their mixtures. */
leat_status leat_order_state_fits(const struct leat_order_state *theirs, const struct leat_order_state *mine,
                                  const char *who, struct leat_error *err);

#endif
