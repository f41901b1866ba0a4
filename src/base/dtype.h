/* Types of numbers in arrays and columns: enum leat_dtype_code (leat/loader.h) with the names that schemas, pipelines
 * and people use, numpy's own. */
#ifndef LEAT_BASE_DTYPE_H
#define LEAT_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat/loader.h" /* leat_dtype_name() */

uint32_t leat_dtype_find(const char *name, size_t n); /* 0: none is called that */
uint32_t leat_dtype_bytes(uint32_t code);             /* of a value; 0: unknown */
bool leat_dtype_is_float(uint32_t code);
bool leat_dtype_is_signed(uint32_t code);

#endif
