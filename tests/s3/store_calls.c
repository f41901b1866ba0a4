/* store_calls BUCKET [PATTERN]: what the store promises its callers and no command shows, against the server that the
 * environment names. Run by test_store_calls.py. */
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/thread.h"
#include "store/store.h"

#define MIB (1u << 20)

static const char *bucket;

static int open_store(void **state)
{
    struct leat_url url = {.scheme = LEAT_SCHEME_S3, .host = strdup(bucket), .path = strdup(""), .query = strdup("")};
    struct leat_error err;
    struct leat_store *store = NULL;
    leat_status rc = leat_store_open(&url, NULL, &store, &err);
    leat_url_free(&url);
    if (rc != LEAT_OK)
        print_error("%s\n", err.text);
    *state = store;
    return rc == LEAT_OK ? 0 : -1;
}

static int close_store(void **state)
{
    leat_store_close(*state);
    return 0;
}

static void assert_ok(leat_status rc, const struct leat_error *err)
{
    if (rc != LEAT_OK)
        fail_msg("%s", err->text);
}

static char *pattern(size_t n)
{
    char *data = malloc(n + 1);
    assert_non_null(data);
    for (size_t i = 0; i < n; i++)
        data[i] = (char)(i * 2654435761u >> 13);
    return data;
}

static void put(struct leat_store *store, const char *key, const void *data, size_t n, struct leat_object *object)
{
    struct leat_error err;
    assert_ok(leat_store_put(store, key, data, n, object, &err), &err);
}

static void create_only_put_does_not_replace(void **state)
{
    struct leat_store *store = *state;
    struct leat_error err;
    struct leat_store_op op = {
        .verb = LEAT_STORE_PUT, .key = "create only", .data = "first", .data_n = 5, .create_only = true};
    assert_ok(leat_store_run(store, &op, &err), &err);
    struct leat_store_op again = {
        .verb = LEAT_STORE_PUT, .key = "create only", .data = "again", .data_n = 5, .create_only = true};
    assert_int_equal(leat_store_run(store, &again, &err), LEAT_EXISTS);
    char text[5];
    assert_ok(leat_store_get(store, "create only", 0, 5, text, NULL, &err), &err);
    assert_memory_equal(text, "first", 5);
}

static void put_on_a_condition_replaces_only_what_was_seen(void **state)
{
    struct leat_store *store = *state;
    struct leat_error err;
    struct leat_object seen;
    struct leat_object now;
    const char *key = "on a condition";
    assert_ok(leat_store_put_if(store, key, "first", 5, NULL, &seen, &err), &err);
    assert_ok(leat_store_put_if(store, key, "first", 5, NULL, &now, &err), &err); /* the very bytes: ours */
    assert_string_equal(now.etag, seen.etag);
    assert_int_equal(leat_store_put_if(store, key, "other", 5, NULL, NULL, &err), LEAT_EXISTS);
    assert_ok(leat_store_put_if(store, key, "second", 6, seen.etag, &now, &err), &err);
    assert_int_equal(leat_store_put_if(store, key, "third", 5, seen.etag, NULL, &err), LEAT_CHANGED);
    char text[6];
    assert_ok(leat_store_get(store, key, 0, 6, text, NULL, &err), &err);
    assert_memory_equal(text, "second", 6);
    assert_ok(leat_store_delete(store, key, &err), &err);
    assert_int_equal(leat_store_put_if(store, key, "third", 5, now.etag, NULL, &err), LEAT_CHANGED);
    assert_int_equal(leat_store_put_if(store, key, "third", 5, "W/\"x\"", NULL, &err), LEAT_UNSUPPORTED);
}

static void begin_upload(struct leat_store *store, const char *key, char id[LEAT_UPLOAD_ID_MAX])
{
    struct leat_error err;
    struct leat_store_op op = {.verb = LEAT_STORE_UPLOAD_OPEN, .key = key, .upload_id = id};
    assert_ok(leat_store_run(store, &op, &err), &err);
    assert_true(id[0]);
}

static void send_part(struct leat_store *store, const char *key, const char *upload, uint32_t part, const char *data,
                      size_t n, struct leat_store_part *out)
{
    struct leat_error err;
    struct leat_object object;
    struct leat_store_op op = {.verb = LEAT_STORE_UPLOAD_PART,
                               .key = key,
                               .upload = upload,
                               .part = part,
                               .data = data,
                               .data_n = n,
                               .object = &object};
    assert_ok(leat_store_run(store, &op, &err), &err);
    *out = (struct leat_store_part){.size = n, .summed = true, .crc32c = leat_crc32c(0, data, n)};
    memcpy(out->etag, object.etag, sizeof out->etag);
}

/* Begins an upload of one small part and completes it on a condition. */
static leat_status upload_if(struct leat_store *store, const char *key, const char *text, const char *if_match,
                             bool create_only, struct leat_error *err)
{
    struct leat_store_part part;
    char id[LEAT_UPLOAD_ID_MAX];
    begin_upload(store, key, id);
    send_part(store, key, id, 1, text, strlen(text), &part);
    struct leat_store_op op = {.verb = LEAT_STORE_UPLOAD_FINISH,
                               .key = key,
                               .upload = id,
                               .parts = &part,
                               .parts_n = 1,
                               .if_match = if_match,
                               .create_only = create_only};
    leat_status rc = leat_store_run(store, &op, err);
    if (rc != LEAT_OK) {
        op = (struct leat_store_op){.verb = LEAT_STORE_UPLOAD_ABORT, .key = key, .upload = id};
        leat_store_run(store, &op, NULL);
    }
    return rc;
}

static void an_upload_on_a_condition_replaces_only_what_was_seen(void **state)
{
    struct leat_store *store = *state;
    struct leat_error err;
    struct leat_object seen;
    const char *key = "parts on a condition";
    assert_ok(upload_if(store, key, "first", NULL, true, &err), &err);
    leat_status rc = upload_if(store, key, "other", NULL, true, &err);
    if (rc == LEAT_OK && getenv("STORE_CALLS_LAX")) {
        print_message("this server takes no notice of conditions at the end of an upload\n");
        skip();
    }
    assert_int_equal(rc, LEAT_EXISTS);
    assert_ok(leat_store_stat(store, key, &seen, &err), &err);
    assert_ok(upload_if(store, key, "second", seen.etag, false, &err), &err);
    rc = upload_if(store, key, "third", seen.etag, false, &err);
    if (rc == LEAT_OK && getenv("STORE_CALLS_LAX")) {
        print_message("this server takes no notice of If-Match at the end of an upload\n");
        skip();
    }
    assert_int_equal(rc, LEAT_CHANGED);
    char text[6];
    assert_ok(leat_store_get(store, key, 0, 6, text, NULL, &err), &err);
    assert_memory_equal(text, "second", 6);
}

static void pinned_read_of_a_replaced_object_is_changed(void **state)
{
    struct leat_store *store = *state;
    struct leat_error err;
    struct leat_object old;
    struct leat_object now;
    char text[3];
    put(store, "pinned", "old", 3, &old);
    assert_ok(leat_store_get(store, "pinned", 0, 3, text, old.etag, &err), &err);
    put(store, "pinned", "new", 3, &now);
    assert_string_not_equal(old.etag, now.etag);
    memset(text, 0, sizeof text);
    assert_int_equal(leat_store_get(store, "pinned", 0, 3, text, old.etag, &err), LEAT_CHANGED);
    assert_memory_equal(text, "\0\0\0", 3);
    assert_ok(leat_store_get(store, "pinned", 1, 2, text, now.etag, &err), &err);
    assert_memory_equal(text, "ew", 2);
    struct leat_store_op stat = {.verb = LEAT_STORE_STAT, .key = "pinned", .if_match = old.etag};
    assert_int_equal(leat_store_run(store, &stat, &err), LEAT_CHANGED);
    stat = (struct leat_store_op){.verb = LEAT_STORE_STAT, .key = "pinned", .if_match = now.etag};
    assert_ok(leat_store_run(store, &stat, &err), &err);
}

static void stat_and_put_name_the_same_object(void **state)
{
    struct leat_store *store = *state;
    struct leat_error err;
    struct leat_object written;
    struct leat_object seen;
    put(store, "stat", "12345", 5, &written);
    assert_ok(leat_store_stat(store, "stat", &seen, &err), &err);
    assert_int_equal(seen.size, 5);
    assert_string_equal(seen.etag, written.etag);
    assert_in_range(seen.modified_s, leat_wall_s() - 60, leat_wall_s() + 60);
}

static void range_beyond_the_end_is_invalid_unless_short_is_fine(void **state)
{
    struct leat_store *store = *state;
    struct leat_error err;
    char text[16];
    put(store, "short", "12345", 5, NULL);
    put(store, "empty", "", 0, NULL);
    assert_int_equal(leat_store_get(store, "short", 3, 4, text, NULL, &err), LEAT_INVALID);
    assert_int_equal(leat_store_get(store, "short", 5, 1, text, NULL, &err), LEAT_INVALID);
    assert_ok(leat_store_get(store, "short", 5, 0, text, NULL, &err), &err);
    const struct {
        const char *key;
        uint64_t offset;
        uint64_t got;
        uint64_t size;
    } cases[] = {{"short", 3, 2, 5}, {"short", 0, 5, 5}, {"empty", 0, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct leat_object object;
        struct leat_store_op op = {.verb = LEAT_STORE_GET,
                                   .key = cases[i].key,
                                   .offset = cases[i].offset,
                                   .length = sizeof text,
                                   .into = text,
                                   .short_ok = true,
                                   .object = &object};
        assert_ok(leat_store_run(store, &op, &err), &err);
        assert_int_equal(op.got, cases[i].got);
        assert_int_equal(object.size, cases[i].size);
    }
}

static void load_takes_whole_objects_up_to_its_limit(void **state)
{
    struct leat_store *store = *state;
    struct leat_error err;
    const size_t sizes[] = {0, 1, 65536, 65537, 300000};
    char *data = pattern(300000);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *got = NULL;
        size_t n = 1;
        put(store, "load", data, sizes[i], NULL);
        assert_ok(leat_store_load(store, "load", 300000, &got, &n, NULL, &err), &err);
        assert_int_equal(n, sizes[i]);
        assert_memory_equal(got, data, n);
        assert_int_equal(got[n], '\0');
        free(got);
    }
    char *got = NULL;
    size_t n;
    assert_int_equal(leat_store_load(store, "load", 299999, &got, &n, NULL, &err), LEAT_LIMIT);
    free(data);
}

static void upload_is_visible_only_when_finished_and_in_order(void **state)
{
    struct leat_store *store = *state;
    static const char key[] = "up load/=+%&";
    struct leat_error err;
    struct leat_object object;
    char id[LEAT_UPLOAD_ID_MAX];
    struct leat_store_part parts[3];
    char *data = pattern(2 * LEAT_PART_MIN + 7);
    begin_upload(store, key, id);
    send_part(store, key, id, 3, data + 2 * LEAT_PART_MIN, 7, &parts[2]);
    send_part(store, key, id, 1, data, LEAT_PART_MIN, &parts[0]);
    send_part(store, key, id, 2, data + LEAT_PART_MIN, LEAT_PART_MIN, &parts[1]);
    assert_int_equal(leat_store_stat(store, key, &object, &err), LEAT_NOT_FOUND);
    struct leat_store_op finish = {
        .verb = LEAT_STORE_UPLOAD_FINISH, .key = key, .upload = id, .parts = parts, .parts_n = 3};
    assert_ok(leat_store_run(store, &finish, &err), &err);
    char *got = NULL;
    size_t n;
    assert_ok(leat_store_load(store, key, 16 * MIB, &got, &n, &object, &err), &err);
    assert_int_equal(n, 2 * LEAT_PART_MIN + 7);
    assert_memory_equal(got, data, n);
    free(got);
    free(data);
}

static void a_finished_upload_has_the_etag_that_was_said(void **state)
{
    struct leat_store *store = *state;
    static const char key[] = "said";
    struct leat_error err;
    struct leat_object object;
    struct leat_object whole;
    char id[LEAT_UPLOAD_ID_MAX];
    struct leat_store_part part;
    begin_upload(store, key, id);
    send_part(store, key, id, 1, "hello", 5, &part);
    struct leat_store_op finish = {
        .verb = LEAT_STORE_UPLOAD_FINISH, .key = key, .upload = id, .parts = &part, .parts_n = 1, .object = &whole};
    assert_ok(leat_store_run(store, &finish, &err), &err);
    assert_ok(leat_store_stat(store, key, &object, &err), &err);
    if (whole.etag[0]) /* radosgw 16 leaves it out of its answer */
        assert_string_equal(whole.etag, object.etag);
}

static void aborted_upload_is_gone(void **state)
{
    struct leat_store *store = *state;
    struct leat_error err;
    struct leat_object object;
    char id[LEAT_UPLOAD_ID_MAX];
    struct leat_store_part part;
    begin_upload(store, "aborted", id);
    send_part(store, "aborted", id, 1, "x", 1, &part);
    for (int i = 0; i < 2; i++) { /* the second time there is nothing left to abort, which is what was wanted */
        struct leat_store_op abort = {.verb = LEAT_STORE_UPLOAD_ABORT, .key = "aborted", .upload = id};
        assert_ok(leat_store_run(store, &abort, &err), &err);
    }
    struct leat_store_op late = {
        .verb = LEAT_STORE_UPLOAD_PART, .key = "aborted", .upload = id, .part = 2, .data = "y", .data_n = 1};
    assert_int_equal(leat_store_run(store, &late, &err), LEAT_NOT_FOUND);
    assert_int_equal(leat_store_stat(store, "aborted", &object, &err), LEAT_NOT_FOUND);
}

static void deleting_what_is_not_there_is_fine(void **state)
{
    struct leat_error err;
    assert_ok(leat_store_delete(*state, "never there", &err), &err);
}

#define READS 300

struct reads {
    pthread_mutex_t mu;
    pthread_cond_t cond;
    unsigned left; /* hold mu */
    unsigned by_status[LEAT_STATUS_COUNT];
};

static void on_read(struct leat_store_op *op)
{
    struct reads *r = op->user;
    pthread_mutex_lock(&r->mu);
    r->by_status[op->status]++;
    r->left--;
    pthread_cond_signal(&r->cond);
    pthread_mutex_unlock(&r->mu);
}

static void await_reads(struct reads *r)
{
    uint64_t deadline = leat_after(60 * LEAT_S);
    pthread_mutex_lock(&r->mu);
    while (r->left && leat_left(deadline))
        leat_cond_wait(&r->cond, &r->mu, deadline);
    assert_int_equal(r->left, 0);
    pthread_mutex_unlock(&r->mu);
}

static void hundreds_of_ranges_at_once_each_get_their_bytes(void **state)
{
    struct leat_store *store = *state;
    struct reads r = {.left = READS};
    const size_t step = 20011;
    char *data = pattern(READS * step);
    char *into = calloc(READS, step);
    struct leat_store_op *ops = calloc(READS, sizeof *ops);
    assert_non_null(into);
    assert_non_null(ops);
    pthread_mutex_init(&r.mu, NULL);
    leat_cond_init(&r.cond);
    put(store, "ranges", data, READS * step, NULL);
    for (size_t i = 0; i < READS; i++) {
        ops[i] = (struct leat_store_op){.verb = LEAT_STORE_GET,
                                        .key = "ranges",
                                        .offset = i * step,
                                        .length = step,
                                        .into = into + i * step,
                                        .done = on_read,
                                        .user = &r};
        leat_store_submit(store, &ops[i]);
    }
    await_reads(&r);
    assert_int_equal(r.by_status[LEAT_OK], READS);
    assert_memory_equal(into, data, READS * step);
    free(ops);
    free(into);
    free(data);
}

static void cancelled_reads_come_back_once_and_leave_the_store_usable(void **state)
{
    struct leat_store *store = *state;
    struct reads r = {.left = READS};
    char *into = calloc(READS, MIB);
    char *data = pattern(MIB);
    struct leat_store_op *ops = calloc(READS, sizeof *ops);
    assert_non_null(into);
    assert_non_null(ops);
    pthread_mutex_init(&r.mu, NULL);
    leat_cond_init(&r.cond);
    put(store, "cancelled", data, MIB, NULL);
    for (size_t i = 0; i < READS; i++) {
        ops[i] = (struct leat_store_op){.verb = LEAT_STORE_GET,
                                        .key = "cancelled",
                                        .length = MIB,
                                        .into = into + i * MIB,
                                        .done = on_read,
                                        .user = &r};
        leat_store_submit(store, &ops[i]);
    }
    for (size_t i = 0; i < READS; i += 2)
        leat_store_cancel(store, &ops[i]);
    await_reads(&r);
    assert_int_equal(r.by_status[LEAT_OK] + r.by_status[LEAT_CANCELLED], READS);
    assert_true(r.by_status[LEAT_OK] >= READS / 2);
    assert_true(r.by_status[LEAT_CANCELLED] > 0);
    for (size_t i = 1; i < READS; i += 2)
        assert_memory_equal(into + i * MIB, data, MIB);
    struct leat_error err;
    assert_ok(leat_store_get(store, "cancelled", 0, MIB, into, NULL, &err), &err);
    free(ops);
    free(into);
    free(data);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create_only_put_does_not_replace),
        cmocka_unit_test(put_on_a_condition_replaces_only_what_was_seen),
        cmocka_unit_test(an_upload_on_a_condition_replaces_only_what_was_seen),
        cmocka_unit_test(pinned_read_of_a_replaced_object_is_changed),
        cmocka_unit_test(stat_and_put_name_the_same_object),
        cmocka_unit_test(range_beyond_the_end_is_invalid_unless_short_is_fine),
        cmocka_unit_test(load_takes_whole_objects_up_to_its_limit),
        cmocka_unit_test(upload_is_visible_only_when_finished_and_in_order),
        cmocka_unit_test(a_finished_upload_has_the_etag_that_was_said),
        cmocka_unit_test(aborted_upload_is_gone),
        cmocka_unit_test(deleting_what_is_not_there_is_fine),
        cmocka_unit_test(hundreds_of_ranges_at_once_each_get_their_bytes),
        cmocka_unit_test(cancelled_reads_come_back_once_and_leave_the_store_usable),
    };
    if (argc < 2 || argc > 3)
        return 2;
    bucket = argv[1];
    if (argc == 3)
        cmocka_set_test_filter(argv[2]);
    return cmocka_run_group_tests(tests, open_store, close_store);
}
