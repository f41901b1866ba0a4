/* Machines and their prices: SkyPilot's CSV as people have it, columns found by name. Pure functions. */
#ifndef LEAT_PLAN_CATALOG_H
#define LEAT_PLAN_CATALOG_H

#include <stddef.h>

#include "base/error.h"
#include "plan/notes.h"

struct leat_plan_offer {
    char type[48];
    char accelerator[32];
    unsigned gpus;
    double vcpus;           /* NaN: not given */
    double usd_per_hour[2]; /* on demand, transient; NaN: not offered */
    unsigned price_line[2]; /* where each stands: the cheapest zone of one need not be that of the other */
    char region[40];
    unsigned line;
};

struct leat_plan_catalog {
    char name[256];
    struct leat_plan_offer *offer; /* one a type and region: the cheapest zone of each */
    size_t count;
};

/* `date` ("2026-11-01"): when the prices were taken, unless the first line says "# date: …". `today` decides
 * whether to note that they are old (more than 90 days). Either may be NULL: unknown. */
leat_status leat_plan_catalog_parse(const char *name, const char *text, size_t n, const char *date, const char *today,
                                    struct leat_plan_catalog *out, struct leat_plan_notes *notes,
                                    struct leat_error *err);
void leat_plan_catalog_free(struct leat_plan_catalog *catalog);

/* Days from year 0 for "YYYY-MM-DD"; negative when there is no such day. */
long leat_plan_days(const char *date);

#define LEAT_PLAN_CATALOG_DAYS 90

#endif
