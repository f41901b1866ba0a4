/* Inside packing: what its threads share, and what each has. */
#ifndef LEAT_DATASET_PACK_INSIDE_H
#define LEAT_DATASET_PACK_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/hash.h"
#include "dataset/chunk.h"
#include "dataset/pack_origin.h"
#include "store/wait.h"

/* A thread has this many samples in hand, or this many bytes where they are large. */
#define PACK_GROUP       64u
#define PACK_GROUP_BYTES (16u << 20)

struct pack_job {
    const struct leat_origin *origin;
    const struct leat_pack_origin_opts *opts;
    struct leat_pack_progress *progress;
    struct leat_cut cut;
    uint8_t (*digests)[LEAT_MD5_SIZE]; /* of each sample's bytes: pack_digest() */
    uint8_t *bad;                      /* by sample; NULL: none is left out */
    struct leat_pack *pack;
    struct leat_chunk_builder **kept; /* by chunk: built before the packing had an id; NULL: read it again */
    uint64_t keep;
    _Atomic uint64_t kept_bytes;
    bool storing;          /* false: everything is read for its digests, nothing is stored yet */
    _Atomic uint32_t next; /* chunk */
    _Atomic bool failed;
    pthread_mutex_t mutex;
    struct { /* hold mutex */
        leat_status rc;
        struct leat_error err;
    } locked;
};

/* A stretch of an object that several values may lie in. */
struct pack_read {
    uint32_t object;
    uint64_t offset;
    uint64_t length;
    size_t at; /* in the group's memory */
    char etag[LEAT_ETAG_MAX];
    uint64_t object_bytes;
    struct leat_store_op op;
    struct leat_error err;
    struct leat_object found;
};

struct pack_worker {
    struct pack_job *job;
    pthread_t thread;
    bool started;
    void *images;                 /* the context of opts->images */
    struct leat_buf changed;      /* an image's other bytes */
    struct leat_chunk_builder *b; /* the chunk at hand */
    /* A group of samples, and the reads that bring their bytes. */
    struct leat_origin_room *rooms;
    struct leat_origin_sample samples[PACK_GROUP];
    struct leat_error errors[PACK_GROUP]; /* status LEAT_OK: its bytes are here */
    uint32_t *read_of;                    /* by sample and field … */
    uint8_t (*digests)[LEAT_MD5_SIZE];    /* … as these are */
    struct pack_read *reads;
    uint32_t reads_n;
    uint32_t reads_cap;
    uint8_t *data;
    size_t data_cap;
    struct leat_wait wait; /* for the reads */
};

bool pack_stopped(const struct pack_job *j);
void pack_wait_init(struct pack_worker *w); /* once w->job is set */

/* Brings the samples at n places from `first` on, as many as make a group: *n. What is wrong with single ones is in
 * w->errors; an error returned is one of the whole. */
leat_status pack_read_group(struct pack_worker *w, uint64_t first, uint64_t end, uint32_t *n, struct leat_error *err);

/* Where the bytes of a value of sample i of the group are. */
const void *pack_value(const struct pack_worker *w, uint32_t i, uint32_t field);

/* Whether a value lies in an object, as the origin says. */
static inline bool pack_lies_elsewhere(const struct leat_field *f, const struct leat_origin_value *v)
{
    return !v->absent && !v->data && leat_field_has_data(f);
}

/* The digest of a sample whose bytes need not be read, because the store says the MD5 of its objects. False: they do.
 */
bool pack_known_digest(const struct leat_origin *o, const struct leat_origin_sample *s, uint8_t out[LEAT_MD5_SIZE]);

/* Of the n samples of the group, whose bytes are here: those at the places from `first` on. */
void pack_digest_group(struct pack_worker *w, uint64_t first, uint32_t n);

/* The same input, packed the same way, makes the same dataset; anything else makes another. */
leat_status pack_id(const struct pack_job *j, uint8_t id[LEAT_PACK_ID_BYTES], struct leat_error *err);

#endif
