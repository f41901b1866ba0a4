/* Memory runs out at every single allocation of writing, joining, looking at and packing datasets: a clean error each
 * time, nothing leaked and nothing published. */

#include "client/packer_part.h"
#include "dataset/pack_origin.h"
#include "dataset/raw_origin.h"
#include "fail_alloc.h"
#include "leat/dataset.h"
#include "leat/writer.h"
#include "store_bench.h"
#include "unit.h"

static leat_status add_samples(struct leat_packer *packer, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (int i = 0; rc == LEAT_OK && i < 30; i++) {
        char data[300];
        memset(data, 'a', sizeof data);
        struct leat_packer_value values[2] = {{.size = sizeof values[0], .number = i},
                                              {.size = sizeof values[0], .data = data, .bytes = sizeof data}};
        rc = leat_packer_add(packer, "key", 3, values, err);
    }
    return rc;
}

/* One part of one, so that joining follows. */
static leat_status write_part(const char *folder, struct leat_error *err)
{
    const struct leat_packer_field fields[2] = {
        {.size = sizeof fields[0], .name = "n", .type = LEAT_DATA_INT, .about = "{\"names\": [\"a\"]}"},
        {.size = sizeof fields[0], .name = "b", .type = LEAT_DATA_BYTES, .zstd = 1},
    };
    struct leat_packer_opts o = {
        .size = sizeof o, .url = folder, .fields = fields, .fields_n = 2, .chunk_bytes = 4096, .parts = 1};
    struct leat_packer *packer = NULL;
    char version[LEAT_PACKER_VERSION];
    leat_status rc = leat_packer_open(&o, &packer, err);
    if (rc == LEAT_OK)
        rc = add_samples(packer, err);
    if (rc == LEAT_OK)
        rc = leat_packer_finish(packer, version, err);
    leat_packer_close(packer);
    return rc;
}

static leat_status write_scenario(void *user, struct leat_error *err)
{
    return write_part(user, err);
}

TEST(writing)
{
    char folder[64];
    folder_make(folder);
    assert_true(fail_alloc_each(write_scenario, folder) > 30);
    folder_remove(folder);
}

static leat_status read_scenario(void *user, struct leat_error *err)
{
    struct leat_data_opts o = {.size = sizeof o, .url = user};
    struct leat_data *data = NULL;
    struct leat_data_sample *sample = NULL;
    struct leat_data_value v = {.size = sizeof v};
    uint64_t number;
    leat_status rc = leat_data_open(&o, &data, err);
    if (rc == LEAT_OK)
        rc = leat_data_find(data, "key", 3, &number, err);
    if (rc == LEAT_OK)
        rc = leat_data_get(data, 7, &sample, err);
    if (rc == LEAT_OK)
        rc = leat_data_value(sample, 1, &v, err);
    if (rc == LEAT_OK)
        assert_int_equal(v.bytes, 300);
    leat_data_release(sample);
    leat_data_close(data);
    return rc;
}

static leat_status merge_scenario(void *user, struct leat_error *err)
{
    struct leat_packer_opts o = {.size = sizeof o, .url = user, .parts = 1, .replace = 1};
    char version[LEAT_PACKER_VERSION];
    fail_alloc_pause(true); /* joining takes the part's name away */
    leat_status rc = write_part(user, err);
    fail_alloc_pause(false);
    return rc == LEAT_OK ? leat_packer_merge(&o, version, err) : rc;
}

TEST(joining_and_looking)
{
    char folder[64];
    struct leat_error err;
    folder_make(folder);
    assert_true(fail_alloc_each(merge_scenario, folder) > 30);
    assert_ok(merge_scenario(folder, &err), err);
    assert_true(fail_alloc_each(read_scenario, folder) > 20);
    folder_remove(folder);
}

struct packing {
    struct leat_home from;
    struct leat_home to;
    struct leat_origin *origin;
};

static leat_status pack_scenario(void *user, struct leat_error *err)
{
    struct packing *p = user;
    struct leat_pack_origin_opts opts = {
        .plain = true, .threads = 1, .cut.chunk_bytes = 4096, .keep = 8192, .skip = true, .publish.replace = true};
    struct leat_pack_progress progress = {0};
    struct leat_pack_result result;
    return leat_pack_origin(p->origin, &p->to, &opts, &progress, &result, err);
}

TEST(packing)
{
    char from[64];
    char to[64];
    struct leat_error err;
    struct packing p = {0};
    struct leat_listing_opts list_opts = {0};
    struct leat_listing list = {0};
    struct leat_raw_opts raw = {.labels = LEAT_LABELS_NONE};
    struct leat_raw_counts counts;
    folder_make(from);
    folder_make(to);
    assert_ok(leat_home_open(from, NULL, &p.from, &err), err);
    assert_ok(leat_home_open(to, NULL, &p.to, &err), err);
    for (int i = 0; i < 20; i++) {
        char name[16];
        char data[1000];
        memset(data, 'x', sizeof data);
        snprintf(name, sizeof name, "%d.bin", i);
        assert_ok(leat_home_put(&p.from, name, data, sizeof data, &err), err);
    }
    assert_ok(leat_listing_open(&p.from, 1, &list_opts, &list, &err), err);
    assert_ok(leat_origin_raw_open(&list, &raw, &counts, &p.origin, &err), err);
    assert_true(fail_alloc_each(pack_scenario, &p) > 10);
    leat_origin_close(p.origin);
    leat_home_close(&p.from);
    leat_home_close(&p.to);
    folder_remove(from);
    folder_remove(to);
}
