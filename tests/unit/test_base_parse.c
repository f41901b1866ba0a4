#include "base/parse.h"

#include <float.h>
#include <locale.h>
#include <math.h>

#include "base/clock.h"
#include "unit.h"

typedef leat_status parser(const char *text, const char *what, uint64_t *out, struct leat_error *err);

struct row {
    const char *text;
    uint64_t value;
};

static void assert_rows(parser *parse, const struct row *rows, size_t n)
{
    struct leat_error err;
    for (size_t i = 0; i < n; i++) {
        uint64_t v = 0;
        if (parse(rows[i].text, "x", &v, &err) != LEAT_OK)
            fail_msg("'%s': %s", rows[i].text, err.text);
        if (v != rows[i].value)
            fail_msg("'%s' is %llu, not %llu", rows[i].text, (unsigned long long)v, (unsigned long long)rows[i].value);
    }
}

/* Each text is refused by a message that names the setting and quotes the text, and the output stays as it was. */
static void assert_refused(parser *parse, const char *const *texts, size_t n)
{
    struct leat_error err;
    for (size_t i = 0; i < n; i++) {
        uint64_t v = 4711;
        leat_status rc = parse(texts[i], "--limit", &v, &err);
        if (rc != LEAT_INVALID || v != 4711)
            fail_msg("'%s' is not refused", texts[i]);
        if (strncmp(err.text, "--limit: '", 10) != 0)
            fail_msg("'%s': '%s'", texts[i], err.text);
    }
}

static const char *const never_numbers[] = {
    "",    " ",   ".",   "-1",  "+1",    "--1", "abc",   "1 2", "1..2",         "1.2.3", "0x10",
    "1e3", "inf", "nan", "1,5", "1MiBs", "MiB", "1 M B", "１",  "1\xc2\xa0MiB", "1\n",
};

TEST(whole_numbers)
{
    static const struct row rows[] = {
        {"0", 0},
        {"1", 1},
        {"007", 7},
        {" 42 ", 42},
        {"18446744073709551615", UINT64_MAX},
        {"00000000000000000000000000000001", 1},
    };
    static const char *const bad[] = {
        "1.5", "1.0", "1.", ".1", "1k", "18446744073709551616", "99999999999999999999999"};
    assert_rows(leat_parse_u64, rows, COUNT(rows));
    assert_refused(leat_parse_u64, bad, COUNT(bad));
    assert_refused(leat_parse_u64, never_numbers, COUNT(never_numbers));
}

TEST(sizes)
{
    static const struct row rows[] = {
        {"0", 0},
        {"4096", 4096},
        {"1b", 1},
        {"8MiB", 8 << 20},
        {"8mib", 8 << 20},
        {"8 MiB", 8 << 20},
        {"\t8\tMiB ", 8 << 20},
        {"64k", 65536},
        {"1M", 1 << 20},
        {"2g", 2ull << 30},
        {"2t", 2ull << 40},
        {"2p", 2ull << 50},
        {"2e", 2ull << 60},
        {"3kib", 3 << 10},
        {"3tib", 3ull << 40},
        {"2kb", 2000},
        {"100gb", 100000000000},
        {"3tb", 3000000000000},
        {"4pb", 4000000000000000},
        {"1.5 GiB", 1610612736},
        {".5k", 512},
        {"2.k", 2048},
        {"0.1MB", 100000},
        {"1.0000005MB", 1000001}, /* halves go up */
        {"0.4", 0},
        {"0.5", 1},
        {"9007199254740993.0", 9007199254740993}, /* a double cannot hold it */
        {"8191PiB", 8191ull << 50},
        {"7.5EiB", 15ull << 59},
        {"9.223372036854775807EB", INT64_MAX},
        {"9223372036854775807", INT64_MAX},
        {"0.0000000000000000000000000000000000000000000000000000000000001p", 0},
        {"000000000000000000000000000000000000000000000000000000000000012", 12},
    };
    static const char *const bad[] = {
        "8EiB",
        "1ZB",
        "8192PiB",
        "9223372036854775808",
        "18446744073709551616",
        "1e30",
        "99999999999999999999999999999999999999999999",
        "1kib/s",
        "1kbit",
        "1mibb",
    };
    assert_rows(leat_parse_size, rows, COUNT(rows));
    assert_refused(leat_parse_size, bad, COUNT(bad));
    assert_refused(leat_parse_size, never_numbers, COUNT(never_numbers));
}

TEST(durations)
{
    static const struct row rows[] = {
        {"0", 0},
        {"1", LEAT_S},
        {"50ms", 50 * LEAT_MS},
        {"50 MS", 50 * LEAT_MS},
        {"1.5s", 1500 * LEAT_MS},
        {"2m", 120 * LEAT_S},
        {"2min", 120 * LEAT_S},
        {"24h", 86400 * LEAT_S},
        {"7d", 7 * 86400 * LEAT_S},
        {"250us", 250 * LEAT_US},
        {"250\xc2\xb5s", 250 * LEAT_US},
        {"250\xce\xbcs", 250 * LEAT_US},
        {"10ns", 10},
        {"0.1ns", 0},
        {"0.3", 300 * LEAT_MS},
    };
    static const char *const bad[] = {"1y", "1w", "1hour", "106752d", "1h30m", "9223372037"};
    assert_rows(leat_parse_duration, rows, COUNT(rows));
    assert_refused(leat_parse_duration, bad, COUNT(bad));
    assert_refused(leat_parse_duration, never_numbers, COUNT(never_numbers));
}

TEST(rates)
{
    static const struct row rows[] = {
        {"0", 0},
        {"400MB/s", 400000000},
        {"400MB", 400000000},
        {"25mb/S", 25000000},
        {"8MiB/s", 8 << 20},
        {"25MBps", 25000000},
        {"10Gbit/s", 1250000000},
        {"10Gbit", 1250000000},
        {"10 gbit/s", 1250000000},
        {"100Mbps", 12500000},
        {"100mbps", 12500000},
        {"8bps", 1},
        {"1000/s", 1000},
        {"9bit/s", 1},
        {"12bit/s", 2}, /* a byte and a half */
        {"2.5Gbit/s", 312500000},
    };
    static const char *const bad[] = {
        "400 MB / s",
        "10Gb/s",
        "10Gb",
        "1KB/s/s",
        "1/h",
        "1MB/m",
        "1Gibit/s",
        "1xbps",
        "1bitps/s",
        "9999999tb/s",
        "1aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabps",
    };
    assert_rows(leat_parse_rate, rows, COUNT(rows));
    assert_refused(leat_parse_rate, bad, COUNT(bad));
    assert_refused(leat_parse_rate, never_numbers, COUNT(never_numbers));
}

TEST(bits_and_bytes_are_never_guessed)
{
    struct leat_error err;
    uint64_t v;
    assert_fails(leat_parse_rate("10Gb/s", "--bandwidth", &v, &err), err, LEAT_INVALID, "bits or bytes");
}

TEST(doubles_are_what_the_compiler_reads)
{
#define ROW(x)                                                                                                         \
    {                                                                                                                  \
#x, x                                                                                                          \
    }
    static const struct {
        const char *text;
        double value;
    } rows[] = {
        ROW(0),      ROW(0.0),     ROW(1),
        ROW(-1.5),   ROW(+2.25),   ROW(0.1),
        ROW(0.01),   ROW(0.001),   ROW(1e3),
        ROW(1E-3),   ROW(1.25e+2), ROW(.5),
        ROW(5.),     ROW(1e22),    ROW(123e-20),
        ROW(1e20),   ROW(0e9999),  ROW(-0.0),
        ROW(1e300),  ROW(1e-300),  ROW(3.14159265358979),
        ROW(1e-320), ROW(0.3333),  ROW(100000000000000000000.0),
    };
    struct leat_error err;
    for (size_t i = 0; i < COUNT(rows); i++) {
        double v = 99;
        assert_ok(leat_parse_double(rows[i].text, "x", &v, &err), err);
        if (!(fabs(v - rows[i].value) <= fabs(rows[i].value) * DBL_EPSILON) && fabs(rows[i].value) > 1e-310)
            fail_msg("'%s' is %.17g, not %.17g", rows[i].text, v, rows[i].value);
    }
    /* Short decimals, which is what people write, are exact. */
    for (int i = 0; i < 1000; i++) {
        char text[32];
        double v;
        snprintf(text, sizeof text, "%d.%03d", i * 7, i);
        assert_ok(leat_parse_double(text, "x", &v, &err), err);
        assert_true(v == strtod(text, NULL));
    }
}

TEST(what_is_no_finite_double_is_refused)
{
    static const char *const bad[] = {"",    ".",   "-",   "+-1",  "1e",    "1e+", "1e1.5",
                                      "inf", "nan", "0x1", "1 e3", "1e400", "1f",  "1e99999999999999999999",
                                      "e5",  "1-"};
    struct leat_error err;
    for (size_t i = 0; i < COUNT(bad); i++) {
        double v = 4711;
        if (leat_parse_double(bad[i], "x", &v, &err) != LEAT_INVALID || v != 4711)
            fail_msg("'%s' is not refused", bad[i]);
    }
    assert_fails(leat_parse_double("1e400", "x", &(double){0}, &err), err, LEAT_INVALID, "out of range");
    assert_fails(leat_parse_double("1e9999999999", "x", &(double){0}, &err), err, LEAT_INVALID, "out of range");
}

TEST(a_text_of_many_digits_is_harmless)
{
    struct leat_error err;
    size_t n = 300000;
    char *text = malloc(n + 10);
    uint64_t v;
    double d;
    memset(text, '0', n);
    text[1] = '.';
    memcpy(text + n, "1k", 3);
    assert_ok(leat_parse_size(text, "x", &v, &err), err);
    assert_int_equal(v, 0);
    memcpy(text + n, "1", 2);
    assert_ok(leat_parse_double(text, "x", &d, &err), err);
    assert_true(d == 0);
    memset(text, '9', n);
    assert_fails(leat_parse_size(text, "x", &v, &err), err, LEAT_INVALID, "too large");
    assert_fails(leat_parse_double(text, "x", &d, &err), err, LEAT_INVALID, "out of range");
    free(text);
}

TEST(the_locale_changes_nothing)
{
    struct leat_error err;
    uint64_t v;
    const char *had = setlocale(LC_ALL, "de_DE.UTF-8");
    assert_ok(leat_parse_size("1.5k", "x", &v, &err), err);
    assert_int_equal(v, 1536);
    setlocale(LC_ALL, "C");
    if (!had)
        print_message("# there is no German locale here: tested in the C locale only\n");
}

TEST(sizes_read_back_well)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } rows[] = {
        {0, "0 B"},
        {1023, "1023 B"},
        {1024, "1 KiB"},
        {1536, "1.50 KiB"},
        {8 << 20, "8 MiB"},
        {1300000000, "1.21 GiB"},
        {(1 << 20) - 1, "1.00 MiB"},
        {1047552, "1023 KiB"},
        {104857599, "100 MiB"},
        {10485759, "10.0 MiB"},
        {UINT64_MAX, "16 EiB"},
    };
    char out[LEAT_FORMAT_SIZE];
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_string_equal(leat_format_size(rows[i].bytes, out), rows[i].text);
}

TEST(rates_read_back_well)
{
    static const struct {
        double rate;
        const char *text;
    } rows[] = {
        {0, "0 B/s"},          {-1, "0 B/s"},          {NAN, "0 B/s"},        {INFINITY, "0 B/s"},
        {999.4, "999 B/s"},    {999.6, "1.00 kB/s"},   {4e8, "400 MB/s"},     {1.25e9, "1.25 GB/s"},
        {25.3e6, "25.3 MB/s"}, {9.996e6, "10.0 MB/s"}, {99.96e6, "100 MB/s"}, {1e300, "1000000 TB/s"},
    };
    char out[LEAT_FORMAT_SIZE];
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_string_equal(leat_format_rate(rows[i].rate, out), rows[i].text);
}

TEST(durations_read_back_well)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } rows[] = {
        {0, "0 ns"},
        {999, "999 ns"},
        {1500, "1.5 us"},
        {999499, "999 us"},
        {999999, "1 ms"},
        {50 * LEAT_MS, "50 ms"},
        {999999999, "1 s"},
        {1234 * LEAT_MS, "1.23 s"},
        {59990 * LEAT_MS, "1 min 0 s"},
        {65 * LEAT_S, "1 min 5 s"},
        {3599700 * LEAT_MS, "1 h 0 min"},
        {3900 * LEAT_S, "1 h 5 min"},
        {LEAT_NEVER - 1, "5124095 h 34 min"},
        {LEAT_NEVER, "never"},
    };
    char out[LEAT_FORMAT_SIZE];
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_string_equal(leat_format_duration(rows[i].ns, out), rows[i].text);
}

TEST(places_to_listen_are_read_whole_or_refused)
{
    static const char *const bad[] = {"",         ":9100",         "localhost:9100", "127.0.0.1:",   "127.0.0.1:65536",
                                      "::1:9100", "[127.0.0.1]:1", "[::1]",          "127.0.0.1:1x", "1.2.3:4",
                                      "-1",       "[::1%lo]:1",    "127.0.0.1:-1"};
    char address[LEAT_LISTEN_ADDRESS];
    unsigned port;
    struct leat_error err;
    assert_int_equal(leat_parse_listen("0.0.0.0:9100", "metrics", address, &port, &err), LEAT_OK);
    assert_string_equal(address, "0.0.0.0");
    assert_int_equal(port, 9100);
    assert_int_equal(leat_parse_listen("[::1]:0", "metrics", address, &port, &err), LEAT_OK);
    assert_string_equal(address, "::1");
    assert_int_equal(port, 0);
    assert_int_equal(leat_parse_listen("9100", "metrics", address, &port, &err), LEAT_OK);
    assert_string_equal(address, "127.0.0.1");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        port = 7;
        assert_int_equal(leat_parse_listen(bad[i], "metrics", address, &port, &err), LEAT_INVALID);
        assert_int_equal(port, 7);
        assert_non_null(strstr(err.text, "write for example 127.0.0.1:9100"));
    }
}
