/* The engine behind every store: a queue of operations, of which as many are in flight as the pace allows, each
 * tried until it succeeds, cannot succeed, or its deadline passes. All of it runs on the store's loop thread;
 * other threads only post. */
#include "store/store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "store/apart.h"
#include "store/kind.h"
#include "store/loops.h"
#include "store/store_impl.h"

#define DEFAULT_ATTEMPTS   1000u         /* until the deadline, that is */
#define MISFIT_ATTEMPTS    10u           /* where the other side is there and answers wrongly */
#define DAMAGED_ATTEMPTS   3u            /* where the bytes do not fit their checksum: then it is not the way here */
#define UNREACHED_ATTEMPTS 3u            /* of a host that never answered yet: a typo should not take minutes to show */
#define UNNAMED_PATIENCE   (10 * LEAT_S) /* … but a pod's name server may need its first seconds */
#define KEYS_PATIENCE      (30 * LEAT_S) /* how late renewed keys may come */
#define KEYS_PAUSE         (500 * LEAT_MS)
#define LOOKUP_PAUSE       (20 * LEAT_MS)
#define RENEWALS_MAX       3u /* of keys that were expired when they came */
#define DEFAULT_TIMEOUT    (300 * LEAT_S)
#define DEFAULT_INACTIVITY (20 * LEAT_S)
#define ANSWER_BYTES       1024 /* what an answer counts for besides its body: deletes have a throughput too */

struct leat_loop *leat_store_loop(struct leat_store *store)
{
    return store->loop;
}

const struct leat_store_opts *leat_store_settings(const struct leat_store *store)
{
    return &store->opts;
}

const char *leat_store_headers(const struct leat_store *store)
{
    return store->headers;
}

bool leat_store_given(const struct leat_store *store)
{
    return store->given;
}

struct leat_backend *leat_store_backend(struct leat_store *store)
{
    return store->backend;
}

enum leat_scheme leat_store_scheme(const struct leat_store *store)
{
    return store->scheme;
}

const char *leat_store_host(const struct leat_store *store)
{
    return store->host;
}

/* What was submitted or posted is over: the store may close. */
void leat_store_count_out(struct leat_store *store)
{
    pthread_mutex_lock(&store->open.mu);
    if (--store->open.ops == 0)
        pthread_cond_broadcast(&store->open.idle);
    pthread_mutex_unlock(&store->open.mu);
}

void leat_store_count_in(struct leat_store *store)
{
    pthread_mutex_lock(&store->open.mu);
    store->open.ops++;
    pthread_mutex_unlock(&store->open.mu);
}

/* Hands the op back to its owner. */
static void give_back(struct leat_store *store, struct leat_store_op *op)
{
    struct leat_store_own *own = op->own;
    LEAT_STORE_COUNT(store, operations, 1);
    if (op->status != LEAT_OK)
        LEAT_STORE_COUNT(store, failures, 1);
    if (op->err && op->status != LEAT_OK)
        *op->err = own->err;
    if (op->object)
        *op->object = own->object;
    op->own = NULL;
    free(own->token);
    free(own);
    op->done(op); /* the op may be gone after this */
    leat_store_count_out(store);
}

void leat_store_begin(struct leat_store *store, struct leat_store_op *op)
{
    op->own->state = LEAT_OP_RUNNING;
    store->own.running++;
    store->own.line.lanes.lane[op->own->lane].running++;
    LEAT_STORE_COUNT(store, requests, 1);
    __atomic_store_n(&store->stats.in_flight, store->own.running, __ATOMIC_RELAXED);
    op->status = LEAT_OK;
    op->own->err = (struct leat_error){0};
    op->too_short = false;
    op->own->retry_after_ns = 0;
    op->own->expired = false;
    store->backend->ops->start(store->backend, op);
}

static void start(struct leat_store *store, struct leat_store_op *op)
{
    if (op->attempts == 0) {
        op->own->first_ns = leat_now_ns();
        op->own->deadline_ns = leat_after(op->timeout_ns ? op->timeout_ns : store->opts.timeout_ns);
    } else {
        LEAT_STORE_COUNT(store, retries, 1);
    }
    op->attempts++;
    op->own->tries++;
    op->own->started_ns = leat_now_ns();
    leat_queue_add(&store->own.active, op);
    leat_hedging_start(store, op);
    leat_store_begin(store, op);
}

static void pump(struct leat_store *store)
{
    uint64_t now = leat_now_ns();
    uint32_t limit = leat_pace_update(&store->own.pace, store->own.line.queued.first != NULL, now);
    struct leat_store_op *op;
    __atomic_store_n(&store->stats.in_flight_max, limit, __ATOMIC_RELAXED);
    while (store->own.running < limit && (op = leat_line_next(&store->own.line, now))) {
        leat_line_take(&store->own.line, op);
        start(store, op);
    }
    if (store->own.running && !store->own.tick.armed)
        leat_loop_arm(store->loop, &store->own.tick, leat_after(50 * LEAT_MS));
}

static void on_tick(struct leat_timer *timer)
{
    struct leat_store *store = (struct leat_store *)((char *)timer - offsetof(struct leat_store, own.tick));
    pump(store);
}

static void conclude(struct leat_store *store, struct leat_store_op *op);

/* An op has waited for its next attempt. Without a retry left in the budget it waits on, but not past its deadline. */
static void on_retry_time(struct leat_timer *timer)
{
    struct leat_store_op *op = ((struct leat_store_own *)((char *)timer - offsetof(struct leat_store_own, timer)))->op;
    struct leat_store *store = op->own->store;
    uint64_t now = leat_now_ns();
    uint64_t left = leat_left(op->own->deadline_ns);
    uint64_t wait = left ? leat_retry_take(&store->own.budget, now) : 0;
    if (wait) {
        leat_loop_arm(store->loop, timer, now + (wait < left ? wait : left));
        return;
    }
    if (!left) {
        conclude(store, op);
        return;
    }
    leat_queue_take(&store->own.active, op);
    op->own->state = LEAT_OP_QUEUED;
    leat_line_again(&store->own.line, op); /* it has waited already */
    pump(store);
}

static bool host_fault(leat_status status)
{
    return status == LEAT_NETWORK || status == LEAT_TIMEOUT;
}

static bool wait_for_keys(struct leat_store *store, struct leat_store_op *op);

/* Keys are being looked up: goes on once that has ended. */
static void on_lookup_time(struct leat_timer *timer)
{
    struct leat_store_op *op = ((struct leat_store_own *)((char *)timer - offsetof(struct leat_store_own, timer)))->op;
    op->attempts++; /* given back by the next two */
    op->own->tries++;
    if (!wait_for_keys(op->own->store, op))
        conclude(op->own->store, op);
}

/* The keys had expired. The one that gave them is asked for others, or they are looked up where they came from; the
 * operation waits a little for them, without that counting as an attempt. */
static bool wait_for_keys(struct leat_store *store, struct leat_store_op *op)
{
    uint64_t now = leat_now_ns();
    enum leat_backend_renewal found = LEAT_RENEWED_SAME;
    bool asked = false;
    if (op->own->cancelled || store->own.closing || !store->backend->ops->renew)
        return false;
    if (!op->own->expired_ns)
        op->own->expired_ns = now;
    if (store->opts.expired) {
        asked = store->opts.expired(store->opts.expired_user, store->place);
    } else {
        found = store->backend->ops->renew(store->backend, NULL, op);
    }
    if (found == LEAT_RENEWED_OTHERS) { /* which may have expired as well */
        if (op->own->renewals++ == RENEWALS_MAX)
            return false;
        op->own->expired_ns = 0;
    } else if (found == LEAT_RENEWED_SAME && now - op->own->expired_ns >= (asked ? KEYS_PATIENCE : 0)) {
        return false;
    }
    uint64_t pause = found == LEAT_RENEWED_OTHERS ? 0 : found == LEAT_RENEWED_LATER ? LOOKUP_PAUSE : KEYS_PAUSE;
    if (pause >= leat_left(op->own->deadline_ns))
        return false;
    op->attempts--;
    op->own->tries--;
    op->own->state = LEAT_OP_WAITING;
    op->own->timer.fire = found == LEAT_RENEWED_LATER ? on_lookup_time : on_retry_time;
    leat_loop_arm(store->loop, &op->own->timer, now + pause);
    return true;
}

struct renewal {
    struct leat_store *store;
    const struct leat_access *access;
};

static void renew_here(void *arg)
{
    const struct renewal *r = arg;
    r->store->backend->ops->renew(r->store->backend, r->access, NULL);
}

void leat_store_renew(struct leat_store *store, const struct leat_access *access)
{
    struct renewal r = {store, access};
    if (store->backend->ops->renew)
        leat_loop_call(store->loop, renew_here, &r);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* How often to try what failed so, counted since the last byte that was new. The other side is away when it cannot be
 * reached or says so itself (5xx, slow down): it comes back, and the deadline says how long that may take. */
static uint32_t attempts_for(const struct leat_store *store, const struct leat_store_op *op)
{
    uint32_t most = store->opts.attempts;
    unsigned code = op->own->call.head.code;
    if (op->status == LEAT_CORRUPT)
        return least(most, DAMAGED_ATTEMPTS);
    if (host_fault(op->status) && !store->own.reached) {
        bool patient = op->own->call.unresolved && leat_now_ns() - op->own->first_ns < UNNAMED_PATIENCE;
        return patient ? most : least(most, UNREACHED_ATTEMPTS);
    }
    bool refused = code >= 400 && code < 500 && code != 408 && code != 429;
    bool away = op->status == LEAT_THROTTLED || (host_fault(op->status) && !refused) || code >= 500;
    return away ? most : least(most, MISFIT_ATTEMPTS);
}

/* Decides whether another attempt follows; if so, arms its timer. */
static bool try_again(struct leat_store *store, struct leat_store_op *op)
{
    if (op->own->expired)
        return wait_for_keys(store, op);
    if (op->got > op->own->most_got) {
        op->own->most_got = op->got;
        op->own->tries = 1;
    }
    uint32_t most = attempts_for(store, op);
    if (op->own->cancelled || store->own.closing || !leat_retry_useful(op->status, op->own->err.os_error) ||
        op->own->tries >= most)
        return false;
    uint64_t now = leat_now_ns();
    uint64_t delay =
        leat_retry_delay(op->status, op->own->tries + 1, op->own->retry_after_ns, leat_rng_unit(&store->own.jitter));
    if (delay >= leat_left(op->own->deadline_ns))
        return false;
    leat_log(LEAT_LOG_INFO, "attempt %u for '%.*s' failed (%s); next in %.1f s", op->attempts, leat_store_shown(op),
             op->key, op->own->err.text, (double)delay / 1e9);
    op->own->fresh = host_fault(op->status);
    op->own->state = LEAT_OP_WAITING;
    op->own->timer.fire = on_retry_time;
    leat_loop_arm(store->loop, &op->own->timer, now + delay);
    return true;
}

/* No further attempt: whatever came of it is the result. */
static void conclude(struct leat_store *store, struct leat_store_op *op)
{
    leat_queue_take(&store->own.active, op);
    if (op->status != LEAT_OK && op->status != LEAT_CANCELLED)
        leat_store_explain(store, op);
    give_back(store, op);
}

static void count_bytes(struct leat_store *store, const struct leat_store_op *op, uint64_t bytes)
{
    leat_pace_received(&store->own.pace, bytes);
    leat_lanes_received(&store->own.line.lanes, op->own->lane, bytes);
}

void leat_store_attempted(struct leat_store_op *op)
{
    struct leat_store *store = op->own->store;
    store->own.running--;
    store->own.line.lanes.lane[op->own->lane].running--;
    __atomic_store_n(&store->stats.in_flight, store->own.running, __ATOMIC_RELAXED);
    bool throttled = op->status == LEAT_THROTTLED;
    uint64_t now = leat_now_ns();
    if (op->own->call.head.date_s)
        store->backend->date_s = op->own->call.head.date_s;
    if (throttled)
        LEAT_STORE_COUNT(store, throttled, 1);
    LEAT_STORE_COUNT(store, request_ns, now - op->own->started_ns);
    if (leat_lanes_answered(&store->own.line.lanes, op->own->lane, throttled, now))
        leat_pace_answered(&store->own.pace, throttled, now);
    bool answered = op->own->call.head.code || leat_store_can(store, LEAT_STORE_LOCAL); /* some need not even ask */
    if (answered && !host_fault(op->status) && op->status != LEAT_CANCELLED)
        store->own.reached = true;
    if (op->status == LEAT_OK) {
        leat_retry_earn(&store->own.budget);
        count_bytes(store, op, ANSWER_BYTES);
    }
    if (leat_hedging_ended(store, op)) {
        pump(store);
        return;
    }
    if (op->own->cancelled && op->status != LEAT_OK)
        op->status = leat_fail(&op->own->err, LEAT_CANCELLED, "cancelled");
    if (op->status == LEAT_OK || !try_again(store, op))
        conclude(store, op);
    pump(store);
}

static void run_submit(struct leat_task *task)
{
    struct leat_store_op *op = leat_store_op_of(task);
    struct leat_store *store = op->own->store;
    if (store->own.closing || op->own->cancelled) {
        op->status = leat_fail(&op->own->err, LEAT_CANCELLED, "cancelled");
        give_back(store, op);
        return;
    }
    if (!leat_store_can(store, LEAT_STORE_WRITES) && op->verb != LEAT_STORE_STAT && op->verb != LEAT_STORE_GET &&
        op->verb != LEAT_STORE_LIST) {
        op->status =
            leat_fail(&op->own->err, LEAT_UNSUPPORTED, "%s can only be read from", leat_kind(store->scheme)->name);
        leat_store_explain(store, op);
        give_back(store, op);
        return;
    }
    bool copies = op->verb == LEAT_STORE_COPY || op->verb == LEAT_STORE_UPLOAD_COPY;
    if (copies && !leat_store_can(store, LEAT_STORE_COPIES)) {
        op->status =
            leat_fail(&op->own->err, LEAT_UNSUPPORTED, "%s cannot copy by itself", leat_kind(store->scheme)->name);
        leat_store_explain(store, op);
        give_back(store, op);
        return;
    }
    bool writes = op->verb == LEAT_STORE_PUT || op->verb == LEAT_STORE_UPLOAD_FINISH;
    if (writes && op->if_match && (!*op->if_match || strncmp(op->if_match, "W/", 2) == 0)) {
        op->status = leat_fail(&op->own->err, LEAT_UNSUPPORTED, "its ETag cannot tell one version from another");
        leat_store_explain(store, op);
        give_back(store, op);
        return;
    }
    /* What is done to the empty key would be done to the bucket itself. */
    if (leat_store_can(store, LEAT_STORE_BUCKET) && op->verb != LEAT_STORE_LIST && !*op->key) {
        op->status = leat_fail(&op->own->err, LEAT_INVALID, "it names a bucket, not an object in it");
        leat_store_explain(store, op);
        give_back(store, op);
        return;
    }
    op->own->state = LEAT_OP_QUEUED;
    leat_line_add(&store->own.line, op);
    if (op->urgent)
        leat_pace_hurry(&store->own.pace, leat_pace_together(op->verb == LEAT_STORE_GET ? op->length : 0),
                        leat_now_ns());
    pump(store);
}

/* Loop thread: those that there was no memory for are told so. */
static void run_starved(struct leat_task *task)
{
    struct leat_store *store = (struct leat_store *)((char *)task - offsetof(struct leat_store, starved));
    pthread_mutex_lock(&store->open.mu);
    struct leat_store_op *op = store->open.starved;
    store->open.starved = NULL;
    pthread_mutex_unlock(&store->open.mu);
    while (op) {
        struct leat_store_op *next = op->next;
        LEAT_STORE_COUNT(store, operations, 1);
        LEAT_STORE_COUNT(store, failures, 1);
        leat_store_explain_starved(store, op);
        if (op->object)
            *op->object = (struct leat_object){0};
        op->done(op);
        leat_store_count_out(store);
        op = next;
    }
}

static void starve(struct leat_store *store, struct leat_store_op *op)
{
    pthread_mutex_lock(&store->open.mu);
    bool first = !store->open.starved;
    op->next = store->open.starved;
    store->open.starved = op;
    pthread_mutex_unlock(&store->open.mu);
    if (first)
        leat_loop_post(store->loop, &store->starved);
}

void leat_store_submit(struct leat_store *store, struct leat_store_op *op)
{
    struct leat_store_own *own = calloc(1, sizeof *own);
    op->own = own;
    op->status = LEAT_OK;
    op->got = 0;
    op->too_short = false;
    op->attempts = 0;
    if (op->verb == LEAT_STORE_UPLOAD_OPEN)
        op->upload_id[0] = '\0';
    if (op->verb == LEAT_STORE_LIST)
        leat_buf_init(op->text, 0);
    leat_store_count_in(store);
    if (!own) {
        starve(store, op);
        return;
    }
    own->op = op;
    own->store = store;
    own->lane = store->lanes ? leat_lanes_of(op->key) : 0;
    own->task.run = run_submit;
    leat_loop_post(store->loop, &own->task);
}

/* Loop thread: ends an op wherever it is. */
static void cancel_here(struct leat_store *store, struct leat_store_op *op)
{
    if (!op->own)
        return;                                                    /* given back */
    __atomic_store_n(&op->own->cancelled, true, __ATOMIC_RELAXED); /* a thread of the file store may look at it */
    if (op->own->state == LEAT_OP_RUNNING) {
        store->backend->ops->cancel(store->backend, op);
        return;
    }
    if (op->own->state == LEAT_OP_QUEUED) {
        leat_line_take(&store->own.line, op);
    } else if (op->own->state == LEAT_OP_WAITING) {
        leat_loop_disarm(store->loop, &op->own->timer);
        leat_queue_take(&store->own.active, op);
    } else {
        return; /* not submitted yet: run_submit() sees the flag */
    }
    op->status = leat_fail(&op->own->err, LEAT_CANCELLED, "cancelled");
    give_back(store, op);
}

struct cancelling {
    struct leat_store *store;
    struct leat_store_op *op;
};

static void run_cancel(void *arg)
{
    const struct cancelling *c = arg;
    cancel_here(c->store, c->op);
}

void leat_store_cancel(struct leat_store *store, struct leat_store_op *op)
{
    struct cancelling c = {store, op};
    leat_loop_call(store->loop, run_cancel, &c);
}

static void run_task(struct leat_task *task)
{
    struct leat_store_task *t = (struct leat_store_task *)((char *)task - offsetof(struct leat_store_task, task));
    struct leat_store *store = t->store;
    t->run(t); /* the task may be gone after this */
    leat_store_count_out(store);
}

void leat_store_post(struct leat_store *store, struct leat_store_task *task)
{
    task->store = store;
    task->task.run = run_task;
    leat_store_count_in(store);
    leat_loop_post(store->loop, &task->task);
}

void leat_store_call(struct leat_store *store, void (*run)(void *arg), void *arg)
{
    leat_loop_call(store->loop, run, arg);
}

struct close_task {
    struct leat_task task;
    struct leat_store *store;
};

static void run_close(struct leat_task *task)
{
    struct leat_store *store = ((struct close_task *)task)->store;
    store->own.closing = true;
    struct leat_store_op *op;
    while ((op = leat_line_first(&store->own.line)))
        cancel_here(store, op);
    for (op = store->own.active.first; op;) {
        if (op->own->cancelled) {
            op = op->own->next; /* a blocking call that still has to come back */
        } else {
            cancel_here(store, op);
            op = store->own.active.first; /* done() may have cancelled others */
        }
    }
}

static void close_backend(void *arg)
{
    struct leat_store *store = arg;
    leat_loop_disarm(store->loop, &store->own.tick);
    if (store->backend)
        store->backend->ops->close(store->backend);
    store->backend = NULL;
}

void leat_store_close(struct leat_store *store)
{
    if (!store)
        return;
    if (store->loop) {
        struct close_task cancel = {.task.run = run_close, .store = store};
        leat_loop_post(store->loop, &cancel.task);
        pthread_mutex_lock(&store->open.mu);
        while (store->open.ops)
            leat_cond_wait(&store->open.idle, &store->open.mu, LEAT_NEVER); /* each was just cancelled */
        pthread_mutex_unlock(&store->open.mu);
        leat_loop_call(store->loop, close_backend, store); /* after the task above and whatever called back last */
        leat_loops_give_back(store->loop);
    }
    if (store->headers)
        explicit_bzero(store->headers, strlen(store->headers)); /* there may be a key among them */
    free(store->headers);
    leat_store_opts_free(&store->opts);
    free(store->host);
    pthread_cond_destroy(&store->open.idle);
    pthread_mutex_destroy(&store->open.mu);
    free(store);
}

static leat_status copy_opts(struct leat_store *store, const struct leat_store_opts *opts, struct leat_error *err)
{
    struct leat_store_opts given = *opts;
    given.access = NULL; /* the store takes what it needs, once */
    given.attempts = given.attempts ? given.attempts : DEFAULT_ATTEMPTS;
    given.timeout_ns = given.timeout_ns ? given.timeout_ns : DEFAULT_TIMEOUT;
    given.inactivity_ns = given.inactivity_ns ? given.inactivity_ns : DEFAULT_INACTIVITY;
    return leat_store_opts_copy(&given, &store->opts, err);
}

/* Of what another process has found out, the part that is not the backend's. */
static leat_status take_given(struct leat_store *store, const struct leat_url *url, struct leat_error *err)
{
    struct leat_aws given;
    leat_access_place(store->opts.access, url, store->place);
    leat_status rc = leat_access_take(store->opts.access, url, NULL, &given, err);
    if (rc != LEAT_OK)
        return rc;
    free((void *)(uintptr_t)store->opts.ca_bundle);
    store->opts.ca_bundle = given.ca_bundle;
    store->opts.hedge = given.hedge;
    store->headers = given.headers;
    given.ca_bundle = given.headers = NULL;
    leat_aws_free(&given);
    return LEAT_OK;
}

static leat_status open_backend(struct leat_store *store, const struct leat_url *url, const struct leat_access *access,
                                struct leat_error *err)
{
    bool local = leat_store_can(store, LEAT_STORE_LOCAL);
    leat_status rc;
    store->given = access && !local;
    store->opts.access = local ? NULL : access;
    if (store->given)
        rc = take_given(store, url, err);
    else
        rc = leat_kind_headers(url->scheme, &store->opts, &store->headers, err);
    if (rc == LEAT_OK)
        rc = leat_kind(url->scheme)->open(store, url, &store->backend, err);
    store->opts.access = NULL;
    return rc;
}

static leat_status open_with(const struct leat_url *url, const struct leat_store_opts *opts, struct leat_store **out,
                             struct leat_error *err)
{
    leat_status rc;
    uint64_t seed = 0;
    struct leat_store *store = calloc(1, sizeof *store);
    if (!store)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a store");
    pthread_mutex_init(&store->open.mu, NULL);
    leat_cond_init(&store->open.idle);
    store->scheme = url->scheme;
    store->host = strdup(url->host);
    rc = store->host ? copy_opts(store, opts, err) : leat_fail(err, LEAT_NO_MEMORY, "no memory for a store");
    if (rc != LEAT_OK)
        goto fail;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) < 0)
        seed = leat_now_ns();
    store->own.jitter = leat_rng(seed, 0);
    store->own.budget = leat_retry_budget(leat_now_ns());
    store->own.tick.fire = on_tick;
    store->starved.run = run_starved;
    rc = leat_loops_take(&store->loop, err);
    if (rc != LEAT_OK)
        goto fail;
    rc = open_backend(store, url, opts->access, err);
    if (rc != LEAT_OK)
        goto fail;
    uint32_t fixed = store->opts.connections ? store->opts.connections : store->backend->parallel;
    store->own.pace = leat_pace(fixed);
    store->lanes = !fixed;
    store->hedges = !leat_store_can(store, LEAT_STORE_LOCAL) &&
                    (store->opts.hedge == LEAT_HEDGE_ON ||
                     (store->opts.hedge == LEAT_HEDGE_AUTO && !store->backend->priced && !store->opts.bearer));
    *out = store;
    return LEAT_OK;
fail:
    leat_store_close(store);
    return rc;
}

leat_status leat_store_open(const struct leat_url *url, const struct leat_store_opts *opts, struct leat_store **out,
                            struct leat_error *err)
{
    struct leat_store_opts o = opts ? *opts : (struct leat_store_opts){0};
    struct leat_apart *apart = NULL;
    leat_status rc = LEAT_OK;
    if (!o.access && leat_store_url_can(url, LEAT_STORE_BUCKET)) {
        struct leat_store_opts general = o;
        rc = leat_apart_read(&apart, err);
        if (rc == LEAT_OK)
            rc = leat_apart_opts(apart, url, &general, &o, err);
    }
    if (rc == LEAT_OK)
        rc = open_with(url, &o, out, err);
    leat_apart_free(apart); /* the headers were taken from it */
    return rc;
}

/* Called by the backends as bytes arrive; kept here because the pace needs them. */
void leat_store_received(struct leat_store_op *op, size_t n)
{
    struct leat_store *store = op->own->store;
    LEAT_STORE_COUNT(store, bytes_in, n);
    count_bytes(store, op, n);
    if (op->moved)
        op->moved(op, n);
}

void leat_store_sent(struct leat_store_op *op, size_t n)
{
    LEAT_STORE_COUNT(op->own->store, bytes_out, n);
    count_bytes(op->own->store, op, n);
}

void leat_store_stats(const struct leat_store *store, struct leat_store_stats *out)
{
#define COPY(field) out->field = __atomic_load_n(&store->stats.field, __ATOMIC_RELAXED)
    COPY(operations);
    COPY(failures);
    COPY(requests);
    COPY(retries);
    COPY(throttled);
    COPY(request_ns);
    COPY(bytes_in);
    COPY(bytes_out);
    COPY(hedges);
    COPY(hedges_won);
    COPY(hedged_bytes);
    COPY(in_flight);
    COPY(in_flight_max);
#undef COPY
}
