#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "serve/chunked.h"

/* Amazon's example: 65 KiB of 'a' in chunks of 64 KiB and 1 KiB. */
#define EXAMPLE_SECRET "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
#define SEED           "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
#define CHUNK1         "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"
#define CHUNK2         "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"
#define CHUNK3         "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"

struct out {
    struct leat_buf data;
    struct leat_buf trailers;
};

static void on_data(const void *data, size_t n, void *user)
{
    struct out *o = user;
    leat_buf_add(&o->data, data, n);
}

static void on_trailer(const char *name, const char *value, void *user)
{
    struct out *o = user;
    leat_buf_printf(&o->trailers, "%s=%s;", name, value);
}

static struct leat_serve_chunk_key example_key(void)
{
    struct leat_serve_chunk_key k = {
        .date = "20130524T000000Z", .scope = "20130524/us-east-1/s3/aws4_request", .signature = SEED};
    assert_int_equal(leat_sign_key(EXAMPLE_SECRET, "20130524", "us-east-1", "s3", k.key, NULL), LEAT_OK);
    return k;
}

/* Decodes in pieces of `piece` bytes. True when all of it was taken and the end was there. */
static bool decode(struct leat_serve_chunked_options o, const char *text, size_t n, size_t piece, struct out *out,
                   enum leat_serve_code *why)
{
    leat_buf_init(&out->data, 1 << 20);
    leat_buf_init(&out->trailers, 4096);
    o.data = on_data;
    o.trailer = on_trailer;
    o.user = out;
    struct leat_serve_chunked *c = leat_serve_chunked_open(&o);
    assert_non_null(c);
    bool ok = true;
    for (size_t at = 0; ok && at < n; at += piece)
        ok = leat_serve_chunked_add(c, text + at, n - at < piece ? n - at : piece, why);
    ok = ok && leat_serve_chunked_done(c);
    assert_int_equal(leat_serve_chunked_size(c), out->data.len);
    leat_serve_chunked_close(c);
    return ok;
}

static void free_out(struct out *o)
{
    leat_buf_free(&o->data);
    leat_buf_free(&o->trailers);
}

static void example_body(struct leat_buf *body)
{
    leat_buf_init(body, 1 << 20);
    leat_buf_str(body, "10000;chunk-signature=" CHUNK1 "\r\n");
    for (int i = 0; i < 65536; i++)
        leat_buf_char(body, 'a');
    leat_buf_str(body, "\r\n400;chunk-signature=" CHUNK2 "\r\n");
    for (int i = 0; i < 1024; i++)
        leat_buf_char(body, 'a');
    leat_buf_str(body, "\r\n0;chunk-signature=" CHUNK3 "\r\n\r\n");
}

static void amazons_example_decodes_however_it_is_cut(void **state)
{
    static const size_t pieces[] = {1, 7, 85, 4096, 1 << 20};
    struct leat_serve_chunk_key key = example_key();
    struct leat_buf body;
    enum leat_serve_code why;
    example_body(&body);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct leat_serve_chunked_options o = {.has_signatures = true, .key = &key};
        struct out out;
        assert_true(decode(o, body.data, body.len, pieces[i], &out, &why));
        assert_int_equal(out.data.len, 66560);
        free_out(&out);
    }
    leat_buf_free(&body);
}

static void a_changed_byte_anywhere_is_noticed(void **state)
{
    struct leat_serve_chunk_key key = example_key();
    struct leat_buf body;
    enum leat_serve_code why;
    example_body(&body);
    for (size_t at = 0; at < body.len; at += at < 200 || at > 65500 ? 1 : 997) {
        struct leat_serve_chunked_options o = {.has_signatures = true, .key = &key};
        struct out out;
        body.data[at] ^= 1;
        assert_false(decode(o, body.data, body.len, 4096, &out, &why));
        body.data[at] ^= 1;
        free_out(&out);
    }
    leat_buf_free(&body);
}

static void every_shorter_body_is_incomplete(void **state)
{
    static const char text[] = "5\r\nhello\r\n3;x=y\r\nabc\r\n0\r\nx-amz-checksum-crc32: AAAA\r\nother:  v \r\n\r\n";
    struct leat_serve_chunked_options o = {.has_trailers = true};
    enum leat_serve_code why;
    struct out out;
    for (size_t n = 0; n < sizeof text - 1; n++) {
        assert_false(decode(o, text, n, 3, &out, &why));
        free_out(&out);
    }
    assert_true(decode(o, text, sizeof text - 1, 3, &out, &why));
    assert_string_equal(out.data.data, "helloabc");
    assert_string_equal(out.trailers.data, "x-amz-checksum-crc32=AAAA;other=v ;");
    free_out(&out);
}

static void what_is_no_such_body_is_refused(void **state)
{
    static const char *const bad[] = {
        "\r\n",
        "x\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhellooo\r\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "fffffffffffffffff\r\n",
        "140000001\r\n",
        "0\r\n\r\nmore",
        "0\r\nno colon\r\n\r\n",
        "0\r\n: value\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
    };
    enum leat_serve_code why;
    struct out out;
    char *line = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct leat_serve_chunked_options o = {.has_trailers = true};
        assert_false(decode(o, bad[i], strlen(bad[i]), 4, &out, &why));
        free_out(&out);
    }
    /* a line without end is not kept for ever */
    line = test_malloc(100000);
    memset(line, 'a', 100000);
    memcpy(line, "5;", 2);
    struct leat_serve_chunked_options o = {.has_trailers = true};
    assert_false(decode(o, line, 100000, 1000, &out, &why));
    free_out(&out);
    test_free(line);
}

static void signatures_are_read_over_where_there_is_no_key(void **state)
{
    struct leat_serve_chunked_options o = {.has_signatures = true};
    struct leat_buf body;
    enum leat_serve_code why;
    struct out out;
    example_body(&body);
    memset(body.data + 25, '0', 10);
    assert_true(decode(o, body.data, body.len, 100, &out, &why));
    assert_int_equal(out.data.len, 66560);
    free_out(&out);
    leat_buf_free(&body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(amazons_example_decodes_however_it_is_cut),
        cmocka_unit_test(a_changed_byte_anywhere_is_noticed),
        cmocka_unit_test(every_shorter_body_is_incomplete),
        cmocka_unit_test(what_is_no_such_body_is_refused),
        cmocka_unit_test(signatures_are_read_over_where_there_is_no_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
