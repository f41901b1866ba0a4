#include "agent/supply.h"

#include <stdlib.h>
#include <string.h>

#include "agent/loading.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/thread.h"

/* Kept without a loader: training and validation that take turns, and what a jump leaves for an instant. Each has its
 * store's threads and its root in memory. */
#define IDLE_MAX 4u

/* A request on its way through an opener thread. */
struct leat_opening {
    struct leat_task task; /* first member */
    struct leat_agent *agent;
    struct leat_opening *next; /* of the agent */
    struct leat_supply *known; /* open already; asked for is only whether it is still current */
    _Atomic bool *stop;        /* on the heap: the store keeps asking it */
    json_t *settings;
    char *url;
    char *name;
    struct leat_dataset *dataset;
    struct leat_error err;
    leat_supply_opened *opened; /* NULL: abandoned */
    void *user;
};

static void opening_free(struct leat_opening *o)
{
    if (!o)
        return;
    leat_dataset_close(o->dataset);
    free(o->stop);
    json_decref(o->settings);
    free(o->url);
    free(o->name);
    free(o);
}

/* The youngest of that name; of that id, unless it is NULL. */
static struct leat_supply *find(struct leat_agent *agent, const char *name, const uint8_t *id)
{
    for (struct leat_supply *s = agent->supplies; s; s = s->next) {
        if (!s->leaving && strcmp(s->name, name) == 0 &&
            (!id || memcmp(leat_dataset_id(s->dataset), id, LEAT_SHA256_SIZE) == 0))
            return s;
    }
    return NULL;
}

static void supply_free(struct leat_supply *s)
{
    leat_dataset_close(s->dataset);
    free(s->stop);
    free(s->name);
    free(s->url);
    free(s);
}

/* On an opener thread: closing a store waits for its threads. */
static void close_here(struct leat_task *task)
{
    supply_free((struct leat_supply *)((char *)task - offsetof(struct leat_supply, task)));
}

/* At the end of the agent somebody waits for the feed. */
struct leat_supply_waiter {
    struct leat_supply *supply;
    pthread_mutex_t mu;
    pthread_cond_t cond;
    bool closed; /* hold mu */
};

static void wake(struct leat_supply_waiter *w)
{
    pthread_mutex_lock(&w->mu);
    w->closed = true;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->mu);
}

static void unlist_supply(struct leat_supply *s)
{
    struct leat_supply **p = &s->agent->supplies;
    while (*p != s)
        p = &(*p)->next;
    *p = s->next;
}

/* On the loop: nothing refers to the feed any more. */
static void on_feed_closed(void *user)
{
    struct leat_supply *s = user;
    s->feed = NULL;
    if (s->waiter) {
        wake(s->waiter);
    } else if (!s->agent->stopping) { /* else the openers are gone: see leat_supply_close_all() */
        unlist_supply(s);
        s->task.run = close_here;
        leat_pool_add(s->agent->openers, &s->task);
    }
}

static void let_go(struct leat_supply *s)
{
    s->leaving = true;
    atomic_store_explicit(s->stop, true, memory_order_relaxed);
    leat_feed_close(s->feed, on_feed_closed, s);
}

void leat_supply_hold(struct leat_supply *s)
{
    s->users++;
}

void leat_supply_release(struct leat_supply *s)
{
    struct leat_supply *oldest = s;
    unsigned idle = 0;
    if (--s->users)
        return;
    s->idle = ++s->agent->idles;
    for (struct leat_supply *o = s->agent->supplies; o; o = o->next) {
        if (o->users || o->leaving)
            continue;
        idle++;
        if (o->idle < oldest->idle)
            oldest = o;
    }
    if (idle > IDLE_MAX)
        let_go(oldest);
}

static void unlist(struct leat_opening *o)
{
    struct leat_opening **p = &o->agent->openings;
    while (*p != o)
        p = &(*p)->next;
    *p = o->next;
}

/* When a chunk is next used by any loader. */
static uint64_t next_use(void *user, uint32_t chunk)
{
    const struct leat_supply *s = user;
    uint64_t best = LEAT_CACHE_NEVER;
    for (const struct leat_loading *l = s->loadings; l; l = leat_loading_next(l)) {
        uint64_t use = leat_loading_next_use(l, chunk);
        best = use < best ? use : best;
    }
    return best;
}

/* Checking a chunk comes before everything else: batches wait for it. */
struct check_work {
    struct leat_work work;
    struct leat_task *task;
};

static void run_check(struct leat_work *work, struct leat_scratch *scratch)
{
    struct check_work *c = (struct check_work *)work;
    struct leat_task *task = c->task;
    (void)scratch;
    free(c);
    task->run(task);
}

static void check_later(void *user, struct leat_task *task)
{
    struct leat_supply *s = user;
    struct check_work *c = malloc(sizeof *c);
    if (c) {
        *c = (struct check_work){.work = {.run = run_check, .due = 0}, .task = task};
        if (leat_workers_add(s->agent->workers, &c->work))
            return;
        free(c);
    }
    task->run(task); /* no memory to put it off: here and now, on the store's thread */
}

static void come_back(void *user, struct leat_task *task)
{
    leat_loop_post(((struct leat_supply *)user)->agent->loop, task);
}

static void changed(void *user)
{
    leat_agent_pump(((struct leat_supply *)user)->agent);
}

static struct leat_supply *make_supply(struct leat_opening *o, struct leat_error *err)
{
    struct leat_supply *s = calloc(1, sizeof *s);
    if (!s) {
        leat_fail(err, LEAT_NO_MEMORY, "no memory for a dataset");
        return NULL;
    }
    s->agent = o->agent;
    struct leat_feed_opts feed = {
        .dataset = o->dataset,
        .cache = o->agent->cache,
        .next_use = next_use,
        .later = check_later,
        .back = come_back,
        .changed = changed,
        .user = s,
    };
    if (leat_feed_open(&feed, &s->feed, err) != LEAT_OK) {
        free(s);
        return NULL;
    }
    s->name = o->name;
    s->url = o->url;
    s->dataset = o->dataset;
    s->stop = o->stop;
    o->name = o->url = NULL;
    o->dataset = NULL;
    o->stop = NULL;
    s->next = o->agent->supplies;
    o->agent->supplies = s;
    return s;
}

static void throw_away(struct leat_task *task)
{
    opening_free((struct leat_opening *)task);
}

/* On the loop: the dataset is open, or not. */
static void finish(struct leat_task *task)
{
    struct leat_opening *o = (struct leat_opening *)task;
    struct leat_agent *agent = o->agent;
    struct leat_supply *s = NULL;
    unlist(o);
    if (o->err.status == LEAT_OK && o->opened) {
        /* two ranks may have asked at the same time */
        s = o->dataset ? find(agent, o->name, leat_dataset_id(o->dataset)) : o->known;
        if (!s)
            s = make_supply(o, &o->err);
    }
    if (s)
        leat_supply_hold(s);
    if (o->opened)
        o->opened(o->user, s, &o->err);
    if (s)
        leat_supply_release(s);
    if (o->known)
        leat_supply_release(o->known);
    o->task.run = throw_away;
    if (agent->stopping)
        throw_away(&o->task); /* the openers are gone */
    else
        leat_pool_add(agent->openers, &o->task); /* closing a store waits for its thread */
}

static const char *text_of(const json_t *settings, const char *name)
{
    return json_string_value(json_object_get(settings, name));
}

static bool told_to_stop(void *user)
{
    return atomic_load_explicit((_Atomic bool *)user, memory_order_relaxed);
}

/* On an opener thread. */
static void open_here(struct leat_task *task)
{
    struct leat_opening *o = (struct leat_opening *)task;
    struct leat_store_opts opts = {
        .stop = told_to_stop,
        .stop_user = o->stop,
        .endpoint_url = text_of(o->settings, "endpoint_url"),
        .region = text_of(o->settings, "region"),
        .access_key = text_of(o->settings, "access_key"),
        .secret_key = text_of(o->settings, "secret_key"),
        .session_token = text_of(o->settings, "session_token"),
        .ca_bundle = text_of(o->settings, "ca_bundle"),
        .keys_given = true,
        .addressing = (enum leat_store_addressing)json_integer_value(json_object_get(o->settings, "addressing")),
    };
    struct leat_pointer now = {0};
    bool current = false;
    if (o->known) {
        leat_home_resolve(leat_dataset_home(o->known->dataset), NULL, &now, &o->err);
        current = memcmp(now.id, leat_dataset_id(o->known->dataset), sizeof now.id) == 0;
    }
    if (o->err.status == LEAT_OK && !current)
        leat_dataset_open(o->url, &opts, o->known ? now.id : NULL, &o->dataset, &o->err);
    o->task.run = finish;
    leat_loop_post(o->agent->loop, &o->task);
}

leat_status leat_supply_open(struct leat_agent *agent, const char *url, const json_t *store, leat_supply_opened *opened,
                             void *user, struct leat_opening **out, struct leat_error *err)
{
    struct leat_opening *o = calloc(1, sizeof *o);
    char *settings = leat_json_write(store, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    struct leat_buf name;
    leat_buf_init(&name, 64 << 10);
    leat_buf_printf(&name, "%s\n%s", url, settings ? settings : "");
    bool whole = settings || !store; /* without its settings it would be another dataset's name */
    free(settings);
    char *text = leat_buf_take(&name);
    if (o) {
        o->agent = agent;
        o->url = strdup(url);
        o->name = text;
        o->settings = json_deep_copy(store);
        o->stop = calloc(1, sizeof *o->stop);
        o->opened = opened;
        o->user = user;
    }
    /* a copy may lack what there was no memory for */
    if (!o || !o->url || !o->name || !o->stop || !whole || (store && !json_equal(o->settings, store))) {
        if (!o)
            free(text);
        opening_free(o);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a dataset");
    }
    o->known = find(agent, o->name, NULL);
    if (o->known)
        leat_supply_hold(o->known);
    o->next = agent->openings;
    agent->openings = o;
    *out = o;
    o->task.run = open_here;
    leat_pool_add(agent->openers, &o->task);
    return LEAT_OK;
}

void leat_supply_abandon(struct leat_opening *o)
{
    o->opened = NULL;
    atomic_store_explicit(o->stop, true, memory_order_relaxed);
}

void leat_supply_stop_all(struct leat_agent *agent)
{
    for (struct leat_opening *o = agent->openings; o; o = o->next)
        leat_supply_abandon(o);
    for (struct leat_supply *s = agent->supplies; s; s = s->next)
        atomic_store_explicit(s->stop, true, memory_order_relaxed);
}

/* On the loop. */
static void close_feed(void *arg)
{
    struct leat_supply_waiter *w = arg;
    struct leat_supply *s = w->supply;
    s->waiter = w;
    if (!s->feed)
        wake(w);
    else if (!s->leaving)
        let_go(s);
}

void leat_supply_close_all(struct leat_agent *agent)
{
    while (agent->supplies) {
        struct leat_supply *s = agent->supplies;
        struct leat_supply_waiter w = {.supply = s};
        pthread_mutex_init(&w.mu, NULL);
        leat_cond_init(&w.cond);
        leat_loop_call(agent->loop, close_feed, &w);
        pthread_mutex_lock(&w.mu);
        while (!w.closed)
            leat_cond_wait(&w.cond, &w.mu, LEAT_NEVER); /* what is in flight was cancelled */
        pthread_mutex_unlock(&w.mu);
        pthread_cond_destroy(&w.cond);
        pthread_mutex_destroy(&w.mu);
        agent->supplies = s->next;
        supply_free(s);
    }
}
