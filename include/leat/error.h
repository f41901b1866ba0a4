/* Status codes and the error record that every fallible call of Leat fills in. */
#ifndef LEAT_ERROR_H
#define LEAT_ERROR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LEAT_API __attribute__((visibility("default")))
#else
#define LEAT_API
#endif

/* The result of a call. It has 32 bits, whatever the compiler makes of enums. */
typedef int32_t leat_status;

/* Its values. They never change; new ones are added at the end, so a program must expect values that it does not
 * know. */
enum leat_status_code {
    LEAT_OK = 0,
    LEAT_INVALID,     /* an argument, setting or request that cannot work */
    LEAT_NOT_FOUND,   /* no such object, bucket, file or sample */
    LEAT_EXISTS,      /* something is already there and must not be replaced */
    LEAT_DENIED,      /* no permission: keys, bucket policy, file mode */
    LEAT_CHANGED,     /* an object is no longer the one that was named (ETag) */
    LEAT_CORRUPT,     /* bytes that do not match their checksum or format */
    LEAT_NETWORK,     /* connection, name resolution, broken transfer */
    LEAT_TLS,         /* certificate or TLS handshake refused */
    LEAT_SERVER,      /* the other side answered with a failure of its own */
    LEAT_THROTTLED,   /* the other side asked us to slow down */
    LEAT_TIMEOUT,     /* a deadline or inactivity limit passed */
    LEAT_CANCELLED,   /* the caller or Ctrl-C asked for it */
    LEAT_IO,          /* local disk or file system */
    LEAT_NO_SPACE,    /* disk or quota full */
    LEAT_NO_MEMORY,   /* an allocation failed */
    LEAT_LIMIT,       /* a limit of Leat's own was reached */
    LEAT_BUSY,        /* someone else holds it */
    LEAT_VERSION,     /* made by, or speaking to, an incompatible version */
    LEAT_UNSUPPORTED, /* understood, but not possible here */
    LEAT_INTERNAL     /* a fault in Leat itself */
};

/* Owned by the caller, filled in on failure only. Every function that takes one also accepts NULL.
 *
 * Unlike the structs of loader.h it does not begin with its size: it is only written, so it needs no preparation, and
 * it always has 576 bytes. Later releases use bytes that are zero today. */
struct leat_error {
    leat_status status;
    int32_t os_error;     /* the errno that caused it, or 0 */
    uint64_t reserved[7]; /* 0 */
    char text[512];       /* one sentence for a person, no line break, no secrets */
};

/* A short fixed name such as "not found"; never NULL. */
LEAT_API const char *leat_status_name(leat_status status);

#ifdef __cplusplus
}
#endif
#endif
