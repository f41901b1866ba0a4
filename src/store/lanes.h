/* Who is asked to slow down: a bucket's keys, by the folder they are in. Buckets limit requests for each part of their
 * keys, so what one folder is told says nothing about the others.
 *
 * A pure controller, as the pace, which it keeps for each lane that was asked to slow down. Folders share lanes by
 * hash: there is a fixed number of them. Where most lanes with requests are refused, all are: then it is the store's
 * own pace that has to give way. */
#ifndef LEAT_STORE_LANES_H
#define LEAT_STORE_LANES_H

#include "store/pace.h"

#define LEAT_LANES        64u
#define LEAT_LANES_RECENT 64u

struct leat_lane {
    uint32_t running;
    bool limited; /* to what its pace says */
    struct leat_pace pace;
};

struct leat_lanes {
    struct leat_lane lane[LEAT_LANES];
    uint64_t limited;                  /* one bit each */
    uint8_t recent[LEAT_LANES_RECENT]; /* the last answers, oldest overwritten: lane, and THROTTLED */
    uint32_t recent_n;                 /* in all */
};

uint32_t leat_lanes_of(const char *key); /* by all up to its last '/' */

/* An answer came. True: it goes for the store as a whole, and its pace is to hear of it. */
bool leat_lanes_answered(struct leat_lanes *l, uint32_t lane, bool throttled, uint64_t now_ns);

void leat_lanes_received(struct leat_lanes *l, uint32_t lane, uint64_t bytes);

/* Whether another request may begin; `waiting`: more of them wait. Called now and then for limited lanes, too. */
bool leat_lanes_room(struct leat_lanes *l, uint32_t lane, bool waiting, uint64_t now_ns);

#endif
