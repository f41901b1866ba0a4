/* A segment: one file of the disk cache, with a table of the chunks in it at its front. docs/cache.md has the format.
 *
 * A segment belongs to the process that holds its lock (flock), which alone writes to it; others may read it and
 * believe nothing that does not match its checksum. The kernel lets go of the lock when its process ends, however it
 * ends, and the next process takes over.
 *
 * Not thread-safe: bookkeeping is done under a lock of the caller's. Functions marked "I/O" touch nothing that changes
 * after opening but for their arguments, and are called without it. */
#ifndef LEAT_CACHE_SEGMENT_H
#define LEAT_CACHE_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "cache/extents.h"

#define LEAT_SEGMENT_BLOCK     4096u      /* chunks begin and end at multiples: what O_DIRECT wants of any disk */
#define LEAT_SEGMENT_PIECE     (1u << 20) /* bytes that are hashed at once */
#define LEAT_SEGMENT_ENTRY     64u        /* bytes of the table a chunk */
#define LEAT_SEGMENT_FILE      24u        /* a file's name, with its NUL */
#define LEAT_SEGMENT_BYTES_MAX (1ull << 40)

enum leat_slot_state { LEAT_SLOT_FREE, LEAT_SLOT_WRITING, LEAT_SLOT_LIVE, LEAT_SLOT_DEAD };

struct leat_segment_slot {
    uint8_t name[32];
    uint64_t bytes;
    uint64_t hash;     /* XXH3 of the chunk; of a dead one the caller's */
    uint64_t sequence; /* the wall clock when it was written, in nanoseconds, made to grow */
    uint32_t block;    /* where it begins, in blocks from the file's beginning */
    uint32_t readers;  /* the caller's */
    uint32_t state;
};

struct leat_segment {
    char file[LEAT_SEGMENT_FILE];
    uint64_t id;
    int fd;              /* the table, and the lock */
    int direct;          /* the same file with O_DIRECT, or -1 where that cannot be */
    bool ours;           /* we hold the lock and may write */
    uint64_t data_start; /* bytes */
    uint64_t data_end;
    uint32_t slots_max; /* entries in the table */
    int64_t made_s;
    uint32_t owner; /* process id of who claimed it last */

    /* Bookkeeping. */
    struct leat_segment_slot *slots; /* slots_n of them; after them all are free */
    uint32_t slots_n;
    uint32_t first_free; /* no slot before it is free */
    uint64_t sequence;   /* of the last entry */
    struct leat_extents extents;
    uint32_t live;        /* chunks */
    uint64_t live_bytes;  /* their footprint */
    uint64_t taken_bytes; /* footprint of all that is not free: chunks being written and removed, too */
    uint64_t modified_ns; /* the file, when the table was read */
    uint32_t torn;        /* entries that the scan could not believe */
    uint32_t dead_first;  /* the caller's: one more than the first dead slot in its list, 0: none */
    unsigned users;       /* the caller's: operations under way in it */
    bool gone;            /* the caller's: to be closed by the last user */
    bool spoilt;          /* the caller's: nothing more is written to it */
};

/* A new one of this many bytes of chunks, locked, empty and sparse. */
leat_status leat_segment_make(int folder, uint64_t bytes, struct leat_segment **out, struct leat_error *err);

/* One that is there; reads its head, not its table. LEAT_CORRUPT when it is damaged, LEAT_VERSION when it is of another
 * release, LEAT_DENIED when it is no file of ours: leave those alone. */
leat_status leat_segment_open(int folder, const char *file, struct leat_segment **out, struct leat_error *err);
void leat_segment_close(struct leat_segment *s); /* NULL is allowed; lets go of the lock */

bool leat_segment_is_name(const char *file);

/* Removes a file that is damaged, unless somebody holds its lock. */
void leat_segment_discard(int folder, const char *file);

/* Takes the lock; false when somebody else has it or the file cannot be written. */
bool leat_segment_claim(struct leat_segment *s);

/* Reads the table. What overlaps (an old entry that a crash brought back) is left to the newer; what does not end
 * within the file is dropped. Of a segment that is ours it also finds out what is free. */
leat_status leat_segment_scan(struct leat_segment *s, struct leat_error *err);

uint64_t leat_segment_footprint(uint64_t bytes); /* bytes of the disk that a chunk takes, its entry included */

/* I/O. What the owner reserves, before it is allocated: the other agents of the folder count it from then on. The
 * caller keeps calls in order. And what a segment takes of the disk: allocated or reserved, whichever is more. */
void leat_segment_reserve(const struct leat_segment *s, uint64_t bytes);
uint64_t leat_segment_reserved(int fd);

/* A chunk's checksum: begins with its length and goes on with its data, given in multiples of LEAT_SEGMENT_PIECE but
 * for the last. It is a chain over pieces, so that the one that reads can look at each once, while the processor has
 * it. */
uint64_t leat_segment_hash(uint64_t before, const void *data, size_t n);

/* Space and a slot for a chunk: state WRITING. False when there is no room for it here. */
bool leat_segment_take(struct leat_segment *s, const uint8_t name[32], uint64_t bytes, uint32_t *slot);
void leat_segment_set_live(struct leat_segment *s, uint32_t slot);  /* WRITING to LIVE */
void leat_segment_set_dead(struct leat_segment *s, uint32_t slot);  /* LIVE to DEAD: no longer counted */
void leat_segment_give_back(struct leat_segment *s, uint32_t slot); /* WRITING or DEAD to FREE */

/* I/O. Whole blocks, aligned memory: `n` and `offset` are multiples of a block. */
leat_status leat_segment_read(const struct leat_segment *s, uint64_t offset, void *memory, size_t n,
                              struct leat_error *err);
leat_status leat_segment_write(const struct leat_segment *s, uint64_t offset, const void *memory, size_t n,
                               struct leat_error *err);

/* I/O. The chunk's bytes are written: puts its entry into the table. And takes it out again. */
leat_status leat_segment_publish(const struct leat_segment *s, uint32_t slot, const struct leat_segment_slot *entry,
                                 struct leat_error *err);
leat_status leat_segment_retract(const struct leat_segment *s, uint32_t slot, struct leat_error *err);

/* I/O. Gives the chunk's blocks back to the file system. False where it cannot do that: they are only reused then. */
bool leat_segment_punch(const struct leat_segment *s, const struct leat_segment_slot *entry);

#endif
