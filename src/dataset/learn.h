/* Checksums that an indexed dataset did not have, kept for everybody who reads it after this. */
#ifndef LEAT_DATASET_LEARN_H
#define LEAT_DATASET_LEARN_H

#include <stdint.h>

#include "base/error.h"
#include "dataset/dataset.h"

/* Publishes a root of the same version that knows the checksums of the chunks that were loaded since `d` was opened;
 * *n is how many of them it did not know. Pointers that lead to this version lead to the new root afterwards; one that
 * somebody moves at the same moment is LEAT_CHANGED. Nothing is written when *n is 0. */
leat_status leat_learn(const struct leat_dataset *d, uint32_t *n, struct leat_error *err);

#endif
