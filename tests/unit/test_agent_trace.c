/* The trace: the last events of every thread, whole, in rows in which nothing overlaps. */
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#include "agent/trace.c" /* its rings from inside: a writer is stopped in the middle of an event */
#include "base/clock.h"
#include "base/json.h"
#include "unit.h"

static struct leat_roll roll;

static json_t *read_trace(struct leat_trace *t, uint64_t since_ns, struct leat_trace_told *told)
{
    struct leat_trace_view view = {
        .since_ns = since_ns, .now_ns = 1ull << 60, .pid = 77, .scope = "a\"b\nc", .version = "1.0", .roll = &roll};
    struct leat_buf b;
    struct leat_error err;
    json_t *j = NULL;
    leat_buf_init(&b, 1 << 30);
    assert_int_equal(leat_trace_write(t, &view, &b, told, &err), LEAT_OK);
    assert_int_equal(leat_json_read(b.data, b.len, 0, &j, NULL), LEAT_OK);
    leat_buf_free(&b);
    return j;
}

static uint64_t number(const json_t *event, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(json_object_get(event, "args"), name));
}

static bool is_slice(const json_t *event)
{
    return strcmp(json_string_value(json_object_get(event, "ph")), "X") == 0;
}

TEST(oldest_make_room)
{
    struct leat_trace *t;
    struct leat_error err;
    struct leat_trace_told told;
    assert_int_equal(leat_trace_open(2, &t, &err), LEAT_OK);
    for (uint64_t i = 1; i <= 100000; i++)
        leat_trace_add(leat_trace_worker(t, 1), &(struct leat_trace_event){.kind = LEAT_TRACE_PREPARE,
                                                                           .number = i,
                                                                           .amount = 3 * i,
                                                                           .begin_ns = 1000 * i,
                                                                           .end_ns = 1000 * i + 500});
    json_t *j = read_trace(t, 0, &told);
    assert_true(told.events >= 1024 && told.events < 100000);
    uint64_t expect = 100000 - told.events + 1;
    json_t *event;
    size_t k;
    json_array_foreach (json_object_get(j, "traceEvents"), k, event) {
        if (!is_slice(event))
            continue;
        assert_true(number(event, "batch") == expect && number(event, "samples") == 3 * expect);
        assert_true(json_number_value(json_object_get(event, "ts")) == (double)expect);
        assert_true(json_integer_value(json_object_get(event, "tid")) == 2);
        expect++;
    }
    assert_true(expect == 100001);
    json_decref(j);
    j = read_trace(t, 1000 * 99991, &told); /* only what has ended since */
    assert_true(told.events == 10);
    json_decref(j);
    leat_trace_close(t);
}

static atomic_bool stop;

static void *write_events(void *arg)
{
    for (uint64_t i = 1; !stop; i++)
        leat_trace_add(arg, &(struct leat_trace_event){.kind = LEAT_TRACE_PREPARE,
                                                       .number = i,
                                                       .amount = i * 7,
                                                       .begin_ns = i * 1000,
                                                       .end_ns = i * 1000 + 10});
    return NULL;
}

TEST(reader_beside_a_writer_sees_whole_events)
{
    struct leat_trace *t;
    struct leat_error err;
    struct leat_trace_told told;
    pthread_t writer;
    uint64_t seen = 0;
    assert_int_equal(leat_trace_open(512, &t, &err), LEAT_OK); /* small rings, which are soon full */
    stop = false;
    assert_int_equal(pthread_create(&writer, NULL, write_events, leat_trace_worker(t, 0)), 0);
    for (unsigned reads = 0; reads < 10 || seen < 100; reads++) {
        json_t *j = read_trace(t, 0, &told);
        json_t *event;
        size_t k;
        uint64_t last = 0;
        json_array_foreach (json_object_get(j, "traceEvents"), k, event) {
            if (!is_slice(event))
                continue;
            assert_true(number(event, "samples") == 7 * number(event, "batch"));
            assert_true(json_number_value(json_object_get(event, "ts")) == (double)number(event, "batch"));
            assert_true(number(event, "batch") > last);
            last = number(event, "batch");
            seen++;
        }
        json_decref(j);
    }
    stop = true;
    pthread_join(writer, NULL);
    leat_trace_close(t);
}

TEST(event_that_is_being_overwritten_is_left_out)
{
    struct leat_trace *t;
    struct leat_error err;
    struct leat_trace_told told;
    assert_int_equal(leat_trace_open(512, &t, &err), LEAT_OK);
    struct leat_trace_ring *r = leat_trace_worker(t, 0);
    for (uint64_t i = 1; i <= r->events + 5; i++)
        leat_trace_add(r, &(struct leat_trace_event){.kind = LEAT_TRACE_PREPARE, .begin_ns = i, .end_ns = i});
    json_decref(read_trace(t, 0, &told));
    assert_true(told.events == r->events);
    /* The next one has begun, and has written some of its words over the oldest. */
    atomic_store(&r->begun, r->events + 6);
    atomic_store(&r->words[5][1], 4711);
    json_decref(read_trace(t, 0, &told));
    assert_true(told.events == r->events - 1);
    leat_trace_close(t);
}

TEST(what_overlaps_has_rows_of_its_own)
{
    struct leat_trace *t;
    struct leat_error err;
    struct leat_trace_told told;
    double end[4000] = {0};
    uint32_t set = leat_roll_dataset(&roll, "s3://bucket/train?id=9").number;
    uint32_t loader = leat_roll_loader(&roll, 5, 1, 0, 2, NULL, "s3://bucket/train").number;
    assert_int_equal(leat_trace_open(1, &t, &err), LEAT_OK);
    srand(3);
    for (uint64_t i = 1; i < 500; i++) {
        uint64_t begin = i * 100;
        uint64_t ends = begin + (uint64_t)(rand() % 3000);
        leat_trace_add(leat_trace_loop(t),
                       &(struct leat_trace_event){.kind = i % 2 ? LEAT_TRACE_FETCH : LEAT_TRACE_BATCH,
                                                  .how = i % 2 ? LEAT_TRACE_BUCKET : LEAT_TRACE_PLAIN,
                                                  .who = i % 2 ? set : loader,
                                                  .begin_ns = begin,
                                                  .end_ns = ends});
    }
    json_t *j = read_trace(t, 0, &told);
    assert_true(told.events == 499);
    json_t *event;
    size_t k;
    json_array_foreach (json_object_get(j, "traceEvents"), k, event) {
        if (!is_slice(event))
            continue;
        bool fetch = json_object_get(json_object_get(event, "args"), "dataset") != NULL;
        size_t row = (size_t)json_integer_value(json_object_get(event, "tid")) % 1000 + (fetch ? 1000 : 0);
        double ts = json_number_value(json_object_get(event, "ts"));
        assert_true(ts > end[row] - 1e-6);
        end[row] = ts + json_number_value(json_object_get(event, "dur"));
        assert_int_equal(json_integer_value(json_object_get(event, "pid")), fetch ? 77 : 5);
    }
    json_decref(j);
    leat_trace_close(t);
}

TEST(loader_that_comes_back_keeps_its_number)
{
    struct leat_roll r = {0};
    char odd[300];
    uint32_t a = leat_roll_loader(&r, 5, 100, 0, 2, "train", "s3://b/x").number;
    assert_int_equal(leat_roll_loader(&r, 5, 200, 0, 2, NULL, "s3://b/x/").number, a + 1);
    assert_int_equal(leat_roll_loader(&r, 5, 100, 1, 4, "train", "s3://b/x").number, a);
    assert_int_equal(leat_roll_find(&r, a)->world, 4);
    assert_string_equal(leat_roll_find(&r, a + 1)->name, "x");
    assert_int_not_equal(leat_roll_loader(&r, 6, 100, 0, 2, NULL, "s3://b/x").number, a); /* a fork's */
    for (int i = 0; i < 1000; i++)
        leat_roll_dataset(&r, "s3://b/y");
    assert_null(leat_roll_find(&r, a));
    memset(odd, 0xff, sizeof odd);
    odd[sizeof odd - 1] = '\0';
    json_t *text = json_string(leat_roll_dataset(&r, odd).dataset); /* NULL: not UTF-8 */
    assert_non_null(text);
    json_decref(text);
}
