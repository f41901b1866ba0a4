/* What the commands share: exit statuses, messages, Ctrl-C. Each command is one file that defines one
 * struct leat_command; commands.h lists them. */
#ifndef LEAT_CLI_CLI_H
#define LEAT_CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/option.h"

/* Documented in leat(1); scripts rely on them. */
enum leat_exit {
    LEAT_EXIT_OK = 0,
    LEAT_EXIT_FAILURE = 1,     /* anything without a number of its own */
    LEAT_EXIT_USAGE = 2,       /* wrong options, arguments, settings, addresses */
    LEAT_EXIT_NOT_FOUND = 3,   /* no such object, bucket, file */
    LEAT_EXIT_DENIED = 4,      /* keys, permissions, certificates */
    LEAT_EXIT_UNAVAILABLE = 5, /* network, server, time-out: trying again later may help */
    LEAT_EXIT_CORRUPT = 6,     /* bytes that are not what they should be */
    LEAT_EXIT_NO_SPACE = 7,    /* disk, memory or a limit */
    LEAT_EXIT_INTERRUPTED = 130
};

int leat_cli_exit(leat_status status);

/* Prints "leat: TEXT" to stderr and returns the exit status that belongs to it. */
int leat_cli_fail(const struct leat_error *err);
int leat_cli_failf(leat_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Flushes stdout; a full disk or closed pipe behind it becomes a failure. Ends every command that prints. */
int leat_cli_finish(void);

/* Prints a key or path as it is; on a terminal without the control characters that would move its cursor. */
void leat_cli_print_name(const char *name, bool terminal);

/* Sets a field of a JSON object to a key or path. Those that are not UTF-8 are given in hexadecimal as FIELD_hex. */
void leat_cli_json_name(json_t *line, const char *field, const char *name, size_t n);

/* Replaces a file. */
leat_status leat_cli_write_file(const char *path, const struct leat_buf *text, struct leat_error *err);

/* Prints a JSON object, with this many digits, and lets go of it. */
leat_status leat_cli_print_json(json_t *root, unsigned digits, struct leat_error *err);

/* Seconds since 1970 as 2026-11-16T03:02:33Z; "-" for 0, which means not known. */
#define LEAT_CLI_TIME 32
void leat_cli_format_time(int64_t at_s, char out[LEAT_CLI_TIME]);

/* Called first: where a standard stream is closed, keeps its number from going to a file or connection of ours, into
 * which messages would then be written. */
void leat_cli_hold_streams(void);

/* From here on Ctrl-C and SIGTERM set a flag instead of ending the process; a second one ends it. */
void leat_cli_catch_signals(void);
bool leat_cli_interrupted(void);

/* The settings of the command that runs, and whether an option was given on its command line. */
void leat_cli_run_with(const struct leat_settings *settings);
bool leat_cli_said(const char *option);

#endif
