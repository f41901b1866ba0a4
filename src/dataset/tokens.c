#include "dataset/tokens.h"

#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "dataset/npy.h"

/* llm.c: 256 ints, of which the first three mean something. */
#define LLMC_HEAD  1024u
#define LLMC_GPT2  20240520u /* version 1, uint16 */
#define LLMC_LLAMA 20240801u /* version 7, uint32 */

static const struct {
    uint32_t dtype;
    uint32_t bytes;
    const char *name;
} dtypes[] = {{LEAT_U16, 2, "uint16"}, {LEAT_U32, 4, "uint32"}, {LEAT_I32, 4, "int32"}};

#define DTYPES (sizeof dtypes / sizeof *dtypes)

uint32_t leat_tokens_bytes(uint32_t dtype)
{
    for (size_t i = 0; i < DTYPES; i++) {
        if (dtypes[i].dtype == dtype)
            return dtypes[i].bytes;
    }
    return 0;
}

const char *leat_tokens_dtype(uint32_t dtype)
{
    for (size_t i = 0; i < DTYPES; i++) {
        if (dtypes[i].dtype == dtype)
            return dtypes[i].name;
    }
    return "unknown";
}

leat_status leat_tokens_dtype_find(const char *name, uint32_t *out, struct leat_error *err)
{
    for (size_t i = 0; i < DTYPES; i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            *out = dtypes[i].dtype;
            return LEAT_OK;
        }
    }
    return leat_fail(err, LEAT_INVALID, "'%.100s' is not a type of tokens: uint16, uint32 or int32", name);
}

static leat_status look_npy(const void *head, size_t n, uint64_t file_bytes, struct leat_tokens_file *out,
                            struct leat_error *err)
{
    struct leat_npy h;
    leat_status rc = leat_npy_read(head, n, &h, err);
    if (rc != LEAT_OK)
        return rc;
    if (h.dims_n != 1)
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "it has %u dimensions; tokens are a list of numbers: store it as one, a.reshape(-1)",
                         h.dims_n);
    uint32_t dtype = h.kind == 'u' && h.bytes == 2   ? LEAT_U16
                     : h.kind == 'u' && h.bytes == 4 ? LEAT_U32
                     : h.kind == 'i' && h.bytes == 4 ? LEAT_I32
                                                     : 0;
    if (!dtype || h.order == '>')
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "its numbers are of type '%c%c%u'; tokens are uint16, uint32 or int32, little-endian: "
                         "store them like that, a.astype('<u4')",
                         h.order, h.kind, h.bytes);
    uint64_t bytes = h.bytes;
    if ((file_bytes - h.offset) % bytes || (file_bytes - h.offset) / bytes != h.dims[0])
        return leat_fail(err, LEAT_CORRUPT,
                         "its header says %" PRIu64 " numbers of %" PRIu64 " bytes, and %" PRIu64
                         " bytes follow: it was cut off, or is not what it says",
                         h.dims[0], bytes, file_bytes - h.offset);
    *out = (struct leat_tokens_file){.dtype = dtype, .offset = h.offset, .tokens = h.dims[0]};
    return LEAT_OK;
}

/* *is: it begins with llm.c's header. */
static leat_status look_llmc(const void *head, size_t n, uint64_t file_bytes, bool *is, struct leat_tokens_file *out,
                             struct leat_error *err)
{
    struct leat_reader r = leat_reader(head, n);
    uint32_t magic = leat_read_u32(&r);
    uint32_t version = leat_read_u32(&r);
    uint64_t tokens = leat_read_u32(&r);
    *is = !r.bad && (magic == LLMC_GPT2 || magic == LLMC_LLAMA);
    if (!*is)
        return LEAT_OK;
    uint32_t dtype = magic == LLMC_GPT2 ? LEAT_U16 : LEAT_U32;
    uint64_t bytes = magic == LLMC_GPT2 ? 2 : 4;
    if (version != (magic == LLMC_GPT2 ? 1u : 7u))
        return leat_fail(err, LEAT_UNSUPPORTED, "its header (%u) is of version %u, which is not known", magic, version);
    if (file_bytes < LLMC_HEAD || (file_bytes - LLMC_HEAD) % bytes || (file_bytes - LLMC_HEAD) / bytes != tokens)
        return leat_fail(err, LEAT_CORRUPT,
                         "its header (%u) says %" PRIu64 " tokens of %" PRIu64
                         " bytes after the first 1024, and it has "
                         "%" PRIu64 " bytes: it was cut off, or is not what it says",
                         magic, tokens, bytes, file_bytes);
    *out = (struct leat_tokens_file){.dtype = dtype, .offset = LLMC_HEAD, .tokens = tokens};
    return LEAT_OK;
}

static leat_status look_bare(uint64_t file_bytes, uint32_t dtype, struct leat_tokens_file *out, struct leat_error *err)
{
    uint32_t bytes = leat_tokens_bytes(dtype);
    if (!bytes)
        return leat_fail(err, LEAT_INVALID,
                         "nothing in it says how large a token is: give --dtype uint16, uint32 or int32");
    if (file_bytes % bytes)
        return leat_fail(err, LEAT_CORRUPT,
                         "it has %" PRIu64 " bytes, which is not a multiple of the %u bytes of a token of type %s: "
                         "it was cut off, or its tokens are of another type",
                         file_bytes, bytes, leat_tokens_dtype(dtype));
    *out = (struct leat_tokens_file){.dtype = dtype, .tokens = file_bytes / bytes};
    return LEAT_OK;
}

leat_status leat_tokens_look(const void *head, size_t n, uint64_t file_bytes, uint32_t dtype,
                             struct leat_tokens_file *out, struct leat_error *err)
{
    struct leat_tokens_file f = {0};
    bool llmc = false;
    leat_status rc = LEAT_OK;
    if (file_bytes == 0)
        return leat_fail(err, LEAT_INVALID, "it is empty");
    if (leat_npy_is(head, n))
        rc = look_npy(head, n, file_bytes, &f, err);
    else
        rc = look_llmc(head, n, file_bytes, &llmc, &f, err);
    if (rc == LEAT_OK && !f.dtype)
        rc = look_bare(file_bytes, dtype, &f, err);
    if (rc != LEAT_OK)
        return rc;
    if (f.tokens == 0)
        return leat_fail(err, LEAT_INVALID, "there is no token in it");
    if (dtype && f.dtype != dtype)
        return leat_fail(err, LEAT_INVALID, "its tokens are %s, not %s", leat_tokens_dtype(f.dtype),
                         leat_tokens_dtype(dtype));
    *out = f;
    return LEAT_OK;
}
