/* A manifest: a table that says which files are samples, and what is known of each. CSV (a comma or a tab between,
 * RFC 4180's quotes, a head of names) or JSON lines. One column is the path, the others become values.
 *
 * Types come from what is in a column: all of it whole numbers, all of it numbers, else text. What would not come back
 * as it was written (007, a number beyond 64 bits) is text. Empty cells and nulls are values that are not there. */
#ifndef LEAT_DATASET_MANIFEST_H
#define LEAT_DATASET_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "dataset/schema.h"

#define LEAT_MANIFEST_MAX     ((size_t)16 << 30) /* bytes */
#define LEAT_MANIFEST_COLUMNS LEAT_FIELDS_MAX

enum leat_manifest_format { LEAT_MANIFEST_CSV, LEAT_MANIFEST_TSV, LEAT_MANIFEST_JSONL };

/* The type that somebody wants a column or field to have, whatever it looks like. */
struct leat_type_wish {
    const char *name;
    enum leat_field_type type;
};

struct leat_manifest_opts {
    const char *what; /* its name, for messages: "labels.csv" */
    enum leat_manifest_format format;
    const char *path; /* name of the column with the paths; NULL: 'path', 'file', 'filename', 'file_name' or 'key' */
    const struct leat_type_wish *wishes; /* those that name no column do not matter here */
    uint32_t wishes_n;
};

struct leat_manifest_column {
    char name[LEAT_FIELD_NAME_MAX];
    enum leat_field_type type; /* int, float, string */
    bool optional;             /* some rows have none */
    uint64_t *cells;           /* by row: the number, the bits of the double, or where the text begins */
    uint8_t *there;            /* by row: whether there is one */
};

struct leat_manifest {
    char *what;
    uint64_t rows;
    uint32_t *lines;      /* of each row in the file, 1 is the first */
    uint64_t *paths;      /* where each one's path begins in the text */
    struct leat_buf text; /* strings, each with a NUL after it */
    uint32_t columns_n;   /* without that of the paths */
    struct leat_manifest_column columns[LEAT_MANIFEST_COLUMNS];
};

/* The format by the name's ending. LEAT_INVALID for another. */
leat_status leat_manifest_format(const char *name, enum leat_manifest_format *out, struct leat_error *err);

/* LEAT_INVALID, with file and line, for what is no such table. */
leat_status leat_manifest_read(const char *text, size_t n, const struct leat_manifest_opts *opts,
                               struct leat_manifest *out, struct leat_error *err);
void leat_manifest_close(struct leat_manifest *m); /* zeroed ones are allowed */

static inline const char *leat_manifest_path(const struct leat_manifest *m, uint64_t row)
{
    return m->text.data + m->paths[row];
}

/* LEAT_MANIFEST_COLUMNS when there is none. */
uint32_t leat_manifest_find(const struct leat_manifest *m, const char *name);

#endif
