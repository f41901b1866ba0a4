/* The time line of a report in the form that ui.perfetto.dev and chrome://tracing open: steps and what threads did in
 * them, one process a rank. As large as the report's own lists, and these are bounded. Pure. */
#ifndef LEAT_PROFILE_TRACE_H
#define LEAT_PROFILE_TRACE_H

#include "base/buf.h"
#include "plan/report.h"

/* LEAT_UNSUPPORTED: the report has no time line. */
leat_status leat_profile_trace(const struct leat_report *r, struct leat_buf *out, struct leat_error *err);

#endif
