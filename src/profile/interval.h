/* Means with intervals, for series whose neighbours resemble each other: blocks of steps are compared, and not steps.
 * Pure. */
#ifndef LEAT_PROFILE_INTERVAL_H
#define LEAT_PROFILE_INTERVAL_H

#include "plan/report.h"

/* The mean of independent values and the interval that holds it with 95 %. Fewer than 3 values have no interval. */
struct leat_report_time leat_interval_of(const double *values, size_t n);

#endif
