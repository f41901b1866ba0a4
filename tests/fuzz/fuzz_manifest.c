/* Any bytes as a manifest, of the format that the first one says: every row has a path and a value or none in every
 * column, lines rise, and numbers come back as they were written. */
#include "dataset/manifest.h"

#include "fuzz.h"

FUZZ(manifest)
{
    static const struct leat_type_wish wishes[] = {{"n", LEAT_FIELD_INT}, {"f", LEAT_FIELD_FLOAT}};
    struct leat_manifest_opts opts = {.what = "m", .wishes = wishes};
    struct leat_manifest m;
    struct leat_error err;
    if (size == 0)
        return;
    opts.format = (enum leat_manifest_format)(data[0] % 3);
    opts.wishes_n = data[0] & 64 ? 2 : 0;
    leat_status rc = leat_manifest_read((const char *)data + 1, size - 1, &opts, &m, &err);
    fuzz_check_error(rc, &err);
    if (rc != LEAT_OK)
        return;
    PROMISE(m.rows > 0 && m.columns_n < LEAT_MANIFEST_COLUMNS + 1);
    for (uint64_t i = 0; i < m.rows; i++) {
        PROMISE(*leat_manifest_path(&m, i));
        PROMISE(m.lines[i] > (i ? m.lines[i - 1] : 0));
        for (uint32_t c = 0; c < m.columns_n; c++) {
            const struct leat_manifest_column *column = &m.columns[c];
            PROMISE(column->there[i] || column->optional);
            if (column->type == LEAT_FIELD_STRING && column->there[i])
                fuzz_use(strlen(m.text.data + column->cells[i]));
        }
    }
    leat_manifest_close(&m);
}
