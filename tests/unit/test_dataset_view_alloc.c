/* Memory runs out at every single allocation of opening views and walking through their blocks: a clean error each
 * time, nothing leaked; and tokens are counted as the walks find them. */
#include <unistd.h>

#include "base/bytes.h"
#include "dataset/dataset.h"
#include "dataset/index_origin.h"
#include "dataset/token_origin.h"
#include "dataset/view.h"
#include "fail_alloc.h"
#include "unit_place.h"

#define DOCUMENTS 40u
#define TOKENS    (DOCUMENTS * (DOCUMENTS + 1) / 2 * 7) /* document i has 7 (i + 1) */

static struct leat_dataset *dataset;

static void write_megatron(void)
{
    static uint8_t idx[64 + 4 * DOCUMENTS + 8 * DOCUMENTS + 8 * (DOCUMENTS + 1)];
    static uint8_t tokens[2 * TOKENS];
    struct leat_writer w = leat_writer(idx, sizeof idx);
    uint64_t at = 0;
    for (size_t i = 0; i < sizeof tokens; i++)
        tokens[i] = (uint8_t)(i * 7);
    leat_write_bytes(&w, "MMIDIDX\0", 9);
    leat_write_u64(&w, 1);
    leat_write_u8(&w, 8);
    leat_write_u64(&w, DOCUMENTS);
    leat_write_u64(&w, DOCUMENTS + 1);
    for (uint32_t i = 0; i < DOCUMENTS; i++)
        leat_write_u32(&w, 7 * (i + 1));
    for (uint32_t i = 0; i < DOCUMENTS; at += 2ull * 7 * (i + 1), i++)
        leat_write_u64(&w, at);
    for (uint64_t i = 0; i <= DOCUMENTS; i++)
        leat_write_u64(&w, i);
    assert_false(w.bad);
    place_write("m.bin", tokens, sizeof tokens);
    place_write("m.idx", idx, w.at);
}

static void make_index(const char *to)
{
    static const struct leat_token_opts opts = {.chunk_bytes = 4096};
    struct leat_index_origin_opts how = {.threads = 1};
    struct leat_index_result result;
    struct leat_cut cut = {0};
    struct leat_home home = {0};
    struct leat_origin *o;
    struct leat_error err;
    const char *url = place_path("m.bin");
    assert_ok(leat_origin_tokens_open(&url, 1, &opts, NULL, &o, &err), err);
    assert_ok(leat_cut_make(o, &how.cut, &cut, &err), err);
    assert_ok(leat_home_open(to, NULL, &home, &err), err);
    assert_ok(leat_index_origin(o, &cut, &home, &how, &result, &err), err);
    leat_home_close(&home);
    leat_cut_free(&cut);
    leat_origin_close(o);
}

static void setup(void)
{
    struct leat_error err;
    place_open();
    write_megatron();
    make_index(place_path("set"));
    assert_ok(leat_dataset_open(place_path("set"), NULL, NULL, &dataset, &err), err);
}

static void teardown(void)
{
    leat_dataset_close(dataset);
    place_close();
}

/* Tokens of all blocks of a chunk, run by run. */
static leat_status walk_chunk(const struct leat_view *v, const struct leat_chunk *c, uint32_t number, uint64_t *tokens,
                              struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    for (uint32_t unit = 0; rc == LEAT_OK && unit < leat_view_counts(v)[number]; unit++) {
        struct leat_view_walk w = {0};
        struct leat_view_run run;
        rc = leat_view_walk(v, c, number, unit, unit % 2, &w, err);
        while (rc == LEAT_OK && leat_view_walk_next(&w, &run)) {
            assert_true(run.data >= c->data && run.data + 2 * (size_t)run.n <= c->data + c->size);
            *tokens += run.n;
        }
        leat_view_walk_close(&w);
    }
    return rc;
}

static leat_status open_and_walk(struct leat_dataset *d, const char *text, uint64_t *tokens, struct leat_error *err)
{
    struct leat_view *v;
    leat_status rc = leat_view_open(d, text, &v, err);
    if (rc != LEAT_OK)
        return rc;
    for (uint32_t i = 0; rc == LEAT_OK && i < leat_dataset_root(d)->chunks; i++) {
        struct leat_chunk c;
        struct leat_error quiet;
        void *data;
        fail_alloc_pause(true); /* reading chunks is another test's */
        assert_ok(leat_dataset_load(d, i, &data, &c, &quiet), quiet);
        fail_alloc_pause(false);
        rc = walk_chunk(v, &c, i, tokens, err);
        free(data);
    }
    if (rc == LEAT_OK)
        assert_int_equal(leat_view_tokens(v), TOKENS);
    leat_view_close(v);
    return rc;
}

static leat_status scenario(void *user, struct leat_error *err)
{
    uint64_t cut = 0;
    uint64_t fit = 0;
    leat_status rc = open_and_walk(dataset, "blocks=64 shift=0", &cut, err);
    if (rc == LEAT_OK)
        rc = open_and_walk(dataset, "blocks=99 documents=fit", &fit, err);
    if (rc == LEAT_OK) {
        assert_int_equal(cut, TOKENS / 64 * 64);
        assert_int_equal(fit, TOKENS);
    }
    return rc;
}

TEST(views_survive_every_failing_allocation)
{
    assert_true(leat_dataset_root(dataset)->chunks > 2);
    assert_true(fail_alloc_each(scenario, NULL) > 20);
}

TEST_GROUP(setup, teardown);
