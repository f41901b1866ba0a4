/* The scheduler: what is fetched, kept, demoted, prepared and published, when, for whom and within which budget.
 *
 * Events in, actions out. Its driver reports what has happened (a chunk has come, a part of the disk is lost, a
 * slot is free) and calls leat_sched_step(); the scheduler answers by calling the functions in `struct leat_sched_ops`.
 * It does no I/O, reads no clock (every event brings its time) and starts no thread, so the agent that performs the
 * actions and the simulation that only counts them run the same decisions.
 *
 * The words. A *chunk* is known by 32 bytes, its name here, which differ wherever the bytes may (dataset/identity.h):
 * two datasets that hold the same chunk share it. A *set* is the chunks of one dataset, by number. A *lane* is one
 * loader: its batches in order, each of which needs some chunks of the lane's set and one of the lane's slots. Chunks
 * lie in memory, on disk, in both or in neither.
 *
 * How a batch goes:
 *
 *     planned ── its chunks are wanted: kept if there, else fetched when there is room
 *     pinned ─── its chunks (or a group of them) cannot be evicted; those that lack are on their way
 *     here ───── all of the group are there; it waits for a slot
 *     preparing  the performer works at it; then the next group, or:
 *     done ───── published as soon as all before it are
 *
 * What cannot happen, and why:
 * - *Deadlock over memory.* Each lane is promised memory when it opens: for the chunks of one batch, or a share of what
 *   the lanes of its group need together. All promises together fit the budget; otherwise the lane is refused. A batch
 *   that needs more than the promise comes in groups, each within it. While memory is free, a lane borrows more for a
 *   large batch; it returns the loan after the batch, or when another lane opens. The first batch of a lane may evict
 *   any chunk that is not pinned. It may also take the pins of batches that are not first, or that pin borrowed memory,
 *   unless these are being prepared.
 * - *Deadlock over slots.* A batch takes a slot only while enough stay free for all before it in its lane.
 * - *One lane's failure in another.* A failed fetch is nobody's error until the batch that needs it is first in its
 *   lane, and then only if the fetch was begun since: else it is tried once more. Others try again after a pause.
 *
 * Eviction is by next use: the time at which any lane needs the chunk again, read off the orders across the end of the
 * epoch. Memory and disk each let go of the farthest first; what leaves memory goes to disk when its next use is nearer
 * than the farthest there.
 *
 * Chunks are fetched ahead as far as the line needs it (bandwidth × delay, line.h) and no farther: memory beyond that
 * is worth more for chunks of the next epoch.
 *
 * One thread. Functions marked so may be called inside an action, all others not. */
#ifndef LEAT_SCHED_SCHED_H
#define LEAT_SCHED_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "order/order.h"

#define LEAT_SCHED_NAME      32u
#define LEAT_SCHED_NEVER     UINT64_MAX
#define LEAT_SCHED_SLOTS_MAX 64u
#define LEAT_SCHED_RANGES    32u          /* requests that the chunks of a lane's first batch are split into at most */
#define LEAT_SCHED_RANGE_MIN (1ull << 20) /* shorter ones spend more time on the way than on the line */

struct leat_sched;
struct leat_sched_set;
struct leat_sched_lane;
struct leat_sched_chunk; /* sched/chunk.h: the performer keeps its own in `user` there */

enum leat_sched_policy {
    LEAT_SCHED_NEXT_USE,
    LEAT_SCHED_LRU,
    LEAT_SCHED_FIFO,
    LEAT_SCHED_MINIO, /* what came first stays; nothing else is kept (CoorDL) */
    LEAT_SCHED_NONE   /* nothing is kept beyond its use */
};

const char *leat_sched_policy_name(enum leat_sched_policy policy);
bool leat_sched_policy_parse(const char *text, enum leat_sched_policy *out);

enum leat_sched_from { LEAT_SCHED_FROM_BUCKET, LEAT_SCHED_FROM_DISK, LEAT_SCHED_FROM_PEER };

/* A batch of a lane. The performer makes it (ops.plan), keeps it, and has it back when it is published or dropped.
 * Everything but the first part is the scheduler's; it may be read. */
struct leat_sched_batch {
    const uint32_t *chunks; /* numbers in the lane's set, distinct; the performer's */
    uint32_t chunks_n;      /* 0: an end of an epoch, which needs a slot and nothing else */
    uint64_t stage;         /* of the order after it, counted through all epochs of the lane */
    void *user;

    struct leat_sched_lane *lane;
    struct leat_sched_batch *next;
    struct leat_sched_chunk **held; /* chunks_n of them; NULL those of groups that are done */
    enum { LEAT_SCHED_PLANNED, LEAT_SCHED_PINNED, LEAT_SCHED_HERE, LEAT_SCHED_PREPARING, LEAT_SCHED_DONE } state;
    uint64_t number;
    uint32_t group, group_end; /* chunks that are worked at: group … group_end - 1 */
    uint64_t group_bytes;      /* of them; 0: the batch is done */
    uint32_t pins;             /* the first ones of the group */
    uint32_t seen;             /* those before it were there when they were looked at last */
    bool lacks;                /* one has to be sent for */
    uint64_t troubles;         /* when all were looked at last: a count of the scheduler's */
    bool has_slot;
    uint32_t slot;
    uint64_t first_ns;              /* when it became the first of its lane; 0: it is not */
    uint64_t here_ns;               /* when all chunks of its last group were there */
    enum leat_sched_from here_from; /* where the one of them that arrived last had come from */
    uint64_t due_ns;                /* when the rank will probably ask for it */
};

/* A fetch as it is asked for. */
struct leat_sched_fetch {
    struct leat_sched_set *set; /* a dataset that has the chunk, and its number there */
    uint32_t number;
    bool from_disk;
    uint32_t ranges; /* to split it into, at most */
    bool urgent;     /* somebody waits */
    bool guest;      /* for somebody else: from the bucket or the disk, never from another machine */
};

struct leat_sched_ops {
    /* Brings a chunk into memory: leat_sched_arrived(), _failed() or _lost() follows, later. False: it cannot be begun
     * now (no memory for it). */
    bool (*fetch)(void *user, struct leat_sched_chunk *chunk, const struct leat_sched_fetch *how);
    void (*drop)(void *user, struct leat_sched_chunk *chunk);   /* out of memory */
    bool (*store)(void *user, struct leat_sched_chunk *chunk);  /* to disk: leat_sched_stored() follows. False: no */
    void (*forget)(void *user, struct leat_sched_chunk *chunk); /* from disk */
    void (*gone)(void *user, struct leat_sched_chunk *chunk);   /* the scheduler forgets it: let go of chunk->user */

    /* The next batch of a lane; NULL when it cannot be made now (leat_sched_lane_end, if ever again). */
    struct leat_sched_batch *(*plan)(void *user, struct leat_sched_lane *lane);
    /* The next chunk that this node will mostly need, beyond those asked for before, and its stage. False: none is
     * known yet. LEAT_ORDER_NONE for its number: it takes longer to find, ask again. */
    bool (*ahead)(void *user, struct leat_sched_lane *lane, uint32_t *number, uint64_t *stage);
    void (*prepare)(void *user, struct leat_sched_batch *batch); /* its group: leat_sched_prepared() follows, later */
    /* Hands the batch to the rank, or an error in its place: false, and the lane has ended. It is the performer's
     * again either way. */
    bool (*publish)(void *user, struct leat_sched_batch *batch);
    /* The lane has ended: a chunk cannot be fetched, or (NULL) there is no memory for the batch, which comes back when
     * the lane is closed. */
    void (*fail)(void *user, struct leat_sched_batch *batch, struct leat_sched_chunk *chunk);
    void (*why)(void *user, const char *text); /* of a decision; NULL: nobody wants to know */
};

struct leat_sched_opts {
    uint64_t ram;                           /* bytes of chunks in memory */
    uint64_t disk;                          /* bytes on disk; 0: none */
    uint64_t (*disk_bytes)(uint64_t bytes); /* what a chunk takes there; NULL: its bytes */
    enum leat_sched_policy policy;
    bool marks; /* count chunks that are fetched twice in an epoch: 4 bytes for each chunk that is */
    const struct leat_sched_ops *ops; /* borrowed */
    void *user;
};

leat_status leat_sched_open(const struct leat_sched_opts *opts, struct leat_sched **out, struct leat_error *err);
void leat_sched_close(struct leat_sched *s); /* lanes and sets must be closed, no fetch or write on its way; drops all;
                                                NULL is allowed */

/* Budgets may change; what is beyond them goes as soon as it may. */
void leat_sched_set_disk(struct leat_sched *s, uint64_t bytes);

/* A chunk that is on disk already, before any set is opened. LEAT_NO_MEMORY: it is not taken. */
leat_status leat_sched_found(struct leat_sched *s, const uint8_t name[LEAT_SCHED_NAME], uint64_t bytes);

struct leat_sched_set_opts {
    const uint8_t *names; /* 32 bytes each; borrowed, as are the sizes */
    const uint32_t *sizes;
    uint32_t chunks;
    uint32_t largest; /* bytes */
    uint64_t bytes;   /* of all */
    void *user;
};

/* Fills in `largest` and `bytes`: a nanosecond for each chunk, so not on a thread that others wait for. Of any thread.
 */
void leat_sched_measure(struct leat_sched_set_opts *opts);

/* Opening and closing take no longer for ten million chunks than for a hundred: the rest is done by later steps, some
 * hundred chunks in each. */
leat_status leat_sched_set_open(struct leat_sched *s, const struct leat_sched_set_opts *opts,
                                struct leat_sched_set **out, struct leat_error *err);
/* Nothing is borrowed any more. Its lanes must be closed; NULL is allowed. */
void leat_sched_set_close(struct leat_sched_set *set);
void *leat_sched_set_user(const struct leat_sched_set *set); /* NULL: it is closed */

/* What the lanes of a set have had from where; `ram`: uses that found the chunk in memory from before. */
struct leat_sched_sources {
    uint64_t bucket_bytes, bucket_chunks;
    uint64_t disk_bytes, disk_chunks;
    uint64_t peer_bytes, peer_chunks;
    uint64_t ram_bytes, ram_chunks;
    uint64_t refetched; /* chunks fetched again in the epoch in which they had been there (opts.marks) */
};
void leat_sched_set_sources(const struct leat_sched_set *set, struct leat_sched_sources *out);

/* Where a lane stands in an order: what makes "next use" of a chunk. A lane that reads a mixture has one for each of
 * its streams, whose chunks follow each other in the lane's set. */
struct leat_sched_stream {
    const struct leat_order *now;    /* of the epoch being planned; borrowed until the next view is given */
    const struct leat_order *coming; /* of the one after it, or NULL */
    uint64_t stage;                  /* in `now` */
    uint64_t before;                 /* stages of the epochs before it */
    uint32_t first;                  /* number of its first chunk in the set */
    /* Stage n of the stream, counted through all its epochs, is stage origin + n·pace of the lane. A lane of one stream
     * has 0 and 1, written as zeros. */
    double origin, pace;
};

struct leat_sched_view {
    const struct leat_sched_stream *streams; /* by their first chunks; copied */
    uint32_t streams_n;                      /* the same for the life of a lane */
    uint64_t stage;                          /* of the lane: before + stage where there is one stream */
    const uint32_t *node_of_slot;            /* who owns what; NULL: all is ours */
    uint32_t node;
};

struct leat_sched_lane_opts {
    struct leat_sched_set *set;
    uint64_t needed; /* bytes for one batch: promised from here on */
    /* Lanes of a set that read the same chunks at about the same time (ranks of one job) have the same group. They are
     * promised `together` bytes in all, in equal shares, instead of `needed` each. 0: alone. */
    uint64_t group;
    uint64_t together;
    uint32_t slots;
    struct leat_sched_view view;
    bool patient; /* it is read to fill the disk: its fetches wait until what leaves memory is written */
    void *user;
};

/* Bytes that would be promised to all lanes if this one were open. */
uint64_t leat_sched_promised_with(const struct leat_sched *s, const struct leat_sched_lane_opts *opts);

/* LEAT_LIMIT when the budget cannot hold what all lanes need. */
leat_status leat_sched_lane_open(struct leat_sched *s, const struct leat_sched_lane_opts *opts, uint64_t now_ns,
                                 struct leat_sched_lane **out, struct leat_error *err);
/* Lets go of everything. Batches that are not being prepared come back through `dropped` (NULL: nobody wants them);
 * those that are come back by leat_sched_prepared(). NULL is allowed. */
void leat_sched_lane_close(struct leat_sched_lane *lane, void (*dropped)(void *user, struct leat_sched_batch *batch));
void *leat_sched_lane_user(const struct leat_sched_lane *lane);

/* No more batches: an error was reported. Its chunks are let go. May be called inside ops.plan, .publish and .fail. */
void leat_sched_lane_end(struct leat_sched_lane *lane);
void leat_sched_lane_view(struct leat_sched_lane *lane, const struct leat_sched_view *view); /* in ops.plan too */
void leat_sched_lane_ready(struct leat_sched_lane *lane); /* its slots can be used from now on */

/* Events. */
void leat_sched_arrived(struct leat_sched *s, struct leat_sched_chunk *chunk, uint64_t now_ns);
/* Inside ops.fetch: another machine of the job is asked first. Before leat_sched_arrived(): it came from there. */
void leat_sched_ask_peer(struct leat_sched_chunk *chunk);
void leat_sched_by_peer(struct leat_sched_chunk *chunk);
void leat_sched_failed(struct leat_sched *s, struct leat_sched_chunk *chunk, uint64_t now_ns);
void leat_sched_cancelled(struct leat_sched *s,
                          struct leat_sched_chunk *chunk);                  /* nobody's fault: as if not sent for */
void leat_sched_lost(struct leat_sched *s, struct leat_sched_chunk *chunk); /* could not be read from disk */
void leat_sched_stored(struct leat_sched *s, struct leat_sched_chunk *chunk, bool ok);
void leat_sched_prepared(struct leat_sched_batch *batch); /* the group; a closed lane's batch is the caller's again */
void leat_sched_slot_free(struct leat_sched_lane *lane, uint32_t slot, uint64_t now_ns);

/* A guest: somebody who is no lane of ours needs a chunk, another machine of the job. It is pinned when it is there,
 * and fetched as what is needed now, for room that nobody has pinned or been promised; what one guest has sent for
 * serves all. The caller's memory until `done` and, where that said `here`, until leat_sched_guest_leave(). */
struct leat_sched_guest {
    void (*done)(struct leat_sched_guest *guest, bool here); /* in a step; not here: it could not be fetched */
    /* The scheduler's own. */
    struct leat_sched *sched;
    struct leat_sched_set *set;
    struct leat_sched_chunk *chunk;
    uint32_t number;
    uint64_t since_ns;
    bool here;
    struct leat_sched_guest *prev, *next; /* of those that wait, the oldest first */
};
/* False: no memory. */
bool leat_sched_guest_come(struct leat_sched_set *set, uint32_t number, struct leat_sched_guest *guest,
                           uint64_t now_ns);
void leat_sched_guest_leave(struct leat_sched_guest *guest); /* one that waits as well: `done` is not called then */
bool leat_sched_guest_coming(const struct leat_sched_guest *guest); /* it waits, and its chunk is on its way */

/* A chunk of a set that is in memory; NULL: it is not. */
const struct leat_sched_chunk *leat_sched_here(const struct leat_sched_set *set, uint32_t number);

/* Whether it is on disk, and neither in memory nor on its way there. */
bool leat_sched_only_on_disk(const struct leat_sched_set *set, uint32_t number);

/* Decides all that can be decided now. */
void leat_sched_step(struct leat_sched *s, uint64_t now_ns);
/* When to step again though nothing has happened; LEAT_SCHED_NEVER: no need. */
uint64_t leat_sched_wake_ns(const struct leat_sched *s);

/* What the first batch of a lane waits for, in words; `of`: what its dataset is called. */
void leat_sched_lane_explain(const struct leat_sched_lane *lane, const char *of, char *out, size_t n);
uint64_t leat_sched_lane_here_ns(const struct leat_sched_lane *lane); /* since when the chunks of the batch published
                                                                         next are all there; 0: they are not */
/* Bytes of the order's window, about: with less memory than that chunks are fetched several times per epoch. */
uint64_t leat_sched_lane_window(const struct leat_sched_lane *lane);
bool leat_sched_lane_hurries(const struct leat_sched_lane *lane); /* its very first batch lacks most of its chunks */

struct leat_sched_stats {
    uint64_t ram, ram_used, ram_pinned;
    uint64_t promised, lent; /* to lanes; how much of it is only lent, and taken back when another lane opens */
    uint64_t disk, disk_used;
    uint64_t chunks;                      /* known: in memory, on disk or on their way */
    uint64_t coming;                      /* chunks on their way */
    uint64_t bucket_bytes, bucket_chunks; /* asked of the bucket */
    uint64_t disk_bytes, disk_chunks;     /* read from disk */
    uint64_t peer_bytes, peer_chunks;     /* came from other machines */
    uint64_t ram_bytes, ram_chunks;       /* uses that found the chunk in memory from an earlier epoch or lane */
    uint64_t stored_bytes, stored_chunks; /* demoted to disk */
    uint64_t evicted, forgotten;          /* from memory, from disk */
    uint64_t refetched;                   /* chunks fetched again in the epoch in which they had been there */
    uint64_t split;                       /* batches that came in groups */
    uint64_t failed;
    uint64_t depth_bytes; /* fetched ahead at most, now */
};
void leat_sched_stats(const struct leat_sched *s, struct leat_sched_stats *out);

#endif
