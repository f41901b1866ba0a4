/* Samples in tar shards, by WebDataset's rules: members that follow each other and have the same path up to the first
 * dot of their name are one sample, and what stands after the dot is the field (`a/0001.seg.png`: sample `a/0001`,
 * field `seg.png`). Endings are in lower case, and `jpeg` is `jpg`.
 *
 * Opening reads every shard once, several at a time, in bounded memory. Chunks are stretches of a shard with whole
 * samples: their sums are known, and so are the sizes of images. */
#ifndef LEAT_DATASET_TAR_ORIGIN_H
#define LEAT_DATASET_TAR_ORIGIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/manifest.h"
#include "dataset/origin.h"

#define LEAT_TAR_SHOWN 200u

/* Read it from any thread while the origin is being opened. */
struct leat_tar_progress {
    _Atomic uint64_t total;  /* relaxed, as the others: bytes of all shards … */
    _Atomic uint64_t bytes;  /* … and of those that were read */
    _Atomic uint64_t shards; /* that were */
    _Atomic uint64_t samples;
    _Atomic uint64_t unreadable; /* images whose header could not be read */
};

struct leat_tar_opts {
    const struct leat_store_opts *store; /* NULL: defaults */
    uint64_t chunk_bytes; /* 0: LEAT_CHUNK_BYTES. A chunk is larger where one sample is, and by one more */
    unsigned threads;     /* shards that are read at a time; 0: as many as make sense */
    /* Fields with other types than their endings say: bytes, image, string, json, or int, whose text is read as a
     * number in passing. */
    const struct leat_type_wish *wishes;
    uint32_t wishes_n;
    bool names_only; /* finds the shards and reads none of them: the origin has objects and bytes, but no samples */
    /* Looks at an image's header; false when it cannot be read. From any thread; NULL: none. */
    bool (*probe)(const void *data, size_t n, struct leat_picture *out);
    bool (*stop)(void *user); /* asked now and then: true ends it with LEAT_CANCELLED; may be NULL */
    void *stop_user;
};

struct leat_tar_counts {
    uint64_t shards;
    uint64_t other;                    /* objects below the prefixes that are no shards */
    uint64_t skipped;                  /* members that are not part of a sample … */
    char skipped_name[LEAT_TAR_SHOWN]; /* … and the name of one */
};

/* What the addresses may be: shards.h. progress and counts may be NULL. */
leat_status leat_origin_tar_open(const char *const *urls, size_t n, const struct leat_tar_opts *opts,
                                 struct leat_tar_progress *progress, struct leat_tar_counts *counts,
                                 struct leat_origin **out, struct leat_error *err);

#endif
