#include "agent/blend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct child {
    struct leat_blending *blending;
    struct leat_opening *opening; /* while it is being opened */
    struct leat_supply *supply;   /* held */
};

struct leat_blending {
    struct leat_task task; /* first member: the chunks are gathered by a maker */
    struct leat_agent *agent;
    struct leat_blend_spec spec;
    uint32_t left; /* that are not there yet, and the call that opens them */
    struct leat_error err;
    struct leat_sources_list lacks; /* of all streams */
    leat_blend_opened *opened;      /* NULL: abandoned */
    void *user;
    struct leat_blend *made; /* while a maker has it */
    struct child children[LEAT_BLEND_STREAMS_MAX];
};

/* Blends */

static void free_memory(struct leat_task *task)
{
    struct leat_blend *b = (struct leat_blend *)((char *)task - offsetof(struct leat_blend, task));
    free(b->identities);
    free(b->sizes);
    free(b);
}

static void blend_free(struct leat_blend *b)
{
    leat_sched_set_close(b->set);
    for (uint32_t i = 0; i < b->n; i++)
        leat_supply_release(b->supplies[i]);
    b->task.run = free_memory;
    leat_agent_make(b->agent, &b->task);
}

void leat_blend_hold(struct leat_blend *b)
{
    b->users++;
}

void leat_blend_release(struct leat_blend *b)
{
    if (!b || --b->users)
        return;
    struct leat_blend **p = &b->agent->blends;
    while (*p != b)
        p = &(*p)->next;
    *p = b->next;
    blend_free(b);
}

struct leat_supply *leat_blend_supply(const struct leat_blend *b, uint32_t number, uint32_t *own)
{
    uint32_t i = b->n - 1;
    while (i && b->first[i] > number)
        i--;
    *own = number - b->first[i];
    return b->supplies[i];
}

void leat_blend_id(const uint8_t *ids, uint32_t n, uint8_t out[LEAT_SHA256_SIZE])
{
    static const char tag[8] = "leat-mix";
    uint8_t whole[sizeof tag + LEAT_BLEND_STREAMS_MAX * LEAT_SHA256_SIZE];
    memcpy(whole, tag, sizeof tag);
    memcpy(whole + sizeof tag, ids, (size_t)n * LEAT_SHA256_SIZE);
    leat_sha256(whole, sizeof tag + (size_t)n * LEAT_SHA256_SIZE, out);
}

/* One of the same streams. */
static struct leat_blend *find(const struct leat_blending *w)
{
    for (struct leat_blend *b = w->agent->blends; b; b = b->next) {
        bool same = b->n == w->spec.n;
        for (uint32_t i = 0; same && i < b->n; i++)
            same = b->supplies[i] == w->children[i].supply;
        if (same)
            return b;
    }
    return NULL;
}

/* Identities and sizes of all chunks, one stream after the other. */
static leat_status gather(struct leat_blend *b, struct leat_error *err)
{
    uint64_t chunks = 0;
    uint32_t at = 0;
    for (uint32_t i = 0; i < b->n; i++)
        chunks += leat_dataset_root(b->supplies[i]->dataset)->chunks;
    if (chunks > LEAT_ORDER_CHUNKS_MAX)
        return leat_fail(err, LEAT_LIMIT, "the streams of a mixture have at most %u chunks together",
                         LEAT_ORDER_CHUNKS_MAX);
    b->identities = malloc((size_t)chunks * LEAT_SHA256_SIZE + 1);
    b->sizes = malloc((size_t)chunks * sizeof *b->sizes + 1);
    if (!b->identities || !b->sizes)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a mixture of %llu chunks", (unsigned long long)chunks);
    for (uint32_t i = 0; i < b->n; i++) {
        const struct leat_dataset *d = b->supplies[i]->dataset;
        const struct leat_root *root = leat_dataset_root(d);
        b->first[i] = at;
        memcpy(b->identities + (size_t)at * LEAT_SHA256_SIZE, leat_dataset_identities(d),
               (size_t)root->chunks * LEAT_SHA256_SIZE);
        memcpy(b->sizes + at, root->sizes, (size_t)root->chunks * sizeof *b->sizes);
        at += root->chunks;
    }
    b->chunks = (struct leat_sched_set_opts){.names = b->identities, .sizes = b->sizes, .chunks = at, .user = &b->from};
    leat_sched_measure(&b->chunks);
    return LEAT_OK;
}

/* "mixture of a, b": its chunks have come for all of its streams together. */
static void call(struct leat_blend *b)
{
    char name[sizeof b->who.dataset];
    size_t at = (size_t)snprintf(name, sizeof name, "mixture of");
    for (uint32_t i = 0; i < b->n && at < sizeof name; i++)
        at += (size_t)snprintf(name + at, sizeof name - at, "%s %s", i ? "," : "", b->supplies[i]->who.dataset);
    b->who = leat_roll_dataset(&b->agent->roll, name);
}

/* Opening */

static void blending_free(struct leat_blending *w)
{
    for (uint32_t i = 0; i < w->spec.n; i++) {
        if (w->children[i].supply)
            leat_supply_release(w->children[i].supply);
    }
    leat_blend_free(&w->spec);
    leat_sources_list_free(&w->lacks);
    free(w);
}

/* It is gone after this. */
static void finish(struct leat_blending *w, struct leat_blend *b)
{
    if (b)
        leat_blend_hold(b);
    if (w->opened)
        w->opened(w->user, b, &w->lacks, &w->err);
    leat_blend_release(b);
    blending_free(w);
}

/* On the loop: the chunks have been gathered. Another loader may have opened the same mixture meanwhile. */
static void take_made(struct leat_task *task)
{
    struct leat_blending *w = (struct leat_blending *)task;
    struct leat_blend *made = w->made;
    struct leat_blend *b = w->opened && w->err.status == LEAT_OK ? find(w) : NULL;
    w->made = NULL;
    if (!b && w->opened && w->err.status == LEAT_OK &&
        leat_sched_set_open(w->agent->sched, &made->chunks, &made->set, &w->err) == LEAT_OK) {
        b = made;
        call(b);
        b->next = w->agent->blends;
        w->agent->blends = b;
    } else {
        blend_free(made);
    }
    finish(w, b);
}

/* On a maker's thread. */
static void make(struct leat_task *task)
{
    struct leat_blending *w = (struct leat_blending *)task;
    gather(w->made, &w->err);
    w->task.run = take_made;
    leat_loop_post(w->agent->loop, &w->task);
}

/* The supplies are held until the chunks have been gathered, even when nobody waits for the mixture any more. */
static void begin_making(struct leat_blending *w)
{
    struct leat_blend *b = calloc(1, sizeof *b);
    if (!b) {
        leat_fail(&w->err, LEAT_NO_MEMORY, "no memory for a mixture");
        finish(w, NULL);
        return;
    }
    b->agent = w->agent;
    b->from.blend = b;
    for (; b->n < w->spec.n; b->n++) {
        b->supplies[b->n] = w->children[b->n].supply;
        leat_supply_hold(b->supplies[b->n]);
    }
    w->made = b;
    w->task.run = make;
    leat_pool_add(w->agent->makers, &w->task);
}

/* One fewer is waited for. It may be gone after this. */
static void leave(struct leat_blending *w)
{
    if (--w->left || w->made)
        return;
    struct leat_blend *b = w->opened && w->err.status == LEAT_OK ? find(w) : NULL;
    if (w->opened && w->err.status == LEAT_OK && !b)
        begin_making(w);
    else
        finish(w, b);
}

static void on_supply(void *user, struct leat_supply *supply, const struct leat_sources_list *lacks,
                      const struct leat_error *err)
{
    struct child *c = user;
    struct leat_blending *w = c->blending;
    uint32_t number;
    c->opening = NULL;
    for (uint32_t i = 0; i < lacks->n; i++)
        leat_sources_list_add(&w->lacks, lacks->urls[i], &number, NULL); /* one that is missing is told of next time */
    if (supply) {
        leat_supply_hold(supply);
        c->supply = supply;
    } else if (w->err.status == LEAT_OK) {
        w->err = *err;
        leat_fail_context(&w->err, err->status, "stream '%.60s' of the mixture", w->spec.streams[c - w->children].name);
    }
    leave(w);
}

leat_status leat_blend_open(struct leat_agent *agent, const struct leat_request *request, const uint8_t *ids,
                            leat_blend_opened *opened, void *user, struct leat_blending **out, struct leat_error *err)
{
    struct leat_blending *w = calloc(1, sizeof *w);
    if (!w)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a mixture");
    leat_status rc = leat_blend_read(request->opts.mix, &w->spec, err);
    if (rc != LEAT_OK) {
        free(w);
        return rc;
    }
    w->agent = agent;
    w->opened = opened;
    w->user = user;
    w->left = 1;
    for (uint32_t i = 0; i < w->spec.n && w->err.status == LEAT_OK; i++) {
        struct child *c = &w->children[i];
        struct leat_request one = *request;
        char id[2 * LEAT_SHA256_SIZE + 1];
        one.url = w->spec.streams[i].url;
        one.id = NULL;
        if (ids) {
            leat_hex(ids + (size_t)i * LEAT_SHA256_SIZE, LEAT_SHA256_SIZE, id);
            one.id = id;
        }
        c->blending = w;
        if (leat_supply_open(agent, &one, on_supply, c, &c->opening, &w->err) == LEAT_OK)
            w->left++;
    }
    if (w->left == 1) { /* not even the first: those that are on their way tell of the others' failure */
        rc = w->err.status;
        if (err)
            *err = w->err;
        blending_free(w);
        return rc;
    }
    *out = w;
    leave(w); /* not the last: answers come later */
    return LEAT_OK;
}

void leat_blend_abandon(struct leat_blending *w)
{
    w->opened = NULL;
    w->left++;
    for (uint32_t i = 0; i < w->spec.n; i++) {
        struct child *c = &w->children[i];
        if (!c->opening)
            continue;
        leat_supply_abandon(c->opening); /* it does not call back */
        c->opening = NULL;
        w->left--;
    }
    leave(w);
}
