/* One pass over tar shards: which samples there are, where their members lie, and the sums of the chunks they make. For
 * tar_origin.c.
 *
 * What is found of a chunk's samples is one record, in a spill; of a chunk some 60 bytes stay in memory. */
#ifndef LEAT_DATASET_TAR_PASS_H
#define LEAT_DATASET_TAR_PASS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/origin.h"
#include "dataset/shards.h"
#include "dataset/spill.h"
#include "dataset/tar_origin.h"

struct leat_tar_chunk {
    struct leat_origin_chunk at; /* `first` counts from the shard's first sample */
    uint64_t record;             /* in the spill */
    uint32_t record_n;
    uint32_t samples;
};

/* What one shard holds. */
struct leat_tar_shard {
    struct leat_tar_chunk *chunks;
    uint32_t n;
    uint32_t cap;
    uint64_t samples;
};

struct leat_tar_field {
    char name[LEAT_FIELD_NAME_MAX];
    enum leat_field_type type;
    uint64_t samples; /* that have it */
    uint64_t seen;    /* where it stands first: number of the shard, of the field in it */
};

struct leat_tar_pass {
    const struct leat_tar_opts *opts;
    const struct leat_shards *shards;
    struct leat_tar_progress *progress;
    uint64_t chunk_bytes;
    struct leat_tar_shard *found; /* one for each shard; written by the thread that reads it */
    _Atomic uint32_t next;
    _Atomic bool failed;
    pthread_mutex_t mutex;
    struct { /* hold mutex */
        leat_status rc;
        struct leat_error err;
        uint32_t failed_shard; /* the first of those that failed: the error does not depend on the threads */
        struct leat_tar_field fields[LEAT_FIELDS_MAX];
        uint32_t fields_n;
        struct leat_spill *spill;
        uint64_t bytes; /* of all values */
        uint64_t skipped;
        char skipped_name[LEAT_TAR_SHOWN];
    } locked;
};

leat_status leat_tar_pass_run(struct leat_tar_pass *p, struct leat_error *err);

/* A record: u32 where each sample's part ends, counted from the end of these; then for each sample u32 bytes of the
 * key, the key, u8 values, and for each of them u8 field (of the pass), u32 offset from the chunk's, u32 size, i64
 * number or, for images, what the probe found (16 bytes). */
#define LEAT_TAR_VALUE_BYTES 25u

/* A sample (< samples) of a chunk, out of its record. Offsets are in the shard. `at` is each field's place in the
 * schema, and values has room for them: those that the sample lacks are absent. */
leat_status leat_tar_record_read(const struct leat_tar_pass *p, const struct leat_tar_chunk *chunk, const void *record,
                                 uint32_t sample, const uint8_t at[LEAT_FIELDS_MAX], struct leat_origin_value *values,
                                 struct leat_origin_sample *out, struct leat_error *err);

/* A whole number in decimal digits, white space around it; false when it is something else. */
bool leat_tar_number(const void *data, size_t n, int64_t *out);

#endif
