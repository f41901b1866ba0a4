#include <string.h>

#include "base/bytes.h"
#include "dataset/tar_pass.h"

bool leat_tar_number(const void *data, size_t n, int64_t *out)
{
    const char *p = data;
    const char *end = p + n;
    uint64_t v = 0;
    while (p < end && (*p == ' ' || (*p >= '\t' && *p <= '\r')))
        p++;
    while (end > p && (end[-1] == ' ' || (end[-1] >= '\t' && end[-1] <= '\r')))
        end--;
    bool minus = p < end && *p == '-';
    p += p < end && (*p == '-' || *p == '+');
    if (p == end)
        return false;
    for (; p < end; p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (*p < '0' || *p > '9' || v > ((uint64_t)INT64_MAX - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    *out = minus ? -(int64_t)v : (int64_t)v;
    return true;
}

static struct leat_origin_value read_value(const struct leat_tar_chunk *chunk, enum leat_field_type type,
                                           struct leat_reader *r)
{
    struct leat_origin_value v = {.object = chunk->at.object};
    v.offset = chunk->at.offset + leat_read_u32(r);
    v.size = leat_read_u32(r);
    if (type == LEAT_FIELD_IMAGE) {
        v.image.width = leat_read_u32(r);
        v.image.height = leat_read_u32(r);
        v.image.decoded_bytes = leat_read_u32(r);
        v.image.kind = leat_read_u8(r);
        v.image.channels = leat_read_u8(r);
        v.image.orientation = leat_read_u8(r);
        v.image.flags = leat_read_u8(r);
    } else {
        v.number = (int64_t)leat_read_u64(r);
        leat_read_u64(r);
    }
    return v;
}

leat_status leat_tar_record_read(const struct leat_tar_pass *p, const struct leat_tar_chunk *chunk, const void *record,
                                 uint32_t sample, const uint8_t at[LEAT_FIELDS_MAX], struct leat_origin_value *values,
                                 struct leat_origin_sample *out, struct leat_error *err)
{
    const uint8_t *ends = record;
    const uint8_t *rows = ends + (size_t)4 * chunk->samples;
    uint32_t start = sample ? leat_get_u32(ends + (size_t)4 * (sample - 1)) : 0;
    struct leat_reader r = leat_reader(rows + start, leat_get_u32(ends + (size_t)4 * sample) - start);
    for (uint32_t i = 0; i < LEAT_FIELDS_MAX; i++)
        values[i] = (struct leat_origin_value){.absent = true};
    size_t key_n = leat_read_u32(&r);
    const void *key = leat_read_bytes(&r, key_n);
    uint32_t n = leat_read_u8(&r);
    for (uint32_t i = 0; i < n && !r.bad; i++) {
        uint8_t field = leat_read_u8(&r);
        if (field < LEAT_FIELDS_MAX && !r.bad)
            values[at[field]] = read_value(chunk, p->locked.fields[field].type, &r);
    }
    if (r.bad)
        return leat_fail(err, LEAT_INTERNAL, "what is known of a tar sample cannot be read back");
    *out = (struct leat_origin_sample){.key = key, .key_n = key_n, .values = values};
    return LEAT_OK;
}
