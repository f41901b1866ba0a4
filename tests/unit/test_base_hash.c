#include "base/hash.h"

#include <pthread.h>

#include "base/random.h"
#include "unit.h"

static void assert_hex(const void *data, size_t n, const char *expected)
{
    char text[2 * LEAT_SHA256_SIZE + 1];
    assert_true(n <= LEAT_SHA256_SIZE);
    leat_hex(data, n, text);
    assert_string_equal(text, expected);
}

/* The check value of the CRC catalogues, and RFC 3720's examples. */
TEST(crc32c_has_the_published_values)
{
    uint8_t bytes[32] = {0};
    assert_int_equal(leat_crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(leat_crc32c_portable(0, "123456789", 9), 0xe3069283);
    assert_int_equal(leat_crc32c(0, bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(leat_crc32c(0, bytes, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(leat_crc32c(0, bytes, 32), 0x46dd794e);
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)(31 - i);
    assert_int_equal(leat_crc32c(0, bytes, 32), 0x113fdb5c);
    assert_int_equal(leat_crc32c(0, NULL, 0), 0);
    assert_int_equal(leat_crc32c(0x12345678, NULL, 0), 0x12345678);
}

/* Bit by bit, as the polynomial is defined: shares no table with what is tested. */
static uint32_t crc32c_by_definition(uint32_t crc, const uint8_t *p, size_t n)
{
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    }
    return ~crc;
}

static uint8_t *random_bytes(size_t n)
{
    struct leat_rng r = leat_rng(1, 2);
    uint8_t *bytes = malloc(n);
    assert_non_null(bytes);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)leat_rng_u32(&r);
    return bytes;
}

/* Lengths around the stripes of the fast path (3·4096), at every alignment, going on from any earlier value. */
TEST(crc32c_fast_and_portable_agree_at_any_length_and_offset)
{
    static const size_t lengths[] = {0,    1,     7,     8,     9,     15,    16,    63,    4095,  4096,
                                     4097, 12287, 12288, 12289, 12295, 16384, 24575, 24576, 24583, 40000};
    uint8_t *bytes = random_bytes(50000);
    struct leat_rng r = leat_rng(3, 4);
    for (size_t i = 0; i < COUNT(lengths); i++) {
        for (size_t offset = 0; offset < 9; offset++) {
            uint32_t before = leat_rng_u32(&r);
            uint32_t expected = crc32c_by_definition(before, bytes + offset, lengths[i]);
            assert_int_equal(leat_crc32c(before, bytes + offset, lengths[i]), expected);
            assert_int_equal(leat_crc32c_portable(before, bytes + offset, lengths[i]), expected);
        }
    }
    for (int i = 0; i < 500; i++) {
        size_t offset = leat_rng_below(&r, 100);
        size_t n = leat_rng_below(&r, 49900);
        uint32_t before = leat_rng_u32(&r);
        assert_int_equal(leat_crc32c(before, bytes + offset, n), leat_crc32c_portable(before, bytes + offset, n));
    }
    free(bytes);
    print_message("# crc32c by %s\n", leat_crc32c_kind());
}

TEST(crc32c_in_pieces_is_the_crc_of_the_whole)
{
    size_t n = 30000;
    uint8_t *bytes = random_bytes(n);
    uint32_t whole = leat_crc32c(0, bytes, n);
    for (size_t cut = 0; cut <= n; cut += 997)
        assert_int_equal(leat_crc32c(leat_crc32c(0, bytes, cut), bytes + cut, n - cut), whole);
    free(bytes);
}

static void *crc_in_thread(void *arg)
{
    uint32_t *out = arg;
    uint8_t bytes[20000];
    memset(bytes, 'x', sizeof bytes);
    *out = leat_crc32c(0, bytes, sizeof bytes) ^ leat_crc32c_portable(0, bytes, sizeof bytes);
    return NULL;
}

/* The tables are made on first use; ThreadSanitizer looks at this one. */
TEST(crc32c_may_be_used_first_by_many_threads_at_once)
{
    pthread_t threads[8];
    uint32_t difference[8];
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, crc_in_thread, &difference[i]), 0);
    for (size_t i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(difference[i], 0);
    }
}

/* In pieces it is libxxhash's own code. */
TEST(xxh3_is_the_librarys_at_every_length_and_place)
{
    static uint8_t data[5000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 11);
    struct leat_xxh3 *h = leat_xxh3_open();
    assert_non_null(h);
    for (size_t n = 0; n <= 4200; n++) {
        const uint8_t *at = data + n % 67;
        leat_xxh3_reset(h);
        leat_xxh3_add(h, at, n);
        assert_true(leat_xxh3(at, n) == leat_xxh3_digest(h));
    }
    leat_xxh3_close(h);
}

TEST(xxh3_in_pieces_is_that_of_the_whole)
{
    uint8_t data[3000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 7 + i / 251);
    struct leat_xxh3 *h = leat_xxh3_open();
    assert_non_null(h);
    assert_true(leat_xxh3_digest(h) == leat_xxh3("", 0));
    size_t at = 0;
    for (size_t step = 1; at + step <= sizeof data; step = step * 2 + 1) {
        leat_xxh3_add(h, data + at, step);
        at += step;
        assert_true(leat_xxh3_digest(h) == leat_xxh3(data, at)); /* and goes on */
    }
    leat_xxh3_reset(h);
    leat_xxh3_add(h, "abc", 3);
    leat_xxh3_add(h, NULL, 0);
    assert_true(leat_xxh3_digest(h) == leat_xxh3("abc", 3));
    leat_xxh3_close(h);
    leat_xxh3_close(NULL);
}

TEST(xxh3_has_the_published_values)
{
    assert_true(leat_xxh3("", 0) == 0x2d06800538d394c2u);
    assert_true(leat_xxh3("a", 1) == 0xe6c632b61e964e1fu);
    assert_true(leat_xxh3("abc", 3) == 0x78af5f94892f3950u);
}

TEST(sha256_has_the_published_values)
{
    uint8_t out[LEAT_SHA256_SIZE];
    leat_sha256("", 0, out);
    assert_hex(out, sizeof out, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    leat_sha256(NULL, 0, out);
    assert_hex(out, sizeof out, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    leat_sha256("abc", 3, out);
    assert_hex(out, sizeof out, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    leat_sha256(two_blocks, strlen(two_blocks), out);
    assert_hex(out, sizeof out, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(sha256_in_pieces_is_the_digest_of_the_whole)
{
    uint8_t *bytes = random_bytes(1000);
    uint8_t whole[LEAT_SHA256_SIZE];
    uint8_t pieces[LEAT_SHA256_SIZE];
    leat_sha256(bytes, 1000, whole);
    for (size_t step = 1; step < 200; step += 13) {
        struct leat_sha256 *h = leat_sha256_open();
        for (size_t at = 0; at < 1000; at += step)
            leat_sha256_add(h, bytes + at, at + step <= 1000 ? step : 1000 - at);
        leat_sha256_finish(h, pieces);
        assert_memory_equal(pieces, whole, sizeof whole);
    }
    leat_sha256_finish(leat_sha256_open(), NULL);
    leat_sha256_finish(NULL, NULL);
    free(bytes);
}

/* RFC 4231: a short key, a key longer than a block, and data longer than a block. */
TEST(hmac_sha256_has_the_published_values)
{
    uint8_t out[LEAT_SHA256_SIZE];
    uint8_t key[131];
    memset(key, 0x0b, 20);
    leat_hmac_sha256(key, 20, "Hi There", 8, out);
    assert_hex(out, sizeof out, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    leat_hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, out);
    assert_hex(out, sizeof out, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    static const char first[] = "Test Using Larger Than Block-Size Key - Hash Key First";
    leat_hmac_sha256(key, sizeof key, first, strlen(first), out);
    assert_hex(out, sizeof out, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    static const char longer[] = "This is a test using a larger than block-size key and a larger than block-size data. "
                                 "The key needs to be hashed before being used by the HMAC algorithm.";
    leat_hmac_sha256(key, sizeof key, longer, strlen(longer), out);
    assert_hex(out, sizeof out, "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
    leat_hmac_sha256(NULL, 0, "", 0, out);
    assert_hex(out, sizeof out, "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

TEST(hex_goes_there_and_back)
{
    uint8_t bytes[256];
    uint8_t back[256];
    char text[513];
    for (int i = 0; i < 256; i++)
        bytes[i] = (uint8_t)i;
    leat_hex(bytes, sizeof bytes, text);
    assert_int_equal(strlen(text), 512);
    assert_true(leat_unhex(text, back, sizeof back));
    assert_memory_equal(back, bytes, sizeof bytes);
    assert_true(leat_unhex("aBcD", back, 2));
    assert_hex(back, 2, "abcd");
    assert_true(leat_unhex("", back, 0));
}

TEST(text_that_is_not_exactly_hex_is_refused_and_writes_nothing)
{
    static const char *const bad[] = {"",     "0",    "000",     "00000", "0g00", "00 0",
                                      "-100", "0x00", "000\xff", "/000",  ":000"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        uint8_t out[2] = {0xee, 0xee};
        assert_false(leat_unhex(bad[i], out, 2));
        assert_int_equal(out[0], 0xee);
        assert_int_equal(out[1], 0xee);
    }
}

TEST(many_md5s_are_those_of_each)
{
    enum { MOST = 70, ROOM = 5000 };
    static uint8_t bytes[2 * ROOM];
    struct leat_md5_input inputs[MOST];
    uint8_t many[MOST][LEAT_MD5_SIZE];
    uint8_t one[LEAT_MD5_SIZE];
    uint32_t draw = 1;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(draw = draw * 1664525 + 1013904223, draw >> 24);
    for (size_t round = 0; round < 400; round++) {
        size_t n = round % (MOST + 1);
        for (size_t i = 0; i < n; i++) {
            draw = draw * 1664525 + 1013904223;
            inputs[i].n = round < 200 ? (draw >> 16) % 260 : (draw >> 16) % ROOM; /* around the ends of blocks, too */
            inputs[i].data = bytes + (draw >> 8) % ROOM;
            inputs[i].out = many[i];
        }
        leat_md5_many(inputs, n);
        for (size_t i = 0; i < n; i++) {
            leat_md5(inputs[i].data, inputs[i].n, one);
            assert_memory_equal(many[i], one, sizeof one);
        }
    }
}
