#include "cache/disk_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "cache/segment.h"

/* Names are digests: any bits of them are as good as a hash. */
static size_t home(const struct leat_disk_index *x, const uint8_t name[32])
{
    return (size_t)(leat_get_u64(name) >> (64 - x->bits));
}

static const uint8_t *name_at(const struct leat_disk_index *x, size_t i)
{
    return x->places[i].segment->slots[x->places[i].slot].name;
}

/* Where the name is, or the empty place where the search for it ends. */
static size_t probe(const struct leat_disk_index *x, const uint8_t name[32])
{
    size_t mask = ((size_t)1 << x->bits) - 1;
    size_t i = home(x, name);
    while (x->places[i].segment && memcmp(name_at(x, i), name, 32) != 0)
        i = (i + 1) & mask;
    return i;
}

bool leat_disk_index_reserve(struct leat_disk_index *x, size_t more)
{
    unsigned bits = x->bits ? x->bits : 10;
    while (((size_t)3 << bits) / 4 < x->count + more)
        bits++;
    if (bits == x->bits)
        return true;
    struct leat_disk_index larger = {.bits = bits, .count = x->count};
    larger.places = calloc((size_t)1 << bits, sizeof *larger.places);
    if (!larger.places)
        return false;
    for (size_t i = 0; x->bits && i < (size_t)1 << x->bits; i++) {
        if (x->places[i].segment)
            larger.places[probe(&larger, name_at(x, i))] = x->places[i];
    }
    free(x->places);
    *x = larger;
    return true;
}

void leat_disk_index_free(struct leat_disk_index *x)
{
    free(x->places);
    *x = (struct leat_disk_index){0};
}

struct leat_disk_place leat_disk_index_find(const struct leat_disk_index *x, const uint8_t name[32])
{
    return x->bits ? x->places[probe(x, name)] : (struct leat_disk_place){0};
}

void leat_disk_index_add(struct leat_disk_index *x, struct leat_disk_place place)
{
    x->places[probe(x, place.segment->slots[place.slot].name)] = place;
    x->count++;
}

/* Those after it that the gap would hide from their search move up. */
void leat_disk_index_remove(struct leat_disk_index *x, const uint8_t name[32])
{
    size_t mask = ((size_t)1 << x->bits) - 1;
    size_t gap = probe(x, name);
    for (size_t i = (gap + 1) & mask; x->places[i].segment; i = (i + 1) & mask) {
        size_t from_home = (i - home(x, name_at(x, i))) & mask;
        if (from_home >= ((i - gap) & mask)) {
            x->places[gap] = x->places[i];
            gap = i;
        }
    }
    x->places[gap] = (struct leat_disk_place){0};
    x->count--;
}
