/* A loader in the agent: opens, is scheduled, publishes batches in its ring, in order. Loop thread only, but for the
 * work it gives to others. */
#ifndef LEAT_AGENT_LOADING_H
#define LEAT_AGENT_LOADING_H

#include "agent/supply.h"

struct leat_loading;

/* `opened` is called later, once, with an error or with none: then descriptors and description may be asked for. A
 * request without a world is a look: nothing comes of it but the description. `failed` is called (once) when the loader
 * cannot go on; `memory` when a batch has memory of its own that the rank must be given before it is published. */
struct leat_loading_opts {
    struct leat_agent *agent;
    int pid;                    /* the rank's */
    struct leat_supply *supply; /* of a mixture: the first stream's */
    struct leat_blend *blend;   /* NULL: one dataset */
    void (*opened)(void *user, const struct leat_error *err);
    void (*failed)(void *user, const struct leat_error *err);
    leat_status (*memory)(void *user, uint32_t slot, int fd, struct leat_error *err);
    void *user;
};

/* The request is copied. What takes time is done on other threads: the order is opened, then chunks are sent for, then
 * the ring's memory is made. */
leat_status leat_loading_open(const struct leat_loading_opts *opts, const struct leat_request *request,
                              struct leat_loading **out, struct leat_error *err);

/* Nothing is published any more, nothing of `opts` called. Work that is under way keeps the loader's memory until it
 * ends. NULL is allowed. */
void leat_loading_close(struct leat_loading *l);

/* What the rank needs: descriptors (the loader's), and what the answer to its request says. */
void leat_loading_fds(const struct leat_loading *l, int fds[3]); /* ring, ready, release */
void leat_loading_describe(const struct leat_loading *l, struct leat_buf *b);

const char *leat_loading_agreement(const struct leat_loading *l); /* what all ranks must have in common, JSON */
bool leat_loading_reads(const struct leat_loading *l, const struct leat_supply *supply);
const char *leat_loading_asked_keys(const struct leat_loading *l, uint32_t n); /* of all its supplies: see there */
void leat_loading_take_keys(struct leat_loading *l, struct leat_part part);   /* the rank's answer: new keys, or none */
void leat_loading_explain(const struct leat_loading *l, char *out, size_t n); /* what the next batch waits for */

struct leat_loading *leat_loading_next(const struct leat_loading *l); /* of the same supply */

#endif
