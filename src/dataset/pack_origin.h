/* Packs what an origin has (origin.h) into a dataset in any store. Chunks are planned from what the origin says, so
 * threads build them independently and the result does not depend on how many there are.
 *
 * The packing's id stands in every chunk and covers the contents, so that chunks of two packings which differ in a few
 * bytes are never taken for one (leat_pack_rebuild). Contents whose MD5 the origin's store does not say are therefore
 * read before the first chunk is stored, and kept in memory as far as `keep` allows; the rest is read again. */
#ifndef LEAT_DATASET_PACK_ORIGIN_H
#define LEAT_DATASET_PACK_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "dataset/cut.h"
#include "dataset/home.h"
#include "dataset/mix.h"
#include "dataset/origin.h"
#include "dataset/publish.h"

/* What is done to images on their way. Each thread has a context of its own. */
struct leat_pack_images {
    leat_status (*open)(const void *user, void **context, struct leat_error *err);
    void (*close)(void *context); /* NULL is allowed */
    /* Fills in what is known of the image. Bytes that are to be stored instead of these go into `out`, which is empty;
     * an empty one means that these stay. */
    leat_status (*image)(void *context, const void *data, size_t n, struct leat_buf *out, struct leat_picture *picture,
                         struct leat_error *err);
    const void *user;
    bool changes; /* bytes may change: images that cannot be read are then errors. False: they are stored as they are */
    const char *what; /* in words, for the packing's id; "" when nothing changes */
};

struct leat_pack_origin_opts {
    struct leat_cut_opts cut;
    unsigned threads; /* 0: one for each CPU */
    struct leat_publish_opts publish;
    size_t memory; /* see leat_pack_opts */
    uint64_t keep; /* bytes of chunks that wait in memory for the packing's id; 0: a quarter of what is available */
    const struct leat_pack_images *images; /* NULL: they are not looked at */
    bool plain; /* each sample is one whole object, and its other values follow from the key and the schema */
    bool skip;  /* samples that cannot be read, or whose values cannot be what their fields want, are left out */
    /* Told of each of these, one at a time. */
    void (*skipped)(void *user, const void *key, size_t key_n, const struct leat_error *err);
    void *skipped_user;
    bool (*stop)(void *user); /* asked now and then: true ends it with LEAT_CANCELLED; may be NULL */
    void *stop_user;
};

/* Read it from any thread while packing goes on. */
struct leat_pack_progress {
    _Atomic uint64_t samples; /* relaxed: for people */
    _Atomic uint64_t bytes;
    _Atomic uint64_t digested;   /* bytes read before, for the packing's id … */
    _Atomic uint64_t to_digest;  /* … of as many */
    _Atomic uint64_t unreadable; /* images whose header could not be read; they are packed all the same */
    _Atomic uint64_t changed;    /* images that are stored with other bytes */
    _Atomic uint64_t skipped;
};

struct leat_pack_result {
    uint8_t id[LEAT_SHA256_SIZE];
    uint32_t chunks;
    uint32_t reused; /* of these, chunks that were stored already */
    uint64_t samples;
    uint64_t bytes;
    bool guarded;               /* see leat_pack_guarded */
    struct leat_mix_result mix; /* of the classes in the chunks; zeros without labels */
};

leat_status leat_pack_origin(const struct leat_origin *origin, const struct leat_home *to,
                             const struct leat_pack_origin_opts *opts, struct leat_pack_progress *progress,
                             struct leat_pack_result *out, struct leat_error *err);

#endif
