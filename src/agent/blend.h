/* The supplies of a mixture, whose chunks are one set for the scheduler: those of the first stream, then those of the
 * second, and so on. Loaders of the same mixture share it, as ranks do. All on the agent's loop. */
#ifndef LEAT_AGENT_BLEND_H
#define LEAT_AGENT_BLEND_H

#include "agent/supply.h"
#include "base/hash.h"
#include "ring/blend.h"

struct leat_blend {
    struct leat_from from; /* what the scheduler knows the set by */
    struct leat_agent *agent;
    struct leat_blend *next;    /* of the agent */
    struct leat_roll_entry who; /* "mixture of a, b" */
    uint32_t users;
    uint32_t n;
    struct leat_supply *supplies[LEAT_BLEND_STREAMS_MAX];
    uint32_t first[LEAT_BLEND_STREAMS_MAX]; /* number of each one's first chunk */
    uint8_t *identities;                    /* dataset/identity.h */
    uint32_t *sizes;
    struct leat_sched_set_opts chunks;
    struct leat_sched_set *set;
    struct leat_task task; /* to be freed by a maker: names of millions of chunks are many pages */
};

struct leat_blending; /* one on its way */

typedef void leat_blend_opened(void *user, struct leat_blend *blend, const struct leat_sources_list *lacks,
                               const struct leat_error *err);

/* Opens all streams of the mixture that the request names, in the versions that `ids` says (LEAT_SHA256_SIZE bytes
 * each, or NULL: what their addresses name now). `opened` is called later, with a blend (hold it) or an error. */
leat_status leat_blend_open(struct leat_agent *agent, const struct leat_request *request, const uint8_t *ids,
                            leat_blend_opened *opened, void *user, struct leat_blending **out, struct leat_error *err);
void leat_blend_abandon(struct leat_blending *w); /* `opened` will not be called */

void leat_blend_hold(struct leat_blend *b);
void leat_blend_release(struct leat_blend *b);

/* The version of a mixture: a digest of its streams' content ids, n of them one after the other. */
void leat_blend_id(const uint8_t *ids, uint32_t n, uint8_t out[LEAT_SHA256_SIZE]);

/* Which supply has a chunk, and its number there. */
struct leat_supply *leat_blend_supply(const struct leat_blend *b, uint32_t number, uint32_t *own);

#endif
