/* Which samples make which chunk. */

#include "dataset/cut.h"

#include "base/random.h"
#include "dataset/chunk.h"
#include "unit.h"

#define CHUNK 4096u

/* Samples by formula: a file each, or stretches of larger objects. */
struct made {
    struct leat_origin origin; /* first member */
    uint64_t per_object;       /* in place: samples of one object */
    uint64_t gap;              /* … and bytes between two of them */
    uint64_t size;             /* of each value; 0: by number */
    uint64_t second;           /* size of a second value, inline; 0: there is none */
    const struct leat_home *homes[2];
    uint64_t every; /* chunks begin with every so manieth sample */
};

static uint64_t size_of(const struct made *m, uint64_t i)
{
    return m->size ? m->size : i * 2654435761u % 1500;
}

static leat_status sample(const struct leat_origin *o, uint64_t i, struct leat_origin_room *room,
                          struct leat_origin_sample *out, struct leat_error *err)
{
    static const char bytes[64];
    const struct made *m = (const struct made *)o;
    leat_status rc = leat_origin_room_text(room, 32, err);
    if (rc != LEAT_OK)
        return rc;
    int n = snprintf(room->text, 32, "key %llu", (unsigned long long)i);
    room->values[0] = (struct leat_origin_value){.object = (uint32_t)i, .size = size_of(m, i)};
    if (m->per_object) {
        room->values[0].object = (uint32_t)(i / m->per_object);
        room->values[0].offset = i % m->per_object * (m->size + m->gap) + 512;
    }
    room->values[1] = (struct leat_origin_value){.data = bytes, .size = m->second};
    *out = (struct leat_origin_sample){room->text, (size_t)n, room->values};
    return LEAT_OK;
}

static leat_status object(const struct leat_origin *o, uint32_t i, struct leat_origin_object *out,
                          struct leat_error *err)
{
    (void)err;
    const struct made *m = (const struct made *)o;
    *out = (struct leat_origin_object){.home = m->homes[i % 3 == 0], .key = "k", .etag = ""};
    return LEAT_OK;
}

static leat_status own_chunk(const struct leat_origin *o, uint32_t i, struct leat_origin_chunk *out,
                             struct leat_error *err)
{
    (void)err;
    *out = (struct leat_origin_chunk){.first = i * ((const struct made *)o)->every};
    return LEAT_OK;
}

static const struct leat_origin_ops ops = {.sample = sample, .object = object};
static const struct leat_origin_ops ops_begin = {.sample = sample, .object = object, .chunk = own_chunk};

static struct made make(uint64_t samples, uint64_t second)
{
    struct leat_error err;
    struct made m = {.origin = {.ops = &ops, .kind = "made", .samples = samples}, .second = second};
    assert_ok(leat_schema_add(&m.origin.schema, "a", LEAT_FIELD_BYTES, NULL, &err), err);
    if (second)
        assert_ok(leat_schema_add(&m.origin.schema, "b", LEAT_FIELD_STRING, NULL, &err), err);
    return m;
}

/* What the builder says of the samples at places first … end - 1. */
static uint64_t built(const struct made *m, const struct leat_cut *c, uint64_t first, uint64_t end)
{
    static const uint8_t bytes[2048];
    struct leat_error err;
    struct leat_chunk_builder *b;
    struct leat_origin_room room = {0};
    assert_ok(leat_chunk_builder_open(&m->origin.schema, &b, &err), err);
    for (uint64_t p = first; p < end; p++) {
        struct leat_origin_sample s;
        assert_ok(sample(&m->origin, leat_cut_sample(c, p), &room, &s, &err), err);
        struct leat_value v[2] = {{.data = bytes, .size = (size_t)s.values[0].size},
                                  {.data = bytes, .size = (size_t)s.values[1].size}};
        assert_ok(leat_chunk_builder_add(b, s.key, s.key_n, v, &err), err);
    }
    uint64_t size = leat_chunk_builder_size(b);
    leat_chunk_builder_close(b);
    leat_origin_room_free(&room);
    return size;
}

TEST(chunks_are_as_full_as_the_builder_can_make_them)
{
    for (uint64_t second = 0; second <= 40; second += 20) {
        struct made m = make(1000, second);
        struct leat_cut_opts opts = {.seed = second, .chunk_bytes = CHUNK};
        struct leat_cut c;
        struct leat_error err;
        assert_ok(leat_cut_make(&m.origin, &opts, &c, &err), err);
        assert_int_equal(c.starts[0], 0);
        assert_int_equal(c.starts[c.chunks], 1000);
        for (uint32_t i = 0; i < c.chunks; i++) {
            assert_true(c.starts[i] < c.starts[i + 1]);
            assert_true(built(&m, &c, c.starts[i], c.starts[i + 1]) <= CHUNK);
            if (i + 1 < c.chunks)
                assert_true(built(&m, &c, c.starts[i], c.starts[i + 1] + 1) > CHUNK);
        }
        leat_cut_free(&c);
    }
}

TEST(samples_are_permuted_as_folders_always_were)
{
    struct made m = make(1000, 0);
    struct leat_cut_opts opts = {.seed = 7, .chunk_bytes = CHUNK};
    struct leat_cut c;
    struct leat_error err;
    uint64_t expected[1000];
    for (uint64_t i = 0; i < 1000; i++)
        expected[i] = i;
    leat_shuffle_u64(leat_key("pack 1", 7, 0, NULL, 0), 0, expected, 1000);
    assert_ok(leat_cut_make(&m.origin, &opts, &c, &err), err);
    assert_memory_equal(c.order, expected, sizeof expected);
    leat_cut_free(&c);

    opts.keep_order = true;
    assert_ok(leat_cut_make(&m.origin, &opts, &c, &err), err);
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(leat_cut_sample(&c, i), i);
    leat_cut_free(&c);
}

TEST(in_place_a_chunk_is_a_stretch_of_one_object)
{
    struct made m = make(1000, 0);
    struct leat_cut_opts opts = {.seed = 1, .chunk_bytes = CHUNK};
    struct leat_cut c;
    struct leat_error err;
    m.origin.in_place = true;
    m.per_object = 17;
    m.size = 100;
    m.gap = 512; /* a tar's headers: fetched with the rest, so they count */
    assert_ok(leat_cut_make(&m.origin, &opts, &c, &err), err);
    uint64_t most = 0;
    for (uint32_t i = 0; i < c.chunks; i++) {
        assert_int_equal(c.starts[i] / 17, (c.starts[i + 1] - 1) / 17);
        uint64_t n = c.starts[i + 1] - c.starts[i];
        most = n > most ? n : most;
        assert_int_equal(leat_cut_sample(&c, c.starts[i]), c.starts[i]);
    }
    assert_in_range(most, 6, 7); /* 612 bytes each; without the gaps 17 would fit */
    leat_cut_free(&c);

    m.gap = 1u << 20; /* more than anybody fetches in vain */
    assert_ok(leat_cut_make(&m.origin, &opts, &c, &err), err);
    assert_int_equal(c.starts[1], 17);
    leat_cut_free(&c);
}

TEST(an_origin_that_says_where_chunks_begin_is_believed)
{
    struct made m = make(100, 0);
    struct leat_cut_opts opts = {.chunk_bytes = CHUNK};
    struct leat_cut c;
    struct leat_error err;
    m.origin.ops = &ops_begin;
    m.origin.in_place = true;
    m.per_object = 100;
    m.size = 1000;
    m.every = 30;
    m.origin.chunks = 4;
    assert_ok(leat_cut_make(&m.origin, &opts, &c, &err), err);
    assert_int_equal(c.chunks, 4);
    assert_int_equal(c.starts[1], 30);
    assert_int_equal(c.starts[3], 90);
    leat_cut_free(&c);
}

TEST(a_chunk_has_samples_of_one_store)
{
    struct leat_store_opts anonymous = {.anonymous = true, .region = "eu-west-1"};
    struct leat_home homes[2] = {{0}, {0}};
    struct leat_error err;
    assert_ok(leat_home_open("s3://one/a", &anonymous, &homes[0], &err), err);
    assert_ok(leat_home_open("/tmp", &anonymous, &homes[1], &err), err);
    assert_false(leat_origin_same_store(&homes[0], &homes[1]));
    for (int keep = 0; keep < 2; keep++) {
        struct made m = make(300, 0);
        struct leat_cut_opts opts = {.chunk_bytes = CHUNK, .keep_order = keep};
        struct leat_cut c;
        m.origin.many_stores = true;
        m.homes[0] = &homes[0];
        m.homes[1] = &homes[1];
        assert_ok(leat_cut_make(&m.origin, &opts, &c, &err), err);
        bool seen[300] = {false};
        for (uint32_t i = 0; i < c.chunks; i++) {
            for (uint64_t p = c.starts[i]; p < c.starts[i + 1]; p++) {
                uint64_t s = leat_cut_sample(&c, p);
                assert_int_equal(s % 3 == 0, leat_cut_sample(&c, c.starts[i]) % 3 == 0);
                assert_false(seen[s]);
                seen[s] = true;
            }
        }
        assert_int_equal(c.starts[c.chunks], 300);
        assert_true(keep ? c.chunks == 200 : c.chunks < 100);
        leat_cut_free(&c);
    }
    leat_home_close(&homes[0]);
    leat_home_close(&homes[1]);
}

TEST(a_sample_that_no_chunk_can_hold_is_named)
{
    struct made m = make(3, 0);
    struct leat_cut_opts opts = {.keep_order = true};
    struct leat_cut c;
    struct leat_error err;
    m.size = UINT32_MAX - 100;
    assert_fails(leat_cut_make(&m.origin, &opts, &c, &err), err, LEAT_LIMIT, "'key 0' has 4294967195 bytes");
    m.size = UINT64_MAX / 2;
    assert_fails(leat_cut_make(&m.origin, &opts, &c, &err), err, LEAT_LIMIT, "'key 0' has more than 4294967295 bytes");
    m.size = UINT32_MAX - 1000;
    assert_ok(leat_cut_make(&m.origin, &opts, &c, &err), err);
    assert_int_equal(c.chunks, 3);
    leat_cut_free(&c);
    m = make(0, 0);
    assert_fails(leat_cut_make(&m.origin, &opts, &c, &err), err, LEAT_INVALID, "no samples");
}
