/* Memory runs out at every single allocation of opening views and walking through their blocks: a clean error each
 * time, nothing leaked; and tokens are counted as the walks find them. */
#include <unistd.h>

#include "base/bytes.h"
#include "dataset/dataset.h"
#include "dataset/index_origin.h"
#include "dataset/token_origin.h"
#include "dataset/view.h"
#include "fail_alloc.h"
#include "unit.h"

#define DOCUMENTS 40u
#define TOKENS    (DOCUMENTS * (DOCUMENTS + 1) / 2 * 7) /* document i has 7 (i + 1) */

struct place {
    char dir[64];
    struct leat_dataset *dataset;
};

static void write_file(const struct place *p, const char *name, const void *data, size_t n)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", p->dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void write_megatron(const struct place *p)
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
    write_file(p, "m.bin", tokens, sizeof tokens);
    write_file(p, "m.idx", idx, w.at);
}

static void make_index(const struct place *p, const char *to)
{
    static const struct leat_token_opts opts = {.chunk_bytes = 4096};
    struct leat_index_origin_opts how = {.threads = 1};
    struct leat_index_result result;
    struct leat_cut cut = {0};
    struct leat_home home = {0};
    struct leat_origin *o;
    struct leat_error err;
    char url[200];
    const char *urls[] = {url};
    snprintf(url, sizeof url, "%s/m.bin", p->dir);
    assert_ok(leat_origin_tokens_open(urls, 1, &opts, NULL, &o, &err), err);
    assert_ok(leat_cut_make(o, &how.cut, &cut, &err), err);
    assert_ok(leat_home_open(to, NULL, &home, &err), err);
    assert_ok(leat_index_origin(o, &cut, &home, &how, &result, &err), err);
    leat_home_close(&home);
    leat_cut_free(&cut);
    leat_origin_close(o);
}

static int setup(void **state)
{
    static struct place p;
    struct leat_error err;
    char to[200];
    snprintf(p.dir, sizeof p.dir, "/tmp/leat-test-XXXXXX");
    assert_non_null(mkdtemp(p.dir));
    write_megatron(&p);
    snprintf(to, sizeof to, "%s/set", p.dir);
    make_index(&p, to);
    assert_ok(leat_dataset_open(to, NULL, NULL, &p.dataset, &err), err);
    *state = &p;
    return 0;
}

static int teardown(void **state)
{
    struct place *p = *state;
    char command[128];
    leat_dataset_close(p->dataset);
    snprintf(command, sizeof command, "rm -rf %s", p->dir);
    FILE *rm = popen(command, "r");
    pclose(rm);
    return 0;
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
    struct place *p = user;
    uint64_t cut = 0;
    uint64_t fit = 0;
    leat_status rc = open_and_walk(p->dataset, "blocks=64 shift=0", &cut, err);
    if (rc == LEAT_OK)
        rc = open_and_walk(p->dataset, "blocks=99 documents=fit", &fit, err);
    if (rc == LEAT_OK) {
        assert_int_equal(cut, TOKENS / 64 * 64);
        assert_int_equal(fit, TOKENS);
    }
    return rc;
}

static void views_survive_every_failing_allocation(void **state)
{
    struct place *p = *state;
    assert_true(leat_dataset_root(p->dataset)->chunks > 2);
    assert_true(fail_alloc_each(scenario, p) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_survive_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
