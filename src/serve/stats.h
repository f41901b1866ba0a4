/* What was asked and answered: counters, and a log of the last requests. Thread-safe.
 *
 * An answer is counted before its first byte leaves, so a client that has it finds it counted; what a broken
 * connection kept from it is taken off again when it ends. */
#ifndef LEAT_SERVE_STATS_H
#define LEAT_SERVE_STATS_H

#include <stdint.h>

#include "base/buf.h"
#include "net/server.h"
#include "serve/key.h"

struct leat_serve_stats;

struct leat_serve_record {
    uint64_t number; /* set by `count` */
    int64_t time_ns; /* since 1970 */
    uint64_t took_ns;
    const char *call; /* constant strings: "GetObject" */
    const char *method;
    const char *fault; /* "": none. A constant string of the server's. */
    unsigned status;   /* 0: no answer */
    uint64_t sent;
    uint64_t received;
    const char *bucket;        /* copied; may be NULL */
    struct leat_serve_key key; /* copied */
    const char *range;         /* the header as sent; copied; may be NULL */
};

struct leat_serve_stats *leat_serve_stats_open(uint64_t log_max); /* NULL when memory runs out */
void leat_serve_stats_close(struct leat_serve_stats *s);          /* NULL is allowed */

/* Sets record->number. */
void leat_serve_stats_count(struct leat_serve_stats *s, struct leat_serve_record *record);

/* The request is over: `unsent` bytes of what was counted never left. */
void leat_serve_stats_end(struct leat_serve_stats *s, uint64_t number, uint64_t unsent, uint64_t took_ns);

/* JSON: one object; and the log's requests with a number above `after`, one object a line. */
bool leat_serve_stats_json(struct leat_serve_stats *s, struct leat_server_connections connections,
                           struct leat_buf *out);
bool leat_serve_stats_log(struct leat_serve_stats *s, uint64_t after, struct leat_buf *out);

void leat_serve_stats_reset(struct leat_serve_stats *s); /* counters and log; numbers go on */

#endif
