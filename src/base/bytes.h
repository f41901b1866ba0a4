/* Bounded reading and writing of little-endian bytes. A read or write past the end sets `bad`, yields
 * zeros and moves nothing: parse everything, then check `bad` once. */
#ifndef LEAT_BASE_BYTES_H
#define LEAT_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct leat_reader {
    const uint8_t *data;
    size_t size;
    size_t at;
    bool bad;
};

struct leat_reader leat_reader(const void *data, size_t size);
uint8_t leat_read_u8(struct leat_reader *r);
uint16_t leat_read_u16(struct leat_reader *r);
uint32_t leat_read_u32(struct leat_reader *r);
uint64_t leat_read_u64(struct leat_reader *r);
const uint8_t *leat_read_bytes(struct leat_reader *r, size_t n); /* into data, or NULL */
static inline size_t leat_reader_left(const struct leat_reader *r)
{
    return r->size - r->at;
}

struct leat_writer {
    uint8_t *data;
    size_t size;
    size_t at;
    bool bad;
};

struct leat_writer leat_writer(void *data, size_t size);
void leat_write_u8(struct leat_writer *w, uint8_t v);
void leat_write_u16(struct leat_writer *w, uint16_t v);
void leat_write_u32(struct leat_writer *w, uint32_t v);
void leat_write_u64(struct leat_writer *w, uint64_t v);
void leat_write_bytes(struct leat_writer *w, const void *data, size_t n);

/* Unaligned little-endian access where the bounds are already known. */
uint32_t leat_get_u32(const void *p);
uint64_t leat_get_u64(const void *p);
void leat_put_u32(void *p, uint32_t v);
void leat_put_u64(void *p, uint64_t v);

/* A copy with a NUL after it, the caller's; NULL without memory. Unlike strndup() it never looks past n. */
char *leat_bytes_text(const char *bytes, size_t n);

#endif
