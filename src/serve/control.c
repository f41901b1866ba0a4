#include <string.h>

#include "base/parse.h"
#include "serve/ops.h"
#include "serve/target.h"

#define JSON_MAX ((size_t)512 << 20)

static void reply_json(struct leat_serve_call *c, const char *type, struct leat_buf *json, bool ok)
{
    if (!ok || json->failed)
        leat_serve_fail(c, LEAT_SERVE_INTERNAL_ERROR);
    else
        leat_serve_reply(c, 200, type, json->data, json->len);
    leat_buf_free(json);
}

static void stats(struct leat_serve_call *c)
{
    struct leat_serve_stats *s = c->serve->stats;
    struct leat_server *server = leat_request_server(c->x);
    struct leat_buf json;
    leat_buf_init(&json, JSON_MAX);
    bool ok = leat_serve_stats_json(s, leat_server_connections(server), &json);
    if (leat_serve_arg(c, "reset")) {
        leat_serve_stats_reset(s);
        leat_server_reset_connections(server);
    }
    reply_json(c, "application/json", &json, ok);
}

static void log_lines(struct leat_serve_call *c)
{
    uint64_t after;
    struct leat_buf json;
    if (!leat_serve_arg_number(c, "after", 0, UINT64_MAX, &after))
        return;
    leat_buf_init(&json, JSON_MAX);
    bool ok = leat_serve_stats_log(c->serve->stats, after, &json);
    reply_json(c, "application/x-ndjson", &json, ok);
}

void leat_serve_control(struct leat_serve_call *c)
{
    const char *path = leat_serve_target_path(leat_request_path(c->x));
    const char *method = leat_request_method(c->x);
    if (!leat_request_local(c->x))
        leat_serve_fail(c, LEAT_SERVE_ACCESS_DENIED);
    else if (!leat_serve_guard_origin(c, true))
        return;
    else if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        leat_serve_fail(c, LEAT_SERVE_METHOD_NOT_ALLOWED);
    else if (strcmp(path, "/-/stats") == 0)
        stats(c);
    else if (strcmp(path, "/-/log") == 0)
        log_lines(c);
    else
        leat_serve_failf(c, LEAT_SERVE_NO_SUCH_KEY, "There is /-/stats and /-/log.");
}
