/* The whole state of a loader: the order's arguments and a cursor, as JSON of less than 1 KB. The same on
 * every rank. */
#ifndef LEAT_ORDER_STATE_H
#define LEAT_ORDER_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "order/order.h"

#define LEAT_ORDER_STATE_SIZE 1024 /* bytes a written state needs at most, with the NUL */

struct leat_order_state {
    uint8_t dataset[32];
    char view[LEAT_ORDER_VIEW_MAX];
    uint64_t units; /* in an epoch */
    bool shuffle;
    uint64_t seed;   /* 0 without shuffle */
    uint32_t window; /* 1 without shuffle */
    uint64_t epoch;
    uint64_t position; /* in the order of that epoch: units already delivered */
};

/* The state at the beginning of an order. */
struct leat_order_state leat_order_state(const struct leat_order_spec *spec, const struct leat_order *o);

/* Writes JSON on one line. */
leat_status leat_order_state_write(const struct leat_order_state *s, char out[LEAT_ORDER_STATE_SIZE],
                                   struct leat_error *err);

/* Takes a whole state or refuses it: LEAT_VERSION for one of another order version, LEAT_INVALID else. */
leat_status leat_order_state_read(const char *json, size_t n, struct leat_order_state *out, struct leat_error *err);

/* Whether a state can be continued by a loader whose own is `mine` (epoch and position may differ): else
 * LEAT_INVALID, naming everything that differs. `who` says whose the other is: "the state", "rank 3". */
leat_status leat_order_state_fits(const struct leat_order_state *s, const struct leat_order_state *mine,
                                  const char *who, struct leat_error *err);

#endif
