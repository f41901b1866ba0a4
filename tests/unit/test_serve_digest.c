#include "base/hash.h"
#include "serve/digest.h"
#include "unit.h"

static const char text[] = "123456789";

/* The check values that catalogues of CRCs give for this text, and the digests of it, in base64. */
static const struct {
    const char *header;
    const char *base64;
} values[] = {
    {"x-amz-checksum-crc32", "y/Q5Jg=="},
    {"x-amz-checksum-crc32c", "4waSgw=="},
    {"x-amz-checksum-crc64nvme", "rosUhgp5mIg="},
    {"x-amz-checksum-sha1", "98O8HYCOBHMq32eZZczDTKeuNEE="},
    {"X-Amz-Checksum-SHA256", "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="},
};

static bool check(const char *header, const char *base64, const char *body)
{
    unsigned char md5[LEAT_SERVE_MD5];
    enum leat_serve_code why;
    struct leat_serve_digest *d = leat_serve_digest_open();
    assert_non_null(d);
    assert_true(leat_serve_digest_expect_checksum(d, header, base64));
    for (const char *p = body; *p; p++)
        leat_serve_digest_add(d, p, 1);
    bool ok = leat_serve_digest_finish(d, md5, &why);
    const char *kept;
    if (ok) {
        assert_string_equal(leat_serve_digest_header(d, &kept) ? kept : "", base64);
        char hex[2 * LEAT_SERVE_MD5 + 1];
        leat_hex(md5, sizeof md5, hex);
        if (strcmp(body, text) == 0)
            assert_string_equal(hex, "25f9e794323b453885f5181f1b624d0b");
    } else {
        assert_int_equal(why, LEAT_SERVE_BAD_DIGEST);
    }
    leat_serve_digest_close(d);
    return ok;
}

TEST(every_checksum_equals_its_published_value)
{
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        assert_true(check(values[i].header, values[i].base64, text));
        assert_false(check(values[i].header, values[i].base64, "123456780"));
        assert_false(check(values[i].header, values[i].base64, ""));
    }
}

TEST(values_of_the_wrong_kind_are_refused)
{
    static const char *const bad[] = {"", "y/Q5Jg", "y/Q5Jg=", "y/Q5JgAA", "y/Q5Jg==y/Q5Jg==", "y/Q5*g==", "===="};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct leat_serve_digest *d = leat_serve_digest_open();
        assert_false(leat_serve_digest_expect_checksum(d, "x-amz-checksum-crc32", bad[i]));
        leat_serve_digest_close(d);
    }
    struct leat_serve_digest *d = leat_serve_digest_open();
    assert_false(leat_serve_digest_expect_checksum(d, "x-amz-checksum-md4", "y/Q5Jg=="));
    assert_false(leat_serve_digest_expect_md5(d, "short"));
    assert_false(leat_serve_digest_expect_sha256(d, "0123"));
    assert_true(leat_serve_digest_expect_checksum(d, "x-amz-checksum-crc32", "y/Q5Jg=="));
    assert_false(leat_serve_digest_expect_checksum(d, "x-amz-checksum-sha1",
                                                   "98O8HYCOBHMq32eZZczDTKeuNEE=")); /* one is allowed */
    leat_serve_digest_close(d);
}

TEST(payload_hash_and_md5_are_compared)
{
    static const char sha256[] = "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225";
    unsigned char md5[LEAT_SERVE_MD5];
    enum leat_serve_code why;
    for (int wrong = 0; wrong < 2; wrong++) {
        struct leat_serve_digest *d = leat_serve_digest_open();
        assert_true(leat_serve_digest_expect_sha256(d, sha256));
        leat_serve_digest_add(d, text, wrong ? 8 : 9);
        assert_int_equal(leat_serve_digest_finish(d, md5, &why), !wrong);
        if (wrong)
            assert_int_equal(why, LEAT_SERVE_CONTENT_SHA256_MISMATCH);
        leat_serve_digest_close(d);
        d = leat_serve_digest_open();
        assert_true(leat_serve_digest_expect_md5(d, "JfnnlDI7RTiF9RgfG2JNCw=="));
        leat_serve_digest_add(d, text, wrong ? 8 : 9);
        assert_int_equal(leat_serve_digest_finish(d, md5, &why), !wrong);
        leat_serve_digest_close(d);
    }
}
