/* The batches of a loader on their way from the order to the ring. Inside the agent; loop thread only. */
#ifndef LEAT_AGENT_BATCH_H
#define LEAT_AGENT_BATCH_H

#include "agent/loading.h"
#include "agent/outputs.h"
#include "order/assign.h"
#include "order/batch.h"
#include "order/policy.h"
#include "order/reader.h"

struct leat_loading_batch;

struct leat_loading {
    struct leat_loading_opts opts;
    struct leat_loading *next; /* of the same supply */
    bool listed;
    bool closing;
    bool dead; /* an error was reported */

    uint32_t global_batch;
    uint32_t batch; /* of this rank */
    uint32_t rank, world, local_world;
    enum leat_order_last last;
    bool skip_errors;
    uint64_t chunk_bytes_max;
    uint64_t needed; /* bytes of the budget without which no batch can be made */

    struct leat_order_spec spec;
    struct leat_order *now;    /* of the epoch being planned */
    struct leat_order *coming; /* of the one behind it */
    struct leat_order_reader *reader;
    uint64_t epoch; /* where planning is */
    uint64_t position;
    uint64_t first_epoch, first_position;
    uint64_t augment_key; /* of the epoch being planned */
    struct leat_order_world order_world;
    uint32_t *node_of_rank;
    uint32_t *node_of_slot;
    struct leat_order_item *items; /* of a global batch */
    uint32_t *rank_of;
    uint32_t *upcoming;
    bool planned_since_prefetch;

    struct leat_outputs outputs;
    struct leat_ring ring; /* without a head until its memory is there */
    struct {
        struct leat_task task;
        struct leat_ring ring;
        struct leat_error err;
    } making; /* of the ring, on an opener's thread while it lasts */
    int ready_fd;
    struct leat_watch released;
    uint32_t slots;
    /* Our own view of the slots: what the ring says of one counts only while the rank has it. */
    enum { LEAT_OURS_FREE, LEAT_OURS_FILLING, LEAT_OURS_OUT } slot[LEAT_RING_SLOTS_MAX];
    uint32_t published;

    struct leat_loading_batch *first; /* planned, in order */
    struct leat_loading_batch *tail;
    uint32_t planned;
    uint64_t batches; /* planned since the opening */
    uint32_t working; /* tasks with the workers and the openers */

    uint64_t accounted_ns; /* beginning of the rank's wait that was accounted for last */
    struct {
        uint64_t wait_fetch_ns;
        uint64_t wait_prep_ns;
        uint64_t skipped;
    } stats;
};

leat_status leat_loading_order(struct leat_loading *l, uint64_t epoch, struct leat_order **out, struct leat_error *err);
void leat_loading_free(struct leat_loading *l);

/* Plans, pins, prepares and publishes as far as possible now. */
leat_status leat_batches_step(struct leat_loading *l, struct leat_error *err);
void leat_batches_drop(struct leat_loading *l); /* those no work is under way for; the others follow when it ends */

/* Whether the very first batch still waits for most of its chunks: then nothing else is sent for. */
bool leat_batches_hurry(const struct leat_loading *l);
bool leat_batches_yield(struct leat_loading *l);
void leat_batches_explain(const struct leat_loading *l, char *out, size_t n); /* what the next batch waits for */

#endif
