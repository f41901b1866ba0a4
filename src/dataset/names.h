/* Where the objects of a dataset lie below its URL, and the pointers that say which snapshot is meant.
 *
 *   leat/current             the default pointer: small JSON, replaced atomically, written last
 *   leat/names/NAME          pointers of versions that have a name
 *   leat/versions/ID         content id → newest root of that content, the same JSON
 *   leat/partial/…           parts of a listing that is being made: listing_save.h
 *   leat/roots/HEX           roots
 *   leat/sections/HEX        sample tables and keys
 *   leat/chunks/HH/HEX       chunks; HH are the first two digits
 *
 * HEX is the SHA-256 of the object's bytes, so all of them but the pointers are immutable. */
#ifndef LEAT_DATASET_NAMES_H
#define LEAT_DATASET_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"

#define LEAT_NAME_MAX     96 /* bytes of any name below, with the NUL */
#define LEAT_NAME_POINTER "leat/current"
#define LEAT_NAME_CHUNKS  "leat/chunks/"

#define LEAT_NAME_VERSIONS "leat/versions/"
#define LEAT_NAME_NAMES    "leat/names/"

void leat_name_root(const uint8_t sha[LEAT_SHA256_SIZE], char out[LEAT_NAME_MAX]);
void leat_name_section(const uint8_t sha[LEAT_SHA256_SIZE], char out[LEAT_NAME_MAX]);
void leat_name_chunk(const uint8_t sha[LEAT_SHA256_SIZE], char out[LEAT_NAME_MAX]);
void leat_name_version(const uint8_t id[LEAT_SHA256_SIZE], char out[LEAT_NAME_MAX]);

/* The name of a version, given by people: 1 to 63 letters, digits, '_', '.', '-', the first a letter or digit. So it is
 * never mistaken for an id, which has 64 digits. LEAT_INVALID for another. */
#define LEAT_VERSION_NAME_MAX 64 /* with the NUL */
leat_status leat_name_named(const char *text, char out[LEAT_NAME_MAX], struct leat_error *err);

/* What a pointer says. */
struct leat_pointer {
    uint8_t root[LEAT_SHA256_SIZE]; /* SHA-256 of the root: its name */
    uint8_t id[LEAT_SHA256_SIZE];   /* the content id */
};

#define LEAT_POINTER_MAX 4096

/* `out` has room for LEAT_POINTER_MAX bytes; NUL-terminated. */
void leat_pointer_write(const struct leat_pointer *p, char out[LEAT_POINTER_MAX]);

/* `what` is the object in messages. LEAT_VERSION when it needs something that this Leat does not know. */
leat_status leat_pointer_read(const char *what, const char *text, size_t n, struct leat_pointer *out,
                              struct leat_error *err);

#endif
