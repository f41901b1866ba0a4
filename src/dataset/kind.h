/* Kinds of fields and of outputs, as two tables: what is stored (docs/format.md) and what batches are made of
 * (docs/loader.md). Code that lists kinds reads them. */
#ifndef LEAT_DATASET_KIND_H
#define LEAT_DATASET_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers are part of the format. A type this reader does not know is kept as a number: the other fields of such
 * a dataset can still be read. */
enum leat_field_type {
    LEAT_FIELD_BYTES = 1,
    LEAT_FIELD_IMAGE = 2,
    LEAT_FIELD_INT = 3,
    LEAT_FIELD_STRING = 4,
    LEAT_FIELD_FLOAT = 5,
    LEAT_FIELD_JSON = 6,
    LEAT_FIELD_ARRAY = 7,
    LEAT_FIELD_TOKENS = 8
};

#define LEAT_FIELD_TYPES 9u /* one more than the last */

/* Encodings of a type. */
enum leat_field_encoding { LEAT_ENCODING_PLAIN = 0, LEAT_ENCODING_ZSTD = 1 };

struct leat_field_kind {
    const char *name;
    uint32_t cell_bytes; /* in the plain encoding, without an array's sizes */
    bool data;           /* its bytes lie in the chunk, and its cell says where */
    bool zstd;           /* they may be compressed there */
    bool typed;          /* they are numbers of one type, which the field's description names */
};

const struct leat_field_kind *leat_field_kind(uint32_t type); /* NULL: not known here */

const char *leat_field_type_name(uint32_t type);           /* "bytes", "image", …, "unknown" */
uint32_t leat_field_type_find(const char *name, size_t n); /* 0: there is none of that name */

/* Whether a typed field may hold numbers of this dtype. */
bool leat_field_type_takes(uint32_t type, uint32_t dtype);

/* A kind of output. leat_loader_output() shows the rows. */
struct leat_output_kind_row {
    const char *name;
    uint32_t kind;      /* enum leat_output_kind */
    const char *fields; /* types of field that it takes, separated by spaces; "": it needs no field */
    const char *words;  /* that its pipeline may have, likewise; "…": those of src/prep */
    const char *dtype;  /* for people */
    const char *shape;
};

const struct leat_output_kind_row *leat_output_kind_find(uint32_t kind); /* NULL: not known here */
bool leat_kind_list_has(const char *list, const char *word, size_t n);   /* a list as the rows have it */

#endif
