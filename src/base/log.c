#include "base/log.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

/* The only mutable global of the library: a process has one log, and passing it through every call would
 * put it into every signature. Written once at the start, before threads. */
static struct {
    enum leat_log_level level;
    leat_log_sink *sink;
    void *user;
} the_log;

void leat_log_open(enum leat_log_level level, leat_log_sink *sink, void *user)
{
    the_log.level = level;
    the_log.sink = sink;
    the_log.user = user;
}

int leat_log_wants(enum leat_log_level level)
{
    return the_log.sink && level <= the_log.level;
}

void leat_log(enum leat_log_level level, const char *format, ...)
{
    if (!leat_log_wants(level))
        return;
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    leat_one_line(line);
    the_log.sink(level, line, the_log.user);
}

const char *leat_log_level_name(enum leat_log_level level)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    return (unsigned)level < 4 ? names[level] : "?";
}
