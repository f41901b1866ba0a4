/* What the scheduler's own files share. */
#ifndef LEAT_SCHED_INSIDE_H
#define LEAT_SCHED_INSIDE_H

#include "sched/chunk.h"
#include "sched/heap.h"
#include "sched/line.h"
#include "sched/sched.h"

struct leat_sched_set {
    struct leat_sched *sched;
    struct leat_sched_set *next;
    const uint8_t *names;
    const uint32_t *sizes;
    uint32_t chunks;
    uint32_t recognized;            /* chunks before it know of the set, as far as they are known at all */
    uint32_t largest;               /* bytes */
    uint64_t bytes;                 /* of all */
    struct leat_sched_pages epochs; /* in which a chunk was fetched last: a mark, see note() */
    void *user;                     /* NULL: it is closed */
    bool closed;                    /* nothing is borrowed any more; what refers to it is being found */
    size_t refs;                    /* that chunks have of it */
    uint32_t ending;                /* lanes that are closed, and have not let go of everything */
    size_t swept;                   /* once it is closed: buckets of the table before it refer to it no more */
    struct leat_sched_lane *lanes;
    struct leat_sched_line line;
    struct leat_sched_sources sources;
    uint64_t coming_bytes; /* on their way, for whatever reason */
    uint64_t ahead_bytes;  /* that are there, and no batch wants yet */
    uint64_t far_bytes;    /* fetched, or on their way, though enough was ahead; not among them */
    uint64_t said_depth;
};

/* Bytes of chunks that a lane may pin at a time: least + more. */
struct leat_sched_promise {
    uint64_t needed; /* for one batch, as the lane was opened */
    uint64_t group;  /* lanes of the set with this number share their promises; 0: none */
    uint64_t least;  /* its own, and a share of `needed` where it shares */
    uint64_t more;   /* lent for larger batches; taken back when another lane opens */
};

struct leat_sched_lane {
    struct leat_sched *sched;
    struct leat_sched_set *set;
    struct leat_sched_lane *next; /* of the set */
    void *user;
    bool ended;   /* no more batches */
    bool closing; /* only batches that are being prepared are left */
    bool patient; /* its fetches wait for the disk */
    struct leat_sched_promise promise;
    struct leat_sched_view view;
    struct leat_sched_stream *streams; /* what the view points to */
    uint64_t before_last;              /* stages before the epoch before this one, of the first stream */

    struct leat_sched_batch *first, *last; /* planned, in order */
    uint32_t planned;
    uint32_t preparing; /* batches */
    uint32_t out;       /* slots that the rank has */
    uint64_t numbers;   /* planned since the opening */
    uint64_t published;
    uint32_t slots;      /* that there are */
    uint64_t slots_free; /* bit by bit; none until the lane is ready */

    struct leat_sched_batch *taking; /* the last one, while not all of its chunks have been looked up … */
    uint32_t taken;                  /* … and how many have */

    struct leat_sched_chunk *ahead;      /* chunks fetched ahead for it */
    bool ending;                         /* it has ended, and they are too many to be let go of at once */
    struct leat_sched_lane *ending_next; /* of the scheduler */

    /* Its pace: when it will be where in the order. */
    uint64_t stage_first;    /* at the opening */
    uint64_t offset, weight; /* stage n, counted through all epochs, is at offset + n·weight */
    uint64_t freed;          /* slots given back since the opening */
    uint64_t freed_ns;       /* the last of them */
    uint64_t step_ns;        /* from one to the next, smoothed; 0: not known */

    bool pending; /* a chunk to fetch ahead for which there was no room */
    uint32_t pending_number;
    uint64_t pending_stage;
};

struct held; /* release.c */

struct leat_sched {
    struct leat_sched_opts opts;
    uint64_t now_ns;
    struct leat_sched_set *sets;
    struct leat_sched_set *closed; /* those that chunks still refer to */
    struct leat_sched_pages table; /* chains of chunks by the name's first bytes, table.c */
    size_t buckets;
    size_t known;
    struct leat_sched_heap in_ram, on_disk;
    struct leat_sched_chunk *leaving_first, *leaving_last;
    uint64_t leaving_bytes;
    unsigned storing; /* writes under way */
    uint64_t storing_bytes;
    uint64_t fixed_bytes;
    bool short_now, short_next; /* a first batch found no room, in the step before this one or in this one */
    uint64_t chunk_max;         /* bytes of the largest seen */
    uint64_t counts;            /* uses and arrivals, for policies that ask who was first */
    uint64_t troubles;          /* chunks that did not come, for whatever reason */
    uint64_t again_ns;          /* something could not be begun: try again then */
    bool more;                  /* a step has done as much as it may, and left some */
    uint32_t work;              /* that this step may still do */
    uint32_t lanes_n;
    struct held *releasing;         /* chunks of batches, release.c */
    struct leat_sched_lane *ending; /* lanes that have ended */
    size_t creep;
    uint64_t crept_ns;
    uint32_t turn;                                       /* which lane is asked first */
    struct leat_sched_guest *guests_first, *guests_last; /* that wait */
    uint64_t guest_bytes;                                /* pinned for others */
    struct leat_sched_stats stats;
};

/* table.c */
struct leat_sched_chunk *leat_sched_find(const struct leat_sched *s, const uint8_t name[LEAT_SCHED_NAME]);
struct leat_sched_chunk *leat_sched_add(struct leat_sched *s, const uint8_t name[LEAT_SCHED_NAME], uint64_t bytes);
/* The chunk of a set, known from here on. NULL: no memory. */
struct leat_sched_chunk *leat_sched_touch(struct leat_sched_set *set, uint32_t number);
bool leat_sched_refer(struct leat_sched_chunk *c, struct leat_sched_set *set, uint32_t number);
struct leat_sched_chunk *leat_sched_bucket(const struct leat_sched *s, size_t i); /* its first chunk */
/* Looks after as many chunks as one step may: those that a new set may have in common with others, and those that a
 * closed one had. */
void leat_sched_look_after(struct leat_sched *s);
/* Forgets a chunk that is nowhere and that nobody wants. */
void leat_sched_settle(struct leat_sched *s, struct leat_sched_chunk *c);

/* use.c */
const struct leat_sched_stream *leat_sched_stream_of(const struct leat_sched_lane *lane, uint32_t chunk);
uint64_t leat_sched_lane_stage(const struct leat_sched_stream *stream, uint64_t stage); /* counted through all epochs */
uint64_t leat_sched_lane_span(const struct leat_sched_lane *lane); /* stages of the lane in which an epoch passes */
uint64_t leat_sched_lane_key(const struct leat_sched_lane *lane, uint64_t stage); /* counted through all epochs */
bool leat_sched_agreed(const struct leat_sched_lane *lane); /* all other lanes go by its clock, and rightly so */
void leat_sched_lane_anchor(struct leat_sched_lane *lane);  /* its clock, when it has drifted from the others' */
/* When a chunk is needed next; `after`: when after that. */
uint64_t leat_sched_use(const struct leat_sched *s, const struct leat_sched_chunk *c, bool after);

/* room.c */
uint64_t leat_sched_footprint(const struct leat_sched *s, const struct leat_sched_chunk *c);
void leat_sched_keep(struct leat_sched *s, struct leat_sched_chunk *c);  /* it was pinned: it may not be evicted */
void leat_sched_loose(struct leat_sched *s, struct leat_sched_chunk *c); /* its use has changed: it may, perhaps */
void leat_sched_tidy(struct leat_sched *s); /* demotes ahead of need; looks at some keys again */
/* Begins to bring a chunk that is not there for a lane that needs it at `stage`, as long as only chunks needed later
 * than `key` have to go for it; whatever may go, when it is urgent. False: no room now. */
struct leat_sched_call {
    struct leat_sched_lane *lane;
    uint64_t stage, key;
    bool urgent;
    uint32_t ranges;
    struct leat_sched_set *guest; /* whose guest needs it: then there is no lane */
};
bool leat_sched_bring(struct leat_sched_chunk *c, const struct leat_sched_call *call);
void leat_sched_count(struct leat_sched *s, const struct leat_sched_chunk *c); /* where it comes from */
void leat_sched_unnote(const struct leat_sched_chunk *c); /* its fetch failed: the next is not one too many */
void leat_sched_disk_gone(struct leat_sched *s, struct leat_sched_chunk *c);
void leat_sched_drop(struct leat_sched *s, struct leat_sched_chunk *c);
void leat_sched_unahead(struct leat_sched_chunk *c);

/* promise.c */
uint64_t leat_sched_promise_limit(const struct leat_sched_lane *lane); /* bytes that a group of chunks may have */
/* At the opening, before the lane is listed. Its siblings borrow what they had beyond their new shares; when all
 * promises exceed the budget then, all loans are taken back. */
void leat_sched_promise_make(struct leat_sched_lane *lane, const struct leat_sched_lane_opts *opts);
void leat_sched_promise_end(struct leat_sched_lane *lane);
void leat_sched_promise_borrow(struct leat_sched_lane *lane,
                               uint64_t bytes);               /* the limit becomes that, if it is free */
void leat_sched_promise_shrink(struct leat_sched_lane *lane); /* returns what no group of its batches uses */

/* release.c */
/* The chunks of a batch: room for n. NULL: no memory. */
struct leat_sched_chunk **leat_sched_hold(uint32_t n);
/* Lets go of those before `due`, of which those before `pinned` are pinned; `whole`: of the list as well. */
void leat_sched_release(struct leat_sched *s, struct leat_sched_chunk **chunks, uint32_t due, uint32_t pinned,
                        bool whole);
void leat_sched_lane_forget(struct leat_sched_lane *lane); /* what was fetched ahead for it */
void leat_sched_release_some(struct leat_sched *s);        /* as much as a step may */

/* lane.c */
void leat_sched_lane_settle(struct leat_sched_lane *lane); /* frees one that is closed, when nothing needs it */
void leat_sched_lane_step(struct leat_sched_lane *lane);
/* Gives up the pins of one batch: of the last planned that is not the first, else of the first if it has more than its
 * lane is promised now. Never of `asking`. False: there is none. */
bool leat_sched_lane_yield(struct leat_sched_lane *lane, const struct leat_sched_batch *asking);

/* guest.c */
void leat_sched_guests_step(struct leat_sched *s);

/* ahead.c */
uint64_t leat_sched_depth(const struct leat_sched_set *set);
void leat_sched_lane_ahead(struct leat_sched_lane *lane);

/* Takes from the work that a step may do, about a microsecond each. False: nothing was left, and another step follows
 * at once: others have their turn on the thread between the two. */
bool leat_sched_work(struct leat_sched *s, uint32_t amount);

/* Says why; costs nothing when nobody listens. */
__attribute__((format(printf, 2, 3))) void leat_sched_say(struct leat_sched *s, const char *format, ...);

#endif
