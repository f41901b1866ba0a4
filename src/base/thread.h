/* Threads with names, and waits on the monotonic clock. */
#ifndef LEAT_BASE_THREAD_H
#define LEAT_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Starts a joinable thread with signals blocked, so that they reach the main thread only (faults excepted).
 * The name is shown by ps and gdb; 15 bytes of it count. */
leat_status leat_thread_start(pthread_t *out, const char *name, void *(*run)(void *), void *arg,
                              struct leat_error *err);

/* A condition variable on the monotonic clock. */
void leat_cond_init(pthread_cond_t *cond);

/* Waits until signalled or until the deadline (LEAT_NEVER: no deadline); false when the deadline passed. */
bool leat_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t deadline_ns);

#endif
