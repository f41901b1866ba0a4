#include "store/stream.h"

#include <stdlib.h>
#include <string.h>

#include "store/backend.h"
#include "store/exchange.h"
#include "store/wait.h"

#define PART_DEFAULT  (8u << 20)
#define PARTS_DEFAULT 16u
#define ALONE_MAX     (256ull << 20) /* of an object that can only be read in one piece */

struct part {
    struct leat_store_op op;
    struct leat_error err;
    struct leat_wait wait; /* for this one: they come in any order and are taken in theirs */
    struct leat_store *store;
    char *data;
};

struct leat_stream {
    struct leat_store *store;
    char *key;
    struct leat_object object;
    struct leat_checksum_run *sum; /* of an object that is read whole and in several parts */
    uint64_t at;                   /* next byte to ask for */
    uint64_t end;
    uint64_t part_size;
    struct part *parts; /* a ring */
    uint32_t parts_n;
    uint32_t first; /* the oldest part asked for */
    uint32_t count; /* parts asked for and not yet given up */
    bool held;      /* the oldest part is in the caller's hands */
};

static void cancel(void *arg)
{
    struct part *p = arg;
    leat_store_cancel(p->store, &p->op);
}

static leat_status ask(struct leat_stream *s, struct leat_error *err)
{
    while (s->count < s->parts_n && s->at < s->end) {
        struct part *p = &s->parts[(s->first + s->count) % s->parts_n];
        uint64_t left = s->end - s->at;
        if (!p->data)
            p->data = malloc((size_t)(s->part_size < left ? s->part_size : left));
        if (!p->data)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory to read '%s'", s->key);
        p->op = (struct leat_store_op){
            .verb = LEAT_STORE_GET,
            .key = s->key,
            .offset = s->at,
            .length = left < s->part_size ? left : s->part_size,
            .into = p->data,
            .if_match = s->object.etag[0] ? s->object.etag : NULL,
            .known = &s->object,
            .verify = true,
            .err = &p->err,
        };
        s->at += p->op.length;
        s->count++;
        leat_wait_submit(&p->wait, s->store, &p->op);
    }
    return LEAT_OK;
}

leat_status leat_stream_open(struct leat_store *store, const char *key, const struct leat_object *object,
                             uint64_t offset, uint64_t length, uint64_t part_size, uint32_t parts,
                             struct leat_stream **out, struct leat_error *err)
{
    struct leat_stream *s = calloc(1, sizeof *s);
    if (!s)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to read '%s'", key);
    s->store = store;
    s->part_size = part_size ? part_size : PART_DEFAULT;
    s->parts_n = parts ? parts : PARTS_DEFAULT;
    s->at = offset < object->size ? offset : object->size;
    s->end = length < object->size - s->at ? s->at + length : object->size;
    s->object = *object;
    uint64_t whole = s->end - s->at;
    if (!leat_exchange_tells(object->etag) && whole > s->part_size) { /* parts could be of two versions */
        s->part_size = whole;
        s->parts_n = 1;
    }
    if (s->part_size > ALONE_MAX && whole > ALONE_MAX) {
        leat_stream_close(s);
        return leat_fail(
            err, LEAT_UNSUPPORTED,
            "cannot read '%s': the server does not say which version it is (no ETag, no Last-Modified), and "
            "it is too long to be read in one piece",
            key);
    }
    if (object->checksum.kind != LEAT_CHECKSUM_NONE && whole == object->size && whole > s->part_size) {
        s->sum = leat_checksum_open(&object->checksum, object->size);
        if (!s->sum) {
            leat_stream_close(s);
            return leat_fail(err, LEAT_NO_MEMORY, "no memory to read '%s'", key);
        }
    }
    s->key = strdup(key);
    s->parts = calloc(s->parts_n, sizeof *s->parts);
    for (uint32_t i = 0; s->parts && i < s->parts_n; i++) {
        leat_wait_init_for(&s->parts[i].wait, store);
        s->parts[i].store = store;
    }
    if (!s->key || !s->parts) {
        leat_stream_close(s);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to read '%s'", key);
    }
    *out = s;
    return LEAT_OK;
}

leat_status leat_stream_next(struct leat_stream *s, const void **data, size_t *n, struct leat_error *err)
{
    if (s->held) {
        s->first = (s->first + 1) % s->parts_n;
        s->count--;
        s->held = false;
    }
    leat_status rc = ask(s, err);
    if (rc != LEAT_OK)
        return rc;
    *n = 0;
    if (!s->count) {
        bool fits = leat_checksum_close(s->sum);
        s->sum = NULL;
        return fits ? LEAT_OK
                    : leat_fail(err, LEAT_CORRUPT,
                                "the bytes of '%s' do not have the checksum that the server states (%s)", s->key,
                                leat_checksum_name(s->object.checksum.kind));
    }
    struct part *p = &s->parts[s->first];
    leat_wait_for(&p->wait, 0, cancel, p);
    if (p->op.status != LEAT_OK) { /* and will be the next time */
        if (err)
            *err = p->err;
        return p->op.status;
    }
    s->held = true;
    *data = p->data;
    *n = (size_t)p->op.got;
    if (s->sum)
        leat_checksum_add(s->sum, *data, *n);
    return LEAT_OK;
}

void leat_stream_close(struct leat_stream *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->count; i++)
        leat_store_cancel(s->store, &s->parts[(s->first + i) % s->parts_n].op);
    for (uint32_t i = 0; i < s->count; i++)
        leat_wait_for(&s->parts[(s->first + i) % s->parts_n].wait, 0, cancel, &s->parts[(s->first + i) % s->parts_n]);
    for (uint32_t i = 0; s->parts && i < s->parts_n; i++) {
        leat_wait_end(&s->parts[i].wait);
        free(s->parts[i].data);
    }
    leat_checksum_close(s->sum);
    free(s->parts);
    free(s->key);
    free(s);
}
