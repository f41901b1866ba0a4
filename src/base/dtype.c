#include "base/dtype.h"

#include <string.h>

static const struct {
    const char *name;
    uint8_t bytes;
    bool real;
    bool negative;
} types[] = {
    [LEAT_U8] = {"uint8", 1, false, false},    [LEAT_I64] = {"int64", 8, false, true},
    [LEAT_F32] = {"float32", 4, true, true},   [LEAT_F16] = {"float16", 2, true, true},
    [LEAT_BF16] = {"bfloat16", 2, true, true}, [LEAT_I8] = {"int8", 1, false, true},
    [LEAT_I16] = {"int16", 2, false, true},    [LEAT_U16] = {"uint16", 2, false, false},
    [LEAT_I32] = {"int32", 4, false, true},    [LEAT_U32] = {"uint32", 4, false, false},
    [LEAT_U64] = {"uint64", 8, false, false},  [LEAT_F64] = {"float64", 8, true, true},
    [LEAT_BOOL] = {"bool", 1, false, false},
};

#define TYPES (sizeof types / sizeof *types)

uint32_t leat_dtype_find(const char *name, size_t n)
{
    for (uint32_t i = 1; i < TYPES; i++) {
        if (strlen(types[i].name) == n && memcmp(types[i].name, name, n) == 0)
            return i;
    }
    return 0;
}

const char *leat_dtype_name(uint32_t code)
{
    return code && code < TYPES ? types[code].name : "unknown";
}

uint32_t leat_dtype_bytes(uint32_t code)
{
    return code < TYPES ? types[code].bytes : 0;
}

bool leat_dtype_is_float(uint32_t code)
{
    return code < TYPES && types[code].real;
}

bool leat_dtype_is_signed(uint32_t code)
{
    return code < TYPES && types[code].negative;
}
