/* Gathers what the processes of one job leave in a folder of lanes, and makes accounts of it: steps of each rank, their
 * frontier over all ranks, what the loaders' workers did. One thread uses it. */
#ifndef LEAT_PROFILE_GATHER_H
#define LEAT_PROFILE_GATHER_H

#include "plan/report.h"
#include "profile/frontier.h"

struct leat_gather;

/* `folder` must stay until close. */
leat_status leat_gather_open(const char *folder, struct leat_gather **out, struct leat_error *err);
void leat_gather_close(struct leat_gather *g); /* NULL is allowed */

/* Takes what is new. `all`: the job has ended, nothing more will come, and ranks that are missing are not waited for.
 * A lane that cannot be read is left out and noted. */
leat_status leat_gather_poll(struct leat_gather *g, bool all, struct leat_error *err);

/* Fills in runs, stalls, ranks and notes, from all that was taken so far. */
void leat_gather_report(const struct leat_gather *g, struct leat_report *out);

/* What happened since the last call, over all ranks. */
struct leat_gather_window {
    size_t steps;
    unsigned ranks;
    double step_s;
    double part_s[LEAT_REPORT_PARTS];
    int late_rank;  /* -1: none stands out */
    double late_s;  /* by how much the others waited for it, a step in the mean */
    double late_of; /* share of the steps */
};
struct leat_gather_window leat_gather_since(struct leat_gather *g);

#endif
