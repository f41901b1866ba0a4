/* Planning a training: which machines, for how long, at what price. docs/plan.md describes request and answer. */
#ifndef LEAT_PLAN_H
#define LEAT_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "leat/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `request` is a JSON object of `n` bytes that holds the contents of the files a plan is made from, and options;
 * `*answer` gets the JSON that `leat plan --json` prints, ended by a NUL, which the caller frees with free().
 * `interrupted`, when not NULL, is asked every few milliseconds; true ends the call with LEAT_CANCELLED.
 * Reads no file, no clock and no environment: the same request has the same answer. Any thread may call. */
LEAT_API leat_status leat_plan_request(const char *request, size_t n, bool (*interrupted)(void *user), void *user,
                                       char **answer, struct leat_error *err);

#ifdef __cplusplus
}
#endif
#endif
