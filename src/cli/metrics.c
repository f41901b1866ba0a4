#include "cli/metrics.h"

#include <stdio.h>
#include <string.h>

#include "agent/describe.h"
#include "base/parse.h"
#include "net/server.h"

#define TEXT_MAX    ((size_t)16 << 20)
#define CONNECTIONS 8u /* scrapers are few; others wait */
#define IDLE_S      30u

struct scrape {
    struct leat_agent *agent;
    struct leat_buf text;
};

/* On the agent's loop, which knows all numbers. */
static void gather(void *arg)
{
    struct scrape *s = arg;
    leat_agent_metrics(s->agent, &s->text);
}

static void answer(struct leat_request *x, void *user)
{
    static const char elsewhere[] = "the metrics are at /metrics\n";
    struct scrape s = {.agent = user};
    const char *method = leat_request_method(x);
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        leat_request_add_header(x, "Allow", "GET, HEAD");
        leat_request_reply(x, 405, "", 0);
        return;
    }
    if (strcmp(leat_request_path(x), "/metrics") != 0) {
        leat_request_reply(x, 404, elsewhere, strlen(elsewhere));
        return;
    }
    leat_buf_init(&s.text, TEXT_MAX);
    leat_loop_call(s.agent->loop, gather, &s);
    leat_request_add_header(x, "Content-Type", "text/plain; version=0.0.4; charset=utf-8");
    if (s.text.failed)
        leat_request_reply(x, 503, "", 0); /* half a scrape would look like loaders that have ended */
    else
        leat_request_reply(x, 200, s.text.data, s.text.len);
    leat_buf_free(&s.text);
}

static void nothing(struct leat_request *x, bool whole, void *user)
{
    (void)x;
    (void)whole;
    (void)user;
}

leat_status leat_cli_metrics_open(struct leat_agent *agent, const char *where, char url[LEAT_AGENT_URL], void **server,
                                  struct leat_error *err)
{
    char address[LEAT_LISTEN_ADDRESS];
    unsigned port;
    struct leat_server *s;
    leat_status rc = leat_parse_listen(where, "metrics", address, &port, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_server_options options = {
        .bind = address,
        .port = port,
        .connections_max = CONNECTIONS,
        .idle_timeout_s = IDLE_S,
        .handler = {.start = answer, .end = nothing, .user = agent},
    };
    rc = leat_server_open(&options, &s, err);
    if (rc != LEAT_OK)
        return rc;
    snprintf(url, LEAT_AGENT_URL, "%s/metrics", leat_server_url(s));
    *server = s;
    return LEAT_OK;
}

void leat_cli_metrics_close(void *server)
{
    leat_server_close(server);
}
