/* Any bytes as a chunk: whatever it says it holds can be read without leaving it. */
#include "base/hash.h"
#include "dataset/chunk.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct leat_chunk c;
    struct leat_error err;
    if (leat_chunk_read(data, n, &c, &err) != LEAT_OK)
        return 0;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < c.samples; i++) {
        size_t key_n;
        const char *key = leat_chunk_key(&c, i, &key_n);
        sum += leat_xxh3(key, key_n);
        for (uint32_t f = 0; f < c.schema.n; f++) {
            struct leat_cell cell = leat_chunk_cell(&c, i, f);
            sum += leat_xxh3(leat_chunk_data(&c, &cell), cell.size);
        }
    }
    leat_chunk_check(&c, &err);
    fuzz_use(sum);
    return 0;
}
