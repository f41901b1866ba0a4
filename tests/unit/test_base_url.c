#include "base/url.h"

#include "unit.h"

struct row {
    const char *text;
    enum leat_scheme scheme;
    const char *host;
    const char *path;
    const char *query;
};

static void assert_rows(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct leat_url url;
        struct leat_error err;
        if (leat_url_parse(rows[i].text, &url, &err) != LEAT_OK)
            fail_msg("'%s': %s", rows[i].text, err.text);
        assert_int_equal(url.scheme, rows[i].scheme);
        assert_string_equal(url.host, rows[i].host);
        assert_string_equal(url.path, rows[i].path);
        assert_string_equal(url.query, rows[i].query);
        leat_url_free(&url);
        assert_null(url.host);
    }
}

TEST(s3_addresses_are_bucket_and_key)
{
    static const struct row rows[] = {
        {"s3://bucket/a/b.jpg", LEAT_SCHEME_S3, "bucket", "a/b.jpg", ""},
        {"s3://bucket", LEAT_SCHEME_S3, "bucket", "", ""},
        {"s3://bucket/", LEAT_SCHEME_S3, "bucket", "", ""},
        {"S3://Bucket_1/x", LEAT_SCHEME_S3, "Bucket_1", "x", ""},
        {"s3://my.bucket-2/x", LEAT_SCHEME_S3, "my.bucket-2", "x", ""},
        {"s3://tenant:bucket/x", LEAT_SCHEME_S3, "tenant:bucket", "x", ""},
        {"s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/point/a/b", LEAT_SCHEME_S3,
         "arn:aws:s3:eu-west-1:123456789012:accesspoint/point", "a/b", ""},
        {"s3://arn:aws:s3:eu-west-1:123456789012:accesspoint:point/a/b", LEAT_SCHEME_S3,
         "arn:aws:s3:eu-west-1:123456789012:accesspoint:point", "a/b", ""},
        {"s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/point", LEAT_SCHEME_S3,
         "arn:aws:s3:eu-west-1:123456789012:accesspoint/point", "", ""},
    };
    assert_rows(rows, COUNT(rows));
}

TEST(keys_are_taken_byte_for_byte)
{
    static const struct row rows[] = {
        {"s3://b//a", LEAT_SCHEME_S3, "b", "/a", ""},
        {"s3://b/../../etc/passwd", LEAT_SCHEME_S3, "b", "../../etc/passwd", ""},
        {"s3://b/a b+c=d?e#f%20g", LEAT_SCHEME_S3, "b", "a b+c=d?e#f%20g", ""},
        {"s3://b/\xc3\xbc\xff\n", LEAT_SCHEME_S3, "b", "\xc3\xbc\xff\n", ""},
        {"s3://b/s3://c/d", LEAT_SCHEME_S3, "b", "s3://c/d", ""},
        {"s3://b/a/", LEAT_SCHEME_S3, "b", "a/", ""},
        {"s3://b/.", LEAT_SCHEME_S3, "b", ".", ""},
        {"gs://bucket.test/a/b", LEAT_SCHEME_GS, "bucket.test", "a/b", ""},
        {"az://account/container/a/b c", LEAT_SCHEME_AZ, "account/container", "a/b c", ""},
        {"az://account/container", LEAT_SCHEME_AZ, "account/container", "", ""},
        {"AZ://account/$web//x", LEAT_SCHEME_AZ, "account/$web", "/x", ""},
        {"hf://datasets/owner/name", LEAT_SCHEME_HF, "datasets/owner/name", "", ""},
        {"hf://datasets/owner/na.me-1/a/b c@d", LEAT_SCHEME_HF, "datasets/owner/na.me-1", "a/b c@d", ""},
        {"hf://models/o/n@v1.0/x", LEAT_SCHEME_HF, "models/o/n@v1.0", "x", ""},
        {"hf://spaces/o/n@refs/pr/12/x/y", LEAT_SCHEME_HF, "spaces/o/n@refs%2Fpr%2F12", "x/y", ""},
        {"hf://datasets/o/n@refs/convert/parquet", LEAT_SCHEME_HF, "datasets/o/n@refs%2Fconvert%2Fparquet", "", ""},
        {"hf://datasets/o/n@a%2Fb/x", LEAT_SCHEME_HF, "datasets/o/n@a%2Fb", "x", ""},
        {"abfss://container@account.dfs.core.windows.net/a/b", LEAT_SCHEME_AZ, "account/container", "a/b", ""},
        {"abfss://c@a.DFS.core.windows.net", LEAT_SCHEME_AZ, "a/c", "", ""},
    };
    assert_rows(rows, COUNT(rows));
}

TEST(plain_paths_are_files)
{
    static const struct row rows[] = {
        {"/data/x", LEAT_SCHEME_FILE, "", "/data/x", ""},
        {"x", LEAT_SCHEME_FILE, "", "x", ""},
        {"../x y?z#1", LEAT_SCHEME_FILE, "", "../x y?z#1", ""},
        {"a:b", LEAT_SCHEME_FILE, "", "a:b", ""},
        {"://x", LEAT_SCHEME_FILE, "", "://x", ""},
        {"./s3://x", LEAT_SCHEME_FILE, "", "./s3://x", ""},
        {"./s3:/x", LEAT_SCHEME_FILE, "", "./s3:/x", ""},
        {"s3/a:b", LEAT_SCHEME_FILE, "", "s3/a:b", ""},
        {"file:///data/x", LEAT_SCHEME_FILE, "", "/data/x", ""},
        {"FILE://localhost/data/x", LEAT_SCHEME_FILE, "", "/data/x", ""},
        {"file:///a%20b", LEAT_SCHEME_FILE, "", "/a%20b", ""},
    };
    assert_rows(rows, COUNT(rows));
}

TEST(http_addresses_have_a_path_and_a_query)
{
    static const struct row rows[] = {
        {"http://host", LEAT_SCHEME_HTTP, "host", "/", ""},
        {"https://host:8443/a/b?x=1&y=2", LEAT_SCHEME_HTTPS, "host:8443", "/a/b", "x=1&y=2"},
        {"http://host?q", LEAT_SCHEME_HTTP, "host", "/", "q"},
        {"http://host/a?b?c", LEAT_SCHEME_HTTP, "host", "/a", "b?c"},
        {"http://host/a#frag?no", LEAT_SCHEME_HTTP, "host", "/a", ""},
        {"http://host/a?b#frag", LEAT_SCHEME_HTTP, "host", "/a", "b"},
        {"http://host#frag", LEAT_SCHEME_HTTP, "host", "/", ""},
        {"http://[::1]:80/a", LEAT_SCHEME_HTTP, "[::1]:80", "/a", ""},
        {"http://127.0.0.1:1/a@b", LEAT_SCHEME_HTTP, "127.0.0.1:1", "/a@b", ""},
        {"http://h/%2e%2e/\xc3\xbc", LEAT_SCHEME_HTTP, "h", "/%2e%2e/\xc3\xbc", ""},
    };
    assert_rows(rows, COUNT(rows));
}

TEST(what_cannot_be_an_address_is_refused_with_advice)
{
    static const struct {
        const char *text;
        const char *says;
    } rows[] = {
        {"", "s3://BUCKET/KEY"},
        {"s3://", "names no bucket"},
        {"s3:///key", "names no bucket"},
        {"s3://buck et/x", "is not a bucket name"},
        {"s3://b\xc3\xbc/x", "is not a bucket name"},
        {"s3://b?x", "is not a bucket name"},
        {"gcs://bucket/x", "'gcs://' is not known here"},
        {"gs://", "write gs://BUCKET/KEY"},
        {"az://account", "names no container"},
        {"hf://", "names no repository"},
        {"hf://datasets", "names no repository"},
        {"hf://datasets/", "names no repository"},
        {"hf://datasets/owner", "names no repository"},
        {"hf://datasets/owner/", "names no repository"},
        {"hf://datasets/owner@x/name", "names no repository"},
        {"hf://datasets//name/x", "names no repository"},
        {"hf://owner/name/x", "names no repository"},
        {"hf://datasets/owner/name@", "no revision after '@'"},
        {"hf://datasets/owner/name@/x", "no revision after '@'"},
        {"hf://datasets/owner/name@a b/x", "cannot hold"},
        {"az://account/", "names no container"},
        {"az:///container/x", "names no container"},
        {"az://acc.ount/container/x", "names no container"},
        {"abfss://container/x", "is not abfss://"},
        {"abfss://@account.dfs.core.windows.net/x", "is not abfss://"},
        {"abfss://c@account.dfs.core.windows.net.evil.test/x", "another cloud"},
        {"s4://bucket/x", "use s3://"},
        {"s3:/bucket/x", "write s3://…, or ./s3:… for a path"},
        {"S3:bucket", "write S3://"},
        {"https:/h/x://y", "write https://"},
        {"file:/data", "write file://"},
        {"file://", "not absolute"},
        {"file://host/x", "not absolute"},
        {"file://x", "not absolute"},
        {"http://", "names no host"},
        {"http:///x", "names no host"},
        {"http://:80/", "not a host"},
        {"http://h:0/", "not a host"},
        {"http://h:65536/", "not a host"},
        {"http://h:8o/", "not a host"},
        {"http://h:/", "not a host"},
        {"http://h:+80/", "not a host"},
        {"http://[::1/", "not a host"},
        {"http://[]/", "not a host"},
        {"http://[::1]x/", "not a host"},
        {"http://a\x01/", "not a host"},
        {"http://h/a b", "%20"},
        {"http://h/a\r\nHost: evil", "%0D"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct leat_url url = {.host = (char *)1};
        struct leat_error err;
        assert_fails(leat_url_parse(rows[i].text, &url, &err), err, LEAT_INVALID, rows[i].says);
        assert_ptr_equal(url.host, (char *)1); /* nothing is written on failure */
    }
}

TEST(errors_repeat_no_password_and_no_signature)
{
    static const char *const texts[] = {
        "http://user:hunter2@host/",     "http://h ost/?X-Amz-Signature=hunter2",
        "http://host/a b?token=hunter2", "http://host/?token=hunter2 ",
        "http:///?token=hunter2",
    };
    struct leat_url url;
    struct leat_error err;
    for (size_t i = 0; i < COUNT(texts); i++) {
        assert_int_equal(leat_url_parse(texts[i], &url, &err), LEAT_INVALID);
        assert_null(strstr(err.text, "hunter2"));
    }
    char text[600];
    snprintf(text, sizeof text, "https://user:hunter2@%0400d/", 0);
    assert_int_equal(leat_url_parse(text, &url, &err), LEAT_INVALID);
    assert_null(strstr(err.text, "hunter2"));
}

TEST(lengths_have_limits)
{
    struct leat_url url;
    struct leat_error err;
    char *text = malloc(10000);
    for (int n = 1023; n <= 1025; n++) {
        snprintf(text, 10000, "s3://b/%0*d", n, 0);
        leat_status rc = leat_url_parse(text, &url, &err);
        assert_int_equal(rc, n <= 1024 ? LEAT_OK : LEAT_INVALID);
        if (rc == LEAT_OK)
            leat_url_free(&url);
    }
    snprintf(text, 10000, "s3://%0256d/x", 0);
    assert_fails(leat_url_parse(text, &url, &err), err, LEAT_INVALID, "is not a bucket name");
    snprintf(text, 10000, "http://%0256d/x", 0);
    assert_fails(leat_url_parse(text, &url, &err), err, LEAT_INVALID, "names no host");
    snprintf(text, 10000, "/%08192d", 0);
    assert_fails(leat_url_parse(text, &url, &err), err, LEAT_INVALID, "longer than 8192 bytes");
    free(text);
}

TEST(hosts_split_from_ports)
{
    char host[10];
    unsigned port = 7;
    assert_true(leat_url_split_host("h", host, sizeof host, &port));
    assert_string_equal(host, "h");
    assert_int_equal(port, 0);
    assert_true(leat_url_split_host("h:00080", host, sizeof host, &port));
    assert_int_equal(port, 80);
    assert_true(leat_url_split_host("[fe80::1]", host, sizeof host, &port));
    assert_string_equal(host, "[fe80::1]");
    assert_true(leat_url_split_host("123456789:65535", host, sizeof host, &port));
    assert_int_equal(port, 65535);
    assert_false(leat_url_split_host("1234567890", host, sizeof host, &port));
    assert_false(leat_url_split_host("", host, sizeof host, &port));
    assert_string_equal(host, "123456789");
    assert_int_equal(port, 65535);
}

static bool decodes_to(const char *text, bool plus, const char *expected, size_t n)
{
    struct leat_buf out;
    leat_buf_init(&out, 64);
    bool ok = leat_url_decode(&out, text, strlen(text), plus) && out.len == n && memcmp(out.data, expected, n) == 0;
    leat_buf_free(&out);
    return ok;
}

TEST(percent_encoding_is_undone_or_refused)
{
    assert_true(decodes_to("a%20b%2Fc%2f", false, "a b/c/", 6));
    assert_true(decodes_to("a+b", false, "a+b", 3));
    assert_true(decodes_to("a+b%2B", true, "a b+", 4));
    assert_true(decodes_to("%00%ff", false, "\0\xff", 2));
    static const char *const broken[] = {"%", "a%2", "%g0", "%0g", "%%20", "% 1"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct leat_buf out;
        leat_buf_init(&out, 64);
        assert_false(leat_url_decode(&out, broken[i], strlen(broken[i]), false));
        leat_buf_free(&out);
    }
}

TEST(freeing_nothing_is_allowed)
{
    struct leat_url url = {0};
    leat_url_free(NULL);
    leat_url_free(&url);
    leat_url_free(&url);
    assert_string_equal(leat_scheme_name(LEAT_SCHEME_HTTPS), "https");
    assert_string_equal(leat_scheme_name((enum leat_scheme)99), "?");
}
