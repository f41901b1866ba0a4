/* A rate that many take from. Thread-safe. */
#ifndef LEAT_SERVE_PACE_H
#define LEAT_SERVE_PACE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct leat_serve_pace {
    uint64_t bytes_per_s; /* 0: no limit; constant */
    pthread_mutex_t mu;
    uint64_t free_ns; /* under mu: until then the line is taken */
};

void leat_serve_pace_init(struct leat_serve_pace *p, uint64_t bytes_per_s);
void leat_serve_pace_destroy(struct leat_serve_pace *p);

/* Books the next n bytes and says when the last of them has passed (monotonic). Who waits until then before
 * booking again gets his turn with all others, one slice each. */
uint64_t leat_serve_pace_take(struct leat_serve_pace *p, size_t n);

/* How much to take at a time: about 5 ms of the slower rate (0: no limit), so that many connections share evenly
 * and a waiting one wakes a few hundred times a second, not thousands. */
size_t leat_serve_pace_slice(uint64_t bytes_per_s, uint64_t other_bytes_per_s);

#endif
