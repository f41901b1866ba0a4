/* Any bytes as the settings of stores: what is accepted can be written, and is the same when read again. */
#include "store/access.h"

#include "fuzz.h"

FUZZ(access)
{
    struct leat_access *access = NULL;
    struct leat_access *again = NULL;
    struct leat_error err = {0};
    struct leat_buf b;
    uint8_t one[LEAT_SHA256_SIZE], other[LEAT_SHA256_SIZE];
    leat_status rc = leat_access_read(data, size, &access, &err);
    fuzz_check_error(rc, &err);
    if (rc != LEAT_OK)
        return;
    leat_buf_init(&b, LEAT_ACCESS_BYTES);
    leat_access_write(access, &b);
    PROMISE(!b.failed && b.len <= size);
    PROMISE(leat_access_read(b.data, b.len, &again, &err) == LEAT_OK);
    PROMISE(leat_access_count(access) == leat_access_count(again) && leat_access_count(again) <= LEAT_ACCESS_MAX);
    PROMISE(leat_access_covered(access, again) && leat_access_covered(again, access));
    PROMISE(leat_access_digest(access, one) && leat_access_digest(again, other));
    PROMISE(memcmp(one, other, sizeof one) == 0);
    leat_buf_free(&b);
    leat_access_free(again);
    leat_access_free(access);
}
