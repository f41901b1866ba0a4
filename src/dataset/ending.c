#include "dataset/ending.h"

#include <string.h>

static char lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
}

/* Two spellings of one thing would be two fields. */
static void one_spelling(char *ending)
{
    if (strcmp(ending, "jpeg") == 0)
        memcpy(ending, "jpg", 4);
    if (strcmp(ending, "tiff") == 0)
        memcpy(ending, "tif", 4);
}

void leat_ending(const char *path, size_t n, char out[LEAT_ENDING_MAX])
{
    size_t at = n;
    out[0] = '\0';
    while (at > 0 && path[at - 1] != '.' && path[at - 1] != '/')
        at--;
    if (at < 2 || path[at - 1] != '.' || path[at - 2] == '/' || n - at == 0 || n - at >= LEAT_ENDING_MAX)
        return;
    for (size_t i = at; i < n; i++) {
        char c = lower(path[i]);
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))) {
            out[0] = '\0';
            return;
        }
        out[i - at] = c;
    }
    out[n - at] = '\0';
    one_spelling(out);
}

static bool one_of(const char *text, const char *const *list)
{
    for (; *list; list++) {
        if (strcmp(text, *list) == 0)
            return true;
    }
    return false;
}

enum leat_field_type leat_ending_type(const char *ending)
{
    static const char *const pictures[] = {"jpg", "png", "webp", "tif", "bmp", "gif", "avif", "jxl", NULL};
    static const char *const texts[] = {"txt", "json", "csv", "md", NULL};
    const char *dot = strrchr(ending, '.');
    const char *last = dot ? dot + 1 : ending;
    return one_of(last, pictures) ? LEAT_FIELD_IMAGE : one_of(last, texts) ? LEAT_FIELD_STRING : LEAT_FIELD_BYTES;
}

bool leat_ending_split(const char *path, size_t n, size_t *stem_n, char field[LEAT_FIELD_NAME_MAX])
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789_.-";
    const char *slash = memrchr(path, '/', n);
    size_t name = slash ? (size_t)(slash - path) + 1 : 0;
    const char *dot = memchr(path + name, '.', n - name);
    if (!dot || dot == path + name)
        return false;
    size_t at = (size_t)(dot - path) + 1;
    if (at == n || n - at >= LEAT_FIELD_NAME_MAX)
        return false;
    for (size_t i = at; i < n; i++) {
        char c = lower(path[i]);
        if (c == '\0' || !strchr(allowed, c))
            return false;
        field[i - at] = c;
    }
    field[n - at] = '\0';
    char *last = strrchr(field, '.');
    one_spelling(last ? last + 1 : field);
    *stem_n = at - 1;
    return true;
}
