#include "dataset/origin.h"

#include <stdlib.h>
#include <string.h>

void leat_origin_close(struct leat_origin *o)
{
    if (o)
        o->ops->close(o);
}

void leat_origin_room_free(struct leat_origin_room *room)
{
    free(room->text);
    room->text = NULL;
    room->text_cap = 0;
}

leat_status leat_origin_room_text(struct leat_origin_room *room, size_t n, struct leat_error *err)
{
    if (n <= room->text_cap)
        return LEAT_OK;
    free(room->text);
    room->text_cap = 0;
    room->text = malloc(n);
    if (!room->text)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a sample's %zu bytes", n);
    room->text_cap = n;
    return LEAT_OK;
}

leat_status leat_origin_sample(const struct leat_origin *o, uint64_t i, struct leat_origin_room *room,
                               struct leat_origin_sample *out, struct leat_error *err)
{
    return o->ops->sample(o, i, room, out, err);
}

bool leat_origin_same_store(const struct leat_home *a, const struct leat_home *b)
{
    return a == b || leat_store_same(a->store, b->store);
}
