#include "agent/loading.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/account.h"
#include "agent/blend.h"
#include "agent/circle.h"
#include "agent/inside.h"
#include "agent/peers.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/random.h"
#include "cache/disk.h"
#include "order/reach.h"

#define PICTURE_BYTES (1u << 20) /* of a decoded one, until some are known */

static struct leat_loading *of_task(struct leat_task *task)
{
    return (struct leat_loading *)((char *)task - offsetof(struct leat_loading, task));
}

/* On the loop: what it held for others to find. */
static void let_go(struct leat_task *task)
{
    struct leat_loading *l = of_task(task);
    struct leat_agent *agent = l->opts.agent;
    leat_peers_leave(l->job);
    leat_blend_release(l->opts.blend);
    leat_supply_release(l->opts.supply);
    free(l);
    leat_agent_freed(agent);
}

/* On a maker's thread: orders, views and a ring are many pages. */
static void free_there(struct leat_task *task)
{
    struct leat_loading *l = of_task(task);
    leat_cursor_batch_free(&l->coming.plan);
    leat_cursor_close(l->cursor);
    leat_loading_close_streams(l);
    leat_ring_close(&l->ring);
    leat_request_free(&l->request);
    free(l->state);
    free(l->agreement);
    l->task.run = let_go;
    if (leat_loop_inside(l->opts.agent->loop))
        let_go(task); /* at the end of the agent */
    else
        leat_loop_post(l->opts.agent->loop, &l->task);
}

/* When the last work has ended. The datasets are held until nothing reads them any more. */
static void loading_free(struct leat_loading *l)
{
    for (uint32_t i = 0; i < l->streams_n; i++)
        leat_share_free(l->streams[i].share);
    if (l->ready_fd >= 0)
        close(l->ready_fd);
    if (l->released.fd >= 0)
        close(l->released.fd);
    l->task.run = free_there;
    leat_agent_free(l->opts.agent, &l->task);
}

static void free_if_idle(struct leat_loading *l)
{
    if (l->closing && !l->working && !l->preparing)
        loading_free(l);
}

/* Slots */

static void on_released(struct leat_watch *watch, uint32_t events)
{
    struct leat_loading *l = (struct leat_loading *)((char *)watch - offsetof(struct leat_loading, released));
    uint64_t count;
    (void)events;
    ssize_t ignored = read(watch->fd, &count, sizeof count);
    (void)ignored;
    for (uint32_t i = 0; i < l->slots; i++) {
        /* Acquire: the rank's reads of the slot are over; partner: its release when it frees the slot. */
        if (!(l->out >> i & 1) ||
            atomic_load_explicit(&leat_ring_slot(&l->ring, i)->state, memory_order_acquire) != LEAT_SLOT_FREE)
            continue;
        l->out &= ~(1ull << i);
        leat_sched_slot_free(l->lane, i, leat_now_ns());
    }
    leat_agent_pump(l->opts.agent);
}

/* The batch, and the wait that it ends: until its chunks were there for these, then for its being made. When the wait
 * began is the rank's word, so it is believed within bounds. */
static void trace_batch(struct leat_loading *l, const struct leat_loading_batch *b, uint64_t now)
{
    struct leat_trace_ring *trace = leat_trace_loop(l->opts.agent->trace);
    uint64_t here = b->sched.here_ns && b->sched.here_ns < now ? b->sched.here_ns : now;
    uint64_t since = atomic_load_explicit(&l->ring.head->waiting_since_ns, memory_order_relaxed);
    struct leat_trace_event e = {.kind = LEAT_TRACE_BATCH,
                                 .who = l->who.number,
                                 .number = b->sched.number,
                                 .amount = b->plan.n,
                                 .begin_ns = here,
                                 .end_ns = now};
    if (!b->plan.end)
        leat_trace_add(trace, &e);
    if (!since || since >= now)
        return;
    e.kind = LEAT_TRACE_WAIT;
    e.begin_ns = since > l->waited_ns ? since : l->waited_ns;
    e.end_ns = here > e.begin_ns ? here : e.begin_ns;
    e.how = LEAT_TRACE_FOR_FETCH;
    if (e.end_ns > e.begin_ns)
        leat_trace_add(trace, &e);
    e.begin_ns = e.end_ns;
    e.end_ns = now;
    e.how = LEAT_TRACE_FOR_PREP;
    if (e.end_ns > e.begin_ns)
        leat_trace_add(trace, &e);
    l->waited_ns = now;
}

static void hand_over(struct leat_loading *l, struct leat_loading_batch *b)
{
    static const uint32_t sources[] = {[LEAT_SCHED_FROM_BUCKET] = LEAT_STALL_BUCKET,
                                       [LEAT_SCHED_FROM_DISK] = LEAT_STALL_DISK,
                                       [LEAT_SCHED_FROM_PEER] = LEAT_STALL_PEER};
    const uint64_t one = 1;
    struct leat_ring_slot *slot = leat_ring_slot(&l->ring, b->sched.slot);
    leat_loading_show(l, true);
    slot->ready_ns = b->sched.here_ns;
    slot->ready_from = b->plan.chunks_n ? sources[b->sched.here_from] + 1 : 0;
    slot->published_ns = leat_now_ns();
    trace_batch(l, b, slot->published_ns);
    l->out |= 1ull << b->sched.slot;
    slot->samples = b->plan.n;
    slot->epoch = b->plan.epoch;
    slot->position = b->plan.position;
    slot->batch = b->sched.number;
    slot->end = b->plan.end;
    l->stats.epoch = b->plan.epoch;
    l->stats.position = b->plan.position;
    atomic_store_explicit(&slot->state, LEAT_SLOT_READY, memory_order_relaxed);
    l->ring.head->queue[l->published % LEAT_RING_SLOTS_MAX] = b->sched.slot;
    l->published++;
    /* Release: everything above; partner: the acquire in the rank's published(). */
    atomic_store_explicit(&l->ring.head->published, l->published, memory_order_release);
    ssize_t ignored = write(l->ready_fd, &one, sizeof one);
    (void)ignored;
}

/* Sharing */

static void begin_sharing(struct leat_loading *l)
{
    struct leat_error err;
    for (uint32_t i = 0; i < l->streams_n; i++) {
        struct leat_loading_stream *s = &l->streams[i];
        struct leat_share_opts opts = {.place = (l->epoch * l->epoch_units + l->position) / l->world,
                                       .first = (uint64_t)l->slots * l->batch};
        if (!s->apart || !l->shares)
            continue;
        opts.bytes = s->by_picture ? PICTURE_BYTES : s->apart->slot_bytes;
        memcpy(opts.id, s->share_id, sizeof opts.id);
        if (leat_share_join(l->opts.agent->share, &opts, &s->share, &err) != LEAT_OK)
            leat_log(LEAT_LOG_WARN, "a loader makes its samples alone: %s", err.text);
    }
}

static void stop_sharing(struct leat_loading *l)
{
    for (uint32_t i = 0; l->computed && i < l->streams_n; i++)
        leat_share_quit(l->streams[i].share);
}

/* The scheduler's actions */

void leat_loading_fail(struct leat_loading *l, const struct leat_error *err)
{
    if (l->dead)
        return;
    l->dead = true;
    stop_sharing(l);
    l->opts.failed(l->opts.user, err);
}

static void plan(struct leat_loading *l)
{
    leat_error_settle(&l->coming.err, leat_cursor_next(l->cursor, &l->coming.plan, &l->coming.err));
}

/* On the loop. */
static void take_planned(struct leat_task *task)
{
    struct leat_loading *l = (struct leat_loading *)((char *)task - offsetof(struct leat_loading, coming.task));
    l->coming.busy = false;
    l->coming.there = true;
    l->working--;
    leat_agent_pump(l->opts.agent);
    free_if_idle(l);
}

/* On a maker's thread. */
static void plan_there(struct leat_task *task)
{
    struct leat_loading *l = (struct leat_loading *)((char *)task - offsetof(struct leat_loading, coming.task));
    plan(l);
    l->coming.task.run = take_planned;
    leat_loop_post(l->opts.agent->loop, &l->coming.task);
}

/* Whether the next batch is planned, or has been now. Else it is on its way. */
static bool planned(struct leat_loading *l)
{
    if (l->coming.busy)
        return false;
    if (!l->coming.there && leat_cursor_next_is_slow(l->cursor)) {
        l->coming.busy = true;
        l->working++;
        l->coming.task.run = plan_there;
        leat_pool_add(l->opts.agent->makers, &l->coming.task);
        return false;
    }
    if (!l->coming.there)
        plan(l);
    l->coming.there = false;
    return true;
}

bool leat_loading_ahead(struct leat_loading *l, uint32_t *number, uint64_t *stage)
{
    return !l->coming.busy && leat_cursor_ahead(l->cursor, number, stage);
}

struct leat_sched_batch *leat_loading_plan(struct leat_loading *l)
{
    struct leat_loading_batch *b = NULL;
    struct leat_sched_view view;
    if (!planned(l))
        return NULL;
    struct leat_error err = l->coming.err;
    struct leat_cursor_batch *plan = &l->coming.plan;
    leat_status rc = err.status;
    if (rc == LEAT_OK)
        rc = leat_batch_make(l, plan, &b, &err);
    leat_cursor_view(l->cursor, &view);
    leat_sched_lane_view(l->lane, &view);
    if (rc == LEAT_OK)
        return &b->sched;
    leat_cursor_batch_free(plan);
    leat_loading_fail(l, &err);
    leat_sched_lane_end(l->lane);
    return NULL;
}

bool leat_loading_publish(struct leat_loading_batch *b)
{
    struct leat_loading *l = b->loading;
    struct leat_error err = {0};
    leat_status rc = leat_batch_finish(b, &err);
    if (rc == LEAT_OK) {
        l->stats.split += b->sched.group > 0;
        hand_over(l, b);
        for (uint32_t i = 0; i < l->streams_n; i++)
            leat_share_reach(l->streams[i].share, leat_batch_place(b));
    } else {
        leat_loading_fail(l, &err);
    }
    leat_batch_free(b);
    return rc == LEAT_OK;
}

void leat_loading_prepared(struct leat_loading_batch *b)
{
    struct leat_loading *l = b->loading;
    l->preparing--;
    leat_sched_prepared(&b->sched);
    leat_agent_pump(l->opts.agent); /* its chunks may make room for others */
    if (l->closing)
        leat_batch_free(b);
    free_if_idle(l);
}

/* Opening */

/* On the loop: the ring is there, or not. */
static void take_ring(struct leat_task *task)
{
    struct leat_loading *l = of_task(task);
    struct leat_error err = l->opening_err;
    l->ring = l->made;
    l->working--;
    if (l->closing) {
        free_if_idle(l);
        return;
    }
    if (err.status == LEAT_OK)
        leat_error_settle(&err, leat_loop_watch(l->opts.agent->loop, &l->released, EPOLLIN, &err));
    if (err.status == LEAT_OK)
        leat_sched_lane_ready(l->lane);
    leat_agent_pump(l->opts.agent);
    l->opts.opened(l->opts.user, &err); /* may close it */
}

/* On a maker's thread: the kernel zeroes every page of it, at some gigabytes a second. */
static void make_ring(struct leat_task *task)
{
    struct leat_loading *l = of_task(task);
    leat_status rc = leat_ring_create(l->outputs->columns, l->outputs->n, l->batch, l->outputs->slot_bytes, l->slots,
                                      &l->made, &l->opening_err);
    leat_error_settle(&l->opening_err, rc);
    l->task.run = take_ring;
    leat_loop_post(l->opts.agent->loop, &l->task);
}

/* A budget too small for a usual batch is refused now, with the smallest that works. An unusual one comes in groups of
 * chunks that have room. */
static leat_status check_budget(const struct leat_loading *l, const struct leat_sched_lane_opts *lane,
                                struct leat_error *err)
{
    char has[LEAT_FORMAT_SIZE];
    char more[LEAT_FORMAT_SIZE];
    char taken[LEAT_FORMAT_SIZE];
    struct leat_sched_stats s;
    leat_sched_stats(l->opts.agent->sched, &s);
    uint64_t all = leat_sched_promised_with(l->opts.agent->sched, lane);
    if (all <= s.ram)
        return LEAT_OK;
    uint64_t others = s.promised - s.lent;
    return leat_fail(
        err, LEAT_LIMIT,
        "a budget of ram=%s is too small: this loader needs %s for one batch (window %u) and other loaders "
        "of this agent need %s; ask for at least ram=\"%llumib\"",
        leat_format_size(s.ram, has), leat_format_size(all - others, more), l->streams[0].spec.window,
        leat_format_size(others, taken), (unsigned long long)((all + (1 << 20) - 1) >> 20));
}

/* What this cache can do for this dataset: for the log, and for the user where it cannot do its work. */
static void say_reach(struct leat_loading *l)
{
    char text[300];
    struct leat_sched_stats s;
    uint64_t bytes = 0;
    uint64_t chunks = 0;
    for (uint32_t i = 0; i < l->streams_n; i++) {
        bytes += leat_dataset_root(l->streams[i].supply->dataset)->bytes;
        chunks += l->streams[i].spec.chunks;
    }
    leat_sched_stats(l->opts.agent->sched, &s);
    struct leat_reach_given given = {.dataset_bytes = bytes,
                                     .ram_bytes = s.ram,
                                     .disk_bytes = s.disk,
                                     .live_bytes = l->live,
                                     .ahead_bytes = s.depth_bytes};
    leat_reach_say(&given, text, sizeof text);
    leat_log(LEAT_LOG_INFO, "%s: %s", leat_dataset_home(l->opts.supply->dataset)->url, text);
    if (s.disk && chunks && leat_disk_footprint(bytes / chunks) > s.disk)
        leat_log(LEAT_LOG_WARN, "cache on disk: %llu MiB cannot hold a chunk of this dataset (%llu MiB): give it more",
                 (unsigned long long)s.disk >> 20, (unsigned long long)(bytes / chunks) >> 20);
    if (!leat_reach(&given).tight)
        return;
    snprintf(
        l->notice, sizeof l->notice,
        "ram=\"%llumib\" does not hold the chunks that window=%u mixes (%llu MiB): they are fetched several times per "
        "epoch; give more ram, or a smaller window",
        (unsigned long long)s.ram >> 20, l->streams[0].spec.window, (unsigned long long)l->live >> 20);
    leat_log(LEAT_LOG_WARN, "%s", l->notice);
}

/* The store has told the log; this is for the program. */
static void say_region(struct leat_loading *l, const struct leat_supply *supply)
{
    size_t n = strlen(l->notice);
    if (supply->region[0] && !strstr(l->notice, "across regions"))
        snprintf(l->notice + n, sizeof l->notice - n,
                 "%sthe bucket of %.100s is in region %s: reading across regions is slower and costs money; train "
                 "there, or set AWS_REGION=%s if that is meant",
                 n ? "; " : "", leat_dataset_home(supply->dataset)->url, supply->region, supply->region);
}

static leat_status begin(struct leat_loading *l, struct leat_error *err)
{
    struct leat_agent *agent = l->opts.agent;
    struct leat_sched_lane_opts opts = {.set = l->opts.blend ? l->opts.blend->set : l->opts.supply->set,
                                        .needed = l->needed,
                                        .group = l->group,
                                        .together = l->together,
                                        .slots = l->slots,
                                        .patient = l->patient,
                                        .user = l};
    leat_status rc = check_budget(l, &opts, err);
    if (rc != LEAT_OK || !l->world)
        return rc;
    l->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->released.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->released.ready = on_released;
    if (l->ready_fd < 0 || l->released.fd < 0)
        return leat_fail(err, LEAT_LIMIT, "no descriptors left for a ring");
    leat_cursor_view(l->cursor, &opts.view);
    rc = leat_sched_lane_open(agent->sched, &opts, leat_now_ns(), &l->lane, err);
    if (rc != LEAT_OK)
        return rc;
    if (l->circle)
        leat_circle_begin(l);
    else if (l->job)
        leat_peers_place(l);
    begin_sharing(l);
    say_reach(l);
    for (uint32_t i = 0; i < l->streams_n; i++) {
        const struct leat_loading_stream *one = &l->streams[i];
        if (leat_view_is_blocks(one->view))
            leat_tokens_say(one->view, leat_dataset_home(one->supply->dataset)->url, l->notice, sizeof l->notice);
        say_region(l, one->supply);
    }
    leat_agent_pump(agent); /* sends for the first chunks */
    l->working++;
    l->task.run = make_ring;
    leat_agent_make_after(agent, &l->task);
    return LEAT_OK;
}

/* On the loop: everything has been computed. */
static void take_computed(struct leat_task *task)
{
    struct leat_loading *l = of_task(task);
    struct leat_error err = l->opening_err;
    l->working--;
    l->computed = true;
    if (l->closing) {
        free_if_idle(l);
        return;
    }
    if (err.status == LEAT_OK)
        leat_error_settle(&err, begin(l, &err));
    if (err.status == LEAT_OK && l->world)
        return;                         /* take_ring() follows */
    l->opts.opened(l->opts.user, &err); /* may close it */
}

/* On a maker's thread. */
static void compute(struct leat_task *task)
{
    struct leat_loading *l = of_task(task);
    leat_error_settle(&l->opening_err, leat_loading_compute(l, &l->opening_err));
    leat_request_free(&l->request);
    l->task.run = take_computed;
    leat_loop_post(l->opts.agent->loop, &l->task);
}

leat_status leat_loading_open(const struct leat_loading_opts *opts, const struct leat_request *request,
                              struct leat_loading **out, struct leat_error *err)
{
    struct leat_loading *l = calloc(1, sizeof *l);
    if (!l)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a loader");
    leat_status rc = leat_request_copy(request, &l->request, err);
    if (rc != LEAT_OK) {
        free(l);
        return rc;
    }
    const struct leat_loader_opts *o = &l->request.opts;
    if (o->members && o->world && leat_circle_is(o->members))
        rc = leat_circle_join(opts->agent, o->members, &l->circle, err);
    else if (o->members && o->world && o->node_of_rank)
        rc = leat_peers_join(opts->agent, o->members, o->node_of_rank[o->rank < o->world ? o->rank : 0], &l->job, err);
    if (rc != LEAT_OK) {
        leat_request_free(&l->request);
        free(l);
        return rc;
    }
    if (l->job)
        leat_peers_hold(l->job);
    l->opts = *opts;
    leat_supply_hold(opts->supply);
    if (opts->blend)
        leat_blend_hold(opts->blend);
    const char *name = request->opts.name ? request->opts.name : opts->blend ? "mixture" : NULL;
    l->sequence = ++opts->agent->loadings_n;
    if (request->opts.world)
        l->who = leat_roll_loader(&opts->agent->roll, opts->pid, request->born_ns, request->opts.rank,
                                  request->opts.world, name, request->url);
    l->ring.fd = l->made.fd = l->ready_fd = l->released.fd = -1;
    l->next = opts->supply->loadings;
    opts->supply->loadings = l;
    l->working++;
    l->task.run = compute;
    *out = l;
    leat_pool_add(opts->agent->makers, &l->task);
    return LEAT_OK;
}

static void drop_batch(void *user, struct leat_sched_batch *batch)
{
    (void)user;
    leat_batch_free((struct leat_loading_batch *)batch);
}

void leat_loading_close(struct leat_loading *l)
{
    if (!l)
        return;
    l->closing = true;
    stop_sharing(l);
    struct leat_loading **p = &l->opts.supply->loadings;
    while (*p != l)
        p = &(*p)->next;
    *p = l->next;
    leat_loop_unwatch(l->opts.agent->loop, &l->released);
    leat_sched_lane_close(l->lane, drop_batch);
    l->lane = NULL;
    leat_circle_leave(l);
    free_if_idle(l);
}

/* Answers */

void leat_loading_fds(const struct leat_loading *l, int fds[3])
{
    fds[0] = l->ring.fd;
    fds[1] = l->ready_fd;
    fds[2] = l->released.fd;
}

void leat_loading_describe(const struct leat_loading *l, struct leat_buf *b)
{
    char id[2 * LEAT_SHA256_SIZE + 1];
    uint64_t units = l->epoch_units;
    leat_hex(l->id, sizeof l->id, id);
    leat_message_text(b, LEAT_TAG_ID, id);
    leat_message_text(b, LEAT_TAG_STATE, l->state);
    leat_message_number(b, LEAT_TAG_UNITS, units);
    if (l->world)
        leat_message_number(b, LEAT_TAG_BATCHES, leat_order_batches(units, 0, l->global_batch, l->last));
    leat_message_text(b, LEAT_TAG_AGREEMENT, l->agreement);
    const char *problem = l->opts.agent->metrics.problem;
    char both[sizeof l->notice + sizeof l->opts.agent->metrics.problem + 4];
    snprintf(both, sizeof both, "%s%s%s", l->notice, l->notice[0] && problem[0] ? "; " : "", problem);
    if (both[0])
        leat_message_text(b, LEAT_TAG_NOTICE, both);
}

const char *leat_loading_agreement(const struct leat_loading *l)
{
    return l->agreement;
}

bool leat_loading_reads(const struct leat_loading *l, const struct leat_supply *supply)
{
    for (uint32_t i = 0; l->opts.blend && i < l->opts.blend->n; i++) {
        if (l->opts.blend->supplies[i] == supply)
            return true;
    }
    return l->opts.supply == supply;
}

/* Supplies are counted from 0; NULL after the last. */
static struct leat_supply *supply_at(const struct leat_loading *l, uint32_t i)
{
    if (l->opts.blend)
        return i < l->opts.blend->n ? l->opts.blend->supplies[i] : NULL;
    return i ? NULL : l->opts.supply;
}

const char *leat_loading_asked_keys(const struct leat_loading *l, uint32_t n)
{
    const struct leat_supply *s;
    for (uint32_t i = 0; (s = supply_at(l, i)); i++) {
        const char *place;
        for (uint32_t k = 0; (place = leat_supply_asked_keys(s, k)); k++) {
            if (!n--)
                return place;
        }
    }
    return NULL;
}

void leat_loading_take_keys(struct leat_loading *l, struct leat_part part)
{
    size_t n = 0;
    struct leat_error err = {.text = "it does not say why"};
    struct leat_access *access = NULL;
    struct leat_supply *s;
    const char *place = leat_part_text(part, LEAT_TAG_PLACE);
    const char *text = leat_part_text(part, LEAT_TAG_TEXT);
    const void *bytes = leat_part_bytes(part, LEAT_TAG_ACCESS, &n);
    if (bytes)
        leat_access_read(bytes, n, &access, &err);
    bool first = !place;
    for (uint32_t i = 0; (s = supply_at(l, i)); i++) {
        if (access)
            leat_supply_renew(s, access);
        else if (place)
            first |= leat_supply_refused(s, place);
    }
    if (!access)
        leat_log(first ? LEAT_LOG_WARN : LEAT_LOG_DEBUG, "rank of process %d has no new keys for %.100s: %s",
                 l->opts.pid, place ? place : "its stores", text ? text : err.text);
    leat_access_free(access);
}

struct leat_loading *leat_loading_next(const struct leat_loading *l)
{
    return l->next;
}

void leat_loading_explain(const struct leat_loading *l, char *out, size_t n)
{
    const char *url = l->opts.blend ? "a mixture's streams" : leat_dataset_home(l->opts.supply->dataset)->url;
    const char *place = NULL;
    const struct leat_supply *s;
    for (uint32_t i = 0; !place && (s = supply_at(l, i)); i++)
        place = leat_supply_wants_keys(s);
    if (place) {
        snprintf(out, n, "new keys for %.100s (%.200s): the old ones have expired or are gone", place, url);
    } else if (!l->lane) {
        snprintf(out, n, "the order of %.200s to be computed", url);
    } else {
        leat_sched_lane_explain(l->lane, url, out, n);
    }
    leat_one_line(out); /* a URL may have been cut in the middle of a character */
}
