/* The log: one sink per process, none at first. Messages are single lines for people.
 * Failures are returned, not logged; the log is for what goes on: retries, redirects, warnings. */
#ifndef LEAT_BASE_LOG_H
#define LEAT_BASE_LOG_H

enum leat_log_level { LEAT_LOG_ERROR, LEAT_LOG_WARN, LEAT_LOG_INFO, LEAT_LOG_DEBUG };

/* Called with one finished line without a line break, from any thread. */
typedef void leat_log_sink(enum leat_log_level level, const char *line, void *user);

/* Sets the process's sink (NULL: silence). Call it before other threads exist. */
void leat_log_open(enum leat_log_level level, leat_log_sink *sink, void *user);

void leat_log(enum leat_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* True when a message of this level would be seen: guards costly arguments. */
int leat_log_wants(enum leat_log_level level);

const char *leat_log_level_name(enum leat_log_level level);

#endif
