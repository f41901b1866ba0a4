#include "base/bytes.h"

#include <stdlib.h>
#include <string.h>

uint32_t leat_get_u32(const void *p)
{
    const uint8_t *b = p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

uint64_t leat_get_u64(const void *p)
{
    return (uint64_t)leat_get_u32(p) | (uint64_t)leat_get_u32((const uint8_t *)p + 4) << 32;
}

void leat_put_u32(void *p, uint32_t v)
{
    uint8_t *b = p;
    for (int i = 0; i < 4; i++)
        b[i] = (uint8_t)(v >> (8 * i));
}

void leat_put_u64(void *p, uint64_t v)
{
    leat_put_u32(p, (uint32_t)v);
    leat_put_u32((uint8_t *)p + 4, (uint32_t)(v >> 32));
}

struct leat_reader leat_reader(const void *data, size_t size)
{
    /* Never NULL, so that NULL from leat_read_bytes always means a bad read. */
    return (struct leat_reader){.data = data ? data : (const void *)"", .size = size};
}

const uint8_t *leat_read_bytes(struct leat_reader *r, size_t n)
{
    if (r->bad || n > r->size - r->at) {
        r->bad = true;
        return NULL;
    }
    const uint8_t *p = r->data + r->at;
    r->at += n;
    return p;
}

uint8_t leat_read_u8(struct leat_reader *r)
{
    const uint8_t *p = leat_read_bytes(r, 1);
    return p ? *p : 0;
}

uint16_t leat_read_u16(struct leat_reader *r)
{
    const uint8_t *p = leat_read_bytes(r, 2);
    return p ? (uint16_t)(p[0] | p[1] << 8) : 0;
}

uint32_t leat_read_u32(struct leat_reader *r)
{
    const uint8_t *p = leat_read_bytes(r, 4);
    return p ? leat_get_u32(p) : 0;
}

uint64_t leat_read_u64(struct leat_reader *r)
{
    const uint8_t *p = leat_read_bytes(r, 8);
    return p ? leat_get_u64(p) : 0;
}

struct leat_writer leat_writer(void *data, size_t size)
{
    return (struct leat_writer){.data = data, .size = size};
}

void leat_write_bytes(struct leat_writer *w, const void *data, size_t n)
{
    if (w->bad || n > w->size - w->at) {
        w->bad = true;
        return;
    }
    if (n)
        memcpy(w->data + w->at, data, n);
    w->at += n;
}

void leat_write_u8(struct leat_writer *w, uint8_t v)
{
    leat_write_bytes(w, &v, 1);
}

void leat_write_u16(struct leat_writer *w, uint16_t v)
{
    uint8_t b[2] = {(uint8_t)v, (uint8_t)(v >> 8)};
    leat_write_bytes(w, b, sizeof b);
}

void leat_write_u32(struct leat_writer *w, uint32_t v)
{
    uint8_t b[4];
    leat_put_u32(b, v);
    leat_write_bytes(w, b, sizeof b);
}

void leat_write_u64(struct leat_writer *w, uint64_t v)
{
    uint8_t b[8];
    leat_put_u64(b, v);
    leat_write_bytes(w, b, sizeof b);
}

char *leat_bytes_text(const char *bytes, size_t n)
{
    char *text = malloc(n + 1);
    if (!text)
        return NULL;
    if (n)
        memcpy(text, bytes, n);
    text[n] = '\0';
    return text;
}
