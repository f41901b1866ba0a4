/* Any bytes as a selection of a small dataset: refused, or every sample that counts is found both ways. The first byte
 * chooses how many samples the root says. */
#include <stdlib.h>

#include "dataset/selection.h"

#include "fuzz.h"

#define CHUNKS 4u

static const uint32_t counts[CHUNKS] = {1, 70, 64, 600};

static void check(const struct leat_selection *s, const struct leat_root *root)
{
    uint64_t total = 0;
    for (uint32_t c = 0; c < CHUNKS; c++) {
        uint32_t n = leat_selection_counts(s)[c];
        uint32_t last = 0;
        PROMISE(n <= counts[c]);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t rank;
            uint32_t index = leat_selection_index(s, c, i);
            PROMISE(index < counts[c] && (i == 0 || index > last));
            PROMISE(leat_selection_rank(s, c, index, &rank) && rank == i);
            last = index;
        }
        total += n;
    }
    PROMISE(total == root->selected);
}

FUZZ(selection)
{
    struct leat_root root = {.chunks = CHUNKS, .counts = counts, .samples = 735, .packings_n = 1, .packing_bytes = 32};
    static const uint8_t packing[32] = {[0] = 'p', [LEAT_PACK_ID_BYTES] = CHUNKS};
    struct leat_selection *s = NULL;
    struct leat_error err;
    if (size == 0)
        return;
    root.packings = packing;
    root.selected = 1 + data[0];
    void *copy = malloc(size);
    PROMISE(copy != NULL);
    memcpy(copy, data + 1, size - 1);
    leat_status rc = leat_selection_read(copy, size - 1, &root, &s, &err);
    PROMISE(rc == LEAT_OK || rc == LEAT_CORRUPT || rc == LEAT_VERSION);
    if (rc == LEAT_OK)
        check(s, &root);
    leat_selection_free(s);
}
