/* What a loader says of an output whose field is not a picture or a sound: "dtype=int32 default=-1",
 * "pad=512 value=-100 cut". Words to a struct; which of them a kind has, its row says. */
#ifndef LEAT_AGENT_ASK_H
#define LEAT_AGENT_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/kind.h"
#include "leat/loader.h"

struct leat_ask {
    uint32_t dtype; /* 0: not said */
    uint32_t pad_n; /* 0: not said */
    uint32_t pad[LEAT_DIMS_MAX];
    const char *value; /* of the padding, a number in `value_n` letters; NULL: not said */
    size_t value_n;
    bool cut;             /* what is longer than the padding is cut off, else it is an error */
    const char *fallback; /* for samples that lack the field; NULL: not said. Borrowed, up to its NUL */
};

leat_status leat_ask_read(const struct leat_output *output, const struct leat_output_kind_row *row,
                          struct leat_ask *out, struct leat_error *err);

/* A number as JSON has them, or nan, inf, -inf, in memory as the dtype has it: bytes of `to`. LEAT_INVALID when it is
 * none, or does not fit. */
leat_status leat_ask_number(const char *text, size_t n, uint32_t dtype, uint8_t to[8], struct leat_error *err);

/* The same for a number that is known. False: it does not fit. */
bool leat_ask_put_int(int64_t number, uint32_t dtype, uint8_t to[8]);
void leat_ask_put_real(double number, uint32_t dtype, uint8_t to[8]); /* of a float type */

#endif
