/* A machine's membership, against an etcd that answers as its gateway does and late, with an end or not at all where a
 * test says so. */
#include "job/etcd.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "peer.h"
#include "unit.h"

#define PATIENCE (60 * LEAT_S) /* a wait that is not in vain takes 6 s at most */

/* What the etcd has: the members, and one machine's record under a lease. Hold mu. */
struct box {
    pthread_mutex_t mu;
    json_t *kept[2]; /* the record, the members: {"key", "value", "mod_revision"} as it came; NULL: none */
    int revision;
    int granted;      /* the last lease */
    int bound;        /* lease of the record */
    bool dead[8];     /* leases */
    int kept_lease;   /* that was asked for last */
    unsigned keeps;   /* answered */
    bool hold_keep;   /* answers wait */
    unsigned holding; /* that wait */
    unsigned watches; /* asked */
    unsigned looks;
    unsigned over;          /* of the watches to come, those that are ended */
    bool over_at_once;      /* in the line that says that they have begun; else in the second */
    uint64_t watched_ns[8]; /* when each was asked */
};

static void box_init(struct box *b)
{
    *b = (struct box){.revision = 1};
    pthread_mutex_init(&b->mu, NULL);
}

static void box_free(struct box *b)
{
    json_decref(b->kept[0]);
    json_decref(b->kept[1]);
    pthread_mutex_destroy(&b->mu);
}

/* A lease that has run out, and what was under it. */
static void end_lease(struct box *b, int lease)
{
    pthread_mutex_lock(&b->mu);
    b->dead[lease] = true;
    if (b->bound == lease) {
        json_decref(b->kept[0]);
        b->kept[0] = NULL;
        b->bound = 0;
    }
    b->revision++;
    pthread_mutex_unlock(&b->mu);
}

static int number_in(const json_t *j, const char *name)
{
    const char *text = json_string_value(json_object_get(j, name));
    return text ? (int)strtol(text, NULL, 10) : 0;
}

/* Hold mu. */
static char *answer_txn(struct box *b, const json_t *asked, unsigned *code)
{
    const json_t *first = json_array_get(json_object_get(asked, "compare"), 0);
    const json_t *puts = json_object_get(asked, "success");
    size_t i;
    json_t *one;
    bool good = number_in(first, "mod_revision") == (b->kept[1] ? number_in(b->kept[1], "mod_revision") : 0);
    json_array_foreach (puts, i, one) {
        const json_t *put = json_object_get(one, "request_put");
        int lease = number_in(put, "lease");
        if (lease && b->dead[lease]) {
            *code = 404;
            return strdup("{\"error\":\"etcdserver: requested lease not found\",\"code\":5}");
        }
    }
    b->revision += good;
    json_array_foreach (puts, i, one) {
        const json_t *put = json_object_get(one, "request_put");
        int lease = number_in(put, "lease");
        char revision[16];
        if (!good)
            break;
        snprintf(revision, sizeof revision, "%d", b->revision);
        json_t **to = &b->kept[!lease];
        json_decref(*to);
        *to = json_pack("{s:O,s:O,s:s}", "key", json_object_get(put, "key"), "value", json_object_get(put, "value"),
                        "mod_revision", revision);
        if (lease)
            b->bound = lease;
    }
    return strdup(good ? "{\"header\":{},\"succeeded\":true}" : "{\"header\":{}}");
}

/* Hold mu. */
static char *answer_look(struct box *b)
{
    char revision[16];
    json_t *kvs = json_array();
    snprintf(revision, sizeof revision, "%d", b->revision);
    for (int i = 0; i < 2; i++) {
        if (b->kept[i])
            json_array_append(kvs, b->kept[i]);
    }
    json_t *j = json_pack("{s:{s:s},s:o}", "header", "revision", revision, "kvs", kvs);
    char *text = json_dumps(j, JSON_COMPACT);
    json_decref(j);
    b->looks++;
    return text;
}

static bool is_gone(const struct peer_request *r)
{
    struct pollfd p = {.fd = r->fd, .events = POLLIN};
    return peer_closing(r->peer) || poll(&p, 1, 10) != 0;
}

/* As long as somebody listens. */
static bool serve_watch(struct box *b, const struct peer_request *r)
{
    pthread_mutex_lock(&b->mu);
    int seen = b->revision;
    bool over = b->over > 0;
    bool at_once = b->over_at_once;
    if (b->watches < COUNT(b->watched_ns))
        b->watched_ns[b->watches] = leat_now_ns();
    b->watches++;
    b->over -= over;
    pthread_mutex_unlock(&b->mu);
    peer_say(r, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n");
    peer_say(r, "{\"result\":{\"header\":{},\"created\":true%s}}\n", over && at_once ? ", \"canceled\": true" : "");
    if (over && !at_once)
        peer_say(r, "{\"result\":{\"header\":{},\"canceled\":true,\"compact_revision\":\"9\"}}\n");
    while (!is_gone(r)) {
        pthread_mutex_lock(&b->mu);
        int now = b->revision;
        pthread_mutex_unlock(&b->mu);
        if (now != seen && !over)
            peer_say(r, "{\"result\":{\"header\":{},\"events\":[{}]}}\n");
        seen = now;
    }
    return false;
}

/* Hold mu; it is let go while the answer waits. */
static char *answer_keep(struct box *b, const json_t *asked, const struct peer_request *r)
{
    char text[80];
    int lease = number_in(asked, "ID");
    b->kept_lease = lease;
    b->holding++;
    while (b->hold_keep && !peer_closing(r->peer)) {
        pthread_mutex_unlock(&b->mu);
        usleep(2000);
        pthread_mutex_lock(&b->mu);
    }
    b->holding--;
    b->keeps++;
    snprintf(text, sizeof text, "{\"result\":{\"ID\":\"%d\"%s}}\n", lease, b->dead[lease] ? "" : ",\"TTL\":\"6\"");
    return strdup(text);
}

static bool serve(struct peer_request *r, void *user)
{
    struct box *b = user;
    unsigned code = 200;
    char *text = NULL;
    json_t *asked = NULL;
    if (strcmp(r->target, "/v3/watch") == 0)
        return serve_watch(b, r);
    leat_json_read(r->body, r->body_n, 0, &asked, NULL);
    pthread_mutex_lock(&b->mu);
    if (strcmp(r->target, "/v3/lease/grant") == 0) {
        text = malloc(40);
        snprintf(text, 40, "{\"ID\":\"%d\",\"TTL\":\"6\"}", ++b->granted);
    } else if (strcmp(r->target, "/v3/kv/range") == 0) {
        text = answer_look(b);
    } else if (strcmp(r->target, "/v3/kv/txn") == 0) {
        text = answer_txn(b, asked, &code);
    } else if (strcmp(r->target, "/v3/lease/keepalive") == 0) {
        text = answer_keep(b, asked, r);
    }
    pthread_mutex_unlock(&b->mu);
    json_decref(asked);
    bool good = peer_answer(r, code, text ? text : "{}");
    free(text);
    return good;
}

/* A machine that is in it. */
struct machine {
    struct leat_loop *loop;
    struct leat_etcd *etcd;
    struct leat_etcd_opts opts;
    atomic_uint changes;
    atomic_bool gone;
};

static void on_changed(void *user)
{
    ((struct machine *)user)->changes++;
}

static void on_said(void *user, const char *problem)
{
    (void)user;
    (void)problem;
}

static void on_gone(void *user)
{
    ((struct machine *)user)->gone = true;
}

static void begin(void *user)
{
    struct machine *m = user;
    struct leat_error err;
    assert_ok(leat_etcd_open(&m->opts, &m->etcd, &err), err);
}

static void end(void *user)
{
    struct machine *m = user;
    leat_etcd_close(m->etcd, true, on_gone, m);
}

static void join(struct machine *m, const char *endpoints)
{
    struct leat_error err;
    *m = (struct machine){.opts = {.endpoints = endpoints,
                                   .prefix = "/leat/run",
                                   .job = "run",
                                   .self = "10.0.0.1:7700",
                                   .changed = on_changed,
                                   .said = on_said,
                                   .user = m}};
    assert_ok(leat_loop_open("test-etcd", &m->loop, &err), err);
    m->opts.loop = m->loop;
    leat_loop_call(m->loop, begin, m);
}

static void leave(struct machine *m)
{
    leat_loop_call(m->loop, end, m);
    while (!m->gone)
        usleep(1000);
    leat_loop_close(m->loop);
}

#define WAIT_FOR(box, condition)                                                                                       \
    do {                                                                                                               \
        uint64_t wait_until_ns = leat_after(PATIENCE);                                                                 \
        pthread_mutex_lock(&(box)->mu);                                                                                \
        while (!(condition)) {                                                                                         \
            pthread_mutex_unlock(&(box)->mu);                                                                          \
            if (!leat_left(wait_until_ns))                                                                             \
                fail_msg("not within a minute: %s", #condition);                                                       \
            usleep(2000);                                                                                              \
            pthread_mutex_lock(&(box)->mu);                                                                            \
        }                                                                                                              \
        pthread_mutex_unlock(&(box)->mu);                                                                              \
    } while (0)

static void set(struct box *b, bool *flag, bool value)
{
    pthread_mutex_lock(&b->mu);
    *flag = value;
    pthread_mutex_unlock(&b->mu);
}

/* The old one ran out while it was asked for; by the time etcd says so there is another. */
TEST(what_is_said_late_of_an_old_lease_does_not_end_the_new_one)
{
    struct box b;
    struct machine m;
    box_init(&b);
    struct peer *peer = peer_open(serve, &b);
    join(&m, peer_url(peer) + strlen("http://"));
    WAIT_FOR(&b, b.bound == 1 && b.watches == 1);
    set(&b, &b.hold_keep, true);
    WAIT_FOR(&b, b.holding == 1);
    end_lease(&b, 1);
    WAIT_FOR(&b, b.bound == 2 && m.changes >= 2);
    set(&b, &b.hold_keep, false);
    WAIT_FOR(&b, b.kept_lease > 1);
    assert_int_equal(b.kept_lease, 2);
    assert_int_equal(b.granted, 2);
    leave(&m);
    peer_close(peer);
    box_free(&b);
}

static void check_ended_watch(bool at_once)
{
    struct box b;
    struct machine m;
    box_init(&b);
    b.over = 3;
    b.over_at_once = at_once;
    struct peer *peer = peer_open(serve, &b);
    join(&m, peer_url(peer) + strlen("http://"));
    WAIT_FOR(&b, b.watches == 4);
    assert_true(b.watched_ns[3] - b.watched_ns[0] > 700 * LEAT_MS); /* 200, 400, 800 ms, less what the first was late */
    unsigned before = m.changes;
    end_lease(&b, 1);
    WAIT_FOR(&b, b.bound == 2 && m.changes > before);
    leave(&m);
    peer_close(peer);
    box_free(&b);
}

/* Its connection stays open, as etcd's does. */
TEST(a_watch_that_etcd_ends_is_begun_again_less_and_less_often)
{
    check_ended_watch(true);
    check_ended_watch(false);
}

/* One of etcd's addresses. */
struct way {
    struct box *box;
    atomic_bool down;
    atomic_uint asked;
};

static bool serve_way(struct peer_request *r, void *user)
{
    struct way *w = user;
    w->asked++;
    return !w->down && serve(r, w->box);
}

TEST(an_address_that_no_longer_answers_is_left_and_the_lease_kept_at_the_next)
{
    struct box b;
    struct machine m;
    struct way ways[2] = {{.box = &b}, {.box = &b}};
    struct peer *peers[2];
    char both[128];
    box_init(&b);
    for (int i = 0; i < 2; i++)
        peers[i] = peer_open(serve_way, &ways[i]);
    snprintf(both, sizeof both, "%s,%s", peer_url(peers[0]) + strlen("http://"),
             peer_url(peers[1]) + strlen("http://"));
    join(&m, both);
    WAIT_FOR(&b, b.watches == 1 && b.keeps == 1);
    assert_int_equal(ways[1].asked, 0);
    ways[0].down = true;
    WAIT_FOR(&b, b.watches == 2 && b.keeps >= 2);
    ways[0].down = false;
    ways[1].down = true; /* and back */
    WAIT_FOR(&b, b.watches == 3 && b.keeps >= 3);
    assert_int_equal(b.granted, 1);
    leave(&m);
    for (int i = 0; i < 2; i++)
        peer_close(peers[i]);
    box_free(&b);
}
