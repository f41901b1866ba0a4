/* What every unit test needs: cmocka with the headers it wants before it, tests that register themselves, and checks of
 * Leat's errors. All tests are one program: `unit base_url` runs those of test_base_url.c (unit.c). */
#ifndef LEAT_TESTS_UNIT_H
#define LEAT_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* One test. The tests of a file run in the order in which they are written there. */
struct unit_test {
    const char *file;
    int line;
    const char *name;
    void (*before)(void); /* NULL: nothing; a failed assertion in it fails the test */
    void (*run)(void);
    void (*after)(void); /* NULL: nothing; runs when the test has failed, too */
    struct unit_test *next;
};
void unit_add(struct unit_test *test);
void unit_add_group(const char *file, void (*before)(void), void (*after)(void));

/* TEST(the_promise) { … } */
#define TEST(test) TEST_WITH(NULL, NULL, test)
#define TEST_WITH(before_, after_, test)                                                                               \
    static void test(void);                                                                                            \
    __attribute__((constructor)) static void add_##test(void)                                                          \
    {                                                                                                                  \
        static struct unit_test t = {__FILE__, __LINE__, #test, before_, test, after_, NULL};                          \
        unit_add(&t);                                                                                                  \
    }                                                                                                                  \
    static void test(void)

/* At most once in a file: what runs before its first test, and after its last. Either may be NULL. */
#define TEST_GROUP(before_, after_)                                                                                    \
    __attribute__((constructor)) static void add_group(void)                                                           \
    {                                                                                                                  \
        unit_add_group(__FILE__, before_, after_);                                                                     \
    }                                                                                                                  \
    _Static_assert(1, "")

/* The i-th number after the file's name in the command line (`unit prep_pipeline 1000000`), or what it is otherwise. */
uint64_t unit_number(unsigned i, uint64_t otherwise);

/* Forgets keys, endpoints and proxies of the user who runs the tests: done before the first one. */
void unit_clean_environment(void);

/* The call succeeds; when it does not, the test says why. `err` is the struct the call filled in. */
#define assert_ok(call, err)                                                                                           \
    do {                                                                                                               \
        leat_status assert_ok_status = (call);                                                                         \
        if (assert_ok_status != LEAT_OK)                                                                               \
            fail_msg("%s: %s (%s)", #call, (err).text, leat_status_name(assert_ok_status));                            \
    } while (0)

/* The call fails with this status, says so in the record too, and its sentence holds `part`. */
#define assert_fails(call, err, expected, part)                                                                        \
    do {                                                                                                               \
        memset(&(err), 0, sizeof(err));                                                                                \
        leat_status assert_fails_status = (call);                                                                      \
        if (assert_fails_status != (expected))                                                                         \
            fail_msg("%s: %s, not %s: %s", #call, leat_status_name(assert_fails_status), leat_status_name(expected),   \
                     (err).text);                                                                                      \
        assert_int_equal((err).status, (expected));                                                                    \
        if (!strstr((err).text, (part)))                                                                               \
            fail_msg("%s: '%s' does not say '%s'", #call, (err).text, (part));                                         \
    } while (0)

#endif
