/* What the agent's files know of a loader. */
#ifndef LEAT_AGENT_INSIDE_H
#define LEAT_AGENT_INSIDE_H

#include "agent/batch.h"
#include "agent/loading.h"
#include "agent/outputs.h"
#include "agent/share.h"
#include "dataset/view.h"
#include "order/batch.h"
#include "order/mixture.h"
#include "sched/cursor.h"

/* A dataset that a loader reads, and how. */
struct leat_loading_stream {
    struct leat_supply *supply; /* the loader's, or its blend's */
    uint32_t first;             /* number of its first chunk, counted through all streams */
    char *name;                 /* of a mixture's; NULL: there is one */
    struct leat_view *view;
    struct leat_order_spec spec;
    struct leat_outputs outputs;
    struct leat_outputs *apart;         /* what loaders that share make for each other; NULL: nothing */
    uint8_t share_id[LEAT_SHA256_SIZE]; /* who asks for the same */
    struct leat_share_member *share;    /* NULL: it makes its own */
    bool by_picture; /* decoded pictures are shared, each applies its own draws to; else what is made of them */
};

struct leat_loading {
    struct leat_loading_opts opts;
    struct leat_loading *next;  /* of the same supply */
    struct leat_roll_entry who; /* number 0: a look */
    uint64_t sequence;          /* of all loaders that the agent has opened */
    struct leat_task task;      /* what is being done for the opening, on another thread */
    bool closing;
    bool dead;          /* an error was reported */
    bool computed;      /* the opening's thread is done with the constants below; the loop reads none of them before */
    uint32_t working;   /* tasks on other threads */
    uint32_t preparing; /* batches */
    struct leat_error opening_err;
    struct leat_request request; /* while it is being opened */

    /* Constant once they are computed. */
    uint32_t global_batch;
    uint32_t batch;       /* of this rank */
    uint32_t rank, world; /* world 0: a look */
    enum leat_order_last last;
    bool skip_errors;
    bool patient;     /* fill the cache on disk */
    bool shares;      /* samples with loaders that ask for the same */
    bool draws_apart; /* random operations are drawn from draw_seed, and not from the streams' */
    uint64_t draw_seed;
    uint32_t slots;
    uint64_t needed;          /* bytes of chunks for one batch … */
    uint64_t together;        /* … and for one global batch */
    uint64_t group;           /* the same for all ranks of a job, and for none else; 0: there is one rank */
    uint64_t live;            /* bytes of the chunks that are being read at any time, about */
    uint64_t epoch, position; /* where it begins */
    struct leat_loading_stream *streams;
    uint32_t streams_n;           /* 1, but for a mixture */
    struct leat_mixture *mixture; /* NULL: there is one stream, and epochs are its own */
    struct leat_mixture_part *parts;
    uint32_t parts_n;
    uint64_t epoch_units;
    uint8_t id[LEAT_SHA256_SIZE];       /* the version: the dataset's, or one of all a mixture's */
    char *state;                        /* at the opening, JSON */
    char *agreement;                    /* JSON */
    char notice[480];                   /* for the user; "": none */
    const struct leat_outputs *outputs; /* the first stream's, whose columns are all others' too */

    struct leat_job *job;       /* the machines that it shares chunks with, agent/peers.h; NULL: none */
    struct leat_circle *circle; /* the same where they come and go, agent/circle.h: `job` is its, and may change */
    struct leat_cursor *cursor;
    struct {
        struct leat_task task;
        bool busy;  /* on a maker's thread, which has the cursor meanwhile */
        bool there; /* plan, or err */
        struct leat_cursor_batch plan;
        struct leat_error err;
    } coming; /* the next batch: one that is slow to plan is not planned on the loop */
    struct leat_sched_lane *lane;

    struct leat_ring ring; /* without a head until its memory is there */
    struct leat_ring made; /* while it is being made, on another thread */
    int ready_fd;
    struct leat_watch released;
    uint64_t out; /* slots that the rank has, bit by bit: what the ring says of others does not count */
    uint32_t published;

    uint64_t waited_ns; /* until when the trace has its rank's waits */
    uint64_t shown_ns;  /* when the account was put into the ring */
    struct {
        uint64_t prep_cpu_ns;
        uint64_t prep_cost; /* units of cost that this was spent on */
        uint64_t skipped;
        uint64_t decoded;         /* samples that it had decoded */
        uint64_t taken;           /* … and that others had */
        uint64_t split;           /* batches that took more than one group */
        uint64_t epoch, position; /* after the batch that was published last */
    } stats;
};

/* The scheduler's actions, and what answers them. */
struct leat_sched_batch *leat_loading_plan(struct leat_loading *l); /* NULL: not yet, or never */
bool leat_loading_ahead(struct leat_loading *l, uint32_t *number, uint64_t *stage);
bool leat_loading_publish(struct leat_loading_batch *b);
void leat_loading_fail(struct leat_loading *l, const struct leat_error *err);
void leat_loading_prepared(struct leat_loading_batch *b);

/* What an opening computes, on a thread that may take its time (compute.c): everything above that is constant. */
leat_status leat_loading_compute(struct leat_loading *l, struct leat_error *err);
void leat_loading_close_streams(struct leat_loading *l);

#endif
