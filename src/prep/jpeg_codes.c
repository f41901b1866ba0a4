#include "prep/jpeg_codes.h"

#include <string.h>

#define BITS       LEAT_CODES_BITS
#define VALUE_MAX  7 /* extra bits of a coefficient that an entry has room for */
#define SECOND_MAX 6

bool leat_jpeg_codes_sound(const JHUFF_TBL *t)
{
    unsigned values = 0;
    unsigned code = 0;
    if (!t)
        return false;
    for (int length = 1; length <= 16; length++) {
        code = 2 * code + t->bits[length];
        values += t->bits[length];
        /* A code of ones alone does not exist. */
        if (code >= 1u << length)
            return false;
    }
    return values <= 256;
}

bool leat_jpeg_codes_first_sound(const JHUFF_TBL *t)
{
    unsigned values = 0;
    if (!leat_jpeg_codes_sound(t))
        return false;
    for (int length = 1; length <= 16; length++)
        values += t->bits[length];
    for (unsigned i = 0; i < values; i++) {
        if (t->huffval[i] > 15)
            return false;
    }
    return true;
}

static bool made_already(const struct leat_jpeg_long_codes *c, const JHUFF_TBL *from)
{
    return c->made && memcmp(c->made_of.bits, from->bits, sizeof from->bits) == 0 &&
           memcmp(c->made_of.huffval, from->huffval, sizeof from->huffval) == 0;
}

static void make_long(struct leat_jpeg_long_codes *c, const JHUFF_TBL *from)
{
    unsigned code = 0;
    unsigned place = 0;
    for (unsigned length = 1; length <= 16; length++) {
        c->offset[length] = (int32_t)place - (int32_t)code;
        code += from->bits[length];
        place += from->bits[length];
        c->limit[length] = from->bits[length] ? code << (16 - length) : 0;
        code <<= 1;
    }
    c->made_of = *from;
    c->made = true;
}

bool leat_jpeg_codes_find(const struct leat_jpeg_long_codes *c, uint64_t bits, unsigned *length, uint8_t *symbol)
{
    uint32_t code = (uint32_t)(bits >> 48);
    for (unsigned n = 1; n <= 16; n++) {
        if (code < c->limit[n]) {
            *length = n;
            *symbol = c->made_of.huffval[(uint8_t)((int32_t)(code >> (16 - n)) + c->offset[n])];
            return true;
        }
    }
    return false;
}

/* All windows of `bits` that begin with a code: its length << 8 | symbol. 0: it is longer, or there is none. */
static void make_windows(uint16_t *window, unsigned bits, const JHUFF_TBL *from)
{
    unsigned at = 0;
    unsigned place = 0;
    for (unsigned length = 1; length <= bits; length++) {
        for (unsigned i = 0; i < from->bits[length]; i++, place++) {
            uint16_t e = (uint16_t)(length << 8 | from->huffval[place]);
            for (unsigned end = at + (1u << (bits - length)); at < end; at++)
                window[at] = e;
        }
    }
    memset(window + at, 0, ((1u << bits) - at) * sizeof *window);
}

void leat_jpeg_first_codes_make(struct leat_jpeg_first_codes *codes, const JHUFF_TBL *from)
{
    if (made_already(&codes->rest, from))
        return;
    make_windows(codes->look, LEAT_CODES_FIRST_BITS, from);
    for (unsigned i = 0; i < 1u << LEAT_CODES_FIRST_BITS; i++) {
        unsigned extra = codes->look[i] & 15;
        codes->look[i] = (uint16_t)((codes->look[i] >> 8) + extra + (extra << 8));
    }
    make_long(&codes->rest, from);
}

/* What a symbol is, apart from its coefficient's value. */
struct symbol {
    unsigned extra;
    unsigned run;
    unsigned far;
};

static struct symbol symbol_of(uint8_t value)
{
    struct symbol s = {value & 15, value >> 4, (value >> 4) + 1};
    /* Nothing follows a symbol without a coefficient, but for the one that stands for sixteen zeros. */
    if (s.extra == 0 && value != 0xf0) {
        s.run = 0;
        s.far = LEAT_CODES_END + 1;
    }
    return s;
}

/* Extra bits are a number with its sign folded in: below half, it is negative. */
static unsigned value_of(unsigned raw, unsigned extra)
{
    return raw << 1 >> extra ? raw : raw + 1 - (1u << extra);
}

/* What a second symbol adds to an entry whose first one leaves `left` bits, by these bits. */
static void make_second(uint32_t *second, const uint16_t *window, unsigned left)
{
    for (unsigned at = 0; at < 1u << left;) {
        unsigned w = window[at << (BITS - left)];
        struct symbol s = symbol_of((uint8_t)w);
        unsigned takes = (w >> 8) + s.extra;
        uint32_t e = 0;
        unsigned end = at + 1;
        if (w && takes <= left && s.extra <= SECOND_MAX) {
            end = at + (1u << (left - takes));
            unsigned raw = at >> (left - takes) & ((1u << s.extra) - 1);
            e = takes | s.far << 10 | value_of(raw, s.extra) << 25;
        }
        for (; at < end; at++)
            second[at] = e;
    }
}

/* All windows that begin with a code. */
static void fill(uint32_t *to, unsigned length, uint8_t symbol, uint32_t *seconds, bool *has_second,
                 const uint16_t *window)
{
    struct symbol s = symbol_of(symbol);
    unsigned takes = length + s.extra;
    uint32_t e = s.run << 6 | s.far << 10;
    if (takes > BITS || s.extra > VALUE_MAX) {
        e |= s.extra << 17 | length << 21;
        for (unsigned i = 0; i < 1u << (BITS - length); i++)
            to[i] = e;
        return;
    }
    unsigned left = BITS - takes;
    uint32_t *second = seconds + (1u << left);
    if (!has_second[left])
        make_second(second, window, left);
    has_second[left] = true;
    for (unsigned raw = 0; raw < 1u << s.extra; raw++, to += 1u << left) {
        uint32_t first = e | takes | (value_of(raw, s.extra) & 255) << 17;
        for (unsigned i = 0; i < 1u << left; i++)
            to[i] = first + (s.far > LEAT_CODES_END ? 0 : second[i]);
    }
}

void leat_jpeg_codes_make(struct leat_jpeg_codes *codes, const JHUFF_TBL *from)
{
    uint16_t window[1 << BITS];
    uint32_t seconds[1 << BITS] = {0}; /* those for n bits left from 1 << n on */
    bool has_second[BITS] = {false};
    if (made_already(&codes->rest, from))
        return;
    make_windows(window, BITS, from);
    uint32_t *to = codes->look;
    unsigned place = 0;
    for (unsigned length = 1; length <= BITS; length++) {
        for (unsigned i = 0; i < from->bits[length]; i++, place++, to += 1u << (BITS - length))
            fill(to, length, from->huffval[place], seconds, has_second, window);
    }
    memset(to, 0, (size_t)(codes->look + (1u << BITS) - to) * sizeof *to);
    make_long(&codes->rest, from);
}
