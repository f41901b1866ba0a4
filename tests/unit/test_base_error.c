#include "base/error.h"

#include <errno.h>

#include "unit.h"

TEST(every_status_has_its_own_name)
{
    for (int a = 0; a < LEAT_STATUS_COUNT; a++) {
        assert_non_null(leat_status_name(a));
        assert_true(*leat_status_name(a));
        for (int b = 0; b < a; b++)
            assert_string_not_equal(leat_status_name(a), leat_status_name(b));
    }
    assert_string_equal(leat_status_name(LEAT_STATUS_COUNT), "unknown");
    assert_string_equal(leat_status_name((leat_status)-1), "unknown");
}

/* The numbers are ABI: a program built against an older header must read the same. */
TEST(status_numbers_never_change)
{
    assert_int_equal(LEAT_OK, 0);
    assert_int_equal(LEAT_INVALID, 1);
    assert_int_equal(LEAT_CORRUPT, 6);
    assert_int_equal(LEAT_TIMEOUT, 11);
    assert_int_equal(LEAT_NO_MEMORY, 15);
    assert_int_equal(LEAT_INTERNAL, 20);
    assert_int_equal(sizeof(struct leat_error), 576);
}

TEST(failing_fills_in_the_record_and_returns_the_status)
{
    struct leat_error err = {.os_error = 7};
    assert_int_equal(leat_fail(&err, LEAT_NOT_FOUND, "no bucket called '%s'", "b"), LEAT_NOT_FOUND);
    assert_int_equal(err.status, LEAT_NOT_FOUND);
    assert_int_equal(err.os_error, 0);
    assert_string_equal(err.text, "no bucket called 'b'");
    assert_int_equal(leat_fail(NULL, LEAT_IO, "%s", "x"), LEAT_IO);
    assert_int_equal(leat_fail_errno(NULL, ENOSPC, "x"), LEAT_NO_SPACE);
    assert_int_equal(leat_fail_context(NULL, LEAT_BUSY, "x"), LEAT_BUSY);
}

TEST(errno_gives_status_and_reason)
{
    static const struct {
        int os_error;
        leat_status status;
    } rows[] = {
        {ENOENT, LEAT_NOT_FOUND},     {EACCES, LEAT_DENIED},    {EROFS, LEAT_DENIED},       {ENOSPC, LEAT_NO_SPACE},
        {EDQUOT, LEAT_NO_SPACE},      {ENOMEM, LEAT_NO_MEMORY}, {EMFILE, LEAT_LIMIT},       {EEXIST, LEAT_EXISTS},
        {ECONNRESET, LEAT_NETWORK},   {EIO, LEAT_IO},           {ETIMEDOUT, LEAT_TIMEOUT},  {EINTR, LEAT_CANCELLED},
        {ENAMETOOLONG, LEAT_INVALID}, {EAGAIN, LEAT_BUSY},      {ENOSYS, LEAT_UNSUPPORTED},
    };
    struct leat_error err;
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(leat_fail_errno(&err, rows[i].os_error, "cannot open '%s'", "/f"), rows[i].status);
        assert_int_equal(err.os_error, rows[i].os_error);
        assert_memory_equal(err.text, "cannot open '/f': ", 18);
        assert_string_equal(err.text + 18, strerror(rows[i].os_error));
    }
    assert_int_equal(leat_status_from_errno(0), LEAT_OK);
}

/* A failure must not turn into LEAT_OK because somebody cleared errno on the way. */
TEST(a_failure_without_errno_is_still_a_failure)
{
    struct leat_error err;
    assert_int_equal(leat_fail_errno(&err, 0, "cannot read"), LEAT_INTERNAL);
    assert_int_equal(err.status, LEAT_INTERNAL);
    assert_int_equal(leat_fail_errno(NULL, 0, "cannot read"), LEAT_INTERNAL);
}

TEST(context_goes_before_the_text)
{
    struct leat_error err;
    leat_fail_errno(&err, ENOSPC, "cannot write 'x'");
    assert_int_equal(leat_fail_context(&err, err.status, "copying %d files", 3), LEAT_NO_SPACE);
    assert_memory_equal(err.text, "copying 3 files: cannot write 'x': ", 35);
    assert_int_equal(err.os_error, ENOSPC);
}

/* The cause is what a person can act on: however long the contexts before it are, it stays, and what is missing shows.
 */
TEST(a_long_context_does_not_push_out_the_cause)
{
    struct leat_error err;
    char many[600];
    memset(many, 'c', sizeof many - 1);
    many[sizeof many - 1] = '\0';
    for (int length = 1; length < (int)sizeof many; length++) {
        leat_fail_errno(&err, ENOSPC, "cannot write 'x'");
        size_t cause = strlen(err.text);
        for (int times = 0; times < 3; times++) {
            leat_fail_context(&err, LEAT_IO, "%.*s", length, many);
            assert_true(strlen(err.text) < sizeof err.text);
            assert_int_equal(err.text[0], 'c');
            assert_string_equal(err.text + strlen(err.text) - cause, "cannot write 'x': No space left on device");
            assert_int_equal(strstr(err.text, "…") != NULL,
                             (size_t)(times + 1) * ((size_t)length + 2) + cause >= sizeof err.text);
        }
    }
    leat_fail(&err, LEAT_INVALID, "%s", many); /* neither fits: the beginnings of both */
    leat_fail_context(&err, LEAT_IO, "begin %s", many);
    assert_true(strlen(err.text) < sizeof err.text && strncmp(err.text, "begin c", 7) == 0);
    assert_non_null(strstr(err.text, "c…ccc"));
    assert_string_equal(err.text + strlen(err.text) - strlen("c…"), "c…");
}

TEST(text_is_cut_to_fit_and_keeps_the_reason)
{
    struct leat_error err;
    char name[1000];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    leat_fail(&err, LEAT_INVALID, "%s", name);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_string_equal(err.text + strlen(err.text) - strlen("n…"), "n…");
    leat_fail(&err, LEAT_INVALID, "%.511s", name); /* fits */
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_null(strstr(err.text, "…"));
    leat_fail_errno(&err, ENOENT, "cannot open '%s'", name);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_non_null(strstr(err.text, "n…: No such file or directory"));
}

TEST(text_is_one_line_of_valid_utf8)
{
    static const struct {
        const char *in;
        const char *out;
    } rows[] = {
        {"a\nb\tc\x1b[2J\x7f", "a b c [2J "},
        {"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\xc2\x9b"
         "31m",
         "  31m"}, /* CSI as a C1 control */
        /* The first and last characters of each length, on both sides of the gap for surrogates. */
        {"\xc2\xa0\xdf\xbf", "\xc2\xa0\xdf\xbf"},
        {"\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf", "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"},
        {"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"},
        {"\xff\xfe", "??"},           /* never in UTF-8 */
        {"\xc3", "?"},                /* cut off */
        {"\xe2\x82", "??"},           /* cut off */
        {"\xc0\xaf", "??"},           /* overlong '/' */
        {"\xe0\x80\xaf", "???"},      /* overlong '/' */
        {"\xed\xa0\x80", "???"},      /* a surrogate */
        {"\xf4\x90\x80\x80", "????"}, /* beyond U+10FFFF */
        {"\x80z", "?z"},              /* a continuation alone */
        {"\xe2\x80\xa8"
         "x",
         "\xe2\x80\xa8"
         "x"}, /* U+2028 is text as far as a terminal goes */
    };
    struct leat_error err;
    for (size_t i = 0; i < COUNT(rows); i++) {
        leat_fail(&err, LEAT_INVALID, "%s", rows[i].in);
        assert_string_equal(err.text, rows[i].out);
    }
    /* Cut to fit, a text ends with a whole character, wherever the cut falls. */
    static const char *const characters[] = {"\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    for (size_t i = 0; i < COUNT(characters); i++) {
        size_t n = strlen(characters[i]);
        char many[700] = "";
        for (size_t at = 0; at + n < sizeof many; at += n)
            memcpy(many + at, characters[i], n + 1);
        for (int shift = 0; shift < 4; shift++) {
            leat_fail(&err, LEAT_INVALID, "%.*s%s", shift, "xxxx", many);
            size_t end = strlen(err.text) - strlen("…");
            assert_true(strlen(err.text) > sizeof err.text - 1 - n);
            assert_string_equal(err.text + end, "…");
            assert_memory_equal(err.text + end - n, characters[i], n);
        }
    }
}
