#include "base/csv.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct leat_error err;
    struct leat_csv *csv = NULL;
    unsigned lines = 1;
    size_t letters = 0;
    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n';
    leat_status rc = leat_csv_parse("fuzz", (const char *)data, size, &csv, &err);
    fuzz_check_error(rc, &err);
    PROMISE(rc == LEAT_OK || rc == LEAT_INVALID || rc == LEAT_LIMIT);
    if (!csv)
        return 0;
    PROMISE(csv->column_count >= 1);
    for (size_t r = 0; r < csv->row_count; r++) {
        PROMISE(csv->rows[r].line > csv->header_line && csv->rows[r].line <= lines);
        for (size_t c = 0; c < csv->column_count; c++) {
            double v;
            letters += strlen(csv->rows[r].fields[c]);
            leat_csv_number(csv, r, c, &v, &err);
        }
    }
    PROMISE(letters <= size);
    leat_csv_free(csv);
    return 0;
}
