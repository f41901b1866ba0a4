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

static const char *pin_of(const struct leat_store_op *op)
{
    if (op->if_match)
        return op->if_match;
    return op->own.pinned[0] ? op->own.pinned : NULL;
}

/* A weak tag says that two answers mean the same, not that their bytes are: If-Match never matches it, and pieces of
 * two answers must not be put together. */
static bool is_weak(const char *etag)
{
    return strncmp(etag, "W/", 2) == 0;
}

const char *leat_exchange_pin(const struct leat_store_op *op)
{
    const char *pin = pin_of(op);
    return pin && !is_weak(pin) ? pin : NULL;
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
    if (!op->own.pinned[0] || is_weak(op->own.pinned))
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
    if (head->range_last < last && head->range_last + 1 != head->range_total) { /* nor is it the object's end */
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
        refuse(call, LEAT_UNSUPPORTED, "the server knows no ranges, and what was asked for is far into the object");
        return false;
    }
    struct leat_backend *backend = leat_store_backend(op->own.store);
    if (!backend->warned_whole && (first || !call->head.has_length || call->head.content_length > op->length)) {
        backend->warned_whole = true;
        leat_log(LEAT_LOG_WARN, "the server sends '%.*s' whole although a part was asked for: reading will be slow",
                 leat_store_shown(op), op->key);
    }
    op->object.size = call->head.has_length ? call->head.content_length : UINT64_MAX;
    call->skip = first;
    call->cut = true;
    return true;
}

static bool accept(struct leat_http_call *call, bool etag_required)
{
    struct leat_store_op *op = call->user;
    const struct leat_http_head *head = &call->head;
    const char *pin = pin_of(op);
    if (head->code != 200 && head->code != 206) {
        leat_fail(&call->err, LEAT_SERVER, "the server answered %u, which is no answer to a read", head->code);
        return false;
    }
    if (etag_required && !head->etag[0]) {
        refuse(call, LEAT_SERVER, "the answer is not an object (it has no ETag)");
        return false;
    }
    if (pin && !head->etag[0]) {
        refuse(call, LEAT_SERVER, "the answer does not say which version of the object it is of (it has no ETag)");
        return false;
    }
    if (pin && strcmp(pin, head->etag) != 0) {
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
    if (op->if_match && head->etag[0] && strcmp(op->if_match, head->etag) != 0) {
        op->status = leat_fail(&op->err, LEAT_CHANGED, "the object has changed: its ETag was %s and is %s",
                               op->if_match, head->etag);
        return;
    }
    if (!head->has_length) {
        op->status = leat_fail(&op->err, LEAT_UNSUPPORTED, "the server does not say how long it is");
        return;
    }
    op->object.size = head->content_length;
    op->object.modified_s = head->modified_s;
    memcpy(op->object.etag, head->etag, sizeof op->object.etag);
}

/* 416: nothing of what was asked for is there. */
static void finish_past_end(struct leat_store_op *op)
{
    const struct leat_http_head *head = &op->own.call.head;
    if (op->got) {
        op->status = leat_fail(&op->err, LEAT_CHANGED, "the object has changed: it ends before byte %" PRIu64 " now",
                               first_missing(op));
    } else if (first_missing(op) < head->range_total) {
        op->status = leat_fail(&op->err, LEAT_SERVER, "the server refuses a range that it says is there");
    } else if (op->short_ok) {
        /* A range of an empty object cannot be satisfied, not even from its first byte on. */
        op->object.size = head->range_total;
    } else {
        op->too_short = true;
        op->status = leat_fail(&op->err, LEAT_INVALID,
                               "the object ends before byte %" PRIu64 ", asked for were %" PRIu64 " bytes from there",
                               op->offset, op->length);
    }
}

/* The answer came to its end: was that the end of what it promised? Curl has checked a Content-Length, but an answer
 * may come without one. */
static void check_whole(struct leat_store_op *op)
{
    const struct leat_http_head *head = &op->own.call.head;
    bool part = head->code == 206;
    bool known = part || op->object.size != UINT64_MAX;
    uint64_t there = op->object.size > op->offset ? op->object.size - op->offset : 0;
    uint64_t want = part ? head->range_last + 1 - op->offset : there < op->length ? there : op->length;
    if (op->got > want) {
        op->got = 0;
        op->status = leat_fail(&op->err, LEAT_SERVER, "the answer is longer than the range it names");
    } else if (op->got < want && (known || !op->short_ok)) {
        op->status =
            leat_fail(&op->err, LEAT_NETWORK, "the answer ended after %" PRIu64 " of %" PRIu64 " bytes", op->got, want);
    } else if (!known && op->got < op->length) {
        op->object.size = op->offset + op->got; /* sent without a length: it ended here */
    } else if (op->got < op->length && !op->short_ok) {
        op->too_short = true;
        op->status = leat_fail(&op->err, LEAT_INVALID,
                               "the object has %" PRIu64 " bytes, asked for were %" PRIu64 " from byte %" PRIu64,
                               op->object.size, op->length, op->offset);
    }
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
    op->got += call->got;
    op->status = call->status;
    if (call->status == LEAT_OK)
        check_whole(op);
    else
        op->err = call->err;
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
    case 501:
    case 505:
        return LEAT_UNSUPPORTED;
    case 507:
        return LEAT_NO_SPACE;
    default:
        return code >= 500 ? LEAT_SERVER : LEAT_INVALID;
    }
}
