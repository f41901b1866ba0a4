#include "store/upload.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "store/wait.h"

#define PART_DEFAULT (16ull << 20)
#define SLOTS        4u

/* A part on its way. */
struct slot {
    struct leat_store_op op;
    struct leat_error err;
    struct leat_object object;
    struct leat_wait wait; /* for this one */
    struct leat_upload *upload;
    struct leat_store_sums sums; /* of data */
    char *data;
    size_t n;
};

struct leat_upload {
    struct leat_store *store;
    char *key;
    uint64_t size;
    uint64_t part_size;
    uint64_t added;
    char id[LEAT_UPLOAD_ID_MAX]; /* "": in one piece */
    struct leat_store_part *parts;
    uint32_t parts_n;   /* sent */
    uint32_t parts_max; /* in the end */
    struct slot *slots;
    uint32_t slots_n;
    uint32_t at; /* slot being filled */
    bool finished;
};

static leat_status begin(struct leat_upload *u, struct leat_error *err)
{
    struct leat_store_op op = {.verb = LEAT_STORE_UPLOAD_OPEN, .key = u->key, .upload_id = u->id};
    leat_status rc = leat_store_run(u->store, &op, err);
    if (rc != LEAT_OK)
        u->id[0] = '\0';
    return rc;
}

leat_status leat_upload_open(struct leat_store *store, const char *key, uint64_t size, uint64_t part_size,
                             struct leat_upload **out, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    struct leat_upload *u = calloc(1, sizeof *u);
    if (!u)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to write '%s'", key);
    u->store = store;
    u->size = size;
    u->part_size = part_size ? part_size : PART_DEFAULT;
    if (size / u->part_size >= LEAT_PARTS_MAX)
        u->part_size = size / (LEAT_PARTS_MAX - 1) + 1;
    u->parts_max = (uint32_t)(size / u->part_size + (size % u->part_size != 0));
    u->slots_n = u->parts_max < SLOTS ? u->parts_max : SLOTS;
    u->slots_n = u->slots_n ? u->slots_n : 1;
    u->key = strdup(key);
    u->parts = calloc((size_t)u->parts_max + 1, sizeof *u->parts);
    u->slots = calloc(u->slots_n, sizeof *u->slots);
    if (!u->key || !u->parts || !u->slots)
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory to write '%s'", key);
    for (uint32_t i = 0; u->slots && i < u->slots_n; i++)
        leat_wait_init_for(&u->slots[i].wait, store);
    for (uint32_t i = 0; rc == LEAT_OK && i < u->slots_n; i++) {
        u->slots[i].upload = u;
        u->slots[i].data = malloc((size_t)(size < u->part_size ? size : u->part_size) + 1);
        if (!u->slots[i].data)
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory to write '%s'", key);
    }
    if (rc == LEAT_OK && u->parts_max > 1)
        rc = begin(u, err);
    if (rc != LEAT_OK) {
        leat_upload_close(u);
        return rc;
    }
    *out = u;
    return LEAT_OK;
}

static void cancel(void *arg)
{
    struct slot *s = arg;
    leat_store_cancel(s->upload->store, &s->op);
}

/* Waits until the slot's part has arrived, and says what came of it. */
static leat_status await(struct leat_upload *u, struct slot *s, struct leat_error *err)
{
    leat_wait_for(&s->wait, 0, cancel, s);
    s->n = 0;
    if (s->op.part == 0 || !u->parts) /* never sent */
        return LEAT_OK;
    if (s->op.status == LEAT_OK) {
        struct leat_store_part *part = &u->parts[s->op.part - 1];
        memcpy(part->etag, s->object.etag, sizeof part->etag);
        part->size = s->op.data_n;
    } else if (err) {
        *err = s->err;
    }
    return s->op.status;
}

static void send_part(struct leat_upload *u, struct slot *s)
{
    uint32_t number = u->parts_n++;
    s->sums = (struct leat_store_sums){.crc_known = true, .crc32c = leat_crc32c(0, s->data, s->n)};
    u->parts[number].crc32c = s->sums.crc32c;
    u->parts[number].summed = true;
    s->op = (struct leat_store_op){
        .verb = LEAT_STORE_UPLOAD_PART,
        .key = u->key,
        .upload = u->id,
        .part = number + 1,
        .offset = number * u->part_size,
        .data = s->data,
        .data_n = s->n,
        .sums = &s->sums,
        .err = &s->err,
        .object = &s->object,
    };
    leat_wait_submit(&s->wait, u->store, &s->op);
}

leat_status leat_upload_add(struct leat_upload *u, const void *data, size_t n, struct leat_error *err)
{
    const char *from = data;
    if (n > u->size - u->added)
        return leat_fail(err, LEAT_INTERNAL, "'%s' was to have %" PRIu64 " bytes", u->key, u->size);
    while (n) {
        struct slot *s = &u->slots[u->at];
        size_t room = (size_t)u->part_size - s->n;
        size_t step = n < room ? n : room;
        memcpy(s->data + s->n, from, step);
        s->n += step;
        u->added += step;
        from += step;
        n -= step;
        if (u->parts_max > 1 && (s->n == u->part_size || u->added == u->size)) {
            send_part(u, s);
            u->at = (u->at + 1) % u->slots_n;
            leat_status rc = await(u, &u->slots[u->at], err);
            if (rc != LEAT_OK)
                return rc;
        }
    }
    return LEAT_OK;
}

leat_status leat_upload_finish(struct leat_upload *u, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    if (u->added != u->size)
        return leat_fail(err, LEAT_INTERNAL, "'%s' was to have %" PRIu64 " bytes", u->key, u->size);
    if (u->parts_max <= 1) {
        rc = leat_store_put(u->store, u->key, u->slots[0].data, (size_t)u->size, NULL, err);
        u->finished = rc == LEAT_OK;
        return rc;
    }
    for (uint32_t i = 0; rc == LEAT_OK && i < u->slots_n; i++)
        rc = await(u, &u->slots[i], err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_store_op op = {
        .verb = LEAT_STORE_UPLOAD_FINISH, .key = u->key, .upload = u->id, .parts = u->parts, .parts_n = u->parts_n};
    rc = leat_store_run(u->store, &op, err);
    u->finished = rc == LEAT_OK;
    return rc;
}

void leat_upload_close(struct leat_upload *u)
{
    if (!u)
        return;
    for (uint32_t i = 0; u->slots && i < u->slots_n; i++) {
        if (u->slots[i].op.part)
            leat_store_cancel(u->store, &u->slots[i].op);
        await(u, &u->slots[i], NULL);
    }
    if (u->id[0] && !u->finished) {
        struct leat_store_op op = {
            .verb = LEAT_STORE_UPLOAD_ABORT, .key = u->key, .upload = u->id, .ignore_stop = true};
        leat_store_run(u->store, &op, NULL);
    }
    for (uint32_t i = 0; u->slots && i < u->slots_n; i++) {
        leat_wait_end(&u->slots[i].wait);
        free(u->slots[i].data);
    }
    free(u->slots);
    free(u->parts);
    free(u->key);
    free(u);
}
