#include <stdbool.h>
#include <string.h>

#include "base/parse.h"
#include "plan/catalog.h"

static long two_digits(const char *p)
{
    return p[0] >= '0' && p[0] <= '9' && p[1] >= '0' && p[1] <= '9' ? (p[0] - '0') * 10 + (p[1] - '0') : -1000000;
}

static long days_of(long year, long month)
{
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 ? 28 + leap : 30 + (month + (month > 7)) % 2;
}

long leat_plan_days(const char *date)
{
    if (strlen(date) != 10 || date[4] != '-' || date[7] != '-')
        return -1;
    long year = two_digits(date) * 100 + two_digits(date + 2);
    long month = two_digits(date + 5);
    long day = two_digits(date + 8);
    if (year < 1900 || month < 1 || month > 12 || day < 1 || day > days_of(year, month))
        return -1;
    /* Years that begin in March put the leap day last. */
    long m = (month + 9) % 12;
    long y = year - m / 10;
    return 365 * y + y / 4 - y / 100 + y / 400 + (m * 306 + 5) / 10 + day - 1;
}

/* A number of 1 to `most` digits; NULL: there is none. */
static const char *digits(const char *p, size_t most, double *out)
{
    size_t n = 0;
    *out = 0;
    for (; n < most && p[n] >= '0' && p[n] <= '9'; n++)
        *out = *out * 10 + (p[n] - '0');
    return n ? p + n : NULL;
}

/* "+02:00", "-0730", "Z" or nothing, in seconds. */
static bool take_zone(const char *p, double *out)
{
    double h = 0;
    double m = 0;
    *out = 0;
    if (!*p || strcmp(p, "Z") == 0)
        return true;
    double sign = *p == '-' ? -1 : 1;
    if (*p != '+' && *p != '-')
        return false;
    if (two_digits(p + 1) < 0)
        return false;
    h = (double)two_digits(p + 1);
    p += 3;
    p += *p == ':';
    if (*p && (two_digits(p) < 0 || p[2]))
        return false;
    if (*p)
        m = (double)two_digits(p);
    *out = sign * (h * 3600 + m * 60);
    return h < 24 && m < 60;
}

bool leat_plan_moment(const char *text, double *out)
{
    char date[11] = "";
    double h;
    double m;
    double s = 0;
    double zone;
    size_t plain = strspn(text, "0123456789.");
    if (*text && !text[plain]) { /* seconds */
        struct leat_error err;
        return leat_parse_double(text, "moment", out, &err) == LEAT_OK;
    }
    if (strlen(text) < 16)
        return false;
    memcpy(date, text, 10);
    long days = leat_plan_days(date);
    const char *p = text + 11;
    if (days < 0 || (text[10] != 'T' && text[10] != ' ') || !(p = digits(p, 2, &h)) || *p++ != ':' ||
        !(p = digits(p, 2, &m)))
        return false;
    if (*p == ':' && !(p = digits(p + 1, 2, &s)))
        return false;
    if (*p == '.') {
        double fraction;
        if (!digits(p + 1, 9, &fraction))
            return false;
        p += 1 + strspn(p + 1, "0123456789"); /* below a second nothing counts */
    }
    if (!take_zone(p, &zone) || h > 23 || m > 59 || s > 60)
        return false;
    *out = (double)days * 86400 + h * 3600 + m * 60 + s - zone;
    return true;
}
