/* Memory runs out at every single allocation of making a request and worker threads: a clean error each time. */
#include "agent/workers.h"
#include "client/request.h"
#include "fail_alloc.h"
#include "leat/loader.h"
#include "ring/ring.h"
#include "unit.h"

static leat_status make_request(void *user, struct leat_error *err)
{
    const struct leat_output outputs[] = {
        {.size = sizeof *outputs, .name = "x", .kind = LEAT_OUTPUT_IMAGE, .field = "png", .pipeline = "resize=8x8"},
        {.size = sizeof *outputs, .name = "k", .kind = LEAT_OUTPUT_KEY},
    };
    struct leat_loader_opts opts = {
        .size = sizeof opts,
        .url = user,
        .outputs = outputs,
        .outputs_n = COUNT(outputs),
        .global_batch = 8,
        .world = 1,
    };
    struct leat_request request = {0};
    leat_status rc = leat_request_make(&opts, &request, err);
    assert_true((rc == LEAT_OK) == (request.bytes != NULL));
    leat_request_free(&request);
    return rc;
}

TEST(requests)
{
    setenv("AWS_ACCESS_KEY_ID", "a", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "b", 1);
    setenv("AWS_REGION", "c", 1);
    setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1", 1);
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    char urls[][20] = {"/data/set", "relative/set", "s3://bucket/set"};
    for (size_t i = 0; i < COUNT(urls); i++)
        assert_true(fail_alloc_each(make_request, urls[i]) > 0);
}

static leat_status use_workers(void *user, struct leat_error *err)
{
    struct leat_workers *w = NULL;
    (void)user;
    leat_status rc = leat_workers_open(2, NULL, &w, err);
    leat_workers_close(w);
    return rc;
}

TEST(workers)
{
    assert_true(fail_alloc_each(use_workers, NULL) >= 2);
}
