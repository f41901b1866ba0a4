/* Any text as a loader's state: what is accepted can be written and read again. */
#include "order/state.h"

#include "fuzz.h"

FUZZ(state)
{
    struct leat_order_state s;
    struct leat_order_state again;
    struct leat_error err;
    char *text = NULL;
    if (leat_order_state_read((const char *)data, size, &s, &err) != LEAT_OK)
        return;
    memset(&again, 0, sizeof again);
    if (leat_order_state_write(&s, &text, &err) != LEAT_OK ||
        leat_order_state_read(text, strlen(text), &again, &err) != LEAT_OK || again.streams_n != s.streams_n)
        __builtin_trap();
    for (uint32_t i = 0; i < s.streams_n; i++) {
        const struct leat_order_stream *a = &s.streams[i];
        const struct leat_order_stream *b = &again.streams[i];
        if (leat_order_stream_fits(a, b, "the state", &err) != LEAT_OK || a->epoch != b->epoch ||
            a->position != b->position || a->window != b->window)
            __builtin_trap();
    }
    if (leat_order_state_fits(&s, &again, "the state", &err) != LEAT_OK || s.epoch != again.epoch ||
        s.position != again.position)
        __builtin_trap();
    leat_order_state_free(&s);
    leat_order_state_free(&again);
    free(text);
}
