#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define HEAD 160u /* bytes at the beginning of a text that stay when contexts make it too long */

#undef leat_fail
#undef leat_fail_errno

static const char *const names[LEAT_STATUS_COUNT] = {
    [LEAT_OK] = "ok",
    [LEAT_INVALID] = "invalid",
    [LEAT_NOT_FOUND] = "not found",
    [LEAT_EXISTS] = "exists",
    [LEAT_DENIED] = "denied",
    [LEAT_CHANGED] = "changed",
    [LEAT_CORRUPT] = "corrupt",
    [LEAT_NETWORK] = "network",
    [LEAT_TLS] = "tls",
    [LEAT_SERVER] = "server",
    [LEAT_THROTTLED] = "throttled",
    [LEAT_TIMEOUT] = "timeout",
    [LEAT_CANCELLED] = "cancelled",
    [LEAT_IO] = "io",
    [LEAT_NO_SPACE] = "no space",
    [LEAT_NO_MEMORY] = "no memory",
    [LEAT_LIMIT] = "limit",
    [LEAT_BUSY] = "busy",
    [LEAT_VERSION] = "version",
    [LEAT_UNSUPPORTED] = "unsupported",
    [LEAT_INTERNAL] = "internal",
};

const char *leat_status_name(leat_status status)
{
    return status >= 0 && status < LEAT_STATUS_COUNT ? names[status] : "unknown";
}

leat_status leat_status_from_errno(int os_error)
{
    switch (os_error) {
    case 0:
        return LEAT_OK;
    case ENOENT:
    case ENOTDIR:
        return LEAT_NOT_FOUND;
    case EEXIST:
        return LEAT_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS:
        return LEAT_DENIED;
    case ENOSPC:
    case EDQUOT:
        return LEAT_NO_SPACE;
    case ENOMEM:
        return LEAT_NO_MEMORY;
    case EMFILE:
    case ENFILE:
        return LEAT_LIMIT;
    case EINVAL:
    case ENAMETOOLONG:
    case EISDIR:
        return LEAT_INVALID;
    case ECANCELED:
    case EINTR:
        return LEAT_CANCELLED;
    case ETIMEDOUT:
        return LEAT_TIMEOUT;
    case EBUSY:
    case EAGAIN:
        return LEAT_BUSY;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EADDRINUSE:
    case EADDRNOTAVAIL:
        return LEAT_NETWORK;
    case ENOSYS:
    case EOPNOTSUPP:
        return LEAT_UNSUPPORTED;
    default:
        return LEAT_IO;
    }
}

/* The length of the valid UTF-8 character at s, 0 when there is none. */
static size_t utf8_length(const unsigned char *s)
{
    /* The second byte's range excludes overlong forms, surrogates and what lies beyond U+10FFFF. */
    unsigned char low = 0x80;
    unsigned char high = 0xbf;
    size_t n;
    if (s[0] < 0x80)
        return 1;
    if (s[0] >= 0xc2 && s[0] <= 0xdf)
        n = 2;
    else if (s[0] >= 0xe0 && s[0] <= 0xef)
        n = 3;
    else if (s[0] >= 0xf0 && s[0] <= 0xf4)
        n = 4;
    else
        return 0;
    if (s[0] == 0xe0)
        low = 0xa0;
    else if (s[0] == 0xed)
        high = 0x9f;
    else if (s[0] == 0xf0)
        low = 0x90;
    else if (s[0] == 0xf4)
        high = 0x8f;
    if (s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    }
    return n;
}

void leat_one_line(char *text)
{
    unsigned char *p = (unsigned char *)text;
    while (*p) {
        size_t n = utf8_length(p);
        bool control = (n == 1 && (*p < 0x20 || *p == 0x7f)) || (n == 2 && p[0] == 0xc2 && p[1] < 0xa0);
        if (n == 0)
            *p = '?';
        else if (control)
            memset(p, ' ', n);
        p += n ? n : 1;
    }
}

/* Ends a text that did not fit with "…", so that it does not look whole: at most n bytes, n at least 3. */
static void cut(char *text, size_t n)
{
    static const char mark[] = "…";
    size_t at = n - (sizeof mark - 1);
    while (at && ((unsigned char)text[at] & 0xc0) == 0x80) /* not within a character */
        at--;
    memcpy(text + at, mark, sizeof mark);
}

static void finish(struct leat_error *err, leat_status status, int os_error)
{
    leat_one_line(err->text);
    err->status = status;
    err->os_error = os_error;
    memset(err->reserved, 0, sizeof err->reserved);
}

leat_status leat_fail(struct leat_error *err, leat_status status, const char *format, ...)
{
    if (!err)
        return status;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    if (n >= (int)sizeof err->text)
        cut(err->text, sizeof err->text - 1);
    finish(err, status, 0);
    return status;
}

leat_status leat_fail_errno(struct leat_error *err, int os_error, const char *format, ...)
{
    leat_status status = leat_status_from_errno(os_error);
    if (status == LEAT_OK)
        status = LEAT_INTERNAL; /* errno was lost on the way: the failure must not be */
    if (!err)
        return status;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    char space[128];
    /* The GNU strerror_r returns the text, which need not be in the buffer. */
    const char *reason = strerror_r(os_error, space, sizeof space);
    /* Of a text too long the end goes, not the reason. */
    size_t room = sizeof err->text - strnlen(reason, sizeof space) - 3;
    if (n > (int)room)
        cut(err->text, room);
    size_t at = n < 0 ? 0 : strlen(err->text);
    snprintf(err->text + at, sizeof err->text - at, ": %s", reason);
    finish(err, status, os_error);
    return status;
}

void leat_error_settle(struct leat_error *err, leat_status rc)
{
    if (rc == LEAT_OK)
        *err = (struct leat_error){0};
}

leat_status leat_fail_context(struct leat_error *err, leat_status status, const char *format, ...)
{
    if (!err)
        return status;
    char joined[2 * sizeof err->text + 2] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(joined, sizeof err->text, format, args);
    va_end(args);
    size_t n = strlen(joined);
    snprintf(joined + n, sizeof joined - n, ": %s", err->text);
    n = strlen(joined);
    /* Of a text too long the middle goes: its end is the cause, and says what to do. */
    if (n >= sizeof err->text) {
        cut(joined, HEAD);
        size_t from = n - (sizeof err->text - 1 - HEAD);
        while (((unsigned char)joined[from] & 0xc0) == 0x80)
            from++;
        memmove(joined + strlen(joined), joined + from, n - from + 1);
    }
    memcpy(err->text, joined, strlen(joined) + 1);
    finish(err, status, err->os_error);
    return status;
}
