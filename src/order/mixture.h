/* A mixture of orders: which stream the unit at a position comes from. A pure function of the shares and the position,
 * as an order is of its arguments: a cursor is one number, whatever the number of streams (docs/order.md).
 *
 * Shares are whole numbers; their sum is the period, in which every stream has exactly its share. Inside a period the
 * streams alternate as evenly as can be: of the first n units of a part, a stream has its proportion to within one unit
 * (Tijdeman's solution of the chairman assignment problem). */
#ifndef LEAT_ORDER_MIXTURE_H
#define LEAT_ORDER_MIXTURE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "order/order.h"

#define LEAT_MIXTURE_PERIOD_MAX (1u << 20)
#define LEAT_MIXTURE_PARTS_MAX  256u
#define LEAT_ORDER_STREAMS_MAX  64 /* a mixture of more is not foreseen */

/* A stretch of positions with the same shares. */
struct leat_mixture_part {
    uint64_t from;                           /* position; the first part's is 0, they ascend */
    uint32_t shares[LEAT_ORDER_STREAMS_MAX]; /* 0: none of this stream */
};

struct leat_mixture;

/* Constant once open. A byte for each unit of a period, and part. */
leat_status leat_mixture_open(uint32_t streams, const struct leat_mixture_part *parts, uint32_t parts_n,
                              struct leat_mixture **out, struct leat_error *err);
void leat_mixture_close(struct leat_mixture *m); /* NULL is allowed */

uint32_t leat_mixture_streams(const struct leat_mixture *m);

/* Units of each stream among the first `position`. */
void leat_mixture_counts(const struct leat_mixture *m, uint64_t position, uint64_t *counts);

/* The streams of n units from a position on. */
void leat_mixture_read(const struct leat_mixture *m, uint64_t position, uint8_t *streams, size_t n);

/* The proportion that a stream has at a position. */
double leat_mixture_share(const struct leat_mixture *m, uint64_t position, uint32_t stream);

/* Shares for weights that add up to 1 (to within a millionth, else LEAT_INVALID): exact where a period of at most
 * LEAT_MIXTURE_PERIOD_MAX allows it, else to within a millionth. A weight that is not 0 gets a share. */
leat_status leat_mixture_shares(const double *weights, uint32_t n, uint32_t *shares, struct leat_error *err);

/* Weights in proportion to units^(1/temperature): 1 is by size, large ones are equal. */
leat_status leat_mixture_temper(const uint64_t *units, uint32_t n, double temperature, double *weights,
                                struct leat_error *err);

#endif
