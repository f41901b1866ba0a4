/* The agent: one process a machine, user and scope that fetches, caches, prepares and hands out batches.
 *
 * Everything below lives on the agent's loop thread unless it says otherwise. Threads: docs/threads.md. */
#ifndef LEAT_AGENT_AGENT_H
#define LEAT_AGENT_AGENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/names.h"
#include "agent/roll.h"
#include "agent/workers.h"
#include "base/error.h"
#include "base/pool.h"
#include "cache/disk_folder.h"
#include "cache/memory.h"
#include "net/loop.h"
#include "ring/unusual.h"
#include "ring/wire.h"
#include "sched/sched.h"

#define LEAT_AGENT_URL 96

struct leat_agent;

struct leat_agent_opts {
    const char *scope;  /* NULL: LEAT_SCOPE, the Slurm job, "default" */
    const char *socket; /* where to listen; NULL: where the scope says */
    uint64_t ram;       /* 0: a quarter of the machine's memory, or of the cgroup's */
    uint32_t threads;   /* 0: one a core this process may use */
    uint64_t linger_ns;
    const char *cache_dir; /* of the cache on disk; NULL: none, unless `cache` asks for one */
    uint64_t cache;        /* how much of the disk it may take; 0: what the cache thinks right */
    /* Where to serve metrics, as somebody said it; NULL: nowhere. The server is the command's, which alone has one:
     * open() says where it serves, and may be tried again; both are called on the thread of leat_agent_run(). */
    const char *metrics;
    leat_status (*metrics_open)(struct leat_agent *agent, const char *where, char url[LEAT_AGENT_URL], void **server,
                                struct leat_error *err);
    void (*metrics_close)(void *server);
    int ready_fd; /* is told "ok", "busy" or a status and what is wrong, then closed; -1: none */
};

/* Runs an agent until its last loader has been gone for `linger`, or until SIGTERM or SIGINT. LEAT_BUSY when another
 * one holds the lock. Must be called while the process has no other threads. */
leat_status leat_agent_run(const struct leat_agent_opts *opts, struct leat_error *err);

/* What the agent's parts know of each other. */
struct leat_agent {
    struct leat_agent_opts opts;    /* with defaults filled in; cache_dir NULL: no cache on disk */
    char cache_dir[LEAT_DISK_PATH]; /* what opts points to where nobody has said one */
    struct leat_names names;
    struct leat_timer names_again;
    struct {
        struct leat_timer timer;
        struct leat_unusual unusual;
    } watch; /* agent/watch.h */
    struct leat_loop *loop;
    struct leat_trace *trace;
    struct leat_workers *workers;
    struct leat_share *share;  /* agent/share.h */
    struct leat_pool *openers; /* for what may hang: opening and closing stores */
    struct leat_pool *makers;  /* of what a loader needs: its order, its ring, whose pages the kernel zeroes */
    struct {
        uint32_t n;              /* loaders whose memory makers are giving back */
        struct leat_task *first; /* what waits for that */
        struct leat_task **last;
    } freeing;
    struct leat_disk *disk; /* NULL: none */
    struct leat_feed *feed;
    struct leat_sched *sched;
    struct leat_sched_ops ops;
    uint64_t disk_said_ns; /* when the log was told what the disk cannot do */
    struct leat_watch listening;
    struct leat_timer listen_again; /* when descriptors ran out */
    struct leat_watch signals;
    struct leat_timer linger;
    uint64_t linger_ns; /* when it fires, or would if nobody were here */
    struct {
        struct leat_task task;
        bool posted;
        bool ended;
        struct leat_timer again; /* when the scheduler wants to be asked though nothing happens */
    } pump;
    struct leat_session *sessions;
    uint32_t sessions_n; /* of ranks, and of those who have not said hello */
    struct leat_roll roll;
    uint64_t loadings_n; /* loaders opened so far */
    struct {
        void *server;             /* NULL: there is none; leat_agent_run()'s thread, as `again_ns` */
        uint64_t again_ns;        /* when to try again */
        char url[LEAT_AGENT_URL]; /* "": none */
        char problem[240];        /* for people; "": none */
    } metrics;                    /* but for `server`: the loop's */
    struct leat_supply *supplies;
    struct leat_blend *blends; /* supplies that are read together, agent/blend.h */
    uint64_t idles;            /* how often a supply was left by its last user */
    struct leat_opening *openings;
    struct leat_job *jobs;       /* that it is a machine of, agent/peers.h */
    struct leat_bound *bound;    /* ports for jobs to come */
    struct leat_circle *circles; /* agent/circle.h */
    uint32_t circles_leaving;
    struct {
        uint64_t bytes; /* of memory that chunks are read into from disk for other machines */
        struct leat_cache_memory spare;
    } lent;
    uint64_t turned_away;      /* requests of other machines that were too many at once, of all jobs */
    struct leat_timer late;    /* when the next machine will be, agent/late.c */
    struct leat_seat *council; /* ranks that have to agree, agent/council.h */
    bool stopping;             /* no supplies are added any more */
    struct {
        pthread_mutex_t mu;
        pthread_cond_t cond;
        bool done; /* hold mu */
    } end;
};

void leat_agent_session_gone(struct leat_agent *agent); /* a session was freed: perhaps the last */

/* A session only looks on: it does not keep the agent, which ends when it would have without it. */
void leat_agent_session_watches(struct leat_agent *agent);

/* Has a maker do what takes long and waits for nothing, as giving back many pages. At the end of the agent, when there
 * are none, it is done at once. */
void leat_agent_make(struct leat_agent *agent, struct leat_task *task);

/* The same for memory that others are waiting for: a worker does it, before its other work. NULL is allowed. */
void leat_agent_release(struct leat_agent *agent, struct leat_task *task);

/* … and for what gives back a ring: leat_agent_freed() follows, on the loop. Memory for another ring is only looked
 * for then: a loader that jumps, and closes one to open another, needs room for one. */
void leat_agent_free(struct leat_agent *agent, struct leat_task *task);
void leat_agent_freed(struct leat_agent *agent);
void leat_agent_make_after(struct leat_agent *agent, struct leat_task *task); /* when all that was begun has ended */

/* Something has happened: the scheduler decides what follows, in the same turn of the loop. agent/perform.h */
void leat_agent_pump(struct leat_agent *agent);

#endif
