/* Copying objects between stores, many parts at a time, in bounded memory. A large object goes in parts; which of
 * them have arrived is kept in a journal, so that an interrupted copy can be taken up again. */
#ifndef LEAT_STORE_COPY_H
#define LEAT_STORE_COPY_H

#include "store/store.h"

struct leat_copy;

struct leat_copy_opts {
    struct leat_store *from; /* must outlive the copy, as `to` */
    struct leat_store *to;
    uint64_t part_size;       /* 0: 8 MiB; at least LEAT_PART_MIN */
    uint64_t memory;          /* for data on its way; 0: 256 MiB */
    bool resume;              /* leave out what is there already; go on with what was begun */
    const char *journal;      /* folder for journals, made when missing; NULL: none are kept */
    bool (*stop)(void *user); /* as in leat_store_opts */
    void *stop_user;
};

struct leat_copy_progress {
    uint64_t objects;       /* copied */
    uint64_t skipped;       /* there already */
    uint64_t bytes;         /* arrived at the destination, resumed ones included */
    uint64_t bytes_moving;  /* of parts that have not arrived whole: received, or sent where the source is a file */
    uint64_t bytes_planned; /* of all objects added so far */
    uint64_t resumable;     /* objects begun and not finished whose parts would stay for a later resume */
};

leat_status leat_copy_open(const struct leat_copy_opts *opts, struct leat_copy **out, struct leat_error *err);

/* Adds an object; waits while the memory is in use. `known` is what a listing said of it, NULL: look. After a
 * failure of this or an earlier object it returns that failure. */
leat_status leat_copy_add(struct leat_copy *copy, const char *from_key, const struct leat_object *known,
                          const char *to_key, struct leat_error *err);

/* The same for a version of an object; "": as it is now. */
leat_status leat_copy_add_version(struct leat_copy *copy, const char *from_key, const char *version, const char *to_key,
                                  struct leat_error *err);

/* Waits until everything added has arrived, or returns the first failure. */
leat_status leat_copy_wait(struct leat_copy *copy, struct leat_error *err);

/* From any thread. */
void leat_copy_progress(struct leat_copy *copy, struct leat_copy_progress *out);

/* Cancels what is on its way. Parts that arrived stay for a later resume where a journal is kept, unless there was no
 * space for more; else the server is told to drop them. NULL is allowed. */
void leat_copy_close(struct leat_copy *copy);

#endif
