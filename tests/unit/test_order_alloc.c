/* Memory runs out at every single allocation of the order: a clean error each time, nothing leaked. */

#include "fail_alloc.h"
#include "order/assign.h"
#include "order/place.h"
#include "order/reader.h"
#include "order/state.h"
#include "unit.h"

#define CHUNKS 1100u

static uint32_t counts[CHUNKS];

static leat_status read_epoch(void *user, struct leat_error *err)
{
    (void)user;
    struct leat_order_spec spec = {
        .view = "samples", .counts = counts, .chunks = CHUNKS, .shuffle = true, .window = 30};
    struct leat_order *o = NULL;
    struct leat_order_reader *r = NULL;
    struct leat_order_item items[64];
    leat_status rc = leat_order_open(&spec, &o, err);
    if (rc == LEAT_OK)
        rc = leat_order_reader_open(o, 500, &r, err);
    for (int i = 0; rc == LEAT_OK && i < 3; i++) {
        size_t got;
        rc = leat_order_reader_next(r, items, 64, &got, err);
    }
    leat_order_reader_close(r);
    leat_order_close(o);
    return rc;
}

TEST(opening_and_reading)
{
    for (uint32_t c = 0; c < CHUNKS; c++)
        counts[c] = c % 5;
    assert_true(fail_alloc_each(read_epoch, NULL) > 20);
}

static leat_status assign_batch(void *user, struct leat_error *err)
{
    (void)user;
    const uint32_t node_of_rank[2] = {0, 1};
    const uint32_t node_of_slot[4] = {0, 0, 1, 1};
    struct leat_order_world w = {
        .ranks = 2, .nodes = 2, .node_of_rank = node_of_rank, .slots = 4, .node_of_slot = node_of_slot, .chunks = 4};
    const struct leat_order_item items[4] = {{0, 0}, {1, 0}, {2, 0}, {3, 0}};
    const uint32_t costs[4] = {1, 2, 3, 4};
    uint32_t rank_of[4];
    struct leat_order_assigner *a;
    leat_status rc = leat_order_assigner_open(&w, 4, true, &a, err);
    if (rc != LEAT_OK)
        return rc;
    leat_order_assign(a, items, costs, 4, rank_of);
    leat_order_assigner_close(a);
    return LEAT_OK;
}

TEST(assigning)
{
    assert_int_equal(fail_alloc_each(assign_batch, NULL), 8);
}

static leat_status place(void *user, struct leat_error *err)
{
    (void)user;
    const uint32_t node_of_rank[3] = {0, 1, 2};
    const uint32_t was[3] = {1, LEAT_ORDER_NONE, 0};
    uint32_t before[10];
    uint32_t after[10];
    leat_status rc = leat_order_place(10, 2, node_of_rank, 2, before, err);
    if (rc == LEAT_OK)
        rc = leat_order_place_again(10, before, 2, 3, node_of_rank, 3, was, after, err);
    return rc;
}

TEST(placing)
{
    assert_int_equal(fail_alloc_each(place, NULL), 3);
}

static leat_status keep_state(void *user, struct leat_error *err)
{
    (void)user;
    static struct leat_order_state s;
    struct leat_mixture_part part = {.shares = {2, 1}};
    char *text;
    s = (struct leat_order_state){.streams_n = 2,
                                  .streams = {{.view = "samples", .units = 9, .shuffle = true, .window = 3},
                                              {.view = "tokens", .units = 9, .window = 1}},
                                  .parts = &part,
                                  .parts_n = 1,
                                  .epoch_units = 100};
    leat_status rc = leat_order_state_write(&s, &text, err);
    if (rc != LEAT_OK)
        return rc;
    rc = leat_order_state_read(text, strlen(text), &s, err);
    if (rc == LEAT_OK)
        leat_order_state_free(&s);
    free(text);
    return rc;
}

TEST(writing_and_reading_a_state)
{
    assert_true(fail_alloc_each(keep_state, NULL) >= 3);
}
