/* Packing: samples in, chunks and finally a snapshot out, straight into a store.
 *
 * There are no threads of its own: the thread that calls with a full chunk encodes, digests and stores it on the way,
 * so packing is as parallel as its callers are. It holds two chunks for each of them (three while it compares one with
 * a file that is there), one more, and of the snapshot to be some 190 bytes per chunk and at most 256 MiB: the rest is
 * in temporary files (spill.h). */
#ifndef LEAT_DATASET_PACK_H
#define LEAT_DATASET_PACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/chunk.h"
#include "dataset/home.h"
#include "dataset/publish.h"

#define LEAT_PACK_CHUNKS_MAX (1u << 31)

struct leat_pack_opts {
    const struct leat_schema *schema; /* what it points to must stay until close */
    uint64_t chunk_bytes;             /* 0: LEAT_CHUNK_BYTES */
    uint8_t id[LEAT_PACK_ID_BYTES];   /* of this packing: the same for the same input, so that packing again gives
                                         the same objects. All chunks carry it. */
    uint32_t chunks;                  /* there will be, when known; all carry it. 0: only the last one knows */
    struct leat_publish_opts publish; /* where */
    size_t memory;                    /* bytes of the snapshot's tables before they go to a file; 0: 64 MiB */
};

struct leat_pack;

/* Borrows the home. Fails at once when a dataset is there and must not be replaced; what is there now is what may be
 * replaced at the end. */
leat_status leat_pack_open(const struct leat_home *home, const struct leat_pack_opts *opts, struct leat_pack **out,
                           struct leat_error *err);

/* Another id and number of chunks than those given at open; before the first chunk. */
void leat_pack_set_id(struct leat_pack *p, const uint8_t id[LEAT_PACK_ID_BYTES], uint32_t chunks);

/* Without a finish before it, nothing is published: chunks already stored stay, unseen. */
void leat_pack_close(struct leat_pack *p);

/* Appends a sample. From any thread; samples are chunked in the order of the calls. */
leat_status leat_pack_add(struct leat_pack *p, const void *key, size_t key_n, const struct leat_value *values,
                          struct leat_error *err);

/* Stores the samples of a builder as the chunk with this number, and empties the builder. A chunk that is there
 * already, from an interrupted packing or one with other samples besides, is not stored again if its bytes are proven:
 * by the checksum that the store states, or by reading a local file. From any thread, in any order; in the end the
 * numbers must be 0, 1, 2, … Not to be mixed with leat_pack_add. */
leat_status leat_pack_put(struct leat_pack *p, struct leat_chunk_builder *b, uint32_t number, struct leat_error *err);

struct leat_pack_totals {
    uint32_t chunks;
    uint32_t reused; /* of these, chunks that were there already */
    uint64_t samples;
    uint64_t bytes;
};
struct leat_pack_totals leat_pack_totals(struct leat_pack *p); /* so far; any thread */

/* Stores what is left, the sections and the root, and last of all the pointer, atomically. id: the content id.
 * LEAT_CHANGED when a chunk that was not stored again has been deleted since: nothing is published then. */
leat_status leat_pack_finish(struct leat_pack *p, uint8_t id[LEAT_SHA256_SIZE], struct leat_error *err);

/* After finish: whether the store has kept others from publishing at the same moment. */
bool leat_pack_guarded(const struct leat_pack *p);

/* Makes the snapshot again from the chunks alone, and publishes it; id is its content id. Of several packings in one
 * place, the n named ones in their order, as if each had been added to those before it; n 0: there must be only one.
 * LEAT_NOT_FOUND when chunks are missing. `read` is told after each chunk how much has been read, of all; NULL: nobody
 * wants to know. */
typedef void leat_pack_read(void *user, uint64_t bytes, uint64_t all_bytes, uint32_t chunks);
leat_status leat_pack_rebuild(const struct leat_home *home, const uint8_t (*packs)[LEAT_PACK_ID_BYTES], uint32_t n,
                              leat_pack_read *read, void *user, uint8_t id[LEAT_SHA256_SIZE], struct leat_error *err);

#endif
