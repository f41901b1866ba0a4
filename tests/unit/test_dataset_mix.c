/* Classes: whether chunks are sorted by them, and lists of them. */

#include "dataset/mix.h"

#include "base/random.h"
#include "dataset/classes.h"
#include "unit.h"

/* Chunks of n samples each; `runs` classes share a chunk when sorted, else labels are drawn from all. */
static struct leat_mix_result judge(uint32_t chunks, uint32_t n, uint32_t classes, bool sorted, uint64_t seed)
{
    struct leat_mix m = {0};
    struct leat_rng rng = leat_rng(seed, 0);
    for (uint32_t i = 0; i < leat_mix_chunks(chunks); i++) {
        for (uint32_t k = 0; k < leat_mix_samples(chunks, n); k++) {
            uint64_t sample = (uint64_t)leat_mix_chunk(chunks, i) * n + leat_mix_sample(chunks, n, k);
            uint64_t label = sample * classes / ((uint64_t)chunks * n);
            leat_mix_add(&m, i, (int64_t)(sorted ? label : leat_rng_u64(&rng) % classes));
        }
    }
    return leat_mix_judge(&m);
}

TEST(sorted_chunks_are_noticed_and_mixed_ones_are_not)
{
    const uint32_t chunks[] = {2, 3, 5, 16, 100, 12345};
    const uint32_t classes[] = {2, 10, 100, 1000};
    for (size_t c = 0; c < 6; c++) {
        for (size_t k = 0; k < 4; k++) {
            for (uint64_t seed = 0; seed < 50; seed++)
                assert_false(judge(chunks[c], 75, classes[k], false, seed).sorted);
            if (classes[k] <= 4 * chunks[c]) /* else a chunk holds many classes even when sorted */
                assert_true(judge(chunks[c], 75, classes[k], true, 0).sorted);
        }
    }
}

TEST(what_cannot_be_sorted_is_not)
{
    assert_false(judge(1, 1000, 10, true, 0).sorted);   /* one chunk */
    assert_false(judge(100, 1, 10, true, 0).sorted);    /* one sample in each */
    assert_false(judge(100, 1000, 1, true, 0).sorted);  /* one class */
    assert_false(judge(3, 75, 100000, true, 0).sorted); /* every sample has its own */
}

TEST(the_samples_looked_at_lie_in_their_chunk)
{
    const uint32_t chunks[] = {1, 2, 15, 16, 17, 1000, UINT32_MAX};
    const uint32_t samples[] = {1, 2, 15, 255, 256, 257, UINT32_MAX};
    for (size_t c = 0; c < 7; c++) {
        uint32_t n = leat_mix_chunks(chunks[c]);
        assert_true(n >= 1 && n <= LEAT_MIX_CHUNKS);
        for (uint32_t i = 0; i < n; i++)
            assert_true(leat_mix_chunk(chunks[c], i) < chunks[c]);
        for (size_t s = 0; s < 7; s++) {
            uint32_t k = leat_mix_samples(chunks[c], samples[s]);
            assert_true(k >= 1 && k <= LEAT_MIX_SAMPLES);
            for (uint32_t i = 1; i < k; i++)
                assert_true(leat_mix_sample(chunks[c], samples[s], i) > leat_mix_sample(chunks[c], samples[s], i - 1));
            assert_true(leat_mix_sample(chunks[c], samples[s], k - 1) < samples[s]);
        }
    }
}

TEST(classes_have_the_numbers_of_their_lines)
{
    struct leat_classes c;
    struct leat_error err;
    uint32_t number;
    const char text[] = "dog\ncat\r\na cat\nca";
    assert_ok(leat_classes_read(text, sizeof text - 1, &c, &err), err);
    assert_int_equal(c.n, 4);
    const char *names[] = {"dog", "cat", "a cat", "ca"};
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(leat_classes_find(&c, names[i], strlen(names[i]), &number));
        assert_int_equal(number, i);
    }
    assert_false(leat_classes_find(&c, "cats", 4, &number));
    assert_false(leat_classes_find(&c, "", 0, &number));
    leat_classes_close(&c);
}

TEST(names_are_taken_from_the_right_field)
{
    struct leat_schema s = {0};
    struct leat_classes c;
    struct leat_error err;
    size_t n;
    assert_ok(leat_schema_add(&s, "x", LEAT_FIELD_BYTES, "{\"names\": [\"not an int\"]}", &err), err);
    assert_fails(leat_classes_of(&s, &c, &err), err, LEAT_INVALID, "no field");
    assert_ok(leat_schema_add(&s, "one", LEAT_FIELD_INT, "{\"names\": [\"a\", \"b\"]}", &err), err);
    assert_ok(leat_classes_of(&s, &c, &err), err);
    assert_int_equal(c.n, 2);
    leat_classes_close(&c);
    assert_ok(leat_schema_add(&s, "two", LEAT_FIELD_INT, "{\"names\": [\"c\"]}", &err), err);
    assert_fails(leat_classes_of(&s, &c, &err), err, LEAT_INVALID, "2 fields");
    assert_ok(leat_schema_add(&s, "cls", LEAT_FIELD_INT, "{\"names\": [\"d\"]}", &err), err);
    assert_ok(leat_classes_of(&s, &c, &err), err);
    assert_memory_equal(leat_classes_name(&c, 0, &n), "d", 1);
    leat_classes_close(&c);
    struct leat_schema odd = {0};
    assert_ok(leat_schema_add(&odd, "cls", LEAT_FIELD_INT, "{\"names\": [1]}", &err), err);
    assert_fails(leat_classes_of(&odd, &c, &err), err, LEAT_CORRUPT, "text");
}
