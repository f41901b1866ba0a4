/* A session: one rank's connection. It greets, opens at most one loader, and answers questions about it. Messages
 * are JSON from a process of the same user; what does not fit closes the connection. */
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/loading.h"
#include "base/json.h"
#include "base/log.h"
#include "base/parse.h"
#include "leat/leat.h"

struct leat_session {
    struct leat_watch watch; /* first member */
    struct leat_agent *agent;
    struct leat_session *prev, *next;
    int pid; /* the rank's */
    bool greeted;
    struct leat_opening *opening; /* NULL: no supply is being opened for it */
    json_t *request;
    struct leat_loading *loading;
};

static void session_close(struct leat_session *s)
{
    struct leat_agent *agent = s->agent;
    leat_loop_unwatch(agent->loop, &s->watch);
    close(s->watch.fd);
    if (s->opening)
        leat_supply_abandon(s->opening);
    leat_loading_close(s->loading);
    *(s->prev ? &s->prev->next : &agent->sessions) = s->next;
    if (s->next)
        s->next->prev = s->prev;
    json_decref(s->request);
    free(s);
    leat_agent_session_gone(agent);
    leat_agent_pump(agent); /* its chunks are free for others */
}

/* Takes `message` over. A rank that misses one would wait for it in vain, so a message that cannot be sent (no memory
 * for it, a buffer full of others) ends the connection: the rank notices, and comes again at its cursor. The session
 * closes when the loop sees the end, not here, where others may be using it. */
static leat_status send_message(struct leat_session *s, json_t *message, const int *fds, size_t fds_n)
{
    char *text = leat_json_write(message, JSON_COMPACT);
    struct leat_error err = {0};
    leat_status rc = text ? leat_wire_send(s->watch.fd, text, strlen(text), fds, fds_n, &err)
                          : leat_fail(&err, LEAT_NO_MEMORY, "no memory for a message");
    if (rc != LEAT_OK) {
        if (rc != LEAT_NETWORK)
            leat_log(LEAT_LOG_WARN, "rank of process %d: %s", s->pid, err.text);
        shutdown(s->watch.fd, SHUT_RDWR);
    }
    free(text);
    json_decref(message);
    return rc;
}

static json_t *error_message(const struct leat_error *err)
{
    return json_pack("{s:{s:i,s:s}}", "error", "status", (int)err->status, "text", err->text);
}

static void send_error(struct leat_session *s, const struct leat_error *err)
{
    send_message(s, error_message(err), NULL, 0);
}

static void on_failed(void *user, const struct leat_error *err)
{
    struct leat_session *s = user;
    leat_log(LEAT_LOG_WARN, "loader of process %d failed: %s", s->pid, err->text);
    send_message(s, json_pack("{s:o}", "failed", error_message(err)), NULL, 0);
}

static leat_status on_memory(void *user, uint32_t slot, int fd, struct leat_error *err)
{
    struct leat_session *s = user;
    leat_status rc = send_message(s, json_pack("{s:{s:I}}", "memory", "slot", (json_int_t)slot), &fd, 1);
    if (rc != LEAT_OK)
        return leat_fail(err, rc, "the rank could not be given the memory of a large batch");
    return LEAT_OK;
}

/* Settings of the whole agent: a second loader may leave them out or ask for the same. */
static leat_status check_settings(const struct leat_agent *agent, const json_t *request, struct leat_error *err)
{
    uint64_t ram = (uint64_t)json_integer_value(json_object_get(request, "ram"));
    uint64_t threads = (uint64_t)json_integer_value(json_object_get(request, "threads"));
    char has[LEAT_FORMAT_SIZE];
    char wants[LEAT_FORMAT_SIZE];
    if (ram && ram != agent->opts.ram)
        return leat_fail(
            err, LEAT_INVALID,
            "this machine's agent (pid %d) runs with ram=%s and the loader asks for %s: use the same, leave "
            "it out, or give the loader another scope",
            (int)getpid(), leat_format_size(agent->opts.ram, has), leat_format_size(ram, wants));
    if (threads && threads != agent->opts.threads)
        return leat_fail(err, LEAT_INVALID,
                         "this machine's agent (pid %d) runs with threads=%u and the loader asks for %u: use the same, "
                         "leave it out, or give the loader another scope",
                         (int)getpid(), agent->opts.threads, (unsigned)threads);
    return LEAT_OK;
}

static void on_opened(void *user, const struct leat_error *err)
{
    struct leat_session *s = user;
    if (err->status != LEAT_OK) {
        leat_loading_close(s->loading);
        s->loading = NULL;
        send_error(s, err);
        return;
    }
    int fds[3];
    leat_loading_fds(s->loading, fds);
    send_message(s, json_pack("{s:o}", "opened", leat_loading_describe(s->loading)), fds, 3);
    leat_loading_pump(s->loading);
}

static void on_supply(void *user, struct leat_supply *supply, const struct leat_error *err)
{
    struct leat_session *s = user;
    s->opening = NULL;
    struct leat_error failure = *err;
    if (supply) {
        struct leat_loading_opts opts = {
            .agent = s->agent,
            .supply = supply,
            .request = s->request,
            .opened = on_opened,
            .failed = on_failed,
            .memory = on_memory,
            .user = s,
        };
        if (leat_loading_open(&opts, &s->loading, &failure) == LEAT_OK) {
            leat_loading_pump(s->loading); /* sends for the first chunks */
            return;
        }
    }
    send_error(s, &failure);
}

static void open_loader(struct leat_session *s, json_t *request)
{
    struct leat_error err = {0};
    const char *url = json_string_value(json_object_get(request, "url"));
    leat_status rc = LEAT_OK;
    if (s->loading || s->opening || !url)
        rc = leat_fail(&err, LEAT_INVALID, "a connection opens one loader, of a dataset it names");
    if (rc == LEAT_OK)
        rc = check_settings(s->agent, request, &err);
    if (rc == LEAT_OK) {
        json_decref(s->request);
        s->request = json_incref(request);
        rc = leat_supply_open(s->agent, url, json_object_get(request, "store"), on_supply, s, &s->opening, &err);
    }
    if (rc != LEAT_OK)
        send_error(s, &err);
}

static void greet(struct leat_session *s, const json_t *hello)
{
    struct leat_error err;
    s->pid = (int)json_integer_value(json_object_get(hello, "pid"));
    if (json_integer_value(json_object_get(hello, "protocol")) != LEAT_WIRE_PROTOCOL) {
        const char *version = json_string_value(json_object_get(hello, "version"));
        leat_fail(&err, LEAT_VERSION, "this machine's agent (pid %d) is leat %s and cannot serve leat %.40s",
                  (int)getpid(), leat_version(), version ? version : "?");
        send_error(s, &err);
        return;
    }
    s->greeted = true;
    const struct leat_agent_opts *o = &s->agent->opts;
    send_message(s,
                 json_pack("{s:{s:i,s:s,s:I,s:I,s:I}}", "welcome", "pid", (int)getpid(), "version", leat_version(),
                           "ram", (json_int_t)o->ram, "threads", (json_int_t)o->threads, "linger_ns",
                           (json_int_t)(o->linger_ns & INT64_MAX)),
                 NULL, 0);
}

static json_t *describe_agent(const struct leat_agent *agent)
{
    return json_pack("{s:i,s:s,s:s,s:I,s:I,s:I,s:I,s:s}", "pid", (int)getpid(), "version", leat_version(), "scope",
                     agent->paths.scope, "ram", (json_int_t)agent->opts.ram, "cache_bytes",
                     (json_int_t)leat_cache_used(agent->cache), "threads", (json_int_t)agent->opts.threads, "sessions",
                     (json_int_t)agent->sessions_n, "log", agent->paths.log);
}

/* True: go on; false: this is not a conversation. */
static bool take_message(struct leat_session *s, json_t *m)
{
    json_t *part;
    if ((part = json_object_get(m, "hello"))) {
        greet(s, part);
    } else if (!s->greeted) {
        return false;
    } else if ((part = json_object_get(m, "open"))) {
        open_loader(s, part);
    } else if (json_object_get(m, "stats")) {
        send_message(s, json_pack("{s:o}", "stats", s->loading ? leat_loading_stats(s->loading) : json_object()), NULL,
                     0);
    } else if (json_object_get(m, "describe")) {
        send_message(s, json_pack("{s:o}", "agent", describe_agent(s->agent)), NULL, 0);
    } else if (json_object_get(m, "stop")) {
        send_message(s, json_pack("{s:{}}", "stopping"), NULL, 0);
        kill(getpid(), SIGTERM);
    } else {
        return false;
    }
    return true;
}

static void on_message(struct leat_watch *watch, uint32_t events)
{
    struct leat_session *s = (struct leat_session *)watch;
    char *text = malloc(LEAT_WIRE_MAX + 1);
    bool go_on = text != NULL;
    (void)events;
    while (go_on) {
        int fds[LEAT_WIRE_FDS];
        size_t fds_n = 0;
        size_t n;
        leat_status rc = leat_wire_receive(watch->fd, text, &n, fds, &fds_n, NULL);
        if (rc == LEAT_BUSY)
            break;
        while (rc == LEAT_OK && fds_n)
            close(fds[--fds_n]); /* a rank has no reason to send any */
        json_t *m = NULL;
        go_on = rc == LEAT_OK && leat_json_read(text, n, 0, &m, NULL) == LEAT_OK && take_message(s, m);
        json_decref(m);
    }
    free(text);
    if (!go_on)
        session_close(s);
}

void leat_session_accept(struct leat_agent *agent, int fd)
{
    struct ucred peer;
    socklen_t n = sizeof peer;
    struct leat_session *s = NULL;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0 || peer.uid != geteuid())
        leat_log(LEAT_LOG_WARN, "a process of another user was turned away");
    else
        s = calloc(1, sizeof *s);
    if (!s) {
        close(fd);
        return;
    }
    s->agent = agent;
    s->pid = (int)peer.pid;
    s->watch.fd = fd;
    s->watch.ready = on_message;
    if (leat_loop_watch(agent->loop, &s->watch, EPOLLIN, NULL) != LEAT_OK) {
        close(fd);
        free(s);
        return;
    }
    s->next = agent->sessions;
    if (s->next)
        s->next->prev = s;
    agent->sessions = s;
    agent->sessions_n++;
}

void leat_session_close_all(struct leat_agent *agent)
{
    struct leat_session *next;
    for (struct leat_session *s = agent->sessions; s; s = next) {
        next = s->next;
        session_close(s);
    }
}

void leat_agent_pump(struct leat_agent *agent)
{
    for (struct leat_supply *supply = agent->supplies; supply; supply = supply->next) {
        struct leat_loading *next;
        for (struct leat_loading *l = supply->loadings; l; l = next) {
            next = leat_loading_next(l);
            leat_loading_pump(l);
        }
    }
}
