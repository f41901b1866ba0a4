/* Leat's public C interface. Everything outside include/leat/ may change without notice. */
#ifndef LEAT_LEAT_H
#define LEAT_LEAT_H

#include "leat/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version, for example "0.1.0". */
LEAT_API const char *leat_version(void);

#ifdef __cplusplus
}
#endif
#endif
