#include "mutate.h"

#include "base/random.h"
#include "fuzz.h"

static const struct mutate_bytes *inputs;
static const struct mutate_bytes *words;
static size_t n_inputs;
static size_t n_words;
static struct leat_rng rng;

void mutate_from(const struct mutate_bytes *from, size_t n, const struct mutate_bytes *words_from, size_t n_words_from)
{
    inputs = from;
    n_inputs = n;
    words = words_from;
    n_words = n_words_from;
}

void mutate_seed(uint64_t seed, uint64_t number)
{
    rng = leat_rng(seed, number);
}

size_t mutate_below(size_t n)
{
    return (size_t)leat_rng_below(&rng, n);
}

/* Where something begins or goes in: also at the end. */
static size_t place_in(size_t size)
{
    return mutate_below(size + 1);
}

/* Mostly short, as long as there is room for. */
static size_t length_up_to(size_t most)
{
    size_t short_most = most < 16 ? most : 16;
    return 1 + mutate_below(mutate_below(4) ? short_most : most);
}

/* Puts it in the place of `over` bytes at `at`, as much of it as there is room for. */
static size_t put(uint8_t *data, size_t size, size_t max, size_t at, size_t over, const uint8_t *from, size_t n)
{
    if (over > size - at)
        over = size - at;
    if (n > max - (size - over))
        n = max - (size - over);
    memmove(data + at + n, data + at + over, size - at - over);
    memcpy(data + at, from, n);
    return size - over + n;
}

static size_t change_bit(uint8_t *data, size_t size, size_t max)
{
    if (size)
        data[mutate_below(size)] ^= (uint8_t)(1u << mutate_below(8));
    return size;
}

static size_t change_byte(uint8_t *data, size_t size, size_t max)
{
    if (size)
        data[mutate_below(size)] = (uint8_t)mutate_below(256);
    return size;
}

static size_t insert_bytes(uint8_t *data, size_t size, size_t max)
{
    uint8_t bytes[256];
    size_t n = length_up_to(sizeof bytes);
    bool same = mutate_below(2);
    for (size_t i = 0; i < n; i++)
        bytes[i] = same && i ? bytes[0] : (uint8_t)mutate_below(256);
    return put(data, size, max, place_in(size), 0, bytes, n);
}

static size_t erase(uint8_t *data, size_t size, size_t max)
{
    return size ? put(data, size, max, mutate_below(size), length_up_to(size), data, 0) : 0;
}

/* A part of `from`, into the input or over a part of it. */
static size_t put_part(uint8_t *data, size_t size, size_t max, const uint8_t *from, size_t n)
{
    uint8_t part[4096];
    if (!n)
        return size;
    size_t start = mutate_below(n);
    size_t length = length_up_to(n - start < sizeof part ? n - start : sizeof part);
    memcpy(part, from + start, length); /* it may be the input itself */
    return put(data, size, max, place_in(size), mutate_below(2) ? length : 0, part, length);
}

static size_t copy(uint8_t *data, size_t size, size_t max)
{
    return put_part(data, size, max, data, size);
}

static size_t take_from_other(uint8_t *data, size_t size, size_t max)
{
    const struct mutate_bytes *other = n_inputs ? &inputs[mutate_below(n_inputs)] : NULL;
    return other ? put_part(data, size, max, other->data, other->n) : size;
}

/* The beginning of this one and the end of another. */
static size_t splice(uint8_t *data, size_t size, size_t max)
{
    if (!n_inputs)
        return size;
    const struct mutate_bytes *other = &inputs[mutate_below(n_inputs)];
    size_t at = place_in(size);
    size_t from = mutate_below(other->n + 1);
    return put(data, size, max, at, size, other->data + from, other->n - from);
}

static uint64_t interesting(void)
{
    uint64_t power = (uint64_t)1 << mutate_below(64);
    uint64_t v = mutate_below(4) ? power : mutate_below(300);
    return v + mutate_below(3) - 1;
}

/* A number as formats write them: one to eight bytes in either order. */
static size_t put_number(uint8_t *data, size_t size, size_t max)
{
    uint8_t bytes[8];
    size_t n = (size_t)1 << mutate_below(4);
    bool back = mutate_below(2);
    uint64_t v = interesting();
    if (mutate_below(8) == 0)
        v = 0 - v;
    for (size_t i = 0; i < n; i++)
        bytes[back ? n - 1 - i : i] = (uint8_t)(v >> 8 * i);
    return put(data, size, max, place_in(size), mutate_below(4) ? n : 0, bytes, n);
}

/* … and as text: instead of digits that are there, or anywhere. */
static size_t put_decimal(uint8_t *data, size_t size, size_t max)
{
    char text[32];
    size_t at = place_in(size);
    size_t over = 0;
    for (size_t i = 0; i < size && !(at < size && data[at] >= '0' && data[at] <= '9'); i++)
        at = at + 1 < size ? at + 1 : 0;
    while (at + over < size && data[at + over] >= '0' && data[at + over] <= '9')
        over++;
    int n = snprintf(text, sizeof text, "%s%llu", mutate_below(8) ? "" : "-", (unsigned long long)interesting());
    return put(data, size, max, at, over, (const uint8_t *)text, (size_t)n);
}

static size_t put_word(uint8_t *data, size_t size, size_t max)
{
    if (!n_words)
        return size;
    const struct mutate_bytes *word = &words[mutate_below(n_words)];
    return put(data, size, max, place_in(size), mutate_below(2) ? word->n : 0, word->data, word->n);
}

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max)
{
    static size_t (*const ways[])(uint8_t *, size_t, size_t) = {
        change_bit, change_byte, insert_bytes, erase,       copy,     take_from_other,
        splice,     put_number,  put_number,   put_decimal, put_word, put_word,
    };
    return ways[mutate_below(sizeof ways / sizeof *ways)](data, size, max);
}
