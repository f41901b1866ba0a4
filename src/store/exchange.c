#include "store/exchange.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "store/backend.h"

/* A server that ignores ranges is asked for an object's beginning only: what lies before the range is received and
 * thrown away. */
#define SKIP_MAX (256ull << 20)

static uint64_t first_missing(const struct leat_store_op *op)
{
    return op->offset + op->got;
}

const char *leat_exchange_pin(const struct leat_store_op *op)
{
    if (op->if_match)
        return op->if_match;
    return op->own.pinned[0] ? op->own.pinned : NULL;
}

static bool accept_with_etag(struct leat_http_call *call);
static bool accept_any(struct leat_http_call *call);
static void on_received(struct leat_http_call *call, size_t n);

void leat_exchange_begin(struct leat_store_op *op, char range[LEAT_RANGE_MAX])
{
    struct leat_http_call *call = &op->own.call;
    range[0] = '\0';
    if (op->verb != LEAT_STORE_GET || op->length == 0)
        return;
    if (!op->own.pinned[0])
        op->got = 0; /* nothing says that the rest would be of the same object */
    call->into = (char *)op->into + op->got;
    call->into_n = (size_t)(op->length - op->got);
    call->accept = accept_any;
    call->received = on_received;
    snprintf(range, LEAT_RANGE_MAX, "bytes=%" PRIu64 "-%" PRIu64, first_missing(op), op->offset + op->length - 1);
}

void leat_exchange_require_etag(struct leat_store_op *op)
{
    if (op->own.call.accept)
        op->own.call.accept = accept_with_etag;
}

static void on_received(struct leat_http_call *call, size_t n)
{
    leat_store_received(call->user, n);
}

static void refuse(struct leat_http_call *call, leat_status status, const char *why)
{
    leat_fail(&call->err, status, "%s", why);
}

static bool accept_part(struct leat_http_call *call, struct leat_store_op *op)
{
    const struct leat_http_head *head = &call->head;
    uint64_t first = first_missing(op);
    uint64_t last = op->offset + op->length - 1;
    if (!head->has_range || head->range_first != first || head->range_last > last) {
        refuse(call, LEAT_SERVER, "the server answered with another range than the one asked for");
        return false;
    }
    uint64_t n = head->range_last - head->range_first + 1;
    if (head->has_length && head->content_length != n) {
        refuse(call, LEAT_SERVER, "the answer's length and range do not fit together");
        return false;
    }
    if (head->range_last < last && head->range_total != UINT64_MAX && head->range_last + 1 < head->range_total) {
        refuse(call, LEAT_SERVER, "the server answered with less than the range asked for");
        return false;
    }
    op->object.size = head->range_total;
    return true;
}

/* The whole object in answer to a range: what was asked for is cut out of it. */
static bool accept_whole(struct leat_http_call *call, struct leat_store_op *op)
{
    uint64_t first = first_missing(op);
    if (first > SKIP_MAX) {
        refuse(call, LEAT_UNSUPPORTED, "the server does not know ranges and the part asked for is far into the object");
        return false;
    }
    if (first || !call->head.has_length || call->head.content_length > op->length)
        leat_log(LEAT_LOG_WARN, "the server sends '%s' whole although a part was asked for", op->key);
    op->object.size = call->head.has_length ? call->head.content_length : UINT64_MAX;
    call->skip = first;
    call->cut = true;
    return true;
}

static bool accept(struct leat_http_call *call, bool etag_required)
{
    struct leat_store_op *op = call->user;
    const struct leat_http_head *head = &call->head;
    const char *pin = leat_exchange_pin(op);
    if (etag_required && !head->etag[0]) {
        refuse(call, LEAT_SERVER, "the answer is not an object (it has no ETag)");
        return false;
    }
    if (pin && head->etag[0] && strcmp(pin, head->etag) != 0) {
        leat_fail(&call->err, LEAT_CHANGED, "the object has changed: its ETag was %s and is %s", pin, head->etag);
        return false;
    }
    if (head->code == 206 ? !accept_part(call, op) : !accept_whole(call, op))
        return false;
    memcpy(op->object.etag, head->etag, sizeof op->object.etag);
    memcpy(op->own.pinned, head->etag, sizeof op->own.pinned);
    op->object.modified_s = head->modified_s;
    return true;
}

static bool accept_with_etag(struct leat_http_call *call)
{
    return accept(call, true);
}

static bool accept_any(struct leat_http_call *call)
{
    return accept(call, false);
}

static void finish_stat(struct leat_store_op *op)
{
    const struct leat_http_head *head = &op->own.call.head;
    const char *pin = leat_exchange_pin(op);
    if (pin && head->etag[0] && strcmp(pin, head->etag) != 0) {
        op->status =
            leat_fail(&op->err, LEAT_CHANGED, "the object has changed: its ETag was %s and is %s", pin, head->etag);
        return;
    }
    if (!head->has_length) {
        op->status = leat_fail(&op->err, LEAT_SERVER, "the server does not say how long the object is");
        return;
    }
    op->object.size = head->content_length;
    op->object.modified_s = head->modified_s;
    memcpy(op->object.etag, head->etag, sizeof op->object.etag);
}

static void finish_past_end(struct leat_store_op *op)
{
    /* A range of an empty object cannot be satisfied, not even from its first byte on. */
    if (op->short_ok) {
        op->object.size = op->offset ? op->own.call.head.range_total : 0;
        return;
    }
    op->status = leat_fail(&op->err, LEAT_INVALID,
                           "the object ends before byte %" PRIu64 ", asked for were %" PRIu64 " bytes from there",
                           op->offset, op->length);
}

void leat_exchange_finish(struct leat_store_op *op)
{
    struct leat_http_call *call = &op->own.call;
    if (op->verb == LEAT_STORE_STAT || op->length == 0) {
        finish_stat(op);
        return;
    }
    if (call->head.code == 416) {
        finish_past_end(op);
        return;
    }
    if (!call->accepted && call->status == LEAT_OK && !call->accept(call)) { /* no body: nobody has asked yet */
        op->status = call->err.status;
        op->err = call->err;
        return;
    }
    op->got += call->got;
    if (call->status != LEAT_OK) {
        op->status = call->status;
        op->err = call->err;
        return;
    }
    uint64_t there = op->object.size > op->offset ? op->object.size - op->offset : 0;
    uint64_t want = op->short_ok && there < op->length ? there : op->length;
    if (op->object.size == UINT64_MAX && op->short_ok)
        op->object.size = op->offset + op->got; /* sent without a length: it ended here */
    else if (op->got < want && op->object.size != UINT64_MAX && there < op->length)
        op->status = leat_fail(&op->err, LEAT_INVALID,
                               "the object has %" PRIu64 " bytes, asked for were %" PRIu64 " from byte %" PRIu64,
                               op->object.size, op->length, op->offset);
    else if (op->got < want)
        op->status =
            leat_fail(&op->err, LEAT_NETWORK, "the answer ended after %" PRIu64 " of %" PRIu64 " bytes", op->got, want);
}

leat_status leat_exchange_code_status(unsigned code)
{
    switch (code) {
    case 401:
    case 403:
        return LEAT_DENIED;
    case 404:
    case 410:
        return LEAT_NOT_FOUND;
    case 412:
        return LEAT_CHANGED;
    case 409:
        return LEAT_BUSY;
    case 408:
        return LEAT_NETWORK;
    case 429:
    case 503:
        return LEAT_THROTTLED;
    case 507:
        return LEAT_NO_SPACE;
    default:
        return code >= 500 ? LEAT_SERVER : LEAT_INVALID;
    }
}
