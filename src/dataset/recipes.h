/* The recipes of an open dataset (recipe.h): where each lies, the stores that pieces come from, and the checksums of
 * chunks that the snapshot has none of, learned when they first arrive. Any thread may call. */
#ifndef LEAT_DATASET_RECIPES_H
#define LEAT_DATASET_RECIPES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/chunk.h"
#include "dataset/home.h"
#include "dataset/piece.h"
#include "dataset/root.h"
#include "dataset/sections.h"
#include "dataset/sources.h"

struct leat_recipes;

/* Reads where the recipes lie, 8 bytes per chunk, and the list of sources. Their stores are opened when a piece is
 * wanted, with the same options, which are copied; a source in the dataset's own bucket is read through its store. What
 * the options say of buckets is for the kind of the dataset's own, else of its sources': leat_store_opts_owner().
 * Everything else is borrowed. */
leat_status leat_recipes_open(const struct leat_home *home, const struct leat_store_opts *opts,
                              const struct leat_root *root, struct leat_sections *sections, struct leat_recipes **out,
                              struct leat_error *err);
void leat_recipes_close(struct leat_recipes *r); /* NULL is allowed */

const struct leat_sources_list *leat_recipes_sources(const struct leat_recipes *r);

/* A digest of the sources' URLs and of the endpoints through which they are reached: of two datasets with other ones,
 * the same recipe may make other chunks. An endpoint that the options leave to be found is looked up, as opening the
 * source would. */
leat_status leat_recipes_digest_place(struct leat_recipes *r, uint8_t out[LEAT_SHA256_SIZE], struct leat_error *err);

/* Bytes of a chunk's recipe. 0: it has none, and is stored as in a packed dataset. */
uint32_t leat_recipes_bytes(const struct leat_recipes *r, uint32_t chunk);

/* Where it lies: one piece of the snapshot's section. */
leat_status leat_recipes_place(const struct leat_recipes *r, uint32_t chunk, struct leat_pieces *out,
                               struct leat_error *err);

/* Takes a recipe that has arrived: LEAT_CORRUPT when it is not the one that the chunk is named by. Writes the chunk's
 * first bytes to `into`, which has room for the whole chunk, and says of which pieces of which store the rest is made.
 */
leat_status leat_recipes_begin(struct leat_recipes *r, uint32_t chunk, const void *recipe, void *into,
                               struct leat_pieces *pieces, struct leat_store **store, struct leat_error *err);

/* A chunk that has arrived, against what was learned of it: LEAT_CORRUPT when its data are others. */
leat_status leat_recipes_check(struct leat_recipes *r, uint32_t chunk, const struct leat_chunk *c,
                               struct leat_error *err);

uint64_t leat_recipes_learned(const struct leat_recipes *r, uint32_t chunk); /* 0: nothing, or the root has it */

/* A chunk that another machine has made. One whose checksums are all known, from the root or an earlier arrival, can be
 * compared without its recipe: */
bool leat_recipes_known(const struct leat_recipes *r, uint32_t chunk);

/* Of another the recipe is needed first. LEAT_CORRUPT when it is not the one that the chunk is named by; else the
 * chunk's first bytes are written to `data` again. What no checksum is known of is compared with the MD5s that ETags
 * are in most buckets: *doubt is 0 where they fit or say nothing, else the checksum of what was sent. Whether it is
 * wrong or the ETags are no MD5s the bucket knows, and then leat_recipes_learned(). */
leat_status leat_recipes_judge(struct leat_recipes *r, uint32_t chunk, const void *recipe, void *data, uint64_t *doubt,
                               struct leat_error *err);
void leat_recipes_pins_prove_nothing(struct leat_recipes *r); /* they are no MD5s here: not compared any more */

/* Puts into words what has become of the pieces of a chunk, when they are no longer as they were indexed. LEAT_CORRUPT
 * becomes LEAT_CHANGED: the objects are somebody else's, and were read twice. */
leat_status leat_recipes_explain(const struct leat_recipes *r, uint32_t chunk, struct leat_error *err);

/* Other keys for the stores that it has opened, and will open: leat_store_renew. */
void leat_recipes_renew(struct leat_recipes *r, const struct leat_access *access);

/* Adds what the stores that it has opened have counted. Waits for nobody. */
void leat_recipes_stats(const struct leat_recipes *r, struct leat_store_stats *sum);

#endif
