#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "serve/dialect.h"
#include "serve/xml.h"

#define PLACE_BREAK 0 /* which of a fault's numbers */
#define PLACE_BIT   1
#define PLACE_WHEN  2

const struct leat_serve_arg *leat_serve_arg_bytes(const struct leat_serve_call *c, const char *name)
{
    for (size_t i = 0; i < c->args; i++) {
        if (strcmp(c->arg[i].name, name) == 0)
            return &c->arg[i];
    }
    return NULL;
}

const char *leat_serve_arg(const struct leat_serve_call *c, const char *name)
{
    const struct leat_serve_arg *a = leat_serve_arg_bytes(c, name);
    return a ? a->value : NULL;
}

bool leat_serve_arg_number(struct leat_serve_call *c, const char *name, uint64_t preset, uint64_t max, uint64_t *out)
{
    const char *text = leat_serve_arg(c, name);
    uint64_t v = preset;
    if (text && *text && (leat_parse_u64(text, name, &v, NULL) != LEAT_OK || v > max)) {
        leat_serve_failf(c, LEAT_SERVE_INVALID_ARGUMENT, "%s is not a number from 0 to %llu.", name,
                         (unsigned long long)max);
        return false;
    }
    *out = v;
    return true;
}

bool leat_serve_suffers(struct leat_serve_call *c, enum leat_serve_fault_kind kind)
{
    const struct leat_serve *s = c->serve;
    if (!c->fault || c->fault->kind != kind || c->fault_done)
        return false;
    /* The limit on their number is checked here, where one is about to happen. */
    uint64_t before = atomic_fetch_add(&c->serve->faults_done, 1);
    if (s->options.fault_count && before >= s->options.fault_count) {
        atomic_fetch_sub(&c->serve->faults_done, 1);
        c->fault = NULL;
        return false;
    }
    c->fault_done = true;
    return true;
}

static int64_t wall_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * (int64_t)LEAT_S + t.tv_nsec;
}

/* Waits out the latency, once, and counts the answer that is about to leave. */
static void before_reply(struct leat_serve_call *c, unsigned status, uint64_t bytes)
{
    struct leat_serve *s = c->serve;
    if (!c->delayed) {
        uint64_t wait_ns = s->options.latency_ns + (leat_serve_suffers(c, LEAT_SERVE_FAULT_LATE) ? LEAT_S : 0);
        if (wait_ns)
            leat_request_wait(c->x, c->start_ns + wait_ns);
    }
    c->delayed = true;
    if (!c->op || c->logged)
        return;
    bool head = strcmp(leat_request_method(c->x), "HEAD") == 0;
    struct leat_serve_record record = {
        .time_ns = wall_ns(),
        .took_ns = leat_now_ns() - c->start_ns,
        .call = c->op->name,
        .method = c->op->method,
        .fault = c->fault_done ? c->fault->name : "",
        .status = status,
        .sent = head ? 0 : bytes,
        .received = c->received,
        .bucket = c->bucket_name,
        .key = c->key,
        .range = leat_request_header(c->x, "Range"),
    };
    leat_serve_stats_count(s->stats, &record);
    c->logged = record.number;
    c->counted = record.sent;
}

static void add_common_headers(struct leat_serve_call *c)
{
    char id[20];
    snprintf(id, sizeof id, "%016llX", (unsigned long long)c->number);
    leat_request_add_header(c->x, "Server", "leat");
    if (c->serve->options.clock_skew_s) {
        /* Clients set their clocks by it. */
        char date[40];
        leat_serve_http_date((leat_wall_s() + c->serve->options.clock_skew_s) * (int64_t)LEAT_S, date);
        leat_request_add_header(c->x, "Date", date);
    }
    leat_request_add_header(c->x, c->serve->dialect->request_id, id);
}

struct body {
    struct leat_serve_call *call;
    int fd;     /* the file the bytes come from, or */
    char *data; /* the bytes themselves */
    uint64_t offset;
    struct leat_serve_pace connection;
    uint64_t break_at; /* bytes before the body breaks off; UINT64_MAX: never */
    enum leat_serve_fault_kind fault;
    uint64_t wrong_bit; /* UINT64_MAX: none */
};

static ssize_t break_off(struct body *b)
{
    if (b->fault == LEAT_SERVE_FAULT_STALL)
        leat_request_wait_client(b->call->x, LEAT_NEVER);
    else if (b->fault == LEAT_SERVE_FAULT_RESET)
        leat_request_drop(b->call->x, true);
    return -1;
}

static ssize_t read_body(void *state, uint64_t at, char *out, size_t max)
{
    struct body *b = state;
    struct leat_serve *s = b->call->serve;
    if (at >= b->break_at) {
        if (b->fault != LEAT_SERVE_FAULT_SLOW)
            return break_off(b);
        if (!leat_request_wait_client(b->call->x, leat_after(LEAT_S)))
            return -1;
        max = 1;
    } else if (max > b->break_at - at) {
        max = (size_t)(b->break_at - at);
    }
    ssize_t n = (ssize_t)max;
    if (b->data)
        memcpy(out, b->data + at, max);
    else
        n = pread(b->fd, out, max, (off_t)(b->offset + at));
    if (n <= 0)
        return -1;
    if (b->wrong_bit / 8 >= at && b->wrong_bit / 8 < at + (uint64_t)n)
        out[b->wrong_bit / 8 - at] ^= (char)(1 << b->wrong_bit % 8);
    uint64_t mine = leat_serve_pace_take(&b->connection, (size_t)n);
    uint64_t all = leat_serve_pace_take(&s->down, (size_t)n);
    uint64_t until = mine > all ? mine : all;
    if (leat_left(until) && !leat_request_wait(b->call->x, until))
        return -1;
    return n;
}

static void free_body(void *state)
{
    struct body *b = state;
    if (b->fd >= 0)
        close(b->fd);
    leat_serve_pace_destroy(&b->connection);
    free(b->data);
    free(b);
}

static bool has_body(const struct leat_serve_call *c, uint64_t n)
{
    return n && strcmp(leat_request_method(c->x), "HEAD") != 0;
}

/* Sets up the fault that befalls a body of n bytes. */
static void plan_fault(struct leat_serve_call *c, struct body *b, uint64_t n)
{
    /* No checksum protects a listing: a wrong bit in one would be nobody's fault to find. */
    bool object = b->fd >= 0;
    static const enum leat_serve_fault_kind breaking[] = {LEAT_SERVE_FAULT_RESET, LEAT_SERVE_FAULT_TRUNCATE,
                                                          LEAT_SERVE_FAULT_STALL, LEAT_SERVE_FAULT_SLOW};
    uint64_t seed = c->serve->options.seed;
    b->break_at = b->wrong_bit = UINT64_MAX;
    if (!has_body(c, n))
        return;
    for (size_t i = 0; i < sizeof breaking / sizeof *breaking; i++) {
        if (leat_serve_suffers(c, breaking[i])) {
            b->fault = breaking[i];
            b->break_at = leat_serve_faults_place(seed, c->number, PLACE_BREAK, n);
        }
    }
    if (object && leat_serve_suffers(c, LEAT_SERVE_FAULT_CORRUPT))
        b->wrong_bit = leat_serve_faults_place(seed, c->number, PLACE_BIT, 8 * n);
}

/* A reset or stall instead of the answer: where there is no body to break, and for every other reset that has one. */
static bool suffers_instead(struct leat_serve_call *c, uint64_t n)
{
    const struct leat_serve *s = c->serve;
    bool body = has_body(c, n);
    bool first = !body || leat_serve_faults_place(s->options.seed, c->number, PLACE_WHEN, 2) == 0;
    if (first && leat_serve_suffers(c, LEAT_SERVE_FAULT_RESET)) {
        before_reply(c, 0, 0);
        leat_request_drop(c->x, true);
        return true;
    }
    if (!body && leat_serve_suffers(c, LEAT_SERVE_FAULT_STALL)) {
        before_reply(c, 0, 0);
        leat_request_wait_client(c->x, LEAT_NEVER);
        leat_request_drop(c->x, false);
        return true;
    }
    return false;
}

/* True when the body needs more than handing bytes to the kernel. */
static bool must_stream(const struct leat_serve *s, const struct body *b)
{
    return s->options.bandwidth || s->options.connection_bandwidth || b->break_at != UINT64_MAX ||
           b->wrong_bit != UINT64_MAX;
}

static void reply_stream(struct leat_serve_call *c, unsigned status, const struct body *plan, uint64_t n)
{
    const struct leat_serve_options *o = &c->serve->options;
    struct body *b = malloc(sizeof *b);
    if (!b) {
        if (plan->fd >= 0)
            close(plan->fd);
        free(plan->data);
        leat_request_drop(c->x, false);
        return;
    }
    *b = *plan;
    b->call = c;
    leat_serve_pace_init(&b->connection, o->connection_bandwidth);
    size_t slice = leat_serve_pace_slice(o->bandwidth, o->connection_bandwidth);
    struct leat_server_stream stream = {read_body, free_body, b, n < slice ? (size_t)n : slice};
    leat_request_reply_stream(c->x, status, n, &stream);
}

void leat_serve_reply(struct leat_serve_call *c, unsigned status, const char *type, const void *body, size_t n)
{
    struct body b = {.fd = -1};
    if (leat_request_replied(c->x) || suffers_instead(c, n))
        return;
    add_common_headers(c);
    if (n)
        leat_request_add_header(c->x, "Content-Type", type);
    plan_fault(c, &b, n);
    before_reply(c, status, n);
    b.data = must_stream(c->serve, &b) && n ? malloc(n) : NULL;
    if (!b.data) {
        leat_request_reply(c->x, status, body, n);
        return;
    }
    memcpy(b.data, body, n);
    reply_stream(c, status, &b, n);
}

void leat_serve_reply_xml(struct leat_serve_call *c, unsigned status, struct leat_buf *xml)
{
    if (xml->failed)
        leat_serve_fail(c, LEAT_SERVE_INTERNAL_ERROR);
    else
        leat_serve_reply(c, status, "application/xml", xml->data, xml->len);
    leat_buf_free(xml);
}

void leat_serve_reply_object(struct leat_serve_call *c, unsigned status, struct leat_serve_object *o, uint64_t offset,
                             uint64_t n)
{
    struct body b = {.fd = o->fd, .offset = offset};
    o->fd = -1;
    if (suffers_instead(c, n)) {
        close(b.fd);
        return;
    }
    add_common_headers(c);
    plan_fault(c, &b, n);
    before_reply(c, status, n);
    if (must_stream(c->serve, &b))
        reply_stream(c, status, &b, n);
    else
        leat_request_reply_file(c->x, status, b.fd, offset, n);
}

/* `more`: further elements, or NULL. */
static void fail_with(struct leat_serve_call *c, enum leat_serve_code code, unsigned status, const char *message,
                      const char *more)
{
    struct leat_buf xml;
    const char *name = leat_serve_code_name(c->serve->options.protocol, code);
    leat_buf_init(&xml, (size_t)64 << 10);
    leat_buf_str(&xml, LEAT_SERVE_XML_HEAD "<Error>");
    leat_serve_xml_string(&xml, "Code", name);
    if (c->serve->dialect->has_account) /* a HEAD has no other place for it */
        leat_request_add_header(c->x, "x-ms-error-code", name);
    leat_serve_xml_string(&xml, "Message", message);
    if (c->bucket_name && *c->bucket_name)
        leat_serve_xml_string(&xml, "BucketName", c->bucket_name);
    if (c->key.n)
        leat_serve_xml_element(&xml, "Key", c->key.data, c->key.n);
    if (c->serve->options.region &&
        (code == LEAT_SERVE_AUTHORIZATION_HEADER_MALFORMED || code == LEAT_SERVE_PERMANENT_REDIRECT))
        leat_serve_xml_string(&xml, "Region", c->serve->options.region);
    if (more)
        leat_buf_str(&xml, more);
    leat_buf_printf(&xml, "<RequestId>%016llX</RequestId></Error>\n", (unsigned long long)c->number);
    if (xml.failed) {
        leat_request_drop(c->x, false);
        leat_buf_free(&xml);
        return;
    }
    leat_serve_reply_xml(c, status, &xml);
}

void leat_serve_fail_skewed(struct leat_serve_call *c, const char *request_date, int64_t now_s)
{
    enum leat_serve_code code = LEAT_SERVE_REQUEST_TIME_TOO_SKEWED;
    struct leat_buf more;
    leat_buf_init(&more, 1024);
    leat_serve_xml_string(&more, "RequestTime", request_date);
    leat_serve_xml_time(&more, "ServerTime", now_s * (int64_t)LEAT_S);
    leat_serve_xml_number(&more, "MaxAllowedSkewMilliseconds", 900000);
    fail_with(c, code, leat_serve_code_status(c->serve->options.protocol, code), leat_serve_code_message(code),
              more.data);
    leat_buf_free(&more);
}

void leat_serve_fail(struct leat_serve_call *c, enum leat_serve_code code)
{
    leat_serve_fail_as(c, code, leat_serve_code_status(c->serve->options.protocol, code));
}

void leat_serve_fail_as(struct leat_serve_call *c, enum leat_serve_code code, unsigned status)
{
    fail_with(c, code, status, leat_serve_code_message(code), NULL);
}

void leat_serve_failf(struct leat_serve_call *c, enum leat_serve_code code, const char *format, ...)
{
    char message[500];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    fail_with(c, code, leat_serve_code_status(c->serve->options.protocol, code), message, NULL);
}

void leat_serve_fail_status(struct leat_serve_call *c, const struct leat_error *err)
{
    switch (err->status) {
    case LEAT_NOT_FOUND:
        leat_serve_fail(c, LEAT_SERVE_NO_SUCH_KEY);
        break;
    case LEAT_DENIED:
        leat_serve_failf(c, LEAT_SERVE_ACCESS_DENIED, "%s", err->text);
        break;
    case LEAT_EXISTS:
        leat_serve_fail(c, LEAT_SERVE_ALREADY_EXISTS);
        break;
    case LEAT_CHANGED:
        leat_serve_fail(c, LEAT_SERVE_PRECONDITION_FAILED);
        break;
    case LEAT_LIMIT: /* no file descriptors left: later there will be */
    case LEAT_NO_MEMORY:
        leat_serve_fail(c, LEAT_SERVE_SLOW_DOWN);
        break;
    case LEAT_NO_SPACE:
        leat_serve_failf(c, LEAT_SERVE_NO_SPACE, "%s", err->text);
        break;
    case LEAT_INVALID:
        leat_serve_failf(c, LEAT_SERVE_INVALID_REQUEST, "%s", err->text);
        break;
    default:
        leat_serve_failf(c, LEAT_SERVE_INTERNAL_ERROR, "%s", err->text);
    }
}
