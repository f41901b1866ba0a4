/* A simulated line to a bucket. Requests wait until the store's own controller (store/pace.h) lets them start, wait
 * for the bucket's answer, and then share the line evenly, none faster than a connection is. Urgent ones start first.
 *
 * All that flow have the same rate, so each is through when the bytes that one of them has got since some moment reach
 * its own: one sum a line instead of one a request. Were they all alike, requests that begin together would end
 * together, for ever; no real connections do. So each counts for some more or fewer bytes than it has, by a draw. */
#ifndef LEAT_SIM_WIRE_H
#define LEAT_SIM_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "store/pace.h"

struct leat_sim_part; /* a request */

struct leat_sim_parts {
    struct leat_sim_part *first, *last;
    uint32_t n;
};

struct leat_sim_wire {
    double rate;            /* bytes a second; constant */
    double connection_rate; /* constant */
    uint64_t latency_ns;    /* constant */
    double jitter;          /* how much more or less a request may count for, as a share; constant */
    uint64_t seed;          /* constant */
    uint64_t burst_ns;      /* what an idle line saves up, as a time at its rate; constant */
    double burst_rate;      /* … or at this one, where less than the line is its own; constant */
    double saved;           /* bytes: for those that begin to flow first */
    double share;           /* what others leave of a bucket that is shared, bytes a second */
    struct leat_pace pace;
    uint64_t now_ns;               /* up to which it was run */
    double sum;                    /* bytes that one flowing request has got */
    double told;                   /* bytes received that the controller has not been told yet: less than one */
    uint64_t tick_ns;              /* when the controller looks again although nothing has happened; 0: need not */
    struct leat_sim_parts queued;  /* urgent ones in front */
    struct leat_sim_parts waiting; /* for the first byte, in order of time */
    struct leat_sim_parts flowing; /* in order of their ends */
    uint64_t requests;             /* started since the beginning */
};

/* Rates of 0: no limit. connections 0: as many as the controller finds useful. Without jitter and burst: set
 * them before use. */
struct leat_sim_wire leat_sim_wire(double rate, double connection_rate, uint64_t latency_ns, uint32_t connections);
void leat_sim_wire_free(struct leat_sim_wire *w);

/* Sends for `bytes` in `ranges` requests; `what` comes back when the last of them is through. False: no memory. */
bool leat_sim_wire_add(struct leat_sim_wire *w, void *what, uint64_t bytes, uint32_t ranges, bool urgent,
                       uint64_t now_ns);

/* Runs the line up to a time, which must not be after leat_sim_wire_next_ns(). Returns one that has come by then, NULL
 * when there are no more: call until it does. */
void *leat_sim_wire_run(struct leat_sim_wire *w, uint64_t now_ns);

uint64_t leat_sim_wire_next_ns(const struct leat_sim_wire *w); /* UINT64_MAX: nothing to come */
void leat_sim_wire_share(struct leat_sim_wire *w, double share, uint64_t now_ns);

#endif
