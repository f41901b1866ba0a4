#include "dataset/layout.h"

#include <inttypes.h>
#include <string.h>

#include "dataset/schema.h"

leat_status layout_read_head(struct leat_reader *r, const char *magic, const char *what, uint32_t head_min,
                             struct layout_head *out, struct leat_error *err)
{
    const uint8_t *found = leat_read_bytes(r, 8);
    uint32_t format = leat_read_u32(r);
    struct layout_head h = {.bytes = leat_read_u32(r)};
    uint64_t size = leat_read_u64(r);
    h.needs = leat_read_u64(r);
    h.flags = leat_read_u64(r);
    if (r->bad || memcmp(found, magic, 8) != 0)
        return leat_fail(err, LEAT_CORRUPT, "these %zu bytes are not %s", r->size, what);
    if (format != LEAT_FORMAT_VERSION)
        return leat_fail(err, LEAT_VERSION, "%s has format %" PRIu32 ", this Leat reads %d: it needs a newer Leat",
                         what, format, LEAT_FORMAT_VERSION);
    if (size != r->size)
        return leat_fail(err, LEAT_CORRUPT, "%s has %zu bytes and says %" PRIu64, what, r->size, size);
    if (h.bytes < head_min || h.bytes % 8 || h.bytes > r->size)
        return leat_fail(err, LEAT_CORRUPT, "%s cannot have a head of %" PRIu32 " bytes", what, h.bytes);
    *out = h;
    return LEAT_OK;
}

void layout_write_head(struct leat_writer *w, const char *magic, uint32_t head, uint64_t size)
{
    leat_write_bytes(w, magic, 8);
    leat_write_u32(w, LEAT_FORMAT_VERSION);
    leat_write_u32(w, head);
    leat_write_u64(w, size);
    leat_write_u64(w, 0); /* needs nothing that this format did not begin with */
    leat_write_u64(w, 0);
}

leat_status layout_check_needs(uint64_t needs, uint64_t known, const char *what, struct leat_error *err)
{
    uint64_t unknown = needs & ~known;
    if (!unknown)
        return LEAT_OK;
    return leat_fail(err, LEAT_VERSION, "%s needs a newer Leat: it uses feature %d, which this one does not know", what,
                     __builtin_ctzll(unknown));
}

void layout_add_u32(struct leat_buf *b, uint32_t v)
{
    uint8_t bytes[4];
    leat_put_u32(bytes, v);
    leat_buf_add(b, bytes, sizeof bytes);
}

void layout_add_u64(struct leat_buf *b, uint64_t v)
{
    uint8_t bytes[8];
    leat_put_u64(bytes, v);
    leat_buf_add(b, bytes, sizeof bytes);
}
