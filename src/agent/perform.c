#include "agent/perform.h"

#include <stdlib.h>
#include <string.h>

#include "agent/account.h"
#include "agent/blend.h"
#include "agent/inside.h"
#include "agent/peers.h"
#include "agent/supply.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"
#include "cache/disk.h"
#include "feed/feed.h"
#include "sched/chunk.h"

#define QUIET_NS     (60 * LEAT_S) /* between two warnings about the disk */
#define RECIPES_PART 8u /* of the memory for chunks, beside it: enough for all of them down to objects of 1 kB */

/* Actions */

static bool do_fetch(void *user, struct leat_sched_chunk *c, const struct leat_sched_fetch *how)
{
    const struct leat_from *from = leat_sched_set_user(how->set);
    struct leat_sched_fetch own = *how;
    const struct leat_supply *s =
        from->supply ? from->supply : leat_blend_supply(from->blend, how->number, &own.number);
    struct leat_feed_peer peer;
    if (s->agent->jobs)
        leat_source_keep_recipes(s->source, s->agent->opts.ram / RECIPES_PART);
    bool asks = !how->guest && !how->from_disk && leat_peers_choose(s, own.number, from, how->number, &peer);
    if (leat_feed_fetch(s->source, c, &own, asks ? &peer : NULL)) {
        if (asks)
            leat_sched_ask_peer(c);
        return true;
    }
    if (asks)
        leat_peers_asked(user, peer.who, &(struct leat_error){.status = LEAT_NO_MEMORY}, 0, 0);
    return false;
}

static void do_drop(void *user, struct leat_sched_chunk *c)
{
    leat_feed_drop(((struct leat_agent *)user)->feed, c);
}

static bool do_store(void *user, struct leat_sched_chunk *c)
{
    return leat_feed_store(((struct leat_agent *)user)->feed, c);
}

static void do_forget(void *user, struct leat_sched_chunk *c)
{
    leat_feed_forget(((struct leat_agent *)user)->feed, c);
}

static void do_gone(void *user, struct leat_sched_chunk *c)
{
    leat_feed_gone(((struct leat_agent *)user)->feed, c);
}

static struct leat_sched_batch *do_plan(void *user, struct leat_sched_lane *lane)
{
    (void)user;
    return leat_loading_plan(leat_sched_lane_user(lane));
}

static bool do_ahead(void *user, struct leat_sched_lane *lane, uint32_t *number, uint64_t *stage)
{
    (void)user;
    return leat_loading_ahead(leat_sched_lane_user(lane), number, stage);
}

static void do_prepare(void *user, struct leat_sched_batch *batch)
{
    struct leat_loading_batch *b = (struct leat_loading_batch *)batch;
    (void)user;
    b->loading->preparing++;
    leat_batch_prepare(b);
}

static bool do_publish(void *user, struct leat_sched_batch *batch)
{
    (void)user;
    return leat_loading_publish((struct leat_loading_batch *)batch);
}

static void do_fail(void *user, struct leat_sched_batch *batch, struct leat_sched_chunk *c)
{
    struct leat_loading_batch *b = (struct leat_loading_batch *)batch;
    struct leat_error err;
    (void)user;
    if (c)
        err = *leat_feed_error(c);
    else
        leat_fail(&err, LEAT_NO_MEMORY, "no memory to plan a batch");
    leat_loading_fail(b->loading, &err);
}

static void do_why(void *user, const char *text)
{
    (void)user;
    leat_log(LEAT_LOG_DEBUG, "%s", text);
}

static const struct leat_sched_ops ops = {
    .fetch = do_fetch,
    .drop = do_drop,
    .store = do_store,
    .forget = do_forget,
    .gone = do_gone,
    .plan = do_plan,
    .ahead = do_ahead,
    .prepare = do_prepare,
    .publish = do_publish,
    .fail = do_fail,
};

/* Steps. Many things happen in one turn of the loop; they are decided about once. */

/* What the ranks can see of it. */
static void show(struct leat_agent *a)
{
    for (struct leat_supply *s = a->supplies; s; s = s->next) {
        for (struct leat_loading *l = s->loadings; l; l = l->next) {
            if (!l->ring.head || !l->lane)
                continue;
            atomic_store_explicit(&l->ring.head->next_ready_ns, leat_sched_lane_here_ns(l->lane), memory_order_relaxed);
            leat_loading_show(l, false);
        }
    }
}

static void step(struct leat_task *task)
{
    struct leat_agent *a = (struct leat_agent *)((char *)task - offsetof(struct leat_agent, pump.task));
    a->pump.posted = false;
    if (a->pump.ended)
        return;
    leat_sched_step(a->sched, leat_now_ns());
    leat_feed_trim(a->feed);
    show(a);
    uint64_t wake_ns = leat_sched_wake_ns(a->sched);
    leat_loop_disarm(a->loop, &a->pump.again);
    if (wake_ns != LEAT_SCHED_NEVER)
        leat_loop_arm(a->loop, &a->pump.again, wake_ns);
}

void leat_agent_pump(struct leat_agent *a)
{
    if (a->pump.posted || a->pump.ended)
        return;
    a->pump.posted = true;
    a->pump.task.run = step;
    leat_loop_post(a->loop, &a->pump.task);
}

static void on_again(struct leat_timer *timer)
{
    leat_agent_pump((struct leat_agent *)((char *)timer - offsetof(struct leat_agent, pump.again)));
}

/* Events */

static void later(void *user, struct leat_task *task)
{
    leat_workers_check(((struct leat_agent *)user)->workers, task);
}

static void release(void *user, struct leat_task *task)
{
    leat_agent_release(user, task);
}

static void back(void *user, struct leat_task *task)
{
    leat_loop_post(((struct leat_agent *)user)->loop, task);
}

static void trace_fetch(struct leat_agent *a, const struct leat_sched_chunk *c, enum leat_trace_how how)
{
    const struct leat_from *from = c->source ? leat_sched_set_user(c->source) : NULL;
    uint32_t number = c->ref.number;
    const struct leat_supply *s = from ? from->supply : NULL;
    if (from && !s && c->ref.set == c->source)
        s = leat_blend_supply(from->blend, c->ref.number, &number);
    struct leat_trace_event e = {.kind = LEAT_TRACE_FETCH,
                                 .how = how,
                                 .who = s ? s->who.number : 0,
                                 .number = number,
                                 .amount = c->bytes,
                                 .begin_ns = c->began_ns,
                                 .end_ns = leat_now_ns()};
    leat_trace_add(leat_trace_loop(a->trace), &e);
}

static void on_arrived(void *user, struct leat_sched_chunk *c)
{
    struct leat_agent *a = user;
    trace_fetch(a, c, c->from_disk ? LEAT_TRACE_DISK : leat_feed_by_peer(c) ? LEAT_TRACE_PEER : LEAT_TRACE_BUCKET);
    if (leat_feed_by_peer(c))
        leat_sched_by_peer(c);
    leat_sched_arrived(a->sched, c, leat_now_ns());
    leat_agent_pump(a);
}

static void on_failed(void *user, struct leat_sched_chunk *c)
{
    struct leat_agent *a = user;
    trace_fetch(a, c, LEAT_TRACE_FAILED);
    leat_log(LEAT_LOG_INFO, "a chunk could not be fetched: %s", leat_feed_error(c)->text);
    leat_sched_failed(a->sched, c, leat_now_ns());
    leat_agent_pump(a);
}

static void on_cancelled(void *user, struct leat_sched_chunk *c)
{
    struct leat_agent *a = user;
    trace_fetch(a, c, LEAT_TRACE_CANCELLED);
    leat_sched_cancelled(a->sched, c);
    leat_agent_pump(a);
}

/* What the disk cannot do is said once, and once more when it goes on for long. */
static void complain(struct leat_agent *a, const char *what, const struct leat_error *err)
{
    uint64_t now = leat_now_ns();
    if (err->status == LEAT_CANCELLED || err->status == LEAT_NOT_FOUND)
        return;
    if (a->disk_said_ns && now - a->disk_said_ns < QUIET_NS)
        return;
    a->disk_said_ns = now;
    leat_log(LEAT_LOG_WARN, "cache on disk: %s: %s; the bucket is used instead", what, err->text);
}

static void on_lost(void *user, struct leat_sched_chunk *c, const struct leat_error *err)
{
    struct leat_agent *a = user;
    trace_fetch(a, c, LEAT_TRACE_LOST);
    complain(a, "a chunk could not be read", err);
    leat_sched_lost(a->sched, c);
    leat_agent_pump(a);
}

static void on_stored(void *user, struct leat_sched_chunk *c, const struct leat_error *err)
{
    struct leat_agent *a = user;
    if (err->status != LEAT_OK)
        complain(a, "a chunk could not be written", err);
    leat_sched_stored(a->sched, c, err->status == LEAT_OK);
    leat_agent_pump(a);
}

/* The disk tells of its size, and of what others have stored, on its own threads. */
struct news {
    struct leat_task task; /* first member */
    struct leat_agent *agent;
    bool found;
    uint8_t name[LEAT_SCHED_NAME];
    uint64_t bytes;
};

static void take_news(struct leat_task *task)
{
    struct news *n = (struct news *)task;
    struct leat_agent *a = n->agent;
    char size[LEAT_FORMAT_SIZE];
    if (!a->sched) {
        free(n); /* it could not be opened: the agent ends */
        return;
    }
    if (n->found) {
        leat_sched_found(a->sched, n->name, n->bytes);
    } else {
        leat_log(LEAT_LOG_INFO, "cache on disk: %s may be used now", leat_format_size(n->bytes, size));
        leat_sched_set_disk(a->sched, n->bytes);
    }
    free(n);
    leat_agent_pump(a);
}

static void tell(struct leat_agent *a, const uint8_t *name, uint64_t bytes)
{
    struct news *n = calloc(1, sizeof *n);
    if (!n)
        return; /* a chunk that is not known is fetched; a size is told again */
    *n = (struct news){.task.run = take_news, .agent = a, .found = name != NULL, .bytes = bytes};
    if (name)
        memcpy(n->name, name, sizeof n->name);
    leat_loop_post(a->loop, &n->task);
}

static void on_shrunk(void *user, uint64_t budget)
{
    tell(user, NULL, budget);
}

static void on_found(void *user, const uint8_t name[32], uint64_t bytes)
{
    tell(user, name, bytes);
}

/* Opening and closing */

static void take_known(void *user, const uint8_t name[32], uint64_t bytes)
{
    leat_sched_found(((struct leat_agent *)user)->sched, name, bytes);
}

/* A folder that cannot be used is done without. A size that cannot work is somebody's mistake. */
static leat_status open_disk(struct leat_agent *a, struct leat_error *err)
{
    struct leat_disk_opts opts = {
        .dir = a->opts.cache_dir, .budget = a->opts.cache, .shrunk = on_shrunk, .found = on_found, .user = a};
    if (!opts.dir)
        return LEAT_OK;
    if (opts.budget && opts.budget < LEAT_DISK_BUDGET_MIN)
        return leat_fail(err, LEAT_INVALID, "cache=%llu bytes cannot hold a chunk: give at least cache=\"%llumib\"",
                         (unsigned long long)opts.budget, LEAT_DISK_BUDGET_MIN >> 20);
    if (leat_disk_open(&opts, &a->disk, err) != LEAT_OK)
        leat_log(LEAT_LOG_WARN, "no cache on disk: %s", err->text);
    return LEAT_OK;
}

struct opening {
    struct leat_agent *agent;
    struct leat_error *err;
    leat_status rc;
};

/* On the loop: what the disk has to tell is taken there too, after this. */
static void open_here(void *arg)
{
    struct opening *o = arg;
    struct leat_agent *a = o->agent;
    o->rc = open_disk(a, o->err);
    if (o->rc != LEAT_OK)
        return;
    struct leat_feed_opts feed = {
        .disk = a->disk,
        .later = later,
        .release = release,
        .back = back,
        .arrived = on_arrived,
        .failed = on_failed,
        .cancelled = on_cancelled,
        .lost = on_lost,
        .stored = on_stored,
        .peered = leat_peers_asked,
        .late = leat_peers_late,
        .user = a,
    };
    a->ops = ops;
    if (leat_log_wants(LEAT_LOG_DEBUG))
        a->ops.why = do_why;
    struct leat_sched_opts sched = {
        .ram = a->opts.ram,
        .disk = a->disk ? leat_disk_budget(a->disk) : 0,
        .disk_bytes = leat_disk_footprint,
        .marks = true,
        .ops = &a->ops,
        .user = a,
    };
    a->pump.again.fire = on_again;
    o->rc = leat_feed_open(&feed, &a->feed, o->err);
    if (o->rc == LEAT_OK)
        o->rc = leat_sched_open(&sched, &a->sched, o->err);
    if (o->rc == LEAT_OK && a->disk)
        leat_disk_each(a->disk, take_known, a);
}

leat_status leat_perform_open(struct leat_agent *a, struct leat_error *err)
{
    struct opening o = {.agent = a, .err = err};
    leat_loop_call(a->loop, open_here, &o);
    return o.rc;
}

void leat_perform_end(struct leat_agent *a)
{
    leat_disk_close(a->disk);
    a->disk = NULL;
}

void leat_perform_close(struct leat_agent *a)
{
    leat_sched_close(a->sched);
    leat_feed_close(a->feed);
    leat_disk_close(a->disk);
}
