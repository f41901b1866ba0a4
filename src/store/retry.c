#include "store/retry.h"

#include <errno.h>

#include "base/clock.h"

#define FIRST_NS     (50 * LEAT_MS)
#define FIRST_SLOW   (200 * LEAT_MS) /* after "slow down" */
#define LONGEST_NS   (20 * LEAT_S)
#define BUDGET_MAX   64.0
#define BUDGET_EARN  .2
#define BUDGET_PER_S 10.0

bool leat_retry_useful(leat_status status, int os_error)
{
    if (os_error == EMFILE || os_error == ENFILE)
        return true; /* others give their descriptors back in time */
    return status == LEAT_NETWORK || status == LEAT_SERVER || status == LEAT_THROTTLED || status == LEAT_TIMEOUT ||
           status == LEAT_CORRUPT;
}

uint64_t leat_retry_delay(leat_status status, uint32_t attempt, uint64_t asked_ns, double unit)
{
    uint64_t base = status == LEAT_THROTTLED ? FIRST_SLOW : FIRST_NS;
    uint32_t doublings = attempt > 2 ? attempt - 2 : 0;
    uint64_t most = doublings > 20 ? LONGEST_NS : base << doublings;
    if (most > LONGEST_NS)
        most = LONGEST_NS;
    uint64_t delay = (uint64_t)((double)most * unit);
    if (asked_ns > LONGEST_NS)
        asked_ns = LONGEST_NS;
    return delay > asked_ns ? delay : asked_ns;
}

struct leat_retry_budget leat_retry_budget(uint64_t now_ns)
{
    return (struct leat_retry_budget){.tokens = BUDGET_MAX, .at_ns = now_ns};
}

void leat_retry_earn(struct leat_retry_budget *b)
{
    b->tokens += BUDGET_EARN;
    if (b->tokens > BUDGET_MAX)
        b->tokens = BUDGET_MAX;
}

uint64_t leat_retry_take(struct leat_retry_budget *b, uint64_t now_ns)
{
    b->tokens += (double)(now_ns - b->at_ns) / 1e9 * BUDGET_PER_S;
    b->at_ns = now_ns;
    if (b->tokens > BUDGET_MAX)
        b->tokens = BUDGET_MAX;
    if (b->tokens < 1)
        return (uint64_t)((1 - b->tokens) / BUDGET_PER_S * 1e9) + 1;
    b->tokens -= 1;
    return 0;
}
