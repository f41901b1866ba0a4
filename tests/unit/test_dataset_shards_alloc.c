/* Memory runs out at every single allocation of finding samples in tar shards and token files: a clean error each time,
 * nothing leaked, and never an origin that lacks something. */

#include <unistd.h>

#include "base/bytes.h"
#include "dataset/tar_origin.h"
#include "dataset/token_origin.h"
#include "fail_alloc.h"
#include "tar_writer.h"
#include "unit_place.h"

static void write_shard(const char *name, unsigned first)
{
    struct tar_archive a = tar_begin();
    for (unsigned i = first; i < first + 5; i++) {
        char member[64];
        char pax[64];
        snprintf(member, sizeof member, "%03u.bin", i);
        snprintf(pax, sizeof pax, "16 path=%s\n", member);
        tar_member(&a, "x", 'x', pax);
        tar_member(&a, "short", '0', "some bytes");
        snprintf(member, sizeof member, "%03u.cls", i);
        tar_member(&a, "././@LongLink", 'L', member);
        tar_member(&a, "short", '0', "7");
    }
    tar_end(&a);
    place_write(name, a.buf.data, a.buf.len);
    leat_buf_free(&a.buf);
}

static void write_megatron(void)
{
    uint8_t idx[200];
    uint8_t tokens[2 * 5000] = {0};
    struct leat_writer w = leat_writer(idx, sizeof idx);
    leat_write_bytes(&w, "MMIDIDX\0", 9);
    leat_write_u64(&w, 1);
    leat_write_u8(&w, 8);
    leat_write_u64(&w, 2);
    leat_write_u64(&w, 3);
    leat_write_u32(&w, 100);
    leat_write_u32(&w, 4900);
    leat_write_u64(&w, 0);
    leat_write_u64(&w, 200);
    for (uint64_t i = 0; i < 3; i++)
        leat_write_u64(&w, i);
    place_write("m.bin", tokens, sizeof tokens);
    place_write("m.idx", idx, w.at);
}

static void setup(void)
{
    place_open();
    write_shard("a-0.tar", 0);
    write_shard("a-1.tar", 5);
    write_megatron();
}

/* Reads all samples of an origin and closes it. */
static leat_status read_all(struct leat_origin *o, uint64_t samples, struct leat_error *err)
{
    struct leat_origin_room room = {0};
    struct leat_origin_sample s;
    leat_status rc = LEAT_OK;
    assert_int_equal(o->samples, samples);
    for (uint64_t i = 0; rc == LEAT_OK && i < o->samples; i++)
        rc = leat_origin_sample(o, i, &room, &s, err);
    leat_origin_room_free(&room);
    leat_origin_close(o);
    return rc;
}

static leat_status read_tar(struct leat_error *err)
{
    static const struct leat_type_wish wishes[] = {{"cls", LEAT_FIELD_INT}};
    static const struct leat_tar_opts opts = {.wishes = wishes, .wishes_n = 1, .chunk_bytes = 4096};
    const char *url = place_path("a-{0..1}.tar");
    struct leat_origin *o = NULL;
    leat_status rc = leat_origin_tar_open(&url, 1, &opts, NULL, NULL, &o, err);
    return rc == LEAT_OK ? read_all(o, 10, err) : rc;
}

static leat_status read_tokens(struct leat_error *err)
{
    static const struct leat_token_opts opts = {.chunk_bytes = 4096};
    const char *url = place_path("m.bin");
    struct leat_origin *o = NULL;
    leat_status rc = leat_origin_tokens_open(&url, 1, &opts, NULL, &o, err);
    return rc == LEAT_OK ? read_all(o, 4, err) : rc;
}

/* Whichever thread the allocation belongs to. What can do without it may go on, what cannot says so. */
static void fail_each(leat_status (*scenario)(struct leat_error *))
{
    bool failed = true;
    unsigned refused = 0;
    for (long n = 0; failed; n++) {
        struct leat_error err = {0};
        fail_alloc_anywhere_at(n, n % 2);
        leat_status rc = scenario(&err);
        failed = fail_alloc_stop();
        if (rc != LEAT_OK && rc != LEAT_NO_MEMORY)
            fail_msg("allocation %ld: %s (%s)", n, err.text, leat_status_name(rc));
        if (!failed)
            assert_int_equal(rc, LEAT_OK);
        refused += rc != LEAT_OK;
    }
    assert_true(refused > 20);
}

TEST(tar_shards_without_memory)
{
    fail_each(read_tar);
}

TEST(token_files_without_memory)
{
    fail_each(read_tokens);
}

TEST_GROUP(setup, place_close);
