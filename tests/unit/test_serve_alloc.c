/* Memory runs out at every single allocation of opening a server: a clean error each time. A server that lost its keys
 * on the way would take everybody's requests. */

#include "fail_alloc.h"
#include "serve/serve.h"
#include "unit.h"

static leat_status open_server(void *user, struct leat_error *err)
{
    const struct leat_serve_options *options = user;
    struct leat_serve *s = NULL;
    leat_status rc = leat_serve_open(options, &s, err);
    leat_serve_close(s);
    return rc;
}

TEST(a_server_opens_with_all_its_settings_or_not_at_all)
{
    struct leat_serve_options options = {
        .dir = "/",
        .read_only = true,
        .access_key = "access",
        .secret_key = "secret",
        .region = "here",
        .faults = "503=0.1,reset=0.1",
        .fault_only = "key",
        .log_max = 1,
    };
    assert_true(fail_alloc_each(open_server, &options) > 8);
}
