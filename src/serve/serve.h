/* A bucket in a box: a folder by the calls of S3, Google or Azure, with latency, limited bandwidth and faults on
 * request. docs/serve.md says what it does in full. */
#ifndef LEAT_SERVE_SERVE_H
#define LEAT_SERVE_SERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct leat_serve;

enum leat_serve_protocol { LEAT_SERVE_S3, LEAT_SERVE_GCS, LEAT_SERVE_AZURE };

/* Strings are borrowed until the server is open. Zeroed: no limits, no faults, no keys. */
struct leat_serve_options {
    const char *dir;
    enum leat_serve_protocol protocol;
    const char *bind; /* NULL: 127.0.0.1 */
    unsigned port;    /* 0: one that is free */
    const char *tls_cert_pem;
    const char *tls_key_pem;
    unsigned connections_max;
    unsigned idle_timeout_s;
    bool read_only;

    const char *access_key; /* NULL: anybody; else every request must be signed with the pair */
    const char *secret_key; /* of Azure an account and its key */
    const char *region;     /* NULL: any */
    bool region_redirect;   /* a wrong region is answered with 301 instead of 400 */
    int64_t clock_skew_s;   /* this server's clock is so far ahead */

    uint64_t latency_ns; /* before each answer */
    uint64_t bandwidth;  /* bytes a second in each direction, all connections together; 0: no limit */
    uint64_t connection_bandwidth;

    const char *faults;     /* as leat_serve_faults_parse reads them; NULL: none */
    uint64_t fault_after;   /* this many requests at first have no faults */
    uint64_t fault_count;   /* this many faults at most; 0: no limit */
    const char *fault_only; /* only requests whose key has this in it; NULL: all */
    uint64_t seed;
    uint64_t log_max; /* requests kept for /-/log; 0: 65536 */
};

leat_status leat_serve_open(const struct leat_serve_options *options, struct leat_serve **out, struct leat_error *err);
void leat_serve_close(struct leat_serve *s); /* breaks all connections; NULL is allowed */
const char *leat_serve_url(const struct leat_serve *s);

#endif
