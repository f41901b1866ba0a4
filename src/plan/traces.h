/* Availability traces by accelerator, region and zone, from a table that names their files. Pure functions over text in
 * memory. */
#ifndef LEAT_PLAN_TRACES_H
#define LEAT_PLAN_TRACES_H

#include "plan/catalog.h"
#include "plan/trace.h"

/* A file's content. text NULL: not given. */
struct leat_plan_text {
    const char *name;
    const char *text;
    size_t n;
};

struct leat_plan_named_trace {
    char accelerator[32];
    char type[48];                      /* "": any type with the accelerator */
    char region[LEAT_PLAN_REGION_SIZE]; /* "*": any */
    char zone[LEAT_PLAN_ZONE_SIZE];     /* "": the whole region as one */
    char file[200];                     /* as the table names it */
    unsigned line;
    struct leat_plan_trace trace; /* count 0: not read yet */
};

struct leat_plan_traces {
    struct leat_plan_named_trace *row;
    size_t count;
};

/* CSV with the columns accelerator, region, file and perhaps zone and type. Refuses a second trace of the same place,
 * and one of a whole region beside those of its zones. */
leat_status leat_plan_traces_index(const char *name, const char *text, size_t n, struct leat_plan_traces *out,
                                   struct leat_error *err);

/* Reads the files that the table named, in its order. Traces of one region must have one gap. */
leat_status leat_plan_traces_read(struct leat_plan_traces *t, const struct leat_plan_text *files, size_t count,
                                  struct leat_error *err);
void leat_plan_traces_free(struct leat_plan_traces *t);

/* Adds the zones in which `nodes` machines of an offer may run, at its zones' prices and with `speed`: those traced for
 * its very type, else for its accelerator; of its very region, else for any. *name gets the first one's file. Traces
 * with other ticks than those that are there already are passed over. */
void leat_plan_traces_market(const struct leat_plan_traces *t, const struct leat_plan_catalog *catalog,
                             const struct leat_plan_offer *offer, unsigned nodes, double speed,
                             struct leat_plan_market *out, const char **name);

#define LEAT_PLAN_TRACES_MAX 1024

#endif
