/* Decoding bodies sent as "aws-chunked": chunks with their own signatures, or unsigned with a checksum after them. */
#ifndef LEAT_SERVE_CHUNKED_H
#define LEAT_SERVE_CHUNKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "serve/error.h"
#include "store/sign.h"

/* What the chunk signatures are made from. */
struct leat_serve_chunk_key {
    uint8_t key[LEAT_SHA256_SIZE];
    char date[LEAT_SIGN_DATE];
    char scope[200];                     /* "20130524/us-east-1/s3/aws4_request" */
    char signature[LEAT_SIGN_SIGNATURE]; /* of the request: the first chunk's predecessor */
};

struct leat_serve_chunked;

struct leat_serve_chunked_options {
    bool has_signatures; /* each chunk carries one */
    bool has_trailers;
    const struct leat_serve_chunk_key *key; /* copied; NULL: signatures are read over */
    void (*data)(const void *data, size_t n, void *user);
    void (*trailer)(const char *name, const char *value, void *user);
    void *user;
};

struct leat_serve_chunked *leat_serve_chunked_open(const struct leat_serve_chunked_options *options); /* or NULL */
void leat_serve_chunked_close(struct leat_serve_chunked *c); /* NULL is allowed */

/* Any cut of the body into pieces gives the same. False: not a body of this kind, or a wrong signature. */
bool leat_serve_chunked_add(struct leat_serve_chunked *c, const char *data, size_t n, enum leat_serve_code *why);

bool leat_serve_chunked_done(const struct leat_serve_chunked *c);     /* the end of the body was in it */
uint64_t leat_serve_chunked_size(const struct leat_serve_chunked *c); /* bytes decoded so far */

#endif
