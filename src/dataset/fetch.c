/* Everything but the start happens on the store's thread, so nothing here needs a lock. A fetch has a few requests of
 * its own, which take one part after the other: a chunk of thousands of small objects must not need thousands of them.
 * They go before the requests of fetches that were started later. Else all of them would share the line, and be there
 * together in the end instead of one after the other.
 *
 * `busy` counts requests on their way and calls that are still looking at the fetch; the one that brings it to 0 ends
 * it. */
#include "dataset/fetch.h"

#include <inttypes.h>
#include <stdlib.h>

#include "store/wait.h"

#define REQUESTS_MAX 64u /* of one fetch on their way; a store has 256 in all */

struct request {
    struct leat_store_op op; /* first member */
    struct leat_fetch *fetch;
    const struct leat_piece *piece;
    bool busy;
};

struct leat_fetch {
    struct leat_store_task task;
    struct leat_fetch_opts opts; /* constant after the start, as requests_n */
    struct leat_error err;
    struct leat_error told; /* what the request that ends now was told, and of which object: */
    struct leat_object of;  /* they end one by one */
    uint32_t piece;         /* the part to send for next: of which piece … */
    uint64_t part;          /* … which of its parts … */
    uint64_t at;            /* … and where the piece belongs in memory */
    uint32_t busy;
    bool begun; /* its first requests are sent: what follows goes before those of younger fetches */
    bool over;  /* nothing more is sent for: failed or cancelled */
    bool done;
    uint32_t requests_n;
    struct request requests[];
};

/* How many requests a piece comes in. One each is a must; the rest is shared out by length. */
static uint64_t count_parts(const struct leat_fetch_opts *o, const struct leat_piece *piece)
{
    uint64_t most = piece->length / LEAT_RANGE_LEAST;
    uint64_t rest = o->ranges > o->pieces->n ? o->ranges - o->pieces->n : 0;
    if (most < 2 || rest == 0)
        return 1;
    uint64_t share = 1 + (uint64_t)((double)rest * ((double)piece->length / (double)o->pieces->bytes));
    return share < most ? share : most;
}

static uint32_t count_requests(const struct leat_fetch_opts *o)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < o->pieces->n && n < REQUESTS_MAX; i++)
        n += count_parts(o, &o->pieces->list[i]);
    return n < REQUESTS_MAX ? (uint32_t)n : REQUESTS_MAX;
}

static void arrived(struct leat_store_op *op);

/* Sends for the next part, if there is one. */
static void send_next(struct leat_fetch *f, struct request *r)
{
    if (f->over || f->piece == f->opts.pieces->n)
        return;
    const struct leat_piece *piece = &f->opts.pieces->list[f->piece];
    uint64_t parts = count_parts(&f->opts, piece);
    uint64_t usual = piece->length / parts;
    uint64_t from = f->part * usual;
    bool last = f->part + 1 == parts;
    r->piece = piece;
    r->op = (struct leat_store_op){
        .verb = LEAT_STORE_GET,
        .key = piece->key,
        .offset = piece->offset + from,
        .length = last ? piece->length - from : usual,
        .into = (char *)f->opts.into + f->at + from,
        .if_match = piece->pin,
        .urgent = f->opts.urgent,
        .begun = f->begun,
        .err = &f->told,
        .object = &f->of,
        .done = arrived,
    };
    f->part++;
    if (last) {
        f->at += piece->length;
        f->piece++;
        f->part = 0;
    }
    r->busy = true;
    f->busy++;
    leat_store_submit(f->opts.store, &r->op);
}

/* One fewer looks at the fetch. It may be gone after this. */
static void leave(struct leat_fetch *f)
{
    if (--f->busy)
        return;
    f->done = true;
    f->opts.done(f->opts.user, f->over ? &f->err : NULL);
}

/* The first failure counts, and whatever else is on its way is for nothing. Hold a `busy`: cancelling may give back
 * requests at once. */
static void end_with(struct leat_fetch *f, const struct leat_error *err)
{
    if (f->over)
        return;
    f->over = true;
    f->err = *err;
    for (uint32_t i = 0; i < f->requests_n; i++)
        if (f->requests[i].busy)
            leat_store_cancel(f->opts.store, &f->requests[i].op);
}

/* What the answer says about the object's length, against what the snapshot says. */
static leat_status judge(const struct request *r, struct leat_error *err)
{
    const struct leat_store_op *op = &r->op;
    const struct leat_piece *p = r->piece;
    leat_status other = r->fetch->opts.foreign ? LEAT_CHANGED : LEAT_CORRUPT;
    if (op->status == LEAT_INVALID && op->too_short)
        return leat_fail(err, other, "'%s' is shorter than the snapshot says: it ends before byte %" PRIu64, p->key,
                         p->offset + p->length);
    if (op->status != LEAT_OK) {
        *err = r->fetch->told;
        return op->status;
    }
    uint64_t size = r->fetch->of.size;
    if (p->object_bytes && size != UINT64_MAX && size != p->object_bytes)
        return leat_fail(err, other, "'%s' is %s than the snapshot says: it has %" PRIu64 " bytes instead of %" PRIu64,
                         p->key, size < p->object_bytes ? "shorter" : "longer", size, p->object_bytes);
    return LEAT_OK;
}

static void arrived(struct leat_store_op *op)
{
    struct request *r = (struct request *)op;
    struct leat_fetch *f = r->fetch;
    struct leat_error err;
    r->busy = false;
    if (judge(r, &err) == LEAT_OK)
        send_next(f, r);
    else
        end_with(f, &err);
    leave(f);
}

static void begin(struct leat_store_task *task)
{
    struct leat_fetch *f = (struct leat_fetch *)task; /* its first member */
    for (uint32_t i = 0; i < f->requests_n; i++)
        send_next(f, &f->requests[i]);
    f->begun = true;
    leave(f);
}

leat_status leat_fetch_start(const struct leat_fetch_opts *opts, struct leat_fetch **out, struct leat_error *err)
{
    uint32_t n = count_requests(opts);
    struct leat_fetch *f = calloc(1, sizeof *f + n * sizeof *f->requests);
    if (!f)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for %" PRIu32 " requests", n);
    f->opts = *opts;
    f->requests_n = n;
    for (uint32_t i = 0; i < n; i++)
        f->requests[i].fetch = f;
    f->busy = 1; /* begin() */
    f->task.run = begin;
    *out = f; /* before the start: done may look for it there */
    leat_store_post(opts->store, &f->task);
    return LEAT_OK;
}

static void cancel(void *arg)
{
    struct leat_fetch *f = arg;
    struct leat_error err;
    if (f->done)
        return;
    leat_fail(&err, LEAT_CANCELLED, "cancelled");
    f->busy++;
    end_with(f, &err);
    leave(f);
}

void leat_fetch_cancel(struct leat_fetch *f)
{
    leat_store_call(f->opts.store, cancel, f);
}

void leat_fetch_free(struct leat_fetch *f)
{
    free(f);
}

/* Waiting */

struct waiting {
    struct leat_wait wait;
    struct leat_fetch *fetch;
    struct leat_error err; /* the store's thread's until it came */
};

static void came(void *user, const struct leat_error *err)
{
    struct waiting *w = user;
    if (err)
        w->err = *err;
    leat_wait_came(&w->wait);
}

static void cancel_waited(void *arg)
{
    leat_fetch_cancel(((struct waiting *)arg)->fetch);
}

leat_status leat_fetch_run(const struct leat_fetch_opts *opts, struct leat_error *err)
{
    struct waiting w = {.fetch = NULL};
    struct leat_fetch_opts mine = *opts;
    mine.done = came;
    mine.user = &w;
    leat_wait_init_for(&w.wait, opts->store);
    leat_wait_sent(&w.wait);
    leat_status rc = leat_fetch_start(&mine, &w.fetch, err);
    if (rc == LEAT_OK) {
        leat_wait_for(&w.wait, 0, cancel_waited, &w);
        leat_fetch_free(w.fetch);
        rc = w.err.status;
        if (rc != LEAT_OK && err)
            *err = w.err;
    }
    leat_wait_end(&w.wait);
    return rc;
}
