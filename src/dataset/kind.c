#include "dataset/kind.h"

#include <assert.h>
#include <string.h>

#include "base/abi.h"
#include "base/dtype.h"
#include "leat/dataset.h"
#include "leat/loader.h"

static const struct leat_field_kind kinds[LEAT_FIELD_TYPES] = {
    [LEAT_FIELD_BYTES] = {"bytes", 8, .data = true, .zstd = true},
    [LEAT_FIELD_IMAGE] = {"image", 24, .data = true},
    [LEAT_FIELD_INT] = {"int", 8},
    [LEAT_FIELD_STRING] = {"string", 8, .data = true, .zstd = true},
    [LEAT_FIELD_FLOAT] = {"float", 8},
    [LEAT_FIELD_JSON] = {"json", 8, .data = true, .zstd = true},
    [LEAT_FIELD_ARRAY] = {"array", 8, .data = true, .zstd = true, .typed = true},
    [LEAT_FIELD_TOKENS] = {"tokens", 8, .data = true, .zstd = true, .typed = true},
};

static_assert(LEAT_FIELD_BYTES == (int)LEAT_DATA_BYTES && LEAT_FIELD_IMAGE == (int)LEAT_DATA_IMAGE &&
                  LEAT_FIELD_INT == (int)LEAT_DATA_INT && LEAT_FIELD_STRING == (int)LEAT_DATA_STRING &&
                  LEAT_FIELD_FLOAT == (int)LEAT_DATA_FLOAT && LEAT_FIELD_JSON == (int)LEAT_DATA_JSON &&
                  LEAT_FIELD_ARRAY == (int)LEAT_DATA_ARRAY && LEAT_FIELD_TOKENS == (int)LEAT_DATA_TOKENS,
              "the format's numbers are the interface's");

size_t leat_data_types(void)
{
    return LEAT_FIELD_TYPES - 1;
}

leat_status leat_data_type(size_t i, struct leat_data_type_info *out, struct leat_error *err)
{
    if (i >= LEAT_FIELD_TYPES - 1)
        return leat_fail(err, LEAT_INVALID, "there are %u types of field, not %zu", LEAT_FIELD_TYPES - 1, i + 1);
    const struct leat_field_kind *kind = &kinds[i + 1];
    struct leat_data_type_info info = {.name = kind->name, .type = (uint32_t)i + 1};
    info.flags |= kind->data ? LEAT_DATA_TYPE_BYTES : 0;
    info.flags |= kind->zstd ? LEAT_DATA_TYPE_ZSTD : 0;
    info.flags |= kind->typed ? LEAT_DATA_TYPE_TYPED : 0;
    return leat_abi_give(&info, sizeof info, "leat_data_type_info", out, err);
}

const struct leat_field_kind *leat_field_kind(uint32_t type)
{
    return type > 0 && type < LEAT_FIELD_TYPES ? &kinds[type] : NULL;
}

const char *leat_field_type_name(uint32_t type)
{
    const struct leat_field_kind *kind = leat_field_kind(type);
    return kind ? kind->name : "unknown";
}

uint32_t leat_field_type_find(const char *name, size_t n)
{
    for (uint32_t t = 1; t < LEAT_FIELD_TYPES; t++) {
        if (strlen(kinds[t].name) == n && memcmp(kinds[t].name, name, n) == 0)
            return t;
    }
    return 0;
}

bool leat_field_type_takes(uint32_t type, uint32_t dtype)
{
    if (type == LEAT_FIELD_TOKENS)
        return dtype == LEAT_U16 || dtype == LEAT_U32 || dtype == LEAT_I32;
    return type == LEAT_FIELD_ARRAY && leat_dtype_bytes(dtype) > 0;
}

#define ANY_DATA "bytes string json array tokens image"
#define ANY      "int float " ANY_DATA

static const struct leat_output_kind_row outputs[] = {
    {"image", LEAT_OUTPUT_IMAGE, "image", "…", "uint8, or what dtype() says", "(B, H, W, C), or (B, C, H, W)"},
    {"int", LEAT_OUTPUT_INT, "int", "dtype default", "int64, or another int type", "(B)"},
    {"float", LEAT_OUTPUT_FLOAT, "float", "dtype default", "float32, or float64", "(B)"},
    {"bytes", LEAT_OUTPUT_BYTES, ANY_DATA, "default", "uint8", "ragged"},
    {"string", LEAT_OUTPUT_STRING, "string", "default", "uint8, text", "ragged"},
    {"json", LEAT_OUTPUT_JSON, "json", "default", "uint8, text", "ragged"},
    {"array", LEAT_OUTPUT_ARRAY, "array", "pad value cut default", "the field's", "(B, …), or ragged"},
    {"tokens", LEAT_OUTPUT_TOKENS, "tokens", "dtype pad value cut default", "the field's, or a wider one",
     "ragged, or (B, N)"},
    {"length", LEAT_OUTPUT_LENGTH, ANY_DATA, "", "int64", "(B), or (B, K) where K > 1 dimensions vary"},
    {"has", LEAT_OUTPUT_HAS, ANY, "", "bool", "(B)"},
    {"key", LEAT_OUTPUT_KEY, "", "", "uint8, text", "ragged"},
    {"index", LEAT_OUTPUT_INDEX, "", "", "int64", "(B)"},
    {"valid", LEAT_OUTPUT_VALID, "", "", "bool", "(B)"},
    {"stream", LEAT_OUTPUT_STREAM, "", "", "int64", "(B)"},
    {"drawn", LEAT_OUTPUT_DRAWN, "image", "…", "float32", "(B, 20)"},
    {"boxes", LEAT_OUTPUT_BOXES, "bytes", "…", "float32, in bytes", "ragged"},
    {"sound", LEAT_OUTPUT_SOUND, "bytes", "…", "float32, or float16", "(B, channels, …), or ragged"},
    /* of blocks of tokens */
    {"cu_seqlens", LEAT_OUTPUT_CU_SEQLENS, "tokens", "eos bos most", "int32", "ragged, or (B, most + 1)"},
    {"positions", LEAT_OUTPUT_POSITIONS, "tokens", "eos bos dtype", "int64, or int32", "(B, seq_len)"},
    {"documents", LEAT_OUTPUT_DOCUMENTS, "tokens", "eos bos dtype", "int32, or int64", "(B, seq_len)"},
};

#define OUTPUTS (sizeof outputs / sizeof *outputs)

const struct leat_output_kind_row *leat_output_kind_find(uint32_t kind)
{
    for (size_t i = 0; i < OUTPUTS; i++) {
        if (outputs[i].kind == kind)
            return &outputs[i];
    }
    return NULL;
}

bool leat_kind_list_has(const char *list, const char *word, size_t n)
{
    while (*list) {
        size_t here = strcspn(list, " ");
        if (here == n && memcmp(list, word, n) == 0)
            return true;
        list += here + (list[here] == ' ');
    }
    return false;
}

size_t leat_loader_outputs(void)
{
    return OUTPUTS;
}

leat_status leat_loader_output(size_t i, struct leat_output_info *out, struct leat_error *err)
{
    if (i >= OUTPUTS)
        return leat_fail(err, LEAT_INVALID, "there are %zu kinds of output, not %zu", OUTPUTS, i + 1);
    const struct leat_output_kind_row *row = &outputs[i];
    struct leat_output_info info = {.name = row->name,
                                    .kind = row->kind,
                                    .fields = row->fields,
                                    .words = row->words,
                                    .dtype = row->dtype,
                                    .shape = row->shape};
    return leat_abi_give(&info, sizeof info, "leat_output_info", out, err);
}
