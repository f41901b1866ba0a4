/* What fuzz targets share. A broken promise ends the program, which is what the fuzzer looks for. */
#ifndef LEAT_TESTS_FUZZ_H
#define LEAT_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PROMISE(what)                                                                                                  \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #what);                                         \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Keeps the compiler from leaving out the reads that went into a value. */
static inline void fuzz_use(uint64_t value)
{
    volatile uint64_t kept = value;
    (void)kept;
}

/* The input as a string in memory of exactly its size, so that reading past its end is seen. NULs end it early. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    PROMISE(text);
    memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

/* A failure says something, on one line. */
static inline void fuzz_check_error(leat_status rc, const struct leat_error *err)
{
    if (rc == LEAT_OK)
        return;
    PROMISE(err->status == rc);
    PROMISE(err->text[0]);
    PROMISE(strlen(err->text) < sizeof err->text);
    for (const char *p = err->text; *p; p++)
        PROMISE((unsigned char)*p >= 0x20 && *p != 0x7f);
}

#endif
