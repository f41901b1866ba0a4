#include "agent/circle.h"

#include <stdlib.h>
#include <string.h>

#include "agent/peers_inside.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/parse.h"
#include "job/etcd.h"
#include "job/roster.h"

#define LINGER_NS (60 * LEAT_S) /* without loaders: validation comes back, ranks start again */
#define TICK_NS   LEAT_S
#define AGAIN_NS  (100 * LEAT_MS) /* for a port that an older membership still has */
#define AWAIT_NS  (60 * LEAT_S)   /* for the loader that a rank has announced */
#define BIND_MAX  100u
#define PARTING   (3 * LEAT_S) /* more than the word takes at most */

#define AWAITED (LEAT_ETCD_SETS + 1) /* one more than may be told: then that is said */

struct awaited {
    uint64_t set, until_ns;
};

struct leat_circle {
    struct leat_agent *agent;
    struct leat_circle *next;
    char *name; /* addresses and prefix: what it is known by */
    struct leat_etcd *etcd;
    uint8_t how[LEAT_SHA256_SIZE]; /* all that was said of it: users, passwords and certificates too */
    char address[LEAT_MEMBERS_ADDRESS];
    struct leat_job *job; /* NULL: not in. Held */
    uint32_t binds;       /* attempts at the door */
    uint32_t loaders;
    uint64_t idle_ns;
    struct leat_timer tick;
    bool pending; /* what was seen could not be followed yet */
    struct awaited awaited[AWAITED];
    uint32_t untold;  /* datasets that are read or announced here, and more than etcd is told of */
    uint64_t told_to; /* … which are those above it */
    char problem[288];
    char crowd[160]; /* the same about `untold`; "": there are none */
};

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for a job");
}

bool leat_circle_is(const char *text)
{
    return strncmp(text, "{\"etcd\"", 7) == 0;
}

const char *leat_circle_problem(const struct leat_circle *c)
{
    return c->problem[0] ? c->problem : c->crowd;
}

static uint64_t set_of(const uint8_t *id)
{
    uint64_t set = 0;
    for (int i = 0; i < 8; i++)
        set = set << 8 | id[i];
    return set;
}

bool leat_circle_has(const struct leat_circle *c, const char *address, const uint8_t *id)
{
    const struct leat_etcd_look *look = leat_etcd_seen(c->etcd);
    const struct leat_etcd_record *r = look ? leat_etcd_find(look, address) : NULL;
    for (uint32_t i = 0; id && r && i < r->sets_n; i++) {
        if (r->sets[i] == set_of(id))
            return true;
    }
    return r && !id;
}

/* What this machine reads */

static bool reads(const struct leat_loading *l, const struct leat_circle *c)
{
    return l->circle == c && l->lane && !l->closing;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint32_t count_readers(const struct leat_circle *c)
{
    uint32_t n = 0;
    for (const struct leat_supply *s = c->agent->supplies; s; s = s->next) {
        for (const struct leat_loading *l = s->loadings; l; l = l->next)
            n += reads(l, c);
    }
    return n;
}

/* Those that loaders read, and those that were announced; each once, in ascending order. */
static uint32_t list_sets(const struct leat_circle *c, uint64_t *sets)
{
    uint32_t all = 0;
    uint32_t n = 0;
    uint64_t now = leat_now_ns();
    for (const struct leat_supply *s = c->agent->supplies; s; s = s->next) {
        for (const struct leat_loading *l = s->loadings; l; l = l->next) {
            if (reads(l, c))
                sets[all++] = set_of(l->id);
        }
    }
    for (uint32_t i = 0; i < AWAITED; i++) {
        if (c->awaited[i].until_ns > now)
            sets[all++] = c->awaited[i].set;
    }
    qsort(sets, all, sizeof *sets, by_value);
    for (uint32_t i = 0; i < all; i++) {
        if (!n || sets[n - 1] != sets[i])
            sets[n++] = sets[i];
    }
    return n;
}

/* Those of the largest numbers are left out: the same ones each time, so that what is shared stays shared. */
static void leave_out(struct leat_circle *c, const uint64_t *sets, uint32_t n)
{
    uint32_t untold = n > LEAT_ETCD_SETS ? n - LEAT_ETCD_SETS : 0;
    c->told_to = untold ? sets[LEAT_ETCD_SETS - 1] : UINT64_MAX;
    c->crowd[0] = '\0';
    if (untold)
        snprintf(c->crowd, sizeof c->crowd,
                 "this machine reads %u datasets in one job, and etcd is told of %u: the others are not shared", n,
                 LEAT_ETCD_SETS);
    if (untold && !c->untold)
        leat_log(LEAT_LOG_WARN, "%s", c->crowd);
    c->untold = untold;
}

/* Without memory for it etcd is told at the next tick. */
static void tell(struct leat_circle *c)
{
    uint64_t *sets = malloc((count_readers(c) + (size_t)AWAITED) * sizeof *sets);
    if (!sets)
        return;
    uint32_t n = list_sets(c, sets);
    leave_out(c, sets, n);
    leat_etcd_tell(c->etcd, sets, n - c->untold);
    free(sets);
}

/* False: this one is not announced, since too many others are. */
static bool await(struct leat_circle *c, uint64_t set)
{
    struct awaited *oldest = &c->awaited[0];
    for (uint32_t i = 0; i < AWAITED; i++) {
        struct awaited *a = &c->awaited[i];
        if (a->set == set && a->until_ns) {
            oldest = a;
            break;
        }
        oldest = a->until_ns < oldest->until_ns ? a : oldest;
    }
    if (oldest->set != set && oldest->until_ns > leat_now_ns())
        return false;
    *oldest = (struct awaited){set, leat_after(AWAIT_NS)};
    tell(c);
    return set <= c->told_to;
}

/* The job: what of it changes, changes in place */

static void lend_job(struct leat_circle *c, struct leat_job *job)
{
    for (struct leat_supply *s = c->agent->supplies; s; s = s->next) {
        for (struct leat_loading *l = s->loadings; l; l = l->next) {
            if (!reads(l, c) || l->job == job)
                continue;
            leat_peers_leave(l->job);
            l->job = job;
            if (job)
                leat_peers_hold(job);
        }
    }
}

/* Another membership has taken its place: who still has the old secrets is told nothing. */
static void end_job(struct leat_circle *c)
{
    struct leat_job *old = c->job;
    if (!old)
        return;
    lend_job(c, NULL);
    old->circle = NULL;
    if (old->door)
        leat_guests_close(old);
    else
        leat_guests_end(old);
    atomic_store_explicit(&old->over, true, memory_order_relaxed);
    c->job = NULL;
    c->binds = 0;
    leat_peers_leave(old);
}

/* False: the port is not free yet. */
static bool bind_again(struct leat_circle *c)
{
    char host[LEAT_LISTEN_ADDRESS];
    char bound[LEAT_MEMBERS_ADDRESS];
    unsigned port;
    struct leat_error err;
    if (leat_parse_listen(c->address, "this machine", host, &port, &err) != LEAT_OK)
        return true; /* the door will say so */
    return leat_peers_bind(c->agent, host, port, bound, &err) == LEAT_OK || ++c->binds > BIND_MAX;
}

static void make_job(struct leat_circle *c, const struct leat_members *seen)
{
    struct leat_members *m;
    struct leat_error err;
    if (!bind_again(c)) {
        leat_loop_arm(c->agent->loop, &c->tick, leat_after(AGAIN_NS));
        return;
    }
    leat_status rc = leat_roster_copy(seen, LEAT_MEMBERS_NODES, &m, &err);
    if (rc == LEAT_OK) {
        m->grows = true;
        rc = leat_peers_make(c->agent, m, leat_roster_find(&m->now, c->address), &c->job, &err);
    }
    if (rc != LEAT_OK) {
        leat_log(LEAT_LOG_WARN, "job '%s': %s", seen->job, err.text);
        return; /* the next tick tries again */
    }
    c->job->circle = c;
    leat_peers_hold(c->job);
}

/* False: not yet. */
static bool take_place(const struct leat_job *j, uint32_t i, const struct leat_member *now)
{
    const struct leat_muster *list = &j->members->now;
    struct leat_peer *p = &j->peers[i];
    struct leat_member *was = &list->nodes[i];
    if (strcmp(was->address, now->address) == 0)
        return true;
    if (p->asking || p->looking)
        return false; /* requests to the one before it end first */
    if (*was->address)
        leat_log(LEAT_LOG_WARN, "machine %u of the job (%s) is gone, and %s has taken its place", i, was->address,
                 now->address);
    else
        leat_log(LEAT_LOG_INFO, "machine %u of the job (%s) has joined", i, now->address);
    leat_peers_forget(p);
    *was = *now;
    return true;
}

static void follow(struct leat_circle *c, const struct leat_members *seen)
{
    struct leat_job *j = c->job;
    struct leat_muster *list = &j->members->now;
    c->pending = false;
    for (; list->n < seen->now.n && list->n < LEAT_MEMBERS_NODES; list->n++) {
        list->nodes[list->n] = (struct leat_member){.ranks = 1};
        j->peers[list->n].job = j;
        j->peers[list->n].node = list->n;
    }
    for (uint32_t i = 0; i < seen->now.n && i < list->n; i++)
        c->pending = !take_place(j, i, &seen->now.nodes[i]) || c->pending;
    uint32_t node = leat_roster_find(list, c->address);
    j->node = node < list->n ? node : j->node;
}

static void on_changed(void *user)
{
    struct leat_circle *c = user;
    const struct leat_members *seen = leat_etcd_seen(c->etcd)->members;
    if (c->job && !leat_members_token_is(c->job->members, seen->token)) {
        leat_log(LEAT_LOG_WARN, "job '%s': generation %llu is over, this machine enters generation %llu", seen->job,
                 (unsigned long long)c->job->members->generation, (unsigned long long)seen->generation);
        end_job(c);
    }
    if (c->job)
        follow(c, seen);
    else
        make_job(c, seen);
    if (!c->job) {
        c->pending = true;
        return;
    }
    lend_job(c, c->job);
    leat_peers_place_all(c->job);
    leat_agent_pump(c->agent);
}

static void on_said(void *user, const char *problem)
{
    struct leat_circle *c = user;
    if (*problem)
        leat_log(LEAT_LOG_WARN, "%s; %s", problem,
                 c->job ? "the machines of the job go on as they are" : "this machine does not share what it fetches");
    else
        leat_log(LEAT_LOG_WARN, "etcd serves again");
    snprintf(c->problem, sizeof c->problem, "%.280s", problem);
}

/* Circles */

static void circle_free(struct leat_circle *c)
{
    leat_loop_disarm(c->agent->loop, &c->tick);
    free(c->name);
    free(c);
}

static void on_gone(void *user)
{
    struct leat_agent *a = user;
    a->circles_leaving--;
}

static void let_go(struct leat_circle *c)
{
    struct leat_agent *a = c->agent;
    struct leat_circle **p = &a->circles;
    while (*p != c)
        p = &(*p)->next;
    *p = c->next;
    end_job(c);
    a->circles_leaving++;
    leat_etcd_close(c->etcd, false, on_gone, a);
    circle_free(c);
}

static void on_tick(struct leat_timer *timer)
{
    struct leat_circle *c = (struct leat_circle *)((char *)timer - offsetof(struct leat_circle, tick));
    if (!c->loaders && leat_now_ns() >= c->idle_ns + LINGER_NS) {
        let_go(c);
        return;
    }
    leat_loop_arm(c->agent->loop, timer, leat_after(TICK_NS));
    tell(c); /* what was announced and did not come is forgotten */
    if (c->pending && leat_etcd_seen(c->etcd))
        on_changed(c);
}

static const char *word(const json_t *j, const char *name)
{
    const char *text = json_string_value(json_object_get(j, name));
    return text && *text ? text : NULL;
}

static leat_status digest(const json_t *j, uint8_t how[LEAT_SHA256_SIZE], struct leat_error *err)
{
    char *text = leat_json_write(j, JSON_COMPACT | JSON_SORT_KEYS);
    if (!text)
        return no_memory(err);
    leat_sha256(text, strlen(text), how);
    explicit_bzero(text, strlen(text));
    free(text);
    return LEAT_OK;
}

static leat_status open_etcd(struct leat_circle *c, const json_t *j, struct leat_error *err)
{
    char job[LEAT_MEMBERS_JOB];
    uint8_t how[LEAT_SHA256_SIZE];
    struct leat_etcd *made;
    struct leat_etcd_opts opts = {.loop = c->agent->loop,
                                  .endpoints = word(j, "hosts"),
                                  .tls = json_is_true(json_object_get(j, "tls")),
                                  .prefix = word(j, "prefix"),
                                  .job = job,
                                  .name = word(j, "user"),
                                  .password = word(j, "password"),
                                  .ca = word(j, "ca"),
                                  .cert = word(j, "cert"),
                                  .key = word(j, "key"),
                                  .self = c->address,
                                  .changed = on_changed,
                                  .said = on_said,
                                  .user = c};
    snprintf(job, sizeof job, "etcd %.70s", opts.prefix);
    leat_status rc = digest(j, how, err);
    if (rc == LEAT_OK)
        rc = leat_etcd_open(&opts, &made, err);
    if (rc != LEAT_OK)
        return rc;
    leat_etcd_close(c->etcd, true, NULL, NULL);
    c->etcd = made;
    memcpy(c->how, how, sizeof how);
    c->problem[0] = '\0';
    return LEAT_OK;
}

/* What keeps this machine out may be what was said first, by who has ended since: a password, a certificate. */
static leat_status open_again(struct leat_circle *c, const json_t *j, struct leat_error *err)
{
    uint8_t how[LEAT_SHA256_SIZE];
    if (!c->problem[0])
        return LEAT_OK;
    leat_status rc = digest(j, how, err);
    if (rc == LEAT_OK && memcmp(how, c->how, sizeof how) != 0) {
        rc = open_etcd(c, j, err);
        tell(c);
    }
    return rc;
}

static leat_status find_address(struct leat_circle *c, const char *address, int port, struct leat_error *err)
{
    if (!address || strlen(address) >= sizeof c->address)
        return leat_fail(err, LEAT_INVALID, "this machine has no address that the others could reach");
    if (port >= 0)
        return leat_peers_bind(c->agent, address, (unsigned)port, c->address, err);
    memcpy(c->address, address, strlen(address) + 1);
    return LEAT_OK;
}

/* `port` -1: the address has it; NULL then: *out is NULL where there is none yet. */
static leat_status find(struct leat_agent *a, const json_t *etcd, const char *address, int port,
                        struct leat_circle **out, struct leat_error *err)
{
    const char *hosts = word(etcd, "hosts");
    const char *prefix = word(etcd, "prefix");
    if (!hosts || !prefix || prefix[0] != '/')
        return leat_fail(err, LEAT_INVALID, "an etcd without an address or a prefix");
    size_t size = strlen(hosts) + strlen(prefix) + 1;
    char *name = malloc(size);
    if (!name)
        return no_memory(err);
    snprintf(name, size, "%s%s", hosts, prefix);
    struct leat_circle *c = a->circles;
    while (c && strcmp(c->name, name) != 0)
        c = c->next;
    if (c) {
        free(name);
        *out = c;
        return port >= 0 ? open_again(c, etcd, err) : LEAT_OK;
    }
    if (!address && port < 0) { /* what its ranks are assigned by is all that this machine has of it */
        free(name);
        *out = NULL;
        return LEAT_OK;
    }
    c = calloc(1, sizeof *c);
    leat_status rc = c ? LEAT_OK : no_memory(err);
    if (rc != LEAT_OK) {
        free(name);
        return rc;
    }
    c->agent = a;
    c->name = name;
    c->tick.fire = on_tick;
    c->idle_ns = leat_now_ns();
    rc = find_address(c, address, port, err);
    if (rc == LEAT_OK)
        rc = open_etcd(c, etcd, err);
    if (rc != LEAT_OK) {
        circle_free(c);
        return rc;
    }
    c->next = a->circles;
    a->circles = c;
    leat_loop_arm(a->loop, &c->tick, leat_after(TICK_NS));
    *out = c;
    return LEAT_OK;
}

/* What ranks say */

static json_t *list_roster(const struct leat_circle *c)
{
    const struct leat_etcd_look *look = leat_etcd_seen(c->etcd);
    json_t *list = json_array();
    for (uint32_t i = 0; list && look && i < look->members->now.n; i++) {
        if (json_array_append_new(list, json_string(look->members->now.nodes[i].address)) < 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

leat_status leat_circle_ask(struct leat_agent *a, const json_t *j, json_t **answer, struct leat_error *err)
{
    const char *set = word(j, "set");
    uint8_t id[8];
    const json_t *wants = json_object_get(j, "wants");
    json_int_t missing = 0;
    json_int_t port = json_integer_value(json_object_get(j, "port"));
    struct leat_circle *c;
    if (!set || !leat_unhex(set, id, sizeof id) || port < 0 || port > 65535)
        return leat_fail(err, LEAT_INVALID, "an etcd without a dataset to share");
    leat_status rc = find(a, json_object_get(j, "etcd"), word(j, "address"), (int)port, &c, err);
    if (rc != LEAT_OK)
        return rc;
    bool told = await(c, set_of(id));
    for (size_t i = 0; i < json_array_size(wants); i++) {
        const char *address = json_string_value(json_array_get(wants, i));
        missing += !address || !leat_circle_has(c, address, id);
    }
    const char *problem = c->problem[0] ? c->problem : !told ? c->crowd : c->job ? c->job->problem : "";
    *answer =
        json_pack("{s:s,s:b,s:I,s:s,s:o}", "address", c->address, "in", c->job && leat_circle_has(c, c->address, id),
                  "missing", missing, "problem", problem, "roster", wants ? list_roster(c) : json_array());
    return *answer ? LEAT_OK : no_memory(err);
}

leat_status leat_circle_join(struct leat_agent *a, const char *text, struct leat_circle **out, struct leat_error *err)
{
    json_t *j;
    struct leat_circle *c;
    leat_status rc = leat_json_read(text, strlen(text), JSON_REJECT_DUPLICATES, &j, NULL);
    if (rc != LEAT_OK)
        return rc == LEAT_NO_MEMORY ? no_memory(err) : leat_fail(err, LEAT_INVALID, "no JSON about a job");
    rc = find(a, json_object_get(j, "etcd"), word(j, "address"), -1, &c, err);
    json_decref(j);
    if (rc != LEAT_OK)
        return rc;
    if (c)
        c->loaders++;
    *out = c;
    return LEAT_OK;
}

void leat_circle_begin(struct leat_loading *l)
{
    struct leat_circle *c = l->circle;
    l->job = c->job;
    if (l->job) {
        leat_peers_hold(l->job);
        leat_peers_place(l);
    }
    tell(c);
}

void leat_circle_leave(struct leat_loading *l)
{
    struct leat_circle *c = l->circle;
    if (!c)
        return;
    l->circle = NULL;
    c->loaders--;
    c->idle_ns = leat_now_ns();
    tell(c);
}

/* Assignment */

static leat_status read_roster(const json_t *j, struct leat_muster *out, struct leat_error *err)
{
    size_t n = json_array_size(j);
    if (!n || n > LEAT_MEMBERS_NODES)
        return leat_fail(err, LEAT_INVALID, "a job has 1 to %u machines", LEAT_MEMBERS_NODES);
    out->nodes = calloc(n, sizeof *out->nodes);
    if (!out->nodes)
        return no_memory(err);
    out->n = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        const char *address = json_string_value(json_array_get(j, i));
        if (!address || strlen(address) >= sizeof out->nodes[i].address)
            return leat_fail(err, LEAT_INVALID, "a machine of a job without an address");
        memcpy(out->nodes[i].address, address, strlen(address) + 1);
        out->nodes[i].ranks = 1;
    }
    return LEAT_OK;
}

static leat_status read_world(const json_t *j, struct leat_muster *out, struct leat_error *err)
{
    char *text = leat_json_write(j, JSON_COMPACT);
    leat_status rc = text ? leat_members_read_nodes(text, strlen(text), &out->nodes, &out->n, err) : no_memory(err);
    free(text);
    return rc;
}

/* Of the text that leat_circle_is(). */
static leat_status assign(const json_t *j, const uint32_t *node_of_rank, uint32_t ranks, uint32_t slots, uint32_t **out,
                          struct leat_error *err)
{
    struct leat_muster list = {0};
    struct leat_muster world = {0};
    uint32_t *table = NULL;
    leat_status rc = read_roster(json_object_get(j, "roster"), &list, err);
    if (rc == LEAT_OK)
        rc = read_world(json_object_get(j, "world"), &world, err);
    if (rc == LEAT_OK)
        rc = leat_members_fit(&world, node_of_rank, ranks, err);
    if (rc == LEAT_OK) {
        table = calloc((size_t)slots + 1, sizeof *table);
        rc = table ? leat_roster_assign(&list, &world, slots, table, err) : no_memory(err);
    }
    free(list.nodes);
    free(world.nodes);
    if (rc == LEAT_OK)
        *out = table;
    else
        free(table);
    return rc;
}

leat_status leat_circle_assign(const char *text, const uint32_t *node_of_rank, uint32_t ranks, uint32_t slots,
                               uint32_t **out, struct leat_error *err)
{
    json_t *j;
    *out = NULL;
    leat_status rc = leat_json_read(text, strlen(text), JSON_REJECT_DUPLICATES, &j, NULL);
    if (rc != LEAT_OK)
        return rc == LEAT_NO_MEMORY ? no_memory(err) : leat_fail(err, LEAT_INVALID, "no JSON about a job");
    if (node_of_rank && json_object_get(j, "world"))
        rc = assign(j, node_of_rank, ranks, slots, out, err);
    json_decref(j);
    return rc;
}

/* The end */

void leat_circle_stop(struct leat_agent *a)
{
    while (a->circles)
        let_go(a->circles);
}

struct parting {
    struct leat_agent *agent;
    bool over;
};

static void look_who_left(void *arg)
{
    struct parting *p = arg;
    p->over = !p->agent->circles_leaving;
}

void leat_circle_shut(struct leat_agent *a)
{
    struct parting p = {.agent = a};
    uint64_t until = leat_after(PARTING);
    for (;;) {
        leat_loop_call(a->loop, look_who_left, &p);
        if (p.over || !leat_left(until))
            return;
        leat_sleep_until(leat_after(2 * LEAT_MS));
    }
}
