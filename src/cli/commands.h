/* All commands, in the order `leat help` shows them. */
#ifndef LEAT_CLI_COMMANDS_H
#define LEAT_CLI_COMMANDS_H

#include "base/option.h"

extern const struct leat_command leat_command_agent;
extern const struct leat_command leat_command_bench;
extern const struct leat_command leat_command_cache;
extern const struct leat_command leat_command_cat;
extern const struct leat_command leat_command_cp;
extern const struct leat_command leat_command_diff;
extern const struct leat_command leat_command_doctor;
extern const struct leat_command leat_command_gc;
extern const struct leat_command leat_command_help_command;
extern const struct leat_command leat_command_image;
extern const struct leat_command leat_command_index;
extern const struct leat_command leat_command_info;
extern const struct leat_command leat_command_job;
extern const struct leat_command leat_command_ls;
extern const struct leat_command leat_command_mount;
extern const struct leat_command leat_command_name;
extern const struct leat_command leat_command_order;
extern const struct leat_command leat_command_pack;
extern const struct leat_command leat_command_plan;
extern const struct leat_command leat_command_profile;
extern const struct leat_command leat_command_read;
extern const struct leat_command leat_command_rebuild;
extern const struct leat_command leat_command_rm;
extern const struct leat_command leat_command_select;
extern const struct leat_command leat_command_serve;
extern const struct leat_command leat_command_show;
extern const struct leat_command leat_command_simulate;
extern const struct leat_command leat_command_top;
extern const struct leat_command leat_command_trace;
extern const struct leat_command leat_command_unpack;
extern const struct leat_command leat_command_verify;
extern const struct leat_command leat_command_warm;
extern const struct leat_command leat_command_whatif;

/* NULL-terminated. */
const struct leat_command *const *leat_commands(void);
const struct leat_command *leat_command_find(const char *name);
int leat_command_unknown(const char *name); /* says so; the exit status */

#endif
