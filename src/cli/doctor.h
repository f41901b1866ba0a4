/* leat doctor: what its checks share. A check looks at one thing and says what it found, whether that is good, and what
 * to do where it is not. Each runs on a thread of its own with a deadline, so that none can hang the command: one that
 * does not come back is left behind, and what it would still have said is dropped. */
#ifndef LEAT_CLI_DOCTOR_H
#define LEAT_CLI_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/dataset.h"
#include "cli/store_options.h"

enum leat_health {
    LEAT_HEALTH_OK,
    LEAT_HEALTH_NOTE,   /* worth knowing; works */
    LEAT_HEALTH_BAD,    /* must be mended: the exit status is 1 */
    LEAT_HEALTH_SKIPPED /* not looked at, and why */
};

struct leat_doctor_settings {
    struct leat_cli_store store;
    const char *cache_dir;
    const char *pipeline;
    uint64_t needs; /* samples per second; 0: not said */
    uint64_t time_ns;
    uint64_t bytes;
    bool json;
};

/* The case at hand. Checks run one after the other, and leave here what the next ones need. */
struct leat_doctor {
    const struct leat_doctor_settings *settings;
    const char *url;      /* NULL: the machine only */
    uint64_t deadline_ns; /* of the check that runs */
    bool ended;           /* there is no use in looking further at the bucket */
    double disk_rate;     /* bytes per second; 0: not measured */
    struct leat_home home;
    struct leat_dataset *dataset; /* NULL: none, or not opened yet */
    char *object;                 /* something small that can be read there, by its key; NULL: nothing found */
    void *chunk_data;             /* a chunk, for the decoder; NULL: none */
    struct leat_chunk chunk;
};

struct leat_findings; /* what the check that runs has said so far */

/* Says one thing. `name` and `advice` are copied too; advice "": none. */
void leat_findings_say(struct leat_findings *f, enum leat_health health, const char *name, const char *advice,
                       const char *format, ...) __attribute__((format(printf, 5, 6)));

/* A number of what was said last, for --json. The name says its unit. */
void leat_findings_number(struct leat_findings *f, const char *name, double value);

typedef void leat_doctor_check(struct leat_doctor *d, struct leat_findings *f);

/* The machine: doctor_machine.c, doctor_system.c. */
leat_doctor_check leat_doctor_version, leat_doctor_cores, leat_doctor_memory, leat_doctor_limits, leat_doctor_uring,
    leat_doctor_proxy, leat_doctor_gpu, leat_doctor_agent, leat_doctor_cache;

/* The bucket, in this order: doctor_bucket.c. */
leat_doctor_check leat_doctor_keys, leat_doctor_name, leat_doctor_endpoint, leat_doctor_latency;

/* The dataset, in this order: doctor_dataset.c. */
leat_doctor_check leat_doctor_dataset, leat_doctor_first_byte, leat_doctor_line, leat_doctor_decode;

/* How a store is asked: no patience beyond the check's deadline. */
leat_status leat_doctor_store_opts(struct leat_doctor *d, struct leat_store_opts *out, struct leat_error *err);

/* The median of n > 0 numbers, which are sorted by it. */
double leat_doctor_median(double *values, unsigned n);

/* Fetches a byte and says how long that took, in seconds. */
leat_status leat_doctor_time_byte(struct leat_store *store, const char *key, uint64_t offset, double *seconds,
                                  struct leat_error *err);

#endif
