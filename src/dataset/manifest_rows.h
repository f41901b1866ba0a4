/* The rows of a manifest, one after the other: what CSV and JSON lines have in common. */
#ifndef LEAT_DATASET_MANIFEST_ROWS_H
#define LEAT_DATASET_MANIFEST_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "dataset/manifest.h"

#define MANIFEST_CELLS (LEAT_MANIFEST_COLUMNS + 1) /* with the path */

enum manifest_kind { MANIFEST_NONE, MANIFEST_INT, MANIFEST_REAL, MANIFEST_TEXT };

struct manifest_cell {
    enum manifest_kind kind;
    int64_t number;
    double real;
    const char *text; /* as it was written; NULL: JSON that is no string */
    const json_t *json;
};

struct manifest_rows {
    const char *what;
    enum leat_manifest_format format;
    const char *text;
    size_t n;
    size_t at;
    uint32_t line;      /* of the row that was read last */
    uint32_t next_line; /* … and of what follows it */
    char names[MANIFEST_CELLS][LEAT_FIELD_NAME_MAX];
    uint32_t names_n; /* JSON: grows as names appear */
    bool named;       /* CSV: the head has been read */
    struct manifest_cell cells[MANIFEST_CELLS];
    struct leat_buf scratch; /* what the cells point to */
    json_t *row;             /* … or to this */
};

void manifest_rows_open(struct manifest_rows *r, const char *text, size_t n, const struct leat_manifest_opts *opts);
void manifest_rows_close(struct manifest_rows *r);
void manifest_rows_again(struct manifest_rows *r); /* from the first row on */

/* The next row that is not empty: a cell for each of the names. Valid until the next call. */
leat_status manifest_rows_next(struct manifest_rows *r, bool *end, struct leat_error *err);

#endif
