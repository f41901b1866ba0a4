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

uint8_t leat_exif_orientation(const void *tiff, size_t size)
{
    struct tiff t = {.data = tiff, .size = size};
    if (size < 8 || (t.data[0] != 'I' && t.data[0] != 'M') || t.data[0] != t.data[1])
        return 1;
    t.big = t.data[0] == 'M';
    if (get(&t, 2, 2) != 42)
        return 1;
    size_t at = get(&t, 4, 4);
    uint32_t entries = get(&t, at, 2);
    for (uint32_t i = 0; i < entries; i++) {
        size_t entry = at + 2 + (size_t)i * 12;
        if (entry + 12 > size)
            break;
        if (get(&t, entry, 2) != TAG_ORIENTATION)
            continue;
        uint32_t v = get(&t, entry + 8, 2);
        return get(&t, entry + 2, 2) == TYPE_SHORT && v >= 1 && v <= 8 ? (uint8_t)v : 1;
    }
    return 1;
}
