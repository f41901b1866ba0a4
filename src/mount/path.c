#include "mount/path.h"

#include <stdint.h>
#include <string.h>

bool leat_path_good(const char *key, size_t n)
{
    if (n == 0 || n > LEAT_PATH_MAX || memchr(key, '\0', n))
        return false;
    for (size_t at = 0; at <= n;) {
        const char *slash = memchr(key + at, '/', n - at);
        size_t length = (slash ? (size_t)(slash - key) : n) - at;
        if (length == 0 || length > LEAT_PATH_NAME_MAX || (length == 1 && key[at] == '.') ||
            (length == 2 && key[at] == '.' && key[at + 1] == '.'))
            return false;
        at += length + 1;
    }
    return true;
}

static bool has_ending(const char *key, size_t n)
{
    const char *slash = n ? memrchr(key, '/', n) : NULL;
    size_t name = slash ? (size_t)(slash - key) + 1 : 0;
    return n > name + 1 && memchr(key + name + 1, '.', n - name - 1);
}

bool leat_path_add_field(struct leat_buf *path, const struct leat_field *f, bool first)
{
    bool numbers = f->type == LEAT_FIELD_ARRAY || f->type == LEAT_FIELD_TOKENS;
    if (first && has_ending(path->data, path->len))
        return false;
    leat_buf_printf(path, ".%s%s", f->name, numbers ? LEAT_PATH_NPY : "");
    return numbers;
}

/* How many bytes they share at the beginning. Eight at a time: sorting a million keys spends its time here. */
static size_t shared(const char *a, const char *b, size_t n)
{
    size_t i = 0;
    while (i + 8 <= n) {
        uint64_t x;
        uint64_t y;
        memcpy(&x, a + i, 8);
        memcpy(&y, b + i, 8);
        if (x != y)
            return i + (size_t)__builtin_ctzll(x ^ y) / 8; /* little-endian, as root.c demands */
        i += 8;
    }
    while (i < n && a[i] == b[i])
        i++;
    return i;
}

static int rank(char c)
{
    return c == '/' ? 0 : (unsigned char)c; /* no path has a byte 0 */
}

int leat_path_compare(const char *a, size_t an, const char *b, size_t bn)
{
    size_t least = an < bn ? an : bn;
    size_t i = shared(a, b, least);
    if (i < least)
        return rank(a[i]) - rank(b[i]);
    return an < bn ? -1 : an > bn;
}

bool leat_path_below(const char *folder, size_t folder_n, const char *path, size_t n)
{
    return n > folder_n && path[folder_n] == '/' && memcmp(folder, path, folder_n) == 0;
}
