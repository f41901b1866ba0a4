/* Objects as files: reading, writing under a temporary name and putting in place, removing. Thread-safe. */
#ifndef LEAT_SERVE_OBJECT_H
#define LEAT_SERVE_OBJECT_H

#include <stdint.h>

#include "serve/folder.h"

#define LEAT_SERVE_ETAG 72 /* without quotes, with a NUL */

struct leat_serve_object {
    int fd;
    uint64_t size;
    int64_t modified_ns;
    char etag[LEAT_SERVE_ETAG];
    struct leat_buf headers; /* "name: value\n" lines kept with it: content type, x-amz-meta-… */
};

/* Zero it first: *out needs closing on success only. LEAT_NOT_FOUND when there is no such object. */
leat_status leat_serve_object_open(struct leat_serve_bucket *b, struct leat_serve_key key,
                                   struct leat_serve_object *out, struct leat_error *err);
void leat_serve_object_close(struct leat_serve_object *o);

/* The same for many keys of one bucket, to look at only: the last one's folder stays open, and an object that may not
 * be read has no handle. Initialise with the bucket and dir -1. */
struct leat_serve_lookup {
    struct leat_serve_bucket *bucket;
    int dir;
    size_t path_n;
    char path[LEAT_SERVE_KEY_MAX + 1];
};

leat_status leat_serve_object_look(struct leat_serve_lookup *l, struct leat_serve_key key,
                                   struct leat_serve_object *out, struct leat_error *err);
void leat_serve_lookup_end(struct leat_serve_lookup *l);

/* An object being written. */
struct leat_serve_writer {
    struct leat_serve_bucket *bucket; /* borrowed */
    int fd;                           /* -1: none */
    int dir;                          /* of the temporary file */
    char name[33];
    uint64_t size;
    int64_t modified_ns; /* once it is committed */
};

leat_status leat_serve_writer_open(struct leat_serve_bucket *b, struct leat_serve_writer *out, struct leat_error *err);
leat_status leat_serve_writer_add(struct leat_serve_writer *w, const void *data, size_t n, struct leat_error *err);
leat_status leat_serve_writer_copy(struct leat_serve_writer *to, int from, uint64_t n, struct leat_error *err);
void leat_serve_writer_close(struct leat_serve_writer *w); /* drops what was not committed; zeroed is allowed */

/* What must hold of the object that is there. Zeroed: nothing. */
struct leat_serve_condition {
    bool absent;       /* there is none */
    bool present;      /* there is one */
    const char *match; /* it has one of this list of tags; NULL: whichever */
    int64_t version;   /* it was written then, in ns; 0: whenever */
};

bool leat_serve_condition_holds(const struct leat_serve_condition *c, const struct leat_serve_object *o);

/* LEAT_OK also when there was none, unless the condition wants one. LEAT_CHANGED when the condition fails. */
leat_status leat_serve_object_remove(struct leat_serve_bucket *b, struct leat_serve_key key,
                                     const struct leat_serve_condition *condition, struct leat_error *err);

bool leat_serve_etag_listed(const char *list, const char *etag); /* in "a", W/"b", * */

/* Makes the file the object `key` at once, whole. etag: the tag to keep with it, and out the one it will be served
 * under, which is another where the file system keeps no attributes. LEAT_CHANGED when the condition fails, LEAT_EXISTS
 * when it is that there be none. */
leat_status leat_serve_writer_commit(struct leat_serve_writer *w, struct leat_serve_key key,
                                     const struct leat_serve_condition *condition, const char *headers,
                                     char etag[LEAT_SERVE_ETAG], struct leat_error *err);

#endif
