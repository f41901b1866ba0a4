/* The trace: what the agent did in the last minutes, for a look afterwards. Every thread that does something has a ring
 * of events of its own, which it alone writes to, without locks; the oldest make room. Any thread may read all of them
 * meanwhile: an event that is being overwritten is left out.
 *
 * It is always on. An event is 40 bytes and some ten nanoseconds, of work that takes a hundred microseconds and more.
 */
#ifndef LEAT_AGENT_TRACE_H
#define LEAT_AGENT_TRACE_H

#include <stdint.h>

#include "agent/roll.h"
#include "base/buf.h"
#include "base/error.h"

enum leat_trace_kind {
    LEAT_TRACE_FETCH,   /* a chunk on its way: number, amount in bytes; of a dataset */
    LEAT_TRACE_CHECK,   /* a thread: of what has arrived */
    LEAT_TRACE_PREPARE, /* a thread: a part of a batch, amount in samples */
    LEAT_TRACE_BATCH,   /* from its chunks being there until it is published: number, amount in samples */
    LEAT_TRACE_WAIT,    /* a rank */
    LEAT_TRACE_KINDS
};

enum leat_trace_how {
    LEAT_TRACE_PLAIN,
    LEAT_TRACE_BUCKET, /* fetches … */
    LEAT_TRACE_DISK,
    LEAT_TRACE_PEER,
    LEAT_TRACE_FAILED, /* … that did not come, by source */
    LEAT_TRACE_LOST,
    LEAT_TRACE_CANCELLED,
    LEAT_TRACE_FOR_FETCH, /* waits */
    LEAT_TRACE_FOR_PREP,
    LEAT_TRACE_HOWS
};

struct leat_trace_event {
    enum leat_trace_kind kind;
    enum leat_trace_how how;
    uint32_t who; /* on the agent's roll; 0: nobody's */
    uint64_t number;
    uint64_t amount;
    uint64_t begin_ns, end_ns; /* monotonic clock */
};

struct leat_trace;
struct leat_trace_ring;

/* With rings for the loop and for this many worker threads. */
leat_status leat_trace_open(unsigned threads, struct leat_trace **out, struct leat_error *err);
void leat_trace_close(struct leat_trace *trace); /* NULL is allowed */

struct leat_trace_ring *leat_trace_loop(struct leat_trace *trace);
struct leat_trace_ring *leat_trace_worker(struct leat_trace *trace, unsigned i);

/* By the ring's own thread. NULL is allowed: nothing is kept. */
void leat_trace_add(struct leat_trace_ring *ring, const struct leat_trace_event *event);

/* What a trace is made of besides. */
struct leat_trace_view {
    uint64_t since_ns, now_ns; /* what has ended before is left out */
    int pid;                   /* the agent's */
    const char *scope;
    const char *version;
    const struct leat_roll *roll;
    const struct leat_trace_event *more; /* what has not ended yet */
    uint32_t more_n;
};

struct leat_trace_told {
    uint64_t events;
    uint64_t reach_ns; /* how far back the earliest begins */
};

/* As JSON in the trace event format, which Perfetto and Chrome open: sorted by time, and in each row one after the
 * other. From any thread. */
leat_status leat_trace_write(struct leat_trace *trace, const struct leat_trace_view *view, struct leat_buf *b,
                             struct leat_trace_told *told, struct leat_error *err);

#endif
