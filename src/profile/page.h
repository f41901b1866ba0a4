/* A report as one HTML page: the verdict, where a step goes, stalls with their intervals, the steps of each rank on a
 * time line, and what would change them. Inline SVG, no script, nothing fetched; whatever comes from the report is
 * escaped. Pure. */
#ifndef LEAT_PROFILE_PAGE_H
#define LEAT_PROFILE_PAGE_H

#include "base/buf.h"
#include "plan/report.h"

void leat_page(const struct leat_report *r, struct leat_buf *out);

/* A chart of lines with bands around them, used by the page. `x` is logarithmic where it spans more than tenfold. */
struct leat_page_point {
    double x;
    struct leat_report_time y;
};
void leat_page_curve(struct leat_buf *out, const char *name, const char *x_unit, const struct leat_page_point *points,
                     size_t n, double now_x);

#endif
