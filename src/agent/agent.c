#include "agent/agent.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/circle.h"
#include "agent/inheritance.h"
#include "agent/peers.h"
#include "agent/perform.h"
#include "agent/session.h"
#include "agent/share.h"
#include "agent/supply.h"
#include "agent/watch.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/thread.h"

#define RAM_LEAST     (64ull << 20)
#define RAM_SHARE     4 /* a quarter of what there is */
#define OPENERS       8u
#define OPENERS_MAX   128u /* several times what supply.c gives to one bucket */
#define MAKERS        4u
#define SHARE_PART    8u              /* of the memory for chunks: as much again for samples that loaders share */
#define ACCEPT_PAUSE  (100 * LEAT_MS) /* when descriptors run out */
#define NAMES_PAUSE   LEAT_S          /* between two looks whether ranks can still find us */
#define METRICS_PAUSE (5 * LEAT_S)    /* between two attempts at a port that is taken */

static void end(struct leat_agent *a)
{
    pthread_mutex_lock(&a->end.mu);
    a->end.done = true;
    pthread_cond_signal(&a->end.cond);
    pthread_mutex_unlock(&a->end.mu);
}

static void on_linger(struct leat_timer *timer)
{
    struct leat_agent *a = (struct leat_agent *)((char *)timer - offsetof(struct leat_agent, linger));
    if (!a->sessions_n)
        end(a);
}

void leat_agent_session_gone(struct leat_agent *a)
{
    if (--a->sessions_n > 0)
        return;
    a->linger_ns = leat_after(a->opts.linger_ns);
    leat_loop_arm(a->loop, &a->linger, a->linger_ns);
}

void leat_agent_session_watches(struct leat_agent *a)
{
    if (--a->sessions_n == 0)
        leat_loop_arm(a->loop, &a->linger, a->linger_ns);
}

static void on_connection(struct leat_watch *watch, uint32_t events)
{
    struct leat_agent *a = (struct leat_agent *)((char *)watch - offsetof(struct leat_agent, listening));
    (void)events;
    for (;;) {
        int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            leat_loop_disarm(a->loop, &a->linger);
            leat_session_accept(a, fd);
            if (!a->sessions_n)
                leat_loop_arm(a->loop, &a->linger, a->linger_ns);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            leat_log(LEAT_LOG_WARN, "out of file descriptors: a rank has to wait (ulimit -n raises the limit)");
            leat_loop_unwatch(a->loop, watch); /* else the loop would turn without rest */
            leat_loop_arm(a->loop, &a->listen_again, leat_after(ACCEPT_PAUSE));
        }
        return;
    }
}

static void on_listen_again(struct leat_timer *timer)
{
    struct leat_agent *a = (struct leat_agent *)((char *)timer - offsetof(struct leat_agent, listen_again));
    if (leat_loop_watch(a->loop, &a->listening, EPOLLIN, NULL) != LEAT_OK)
        leat_loop_arm(a->loop, timer, leat_after(ACCEPT_PAUSE));
}

/* From now on another agent is the one that ranks find. This one serves those that it has. */
static void retire(struct leat_agent *a)
{
    leat_log(LEAT_LOG_WARN,
             "the files of agent %d were removed and another agent has taken its place: this one ends with its last "
             "loader",
             (int)getpid());
    leat_loop_unwatch(a->loop, &a->listening);
    close(a->listening.fd);
    a->listening.fd = -1;
    leat_loop_disarm(a->loop, &a->listen_again);
    a->opts.linger_ns = 0;
    if (!a->sessions_n)
        end(a);
}

static void on_names_again(struct leat_timer *timer)
{
    struct leat_agent *a = (struct leat_agent *)((char *)timer - offsetof(struct leat_agent, names_again));
    struct leat_error err = {0};
    int fd;
    leat_status rc = leat_names_keep(&a->names, &fd, &err);
    if (rc == LEAT_BUSY) {
        retire(a);
        return;
    }
    if (rc == LEAT_NOT_FOUND) {
        leat_log(LEAT_LOG_WARN, "%s: made it again", err.text);
        on_connection(&a->listening, EPOLLIN); /* who has found the old one is let in */
        leat_loop_unwatch(a->loop, &a->listening);
        close(a->listening.fd);
        a->listening.fd = fd;
        leat_loop_arm(a->loop, &a->listen_again, 0);
    }
    leat_loop_arm(a->loop, timer, leat_after(NAMES_PAUSE));
}

static void on_signal(struct leat_watch *watch, uint32_t events)
{
    struct leat_agent *a = (struct leat_agent *)((char *)watch - offsetof(struct leat_agent, signals));
    struct signalfd_siginfo info;
    (void)events;
    if (read(watch->fd, &info, sizeof info) == sizeof info)
        end(a);
}

static void say(int fd, const char *text)
{
    if (fd < 0)
        return;
    ssize_t ignored = write(fd, text, strlen(text));
    (void)ignored;
    close(fd);
}

/* The folder of the cache on disk: what was said, else the user's own place for such things where a cache was asked
 * for. */
static leat_status find_cache_dir(struct leat_agent *a, struct leat_error *err)
{
    struct leat_agent_opts *o = &a->opts;
    if (!o->cache_dir && o->cache) {
        leat_status rc = leat_disk_default_dir(a->cache_dir, err);
        if (rc != LEAT_OK)
            return leat_fail_context(err, rc,
                                     "cache= asks for a cache on disk, but nothing says where: give cache_dir=");
        o->cache_dir = a->cache_dir;
    }
    if (o->cache_dir && o->cache_dir[0] != '/')
        return leat_fail(err, LEAT_INVALID, "the cache's folder '%.200s' is not an absolute path", o->cache_dir);
    return LEAT_OK;
}

static void fill_in(struct leat_agent_opts *o)
{
    if (!o->ram) {
        o->ram = leat_memory_limit() / RAM_SHARE;
        if (o->ram < RAM_LEAST)
            o->ram = RAM_LEAST;
    }
    if (!o->threads)
        o->threads = leat_cpu_count();
}

static leat_status open_agent(struct leat_agent *a, struct leat_error *err)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    struct leat_wire_paths *paths = &a->names.paths;
    leat_status rc = leat_wire_find(a->opts.scope, paths, err);
    if (rc == LEAT_OK && a->opts.metrics) /* a mistake; a port that is taken is none */
        rc = leat_parse_listen(a->opts.metrics, "metrics", (char[LEAT_LISTEN_ADDRESS]){0}, &(unsigned){0}, err);
    if (rc == LEAT_OK && a->opts.socket)
        rc = leat_wire_at(a->opts.socket, paths->scope, paths, err);
    if (rc == LEAT_OK)
        rc = find_cache_dir(a, err);
    if (rc == LEAT_OK)
        rc = leat_names_lock(&a->names, err);
    if (rc == LEAT_OK)
        rc = leat_loop_open("leat-agent", &a->loop, err);
    if (rc == LEAT_OK)
        rc = leat_trace_open(a->opts.threads, &a->trace, err);
    if (rc == LEAT_OK)
        rc = leat_workers_open(a->opts.threads, a->trace, &a->workers, err);
    if (rc == LEAT_OK)
        rc = leat_share_open(a->opts.ram / SHARE_PART, &a->share, err);
    if (rc == LEAT_OK)
        rc = leat_pool_open_growing("leat-open", OPENERS, OPENERS_MAX, &a->openers, err);
    if (rc == LEAT_OK)
        rc = leat_pool_open("leat-make", MAKERS, &a->makers, err);
    if (rc == LEAT_OK)
        rc = leat_perform_open(a, err);
    if (rc == LEAT_OK)
        rc = leat_names_listen(&a->names, &a->listening.fd, err);
    if (rc == LEAT_OK) {
        a->signals.fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
        if (a->signals.fd < 0)
            rc = leat_fail_errno(err, errno, "cannot wait for signals");
    }
    return rc;
}

/* On the loop: begins to listen. The first rank has the linger time to arrive. */
static void begin(void *arg)
{
    struct leat_agent *a = arg;
    a->listening.ready = on_connection;
    a->signals.ready = on_signal;
    a->linger.fire = on_linger;
    a->listen_again.fire = on_listen_again;
    a->names_again.fire = on_names_again;
    uint64_t first = a->opts.linger_ns > 10 * LEAT_S ? a->opts.linger_ns : 10 * LEAT_S;
    if (leat_loop_watch(a->loop, &a->listening, EPOLLIN, NULL) != LEAT_OK ||
        leat_loop_watch(a->loop, &a->signals, EPOLLIN, NULL) != LEAT_OK)
        end(a);
    a->linger_ns = leat_after(first);
    leat_loop_arm(a->loop, &a->linger, a->linger_ns);
    leat_loop_arm(a->loop, &a->names_again, leat_after(NAMES_PAUSE));
    leat_watch_begin(a);
}

void leat_agent_make(struct leat_agent *a, struct leat_task *task)
{
    if (a->stopping)
        task->run(task);
    else
        leat_pool_add(a->makers, task);
}

void leat_agent_release(struct leat_agent *a, struct leat_task *task)
{
    if (task && a->stopping)
        task->run(task);
    else if (task)
        leat_workers_check(a->workers, task);
}

void leat_agent_free(struct leat_agent *a, struct leat_task *task)
{
    a->freeing.n++;
    leat_agent_make(a, task);
}

void leat_agent_freed(struct leat_agent *a)
{
    if (--a->freeing.n)
        return;
    while (a->freeing.first) {
        struct leat_task *task = a->freeing.first;
        a->freeing.first = task->next;
        leat_agent_make(a, task);
    }
}

void leat_agent_make_after(struct leat_agent *a, struct leat_task *task)
{
    if (!a->freeing.n) {
        leat_agent_make(a, task);
        return;
    }
    task->next = NULL;
    *(a->freeing.first ? a->freeing.last : &a->freeing.first) = task;
    a->freeing.last = &task->next;
}

/* On the loop: no more ranks. */
static void stop(void *arg)
{
    struct leat_agent *a = arg;
    a->stopping = true;
    leat_loop_disarm(a->loop, &a->names_again);
    leat_watch_end(a);
    leat_names_hide(&a->names); /* the name goes first: ranks that come now start another agent */
    leat_loop_unwatch(a->loop, &a->listening);
    leat_loop_unwatch(a->loop, &a->signals);
    leat_session_close_all(a);
    leat_circle_stop(a);
    leat_peers_stop(a);
    leat_supply_stop_all(a);
    leat_loop_disarm(a->loop, &a->linger);
    leat_loop_disarm(a->loop, &a->listen_again);
    leat_loop_disarm(a->loop, &a->pump.again);
    a->pump.ended = true;
}

static void nothing(void *arg)
{
    (void)arg;
}

static void close_agent(struct leat_agent *a)
{
    if (a->loop)
        leat_loop_call(a->loop, stop, a);
    if (a->listening.fd >= 0)
        close(a->listening.fd); /* not while the loop watches it: its number may be somebody else's at once */
    if (a->loop) {
        /* Work under way reads chunks, so it ends before the sources; sources need workers to check what arrives and
         * the loop to be told of it, so those end last. */
        leat_pool_close(a->openers);
        leat_pool_close(a->makers);
        if (a->workers)
            leat_workers_drain(a->workers);
        leat_circle_shut(a);
        leat_peers_shut(a);
        leat_loop_call(a->loop, nothing, NULL); /* what the workers and the doors posted has been run */
        leat_supply_close_all(a);
        leat_loop_call(a->loop, nothing, NULL);
        leat_peers_close(a);
        leat_perform_end(a);
        leat_loop_call(a->loop, nothing, NULL); /* and what the disk posted */
        leat_workers_close(a->workers);
        leat_loop_close(a->loop);
    }
    if (a->signals.fd >= 0)
        close(a->signals.fd);
    leat_perform_close(a);
    leat_share_close(a->share);
    leat_trace_close(a->trace);
    leat_names_drop(&a->names);
    pthread_cond_destroy(&a->end.cond);
    pthread_mutex_destroy(&a->end.mu);
}

/* Metrics. They are for looking on: what keeps them from being served is said, and keeps nobody from training. */

struct metrics_news {
    struct leat_agent *agent;
    const char *url, *problem;
};

/* On the loop. */
static void take_metrics(void *arg)
{
    const struct metrics_news *n = arg;
    snprintf(n->agent->metrics.url, sizeof n->agent->metrics.url, "%s", n->url);
    snprintf(n->agent->metrics.problem, sizeof n->agent->metrics.problem, "%s", n->problem);
}

/* On the main thread. */
static void serve_metrics(struct leat_agent *a)
{
    struct leat_error err = {0};
    char url[LEAT_AGENT_URL] = "";
    char problem[sizeof a->metrics.problem] = "";
    bool first = !a->metrics.again_ns;
    if (!a->opts.metrics || a->metrics.server || leat_left(a->metrics.again_ns))
        return;
    a->metrics.again_ns = leat_after(METRICS_PAUSE);
    if (a->opts.metrics_open(a, a->opts.metrics, url, &a->metrics.server, &err) != LEAT_OK)
        snprintf(problem, sizeof problem, "metrics cannot be served at %.60s, and are tried again every %d s: %.120s",
                 a->opts.metrics, (int)(METRICS_PAUSE / LEAT_S), err.text);
    if (problem[0] && first)
        leat_log(LEAT_LOG_WARN, "%s", problem);
    else if (!problem[0] && !first)
        leat_log(LEAT_LOG_WARN, "metrics are served at %s now", url);
    leat_loop_call(a->loop, take_metrics, &(struct metrics_news){a, url, problem});
}

static void wait_for_end(struct leat_agent *a)
{
    pthread_mutex_lock(&a->end.mu);
    while (!a->end.done) {
        bool retry = a->opts.metrics && !a->metrics.server;
        if (leat_cond_wait(&a->end.cond, &a->end.mu, retry ? a->metrics.again_ns : LEAT_NEVER) || a->end.done)
            continue;
        pthread_mutex_unlock(&a->end.mu);
        serve_metrics(a);
        pthread_mutex_lock(&a->end.mu);
    }
    pthread_mutex_unlock(&a->end.mu);
}

leat_status leat_agent_run(const struct leat_agent_opts *opts, struct leat_error *err)
{
    struct leat_agent a = {.opts = *opts, .names.lock_fd = -1, .listening.fd = -1, .signals.fd = -1};
    pthread_mutex_init(&a.end.mu, NULL);
    leat_cond_init(&a.end.cond);
    if (opts->ready_fd >= 0) /* a rank started it: what a person has given it by hand stays */
        leat_inheritance_shed();
    fill_in(&a.opts);
    leat_status rc = open_agent(&a, err);
    if (rc == LEAT_OK) {
        leat_loop_call(a.loop, begin, &a);
        serve_metrics(&a);
        say(opts->ready_fd, "ok\n");
        leat_log(LEAT_LOG_INFO, "agent %d listens at %s", (int)getpid(), a.names.paths.socket);
        wait_for_end(&a);
        if (a.metrics.server)
            a.opts.metrics_close(a.metrics.server);
    } else {
        char text[sizeof err->text + 16];
        snprintf(text, sizeof text, "%d %s\n", (int)rc, err->text);
        say(opts->ready_fd, rc == LEAT_BUSY ? "busy\n" : text);
    }
    close_agent(&a);
    return rc;
}
