/* What `leat top` shows of two looks at an agent: for a screen, as lines, as JSON. */
#ifndef LEAT_CLI_TOP_H
#define LEAT_CLI_TOP_H

#include <jansson.h>

#include "base/buf.h"

struct leat_top_agent {
    json_t *now;          /* what it says of itself; NULL: `problem` */
    const json_t *before; /* the same, earlier; NULL: there is no earlier look */
    double seconds;       /* between the two */
    const char *problem;  /* why it says nothing */
    const char *where;    /* its socket */
};

/* A screen of this many columns and rows, without the last line's end. */
void leat_top_screen(const struct leat_top_agent *agents, size_t n, size_t columns, size_t rows, struct leat_buf *b);

/* One line for each agent and loader, beginning with the time. */
void leat_top_lines(const struct leat_top_agent *agents, size_t n, const char *time, struct leat_buf *b);

/* Adds `seconds` and `per_second`, the growth of every sum, to the agent's own words and to each of its loaders. False:
 * no memory. */
bool leat_top_rates(const struct leat_top_agent *agent);

#endif
