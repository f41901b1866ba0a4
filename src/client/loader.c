/* A rank's loader: takes batches from the ring, and brings the ring back when the agent or the process behind it has
 * changed. The cursor lives here, so that a new agent can go on exactly behind the last batch taken. */
#include "leat/loader.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "client/batch.h"
#include "client/connect.h"
#include "client/opts.h"
#include "client/request.h"

#define TIMEOUT_DEFAULT (600 * LEAT_S)
#define ANSWER_NS       (60 * LEAT_S) /* for a control message */
#define POLL_NS         (100 * LEAT_MS)
#define RELEASE_NS      (10 * LEAT_S) /* how long close() waits for events of batches that are to be released */
#define EVENT_NS        (1 * LEAT_MS) /* between two looks at such events while waiting */
#define REOPENS_MAX     5u            /* in a row without a batch between them */

struct leat_loader {
    struct leat_loader_opts opts; /* pointers in it are not used after open */
    char *scope;
    char *agent;
    json_t *request; /* without a cursor */
    uint64_t timeout_ns;

    pid_t pid; /* the process that opened the connection */
    struct leat_connection connection;
    struct leat_rank_ring *ring;
    struct leat_releases *releases;
    int ready_fd; /* eventfd: the agent has published */
    uint32_t taken;
    struct leat_error failed; /* the agent's last word on this loader; status LEAT_OK: none */

    uint64_t epoch; /* the cursor: behind the last batch taken */
    uint64_t position;
    uint32_t reopens;

    json_t *state; /* the agent's, with epoch and position to be replaced */
    uint64_t units;
    uint64_t batches;
    struct {
        uint64_t batches;
        uint64_t samples;
        uint64_t wait_ns;
        uint64_t restarts; /* agents lost */
    } stats;
};

/* Lets go of agent and ring. In a forked child the descriptors are copies: closing them hurts nobody. */
static void disconnect(struct leat_loader *l)
{
    leat_connection_close(&l->connection);
    if (l->ready_fd >= 0)
        close(l->ready_fd);
    l->ready_fd = -1;
    leat_rank_ring_drop(l->ring);
    l->ring = NULL;
}

static void take_unasked(struct leat_loader *l, const json_t *m, int *fds, size_t fds_n)
{
    const json_t *memory = json_object_get(m, "memory");
    if (memory && fds_n && l->ring)
        leat_rank_ring_memory(l->ring, json_integer_value(json_object_get(memory, "slot")), fds[0]);
    if (json_object_get(m, "failed"))
        leat_connection_check(json_object_get(m, "failed"), &l->failed);
    for (size_t i = 0; i < fds_n; i++)
        close(fds[i]);
}

/* Sends a request and waits for its answer, taking what comes unasked on the way. */
static leat_status ask(struct leat_loader *l, json_t *request, const char *answer_name, uint64_t timeout_ns,
                       json_t **answer, int fds[LEAT_WIRE_FDS], size_t *fds_n, struct leat_error *err)
{
    uint64_t deadline = leat_after(timeout_ns);
    leat_status rc = leat_connection_send(&l->connection, request, err);
    while (rc == LEAT_OK) {
        json_t *m;
        rc = leat_connection_receive(&l->connection, deadline, l->opts.stop, l->opts.stop_user, &m, fds, fds_n, err);
        if (rc != LEAT_OK)
            break;
        rc = leat_connection_check(m, err);
        if (rc == LEAT_OK && json_object_get(m, answer_name)) {
            *answer = m;
            return LEAT_OK;
        }
        take_unasked(l, m, fds, *fds_n);
        json_decref(m);
    }
    return rc;
}

static leat_status take_opened(struct leat_loader *l, const json_t *opened, int *fds, size_t fds_n,
                               struct leat_error *err)
{
    if (fds_n != 3) {
        for (size_t i = 0; i < fds_n; i++)
            close(fds[i]);
        return leat_fail(err, LEAT_VERSION, "the agent's answer has no ring");
    }
    l->ready_fd = fds[1];
    json_t *state = json_object_get(opened, "state");
    leat_status rc = leat_rank_ring_open(fds[0], fds[2], l->releases, &l->ring, err);
    if (rc == LEAT_OK)
        rc = leat_rank_ring_describe(l->ring, state, err);
    if (rc != LEAT_OK)
        return rc;
    json_decref(l->state);
    l->state = json_incref(state);
    l->units = (uint64_t)json_integer_value(json_object_get(opened, "units"));
    l->batches = (uint64_t)json_integer_value(json_object_get(opened, "batches"));
    l->epoch = (uint64_t)json_integer_value(json_object_get(state, "epoch"));
    l->position = (uint64_t)json_integer_value(json_object_get(state, "position"));
    return LEAT_OK;
}

static bool put(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0;
}

/* The request to open this loader at the cursor, or at a state that was given. */
static leat_status make_request(struct leat_loader *l, const char *state, json_t **out, struct leat_error *err)
{
    char mine[LEAT_STATE_SIZE];
    /* The whole state rather than a position: the dataset may have been replaced since. */
    if (!state && l->state) {
        leat_status rc = leat_loader_state(l, mine, err);
        if (rc != LEAT_OK)
            return rc;
        state = mine;
    }
    json_t *request = json_copy(l->request);
    /* a copy may lack what there was no memory for */
    if (!json_equal(request, l->request) || !put(request, "epoch", json_integer((json_int_t)l->epoch)) ||
        (state && !put(request, "state", json_string(state)))) {
        json_decref(request);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a request, or a state that is not UTF-8");
    }
    *out = request;
    return LEAT_OK;
}

/* Connects and opens the loader in the agent, at the cursor or at a state that was given. */
static leat_status open_ring(struct leat_loader *l, const char *state, struct leat_error *err)
{
    int fds[LEAT_WIRE_FDS];
    size_t fds_n = 0;
    json_t *answer = NULL;
    const struct leat_connection *before = &l->connection;
    bool again = before->agent_pid != 0;
    /* A successor runs with what the lost agent ran with: other loaders may have asked for that. */
    struct leat_connect_opts connect = {
        .scope = l->scope,
        .agent = l->agent,
        .ram = again ? before->ram : l->opts.ram,
        .threads = again ? before->threads : l->opts.threads,
        .linger_ns = again               ? before->linger_ns
                     : l->opts.linger_ns ? l->opts.linger_ns
                                         : UINT64_MAX,
        .stop = l->opts.stop,
        .stop_user = l->opts.stop_user,
    };
    disconnect(l);
    l->failed = (struct leat_error){0};
    l->taken = 0;
    l->pid = getpid();
    leat_status rc = leat_releases_own(&l->releases, err);
    if (rc == LEAT_OK)
        rc = leat_connect(&connect, &l->connection, err);
    if (rc != LEAT_OK)
        return rc;
    json_t *request;
    rc = make_request(l, state, &request, err);
    /* The agent gives up on a bucket by itself; it may take as long as a batch may. */
    if (rc == LEAT_OK)
        rc = ask(l, json_pack("{s:o}", "open", request), "opened", l->timeout_ns, &answer, fds, &fds_n, err);
    if (rc == LEAT_TIMEOUT)
        rc = leat_fail(err, LEAT_TIMEOUT,
                       "'%.200s' could not be opened within %.0f s: the agent (pid %d, log %s) waits for it",
                       json_string_value(json_object_get(l->request, "url")), (double)l->timeout_ns / 1e9,
                       l->connection.agent_pid, l->connection.paths.log);
    if (rc == LEAT_OK)
        rc = take_opened(l, json_object_get(answer, "opened"), fds, fds_n, err);
    json_decref(answer);
    if (rc != LEAT_OK)
        disconnect(l);
    return rc;
}

/* Opens again after the agent was lost; tries a few times, since its successor may be lost too. */
static leat_status reopen(struct leat_loader *l, struct leat_error *err)
{
    leat_status rc;
    do {
        if (l->reopens++ >= REOPENS_MAX)
            return leat_fail(err, LEAT_NETWORK, "the agent was lost %u times in a row; its log is %s", REOPENS_MAX,
                             l->connection.paths.log);
        l->stats.restarts++;
        rc = open_ring(l, NULL, err);
    } while (rc == LEAT_NETWORK);
    return rc;
}

static char *copy_or_null(const char *text, bool *failed)
{
    char *copy = text ? strdup(text) : NULL;
    *failed |= text && !copy;
    return copy;
}

leat_status leat_loader_open(const struct leat_loader_opts *opts, struct leat_loader **out, struct leat_error *err)
{
    bool failed = false;
    struct leat_loader *l = calloc(1, sizeof *l);
    if (!l)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a loader");
    l->connection.fd = l->ready_fd = -1;
    leat_status rc = leat_opts_take(opts, &l->opts, err);
    if (rc != LEAT_OK) {
        leat_loader_close(l);
        return rc;
    }
    l->scope = copy_or_null(l->opts.scope, &failed);
    l->agent = copy_or_null(l->opts.agent, &failed);
    l->timeout_ns = l->opts.timeout_ns ? l->opts.timeout_ns : TIMEOUT_DEFAULT;
    l->epoch = l->opts.epoch;
    rc = failed ? leat_fail(err, LEAT_NO_MEMORY, "no memory for a loader")
                : leat_request_make(&l->opts, &l->request, err);
    leat_opts_free_outputs(&l->opts);
    if (rc == LEAT_OK)
        rc = open_ring(l, NULL, err);
    if (rc == LEAT_NETWORK)
        rc = reopen(l, err);
    l->reopens = 0;
    if (rc != LEAT_OK) {
        leat_loader_close(l);
        return rc;
    }
    *out = l;
    return LEAT_OK;
}

void leat_loader_close(struct leat_loader *l)
{
    if (!l)
        return;
    leat_releases_wait(l->releases, leat_after(RELEASE_NS), l->opts.stop, l->opts.stop_user);
    disconnect(l);
    leat_releases_drop(l->releases);
    json_decref(l->request);
    json_decref(l->state);
    free(l->scope);
    free(l->agent);
    free(l);
}

/* Asks the agent what the next batch is waiting for; the text says so. */
static leat_status fail_timeout(struct leat_loader *l, struct leat_error *err)
{
    char *stats = NULL;
    char why[300] = "it does not say";
    if (leat_loader_stats(l, &stats, NULL) == LEAT_OK) {
        json_t *s = NULL;
        leat_json_read(stats, strlen(stats), 0, &s, NULL);
        const char *text = json_string_value(json_object_get(s, "waiting_for"));
        if (text && *text)
            snprintf(why, sizeof why, "%s", text);
        json_decref(s);
        free(stats);
    }
    return leat_fail(err, LEAT_TIMEOUT, "no batch within %.0f s; the agent (pid %d, log %s) waits for: %s",
                     (double)l->timeout_ns / 1e9, l->connection.agent_pid, l->connection.paths.log, why);
}

/* Takes messages that came unasked; LEAT_NETWORK when the agent is gone. */
static leat_status read_messages(struct leat_loader *l, struct leat_error *err)
{
    int fds[LEAT_WIRE_FDS];
    size_t fds_n = 0;
    json_t *m;
    for (;;) {
        leat_status rc = leat_connection_receive(&l->connection, 0, NULL, NULL, &m, fds, &fds_n, err);
        if (rc == LEAT_TIMEOUT)
            return LEAT_OK;
        if (rc != LEAT_OK)
            return rc;
        take_unasked(l, m, fds, fds_n);
        json_decref(m);
    }
}

static bool published(const struct leat_loader *l)
{
    return leat_rank_ring_published(l->ring, l->taken);
}

/* Milliseconds to wait for the agent before something else has to be looked at. */
static int wait_ms(const struct leat_loader *l, uint64_t deadline)
{
    uint64_t most = leat_releases_waiting(l->releases) ? EVENT_NS : POLL_NS;
    uint64_t left = leat_left(deadline);
    return (int)(((left < most ? left : most) + LEAT_MS - 1) / LEAT_MS);
}

/* Why no batch can come, or has not come in time; LEAT_OK: it still may. */
static leat_status why_none(struct leat_loader *l, uint64_t deadline, struct leat_error *err)
{
    uint32_t waiting = leat_releases_waiting(l->releases);
    if (l->failed.status != LEAT_OK) {
        if (err)
            *err = l->failed;
        return l->failed.status;
    }
    if (leat_rank_ring_all_held(l->ring))
        return leat_fail(err, LEAT_LIMIT,
                         "all %u slots of the ring are held by batches that were not released; drop some, copy what "
                         "you keep, or ask for more slots",
                         l->ring->ring.slots);
    if (leat_left(deadline))
        return LEAT_OK;
    if (waiting && leat_rank_ring_held(l->ring) == l->ring->ring.slots)
        return leat_fail(err, LEAT_TIMEOUT,
                         "no batch within %.0f s: all %u slots of the ring are held, and the events after which %u "
                         "batches are to be released have not happened",
                         (double)l->timeout_ns / 1e9, l->ring->ring.slots, waiting);
    return fail_timeout(l, err);
}

static leat_status wait_published(struct leat_loader *l, struct leat_error *err)
{
    uint64_t deadline = leat_after(l->timeout_ns);
    uint64_t ask = leat_after(POLL_NS);
    uint64_t count;
    while (!published(l)) {
        leat_status rc = why_none(l, deadline, err);
        if (rc != LEAT_OK)
            return rc;
        struct pollfd p[] = {{.fd = l->ready_fd, .events = POLLIN}, {.fd = l->connection.fd, .events = POLLIN}};
        int n = poll(p, 2, wait_ms(l, deadline));
        /* Only when nothing came: in Python, asking means waiting for the interpreter. */
        if (n < 0 || (n == 0 && !leat_left(ask))) {
            if (l->opts.stop && l->opts.stop(l->opts.stop_user))
                return leat_fail(err, LEAT_CANCELLED, "interrupted");
            ask = leat_after(POLL_NS);
        }
        if (n > 0 && p[0].revents) {
            ssize_t ignored = read(l->ready_fd, &count, sizeof count);
            (void)ignored;
        }
        if (n > 0 && p[1].revents && !published(l)) {
            rc = read_messages(l, err);
            if (rc != LEAT_OK && !published(l))
                return rc;
        }
        leat_releases_poll(l->releases);
    }
    return LEAT_OK;
}

/* Makes sure the connection is this process's own and the next batch is there. */
static leat_status await_batch(struct leat_loader *l, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    if (l->pid != getpid() || !l->ring) {
        rc = open_ring(l, NULL, err); /* after a fork, or after a failure */
        if (rc == LEAT_NETWORK)
            rc = reopen(l, err);
    }
    while (rc == LEAT_OK && !published(l)) {
        uint64_t began = leat_now_ns();
        atomic_store_explicit(&l->ring->ring.head->waiting_since_ns, began, memory_order_relaxed);
        rc = wait_published(l, err);
        atomic_store_explicit(&l->ring->ring.head->waiting_since_ns, 0, memory_order_relaxed);
        l->stats.wait_ns += leat_now_ns() - began;
        if (rc == LEAT_NETWORK && l->failed.status == LEAT_OK)
            rc = reopen(l, err);
    }
    return rc;
}

/* What the cursor says of the next batch. */
static struct leat_rank_expect expect(const struct leat_loader *l)
{
    uint64_t left = l->position < l->units ? l->units - l->position : 0;
    uint32_t global = l->opts.global_batch;
    return (struct leat_rank_expect){
        .taken = l->taken,
        .epoch = l->epoch,
        .position = l->position + (left < global ? left : global),
        .end = left == 0 || (left < global && l->opts.last == LEAT_LAST_DROP),
        .whole = left >= global || l->opts.last != LEAT_LAST_SHORT,
    };
}

static leat_status take(struct leat_loader *l, struct leat_batch **out, struct leat_error *err)
{
    struct leat_rank_expect next = expect(l);
    leat_status rc = leat_rank_ring_take(l->ring, &next, out, err);
    if (rc == LEAT_BUSY) { /* its memory was sent before it was published */
        read_messages(l, NULL);
        rc = leat_rank_ring_take(l->ring, &next, out, err);
    }
    if (rc == LEAT_BUSY)
        rc = leat_fail(err, LEAT_NO_MEMORY, "the memory of an unusually large batch could not be mapped");
    if (rc != LEAT_OK)
        return rc;
    l->taken++;
    l->epoch = next.end ? next.epoch + 1 : next.epoch;
    l->position = next.end ? 0 : next.position;
    return LEAT_OK;
}

leat_status leat_loader_next(struct leat_loader *l, struct leat_batch **out, struct leat_error *err)
{
    leat_releases_poll(l->releases);
    leat_status rc = await_batch(l, err);
    bool there = rc == LEAT_OK;
    if (there)
        rc = take(l, out, err);
    if (rc != LEAT_OK) {
        if (there || l->failed.status != LEAT_OK || (rc != LEAT_CANCELLED && rc != LEAT_TIMEOUT && rc != LEAT_LIMIT))
            disconnect(l); /* the next call opens it again, at the cursor */
        return rc;
    }
    if (!*out)
        return LEAT_OK;
    l->reopens = 0;
    l->stats.batches++;
    l->stats.samples += leat_batch_samples(*out);
    return LEAT_OK;
}

bool leat_loader_ready(const struct leat_loader *l)
{
    leat_releases_poll(l->releases);
    return l->ring && l->pid == getpid() && published(l);
}

uint64_t leat_loader_batches(const struct leat_loader *l)
{
    return l->batches;
}

uint64_t leat_loader_samples(const struct leat_loader *l)
{
    return l->units;
}

uint64_t leat_loader_epoch(const struct leat_loader *l)
{
    return l->epoch;
}

leat_status leat_loader_set_epoch(struct leat_loader *l, uint64_t epoch, struct leat_error *err)
{
    if (l->epoch == epoch && l->position == 0)
        return LEAT_OK; /* the agent is on its way there already */
    l->epoch = epoch;
    l->position = 0;
    leat_status rc = open_ring(l, NULL, err);
    return rc == LEAT_NETWORK ? reopen(l, err) : rc;
}

leat_status leat_loader_state(struct leat_loader *l, char out[LEAT_STATE_SIZE], struct leat_error *err)
{
    if (!put(l->state, "epoch", json_integer((json_int_t)l->epoch)) ||
        !put(l->state, "position", json_integer((json_int_t)l->position)))
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the loader's state");
    size_t n = json_dumpb(l->state, out, LEAT_STATE_SIZE - 1, JSON_COMPACT);
    if (n == 0 || n >= LEAT_STATE_SIZE)
        return leat_fail(err, LEAT_INTERNAL, "the loader's state does not fit %d bytes", LEAT_STATE_SIZE);
    out[n] = '\0';
    return LEAT_OK;
}

leat_status leat_loader_restore(struct leat_loader *l, const char *state, struct leat_error *err)
{
    leat_status rc = open_ring(l, state, err);
    if (rc == LEAT_NETWORK)
        rc = open_ring(l, state, err);
    return rc;
}

leat_status leat_loader_stats(struct leat_loader *l, char **out, struct leat_error *err)
{
    int fds[LEAT_WIRE_FDS];
    size_t fds_n = 0;
    json_t *answer = NULL;
    /* An agent that is gone has taken its part along; the loader's own is still there. */
    if (l->pid == getpid() && l->connection.fd >= 0) {
        leat_status rc = ask(l, json_pack("{s:{}}", "stats"), "stats", ANSWER_NS, &answer, fds, &fds_n, err);
        if (rc != LEAT_OK && rc != LEAT_NETWORK)
            return rc;
    }
    if (!answer)
        answer = json_pack("{s:{}}", "stats");
    json_t *s = json_object_get(answer, "stats");
    bool good = put(s, "batches", json_integer((json_int_t)l->stats.batches)) &&
                put(s, "samples", json_integer((json_int_t)l->stats.samples)) &&
                put(s, "wait_s", json_real((double)l->stats.wait_ns / 1e9)) &&
                put(s, "agents_lost", json_integer((json_int_t)l->stats.restarts)) &&
                put(s, "agent_pid", json_integer(l->connection.agent_pid)) &&
                put(s, "socket", json_string(l->connection.paths.socket)) &&
                put(s, "log", json_string(l->connection.paths.log));
    *out = good ? leat_json_write(s, JSON_COMPACT) : NULL;
    json_decref(answer);
    return *out ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for statistics");
}
