/* Leat's public C interface. Everything outside include/leat/ may change without notice. */
#ifndef LEAT_LEAT_H
#define LEAT_LEAT_H

#include <stdint.h>

#include "leat/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version, for example "0.1.0". */
LEAT_API const char *leat_version(void);

/* Bytes of "512MiB" or "100gb", nanoseconds of "50ms" or "24h". `what` names the setting in the error. */
LEAT_API leat_status leat_text_size(const char *text, const char *what, uint64_t *out, struct leat_error *err);
LEAT_API leat_status leat_text_duration(const char *text, const char *what, uint64_t *out, struct leat_error *err);

#ifdef __cplusplus
}
#endif
#endif
