/* What a byte costs that leaves the region where the data lies, by pair of regions. Pure functions over text in memory.
 */
#ifndef LEAT_PLAN_EGRESS_H
#define LEAT_PLAN_EGRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define LEAT_PLAN_EGRESS_FILES 32

struct leat_plan_egress_row {
    char from[96]; /* "us-east-1", "aws/us-east-1", "aws/" followed by a star, or a star alone */
    char to[96];
    double usd_per_gb;
    unsigned file;
    unsigned line;
};

struct leat_plan_egress {
    char name[LEAT_PLAN_EGRESS_FILES][200];
    unsigned files;
    struct leat_plan_egress_row *row;
    size_t count;
};

/* CSV with the columns from, to and usd_per_gb (10^9 bytes). The same pair twice is refused. Adds to `out`. */
leat_status leat_plan_egress_csv(const char *name, const char *text, size_t n, struct leat_plan_egress *out,
                                 struct leat_error *err);
void leat_plan_egress_free(struct leat_plan_egress *e);

/* A place as people name it: "us-east-1", or "aws/us-east-1". */
bool leat_plan_same_place(const char *name, const char *provider, const char *region);

/* The line for data in `from` and machines in `region`: the one that names the origin most closely, among those the
 * destination. Within one region only a line that names it twice counts: a star is for those that leave. NULL: none. */
const struct leat_plan_egress_row *leat_plan_egress_find(const struct leat_plan_egress *e, const char *from,
                                                         const char *provider, const char *region);

#endif
