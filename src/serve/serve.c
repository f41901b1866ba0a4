#include "serve/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "serve/auth.h"
#include "serve/body.h"
#include "serve/dialect.h"
#include "serve/ops.h"
#include "serve/target.h"

#define LOG_MAX 65536
#define CONTROL "/-/"

static const struct leat_serve_op unknown_op = {.name = "Unknown", .method = "other"};

static bool is_control(const struct leat_request *x)
{
    return strncmp(leat_serve_target_path(leat_request_path(x)), CONTROL, strlen(CONTROL)) == 0;
}

static void draw_fault(struct leat_serve_call *c)
{
    struct leat_serve *s = c->serve;
    const char *only = s->options.fault_only;
    if (c->number <= s->options.fault_after)
        return;
    if (only && !memmem(c->key.data ? c->key.data : "", c->key.n, only, strlen(only)))
        return;
    c->fault = leat_serve_faults_draw(&s->faults, s->options.seed, c->number);
}

/* To another host, where a client that follows shows its signature. */
static void redirect(struct leat_serve_call *c)
{
    char to[1024];
    snprintf(to, sizeof to, "http://elsewhere.invalid/%.900s?signature=of-the-server", c->bucket_name);
    leat_request_add_header(c->x, "Location", to);
    leat_serve_fail(c, LEAT_SERVE_TEMPORARY_REDIRECT);
}

/* Faults that come instead of any answer of the call's own. True: it is answered, or there is none. */
static bool suffer(struct leat_serve_call *c)
{
    if (leat_serve_suffers(c, LEAT_SERVE_FAULT_EXPIRED)) {
        /* Of a shared access signature Azure says no more than that it is not right. */
        bool sas = c->serve->dialect->has_account && leat_serve_arg(c, "sig");
        leat_serve_fail(c, sas ? LEAT_SERVE_SIGNATURE_DOES_NOT_MATCH : LEAT_SERVE_EXPIRED_TOKEN);
        return true;
    }
    if (leat_serve_suffers(c, LEAT_SERVE_FAULT_REDIRECT)) {
        redirect(c);
        return true;
    }
    if (leat_serve_suffers(c, LEAT_SERVE_FAULT_STATUS)) {
        leat_serve_fail_as(c, leat_serve_code_for(c->fault->status), c->fault->status);
        return true;
    }
    return false;
}

static bool open_bucket(struct leat_serve_call *c)
{
    struct leat_error err;
    if (leat_serve_bucket_get(c->serve->folder, c->bucket_name, &c->bucket, &err) == LEAT_OK)
        return true;
    if (err.status == LEAT_NOT_FOUND)
        leat_serve_fail(c, LEAT_SERVE_NO_SUCH_BUCKET);
    else
        leat_serve_fail_status(c, &err);
    return false;
}

static bool may_write(struct leat_serve_call *c)
{
    if (!c->op->writes || !c->serve->options.read_only)
        return true;
    leat_serve_failf(c, LEAT_SERVE_ACCESS_DENIED, "This server is read-only.");
    return false;
}

static void on_start(struct leat_request *x, void *user)
{
    struct leat_serve *s = user;
    enum leat_serve_code why;
    struct leat_serve_call *c = calloc(1, sizeof *c);
    if (!c) {
        leat_request_drop(x, false);
        return;
    }
    leat_request_set_state(x, c);
    c->serve = s;
    c->x = x;
    c->start_ns = leat_now_ns();
    c->writer.fd = -1;
    leat_serve_pace_init(&c->connection_up, s->options.connection_bandwidth);
    const char *path = leat_serve_target_path(leat_request_path(x));
    bool parsed = leat_serve_target_parse(c, path, leat_request_query(x), &why);
    if (is_control(x)) {
        c->delayed = true; /* outside what is simulated */
        return;
    }
    c->op = &unknown_op;
    c->number = atomic_fetch_add(&s->requests, 1) + 1;
    if (!parsed) {
        leat_serve_fail(c, why);
        return;
    }
    draw_fault(c);
    const struct leat_serve_op *op = leat_serve_route(c, leat_request_method(x), &why);
    if (op)
        c->op = op;
    if (suffer(c))
        return;
    if (!op)
        leat_serve_fail(c, why);
    else if (leat_serve_guard_origin(c, false) && s->dialect->authorize(c) && leat_serve_guard_features(c) &&
             may_write(c) && open_bucket(c))
        leat_serve_body_open(c);
}

static void on_body(struct leat_request *x, const void *data, size_t n, void *user)
{
    struct leat_serve *s = user;
    struct leat_serve_call *c = leat_request_state(x);
    c->received += n;
    if (s->options.bandwidth || s->options.connection_bandwidth) {
        uint64_t mine = leat_serve_pace_take(&c->connection_up, n);
        uint64_t all = leat_serve_pace_take(&s->up, n);
        leat_request_wait(x, mine > all ? mine : all);
    }
    if (!is_control(x))
        leat_serve_body_add(c, data, n);
}

static void on_finish(struct leat_request *x, void *user)
{
    struct leat_serve_call *c = leat_request_state(x);
    (void)user;
    if (is_control(x))
        leat_serve_control(c);
    else if (leat_serve_body_finish(c))
        c->op->run(c);
}

static void on_end(struct leat_request *x, bool whole, void *user)
{
    struct leat_serve *s = user;
    struct leat_serve_call *c = leat_request_state(x);
    if (!c)
        return;
    uint64_t sent = whole ? c->counted : leat_request_sent(x);
    if (c->logged)
        leat_serve_stats_end(s->stats, c->logged, sent < c->counted ? c->counted - sent : 0,
                             leat_now_ns() - c->start_ns);
    leat_serve_body_close(c);
    leat_serve_bucket_release(c->bucket);
    leat_serve_target_free(c);
    leat_serve_pace_destroy(&c->connection_up);
    free(c);
}

/* The strings of the options, copied. */
static leat_status copy_options(struct leat_serve *s, const struct leat_serve_options *from, struct leat_error *err)
{
    s->options = *from;
    const char **strings[] = {&s->options.dir,        &s->options.bind,   &s->options.access_key,
                              &s->options.secret_key, &s->options.region, &s->options.fault_only};
    bool ok = true;
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        if (!*strings[i])
            continue;
        *strings[i] = strdup(*strings[i]);
        ok = ok && *strings[i];
    }
    return ok ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for the settings");
}

static void free_options(struct leat_serve *s)
{
    const char *strings[] = {s->options.dir,        s->options.bind,   s->options.access_key,
                             s->options.secret_key, s->options.region, s->options.fault_only};
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++)
        free((void *)(uintptr_t)strings[i]);
}

leat_status leat_serve_open(const struct leat_serve_options *options, struct leat_serve **out, struct leat_error *err)
{
    static const struct leat_serve_dialect *const dialects[] = {
        [LEAT_SERVE_S3] = &leat_serve_s3,
        [LEAT_SERVE_GCS] = &leat_serve_gcs,
        [LEAT_SERVE_AZURE] = &leat_serve_azure,
    };
    struct leat_serve *s = calloc(1, sizeof *s);
    if (!s)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a server");
    s->dialect = dialects[options->protocol];
    leat_serve_pace_init(&s->down, options->bandwidth);
    leat_serve_pace_init(&s->up, options->bandwidth);
    leat_status rc = copy_options(s, options, err);
    if (rc == LEAT_OK && options->protocol == LEAT_SERVE_AZURE && options->secret_key &&
        !leat_serve_azure_key(options->secret_key))
        rc = leat_fail(err, LEAT_INVALID, "the secret key of an account of Azure is base64, which this one is not");
    if (rc != LEAT_OK)
        goto fail;
    rc = leat_serve_faults_parse(options->faults, &s->faults, err);
    if (rc != LEAT_OK)
        goto fail;
    rc = leat_serve_folder_open(options->dir, options->read_only, &s->folder, err);
    if (rc != LEAT_OK)
        goto fail;
    s->stats = leat_serve_stats_open(options->log_max ? options->log_max : LOG_MAX);
    if (!s->stats) {
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the log of requests");
        goto fail;
    }
    struct leat_server_options server = {
        .bind = options->bind,
        .port = options->port,
        .tls_cert_pem = options->tls_cert_pem,
        .tls_key_pem = options->tls_key_pem,
        .connections_max = options->connections_max,
        .idle_timeout_s = options->idle_timeout_s,
        .handler = {.start = on_start, .body = on_body, .finish = on_finish, .end = on_end, .user = s},
    };
    rc = leat_server_open(&server, &s->server, err);
    if (rc != LEAT_OK)
        goto fail;
    *out = s;
    return LEAT_OK;
fail:
    leat_serve_close(s);
    return rc;
}

void leat_serve_close(struct leat_serve *s)
{
    if (!s)
        return;
    leat_server_close(s->server);
    leat_serve_stats_close(s->stats);
    leat_serve_folder_close(s->folder);
    leat_serve_pace_destroy(&s->down);
    leat_serve_pace_destroy(&s->up);
    free_options(s);
    free(s);
}

const char *leat_serve_url(const struct leat_serve *s)
{
    return leat_server_url(s->server);
}
