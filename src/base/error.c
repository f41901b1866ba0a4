#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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
    return (unsigned)status < LEAT_STATUS_COUNT ? names[status] : "unknown";
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

/* Messages are shown on one line of a terminal: bytes of a key or an answer must not move its cursor. */
static void one_line(char *text)
{
    for (char *p = text; *p; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = ' ';
    }
}

leat_status leat_fail(struct leat_error *err, leat_status status, const char *format, ...)
{
    if (!err)
        return status;
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    one_line(err->text);
    err->status = status;
    err->os_error = 0;
    return status;
}

leat_status leat_fail_errno(struct leat_error *err, int os_error, const char *format, ...)
{
    leat_status status = leat_status_from_errno(os_error);
    if (!err)
        return status;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof err->text) {
        char reason[128];
        /* The GNU strerror_r returns the text, which need not be in the buffer. */
        const char *text = strerror_r(os_error, reason, sizeof reason);
        snprintf(err->text + n, sizeof err->text - (size_t)n, ": %s", text);
    }
    one_line(err->text);
    err->status = status;
    err->os_error = os_error;
    return status;
}

leat_status leat_fail_context(struct leat_error *err, leat_status status, const char *format, ...)
{
    if (!err)
        return status;
    char before[sizeof err->text];
    char joined[sizeof err->text * 2 + 2];
    va_list args;
    va_start(args, format);
    vsnprintf(before, sizeof before, format, args);
    va_end(args);
    snprintf(joined, sizeof joined, "%s: %s", before, err->text);
    joined[sizeof err->text - 1] = '\0';
    memcpy(err->text, joined, sizeof err->text);
    one_line(err->text);
    err->status = status;
    return status;
}
