/* When to try again, and how soon: pure decisions. */
#ifndef LEAT_STORE_RETRY_H
#define LEAT_STORE_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Whether trying again can help at all. os_error: errno behind the status, or 0. */
bool leat_retry_useful(leat_status status, int os_error);

/* How long to wait before attempt number `attempt` (2, 3, …): exponential with full jitter, never less than what
 * the server asked for. `unit` is uniform in [0, 1). */
uint64_t leat_retry_delay(leat_status status, uint32_t attempt, uint64_t asked_ns, double unit);

/* The retry budget of a store. Every finished request earns a fifth of a retry, time earns ten a second; when none is
 * left, retries wait instead of adding to a server's trouble. */
struct leat_retry_budget {
    double tokens;
    uint64_t at_ns;
};

struct leat_retry_budget leat_retry_budget(uint64_t now_ns);
void leat_retry_earn(struct leat_retry_budget *b);

/* Takes one retry and returns 0; or takes none and returns how long it is until there will be one if nothing is
 * earned before: ask again then. */
uint64_t leat_retry_take(struct leat_retry_budget *b, uint64_t now_ns);

#endif
