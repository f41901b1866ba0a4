/* Tables with a header line, comma-separated, as spreadsheets and SkyPilot write them: fields may be quoted,
 * a doubled quote stands for one. Lines that begin with '#' before the header are comments; empty lines are
 * skipped. Every row must have as many fields as the header. */
#ifndef LEAT_PLAN_CSV_H
#define LEAT_PLAN_CSV_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct leat_plan_csv_row {
    unsigned line;
    char **fields; /* as many as there are columns; without blanks around them unless quoted */
};

struct leat_plan_csv {
    char *name; /* what errors call it: the file's path */
    char **columns;
    size_t column_count;
    unsigned header_line;
    struct leat_plan_csv_row *rows;
    size_t row_count;
    char *comment; /* the first comment line without its '#'; NULL: none */
};

/* Rows that are none: fields missing or too many, quotes that do not close. */
struct leat_plan_csv_bad {
    size_t count;
    unsigned first_line;
    char why[80]; /* the first one */
};

/* With `bad`, such rows are left out and counted there; with NULL the first of them is an error. */
leat_status leat_plan_csv_parse(const char *name, const char *text, size_t n, struct leat_plan_csv_bad *bad,
                                struct leat_plan_csv **out, struct leat_error *err);
void leat_plan_csv_free(struct leat_plan_csv *csv); /* NULL is allowed */

#define LEAT_PLAN_CSV_NONE ((size_t)-1)

/* Columns are found by name, in any order and case. */
size_t leat_plan_csv_column(const struct leat_plan_csv *csv, const char *name); /* or LEAT_PLAN_CSV_NONE */
leat_status leat_plan_csv_need(const struct leat_plan_csv *csv, const char *name, size_t *out, struct leat_error *err);

/* A number of a row; an empty field is refused here. */
leat_status leat_plan_csv_number(const struct leat_plan_csv *csv, size_t row, size_t column, double *out,
                                 struct leat_error *err);

#define LEAT_PLAN_CSV_COLUMNS_MAX 256
#define LEAT_PLAN_CSV_ROWS_MAX    1000000

#endif
