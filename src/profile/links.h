/* Links between ranks: all-reduces that were measured beside a training, and what they make of its exchange of
 * gradients. Pure functions over a report. */
#ifndef LEAT_PROFILE_LINKS_H
#define LEAT_PROFILE_LINKS_H

#include "plan/report.h"
#include "plan/scale.h"
#include "profile/lane.h"

/* What was measured so far; one row for each scope, group and size. */
struct leat_links {
    struct {
        uint64_t key;
        double bytes;
        double s[32]; /* the first ones of all ranks */
        size_t n;
    } row[LEAT_REPORT_LINKS];
    size_t rows;
};

void leat_links_add(struct leat_links *links, const struct leat_lane_record *r);
void leat_links_report(const struct leat_links *links, struct leat_report *out);

/* Bandwidth and latency of one hop of a ring, by a line through the sizes of this scope ("machine", "network"). False:
 * fewer than two sizes were measured. `spread`: the standard deviation of the relative error. */
bool leat_links_fit(const struct leat_report *r, const char *scope, struct leat_plan_link *out, double *spread);

/* What the exchange of gradients adds to a step on nodes × gpus ranks beyond computing alone, with an interval:
 * buckets leave while the backward pass runs. LEAT_UNSUPPORTED: what is missing. */
leat_status leat_links_exposed(const struct leat_report *r, unsigned gpus, unsigned nodes, struct leat_report_time *out,
                               struct leat_error *err);

#endif
