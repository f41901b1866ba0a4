/* How far a long command has come, on standard error, told by a thread of its own. On a terminal it is one line that is
 * drawn again several times a second. Elsewhere nothing is said, unless --progress or LEAT_PROGRESS asks for a line now
 * and then, for the log of a job. Every command that may take long has the same two options. */
#ifndef LEAT_CLI_PROGRESS_H
#define LEAT_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/option.h"

/* What the options say: part of a command's settings. */
struct leat_cli_progress {
    bool quiet;
    uint64_t every_ns; /* between lines where there is no terminal; 0: none */
};

/* Rows of an option table; `at` is the offset of a struct leat_cli_progress in the settings. A command whose --quiet
 * means more has a row of its own for that. */
#define LEAT_PROGRESS_OPTION(at)                                                                                       \
    {                                                                                                                  \
        "progress", 0, LEAT_OPTION_DURATION, (at) + offsetof(struct leat_cli_progress, every_ns), "TIME", NULL,        \
            "LEAT_PROGRESS", "where standard error is not a terminal, say how far it is this often, as in 30s"         \
    }
#define LEAT_PROGRESS_OPTIONS(at)                                                                                      \
    {                                                                                                                  \
        "quiet", 'q',  LEAT_OPTION_FLAG, (at) + offsetof(struct leat_cli_progress, quiet), NULL,                       \
        NULL,    NULL, "no progress"},                                                                                 \
        LEAT_PROGRESS_OPTION(at)

struct leat_progress;

struct leat_progress_state {
    uint64_t done;  /* bytes */
    uint64_t total; /* 0: not known */
    uint64_t items; /* objects, samples, … finished */
    bool growing;   /* total is still rising: no percentage */
    bool counted;   /* done and total are items, not bytes */
};

/* `look` is called on the progress thread. `noun` is what items are: "objects". NULL when nothing is to be told or
 * nothing can be drawn; close accepts that. */
struct leat_progress *leat_progress_open(const struct leat_cli_progress *how, const char *noun,
                                         void (*look)(void *user, struct leat_progress_state *out), void *user);
void leat_progress_close(struct leat_progress *p); /* takes the terminal's line away */

#endif
