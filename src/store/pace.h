/* How many requests to have in flight: a pure controller, fed with what happens and the time it happens.
 *
 * Doubles while that raises the throughput, then holds a little above the knee and tries a quarter more now and
 * then. Answers that ask to slow down halve it, at most once a second, when they are more than stray ones: a few
 * per cent of 503 are retried and change nothing, a burst does. The level at which that happened is approached
 * again in small steps. */
#ifndef LEAT_STORE_PACE_H
#define LEAT_STORE_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define LEAT_PACE_START 8u
#define LEAT_PACE_MAX   256u

#define LEAT_PACE_HURRY       32u  /* urgent requests to have in flight together from the start … */
#define LEAT_PACE_HURRY_SMALL 128u /* … and at most, of small ones */

struct leat_pace {
    uint32_t limit; /* requests allowed in flight now */
    uint32_t max;
    bool fixed;
    enum leat_pace_phase { LEAT_PACE_CLIMB, LEAT_PACE_HOLD, LEAT_PACE_PROBE } phase;
    uint32_t before;   /* the limit before the running climb or probe */
    double rate;       /* bytes a second at `before` */
    uint64_t since_ns; /* the running interval; 0: none yet */
    uint64_t until_ns;
    uint64_t bytes; /* in the running interval */
    bool starved;   /* in the running interval fewer requests were wanted than allowed */
    uint64_t last_cut_ns;
    uint32_t ceiling;          /* the limit at the last cut … */
    uint64_t ceiling_until_ns; /* … and how long it is remembered */
    uint64_t outcomes;         /* the last 64 answers, one bit each: 1 throttled */
    uint32_t outcomes_n;
};

struct leat_pace leat_pace(uint32_t fixed); /* 0: adapts */

/* Somebody waits for as many requests as this: climbs on from there, unless the other side has ever asked to slow down.
 */
void leat_pace_hurry(struct leat_pace *p, uint32_t requests, uint64_t now_ns);

/* How many urgent requests of a length to have in flight together: as many as have the bytes of LEAT_PACE_HURRY
 * requests of 1 MiB. Small objects spend their time on the way and not on the line. What is smaller still is a table of
 * ours, of which there are few. length 0: not known. */
uint32_t leat_pace_together(uint64_t length);

void leat_pace_received(struct leat_pace *p, uint64_t bytes);
/* Of n answers, whether so many that ask to slow down are more than stray ones. */
bool leat_pace_is_burst(uint32_t throttled, uint32_t n);

/* Halves what is in flight. */
void leat_pace_cut(struct leat_pace *p, uint32_t in_flight, uint64_t now_ns);

void leat_pace_answered(struct leat_pace *p, bool throttled, uint64_t now_ns);

/* Called now and then (at least at every start and end of a request); `waiting` says whether more requests wait
 * than are allowed. Returns the limit. */
uint32_t leat_pace_update(struct leat_pace *p, bool waiting, uint64_t now_ns);

#endif
