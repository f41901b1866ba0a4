/* What a cache can do for a dataset that is read epoch after epoch: arithmetic on sizes alone, for the line that
 * `leat read` and the agent's log begin with.
 *
 * Every chunk is needed once an epoch. One that is still there must have been kept since the epoch before, over the
 * border between the two; so no policy has more hits in an epoch than chunks fit into the cache, and at least dataset −
 * cache comes from the bucket. Keeping a fixed set of chunks beside the live window and what is on its way reaches
 * dataset − (cache − window − on its way), and evicting the farthest next use is never worse. In between, it does the
 * better the smaller the window is: at an epoch's end the window has run empty, and its room holds chunks too. */
#ifndef LEAT_ORDER_REACH_H
#define LEAT_ORDER_REACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct leat_reach_given {
    uint64_t dataset_bytes;
    uint64_t ram_bytes;   /* budgets */
    uint64_t disk_bytes;  /* 0: no cache on disk */
    uint64_t live_bytes;  /* of the chunks that are mixed at a time */
    uint64_t ahead_bytes; /* fetched ahead and on their way */
    double line;          /* bytes a second from the bucket; 0: not known */
};

struct leat_reach {
    uint64_t kept_bytes;   /* from one epoch to the next, at least */
    uint64_t bucket_bytes; /* from the bucket in each epoch but the first, at most … */
    uint64_t least_bytes;  /* … and at least */
    double seconds;        /* for bucket_bytes; 0: not known */
    bool tight;            /* memory does not hold what is mixed at a time: chunks may come several times in an epoch */
};

/* About what is live: a window of chunks of the average size. */
uint64_t leat_reach_live(uint64_t dataset_bytes, uint32_t chunks, uint32_t window);

struct leat_reach leat_reach(const struct leat_reach_given *given);

/* As a sentence without a full stop: "cache 40 GiB of 150 GiB: 27 % of the bytes from here, 110 GiB per epoch from the
 * bucket, 11 min 35 s at 170 MB/s". */
void leat_reach_say(const struct leat_reach_given *given, char *out, size_t n);

#endif
