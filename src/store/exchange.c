#include "store/exchange.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/log.h"
#include "store/backend.h"
#include "store/checksum.h"

/* A server that ignores ranges is asked for an object's beginning only: what lies before the range is received and
 * thrown away. */
#define SKIP_MAX (256ull << 20)

#define MADE_TAG "\"modified-" /* "modified-DATE-SIZE": ours, for web servers without a strong ETag */

static uint64_t first_missing(const struct leat_store_op *op)
{
    return op->offset + op->got;
}

static const char *pin_of(const struct leat_store_op *op)
{
    if (op->if_match)
        return op->if_match;
    return op->own->pinned[0] ? op->own->pinned : NULL;
}

/* A weak tag says that two answers mean the same, not that their bytes are: If-Match never matches it, and pieces of
 * two answers must not be put together. */
static bool is_weak(const char *etag)
{
    return strncmp(etag, "W/", 2) == 0;
}

bool leat_exchange_tells(const char *etag)
{
    return *etag && !is_weak(etag);
}

/* Whether two tags name the same version; servers differ in whether they write the quotes. */
static bool same_tag(const char *a, const char *b)
{
    size_t a_n = strlen(a);
    size_t b_n = strlen(b);
    bool a_quoted = a_n > 1 && *a == '"' && a[a_n - 1] == '"';
    bool b_quoted = b_n > 1 && *b == '"' && b[b_n - 1] == '"';
    if (a_quoted != b_quoted) {
        a += a_quoted;
        b += b_quoted;
        a_n -= a_quoted ? 2 : 0;
        b_n -= b_quoted ? 2 : 0;
    }
    return a_n == b_n && memcmp(a, b, a_n) == 0;
}

/* Seconds since 1970 in a tag of ours; 0: it is the server's own. */
static int64_t made_from(const char *tag)
{
    int64_t modified_s = 0;
    uint64_t size = 0;
    if (strncmp(tag, MADE_TAG, sizeof MADE_TAG - 1) != 0 ||
        sscanf(tag + sizeof MADE_TAG - 1, "%" SCNd64 "-%" SCNu64, &modified_s, &size) != 2 || modified_s < 0)
        return 0;
    return modified_s;
}

enum leat_store_pin leat_store_pin(const char *etag)
{
    if (!etag || !leat_exchange_tells(etag))
        return LEAT_STORE_PIN_NONE;
    return made_from(etag) ? LEAT_STORE_PIN_DATE : LEAT_STORE_PIN_ETAG;
}

const char *leat_exchange_pin(const struct leat_store_op *op)
{
    const char *pin = pin_of(op);
    return pin && !is_weak(pin) && !made_from(pin) ? pin : NULL;
}

bool leat_exchange_date(int64_t at_s, char out[LEAT_HTTP_DATE])
{
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t at = (time_t)at_s;
    struct tm t;
    if (!at || !gmtime_r(&at, &t) || t.tm_year > 8099)
        return false;
    /* strftime would write the names of the program's language. */
    snprintf(out, LEAT_HTTP_DATE, "%.3s, %02u %.3s %04u %02u:%02u:%02u GMT", days + 3 * t.tm_wday,
             (unsigned)t.tm_mday % 100, months + 3 * t.tm_mon, (unsigned)(t.tm_year + 1900) % 10000,
             (unsigned)t.tm_hour % 100, (unsigned)t.tm_min % 100, (unsigned)t.tm_sec % 100);
    return true;
}

bool leat_exchange_since(const struct leat_store_op *op, char out[LEAT_HTTP_DATE])
{
    const char *pin = pin_of(op);
    return pin && leat_exchange_date(made_from(pin), out);
}

bool leat_exchange_partial(const struct leat_http_head *head)
{
    if (head->code != 200 || !head->ranged)
        return head->code == 206;
    bool all = head->has_range && head->range_first == 0 && head->range_last + 1 == head->range_total;
    return !all || !head->has_length || head->content_length != head->range_total;
}

uint64_t leat_exchange_total(const struct leat_http_head *head)
{
    if (leat_exchange_partial(head))
        return head->has_range ? head->range_total : UINT64_MAX;
    return head->has_length ? head->content_length : UINT64_MAX;
}

void leat_exchange_generation_tag(const char *generation, char out[LEAT_ETAG_MAX])
{
    snprintf(out, LEAT_ETAG_MAX, *generation ? "\"g%.20s\"" : "%s", generation);
}

/* What tells the version that an answer is of. Web servers often have only a date, or an ETag that does not promise
 * equal bytes: then it is date and size. A bucket has ETags. */
static void tag_of(const struct leat_store_op *op, char out[LEAT_ETAG_MAX])
{
    const struct leat_http_head *head = &op->own->call.head;
    uint64_t total = leat_exchange_total(head);
    if (op->own->generations)
        leat_exchange_generation_tag(head->generation, out);
    else if (op->own->bucket || leat_exchange_tells(head->etag) || head->modified_s <= 0 || total == UINT64_MAX)
        memcpy(out, head->etag, LEAT_ETAG_MAX);
    else
        snprintf(out, LEAT_ETAG_MAX, MADE_TAG "%" PRId64 "-%" PRIu64 "\"", head->modified_s, total);
}

static bool accept(struct leat_http_call *call);
static void on_received(struct leat_http_call *call, size_t n);

void leat_exchange_begin(struct leat_store_op *op, char range[LEAT_RANGE_MAX])
{
    struct leat_http_call *call = &op->own->call;
    range[0] = '\0';
    if (op->verb != LEAT_STORE_GET || op->length == 0)
        return;
    if (!op->own->pinned[0] || is_weak(op->own->pinned))
        op->got = 0; /* nothing says that the rest would be of the same object */
    call->into = (char *)op->into + op->got;
    call->into_n = (size_t)(op->length - op->got);
    call->accept = accept;
    call->received = on_received;
    snprintf(range, LEAT_RANGE_MAX, "bytes=%" PRIu64 "-%" PRIu64, first_missing(op), op->offset + op->length - 1);
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
    /* A 200 may as well be the whole object with a header too many: only what leaves no doubt is taken for a part. */
    if (head->code == 200 && (!head->has_length || head->range_total == UINT64_MAX)) {
        refuse(call, LEAT_SERVER, "the server answered 200 and names a range, but not how long it is and of how much");
        return false;
    }
    if (head->range_last < last && head->range_last + 1 != head->range_total) { /* nor is it the object's end */
        refuse(call, LEAT_SERVER, "the server answered with less than the range asked for");
        return false;
    }
    op->own->object.size = head->range_total;
    return true;
}

/* The whole object in answer to a range: what was asked for is cut out of it. */
static bool accept_whole(struct leat_http_call *call, struct leat_store_op *op)
{
    uint64_t first = first_missing(op);
    if (first > SKIP_MAX) {
        refuse(call, LEAT_UNSUPPORTED,
               "the server does not support ranges, and the bytes asked for are far into "
               "the object");
        return false;
    }
    struct leat_backend *backend = leat_store_backend(op->own->store);
    if (!backend->warned_whole && (first || !call->head.has_length || call->head.content_length > op->length)) {
        backend->warned_whole = true;
        leat_log(LEAT_LOG_WARN, "the server sends '%.*s' whole although a part was asked for: reading will be slow",
                 leat_store_shown(op), op->key);
    }
    op->own->object.size = leat_exchange_total(&call->head);
    call->skip = first;
    /* What follows the range is not wanted; but where its end is the object's, nothing may follow. */
    call->cut = !op->known || op->offset + op->length < op->known->size;
    return true;
}

/* Whether the answer is in the encoding that the object is stored in: a proxy that compresses, or a server that
 * unpacks, sends other bytes under the same name. */
static bool fits_encoding(const struct leat_store_op *op)
{
    const struct leat_http_head *head = &op->own->call.head;
    if (op->known && op->known->looked_at)
        return strcasecmp(op->known->encoding, head->encoding) == 0;
    if (!head->encoding[0])
        return true;
    /* Only listed, or not even that. A part of N bytes is one of N stored bytes; of a whole the size must be known. */
    return op->known ? leat_exchange_total(head) == op->known->size : head->code == 206;
}

static bool fits_known(struct leat_http_call *call, struct leat_store_op *op, bool pinned)
{
    uint64_t total = leat_exchange_total(&call->head);
    if (!fits_encoding(op)) {
        leat_fail(
            &call->err, LEAT_SERVER,
            "the answer is in another encoding than the object is stored in ('%s'): something on the way changes it",
            call->head.encoding);
        return false;
    }
    if (!op->known || total == op->known->size)
        return true;
    if (total != UINT64_MAX) {
        leat_fail(&call->err, pinned ? LEAT_SERVER : LEAT_CHANGED,
                  "%s: it had %" PRIu64 " bytes, and the answer is of one that has %" PRIu64,
                  pinned ? "the answer is of another object" : "the object has changed", op->known->size, total);
        return false;
    }
    if (call->head.code == 200 && op->offset + op->length < op->known->size) {
        refuse(call, LEAT_SERVER, "the answer does not say how long the object is");
        return false;
    }
    return true;
}

/* A server that knows no versions answers with the object as it is now. (Of one that was there before versions were
 * kept, "null", not all of them say so.) */
static bool fits_version(const struct leat_store_op *op)
{
    const char *meant = op->known ? op->known->version : "";
    const char *got = op->own->call.head.version;
    return !*meant || strcmp(meant, got) == 0 || (strcmp(meant, "null") == 0 && !*got);
}

#define OTHER_VERSION "the answer is not of the version that was asked for: does the server keep versions?"

static bool accept(struct leat_http_call *call)
{
    struct leat_store_op *op = call->user;
    const struct leat_http_head *head = &call->head;
    const char *pin = pin_of(op);
    char tag[LEAT_ETAG_MAX];
    if (head->code != 200 && head->code != 206) {
        leat_fail(&call->err, LEAT_SERVER, "the server answered %u, which is not an answer to a read", head->code);
        return false;
    }
    if (op->own->bucket && !(op->own->generations ? head->generation[0] : head->etag[0])) {
        refuse(call, LEAT_SERVER, "the answer is not an object (it has no ETag)");
        return false;
    }
    if (!fits_version(op)) {
        refuse(call, LEAT_UNSUPPORTED, OTHER_VERSION);
        return false;
    }
    tag_of(op, tag);
    if (pin && !tag[0]) {
        refuse(call, LEAT_SERVER, "the answer does not say which version of the object it is of (it has no ETag)");
        return false;
    }
    if (pin && !same_tag(pin, tag) && !same_tag(pin, head->etag)) {
        leat_fail(&call->err, LEAT_CHANGED, "the object has changed: its ETag was %s and is %s", pin, tag);
        return false;
    }
    if (!fits_known(call, op, pin != NULL))
        return false;
    if (leat_exchange_partial(head) ? !accept_part(call, op) : !accept_whole(call, op))
        return false;
    memcpy(op->own->object.etag, tag, sizeof op->own->object.etag);
    memcpy(op->own->pinned, tag, sizeof op->own->pinned);
    op->own->object.modified_s = head->modified_s;
    return true;
}

static void finish_stat(struct leat_store_op *op)
{
    const struct leat_http_head *head = &op->own->call.head;
    char tag[LEAT_ETAG_MAX];
    if (op->own->bucket &&
        !(op->own->generations ? head->generation[0]
                               : head->etag[0])) { /* a portal or a proxy: an empty object has one, too */
        op->status = leat_fail(&op->own->err, LEAT_SERVER, "the answer is not an object (it has no ETag)");
        return;
    }
    if (!fits_version(op)) {
        op->status = leat_fail(&op->own->err, LEAT_UNSUPPORTED, OTHER_VERSION);
        return;
    }
    tag_of(op, tag);
    if (op->if_match && tag[0] && !same_tag(op->if_match, tag) && !same_tag(op->if_match, head->etag)) {
        op->status = leat_fail(&op->own->err, LEAT_CHANGED, "the object has changed: its ETag was %s and is %s",
                               op->if_match, tag);
        return;
    }
    if (!head->has_length) {
        op->status = leat_fail(&op->own->err, LEAT_UNSUPPORTED, "the server does not say how long it is");
        return;
    }
    op->own->object.size = head->content_length;
    op->own->object.modified_s = head->modified_s;
    memcpy(op->own->object.etag, tag, sizeof op->own->object.etag);
    memcpy(op->own->object.encoding, head->encoding, sizeof op->own->object.encoding);
    op->own->object.looked_at = true;
    memcpy(op->own->object.storage_class, head->storage_class, sizeof op->own->object.storage_class);
    leat_checksum_of(head, op->own->bucket && !op->own->odd_etags, &op->own->object.checksum);
}

/* 416: nothing of what was asked for is there. */
static void finish_past_end(struct leat_store_op *op)
{
    const struct leat_http_head *head = &op->own->call.head;
    if (op->got) {
        op->status = leat_fail(&op->own->err, LEAT_CHANGED,
                               "the object has changed: it ends before byte %" PRIu64 " now", first_missing(op));
    } else if (first_missing(op) < head->range_total) {
        op->status = leat_fail(&op->own->err, LEAT_SERVER, "the server refuses a range that it says is there");
    } else if (op->short_ok) {
        /* A range of an empty object cannot be satisfied, not even from its first byte on. */
        op->own->object.size = head->range_total;
    } else {
        op->too_short = true;
        op->status = leat_fail(&op->own->err, LEAT_INVALID,
                               "the object ends before byte %" PRIu64 ", asked for were %" PRIu64 " bytes from there",
                               op->offset, op->length);
    }
}

/* The answer came to its end: was that the end of what it promised? Curl has checked a Content-Length, but an answer
 * may come without one. */
static void check_whole(struct leat_store_op *op)
{
    const struct leat_http_head *head = &op->own->call.head;
    bool part = leat_exchange_partial(head);
    bool known = part || op->own->object.size != UINT64_MAX;
    uint64_t there = op->own->object.size > op->offset ? op->own->object.size - op->offset : 0;
    uint64_t want = part ? head->range_last + 1 - op->offset : there < op->length ? there : op->length;
    if (op->got > want) {
        op->got = 0;
        op->status = leat_fail(&op->own->err, LEAT_SERVER, "the answer is longer than the range it names");
    } else if (op->got < want && (known || !op->short_ok)) {
        op->status = leat_fail(&op->own->err, LEAT_NETWORK, "the answer ended after %" PRIu64 " of %" PRIu64 " bytes",
                               op->got, want);
    } else if (!known && op->got < op->length) {
        op->own->object.size = op->offset + op->got; /* sent without a length: it ended here */
    } else if (op->got < op->length && !op->short_ok) {
        op->too_short = true;
        op->status = leat_fail(&op->own->err, LEAT_INVALID,
                               "the object has %" PRIu64 " bytes, asked for were %" PRIu64 " from byte %" PRIu64,
                               op->own->object.size, op->length, op->offset);
    }
}

/* What was stated of the object before, where that is of this version. Of its parts only when they were asked for. */
static bool known_checksum(const struct leat_store_op *op, struct leat_checksum *out)
{
    const struct leat_object *known = op->known;
    if (!known || known->checksum.kind == LEAT_CHECKSUM_NONE ||
        (!known->checksum.parts && !(leat_exchange_tells(known->etag) && same_tag(known->etag, op->own->object.etag))))
        return false;
    *out = known->checksum;
    return true;
}

/* The bytes against what the server says of the whole object: with them, and when it was looked at before. */
static void check_bytes(struct leat_store_op *op)
{
    struct leat_checksum now;
    struct leat_checksum before;
    if (!op->verify || op->offset || op->got != op->own->object.size)
        return;
    bool stated = leat_checksum_of(&op->own->call.head, op->own->bucket && !op->own->odd_etags, &now);
    bool known = known_checksum(op, &before);
    if (stated && known && (before.parts || memcmp(now.value, before.value, sizeof now.value) == 0))
        known = false;
    const struct leat_checksum *wrong = stated && !leat_checksum_fits(&now, op->into, op->got)     ? &now
                                        : known && !leat_checksum_fits(&before, op->into, op->got) ? &before
                                                                                                   : NULL;
    if (!wrong)
        return;
    op->got = 0;
    op->own->pinned[0] = '\0';
    op->status = leat_fail(&op->own->err, LEAT_CORRUPT,
                           "the bytes that came do not have the checksum that the server states (%s)",
                           leat_checksum_name(wrong->kind));
}

void leat_exchange_finish(struct leat_store_op *op)
{
    struct leat_http_call *call = &op->own->call;
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
        op->own->err = call->err;
    if (op->status == LEAT_OK)
        check_bytes(op);
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
