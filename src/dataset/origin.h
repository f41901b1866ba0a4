/* Samples as people have them, before they are a dataset: files of a folder or bucket, members of tar shards, stretches
 * of token files. An origin says of each sample its key, what it knows of its values, and where their bytes lie.
 * `leat index` notes where they lie (index.h), `leat pack` reads them; another reader (Parquet, MDS,
 * TFRecord) that implements this has both.
 *
 * Once open it is constant: any thread may ask. */
#ifndef LEAT_DATASET_ORIGIN_H
#define LEAT_DATASET_ORIGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/home.h"
#include "dataset/schema.h"

/* An object that samples lie in. Pointers are the origin's, valid until it is closed. */
struct leat_origin_object {
    const struct leat_home *home; /* its store */
    const char *key;              /* in the store, whole */
    uint64_t size;
    const char *etag; /* "": the store has none */
};

struct leat_origin_value {
    bool absent;               /* optional fields: there is none, and the rest does not matter */
    const void *data;          /* the bytes themselves; NULL: they lie … */
    uint32_t object;           /* … in this object … */
    uint64_t offset;           /* … from here on */
    uint64_t size;             /* of either */
    int64_t number;            /* int */
    double real;               /* float */
    struct leat_picture image; /* image: what a probe found, or zeros */
};

struct leat_origin_sample {
    const void *key;
    size_t key_n;
    const struct leat_origin_value *values; /* one for each field of the schema */
};

/* Room for one sample that is asked for; each thread has its own. Zeroed before its first use. */
struct leat_origin_room {
    struct leat_origin_value values[LEAT_FIELDS_MAX];
    char *text; /* the origin's to fill in, leat_origin_room_free() frees it */
    size_t text_cap;
};
void leat_origin_room_free(struct leat_origin_room *room);

/* A chunk that the origin has cut itself: a stretch of one object in which its samples lie, with whatever lies between
 * and after them. */
struct leat_origin_chunk {
    uint64_t first; /* of its samples; they end where the next chunk's begin */
    uint32_t object;
    uint64_t offset; /* where the stretch begins … */
    uint64_t length;
    uint64_t sum; /* … and XXH3 of its bytes; 0: nobody has read them */
};

struct leat_origin;

struct leat_origin_ops {
    /* i < samples. What it says is valid until the room is used again. */
    leat_status (*sample)(const struct leat_origin *o, uint64_t i, struct leat_origin_room *room,
                          struct leat_origin_sample *out, struct leat_error *err);
    leat_status (*object)(const struct leat_origin *o, uint32_t i, struct leat_origin_object *out,
                          struct leat_error *err);
    /* i < chunks. NULL: the origin cuts nothing itself. Where it does, cut.h takes its chunks as they are, and an index
     * the stretch and the sum. */
    leat_status (*chunk)(const struct leat_origin *o, uint32_t i, struct leat_origin_chunk *out,
                         struct leat_error *err);
    void (*close)(struct leat_origin *o); /* NULL is not given */
};

/* The first member of every origin. */
struct leat_origin {
    const struct leat_origin_ops *ops;
    const char *kind; /* "raw", "tar", "tokens" */
    struct leat_schema schema;
    uint64_t samples;
    uint64_t bytes; /* of all values that lie in objects */
    uint32_t objects;
    /* Samples follow each other in their objects, and a chunk is a stretch of one of them: their order stays, and a
     * chunk never goes over the end of an object. False: samples are permuted. */
    bool in_place;
    bool many_stores;  /* objects lie in more than one store, of which a chunk can have only one */
    uint32_t chunks;   /* that it has cut itself: with ops->chunk, which in_place ones have; else 0 */
    uint64_t requests; /* made so far, for --dry-run */
};

void leat_origin_close(struct leat_origin *o); /* NULL is allowed */

/* i < samples; as the origin's own function. */
leat_status leat_origin_sample(const struct leat_origin *o, uint64_t i, struct leat_origin_room *room,
                               struct leat_origin_sample *out, struct leat_error *err);

/* Room for n bytes at room->text; what was there is lost. */
leat_status leat_origin_room_text(struct leat_origin_room *room, size_t n, struct leat_error *err);

/* Whether two places lie in one store: one bucket, the file system, one web server. */
bool leat_origin_same_store(const struct leat_home *a, const struct leat_home *b);

#endif
