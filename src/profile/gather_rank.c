#include "profile/gather_rank.h"

/* Workers that are busy for this share of the time are what the rank waits for. Less busy ones made it wait by chance.
 */
#define BUSY 0.7

static double clamp(double v, double low, double high)
{
    return v < low ? low : v > high ? high : v;
}

struct gather_shares gather_shares_of(const struct gather_rank *rank, double step_s, double wait_s)
{
    const struct gather_loader *l = &rank->accounts[rank->loader % GATHER_LOADERS];
    double work = l->fetch_s + l->prepare_s;
    unsigned workers = rank->head.workers;
    if (!(l->batches > 0) || !(work > 0) || !(wait_s > 0))
        return (struct gather_shares){0};
    double fetch = l->fetch_s / work;
    double per_batch = work / l->batches;
    if (!workers) { /* the rank itself does it while it waits; the rest of the wait is the loader's own affair */
        double known = clamp(per_batch / wait_s, 0, 1);
        return (struct gather_shares){.fetch = known * fetch, .prepare = known * (1 - fetch)};
    }
    if (per_batch / workers >= BUSY * step_s) {
        /* The workers set the pace. Without fetching they would take prepare/workers for a batch: only what that
         * exceeds the rest of the step is a stall of preparing. */
        double prepare = clamp(l->prepare_s / l->batches / workers - (step_s - wait_s), 0, wait_s);
        fetch = 1 - prepare / wait_s;
    }
    return (struct gather_shares){.fetch = fetch, .prepare = 1 - fetch};
}
