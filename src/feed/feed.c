#include "feed/feed.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cache/memory.h"
#include "dataset/fetch.h"

#define PEER_PATIENCE (30 * LEAT_S) /* with a machine that says that the chunk is on its way to it */
#define ARRIVALS_MAX  2u            /* a chunk that is bad twice is bad in the bucket */

/* What the feed has of a chunk that is in memory, on its way there, or could not be fetched: ten kilobytes, mostly the
 * schema and the error, so a chunk that is only on disk has none. While it is on its way the store, the disk or a
 * worker may write to it; else it is the feed's thread's. */
struct stock {
    struct leat_task task; /* first member */
    struct leat_sched_chunk *of;
    struct leat_feed *feed;
    struct leat_source *source; /* while it comes */
    struct stock *prev, *next;  /* of those that come from the source */
    uint32_t number;
    bool from_disk;
    uint32_t ranges;
    bool urgent;
    unsigned arrivals;        /* of its data … */
    unsigned recipes;         /* … and of its recipe */
    void *recipe;             /* while it is on its way or being read */
    void *kept;               /* the recipe of a chunk that is in memory; NULL: none, or nobody would ask for it */
    bool made;                /* its pieces are what a recipe says: somebody else's objects */
    struct leat_store *store; /* that the pieces are in */
    uint32_t kept_n;
    struct leat_pieces pieces;
    struct leat_fetch *fetch;
    struct leat_cache_memory memory;
    struct leat_chunk chunk; /* when it is ready */
    struct leat_error err;
    struct moving *moving;      /* from disk */
    uint64_t sent_ns;           /* when it was sent for first */
    struct leat_feed_peer peer; /* being asked; store NULL: none */
    bool by_peer;
    bool hurried; /* the machine is late, and was let go where that is allowed */
    bool let_go;
    bool recipe_there; /* the machine's chunk is here, and its recipe is asked of the machine, not of the bucket */
    uint64_t doubt;    /* checksum of what a machine sent that may be wrong; 0: none */
    void *doubted;     /* that machine, until the bucket has told */
};

/* A chunk on its way from or to disk. */
struct moving {
    struct leat_disk_op op; /* first member */
    struct leat_task task;
    struct stock *stock;
};

struct leat_source {
    struct leat_feed *feed;
    const struct leat_dataset *dataset;
    struct stock *coming;
    struct leat_source_stats stats;
    uint64_t recipes_most; /* bytes of them that may be kept in all; 0: nobody would ask for one */
    bool closing;
    void (*closed)(void *user);
    void *closed_user;
};

struct leat_feed {
    struct leat_feed_opts opts;
    struct leat_cache_memory spare;
    uint64_t kept_bytes; /* of recipes */
};

static struct stock *stock_of(const struct leat_sched_chunk *c)
{
    return c->user;
}

const struct leat_chunk *leat_feed_chunk(const struct leat_sched_chunk *c)
{
    return &stock_of(c)->chunk;
}

const struct leat_error *leat_feed_error(const struct leat_sched_chunk *c)
{
    return &stock_of(c)->err;
}

bool leat_feed_by_peer(const struct leat_sched_chunk *c)
{
    return stock_of(c)->by_peer;
}

const void *leat_feed_bytes(const struct leat_sched_chunk *c)
{
    return stock_of(c)->memory.data;
}

const void *leat_feed_recipe(const struct leat_sched_chunk *c, size_t *n)
{
    const struct stock *k = stock_of(c);
    *n = k ? k->kept_n : 0;
    return k ? k->kept : NULL;
}

/* Sources */

void leat_source_keep_recipes(struct leat_source *s, uint64_t most)
{
    s->recipes_most = most;
}

leat_status leat_source_open(struct leat_feed *feed, const struct leat_dataset *dataset, struct leat_source **out,
                             struct leat_error *err)
{
    struct leat_source *s = calloc(1, sizeof *s);
    if (!s)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a source of chunks");
    s->feed = feed;
    s->dataset = dataset;
    *out = s;
    return LEAT_OK;
}

static void source_free(struct leat_source *s)
{
    void (*closed)(void *user) = s->closed;
    void *user = s->closed_user;
    free(s);
    if (closed)
        closed(user);
}

void leat_source_close(struct leat_source *s, void (*closed)(void *user), void *user)
{
    if (!s) {
        if (closed)
            closed(user);
        return;
    }
    s->closing = true;
    s->closed = closed;
    s->closed_user = user;
    for (struct stock *k = s->coming; k; k = k->next) {
        if (k->fetch)
            leat_fetch_cancel(k->fetch);
    }
    if (!s->stats.coming)
        source_free(s);
}

void leat_source_stats(const struct leat_source *s, struct leat_source_stats *out)
{
    *out = s->stats;
}

static void begin_coming(struct stock *k, struct leat_source *s)
{
    k->source = s;
    k->prev = NULL;
    k->next = s->coming;
    if (k->next)
        k->next->prev = k;
    s->coming = k;
    s->stats.coming++;
}

/* Leaves its source, and ends it if it was the last that a closing one waited for. */
static void end_coming(struct stock *k)
{
    struct leat_source *s = k->source;
    *(k->prev ? &k->prev->next : &s->coming) = k->next;
    if (k->next)
        k->next->prev = k->prev;
    k->source = NULL;
    s->stats.coming--;
    if (s->closing && !s->stats.coming)
        source_free(s);
}

/* Fetching */

static void free_kept(struct stock *k)
{
    k->feed->kept_bytes -= k->kept ? k->kept_n : 0;
    free(k->kept);
    k->kept = NULL;
}

/* They are beside the scheduler's budget, which knows nothing of them. */
static void keep_or_free(struct stock *k)
{
    uint32_t n = leat_dataset_recipe_bytes(k->source->dataset, k->number);
    if (k->feed->kept_bytes + n <= k->source->recipes_most) {
        k->kept = k->recipe;
        k->kept_n = n;
        k->feed->kept_bytes += n;
    } else {
        free(k->recipe);
    }
    k->recipe = NULL;
}

static void give_back(const struct leat_feed *f, struct leat_cache_memory *memory)
{
    struct leat_task *task = leat_cache_memory_give(memory);
    if (task && f->opts.release)
        f->opts.release(f->opts.user, task);
    else if (task)
        task->run(task);
}

static void free_memory(struct stock *k)
{
    give_back(k->feed, &k->memory);
    free_kept(k);
}

static void free_stock(struct stock *k)
{
    k->of->user = NULL;
    free_memory(k);
    free(k);
}

static void free_fetch(struct stock *k)
{
    leat_fetch_free(k->fetch);
    k->fetch = NULL;
    free(k->recipe);
    k->recipe = NULL;
    leat_pieces_free(&k->pieces);
    free(k->moving);
    k->moving = NULL;
}

static bool send(struct stock *k);

/* NULL: no memory. */
static struct moving *begin_move(struct stock *k, enum leat_disk_kind kind, void (*done)(struct leat_disk_op *op))
{
    struct moving *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->stock = k;
    m->op = (struct leat_disk_op){.kind = kind, .data = k->memory.data, .bytes = k->of->bytes, .done = done};
    memcpy(m->op.name, k->of->name, sizeof m->op.name);
    return m;
}

/* What came of asking a machine. */
static void tell_peered(const struct stock *k, void *who, const struct leat_error *err, uint64_t took)
{
    const struct leat_feed_opts *o = &k->feed->opts;
    struct leat_source_stats *stats = &k->source->stats;
    leat_status rc = err ? err->status : LEAT_OK;
    stats->peer_without += rc == LEAT_NOT_FOUND;
    stats->peer_failed += err && rc != LEAT_NOT_FOUND && rc != LEAT_CANCELLED && rc != LEAT_NO_MEMORY;
    o->peered(o->user, who, err, err ? 0 : k->of->bytes, took);
}

/* A machine has answered, and its chunk was checked. True: it was sent for once more, there or in the bucket. */
static bool settle_peer(struct stock *k, struct leat_error *err)
{
    uint64_t took = leat_now_ns() - k->sent_ns;
    void *who = k->peer.who;
    bool closing = k->source->closing;
    k->arrivals = 0; /* what a machine sends says nothing about the bucket */
    if (err->status == LEAT_BUSY && !closing && !k->let_go && took < PEER_PATIENCE && send(k))
        return true; /* it is waiting for the bucket itself */
    if (err->status == LEAT_OK)
        k->by_peer = true;
    k->peer.store = NULL;
    if (k->doubt && !closing && send(k)) {
        k->doubted = who;
        return true;
    }
    if (err->status == LEAT_BUSY)
        err->status = LEAT_NOT_FOUND;
    tell_peered(k, who, err->status == LEAT_OK ? NULL : err, took);
    if (err->status == LEAT_OK || closing)
        return false;
    if (send(k))
        return true;
    leat_fail(&k->err, LEAT_NO_MEMORY, "no memory for chunk %u", k->number);
    *err = k->err;
    return false;
}

/* A machine has sent other bytes than ETags seem to say. Now the bucket has, and they are the same ones, or not. */
static void settle_doubt(struct stock *k, const struct leat_error *err)
{
    const struct leat_dataset *d = k->source->dataset;
    struct leat_error why = {.status = LEAT_NOT_FOUND};
    if (err->status == LEAT_OK && leat_dataset_learned(d, k->number) == k->doubt)
        leat_dataset_pins_prove_nothing(d);
    else if (err->status == LEAT_OK)
        leat_fail(&why, LEAT_CORRUPT, "chunk %u is not made of the bytes that the bucket has", k->number);
    tell_peered(k, k->doubted, &why, 0);
    k->doubted = NULL;
}

/* On the feed's thread: a chunk has been fetched and checked, or not. */
static void settle(struct leat_task *task)
{
    struct stock *k = (struct stock *)task;
    struct leat_sched_chunk *c = k->of;
    struct leat_source *s = k->source;
    const struct leat_feed_opts *o = &k->feed->opts;
    struct leat_error err = k->err;
    bool closing = s->closing;
    unsigned arrivals = k->recipe ? k->recipes : k->arrivals;
    free_fetch(k);
    if (k->peer.store && settle_peer(k, &err))
        return;
    if (err.status == LEAT_CORRUPT && !k->from_disk) {
        s->stats.corrupt++;
        if (arrivals < ARRIVALS_MAX && !closing) {
            leat_log(LEAT_LOG_WARN, "%s; fetching it again", err.text);
            if (send(k))
                return;
            k->err = err;
        }
    }
    if (k->doubted)
        settle_doubt(k, &err);
    if (err.status != LEAT_OK && k->made && !k->from_disk && !closing)
        leat_dataset_explain(s->dataset, k->number, &k->err);
    if (err.status == LEAT_OK) {
        uint64_t took = leat_now_ns() - k->sent_ns;
        *(k->from_disk ? &s->stats.disk_chunks : k->by_peer ? &s->stats.peer_chunks : &s->stats.bucket_chunks) += 1;
        *(k->from_disk ? &s->stats.disk_ns : k->by_peer ? &s->stats.peer_ns : &s->stats.bucket_ns) += took;
        end_coming(k);
        o->arrived(o->user, c);
        return;
    }
    bool from_disk = k->from_disk;
    s->stats.failed += !from_disk && !closing;
    end_coming(k);
    from_disk || closing ? free_stock(k) : free_memory(k); /* who waits for one that failed asks for its error */
    if (from_disk)
        o->lost(o->user, c, &err);
    else
        (closing ? o->cancelled : o->failed)(o->user, c);
}

static void go_back(struct stock *k)
{
    k->task.run = settle;
    k->feed->opts.back(k->feed->opts.user, &k->task);
}

/* A machine's chunk, of which the recipe has come after it. False: it cannot come from there. */
static bool believe(struct stock *k)
{
    leat_status rc = leat_dataset_judge(k->source->dataset, k->number, k->recipe, k->memory.data, &k->doubt, &k->err);
    leat_error_settle(&k->err, rc);
    if (rc == LEAT_OK && k->doubt)
        leat_fail(&k->err, LEAT_NOT_FOUND, "its objects may be others than were indexed");
    else if (rc != LEAT_OK && (rc != LEAT_CORRUPT || !k->recipe_there))
        k->err.status = LEAT_NOT_FOUND; /* the bucket is asked, and says what is wrong */
    return k->err.status == LEAT_OK;
}

/* On a worker: eight megabytes take a millisecond or two. */
static void check(struct leat_task *task)
{
    struct stock *k = (struct stock *)task;
    if (k->peer.store && k->recipe && !believe(k)) {
        go_back(k);
        return;
    }
    leat_status rc = leat_dataset_open_chunk(k->source->dataset, k->number, k->memory.data, (size_t)k->of->bytes,
                                             &k->chunk, &k->err);
    leat_error_settle(&k->err, rc);
    if (k->err.status == LEAT_CORRUPT && k->pieces.n > 1)
        leat_fail_context(&k->err, LEAT_CORRUPT, "'%s' or one of %u other objects", k->pieces.list[0].key,
                          k->pieces.n - 1);
    else if (k->err.status == LEAT_CORRUPT)
        leat_fail_context(&k->err, LEAT_CORRUPT, "'%s'", k->pieces.n ? k->pieces.list[0].key : "on disk");
    go_back(k);
}

static void check_later(struct stock *k)
{
    k->arrivals++;
    k->task.run = check;
    k->feed->opts.later(k->feed->opts.user, &k->task);
}

/* Whether a machine's chunk can be compared as it is. */
static bool comparable(const struct stock *k)
{
    const struct leat_dataset *d = k->source->dataset;
    return !leat_dataset_recipe_bytes(d, k->number) || leat_dataset_known(d, k->number);
}

static void send_for_sent_recipe(struct leat_task *task);

/* On the store's thread. */
static void on_fetched(void *user, const struct leat_error *err)
{
    struct stock *k = user;
    if (!err && k->peer.store && !comparable(k)) {
        k->task.run = send_for_sent_recipe;
        k->feed->opts.back(k->feed->opts.user, &k->task);
        return;
    }
    if (!err) {
        check_later(k);
        return;
    }
    k->err = *err;
    k->arrivals += err->status == LEAT_CORRUPT; /* of another length */
    go_back(k);
}

/* Sends for the pieces, whose bytes end the chunk. False: no memory. */
static bool send_for_pieces(struct stock *k)
{
    struct leat_error err;
    struct leat_fetch_opts opts = {
        .store = k->store,
        .pieces = &k->pieces,
        .into = (char *)k->memory.data + (k->of->bytes - k->pieces.bytes),
        .ranges = k->ranges,
        .urgent = k->urgent,
        .foreign = k->made,
        .done = on_fetched,
        .user = k,
    };
    if (leat_fetch_start(&opts, &k->fetch, &err) == LEAT_OK)
        return true;
    free_fetch(k);
    return false;
}

/* On the feed's thread, since the source may be closing meanwhile: the recipe has been read. */
static void settle_recipe(struct leat_task *task)
{
    struct stock *k = (struct stock *)task;
    leat_fetch_free(k->fetch);
    k->fetch = NULL;
    keep_or_free(k);
    k->made = true;
    if (!k->source->closing && send_for_pieces(k))
        return; /* from here on the store's thread may write to it */
    if (k->source->closing)
        leat_fail(&k->err, LEAT_CANCELLED, "cancelled");
    else
        leat_fail(&k->err, LEAT_NO_MEMORY, "no memory for chunk %u", k->number);
    settle(task);
}

/* On a worker: recipes of thousands of small objects take milliseconds. */
static void read_recipe(struct leat_task *task)
{
    struct stock *k = (struct stock *)task;
    leat_pieces_free(&k->pieces); /* the fetch is done with them; it is the feed's thread's to free */
    k->recipes++;
    leat_status rc =
        leat_dataset_begin(k->source->dataset, k->number, k->recipe, k->memory.data, &k->pieces, &k->store, &k->err);
    leat_error_settle(&k->err, rc);
    k->task.run = rc == LEAT_OK ? settle_recipe : settle;
    k->feed->opts.back(k->feed->opts.user, &k->task);
}

/* On the store's thread. */
static void on_recipe(void *user, const struct leat_error *err)
{
    struct stock *k = user;
    if (err) {
        k->err = *err;
        k->recipes += err->status == LEAT_CORRUPT; /* of another length */
        go_back(k);
        return;
    }
    k->task.run = read_recipe;
    k->feed->opts.later(k->feed->opts.user, &k->task);
}

/* An object of a machine's, whole. */
static bool piece_there(struct stock *k, const char *key, uint64_t bytes)
{
    struct leat_piece *one = calloc(1, sizeof *one);
    if (!one)
        return false;
    *one = (struct leat_piece){.key = key, .length = bytes, .object_bytes = bytes};
    k->pieces = (struct leat_pieces){.list = one, .n = 1, .bytes = bytes};
    return true;
}

/* From the bucket, or `there`: from the machine that has made the chunk. */
static bool send_for_recipe(struct stock *k, uint32_t bytes, bool there,
                            void (*done)(void *, const struct leat_error *))
{
    struct leat_error err;
    struct leat_fetch_opts opts = {
        .store = there ? k->peer.store : leat_dataset_home(k->source->dataset)->store,
        .pieces = &k->pieces,
        .urgent = k->urgent,
        .done = done,
        .user = k,
    };
    k->recipe_there = there;
    k->recipe = opts.into = malloc(bytes);
    if (k->recipe &&
        (there ? piece_there(k, k->peer.recipe, bytes)
               : leat_dataset_recipe_pieces(k->source->dataset, k->number, &k->pieces, &err) == LEAT_OK) &&
        leat_fetch_start(&opts, &k->fetch, &err) == LEAT_OK)
        return true;
    free_fetch(k);
    return false;
}

/* On the store's thread. */
static void on_sent_recipe(void *user, const struct leat_error *err)
{
    struct stock *k = user;
    if (!err) {
        check_later(k);
        return;
    }
    k->err = *err;
    if (!k->recipe_there && err->status != LEAT_CANCELLED)
        k->err.status = LEAT_NOT_FOUND;                            /* nothing can be said of the machine */
    k->task.run = k->recipe_there ? send_for_sent_recipe : settle; /* it may have none any more */
    k->feed->opts.back(k->feed->opts.user, &k->task);
}

/* On the feed's thread: a machine's chunk is here, and nothing yet to compare it with. Its recipe follows: from there,
 * so that it too leaves the bucket once, else from the bucket. */
static void send_for_sent_recipe(struct leat_task *task)
{
    struct stock *k = (struct stock *)task;
    bool there = !k->recipe;
    free_fetch(k);
    k->err = (struct leat_error){0};
    if (!k->source->closing &&
        send_for_recipe(k, leat_dataset_recipe_bytes(k->source->dataset, k->number), there, on_sent_recipe))
        return;
    leat_fail(&k->err, k->source->closing ? LEAT_CANCELLED : LEAT_NO_MEMORY, "its recipe cannot be sent for");
    settle(task);
}

/* All of the chunk as it is in memory there, whatever it was made of. */
static bool send_to_peer(struct stock *k)
{
    if (!piece_there(k, k->peer.key, k->of->bytes))
        return false;
    k->store = k->peer.store;
    return send_for_pieces(k);
}

/* On a disk's thread. */
static void on_read(struct leat_disk_op *op)
{
    struct stock *k = ((struct moving *)op)->stock;
    k->err = op->err;
    if (op->err.status == LEAT_OK)
        check_later(k);
    else
        go_back(k);
}

/* Sends for it: to the bucket, in this many ranges, or to the disk. False: no memory. */
static bool send(struct stock *k)
{
    struct leat_error err;
    k->err = (struct leat_error){0};
    k->made = false;
    free_kept(k);
    if (k->from_disk) {
        k->moving = begin_move(k, LEAT_DISK_READ, on_read);
        if (k->moving)
            leat_disk_submit(k->feed->opts.disk, &k->moving->op);
        return k->moving != NULL;
    }
    if (k->peer.store)
        return send_to_peer(k);
    uint32_t recipe = leat_dataset_recipe_bytes(k->source->dataset, k->number);
    if (recipe)
        return send_for_recipe(k, recipe, false, on_recipe);
    k->store = leat_dataset_home(k->source->dataset)->store;
    return leat_dataset_pieces(k->source->dataset, k->number, &k->pieces, &err) == LEAT_OK && send_for_pieces(k);
}

bool leat_feed_fetch(struct leat_source *s, struct leat_sched_chunk *c, const struct leat_sched_fetch *how,
                     const struct leat_feed_peer *peer)
{
    struct stock *k = stock_of(c);
    bool has_failed = k != NULL;
    if (s->closing)
        return false;
    if (!k)
        c->user = k = calloc(1, sizeof *k);
    if (!k)
        return false;
    *k = (struct stock){.of = c,
                        .feed = s->feed,
                        .number = how->number,
                        .from_disk = how->from_disk,
                        .ranges = how->ranges,
                        .urgent = how->urgent,
                        .err = k->err,
                        .sent_ns = leat_now_ns()};
    if (peer && !how->from_disk)
        k->peer = *peer;
    if (!leat_cache_memory_fits(&s->feed->spare, c->bytes))
        give_back(s->feed, &s->feed->spare);
    k->memory = leat_cache_memory_get(c->bytes, &s->feed->spare);
    if (k->memory.data) {
        begin_coming(k, s);
        if (send(k))
            return true;
        k->peer.store = NULL;
        end_coming(k);
    }
    has_failed ? free_memory(k) : free_stock(k);
    return false;
}

uint64_t leat_source_hurry(struct leat_source *s, uint64_t now_ns)
{
    const struct leat_feed_opts *o = &s->feed->opts;
    uint64_t next = LEAT_NEVER;
    for (struct stock *k = s->coming; k; k = k->next) {
        if (!k->peer.store || k->hurried || k->peer.late_ns == LEAT_NEVER)
            continue;
        if (k->peer.late_ns > now_ns) {
            next = k->peer.late_ns < next ? k->peer.late_ns : next;
            continue;
        }
        k->hurried = true;
        s->stats.peer_late++;
        k->let_go = o->late(o->user, k->peer.who, k->of->bytes);
        if (k->let_go && k->fetch)
            leat_fetch_cancel(k->fetch); /* settle_peer() goes on with the bucket */
    }
    return next;
}

/* Disk */

/* On the feed's thread. */
static void settle_written(struct leat_task *task)
{
    struct moving *w = (struct moving *)((char *)task - offsetof(struct moving, task));
    struct stock *k = w->stock;
    struct leat_error err = w->op.err;
    const struct leat_feed_opts *o = &k->feed->opts;
    free(w);
    o->stored(o->user, k->of, &err);
}

/* On a disk's thread. */
static void on_written(struct leat_disk_op *op)
{
    struct moving *w = (struct moving *)op;
    w->task.run = settle_written;
    w->stock->feed->opts.back(w->stock->feed->opts.user, &w->task);
}

bool leat_feed_store(struct leat_feed *f, struct leat_sched_chunk *c)
{
    struct moving *w = f->opts.disk ? begin_move(stock_of(c), LEAT_DISK_WRITE, on_written) : NULL;
    if (!w)
        return false;
    leat_disk_submit(f->opts.disk, &w->op);
    return true;
}

void leat_feed_forget(struct leat_feed *f, struct leat_sched_chunk *c)
{
    leat_disk_remove(f->opts.disk, c->name);
}

void leat_feed_drop(struct leat_feed *f, struct leat_sched_chunk *c)
{
    struct stock *k = stock_of(c);
    give_back(f, &f->spare);
    free_kept(k);
    f->spare = k->memory;
    k->memory = (struct leat_cache_memory){0};
    free_stock(k);
}

void leat_feed_trim(struct leat_feed *f)
{
    give_back(f, &f->spare);
}

void leat_feed_gone(struct leat_feed *f, struct leat_sched_chunk *c)
{
    (void)f;
    if (stock_of(c))
        free_stock(stock_of(c));
}

leat_status leat_feed_open(const struct leat_feed_opts *opts, struct leat_feed **out, struct leat_error *err)
{
    struct leat_feed *f = calloc(1, sizeof *f);
    if (!f)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a feed");
    f->opts = *opts;
    *out = f;
    return LEAT_OK;
}

void leat_feed_close(struct leat_feed *f)
{
    if (!f)
        return;
    leat_feed_trim(f);
    free(f);
}
