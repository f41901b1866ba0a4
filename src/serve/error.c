#include "serve/error.h"

#include <stddef.h>

static const struct {
    const char *name;
    unsigned status;
    const char *message;
} codes[LEAT_SERVE_CODES] = {
    [LEAT_SERVE_ACCESS_DENIED] = {"AccessDenied", 403, "Access denied."},
    [LEAT_SERVE_ALREADY_EXISTS] = {"PreconditionFailed", 412, "It exists already."},
    [LEAT_SERVE_AUTHORIZATION_HEADER_MALFORMED] = {"AuthorizationHeaderMalformed", 400,
                                                   "The Authorization header is malformed."},
    [LEAT_SERVE_BAD_DIGEST] = {"BadDigest", 400, "The checksum given does not match the content received."},
    [LEAT_SERVE_ENTITY_TOO_LARGE] = {"EntityTooLarge", 400, "The object is larger than the largest allowed."},
    [LEAT_SERVE_ENTITY_TOO_SMALL] = {"EntityTooSmall", 400, "A part other than the last is smaller than 5 MiB."},
    [LEAT_SERVE_EXPIRED_TOKEN] = {"ExpiredToken", 400, "The session token has expired."},
    [LEAT_SERVE_INCOMPLETE_BODY] = {"IncompleteBody", 400, "The body is not as long as its headers said."},
    [LEAT_SERVE_INTERNAL_ERROR] = {"InternalError", 500, "We encountered an internal error. Please try again."},
    [LEAT_SERVE_INVALID_ACCESS_KEY_ID] = {"InvalidAccessKeyId", 403, "The access key is not known here."},
    [LEAT_SERVE_INVALID_ARGUMENT] = {"InvalidArgument", 400, "An argument is not valid."},
    [LEAT_SERVE_INVALID_DIGEST] = {"InvalidDigest", 400, "The Content-MD5 given is not valid."},
    [LEAT_SERVE_INVALID_PART] = {"InvalidPart", 400, "A part is not there, or has another ETag."},
    [LEAT_SERVE_INVALID_PART_ORDER] = {"InvalidPartOrder", 400, "The parts are not in ascending order."},
    [LEAT_SERVE_INVALID_RANGE] = {"InvalidRange", 416, "The range lies outside the object."},
    [LEAT_SERVE_INVALID_REQUEST] = {"InvalidRequest", 400, "The request is not valid."},
    [LEAT_SERVE_INVALID_URI] = {"InvalidURI", 400, "The path or query cannot be decoded."},
    [LEAT_SERVE_KEY_TOO_LONG] = {"KeyTooLongError", 400, "The key is longer than 1024 bytes."},
    [LEAT_SERVE_MALFORMED_XML] = {"MalformedXML", 400, "The XML sent is not well-formed or not what was expected."},
    [LEAT_SERVE_METHOD_NOT_ALLOWED] = {"MethodNotAllowed", 405, "This method is not allowed here."},
    [LEAT_SERVE_NO_SPACE] = {"InsufficientStorage", 507, "There is no space left for the object."},
    [LEAT_SERVE_NO_SUCH_BUCKET] = {"NoSuchBucket", 404, "There is no such bucket."},
    [LEAT_SERVE_NO_SUCH_KEY] = {"NoSuchKey", 404, "There is no such key."},
    [LEAT_SERVE_NO_SUCH_UPLOAD] = {"NoSuchUpload", 404, "There is no such upload, or it was completed or aborted."},
    [LEAT_SERVE_NOT_IMPLEMENTED] = {"NotImplemented", 501, "This call is not implemented here."},
    [LEAT_SERVE_PERMANENT_REDIRECT] = {"PermanentRedirect", 301, "The bucket is in another region."},
    [LEAT_SERVE_PRECONDITION_FAILED] = {"PreconditionFailed", 412, "A precondition does not hold."},
    [LEAT_SERVE_REQUEST_TIME_TOO_SKEWED] = {"RequestTimeTooSkewed", 403,
                                            "The request's time and the server's are too far apart."},
    [LEAT_SERVE_REQUEST_TIMEOUT] = {"RequestTimeout", 400, "The connection was idle for too long."},
    [LEAT_SERVE_SIGNATURE_DOES_NOT_MATCH] = {"SignatureDoesNotMatch", 403,
                                             "The signature is not the one calculated here."},
    [LEAT_SERVE_SLOW_DOWN] = {"SlowDown", 503, "Please reduce your request rate."},
    [LEAT_SERVE_TEMPORARY_REDIRECT] = {"TemporaryRedirect", 307, "Please send this request to another address."},
    [LEAT_SERVE_CONTENT_SHA256_MISMATCH] = {"XAmzContentSHA256Mismatch", 400,
                                            "The x-amz-content-sha256 given is not that of the content received."},
};

/* What the others call differently. */
static const struct other {
    enum leat_serve_code code;
    const char *name;
    unsigned status;
} google[] =
    {
        {LEAT_SERVE_EXPIRED_TOKEN, "AuthenticationRequired", 401},
        {LEAT_SERVE_INVALID_ACCESS_KEY_ID, "AuthenticationRequired", 401},
},
  azure[] = {
      {LEAT_SERVE_ACCESS_DENIED, "AuthorizationPermissionMismatch", 403},
      {LEAT_SERVE_ALREADY_EXISTS, "BlobAlreadyExists", 409},
      {LEAT_SERVE_BAD_DIGEST, "Md5Mismatch", 400},
      {LEAT_SERVE_ENTITY_TOO_LARGE, "RequestBodyTooLarge", 413},
      {LEAT_SERVE_EXPIRED_TOKEN, "InvalidAuthenticationInfo", 401},
      {LEAT_SERVE_INVALID_ACCESS_KEY_ID, "AuthenticationFailed", 403},
      {LEAT_SERVE_INVALID_ARGUMENT, "InvalidQueryParameterValue", 400},
      {LEAT_SERVE_INVALID_DIGEST, "InvalidMd5", 400},
      {LEAT_SERVE_INVALID_PART, "InvalidBlockList", 400},
      {LEAT_SERVE_INVALID_REQUEST, "InvalidHeaderValue", 400},
      {LEAT_SERVE_INVALID_URI, "InvalidUri", 400},
      {LEAT_SERVE_KEY_TOO_LONG, "OutOfRangeInput", 400},
      {LEAT_SERVE_MALFORMED_XML, "InvalidXmlDocument", 400},
      {LEAT_SERVE_METHOD_NOT_ALLOWED, "UnsupportedHttpVerb", 405},
      {LEAT_SERVE_NO_SUCH_BUCKET, "ContainerNotFound", 404},
      {LEAT_SERVE_NO_SUCH_KEY, "BlobNotFound", 404},
      {LEAT_SERVE_PRECONDITION_FAILED, "ConditionNotMet", 412},
      {LEAT_SERVE_REQUEST_TIME_TOO_SKEWED, "AuthenticationFailed", 403},
      {LEAT_SERVE_REQUEST_TIMEOUT, "OperationTimedOut", 500},
      {LEAT_SERVE_SIGNATURE_DOES_NOT_MATCH, "AuthenticationFailed", 403},
      {LEAT_SERVE_SLOW_DOWN, "ServerBusy", 503},
};

static const struct other *other_of(enum leat_serve_protocol protocol, enum leat_serve_code code)
{
    const struct other *list = protocol == LEAT_SERVE_GCS ? google : azure;
    size_t n = protocol == LEAT_SERVE_GCS     ? sizeof google / sizeof *google
               : protocol == LEAT_SERVE_AZURE ? sizeof azure / sizeof *azure
                                              : 0;
    for (size_t i = 0; i < n; i++) {
        if (list[i].code == code)
            return &list[i];
    }
    return NULL;
}

const char *leat_serve_code_name(enum leat_serve_protocol protocol, enum leat_serve_code code)
{
    const struct other *o = other_of(protocol, code);
    return o ? o->name : codes[code].name;
}

unsigned leat_serve_code_status(enum leat_serve_protocol protocol, enum leat_serve_code code)
{
    const struct other *o = other_of(protocol, code);
    return o ? o->status : codes[code].status;
}

const char *leat_serve_code_message(enum leat_serve_code code)
{
    return codes[code].message;
}

enum leat_serve_code leat_serve_code_for(unsigned status)
{
    static const enum leat_serve_code usual[] = {
        LEAT_SERVE_INVALID_REQUEST,    LEAT_SERVE_ACCESS_DENIED,   LEAT_SERVE_NO_SUCH_KEY,
        LEAT_SERVE_METHOD_NOT_ALLOWED, LEAT_SERVE_REQUEST_TIMEOUT, LEAT_SERVE_PRECONDITION_FAILED,
        LEAT_SERVE_INVALID_RANGE,      LEAT_SERVE_NOT_IMPLEMENTED, LEAT_SERVE_SLOW_DOWN,
        LEAT_SERVE_NO_SPACE,
    };
    if (status == 429)
        return LEAT_SERVE_SLOW_DOWN;
    if (status == 408)
        return LEAT_SERVE_REQUEST_TIMEOUT;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        if (codes[usual[i]].status == status)
            return usual[i];
    }
    return status < 500 ? LEAT_SERVE_INVALID_REQUEST : LEAT_SERVE_INTERNAL_ERROR;
}
