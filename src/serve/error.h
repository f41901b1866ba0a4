/* The errors: code, status and sentence, as each protocol has them. */
#ifndef LEAT_SERVE_ERROR_H
#define LEAT_SERVE_ERROR_H

#include "serve/serve.h"

enum leat_serve_code {
    LEAT_SERVE_ACCESS_DENIED,
    LEAT_SERVE_ALREADY_EXISTS,
    LEAT_SERVE_AUTHORIZATION_HEADER_MALFORMED,
    LEAT_SERVE_BAD_DIGEST,
    LEAT_SERVE_ENTITY_TOO_LARGE,
    LEAT_SERVE_ENTITY_TOO_SMALL,
    LEAT_SERVE_EXPIRED_TOKEN,
    LEAT_SERVE_INCOMPLETE_BODY,
    LEAT_SERVE_INTERNAL_ERROR,
    LEAT_SERVE_INVALID_ACCESS_KEY_ID,
    LEAT_SERVE_INVALID_ARGUMENT,
    LEAT_SERVE_INVALID_DIGEST,
    LEAT_SERVE_INVALID_PART,
    LEAT_SERVE_INVALID_PART_ORDER,
    LEAT_SERVE_INVALID_RANGE,
    LEAT_SERVE_INVALID_REQUEST,
    LEAT_SERVE_INVALID_URI,
    LEAT_SERVE_KEY_TOO_LONG,
    LEAT_SERVE_MALFORMED_XML,
    LEAT_SERVE_METHOD_NOT_ALLOWED,
    LEAT_SERVE_NO_SPACE,
    LEAT_SERVE_NO_SUCH_BUCKET,
    LEAT_SERVE_NO_SUCH_KEY,
    LEAT_SERVE_NO_SUCH_UPLOAD,
    LEAT_SERVE_NOT_IMPLEMENTED,
    LEAT_SERVE_PERMANENT_REDIRECT,
    LEAT_SERVE_PRECONDITION_FAILED,
    LEAT_SERVE_REQUEST_TIME_TOO_SKEWED,
    LEAT_SERVE_REQUEST_TIMEOUT,
    LEAT_SERVE_SIGNATURE_DOES_NOT_MATCH,
    LEAT_SERVE_SLOW_DOWN,
    LEAT_SERVE_TEMPORARY_REDIRECT,
    LEAT_SERVE_CONTENT_SHA256_MISMATCH,
    LEAT_SERVE_CODES
};

const char *leat_serve_code_name(enum leat_serve_protocol protocol, enum leat_serve_code code);
unsigned leat_serve_code_status(enum leat_serve_protocol protocol, enum leat_serve_code code);
const char *leat_serve_code_message(enum leat_serve_code code);

/* The error that would be sent with this status. */
enum leat_serve_code leat_serve_code_for(unsigned status);

#endif
