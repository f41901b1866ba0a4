/* Deletes many objects of a store, many at a time. */
#ifndef LEAT_CLI_DELETES_H
#define LEAT_CLI_DELETES_H

#include <stdint.h>

#include "base/error.h"
#include "store/wait.h"

struct leat_cli_deletes {
    const char *url;          /* as it was given: for messages */
    struct leat_store *store; /* set before the first; closed before the end, with whatever is on its way */
    struct leat_wait wait;
    uint64_t deleted;      /* hold wait.mu */
    struct leat_error err; /* hold wait.mu: the first failure */
};

void leat_cli_deletes_init(struct leat_cli_deletes *d); /* of one that is zero but for url and store */
void leat_cli_deletes_end(struct leat_cli_deletes *d);

/* Sends one on its way; waits while there are many. The first failure of any of them is returned by those that follow,
 * and by wait, which waits for all. */
leat_status leat_cli_delete(struct leat_cli_deletes *d, const char *key, struct leat_error *err);
leat_status leat_cli_deletes_wait(struct leat_cli_deletes *d, struct leat_error *err);

#endif
