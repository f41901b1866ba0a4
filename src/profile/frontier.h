/* Where the time of a step over all ranks goes. Ranks wait for each other, so a mean over them would hide the one that
 * all others wait for. At the end of each stage the last rank counts: the times between these ends add up to the step.
 * Pure. */
#ifndef LEAT_PROFILE_FRONTIER_H
#define LEAT_PROFILE_FRONTIER_H

#include "profile/step.h"

struct leat_frontier {
    double s[LEAT_STEP_STAGES];      /* what each stage adds, in seconds */
    unsigned rank[LEAT_STEP_STAGES]; /* index of the rank that was last there */
    double step_s;                   /* their sum: from the last one's beginning to the last one's end */
    /* By how much that rank made the others wait: its own work before communication, beyond the second-slowest's. */
    unsigned straggler;
    double late_s;
    double late_wait_s; /* of that, what it waited longer for its loader: who comes last there need not be slow */
};

/* The same step of `n` ranks, at least one. `one_clock`: they tell time by the same clock, so it is known who began
 * later. A rank that was slow at the end of one step makes the others wait in the next one's communication; counted
 * from the beginning of each rank's own step, that delay would be there twice. */
struct leat_frontier leat_frontier_of(const struct leat_step *ranks, size_t n, bool one_clock);

/* Ranks whose workers set the pace get their batches in turn, and always in the same one, though none is slower: a rank
 * is late by its own work, and by as much as its workers take longer for a batch than those of the next slowest.
 * `workers`: of its loader; without any the wait is its own work. */
double leat_frontier_late(double late_s, double late_wait_s, unsigned workers, double pace_s, double next_pace_s);

/* Whether a rank that was last in this share of the steps is so by more than its turn. */
bool leat_frontier_often(double late_of, size_t ranks);

#endif
