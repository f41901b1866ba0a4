/* What every unit test needs: cmocka with the headers it wants before it, and checks of Leat's errors. */
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
