/* The folder that is served: its sub-folders are the buckets. Thread-safe. */
#ifndef LEAT_SERVE_FOLDER_H
#define LEAT_SERVE_FOLDER_H

#include <pthread.h>
#include <stdbool.h>

#include "base/error.h"
#include "serve/index.h"
#include "serve/names.h"

struct leat_serve_folder;

/* One bucket; counted. A bucket whose folder is removed or replaced stays usable for those who hold it. */
struct leat_serve_bucket {
    int fd; /* its folder; constant */
    char *name;
    struct leat_serve_folder *folder;
    pthread_mutex_t mu;             /* held while names in it change, and for a page of a listing */
    struct leat_serve_index *index; /* under mu */
    unsigned users;                 /* under the folder's lock */
    unsigned long long inode;
    struct leat_serve_bucket *next;
};

/* LEAT_NOT_FOUND, LEAT_DENIED: no such folder; not readable (or not writable, unless read_only). */
leat_status leat_serve_folder_open(const char *dir, bool read_only, struct leat_serve_folder **out,
                                   struct leat_error *err);
void leat_serve_folder_close(struct leat_serve_folder *f); /* after the last bucket was released; NULL is allowed */

/* LEAT_NOT_FOUND when there is none. */
leat_status leat_serve_bucket_get(struct leat_serve_folder *f, const char *name, struct leat_serve_bucket **out,
                                  struct leat_error *err);
void leat_serve_bucket_release(struct leat_serve_bucket *b); /* NULL is allowed */

#endif
