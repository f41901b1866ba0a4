#include "order/order.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "order/draw.h"
#include "order/list.h"

#define SLOT_BITS 10 /* of LEAT_ORDER_SLOTS_MAX */

/* A window of 1 GiB mixes 128 chunks of 8 MiB: enough that a batch of thousands sees no chunk twice over,
 * and small beside the memory of a machine with a GPU. */
#define WINDOW_BYTES ((uint64_t)1 << 30)
#define WINDOW_CAP   4096u /* of a window that is smaller than the dataset */

static uint32_t reverse_bits(uint32_t x, unsigned bits)
{
    uint32_t out = 0;
    for (unsigned i = 0; i < bits; i++)
        out |= (x >> i & 1) << (bits - 1 - i);
    return out;
}

uint32_t leat_order_slots(uint32_t chunks)
{
    return chunks < LEAT_ORDER_SLOTS_MAX ? chunks : LEAT_ORDER_SLOTS_MAX;
}

/* Bits reversed, so that the slots that get one chunk more than others lie evenly among them: a node that
 * owns a run of slots owns its share of the chunks. */
uint32_t leat_order_slot_of(uint32_t chunk, uint32_t chunks)
{
    if (chunks < LEAT_ORDER_SLOTS_MAX)
        return chunk;
    return reverse_bits(chunk % LEAT_ORDER_SLOTS_MAX, SLOT_BITS);
}

uint32_t leat_order_window_default(uint32_t chunks, uint64_t bytes)
{
    /* All chunks may be live, so they are mixed as a whole. With w the number of chunks they would not be: the first
     * chunk of the list begins w stages before the last, and an epoch would begin and end with few of them. The
     * larger w is beside the number of chunks, the less of an epoch is such a beginning. */
    if (bytes <= WINDOW_BYTES)
        return LEAT_ORDER_WINDOW_MAX;
    uint64_t mean = chunks ? bytes / chunks : bytes;
    uint64_t w = WINDOW_BYTES / (mean ? mean : 1);
    if (w > WINDOW_CAP)
        w = WINDOW_CAP;
    return w ? (uint32_t)w : 1;
}

static leat_status check_spec(const struct leat_order_spec *spec, struct leat_error *err)
{
    if (spec->chunks > LEAT_ORDER_CHUNKS_MAX)
        return leat_fail(err, LEAT_LIMIT, "%u chunks are more than an order can hold (%u)", spec->chunks,
                         LEAT_ORDER_CHUNKS_MAX);
    if (!spec->view || !*spec->view || strlen(spec->view) >= LEAT_ORDER_VIEW_MAX)
        return leat_fail(err, LEAT_INVALID, "a view's name has 1 to %d bytes", LEAT_ORDER_VIEW_MAX - 1);
    if (spec->seed > LEAT_ORDER_NUMBER_MAX || spec->epoch > LEAT_ORDER_NUMBER_MAX)
        return leat_fail(err, LEAT_INVALID, "seed and epoch must be below 2^63");
    if (!spec->shuffle)
        return LEAT_OK;
    if (spec->window == 0 || spec->window > LEAT_ORDER_WINDOW_MAX)
        return leat_fail(err, LEAT_INVALID, "window %u is not between 1 and %u chunks", spec->window,
                         LEAT_ORDER_WINDOW_MAX);
    return LEAT_OK;
}

static uint64_t key_for(const struct leat_order_spec *spec, const char *purpose)
{
    uint8_t data[sizeof spec->dataset + LEAT_ORDER_VIEW_MAX];
    size_t view = strlen(spec->view);
    memcpy(data, spec->dataset, sizeof spec->dataset);
    memcpy(data + sizeof spec->dataset, spec->view, view);
    return leat_key(purpose, spec->seed, spec->epoch, data, sizeof spec->dataset + view);
}

static leat_status make_tables(const struct leat_order_spec *spec, struct leat_order *o, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    o->places = 0;
    if (spec->shuffle) {
        o->strata_key = key_for(spec, "order 1 strata");
        o->jitter_key = key_for(spec, "order 1 jitter");
        rc = leat_order_make_list(spec, key_for(spec, "order 1 slots"), key_for(spec, "order 1 rounds"), o->list,
                                  &o->places, err);
    } else {
        for (uint32_t c = 0; c < spec->chunks; c++) {
            if (spec->counts[c])
                o->list[o->places++] = c;
        }
    }
    if (rc != LEAT_OK)
        return rc;
    memset(o->place, 0xff, (size_t)spec->chunks * sizeof *o->place);
    for (uint32_t p = 0; p < o->places; p++)
        o->place[o->list[p]] = p;
    rc = leat_prefix_make(spec->counts, NULL, spec->chunks, &o->by_chunk, err);
    if (rc == LEAT_OK)
        rc = leat_prefix_make(spec->counts, o->list, o->places, &o->by_place, err);
    return rc;
}

leat_status leat_order_open(const struct leat_order_spec *spec, struct leat_order **out, struct leat_error *err)
{
    leat_status rc = check_spec(spec, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_order *o = calloc(1, sizeof *o);
    if (!o)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for an order");
    o->spec = *spec;
    o->spec.view = NULL; /* the caller's text may go away */
    if (!spec->shuffle)
        o->spec.window = 1;
    o->list = malloc(((size_t)spec->chunks + 1) * sizeof *o->list);
    o->place = malloc(((size_t)spec->chunks + 1) * sizeof *o->place);
    if (!o->list || !o->place)
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the order of %u chunks", spec->chunks);
    else
        rc = make_tables(spec, o, err);
    if (rc != LEAT_OK) {
        leat_order_close(o); /* accepts a half-built order */
        return rc;
    }
    *out = o;
    return LEAT_OK;
}

void leat_order_close(struct leat_order *o)
{
    if (!o)
        return;
    leat_prefix_free(&o->by_place);
    leat_prefix_free(&o->by_chunk);
    free(o->place);
    free(o->list);
    free(o);
}

/* Asking an open order */

uint64_t leat_order_units(const struct leat_order *o)
{
    return leat_prefix_total(&o->by_chunk);
}

uint32_t leat_order_chunks(const struct leat_order *o)
{
    return o->spec.chunks;
}

uint32_t leat_order_places(const struct leat_order *o)
{
    return o->places;
}

uint64_t leat_order_stages(const struct leat_order *o)
{
    return o->places ? (uint64_t)o->places + o->spec.window - 1 : 0;
}

uint32_t leat_order_window(const struct leat_order *o)
{
    return o->spec.window;
}

uint32_t leat_order_chunk_at(const struct leat_order *o, uint32_t place)
{
    return o->list[place];
}

uint32_t leat_order_place_of(const struct leat_order *o, uint32_t chunk)
{
    return o->place[chunk];
}

uint32_t leat_order_count(const struct leat_order *o, uint32_t chunk)
{
    return o->spec.counts[chunk];
}

uint64_t leat_order_unit(const struct leat_order *o, struct leat_order_item item)
{
    return leat_prefix_before(&o->by_chunk, item.chunk) + item.index;
}

struct leat_order_item leat_order_item(const struct leat_order *o, uint64_t unit)
{
    struct leat_order_item item = {.chunk = leat_prefix_find(&o->by_chunk, unit)};
    item.index = (uint32_t)(unit - leat_prefix_before(&o->by_chunk, item.chunk));
    return item;
}

uint64_t leat_order_offset_at(const struct leat_order *o, uint32_t chunk, uint64_t stride, uint32_t stratum)
{
    uint32_t block[4];
    if (!o->spec.shuffle)
        return 0;
    leat_random_block(o->jitter_key, chunk, stratum / 4, block);
    return leat_order_offset(stride, stratum, block[stratum % 4]);
}

/* Units of the chunk at `place` that fall before `stage`. Strata are in order of time, so only the one that
 * the border may cut needs its jitter. */
static uint32_t units_before(const struct leat_order *o, uint32_t place, uint64_t stage)
{
    uint32_t chunk = o->list[place];
    uint32_t count = o->spec.counts[chunk];
    if (stage <= place)
        return 0;
    if (!o->spec.shuffle)
        return count;
    uint64_t stride = leat_order_stride(o, count);
    uint64_t border = (stage - place) << 32;
    uint64_t stratum = border / stride; /* stride ≥ 1, as a count is below 2^32 */
    if (stratum >= count)
        return count;
    return (uint32_t)stratum + (leat_order_offset_at(o, chunk, stride, (uint32_t)stratum) < border);
}

uint64_t leat_order_stage_start(const struct leat_order *o, uint64_t stage)
{
    uint64_t end = stage < o->places ? stage : o->places;
    uint64_t begin = stage < o->spec.window ? 0 : stage - o->spec.window + 1; /* all before are through */
    if (begin > end)
        begin = end;
    uint64_t n = leat_prefix_before(&o->by_place, (uint32_t)begin);
    for (uint64_t p = begin; p < end; p++)
        n += units_before(o, (uint32_t)p, stage);
    return n;
}

uint64_t leat_order_stage_of(const struct leat_order *o, uint64_t position)
{
    /* Stage s starts at or before the units of the places before s, so the answer is not below this one; and
     * a window later all of those have come. */
    uint64_t low = leat_prefix_find(&o->by_place, position);
    uint64_t high = low + o->spec.window; /* starts behind the position */
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (leat_order_stage_start(o, middle) <= position)
            low = middle;
        else
            high = middle;
    }
    return low;
}
