#include "serve/key.h"

#include <string.h>

#include "base/hash.h"

#define COMPONENT_MAX 255
#define PIECE         200

static bool plain_component(const char *text, size_t n)
{
    if (n == 0 || n > COMPONENT_MAX)
        return false;
    return !(n == 1 && text[0] == '.') && !(n == 2 && text[0] == '.' && text[1] == '.');
}

bool leat_serve_key_plain(struct leat_serve_key key)
{
    size_t start = 0;
    if (memchr(key.data, '\0', key.n))
        return false;
    for (size_t i = 0; i <= key.n; i++) {
        if (i < key.n && key.data[i] != '/')
            continue;
        size_t n = i - start;
        if (!plain_component(key.data + start, n))
            return false;
        if (start == 0 && n == strlen(LEAT_SERVE_RESERVED) && memcmp(key.data, LEAT_SERVE_RESERVED, n) == 0)
            return false;
        start = i + 1;
    }
    return true;
}

static bool stays(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

bool leat_serve_key_escape(struct leat_serve_key key, struct leat_buf *out)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t piece = 0;
    for (size_t i = 0; i < key.n; i++) {
        unsigned char c = (unsigned char)key.data[i];
        char escaped[3] = {'%', digits[c >> 4], digits[c & 15]};
        bool kept = stays((char)c);
        size_t n = kept ? 1 : sizeof escaped;
        if (piece + n > PIECE) {
            leat_buf_str(out, "+/");
            piece = 0;
        }
        leat_buf_add(out, kept ? key.data + i : escaped, n);
        piece += n;
    }
    return !out->failed;
}

bool leat_serve_key_unescape(const char *path, struct leat_buf *out)
{
    size_t before = out->len;
    for (const char *p = path; *p;) {
        if (stays(*p)) {
            leat_buf_char(out, *p++);
        } else if (*p == '%' && p[1] && p[2]) {
            char hex[3] = {p[1], p[2], '\0'};
            char c;
            if (!leat_unhex(hex, &c, 1))
                return false;
            leat_buf_char(out, c);
            p += 3;
        } else if (p[0] == '+' && p[1] == '/' && p[2]) {
            p += 2;
        } else {
            return false;
        }
    }
    /* Only the one spelling that escape itself writes counts, or two files could claim one key. */
    struct leat_serve_key key = {out->data + before, out->len - before};
    struct leat_buf again;
    leat_buf_init(&again, 8 * LEAT_SERVE_KEY_MAX);
    bool same = !out->failed && key.n > 0 && key.n <= LEAT_SERVE_KEY_MAX && leat_serve_key_escape(key, &again) &&
                strcmp(again.data, path) == 0;
    leat_buf_free(&again);
    return same;
}
