/* What the entropy decoder of baseline JPEG stands on: tables of two symbols a look, and bytes without stuffing. */
#include "images.h"
#include "prep/jpeg_codes.h"
#include "prep/jpeg_stream.h"
#include "unit.h"

static uint32_t below(uint32_t *state, uint32_t n)
{
    return (noise_bits(state) >> 8) % n;
}

/* Any table that can exist. */
static JHUFF_TBL table_draw(uint32_t *state, unsigned symbols)
{
    JHUFF_TBL t = {0};
    unsigned code = 0;
    unsigned places = 0;
    for (unsigned length = 1; length <= 16; length++) {
        code *= 2;
        unsigned most = (1u << length) - 1 - code;
        most = most < 256 - places ? most : 256 - places;
        most = length < 9 && most > length / 2 + 1 ? length / 2 + 1 : most;
        unsigned n = below(state, most + 1);
        t.bits[length] = (uint8_t)(n < 255 ? n : 255);
        code += t.bits[length];
        places += t.bits[length];
    }
    /* Few extra bits most of the time, as in pictures: so that two symbols often fit into one look. */
    for (unsigned i = 0; i < places; i++)
        t.huffval[i] = (uint8_t)(below(state, 4) ? below(state, symbols) & 0xf3 : below(state, symbols));
    return t;
}

/* A symbol read bit by bit. */
struct read {
    bool there;
    unsigned length;
    unsigned extra;
    unsigned run;
    unsigned far;
    int value;
};

static struct read read_symbol(const JHUFF_TBL *t, uint64_t bits)
{
    unsigned code = 0;
    unsigned first = 0;
    unsigned place = 0;
    for (unsigned length = 1; length <= 16; length++) {
        code = code << 1 | (bits >> (64 - length) & 1);
        if (code - first < t->bits[length]) {
            uint8_t symbol = t->huffval[place + code - first];
            struct read r = {true, length, symbol & 15, symbol >> 4, (symbol >> 4) + 1, 0};
            for (unsigned i = 0; i < r.extra; i++)
                r.value = r.value * 2 + (int)(bits >> (63 - length - i) & 1);
            if (r.extra && !(bits >> (63 - length) & 1))
                r.value -= (1 << r.extra) - 1;
            if (r.extra == 0 && symbol != 0xf0) {
                r.run = 0;
                r.far = LEAT_CODES_END + 1;
            }
            return r;
        }
        place += t->bits[length];
        first = (first + t->bits[length]) << 1;
    }
    return (struct read){0};
}

static void check_window(const JHUFF_TBL *t, const struct leat_jpeg_codes *codes, uint64_t bits)
{
    uint32_t e = codes->look[bits >> (64 - LEAT_CODES_BITS)];
    struct read one = read_symbol(t, bits);
    unsigned length = 0;
    uint8_t symbol = 0;
    assert_int_equal(leat_jpeg_codes_find(&codes->rest, bits, &length, &symbol), one.there);
    assert_int_equal(length, one.length);
    if (!one.there || one.length > LEAT_CODES_BITS) {
        assert_int_equal(e, 0);
        return;
    }
    unsigned takes = one.length + one.extra;
    assert_int_equal(LEAT_CODES_RUN(e), one.run);
    if (takes > LEAT_CODES_BITS || one.extra > 7) {
        assert_int_equal(LEAT_CODES_TAKES(e), 0);
        assert_int_equal(LEAT_CODES_FAR(e), one.far);
        assert_int_equal(LEAT_CODES_EXTRA(e), one.extra);
        assert_int_equal(LEAT_CODES_LENGTH(e), one.length);
        return;
    }
    assert_int_equal(LEAT_CODES_VALUE(e), one.value);
    struct read two = one.far > LEAT_CODES_END ? (struct read){0} : read_symbol(t, bits << takes);
    unsigned more = two.length + two.extra;
    if (!two.there || takes + more > LEAT_CODES_BITS || two.extra > 6)
        two = (struct read){0};
    assert_int_equal(LEAT_CODES_TAKES(e), takes + two.length + two.extra);
    assert_int_equal(LEAT_CODES_FAR(e), one.far + two.far);
    assert_int_equal(LEAT_CODES_SECOND(e), two.value);
}

TEST(every_look_is_what_reading_bit_by_bit_gives)
{
    static struct leat_jpeg_codes codes;
    uint32_t noise = 1;
    for (unsigned n = 0; n < 200; n++) {
        JHUFF_TBL t = table_draw(&noise, 256);
        assert_true(leat_jpeg_codes_sound(&t));
        leat_jpeg_codes_make(&codes, &t);
        for (uint64_t window = 0; window < 1u << LEAT_CODES_BITS; window++) {
            uint64_t after = (uint64_t)noise_bits(&noise) << 32 | noise_bits(&noise);
            check_window(&t, &codes, window << (64 - LEAT_CODES_BITS) | after >> LEAT_CODES_BITS);
        }
    }
}

TEST(every_look_for_a_first_coefficient_too)
{
    static struct leat_jpeg_first_codes codes;
    uint32_t noise = 2;
    for (unsigned n = 0; n < 200; n++) {
        JHUFF_TBL t = table_draw(&noise, 16);
        assert_true(leat_jpeg_codes_first_sound(&t));
        leat_jpeg_first_codes_make(&codes, &t);
        for (uint64_t window = 0; window < 1u << LEAT_CODES_FIRST_BITS; window++) {
            unsigned e = codes.look[window];
            struct read one = read_symbol(&t, window << (64 - LEAT_CODES_FIRST_BITS));
            if (one.there && one.length <= LEAT_CODES_FIRST_BITS)
                assert_int_equal(e, (one.length + one.extra) | one.extra << 8);
            else
                assert_int_equal(e, 0);
        }
    }
}

TEST(tables_that_cannot_exist_are_not_sound)
{
    JHUFF_TBL t = {.bits = {0, 1, 1, 1}, .huffval = {0, 1, 16}};
    assert_true(leat_jpeg_codes_sound(&t));
    assert_false(leat_jpeg_codes_first_sound(&t));
    t.bits[3] = 2; /* the last of them is ones alone */
    assert_false(leat_jpeg_codes_sound(&t));
    assert_false(leat_jpeg_codes_sound(NULL));
}

#define RAW_MAX   (3 * 9000 + 8)
#define CLEAN_MAX 9000

struct stuffed {
    uint8_t raw[RAW_MAX];
    uint8_t clean[CLEAN_MAX];
    size_t raw_size;
    size_t clean_size;
};

static void stuffed_draw(struct stuffed *s, uint32_t *state, size_t size, unsigned one_in)
{
    s->raw_size = 0;
    s->clean_size = size;
    for (size_t i = 0; i < size; i++) {
        s->clean[i] = below(state, one_in) ? (uint8_t)below(state, 255) : 0xff;
        for (unsigned more = s->clean[i] == 0xff && below(state, 5) == 0; more; more--)
            s->raw[s->raw_size++] = 0xff;
        s->raw[s->raw_size++] = s->clean[i];
        if (s->clean[i] == 0xff)
            s->raw[s->raw_size++] = 0;
    }
}

static uint64_t bits_at(const struct stuffed *s, size_t at, unsigned n)
{
    uint64_t v = 0;
    for (size_t i = at; i < at + n; i++)
        v = v << 1 | (i / 8 < s->clean_size ? s->clean[i / 8] >> (7 - i % 8) & 1 : 0);
    return v;
}

/* Reads as blocks do, up to some bits over the end of the data. */
static void read_all(struct leat_jpeg_stream *stream, struct leat_jpeg_reader *reader, const struct stuffed *s,
                     uint32_t *state)
{
    size_t at = 0;
    for (unsigned after = 0; after < 13;) {
        leat_jpeg_stream_check(stream, reader);
        unsigned symbols = 1 + below(state, 64);
        for (unsigned i = 0; i < symbols; i++) {
            unsigned n = 1 + below(state, 31);
            leat_jpeg_refill(reader);
            if (reader->bits >> (64 - n) != bits_at(s, at, n))
                fail_msg("%u bits at %zu of %zu bytes", n, at, s->clean_size);
            reader->bits <<= n;
            reader->count -= n;
            at += n;
        }
        assert_int_equal(leat_jpeg_stream_over(stream, reader), at > 8 * s->clean_size);
        after += at > 8 * s->clean_size;
    }
}

TEST(a_stream_gives_every_bit_and_zeros_after_the_end)
{
    static const uint8_t ends[][3] = {{0xff, 0xd9, 0}, {0xff, 0xff, 0xd0}, {0xff, 0xff, 0xff}, {0xff}, {0}};
    static const size_t end_sizes[] = {2, 3, 3, 1, 0};
    static struct leat_jpeg_stream stream;
    static struct stuffed s;
    struct leat_jpeg_reader reader;
    uint32_t noise = 3;
    for (unsigned n = 0; n < 1500; n++) {
        /* Around the size of the buffer, too. */
        size_t size = n % 3 == 0 ? below(&noise, 40) : n % 3 == 1 ? 4070 + below(&noise, 60) : below(&noise, CLEAN_MAX);
        stuffed_draw(&s, &noise, size, 1 + below(&noise, 40));
        memcpy(s.raw + s.raw_size, ends[n % 5], end_sizes[n % 5]);
        s.raw_size += end_sizes[n % 5];
        /* Memory of its own, so that a sanitizer sees a byte too far. */
        uint8_t *raw = malloc(s.raw_size ? s.raw_size : 1);
        memcpy(raw, s.raw, s.raw_size);
        leat_jpeg_stream_begin(&stream, raw, raw + s.raw_size, &reader);
        read_all(&stream, &reader, &s, &noise);
        free(raw);
    }
}

TEST(a_stream_goes_on_after_the_restart_marker_that_is_due)
{
    static struct leat_jpeg_stream stream;
    static struct stuffed s[2];
    static uint8_t raw[2 * RAW_MAX + 3];
    struct leat_jpeg_reader reader;
    uint32_t noise = 4;
    for (unsigned n = 0; n < 200; n++) {
        size_t size = 0;
        for (unsigned i = 0; i < 2; i++) {
            stuffed_draw(&s[i], &noise, below(&noise, n % 2 ? 30 : CLEAN_MAX), 20);
            memcpy(raw + size, s[i].raw, s[i].raw_size);
            size += s[i].raw_size;
            memcpy(raw + size, (const uint8_t[]){0xff, 0xff, i ? 0xd9 : 0xd3}, 3);
            size += 3;
        }
        leat_jpeg_stream_begin(&stream, raw, raw + size, &reader);
        if (n % 4 < 2) /* else from the very beginning: what was not read is passed over */
            read_all(&stream, &reader, &s[0], &noise);
        assert_false(leat_jpeg_stream_restart(&stream, &reader, 4));
        assert_true(leat_jpeg_stream_restart(&stream, &reader, 3));
        read_all(&stream, &reader, &s[1], &noise);
        assert_false(leat_jpeg_stream_restart(&stream, &reader, 4));
    }
}
