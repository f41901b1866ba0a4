#include "dataset/tar.h"

#include "base/buf.h"

#include "tar_writer.h"
#include "unit.h"

/* Reads an archive in steps of this many bytes: "kind name offset size data\n" for each member. */
static leat_status read_all(const struct tar_archive *a, size_t step, struct leat_buf *seen, struct leat_error *err)
{
    struct leat_tar *t;
    leat_status rc = leat_tar_open(&t, err);
    uint64_t end = 0; /* of the member's bytes */
    for (size_t at = 0; rc == LEAT_OK && at < a->buf.len;) {
        size_t n = a->buf.len - at < step ? a->buf.len - at : step;
        while (rc == LEAT_OK && n) {
            size_t used = 0;
            enum leat_tar_event event;
            rc = leat_tar_feed(t, a->buf.data + at, n, &used, &event, err);
            if (rc != LEAT_OK)
                break;
            if (event == LEAT_TAR_MEMBER) {
                const struct leat_tar_member *m = leat_tar_member(t);
                assert_int_equal(m->offset, at + used);
                assert_int_equal(strlen(m->name), m->name_n);
                leat_buf_printf(seen, "%s%d %s %llu ", seen->len ? "\n" : "", m->kind, m->name,
                                (unsigned long long)m->size);
                end = m->offset + m->size;
            } else if (event == LEAT_TAR_DATA) {
                leat_buf_add(seen, a->buf.data + at, used);
                assert_int_equal(leat_tar_left(t), end - at - used);
            } else {
                assert_int_equal(used, n);
            }
            at += used;
            n -= used;
        }
    }
    if (rc == LEAT_OK)
        rc = leat_tar_finish(t, err);
    leat_tar_close(t);
    return rc;
}

static void check(struct tar_archive *a, const char *expected)
{
    static const size_t steps[] = {1, 7, 511, 512, 513, 100000};
    for (size_t i = 0; i < COUNT(steps); i++) {
        struct leat_buf seen;
        struct leat_error err;
        leat_buf_init(&seen, 16 << 20);
        assert_ok(read_all(a, steps[i], &seen, &err), err);
        assert_string_equal(seen.data, expected);
        leat_buf_free(&seen);
    }
    leat_buf_free(&a->buf);
}

static void check_fails(struct tar_archive *a, leat_status status, const char *part)
{
    static const size_t steps[] = {1, 512, 100000};
    for (size_t i = 0; i < COUNT(steps); i++) {
        struct leat_buf seen;
        struct leat_error err;
        leat_buf_init(&seen, 16 << 20);
        assert_fails(read_all(a, steps[i], &seen, &err), err, status, part);
        leat_buf_free(&seen);
    }
    leat_buf_free(&a->buf);
}

TEST(members_come_with_names_places_and_bytes)
{
    struct tar_archive a = tar_begin();
    tar_member(&a, "a/0.jpg", '0', "picture");
    tar_member(&a, "a/0.cls", '\0', "7");
    tar_member(&a, "empty.txt", '0', "");
    tar_member(&a, "folder/", '5', "");
    tar_end(&a);
    tar_end(&a); /* archives are often padded further */
    check(&a, "0 a/0.jpg 7 picture\n0 a/0.cls 1 7\n0 empty.txt 0 \n2 folder/ 0 ");
}

TEST(a_prefix_and_a_name_of_100_bytes_make_one_path)
{
    char name[101];
    char expected[300];
    memset(name, 'n', 100);
    name[100] = '\0';
    struct tar_archive a = tar_begin();
    tar_header(&a, name, '0', 0);
    memcpy(tar_last(&a) + 345, "far/away", 8);
    tar_checksum(tar_last(&a));
    tar_end(&a);
    snprintf(expected, sizeof expected, "0 far/away/%s 0 ", name);
    check(&a, expected);
}

TEST(gnu_headers_have_no_prefix)
{
    struct tar_archive a = tar_begin();
    tar_header(&a, "x.txt", '0', 0);
    memcpy(tar_last(&a) + 257, "ustar  ", 8);
    memcpy(tar_last(&a) + 345, "14567012345", 11); /* the time of the last access */
    tar_checksum(tar_last(&a));
    tar_end(&a);
    check(&a, "0 x.txt 0 ");
}

TEST(pax_says_path_and_size_of_one_member)
{
    struct tar_archive a = tar_begin();
    tar_member(&a, "PaxHeaders/x", 'x', "19 path=a/long.jpg\n10 size=3\n24 mtime=1700000000.123\n");
    tar_header(&a, "short", '0', 0); /* the header's own size does not matter */
    leat_buf_str(&a.buf, "abc");
    tar_pad(&a);
    tar_member(&a, "next.jpg", '0', "de");
    tar_end(&a);
    check(&a, "0 a/long.jpg 3 abc\n0 next.jpg 2 de");
}

TEST(several_pax_headers_before_one_member_add_up)
{
    struct tar_archive a = tar_begin();
    tar_member(&a, "x", 'x', "19 path=a/long.jpg\n");
    tar_member(&a, "x", 'x', "24 mtime=1700000000.123\n10 size=3\n");
    tar_header(&a, "short", '0', 0);
    leat_buf_str(&a.buf, "abc");
    tar_pad(&a);
    tar_member(&a, "x", 'x', "14 path=1.txt\n");
    tar_member(&a, "x", 'x', "14 path=2.txt\n");
    tar_member(&a, "short", '0', "de");
    tar_member(&a, "next.jpg", '0', "f");
    tar_end(&a);
    check(&a, "0 a/long.jpg 3 abc\n0 2.txt 2 de\n0 next.jpg 1 f");
    a = tar_begin();
    tar_member(&a, "x", 'x', "22 GNU.sparse.major=1\n");
    tar_member(&a, "x", 'x', "14 path=1.txt\n");
    tar_member(&a, "short", '0', "map and data");
    tar_end(&a);
    check_fails(&a, LEAT_UNSUPPORTED, "'1.txt' at byte");
}

TEST(a_global_header_holds_until_the_next)
{
    struct tar_archive a = tar_begin();
    tar_member(&a, "g", 'g', "14 path=g.txt\n13 comment=x\n");
    tar_member(&a, "1.txt", '0', "1");
    tar_member(&a, "x", 'x', "14 path=x.txt\n"); /* a member's own goes before it */
    tar_member(&a, "2.txt", '0', "2");
    tar_member(&a, "g", 'g', "9 path=\n");
    a.buf.data[a.buf.len - 512] = '8'; /* "8 path=\n" has eight bytes */
    tar_last(&a)[0] = '8';
    tar_member(&a, "3.txt", '0', "3");
    tar_end(&a);
    check(&a, "0 g.txt 1 1\n0 x.txt 1 2\n0 3.txt 1 3");
}

TEST(gnu_long_names_and_links_are_read)
{
    char name[3001];
    char expected[3100];
    memset(name, 'd', 3000);
    memcpy(name + 2990, "/0001.jpeg", 11);
    struct tar_archive a = tar_begin();
    tar_member(&a, "././@LongLink", 'K', name);
    tar_member(&a, "././@LongLink", 'L', name);
    tar_member(&a, "dddd", '0', "1");
    tar_member(&a, "link.jpg", '2', "");
    tar_end(&a);
    snprintf(expected, sizeof expected, "0 %s 1 1\n1 link.jpg 0 ", name);
    check(&a, expected);
}

TEST(sizes_in_base_256_are_read)
{
    struct tar_archive a = tar_begin();
    tar_header(&a, "big.bin", '0', 0);
    memset(tar_last(&a) + 124, 0, 12);
    tar_last(&a)[124] = (char)0x80;
    tar_last(&a)[134] = 1;
    tar_last(&a)[135] = 2; /* 258 */
    tar_checksum(tar_last(&a));
    struct leat_buf expected;
    leat_buf_init(&expected, 1 << 20);
    leat_buf_str(&expected, "0 big.bin 258 ");
    for (int i = 0; i < 258; i++) {
        leat_buf_char(&a.buf, 'z');
        leat_buf_char(&expected, 'z');
    }
    tar_pad(&a);
    tar_end(&a);
    check(&a, expected.data);
    leat_buf_free(&expected);

    a = tar_begin();
    tar_header(&a, "negative.bin", '0', 0);
    memset(tar_last(&a) + 124, 0xff, 12);
    tar_checksum(tar_last(&a));
    check_fails(&a, LEAT_CORRUPT, "at byte 0 has a size that is not a number");
}

TEST(an_archive_cut_anywhere_is_noticed)
{
    struct tar_archive a = tar_begin();
    tar_member(&a, "x", 'x', "14 path=a.txt\n");
    tar_member(&a, "a.txt", '0', "first");
    tar_member(&a, "b.txt", '0', "second");
    size_t whole = a.buf.len;
    tar_end(&a);
    for (size_t n = 0; n < whole + 512; n++) { /* one block of zeros counts as the end, as for GNU tar */
        struct tar_archive cut = tar_begin();
        struct leat_buf seen;
        struct leat_error err = {0};
        leat_buf_init(&seen, 1 << 20);
        leat_buf_add(&cut.buf, a.buf.data, n);
        leat_status rc = read_all(&cut, 100000, &seen, &err);
        if (rc != LEAT_CORRUPT && rc != LEAT_INVALID)
            fail_msg("cut at %zu: %s", n, err.text);
        if (n == whole - 509) {
            assert_non_null(strstr(err.text, "it ends at byte 2563 in the middle of 'b.txt'"));
            assert_non_null(strstr(err.text, "6 bytes from byte 2560 on"));
        }
        leat_buf_free(&seen);
        leat_buf_free(&cut.buf);
    }
    leat_buf_free(&a.buf);
}

TEST(a_damaged_header_names_its_byte)
{
    struct tar_archive a = tar_begin();
    tar_member(&a, "a.txt", '0', "first");
    tar_header(&a, "b.txt", '0', 0);
    tar_last(&a)[3] ^= 1;
    tar_end(&a);
    check_fails(&a, LEAT_CORRUPT, "no valid header at byte 1024");
}

TEST(damaged_pax_records_are_refused)
{
    static const char *const bad[] = {"99 path=a.txt\n", "path=a.txt\n", "14 path=a.txtX", "0 path=a\n",
                                      "12 size=a.bcd\n"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct tar_archive a = tar_begin();
        tar_member(&a, "x", 'x', bad[i]);
        tar_member(&a, "a.txt", '0', "1");
        tar_end(&a);
        check_fails(&a, LEAT_CORRUPT, "the pax header at byte 0");
    }
}

TEST(what_is_no_tar_is_said_with_advice)
{
    struct tar_archive a = tar_begin();
    for (int i = 0; i < 2000; i++)
        leat_buf_char(&a.buf, (char)('a' + i % 26));
    check_fails(&a, LEAT_INVALID, "not a tar archive");
    a = tar_begin();
    leat_buf_add(&a.buf, "\x1f\x8b\x08", 4);
    for (int i = 0; i < 2000; i++)
        leat_buf_char(&a.buf, (char)i);
    check_fails(&a, LEAT_UNSUPPORTED, "gunzip");
    a = tar_begin();
    leat_buf_add(&a.buf, "\x28\xb5\x2f\xfd", 4);
    for (int i = 0; i < 2000; i++)
        leat_buf_char(&a.buf, (char)i);
    check_fails(&a, LEAT_UNSUPPORTED, "zstd -d");
    a = tar_begin();
    check_fails(&a, LEAT_INVALID, "it is empty");
}

TEST(sparse_members_and_volumes_are_refused_by_name)
{
    struct tar_archive a = tar_begin();
    tar_member(&a, "holes.bin", 'S', "x");
    check_fails(&a, LEAT_UNSUPPORTED, "'holes.bin' at byte 0 is a sparse file");
    a = tar_begin();
    tar_member(&a, "x", 'x', "22 GNU.sparse.major=1\n");
    tar_member(&a, "holes.bin", '0', "x");
    check_fails(&a, LEAT_UNSUPPORTED, "'holes.bin' at byte 0 is a sparse file");
    a = tar_begin();
    tar_member(&a, "rest.bin", 'M', "x");
    check_fails(&a, LEAT_UNSUPPORTED, "several volumes");
}

TEST(archives_joined_end_to_end_are_refused)
{
    struct tar_archive a = tar_begin();
    tar_member(&a, "a.txt", '0', "1");
    tar_end(&a);
    tar_member(&a, "b.txt", '0', "1");
    tar_end(&a);
    check_fails(&a, LEAT_CORRUPT, "joined end to end");
}

TEST(headers_that_are_too_long_are_refused)
{
    struct tar_archive a = tar_begin();
    tar_header(&a, "x", 'x', LEAT_TAR_EXTRA_MAX + 1);
    check_fails(&a, LEAT_LIMIT, "at byte 0 says more than");
    a = tar_begin();
    tar_header(&a, "x", 'L', LEAT_TAR_NAME_MAX + 10);
    for (unsigned i = 0; i < LEAT_TAR_NAME_MAX + 10; i++)
        leat_buf_char(&a.buf, 'n');
    tar_pad(&a);
    check_fails(&a, LEAT_LIMIT, "name");
}

TEST(parts_of_samples_are_those_of_webdataset)
{
    static const struct {
        const char *name;
        bool part;
    } cases[] = {
        {"a/b/0001.seg.png", true},
        {"0001.jpg", true},
        {"./x.y", true},
        {"v1.2/0001.cls", true},
        {"v1.2/readme", false},
        {"._0001.jpg", false},
        {"a/.hidden", false},
        {"a/b.", false},
        {"plain", false},
        {"__info__.json", true},
        {"__meta__/a.txt", false},
        {"__a.b__", false},
        {"__x/a.txt", true},
        {"", false},
        {"a/", false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (leat_tar_is_part(cases[i].name) != cases[i].part)
            fail_msg("'%s'", cases[i].name);
    }
}
