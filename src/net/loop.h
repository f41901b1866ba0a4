/* An event loop on epoll with a thread of its own: sockets, timers and tasks posted from other threads.
 * Everything it calls, it calls on that thread, so what lives on a loop needs no locks. */
#ifndef LEAT_NET_LOOP_H
#define LEAT_NET_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/pool.h"

struct leat_loop;

/* Starts the thread. `name` is what ps shows. */
leat_status leat_loop_open(const char *name, struct leat_loop **out, struct leat_error *err);

/* Runs what was posted before, then ends and joins the thread. Not from the loop's own thread. Timers still
 * armed do not fire, descriptors still watched stay open. NULL is allowed. */
void leat_loop_close(struct leat_loop *loop);

bool leat_loop_inside(const struct leat_loop *loop); /* called on the loop's thread? */

/* Work from any thread, run once on the loop's thread in the order posted. */
void leat_loop_post(struct leat_loop *loop, struct leat_task *task);

/* Runs fn(arg) on the loop's thread and waits for it: microseconds, since nothing on a loop blocks. From any thread. */
void leat_loop_call(struct leat_loop *loop, void (*fn)(void *arg), void *arg);

/* A one-shot timer. Loop thread only. Arming takes no memory and cannot fail; arming an armed timer moves it. */
struct leat_timer {
    void (*fire)(struct leat_timer *timer);
    uint64_t at_ns;
    bool armed; /* the loop's, as the rest: its place in a pairing heap */
    struct leat_timer *child;
    struct leat_timer *next; /* sibling */
    struct leat_timer *prev; /* sibling, or the parent of a first child */
};
void leat_loop_arm(struct leat_loop *loop, struct leat_timer *timer, uint64_t at_ns);
void leat_loop_disarm(struct leat_loop *loop, struct leat_timer *timer);

/* A descriptor and what to wait for (EPOLLIN, EPOLLOUT). Loop thread only. Watching again changes the events. */
struct leat_watch {
    void (*ready)(struct leat_watch *watch, uint32_t events);
    int fd;
    bool on; /* the loop's */
};
leat_status leat_loop_watch(struct leat_loop *loop, struct leat_watch *watch, uint32_t events, struct leat_error *err);
void leat_loop_unwatch(struct leat_loop *loop, struct leat_watch *watch);

#endif
