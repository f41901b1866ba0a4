/* What fuzz targets share. A broken promise ends the program, which is what the fuzzer looks for. */
#ifndef LEAT_TESTS_FUZZ_H
#define LEAT_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* A target: FUZZ(url) { … } is called with `data` and `size`. With libFuzzer it is a program of its own; otherwise it
 * is one of the program in fuzz.c. */
struct fuzz_target {
    const char *name;
    void (*run)(const uint8_t *data, size_t size);
    size_t (*mutate)(uint8_t *data, size_t size, size_t max, unsigned seed); /* NULL: LLVMFuzzerMutate() */
    struct fuzz_target *next;
};
void fuzz_add(struct fuzz_target *target);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max); /* libFuzzer's, or that of fuzz.c */

#ifdef LIBFUZZER
#define FUZZ(target)                                                                                                   \
    static void fuzz_##target(const uint8_t *data, size_t size);                                                       \
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)                                                       \
    {                                                                                                                  \
        fuzz_##target(data, size);                                                                                     \
        return 0;                                                                                                      \
    }                                                                                                                  \
    static void fuzz_##target(const uint8_t *data, size_t size)
/* … whose inputs are mutated by a function of its own. */
#define FUZZ_MUTATED(target, mutator)                                                                                  \
    size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)                              \
    {                                                                                                                  \
        return mutator(data, size, max, seed);                                                                         \
    }                                                                                                                  \
    FUZZ(target)
#else
#define FUZZ(target) FUZZ_MUTATED(target, NULL)
#define FUZZ_MUTATED(target, mutator)                                                                                  \
    static void fuzz_##target(const uint8_t *data, size_t size);                                                       \
    __attribute__((constructor)) static void fuzz_add_##target(void)                                                   \
    {                                                                                                                  \
        static struct fuzz_target t = {#target, fuzz_##target, mutator, NULL};                                         \
        fuzz_add(&t);                                                                                                  \
    }                                                                                                                  \
    static void fuzz_##target(const uint8_t *data, size_t size)
#endif

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
