/* The loops that all stores of a process share: a few threads, however many stores there are. */
#ifndef LEAT_STORE_LOOPS_H
#define LEAT_STORE_LOOPS_H

#include "net/loop.h"

#define LEAT_LOOPS_MAX 4u

/* The one with the fewest stores; a new one while there are fewer than LEAT_LOOPS_MAX and all are in use. From any
 * thread. */
leat_status leat_loops_take(struct leat_loop **out, struct leat_error *err);

/* Ends the loop with its last store. Not from a loop's thread. NULL is allowed. */
void leat_loops_give_back(struct leat_loop *loop);

#endif
