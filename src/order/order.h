/* The order of one epoch, version 1 (docs/order.md): a pure function of the dataset, the view, the seed, the
 * epoch and the window. It knows nothing of ranks, nodes, threads or budgets.
 *
 * The order counts *units*: samples as stored, or whatever else the view cuts the chunks into. Unit numbers
 * run through the chunks in their own order, so a unit is (chunk, index in the chunk) or one number.
 *
 * Time in an epoch is counted in *stages*: the chunk at place p of the epoch's chunk list is first needed in
 * stage p or later and not needed any more from stage p + window on. */
#ifndef LEAT_ORDER_ORDER_H
#define LEAT_ORDER_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define LEAT_ORDER_VERSION    1
#define LEAT_ORDER_SLOTS_MAX  1024u
#define LEAT_ORDER_WINDOW_MAX 65536u
#define LEAT_ORDER_CHUNKS_MAX (1u << 31)
#define LEAT_ORDER_VIEW_MAX   64                    /* bytes of a view's name, with the NUL */
#define LEAT_ORDER_NUMBER_MAX ((uint64_t)INT64_MAX) /* of seeds, epochs and positions: they must fit JSON */
#define LEAT_ORDER_NONE       UINT32_MAX

#define LEAT_ORDER_VIEW_SAMPLES "samples" /* the view of samples as stored */

struct leat_order_spec {
    uint8_t dataset[32];    /* the dataset's id */
    const char *view;       /* canonical name of what the units are */
    const uint32_t *counts; /* units in each chunk; borrowed, must outlive the order. 0: the chunk is never needed */
    uint32_t chunks;
    bool shuffle; /* false: units in their own order, whatever seed, epoch and window */
    uint64_t seed;
    uint64_t epoch;
    uint32_t window; /* chunks, 1 … LEAT_ORDER_WINDOW_MAX, also more than there are; ignored without shuffle */
};

struct leat_order_item {
    uint32_t chunk;
    uint32_t index; /* of the unit in its chunk */
};

/* Immutable once open: any number of threads may use it. About 8 bytes per chunk. */
struct leat_order;

leat_status leat_order_open(const struct leat_order_spec *spec, struct leat_order **out, struct leat_error *err);
void leat_order_close(struct leat_order *o); /* NULL is allowed */

uint64_t leat_order_units(const struct leat_order *o);
uint32_t leat_order_chunks(const struct leat_order *o); /* in the dataset, empty ones too */
uint32_t leat_order_places(const struct leat_order *o); /* length of the chunk list: chunks that are not empty */
uint64_t leat_order_stages(const struct leat_order *o); /* places + window - 1; 0 for an empty order */
uint32_t leat_order_window(const struct leat_order *o); /* 1 without shuffle */

uint32_t leat_order_chunk_at(const struct leat_order *o, uint32_t place); /* place < places */
uint32_t leat_order_place_of(const struct leat_order *o, uint32_t chunk); /* LEAT_ORDER_NONE for an empty chunk */
uint32_t leat_order_count(const struct leat_order *o, uint32_t chunk);    /* units in it */

/* Numbers of units and back. unit < units. */
uint64_t leat_order_unit(const struct leat_order *o, struct leat_order_item item);
struct leat_order_item leat_order_item(const struct leat_order *o, uint64_t unit);

/* How many positions lie before a stage, exactly; and the stage a position lies in. A window's work without
 * its shuffles: tens of microseconds. */
uint64_t leat_order_stage_start(const struct leat_order *o, uint64_t stage);
uint64_t leat_order_stage_of(const struct leat_order *o, uint64_t position); /* position < units */

/* Slots: a fixed spread of the chunks that placement on nodes is made of. The same for every view and epoch. */
uint32_t leat_order_slots(uint32_t chunks);
uint32_t leat_order_slot_of(uint32_t chunk, uint32_t chunks);

/* The window for a dataset of that many chunks and bytes, when none is asked for: a GiB of chunks, and the largest
 * there is for a dataset that has no more than that. */
uint32_t leat_order_window_default(uint32_t chunks, uint64_t bytes);

#endif
