#include "agent/supply.h"

#include <stdlib.h>
#include <string.h>

#include "agent/loading.h"
#include "agent/peers.h"
#include "agent/session.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/thread.h"

/* Kept without a loader: training and validation that take turns, and what a jump leaves for an instant. Each has its
 * store's threads and its root in memory. */
#define IDLE_MAX 4u

/* Openings of one bucket at a time: one that hangs must not take the threads of all others, of which the agent has
 * several times as many. */
#define OPENINGS_MAX 16u

/* A request on its way through an opener thread. */
struct leat_opening {
    struct leat_task task; /* first member */
    struct leat_agent *agent;
    struct leat_opening *next; /* of the agent */
    struct leat_supply *known; /* open already, by the same keys: perhaps it is the one */
    struct leat_supply_hook *hook;
    struct leat_request request;
    char region[32];
    uint8_t keys[LEAT_SHA256_SIZE];
    uint8_t id[LEAT_SHA256_SIZE]; /* what the request names, where it does */
    char *asked;
    char *bucket; /* what it may have to wait for */
    bool waiting; /* for others of the same bucket to end */
    char *place;  /* when the dataset is open */
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
    free(o->hook);
    leat_request_free(&o->request);
    free(o->asked);
    free(o->bucket);
    free(o->place);
    free(o);
}

static void open_here(struct leat_task *task);

/* Gives the oldest openings that wait for this bucket to threads, as many as may be at work. */
static void start_openings(struct leat_agent *agent, const char *bucket)
{
    for (;;) {
        struct leat_opening *oldest = NULL; /* the list has the youngest first */
        unsigned running = 0;
        for (struct leat_opening *o = agent->openings; o; o = o->next) {
            if (strcmp(o->bucket, bucket) != 0)
                continue;
            running += !o->waiting;
            oldest = o->waiting ? o : oldest;
        }
        if (!oldest || running >= OPENINGS_MAX)
            return;
        oldest->waiting = false;
        oldest->task.run = open_here;
        leat_pool_add(agent->openers, &oldest->task);
    }
}

static bool is_version(const struct leat_supply *s, const uint8_t id[LEAT_SHA256_SIZE])
{
    return memcmp(leat_dataset_id(s->dataset), id, LEAT_SHA256_SIZE) == 0;
}

/* The youngest that was asked for like this, with these keys. */
static struct leat_supply *find_asked(const struct leat_opening *o)
{
    for (struct leat_supply *s = o->agent->supplies; s; s = s->next) {
        if (!s->leaving && strcmp(s->asked, o->asked) == 0 && memcmp(s->keys, o->keys, sizeof s->keys) == 0 &&
            (!o->request.id || is_version(s, o->id)))
            return s;
    }
    return NULL;
}

/* What another rank has opened meanwhile, or with other keys or words. */
static struct leat_supply *find_same(const struct leat_opening *o)
{
    for (struct leat_supply *s = o->agent->supplies; s; s = s->next) {
        if (!s->leaving && strcmp(s->place, o->place) == 0 && is_version(s, leat_dataset_id(o->dataset)))
            return s;
    }
    return NULL;
}

static void supply_free(struct leat_supply *s)
{
    leat_dataset_close(s->dataset);
    free(s->hook);
    free(s->asked);
    free(s->place);
    free(s);
}

/* On an opener thread: closing a store waits for its threads. */
static void close_here(struct leat_task *task)
{
    supply_free((struct leat_supply *)((char *)task - offsetof(struct leat_supply, task)));
}

/* At the end of the agent somebody waits for what is on its way. */
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

/* On the loop: nothing comes from it any more. */
static void on_source_closed(void *user)
{
    struct leat_supply *s = user;
    s->source = NULL;
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
    leat_loop_disarm(s->agent->loop, &s->renew);
    atomic_store_explicit(&s->hook->stop, true, memory_order_relaxed);
    leat_peers_supply_gone(s);
    leat_sched_set_close(s->set); /* first: nothing new may be asked of it */
    s->set = NULL;
    leat_source_close(s->source, on_source_closed, s);
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

/* Keys */

#define RENEW_EARLY_S 300 /* before they expire: as early as AWS's own clients */

static void digest_keys(const struct leat_request_store *s, uint8_t out[LEAT_SHA256_SIZE])
{
    struct leat_buf b;
    leat_buf_init(&b, LEAT_WIRE_MAX);
    const char *const texts[] = {s->access_key, s->secret_key, s->session_token};
    for (size_t i = 0; i < 3; i++)
        leat_buf_printf(&b, "%zu:%s", texts[i] ? strlen(texts[i]) : 0, texts[i] ? texts[i] : "");
    leat_sha256(b.data, b.len, out);
    if (b.cap)
        explicit_bzero(b.data, b.len);
    leat_buf_free(&b);
}

/* On the loop: its ranks look their keys up again. The agent has none of its own. */
static void ask_for_keys(struct leat_supply *s)
{
    if (s->keys_wanted || s->leaving)
        return;
    s->keys_wanted = true;
    leat_log(LEAT_LOG_INFO, "the keys for %s expire: asking for new ones", leat_dataset_home(s->dataset)->url);
    leat_session_ask_keys(s->agent, s);
}

static void on_renew(struct leat_timer *timer)
{
    ask_for_keys((struct leat_supply *)((char *)timer - offsetof(struct leat_supply, renew)));
}

static void watch_expiry(struct leat_supply *s, uint64_t expires_s)
{
    s->renew.fire = on_renew;
    leat_loop_disarm(s->agent->loop, &s->renew);
    if (!expires_s)
        return;
    uint64_t now_s = (uint64_t)leat_wall_s();
    uint64_t left_s = expires_s > now_s ? expires_s - now_s : 0;
    left_s = left_s > 2 * RENEW_EARLY_S ? left_s - RENEW_EARLY_S : left_s / 2; /* some live for minutes only */
    leat_loop_arm(s->agent->loop, &s->renew, leat_after((left_s ? left_s : 1) * LEAT_S));
}

void leat_supply_renew(struct leat_supply *s, const struct leat_request_store *store)
{
    uint8_t keys[LEAT_SHA256_SIZE];
    digest_keys(store, keys);
    s->keys_wanted = false;
    if (memcmp(keys, s->keys, sizeof keys) ==
        0) { /* nothing new yet: asked again halfway to their end, or by the store */
        watch_expiry(s, store->expires_s);
        return;
    }
    memcpy(s->keys, keys, sizeof keys);
    leat_dataset_renew(s->dataset, store->access_key, store->secret_key, store->session_token);
    watch_expiry(s, store->expires_s);
}

/* The store's thread tells of expired keys; the loop asks for others. */
struct expired {
    struct leat_task task;               /* first member */
    const struct leat_supply_hook *hook; /* names the supply, which may be gone by then */
    struct leat_agent *agent;
};

static void on_expired_here(struct leat_task *task)
{
    struct expired *e = (struct expired *)task;
    for (struct leat_supply *s = e->agent->supplies; s; s = s->next) {
        if (s->hook == e->hook)
            ask_for_keys(s);
    }
    free(e);
}

/* While a dataset is being opened its keys were looked up a moment ago: there are no others to wait for. */
static bool on_expired(void *user)
{
    struct leat_supply_hook *hook = user;
    if (!atomic_load(&hook->open))
        return false;
    atomic_store_explicit(&hook->expired_ns, leat_now_ns(), memory_order_relaxed);
    struct expired *e = malloc(sizeof *e);
    if (!e)
        return true; /* it says so again */
    *e = (struct expired){.task.run = on_expired_here, .hook = hook, .agent = hook->agent};
    leat_loop_post(hook->agent->loop, &e->task);
    return true;
}

bool leat_supply_wants_keys(const struct leat_supply *s)
{
    uint64_t told = atomic_load_explicit(&s->hook->expired_ns, memory_order_relaxed);
    return told && leat_now_ns() - told < 2 * LEAT_S;
}

static struct leat_supply *make_supply(struct leat_opening *o, struct leat_error *err)
{
    struct leat_supply *s = calloc(1, sizeof *s);
    if (!s) {
        leat_fail(err, LEAT_NO_MEMORY, "no memory for a dataset");
        return NULL;
    }
    s->agent = o->agent;
    s->from.supply = s;
    const struct leat_root *root = leat_dataset_root(o->dataset);
    leat_status rc = leat_source_open(o->agent->feed, o->dataset, &s->source, err);
    if (rc == LEAT_OK)
        rc = leat_sched_set_open(o->agent->sched, leat_root_chunk_name(root, 0), root->sizes, root->chunks, &s->from,
                                 &s->set, err);
    if (rc != LEAT_OK) {
        leat_source_close(s->source, NULL, NULL);
        free(s);
        return NULL;
    }
    s->place = o->place;
    s->asked = o->asked;
    s->dataset = o->dataset;
    s->who = leat_roll_dataset(&o->agent->roll, leat_dataset_home(o->dataset)->url);
    s->hook = o->hook;
    memcpy(s->region, o->region, sizeof s->region);
    atomic_store(&s->hook->open, true);
    o->place = o->asked = NULL;
    o->dataset = NULL;
    o->hook = NULL;
    memcpy(s->keys, o->keys, sizeof s->keys);
    watch_expiry(s, o->request.store.expires_s);
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
    start_openings(agent, o->bucket);
    if (o->err.status == LEAT_OK && o->opened) {
        s = o->dataset ? find_same(o) : o->known;
        if (!s)
            s = make_supply(o, &o->err);
        else if (memcmp(s->keys, o->keys, sizeof s->keys) != 0)
            leat_supply_renew(s, &o->request.store); /* proved a moment ago: the youngest are the ones to go on with */
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

static bool told_to_stop(void *user)
{
    return atomic_load_explicit(&((struct leat_supply_hook *)user)->stop, memory_order_relaxed);
}

/* Where a dataset lies, with an address of it. */
static char *place_of(const char *url, const struct leat_request_store *s)
{
    struct leat_buf b;
    leat_buf_init(&b, LEAT_WIRE_MAX);
    leat_buf_printf(&b, "%s\n%s\n%s\n%s\n%u\n%u\n%016llx", url, s->endpoint_url ? s->endpoint_url : "",
                    s->region ? s->region : "", s->ca_bundle ? s->ca_bundle : "", s->addressing, s->hedge,
                    s->headers ? (unsigned long long)leat_xxh3(s->headers, strlen(s->headers)) : 0ull);
    return leat_buf_take(&b);
}

/* The bucket or the folder's beginning, with the endpoint: what hangs for one of its datasets hangs for all. */
static char *bucket_of(const char *url, const struct leat_request_store *s)
{
    struct leat_buf b;
    size_t n = 0;
    for (unsigned slashes = 0; url[n] && (slashes += url[n] == '/') < 3;)
        n++;
    leat_buf_init(&b, LEAT_WIRE_MAX);
    leat_buf_printf(&b, "%.*s\n%s", (int)n, url, s->endpoint_url ? s->endpoint_url : "");
    return leat_buf_take(&b);
}

/* Whether the supply that is open already is what the address names now. */
static bool still_it(const struct leat_opening *o, struct leat_error *err)
{
    struct leat_pointer now;
    return leat_home_resolve(leat_dataset_home(o->known->dataset), NULL, &now, err) == LEAT_OK &&
           is_version(o->known, now.id);
}

/* On an opener thread. */
static void open_here(struct leat_task *task)
{
    struct leat_opening *o = (struct leat_opening *)task;
    const struct leat_request_store *keys = &o->request.store;
    struct leat_store_opts opts = {
        .stop = told_to_stop,
        .stop_user = o->hook,
        .expired = on_expired,
        .expired_user = o->hook,
        .endpoint_url = keys->endpoint_url,
        .region = keys->region,
        .access_key = keys->access_key,
        .secret_key = keys->secret_key,
        .session_token = keys->session_token,
        .ca_bundle = keys->ca_bundle,
        .headers = keys->headers,
        .keys_given = true,
        .addressing = (enum leat_store_addressing)keys->addressing,
        .hedge = keys->hedge <= LEAT_HEDGE_OFF ? (enum leat_store_hedge)keys->hedge : LEAT_HEDGE_AUTO,
    };
    bool known = o->known && still_it(o, &o->err);
    if (o->err.status == LEAT_OK && !known)
        leat_dataset_open(o->request.url, &opts, o->request.id ? o->id : NULL, &o->dataset, &o->err);
    const char *foreign = o->dataset ? leat_dataset_foreign_source(o->dataset) : NULL;
    if (foreign) {
        leat_fail(&o->err, LEAT_UNSUPPORTED,
                  "the data of %s is in %.100s, another kind of store than the rest: a job has the keys of one kind; "
                  "keep the "
                  "index in the same kind of bucket, or in a folder",
                  leat_dataset_home(o->dataset)->url, foreign);
        leat_dataset_close(o->dataset);
        o->dataset = NULL;
    }
    if (o->dataset && leat_dataset_bucket_source(o->dataset) && !keys->keys_from) {
        leat_fail(&o->err, LEAT_DENIED, "the data of %s is in a bucket, but there are no keys for it",
                  leat_dataset_home(o->dataset)->url); /* the rank looks for some, and asks again */
        leat_dataset_close(o->dataset);
        o->dataset = NULL;
    }
    if (o->dataset)
        o->place = place_of(leat_dataset_home(o->dataset)->url, keys);
    if (o->dataset) {
        struct leat_store_place at = {0};
        leat_store_place(leat_dataset_home(o->dataset)->store, &at);
        if (at.region_said[0] && strcmp(at.region_said, at.region) != 0)
            memcpy(o->region, at.region, sizeof o->region);
    }
    if (o->dataset && !o->place)
        leat_fail(&o->err, LEAT_NO_MEMORY, "no memory for a dataset");
    o->task.run = finish;
    leat_loop_post(o->agent->loop, &o->task);
}

leat_status leat_supply_open(struct leat_agent *agent, const struct leat_request *request, leat_supply_opened *opened,
                             void *user, struct leat_opening **out, struct leat_error *err)
{
    struct leat_opening *o = calloc(1, sizeof *o);
    if (!o)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a dataset");
    leat_status rc = leat_request_copy(request, &o->request, err);
    if (rc == LEAT_OK && o->request.id && !leat_unhex(o->request.id, o->id, sizeof o->id))
        rc = leat_fail(err, LEAT_INVALID, "'%.64s' is not the id of a dataset", o->request.id);
    if (rc == LEAT_OK) {
        o->agent = agent;
        o->asked = place_of(o->request.url, &o->request.store);
        o->bucket = bucket_of(o->request.url, &o->request.store);
        o->hook = calloc(1, sizeof *o->hook);
        o->opened = opened;
        o->user = user;
        digest_keys(&o->request.store, o->keys);
        if (!o->asked || !o->bucket || !o->hook)
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for a dataset");
    }
    if (rc != LEAT_OK) {
        opening_free(o);
        return rc;
    }
    o->hook->agent = agent;
    o->known = find_asked(o);
    if (o->known)
        leat_supply_hold(o->known);
    o->next = agent->openings;
    agent->openings = o;
    *out = o;
    if (o->known && o->request.id) { /* nothing has to be asked: a jump waits for nobody's bucket */
        o->task.run = finish;
        leat_loop_post(agent->loop, &o->task);
        return LEAT_OK;
    }
    o->waiting = true;
    start_openings(agent, o->bucket);
    return LEAT_OK;
}

void leat_supply_abandon(struct leat_opening *o)
{
    o->opened = NULL;
    atomic_store_explicit(&o->hook->stop, true, memory_order_relaxed);
    if (!o->waiting)
        return;
    o->waiting = false; /* no thread has it yet, and none needs to */
    o->task.run = finish;
    leat_loop_post(o->agent->loop, &o->task);
}

void leat_supply_stop_all(struct leat_agent *agent)
{
    for (struct leat_opening *o = agent->openings; o; o = o->next)
        leat_supply_abandon(o);
    for (struct leat_supply *s = agent->supplies; s; s = s->next)
        atomic_store_explicit(&s->hook->stop, true, memory_order_relaxed);
}

/* On the loop. */
static void close_source(void *arg)
{
    struct leat_supply_waiter *w = arg;
    struct leat_supply *s = w->supply;
    s->waiter = w;
    if (!s->source)
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
        leat_loop_call(agent->loop, close_source, &w);
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
