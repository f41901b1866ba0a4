/* Prepared samples that loaders of one agent take from each other: jobs of one machine that read the same data in the
 * same order with the same pipelines and draws decode each sample once. Those with draws of their own share decoded
 * pictures instead. What the bytes are is the caller's affair.
 *
 * Loaders that ask for the same thing are *members* of a group. Who comes first to a sample makes it, in memory of
 * the agent's that no rank can write to, and everybody copies it from there into a slot of its own ring. Nobody waits
 * for anybody's training: what a member has no use for, because it was there first, or lags, or has stopped, or because
 * there is no room, each of them makes for itself, as it would alone. The bytes are the same either way.
 *
 * What there is room for is shared out by use: a sample that more members still wait for is worth more, and among
 * equals the one that was there first stays. So one that has fallen behind does not cost the others theirs, and finds
 * the next of its own there, which lets it catch up. No sample stays longer than LEAT_SHARE_KEEP_NS.
 *
 * Any thread, but for opening and closing. */
#ifndef LEAT_AGENT_SHARE_H
#define LEAT_AGENT_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"

#define LEAT_SHARE_KEEP_NS (30 * LEAT_S)
#define LEAT_SHARE_LEAST   16u /* bytes of a sample */

struct leat_share;
struct leat_share_member;

leat_status leat_share_open(uint64_t bytes_max, struct leat_share **out, struct leat_error *err);
void leat_share_close(struct leat_share *share); /* all members have been freed; NULL is allowed */

struct leat_share_opts {
    uint8_t id[LEAT_SHA256_SIZE]; /* members with the same one get the same bytes for the same sample */
    uint64_t bytes;               /* of a sample; about, where they differ */
    uint64_t place;               /* in the order, where it begins */
    uint64_t first; /* this many samples are kept though nobody waits for them: others may be starting too */
};

/* LEAT_NO_MEMORY, or LEAT_LIMIT when the group has as many members as it can: the loader goes on alone. */
leat_status leat_share_join(struct leat_share *share, const struct leat_share_opts *opts,
                            struct leat_share_member **out, struct leat_error *err);
/* It wants nothing any more: what only it waited for goes. It may still ask, and is always told to make its own. */
void leat_share_quit(struct leat_share_member *member); /* NULL is allowed */
void leat_share_free(struct leat_share_member *member); /* when nothing of it is held any more; NULL is allowed */

/* How often it was so far behind that nothing was made for it any more. NULL is allowed. */
uint64_t leat_share_left(const struct leat_share_member *member);

/* It has all batches that end at `place` or before, counted in samples of the rank through all epochs. */
void leat_share_reach(struct leat_share_member *member, uint64_t place);

enum leat_share_turn {
    LEAT_SHARE_OWN,  /* make it without: nobody wants it, or there is no room */
    LEAT_SHARE_MAKE, /* make it here; leat_share_made() follows, then copy it and let go */
    LEAT_SHARE_TAKE, /* it is here: copy it and let go */
    LEAT_SHARE_LATER /* another thread is making it: do something else, then ask leat_share_wait() */
};

struct leat_shared; /* a sample; held from begin() to let_go() */
/* `bytes` are those of this sample: at least LEAT_SHARE_LEAST, and the same for all who ask. *out is set unless OWN. */
enum leat_share_turn leat_share_begin(struct leat_share_member *member, uint64_t epoch, uint64_t number, uint64_t place,
                                      uint64_t bytes, struct leat_shared **out);
/* Whether it is here now: what is left to do is a copy. */
bool leat_share_has(struct leat_share_member *member, uint64_t epoch, uint64_t number);
char *leat_shared_data(struct leat_shared *entry);
void leat_share_made(struct leat_shared *entry, bool good); /* not good: nobody gets it, each meets the error itself */
/* Until it is made: seconds at most, as only a running thread makes one. False: make it without. Held either way. */
bool leat_share_wait(struct leat_shared *entry);
void leat_share_let_go(struct leat_shared *entry);

/* Now and then: lets go of what is too old, and of memory that is not used. */
void leat_share_tidy(struct leat_share *share);

struct leat_share_stats {
    uint64_t bytes, bytes_max;
    uint64_t samples;   /* that are here */
    uint32_t groups;    /* with more than one member: */
    uint32_t in_groups; /* loaders that share */
};
void leat_share_stats(struct leat_share *share, struct leat_share_stats *out);

#endif
