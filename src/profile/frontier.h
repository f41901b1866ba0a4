/* Where the time of a step over all ranks goes. Ranks wait for each other, so a mean over them would hide the one that
 * all others wait for. At the end of each stage the farthest rank counts: the increments of the largest cumulative
 * time add up to the step. Pure. */
#ifndef LEAT_PROFILE_FRONTIER_H
#define LEAT_PROFILE_FRONTIER_H

#include "profile/step.h"

struct leat_frontier {
    double s[LEAT_STEP_STAGES];      /* what each stage adds, in seconds */
    unsigned rank[LEAT_STEP_STAGES]; /* index of the rank that was last there */
    double step_s;                   /* their sum: the longest rank's step */
    /* By how much that rank made the others wait: its own work before communication, beyond the second-slowest's. */
    unsigned straggler;
    double late_s;
};

/* The same step of `n` ranks, at least one. */
struct leat_frontier leat_frontier_of(const struct leat_step *ranks, size_t n);

#endif
