#include "serve/body.h"

#include <string.h>
#include <strings.h>

#include "base/parse.h"
#include "serve/digest.h"

#define MEMORY_MAX ((size_t)4 << 20) /* of a request's XML */
#define OBJECT_MAX ((uint64_t)5 << 30)
#define STREAMING  "STREAMING-"

struct expectations {
    struct leat_serve_call *call;
    enum leat_serve_code why;
    bool ok;
};

/* The payload's hash as stated in header or query; NULL: not stated. */
static const char *payload_hash(const struct leat_serve_call *c)
{
    const char *hash = leat_request_header(c->x, "x-amz-content-sha256");
    return hash ? hash : leat_serve_arg(c, "X-Amz-Content-Sha256");
}

/* Checksums are of the body, except where they are of the object that the body completes. */
static bool is_own_body(const struct leat_serve_op *op)
{
    return op->body == LEAT_SERVE_BODY_FILE || op->level == LEAT_SERVE_BUCKET;
}

static void expect_header(const char *name, const char *value, void *user)
{
    struct expectations *e = user;
    struct leat_serve_digest *d = e->call->digest;
    static const char prefix[] = "x-amz-checksum-";
    if (!e->ok)
        return;
    if (strcasecmp(name, "Content-MD5") == 0) {
        e->why = LEAT_SERVE_INVALID_DIGEST;
        e->ok = leat_serve_digest_expect_md5(d, value);
    } else if (strcasecmp(name, "x-amz-trailer") == 0) {
        e->why = LEAT_SERVE_INVALID_REQUEST;
        e->ok = leat_serve_digest_announce(d, value);
    } else if (strncasecmp(name, prefix, strlen(prefix)) == 0 && is_own_body(e->call->op)) {
        const char *which = name + strlen(prefix);
        e->why = LEAT_SERVE_INVALID_REQUEST;
        if (strcasecmp(which, "algorithm") != 0 && strcasecmp(which, "type") != 0 && strcasecmp(which, "mode") != 0)
            e->ok = leat_serve_digest_expect_checksum(d, name, value);
    }
}

/* A hash of 64 digits is checked; other values say how the body is sent. */
static bool expect_payload(struct leat_serve_call *c)
{
    const char *hash = payload_hash(c);
    if (!hash || strcmp(hash, LEAT_SIGN_UNSIGNED) == 0 || strncmp(hash, STREAMING, strlen(STREAMING)) == 0)
        return true;
    if (leat_serve_digest_expect_sha256(c->digest, hash))
        return true;
    leat_serve_failf(c, LEAT_SERVE_INVALID_ARGUMENT, "x-amz-content-sha256 is neither a SHA-256 nor one of its words.");
    return false;
}

static void take_data(const void *data, size_t n, void *user)
{
    struct leat_serve_call *c = user;
    struct leat_error err;
    if (leat_request_replied(c->x))
        return;
    leat_serve_digest_add(c->digest, data, n);
    if (c->op->body == LEAT_SERVE_BODY_FILE) {
        if (c->writer.size + n > OBJECT_MAX)
            leat_serve_fail(c, LEAT_SERVE_ENTITY_TOO_LARGE);
        else if (leat_serve_writer_add(&c->writer, data, n, &err) != LEAT_OK)
            leat_serve_fail_status(c, &err);
    } else if (c->op->body == LEAT_SERVE_BODY_MEMORY && !leat_buf_add(&c->body, data, n)) {
        leat_serve_fail(c, LEAT_SERVE_ENTITY_TOO_LARGE);
    }
}

static void take_trailer(const char *name, const char *value, void *user)
{
    struct leat_serve_call *c = user;
    leat_serve_digest_trailer(c->digest, name, value);
}

static bool open_chunked(struct leat_serve_call *c, const struct leat_serve_chunk_key *key)
{
    static const struct {
        const char *name;
        bool signatures;
        bool trailers;
    } kinds[] = {
        {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD", true, false},
        {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", true, true},
        {"STREAMING-UNSIGNED-PAYLOAD-TRAILER", false, true},
    };
    const char *hash = payload_hash(c);
    if (!hash || strncmp(hash, STREAMING, strlen(STREAMING)) != 0)
        return true;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, hash) != 0)
            continue;
        struct leat_serve_chunked_options o = {
            .has_signatures = kinds[i].signatures,
            .has_trailers = kinds[i].trailers,
            .key = key,
            .data = take_data,
            .trailer = take_trailer,
            .user = c,
        };
        c->chunked = leat_serve_chunked_open(&o);
        if (!c->chunked)
            leat_serve_fail(c, LEAT_SERVE_INTERNAL_ERROR);
        return c->chunked != NULL;
    }
    leat_serve_failf(c, LEAT_SERVE_NOT_IMPLEMENTED, "Bodies sent as %.60s are not understood here.", hash);
    return false;
}

bool leat_serve_body_open(struct leat_serve_call *c, const struct leat_serve_chunk_key *key)
{
    struct leat_error err;
    struct expectations e = {.call = c, .ok = true};
    const char *hash = payload_hash(c);
    if (c->op->body == LEAT_SERVE_BODY_NONE && (!hash || strcmp(hash, LEAT_SIGN_UNSIGNED) == 0))
        return true; /* what comes all the same is read over */
    c->digest = leat_serve_digest_open();
    if (!c->digest) {
        leat_serve_fail(c, LEAT_SERVE_INTERNAL_ERROR);
        return false;
    }
    leat_buf_init(&c->body, MEMORY_MAX);
    leat_request_headers(c->x, expect_header, &e);
    if (!e.ok) {
        leat_serve_fail(c, e.why);
        return false;
    }
    if (!expect_payload(c) || !open_chunked(c, key))
        return false;
    if (c->op->body == LEAT_SERVE_BODY_FILE && leat_serve_writer_open(c->bucket, &c->writer, &err) != LEAT_OK) {
        leat_serve_fail_status(c, &err);
        return false;
    }
    return true;
}

void leat_serve_body_add(struct leat_serve_call *c, const void *data, size_t n)
{
    enum leat_serve_code why;
    if (!c->digest)
        return;
    if (!c->chunked)
        take_data(data, n, c);
    else if (!leat_serve_chunked_add(c->chunked, data, n, &why) && !leat_request_replied(c->x))
        leat_serve_fail(c, why);
}

/* Of an aws-chunked body: all of it was there, and as much as was said. */
static bool check_decoded(struct leat_serve_call *c)
{
    const char *length = leat_request_header(c->x, "x-amz-decoded-content-length");
    uint64_t n;
    if (!c->chunked)
        return true;
    if (!leat_serve_chunked_done(c->chunked)) {
        leat_serve_fail(c, LEAT_SERVE_INCOMPLETE_BODY);
        return false;
    }
    if (!length)
        return true;
    if (leat_parse_u64(length, "length", &n, NULL) == LEAT_OK && n == leat_serve_chunked_size(c->chunked))
        return true;
    leat_serve_fail(c, LEAT_SERVE_INCOMPLETE_BODY);
    return false;
}

bool leat_serve_body_finish(struct leat_serve_call *c)
{
    enum leat_serve_code why;
    if (!c->digest)
        return true;
    if (!check_decoded(c))
        return false;
    if (leat_serve_digest_finish(c->digest, c->md5, &why))
        return true;
    leat_serve_fail(c, why);
    return false;
}

void leat_serve_body_close(struct leat_serve_call *c)
{
    leat_serve_writer_close(&c->writer);
    leat_serve_digest_close(c->digest);
    leat_serve_chunked_close(c->chunked);
    leat_buf_free(&c->body);
}
