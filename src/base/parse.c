#include "base/parse.h"

#include <arpa/inet.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"

#define NUMBER_MAX INT64_MAX /* of sizes, durations, rates: the sum of two of them cannot overflow */

struct unit {
    const char *name;
    uint64_t factor;
};

#define KIB 0x400ULL
#define MIB 0x100000ULL
#define GIB 0x40000000ULL
#define TIB 0x10000000000ULL
#define PIB 0x4000000000000ULL
#define EIB 0x1000000000000000ULL

static const struct unit size_units[] = {
    {"", 1},
    {"b", 1},
    {"kb", 1000},
    {"mb", 1000000},
    {"gb", 1000000000},
    {"tb", 1000000000000},
    {"pb", 1000000000000000},
    {"eb", 1000000000000000000},
    {"k", KIB},
    {"m", MIB},
    {"g", GIB},
    {"t", TIB},
    {"p", PIB},
    {"e", EIB},
    {"kib", KIB},
    {"mib", MIB},
    {"gib", GIB},
    {"tib", TIB},
    {"pib", PIB},
    {"eib", EIB},
    {0},
};

static const struct unit duration_units[] = {
    {"", LEAT_S},           {"ns", 1},
    {"us", LEAT_US},        {"\xc2\xb5s", LEAT_US}, /* µs with the micro sign */
    {"\xce\xbcs", LEAT_US},                         /* μs with the Greek letter */
    {"ms", LEAT_MS},        {"s", LEAT_S},
    {"sec", LEAT_S},        {"m", 60 * LEAT_S},
    {"min", 60 * LEAT_S},   {"h", 3600 * LEAT_S},
    {"d", 86400 * LEAT_S},  {0},
};

/* In bits; the sum is divided by eight. */
static const struct unit bit_units[] = {
    {"bit", 1}, {"kbit", 1000}, {"mbit", 1000000}, {"gbit", 1000000000}, {"tbit", 1000000000000}, {0},
};

/* Decimal digits with at most one point: value = digits · 10^-scale. No sign, no exponent, no locale. Digits
 * beyond the nineteenth or twentieth significant one are dropped; before the point they make the scale negative. */
struct number {
    uint64_t digits;
    int scale;
};

#define SCALE_MAX 100000 /* keeps a text of a million zeros from overflowing an int */

static bool scan_number(const char **text, struct number *out)
{
    struct number n = {0};
    bool any = false;
    bool point = false;
    bool full = false;
    const char *p = *text;
    for (;; p++) {
        if (*p == '.' && !point) {
            point = true;
            continue;
        }
        if (*p < '0' || *p > '9')
            break;
        any = true;
        uint64_t digit = (uint64_t)(*p - '0');
        full = full || n.digits > (UINT64_MAX - digit) / 10;
        if (!full)
            n.digits = n.digits * 10 + digit;
        if (full != point && n.scale > -SCALE_MAX && n.scale < SCALE_MAX)
            n.scale += point ? 1 : -1;
    }
    if (!any)
        return false;
    *text = p;
    *out = n;
    return true;
}

/* digits · factor / (10^scale · divisor), rounded; exact, since all of it fits 128 bits. */
static bool apply_unit(struct number n, uint64_t factor, uint64_t divisor, uint64_t *out)
{
    unsigned __int128 v = (unsigned __int128)n.digits * factor; /* below 2^64 · 2^60 */
    unsigned __int128 d = divisor;
    if (n.scale < 0)
        return false;
    for (int i = 0; i < n.scale; i++) {
        if (d > v) {
            v = 0; /* less than a tenth */
            break;
        }
        d *= 10;
    }
    v = v / d + (v % d >= d - d / 2);
    if (v > NUMBER_MAX)
        return false;
    *out = (uint64_t)v;
    return true;
}

static const struct unit *find_unit(const struct unit *units, const char *text, size_t n)
{
    for (const struct unit *u = units; u->name; u++) {
        if (strlen(u->name) == n && strncasecmp(u->name, text, n) == 0)
            return u;
    }
    return NULL;
}

static const char *skip_spaces(const char *p)
{
    while (*p == ' ' || *p == '\t')
        p++;
    return p;
}

static size_t trimmed_length(const char *p)
{
    size_t n = strlen(p);
    while (n && (p[n - 1] == ' ' || p[n - 1] == '\t'))
        n--;
    return n;
}

/* Where the unit begins; *n is its length without spaces after it. NULL when there is no number before it. */
static const char *split_unit(const char *text, struct number *number, size_t *n)
{
    const char *p = skip_spaces(text);
    if (!scan_number(&p, number))
        return NULL;
    p = skip_spaces(p);
    *n = trimmed_length(p);
    return p;
}

static leat_status no_number(const char *text, const char *what, const char *example, struct leat_error *err)
{
    return leat_fail(err, LEAT_INVALID, "%s: '%.80s' is not a number with a unit; write for example %s", what, text,
                     example);
}

static leat_status finish(const char *text, const char *what, const char *example, struct number number,
                          const struct unit *unit, uint64_t divisor, uint64_t *out, struct leat_error *err)
{
    if (!unit)
        return leat_fail(err, LEAT_INVALID, "%s: '%.80s' has no unit known here; write for example %s", what, text,
                         example);
    if (!apply_unit(number, unit->factor, divisor, out))
        return leat_fail(err, LEAT_INVALID, "%s: '%.80s' is too large", what, text);
    return LEAT_OK;
}

static leat_status parse_with(const char *text, const char *what, const struct unit *units, const char *example,
                              uint64_t *out, struct leat_error *err)
{
    struct number number;
    size_t n;
    const char *unit = split_unit(text, &number, &n);
    if (!unit)
        return no_number(text, what, example, err);
    return finish(text, what, example, number, find_unit(units, unit, n), 1, out, err);
}

leat_status leat_parse_size(const char *text, const char *what, uint64_t *out, struct leat_error *err)
{
    return parse_with(text, what, size_units, "512MiB or 100gb", out, err);
}

leat_status leat_parse_duration(const char *text, const char *what, uint64_t *out, struct leat_error *err)
{
    return parse_with(text, what, duration_units, "50ms, 30s or 24h", out, err);
}

static bool ends_with(const char *text, size_t n, const char *end)
{
    size_t m = strlen(end);
    return n >= m && strncasecmp(text + n - m, end, m) == 0;
}

leat_status leat_parse_rate(const char *text, const char *what, uint64_t *out, struct leat_error *err)
{
    static const char example[] = "400MB/s or 10Gbit/s";
    struct number number;
    size_t n;
    const char *unit = split_unit(text, &number, &n);
    if (!unit)
        return no_number(text, what, example, err);
    if (ends_with(unit, n, "bps") && unit[n - 3] == 'b') { /* "Mbps" are bits, "MBps" bytes */
        char bits[16];
        snprintf(bits, sizeof bits, "%.*sbit", (int)(n < 13 ? n - 3 : 10), unit);
        return finish(text, what, example, number, find_unit(bit_units, bits, strlen(bits)), 8, out, err);
    }
    if (ends_with(unit, n, "/s") || ends_with(unit, n, "ps"))
        n -= 2;
    if (ends_with(unit, n, "bit"))
        return finish(text, what, example, number, find_unit(bit_units, unit, n), 8, out, err);
    if (n >= 2 && unit[n - 1] == 'b' && unit[n - 2] >= 'A' && unit[n - 2] <= 'Z')
        return leat_fail(err, LEAT_INVALID, "%s: '%.80s' may mean bits or bytes; write for example %s", what, text,
                         example);
    return finish(text, what, example, number, find_unit(size_units, unit, n), 1, out, err);
}

leat_status leat_parse_u64(const char *text, const char *what, uint64_t *out, struct leat_error *err)
{
    const char *p = skip_spaces(text);
    struct number n;
    if (*p == '.' || !scan_number(&p, &n) || p[-1] == '.' || n.scale > 0 || *skip_spaces(p))
        return leat_fail(err, LEAT_INVALID, "%s: '%.80s' is not a whole number of 0 or more", what, text);
    if (n.scale < 0)
        return leat_fail(err, LEAT_INVALID, "%s: '%.80s' is too large", what, text);
    *out = n.digits;
    return LEAT_OK;
}

/* "e-12" after a number; absent is 0. False when malformed. Saturates far outside of what a double holds. */
static bool scan_exponent(const char **text, int *out)
{
    const char *p = *text;
    int sign = 1;
    int v = 0;
    *out = 0;
    if (*p != 'e' && *p != 'E')
        return true;
    p++;
    if (*p == '-' || *p == '+')
        sign = *p++ == '-' ? -1 : 1;
    if (*p < '0' || *p > '9')
        return false;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (v < 2 * SCALE_MAX)
            v = v * 10 + (*p - '0');
    }
    *text = p;
    *out = sign * v;
    return true;
}

leat_status leat_parse_double(const char *text, const char *what, double *out, struct leat_error *err)
{
    const char *p = skip_spaces(text);
    double sign = 1;
    if (*p == '-' || *p == '+')
        sign = *p++ == '-' ? -1 : 1;
    struct number n;
    int exponent;
    if (!scan_number(&p, &n) || !scan_exponent(&p, &exponent) || *skip_spaces(p))
        return leat_fail(err, LEAT_INVALID, "%s: '%.80s' is not a number", what, text);
    double v = (double)n.digits;
    int power = exponent - n.scale;
    if (n.digits) {
        /* Two steps, so that the power of ten alone does not leave the range. Exact up to 2^53 and 10^22. */
        if (power < -300) {
            v /= 1e300;
            power += 300;
        }
        v = power >= 0 ? v * pow(10, power) : v / pow(10, -power);
    }
    if (!isfinite(v))
        return leat_fail(err, LEAT_INVALID, "%s: '%.80s' is out of range", what, text);
    *out = sign * v;
    return LEAT_OK;
}

leat_status leat_parse_usd(const char *text, const char *what, double *out, struct leat_error *err)
{
    const char *p = skip_spaces(text);
    bool sign = *p == '$';
    struct number n;
    p = skip_spaces(p + sign);
    if (!scan_number(&p, &n))
        return leat_fail(err, LEAT_INVALID, "%s: '%s' is not an amount of money; write for example 500usd", what, text);
    p = skip_spaces(p);
    size_t left = trimmed_length(p);
    if (left && (sign || left != 3 || strncasecmp(p, "usd", 3) != 0))
        return leat_fail(err, LEAT_INVALID, "%s: '%s' is not in dollars; write for example 500usd", what, text);
    *out = (double)n.digits / pow(10, n.scale);
    return LEAT_OK;
}

leat_status leat_parse_listen(const char *text, const char *what, char address[LEAT_LISTEN_ADDRESS], unsigned *port,
                              struct leat_error *err)
{
    const char *colon = strrchr(text, ':');
    const char *host = colon ? text : "127.0.0.1";
    size_t n = colon ? (size_t)(colon - text) : strlen(host);
    bool six = n > 2 && host[0] == '[' && host[n - 1] == ']';
    char name[LEAT_LISTEN_ADDRESS];
    uint8_t bytes[sizeof(struct in6_addr)];
    uint64_t number;
    if (six) {
        host++;
        n -= 2;
    }
    snprintf(name, sizeof name, "%.*s", (int)n, host);
    if (n >= sizeof name || inet_pton(six ? AF_INET6 : AF_INET, name, bytes) != 1 ||
        leat_parse_u64(colon ? colon + 1 : text, what, &number, NULL) != LEAT_OK || number > 65535)
        return leat_fail(err, LEAT_INVALID,
                         "%s: '%.80s' is not an address and a port; write for example 127.0.0.1:9100", what, text);
    memcpy(address, name, sizeof name);
    *port = (unsigned)number;
    return LEAT_OK;
}

char *leat_format_size(uint64_t bytes, char out[LEAT_FORMAT_SIZE])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double v = (double)bytes;
    int u = 0;
    while (v >= (u ? 1023.5 : 1024) && u < 6) { /* "1024 KiB" is 1 MiB */
        v /= 1024;
        u++;
    }
    /* Whole numbers without decimals, others with three significant digits. */
    int decimals = v == floor(v) || v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2;
    snprintf(out, LEAT_FORMAT_SIZE, "%.*f %s", decimals, v, units[u]);
    return out;
}

char *leat_format_rate(double bytes_per_s, char out[LEAT_FORMAT_SIZE])
{
    static const char *const units[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
    double v = bytes_per_s > 0 && isfinite(bytes_per_s) ? bytes_per_s : 0;
    int u = 0;
    if (v > 1e18)
        v = 1e18; /* nobody's network; keeps the text within its buffer */
    while (v >= 999.5 && u < 4) {
        v /= 1000;
        u++;
    }
    snprintf(out, LEAT_FORMAT_SIZE, "%.*f %s", v >= 99.95 || u == 0 ? 0 : v >= 9.995 ? 1 : 2, v, units[u]);
    return out;
}

char *leat_format_duration(uint64_t ns, char out[LEAT_FORMAT_SIZE])
{
    if (ns == LEAT_NEVER)
        snprintf(out, LEAT_FORMAT_SIZE, "never");
    else if (ns < LEAT_US)
        snprintf(out, LEAT_FORMAT_SIZE, "%u ns", (unsigned)ns);
    else if (ns < LEAT_MS - LEAT_US / 2) /* what would round up to 1000 belongs to the next unit */
        snprintf(out, LEAT_FORMAT_SIZE, "%.3g us", (double)ns / 1e3);
    else if (ns < LEAT_S - LEAT_MS / 2)
        snprintf(out, LEAT_FORMAT_SIZE, "%.3g ms", (double)ns / 1e6);
    else if (ns < 60 * LEAT_S - 50 * LEAT_MS)
        snprintf(out, LEAT_FORMAT_SIZE, "%.3g s", (double)ns / 1e9);
    else {
        uint64_t s = ns / LEAT_S + (ns % LEAT_S >= LEAT_S / 2);
        if (s < 3600)
            snprintf(out, LEAT_FORMAT_SIZE, "%u min %u s", (unsigned)(s / 60), (unsigned)(s % 60));
        else
            snprintf(out, LEAT_FORMAT_SIZE, "%u h %u min", (unsigned)(s / 3600), (unsigned)(s / 60 % 60));
    }
    return out;
}

leat_status leat_parse_flag(const char *text, const char *what, bool *out, struct leat_error *err)
{
    static const char *const yes[] = {"1", "true", "yes", "on"};
    static const char *const no[] = {"0", "false", "no", "off", ""};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        if (strcmp(text, yes[i]) == 0) {
            *out = true;
            return LEAT_OK;
        }
    }
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
        if (strcmp(text, no[i]) == 0) {
            *out = false;
            return LEAT_OK;
        }
    }
    return leat_fail(err, LEAT_INVALID, "%s: '%s' is neither true nor false", what, text);
}
