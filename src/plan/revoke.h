/* Lifetimes of transient machines by accelerator or type and by region: from a table of points, from the lives of
 * machines that were watched, or from the bands that providers publish. Pure functions over text in memory. */
#ifndef LEAT_PLAN_REVOKE_H
#define LEAT_PLAN_REVOKE_H

#include "base/error.h"
#include "plan/catalog.h"
#include "plan/lifetime.h"
#include "plan/survival.h"

#define LEAT_PLAN_REVOCATION_FILES 32

struct leat_plan_revocation {
    char accelerator[32]; /* "": of a type */
    char type[48];        /* "": any type with the accelerator */
    char region[64];      /* "*": any */
    unsigned file;        /* into the names */
    unsigned line;        /* of its first point or machine; 0: of JSON */
    double spread;        /* standard deviation of the hazard's logarithm; 0: taken as exact */
    double events;        /* revocations that it stands on; NaN: not said */
    char basis[80];       /* "23 of 64 machines watched were taken"; "": points as given */
    struct leat_plan_lifetime lifetime;
};

struct leat_plan_revocations {
    char name[LEAT_PLAN_REVOCATION_FILES][200];
    unsigned files;
    struct leat_plan_revocation *row;
    size_t count;
};

/* Adds what one file says, which is one of these:
 *
 *  - points: CSV with the columns accelerator or type, region, age_h, probability, and perhaps `then` ("taken": a
 *    machine that reaches the last age is taken at it; "steady", as without the column: the last hazard goes on) and
 *    `events` (how many revocations are behind the points: then the interval knows);
 *  - machines: CSV with accelerator or type, region, start and end (or hours), and how: "taken", "stopped" by its owner
 *    or still "running" when last seen;
 *  - bands: CSV with accelerator or type, region and band ("<5%", "5-10%", ">20%" of a month);
 *  - Amazon's spot-advisor-data.json, its machines under Linux that `catalog` sells (NULL: all). */
leat_status leat_plan_revocations_read(const char *name, const char *text, size_t n,
                                       const struct leat_plan_catalog *catalog, struct leat_plan_revocations *out,
                                       struct leat_error *err);
void leat_plan_revocations_free(struct leat_plan_revocations *r);

/* The very type before its accelerator, the exact region before "*"; NULL: nothing is known. */
const struct leat_plan_revocation *leat_plan_revocations_find(const struct leat_plan_revocations *r, const char *type,
                                                              const char *accelerator, const char *region);

/* Whether anything is known about an accelerator or a type, in whatever region. */
bool leat_plan_revocations_know(const struct leat_plan_revocations *r, const char *type, const char *accelerator);

/* What was seen of a place's machines while a job ran changes what is believed of it: `taken` revocations where the
 * table foretold `expected`. The hazard is scaled by (events + taken) / (events + expected), with
 * LEAT_PLAN_EVENTS_UNSAID for a table that does not say how many it stands on. */
leat_status leat_plan_revocation_learn(struct leat_plan_revocation *r, double taken, double expected,
                                       struct leat_error *err);
#define LEAT_PLAN_EVENTS_UNSAID 10.0

/* For readers of a format: one more row; the same machines and place twice are refused. */
leat_status leat_plan_revocations_add(struct leat_plan_revocations *r, const struct leat_plan_revocation *row,
                                      struct leat_error *err);

/* More than a year: no transient machine lives that long, but a day in seconds would be ten of them. */
#define LEAT_PLAN_AGE_MAX_H 10000.0

#endif
