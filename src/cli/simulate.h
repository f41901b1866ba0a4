/* What the files of `leat simulate` share. */
#ifndef LEAT_CLI_SIMULATE_H
#define LEAT_CLI_SIMULATE_H

#include <jansson.h>

#include "sim/job.h"

/* One simulation: what was asked and what came out. */
struct leat_cli_simulation {
    struct leat_sim_job_opts opts;
    struct leat_sim_job_result result;
};

/* What is the same in all of them. */
struct leat_cli_simulated {
    const char *dataset; /* its address, or what it is made of */
    uint64_t samples;
    uint64_t bytes;
    uint64_t needed; /* memory of a node at the least */
};

void leat_cli_simulate_head(const struct leat_cli_simulated *s, const struct leat_sim_job_opts *o);
void leat_cli_simulate_table(const struct leat_cli_simulation *s);
json_t *leat_cli_simulate_json_head(const struct leat_cli_simulated *s, const struct leat_sim_job_opts *o);
json_t *leat_cli_simulate_json(const struct leat_cli_simulation *s);

#endif
