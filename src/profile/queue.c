#include "profile/queue.h"

#include <math.h>
#include <string.h>

#define EXACT 512 /* workers, beyond which the bounds that they approach are as good */

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* Far above saturation, or far from it. */
static struct leat_queue_answer bounds(const struct leat_queue *q)
{
    double rate = q->workers / (q->alone_s + q->core_s + q->line_s);
    if (q->core_s > 0)
        rate = smaller(rate, q->cores / q->core_s);
    if (q->line_s > 0)
        rate = smaller(rate, 1 / q->line_s);
    return (struct leat_queue_answer){rate, q->core_s, q->line_s};
}

struct leat_queue_answer leat_queue_ask(const struct leat_queue *q)
{
    double busy[EXACT + 1] = {1}; /* chance that this many want a core, one worker less there */
    double next[EXACT + 1];
    struct leat_queue_answer a = {.batches_per_s = HUGE_VAL};
    double at_cores = 0; /* in the mean */
    double on_line = 0;
    if (!(q->alone_s + q->core_s + q->line_s > 0))
        return a;
    if (q->workers > EXACT)
        return bounds(q);
    unsigned cores = q->cores < q->workers ? q->cores : q->workers;
    for (unsigned n = 1; n <= q->workers; n++) {
        double idle = 0; /* cores that stand idle when a worker comes, less one */
        for (unsigned j = 0; j + 1 < cores; j++)
            idle += (cores - 1 - j) * busy[j];
        a.core_s = q->core_s / cores * (1 + at_cores + idle);
        a.line_s = q->line_s * (1 + on_line);
        a.batches_per_s = n / (q->alone_s + a.core_s + a.line_s);
        at_cores = a.batches_per_s * a.core_s;
        on_line = a.batches_per_s * a.line_s;
        double load = q->core_s * a.batches_per_s;
        double none = load;
        memset(next, 0, sizeof next);
        for (unsigned j = 1; j < cores; j++) {
            next[j] = load / j * busy[j - 1];
            none += (cores - j) * next[j];
        }
        next[0] = fmax(0, 1 - none / cores);
        memcpy(busy, next, sizeof busy);
    }
    return a;
}
