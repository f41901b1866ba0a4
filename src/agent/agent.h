/* The agent: one process a machine, user and scope that fetches, caches, prepares and hands out batches.
 *
 * Everything below lives on the agent's loop thread unless it says otherwise. Threads: docs/threads.md. */
#ifndef LEAT_AGENT_AGENT_H
#define LEAT_AGENT_AGENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/names.h"
#include "agent/workers.h"
#include "base/error.h"
#include "base/pool.h"
#include "cache/disk_folder.h"
#include "net/loop.h"
#include "ring/wire.h"
#include "sched/sched.h"

struct leat_agent_opts {
    const char *scope;  /* NULL: LEAT_SCOPE, the Slurm job, "default" */
    const char *socket; /* where to listen; NULL: where the scope says */
    uint64_t ram;       /* 0: a quarter of the machine's memory, or of the cgroup's */
    uint32_t threads;   /* 0: one a core this process may use */
    uint64_t linger_ns;
    const char *cache_dir; /* of the cache on disk; NULL: none, unless `cache` asks for one */
    uint64_t cache;        /* how much of the disk it may take; 0: what the cache thinks right */
    int ready_fd;          /* is told "ok", "busy" or a status and what is wrong, then closed; -1: none */
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
    struct leat_loop *loop;
    struct leat_workers *workers;
    struct leat_pool *openers; /* for what may hang: opening and closing stores */
    struct leat_pool *makers;  /* of what a loader needs: its order, its ring, whose pages the kernel zeroes */
    struct leat_disk *disk;    /* NULL: none */
    struct leat_feed *feed;
    struct leat_sched *sched;
    struct leat_sched_ops ops;
    uint64_t disk_said_ns; /* when the log was told what the disk cannot do */
    struct leat_watch listening;
    struct leat_timer listen_again; /* when descriptors ran out */
    struct leat_watch signals;
    struct leat_timer linger;
    struct {
        struct leat_task task;
        bool posted;
        bool ended;
        struct leat_timer again; /* when the scheduler wants to be asked though nothing happens */
    } pump;
    struct leat_session *sessions;
    uint32_t sessions_n;
    struct leat_supply *supplies;
    uint64_t idles; /* how often a supply was left by its last user */
    struct leat_opening *openings;
    struct leat_seat *council; /* ranks that have to agree, agent/council.h */
    bool stopping;             /* no supplies are added any more */
    struct {
        pthread_mutex_t mu;
        pthread_cond_t cond;
        bool done; /* hold mu */
    } end;
};

void leat_agent_session_gone(struct leat_agent *agent); /* a session was freed: perhaps the last */

/* Something has happened: the scheduler decides what follows, in the same turn of the loop. agent/perform.h */
void leat_agent_pump(struct leat_agent *agent);

#endif
