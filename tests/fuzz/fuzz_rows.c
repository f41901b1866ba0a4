/* A schema and a sample table in one input: every cell is read from within its row. */
#include "base/buf.h"
#include "base/bytes.h"
#include "dataset/schema.h"

#include "fuzz.h"

FUZZ(rows)
{
    struct leat_reader r = leat_reader(data, size);
    struct leat_schema schema;
    struct leat_schema again;
    struct leat_error err;
    uint32_t schema_n = leat_read_u16(&r);
    const uint8_t *encoded = leat_read_bytes(&r, schema_n);
    if (!encoded || leat_schema_read(encoded, schema_n, &schema, &err) != LEAT_OK)
        return;
    uint64_t sum = 0;
    const uint8_t *row;
    while (schema.row_bytes && (row = leat_read_bytes(&r, schema.row_bytes))) {
        for (uint32_t f = 0; f < schema.n; f++)
            sum += leat_cell_read(&schema.fields[f], row).size + (uint64_t)leat_field_has_data(&schema.fields[f]);
    }
    fuzz_use(sum);
    struct leat_buf out;
    leat_buf_init(&out, LEAT_SCHEMA_MAX);
    PROMISE(leat_schema_write(&schema, &out, &err) == LEAT_OK); /* with what is not known here too */
    PROMISE(out.len == schema_n && memcmp(out.data, encoded, schema_n) == 0);
    schema.encoded = NULL; /* as if its fields had been added */
    leat_buf_clear(&out);
    if (leat_schema_write(&schema, &out, &err) == LEAT_OK) {
        PROMISE(leat_schema_read(out.data, out.len, &again, &err) == LEAT_OK);
        PROMISE(again.n == schema.n && again.row_bytes == schema.row_bytes);
    }
    leat_buf_free(&out);
}
