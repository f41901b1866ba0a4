#include "base/parse.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"

struct unit {
    const char *name;
    double factor;
};

static const struct unit size_units[] = {
    {"", 1},         {"b", 1},        {"kb", 1e3},     {"mb", 1e6},     {"gb", 1e9},     {"tb", 1e12},
    {"pb", 1e15},    {"k", 0x1p10},   {"m", 0x1p20},   {"g", 0x1p30},   {"t", 0x1p40},   {"p", 0x1p50},
    {"kib", 0x1p10}, {"mib", 0x1p20}, {"gib", 0x1p30}, {"tib", 0x1p40}, {"pib", 0x1p50}, {NULL, 0},
};

static const struct unit duration_units[] = {
    {"", 1e9},    {"ns", 1},     {"us", 1e3}, {"µs", 1e3},   {"ms", 1e6},    {"s", 1e9},
    {"sec", 1e9}, {"min", 60e9}, {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9}, {NULL, 0},
};

static const struct unit bit_units[] = {
    {"bit", .125}, {"kbit", 125}, {"mbit", 125e3}, {"gbit", 125e6}, {"tbit", 125e9}, {NULL, 0},
};

/* Decimal digits with at most one point, up to `end`; no sign, no exponent, no locale. The text is kept
 * as a whole number and a power of ten so that "8MiB" and "0.1" lose nothing on the way. */
struct number {
    uint64_t digits;
    int scale;    /* value = digits · 10^-scale */
    bool inexact; /* digits beyond 19 significant ones were given */
};

static bool scan_number(const char **text, struct number *out)
{
    struct number n = {0};
    bool any = false;
    bool point = false;
    const char *p = *text;
    for (;; p++) {
        if (*p == '.' && !point) {
            point = true;
            continue;
        }
        if (*p < '0' || *p > '9')
            break;
        any = true;
        if (n.digits > (UINT64_MAX - 9) / 10) {
            if (!point)
                return false; /* larger than any setting */
            n.inexact = true;
            continue;
        }
        n.digits = n.digits * 10 + (uint64_t)(*p - '0');
        n.scale += point;
    }
    if (!any)
        return false;
    *text = p;
    *out = n;
    return true;
}

static bool apply_unit(struct number n, double factor, uint64_t *out)
{
    if (n.scale == 0 && factor >= 1 && factor == floor(factor)) {
        uint64_t whole = (uint64_t)factor;
        if (n.digits > UINT64_MAX / whole)
            return false;
        *out = n.digits * whole;
        return true;
    }
    double v = (double)n.digits * factor / pow(10, n.scale);
    if (!(v < 0x1p63))
        return false;
    *out = (uint64_t)(v + .5);
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

static leat_status parse_with(const char *text, const char *what, const struct unit *units, const char *example,
                              uint64_t *out, struct leat_error *err)
{
    const char *p = skip_spaces(text);
    struct number n;
    uint64_t v;
    if (!scan_number(&p, &n))
        return leat_fail(err, LEAT_INVALID, "%s: '%s' is not a number with a unit; write for example %s", what, text,
                         example);
    p = skip_spaces(p);
    const struct unit *u = find_unit(units, p, trimmed_length(p));
    if (!u)
        return leat_fail(err, LEAT_INVALID, "%s: '%s' has no unit known here; write for example %s", what, text,
                         example);
    if (!apply_unit(n, u->factor, &v))
        return leat_fail(err, LEAT_INVALID, "%s: '%s' is too large", what, text);
    *out = v;
    return LEAT_OK;
}

leat_status leat_parse_size(const char *text, const char *what, uint64_t *out, struct leat_error *err)
{
    return parse_with(text, what, size_units, "512MiB or 100gb", out, err);
}

leat_status leat_parse_duration(const char *text, const char *what, uint64_t *out, struct leat_error *err)
{
    return parse_with(text, what, duration_units, "50ms, 30s or 24h", out, err);
}

leat_status leat_parse_rate(const char *text, const char *what, uint64_t *out, struct leat_error *err)
{
    static const char example[] = "400MB/s or 10Gbit/s";
    char copy[64];
    size_t n = trimmed_length(text);
    if (n >= sizeof copy)
        return leat_fail(err, LEAT_INVALID, "%s: '%.40s…' is not a rate; write for example %s", what, text, example);
    memcpy(copy, text, n);
    copy[n] = '\0';
    const struct unit *units = size_units;
    if (n >= 2 && strcasecmp(copy + n - 2, "/s") == 0) {
        copy[n -= 2] = '\0';
    } else if (n >= 3 && strcasecmp(copy + n - 3, "bps") == 0) {
        memcpy(copy + n - 3, "bit", 3);
    }
    if (n >= 3 && strcasecmp(copy + n - 3, "bit") == 0)
        units = bit_units;
    return parse_with(copy, what, units, example, out, err);
}

leat_status leat_parse_u64(const char *text, const char *what, uint64_t *out, struct leat_error *err)
{
    const char *p = skip_spaces(text);
    struct number n;
    if (!scan_number(&p, &n) || n.scale || *skip_spaces(p))
        return leat_fail(err, LEAT_INVALID, "%s: '%s' is not a whole number of 0 or more", what, text);
    *out = n.digits;
    return LEAT_OK;
}

leat_status leat_parse_double(const char *text, const char *what, double *out, struct leat_error *err)
{
    const char *p = skip_spaces(text);
    double sign = 1;
    if (*p == '-' || *p == '+')
        sign = *p++ == '-' ? -1 : 1;
    struct number n;
    if (!scan_number(&p, &n))
        return leat_fail(err, LEAT_INVALID, "%s: '%s' is not a number", what, text);
    int exponent = 0;
    if (*p == 'e' || *p == 'E') {
        const char *q = p + 1;
        int exponent_sign = 1;
        if (*q == '-' || *q == '+')
            exponent_sign = *q++ == '-' ? -1 : 1;
        for (; *q >= '0' && *q <= '9' && exponent < 1000; q++)
            exponent = exponent * 10 + (*q - '0');
        if (q[-1] < '0' || q[-1] > '9')
            return leat_fail(err, LEAT_INVALID, "%s: '%s' is not a number", what, text);
        exponent *= exponent_sign;
        p = q;
    }
    if (*skip_spaces(p))
        return leat_fail(err, LEAT_INVALID, "%s: '%s' is not a number", what, text);
    double v = sign * (double)n.digits;
    int power = exponent - n.scale;
    v = power >= 0 ? v * pow(10, power) : v / pow(10, -power);
    if (!isfinite(v))
        return leat_fail(err, LEAT_INVALID, "%s: '%s' is out of range", what, text);
    *out = v;
    return LEAT_OK;
}

char *leat_format_size(uint64_t bytes, char out[LEAT_FORMAT_SIZE])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double v = (double)bytes;
    int u = 0;
    while (v >= 1024 && u < 6) {
        v /= 1024;
        u++;
    }
    /* Whole numbers without decimals, others with three significant digits. */
    int decimals = v == floor(v) || v >= 100 ? 0 : v >= 10 ? 1 : 2;
    snprintf(out, LEAT_FORMAT_SIZE, "%.*f %s", decimals, v, units[u]);
    return out;
}

char *leat_format_rate(double bytes_per_s, char out[LEAT_FORMAT_SIZE])
{
    static const char *const units[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
    double v = bytes_per_s > 0 && isfinite(bytes_per_s) ? bytes_per_s : 0;
    int u = 0;
    while (v >= 999.5 && u < 4) {
        v /= 1000;
        u++;
    }
    snprintf(out, LEAT_FORMAT_SIZE, "%.*f %s", v >= 100 || u == 0 ? 0 : v >= 10 ? 1 : 2, v, units[u]);
    return out;
}

char *leat_format_duration(uint64_t ns, char out[LEAT_FORMAT_SIZE])
{
    if (ns == LEAT_NEVER)
        snprintf(out, LEAT_FORMAT_SIZE, "never");
    else if (ns < LEAT_US)
        snprintf(out, LEAT_FORMAT_SIZE, "%u ns", (unsigned)ns);
    else if (ns < LEAT_MS)
        snprintf(out, LEAT_FORMAT_SIZE, "%.3g us", (double)ns / 1e3);
    else if (ns < LEAT_S)
        snprintf(out, LEAT_FORMAT_SIZE, "%.3g ms", (double)ns / 1e6);
    else if (ns < 60 * LEAT_S)
        snprintf(out, LEAT_FORMAT_SIZE, "%.3g s", (double)ns / 1e9);
    else if (ns < 3600 * LEAT_S)
        snprintf(out, LEAT_FORMAT_SIZE, "%u min %u s", (unsigned)(ns / (60 * LEAT_S)), (unsigned)(ns / LEAT_S % 60));
    else
        snprintf(out, LEAT_FORMAT_SIZE, "%u h %u min", (unsigned)(ns / (3600 * LEAT_S)),
                 (unsigned)(ns / (60 * LEAT_S) % 60));
    return out;
}
