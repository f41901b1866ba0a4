/* A rank's loader: takes batches from the ring, and brings the ring back when the agent or the process behind it has
 * changed. The cursor lives here, so that a new agent can go on exactly behind the last batch taken. */
#include "leat/loader.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "client/connect.h"
#include "client/request.h"
#include "ring/ring.h"

#define TIMEOUT_DEFAULT (600 * LEAT_S)
#define ANSWER_NS       (60 * LEAT_S) /* for a control message */
#define POLL_NS         (100 * LEAT_MS)
#define REOPENS_MAX     5u /* in a row without a batch between them */

/* A ring as the rank sees it; lives until the loader and all its batches have let go of it. */
struct ring_ref {
    _Atomic uint32_t refs;
    pid_t pid; /* of the process that opened it; its forks see the same memory but own no slot */
    struct leat_ring ring;
    int release_fd; /* eventfd: tells the agent that a slot is free */
    struct {
        void *data;
        uint64_t bytes;
    } external[LEAT_RING_SLOTS_MAX][LEAT_RING_COLUMNS_MAX]; /* arenas with memory of their own */
};

struct leat_batch {
    struct ring_ref *ref;
    uint32_t slot;
};

struct leat_loader {
    struct leat_loader_opts opts; /* pointers in it are not used after open */
    char *scope;
    char *agent;
    json_t *request; /* without a cursor */
    uint64_t timeout_ns;

    pid_t pid; /* the process that opened the connection */
    struct leat_connection connection;
    struct ring_ref *ref;
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

static void ref_drop(struct ring_ref *ref)
{
    if (!ref || atomic_fetch_sub_explicit(&ref->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t s = 0; s < LEAT_RING_SLOTS_MAX; s++) {
        for (uint32_t c = 0; c < LEAT_RING_COLUMNS_MAX; c++) {
            if (ref->external[s][c].data)
                munmap(ref->external[s][c].data, (size_t)ref->external[s][c].bytes);
        }
    }
    if (ref->release_fd >= 0)
        close(ref->release_fd);
    leat_ring_close(&ref->ring);
    free(ref);
}

static void drop_external(struct ring_ref *ref, uint32_t slot, uint32_t column)
{
    if (ref->external[slot][column].data)
        munmap(ref->external[slot][column].data, (size_t)ref->external[slot][column].bytes);
    ref->external[slot][column].data = NULL;
}

static void free_slot(struct ring_ref *ref, uint32_t slot)
{
    const uint64_t one = 1;
    if (ref->pid != getpid())
        return; /* a batch inherited over a fork is still its parent's */
    /* Release: all our reads of the slot come before the agent's writes; partner: the agent's acquire. */
    atomic_store_explicit(&leat_ring_slot(&ref->ring, slot)->state, LEAT_SLOT_FREE, memory_order_release);
    ssize_t ignored = write(ref->release_fd, &one, sizeof one);
    (void)ignored;
}

void leat_batch_release(struct leat_batch *batch)
{
    if (!batch)
        return;
    for (uint32_t c = 0; c < batch->ref->ring.columns; c++)
        drop_external(batch->ref, batch->slot, c);
    free_slot(batch->ref, batch->slot);
    ref_drop(batch->ref);
    free(batch);
}

/* Lets go of agent and ring. In a forked child the descriptors are copies: closing them hurts nobody. */
static void disconnect(struct leat_loader *l)
{
    leat_connection_close(&l->connection);
    if (l->ready_fd >= 0)
        close(l->ready_fd);
    l->ready_fd = -1;
    ref_drop(l->ref);
    l->ref = NULL;
}

/* Memory of its own for one arena: maps it where the slot's taker will look. */
static void take_memory(struct leat_loader *l, const json_t *m, int fd)
{
    json_int_t slot = json_integer_value(json_object_get(m, "slot"));
    json_int_t column = json_integer_value(json_object_get(m, "column"));
    struct stat st;
    if (slot < 0 || slot >= LEAT_RING_SLOTS_MAX || column < 0 || column >= LEAT_RING_COLUMNS_MAX || !l->ref ||
        fstat(fd, &st) < 0 || st.st_size <= 0)
        return;
    /* Writable as the rest of a batch is: whoever may change it in place there expects to here. */
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return; /* the taker finds it missing and says so */
    drop_external(l->ref, (uint32_t)slot, (uint32_t)column);
    l->ref->external[slot][column].data = map;
    l->ref->external[slot][column].bytes = (uint64_t)st.st_size;
}

static void take_unasked(struct leat_loader *l, const json_t *m, int *fds, size_t fds_n)
{
    const json_t *memory = json_object_get(m, "memory");
    if (memory && fds_n)
        take_memory(l, memory, fds[0]);
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
    struct ring_ref *ref = calloc(1, sizeof *ref);
    if (!ref) {
        close(fds[0]);
        close(fds[2]);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a ring");
    }
    atomic_init(&ref->refs, 1);
    ref->pid = l->pid;
    ref->ring.fd = -1;
    ref->release_fd = fds[2];
    l->ref = ref;
    leat_status rc = leat_ring_attach(fds[0], &ref->ring, err);
    if (rc != LEAT_OK)
        return rc;
    json_t *state = json_object_get(opened, "state");
    json_decref(l->state);
    l->state = json_incref(state);
    l->units = (uint64_t)json_integer_value(json_object_get(opened, "units"));
    l->batches = (uint64_t)json_integer_value(json_object_get(opened, "batches"));
    l->epoch = (uint64_t)json_integer_value(json_object_get(state, "epoch"));
    l->position = (uint64_t)json_integer_value(json_object_get(state, "position"));
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
    leat_status rc = leat_connect(&connect, &l->connection, err);
    if (rc != LEAT_OK)
        return rc;
    char mine[LEAT_STATE_SIZE];
    json_t *request = json_copy(l->request);
    json_object_set_new(request, "epoch", json_integer((json_int_t)l->epoch));
    /* The whole state rather than a position: the dataset may have been replaced since. */
    if (!state && l->state && leat_loader_state(l, mine, NULL) == LEAT_OK)
        state = mine;
    if (state)
        json_object_set_new(request, "state", json_string(state));
    /* The agent gives up on a bucket by itself; it may take as long as a batch may. */
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
    /* A caller built against an older header has a shorter struct: the rest stays zero. */
    memcpy(&l->opts, opts, opts->size < sizeof l->opts ? opts->size : sizeof l->opts);
    l->scope = copy_or_null(l->opts.scope, &failed);
    l->agent = copy_or_null(l->opts.agent, &failed);
    l->timeout_ns = l->opts.timeout_ns ? l->opts.timeout_ns : TIMEOUT_DEFAULT;
    l->epoch = l->opts.epoch;
    leat_status rc = failed ? leat_fail(err, LEAT_NO_MEMORY, "no memory for a loader")
                            : leat_request_make(&l->opts, &l->request, err);
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
    disconnect(l);
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
        json_t *s = json_loads(stats, 0, NULL);
        const char *text = json_string_value(json_object_get(s, "waiting_for"));
        if (text && *text)
            snprintf(why, sizeof why, "%s", text);
        json_decref(s);
        free(stats);
    }
    return leat_fail(err, LEAT_TIMEOUT, "no batch within %.0f s; the agent (pid %d, log %s) waits for: %s",
                     (double)l->timeout_ns / 1e9, l->connection.agent_pid, l->connection.paths.log, why);
}

static bool all_held(const struct leat_loader *l)
{
    for (uint32_t i = 0; i < l->ref->ring.slots; i++) {
        if (atomic_load_explicit(&leat_ring_slot(&l->ref->ring, i)->state, memory_order_relaxed) != LEAT_SLOT_HELD)
            return false;
    }
    return true;
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
    /* Acquire: the slot's contents and the queue were written before; partner: the agent's release. */
    return atomic_load_explicit(&l->ref->ring.head->published, memory_order_acquire) != l->taken;
}

static leat_status wait_published(struct leat_loader *l, struct leat_error *err)
{
    uint64_t deadline = leat_after(l->timeout_ns);
    uint64_t count;
    while (!published(l)) {
        if (l->failed.status != LEAT_OK) {
            if (err)
                *err = l->failed;
            return l->failed.status;
        }
        if (all_held(l))
            return leat_fail(
                err, LEAT_LIMIT,
                "all %u slots of the ring are held by batches that were not released; drop some, copy what "
                "you keep, or ask for more slots",
                l->ref->ring.slots);
        struct pollfd p[] = {{.fd = l->ready_fd, .events = POLLIN}, {.fd = l->connection.fd, .events = POLLIN}};
        uint64_t left = leat_left(deadline);
        if (!left)
            return fail_timeout(l, err);
        left = left < POLL_NS ? left : POLL_NS;
        int n = poll(p, 2, (int)(left / LEAT_MS) + 1);
        /* Only when nothing came: in Python, asking means waiting for the interpreter. */
        if (n <= 0 && l->opts.stop && l->opts.stop(l->opts.stop_user))
            return leat_fail(err, LEAT_CANCELLED, "interrupted");
        if (n > 0 && p[0].revents) {
            ssize_t ignored = read(l->ready_fd, &count, sizeof count);
            (void)ignored;
        }
        if (n > 0 && p[1].revents && !published(l)) {
            leat_status rc = read_messages(l, err);
            if (rc != LEAT_OK && !published(l))
                return rc;
        }
    }
    return LEAT_OK;
}

/* Makes sure the connection is this process's own and the next batch is there. */
static leat_status await_batch(struct leat_loader *l, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    if (l->pid != getpid() || !l->ref) {
        rc = open_ring(l, NULL, err); /* after a fork, or after a failure */
        if (rc == LEAT_NETWORK)
            rc = reopen(l, err);
    }
    while (rc == LEAT_OK && !published(l)) {
        uint64_t began = leat_now_ns();
        atomic_store_explicit(&l->ref->ring.head->waiting_since_ns, began, memory_order_relaxed);
        rc = wait_published(l, err);
        if (l->ref)
            atomic_store_explicit(&l->ref->ring.head->waiting_since_ns, 0, memory_order_relaxed);
        l->stats.wait_ns += leat_now_ns() - began;
        if (rc == LEAT_NETWORK && l->failed.status == LEAT_OK)
            rc = reopen(l, err);
    }
    return rc;
}

/* An arena with memory of its own was announced over the socket before the batch was published. */
static leat_status find_external(struct leat_loader *l, uint32_t slot, struct leat_error *err)
{
    uint32_t external = leat_ring_slot(&l->ref->ring, slot)->external;
    if (!external)
        return LEAT_OK;
    read_messages(l, NULL);
    for (uint32_t c = 0; c < l->ref->ring.columns; c++) {
        if ((external >> c & 1) && !l->ref->external[slot][c].data)
            return leat_fail(err, LEAT_NO_MEMORY, "the memory of an unusually large batch could not be mapped");
    }
    return LEAT_OK;
}

leat_status leat_loader_next(struct leat_loader *l, struct leat_batch **out, struct leat_error *err)
{
    leat_status rc = await_batch(l, err);
    if (rc != LEAT_OK) {
        if (l->failed.status != LEAT_OK || (rc != LEAT_CANCELLED && rc != LEAT_TIMEOUT && rc != LEAT_LIMIT))
            disconnect(l); /* the next call opens it again, at the cursor */
        return rc;
    }
    struct leat_ring *ring = &l->ref->ring;
    uint32_t i = ring->head->queue[l->taken % LEAT_RING_SLOTS_MAX];
    if (i >= ring->slots)
        return leat_fail(err, LEAT_INTERNAL, "the ring names a slot that is not there");
    struct leat_ring_slot *slot = leat_ring_slot(ring, i);
    if (slot->end) {
        l->taken++;
        l->epoch = slot->epoch + 1;
        l->position = 0;
        free_slot(l->ref, i);
        *out = NULL;
        return LEAT_OK;
    }
    rc = find_external(l, i, err);
    struct leat_batch *b = rc == LEAT_OK ? malloc(sizeof *b) : NULL;
    if (!b)
        return rc != LEAT_OK ? rc : leat_fail(err, LEAT_NO_MEMORY, "no memory for a batch");
    atomic_store_explicit(&slot->state, LEAT_SLOT_HELD, memory_order_relaxed);
    atomic_fetch_add_explicit(&l->ref->refs, 1, memory_order_relaxed);
    b->ref = l->ref;
    b->slot = i;
    l->taken++;
    l->reopens = 0;
    l->epoch = slot->epoch;
    l->position = slot->position;
    l->stats.batches++;
    l->stats.samples += slot->samples;
    *out = b;
    return LEAT_OK;
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
    json_object_set_new(l->state, "epoch", json_integer((json_int_t)l->epoch));
    json_object_set_new(l->state, "position", json_integer((json_int_t)l->position));
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
    json_object_set_new(s, "batches", json_integer((json_int_t)l->stats.batches));
    json_object_set_new(s, "samples", json_integer((json_int_t)l->stats.samples));
    json_object_set_new(s, "wait_s", json_real((double)l->stats.wait_ns / 1e9));
    json_object_set_new(s, "agents_lost", json_integer((json_int_t)l->stats.restarts));
    json_object_set_new(s, "agent_pid", json_integer(l->connection.agent_pid));
    json_object_set_new(s, "socket", json_string(l->connection.paths.socket));
    json_object_set_new(s, "log", json_string(l->connection.paths.log));
    *out = json_dumps(s, JSON_COMPACT);
    json_decref(answer);
    return *out ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for statistics");
}

static struct leat_ring_slot *slot_of(const struct leat_batch *b)
{
    return leat_ring_slot(&b->ref->ring, b->slot);
}

uint32_t leat_batch_samples(const struct leat_batch *b)
{
    return slot_of(b)->samples;
}

size_t leat_batch_columns(const struct leat_batch *b)
{
    return b->ref->ring.columns;
}

uint64_t leat_batch_epoch(const struct leat_batch *b)
{
    return slot_of(b)->epoch;
}

uint64_t leat_batch_position(const struct leat_batch *b)
{
    return slot_of(b)->position;
}

leat_status leat_batch_column(const struct leat_batch *b, size_t i, struct leat_column *out, struct leat_error *err)
{
    if (i >= b->ref->ring.columns)
        return leat_fail(err, LEAT_INVALID, "the batch has %u columns, not %zu", b->ref->ring.columns, i + 1);
    const struct leat_ring_column *c = &b->ref->ring.head->column[i];
    struct leat_ring_slot *slot = slot_of(b);
    char *base = (char *)slot;
    struct leat_column column = {
        .name = c->name,
        .kind = (enum leat_output_kind)c->kind,
        .dtype = (enum leat_dtype_code)c->dtype,
        .dims_n = c->dims_n,
        .stride = c->stride,
        .data = base + c->offset,
        .bytes = c->stride * slot->samples,
    };
    memcpy(column.dims, c->dims, sizeof column.dims);
    if (c->ragged) {
        column.ends = (const uint64_t *)(base + c->offset);
        column.bytes = slot->arena_used[i];
        column.data = slot->external >> i & 1 ? b->ref->external[b->slot][i].data : base + c->arena;
    }
    *out = column;
    return LEAT_OK;
}
