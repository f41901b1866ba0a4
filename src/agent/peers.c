/* The jobs of an agent: who is asked, and what is known of them. Serving is in guests.c. */
#include "agent/peers.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/blend.h"
#include "agent/circle.h"
#include "agent/inside.h"
#include "agent/peers_inside.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/parse.h"
#include "net/cert.h"

#define LINGER_NS   (60 * LEAT_S) /* of a job without loaders: validation comes back, ranks start again */
#define TICK_NS     LEAT_S
#define BOUND_NS    (120 * LEAT_S) /* for a port that was bound and nobody uses */
#define CONNECT_NS  (2 * LEAT_S)
#define INACTIVE_NS (3 * LEAT_S)
#define REQUEST_NS  (15 * LEAT_S)
#define CONNECTIONS 32u /* to each machine: one that falls silent fails all that are on their way at once */
#define ALIVE       "/alive"
#define NOT_FROM_HERE                                                                                                  \
    "; it has never been reached: where it is behind NAT or a firewall, LEAT_JOB_ADDRESS there says how it can be"

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for a job");
}

const struct leat_members *leat_peers_members(const struct leat_job *j)
{
    return j->members;
}

/* Ports that were bound and wait for their membership. */

static void forget_bound(struct leat_agent *a, struct leat_bound *b)
{
    struct leat_bound **p = &a->bound;
    while (*p != b)
        p = &(*p)->next;
    *p = b->next;
    leat_loop_disarm(a->loop, &b->timer);
    free(b);
}

static void on_bound_old(struct leat_timer *timer)
{
    struct leat_bound *b = (struct leat_bound *)((char *)timer - offsetof(struct leat_bound, timer));
    close(b->fd);
    forget_bound(b->agent, b);
}

/* Once, however often it is asked for while nobody uses it. */
leat_status leat_peers_bind(struct leat_agent *a, const char *address, unsigned port, char out[LEAT_MEMBERS_ADDRESS],
                            struct leat_error *err)
{
    char text[LEAT_MEMBERS_ADDRESS];
    snprintf(text, sizeof text, strchr(address, ':') ? "[%s]:%u" : "%s:%u", address, port);
    for (const struct leat_bound *old = a->bound; old; old = old->next) {
        if (strcmp(old->address, text) != 0)
            continue;
        memcpy(out, text, sizeof text);
        return LEAT_OK;
    }
    struct leat_bound *b = calloc(1, sizeof *b);
    if (!b)
        return no_memory(err);
    leat_status rc = leat_door_bind(address, &port, &b->fd, err);
    if (rc != LEAT_OK) {
        free(b);
        return rc;
    }
    snprintf(b->address, sizeof b->address, strchr(address, ':') ? "[%s]:%u" : "%s:%u", address, port);
    b->agent = a;
    b->timer.fire = on_bound_old;
    b->next = a->bound;
    a->bound = b;
    leat_loop_arm(a->loop, &b->timer, leat_after(BOUND_NS));
    memcpy(out, b->address, sizeof b->address);
    return LEAT_OK;
}

/* The socket of an address that was bound before, or bound now: by an agent that took another's place. */
static leat_status take_bound(struct leat_agent *a, const char *address, int *fd, struct leat_error *err)
{
    char host[LEAT_LISTEN_ADDRESS];
    unsigned port;
    for (struct leat_bound *b = a->bound; b; b = b->next) {
        if (strcmp(b->address, address) != 0)
            continue;
        *fd = b->fd;
        forget_bound(a, b);
        return LEAT_OK;
    }
    leat_status rc = leat_parse_listen(address, "the job's address of this machine", host, &port, err);
    return rc == LEAT_OK ? leat_door_bind(host, &port, fd, err) : rc;
}

/* Jobs */

/* False: requests are left without an answer, and what they need stays for good. Not on the loop. */
static bool close_door(struct leat_job *j)
{
    if (!j->stuck && !leat_door_close(j->door, 0)) {
        j->stuck = true;
        leat_log(LEAT_LOG_WARN, "requests of other machines of job '%s' were not answered in time; they are left",
                 j->members->job);
    }
    j->door = NULL;
    return !j->stuck;
}

static void job_free(struct leat_job *j)
{
    if (!close_door(j))
        return;
    for (uint32_t i = 0; j->peers && i < j->members->now.n; i++)
        leat_store_close(j->peers[i].store);
    free(j->peers);
    leat_members_free(j->members);
    free(j);
}

static void unlist(struct leat_job *j)
{
    struct leat_job **p = &j->agent->jobs;
    while (*p != j)
        p = &(*p)->next;
    *p = j->next;
    leat_loop_disarm(j->agent->loop, &j->tick);
}

/* On an opener's thread: closing waits for connections and stores. */
static void nothing(void *arg)
{
    (void)arg;
}

static void free_there(struct leat_task *task)
{
    struct leat_job *j = (struct leat_job *)((char *)task - offsetof(struct leat_job, task));
    close_door(j);
    leat_loop_call(j->agent->loop, nothing, NULL); /* what the door posted last has been run */
    job_free(j);
}

static void let_go(struct leat_job *j)
{
    unlist(j);
    atomic_store_explicit(&j->over, true, memory_order_relaxed);
    leat_guests_end(j);
    j->task.run = free_there;
    leat_pool_add(j->agent->openers, &j->task);
}

static void look_at_lost(struct leat_job *j);

static void on_tick(struct leat_timer *timer)
{
    struct leat_job *j = (struct leat_job *)((char *)timer - offsetof(struct leat_job, tick));
    if (!j->users && !j->guests_n && leat_now_ns() >= j->idle_ns + LINGER_NS && !j->agent->stopping) {
        let_go(j);
        return;
    }
    look_at_lost(j);
    leat_loop_arm(j->agent->loop, timer, leat_after(TICK_NS));
}

void leat_peers_hold(struct leat_job *j)
{
    j->users++;
}

void leat_peers_leave(struct leat_job *j)
{
    if (j && !--j->users)
        j->idle_ns = leat_now_ns();
}

/* On any of the door's threads. */
static bool known(void *user, const char *token)
{
    const struct leat_job *j = user;
    return !atomic_load_explicit(&j->over, memory_order_relaxed) && leat_members_token_is(j->members, token);
}

static leat_status open_door(struct leat_job *j, struct leat_error *err)
{
    const char *address = j->members->now.nodes[j->node].address;
    int fd;
    struct leat_door_opts opts = {.cert_pem = j->members->cert_pem,
                                  .key_pem = j->members->key_pem,
                                  .known = known,
                                  .asked = leat_guests_asked,
                                  .user = j};
    if (!*address)
        return leat_fail(err, LEAT_INVALID, "this machine has no address that the others could reach");
    leat_status rc = take_bound(j->agent, address, &fd, err);
    if (rc != LEAT_OK)
        return rc;
    rc = leat_door_open(&opts, fd, &j->door, err);
    if (rc != LEAT_OK)
        close(fd);
    return rc;
}

/* Newer members of the same job: what the older ones are told is no longer served here, and they are not asked. */
static void end_older(struct leat_agent *a, const struct leat_job *young)
{
    for (struct leat_job *j = a->jobs; j; j = j->next) {
        if (j == young || !*j->members->job || strcmp(j->members->job, young->members->job) != 0 ||
            j->members->generation >= young->members->generation)
            continue;
        atomic_store_explicit(&j->over, true, memory_order_relaxed);
        leat_guests_end(j);
    }
}

/* The youngest membership of a job's name that was seen here; NULL: none. */
static const struct leat_members *last_of(const struct leat_agent *a, const char *name)
{
    const struct leat_members *last = NULL;
    for (const struct leat_job *j = a->jobs; j && *name; j = j->next) {
        if (strcmp(j->members->job, name) == 0 && (!last || last->generation < j->members->generation))
            last = j->members;
    }
    return last;
}

leat_status leat_peers_make(struct leat_agent *a, struct leat_members *m, uint32_t node, struct leat_job **out,
                            struct leat_error *err)
{
    struct leat_job *j = calloc(1, sizeof *j);
    if (!j) {
        leat_members_free(m);
        return no_memory(err);
    }
    struct leat_error why = {0};
    j->agent = a;
    j->members = m;
    j->node = node;
    j->tick.fire = on_tick;
    j->idle_ns = leat_now_ns();
    j->peers = calloc(m->grows ? LEAT_MEMBERS_NODES : (size_t)m->now.n + 1, sizeof *j->peers);
    leat_status rc = j->peers ? leat_cert_pin(m->cert_pem, j->pin, err) : no_memory(err);
    if (rc != LEAT_OK) {
        job_free(j);
        return rc;
    }
    for (uint32_t i = 0; i < m->now.n; i++) {
        j->peers[i].job = j;
        j->peers[i].node = i;
    }
    const struct leat_members *last = m->grows ? NULL : last_of(a, m->job); /* else etcd knows */
    if (last && last->generation >= m->generation) {                        /* who comes back reads from the bucket */
        atomic_store_explicit(&j->over, true, memory_order_relaxed);
        snprintf(j->problem, sizeof j->problem,
                 "generation %llu of job '%s' is over: generation %llu has taken its place on this machine",
                 (unsigned long long)m->generation, m->job, (unsigned long long)last->generation);
        leat_log(LEAT_LOG_WARN, "%s", j->problem);
    } else if (open_door(j, &why) != LEAT_OK) {
        snprintf(j->problem, sizeof j->problem, "this machine serves no chunks to the others of its job: %.200s",
                 why.text);
        leat_log(LEAT_LOG_WARN, "%s", j->problem);
    } else {
        leat_log(LEAT_LOG_INFO, "job '%s', generation %llu: machine %u of %u serves at %s", m->job,
                 (unsigned long long)m->generation, node, m->now.n, m->now.nodes[node].address);
    }
    j->next = a->jobs;
    a->jobs = j;
    end_older(a, j);
    leat_loop_arm(a->loop, &j->tick, leat_after(TICK_NS));
    *out = j;
    return LEAT_OK;
}

/* A zone for each machine: those of others are never asked, and own nothing here. No list: all are of one. */
static void part_zones(struct leat_job *j, const json_t *zones)
{
    const char *here = json_string_value(json_array_get(zones, j->node));
    for (uint32_t i = 0; here && i < j->members->now.n; i++) {
        const char *there = json_string_value(json_array_get(zones, i));
        j->peers[i].apart = !there || strcmp(here, there) != 0;
    }
}

bool leat_peers_apart(const struct leat_peer *p)
{
    return p->apart || !p->job->members->now.nodes[p->node].address[0];
}

leat_status leat_peers_join(struct leat_agent *a, const char *text, uint32_t node, struct leat_job **out,
                            struct leat_error *err)
{
    struct leat_members *m;
    leat_status rc = leat_members_read(text, strlen(text), &m, err);
    if (rc != LEAT_OK)
        return rc;
    for (struct leat_job *j = a->jobs; j; j = j->next) {
        if (!leat_members_token_is(j->members, m->token))
            continue;
        rc = j->node == node
                 ? LEAT_OK
                 : leat_fail(err, LEAT_INVALID, "this machine is both node %u and node %u of its job", j->node, node);
        leat_members_free(m);
        if (rc == LEAT_OK)
            *out = j;
        return rc;
    }
    if (node >= m->now.n) {
        rc = leat_fail(err, LEAT_INVALID, "node %u of a job of %u machines", node, m->now.n);
        leat_members_free(m);
        return rc;
    }
    json_t *j;
    rc = leat_json_read(text, strlen(text), JSON_REJECT_DUPLICATES, &j, NULL);
    if (rc != LEAT_OK) {
        leat_members_free(m);
        return no_memory(err);
    }
    rc = leat_peers_make(a, m, node, out, err);
    if (rc == LEAT_OK)
        part_zones(*out, json_object_get(j, "zones"));
    json_decref(j);
    return rc;
}

/* Who owns what */

void leat_peers_find_lost(const struct leat_job *j, const uint8_t *id, bool *lost)
{
    for (uint32_t i = 0; i < j->members->now.n; i++)
        lost[i] = i != j->node && (j->peers[i].health.lost || leat_peers_apart(&j->peers[i]) ||
                                   (j->circle && !leat_circle_has(j->circle, j->members->now.nodes[i].address, id)));
}

void leat_peers_place(struct leat_loading *l)
{
    const struct leat_job *j = l->job;
    uint32_t slots = leat_cursor_slots(l->cursor);
    bool *lost = calloc((size_t)j->members->now.n + 1, sizeof *lost);
    uint32_t *table = calloc((size_t)slots + 1, sizeof *table);
    struct leat_error err;
    if (lost)
        leat_peers_find_lost(j, l->id, lost);
    /* Without memory the old table serves as well: it costs requests, and nothing else. */
    if (lost && table && leat_members_place(j->members, lost, slots, table, &err) == LEAT_OK)
        leat_cursor_own(l->cursor, table, j->node);
    free(lost);
    free(table);
}

void leat_peers_place_all(const struct leat_job *j)
{
    for (struct leat_supply *s = j->agent->supplies; s; s = s->next) {
        for (struct leat_loading *l = s->loadings; l; l = l->next) {
            if (l->job == j && l->lane)
                leat_peers_place(l);
        }
    }
}

/* Asking */

static leat_status open_store(struct leat_peer *p, struct leat_error *err)
{
    const struct leat_job *j = p->job;
    char text[LEAT_MEMBERS_ADDRESS + 16];
    struct leat_url url;
    struct leat_store_opts opts = {.connections = CONNECTIONS,
                                   .attempts = 1,
                                   .timeout_ns = REQUEST_NS,
                                   .inactivity_ns = INACTIVE_NS,
                                   .connect_timeout_ns = CONNECT_NS,
                                   .bearer = j->members->token,
                                   .pin = j->pin};
    snprintf(text, sizeof text, "https://%s/", j->members->now.nodes[p->node].address);
    leat_status rc = leat_url_parse(text, &url, err);
    if (rc == LEAT_OK) {
        rc = leat_store_open(&url, &opts, &p->store, err);
        leat_url_free(&url);
    }
    return rc;
}

/* On an opener's thread: closing waits. */
struct closing {
    struct leat_task task; /* first member */
    struct leat_store *store;
};

static void close_store(struct leat_task *task)
{
    leat_store_close(((struct closing *)task)->store);
    free(task);
}

void leat_peers_forget(struct leat_peer *p)
{
    struct leat_agent *a = p->job->agent;
    struct leat_store *store = p->store;
    struct closing *c = store ? calloc(1, sizeof *c) : NULL;
    *p = (struct leat_peer){.job = p->job, .node = p->node};
    if (c) {
        c->task.run = close_store;
        c->store = store;
        leat_pool_add(a->openers, &c->task);
    } else {
        leat_store_close(store); /* rather the loop waits than that it stays for ever */
    }
}

static bool can_ask(struct leat_peer *p)
{
    struct leat_error err;
    const struct leat_job *j = p->job;
    if (leat_peers_apart(p) || atomic_load_explicit(&j->over, memory_order_relaxed))
        return false;
    return p->store || open_store(p, &err) == LEAT_OK;
}

/* It says that it is there, and has never answered. */
static bool unreachable(const struct leat_peer *p, const struct leat_error *err)
{
    return !p->chunks && !p->without && (err->status == LEAT_TIMEOUT || err->status == LEAT_NETWORK);
}

void leat_peers_judge(struct leat_peer *p, const struct leat_error *err)
{
    struct leat_job *j = p->job;
    const char *address = j->members->now.nodes[p->node].address;
    bool lied = err && err->status == LEAT_CORRUPT;
    bool first = !p->health.failures;
    bool changed = err ? leat_health_ill(&p->health, lied, leat_now_ns()) : leat_health_well(&p->health);
    p->failed += err != NULL;
    p->lied += lied;
    if (err)
        snprintf(p->why, sizeof p->why, "%.200s", err->text);
    if (lied)
        leat_log(LEAT_LOG_WARN, "machine %u of the job (%s) has sent wrong bytes and is set aside: %s", p->node,
                 address, err->text);
    else if (err && first)
        leat_log(LEAT_LOG_WARN, "machine %u of the job (%s) does not serve: %s; the bucket is used instead%s", p->node,
                 address, err->text, unreachable(p, err) ? NOT_FROM_HERE : "");
    else if (changed && !err)
        leat_log(LEAT_LOG_WARN, "machine %u of the job (%s) serves again", p->node, address);
    if (!changed)
        return;
    leat_peers_place_all(j);
    leat_agent_pump(j->agent);
}

static const struct leat_loading *reader_of(const struct leat_from *from)
{
    const struct leat_supply *s = from->supply ? from->supply : from->blend->supplies[0];
    for (const struct leat_loading *l = s->loadings; l; l = l->next) {
        if (l->job && l->lane && l->opts.blend == from->blend)
            return l;
    }
    return NULL;
}

bool leat_peers_choose(const struct leat_supply *s, uint32_t own_number, const struct leat_from *from, uint32_t number,
                       struct leat_feed_peer *out)
{
    const struct leat_loading *l = s->agent->jobs ? reader_of(from) : NULL;
    char id[2 * LEAT_SHA256_SIZE + 1];
    char name[2 * LEAT_SHA256_SIZE + 1];
    if (!l)
        return false;
    uint32_t owner = leat_cursor_owner(l->cursor, number);
    struct leat_peer *p = owner != l->job->node ? &l->job->peers[owner] : NULL;
    if (!p || !leat_health_good(&p->health, leat_now_ns()) || !can_ask(p))
        return false;
    leat_hex(leat_dataset_id(s->dataset), LEAT_SHA256_SIZE, id);
    leat_hex(leat_root_chunk_name(leat_dataset_root(s->dataset), own_number), LEAT_SHA256_SIZE, name);
    snprintf(out->key, sizeof out->key, LEAT_PEERS_CHUNK "%s/%u/%s", id, own_number, name);
    snprintf(out->recipe, sizeof out->recipe, LEAT_PEERS_RECIPE "%s/%u/%s", id, own_number, name);
    out->store = p->store;
    out->late_ns = leat_late_begin(p, s, leat_dataset_root(s->dataset)->sizes[own_number]);
    out->who = p;
    p->asking++;
    leat_peers_hold(l->job);
    return true;
}

void leat_peers_asked(void *user, void *who, const struct leat_error *err, uint64_t bytes, uint64_t ns)
{
    struct leat_peer *p = who;
    struct leat_job *j = p->job;
    (void)user;
    p->asking--;
    if (!err) {
        p->chunks++;
        p->bytes += bytes;
        p->ns += ns;
        leat_late_took(p, bytes, ns);
    } else if (err->status == LEAT_NOT_FOUND) {
        p->without++;
    }
    if (!err || (err->status != LEAT_NOT_FOUND && err->status != LEAT_CANCELLED && err->status != LEAT_NO_MEMORY))
        leat_peers_judge(p, err);
    leat_peers_leave(j);
}

/* A lost machine is asked now and then whether it is there again: nobody else would, since others own what it had. */

static void take_look(struct leat_task *task)
{
    struct leat_peer *p = (struct leat_peer *)((char *)task - offsetof(struct leat_peer, task));
    p->looking = false;
    if (p->op.status != LEAT_CANCELLED)
        leat_peers_judge(p, p->op.status == LEAT_OK ? NULL : &p->err);
    leat_peers_leave(p->job);
}

/* On the store's thread. */
static void looked(struct leat_store_op *op)
{
    struct leat_peer *p = op->user;
    p->task.run = take_look;
    leat_loop_post(p->job->agent->loop, &p->task);
}

static void look_at_lost(struct leat_job *j)
{
    for (uint32_t i = 0; i < j->members->now.n; i++) {
        struct leat_peer *p = &j->peers[i];
        if (p->looking || !leat_health_due(&p->health, leat_now_ns()) || !can_ask(p))
            continue;
        p->looking = true;
        leat_peers_hold(j);
        p->op = (struct leat_store_op){.verb = LEAT_STORE_GET,
                                       .key = ALIVE,
                                       .length = sizeof p->answer,
                                       .into = p->answer,
                                       .err = &p->err,
                                       .done = looked,
                                       .user = p};
        leat_store_submit(p->store, &p->op);
    }
}

/* What ranks say */

static leat_status answer_with(json_t *j, char **answer, struct leat_error *err)
{
    *answer = leat_json_write(j, JSON_COMPACT);
    json_decref(j);
    return *answer ? LEAT_OK : no_memory(err);
}

static leat_status ask_card(struct leat_agent *a, const json_t *j, char **answer, struct leat_error *err)
{
    const char *address = json_string_value(json_object_get(j, "address"));
    json_int_t port = json_integer_value(json_object_get(j, "port"));
    char bound[LEAT_MEMBERS_ADDRESS];
    if (!address || strlen(address) > 45 || port < 0 || port > 65535)
        return leat_fail(err, LEAT_INVALID, "a card without an address");
    for (struct leat_job *old = a->jobs, *next; port && old; old = next) { /* a port that was said is used again */
        next = old->next;
        if (!old->users && old->door)
            leat_guests_close(old);
    }
    leat_status rc = leat_peers_bind(a, address, (unsigned)port, bound, err);
    return rc == LEAT_OK ? answer_with(json_pack("{s:s}", "address", bound), answer, err) : rc;
}

static leat_status ask_make(struct leat_agent *a, const json_t *j, char **answer, struct leat_error *err)
{
    const char *name = json_string_value(json_object_get(j, "job"));
    json_int_t room = json_integer_value(json_object_get(j, "room"));
    struct leat_member *nodes;
    struct leat_members *m;
    uint32_t n;
    char *list = leat_json_write(json_object_get(j, "nodes"), JSON_COMPACT);
    if (!list || !name || room < 0 || room > LEAT_MEMBERS_TEXT) {
        free(list);
        return leat_fail(err, LEAT_INVALID, "a job without a name or machines");
    }
    leat_status rc = leat_members_read_nodes(list, strlen(list), &nodes, &n, err);
    free(list);
    if (rc != LEAT_OK)
        return rc;
    rc = leat_members_make(name, nodes, n, last_of(a, name), &m, err);
    free(nodes);
    if (rc != LEAT_OK)
        return rc;
    rc = leat_members_write_beside(m, (uint32_t)room, answer, err);
    leat_members_free(m);
    return rc;
}

static leat_status ask_join(struct leat_agent *a, const json_t *j, char **answer, struct leat_error *err)
{
    json_int_t node = json_integer_value(json_object_get(j, "node"));
    char *text = leat_json_write(json_object_get(j, "members"), JSON_COMPACT);
    struct leat_job *job;
    if (!text || node < 0 || node > LEAT_MEMBERS_NODES) {
        free(text);
        return leat_fail(err, LEAT_INVALID, "a job without members");
    }
    leat_status rc = leat_peers_join(a, text, (uint32_t)node, &job, err);
    free(text);
    return rc == LEAT_OK ? answer_with(json_pack("{s:s}", "problem", job->problem), answer, err) : rc;
}

static leat_status ask_etcd(struct leat_agent *a, const json_t *j, char **answer, struct leat_error *err)
{
    json_t *said;
    leat_status rc = leat_circle_ask(a, j, &said, err);
    return rc == LEAT_OK ? answer_with(said, answer, err) : rc;
}

leat_status leat_peers_ask(struct leat_agent *a, const char *text, char **answer, struct leat_error *err)
{
    json_t *j;
    leat_status rc = leat_json_read(text, strlen(text), JSON_REJECT_DUPLICATES, &j, NULL);
    if (rc != LEAT_OK)
        return rc == LEAT_NO_MEMORY ? no_memory(err) : leat_fail(err, LEAT_INVALID, "no JSON about a job");
    const char *ask = json_string_value(json_object_get(j, "ask"));
    if (ask && strcmp(ask, "card") == 0)
        rc = ask_card(a, j, answer, err);
    else if (ask && strcmp(ask, "make") == 0)
        rc = ask_make(a, j, answer, err);
    else if (ask && strcmp(ask, "join") == 0)
        rc = ask_join(a, j, answer, err);
    else if (ask && strcmp(ask, "etcd") == 0)
        rc = ask_etcd(a, j, answer, err);
    else
        rc = leat_fail(err, LEAT_INVALID, "an unknown question about a job");
    json_decref(j);
    return rc;
}

/* The end */

void leat_peers_stop(struct leat_agent *a)
{
    for (struct leat_job *j = a->jobs; j; j = j->next) {
        leat_loop_disarm(a->loop, &j->tick);
        atomic_store_explicit(&j->over, true, memory_order_relaxed);
        leat_guests_end(j);
    }
    leat_loop_disarm(a->loop, &a->late);
    leat_cache_memory_free(&a->lent.spare);
    while (a->bound) {
        close(a->bound->fd);
        forget_bound(a, a->bound);
    }
}

void leat_peers_shut(struct leat_agent *a)
{
    for (struct leat_job *j = a->jobs; j; j = j->next) {
        close_door(j);
    }
}

void leat_peers_close(struct leat_agent *a)
{
    while (a->jobs) {
        struct leat_job *j = a->jobs;
        a->jobs = j->next;
        job_free(j);
    }
}
