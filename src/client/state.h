/* The state of a loader as the agent told it, with epoch and position to be filled in. The rest of the text stays as it
 * is: the agent may be of a later release and say more than this one understands.
 *
 * Never changes once made: the loader and its batches share it, on any thread. */
#ifndef LEAT_CLIENT_STATE_H
#define LEAT_CLIENT_STATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct leat_rank_state;

/* From the agent's text, whose own epoch and position are given back. The caller holds it once. */
leat_status leat_rank_state_make(const char *text, struct leat_rank_state **out, uint64_t *epoch, uint64_t *position,
                                 struct leat_error *err);
struct leat_rank_state *leat_rank_state_hold(struct leat_rank_state *s); /* returns it; NULL is allowed */
void leat_rank_state_drop(struct leat_rank_state *s);                    /* NULL is allowed */

/* Of a mixture: puts a member for each stream into `out`: units in an epoch of its own, epoch and position reached.
 * False: no memory. */
struct leat_blend_spec;
bool leat_rank_state_progress(const struct leat_rank_state *s, const struct leat_blend_spec *mix, uint64_t epoch,
                              uint64_t position, json_t *out);

/* JSON; the caller frees it. */
leat_status leat_rank_state_write(const struct leat_rank_state *s, uint64_t epoch, uint64_t position, char **out,
                                  struct leat_error *err);

#endif
