/* What strangers send first. Everything here has a limit, and what is unusual is refused rather than understood. */
#include <string.h>
#include <strings.h>

#include "net/door.h"

static leat_status bad(struct leat_error *err, const char *why)
{
    return leat_fail(err, LEAT_INVALID, "not a peer's request: %s", why);
}

static bool plain(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    }
    return true;
}

/* Digits to the end, at most 18 of them. */
static bool number(const char *text, size_t n, uint64_t *out)
{
    uint64_t value = 0;
    if (!n || n > 18)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    *out = value;
    return true;
}

static leat_status read_first_line(const char *line, size_t n, struct leat_door_head *out, struct leat_error *err)
{
    static const char verb[] = "GET ";
    static const char version[] = " HTTP/1.1";
    size_t around = sizeof verb - 1 + sizeof version - 1;
    if (n <= around || memcmp(line, verb, sizeof verb - 1) != 0 ||
        memcmp(line + n - (sizeof version - 1), version, sizeof version - 1) != 0)
        return bad(err, "its first line");
    size_t path = n - around;
    if (path >= sizeof out->path || line[4] != '/' || !plain(line + 4, path))
        return bad(err, "its path");
    memcpy(out->path, line + 4, path);
    out->path[path] = '\0';
    return LEAT_OK;
}

static leat_status read_range(const char *value, size_t n, struct leat_door_head *out, struct leat_error *err)
{
    static const char unit[] = "bytes=";
    size_t u = sizeof unit - 1;
    const char *dash = n > u && memcmp(value, unit, u) == 0 ? memchr(value + u, '-', n - u) : NULL;
    if (out->ranged || !dash || !number(value + u, (size_t)(dash - value) - u, &out->first) ||
        !number(dash + 1, (size_t)(value + n - dash) - 1, &out->last) || out->first > out->last)
        return bad(err, "its range");
    out->ranged = true;
    return LEAT_OK;
}

static leat_status read_token(const char *value, size_t n, struct leat_door_head *out, struct leat_error *err)
{
    static const char scheme[] = "Bearer ";
    size_t s = sizeof scheme - 1;
    if (out->token[0] || n <= s || n - s >= sizeof out->token || memcmp(value, scheme, s) != 0 ||
        !plain(value + s, n - s))
        return bad(err, "its token");
    memcpy(out->token, value + s, n - s);
    out->token[n - s] = '\0';
    return LEAT_OK;
}

static leat_status read_header(const char *line, size_t n, struct leat_door_head *out, struct leat_error *err)
{
    const char *colon = memchr(line, ':', n);
    if (!colon || colon == line || !plain(line, (size_t)(colon - line)))
        return bad(err, "a header");
    size_t name = (size_t)(colon - line);
    const char *value = colon + 1;
    size_t left = n - name - 1;
    while (left && *value == ' ') {
        value++;
        left--;
    }
    while (left && value[left - 1] == ' ')
        left--;
    if (name == 5 && strncasecmp(line, "Range", name) == 0)
        return read_range(value, left, out, err);
    if (name == 13 && strncasecmp(line, "Authorization", name) == 0)
        return read_token(value, left, out, err);
    if (name == 10 && strncasecmp(line, "Connection", name) == 0)
        out->close = left == 5 && strncasecmp(value, "close", left) == 0;
    if ((name == 14 && strncasecmp(line, "Content-Length", name) == 0) ||
        (name == 17 && strncasecmp(line, "Transfer-Encoding", name) == 0))
        return bad(err, "it has a body");
    return LEAT_OK;
}

leat_status leat_door_read_head(const char *text, size_t n, struct leat_door_head *out, struct leat_error *err)
{
    struct leat_door_head head = {.first = 0};
    leat_status rc = LEAT_OK;
    bool first = true;
    if (n > LEAT_DOOR_HEAD || memchr(text, '\0', n))
        return bad(err, "its length");
    while (rc == LEAT_OK) {
        const char *end = n ? memchr(text, '\n', n) : NULL;
        size_t line = end ? (size_t)(end - text) : 0;
        if (!line || text[line - 1] != '\r')
            return bad(err, "its lines");
        if (line == 1)
            break;
        rc = first ? read_first_line(text, line - 1, &head, err) : read_header(text, line - 1, &head, err);
        first = false;
        text += line + 1;
        n -= line + 1;
    }
    if (rc == LEAT_OK && (first || n != 2))
        rc = bad(err, "its end");
    if (rc == LEAT_OK)
        *out = head;
    return rc;
}
