/* Structs that cross the library's border. Each begins with its size, a size_t that the caller sets, so that a program
 * and a library of different releases understand each other or say that they do not. `name` is the struct's, for
 * errors; `size` is what this library knows of it. */
#ifndef LEAT_BASE_ABI_H
#define LEAT_BASE_ABI_H

#include <stddef.h>

#include "base/error.h"

#define LEAT_ABI_SIZE_MAX 4096u /* of one struct: a larger size was never set */

/* Copies what the caller gave into `mine`, whose size becomes ours. What a shorter struct lacks is zero; of a longer
 * one the rest must be zero: LEAT_VERSION else. LEAT_INVALID when its size cannot be one. */
leat_status leat_abi_take(const void *theirs, const char *name, void *mine, size_t size, struct leat_error *err);

/* The same for an array, whose elements all have the size that the first one says. */
leat_status leat_abi_take_array(const void *theirs, size_t n, const char *name, void *mine, size_t size,
                                struct leat_error *err);

/* Fills in a struct of the caller's from ours, leaving its size alone: what it lacks is left out, what it has beyond
 * ours becomes zero. */
leat_status leat_abi_give(const void *mine, size_t size, const char *name, void *theirs, struct leat_error *err);

#endif
