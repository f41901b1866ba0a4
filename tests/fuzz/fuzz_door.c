#include "net/door.h"

#include "fuzz.h"

/* The input is what a stranger sends first. */
FUZZ(door)
{
    struct leat_door_head head;
    struct leat_error err;
    char *text = malloc(size ? size : 1); /* of its own, so that reading after it is seen */
    PROMISE(text);
    memcpy(text, data, size);
    if (leat_door_read_head(text, size, &head, &err) == LEAT_OK) {
        PROMISE(size <= LEAT_DOOR_HEAD);
        PROMISE(head.path[0] == '/');
        PROMISE(memchr(head.path, '\0', sizeof head.path));
        PROMISE(memchr(head.token, '\0', sizeof head.token));
        PROMISE(!head.ranged || head.first <= head.last);
    }
    free(text);
}
