#include "serve/body.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "serve/dialect.h"
#include "serve/digest.h"
#include "store/sign.h"

#define MEMORY_MAX ((size_t)4 << 20) /* of a request's XML */
#define OBJECT_MAX ((uint64_t)5 << 30)
#define STREAMING  "STREAMING-"

struct expectations {
    struct leat_serve_call *call;
    enum leat_serve_code why;
    bool ok;
};

/* The payload's hash as stated; NULL: it is not. */
static const char *payload_hash(const struct leat_serve_call *c)
{
    char name[40];
    snprintf(name, sizeof name, "%scontent-sha256", c->serve->dialect->prefix);
    return leat_request_header(c->x, name);
}

/* Checksums are of the body, except where they are of the object that the body completes. */
static bool is_own_body(const struct leat_serve_op *op)
{
    return op->body == LEAT_SERVE_BODY_FILE || op->level == LEAT_SERVE_BUCKET;
}

/* "crc32c=…,md5=…", one or both. */
static bool expect_google(struct leat_serve_digest *d, const char *value)
{
    char text[100];
    char *rest = text;
    snprintf(text, sizeof text, "%s", value);
    for (char *one; (one = strsep(&rest, ","));) {
        one += strspn(one, " ");
        if (strncmp(one, "crc32c=", 7) == 0 && !leat_serve_digest_expect_checksum(d, "x-amz-checksum-crc32c", one + 7))
            return false;
        if (strncmp(one, "md5=", 4) == 0 && !leat_serve_digest_expect_md5(d, one + 4))
            return false;
    }
    return true;
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
    } else if (strcasecmp(name, "x-goog-hash") == 0) {
        e->why = LEAT_SERVE_INVALID_DIGEST;
        e->ok = expect_google(d, value);
    } else if (strncasecmp(name, prefix, strlen(prefix)) == 0 && is_own_body(e->call->op)) {
        const char *which = name + strlen(prefix);
        e->why = LEAT_SERVE_INVALID_REQUEST;
        if (strcasecmp(which, "algorithm") != 0 && strcasecmp(which, "type") != 0 && strcasecmp(which, "mode") != 0)
            e->ok = leat_serve_digest_expect_checksum(d, name, value);
    }
}

/* A hash of 64 digits is checked; the other words say how the body is sent, of which one is understood. */
static bool expect_payload(struct leat_serve_call *c)
{
    const char *hash = payload_hash(c);
    if (!hash || strcmp(hash, LEAT_SIGN_UNSIGNED) == 0)
        return true;
    if (strncmp(hash, STREAMING, strlen(STREAMING)) == 0) {
        leat_serve_failf(c, LEAT_SERVE_NOT_IMPLEMENTED, "Bodies sent as %.60s are not understood here.", hash);
        return false;
    }
    if (leat_serve_digest_expect_sha256(c->digest, hash))
        return true;
    leat_serve_failf(c, LEAT_SERVE_INVALID_ARGUMENT, "The payload's hash is neither a SHA-256 nor one of its words.");
    return false;
}

bool leat_serve_body_open(struct leat_serve_call *c)
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
    if (!expect_payload(c))
        return false;
    if (c->op->body == LEAT_SERVE_BODY_FILE && leat_serve_writer_open(c->bucket, &c->writer, &err) != LEAT_OK) {
        leat_serve_fail_status(c, &err);
        return false;
    }
    return true;
}

void leat_serve_body_add(struct leat_serve_call *c, const void *data, size_t n)
{
    struct leat_error err;
    if (!c->digest || leat_request_replied(c->x))
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

bool leat_serve_body_finish(struct leat_serve_call *c)
{
    enum leat_serve_code why;
    if (!c->digest || leat_serve_digest_finish(c->digest, c->md5, &why))
        return true;
    leat_serve_fail(c, why);
    return false;
}

void leat_serve_body_close(struct leat_serve_call *c)
{
    leat_serve_writer_close(&c->writer);
    leat_serve_digest_close(c->digest);
    leat_buf_free(&c->body);
}
