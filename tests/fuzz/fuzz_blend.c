/* Any text as the description of a mixture: what is accepted can be written and read again, and mixed or refused. */
#include "order/mixture.h"
#include "ring/blend.h"

#include "fuzz.h"

/* The parts as the agent makes them. */
static void mix(const struct leat_blend_spec *b)
{
    struct leat_mixture_part *parts = calloc(b->parts_n + 1, sizeof *parts);
    struct leat_mixture *m = NULL;
    bool good = parts && b->parts_n > 0;
    for (uint32_t i = 0; good && i < b->parts_n; i++) {
        parts[i].from = b->parts[i].from;
        good = leat_mixture_shares(b->parts[i].weights, b->n, parts[i].shares, NULL) == LEAT_OK;
    }
    if (good && leat_mixture_open(b->n, parts, b->parts_n, &m, NULL) == LEAT_OK) {
        uint8_t streams[64];
        uint64_t counts[LEAT_ORDER_STREAMS_MAX];
        uint64_t sum = 0;
        uint64_t at = b->parts[b->parts_n - 1].from;
        leat_mixture_read(m, at, streams, sizeof streams);
        leat_mixture_counts(m, at + sizeof streams, counts);
        for (uint32_t s = 0; s < b->n; s++)
            sum += counts[s];
        for (size_t i = 0; i < sizeof streams; i++) {
            if (streams[i] >= b->n)
                __builtin_trap();
        }
        if (sum != at + sizeof streams)
            __builtin_trap();
    }
    leat_mixture_close(m);
    free(parts);
}

FUZZ(blend)
{
    static struct leat_blend_spec b;
    static struct leat_blend_spec again;
    struct leat_error err;
    char *text = malloc(size + 1);
    char *written = NULL;
    if (!text)
        return;
    memcpy(text, data, size);
    text[size] = '\0';
    if (leat_blend_read(text, &b, &err) == LEAT_OK) {
        if (leat_blend_write(&b, &written, &err) != LEAT_OK || leat_blend_read(written, &again, &err) != LEAT_OK ||
            again.n != b.n || again.parts_n != b.parts_n)
            __builtin_trap();
        mix(&b);
        leat_blend_free(&again);
        leat_blend_free(&b);
    }
    free(written);
    free(text);
}
