/* Plain web servers, read-only. The key is everything after the host, as written: "/path?query". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "store/backend.h"
#include "store/exchange.h"

struct web {
    struct leat_backend backend; /* first member */
    struct leat_store *store;
    struct leat_http *http;
    char *origin; /* "http://host:port" */
    bool no_head; /* HEAD was refused where GET may not be (a link is signed for one of them), or said nothing */
    bool vague;   /* a first byte came as "of one in all", which servers say too that count the range for the object */
};

struct web_request {
    char range[LEAT_RANGE_MAX + 8];
    char condition[LEAT_ETAG_MAX + 32];
    const char *headers[3];
    char bearer[160];
    struct leat_buf url;
    bool head;  /* asks HEAD */
    bool probe; /* asks for the first byte, to look at the object */
};

static void request_free(struct web_request *r)
{
    if (!r)
        return;
    explicit_bzero(r->bearer, sizeof r->bearer);
    leat_buf_free(&r->url);
    free(r);
}

static void start(struct leat_backend *backend, struct leat_store_op *op);

/* The whole object in answer to a probe: its head says enough. */
static bool accept_probe(struct leat_http_call *call)
{
    return leat_exchange_partial(&call->head);
}

/* Turns the answer to a probe into the one that HEAD would have got. */
static void finish_probe(struct leat_http_call *call)
{
    struct leat_http_head *head = &call->head;
    bool part = leat_exchange_partial(head);
    if (part && head->code == 200) /* it must be the first byte to the letter; else nothing is known */
        head->has_range &= head->range_last == 0 && head->has_length && head->content_length == 1;
    if (part || head->code == 416) {
        head->has_length = head->range_total != UINT64_MAX && (head->has_range || head->code == 416);
        head->content_length = head->range_total;
    }
    if (head->code == 200 && call->accepted)
        call->status = LEAT_OK; /* it was dropped by us */
    if (head->code == 416)
        head->code = 200; /* an empty object has no first byte */
}

/* Programs that answer HEAD without looking say that everything is empty. */
static bool says_nothing(const struct leat_http_head *head)
{
    return head->code == 200 && head->has_length && !head->content_length && !head->etag[0] && !head->modified_s;
}

/* Whether the answer to a probe may be of more than it says; then the whole is asked for, and only its head is taken.
 */
static bool doubted(struct web *web, const struct web_request *r, const struct leat_http_call *call)
{
    if (!r->probe || call->status != LEAT_OK)
        return false;
    bool doubt = r->range[0] && call->head.has_length && call->head.content_length == 1;
    if (doubt)
        web->vague = true;
    else if (call->head.code == 200 && call->head.has_length && call->head.content_length == 1)
        web->vague = false; /* it was one byte */
    return doubt;
}

/* Names the address, less what may be a secret in it: a signature after '?', a password before '@'. */
static void explain_redirect(struct leat_store_op *op)
{
    const char *location = op->own->call.head.location;
    int shown = (int)strcspn(location, "?#");
    bool kept = location[shown] || memchr(location, '@', (size_t)shown);
    if (memchr(location, '@', (size_t)shown))
        shown = 0;
    op->status = leat_fail(&op->own->err, LEAT_INVALID, "the server redirects to another address%s%.*s%s",
                           shown ? "; use " : "", shown, location, kept ? " (the rest is a secret and not shown)" : "");
}

static void on_done(struct leat_http_call *call)
{
    struct leat_store_op *op = call->user;
    struct web *web = (struct web *)leat_store_backend(op->own->store);
    struct web_request *r = op->own->request;
    if (r->probe)
        finish_probe(call);
    unsigned code = call->head.code;
    bool good = code >= 200 && code < 300;
    bool headless =
        call->status == LEAT_OK && r->head && (code == 403 || code == 405 || code == 501 || says_nothing(&call->head));
    bool again = headless || doubted(web, r, call);
    if (again) {
        web->no_head = true;
    } else if (call->status != LEAT_OK && !(good && call->accepted && op->verb == LEAT_STORE_GET)) {
        op->status = call->status;
        op->own->err = call->err;
    } else if (good || code == 416) {
        leat_exchange_finish(op);
    } else if (code >= 300 && code < 400) {
        explain_redirect(op);
    } else {
        op->status = leat_fail(&op->own->err, leat_exchange_code_status(code), "the server answered %u", code);
        op->own->retry_after_ns = leat_http_retry_after(&call->head);
    }
    leat_buf_free(&call->text);
    request_free(r);
    op->own->request = NULL;
    if (again)
        start(&web->backend, op);
    else
        leat_store_attempted(op);
}

static void fail_later(struct leat_task *task)
{
    leat_store_attempted(leat_store_op_of(task));
}

static leat_status describe(const struct web *web, struct leat_store_op *op, struct web_request *r)
{
    struct leat_http_call *call = &op->own->call;
    char range[LEAT_RANGE_MAX];
    char since[LEAT_HTTP_DATE];
    size_t n = 0;
    leat_buf_init(&r->url, 16 << 10);
    leat_exchange_begin(op, range);
    bool look = op->verb == LEAT_STORE_STAT || op->length == 0;
    r->head = look && !web->no_head;
    r->probe = look && web->no_head;
    if (r->probe) {
        snprintf(range, sizeof range, "%s", web->vague ? "" : "bytes=0-0");
        call->accept = accept_probe;
    }
    if (range[0]) {
        snprintf(r->range, sizeof r->range, "Range: %s", range);
        r->headers[n++] = r->range;
    }
    if (leat_exchange_pin(op))
        snprintf(r->condition, sizeof r->condition, "If-Match: %s", leat_exchange_pin(op));
    else if (leat_exchange_since(op, since))
        snprintf(r->condition, sizeof r->condition, "If-Unmodified-Since: %s", since);
    if (r->condition[0])
        r->headers[n++] = r->condition;
    const char *bearer = leat_store_settings(web->store)->bearer;
    if (bearer) {
        snprintf(r->bearer, sizeof r->bearer, "Authorization: Bearer %s", bearer);
        r->headers[n++] = r->bearer;
        call->direct = true; /* a machine of one's own, and no proxy's business */
    }
    leat_buf_printf(&r->url, "%s%s", web->origin, op->key);
    call->method = r->head ? "HEAD" : "GET";
    call->url = r->url.data;
    call->headers = r->headers;
    call->headers_n = n;
    return leat_buf_check(&r->url, "a URL", &op->own->err);
}

static void start(struct leat_backend *backend, struct leat_store_op *op)
{
    struct web *web = (struct web *)backend;
    struct leat_http_call *call = &op->own->call;
    struct web_request *r = calloc(1, sizeof *r);
    memset(call, 0, sizeof *call);
    op->status = r ? describe(web, op, r) : leat_fail(&op->own->err, LEAT_NO_MEMORY, "no memory for a request");
    if (op->status != LEAT_OK) {
        request_free(r);
        op->own->task.run = fail_later;
        leat_loop_post(leat_store_loop(web->store), &op->own->task);
        return;
    }
    op->own->request = r;
    call->deadline_ns = op->own->deadline_ns;
    call->inactivity_ns = leat_store_settings(web->store)->inactivity_ns;
    call->fresh = op->own->fresh;
    call->done = on_done;
    call->user = op;
    leat_http_start(web->http, call);
}

static void cancel(struct leat_backend *backend, struct leat_store_op *op)
{
    if (op->own->request) /* else fail_later() is on its way */
        leat_http_cancel(((struct web *)backend)->http, &op->own->call);
}

static void close_web(struct leat_backend *backend)
{
    struct web *web = (struct web *)backend;
    if (!web)
        return;
    leat_http_close(web->http);
    free(web->origin);
    free(web);
}

static void place(const struct leat_backend *backend, struct leat_store_place *out)
{
    snprintf(out->address, sizeof out->address, "%s", ((const struct web *)backend)->origin);
}

static const struct leat_backend_ops ops = {.start = start, .cancel = cancel, .close = close_web, .place = place};

leat_status leat_web_open(struct leat_store *store, const struct leat_url *url, struct leat_backend **out,
                          struct leat_error *err)
{
    const struct leat_store_opts *opts = leat_store_settings(store);
    struct web *web = calloc(1, sizeof *web);
    if (!web)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a store");
    leat_status rc;
    struct leat_buf origin;
    web->backend.ops = &ops;
    web->store = store;
    leat_buf_init(&origin, 1024);
    leat_buf_printf(&origin, "%s://%s", leat_scheme_name(url->scheme), url->host);
    web->origin = leat_buf_take(&origin);
    if (!web->origin) {
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for a store");
        goto fail;
    }
    struct leat_http_opts http = {.loop = leat_store_loop(store),
                                  .ca_bundle = opts->ca_bundle,
                                  .pin = opts->pin,
                                  .connect_timeout_ns = opts->connect_timeout_ns};
    rc = leat_http_open(&http, &web->http, err);
    if (rc != LEAT_OK)
        goto fail;
    *out = &web->backend;
    return LEAT_OK;
fail:
    close_web(&web->backend);
    return rc;
}
