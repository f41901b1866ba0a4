/* A table of machines that were watched, one line each, and the lifetimes fitted to them. Pure functions. */
#ifndef LEAT_PLAN_LIVES_H
#define LEAT_PLAN_LIVES_H

#include "plan/csv.h"
#include "plan/revoke.h"

/* Whether the table has the columns of one: start or hours. */
bool leat_plan_lives_are(const struct leat_plan_csv *csv);

/* Fits every group of machines of one kind and region, wherever its lines stand, and adds it. */
leat_status leat_plan_lives_csv(const struct leat_plan_csv *csv, struct leat_plan_revocations *out,
                                struct leat_error *err);

/* What a row is about: accelerator, type, region and line, into `out`; the rest of it is left empty. */
leat_status leat_plan_lives_names(const struct leat_plan_csv *csv, size_t row, struct leat_plan_revocation *out,
                                  struct leat_error *err);

/* The fitted points as lines of a table that can be read again, and what they stand on as a comment. */
struct leat_buf;
void leat_plan_lives_write(const struct leat_plan_revocations *r, struct leat_buf *out);

#endif
