#include "base/ini.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "unit.h"

/* Writes "section|key|value|line\n" for each setting, so that a test compares one text. */
static leat_status note(const char *section, const char *key, const char *value, unsigned line, void *user,
                        struct leat_error *err)
{
    if (strcmp(key, "stop") == 0)
        return leat_fail(err, LEAT_BUSY, "stopped at line %u", line);
    leat_buf_printf(user, "%s|%s|%s|%u\n", section, key, value, line);
    return LEAT_OK;
}

static void assert_reads(const char *text, const char *expected)
{
    struct leat_buf seen;
    struct leat_error err;
    leat_buf_init(&seen, 10000);
    assert_ok(leat_ini_parse("test", text, strlen(text), note, &seen, &err), err);
    assert_string_equal(seen.data, expected);
    leat_buf_free(&seen);
}

TEST(settings_come_with_their_section_and_line)
{
    assert_reads("", "");
    assert_reads("a = 1", "|a|1|1\n");
    assert_reads("a=1\n\n[one]\nb = x y \n[ two three ]\nc=\n", "|a|1|1\none|b|x y|4\ntwo three|c||6\n");
    assert_reads("a = b = c", "|a|b = c|1\n");
    assert_reads("\ta\t=\t1\t\r\nb=2\r\n", "|a|1|1\n|b|2|2\n");
    assert_reads("[profile x]\nregion=eu\n[default]\nregion=us\n", "profile x|region|eu|2\ndefault|region|us|4\n");
}

TEST(comments_begin_a_line_or_follow_white_space)
{
    assert_reads("# no\n; no\n  # no\na = 1 # no\nb = 1 ; no\n[s] # no\nc = x#y;z\n", "|a|1|4\n|b|1|5\ns|c|x#y;z|7\n");
    assert_reads("a = #no", "|a||1\n");
}

TEST(indented_lines_belong_to_an_empty_key_above)
{
    assert_reads("[default]\ns3 =\n  max = 5\n\tmin = 1\nregion = eu\n",
                 "default|s3||2\ndefault|s3.max|5|3\ndefault|s3.min|1|4\ndefault|region|eu|5\n");
    assert_reads("  a = 1\n  b = 2\n", "|a|1|1\n|b|2|2\n");   /* indented, but below nothing */
    assert_reads("s3 =\n[x]\n a = 1\n", "|s3||1\nx|a|1|3\n"); /* a section ends it */
}

TEST(a_byte_order_mark_is_not_part_of_the_first_key)
{
    assert_reads("\xef\xbb\xbf"
                 "a = 1\n",
                 "|a|1|1\n");
    assert_reads("\xef\xbb\xbf", "");
    assert_reads("\xef\xbb\xbf[s]\nb = 2\n", "s|b|2|2\n");
}

TEST(what_is_no_setting_is_refused_by_line)
{
    static const struct {
        const char *text;
        const char *says;
    } rows[] = {
        {"a = 1\nb\n", "conf line 2: not KEY = VALUE"},
        {"= 1", "conf line 1: no usable name"},
        {"  = 1", "conf line 1: no usable name"},
        {"\n[open\n", "conf line 2: a section is written [name]"},
        {"[a] b\n", "conf line 1: a section is written [name]"},
        {"[ ]\n", "conf line 1: a section without a name"},
    };
    struct leat_error err;
    struct leat_buf seen;
    leat_buf_init(&seen, 1000);
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_fails(leat_ini_parse("conf", rows[i].text, strlen(rows[i].text), note, &seen, &err), err, LEAT_INVALID,
                     rows[i].says);
    assert_fails(leat_ini_parse("conf", "a = 1\0b", 7, note, &seen, &err), err, LEAT_INVALID, "NUL byte");
    leat_buf_free(&seen);
}

TEST(a_malformed_line_of_a_credentials_file_is_not_quoted)
{
    struct leat_error err;
    struct leat_buf seen;
    leat_buf_init(&seen, 1000);
    static const char text[] = "[default]\naws_secret_access_key hunter2\n";
    assert_int_equal(leat_ini_parse("conf", text, strlen(text), note, &seen, &err), LEAT_INVALID);
    assert_null(strstr(err.text, "hunter2"));
    leat_buf_free(&seen);
}

TEST(the_callback_can_stop_it)
{
    struct leat_error err;
    struct leat_buf seen;
    leat_buf_init(&seen, 1000);
    static const char text[] = "a = 1\nstop = 1\nb = 2\n";
    assert_fails(leat_ini_parse("conf", text, strlen(text), note, &seen, &err), err, LEAT_BUSY, "stopped at line 2");
    assert_string_equal(seen.data, "|a|1|1\n");
    leat_buf_free(&seen);
}

TEST(lines_and_names_have_limits)
{
    struct leat_error err;
    struct leat_buf seen;
    char *text = malloc(5000);
    leat_buf_init(&seen, 10000);
    for (int n = 4094; n <= 4097; n++) {
        snprintf(text, 5000, "a=%0*d\n", n - 2, 0);
        leat_status rc = leat_ini_parse("conf", text, strlen(text), note, &seen, &err);
        assert_int_equal(rc, n <= 4095 ? LEAT_OK : LEAT_INVALID);
    }
    for (int n = 254; n <= 257; n++) {
        snprintf(text, 5000, "%0*d=1\n", n, 0);
        assert_int_equal(leat_ini_parse("conf", text, strlen(text), note, &seen, &err),
                         n <= 255 ? LEAT_OK : LEAT_INVALID);
        snprintf(text, 5000, "[%0*d]\n", n, 0);
        assert_int_equal(leat_ini_parse("conf", text, strlen(text), note, &seen, &err),
                         n <= 255 ? LEAT_OK : LEAT_INVALID);
    }
    free(text);
    leat_buf_free(&seen);
}

TEST(files_are_read_up_to_1_mib)
{
    char path[] = "/tmp/leat-ini-XXXXXX";
    int fd = mkstemp(path);
    struct leat_error err;
    struct leat_buf seen;
    leat_buf_init(&seen, 1000);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "a = 1\n#", 7), 7);
    assert_ok(leat_ini_read(path, note, &seen, &err), err);
    assert_string_equal(seen.data, "|a|1|1\n");
    static const size_t sizes[] = {(1 << 20) - 1, 1 << 20, (1 << 20) + 1, 2 << 20};
    char *lines = malloc(2 << 20);
    memset(lines, '\n', 2 << 20);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        assert_int_equal(pwrite(fd, lines, sizes[i], 0), sizes[i]);
        leat_status rc = leat_ini_read(path, note, &seen, &err);
        assert_int_equal(rc, sizes[i] <= 1 << 20 ? LEAT_OK : LEAT_INVALID);
    }
    free(lines);
    close(fd);
    unlink(path);
    leat_buf_free(&seen);
}

TEST(files_that_cannot_be_read_say_why)
{
    struct leat_error err;
    assert_fails(leat_ini_read("/nonexistent/x", note, NULL, &err), err, LEAT_NOT_FOUND, "'/nonexistent/x'");
    assert_fails(leat_ini_read("/dev/null/x", note, NULL, &err), err, LEAT_NOT_FOUND, "cannot open");
    assert_fails(leat_ini_read("/tmp", note, NULL, &err), err, LEAT_INVALID, "cannot read '/tmp': Is a directory");
}
