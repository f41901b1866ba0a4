#include "base/copy.h"
#include "unit.h"

#define GUARD 80

TEST(every_length_at_every_alignment_is_copied_and_nothing_else)
{
    enum { SIZE = 5000 };
    static uint8_t from[SIZE + 64];
    static uint8_t to[SIZE + 64 + 2 * GUARD];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)(i * 7 + i / 256 + 1);
    for (size_t n = 0; n <= SIZE; n += n < 1200 ? 1 : 97) {
        size_t shift = n % 64;
        size_t from_shift = n / 64 % 64;
        memset(to, 0xee, sizeof to);
        leat_copy_past_caches(to + GUARD + shift, from + from_shift, n);
        assert_memory_equal(to + GUARD + shift, from + from_shift, n);
        for (size_t i = 0; i < GUARD; i++) {
            assert_int_equal(to[shift + i], 0xee);
            assert_int_equal(to[GUARD + shift + n + i], 0xee);
        }
    }
}
