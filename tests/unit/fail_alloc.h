/* Makes allocations fail, one after the other. The unit tests are linked so that malloc, calloc, realloc, reallocarray,
 * strdup, aligned_alloc and posix_memalign of Leat's own code come through here (the C library's and other libraries'
 * own calls do not). Works under the sanitizers too, which then say what leaked on a failure path. */
#ifndef LEAT_TESTS_FAIL_ALLOC_H
#define LEAT_TESTS_FAIL_ALLOC_H

#include <stdbool.h>

#include "base/error.h"

/* From now on the n-th allocation (from 0) of this thread fails; `and_later`: and all after it. */
void fail_alloc_at(long n, bool and_later);

/* The same for the n-th allocation of the whole process, whichever thread makes it. */
void fail_alloc_anywhere_at(long n, bool and_later);

/* Until it is called with false: allocations of this thread succeed and do not count. For what a test has to allocate
 * itself in the middle of what it tests. */
void fail_alloc_pause(bool on);

/* Allocations succeed again. True when one was made to fail since. */
bool fail_alloc_stop(void);

/* Runs the scenario again and again, failing its first, second, … allocation, alone and with all later ones, until
 * none is left to fail. It must clean up after itself and return LEAT_NO_MEMORY exactly when an allocation failed,
 * LEAT_OK otherwise. Returns how many allocations it makes. */
long fail_alloc_each(leat_status (*scenario)(void *user, struct leat_error *err), void *user);

#endif
