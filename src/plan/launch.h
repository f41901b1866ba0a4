/* A chosen configuration as something that runs: a SkyPilot task, a Slurm batch script, a torchrun line. Pure
 * functions.
 */
#ifndef LEAT_PLAN_LAUNCH_H
#define LEAT_PLAN_LAUNCH_H

#include "plan/plan.h"

enum leat_plan_launcher { LEAT_PLAN_SKYPILOT, LEAT_PLAN_SBATCH, LEAT_PLAN_TORCHRUN };

/* "skypilot", "sbatch" or "torchrun". */
leat_status leat_plan_launcher_parse(const char *text, enum leat_plan_launcher *out, struct leat_error *err);
const char *leat_plan_launcher_name(enum leat_plan_launcher launcher);

/* `script` is what torchrun gets after its own options: "train.py --epochs 90"; NULL: train.py. In it
 * {checkpoint_seconds}, {checkpoint_steps}, {batch} and {accumulate} are filled in; the same values are in the
 * environment as LEAT_CHECKPOINT_SECONDS and so on. LEAT_UNSUPPORTED, with the reason, for what the launcher cannot
 * start. */
leat_status leat_plan_launch(const struct leat_plan *plan, const struct leat_plan_record *record,
                             enum leat_plan_launcher launcher, const char *script, struct leat_buf *out,
                             struct leat_error *err);

#endif
