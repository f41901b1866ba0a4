/* Numbers people write: the one parser for each kind, and the one way to print it back. Sizes, durations and rates
 * are exact, rounded to whole units, and below 2^63.
 * Every parser takes the whole text or refuses it; `what` names the setting in the error. */
#ifndef LEAT_BASE_PARSE_H
#define LEAT_BASE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

leat_status leat_parse_u64(const char *text, const char *what, uint64_t *out, struct leat_error *err);
leat_status leat_parse_double(const char *text, const char *what, double *out, struct leat_error *err); /* finite */

/* Bytes: "4096", "8MiB", "1.5 GiB", "100gb" (powers of 1000), "64k" (a bare letter is a power of 1024). */
leat_status leat_parse_size(const char *text, const char *what, uint64_t *out, struct leat_error *err);

/* Nanoseconds: "50ms", "1.5s", "2m", "24h", "7d", "250us", "10ns"; a bare number is seconds. */
leat_status leat_parse_duration(const char *text, const char *what, uint64_t *out, struct leat_error *err);

/* Bytes a second: a size with or without "/s" ("400MB/s", "25MBps", "25mb"), or bits ("10Gbit/s", "100Mbps").
 * "10Gb/s" is refused: half of those who write it mean bits, the other half bytes. */
leat_status leat_parse_rate(const char *text, const char *what, uint64_t *out, struct leat_error *err);

/* Dollars: "500usd", "$12.50", "500"; never negative. */
leat_status leat_parse_usd(const char *text, const char *what, double *out, struct leat_error *err);

/* "1", "true", "yes", "on", or "0", "false", "no", "off", "". */
leat_status leat_parse_flag(const char *text, const char *what, bool *out, struct leat_error *err);

/* Where to listen: "127.0.0.1:9100", "[::1]:9100", or a port alone, which is of 127.0.0.1. Addresses are numbers. */
#define LEAT_LISTEN_ADDRESS 64
leat_status leat_parse_listen(const char *text, const char *what, char address[LEAT_LISTEN_ADDRESS], unsigned *port,
                              struct leat_error *err);

#define LEAT_FORMAT_SIZE 32

/* "8 MiB", "1.21 GiB"; "50 ms", "1 h 5 min". They return out. */
char *leat_format_size(uint64_t bytes, char out[LEAT_FORMAT_SIZE]);
char *leat_format_rate(double bytes_per_s, char out[LEAT_FORMAT_SIZE]); /* decimal, as network people count */
char *leat_format_duration(uint64_t ns, char out[LEAT_FORMAT_SIZE]);

#endif
