/* The agent's part of the account (ring/account.h): gathers what its modules count. Loop thread only. */
#ifndef LEAT_AGENT_ACCOUNT_H
#define LEAT_AGENT_ACCOUNT_H

#include <jansson.h>

#include "agent/loading.h"
#include "ring/account.h"

/* Of one loader, its dataset and the agent. */
void leat_loading_account(const struct leat_loading *l, struct leat_account *out);

/* Parts of it alone. A loader's has the rank's rows too where it shows them: true. */
bool leat_loading_account_own(const struct leat_loading *l, struct leat_account *out);
void leat_supply_account(const struct leat_supply *supply, struct leat_account *out);
void leat_blend_account(const struct leat_blend *blend, struct leat_account *out);
void leat_agent_account_own(const struct leat_agent *agent, struct leat_account *out);

/* The first as JSON, with a sentence about what the next batch waits for; the caller's. NULL: no memory. */
json_t *leat_loading_stats(const struct leat_loading *l);

/* What it shares with loaders that ask for the same: "samples", "pictures" or "nothing". */
const char *leat_loading_shares(const struct leat_loading *l);

/* Puts it where the rank finds it, in the ring's memory: before a batch is published, so that what the rank has taken
 * is in the account of an agent that is gone; else (`now` false) unless it was done a moment ago. */
void leat_loading_show(struct leat_loading *l, bool now);

/* Of all loaders and datasets of the agent together. */
void leat_agent_account(const struct leat_agent *agent, struct leat_account *out);

#endif
