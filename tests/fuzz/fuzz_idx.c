/* Any bytes as Megatron's .idx: documents follow each other and fill the .bin, or it is refused. */
#include "base/bytes.h"
#include "dataset/megatron.h"
#include "dataset/tokens.h"

#include "fuzz.h"

struct memory {
    const uint8_t *data;
    size_t n;
    uint64_t token; /* where the next document must begin */
    uint64_t documents;
};

static leat_status fetch(void *user, uint64_t at, void *into, size_t n, struct leat_error *err)
{
    const struct memory *m = user;
    (void)err;
    PROMISE(at <= m->n && n <= m->n - at);
    memcpy(into, m->data + at, n);
    return LEAT_OK;
}

static leat_status visit(void *user, uint64_t begin, uint64_t end, struct leat_error *err)
{
    struct memory *m = user;
    (void)err;
    PROMISE(begin == m->token && end >= begin);
    m->token = end;
    m->documents++;
    return LEAT_OK;
}

FUZZ(idx)
{
    if (size < 4)
        return;
    struct memory memory = {.data = data + 4, .n = size - 4};
    struct leat_megatron m = {.fetch = fetch, .user = &memory, .idx_bytes = memory.n, .bin_bytes = leat_get_u32(data)};
    struct leat_megatron_head head;
    struct leat_error err = {0};
    leat_status rc = leat_megatron_open(&m, &head, &err);
    if (rc == LEAT_OK) {
        PROMISE(head.tokens * leat_tokens_bytes(head.dtype) == m.bin_bytes && head.tokens > 0);
        rc = leat_megatron_each(&m, &head, visit, &memory, &err);
        if (rc == LEAT_OK)
            PROMISE(memory.token == head.tokens && memory.documents == head.documents);
    }
    fuzz_check_error(rc, &err);
}
