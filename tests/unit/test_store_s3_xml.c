#include "store/s3_xml.h"

#include <inttypes.h>

#include "base/buf.h"
#include "unit.h"

#define PAGE                                                                                                           \
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"                                                                     \
    "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>bucket</Name><Prefix>p%2F</Prefix>"     \
    "<MaxKeys>1000</MaxKeys><IsTruncated>true</IsTruncated>"                                                           \
    "<Contents><Key>p/b%20c</Key><LastModified>2013-09-17T18:07:53.000Z</LastModified>"                                \
    "<ETag>&quot;599bab3ed2c697f1d26842727561fd94&quot;</ETag><Size>857</Size>"                                        \
    "<Owner><ID>x</ID><DisplayName>Key</DisplayName></Owner><StorageClass>STANDARD</StorageClass></Contents>"          \
    "<Contents><Key>p/a+b</Key><Size>18446744073709551615</Size></Contents>"                                           \
    "<CommonPrefixes><Prefix>p/%C3%A4/</Prefix></CommonPrefixes><EncodingType>url</EncodingType>"                      \
    "<NextContinuationToken>to&amp;ken=</NextContinuationToken></ListBucketResult>"

TEST(a_page_is_read_sorted_and_decoded)
{
    struct leat_error err;
    struct leat_s3_page page;
    assert_ok(leat_s3_parse_page(PAGE, strlen(PAGE), &page, &err), err);
    assert_int_equal(page.n, 3);
    assert_string_equal(leat_s3_page_string(&page, page.entries[0].key), "p/a b");
    assert_true(page.entries[0].size == UINT64_MAX);
    assert_string_equal(leat_s3_page_string(&page, page.entries[0].etag), "");
    assert_string_equal(leat_s3_page_string(&page, page.entries[1].key), "p/b c");
    assert_int_equal(page.entries[1].size, 857);
    assert_int_equal(page.entries[1].modified_s, 1379441273);
    assert_string_equal(leat_s3_page_string(&page, page.entries[1].etag), "\"599bab3ed2c697f1d26842727561fd94\"");
    assert_string_equal(leat_s3_page_string(&page, page.entries[2].key), "p/ä/");
    assert_true(page.entries[2].prefix);
    assert_string_equal(page.token, "to&ken=");
    leat_s3_page_free(&page);
    leat_s3_page_free(&page); /* twice is fine */
    leat_s3_page_free(NULL);
}

TEST(a_truncated_page_is_refused_at_every_length)
{
    struct leat_error err;
    struct leat_s3_page page;
    struct leat_s3_answer answer;
    for (size_t n = 0; n < strlen(PAGE); n++) {
        char *copy = malloc(n ? n : 1); /* of that length exactly, so that reading after it is seen */
        assert_non_null(copy);
        memcpy(copy, PAGE, n);
        assert_fails(leat_s3_parse_page(copy, n, &page, &err), err, LEAT_SERVER, "list");
        assert_false(leat_s3_parse_answer(copy, n, &answer));
        free(copy);
    }
}

static void expect_refused(const char *xml)
{
    struct leat_error err;
    struct leat_s3_page page;
    if (leat_s3_parse_page(xml, strlen(xml), &page, &err) != LEAT_SERVER)
        fail_msg("passed for a list: %.200s", xml);
}

#define LIST(inside) "<ListBucketResult>" inside "</ListBucketResult>"

TEST(what_is_no_list_is_refused)
{
    static const char *const wrong[] = {
        "",
        "not XML",
        "<Error><Code>NoSuchBucket</Code></Error>",
        "<html><body>Please log in</body></html>",
        LIST("<Contents><Size>1</Size></Contents>"),
        LIST("<Contents><Key>a</Key><Size>-1</Size></Contents>"),
        LIST("<Contents><Key>a</Key><Size>1e3</Size></Contents>"),
        LIST("<Contents><Key>a</Key><Size>99999999999999999999</Size></Contents>"),
        LIST("<IsTruncated>true</IsTruncated>"),
        LIST("<EncodingType>url</EncodingType><Contents><Key>a%</Key></Contents>"),
        LIST("<EncodingType>url</EncodingType><Contents><Key>a%2</Key></Contents>"),
        LIST("<EncodingType>url</EncodingType><Contents><Key>a%zz</Key></Contents>"),
        LIST("<EncodingType>url</EncodingType><Contents><Key>a%00b</Key></Contents>"),
        LIST("<Contents><Key>\xff\xfe</Key></Contents>"),
        LIST("<Contents><Key>&unknown;</Key></Contents>"),
        LIST("<Contents><Key>a</Contents></Key>"),
        LIST("") LIST(""),
        LIST("<CommonPrefixes></CommonPrefixes>"),
    };
    for (size_t i = 0; i < COUNT(wrong); i++)
        expect_refused(wrong[i]);
}

TEST(entities_are_refused_however_they_are_declared)
{
    static const char *const attacks[] = {
        "<!DOCTYPE x [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\"><!ENTITY c "
        "\"&b;&b;&b;&b;\">]>" LIST("<Contents><Key>&c;</Key></Contents>"),
        "<!DOCTYPE x [<!ENTITY a SYSTEM \"file:///etc/passwd\">]>" LIST("<Contents><Key>&a;</Key></Contents>"),
        "<!DOCTYPE x SYSTEM \"http://127.0.0.1:1/x.dtd\">" LIST(""),
        "<!DOCTYPE ListBucketResult>" LIST(""),
    };
    struct leat_s3_answer answer;
    for (size_t i = 0; i < COUNT(attacks); i++) {
        expect_refused(attacks[i]);
        assert_false(leat_s3_parse_answer(attacks[i], strlen(attacks[i]), &answer));
    }
}

TEST(deep_and_large_documents_are_refused_in_bounded_memory)
{
    struct leat_buf xml;
    leat_buf_init(&xml, 64 << 20);
    for (int i = 0; i < 100000; i++)
        leat_buf_str(&xml, "<a>");
    expect_refused(xml.data);
    leat_buf_clear(&xml);
    leat_buf_str(&xml, "<ListBucketResult><Contents><Key>");
    for (int i = 0; i < 20000; i++)
        leat_buf_char(&xml, 'k');
    leat_buf_str(&xml, "</Key></Contents></ListBucketResult>");
    expect_refused(xml.data);
    leat_buf_clear(&xml);
    leat_buf_str(&xml, "<ListBucketResult>");
    for (int i = 0; i < 20000; i++)
        leat_buf_printf(&xml, "<Contents><Key>%d</Key></Contents>", i);
    leat_buf_str(&xml, "</ListBucketResult>");
    expect_refused(xml.data);
    leat_buf_clear(&xml);
    leat_buf_str(&xml, "<");
    for (int i = 0; i < 100000; i++)
        leat_buf_char(&xml, 'n');
    expect_refused(xml.data);
    leat_buf_free(&xml);
}

TEST(keys_without_an_encoding_are_taken_as_they_are)
{
    struct leat_error err;
    struct leat_s3_page page;
    const char *xml = LIST("<Contents><Key>a%20+&lt;b&gt;&#xe4;</Key></Contents><Contents><Key></Key></Contents>");
    assert_ok(leat_s3_parse_page(xml, strlen(xml), &page, &err), err);
    assert_int_equal(page.n, 2);
    assert_string_equal(leat_s3_page_string(&page, page.entries[0].key), "");
    assert_string_equal(leat_s3_page_string(&page, page.entries[1].key), "a%20+<b>ä");
    assert_null(page.token);
    leat_s3_page_free(&page);
}

TEST(namespaces_spaces_and_other_encodings_do_not_matter)
{
    struct leat_error err;
    struct leat_s3_page page;
    const char *xml = "\n<?xml?>";
    expect_refused(xml);
    xml = "<s:ListBucketResult xmlns:s=\"x\">\n  <s:Contents>\n <s:Key>k</s:Key>\n </s:Contents><!-- c -->\n"
          "<s:CommonPrefixes><s:Prefix><![CDATA[a&b/]]></s:Prefix></s:CommonPrefixes></s:ListBucketResult>\n";
    assert_ok(leat_s3_parse_page(xml, strlen(xml), &page, &err), err);
    assert_int_equal(page.n, 2);
    assert_string_equal(leat_s3_page_string(&page, page.entries[0].key), "a&b/");
    leat_s3_page_free(&page);
    /* A token without truncation is none: the list ends here. */
    xml = LIST("<IsTruncated>false</IsTruncated><NextContinuationToken>t</NextContinuationToken>");
    assert_ok(leat_s3_parse_page(xml, strlen(xml), &page, &err), err);
    assert_null(page.token);
    leat_s3_page_free(&page);
}

TEST(errors_say_code_message_and_region)
{
    struct leat_s3_answer a;
    const char *xml = "<?xml version=\"1.0\"?><Error><Code>AuthorizationHeaderMalformed</Code><Message>wrong region"
                      "</Message><Region>eu-west-1</Region><RequestId>1</RequestId></Error>";
    assert_true(leat_s3_parse_answer(xml, strlen(xml), &a));
    assert_string_equal(a.root, "Error");
    assert_string_equal(a.code, "AuthorizationHeaderMalformed");
    assert_string_equal(a.message, "wrong region");
    assert_string_equal(a.region, "eu-west-1");
    xml = "<InitiateMultipartUploadResult><Bucket>b</Bucket><UploadId>VXBsb2Fk</UploadId></"
          "InitiateMultipartUploadResult>";
    assert_true(leat_s3_parse_answer(xml, strlen(xml), &a));
    assert_string_equal(a.root, "InitiateMultipartUploadResult");
    assert_string_equal(a.upload_id, "VXBsb2Fk");
    assert_string_equal(a.code, "");
    assert_false(leat_s3_parse_answer("", 0, &a));
    assert_false(leat_s3_parse_answer("<html><body>oops", 16, &a));
}

TEST(times_are_read_or_none)
{
    assert_int_equal(leat_s3_parse_time("2013-09-17T18:07:53.000Z"), 1379441273);
    assert_int_equal(leat_s3_parse_time("2013-09-17T18:07:53Z"), 1379441273);
    static const char *const wrong[] = {"",
                                        "2013",
                                        "2013-09-17",
                                        "2013-13-17T18:07:53Z",
                                        "yesterday",
                                        "2013-09-17T18:07:53+02:00",
                                        "0000-01-01T00:00:00Z"};
    for (size_t i = 0; i < COUNT(wrong); i++)
        assert_int_equal(leat_s3_parse_time(wrong[i]), 0);
}

TEST(versions_keep_their_order_and_say_where_to_go_on)
{
    static const char xml[] =
        "<ListVersionsResult><IsTruncated>true</IsTruncated><NextKeyMarker>b%20c</NextKeyMarker>"
        "<NextVersionIdMarker>v9</NextVersionIdMarker><EncodingType>url</EncodingType>"
        "<Version><Key>b%20c</Key><VersionId>v2</VersionId><IsLatest>true</IsLatest><Size>3</Size></Version>"
        "<Version><Key>b%20c</Key><VersionId>v1</VersionId><IsLatest>false</IsLatest><Size>4</Size></Version>"
        "<DeleteMarker><Key>a</Key><VersionId>m</VersionId><IsLatest>true</IsLatest></DeleteMarker>"
        "<CommonPrefixes><Prefix>d/</Prefix></CommonPrefixes></ListVersionsResult>";
    struct leat_s3_page page;
    struct leat_error err;
    assert_ok(leat_s3_parse_versions(xml, sizeof xml - 1, &page, &err), err);
    assert_int_equal(page.n, 4);
    assert_string_equal(leat_s3_page_string(&page, page.entries[0].version), "m");
    assert_true(page.entries[0].deleted && page.entries[0].latest);
    assert_string_equal(leat_s3_page_string(&page, page.entries[1].version), "v2");
    assert_string_equal(leat_s3_page_string(&page, page.entries[2].version), "v1");
    assert_true(page.entries[3].prefix);
    assert_string_equal(page.token, "b c\nv9");
    leat_s3_page_free(&page);
    assert_int_equal(leat_s3_parse_page(xml, sizeof xml - 1, &page, &err), LEAT_SERVER); /* another kind of list */
}
