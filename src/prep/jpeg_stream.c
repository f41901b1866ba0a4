#include "prep/jpeg_stream.h"

#include "prep/jpeg_bits.h"

/* Until the buffer is full, and up to eight bytes more, or until a marker comes. */
static void add(struct leat_jpeg_stream *s)
{
    const uint8_t *at = s->at;
    uint8_t *to = s->filled;
    while (to < s->clean + LEAT_JPEG_STREAM_BYTES && at < s->end) {
        if (s->end - at >= 8) {
            uint64_t x;
            memcpy(&x, at, 8);
            memcpy(to, &x, 8);
            /* No byte is 0xff: none of the complement is 0. */
            if (!((~x - 0x0101010101010101u) & x & 0x8080808080808080u)) {
                at += 8;
                to += 8;
                continue;
            }
        }
        while (at < s->end && *at != 0xff)
            *to++ = *at++;
        const uint8_t *next = at;
        while (next < s->end && *next == 0xff)
            next++;
        if (next == s->end || *next != 0) {
            s->data_end = to;
            break;
        }
        *to++ = 0xff; /* however many there were */
        at = next + 1;
    }
    if (at == s->end)
        s->data_end = to;
    s->at = at;
    s->filled = to;
}

const uint8_t *leat_jpeg_stream_fill(struct leat_jpeg_stream *s, const uint8_t *at)
{
    /* All that is left in the reader is zeros: anywhere among them is as good, but it stays over the end. */
    if (s->data_end)
        return s->data_end + 16;
    size_t kept = (size_t)(s->filled - at);
    memmove(s->clean, at, kept);
    s->filled = s->clean + kept;
    add(s);
    s->low = s->filled - LEAT_JPEG_STREAM_BLOCK;
    if (s->data_end) {
        memset(s->filled, 0, (size_t)2 * LEAT_JPEG_STREAM_BLOCK);
        s->low = s->data_end + LEAT_JPEG_STREAM_BLOCK;
    }
    return s->clean;
}

void leat_jpeg_stream_begin(struct leat_jpeg_stream *s, const uint8_t *at, const uint8_t *end,
                            struct leat_jpeg_reader *reader)
{
    s->at = at;
    s->end = end;
    s->filled = s->clean;
    s->data_end = NULL;
    *reader = (struct leat_jpeg_reader){.at = leat_jpeg_stream_fill(s, s->clean)};
}

bool leat_jpeg_stream_restart(struct leat_jpeg_stream *s, struct leat_jpeg_reader *reader, unsigned number)
{
    const uint8_t *behind = s->end;
    if (leat_bits_marker(s->at, s->end, &behind) != 0xd0 + number)
        return false;
    leat_jpeg_stream_begin(s, behind, s->end, reader);
    return true;
}
