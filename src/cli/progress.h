/* A progress line on the terminal, drawn by a thread of its own several times a second. Nothing is drawn when
 * standard error is not a terminal. */
#ifndef LEAT_CLI_PROGRESS_H
#define LEAT_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct leat_progress;

struct leat_progress_state {
    uint64_t done;  /* bytes */
    uint64_t total; /* 0: not known */
    uint64_t items; /* objects, samples, … finished */
    bool growing;   /* total is still rising: no percentage */
};

/* `look` is called on the progress thread. `noun` is what items are: "objects". NULL when nothing is to be drawn
 * (or cannot be): close accepts that. */
struct leat_progress *leat_progress_open(const char *noun, void (*look)(void *user, struct leat_progress_state *out),
                                         void *user);
void leat_progress_close(struct leat_progress *p); /* takes the line away */

#endif
