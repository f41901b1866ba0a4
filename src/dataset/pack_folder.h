/* Packs the files of a folder, of any store, into a dataset in any other. Chunks are planned from the list of
 * files, so threads build them independently and the result does not depend on how many there are.
 *
 * The packing's id stands in every chunk and covers the contents, so that chunks of two packings which differ in a few
 * bytes are never taken for one (leat_pack_rebuild). Files whose MD5 the list does not say are therefore read
 * twice. */
#ifndef LEAT_DATASET_PACK_FOLDER_H
#define LEAT_DATASET_PACK_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/home.h"
#include "dataset/mix.h"
#include "dataset/publish.h"
#include "dataset/scan.h"
#include "dataset/schema.h"

struct leat_pack_folder_opts {
    bool keep_order; /* false: samples are permuted by the seed */
    uint64_t seed;
    uint64_t chunk_bytes; /* 0: LEAT_CHUNK_BYTES */
    unsigned threads;     /* 0: one for each CPU */
    struct leat_publish_opts publish;
    size_t memory; /* see leat_pack_opts */
    /* Looks at an image's header; false when it cannot be read. From any thread; NULL: none. */
    bool (*probe)(const void *data, size_t n, struct leat_picture *out);
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
};

struct leat_pack_result {
    uint8_t id[LEAT_SHA256_SIZE];
    uint32_t chunks;
    uint64_t samples;
    uint64_t bytes;
    bool guarded;               /* see leat_pack_guarded */
    struct leat_mix_result mix; /* of the classes in the chunks; zeros without labels */
};

leat_status leat_pack_folder(const struct leat_home *from, const struct leat_scan *files, const struct leat_home *to,
                             const struct leat_pack_folder_opts *opts, struct leat_pack_progress *progress,
                             struct leat_pack_result *out, struct leat_error *err);

#endif
