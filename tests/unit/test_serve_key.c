#include "base/random.h"
#include "serve/key.h"
#include "serve/range.h"
#include "unit.h"

static struct leat_serve_key key(const char *text)
{
    return (struct leat_serve_key){text, strlen(text)};
}

TEST(ordinary_keys_are_their_own_path)
{
    static const char *const plain[] = {"a",     "a/b",     "a.b",           "...", "..a",        "a..",
                                        "a/...", ".hidden", "x/.leat-serve", " ",   "\xff\xfe/b", "a b+c=d"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        assert_true(leat_serve_key_plain(key(plain[i])));
}

TEST(keys_that_are_no_path_are_not_plain)
{
    static const char *const odd[] = {"",   "/",    "//",   "/a",  "a/",    "a//b",        ".",
                                      "..", "../a", "a/..", "./a", "a/./b", ".leat-serve", ".leat-serve/x"};
    char wide[300];
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        assert_false(leat_serve_key_plain(key(odd[i])));
    assert_false(leat_serve_key_plain((struct leat_serve_key){"a\0b", 3}));
    memset(wide, 'w', sizeof wide);
    assert_true(leat_serve_key_plain((struct leat_serve_key){wide, 255}));
    assert_false(leat_serve_key_plain((struct leat_serve_key){wide, 256}));
}

/* No component of an escaped path can be special or too long, and it reads back as the key. */
static void check_round_trip(struct leat_serve_key k)
{
    struct leat_buf path;
    struct leat_buf back;
    leat_buf_init(&path, 8192);
    leat_buf_init(&back, 8192);
    assert_true(leat_serve_key_escape(k, &path));
    for (const char *p = path.data; *p;) {
        size_t n = strcspn(p, "/");
        assert_in_range(n, 1, 255);
        assert_int_not_equal(p[0], '.');
        p += n;
        p += *p == '/';
    }
    assert_true(leat_serve_key_unescape(path.data, &back));
    assert_int_equal(back.len, k.n);
    assert_memory_equal(back.data, k.data, k.n);
    leat_buf_free(&path);
    leat_buf_free(&back);
}

TEST(every_key_reads_back_from_its_escaped_path)
{
    char bytes[LEAT_SERVE_KEY_MAX];
    struct leat_rng r = leat_rng(1, 1);
    for (int i = 0; i < 256; i++) {
        bytes[0] = (char)i;
        check_round_trip((struct leat_serve_key){bytes, 1});
    }
    for (int round = 0; round < 2000; round++) {
        size_t n = 1 + (size_t)leat_rng_below(&r, LEAT_SERVE_KEY_MAX);
        for (size_t i = 0; i < n; i++)
            bytes[i] = leat_rng_below(&r, 2) ? "./ab%+-"[leat_rng_below(&r, 7)] : (char)leat_rng_u32(&r);
        check_round_trip((struct leat_serve_key){bytes, n});
    }
}

TEST(only_the_one_spelling_is_an_escaped_key)
{
    static const char *const bad[] = {"",     "%4", "%4g", "%2e%2e", "%61", "a+",  "a+/b", "/a", "a/b",
                                      "a//b", "..", "a b", "%2f",    "+",   "+/a", "a/",   "%"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct leat_buf out;
        leat_buf_init(&out, 8192);
        assert_false(leat_serve_key_unescape(bad[i], &out));
        leat_buf_free(&out);
    }
}

TEST(ranges_are_what_http_says)
{
    static const struct {
        const char *header;
        uint64_t size;
        enum leat_serve_range_kind kind;
        uint64_t offset;
        uint64_t n;
    } cases[] = {
        {NULL, 10, LEAT_SERVE_RANGE_ALL, 0, 10},
        {"bytes=0-0", 10, LEAT_SERVE_RANGE_PART, 0, 1},
        {"bytes=0-9", 10, LEAT_SERVE_RANGE_PART, 0, 10},
        {"bytes=3-", 10, LEAT_SERVE_RANGE_PART, 3, 7},
        {"bytes=-3", 10, LEAT_SERVE_RANGE_PART, 7, 3},
        {"bytes=-30", 10, LEAT_SERVE_RANGE_PART, 0, 10},
        {"BYTES = 1 - 2 ", 10, LEAT_SERVE_RANGE_PART, 1, 2},
        {"bytes=9-18446744073709551615", 10, LEAT_SERVE_RANGE_PART, 9, 1},
        {"bytes=9-184467440737095516150", 10, LEAT_SERVE_RANGE_PART, 9, 1},
        {"bytes=10-", 10, LEAT_SERVE_RANGE_OUTSIDE, 0, 0},
        {"bytes=18446744073709551616-", 10, LEAT_SERVE_RANGE_OUTSIDE, 0, 0},
        {"bytes=-0", 10, LEAT_SERVE_RANGE_OUTSIDE, 0, 0},
        {"bytes=0-", 0, LEAT_SERVE_RANGE_OUTSIDE, 0, 0},
        {"bytes=-1", 0, LEAT_SERVE_RANGE_OUTSIDE, 0, 0},
        {"bytes=2-1", 10, LEAT_SERVE_RANGE_ALL, 0, 10},
        {"bytes=1-2,4-5", 10, LEAT_SERVE_RANGE_ALL, 0, 10},
        {"bytes=-", 10, LEAT_SERVE_RANGE_ALL, 0, 10},
        {"bytes=a-b", 10, LEAT_SERVE_RANGE_ALL, 0, 10},
        {"bytes=1", 10, LEAT_SERVE_RANGE_ALL, 0, 10},
        {"bytes=+1-2", 10, LEAT_SERVE_RANGE_ALL, 0, 10},
        {"items=1-2", 10, LEAT_SERVE_RANGE_ALL, 0, 10},
        {"", 10, LEAT_SERVE_RANGE_ALL, 0, 10},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t offset;
        uint64_t n;
        assert_int_equal(leat_serve_range(cases[i].header, cases[i].size, &offset, &n), cases[i].kind);
        if (cases[i].kind == LEAT_SERVE_RANGE_OUTSIDE)
            continue;
        assert_int_equal(offset, cases[i].offset);
        assert_int_equal(n, cases[i].n);
    }
}
