/* What is unusual in an account, in words, with what to do: said when it begins, and after that at growing intervals,
 * 10, 20, 40 … minutes. Ten seconds are looked at as a whole, so that a single retry or a slow moment is not news.
 *
 * Arithmetic only: the one that calls brings the clock and passes the words on, the agent to its log, a rank to its
 * program. One thread at a time. */
#ifndef LEAT_RING_UNUSUAL_H
#define LEAT_RING_UNUSUAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "ring/account.h"

#define LEAT_UNUSUAL_WINDOW (10 * LEAT_S)

enum leat_unusual_kind {
    LEAT_UNUSUAL_THROTTLED, /* the bucket asks to slow down */
    LEAT_UNUSUAL_RETRIES,
    LEAT_UNUSUAL_FETCH,  /* the rank waits for data … */
    LEAT_UNUSUAL_PREP,   /* … or for samples to be made of them */
    LEAT_UNUSUAL_MEMORY, /* the cgroup's limit is close */
    LEAT_UNUSUAL_DISK,   /* the cache on disk is slower than the bucket */
    LEAT_UNUSUAL_KINDS
};

/* What only the agent knows of. Sums, but for the memory. */
struct leat_unusual_machine {
    uint64_t memory_used; /* bytes; 0: not known */
    uint64_t memory_limit;
    uint64_t disk_chunks; /* read from the cache on disk … */
    uint64_t disk_ns;     /* … and how long they took, each by itself */
    uint64_t bucket_chunks;
    uint64_t bucket_ns;
};

/* Zeroed before the first look. */
struct leat_unusual {
    uint64_t began_ns; /* of this window; 0: none yet */
    uint32_t windows;  /* that are over */
    struct leat_account before;
    struct leat_unusual_machine machine_before;
    struct {
        uint64_t next_ns; /* before that it is not said again */
        uint64_t pause_ns;
    } said[LEAT_UNUSUAL_KINDS];
};

/* Whether a window is over: look() does nothing before. */
bool leat_unusual_due(const struct leat_unusual *u, uint64_t now_ns);

/* `say` is called for each kind that is news. machine: NULL for a rank. */
void leat_unusual_look(struct leat_unusual *u, const struct leat_account *now,
                       const struct leat_unusual_machine *machine, uint64_t now_ns,
                       void (*say)(void *user, const char *text), void *user);

#endif
