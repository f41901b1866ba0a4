/* Tables that are larger than memory: what goes through a file comes back the same, sorted the same. */

#include "dataset/spill.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/random.h"
#include "dataset/key_index.h"
#include "unit.h"

TEST(bytes_come_back_from_memory_and_from_a_file)
{
    const size_t memory[] = {0, 1, 1000, 100000};
    for (size_t m = 0; m < 4; m++) {
        struct leat_spill *s;
        struct leat_error err;
        uint8_t piece[256];
        assert_ok(leat_spill_open(memory[m], &s, &err), err);
        for (uint32_t i = 0; i < 50; i++) {
            uint64_t at;
            memset(piece, (int)i, sizeof piece);
            assert_ok(leat_spill_add(s, piece, sizeof piece - i, &at, &err), err);
            assert_int_equal(at, 256 * i - i * (i - 1) / 2);
        }
        assert_int_equal(leat_spill_on_disk(s), memory[m] < 100000);
        for (uint32_t i = 0; i < 50; i++) {
            assert_ok(leat_spill_read(s, 256 * i - i * (i - 1) / 2, piece, sizeof piece - i, &err), err);
            assert_int_equal(piece[0], i);
            assert_int_equal(piece[sizeof piece - i - 1], i);
        }
        assert_fails(leat_spill_read(s, leat_spill_size(s) - 1, piece, 2, &err), err, LEAT_INTERNAL, "never");
        leat_spill_close(s);
    }
}

TEST(a_place_that_cannot_take_it_is_named)
{
    struct leat_spill *s;
    struct leat_error err;
    assert_int_equal(setenv("TMPDIR", "/nonexistent", 1), 0);
    assert_ok(leat_spill_open(10, &s, &err), err);
    assert_ok(leat_spill_add(s, "12345", 5, NULL, &err), err);
    assert_fails(leat_spill_add(s, "1234567", 7, NULL, &err), err, LEAT_NOT_FOUND, "/nonexistent (TMPDIR");
    leat_spill_close(s);
    unsetenv("TMPDIR");
}

TEST(a_file_that_may_not_grow_is_an_error)
{
    struct leat_spill *s;
    struct leat_error err;
    struct rlimit old;
    static uint8_t data[8192];
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    struct rlimit small = {.rlim_cur = 10000, .rlim_max = old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_ok(leat_spill_open(0, &s, &err), err);
    assert_ok(leat_spill_add(s, data, sizeof data, NULL, &err), err);
    leat_status rc = leat_spill_add(s, data, sizeof data, NULL, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_not_equal(rc, LEAT_OK);
    assert_non_null(strstr(err.text, "temporary file in"));
    leat_spill_close(s);
}

struct entry {
    uint64_t hash;
    uint64_t sample;
};

static int by_hash(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->sample < y->sample ? -1 : x->sample > y->sample;
}

/* Sorts n entries, of whose hashes only `different` ones occur, with this much memory, and compares. */
static void check_sorted(uint32_t n, uint32_t different, size_t memory)
{
    struct leat_spill *s;
    struct leat_key_index *x;
    struct leat_error err;
    uint64_t at;
    struct entry *expected = calloc(n, sizeof *expected);
    assert_ok(leat_spill_open(1000, &s, &err), err);
    assert_ok(leat_spill_add(s, "others write here, too", 22, NULL, &err), err);
    assert_ok(leat_key_index_open(s, n, memory, &x, &err), err);
    for (uint32_t i = 0; i < n; i++) {
        struct leat_rng rng = leat_rng(5, i * 2654435761u % different);
        expected[i] = (struct entry){leat_rng_u64(&rng), i};
        assert_ok(leat_key_index_add(x, expected[i].hash, i, &err), err);
    }
    qsort(expected, n, sizeof *expected, by_hash);
    assert_ok(leat_key_index_finish(x, &at, &err), err);
    assert_int_equal(leat_spill_size(s) - at, (uint64_t)n * LEAT_KEY_ENTRY);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t bytes[LEAT_KEY_ENTRY];
        assert_ok(leat_spill_read(s, at + (uint64_t)i * LEAT_KEY_ENTRY, bytes, sizeof bytes, &err), err);
        assert_true(leat_get_u64(bytes) == expected[i].hash);
        assert_true(leat_get_u64(bytes + 8) == expected[i].sample);
    }
    leat_key_index_close(x);
    leat_spill_close(s);
    free(expected);
}

TEST(an_index_is_sorted_whatever_memory_there_is)
{
    check_sorted(1, 1, 1 << 20);
    check_sorted(20000, 20000, 64 << 20); /* one part, in memory */
    check_sorted(20000, 20000, 64 << 10);
    check_sorted(20000, 20000, 16 << 10); /* many parts */
    check_sorted(20000, 3, 16 << 10);     /* keys that repeat are more than memory holds … */
    check_sorted(20000, 1, 16 << 10);     /* … or all the same */
    check_sorted(20000, 40, 4 << 10);     /* parts are parted again */
}
