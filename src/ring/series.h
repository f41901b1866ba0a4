/* An account over time: those rows of its table that are kept so, at steps of a second and more.
 *
 * Memory is fixed. When the points are used up every second one is dropped and the step doubled, so that the series
 * always reaches back to its beginning. Sums are kept as sums: what was dropped is still in the next point. */
#ifndef LEAT_RING_SERIES_H
#define LEAT_RING_SERIES_H

#include "ring/account.h"

#define LEAT_SERIES_POINTS  600u
#define LEAT_SERIES_COLUMNS 28u

struct leat_series {
    uint64_t step_ns; /* 0: a second */
    uint32_t n;
    uint64_t at_ns[LEAT_SERIES_POINTS];
    uint64_t value[LEAT_SERIES_POINTS][LEAT_SERIES_COLUMNS];
};

/* Whether a step has passed since the last point. */
bool leat_series_due(const struct leat_series *s, uint64_t now_ns);

/* Adds a point when one is due. */
void leat_series_add(struct leat_series *s, uint64_t now_ns, const struct leat_account *a);

/* {"t": [seconds since 1970], "step_s": 1.0, "samples": […], "wait_by_cause_s": {"fetch": […], …}, …}, given what both
 * clocks say now. NULL: no memory. */
json_t *leat_series_json(const struct leat_series *s, uint64_t now_ns, double wall_s);

#endif
