/* Where data is: the one parser for dataset and object addresses.
 *
 *   s3://bucket/key          file:///absolute/path      /absolute or relative path
 *   gs://bucket/key
 *   az://account/container/key, also as abfss://container@account.dfs.core.windows.net/key
 *   hf://datasets/owner/name[@revision]/path
 *   http://host[:port]/path  https://host[:port]/path?query
 *
 * Keys and paths are taken as written, byte for byte: nothing is decoded, "..", spaces and UTF-8 included. */
#ifndef LEAT_BASE_URL_H
#define LEAT_BASE_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

enum leat_scheme {
    LEAT_SCHEME_FILE,
    LEAT_SCHEME_S3,
    LEAT_SCHEME_GS,
    LEAT_SCHEME_AZ,
    LEAT_SCHEME_HF,
    LEAT_SCHEME_HTTP,
    LEAT_SCHEME_HTTPS
};

struct leat_url {
    enum leat_scheme scheme;
    char *host;  /* s3, gs: the bucket; az: account/container; hf: "datasets/owner/name@revision"; http: host with its
                    port, as written; file: "" */
    char *path;  /* s3, gs, az, hf: the key without a leading slash, may be ""; http: "/path" without query; file: the
                    path */
    char *query; /* http: after the '?', else "" */
};

/* *out is set on success only and freed with leat_url_free. */
leat_status leat_url_parse(const char *text, struct leat_url *out, struct leat_error *err);
void leat_url_free(struct leat_url *url); /* NULL and zeroed ones are allowed */
const char *leat_scheme_name(enum leat_scheme scheme);

/* Splits "host", "host:port", "[v6]:port". *port is 0 when none is given. False when malformed. */
bool leat_url_split_host(const char *text, char *host, size_t host_size, unsigned *port);

/* Appends what percent-encoded text stands for; with `plus`, '+' is a space. False when it is malformed or the buffer
 * is full. */
bool leat_url_decode(struct leat_buf *out, const char *text, size_t n, bool plus);

#endif
