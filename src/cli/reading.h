/* A reading: epochs of a dataset taken from a loader as a training would take them, and what came of it. What `leat
 * read` and `leat warm` share. */
#ifndef LEAT_CLI_READING_H
#define LEAT_CLI_READING_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/progress.h"
#include "cli/store_options.h"
#include "dataset/dataset.h"
#include "leat/loader.h"
#include "order/reach.h"
#include "ring/account.h"

/* Where the bucket is, as far as a loader's agent can be told. */
struct leat_reading_store {
    const char *endpoint_url;
    const char *region;
    const char *profile;
    bool no_sign_request;
};

#define LEAT_READING_STORE(at, field) ((at) + offsetof(struct leat_reading_store, field))
#define LEAT_READING_STORE_OPTIONS(at)                                                                                 \
    {"endpoint-url",                                                                                                   \
     0,                                                                                                                \
     LEAT_OPTION_STRING,                                                                                               \
     LEAT_READING_STORE(at, endpoint_url),                                                                             \
     "URL",                                                                                                            \
     NULL,                                                                                                             \
     "LEAT_ENDPOINT_URL",                                                                                              \
     "S3 endpoint (default: AWS_ENDPOINT_URL_S3, else AWS_ENDPOINT_URL, else the profile's, else AWS)"},               \
        {"region", 0,    LEAT_OPTION_STRING, LEAT_READING_STORE(at, region),                                           \
         "NAME",   NULL, "LEAT_REGION",      "S3 region (default: AWS_REGION, else the profile's)"},                   \
        {"profile",                                                                                                    \
         0,                                                                                                            \
         LEAT_OPTION_STRING,                                                                                           \
         LEAT_READING_STORE(at, profile),                                                                              \
         "NAME",                                                                                                       \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         "profile in ~/.aws (default: AWS_PROFILE, else 'default')"},                                                  \
    {                                                                                                                  \
        "no-sign-request", 0, LEAT_OPTION_FLAG, LEAT_READING_STORE(at, no_sign_request), NULL, NULL,                   \
            "LEAT_NO_SIGN_REQUEST", "do not sign requests, for public buckets"                                         \
    }

struct leat_reading_epoch {
    double seconds;
    uint64_t samples;
    struct leat_account account; /* of this epoch: sums since its beginning */
};

#define LEAT_READING_EPOCHS 64u /* that are told one by one; those after them only count in the whole */

#define LEAT_READING_LITTLE 32u /* tens of requests, and what is being read */

struct leat_reading {
    /* Given. The loader's options but for address and outputs; those are set here. */
    const char *url;
    struct leat_reading_store store;
    const char *field;    /* NULL: the first with bytes of its own */
    const char *pipeline; /* NULL: the field's bytes as they are; "": no field at all, only numbers */
    struct leat_loader_opts opts;
    bool little;         /* memory for LEAT_READING_LITTLE chunks at most, and batches of a few; whatever opts say */
    uint64_t epochs;     /* 0: until the time is over */
    uint64_t time_ns;    /* 0: until the epochs are over */
    uint64_t compute_ns; /* how long each batch is held, as a training step would */
    double line;         /* bytes a second that the bucket gives, for the line at the start; 0: not known */
    struct leat_cli_progress progress;
    /* Asked after each batch and each epoch, when the numbers are fresh: true ends the reading. May be NULL. */
    bool (*enough)(void *user, struct leat_reading *r);
    void *user;

    /* What the dataset and the agent are: from the opening on. */
    struct leat_dataset *dataset;
    struct leat_loader *loader;
    struct leat_reach_given reach;
    struct leat_account budget; /* of memory and disk, as the agent has them */
    uint64_t disk_before_bytes; /* in the cache on disk */
    char agent_scope[64];       /* "": somebody else's */

    /* What came of it. */
    struct leat_account before; /* what an agent that others use had counted when the loader was open */
    struct leat_account account;
    struct leat_reading_epoch epoch[LEAT_READING_EPOCHS];
    uint32_t epochs_n;  /* finished, or broken off by the time */
    bool interrupted;   /* Ctrl-C */
    uint64_t began_ns;  /* before the loader was made */
    double seconds;     /* from there to the last batch */
    double first_s;     /* to the first one */
    uint64_t delivered; /* bytes in batches */
    uint64_t agent_peak_bytes;
    uint64_t own_peak_bytes;
    uint64_t disk_peak_bytes;
    bool telling;             /* not to be stopped now */
    _Atomic uint64_t samples; /* also for the progress line's thread */
};

/* Opens dataset and loader; then what is reachable is known. */
leat_status leat_reading_open(struct leat_reading *r, struct leat_error *err);

/* Reads. Being interrupted is no error. */
leat_status leat_reading_run(struct leat_reading *r, struct leat_error *err);

/* Reads the agent's counters into r->account, as happens after every batch. */
leat_status leat_reading_look(struct leat_reading *r, struct leat_error *err);

/* Closes and frees it, also a half-open one, and gives the command's exit status: `status`, unless something is still
 * to be said against it. */
int leat_reading_end(struct leat_reading *r, int status);

#endif
