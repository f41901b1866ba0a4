/* The fields of a dataset, and the cells that describe a sample's values: docs/format.md.
 * Bytes in memory to structs and back; no I/O. */
#ifndef LEAT_DATASET_SCHEMA_H
#define LEAT_DATASET_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "dataset/kind.h"
#include "leat/loader.h"

#define LEAT_FORMAT_VERSION 1

#define LEAT_FIELDS_MAX     64u
#define LEAT_FIELD_NAME_MAX 64         /* bytes, with the NUL */
#define LEAT_SCHEMA_MAX     (1u << 20) /* bytes of an encoded schema */

#define LEAT_FIELD_OPTIONAL 1u /* a bit of `needs`: samples may lack a value */

struct leat_field {
    char name[LEAT_FIELD_NAME_MAX]; /* letters, digits, '_', '.', '-' */
    uint16_t type;
    uint16_t encoding;   /* of the type; 0: the plain one */
    uint32_t needs;      /* what must be understood to read its values */
    uint32_t flags;      /* what need not */
    uint32_t cell_bytes; /* of its cell in a row, a multiple of 8 */
    uint32_t cell_at;    /* in the row */
    const char *about;   /* JSON object that says more, such as {"names": […]}; borrowed, not NUL-terminated */
    uint32_t about_n;    /* 0: nothing */
    /* array and tokens, from the description: */
    uint32_t dtype;               /* enum leat_dtype_code; 0: one that this Leat does not know */
    uint32_t dims_n;              /* of an array */
    uint32_t dims[LEAT_DIMS_MAX]; /* 0: varies from sample to sample */
    uint32_t varying;             /* how many of them do; tokens: 0 */
};

struct leat_schema {
    uint32_t n;
    uint32_t row_bytes;
    struct leat_field fields[LEAT_FIELDS_MAX];
    const uint8_t *encoded; /* the bytes it was read from, borrowed; NULL: it was made by leat_schema_add */
    uint32_t encoded_n;
};

/* Appends a field of a known type. `about` (may be NULL) stays the caller's; arrays and tokens must have one, such as
 * {"dtype": "float32", "shape": [3, null]} and {"dtype": "uint16"}. */
leat_status leat_schema_add(struct leat_schema *s, const char *name, enum leat_field_type type, const char *about,
                            struct leat_error *err);

/* The same with what else can be said of a field. */
struct leat_field_choice {
    bool optional;
    bool zstd; /* values that gain a twentieth or more by it are compressed; LEAT_INVALID for types that cannot be */
};
leat_status leat_schema_add_as(struct leat_schema *s, const char *name, enum leat_field_type type, const char *about,
                               struct leat_field_choice choice, struct leat_error *err);

/* Makes a field of a schema that nothing was written with yet one whose values are compressed. */
leat_status leat_schema_compress(struct leat_schema *s, uint32_t field, struct leat_error *err);

/* LEAT_FIELDS_MAX when there is none of that name. */
uint32_t leat_schema_find(const struct leat_schema *s, const char *name);

/* Whether its values can be read. LEAT_VERSION, with the field's name, for a type, an encoding or a bit of `needs`
 * that this Leat does not know. */
leat_status leat_field_check(const struct leat_field *f, struct leat_error *err);

/* The encoded schema is a multiple of 8 bytes. Reading takes exactly n bytes, and borrows them. A schema that was read
 * is written as the same bytes, with whatever in them is not known here. */
leat_status leat_schema_write(const struct leat_schema *s, struct leat_buf *out, struct leat_error *err);
leat_status leat_schema_read(const void *data, size_t n, struct leat_schema *out, struct leat_error *err);

enum leat_picture_kind { LEAT_PICTURE_UNKNOWN = 0, LEAT_PICTURE_JPEG = 1, LEAT_PICTURE_PNG = 2, LEAT_PICTURE_WEBP = 3 };

#define LEAT_PICTURE_PROGRESSIVE 1u /* a flag */

/* What is known of an encoded image. All zero: nothing. */
struct leat_picture {
    uint32_t width; /* pixels, before orientation is applied */
    uint32_t height;
    uint32_t decoded_bytes; /* all pixels, at the file's own depth; saturates at 2^32-1 */
    uint8_t kind;
    uint8_t channels;
    uint8_t orientation; /* EXIF 1 … 8, 0: not said */
    uint8_t flags;
};

/* One value of a sample, as its row says. */
struct leat_cell {
    bool absent;                  /* optional fields: the sample has no value, and what follows is zero */
    uint32_t offset;              /* in the chunk, where there is data; never 0 for a value */
    uint32_t size;                /* of what is stored there */
    bool zstd;                    /* which is compressed */
    uint32_t raw;                 /* bytes of the value: size, unless it is compressed */
    int64_t number;               /* int */
    double real;                  /* float */
    uint32_t dims[LEAT_DIMS_MAX]; /* array: all of them, the fixed ones too */
    struct leat_picture image;    /* image */
};

#define LEAT_INT_ABSENT   INT64_MIN  /* in the cell of an optional int */
#define LEAT_FLOAT_ABSENT UINT64_MAX /* the bits in the cell of an optional float: a NaN */

uint64_t leat_float_bits(double value);

/* `row` has row_bytes bytes. Cells of fields that cannot be read are all zero, and are not written. */
void leat_cell_write(const struct leat_field *f, const struct leat_cell *cell, uint8_t *row);
struct leat_cell leat_cell_read(const struct leat_field *f, const uint8_t *row);

/* Whether the field's bytes lie in the chunk (and its cell says where); false when it cannot be read. */
bool leat_field_has_data(const struct leat_field *f);

/* Bytes that a value of an array or of tokens has: an array's shape must be one that the field allows, and tokens are
 * whole. LEAT_INVALID, with the field's name, when they are other than `raw`. Others may have any number. */
leat_status leat_field_check_bytes(const struct leat_field *f, const uint32_t dims[LEAT_DIMS_MAX], uint64_t raw,
                                   struct leat_error *err);

#endif
