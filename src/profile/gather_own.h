/* What a gather holds, for the file that takes records and the one that makes the report. Inside src/profile only. */
#ifndef LEAT_PROFILE_GATHER_OWN_H
#define LEAT_PROFILE_GATHER_OWN_H

#include "base/clock.h"
#include "profile/gather.h"
#include "profile/gather_rank.h"
#include "profile/links.h"

#define LANES_MAX   4096
#define BLOCKS_MAX  8192
#define BLOCK_STEPS 20
#define WARMUP      2              /* steps at the beginning: workers start, memory is allocated, kernels are chosen */
#define SETTLED_NS  (20 * LEAT_MS) /* a record is read when it is this old */

#define SCRIPT_NOTES 8

#define KEPT_STEPS 48 /* of each rank and mode, for a time line */

struct lane {
    struct leat_lane *lane; /* NULL: it could not be read */
    char name[64];
    struct leat_lane_head head;
    unsigned thread; /* of its rank: 0 for the rank's own, workers from 1 on */
    double cpu_s;    /* of its process when it was first and last asked, while there was training */
    double cpu_first_s;
    bool lived;       /* its thread was seen in /proc */
    uint64_t done_ns; /* since when it has ended and all is taken; 0: it has not */
};

/* Steps in a row of one mode; long rows are cut. */
struct block {
    uint8_t mode;
    uint8_t stretch; /* of an observed one */
    size_t row;      /* of the same mode, uncut */
    size_t steps;
    double step_s;
    double stage_s[LEAT_STEP_STAGES];
};

struct sums {
    double steps;
    double step_s;
    double stage_s[LEAT_STEP_STAGES];
    double wait_of[LEAT_REPORT_RANKS]; /* waiting that was on the frontier, by rank */
    double late_s[LEAT_REPORT_RANKS];
    double late_wait_s[LEAT_REPORT_RANKS];
    double late[LEAT_REPORT_RANKS];
    double batches; /* of the first loader of each step, and of all loaders */
    double taken;
    double samples;
    double bytes;
    double copied;
    double first; /* steps of these that were the first of an epoch, and what they waited */
    double first_wait_s;
    double handover_s; /* the shortest wait for a batch that was ready; 0: none was */
};

/* Observed steps are taken in rounds: as many as the loader has workers, which finish at about the same time, so that
 * one step waits and the others do not. An epoch begins with a round for which nothing was ready. What workers had
 * prepared while the training itself was starting is used up in the first epoch only, and tells nothing of those to
 * come. */
enum stretch {
    STRETCH_EARLY, /* first epoch, until a batch was not ready when it was asked for */
    STRETCH_HEAD,  /* the first round of each further epoch */
    STRETCH_BODY,
    STRETCHES
};

/* What is kept for a time line. */
struct kept_step {
    int rank;
    struct leat_step step;
};
struct kept_span {
    const struct gather_rank *rank;
    unsigned thread;
    uint8_t kind;
    uint64_t start_ns;
    uint64_t end_ns;
};

struct leat_gather {
    const char *folder;
    struct lane *lanes;
    size_t lane_count;
    struct gather_rank *rank[LEAT_REPORT_RANKS];
    size_t rank_count;
    struct block *blocks;
    size_t block_count;
    size_t row;
    struct sums mode[LEAT_REPORT_MODES];
    struct sums window;
    struct sums stretch[STRETCHES]; /* of mode[LEAT_REPORT_OBSERVED] */
    struct sums round;              /* not whole yet */
    enum stretch round_of;
    size_t epoch;    /* how many have begun */
    size_t in_epoch; /* steps of it */
    bool cut;        /* … of which some are not observed ones */
    bool settled;
    size_t early_n; /* steps of the first epoch so far, and what the last of them took and waited */
    double early_s;
    double early_wait_s;
    bool alone; /* the last step had no batch of a loader */
    bool saved; /* a checkpoint was written in it */
    struct kept_step *steps;
    size_t step_count;
    struct kept_span *spans;
    size_t span_count;
    struct leat_links links;
    size_t warm;
    double warm_s;
    double cpu_past_s;  /* of processes whose lanes are closed */
    uint64_t dropped;   /* of closed lanes */
    uint64_t cpu_at_ns; /* when processor times were first and last asked; 0: not yet */
    uint64_t cpu_last_ns;
    bool crowded; /* more ranks, lanes or blocks than there is room for */
    char unread[200];
    bool full;                      /* a thread had no room for a lane */
    char script[SCRIPT_NOTES][240]; /* what the observer itself has to say */
    size_t scripts;
};

/* Takes one step of the frontier as observed. `s` are its sums, `first` of an epoch, `empty` that a rank found no batch
 * ready, `place` how many of its epoch came before. */
void gather_observe(struct leat_gather *g, const struct sums *s, bool first, bool empty, size_t place);
/* A step that does not count, or is of another mode, lies between observed ones. */
void gather_observe_cut(struct leat_gather *g);

/* The observed steps as a training goes on with them: each round of an epoch by its share of it. Fewer steps than a
 * verdict needs where that is not known. */
struct sums gather_observed(const struct leat_gather *g, bool *early);

/* What a rank's loaders did, with all that a step takes as one batch: gradients may be accumulated over several. */
struct gather_loader gather_account(const struct gather_rank *rank, const struct sums *s, unsigned mode);

/* Workers of the loader that trains, at least 1. */
size_t gather_round(const struct leat_gather *g);
const struct gather_rank *gather_first_rank(const struct leat_gather *g);

void gather_add_block(struct leat_gather *g, uint8_t mode, enum stretch stretch, const struct sums *s);

#endif
