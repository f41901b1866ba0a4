#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/shards.h"

#define DEPTH_MAX 8 /* braces in one address */
#define DIGITS    9 /* of a number in braces */

/* "A..B": whole numbers. Width: of the longer one where either begins with a 0, as shells do; else 0. */
static bool read_range(const char *text, size_t n, uint64_t *from, uint64_t *to, int *width)
{
    uint64_t v[2] = {0, 0};
    size_t digits[2] = {0, 0};
    bool zero = false;
    size_t i = 0;
    for (int k = 0; k < 2; k++) {
        size_t start = i;
        for (; i < n && text[i] >= '0' && text[i] <= '9'; i++)
            v[k] = v[k] * 10 + (uint64_t)(text[i] - '0');
        digits[k] = i - start;
        if (digits[k] == 0 || digits[k] > DIGITS)
            return false;
        zero = zero || (digits[k] > 1 && text[start] == '0');
        if (k == 0 && (n - i < 2 || memcmp(text + i, "..", 2) != 0))
            return false;
        i += k == 0 ? 2 : 0;
    }
    *from = v[0];
    *to = v[1];
    *width = zero ? (int)(digits[0] > digits[1] ? digits[0] : digits[1]) : 0;
    return i == n;
}

static leat_status expand(const char *url, size_t from, int depth, leat_braces_visit *visit, void *user,
                          struct leat_error *err);

/* What stands before the braces, one choice, and what stands after them, expanded in its turn. */
static leat_status choose(const char *url, const char *open, const char *close, const char *choice, size_t n, int depth,
                          leat_braces_visit *visit, void *user, struct leat_error *err)
{
    struct leat_buf one;
    leat_buf_init(&one, 64 << 10);
    leat_buf_add(&one, url, (size_t)(open - url));
    leat_buf_add(&one, choice, n);
    size_t after = one.len;
    leat_buf_str(&one, close + 1);
    leat_status rc = leat_buf_check(&one, "an address", err);
    if (rc == LEAT_OK)
        rc = expand(one.data, after, depth + 1, visit, user, err);
    leat_buf_free(&one);
    return rc;
}

static leat_status expand_range(const char *url, const char *open, const char *close, int depth, uint64_t first,
                                uint64_t last, int width, leat_braces_visit *visit, void *user, struct leat_error *err)
{
    if (last < first)
        return leat_fail(err, LEAT_INVALID, "{%.*s} counts downwards in '%.200s'", (int)(close - open - 1), open + 1,
                         url);
    if (last - first >= LEAT_SHARDS_MAX)
        return leat_fail(err, LEAT_LIMIT, "{%.*s} stands for more than %u names", (int)(close - open - 1), open + 1,
                         LEAT_SHARDS_MAX);
    for (uint64_t v = first; v <= last; v++) {
        char text[32];
        int n = snprintf(text, sizeof text, "%0*" PRIu64, width, v);
        leat_status rc = choose(url, open, close, text, (size_t)n, depth, visit, user, err);
        if (rc != LEAT_OK)
            return rc;
    }
    return LEAT_OK;
}

static leat_status expand_list(const char *url, const char *open, const char *close, int depth,
                               leat_braces_visit *visit, void *user, struct leat_error *err)
{
    const char *p = open + 1;
    for (;;) {
        size_t n = strcspn(p, ",}");
        leat_status rc = choose(url, open, close, p, n, depth, visit, user, err);
        if (rc != LEAT_OK || p + n == close)
            return rc;
        p += n + 1;
    }
}

static leat_status expand(const char *url, size_t from, int depth, leat_braces_visit *visit, void *user,
                          struct leat_error *err)
{
    const char *open = strchr(url + from, '{');
    const char *close = open ? strchr(open, '}') : NULL;
    if (!close)
        return visit(user, url, err);
    if (depth == DEPTH_MAX)
        return leat_fail(err, LEAT_LIMIT, "an address with more than %d braces: '%.200s'", DEPTH_MAX, url);
    uint64_t first;
    uint64_t last;
    int width;
    if (read_range(open + 1, (size_t)(close - open - 1), &first, &last, &width))
        return expand_range(url, open, close, depth, first, last, width, visit, user, err);
    if (memchr(open, ',', (size_t)(close - open)))
        return expand_list(url, open, close, depth, visit, user, err);
    return expand(url, (size_t)(close + 1 - url), depth, visit, user, err);
}

leat_status leat_braces_each(const char *url, leat_braces_visit *visit, void *user, struct leat_error *err)
{
    return expand(url, 0, 0, visit, user, err);
}
