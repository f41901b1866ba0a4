/* Memory running out at every allocation of Leat's own, on whichever thread: a clean error, nothing hangs, nothing is
 * left behind. (Leaks show under AddressSanitizer.) */
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "fail_alloc.h"
#include "store/aws.h"
#include "store/copy.h"
#include "store/s3_xml.h"
#include "store/stream.h"
#include "store_bench.h"
#include "unit.h"

#define SIZE 200000

static char data[SIZE];
static char folder[64];
static struct peer *peer;

#define LIST                                                                                                           \
    "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a</Key><Size>1</Size></Contents>"                \
    "</ListBucketResult>"

static bool serve(struct peer_request *r, void *user)
{
    (void)user;
    if (strstr(r->target, "list-type"))
        return peer_answer(r, 200, LIST);
    if (strcmp(r->method, "PUT") == 0)
        return peer_say(r, "HTTP/1.1 200 OK\r\nETag: \"p\"\r\nContent-Length: 0\r\n\r\n");
    if (strcmp(r->method, "DELETE") == 0)
        return peer_say(r, "HTTP/1.1 204 Gone\r\n\r\n");
    if (strcmp(r->method, "POST") == 0 && strstr(r->target, "uploads"))
        return peer_answer(r, 200,
                           "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>");
    if (strcmp(r->method, "POST") == 0)
        return peer_answer(r, 200, "<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>");
    return peer_object(r, data, SIZE, "\"tag\"");
}

static leat_status open_store(const char *text, const struct leat_store_opts *opts, struct leat_store **out,
                              struct leat_error *err)
{
    struct leat_url url = {0};
    leat_status rc = leat_url_parse(text, &url, err);
    if (rc == LEAT_OK)
        rc = leat_store_open(&url, opts, out, err);
    leat_url_free(&url);
    return rc;
}

static leat_status list_all(struct leat_store *store, const char *prefix, struct leat_error *err)
{
    struct leat_list *list = NULL;
    struct leat_list_entry entry;
    bool end = false;
    leat_status rc = leat_store_list_open(store, prefix, true, &list, err);
    while (rc == LEAT_OK && !end)
        rc = leat_store_list_next(list, &entry, &end, err);
    leat_store_list_close(list);
    return rc;
}

static leat_status stream_all(struct leat_store *store, const char *key, struct leat_error *err)
{
    struct leat_object object;
    struct leat_stream *stream = NULL;
    const void *piece;
    size_t n = 1;
    leat_status rc = leat_store_stat(store, key, &object, err);
    if (rc == LEAT_OK)
        rc = leat_stream_open(store, key, &object, 0, UINT64_MAX, 70000, 2, &stream, err);
    while (rc == LEAT_OK && n)
        rc = leat_stream_next(stream, &piece, &n, err);
    leat_stream_close(stream);
    return rc;
}

static leat_status use_store(struct leat_store *store, const char *key, const char *prefix, struct leat_error *err)
{
    char *got = NULL;
    size_t n;
    leat_status rc = leat_store_put(store, key, data, SIZE, NULL, err);
    if (rc == LEAT_OK)
        rc = leat_store_load(store, key, SIZE, &got, &n, NULL, err);
    if (rc == LEAT_OK && (n != SIZE || memcmp(got, data, SIZE) != 0))
        rc = leat_fail(err, LEAT_CORRUPT, "other bytes");
    free(got);
    if (rc == LEAT_OK)
        rc = stream_all(store, key, err);
    if (rc == LEAT_OK)
        rc = list_all(store, prefix, err);
    if (rc == LEAT_OK)
        rc = leat_store_delete(store, key, err);
    return rc;
}

static leat_status use_files(struct leat_error *err)
{
    struct leat_store *store = NULL;
    char key[128];
    char prefix[128];
    snprintf(key, sizeof key, "%s/sub/file", folder);
    snprintf(prefix, sizeof prefix, "%s/", folder);
    leat_status rc = open_store("/", NULL, &store, err);
    if (rc == LEAT_OK)
        rc = use_store(store, key, prefix, err);
    leat_store_close(store);
    return rc;
}

static leat_status use_bucket(struct leat_error *err)
{
    struct leat_store *store = NULL;
    struct leat_store_opts opts = {.endpoint_url = peer_url(peer), .region = "r-1", .connections = 2};
    leat_status rc = open_store("s3://bucket", &opts, &store, err);
    if (rc == LEAT_OK)
        rc = use_store(store, "key", "", err);
    leat_store_close(store);
    return rc;
}

static leat_status use_web(struct leat_error *err)
{
    struct leat_store *store = NULL;
    leat_status rc = open_store(peer_url(peer), NULL, &store, err);
    if (rc == LEAT_OK)
        rc = stream_all(store, "/key", err);
    leat_store_close(store);
    return rc;
}

static leat_status copy_between(struct leat_error *err)
{
    struct leat_store *files = NULL;
    struct leat_store *bucket = NULL;
    struct leat_copy *copy = NULL;
    char big[128];
    char journal[128];
    struct leat_store_opts opts = {.endpoint_url = peer_url(peer), .region = "r-1", .connections = 2};
    snprintf(big, sizeof big, "%s/big", folder);
    snprintf(journal, sizeof journal, "%s/journal", folder);
    leat_status rc = open_store("/", NULL, &files, err);
    if (rc == LEAT_OK)
        rc = open_store("s3://bucket", &opts, &bucket, err);
    struct leat_copy_opts copy_opts = {
        .from = files, .to = bucket, .part_size = LEAT_PART_MIN, .journal = journal, .resume = true};
    if (rc == LEAT_OK)
        rc = leat_copy_open(&copy_opts, &copy, err);
    if (rc == LEAT_OK)
        rc = leat_copy_add(copy, big, NULL, "big", err);
    if (rc == LEAT_OK)
        rc = leat_copy_wait(copy, err);
    leat_copy_close(copy);
    leat_store_close(files);
    leat_store_close(bucket);
    return rc;
}

/* Fails the first, second, … allocation, alone and with all later ones. What is tried again or done without may
 * still succeed; what fails says that memory ran out. */
static void fail_each(leat_status (*scenario)(struct leat_error *err))
{
    for (long n = 0;; n++) {
        for (int and_later = 0; and_later < 2; and_later++) {
            struct leat_error err = {.status = LEAT_OK};
            fail_alloc_anywhere_at(n, and_later);
            leat_status rc = scenario(&err);
            bool failed = fail_alloc_stop();
            if (rc != LEAT_OK && (rc != LEAT_NO_MEMORY || err.status != rc || !*err.text))
                fail_msg("allocation %ld%s failed and the answer is '%s': %s", n,
                         and_later ? " and all later ones" : "", leat_status_name(rc), err.text);
            if (!failed) {
                assert_int_equal(rc, LEAT_OK);
                print_message("# %ld allocations\n", n);
                return;
            }
            if (and_later)
                assert_int_equal(rc, LEAT_NO_MEMORY);
        }
    }
}

TEST(files_without_memory)
{
    fail_each(use_files);
}

TEST(buckets_without_memory)
{
    fail_each(use_bucket);
}

TEST(web_servers_without_memory)
{
    fail_each(use_web);
}

TEST(copies_without_memory)
{
    fail_each(copy_between);
}

static void set_up(void)
{
    bench_fill(data, sizeof data, 4);
    folder_make(folder);
    setenv("HOME", folder, 1);
    setenv("AWS_ACCESS_KEY_ID", "id", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
    setenv("AWS_SESSION_TOKEN", "token", 1);
    char big[128];
    snprintf(big, sizeof big, "%s/big", folder);
    FILE *f = fopen(big, "w");
    assert_non_null(f);
    assert_int_equal(ftruncate(fileno(f), 6 << 20), 0);
    fclose(f);
    peer = peer_open(serve, NULL);
}

static void tear_down(void)
{
    peer_close(peer);
    folder_remove(folder);
}

TEST_GROUP(set_up, tear_down);
