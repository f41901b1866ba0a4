#include "store/sign.h"
#include "unit.h"

/* The examples of Amazon's "Authenticating Requests: Using the Authorization Header" for S3. */
static const struct leat_sign_keys example_keys = {"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                                                   NULL};

#define EXAMPLE_TIME 1369353600 /* 20130524T000000Z */
#define EMPTY_HASH   "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static struct leat_sign_request example(const char *method, const char *path)
{
    return (struct leat_sign_request){
        .method = method,
        .host = "examplebucket.s3.amazonaws.com",
        .path = path,
        .payload_hash = EMPTY_HASH,
        .region = "us-east-1",
        .service = "s3",
        .time_s = EXAMPLE_TIME,
    };
}

static void check_authorization(const struct leat_sign_keys *keys, const struct leat_sign_request *request,
                                const char *headers, const char *signature)
{
    char date[LEAT_SIGN_DATE];
    char expected[1000];
    struct leat_buf authorization;
    leat_buf_init(&authorization, 4096);
    assert_int_equal(leat_sign(keys, request, date, &authorization, NULL), LEAT_OK);
    assert_string_equal(date, "20130524T000000Z");
    snprintf(expected, sizeof expected,
             "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, SignedHeaders=%s, "
             "Signature=%s",
             headers, signature);
    assert_string_equal(authorization.data, expected);
    leat_buf_free(&authorization);
}

TEST(get_object_with_range_matches_amazons_example)
{
    struct leat_sign_pair range = {"Range", "bytes=0-9"};
    struct leat_sign_request r = example("GET", "/test.txt");
    r.headers = &range;
    r.headers_n = 1;
    check_authorization(&example_keys, &r, "host;range;x-amz-content-sha256;x-amz-date",
                        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(put_object_matches_amazons_example)
{
    struct leat_sign_pair headers[] = {{"x-amz-storage-class", "REDUCED_REDUNDANCY"},
                                       {"Date", "Fri, 24 May 2013 00:00:00 GMT"}};
    struct leat_sign_request r = example("PUT", "/test$file.text");
    r.headers = headers;
    r.headers_n = 2;
    r.payload_hash = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
    check_authorization(&example_keys, &r, "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
                        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

TEST(get_lifecycle_matches_amazons_example)
{
    struct leat_sign_pair query = {"lifecycle", ""};
    struct leat_sign_request r = example("GET", "/");
    r.query = &query;
    r.query_n = 1;
    check_authorization(&example_keys, &r, "host;x-amz-content-sha256;x-amz-date",
                        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}

TEST(list_objects_matches_amazons_example_in_any_order_of_the_query)
{
    struct leat_sign_pair query[] = {{"prefix", "J"}, {"max-keys", "2"}};
    struct leat_sign_request r = example("GET", "/");
    r.query = query;
    r.query_n = 2;
    check_authorization(&example_keys, &r, "host;x-amz-content-sha256;x-amz-date",
                        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(canonical_request_is_sorted_trimmed_and_encoded)
{
    struct leat_sign_pair query[] = {{"b", "x y"}, {"a-", "1"}, {"a", "2"}, {"a", "1=&"}, {"uploads", ""}};
    struct leat_sign_pair headers[] = {{"X-B", "  two   words\t "}, {"range", ""}, {"x-a", "1"}, {"x-A", "0"}};
    struct leat_sign_request r = example("GET", "/b/a=b+c d/../\xc3\xbc//~");
    r.query = query;
    r.query_n = 5;
    r.headers = headers;
    r.headers_n = 4;
    struct leat_buf out;
    leat_buf_init(&out, 4096);
    assert_int_equal(leat_sign_canonical(&r, "20130524T000000Z", "to ken", &out, NULL), LEAT_OK);
    assert_string_equal(out.data,
                        "GET\n/b/a%3Db%2Bc%20d/../%C3%BC//~\na=1%3D%26&a=2&a-=1&b=x%20y&uploads=\n"
                        "host:examplebucket.s3.amazonaws.com\nrange:\nx-a:1,0\nx-amz-content-sha256:" EMPTY_HASH
                        "\nx-amz-date:20130524T000000Z\nx-amz-security-token:to ken\nx-b:two words\n\n"
                        "host;range;x-a;x-amz-content-sha256;x-amz-date;x-amz-security-token;x-b\n" EMPTY_HASH);
    leat_buf_free(&out);
}

TEST(a_session_token_is_signed_and_an_empty_one_is_none)
{
    struct leat_sign_keys keys = example_keys;
    struct leat_sign_request r = example("GET", "/");
    char date[LEAT_SIGN_DATE];
    struct leat_buf plain;
    struct leat_buf empty;
    struct leat_buf with;
    leat_buf_init(&plain, 4096);
    leat_buf_init(&empty, 4096);
    leat_buf_init(&with, 4096);
    assert_int_equal(leat_sign(&keys, &r, date, &plain, NULL), LEAT_OK);
    keys.session_token = "";
    assert_int_equal(leat_sign(&keys, &r, date, &empty, NULL), LEAT_OK);
    keys.session_token = "abc";
    assert_int_equal(leat_sign(&keys, &r, date, &with, NULL), LEAT_OK);
    assert_string_equal(plain.data, empty.data);
    assert_string_not_equal(plain.data, with.data);
    assert_non_null(strstr(with.data, "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token,"));
    leat_buf_free(&plain);
    leat_buf_free(&empty);
    leat_buf_free(&with);
}

TEST(headers_that_would_split_a_request_are_refused)
{
    static const struct leat_sign_pair bad[] = {
        {"x-a", "1\r\nx-b: 2"}, {"x-a", "1\n"}, {"", "1"}, {"x a", "1"}, {"x:a", "1"}, {"x\na", "1"}, {"x;a", "1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct leat_sign_request r = example("GET", "/");
        struct leat_error err;
        char date[LEAT_SIGN_DATE] = "before";
        struct leat_buf out;
        leat_buf_init(&out, 4096);
        r.headers = &bad[i];
        r.headers_n = 1;
        assert_int_equal(leat_sign(&example_keys, &r, date, &out, &err), LEAT_INVALID);
        assert_string_equal(date, "before");
        leat_buf_free(&out);
    }
}

TEST(a_clock_out_of_range_is_refused)
{
    static const int64_t bad[] = {-1, 253402300800, INT64_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct leat_sign_request r = example("GET", "/");
        char date[LEAT_SIGN_DATE];
        struct leat_buf out;
        leat_buf_init(&out, 4096);
        r.time_s = bad[i];
        assert_int_equal(leat_sign(&example_keys, &r, date, &out, NULL), LEAT_INVALID);
        leat_buf_free(&out);
    }
}
