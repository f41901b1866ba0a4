#include "plan/csv.h"

#include "fuzz.h"

FUZZ(csv)
{
    struct leat_error err;
    struct leat_plan_csv *csv = NULL;
    unsigned lines = 1;
    size_t letters = 0;
    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n';
    leat_status rc = leat_plan_csv_parse("fuzz", (const char *)data, size, NULL, &csv, &err);
    fuzz_check_error(rc, &err);
    PROMISE(rc == LEAT_OK || rc == LEAT_INVALID || rc == LEAT_LIMIT);
    struct leat_plan_csv_bad bad = {0};
    struct leat_plan_csv *lax = NULL;
    leat_status again = leat_plan_csv_parse("fuzz", (const char *)data, size, &bad, &lax, &err);
    fuzz_check_error(again, &err);
    PROMISE(rc != LEAT_OK || (again == LEAT_OK && !bad.count && lax->row_count == csv->row_count));
    PROMISE(again != LEAT_OK || rc == LEAT_OK || bad.count);
    leat_plan_csv_free(lax);
    if (!csv)
        return;
    PROMISE(csv->column_count >= 1);
    for (size_t r = 0; r < csv->row_count; r++) {
        PROMISE(csv->rows[r].line > csv->header_line && csv->rows[r].line <= lines);
        for (size_t c = 0; c < csv->column_count; c++) {
            double v;
            letters += strlen(csv->rows[r].fields[c]);
            leat_plan_csv_number(csv, r, c, &v, &err);
        }
    }
    PROMISE(letters <= size);
    leat_plan_csv_free(csv);
}
