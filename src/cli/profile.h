/* The training script under `leat profile`: a process with the observer in front of it, and the folder between them. */
#ifndef LEAT_CLI_PROFILE_H
#define LEAT_CLI_PROFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "plan/report.h"

struct leat_profile_child {
    char folder[200]; /* private, in memory where there is such a place; "" when it is gone */
    int lock;         /* on the folder while this process lives, so that others can tell a left one */
    pid_t pid;
    int status; /* of waitpid, once `ended` */
    bool ended;
};

/* Makes the folder, removes those that killed profilers have left, and starts the command. `runs_s`: how long
 * differential runs may take; 0: none; `precision`: the share of a step to which differences are wanted. */
leat_status leat_profile_start(struct leat_profile_child *c, char **argv, double runs_s, double precision,
                               struct leat_error *err);

/* Waits up to this long for its end. Ctrl-C is the script's; signals to this process alone are passed on. */
void leat_profile_wait(struct leat_profile_child *c, uint64_t ns);

/* The exit status that the script's own shell would show: 128 and the signal's number where one ended it. */
int leat_profile_exit(const struct leat_profile_child *c);

/* Removes the folder. */
void leat_profile_end(struct leat_profile_child *c);

/* Writes a page and a trace of a report; NULL: not asked for. */
leat_status leat_profile_files(const struct leat_report *r, const char *html, const char *trace,
                               struct leat_error *err);

/* Whether this is a word of its own, and no script: `show`, `diff`. */
bool leat_profile_word(const char *word);
int leat_profile_run_word(int argc, char **argv, const char *html, const char *trace, bool json);

#endif
