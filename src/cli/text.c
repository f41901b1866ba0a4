#include "cli/text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define SHOWN 20 /* bytes of a character as it is shown, with the NUL */

/* The character that begins at `p`: its bytes, 0 when these are no UTF-8 (overlong forms and surrogates are none). */
static size_t decode(const uint8_t *p, size_t n, uint32_t *out)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t bytes = p[0] < 0x80 ? 1 : p[0] >= 0xf0 && p[0] < 0xf8 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc0 ? 2 : 0;
    if (p[0] >= 0xf8 || bytes == 0 || bytes > n)
        return 0;
    uint32_t c = bytes == 1 ? p[0] : p[0] & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3f);
    }
    if (c < least[bytes] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    *out = c;
    return bytes;
}

static bool is_safe(uint32_t c)
{
    bool control = c < 0x20 || (c >= 0x7f && c < 0xa0);
    bool mark = (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) ||
                c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) || c == 0x61c || c == 0xad;
    return !control && !mark;
}

/* One character as it is printed; its width in characters. Takes `bytes` bytes of the text. */
static size_t show(const uint8_t *p, size_t n, bool backslashes, char out[SHOWN], size_t *bytes)
{
    uint32_t c = 0;
    *bytes = decode(p, n, &c);
    if (*bytes && is_safe(c) && (backslashes || c != '\\')) {
        memcpy(out, p, *bytes);
        out[*bytes] = '\0';
        return 1;
    }
    *bytes = *bytes ? *bytes : 1;
    for (size_t i = 0; i < *bytes; i++)
        snprintf(out + 4 * i, 5, "\\x%02x", p[i]);
    return 4 * *bytes;
}

static bool escape(struct leat_buf *out, const void *data, size_t n, bool backslashes, size_t columns)
{
    const uint8_t *p = data;
    size_t used = 0;
    size_t fits = out->len; /* the end of what would leave room for '…' */
    while (n) {
        char text[SHOWN];
        size_t bytes;
        size_t width = show(p, n, backslashes, text, &bytes);
        if (used + width > columns) {
            if (out->len > fits) {
                out->len = fits;
                out->data[fits] = '\0';
            }
            leat_buf_str(out, "…");
            return false;
        }
        leat_buf_str(out, text);
        used += width;
        if (used < columns)
            fits = out->len;
        p += bytes;
        n -= bytes;
    }
    return true;
}

bool leat_cli_escape(struct leat_buf *out, const void *data, size_t n, size_t columns)
{
    return escape(out, data, n, false, columns);
}

bool leat_cli_escape_rest(struct leat_buf *out, const void *data, size_t n, size_t columns)
{
    return escape(out, data, n, true, columns);
}

size_t leat_cli_columns(void)
{
    struct winsize w;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 20 ? w.ws_col : 100;
}
