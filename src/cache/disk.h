/* The disk tier: chunks in segment files of one folder, found again by the next agent, job and day.
 *
 * It stores, finds, reads, verifies and removes; what is kept is decided elsewhere. Every chunk has a checksum that is
 * compared whenever it is read: what is damaged, torn by a crash or overwritten is dropped and reported, never
 * delivered. Nothing is ever synced, because nothing has to be believed.
 *
 * Agents of one user may share a folder. A segment belongs to one of them; the others read it, and take it over
 * when its owner has ended.
 *
 * Thread-safe. The callbacks are called on threads of the disk's own, without a lock held; they may submit and
 * remove, and must not close. */
#ifndef LEAT_CACHE_DISK_H
#define LEAT_CACHE_DISK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "cache/disk_folder.h"

#define LEAT_DISK_BUDGET_MIN (1ull << 20)

struct leat_disk;

struct leat_disk_opts {
    const char *dir; /* made with mode 0700 where it is absent; refused when it is not this user's alone */

    /* Bytes of the disk that the folder may take, all agents together. 0: half of what is free now and what the
     * cache has already. */
    uint64_t budget;

    uint64_t patience_ns; /* how long the kernel may take over a mebibyte, and an operation may wait; 0: 10 s */
    uint64_t look_ns;     /* how often the folder is looked at; 0: every second */

    /* The budget has become smaller, because the disk fills for other reasons, or larger again. May be NULL. */
    void (*shrunk)(void *user, uint64_t budget);

    /* A chunk has appeared that was neither there at the opening nor written here: another agent of the folder has
     * stored it. May be NULL. */
    void (*found)(void *user, const uint8_t name[32], uint64_t bytes);
    void *user;
};

/* Blocks for as long as the file system takes to list the folder and read the tables. LEAT_INVALID when the budget
 * cannot work, LEAT_DENIED and others when the folder cannot be used. A folder that can only be read is read. */
leat_status leat_disk_open(const struct leat_disk_opts *opts, struct leat_disk **out, struct leat_error *err);

/* Operations that have not begun end with LEAT_CANCELLED. Waits for the others, at most one and a half times the
 * patience; then they end with LEAT_TIMEOUT. No callback is called after the return, though threads that hang in the
 * kernel may outlive it. NULL is allowed. */
void leat_disk_close(struct leat_disk *d);

/* What the chunks here (those that leat_disk_each() shows, and those written since) may take, by leat_disk_footprint().
 */
uint64_t leat_disk_budget(const struct leat_disk *d);
uint64_t leat_disk_footprint(uint64_t bytes);

/* What is there now. `visit` must not call the disk. */
typedef void leat_disk_visit(void *user, const uint8_t name[32], uint64_t bytes);
void leat_disk_each(struct leat_disk *d, leat_disk_visit *visit, void *user);

enum leat_disk_kind { LEAT_DISK_READ, LEAT_DISK_WRITE };

/* An operation: the caller's memory until done() is called, which may free it or submit it again. */
struct leat_disk_op {
    enum leat_disk_kind kind;
    uint8_t name[32]; /* the chunk's: SHA-256 of its content */
    void *data;       /* of any alignment */
    uint64_t bytes;   /* exactly the chunk's */

    /* How it went: `err.status`. LEAT_NOT_FOUND: not there (any more). LEAT_CORRUPT: was damaged and has been dropped.
     * LEAT_NO_SPACE: the budget or the disk is full. LEAT_TIMEOUT: the disk does not answer; the data is not
     * touched any more. LEAT_IO and others: the disk's own errors. LEAT_CANCELLED: closed before it began.
     * Writing a chunk that is there already is LEAT_OK. */
    struct leat_error err;
    void (*done)(struct leat_disk_op *op); /* on a disk thread, exactly once */

    struct leat_disk_op *next; /* the disk's */
    uint64_t deadline_ns;      /* the disk's */
};
void leat_disk_submit(struct leat_disk *d, struct leat_disk_op *op); /* any thread; waits for no disk */

/* Any thread; waits for no disk. A read of it that is under way ends right, a write under way ends as if it had begun
 * afterwards. One that is not there is no mistake. */
void leat_disk_remove(struct leat_disk *d, const uint8_t name[32]);

struct leat_disk_stats {
    uint64_t budget;        /* bytes, as leat_disk_budget() */
    uint64_t used;          /* bytes by footprint: of our segments and writes under way */
    uint64_t shared;        /* bytes by footprint: chunks that can be read here and belong to other agents */
    uint64_t chunks;        /* that can be read */
    uint64_t segments;      /* ours */
    uint64_t reads;         /* that were right */
    uint64_t read_bytes;    /* by them */
    uint64_t writes;        /* chunks stored */
    uint64_t written_bytes; /* by them */
    uint64_t removed;       /* chunks */
    uint64_t missing;       /* reads of what was not there */
    uint64_t damaged;       /* chunks and entries that did not match their checksum */
    uint64_t errors;        /* operations that failed by the disk's fault */
    uint64_t timeouts;      /* operations that the disk did not answer in time */
    uint64_t refused;       /* writes for which there was no room */
    bool direct;            /* past the page cache */
    bool failed;            /* resting after errors: operations are answered at once */
};
void leat_disk_stats(struct leat_disk *d, struct leat_disk_stats *out);

#endif
