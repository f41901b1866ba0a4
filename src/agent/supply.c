#include "agent/supply.h"

#include <stdio.h>
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
    struct leat_access *access; /* all that the request has; when the dataset is open, what that needs */
    struct leat_sources_list lacks;
    char region[32];
    uint8_t id[LEAT_SHA256_SIZE]; /* what the request names, where it does */
    char *asked;
    char *bucket; /* what it may have to wait for */
    bool waiting; /* for others of the same bucket to end */
    char *place;  /* when the dataset is open */
    struct leat_dataset *dataset;
    struct leat_sched_set_opts chunks; /* of the dataset: measured here, since there may be millions */
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
    leat_access_free(o->access);
    leat_sources_list_free(&o->lacks);
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
        if (!s->leaving && strcmp(s->asked, o->asked) == 0 && leat_access_covered(s->access, o->access) &&
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
    leat_access_free(s->access);
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
    for (size_t i = 0; i < leat_access_count(s->access); i++)
        leat_loop_disarm(s->agent->loop, &s->keys[i].renew);
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
#define REFUSED_S     10  /* until ranks that found none are asked again */
#define IN_VAIN_MAX   9u  /* 1, 2, 4 … 256 s between two questions */

/* On the loop: its ranks look their keys up again. The agent has none of its own. */
static void ask_for_keys(struct leat_supply_keys *k)
{
    struct leat_supply *s = k->supply;
    const char *place = leat_access_name(s->access, (size_t)(k - s->keys));
    if (k->wanted || s->leaving)
        return;
    k->wanted = true;
    leat_log(k->in_vain ? LEAT_LOG_DEBUG : LEAT_LOG_INFO, "the keys for %s of %s expire: asking for new ones", place,
             leat_dataset_home(s->dataset)->url);
    leat_session_ask_keys(s->agent, s, place);
}

static void on_renew(struct leat_timer *timer)
{
    ask_for_keys((struct leat_supply_keys *)((char *)timer - offsetof(struct leat_supply_keys, renew)));
}

/* Keys that are over, or seem to be: where a clock is wrong they may be good for hours, and the one that gives them
 * must not be asked every second for all that time. A store that is refused asks by itself. */
static uint64_t in_vain_s(struct leat_supply_keys *k)
{
    uint64_t pause_s = (uint64_t)1 << (k->in_vain < IN_VAIN_MAX ? k->in_vain : IN_VAIN_MAX - 1);
    if (k->in_vain < IN_VAIN_MAX)
        k->in_vain++;
    return pause_s;
}

static void watch_expiry(struct leat_supply *s, size_t i)
{
    struct leat_supply_keys *k = &s->keys[i];
    uint64_t expires_s = leat_access_expires(s->access, i);
    k->supply = s;
    k->renew.fire = on_renew;
    leat_loop_disarm(s->agent->loop, &k->renew);
    if (!expires_s) {
        k->in_vain = 0;
        return;
    }
    uint64_t now_s = (uint64_t)leat_wall_s();
    uint64_t left_s = expires_s > now_s ? expires_s - now_s : 0;
    uint64_t pause_s =
        left_s > 2 * RENEW_EARLY_S ? left_s - RENEW_EARLY_S : left_s / 2; /* some live for minutes only */
    if (left_s)
        k->in_vain = 0;
    else
        pause_s = in_vain_s(k);
    leat_loop_arm(s->agent->loop, &k->renew, leat_after((pause_s ? pause_s : 1) * LEAT_S));
}

void leat_supply_renew(struct leat_supply *s, const struct leat_access *access)
{
    bool others = false;
    for (size_t i = 0; i < leat_access_count(s->access); i++) {
        enum leat_access_renewal found = leat_access_renew(s->access, i, access);
        if (found == LEAT_ACCESS_NONE)
            continue;
        s->keys[i].wanted = false;
        others |= found == LEAT_ACCESS_OTHERS; /* the same: asked again halfway to their end, or by the store */
        watch_expiry(s, i);
    }
    if (!others)
        return;
    leat_dataset_renew(s->dataset, s->access);
}

static size_t find_place(const struct leat_supply *s, const char *place)
{
    size_t i = 0;
    while (i < leat_access_count(s->access) && strcmp(leat_access_name(s->access, i), place) != 0)
        i++;
    return i;
}

bool leat_supply_refused(struct leat_supply *s, const char *place)
{
    size_t i = find_place(s, place);
    if (i == leat_access_count(s->access))
        return false;
    struct leat_supply_keys *k = &s->keys[i];
    bool first = !k->in_vain;
    uint64_t expires_s = leat_access_expires(s->access, i);
    uint64_t pause_s = in_vain_s(k);
    if (pause_s < REFUSED_S || expires_s > (uint64_t)leat_wall_s())
        pause_s = REFUSED_S; /* as long as the old ones live */
    k->wanted = false;       /* a store that still waits asks again */
    if (expires_s)
        leat_loop_arm(s->agent->loop, &k->renew, leat_after(pause_s * LEAT_S));
    return first;
}

/* The store's thread tells of expired keys; the loop asks for others. */
struct expired {
    struct leat_task task;               /* first member */
    const struct leat_supply_hook *hook; /* names the supply, which may be gone by then */
    struct leat_agent *agent;
    char place[LEAT_ACCESS_PLACE];
};

static void on_expired_here(struct leat_task *task)
{
    struct expired *e = (struct expired *)task;
    for (struct leat_supply *s = e->agent->supplies; s; s = s->next) {
        size_t i = s->hook == e->hook ? find_place(s, e->place) : SIZE_MAX;
        if (s->hook != e->hook || i == leat_access_count(s->access))
            continue;
        s->keys[i].expired_ns = leat_now_ns();
        ask_for_keys(&s->keys[i]);
    }
    free(e);
}

/* While a dataset is being opened its keys were looked up a moment ago: there are no others to wait for. */
static bool on_expired(void *user, const char *place)
{
    struct leat_supply_hook *hook = user;
    if (!atomic_load(&hook->open))
        return false;
    struct expired *e = malloc(sizeof *e);
    if (!e)
        return true; /* it says so again */
    *e = (struct expired){.task.run = on_expired_here, .hook = hook, .agent = hook->agent};
    snprintf(e->place, sizeof e->place, "%s", place);
    leat_loop_post(hook->agent->loop, &e->task);
    return true;
}

const char *leat_supply_wants_keys(const struct leat_supply *s)
{
    for (size_t i = 0; i < leat_access_count(s->access); i++) {
        uint64_t told = s->keys[i].expired_ns;
        if (told && leat_now_ns() - told < 2 * LEAT_S)
            return leat_access_name(s->access, i);
    }
    return NULL;
}

const char *leat_supply_asked_keys(const struct leat_supply *s, uint32_t n)
{
    for (size_t i = 0; i < leat_access_count(s->access); i++) {
        if (s->keys[i].wanted && !n--)
            return leat_access_name(s->access, i);
    }
    return NULL;
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
    o->chunks.user = &s->from;
    leat_status rc = leat_source_open(o->agent->feed, o->dataset, &s->source, err);
    if (rc == LEAT_OK)
        rc = leat_sched_set_open(o->agent->sched, &o->chunks, &s->set, err);
    if (rc != LEAT_OK) {
        leat_source_close(s->source, NULL, NULL);
        free(s);
        return NULL;
    }
    s->place = o->place;
    s->asked = o->asked;
    s->dataset = o->dataset;
    s->largest = o->chunks.largest;
    s->who = leat_roll_dataset(&o->agent->roll, leat_dataset_home(o->dataset)->url);
    s->hook = o->hook;
    memcpy(s->region, o->region, sizeof s->region);
    atomic_store(&s->hook->open, true);
    s->access = o->access;
    s->hedges = !s->access || leat_access_may_hedge(s->access);
    o->place = o->asked = NULL;
    o->dataset = NULL;
    o->hook = NULL;
    o->access = NULL;
    for (size_t i = 0; i < leat_access_count(s->access); i++)
        watch_expiry(s, i);
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
        else if (o->dataset)
            leat_supply_renew(s, o->access); /* proved a moment ago: the youngest are the ones to go on with */
    }
    if (s)
        leat_supply_hold(s);
    if (o->opened)
        o->opened(o->user, s, &o->lacks, &o->err);
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

/* Where a dataset lies, with an address of it, and how it is reached. NULL: no memory. */
static char *place_of(const char *url, const struct leat_access *access)
{
    struct leat_buf b;
    uint8_t digest[LEAT_SHA256_SIZE];
    char hex[2 * LEAT_SHA256_SIZE + 1];
    leat_buf_init(&b, LEAT_WIRE_MAX);
    if (!leat_access_digest(access, digest))
        return NULL;
    leat_hex(digest, sizeof digest, hex);
    leat_buf_printf(&b, "%s\n%s", url, hex);
    return leat_buf_take(&b);
}

/* The bucket or the folder's beginning, with the endpoint: what hangs for one of its datasets hangs for all. */
static char *bucket_of(const char *url, const struct leat_access *access)
{
    struct leat_buf b;
    size_t n = 0;
    for (unsigned slashes = 0; url[n] && (slashes += url[n] == '/') < 3;)
        n++;
    leat_buf_init(&b, LEAT_WIRE_MAX);
    leat_buf_printf(&b, "%.*s", (int)n, url);
    for (size_t i = 0; i < leat_access_count(access); i++) {
        const char *endpoint = leat_access_endpoint(access, i);
        leat_buf_printf(&b, "\n%s", endpoint ? endpoint : "");
    }
    return leat_buf_take(&b);
}

/* *it: the supply that is open already is what the address names now. */
static leat_status compare_known(const struct leat_opening *o, bool *it, struct leat_error *err)
{
    struct leat_pointer now;
    leat_status rc = leat_home_resolve(leat_dataset_home(o->known->dataset), NULL, &now, err);
    if (rc == LEAT_OK)
        *it = is_version(o->known, now.id);
    return rc;
}

/* Keeps of the access what the dataset needs. What that lacks the rank looks for, and asks again. */
static leat_status settle_access(struct leat_opening *o)
{
    struct leat_access *needed = NULL;
    leat_status rc = leat_dataset_access(o->dataset, o->access, &needed, &o->lacks, &o->err);
    if (rc == LEAT_OK && o->lacks.n)
        rc = leat_fail(&o->err, LEAT_DENIED, "the data of %s are in %.200s, but nobody has said how that is reached",
                       leat_dataset_home(o->dataset)->url, o->lacks.urls[0]);
    if (rc != LEAT_OK) {
        leat_access_free(needed);
        return rc;
    }
    leat_access_free(o->access);
    o->access = needed;
    o->place = place_of(leat_dataset_home(o->dataset)->url, o->access);
    return o->place ? LEAT_OK : leat_fail(&o->err, LEAT_NO_MEMORY, "no memory for a dataset");
}

/* On an opener thread. */
static void open_here(struct leat_task *task)
{
    struct leat_opening *o = (struct leat_opening *)task;
    struct leat_store_opts opts = {
        .access = o->access,
        .stop = told_to_stop,
        .stop_user = o->hook,
        .expired = on_expired,
        .expired_user = o->hook,
    };
    bool known = false;
    leat_status rc = o->known ? compare_known(o, &known, &o->err) : LEAT_OK;
    if (rc == LEAT_OK && !known)
        rc = leat_dataset_open(o->request.url, &opts, o->request.id ? o->id : NULL, &o->dataset, &o->err);
    if (rc == LEAT_OK && !known)
        rc = settle_access(o);
    if (rc == LEAT_OK && !known)
        rc = leat_dataset_identify(o->dataset, &o->err);
    leat_error_settle(&o->err, rc);
    if (o->dataset) {
        const struct leat_root *root = leat_dataset_root(o->dataset);
        o->chunks = (struct leat_sched_set_opts){
            .names = leat_dataset_identities(o->dataset), .sizes = root->sizes, .chunks = root->chunks};
        leat_sched_measure(&o->chunks);
        struct leat_store_place at = {0};
        leat_store_place(leat_dataset_home(o->dataset)->store, &at);
        if (at.region_said[0] && strcmp(at.region_said, at.region) != 0)
            memcpy(o->region, at.region, sizeof o->region);
    }
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
    if (rc == LEAT_OK)
        rc = leat_access_read(o->request.access, o->request.access_n, &o->access, err);
    if (rc == LEAT_OK) {
        o->agent = agent;
        o->asked = place_of(o->request.url, o->access);
        o->bucket = bucket_of(o->request.url, o->access);
        o->hook = calloc(1, sizeof *o->hook);
        o->opened = opened;
        o->user = user;
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
