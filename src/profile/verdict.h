/* A report in words: what the step waits for, why, what to do, and the evidence. Pure. */
#ifndef LEAT_PROFILE_VERDICT_H
#define LEAT_PROFILE_VERDICT_H

#include "base/buf.h"
#include "plan/report.h"

#define LEAT_VERDICT_STEPS 20 /* fewer say nothing */

/* What the step waits for most. LEAT_REPORT_PARTS: there is too little data to say, or nothing to speak of. */
enum leat_report_part leat_verdict_cause(const struct leat_report *r);

/* The same ranks with batches from memory, by the GPU's clock; NULL: that was not measured, or long enough. Workers
 * that take all cores also slow the thread down that starts kernels, so that forward and backward passes look longer
 * than they are: this is what they take without that. */
const struct leat_report_run *leat_verdict_bare(const struct leat_report *r);

/* All of it, for a terminal. */
void leat_verdict(const struct leat_report *r, struct leat_buf *out);

/* Its parts: one line without its end; lines with "why", "what to do", who is late; and, beside these, what was
 * measured. */
void leat_verdict_headline(const struct leat_report *r, struct leat_buf *out);
void leat_verdict_reasons(const struct leat_report *r, struct leat_buf *out);

/* "18.1 ms"; "?" for what is not known. */
void leat_verdict_seconds(struct leat_buf *out, double s);

#endif
