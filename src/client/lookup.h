/* Keys that an agent asks its rank for, looked up beside the thread that trains: the one that hands them out may take
 * seconds, and the old ones are good meanwhile. One thread for a loader, while there is something to look up. Inside
 * the client; called by the thread that has the loader's turn. */
#ifndef LEAT_CLIENT_LOOKUP_H
#define LEAT_CLIENT_LOOKUP_H

#include "base/error.h"

struct leat_loader;
struct leat_lookup;

/* The agent wants keys for a place (store/access.h). They are sent by leat_lookup_collect(), some time later. */
void leat_lookup_ask(struct leat_loader *l, const char *place);

/* Sends what was found since, and goes on with what else is asked for. Cheap where there is nothing. */
void leat_lookup_collect(struct leat_loader *l);

/* The agent that asked is gone: what is under way is given up, without waiting for it. */
void leat_lookup_drop(struct leat_loader *l);

/* Ends the thread, which takes a moment. In a forked child there is none. */
void leat_lookup_stop(struct leat_loader *l);

#endif
