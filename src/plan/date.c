#include <stdbool.h>
#include <string.h>

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
