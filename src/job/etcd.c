#include "job/etcd.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/hash.h"
#include "job/roster.h"
#include "net/http.h"

#define TTL_S       6u
#define KEEP_NS     (2 * LEAT_S)
#define CALL_NS     (3 * LEAT_S)
#define CONNECT_NS  (2 * LEAT_S)
#define PARTING_NS  (400 * LEAT_MS)
#define PAUSE_FIRST (200 * LEAT_MS) /* after a failure */
#define PAUSE_MOST  (5 * LEAT_S)
#define REST_NS     (20 * LEAT_MS) /* between two looks: many changes come together */
#define LOOK_ANYWAY (30 * LEAT_S)  /* should a watch have fallen silent */
#define TEXT_MAX    (16u << 20)
#define WATCH_MAX   (256u << 10) /* what a watch may say until it is begun again */
#define CONNECTIONS 4u
#define TOKEN_MAX   1024u

enum ask { NOTHING, AUTHENTICATE, GRANT, LOOK, ENTER, KEEP, WATCH, REVOKE };

static const char *const paths[] = {
    [AUTHENTICATE] = "auth/authenticate", [GRANT] = "lease/grant", [LOOK] = "kv/range",      [ENTER] = "kv/txn",
    [KEEP] = "lease/keepalive",           [WATCH] = "watch",       [REVOKE] = "lease/revoke"};

/* A question on its way. */
struct call {
    struct leat_etcd *etcd;
    struct leat_http_call http;
    enum ask ask;  /* NOTHING: it is free */
    uint32_t host; /* which is asked */
    int64_t lease; /* that there was then */
    char url[320];
    char *body;
    char authorization[TOKEN_MAX + 20];
    const char *headers[2];
};

struct leat_etcd {
    struct leat_loop *loop;
    struct leat_http *http;
    char *hosts[LEAT_ETCD_ENDPOINTS];
    uint32_t hosts_n, host; /* which is asked next */
    uint32_t answers;       /* which has answered, while that is looked at */
    bool tls;
    char *prefix, *job, *user_name, *password;
    void (*changed)(void *user);
    void (*said)(void *user, const char *problem);
    void *user;
    void (*gone)(void *user);
    void *gone_user;
    struct call main, keep, watch;
    char *watched;          /* WATCH_MAX bytes */
    size_t heard;           /* of them, in whole lines */
    uint32_t unwatched;     /* watches in a row that etcd has ended without a word of a change */
    struct leat_timer next; /* look, or try again */
    struct leat_timer beat;
    char *token;
    int64_t lease; /* 0: none */
    struct leat_etcd_record self;
    struct leat_etcd_look seen;  /* with this machine in it; members NULL: never */
    struct leat_etcd_look found; /* while it is being changed */
    uint32_t failures;           /* in a row */
    bool told;                   /* that it does not answer */
    bool again;                  /* look once more: something has changed meanwhile */
    bool taken;                  /* another machine has this one's address: it stays out */
    bool closing;
    uint32_t held; /* by calls of its own that are not over */
};

static void look(struct leat_etcd *e);
static void advance(struct leat_etcd *e);
static void begin_watch(struct leat_etcd *e);

static void drop_token(struct leat_etcd *e)
{
    if (e->token)
        explicit_bzero(e->token, strlen(e->token));
    free(e->token);
    e->token = NULL;
}

static void etcd_free(struct leat_etcd *e)
{
    leat_loop_disarm(e->loop, &e->next);
    leat_loop_disarm(e->loop, &e->beat);
    leat_http_close(e->http);
    for (uint32_t i = 0; i < e->hosts_n; i++)
        free(e->hosts[i]);
    if (e->password)
        explicit_bzero(e->password, strlen(e->password));
    drop_token(e);
    free(e->prefix);
    free(e->job);
    free(e->user_name);
    free(e->password);
    free(e->watched);
    free(e->self.sets);
    leat_etcd_look_free(&e->seen);
    leat_etcd_look_free(&e->found);
    free(e);
}

static bool idle(const struct leat_etcd *e)
{
    return !e->main.ask && !e->keep.ask && !e->watch.ask;
}

static void free_if_done(struct leat_etcd *e)
{
    void (*gone)(void *) = e->gone;
    void *user = e->gone_user;
    if (!e->closing || e->held || !idle(e))
        return;
    etcd_free(e);
    if (gone)
        gone(user);
}

static void on_left(struct leat_timer *timer)
{
    free_if_done((struct leat_etcd *)((char *)timer - offsetof(struct leat_etcd, next)));
}

/* From a call of the client's own, which goes on with the client afterwards: on the loop's next turn. */
static void free_later(struct leat_etcd *e)
{
    if (!e->closing || e->held || !idle(e))
        return;
    e->next.fire = on_left;
    leat_loop_arm(e->loop, &e->next, leat_now_ns());
}

/* Asking */

static void on_answer(struct leat_http_call *http);
static void on_watched(struct leat_http_call *http, size_t n);

static void drop_body(struct call *c)
{
    if (c->body)
        explicit_bzero(c->body, strlen(c->body));
    free(c->body);
    c->body = NULL;
}

static void fail(struct leat_etcd *e, const char *why);

/* Takes `body`. NULL: no memory for it, which is tried again as any failure. */
static void ask(struct leat_etcd *e, struct call *c, enum ask what, char *body)
{
    if (!body) {
        fail(e, "no memory for a request");
        return;
    }
    c->etcd = e;
    c->ask = what;
    c->host = e->host;
    c->lease = e->lease;
    c->body = body;
    snprintf(c->url, sizeof c->url, "%s://%s/v3/%s", e->tls ? "https" : "http", e->hosts[e->host], paths[what]);
    c->headers[0] = "Content-Type: application/json";
    snprintf(c->authorization, sizeof c->authorization, "Authorization: %s", e->token ? e->token : "");
    c->headers[1] = c->authorization;
    c->http = (struct leat_http_call){.method = "POST",
                                      .url = c->url,
                                      .headers = c->headers,
                                      .headers_n = e->token && what != AUTHENTICATE ? 2 : 1,
                                      .body = body,
                                      .body_n = strlen(body),
                                      .text_max = TEXT_MAX,
                                      .deadline_ns = what == WATCH ? LEAT_NEVER
                                                                   : leat_after(what == REVOKE ? PARTING_NS : CALL_NS),
                                      .direct = true,
                                      .done = on_answer,
                                      .user = c};
    if (what == WATCH) {
        c->http.into = e->watched;
        c->http.into_n = WATCH_MAX;
        c->http.received = on_watched;
    }
    leat_http_start(e->http, &c->http);
}

static void later(struct leat_etcd *e, uint64_t ns)
{
    if (!e->next.armed || e->next.at_ns > leat_after(ns))
        leat_loop_arm(e->loop, &e->next, leat_after(ns));
}

static uint64_t pause_after(uint32_t failures)
{
    uint64_t pause = PAUSE_FIRST << (failures < 5 ? failures : 5);
    return pause < PAUSE_MOST ? pause : PAUSE_MOST;
}

/* The next endpoint, after a while. What was asked of one that has been left already says nothing of this one. */
static void fail(struct leat_etcd *e, const char *why)
{
    char line[360];
    uint64_t pause = pause_after(e->failures);
    if (e->closing)
        return;
    if (e->answers != e->host) {
        if (!e->main.ask && !e->next.armed)
            later(e, REST_NS);
        return;
    }
    e->failures++;
    if (e->failures > e->hosts_n && !e->told) {
        snprintf(line, sizeof line, "etcd at %.80s: %.200s", e->hosts[e->host], why);
        e->told = true;
        e->said(e->user, line);
    }
    e->host = e->answers = (e->host + 1) % e->hosts_n;
    if (e->watch.ask)
        leat_http_cancel(e->http, &e->watch.http);
    leat_loop_disarm(e->loop, &e->next);
    later(e, e->failures <= e->hosts_n ? REST_NS : pause);
}

/* What came */

static void say_well(struct leat_etcd *e)
{
    e->failures = 0;
    if (e->told)
        e->said(e->user, "");
    e->told = false;
}

/* A machine that is in, with what it has to say. */
static bool is_in(const struct leat_etcd *e, const struct leat_etcd_look *l)
{
    const struct leat_etcd_record *r = leat_etcd_find(l, e->self.address);
    return l->members && r && strcmp(r->id, e->self.id) == 0 && r->sets_n == e->self.sets_n &&
           memcmp(r->sets, e->self.sets, r->sets_n * sizeof *r->sets) == 0 &&
           leat_roster_find(&l->members->now, e->self.address) < l->members->now.n;
}

/* Another agent's record at this one's address: a dead one's, when this one has just come; else there are two. */
static bool is_taken(const struct leat_etcd *e, const struct leat_etcd_look *l)
{
    const struct leat_etcd_record *r = leat_etcd_find(l, e->self.address);
    return e->seen.members && r && strcmp(r->id, e->self.id) != 0;
}

static leat_status write_entry(struct leat_etcd *e, char **body, struct leat_error *err)
{
    const struct leat_etcd_look *l = &e->found;
    const char **alive = calloc((size_t)l->n + 1, sizeof *alive);
    struct leat_members *m = NULL;
    char *text = NULL;
    bool changed = false;
    if (!alive)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the machines of a job");
    for (uint32_t i = 0; i < l->n; i++)
        alive[i] = l->records[i].address;
    struct leat_roster_seen seen = {l->members, alive, l->n};
    leat_status rc = leat_roster_enter(&seen, e->seen.members, e->job, e->self.address, &m, &changed, err);
    free(alive);
    if (rc == LEAT_OK && changed)
        rc = leat_members_write(m, &text, err);
    if (rc == LEAT_OK) {
        *body = leat_etcd_ask_enter(e->prefix, l->members_at, text, changed && !l->n, &e->self, e->lease);
        rc = *body ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for a request");
    }
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
    leat_members_free(m);
    return rc;
}

static void take_look(struct leat_etcd *e, const struct leat_buf *text)
{
    struct leat_error err;
    char *body = NULL;
    leat_etcd_look_free(&e->found);
    if (leat_etcd_read_look(text->data, text->len, e->prefix, &e->found, &err) != LEAT_OK) {
        fail(e, err.text);
        return;
    }
    if (is_taken(e, &e->found)) {
        e->taken = true;
        e->said(e->user, "another machine has joined the job with this one's address: LEAT_JOB_ADDRESS says another");
        return;
    }
    if (!is_in(e, &e->found)) {
        if (!e->lease)
            advance(e);
        else if (write_entry(e, &body, &err) == LEAT_OK)
            ask(e, &e->main, ENTER, body);
        else
            fail(e, err.text);
        return;
    }
    leat_etcd_look_free(&e->seen);
    e->seen = e->found;
    e->found = (struct leat_etcd_look){0};
    e->seen.members->grows = true;
    say_well(e);
    if (!e->watch.ask)
        begin_watch(e);
    later(e, e->again ? REST_NS : LOOK_ANYWAY);
    e->again = false;
    e->changed(e->user);
}

static leat_status take_answer(struct leat_etcd *e, enum ask what, const struct leat_buf *text, struct leat_error *err)
{
    bool good = true;
    leat_status rc = LEAT_OK;
    switch (what) {
    case AUTHENTICATE:
        rc = leat_etcd_read_token(text->data, text->len, &e->token, err);
        if (rc == LEAT_OK && strlen(e->token) > TOKEN_MAX) {
            rc = leat_fail(err, LEAT_LIMIT, "its token is longer than %u bytes", TOKEN_MAX);
            drop_token(e);
        }
        break;
    case GRANT:
        rc = leat_etcd_read_grant(text->data, text->len, &e->lease, err);
        if (rc == LEAT_OK)
            leat_loop_arm(e->loop, &e->beat, leat_after(KEEP_NS));
        break;
    case ENTER:
        rc = leat_etcd_read_entered(text->data, text->len, &good, err);
        break;
    case KEEP:
        rc = leat_etcd_read_kept(text->data, text->len, &good, err);
        if (rc == LEAT_OK && !good)
            e->lease = 0;
        break;
    default:
        break;
    }
    return rc;
}

/* An answer with another code than 200. */
static void take_refusal(struct leat_etcd *e, unsigned code, const struct leat_buf *text)
{
    char said[160];
    char why[200];
    leat_etcd_read_problem(text->data, text->len, said, sizeof said);
    if (strstr(said, "lease not found")) {
        e->lease = 0;
    } else if (code == 401 || strstr(said, "invalid auth token") || strstr(said, "auth store is old")) {
        drop_token(e); /* it is old, or users have changed since */
    }
    snprintf(why, sizeof why, "%s (%u)", *said ? said : "an answer of another kind", code);
    fail(e, why);
}

/* It is begun again with the next look. Where etcd does not answer at all, that one has its time already. */
static void take_watch_end(struct leat_etcd *e, bool began)
{
    if (!e->failures)
        later(e, e->unwatched ? pause_after(e->unwatched - 1) : began ? REST_NS : PAUSE_FIRST);
}

static void take_end(struct leat_etcd *e, enum ask what, const struct leat_http_call *http, const struct leat_buf *text)
{
    struct leat_error err = http->err;
    leat_status rc = http->status;
    if (what == WATCH) {
        take_watch_end(e, http->got > 0);
    } else if (rc == LEAT_OK && http->head.code != 200) {
        take_refusal(e, http->head.code, text);
    } else if (rc == LEAT_OK && what == LOOK) {
        take_look(e, text);
    } else {
        rc = rc == LEAT_OK ? take_answer(e, what, text, &err) : rc;
        if (rc != LEAT_OK && what == KEEP && e->failures < e->hosts_n)
            leat_loop_arm(e->loop, &e->beat, leat_after(PAUSE_FIRST)); /* another may still keep it */
        if (rc != LEAT_OK)
            fail(e, err.text);
        else if (what != KEEP || !e->lease)
            advance(e);
    }
}

static void on_answer(struct leat_http_call *http)
{
    struct call *c = http->user;
    struct leat_etcd *e = c->etcd;
    enum ask what = c->ask;
    bool old = what == KEEP && c->lease != e->lease; /* of a lease that is lost already: it says nothing of the next */
    struct leat_buf text = http->text;               /* the call may be used again for what follows */
    leat_buf_init(&http->text, 0);
    drop_body(c);
    c->ask = NOTHING;
    e->held++;
    e->answers = c->host;
    if (!e->closing && !old)
        take_end(e, what, http, &text);
    e->answers = e->host;
    leat_buf_free(&text);
    e->held--;
    free_later(e);
}

/* What comes next: whatever is missing, then a look. */
static void advance(struct leat_etcd *e)
{
    if (e->main.ask || e->closing || e->taken) {
        e->again = true;
        return;
    }
    leat_loop_disarm(e->loop, &e->next);
    if (e->user_name && !e->token)
        ask(e, &e->main, AUTHENTICATE, leat_etcd_ask_token(e->user_name, e->password ? e->password : ""));
    else if (!e->lease)
        ask(e, &e->main, GRANT, leat_etcd_ask_grant(TTL_S));
    else
        look(e);
}

static void look(struct leat_etcd *e)
{
    ask(e, &e->main, LOOK, leat_etcd_ask_look(e->prefix));
}

static void on_next(struct leat_timer *timer)
{
    advance((struct leat_etcd *)((char *)timer - offsetof(struct leat_etcd, next)));
}

static void on_beat(struct leat_timer *timer)
{
    struct leat_etcd *e = (struct leat_etcd *)((char *)timer - offsetof(struct leat_etcd, beat));
    if (!e->lease || e->closing || e->taken)
        return;
    leat_loop_arm(e->loop, timer, leat_after(KEEP_NS));
    if (!e->keep.ask)
        ask(e, &e->keep, KEEP, leat_etcd_ask_lease(e->lease));
}

/* The first line of a watch says that it has begun; whatever follows is a change, and a look will tell which. Or that
 * it is over, in whichever line: its connection stays open, and nothing comes by it any more. */
static void on_watched(struct leat_http_call *http, size_t n)
{
    struct leat_etcd *e = ((struct call *)http->user)->etcd;
    const char *end;
    bool changed = false;
    bool over = false;
    (void)n;
    while (!over && (end = memchr(e->watched + e->heard, '\n', http->got - e->heard))) {
        const char *line = e->watched + e->heard;
        over = leat_etcd_watch_is_over(line, (size_t)(end - line));
        changed |= e->heard && !over;
        e->heard += (size_t)(end - line) + 1;
    }
    if (e->closing)
        return;
    if (changed) {
        e->unwatched = 0;
        if (e->main.ask)
            e->again = true;
        else
            later(e, REST_NS);
    }
    e->unwatched += over;
    if (over || http->got > WATCH_MAX / 2)
        leat_http_cancel(e->http, http);
}

static void begin_watch(struct leat_etcd *e)
{
    char *body = leat_etcd_ask_watch(e->prefix, e->seen.revision + 1);
    e->heard = 0;
    if (body)
        ask(e, &e->watch, WATCH, body);
    else
        e->again = true; /* there may be memory at the next look */
}

/* Opening and closing */

static leat_status copy_hosts(struct leat_etcd *e, const char *list, struct leat_error *err)
{
    while (*list) {
        size_t n = strcspn(list, ",");
        if (!n || n > 255 || e->hosts_n == LEAT_ETCD_ENDPOINTS)
            return leat_fail(err, LEAT_INVALID,
                             "etcd's addresses are 1 to %u of the form host:2379, with commas between",
                             LEAT_ETCD_ENDPOINTS);
        e->hosts[e->hosts_n] = leat_bytes_text(list, n);
        if (!e->hosts[e->hosts_n])
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for etcd's addresses");
        e->hosts_n++;
        list += n + (list[n] == ',');
    }
    return e->hosts_n ? LEAT_OK : leat_fail(err, LEAT_INVALID, "an etcd without an address");
}

static leat_status copy_text(const char *from, char **to, struct leat_error *err)
{
    *to = from ? strdup(from) : NULL;
    return *to || !from ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for etcd's settings");
}

static leat_status set_self(struct leat_etcd *e, const char *self, struct leat_error *err)
{
    uint8_t random[(LEAT_ETCD_ID - 1) / 2];
    if (!*self || strlen(self) >= sizeof e->self.address)
        return leat_fail(err, LEAT_INVALID, "this machine has no address that the others could reach");
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return leat_fail(err, LEAT_IO, "the system has no random numbers");
    memcpy(e->self.address, self, strlen(self) + 1);
    leat_hex(random, sizeof random, e->self.id);
    return LEAT_OK;
}

leat_status leat_etcd_open(const struct leat_etcd_opts *o, struct leat_etcd **out, struct leat_error *err)
{
    struct leat_etcd *e = calloc(1, sizeof *e);
    if (!e)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for etcd");
    struct leat_http_opts http = {.loop = o->loop,
                                  .ca_bundle = o->ca,
                                  .connections_max = CONNECTIONS,
                                  .connect_timeout_ns = CONNECT_NS,
                                  .cert = o->cert,
                                  .key = o->key};
    e->loop = o->loop;
    e->tls = o->tls;
    e->changed = o->changed;
    e->said = o->said;
    e->user = o->user;
    e->next.fire = on_next;
    e->beat.fire = on_beat;
    leat_status rc = copy_hosts(e, o->endpoints, err);
    if (rc == LEAT_OK)
        rc = copy_text(o->prefix, &e->prefix, err);
    if (rc == LEAT_OK)
        rc = copy_text(o->job, &e->job, err);
    if (rc == LEAT_OK)
        rc = copy_text(o->name, &e->user_name, err);
    if (rc == LEAT_OK)
        rc = copy_text(o->password, &e->password, err);
    if (rc == LEAT_OK)
        rc = set_self(e, o->self, err);
    if (rc == LEAT_OK) {
        e->watched = malloc(WATCH_MAX);
        e->self.sets = calloc(LEAT_ETCD_SETS, sizeof *e->self.sets);
        rc = e->watched && e->self.sets ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for a watch");
    }
    if (rc == LEAT_OK)
        rc = leat_http_open(&http, &e->http, err);
    if (rc != LEAT_OK) {
        etcd_free(e);
        return rc;
    }
    later(e, 0);
    *out = e;
    return LEAT_OK;
}

void leat_etcd_close(struct leat_etcd *e, bool at_once, void (*gone)(void *user), void *user)
{
    if (!e)
        return;
    struct call *const calls[] = {&e->keep, &e->watch, &e->main};
    bool tell = e->lease && !at_once && !e->closing && !e->taken;
    e->gone = gone;
    e->gone_user = user;
    e->closing = true;
    e->held++;
    leat_loop_disarm(e->loop, &e->next);
    leat_loop_disarm(e->loop, &e->beat);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (calls[i]->ask)
            leat_http_cancel(e->http, &calls[i]->http);
    }
    if (tell && !e->main.ask)
        ask(e, &e->main, REVOKE, leat_etcd_ask_lease(e->lease));
    e->held--;
    free_if_done(e);
}

void leat_etcd_tell(struct leat_etcd *e, const uint64_t *sets, uint32_t n)
{
    assert(n <= LEAT_ETCD_SETS);
    if (n == e->self.sets_n && memcmp(e->self.sets, sets, n * sizeof *sets) == 0)
        return;
    memcpy(e->self.sets, sets, n * sizeof *sets);
    e->self.sets_n = n;
    advance(e);
}

const struct leat_etcd_look *leat_etcd_seen(const struct leat_etcd *e)
{
    return e->seen.members ? &e->seen : NULL;
}
