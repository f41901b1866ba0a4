/* What a rank says to its machine's agent about the job. */
#include <unistd.h>

#include "client/opening.h"

leat_status leat_loader_confer(struct leat_loader *l, const char *ask, char **answer, struct leat_error *err)
{
    if (l->turn.pid != getpid())
        l->wait = (struct leat_wait){0}; /* what a thread of the parent's was waiting for */
    leat_status rc = leat_turn_use(&l->turn, err);
    if (rc != LEAT_OK)
        return rc;
    rc = leat_opening_confer(l, ask, leat_patience_begin(l), answer, err);
    leat_turn_end(&l->turn);
    return rc;
}
