/* A loader in the agent: plans batches off the order, sees to it that their chunks come, has them prepared and
 * publishes them in the ring, in order. Loop thread only, but for the work it gives to the workers. */
#ifndef LEAT_AGENT_LOADING_H
#define LEAT_AGENT_LOADING_H

#include "agent/supply.h"

struct leat_loading;

/* `request` is only read while opening. `opened` is called later, once, with an error or with none: then the ring is
 * there, and descriptors and description may be asked for. `failed` is called (once) when the loader cannot go on;
 * `memory` when a batch has memory of its own that the rank must be given before it is published. */
struct leat_loading_opts {
    struct leat_agent *agent;
    struct leat_supply *supply;
    const struct leat_request *request;
    void (*opened)(void *user, const struct leat_error *err);
    void (*failed)(void *user, const struct leat_error *err);
    leat_status (*memory)(void *user, uint32_t slot, int fd, struct leat_error *err);
    void *user;
};

/* Chunks may be sent for from here on, while the ring's memory is still being made. */
leat_status leat_loading_open(const struct leat_loading_opts *opts, struct leat_loading **out, struct leat_error *err);

/* Nothing is published any more, nothing of `opts` called. Work that is under way keeps the loader's memory until it
 * ends. NULL is allowed. */
void leat_loading_close(struct leat_loading *l);

/* What the rank needs: descriptors (the loader's), and what the answer to its request says. */
void leat_loading_fds(const struct leat_loading *l, int fds[3]); /* ring, ready, release */
void leat_loading_describe(const struct leat_loading *l, struct leat_buf *b);

/* Checks a request that has no world yet, and answers it: address, outputs and state are right. */
leat_status leat_loading_look(struct leat_supply *supply, const struct leat_request *request, struct leat_buf *answer,
                              struct leat_error *err);

const char *leat_loading_agreement(const struct leat_loading *l); /* what all ranks must have in common, JSON */
struct leat_supply *leat_loading_supply(const struct leat_loading *l);

void leat_loading_pump(struct leat_loading *l);

/* Gives up the pins of the batch planned last, if it only waits: another loader needs the room. True: it did. */
bool leat_loading_yield(struct leat_loading *l);

struct leat_loading *leat_loading_next(const struct leat_loading *l); /* of the same supply */
uint64_t leat_loading_next_use(const struct leat_loading *l, uint32_t chunk);

#endif
