#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"

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

/* What was printed before an error comes before it. After Ctrl-C nobody waits for it any more: writing it could take
 * as long as its reader likes. */
static void settle_stdout(leat_status status)
{
    if (status == LEAT_CANCELLED)
        __fpurge(stdout);
    else
        fflush(stdout);
}

int leat_cli_fail(const struct leat_error *err)
{
    settle_stdout(err->status);
    fprintf(stderr, "leat: %s\n", err->text);
    return leat_cli_exit(err->status);
}

int leat_cli_failf(leat_status status, const char *format, ...)
{
    struct leat_error err = {.status = status};
    va_list args;
    va_start(args, format);
    vsnprintf(err.text, sizeof err.text, format, args);
    va_end(args);
    leat_one_line(err.text);
    return leat_cli_fail(&err);
}

int leat_cli_finish(void)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return LEAT_EXIT_OK;
    int e = errno ? errno : EIO; /* what could not be written is tried again by fflush: its reason is fresh */
    __fpurge(stdout);
    if (leat_cli_interrupted())
        return leat_cli_failf(LEAT_CANCELLED, "interrupted");
    if (e == EPIPE)
        return LEAT_EXIT_FAILURE; /* the reader left: `leat ls … | head` needs no message */
    return leat_cli_failf(leat_status_from_errno(e), "cannot write to standard output: %s", strerror(e));
}

void leat_cli_print_name(const char *name, bool terminal)
{
    char *safe = terminal ? strdup(name) : NULL;
    if (safe)
        leat_one_line(safe);
    fputs(safe ? safe : name, stdout);
    free(safe);
}

void leat_cli_json_name(json_t *line, const char *field, const char *name, size_t n)
{
    char hex_field[64];
    if (json_object_set_new(line, field, json_stringn(name, n)) == 0)
        return;
    char *hex = malloc(2 * n + 1);
    if (hex)
        leat_hex(name, n, hex);
    snprintf(hex_field, sizeof hex_field, "%s_hex", field);
    json_object_set_new(line, hex_field, json_string(hex ? hex : ""));
    free(hex);
}

static atomic_int interrupted; /* lock-free: set by a signal handler, read by any thread */
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "signal handlers must not lock");

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

static void catch_signal(int number)
{
    struct sigaction before;
    /* Without SA_RESTART: a write to a pipe that nobody reads must end too. The second signal ends the process. */
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN) /* as nohup and '&' want it */
        sigaction(number, &action, NULL);
}

void leat_cli_hold_streams(void)
{
    /* Of /dev/null the wrong way round: reading and writing go on failing, as they do where nothing is. */
    static const int flags[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", flags[fd]) < 0)
            return;
    }
}

void leat_cli_catch_signals(void)
{
    catch_signal(SIGINT);
    catch_signal(SIGTERM);
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error return, not a death */
}

bool leat_cli_interrupted(void)
{
    return interrupted;
}

void leat_cli_format_time(int64_t at_s, char out[LEAT_CLI_TIME])
{
    struct tm t;
    time_t at = (time_t)at_s;
    if (!at_s || !gmtime_r(&at, &t) || !strftime(out, LEAT_CLI_TIME, "%Y-%m-%dT%H:%M:%SZ", &t))
        memcpy(out, "-", 2);
}

leat_status leat_cli_write_file(const char *path, const struct leat_buf *text, struct leat_error *err)
{
    FILE *out = fopen(path, "w");
    if (!out)
        return leat_fail_errno(err, errno, "cannot write '%s'", path);
    size_t n = fwrite(text->data, 1, text->len, out);
    int wrong = ferror(out) ? errno : 0;
    if (fclose(out) != 0 && !wrong)
        wrong = errno;
    if (n != text->len || wrong)
        return leat_fail_errno(err, wrong ? wrong : EIO, "cannot write '%s'", path);
    return LEAT_OK;
}

leat_status leat_cli_print_json(json_t *root, unsigned digits, struct leat_error *err)
{
    char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(digits)) : NULL;
    json_decref(root);
    if (!text)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the answer");
    puts(text);
    free(text);
    return LEAT_OK;
}

static const struct leat_settings *running; /* written once, before the command has threads */

void leat_cli_run_with(const struct leat_settings *settings)
{
    running = settings;
}

bool leat_cli_said(const char *option)
{
    return running && leat_settings_said(running, option);
}
