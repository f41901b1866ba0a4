#include "profile/gather_rank.h"

#include <math.h>

/* Workers that are busy for this share of the time are what the rank waits for. Less busy ones made it wait by chance.
 */
#define BUSY 0.7

static double clamp(double v, double low, double high)
{
    return v < low ? low : v > high ? high : v;
}

double gather_fetch_share(const struct gather_rank *rank, double step_s, double wait_s)
{
    const struct gather_loader *l = &rank->accounts[rank->loader % GATHER_LOADERS];
    double work = l->fetch_s + l->prepare_s;
    unsigned workers = rank->head.workers;
    if (!(l->batches > 0) || !(work > 0))
        return NAN;
    double share = l->fetch_s / work;
    if (!workers || !(wait_s > 0))
        return share;
    double per_step = work / l->batches / workers;
    if (per_step < BUSY * step_s)
        return share;
    /* The workers set the pace. Without fetching they would take prepare/workers for a batch: only what that exceeds
     * the rest of the step is a stall of preparing. */
    double prepare = clamp(l->prepare_s / l->batches / workers - (step_s - wait_s), 0, wait_s);
    return 1 - prepare / wait_s;
}
