#include "base/abi.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* All public structs hold pointers, so that a struct of any release ends on such a boundary, and between fields. */
#define ALIGNMENT sizeof(void *)

static leat_status check_size(size_t theirs, const char *name, size_t size, struct leat_error *err)
{
    if (theirs < sizeof(size_t) || theirs % ALIGNMENT || theirs > LEAT_ABI_SIZE_MAX)
        return leat_fail(err, LEAT_INVALID,
                         "the size of struct %s is given as %zu: set it to sizeof(struct %s), which is %zu here", name,
                         theirs, name, size);
    return LEAT_OK;
}

static bool all_zero(const char *data, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (data[i])
            return false;
    }
    return true;
}

leat_status leat_abi_take(const void *theirs, const char *name, void *mine, size_t size, struct leat_error *err)
{
    if (!theirs)
        return leat_fail(err, LEAT_INVALID, "NULL instead of a struct %s", name);
    size_t n;
    memcpy(&n, theirs, sizeof n);
    leat_status rc = check_size(n, name, size, err);
    if (rc != LEAT_OK)
        return rc;
    if (n > size && !all_zero((const char *)theirs + size, n - size))
        return leat_fail(err, LEAT_VERSION,
                         "a struct %s of %zu bytes uses fields that this Leat does not know (its own has %zu "
                         "bytes): the program was built for a newer Leat",
                         name, n, size);
    memset(mine, 0, size);
    memcpy(mine, theirs, n < size ? n : size);
    memcpy(mine, &size, sizeof size);
    return LEAT_OK;
}

leat_status leat_abi_take_array(const void *theirs, size_t n, const char *name, void *mine, size_t size,
                                struct leat_error *err)
{
    size_t stride = 0;
    for (size_t i = 0; i < n; i++) {
        const char *one = (const char *)theirs + i * stride;
        leat_status rc = leat_abi_take(theirs ? one : NULL, name, (char *)mine + i * size, size, err);
        if (rc != LEAT_OK)
            return n > 1 ? leat_fail_context(err, rc, "element %zu of an array", i) : rc;
        size_t its;
        memcpy(&its, one, sizeof its);
        if (i && its != stride)
            return leat_fail(err, LEAT_INVALID,
                             "element %zu of an array of struct %s has size %zu, but the first has %zu: set it in each",
                             i, name, its, stride);
        stride = its;
    }
    return LEAT_OK;
}

leat_status leat_abi_give(const void *mine, size_t size, const char *name, void *theirs, struct leat_error *err)
{
    const size_t head = sizeof(size_t);
    if (!theirs)
        return leat_fail(err, LEAT_INVALID, "NULL instead of a struct %s", name);
    size_t n;
    memcpy(&n, theirs, sizeof n);
    leat_status rc = check_size(n, name, size, err);
    if (rc != LEAT_OK)
        return rc;
    size_t known = n < size ? n : size;
    memcpy((char *)theirs + head, (const char *)mine + head, known - head);
    memset((char *)theirs + known, 0, n - known);
    return LEAT_OK;
}

leat_status leat_abi_reaches(const void *theirs, const char *name, size_t size, size_t end, struct leat_error *err)
{
    if (!theirs)
        return leat_fail(err, LEAT_INVALID, "NULL instead of a struct %s", name);
    size_t n;
    memcpy(&n, theirs, sizeof n);
    leat_status rc = check_size(n, name, size, err);
    if (rc == LEAT_OK && n < end)
        rc = leat_fail(err, LEAT_VERSION,
                       "a struct %s of %zu bytes has no room for this: the program was built for an older Leat", name,
                       n);
    return rc;
}
