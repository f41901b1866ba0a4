/* Any text as a pointer: what is taken is written and read again as the same; what is refused says why. */
#include "dataset/names.h"

#include "fuzz.h"

FUZZ(pointer)
{
    struct leat_pointer p;
    struct leat_pointer again;
    struct leat_error err;
    char name[LEAT_NAME_MAX];
    char *text = fuzz_text(data, size);
    leat_status rc = leat_pointer_read("leat/current", text, size, &p, &err);
    fuzz_check_error(rc, &err);
    if (rc == LEAT_OK) {
        char written[LEAT_POINTER_MAX];
        leat_pointer_write(&p, written);
        PROMISE(leat_pointer_read("leat/current", written, strlen(written), &again, &err) == LEAT_OK);
        PROMISE(memcmp(&p, &again, sizeof p) == 0);
    }
    rc = leat_name_named(text, name, &err);
    fuzz_check_error(rc, &err);
    PROMISE(rc != LEAT_OK || (strlen(name) < sizeof name && !strchr(name + strlen(LEAT_NAME_NAMES), '/')));
    free(text);
}
