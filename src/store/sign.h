/* AWS Signature Version 4: making signatures (client) and the pieces to check them (server).
 * Everything is given raw and unencoded; the one encoder for paths and queries is here, so that what is
 * signed and what is sent cannot differ. */
#ifndef LEAT_STORE_SIGN_H
#define LEAT_STORE_SIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"

struct leat_sign_pair {
    const char *name;
    const char *value;
};

struct leat_sign_keys {
    const char *access_key;
    const char *secret_key;
    const char *session_token; /* NULL or "": none */
};

#define LEAT_SIGN_UNSIGNED "UNSIGNED-PAYLOAD"

struct leat_sign_request {
    const char *method;                 /* "GET" */
    const char *host;                   /* as the Host header says it, with a port that is not the default */
    const char *path;                   /* raw, begins with '/': "/bucket/a key" */
    const struct leat_sign_pair *query; /* raw, any order */
    size_t query_n;
    const struct leat_sign_pair *headers; /* further headers to sign, any order and case; not Host, not x-amz-date,
                                             x-amz-content-sha256 and x-amz-security-token, which are added */
    size_t headers_n;
    const char *payload_hash; /* hex SHA-256 of the body, or LEAT_SIGN_UNSIGNED */
    const char *region;       /* a set of them where it is asymmetric: "*" */
    const char *service;      /* "s3" */
    bool asymmetric;          /* SigV4A: good in all regions of the set */
    bool google;              /* GOOG4-HMAC-SHA256 instead: the same with other names, x-goog-date and so on */
    const char *token_name;   /* of the header with the session's token; NULL: x-amz-security-token */
    int64_t time_s;           /* wall clock, corrected for the server's */
};

#define LEAT_SIGN_DATE 17 /* "20130524T000000Z" and a NUL */

/* Writes the x-amz-date header's value and appends the Authorization header's value. */
leat_status leat_sign(const struct leat_sign_keys *keys, const struct leat_sign_request *request,
                      char date[LEAT_SIGN_DATE], struct leat_buf *authorization, struct leat_error *err);

/* The canonical request alone: what a server compares and tests look at. session_token as in leat_sign. */
leat_status leat_sign_canonical(const struct leat_sign_request *request, const char *date, const char *session_token,
                                struct leat_buf *out, struct leat_error *err);

/* Percent-encodes by SigV4's rules (unreserved A-Z a-z 0-9 - . _ ~; upper-case hex); '/' is kept for paths. */
bool leat_sign_encode(struct leat_buf *out, const char *text, size_t n, bool keep_slash);

/* "a=1&b=x%20y" from raw pairs in canonical order: the query to send. */
bool leat_sign_query(struct leat_buf *out, const struct leat_sign_pair *query, size_t n);

/* The server's side: a request as it arrived. */
struct leat_sign_received {
    const char *method;
    const char *path;  /* as sent, up to '?' */
    const char *query; /* as sent, after '?' */
    const char *skip;  /* name of the argument that is not signed, because it is the signature; NULL: none */
    const struct leat_sign_pair *headers; /* those that were signed, in the order of signed_headers; a name that
                                             was sent more than once stands there as often */
    size_t headers_n;
    const char *signed_headers; /* "host;x-amz-date", as the client listed them */
    const char *payload_hash;
};

/* Its canonical request, whichever way the client escaped what need not be. LEAT_INVALID for broken escapes. */
leat_status leat_sign_canonical_received(const struct leat_sign_received *request, struct leat_buf *out,
                                         struct leat_error *err);

#define LEAT_SIGN_SIGNATURE (2 * LEAT_SHA256_SIZE + 1) /* hexadecimal and a NUL */

/* The signature that it must have. google: as in leat_sign_request. */
leat_status leat_sign_received(const struct leat_sign_received *request, bool google, const char *secret_key,
                               const char *date, const char *region, const char *service, char out[LEAT_SIGN_SIGNATURE],
                               struct leat_error *err);

/* The key of one day, region and service. date: at least its first eight digits. */
leat_status leat_sign_key(const char *secret_key, const char *date, const char *region, const char *service,
                          uint8_t out[LEAT_SHA256_SIZE], struct leat_error *err);

/* The signature over a canonical request. */
leat_status leat_sign_canonical_signature(const uint8_t key[LEAT_SHA256_SIZE], const char *date, const char *region,
                                          const char *service, const char *canonical, size_t canonical_n,
                                          char out[LEAT_SIGN_SIGNATURE], struct leat_error *err);

#endif
