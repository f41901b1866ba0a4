/* Where the objects of a dataset lie below its URL, and the pointer that says which snapshot is current.
 *
 *   leat/current             the pointer: small JSON, replaced atomically, written last
 *   leat/roots/HEX           roots
 *   leat/sections/HEX        sample tables and keys
 *   leat/chunks/HH/HEX       chunks; HH are the first two digits
 *
 * HEX is the SHA-256 of the object's bytes, so all of them but the pointer are immutable. */
#ifndef LEAT_DATASET_NAMES_H
#define LEAT_DATASET_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"

#define LEAT_NAME_MAX     96 /* bytes of any name below, with the NUL */
#define LEAT_NAME_POINTER "leat/current"
#define LEAT_NAME_CHUNKS  "leat/chunks/"

void leat_name_root(const uint8_t sha[LEAT_SHA256_SIZE], char out[LEAT_NAME_MAX]);
void leat_name_section(const uint8_t sha[LEAT_SHA256_SIZE], char out[LEAT_NAME_MAX]);
void leat_name_chunk(const uint8_t sha[LEAT_SHA256_SIZE], char out[LEAT_NAME_MAX]);

#define LEAT_POINTER_MAX 4096

/* `out` has room for LEAT_POINTER_MAX bytes; NUL-terminated. */
void leat_pointer_write(const uint8_t id[LEAT_SHA256_SIZE], char out[LEAT_POINTER_MAX]);
leat_status leat_pointer_read(const char *text, size_t n, uint8_t id[LEAT_SHA256_SIZE], struct leat_error *err);

#endif
