/* Any bytes as a snapshot's root: everything it points to lies inside it. */
#include "base/hash.h"
#include "dataset/root.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct leat_root r;
    struct leat_error err;
    uint8_t *copy = malloc(n ? n : 1); /* aligned, as a root must be */
    if (!copy)
        return 0;
    memcpy(copy, data, n);
    if (leat_root_read(copy, n, &r, &err) == LEAT_OK) {
        uint64_t sum = 0;
        for (uint32_t c = 0; c < r.chunks; c++) {
            sum += r.counts[c] + r.sizes[c] + r.sums[c] + leat_xxh3(leat_root_chunk_name(&r, c), LEAT_SHA256_SIZE);
            leat_root_check_chunk(&r, c, copy, n, &err);
        }
        fuzz_use(sum);
        for (uint32_t s = 0; s < r.sections_n; s++) {
            for (uint64_t b = 0; b < r.sections[s].blocks; b++)
                leat_root_check_block(&r, &r.sections[s], b, copy, n, &err);
        }
    }
    free(copy);
    return 0;
}
