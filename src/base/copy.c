#include "base/copy.h"

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>

#define LINE 64u

void leat_copy_past_caches(void *to, const void *from, size_t n)
{
    char *out = to;
    const char *in = from;
    size_t head = (size_t)(-(uintptr_t)out & (LINE - 1));
    if (n < 16 * LINE) {
        memcpy(out, in, n);
        return;
    }
    memcpy(out, in, head);
    out += head;
    in += head;
    n -= head;
    /* Whole lines at a time: half a line would go to memory by itself. */
    for (; n >= LINE; n -= LINE, out += LINE, in += LINE) {
        __m128i a = _mm_loadu_si128((const __m128i *)in);
        __m128i b = _mm_loadu_si128((const __m128i *)(in + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(in + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(in + 48));
        _mm_stream_si128((__m128i *)out, a);
        _mm_stream_si128((__m128i *)(out + 16), b);
        _mm_stream_si128((__m128i *)(out + 32), c);
        _mm_stream_si128((__m128i *)(out + 48), d);
    }
    _mm_sfence(); /* such stores are not ordered with what publishes the data */
    memcpy(out, in, n);
}

#else

void leat_copy_past_caches(void *to, const void *from, size_t n)
{
    memcpy(to, from, n);
}

#endif
