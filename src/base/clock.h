/* Time. Deadlines and durations use the monotonic clock, so a stepped wall clock cannot reach them. */
#ifndef LEAT_BASE_CLOCK_H
#define LEAT_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define LEAT_US 1000ULL
#define LEAT_MS 1000000ULL
#define LEAT_S  1000000000ULL

#define LEAT_NEVER UINT64_MAX /* a deadline that does not come */

uint64_t leat_now_ns(void);                    /* monotonic */
uint64_t leat_thread_cpu_ns(void);             /* processor time of this thread */
int64_t leat_wall_s(void);                     /* seconds since 1970, for signatures and time stamps only */
uint64_t leat_after(uint64_t ns);              /* now + ns, saturating at LEAT_NEVER */
uint64_t leat_left(uint64_t deadline_ns);      /* nanoseconds until then, 0 when past, LEAT_NEVER for never */
struct timespec leat_timespec(uint64_t at_ns); /* for waits on the monotonic clock */
void leat_sleep_until(uint64_t deadline_ns);

#endif
