#include "net/loop.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"

#define EVENTS_MAX 128

struct leat_loop {
    int epoll_fd;
    int wake_fd; /* eventfd: readable when something was posted */
    bool started;
    pthread_t thread;
    struct {
        pthread_mutex_t mu;
        struct leat_task *first;
        struct leat_task **last;
        bool stop;
    } posted; /* hold mu */
    struct {
        struct leat_timer *timers; /* the earliest, root of the heap */
        struct epoll_event events[EVENTS_MAX];
        int events_at; /* events of this round before it have been handled */
        int events_n;
    } own; /* loop thread only */
};

bool leat_loop_inside(const struct leat_loop *loop)
{
    return pthread_equal(pthread_self(), loop->thread);
}

void leat_loop_post(struct leat_loop *loop, struct leat_task *task)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&loop->posted.mu);
    bool first = !loop->posted.first;
    task->next = NULL;
    *loop->posted.last = task;
    loop->posted.last = &task->next;
    pthread_mutex_unlock(&loop->posted.mu);
    /* Only the first of a batch needs to wake the loop; it takes the whole list at once. */
    if (first) {
        ssize_t ignored = write(loop->wake_fd, &one, sizeof one);
        (void)ignored; /* fails only when the counter is full, and then the loop is awake anyway */
    }
}

struct call {
    struct leat_task task;
    void (*fn)(void *arg);
    void *arg;
    pthread_mutex_t mu;
    pthread_cond_t cond;
    bool finished; /* hold mu */
};

static void run_call(struct leat_task *task)
{
    struct call *c = (struct call *)task;
    c->fn(c->arg);
    pthread_mutex_lock(&c->mu);
    c->finished = true;
    pthread_cond_signal(&c->cond);
    pthread_mutex_unlock(&c->mu);
}

void leat_loop_call(struct leat_loop *loop, void (*fn)(void *arg), void *arg)
{
    if (leat_loop_inside(loop)) {
        fn(arg);
        return;
    }
    struct call c = {.task.run = run_call, .fn = fn, .arg = arg};
    pthread_mutex_init(&c.mu, NULL);
    leat_cond_init(&c.cond);
    leat_loop_post(loop, &c.task);
    pthread_mutex_lock(&c.mu);
    while (!c.finished)
        leat_cond_wait(&c.cond, &c.mu, LEAT_NEVER);
    pthread_mutex_unlock(&c.mu);
    pthread_cond_destroy(&c.cond);
    pthread_mutex_destroy(&c.mu);
}

/* Timers are a pairing heap of their own links: a deadline must not depend on memory being left for it. */
static struct leat_timer *join(struct leat_timer *a, struct leat_timer *b)
{
    if (!a || !b)
        return a ? a : b;
    if (b->at_ns < a->at_ns) {
        struct leat_timer *later = a;
        a = b;
        b = later;
    }
    b->prev = a;
    b->next = a->child;
    if (b->next)
        b->next->prev = b;
    a->child = b;
    return a;
}

/* Makes one heap of a list of siblings: pairs from the front, then the pairs from the back. */
static struct leat_timer *join_siblings(struct leat_timer *first)
{
    struct leat_timer *pairs = NULL; /* linked by prev, last pair first */
    while (first) {
        struct leat_timer *a = first;
        struct leat_timer *b = a->next;
        first = b ? b->next : NULL;
        a->next = a->prev = NULL;
        if (b)
            b->next = b->prev = NULL;
        a = join(a, b);
        a->prev = pairs;
        pairs = a;
    }
    struct leat_timer *root = NULL;
    while (pairs) {
        struct leat_timer *before = pairs->prev;
        pairs->prev = NULL;
        root = join(root, pairs);
        pairs = before;
    }
    return root;
}

void leat_loop_arm(struct leat_loop *loop, struct leat_timer *timer, uint64_t at_ns)
{
    leat_loop_disarm(loop, timer);
    timer->at_ns = at_ns;
    timer->armed = true;
    timer->child = timer->next = timer->prev = NULL;
    loop->own.timers = join(loop->own.timers, timer);
}

void leat_loop_disarm(struct leat_loop *loop, struct leat_timer *timer)
{
    if (!timer->armed)
        return;
    struct leat_timer *below = join_siblings(timer->child);
    if (timer == loop->own.timers) {
        loop->own.timers = below;
    } else {
        *(timer->prev->child == timer ? &timer->prev->child : &timer->prev->next) = timer->next;
        if (timer->next)
            timer->next->prev = timer->prev;
        loop->own.timers = join(loop->own.timers, below);
    }
    timer->armed = false;
    timer->child = timer->next = timer->prev = NULL;
}

leat_status leat_loop_watch(struct leat_loop *loop, struct leat_watch *watch, uint32_t events, struct leat_error *err)
{
    struct epoll_event e = {.events = events, .data.ptr = watch};
    int op = watch->on ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    int rc = epoll_ctl(loop->epoll_fd, op, watch->fd, &e);
    if (rc < 0 && op == EPOLL_CTL_MOD && errno == ENOENT) /* closed and reopened behind our back */
        rc = epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, watch->fd, &e);
    if (rc < 0)
        return leat_fail_errno(err, errno, "cannot watch descriptor %d", watch->fd);
    watch->on = true;
    return LEAT_OK;
}

void leat_loop_unwatch(struct leat_loop *loop, struct leat_watch *watch)
{
    if (!watch->on)
        return;
    epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL); /* fails when already closed: fine */
    watch->on = false;
    /* An event of this round may still point at it. */
    for (int i = loop->own.events_at; i < loop->own.events_n; i++) {
        if (loop->own.events[i].data.ptr == watch)
            loop->own.events[i].data.ptr = NULL;
    }
}

static int wait_ms(const struct leat_loop *loop)
{
    if (!loop->own.timers)
        return -1;
    uint64_t left = leat_left(loop->own.timers->at_ns);
    uint64_t ms = left / LEAT_MS + (left % LEAT_MS != 0);
    return ms > 60000 ? 60000 : (int)ms;
}

static void fire_timers(struct leat_loop *loop)
{
    uint64_t now = leat_now_ns();
    while (loop->own.timers && loop->own.timers->at_ns <= now) {
        struct leat_timer *t = loop->own.timers;
        leat_loop_disarm(loop, t);
        t->fire(t);
    }
}

/* Runs what has been posted; false when the loop should end. */
static bool run_posted(struct leat_loop *loop)
{
    uint64_t count;
    ssize_t ignored = read(loop->wake_fd, &count, sizeof count);
    (void)ignored;
    for (;;) {
        pthread_mutex_lock(&loop->posted.mu);
        struct leat_task *t = loop->posted.first;
        bool stop = loop->posted.stop;
        loop->posted.first = NULL;
        loop->posted.last = &loop->posted.first;
        pthread_mutex_unlock(&loop->posted.mu);
        if (!t)
            return !stop;
        while (t) {
            struct leat_task *next = t->next; /* run() may free or repost it */
            t->run(t);
            t = next;
        }
        if (!stop)
            return true; /* what the tasks posted has woken us again; sockets and timers get their turn first */
    }
}

static void *run_loop(void *arg)
{
    struct leat_loop *loop = arg;
    for (bool go = true; go;) {
        int n = epoll_wait(loop->epoll_fd, loop->own.events, EVENTS_MAX, wait_ms(loop));
        loop->own.events_n = n > 0 ? n : 0;
        for (int i = 0; i < loop->own.events_n; i++) {
            struct leat_watch *w = loop->own.events[i].data.ptr;
            loop->own.events_at = i + 1;
            if (w == (void *)loop)
                go = run_posted(loop);
            else if (w)
                w->ready(w, loop->own.events[i].events);
        }
        loop->own.events_at = loop->own.events_n = 0;
        fire_timers(loop);
    }
    return NULL;
}

leat_status leat_loop_open(const char *name, struct leat_loop **out, struct leat_error *err)
{
    struct leat_loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for an event loop");
    leat_status rc = LEAT_OK;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&loop->posted.mu, NULL);
    loop->posted.last = &loop->posted.first;
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = loop};
    if (loop->epoll_fd < 0 || loop->wake_fd < 0 || epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->wake_fd, &e) < 0) {
        rc = leat_fail_errno(err, errno, "cannot make an event loop");
        goto fail;
    }
    rc = leat_thread_start(&loop->thread, name, run_loop, loop, err);
    if (rc != LEAT_OK)
        goto fail;
    loop->started = true;
    *out = loop;
    return LEAT_OK;
fail:
    leat_loop_close(loop);
    return rc;
}

void leat_loop_close(struct leat_loop *loop)
{
    const uint64_t one = 1;
    if (!loop)
        return;
    if (loop->started) {
        pthread_mutex_lock(&loop->posted.mu);
        loop->posted.stop = true;
        pthread_mutex_unlock(&loop->posted.mu);
        ssize_t ignored = write(loop->wake_fd, &one, sizeof one);
        (void)ignored;
        pthread_join(loop->thread, NULL);
    }
    if (loop->epoll_fd >= 0)
        close(loop->epoll_fd);
    if (loop->wake_fd >= 0)
        close(loop->wake_fd);
    pthread_mutex_destroy(&loop->posted.mu);
    free(loop);
}
