#include "ring/message.h"

#include <string.h>

#include "base/bytes.h"

/* Head: u32 kind. Field: u16 tag, u8 type, u8 flags, u32 bytes, then the bytes. */
#define HEAD       4u
#define FIELD_HEAD 8u
#define NEEDED     1u
#define DEPTH_MAX  2u

enum type { NUMBER = 1, TEXT = 2, NUMBERS = 3, GROUP = 4, BYTES = 5 };

struct field {
    uint32_t tag;
    uint32_t type;
    bool needed;
    const uint8_t *data;
    uint32_t n;
};

static void add_flagged(struct leat_buf *b, uint32_t tag, enum type type, uint8_t flags, size_t n)
{
    uint8_t head[FIELD_HEAD];
    struct leat_writer w = leat_writer(head, sizeof head);
    leat_write_u16(&w, (uint16_t)tag);
    leat_write_u8(&w, (uint8_t)type);
    leat_write_u8(&w, flags);
    leat_write_u32(&w, (uint32_t)n);
    leat_buf_add(b, head, sizeof head);
}

/* What this protocol says, every reader of it knows. */
static void add_head(struct leat_buf *b, uint32_t tag, enum type type, size_t n)
{
    add_flagged(b, tag, type, NEEDED, n);
}

void leat_message_begin(struct leat_buf *b, enum leat_message_kind kind)
{
    uint8_t head[HEAD];
    leat_put_u32(head, (uint32_t)kind);
    leat_buf_add(b, head, sizeof head);
}

void leat_message_number(struct leat_buf *b, uint32_t tag, uint64_t value)
{
    uint8_t bytes[8];
    leat_put_u64(bytes, value);
    add_head(b, tag, NUMBER, sizeof bytes);
    leat_buf_add(b, bytes, sizeof bytes);
}

void leat_message_aside(struct leat_buf *b, uint32_t tag, uint64_t value)
{
    uint8_t bytes[8];
    leat_put_u64(bytes, value);
    add_flagged(b, tag, NUMBER, 0, sizeof bytes);
    leat_buf_add(b, bytes, sizeof bytes);
}

void leat_message_text(struct leat_buf *b, uint32_t tag, const char *text)
{
    if (!text)
        return;
    add_head(b, tag, TEXT, strlen(text) + 1);
    leat_buf_add(b, text, strlen(text) + 1);
}

void leat_message_numbers(struct leat_buf *b, uint32_t tag, const uint32_t *values, size_t n)
{
    uint8_t bytes[4];
    add_head(b, tag, NUMBERS, n * sizeof bytes);
    for (size_t i = 0; i < n; i++) {
        leat_put_u32(bytes, values[i]);
        leat_buf_add(b, bytes, sizeof bytes);
    }
}

void leat_message_bytes(struct leat_buf *b, uint32_t tag, const void *data, size_t n)
{
    if (!data)
        return;
    add_head(b, tag, BYTES, n);
    leat_buf_add(b, data, n);
}

size_t leat_message_group(struct leat_buf *b, uint32_t tag)
{
    add_head(b, tag, GROUP, 0);
    return b->len;
}

void leat_message_group_end(struct leat_buf *b, size_t group)
{
    if (!b->failed)
        leat_put_u32(b->data + group - 4, (uint32_t)(b->len - group));
}

/* The field at the reader; false at the end, or where it is damaged. */
static bool next(struct leat_reader *r, struct field *out)
{
    if (leat_reader_left(r) == 0)
        return false;
    out->tag = leat_read_u16(r);
    out->type = leat_read_u8(r);
    out->needed = leat_read_u8(r) & NEEDED;
    out->n = leat_read_u32(r);
    out->data = leat_read_bytes(r, out->n);
    return !r->bad;
}

static bool well_formed(const struct field *f)
{
    switch (f->type) {
    case NUMBER:
        return f->n == 8;
    case TEXT:
        return f->n && memchr(f->data, '\0', f->n) == f->data + f->n - 1;
    case NUMBERS:
        return f->n % 4 == 0;
    default:
        return true; /* bytes, a type to come, or a group: looked at below */
    }
}

static leat_status check(const uint8_t *data, size_t n, unsigned depth, struct leat_error *err)
{
    struct leat_reader r = leat_reader(data, n);
    struct field f;
    while (next(&r, &f)) {
        bool known = f.tag && f.tag < LEAT_TAG_END && f.type >= NUMBER && f.type <= BYTES;
        if (!known && f.needed)
            return leat_fail(err, LEAT_VERSION, "a message with a part (%u) that leat of this version does not know",
                             f.tag);
        if (known && (!well_formed(&f) || (f.type == GROUP && depth == DEPTH_MAX)))
            return leat_fail(err, LEAT_INVALID, "a message whose part %u is damaged", f.tag);
        if (known && f.type == GROUP) {
            leat_status rc = check(f.data, f.n, depth + 1, err);
            if (rc != LEAT_OK)
                return rc;
        }
    }
    return r.bad ? leat_fail(err, LEAT_INVALID, "a message that was cut off") : LEAT_OK;
}

leat_status leat_message_open(const void *data, size_t n, enum leat_message_kind *kind, struct leat_part *out,
                              struct leat_error *err)
{
    if (n < HEAD)
        return leat_fail(err, LEAT_INVALID, "a message of %zu bytes", n);
    struct leat_part p = {(const uint8_t *)data + HEAD, n - HEAD};
    leat_status rc = check(p.data, p.size, 0, err);
    if (rc != LEAT_OK)
        return rc;
    *kind = (enum leat_message_kind)leat_get_u32(data);
    *out = p;
    return LEAT_OK;
}

/* The i-th field with this tag and type. */
static bool find(struct leat_part p, uint32_t tag, enum type type, size_t i, struct field *out)
{
    struct leat_reader r = leat_reader(p.data, p.size);
    while (next(&r, out)) {
        if (out->tag == tag && out->type == (uint32_t)type && i-- == 0)
            return true;
    }
    return false;
}

bool leat_part_has(struct leat_part p, uint32_t tag)
{
    struct leat_reader r = leat_reader(p.data, p.size);
    struct field f;
    while (next(&r, &f)) {
        if (f.tag == tag)
            return true;
    }
    return false;
}

uint64_t leat_part_number(struct leat_part p, uint32_t tag, uint64_t otherwise)
{
    struct field f;
    return find(p, tag, NUMBER, 0, &f) ? leat_get_u64(f.data) : otherwise;
}

const char *leat_part_text(struct leat_part p, uint32_t tag)
{
    struct field f;
    return find(p, tag, TEXT, 0, &f) ? (const char *)f.data : NULL;
}

size_t leat_part_numbers(struct leat_part p, uint32_t tag, uint32_t *out, size_t most)
{
    struct field f;
    if (!find(p, tag, NUMBERS, 0, &f))
        return 0;
    for (size_t i = 0; i < f.n / 4 && i < most; i++)
        out[i] = leat_get_u32(f.data + 4 * i);
    return f.n / 4;
}

const void *leat_part_bytes(struct leat_part p, uint32_t tag, size_t *n)
{
    struct field f;
    if (!find(p, tag, BYTES, 0, &f))
        return NULL;
    *n = f.n;
    return f.data;
}

bool leat_part_group(struct leat_part p, uint32_t tag, size_t i, struct leat_part *out)
{
    struct field f;
    if (!find(p, tag, GROUP, i, &f))
        return false;
    *out = (struct leat_part){f.data, f.n};
    return true;
}
