/* A performer for the scheduler: nothing is read or written, time is a number. It keeps books of its own about every
 * action, and fails the test when one breaks a promise of sched/sched.h: a budget exceeded, a chunk dropped that is
 * worked at, a fetch of what is there, a batch out of turn. */
#ifndef LEAT_TESTS_SCHED_PLAY_H
#define LEAT_TESTS_SCHED_PLAY_H

#include "base/random.h"
#include "sched/chunk.h"
#include "sched/cursor.h"
#include "sched/sched.h"
#include "unit.h"

#define PLAY_LANES 64
#define PLAY_SETS  8
#define PLAY_WHYS  65536u
#define PLAY_END   UINT32_MAX
#define MILLI      1000000ull

struct play_set {
    struct play *play;
    struct leat_sched_set *set;
    uint8_t *names;
    uint32_t *sizes;
    uint32_t *counts;
    uint32_t chunks;
    uint64_t largest;
    uint32_t *fetched; /* from the bucket, by number */
    bool broken;       /* its bucket answers nothing */
};

struct play_lane {
    struct play *play;
    struct play_set *set;
    struct leat_sched_lane *lane;
    struct leat_cursor *cursor;
    struct leat_order *order; /* of a lane that is told its batches */
    struct leat_sched_stream told_view;
    const uint32_t (*told)[8];
    uint64_t plans;   /* batches that may be planned */
    uint64_t planned; /* so far */
    uint64_t published;
    uint64_t freed;
    uint64_t step_ns; /* the rank takes this long for a batch */
    uint64_t rank_ns; /* until then it is busy */
    uint64_t first_ns, last_ns;
    uint64_t slots; /* in use, bit by bit */
    uint64_t given; /* … by the rank */
    uint32_t preparing;
    bool idle;  /* takes batches and gives none back */
    bool ended; /* by an error or on demand */
    bool failed;
    bool failed_chunk; /* … that could not be fetched, by its name */
    uint8_t failed_name[LEAT_SCHED_NAME];
    uint64_t epochs; /* ends published */
};

struct play_event {
    uint64_t at_ns, serial;
    enum { PLAY_CAME, PLAY_FAILED, PLAY_CANCELLED, PLAY_LOST, PLAY_STORED, PLAY_PREPARED, PLAY_FREE } kind;
    struct leat_sched_chunk *chunk;
    struct leat_sched_batch *batch;
    struct play_lane *lane;
    uint32_t slot;
    bool ok;
};

struct play {
    struct leat_sched *sched;
    struct leat_sched_ops ops;
    uint64_t now_ns;
    uint64_t ram, disk;
    struct leat_rng rng;

    /* How the world answers. */
    uint64_t delay_ns, jitter_ns;          /* of the bucket */
    uint64_t rate;                         /* bytes a second over all; 0: no limit */
    uint64_t disk_ns;                      /* for a read or a write */
    uint64_t disk_rate;                    /* bytes a second, of reads and of writes; 0: no limit */
    uint64_t prepare_ns;                   /* for a group */
    uint64_t free_jitter_ns;               /* slots come back in any order */
    unsigned fails, cancels;               /* of 1,000 */
    unsigned loses, store_fails;           /* of 1,000 */
    unsigned store_refused, fetch_refused; /* of 1,000 */
    bool hold;                             /* fetches do not come back until it is cleared; play_release() */
    uint32_t hold_number;                  /* … only this one; UINT32_MAX: all */
    uint32_t fail_number, fail_times;      /* this one fails so often */
    bool fail_ahead;                       /* what no batch wants yet fails */
    bool mute;                             /* whys are not kept */

    /* Books. */
    uint64_t ram_used, ram_most, disk_used;
    uint64_t line_ns, read_ns, write_ns; /* when they are free again */
    uint64_t bucket_bytes, bucket_chunks, disk_read, disk_written, ranges, ram_coming, urgent;
    uint64_t events, wakes, serial, yields;
    struct play_lane *lanes[PLAY_LANES];
    struct play_set sets[PLAY_SETS];
    struct play_event *queue; /* a heap */
    size_t queue_n, queue_cap;
    char *why;
    size_t why_n;
};

struct play_opts {
    uint64_t ram, disk;
    enum leat_sched_policy policy;
    uint64_t seed;
};

/* Called with true before the performer allocates anything for itself, with false after it: fail_alloc_pause(). */
void play_spare(void (*hook)(bool on));

void play_open(struct play *p, const struct play_opts *opts);
void play_close(struct play *p); /* lanes and sets too; checks that nothing is left */

/* Chunks of `bytes` (and up to `spread` more) with the contents first, first + 1, …; `count` samples each. */
struct play_set *play_set(struct play *p, uint32_t chunks, uint64_t first, uint32_t bytes, uint32_t spread,
                          uint32_t count);
void play_found(struct play *p, const uint8_t *names, uint32_t n, uint64_t bytes); /* on disk already */
void play_set_close(struct play_set *set);

struct play_lane_opts {
    struct play_set *set;
    uint32_t slots;
    uint64_t needed;
    uint64_t group, together; /* 0: alone */
    uint64_t plans;
    uint64_t step_ns;
    bool patient;
    /* By the order … */
    uint32_t batch, window, rank, world;
    uint64_t seed, epoch, position;
    const uint32_t *node_of_rank;
    /* … or told: chunk numbers, ended by PLAY_END. */
    const uint32_t (*told)[8];
};

leat_status play_lane_try(struct play *p, const struct play_lane_opts *opts, struct play_lane **out,
                          struct leat_error *err);
struct play_lane *play_lane(struct play *p, const struct play_lane_opts *opts);
void play_lane_close(struct play_lane *lane);

void play_step(struct play *p);
bool play_turn(struct play *p);                  /* the next event, and a step; false: none is outstanding */
void play_until(struct play *p, uint64_t at_ns); /* all events up to a time */
void play_until_done(struct play *p);            /* … until all lanes are; fails when they get stuck */
void play_release(struct play *p);               /* fetches that were held come now */
void play_free_slot(struct play_lane *lane);     /* an idle lane gives a batch back */
struct leat_sched_chunk *play_chunk(const struct play_set *set, uint32_t number); /* NULL: not known */

/* Published all that it may plan, or ended. */
static inline bool play_lane_done(const struct play_lane *lane)
{
    return lane->ended || lane->published == lane->plans;
}

static inline struct leat_sched_stats play_stats(const struct play *p)
{
    struct leat_sched_stats st;
    leat_sched_stats(p->sched, &st);
    return st;
}

/* Since the beginning, or since its whys were forgotten. */
static inline bool play_said(const struct play *p, const char *part)
{
    return strstr(p->why, part) != NULL;
}

static inline void play_forget_whys(struct play *p)
{
    p->why_n = 0;
    p->why[0] = 0;
}

/* A lane in the order of the set, with the usual for what is 0. */
static inline struct play_lane *play_by_order(struct play *p, struct play_set *set, struct play_lane_opts o)
{
    o.set = set;
    o.slots = o.slots ? o.slots : 4;
    o.batch = o.batch ? o.batch : 16;
    o.window = o.window ? o.window : 8;
    o.needed = o.needed ? o.needed : o.batch * set->largest;
    o.plans = o.plans ? o.plans : UINT64_MAX;
    o.step_ns = o.step_ns ? o.step_ns : MILLI;
    return play_lane(p, &o);
}

static inline void play_until_epoch(struct play *p, struct play_lane *l, uint64_t epochs)
{
    while (l->epochs < epochs && !l->ended) {
        if (!play_turn(p))
            fail_msg("stuck after %llu batches", (unsigned long long)l->published);
    }
}

#endif
