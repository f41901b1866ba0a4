#include "serve/pace.h"

#include "base/clock.h"

/* Time lost by waking late is made up for as long as there is something to send; a longer gap was idleness, and
 * an idle line saves nothing up. */
#define CATCH_UP_NS (100 * LEAT_MS)

#define SLICE_MIN ((uint64_t)4 << 10)
#define SLICE_MAX ((uint64_t)256 << 10)

void leat_serve_pace_init(struct leat_serve_pace *p, uint64_t bytes_per_s)
{
    *p = (struct leat_serve_pace){.bytes_per_s = bytes_per_s};
    pthread_mutex_init(&p->mu, NULL);
}

void leat_serve_pace_destroy(struct leat_serve_pace *p)
{
    pthread_mutex_destroy(&p->mu);
}

uint64_t leat_serve_pace_take(struct leat_serve_pace *p, size_t n)
{
    uint64_t now = leat_now_ns();
    if (!p->bytes_per_s)
        return now;
    uint64_t cost_ns = (uint64_t)((double)n * 1e9 / (double)p->bytes_per_s);
    pthread_mutex_lock(&p->mu);
    if (p->free_ns + CATCH_UP_NS < now)
        p->free_ns = now;
    p->free_ns += cost_ns;
    uint64_t end = p->free_ns;
    pthread_mutex_unlock(&p->mu);
    return end;
}

size_t leat_serve_pace_slice(uint64_t bytes_per_s, uint64_t other_bytes_per_s)
{
    uint64_t slower = bytes_per_s;
    if (!slower || (other_bytes_per_s && other_bytes_per_s < slower))
        slower = other_bytes_per_s;
    uint64_t slice = slower / 200;
    if (!slower || slice > SLICE_MAX)
        slice = SLICE_MAX;
    return (size_t)(slice < SLICE_MIN ? SLICE_MIN : slice);
}
