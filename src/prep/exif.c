#include <string.h>

#include "prep/image.h"

#define TAG_ORIENTATION 0x0112
#define TYPE_SHORT      3

/* TIFF comes in both byte orders, so the little-endian reader of base does not fit. */
struct tiff {
    const uint8_t *data;
    size_t size;
    bool big;
};

static uint32_t get(const struct tiff *t, size_t at, unsigned bytes)
{
    uint32_t v = 0;
    if (at > t->size || t->size - at < bytes)
        return 0;
    for (unsigned i = 0; i < bytes; i++) {
        uint32_t byte = t->data[at + i];
        v |= byte << 8 * (t->big ? bytes - 1 - i : i);
    }
    return v;
}

#define PREFIX       "Exif\0\0"
#define PREFIX_BYTES 6

uint8_t leat_exif_orientation(const void *exif, size_t size)
{
    struct tiff t = {.data = exif, .size = size};
    while (t.size >= PREFIX_BYTES && memcmp(t.data, PREFIX, PREFIX_BYTES) == 0) {
        t.data += PREFIX_BYTES;
        t.size -= PREFIX_BYTES;
    }
    if (t.size < 8 || (t.data[0] != 'I' && t.data[0] != 'M') || t.data[0] != t.data[1])
        return 0;
    t.big = t.data[0] == 'M';
    if (get(&t, 2, 2) != 42)
        return 0;
    size_t at = get(&t, 4, 4);
    uint32_t entries = get(&t, at, 2);
    for (uint32_t i = 0; i < entries; i++) {
        size_t entry = at + 2 + (size_t)i * 12;
        if (entry + 12 > t.size)
            break;
        if (get(&t, entry, 2) != TAG_ORIENTATION)
            continue;
        uint32_t v = get(&t, entry + 8, 2);
        return get(&t, entry + 2, 2) == TYPE_SHORT && v >= 1 && v <= 8 ? (uint8_t)v : 1;
    }
    return 0;
}

#define PROFILE_BYTES 4096 /* the orientation stands in the first directory */

static int digit_of(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* An empty line, a name, a length, then the digits. */
uint8_t leat_exif_profile_orientation(const void *text, size_t size)
{
    const uint8_t *p = text;
    const uint8_t *end = p + size;
    uint8_t exif[PROFILE_BYTES];
    size_t digits = 0;
    for (unsigned line = 0; line < 3; line++) {
        p = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;
        if (!p)
            return 0;
        p++;
    }
    for (; p < end && digits < 2 * sizeof exif; p++) {
        int d = digit_of(*p);
        if (d < 0)
            continue;
        exif[digits / 2] = (uint8_t)(digits % 2 ? exif[digits / 2] << 4 | d : d);
        digits++;
    }
    return leat_exif_orientation(exif, digits / 2);
}

#define XMP_WORD "tiff:Orientation"

uint8_t leat_xmp_orientation(const void *text, size_t size)
{
    const uint8_t *p = text;
    const uint8_t *end = p + size;
    const size_t word = sizeof XMP_WORD - 1;
    while ((p = memmem(p, (size_t)(end - p), XMP_WORD, word))) {
        p += word;
        /* As an attribute, or as an element of its own. */
        if (end - p >= 2 && p[0] == '=' && p[1] == '"')
            p += 2;
        else if (end - p >= 1 && p[0] == '>')
            p += 1;
        else
            continue;
        if (p < end && *p >= '0' && *p <= '9')
            return *p >= '1' && *p <= '8' ? (uint8_t)(*p - '0') : 1;
    }
    return 0;
}
