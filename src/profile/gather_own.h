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

#define KEPT_STEPS 48 /* of each rank and mode, for a time line */

struct lane {
    struct leat_lane *lane; /* NULL: it could not be read */
    char name[64];
    struct leat_lane_head head;
    unsigned thread; /* of its rank: 0 for the rank's own, workers from 1 on */
    double cpu_s;    /* of its process when it was first and last asked, while there was training */
    double cpu_first_s;
};

/* Steps in a row of one mode; long rows are cut. */
struct block {
    uint8_t mode;
    size_t row; /* of the same mode, uncut */
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
    double late[LEAT_REPORT_RANKS];
    double samples;
    double bytes;
    double copied;
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
    struct kept_step *steps;
    size_t step_count;
    struct kept_span *spans;
    size_t span_count;
    struct leat_links links;
    size_t warm;
    double warm_s;
    uint64_t cpu_at_ns; /* when processor times were first and last asked; 0: not yet */
    uint64_t cpu_last_ns;
    bool crowded; /* more ranks, lanes or blocks than there is room for */
    char unread[200];
    char script[240]; /* what the observer itself has to say */
};

#endif
