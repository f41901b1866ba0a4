/* The batches of all ranks of a simulated job. The order is read once for all of them: a global batch is made when the
 * first rank asks for it and kept until the last one has had it, and so are the orders of the epochs. */
#ifndef LEAT_SIM_DEAL_H
#define LEAT_SIM_DEAL_H

#include "order/assign.h"
#include "order/batch.h"
#include "order/order.h"

struct leat_sim_deal;

struct leat_sim_epoch {
    uint64_t number;
    uint64_t before; /* stages of the epochs before it */
    struct leat_order *order;
    uint32_t *own_first; /* nodes + 1 of them: where a node's begin in … */
    uint32_t *own_place; /* … the places of the chunk list, node by node */
    uint32_t lanes;      /* that have not left it */
};

/* A global batch, dealt. */
struct leat_sim_batch {
    uint64_t number;
    bool end;           /* of an epoch: no samples */
    uint64_t epoch;     /* it belongs to */
    uint64_t view;      /* the epoch in which one stands after it … */
    uint64_t stage;     /* … and the stage in it */
    uint64_t all_stage; /* the same, counted through all epochs */
    uint32_t taken;     /* samples of the order */
    uint32_t size;      /* … and with padding */
    uint32_t *first;    /* ranks + 1 of them: where a rank's chunks begin in … */
    uint32_t *chunks;   /* … distinct and ascending for each rank */

    uint32_t published; /* the job's: ranks that have it ready */
    uint64_t here_ns;   /* … when the last of them had its chunks */
    uint64_t ready_ns;  /* … when the last of them was prepared */
};

struct leat_sim_deal_opts {
    struct leat_order_spec spec;   /* its epoch does not matter: 0 is the first */
    struct leat_order_world world; /* borrowed */
    uint32_t global_batch;
    enum leat_order_last last;
    bool (*stop)(void *user); /* asked for each batch, which may be millions of samples. True: LEAT_CANCELLED */
    void *user;
};

leat_status leat_sim_deal_open(const struct leat_sim_deal_opts *opts, struct leat_sim_deal **out,
                               struct leat_error *err);
void leat_sim_deal_close(struct leat_sim_deal *d); /* NULL is allowed */

/* The batch of that number, not before any that was given back and at most the next after all made. Epoch follows
 * epoch without end. */
leat_status leat_sim_deal_batch(struct leat_sim_deal *d, uint64_t number, struct leat_sim_batch **out,
                                struct leat_error *err);
const struct leat_sim_batch *leat_sim_deal_made(const struct leat_sim_deal *d, uint64_t number); /* it is there */
void leat_sim_deal_give_back(struct leat_sim_deal *d);                                           /* the oldest */

/* The epoch of a batch's view and the one after it are there; NULL for others. */
struct leat_sim_epoch *leat_sim_deal_epoch(const struct leat_sim_deal *d, uint64_t number);
void leat_sim_deal_leave(struct leat_sim_deal *d, uint64_t number); /* one rank looks at it no more */

#endif
