#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char nothing[1] = "";

void leat_buf_init(struct leat_buf *b, size_t max)
{
    *b = (struct leat_buf){.data = nothing, .max = max};
}

void leat_buf_free(struct leat_buf *b)
{
    if (!b)
        return;
    if (b->cap)
        free(b->data);
    leat_buf_init(b, b->max);
}

void leat_buf_clear(struct leat_buf *b)
{
    b->len = 0;
    b->failed = b->full = false;
    if (b->cap)
        b->data[0] = '\0';
}

/* Makes room for n more bytes and the NUL after them. */
static bool grow(struct leat_buf *b, size_t n)
{
    if (b->failed)
        return false;
    size_t max = b->max < SIZE_MAX ? b->max : SIZE_MAX - 1; /* the NUL needs a place too */
    if (max < b->len || n > max - b->len) {
        b->failed = b->full = true;
        return false;
    }
    size_t need = b->len + n + 1;
    if (need <= b->cap)
        return true;
    /* Doubling keeps appends cheap on average; the maximum bounds the memory too. */
    size_t cap = b->cap > 32 ? b->cap : 32;
    cap = cap > max / 2 ? max + 1 : cap * 2;
    if (cap < need || cap > max + 1)
        cap = need;
    char *data = realloc(b->cap ? b->data : NULL, cap);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->cap = cap;
    return true;
}

bool leat_buf_add(struct leat_buf *b, const void *data, size_t n)
{
    if (!grow(b, n))
        return false;
    if (n)
        memcpy(b->data + b->len, data, n);
    b->len += n;
    b->data[b->len] = '\0';
    return true;
}

bool leat_buf_str(struct leat_buf *b, const char *text)
{
    return leat_buf_add(b, text, strlen(text));
}

bool leat_buf_char(struct leat_buf *b, char c)
{
    return leat_buf_add(b, &c, 1);
}

bool leat_buf_printf(struct leat_buf *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0 || !grow(b, (size_t)n)) {
        b->failed = true;
        return false;
    }
    va_start(args, format);
    vsnprintf(b->data + b->len, (size_t)n + 1, format, args);
    va_end(args);
    b->len += (size_t)n;
    return true;
}

bool leat_buf_xml(struct leat_buf *b, const char *text)
{
    bool ok = true;
    for (; *text; text++) {
        if (*text == '&')
            ok = leat_buf_str(b, "&amp;");
        else if (*text == '<')
            ok = leat_buf_str(b, "&lt;");
        else if (*text == '>')
            ok = leat_buf_str(b, "&gt;");
        else if (*text == '"')
            ok = leat_buf_str(b, "&quot;");
        else
            ok = leat_buf_char(b, *text);
    }
    return ok; /* an append that fails makes all after it fail */
}

char *leat_buf_take(struct leat_buf *b)
{
    char *out = NULL;
    if (!b->failed)
        out = b->cap ? b->data : strdup("");
    if (out && b->cap)
        b->cap = 0; /* now the caller's */
    leat_buf_free(b);
    return out;
}

leat_status leat_buf_check(const struct leat_buf *b, const char *what, struct leat_error *err)
{
    if (!b->failed)
        return LEAT_OK;
    if (!b->full)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for %s (%zu bytes so far)", what, b->len);
    return leat_fail(err, LEAT_LIMIT, "%s is larger than %zu bytes", what, b->max);
}
