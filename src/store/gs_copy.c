/* Copies that Google makes by itself: the JSON interface's rewriteTo, called again with its token until all is done,
 * which is at once within a place and takes a call for each gigabyte or so between two. A pair for signing is not taken
 * there; with one, S3's way of copying is asked for, under Google's names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/parse.h"
#include "store/gs.h"

#define PAUSE (LEAT_S / 2)

void leat_gs_ask_copy(const struct leat_store_op *op, struct bucket_request *r)
{
    const struct leat_store_source *s = op->source;
    leat_buf_printf(&r->body, "%s/", s->bucket);
    leat_sign_encode(&r->body, s->key, strlen(s->key), true);
    leat_bucket_add_header(r, "x-goog-copy-source", r->body.data ? r->body.data : "");
    leat_gs_generation(s->object->etag, r->pin);
    leat_bucket_add_header(r, "x-goog-copy-source-if-generation-match", r->pin);
}

static void add_object(struct leat_buf *out, const char *bucket, const char *key)
{
    leat_buf_str(out, "/b/");
    leat_sign_encode(out, bucket, strlen(bucket), false);
    leat_buf_str(out, "/o/");
    leat_sign_encode(out, key, strlen(key), false);
}

leat_status leat_gs_copy_make(const struct bucket *b, struct leat_store_op *op, struct bucket_request *r,
                              struct leat_error *err)
{
    struct leat_http_call *call = &op->own->call;
    op->own->bucket = op->own->odd_etags = op->own->generations = true;
    op->own->keys = b->keys_number;
    r->method = "POST";
    call->body = ""; /* what goes with the object is copied, too */
    leat_gs_generation(op->source->object->etag, r->pin);
    leat_bucket_add_query(r, "ifSourceGenerationMatch", r->pin);
    if (op->own->token)
        leat_bucket_add_query(r, "rewriteToken", op->own->token);
    leat_buf_printf(&r->url, "%s://%s%s/storage/v1", b->scheme, b->endpoint, b->base);
    add_object(&r->url, op->source->bucket, op->source->key);
    leat_buf_str(&r->url, "/rewriteTo");
    add_object(&r->url, b->bucket, op->key);
    leat_buf_char(&r->url, '?');
    leat_sign_query(&r->url, r->query, r->query_n);
    leat_bucket_add_bearer(r, b->aws.session_token);
    return leat_bucket_request_end(op, r, err);
}

static enum bucket_step over(struct leat_store_op *op, leat_status status, const char *why)
{
    op->status = status == LEAT_OK ? LEAT_OK : leat_fail(&op->own->err, status, "%s", why);
    return BUCKET_STEP_OVER;
}

/* The copy is there. */
static enum bucket_step take_copy(struct leat_store_op *op, const json_t *resource)
{
    const struct leat_checksum *stated = &op->source->object->checksum;
    const char *generation = json_string_value(json_object_get(resource, "generation"));
    const char *crc32c = json_string_value(json_object_get(resource, "crc32c"));
    struct leat_http_head head = {.checksum_kind = "crc32c"};
    struct leat_checksum made;
    if (!generation || strlen(generation) > 20)
        return over(op, LEAT_SERVER, "the answer does not say what was copied");
    leat_exchange_generation_tag(generation, op->own->object.etag);
    snprintf(head.checksum, sizeof head.checksum, "%s", crc32c ? crc32c : "");
    if (stated->kind == LEAT_CHECKSUM_CRC32C && leat_checksum_of(&head, false, &made) &&
        memcmp(made.value, stated->value, sizeof made.value) != 0)
        return over(op, LEAT_CORRUPT, "the server's copy is not of the same bytes (crc32c)");
    return over(op, LEAT_OK, "");
}

/* Some of it is; more than before gives as much time again. Where it is no more, the server is asked now and then until
 * the time is over. */
static enum bucket_step go_on(const struct bucket *b, struct leat_store_op *op, const json_t *answer)
{
    const char *token = json_string_value(json_object_get(answer, "rewriteToken"));
    const char *bytes = json_string_value(json_object_get(answer, "totalBytesRewritten"));
    uint64_t copied = 0;
    char *copy = token ? strdup(token) : NULL;
    if (!copy)
        return over(op, token ? LEAT_NO_MEMORY : LEAT_SERVER, "the answer does not say how to go on");
    free(op->own->token);
    op->own->token = copy;
    op->own->tries = 1;
    if (!bytes || leat_parse_u64(bytes, "bytes", &copied, NULL) != LEAT_OK || copied <= op->own->most_got) {
        op->own->retry_after_ns = PAUSE;
        return over(op, LEAT_SERVER, "the server is still copying");
    }
    op->own->most_got = copied;
    op->own->deadline_ns = leat_after(op->timeout_ns ? op->timeout_ns : leat_store_settings(b->store)->timeout_ns);
    return BUCKET_STEP_AGAIN;
}

enum bucket_step leat_gs_copy_step(struct bucket *b, struct leat_store_op *op)
{
    const struct leat_buf *text = &op->own->call.text;
    unsigned code = op->own->call.head.code;
    json_t *json = NULL;
    if (op->verb != LEAT_STORE_COPY || !leat_gs_bearer(&b->aws))
        return BUCKET_STEP_NONE;
    if (op->own->token && (code == 400 || code == 404 || code == 410)) {
        /* A token that is over, or whose call did its work and lost its answer: from the beginning. What was copied
         * before counts on, so that this goes on no longer than the time that is left. */
        free(op->own->token);
        op->own->token = NULL;
        op->own->retry_after_ns = PAUSE;
        return over(op, LEAT_SERVER, "the server does not know the copy any longer");
    }
    if (code != 200 && code != 404 && code != 405)
        return BUCKET_STEP_NONE;
    leat_status rc = leat_json_read(text->data ? text->data : "", text->len, 0, &json, NULL);
    enum bucket_step step = BUCKET_STEP_NONE;
    if (rc == LEAT_NO_MEMORY)
        step = over(op, rc, "no memory for an answer");
    else if (rc != LEAT_OK || !(code == 200 ? json_object_get(json, "done") : json_object_get(json, "error")))
        step = over(op, LEAT_UNSUPPORTED, "the server does not speak Google's JSON interface");
    else if (code == 200 && json_is_true(json_object_get(json, "done")))
        step = take_copy(op, json_object_get(json, "resource"));
    else if (code == 200)
        step = go_on(b, op, json);
    json_decref(json);
    return step;
}
