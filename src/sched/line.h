/* What a line carries, and how much must be on its way to keep it full: the greatest rate seen lately times the
 * shortest delay ever seen, several times over. The greatest and the shortest, because both suffer from our own doing:
 * a training that does not ask leaves the line idle, and a queue of our own requests lengthens the delay. On a line
 * that is full all the time the shortest delay seen lately is that of the queue, and an estimate made from it would
 * feed itself. So the shortest is forgotten only when the rate has fallen for good: then the line may be another one.
 * The factor lets the estimate grow while more in flight still brings more. */
#ifndef LEAT_SCHED_LINE_H
#define LEAT_SCHED_LINE_H

#include <stdint.h>

#define LEAT_SCHED_LINE_TIMES 16u

struct leat_sched_line {
    uint64_t began_ns;                     /* of the present half-second */
    uint64_t bytes;                        /* that came in it */
    uint64_t rate[LEAT_SCHED_LINE_TIMES];  /* bytes a second, by half-second */
    uint64_t delay[LEAT_SCHED_LINE_TIMES]; /* the shortest in it, ns; 0: nothing came */
    uint64_t least;                        /* delay, ns; 0: nothing came */
    uint64_t best;                         /* rate, since `least` was seen first */
    uint32_t anew;                         /* half-seconds in which `least` is still being found */
    uint32_t at;
    uint32_t arrivals;
};

/* A chunk has come that was sent for at began_ns. */
void leat_sched_line_arrived(struct leat_sched_line *line, uint64_t began_ns, uint64_t now_ns, uint64_t bytes);

/* Bytes that should be on their way; UINT64_MAX until enough has been seen. */
uint64_t leat_sched_line_depth(const struct leat_sched_line *line);

#endif
