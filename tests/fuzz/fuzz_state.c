/* Any text as a loader's state: what is accepted can be written and read again. */
#include "order/state.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct leat_order_state s;
    struct leat_order_state again;
    struct leat_error err;
    char text[LEAT_ORDER_STATE_SIZE];
    if (leat_order_state_read((const char *)data, n, &s, &err) != LEAT_OK)
        return 0;
    memset(&again, 0, sizeof again);
    if (leat_order_state_write(&s, text, &err) != LEAT_OK ||
        leat_order_state_read(text, strlen(text), &again, &err) != LEAT_OK ||
        leat_order_state_fits(&s, &again, "the state", &err) != LEAT_OK)
        __builtin_trap();
    return 0;
}
