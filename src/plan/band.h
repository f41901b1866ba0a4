/* Interruption bands that providers publish instead of lifetimes: "5-10%" of the machines of a type are taken in a
 * month. Pure functions. */
#ifndef LEAT_PLAN_BAND_H
#define LEAT_PLAN_BAND_H

#include "plan/csv.h"
#include "plan/revoke.h"

/* The shares between which a band lies: "<5%", "5-10%", ">20%". An open band ends at twice its beginning. */
bool leat_plan_band_parse(const char *text, double *lo, double *hi);

/* A constant hazard that takes the middle of the band in a month of 730 h, and a spread as wide as the band. */
leat_status leat_plan_band_set(const char *text, const char *what, struct leat_plan_revocation *out,
                               struct leat_error *err);

/* A CSV with a column `band`, and Amazon's spot-advisor-data.json (Linux), of which the types that `catalog` sells are
 * kept; NULL: all. Both add to `out`. */
leat_status leat_plan_bands_csv(const struct leat_plan_csv *csv, struct leat_plan_revocations *out,
                                struct leat_error *err);
leat_status leat_plan_bands_json(const char *name, const char *text, size_t n, const struct leat_plan_catalog *catalog,
                                 struct leat_plan_revocations *out, struct leat_error *err);

#define LEAT_PLAN_MONTH_H 730.0

#endif
