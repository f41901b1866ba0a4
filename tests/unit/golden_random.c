/* Prints the golden values of docs/random.md. A test compiles it with different compilers and optimisations. */

#include <inttypes.h>
#include <stdio.h>

#include "base/random.h"

static void print_block(uint64_t key, uint64_t stream, uint64_t index)
{
    uint32_t b[4];
    leat_random_block(key, stream, index, b);
    printf("block %016" PRIx64 " %016" PRIx64 " %016" PRIx64 ": %08x %08x %08x %08x\n", key, stream, index, b[0], b[1],
           b[2], b[3]);
}

static void print_permutation(uint64_t key, uint64_t n)
{
    struct leat_permutation p = leat_permutation(key, n);
    uint64_t step = n > 8 ? n / 7 : 1;
    printf("permutation %016" PRIx64 " %" PRIu64 ":", key, n);
    for (uint64_t k = 0; k < 8 && k < n; k++)
        printf(" %" PRIu64, leat_permute(&p, k * step));
    printf("\n");
}

int main(void)
{
    print_block(0, 0, 0);
    print_block(UINT64_MAX, UINT64_MAX, UINT64_MAX);
    print_block(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88);
    print_block(1, 2, 3);

    printf("key order 0 0 -: %016" PRIx64 "\n", leat_key("order", 0, 0, NULL, 0));
    printf("key order 7 3 -: %016" PRIx64 "\n", leat_key("order", 7, 3, NULL, 0));
    printf("key augment 1 18446744073709551615 abc: %016" PRIx64 "\n", leat_key("augment", 1, UINT64_MAX, "abc", 3));

    uint64_t key = leat_key("order", 7, 3, NULL, 0);
    struct leat_rng r = leat_rng(key, 5);
    printf("u32:");
    for (int i = 0; i < 5; i++)
        printf(" %08x", leat_rng_u32(&r));
    printf("\nu64:");
    for (int i = 0; i < 3; i++)
        printf(" %016" PRIx64, leat_rng_u64(&r));
    printf("\nbelow:");
    static const uint64_t bounds[] = {1, 2, 6, 1000, 1000003, 0x8000000000000001, UINT64_MAX};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        printf(" %" PRIu64, leat_rng_below(&r, bounds[i]));
    printf("\nunit:");
    for (int i = 0; i < 3; i++)
        printf(" %.17g", leat_rng_unit(&r));

    printf("\nshuffle:");
    uint32_t v[16];
    for (uint32_t i = 0; i < 16; i++)
        v[i] = i;
    leat_shuffle_u32(key, 9, v, 16);
    for (uint32_t i = 0; i < 16; i++)
        printf(" %u", v[i]);
    printf("\n");

    static const uint64_t sizes[] = {1, 2, 6, 100, 256, 257, 1000, 65536, 1000003, 1000000000000, UINT64_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        print_permutation(key, sizes[i]);
    return 0;
}
