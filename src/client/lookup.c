#include "client/lookup.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "client/opening.h"
#include "client/request.h"

/* One question. It has copies of all that it is about, since the loader goes on meanwhile. */
struct leat_lookup {
    struct leat_lookup *next; /* that waits for this one */
    char place[LEAT_ACCESS_PLACE];
    struct leat_request request;
    struct leat_sources_list more;
    struct leat_access *given; /* what the agent has now; NULL: nothing */
    pid_t pid;                 /* whose thread it is */
    pthread_t thread;
    bool running;       /* to be joined */
    bool unwanted;      /* the one who asked is gone */
    atomic_bool stop;   /* read by the thread: relaxed */
    atomic_bool ended;  /* released by the thread when the rest is written, acquired by collect() */
    leat_status status; /* of the answer … */
    struct leat_error err;
    struct leat_access *found;
};

static void lookup_free(struct leat_lookup *q)
{
    if (!q)
        return;
    leat_request_free(&q->request);
    leat_sources_list_free(&q->more);
    leat_access_free(q->given);
    leat_access_free(q->found);
    free(q);
}

static bool told_to_stop(void *user)
{
    return atomic_load_explicit(&((struct leat_lookup *)user)->stop, memory_order_relaxed);
}

/* Other keys than those that the agent has. The process keeps what a service gave it for a moment, for all of its
 * loaders: where that is what the agent finds wanting, it does not count. */
static void find_others(struct leat_lookup *q)
{
    struct leat_request_finding how = {.more = &q->more, .place = q->place, .stop = told_to_stop, .stop_user = q};
    q->status = leat_request_access(&q->request, &how, &q->found, &q->err);
    if (q->status != LEAT_OK || !q->given || !leat_access_covered(q->found, q->given))
        return;
    leat_access_free(q->found);
    q->found = NULL;
    how.fresh = true;
    q->status = leat_request_access(&q->request, &how, &q->found, &q->err);
}

static void *run(void *arg)
{
    struct leat_lookup *q = arg;
    find_others(q);
    atomic_store_explicit(&q->ended, true, memory_order_release);
    return NULL;
}

static leat_status lookup_new(const struct leat_loader *l, const char *place, struct leat_lookup **out,
                              struct leat_error *err)
{
    uint32_t number;
    struct leat_lookup *q = calloc(1, sizeof *q);
    if (!q)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to look up keys");
    snprintf(q->place, sizeof q->place, "%s", place);
    q->pid = getpid();
    leat_status rc = leat_request_copy(&l->request, &q->request, err);
    for (uint32_t i = 0; rc == LEAT_OK && i < l->more.n; i++)
        rc = leat_sources_list_add(&q->more, l->more.urls[i], &number, err);
    if (rc == LEAT_OK && l->given)
        rc = leat_access_copy(l->given, &q->given, err);
    if (rc == LEAT_OK)
        *out = q;
    else
        lookup_free(q);
    return rc;
}

static void forget(struct leat_buf *secret)
{
    if (secret->cap)
        explicit_bzero(secret->data, secret->cap);
    leat_buf_free(secret);
}

static void send_answer(struct leat_loader *l, const char *place, const struct leat_access *found,
                        struct leat_error *err)
{
    struct leat_buf bytes;
    struct leat_buf b;
    leat_buf_init(&bytes, LEAT_ACCESS_BYTES);
    leat_buf_init(&b, LEAT_WIRE_MAX);
    leat_message_begin(&b, LEAT_MESSAGE_KEYS);
    leat_message_text(&b, LEAT_TAG_PLACE, place);
    if (found)
        leat_access_write(found, &bytes);
    if (found && leat_buf_check(&bytes, "what is known of reaching stores", err) == LEAT_OK) {
        leat_message_bytes(&b, LEAT_TAG_ACCESS, bytes.data, bytes.len);
    } else {
        leat_message_number(&b, LEAT_TAG_STATUS, (uint64_t)err->status);
        leat_message_text(&b, LEAT_TAG_TEXT, err->text);
    }
    forget(&bytes);
    leat_connection_send(&l->connection, &b, NULL); /* an agent that is gone is noticed by the one that waits for it */
}

static void answer(struct leat_loader *l, struct leat_lookup *q)
{
    for (size_t i = 0; q->found && l->given && i < leat_access_count(l->given); i++)
        leat_access_renew(l->given, i, q->found);
    send_answer(l, q->place, q->found, &q->err);
}

/* The first of the list begins. Where no thread can be started, it is looked up here. */
static void begin(struct leat_lookup *q)
{
    q->running = leat_thread_start(&q->thread, "leat-keys", run, q, NULL) == LEAT_OK;
    if (!q->running)
        run(q);
}

/* Threads stay with the parent, and what they were writing is theirs. */
static bool is_here(struct leat_loader *l)
{
    if (l->lookup && l->lookup->pid != getpid())
        l->lookup = NULL;
    return l->lookup != NULL;
}

void leat_lookup_ask(struct leat_loader *l, const char *place)
{
    struct leat_error err = {0};
    struct leat_lookup *q = NULL;
    bool idle = !is_here(l);
    struct leat_lookup **last = &l->lookup;
    for (; *last; last = &(*last)->next) {
        if (!(*last)->unwanted && strcmp((*last)->place, place) == 0)
            return; /* one answer is for all of its stores */
    }
    if (lookup_new(l, place, &q, &err) != LEAT_OK) {
        send_answer(l, place, NULL, &err);
        return;
    }
    *last = q;
    if (idle)
        begin(q);
}

void leat_lookup_collect(struct leat_loader *l)
{
    while (is_here(l) && atomic_load_explicit(&l->lookup->ended, memory_order_acquire)) {
        struct leat_lookup *q = l->lookup;
        if (q->running)
            pthread_join(q->thread, NULL);
        if (!q->unwanted)
            answer(l, q);
        l->lookup = q->next;
        lookup_free(q);
        if (l->lookup)
            begin(l->lookup);
    }
}

void leat_lookup_drop(struct leat_loader *l)
{
    if (!is_here(l))
        return;
    struct leat_lookup *rest = l->lookup->next;
    l->lookup->unwanted = true;
    l->lookup->next = NULL;
    atomic_store_explicit(&l->lookup->stop, true, memory_order_relaxed);
    while (rest) {
        struct leat_lookup *q = rest;
        rest = q->next;
        lookup_free(q);
    }
}

void leat_lookup_stop(struct leat_loader *l)
{
    leat_lookup_drop(l);
    if (!is_here(l))
        return;
    if (l->lookup->running)
        pthread_join(l->lookup->thread, NULL); /* soon: it asks several times a second whether to stop */
    lookup_free(l->lookup);
    l->lookup = NULL;
}
