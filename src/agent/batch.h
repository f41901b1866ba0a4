/* The batches of a loader on their way from the order to the ring. Inside the agent; loop thread only, but for what
 * the workers write. */
#ifndef LEAT_AGENT_BATCH_H
#define LEAT_AGENT_BATCH_H

#include "agent/loading.h"
#include "agent/outputs.h"
#include "order/assign.h"
#include "order/batch.h"
#include "order/policy.h"
#include "order/reader.h"

enum leat_batch_state {
    LEAT_BATCH_UNPINNED, /* no room yet for all the chunks it needs next */
    LEAT_BATCH_FETCHING,
    LEAT_BATCH_WAITING, /* chunks are there, no slot is free */
    LEAT_BATCH_PREPARING,
    LEAT_BATCH_DONE
};

/* A stretch of a batch that one worker prepares. */
struct leat_batch_part {
    struct leat_work work; /* first member */
    struct leat_task task;
    struct leat_loading_batch *batch;
    uint32_t first, n;
    uint64_t cpu_ns; /* that it took */
};

/* A batch, planned and then prepared. Its chunks are needed all at once, unless they are more than the loader was
 * promised room for: then they come in groups, one after the other, and ragged values wait beside the slot until all
 * of them are known. */
struct leat_loading_batch {
    struct leat_loading *loading;
    struct leat_loading_batch *next;
    enum leat_batch_state state;
    bool end; /* of the epoch: no samples */
    uint64_t number;
    uint64_t epoch;
    uint64_t position; /* behind it */
    uint64_t augment_key;
    uint32_t n;                    /* places of this rank */
    struct leat_order_item *items; /* n of them */
    uint64_t *numbers;             /* of the samples in the dataset */
    bool *valid;
    struct leat_sample *samples; /* those of other groups have no chunk */
    struct leat_error *errors;   /* by place; NULL until it is prepared */
    uint32_t *chunks;            /* distinct, in ascending order */
    uint32_t chunks_n;
    uint32_t group;     /* first chunk of the group that is worked at */
    uint32_t group_end; /* and the first behind it */
    uint32_t pinned;    /* the first so many of the group */
    uint64_t chunks_ready_ns;
    bool has_slot;
    uint32_t slot;
    struct leat_slot_view view;
    struct {
        void *data; /* NULL: the slot is large enough */
        uint64_t bytes;
        int fd; /* until the rank was given it */
    } memory;
    struct leat_batch_part *parts;
    uint32_t parts_left;
    _Atomic uint32_t failed; /* places; relaxed: counted by workers, read after their tasks were posted */
};

struct leat_loading {
    struct leat_loading_opts opts;
    struct leat_loading *next; /* of the same supply */
    bool listed;
    bool closing;
    bool dead; /* an error was reported */

    uint32_t global_batch;
    uint32_t batch;       /* of this rank */
    uint32_t rank, world; /* world 0: a look */
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
    char *state;          /* at the opening, JSON */
    char *agreement;      /* JSON */
    uint64_t augment_key; /* of the epoch being planned */
    struct leat_order_world order_world;
    struct leat_order_assigner *assigner;
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

    uint64_t shown_ns; /* when the account was put into the ring */
    struct {
        uint64_t prep_cpu_ns;
        uint64_t skipped;
        uint64_t split; /* batches that took more than one group */
    } stats;
};

leat_status leat_loading_order(struct leat_loading *l, uint64_t epoch, struct leat_order **out, struct leat_error *err);
void leat_loading_free(struct leat_loading *l);

/* Plans the next batch behind the last one planned (plan.c). */
leat_status leat_loading_plan(struct leat_loading *l, struct leat_loading_batch **out, struct leat_error *err);
void leat_loading_batch_free(struct leat_loading_batch *b); /* pins must be given back; NULL is allowed */

/* The next group of its chunks: all the rest, if there is room for it. */
void leat_loading_batch_group(struct leat_loading_batch *b);

/* Plans, pins, prepares and publishes as far as possible now. */
leat_status leat_batches_step(struct leat_loading *l, struct leat_error *err);
void leat_batches_drop(struct leat_loading *l); /* those no work is under way for; the others follow when it ends */

/* Whether the very first batch still waits for most of its chunks: then nothing else is sent for. */
bool leat_batches_hurry(const struct leat_loading *l);
bool leat_batches_yield(struct leat_loading *l);
void leat_batches_explain(const struct leat_loading *l, char *out, size_t n); /* what the next batch waits for */

#endif
