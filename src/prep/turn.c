#include "prep/turn.h"

#include <string.h>

struct leat_turning leat_turning_of(uint8_t orientation)
{
    static const struct leat_turning turns[9] = {
        [2] = {false, true, false}, [3] = {false, true, true}, [4] = {false, false, true}, [5] = {true, false, false},
        [6] = {true, false, true},  [7] = {true, true, true},  [8] = {true, true, false},
    };
    return turns[orientation];
}

typedef uint8_t bytes16 __attribute__((vector_size(16)));

static inline bytes16 load8(const uint8_t *p)
{
    typedef uint64_t two __attribute__((vector_size(16)));
    uint64_t low;
    memcpy(&low, p, 8);
    return (bytes16)(two){low, 0}; /* part of a vector written through memory would wait for it */
}

/* Units of 1, 2 and 4 bytes of two vectors in turn: from their lower and their upper halves. */
#define PAIRS(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define LOW2(a, b)  __builtin_shufflevector(a, b, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23)
#define HIGH2(a, b) __builtin_shufflevector(a, b, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31)
#define LOW4(a, b)  __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23)
#define HIGH4(a, b) __builtin_shufflevector(a, b, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31)

static inline void store_two(bytes16 v, uint8_t *first, uint8_t *second)
{
    memcpy(first, &v, 8);
    memcpy(second, (const uint8_t *)&v + 8, 8);
}

void leat_turn_rows(const uint8_t *columns, size_t stride, size_t n_padded, uint8_t *rows)
{
    for (size_t x = 0; x < n_padded; x += 8) {
        const uint8_t *c = columns + x * stride;
        bytes16 a = PAIRS(load8(c), load8(c + stride));
        bytes16 b = PAIRS(load8(c + 2 * stride), load8(c + 3 * stride));
        bytes16 d = PAIRS(load8(c + 4 * stride), load8(c + 5 * stride));
        bytes16 e = PAIRS(load8(c + 6 * stride), load8(c + 7 * stride));
        bytes16 low[2] = {LOW2(a, b), LOW2(d, e)};
        bytes16 high[2] = {HIGH2(a, b), HIGH2(d, e)};
        uint8_t *to = rows + x;
        store_two(LOW4(low[0], low[1]), to, to + n_padded);
        store_two(HIGH4(low[0], low[1]), to + 2 * n_padded, to + 3 * n_padded);
        store_two(LOW4(high[0], high[1]), to + 4 * n_padded, to + 5 * n_padded);
        store_two(HIGH4(high[0], high[1]), to + 6 * n_padded, to + 7 * n_padded);
    }
}
