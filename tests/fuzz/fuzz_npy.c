/* Any bytes as the beginning of a token file: .npy, llm.c's header, or bare. What is accepted fits the file's length.
 */
#include "dataset/npy.h"
#include "dataset/tokens.h"

#include "fuzz.h"

FUZZ(npy)
{
    static const uint32_t dtypes[] = {0, LEAT_U16, LEAT_U32, LEAT_I32};
    struct leat_error err = {0};
    struct leat_npy h;
    leat_status rc = leat_npy_read(data, size, &h, &err);
    fuzz_check_error(rc, &err);
    if (rc == LEAT_OK) {
        PROMISE(h.offset <= size && h.dims_n <= LEAT_NPY_DIMS_MAX && h.bytes > 0);
        PROMISE(leat_npy_is(data, size));
    }
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        struct leat_tokens_file f;
        rc = leat_tokens_look(data, size, size, dtypes[i], &f, &err);
        fuzz_check_error(rc, &err);
        if (rc != LEAT_OK)
            continue;
        PROMISE(f.tokens > 0 && f.offset + f.tokens * leat_tokens_bytes(f.dtype) == size);
        PROMISE(!dtypes[i] || f.dtype == dtypes[i]);
    }
}
