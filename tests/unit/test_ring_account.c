/* The account: one table makes everything that is written, read, added up and shown. */
#include <math.h>
#include <unistd.h>

#include "base/json.h"
#include "leat/loader.h"
#include "ring/account.h"
#include "ring/ring.h"
#include "unit.h"

#define FIELDS (sizeof(struct leat_account) / sizeof(uint64_t))

static uint64_t *field(struct leat_account *a, size_t i)
{
    return (uint64_t *)(void *)a + i;
}

/* Every field another number, large and odd. */
static void fill(struct leat_account *a, uint64_t from)
{
    for (size_t i = 0; i < FIELDS; i++)
        *field(a, i) = from + 1000003 * (i + 1);
}

TEST(each_field_has_one_row_of_its_own)
{
    uint32_t seen[FIELDS] = {0};
    for (size_t i = 0; i < leat_account_rows(); i++) {
        const struct leat_account_row *row = leat_account_row(i);
        assert_int_equal(row->offset % sizeof(uint64_t), 0);
        assert_true(row->offset + (row->adds ? row->adds : 1) * sizeof(uint64_t) <= sizeof(struct leat_account));
        seen[row->offset / sizeof(uint64_t)] += row->adds == 1;
        assert_true(strlen(row->help) > 4);
        for (size_t k = 0; k < i; k++) {
            const struct leat_account_row *other = leat_account_row(k);
            bool same = strcmp(row->name, other->name) == 0;
            assert_false(same && (!row->part || !other->part || strcmp(row->part, other->part) == 0));
        }
    }
    for (size_t i = 0; i < FIELDS; i++)
        assert_int_equal(seen[i], 1);
    assert_null(leat_account_row(leat_account_rows()));
}

TEST(every_field_is_read_as_it_was_written)
{
    for (uint64_t from = 0; from < 1ull << 50; from = from * 3 + 7) {
        struct leat_account a, b;
        json_t *j = json_object();
        json_t *again = NULL;
        fill(&a, from);
        assert_true(leat_account_write(&a, LEAT_OF_RANK, LEAT_OF_AGENT, j));
        char *text = leat_json_write(j, JSON_COMPACT);
        assert_int_equal(leat_json_read(text, strlen(text), 0, &again, NULL), LEAT_OK);
        leat_account_read(again, &b);
        assert_memory_equal(&a, &b, sizeof a);
        free(text);
        json_decref(j);
        json_decref(again);
    }
}

TEST(unknown_names_are_ignored)
{
    static const char text[] =
        "{\"batches\": 3, \"of a later release\": 9, \"bytes_by_source\": {\"moon\": 7, \"disk\": 5},"
        "\"samples\": \"many\", \"requests\": -4, \"wait_by_cause_s\": 3, \"wait_s\": -1.5,"
        "\"request_s\": 1e300, \"evictions\": 77}";
    struct leat_account a;
    struct leat_account expected = {.batches = 3};
    json_t *j = NULL;
    expected.bytes_by_source[LEAT_FROM_DISK] = 5;
    assert_int_equal(leat_json_read(text, strlen(text), 0, &j, NULL), LEAT_OK);
    fill(&a, 1);
    leat_account_read(j, &a);
    assert_memory_equal(&a, &expected, sizeof a);
    json_decref(j);
    leat_account_read(NULL, &a);
    assert_int_equal(a.batches, 0);
}

TEST(parts_are_written_within_their_bounds)
{
    struct leat_account a;
    json_t *j = json_object();
    fill(&a, 0);
    assert_true(leat_account_write(&a, LEAT_OF_LOADER, LEAT_OF_DATASET, j));
    assert_null(json_object_get(j, "wait_s"));
    assert_null(json_object_get(j, "cache_bytes"));
    assert_non_null(json_object_get(j, "ring_bytes"));
    assert_true(json_integer_value(json_object_get(j, "chunks_fetched")) ==
                (json_int_t)a.chunks_by_source[LEAT_FROM_BUCKET]);
    assert_true(leat_account_write(&a, LEAT_OF_AGENT, LEAT_OF_AGENT, j));
    assert_true(json_integer_value(json_object_get(j, "evictions")) ==
                (json_int_t)(a.evictions_by_tier[LEAT_TIER_RAM] + a.evictions_by_tier[LEAT_TIER_DISK]));
    json_decref(j);
}

TEST(sums_add_and_gauges_do_as_their_owners_do)
{
    struct leat_account a, b, c;
    fill(&a, 5);
    fill(&b, 900);
    c = a;
    leat_account_add(&c, &b);
    for (size_t i = 0; i < FIELDS; i++)
        assert_true(*field(&c, i) == *field(&a, i) + *field(&b, i));

    c = a;
    leat_account_carry(&c, &b, LEAT_OF_LOADER, LEAT_OF_LOADER);
    assert_true(c.samples_skipped == a.samples_skipped + b.samples_skipped);
    assert_true(c.ring_bytes == a.ring_bytes && c.requests == a.requests && c.batches == a.batches);
    leat_account_carry(&c, &b, LEAT_OF_DATASET, LEAT_OF_AGENT);
    assert_true(c.requests == a.requests + b.requests && c.demotions == a.demotions + b.demotions);
    assert_true(c.samples_skipped == a.samples_skipped + b.samples_skipped);
    assert_true(c.cache_bytes == a.cache_bytes && c.fetches_in_flight == a.fetches_in_flight);

    c = b;
    leat_account_since(&c, &a);
    assert_true(c.batches == b.batches - a.batches && c.wait_by_cause_ns[LEAT_WAIT_PREP] == 895);
    assert_true(c.cache_bytes == b.cache_bytes);
    c = a;
    leat_account_since(&c, &b); /* an agent that begins again counts from 0: never less than nothing */
    assert_int_equal(c.batches, 0);
}

TEST(metrics_are_what_prometheus_reads)
{
    struct leat_account a = {.batches = 7, .cache_bytes = 1ull << 40, .wait_ns = 99};
    struct leat_buf b;
    a.wait_by_cause_ns[LEAT_WAIT_FETCH] = 1500000000;
    a.bytes_by_source[LEAT_FROM_DISK] = 12;
    leat_buf_init(&b, 1 << 20);
    leat_account_metrics((struct leat_account_metric[]){{&a, "scope=\"x\"", LEAT_OF_RANK, LEAT_OF_AGENT}}, 1, &b);
    assert_false(b.failed);
    assert_non_null(strstr(b.data, "\n# TYPE leat_wait_seconds_total counter\n"));
    assert_non_null(strstr(b.data, "\nleat_wait_seconds_total{scope=\"x\",cause=\"fetch\"} 1.500000000\n"));
    assert_non_null(strstr(b.data, "\nleat_bytes_total{scope=\"x\",source=\"disk\"} 12\n"));
    assert_non_null(strstr(b.data, "\nleat_batches_total{scope=\"x\"} 7\n"));
    assert_non_null(strstr(b.data, "\n# TYPE leat_cache_bytes gauge\nleat_cache_bytes{scope=\"x\"} 1099511627776\n"));
    assert_null(strstr(b.data, "leat_wait_seconds_total{scope=\"x\"}")); /* the whole beside its parts */
    assert_null(strstr(b.data, "chunks_fetched"));
    const char *first = strstr(b.data, "# TYPE leat_bytes_total");
    assert_non_null(first);
    assert_null(strstr(first + 1, "# TYPE leat_bytes_total")); /* once a family, or it is refused */
    leat_buf_clear(&b);
    leat_account_metrics((struct leat_account_metric[]){{&a, "", LEAT_OF_AGENT, LEAT_OF_AGENT}}, 1, &b);
    assert_non_null(strstr(b.data, "\nleat_cache_bytes 1099511627776\n"));
    assert_null(strstr(b.data, "leat_batches_total"));
    leat_buf_clear(&b);
    /* Series of one name stand together, whosever they are: else Prometheus refuses the text. */
    leat_account_metrics((struct leat_account_metric[]){{&a, "rank=\"0\"", LEAT_OF_RANK, LEAT_OF_RANK},
                                                        {&a, "rank=\"1\"", LEAT_OF_RANK, LEAT_OF_RANK}},
                         2, &b);
    assert_non_null(strstr(b.data, "leat_batches_total{rank=\"0\"} 7\nleat_batches_total{rank=\"1\"} 7\n# HELP"));
    assert_null(strstr(b.data, "leat_cache_bytes"));
    leat_buf_free(&b);
}

TEST(labels_are_escaped)
{
    struct leat_buf b;
    leat_buf_init(&b, 1 << 10);
    leat_account_label(&b, "scope", "a\"b\\c\nd");
    leat_account_label(&b, "rank", "0");
    assert_string_equal(b.data, "scope=\"a\\\"b\\\\c\\nd\",rank=\"0\"");
    leat_buf_free(&b);
}

TEST(ranks_part_is_found_in_the_ring_and_never_becomes_less)
{
    struct leat_ring_column column = {.name = "y", .stride = 8};
    struct leat_ring agent, rank;
    struct leat_account a = {.batches = 5, .wait_ns = 9, .samples_skipped = 77, .disk_bytes = 3};
    struct leat_account b;
    struct leat_error err;
    a.wait_by_cause_ns[LEAT_WAIT_FETCH] = 9;
    assert_int_equal(leat_ring_create(&column, 1, 4, leat_ring_layout(&column, 1, 4), 2, &agent, &err), LEAT_OK);
    assert_int_equal(leat_ring_attach(dup(agent.fd), &rank, &err), LEAT_OK);
    assert_false(leat_account_look_rank(&agent, &b)); /* a rank of a release that does not show it */
    leat_account_show(&agent, &a);
    assert_false(leat_account_look_rank(&agent, &b));
    leat_account_show_rank(&rank, &a);
    assert_true(leat_account_look_rank(&agent, &b));
    assert_true(b.batches == 5 && b.wait_by_cause_ns[LEAT_WAIT_FETCH] == 9);
    assert_true(b.samples_skipped == 0 && b.disk_bytes == 0); /* not the rank's to say */
    a.batches = 6;
    a.wait_by_cause_ns[LEAT_WAIT_FETCH] = 2; /* it was for the agent, as is known now */
    a.wait_by_cause_ns[LEAT_WAIT_AGENT] = 7;
    leat_account_show_rank(&rank, &a);
    assert_true(leat_account_look_rank(&agent, &b));
    assert_true(b.batches == 6 && b.wait_by_cause_ns[LEAT_WAIT_FETCH] == 9 && b.wait_by_cause_ns[LEAT_WAIT_AGENT] == 7);
    leat_ring_close(&agent);
    leat_ring_close(&rank);
}

TEST(agents_part_is_found_in_the_ring)
{
    struct leat_ring_column column = {.name = "y", .stride = 8};
    struct leat_ring agent, rank;
    struct leat_account a, b;
    struct leat_error err;
    uint64_t slot = leat_ring_layout(&column, 1, 4);
    assert_int_equal(leat_ring_create(&column, 1, 4, slot, 2, &agent, &err), LEAT_OK);
    assert_int_equal(leat_ring_attach(dup(agent.fd), &rank, &err), LEAT_OK);
    fill(&a, 3);
    assert_false(leat_account_look(&rank, &b)); /* an agent that does not write it */
    memset(leat_ring_slot(&agent, 0), 0xee, slot);
    leat_account_show(&agent, &a);
    leat_ring_close(&agent); /* it is gone */
    assert_true(leat_account_look(&rank, &b));
    assert_memory_equal(&a, &b, sizeof a);
    assert_int_equal(*(uint8_t *)leat_ring_slot(&rank, 0), 0xee);
    leat_ring_close(&rank);
    assert_false(leat_account_look(&rank, &b));
}
