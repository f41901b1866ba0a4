/* The files behind `leat whatif`: the question, what machines cost, and Leat's loader in the simulator. */
#ifndef LEAT_CLI_WHATIF_H
#define LEAT_CLI_WHATIF_H

#include "base/option.h"
#include "profile/whatif.h"

#define WHATIF_CURVE 11

struct whatif_settings {
    const char *cache;
    const char *storage_speed;
    uint64_t bandwidth;
    uint64_t sample_bytes;
    const char *gpu_speed;
    uint64_t cores;
    uint64_t workers;
    uint64_t gpus;
    uint64_t nodes;
    uint64_t network;
    const char *loader;
    double prep;
    double samples;
    uint64_t latency_ns;
    const char *price;
    struct leat_option_list catalogs;
    const char *type;
    bool json;
};

/* Dollars an hour of one machine. NaN: not asked for. */
struct whatif_prices {
    double now;
    double then;
    char source[2][120]; /* where each comes from */
};
leat_status leat_cli_whatif_prices(const struct whatif_settings *s, const struct leat_report *r,
                                   struct whatif_prices *out, struct leat_error *err);

/* What Leat's loader would make of the job: the measured sizes and costs in the simulator. `note` gets what was
 * assumed.
 */
#define WHATIF_NOTE 400
leat_status leat_cli_whatif_leat(const struct whatif_settings *s, const struct leat_report *r,
                                 const struct leat_whatif *what, struct leat_whatif_answer *out, char note[WHATIF_NOTE],
                                 struct leat_error *err);

#endif
