/* Parts of a dataset that several processes write: each is a version of its own with a name, until they are joined. */
#ifndef LEAT_CLIENT_PACKER_PART_H
#define LEAT_CLIENT_PACKER_PART_H

#include "dataset/names.h"
#include "leat/writer.h"
#include "store/store.h"

#define LEAT_PARTS_OF_ONE_MAX 100000u

void leat_part_name(uint32_t part, uint32_t parts, char out[LEAT_VERSION_NAME_MAX]);

/* The store that the options and the environment say; borrows their strings. */
leat_status leat_packer_store(const struct leat_packer_opts *o, struct leat_store_opts *out, struct leat_error *err);

#endif
