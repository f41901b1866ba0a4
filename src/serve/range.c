#include "serve/range.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

/* Decimal digits, saturating: a position beyond any object stays beyond it. */
static bool digits(const char **at, uint64_t *out)
{
    const char *p = *at;
    uint64_t v = 0;
    if (*p < '0' || *p > '9')
        return false;
    for (; *p >= '0' && *p <= '9'; p++) {
        uint64_t d = (uint64_t)(*p - '0');
        v = v > (UINT64_MAX - d) / 10 ? UINT64_MAX : v * 10 + d;
    }
    *at = p;
    *out = v;
    return true;
}

static const char *skip_spaces(const char *p)
{
    return p + strspn(p, " \t");
}

enum leat_serve_range_kind leat_serve_range(const char *header, uint64_t size, uint64_t *offset, uint64_t *n)
{
    *offset = 0;
    *n = size;
    if (!header || strncasecmp(header, "bytes", 5) != 0)
        return LEAT_SERVE_RANGE_ALL;
    const char *p = skip_spaces(header + 5);
    if (*p != '=')
        return LEAT_SERVE_RANGE_ALL;
    p = skip_spaces(p + 1);
    uint64_t first = 0;
    uint64_t last = UINT64_MAX;
    bool has_first = digits(&p, &first);
    p = skip_spaces(p);
    if (*p != '-')
        return LEAT_SERVE_RANGE_ALL;
    p = skip_spaces(p + 1);
    bool has_last = digits(&p, &last);
    if (*skip_spaces(p) || (!has_first && !has_last) || (has_first && has_last && last < first))
        return LEAT_SERVE_RANGE_ALL;
    if (!has_first) {
        /* the last bytes */
        if (last == 0 || size == 0)
            return LEAT_SERVE_RANGE_OUTSIDE;
        *n = last < size ? last : size;
        *offset = size - *n;
        return LEAT_SERVE_RANGE_PART;
    }
    if (first >= size)
        return LEAT_SERVE_RANGE_OUTSIDE;
    *offset = first;
    *n = (last < size - 1 ? last : size - 1) - first + 1;
    return LEAT_SERVE_RANGE_PART;
}
