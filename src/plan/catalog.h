/* Machines and their prices: SkyPilot's CSV as people have it, columns found by name. Pure functions. */
#ifndef LEAT_PLAN_CATALOG_H
#define LEAT_PLAN_CATALOG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "plan/hardware.h"
#include "plan/notes.h"

#define LEAT_PLAN_CATALOGS_MAX 32
#define LEAT_PLAN_REGION_SIZE  64
#define LEAT_PLAN_ZONE_SIZE    40

/* Where a transient machine may stand, and its price there. */
struct leat_plan_zone {
    char name[LEAT_PLAN_ZONE_SIZE]; /* "": the catalog names none */
    double usd_per_hour;
    unsigned line;
};

/* One machine type in one place. */
struct leat_plan_offer {
    char provider[24]; /* "" with a single catalog */
    char type[48];
    char accelerator[32];
    unsigned gpus;
    double vcpus; /* NaN: not given, here and below */
    double memory_bytes;
    double gpu_memory_bytes;            /* of one GPU */
    double usd_per_hour[2];             /* on demand, transient in its cheapest zone; NaN: not offered */
    char zone[2][LEAT_PLAN_ZONE_SIZE];  /* of either price */
    unsigned price_line[2];             /* where each stands: the cheapest zone of one need not be that of the other */
    unsigned host_line;                 /* where the host is priced apart from its accelerators; 0: it is not */
    char region[LEAT_PLAN_REGION_SIZE]; /* a Local Zone has its own: "us-west-2/lax1"; "-": the catalog names none */
    size_t first_zone;                  /* into the catalog's zones: every one with a transient price */
    size_t zone_count;
    unsigned file; /* into the catalog's names */
    unsigned line;
    /* From the hardware table, where it knows them. */
    double link_bytes_per_s;
    double network_bytes_per_s;
    double disk_bytes;
    char link_source[64];
    char machine_source[64];
    struct leat_plan_accelerator chip; /* NaN where not known */
};

struct leat_plan_catalog {
    char name[LEAT_PLAN_CATALOGS_MAX][200];
    unsigned files;
    struct leat_plan_offer *offer; /* one a provider, type and place */
    size_t count;
    struct leat_plan_zone *zone;
};

struct leat_plan_catalog_file {
    const char *name;
    const char *text;
    size_t n;
    const char
        *date; /* "2026-11-01": when the prices were taken, unless the first line says "# date: …"; NULL: unknown */
};

/* Reads several catalogs into one. A row that cannot be used costs a row: each kind of flaw is noted with its first
 * line and how many there are. `today` decides whether to note that prices are old; NULL: unknown. */
leat_status leat_plan_catalog_parse(const struct leat_plan_catalog_file *files, size_t count,
                                    const struct leat_plan_hardware *hardware, const char *today,
                                    struct leat_plan_catalog *out, struct leat_plan_notes *notes,
                                    struct leat_error *err);
void leat_plan_catalog_free(struct leat_plan_catalog *catalog);

/* Days from year 0 for "YYYY-MM-DD"; negative when there is no such day. */
long leat_plan_days(const char *date);

/* "2026-11-01T09:30:00Z", with a blank for the T and an offset for the Z, or plain seconds; false: neither. Counts
 * seconds from some day on: only differences mean something. */
bool leat_plan_moment(const char *text, double *out);

#define LEAT_PLAN_CATALOG_DAYS 90

#endif
