#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int leat_cli_exit(leat_status status)
{
    switch (status) {
    case LEAT_OK:
        return LEAT_EXIT_OK;
    case LEAT_INVALID:
    case LEAT_UNSUPPORTED:
        return LEAT_EXIT_USAGE;
    case LEAT_NOT_FOUND:
        return LEAT_EXIT_NOT_FOUND;
    case LEAT_DENIED:
    case LEAT_TLS:
        return LEAT_EXIT_DENIED;
    case LEAT_NETWORK:
    case LEAT_SERVER:
    case LEAT_THROTTLED:
    case LEAT_TIMEOUT:
    case LEAT_BUSY:
        return LEAT_EXIT_UNAVAILABLE;
    case LEAT_CORRUPT:
    case LEAT_CHANGED:
        return LEAT_EXIT_CORRUPT;
    case LEAT_NO_SPACE:
    case LEAT_NO_MEMORY:
    case LEAT_LIMIT:
        return LEAT_EXIT_NO_SPACE;
    case LEAT_CANCELLED:
        return LEAT_EXIT_INTERRUPTED;
    default:
        return LEAT_EXIT_FAILURE;
    }
}

int leat_cli_fail(const struct leat_error *err)
{
    fflush(stdout);
    fprintf(stderr, "leat: %s\n", err->text);
    return leat_cli_exit(err->status);
}

int leat_cli_failf(leat_status status, const char *format, ...)
{
    fflush(stdout);
    va_list args;
    va_start(args, format);
    fputs("leat: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return leat_cli_exit(status);
}

int leat_cli_finish(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return LEAT_EXIT_OK;
    if (errno == EPIPE)
        return LEAT_EXIT_FAILURE; /* the reader left: `leat ls … | head` needs no message */
    return leat_cli_failf(leat_status_from_errno(errno), "cannot write to standard output: %s", strerror(errno));
}

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    interrupted = 1;
    signal(number, SIG_DFL); /* the second one ends the process */
}

void leat_cli_catch_signals(void)
{
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error return, not a death */
}

bool leat_cli_interrupted(void)
{
    return interrupted;
}
