/* Parts of a dataset that several processes write: each is a version of its own with a name, until they are joined. */
#ifndef LEAT_CLIENT_PACKER_PART_H
#define LEAT_CLIENT_PACKER_PART_H

#include "dataset/home.h"
#include "dataset/names.h"
#include "leat/writer.h"
#include "store/store.h"

#define LEAT_PARTS_OF_ONE_MAX 100000u

void leat_part_name(uint32_t part, uint32_t parts, char out[LEAT_VERSION_NAME_MAX]);

/* Forgets that an earlier attempt at this part had no samples. */
leat_status leat_part_begin(const struct leat_home *home, uint32_t part, uint32_t parts, struct leat_error *err);
/* Finishes a part that has none: merging goes on without it. */
leat_status leat_part_is_empty(const struct leat_home *home, uint32_t part, uint32_t parts, struct leat_error *err);

/* The store that the options and the environment say; borrows their strings. */
leat_status leat_packer_store(const struct leat_packer_opts *o, struct leat_store_opts *out, struct leat_error *err);

#endif
