/* Memory runs out at every single allocation of building chunks and snapshots: a clean error each time, nothing
 * leaked, and never a chunk that lacks something. */

#include "dataset/chunk.h"
#include "dataset/keys.h"
#include "dataset/snapshot.h"
#include "fail_alloc.h"
#include "unit.h"

static leat_status add_samples(struct leat_chunk_builder *b, uint32_t first, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (uint32_t i = first; rc == LEAT_OK && i < first + 20; i++) {
        char key[16];
        snprintf(key, sizeof key, "%u", i);
        struct leat_value value = {.data = key, .size = strlen(key)};
        rc = leat_chunk_builder_add(b, key, strlen(key), &value, err);
    }
    return rc;
}

static leat_status make_snapshot(void *user, struct leat_error *err)
{
    (void)user;
    static const uint8_t pack[LEAT_PACK_ID_BYTES] = "x";
    struct leat_schema schema = {0};
    struct leat_chunk_builder *b = NULL;
    struct leat_snapshot *s = NULL;
    struct leat_snapshot_files files = {0};
    struct leat_buf bytes;
    uint8_t sha[LEAT_SHA256_SIZE] = {0};
    leat_buf_init(&bytes, 1 << 20);
    leat_status rc = leat_schema_add(&schema, "data", LEAT_FIELD_BYTES, NULL, err);
    if (rc == LEAT_OK)
        rc = leat_chunk_builder_open(&schema, &b, err);
    if (rc == LEAT_OK)
        rc = leat_snapshot_open(10, 100, &s, err); /* goes through a file, too */
    for (uint32_t c = 0; rc == LEAT_OK && c < 2; c++) {
        struct leat_chunk chunk;
        rc = add_samples(b, 20 * c, err);
        if (rc != LEAT_OK)
            assert_int_not_equal(leat_chunk_builder_finish(b, pack, c, 2, &bytes, NULL), LEAT_OK);
        if (rc == LEAT_OK)
            rc = leat_chunk_builder_finish(b, pack, c, 2, &bytes, err);
        if (rc == LEAT_OK)
            rc = leat_chunk_read(bytes.data, bytes.len, &chunk, err);
        if (rc == LEAT_OK)
            rc = leat_snapshot_add(s, &chunk, sha, err);
    }
    if (rc == LEAT_OK) {
        rc = leat_snapshot_write((const struct leat_snapshot *const *)&s, 1, &files, err);
        leat_snapshot_files_free(&files);
    }
    leat_snapshot_close(s);
    leat_chunk_builder_close(b);
    leat_buf_free(&bytes);
    return rc;
}

static void chunks_and_snapshots(void **state)
{
    (void)state;
    assert_true(fail_alloc_each(make_snapshot, NULL) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_and_snapshots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
