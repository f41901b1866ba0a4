/* Whether a text is JSON (RFC 8259), without making anything of it: no memory, no recursion. */
#include <stdint.h>
#include <string.h>

#include "base/json.h"

struct text {
    const uint8_t *at;
    const uint8_t *end;
};

static void skip_space(struct text *t)
{
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\n' || *t->at == '\r' || *t->at == '\t'))
        t->at++;
}

static bool take(struct text *t, char c)
{
    if (t->at == t->end || *t->at != (uint8_t)c)
        return false;
    t->at++;
    return true;
}

static bool digits(struct text *t)
{
    const uint8_t *from = t->at;
    while (t->at < t->end && *t->at >= '0' && *t->at <= '9')
        t->at++;
    return t->at > from;
}

static bool number(struct text *t)
{
    take(t, '-');
    if (!take(t, '0') && !digits(t))
        return false;
    if (take(t, '.') && !digits(t))
        return false;
    if (!take(t, 'e') && !take(t, 'E'))
        return true;
    if (!take(t, '+'))
        take(t, '-');
    return digits(t);
}

static bool escape(struct text *t)
{
    if (t->at == t->end || !memchr("\"\\/bfnrtu", *t->at, 9))
        return false;
    unsigned hex = *t->at++ == 'u' ? 4 : 0;
    for (; hex && t->at < t->end && memchr("0123456789abcdefABCDEF", *t->at, 22); hex--)
        t->at++;
    return hex == 0;
}

/* One character beyond ASCII, in the shortest form and none of the surrogates. */
static bool utf8(struct text *t)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint8_t c = *t->at;
    unsigned n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    if (c < 0xc2 || c > 0xf4 || (size_t)(t->end - t->at) < n)
        return false;
    uint32_t point = c & (0x7fu >> n);
    for (unsigned i = 1; i < n; i++) {
        if ((t->at[i] & 0xc0) != 0x80)
            return false;
        point = point << 6 | (t->at[i] & 0x3f);
    }
    t->at += n;
    return point >= least[n] && point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
}

static bool string(struct text *t)
{
    if (!take(t, '"'))
        return false;
    while (t->at < t->end && *t->at != '"') {
        if (*t->at < 0x20)
            return false;
        bool good = take(t, '\\') ? escape(t) : *t->at >= 0x80 ? utf8(t) : (t->at++, true);
        if (!good)
            return false;
    }
    return take(t, '"');
}

static bool word(struct text *t, const char *w)
{
    size_t n = strlen(w);
    if ((size_t)(t->end - t->at) < n || memcmp(t->at, w, n) != 0)
        return false;
    t->at += n;
    return true;
}

static bool plain(struct text *t)
{
    if (t->at == t->end)
        return false;
    switch (*t->at) {
    case '"':
        return string(t);
    case 't':
        return word(t, "true");
    case 'f':
        return word(t, "false");
    case 'n':
        return word(t, "null");
    default:
        return number(t);
    }
}

static bool name(struct text *t)
{
    skip_space(t);
    bool good = string(t);
    skip_space(t);
    return good && take(t, ':');
}

bool leat_json_check(const char *data, size_t n, size_t *at)
{
    struct text t = {(const uint8_t *)data, (const uint8_t *)data + n};
    uint8_t open[LEAT_JSON_DEPTH]; /* what each one that is open ends with */
    unsigned depth = 0;
    bool good = n > 0;
    while (good) {
        skip_space(&t);
        bool object = take(&t, '{');
        if (object || take(&t, '[')) {
            if (depth == LEAT_JSON_DEPTH) {
                good = false;
                break;
            }
            open[depth++] = object ? '}' : ']';
            skip_space(&t);
            if (!take(&t, (char)open[depth - 1])) {
                good = !object || name(&t);
                continue; /* to its first value */
            }
            depth--;
        } else {
            good = plain(&t);
        }
        /* After a value: what it ends, then a comma or the end of all. */
        skip_space(&t);
        while (good && depth && take(&t, (char)open[depth - 1])) {
            depth--;
            skip_space(&t);
        }
        if (!good || !depth)
            break;
        good = take(&t, ',') && (open[depth - 1] == ']' || name(&t));
    }
    skip_space(&t);
    good = good && t.at == t.end;
    if (!good && at)
        *at = (size_t)(t.at - (const uint8_t *)data);
    return good;
}
