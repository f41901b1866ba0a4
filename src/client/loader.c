/* A rank's loader: takes batches from the ring at its cursor. The cursor lives here, so that a new agent can go on
 * exactly after the last batch taken; how a ring comes to be there is opening.c. */
#include "leat/loader.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/environment.h"
#include "base/json.h"
#include "client/lookup.h"
#include "client/opening.h"
#include "client/opts.h"
#include "client/request.h"
#include "ring/agreement.h"
#include "ring/settings.h"

#define POLL_NS    (100 * LEAT_MS)
#define RELEASE_NS (10 * LEAT_S) /* how long close() waits for events of batches that are to be released */
#define EVENT_NS   (1 * LEAT_MS) /* between two looks at such events while waiting */
#define LISTEN_NS  LEAT_S        /* a rank that never has to wait looks at its socket that often */

/* Once per process: what is wrong with the environment is wrong for all loaders. */
static void warn_strange(const struct leat_loader *l)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    char text[LEAT_ENVIRONMENT_TEXT];
    if (!l->warn || atomic_flag_test_and_set(&said))
        return;
    for (size_t i = 0; leat_environment_strange(environ, &i, text);)
        l->warn(l->warn_user, text);
}

leat_status leat_loader_open(const struct leat_loader_opts *opts, struct leat_loader **out, struct leat_error *err)
{
    struct leat_loader_opts known;
    leat_status rc = leat_opts_take(opts, &known, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_loader *l = calloc(1, sizeof *l);
    if (!l) {
        leat_opts_free_outputs(&known);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a loader");
    }
    leat_turn_init(&l->turn);
    l->connection.fd = l->ready_fd = -1;
    l->stop = known.stop;
    l->stop_user = known.stop_user;
    l->warn = known.warn;
    l->warn_user = known.warn_user;
    l->timeout_ns = known.timeout_ns ? known.timeout_ns : LEAT_TIMEOUT_DEFAULT;
    l->born_ns = leat_now_ns();
    l->epoch = known.epoch;
    l->placed = true;
    l->version_given = known.version != NULL;
    warn_strange(l);
    rc = leat_request_make(&known, &l->request, err);
    leat_opts_free_outputs(&known);
    if (rc == LEAT_OK)
        rc = known.world ? leat_opening_ring(l, NULL, leat_patience_begin(l), err)
                         : leat_opening_look(l, NULL, leat_patience_begin(l), err);
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
    if (!l || leat_turn_broken(&l->turn))
        return; /* the latter is half-written: better lost than freed */
    leat_releases_wait(l->releases, leat_after(RELEASE_NS), l->stop, l->stop_user);
    leat_opening_disconnect(l);
    leat_lookup_stop(l);
    leat_releases_drop(l->releases);
    leat_request_free(&l->request);
    leat_sources_list_free(&l->more);
    leat_access_free(l->given);
    leat_rank_state_drop(l->state);
    free(l->agreement);
    leat_turn_destroy(&l->turn);
    free(l);
}

/* Begins a call that uses the loader; leat_turn_end() ends it. */
static leat_status use(struct leat_loader *l, struct leat_error *err)
{
    if (l->turn.pid != getpid())
        l->wait = (struct leat_wait){0}; /* what a thread of the parent's was waiting for */
    return leat_turn_use(&l->turn, err);
}

/* Ranks whose nodes are not known count as being on one. */
static bool same_nodes(const uint32_t *a, const uint32_t *b, uint32_t world)
{
    for (uint32_t r = 0; r < world; r++) {
        if ((a ? a[r] : 0) != (b ? b[r] : 0))
            return false;
    }
    return true;
}

/* The request from now on. What was made for another one is of no use. */
static leat_status ask_otherwise(struct leat_loader *l, struct leat_loader_opts *opts, struct leat_error *err)
{
    struct leat_request made;
    opts->outputs = l->request.outputs;
    opts->version = NULL;                     /* its address says it already */
    opts->url = opts->mix ? NULL : opts->url; /* a mixture has those of its streams */
    leat_status rc = leat_request_make(opts, &made, err);
    if (rc != LEAT_OK)
        return rc;
    leat_request_free(&l->request);
    l->request = made;
    leat_opening_disconnect(l);
    return LEAT_OK;
}

static leat_status join_world(struct leat_loader *l, uint32_t rank, uint32_t world, const uint32_t *node_of_rank,
                              struct leat_error *err)
{
    struct leat_loader_opts opts = l->request.opts;
    if (opts.world == world && opts.rank == rank && same_nodes(opts.node_of_rank, node_of_rank, world))
        return LEAT_OK;
    if (l->delivered)
        return leat_fail(err, LEAT_INVALID, "this loader is rank %u of %u and has given out batches", opts.rank,
                         opts.world);
    if (!world)
        return leat_fail(err, LEAT_INVALID, "world_size=0 is not between 1 and 1048576");
    opts.rank = rank;
    opts.world = world;
    opts.node_of_rank = node_of_rank;
    return ask_otherwise(l, &opts, err);
}

static leat_status share(struct leat_loader *l, const char *members, struct leat_error *err)
{
    struct leat_loader_opts opts = l->request.opts;
    if (opts.members && members && strcmp(opts.members, members) == 0)
        return LEAT_OK;
    if (l->delivered)
        return leat_fail(err, LEAT_INVALID,
                         "this loader has given out batches: it stays with the machines that it has");
    opts.members = members;
    return ask_otherwise(l, &opts, err);
}

leat_status leat_loader_share(struct leat_loader *l, const char *members, struct leat_error *err)
{
    leat_status rc = use(l, err);
    if (rc != LEAT_OK)
        return rc;
    rc = share(l, members, err);
    leat_turn_end(&l->turn);
    return rc;
}

leat_status leat_loader_join(struct leat_loader *l, uint32_t rank, uint32_t world, const uint32_t *node_of_rank,
                             struct leat_error *err)
{
    leat_status rc = use(l, err);
    if (rc != LEAT_OK)
        return rc;
    rc = join_world(l, rank, world, node_of_rank, err);
    leat_turn_end(&l->turn);
    return rc;
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
    uint64_t look = leat_patience_left_ns(l);
    left = left < look ? left : look;
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
                         "no batch within %.0f s: all %u slots of the ring are held, and the events that release %u "
                         "of them have not happened",
                         (double)l->timeout_ns / 1e9, l->ring->ring.slots, waiting);
    return leat_patience_fail(l, err);
}

static void sample(struct leat_loader *l)
{
    struct leat_account a;
    uint64_t now = leat_now_ns();
    /* Ranks see much the same: the first tells the program, the others' agents have logs. */
    bool look = l->warn && !l->request.opts.rank && leat_unusual_due(&l->unusual, now);
    if (!look && !leat_series_due(&l->series, now))
        return;
    leat_opening_account(l, NULL, &a);
    leat_series_add(&l->series, now, &a);
    if (look)
        leat_unusual_look(&l->unusual, &a, NULL, now, l->warn, l->warn_user);
}

static leat_status wait_published(struct leat_loader *l, uint64_t deadline, struct leat_error *err)
{
    uint64_t ask = leat_after(POLL_NS);
    uint64_t count;
    l->patience.what = LEAT_WAITING_BATCH;
    while (!published(l)) {
        bool held = leat_rank_ring_held(l->ring) == l->ring->ring.slots;
        leat_status rc = why_none(l, deadline, err);
        if (rc != LEAT_OK)
            return rc;
        struct pollfd p[] = {{.fd = l->ready_fd, .events = POLLIN}, {.fd = l->connection.fd, .events = POLLIN}};
        int ms = wait_ms(l, deadline);
        leat_turn_pause(&l->turn); /* others may look, and take messages that came */
        int n = poll(p, 2, ms);
        leat_turn_resume(&l->turn);
        leat_lookup_collect(l);
        leat_patience_look(l);
        /* Only when nothing came: in Python, asking means waiting for the interpreter. */
        if (n < 0 || (n == 0 && !leat_left(ask))) {
            if (l->stop && l->stop(l->stop_user))
                return leat_fail(err, LEAT_CANCELLED, "interrupted");
            ask = leat_after(POLL_NS);
        }
        if (n > 0 && p[0].revents) {
            ssize_t ignored = read(l->ready_fd, &count, sizeof count);
            (void)ignored;
        }
        if (n > 0 && p[1].revents && !published(l)) {
            rc = leat_opening_listen(l, err);
            if (rc != LEAT_OK && !published(l))
                return rc;
        }
        leat_releases_poll(l->releases);
        if (held) /* what comes after it is released is the agent's time */
            leat_wait_charge(&l->wait, LEAT_WAIT_SLOTS, leat_now_ns(), &l->account);
        sample(l);
        if (!published(l)) /* else it is known in a moment what it was for */
            leat_opening_show(l);
    }
    return LEAT_OK;
}

/* Ends a wait for the batch that is next: published now, or not to come in this wait. */
static void account_for(struct leat_loader *l)
{
    const struct leat_ring_head *head = l->ring->ring.head;
    uint64_t now = leat_now_ns();
    if (published(l)) {
        uint32_t i = head->queue[l->taken % LEAT_RING_SLOTS_MAX];
        const struct leat_ring_slot *slot = i < l->ring->ring.slots ? leat_ring_slot(&l->ring->ring, i) : NULL;
        if (slot && slot->published_ns && slot->published_ns <= now)
            leat_wait_charge_batch(&l->wait, slot->ready_ns, slot->published_ns, &l->account);
        if (slot && slot->ready_from && slot->ready_from <= LEAT_STALLS)
            leat_wait_came_from(slot->ready_from - 1, &l->account);
    } else {
        uint64_t ready = atomic_load_explicit(&head->next_ready_ns, memory_order_relaxed);
        leat_wait_charge_batch(&l->wait, ready, now, &l->account);
    }
    leat_wait_leave(&l->wait, leat_now_ns(), &l->account);
}

/* Makes sure the connection is this process's own and the next batch is there. */
static leat_status await_batch(struct leat_loader *l, uint64_t deadline, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    if (l->pid != getpid() || !l->ring)
        rc = leat_opening_ring(l, NULL, deadline, err); /* the first time, after a fork, or after a failure */
    while (rc == LEAT_OK && !published(l)) {
        uint64_t began = leat_now_ns();
        leat_wait_enter(&l->wait, began);
        atomic_store_explicit(&l->ring->ring.head->waiting_since_ns, began, memory_order_relaxed);
        rc = wait_published(l, deadline, err);
        atomic_store_explicit(&l->ring->ring.head->waiting_since_ns, 0, memory_order_relaxed);
        account_for(l);
        if (rc == LEAT_NETWORK && l->failed.status == LEAT_OK)
            rc = leat_opening_again(l, deadline, err);
    }
    return rc;
}

static uint32_t global_batch(const struct leat_loader *l)
{
    const struct leat_loader_opts *o = &l->request.opts;
    return o->global_batch ? o->global_batch : o->batch * o->world;
}

/* What the cursor says of the next batch. */
static struct leat_rank_expect expect(const struct leat_loader *l)
{
    uint64_t left = l->position < l->units ? l->units - l->position : 0;
    uint32_t global = global_batch(l);
    uint32_t last = l->request.opts.last;
    return (struct leat_rank_expect){
        .taken = l->taken,
        .epoch = l->epoch,
        .began = l->position,
        .position = l->position + (left < global ? left : global),
        .end = left == 0 || (left < global && last == LEAT_LAST_DROP),
        .whole = left >= global || last != LEAT_LAST_SHORT,
    };
}

/* Moves the cursor to after a batch, or to after the end of an epoch. */
static void advance(struct leat_loader *l, const struct leat_rank_expect *next)
{
    l->epoch = next->end ? next->epoch + 1 : next->epoch;
    l->position = next->end ? 0 : next->position;
    l->placed = next->end; /* at the beginning of an epoch */
    l->again = false;
    l->delivered |= !next->end;
}

static leat_status take(struct leat_loader *l, struct leat_batch **out, struct leat_error *err)
{
    struct leat_rank_expect next = expect(l);
    leat_status rc = leat_rank_ring_take(l->ring, &next, out, err);
    if (rc == LEAT_BUSY) { /* its memory was sent before it was published */
        leat_opening_listen(l, NULL);
        rc = leat_rank_ring_take(l->ring, &next, out, err);
    }
    if (rc == LEAT_BUSY)
        rc = leat_fail(err, LEAT_NO_MEMORY, "the memory of an unusually large batch could not be mapped");
    if (rc != LEAT_OK)
        return rc;
    l->taken++;
    l->peeked.place = next;
    l->peeked.samples = next.end ? 0 : leat_batch_samples(*out);
    l->peeked.pending = !next.end;
    if (next.end) /* there is nothing to accept */
        advance(l, &next);
    return LEAT_OK;
}

/* Waits for whatever comes next and takes it. */
static leat_status step(struct leat_loader *l, uint64_t deadline, struct leat_batch **out, struct leat_error *err)
{
    leat_status rc = await_batch(l, deadline, err);
    bool there = rc == LEAT_OK;
    if (there)
        rc = take(l, out, err);
    /* Unless it was only this wait that ended, the next call opens the ring again, at the cursor. */
    if (rc != LEAT_OK &&
        (there || l->failed.status != LEAT_OK || (rc != LEAT_CANCELLED && rc != LEAT_TIMEOUT && rc != LEAT_LIMIT)))
        leat_opening_disconnect(l);
    return rc;
}

/* Puts the cursor elsewhere. It stays where it was when that fails. */
static leat_status jump(struct leat_loader *l, uint64_t epoch, uint64_t position, uint64_t deadline,
                        struct leat_error *err)
{
    uint64_t epoch_before = l->epoch;
    uint64_t position_before = l->position;
    leat_status rc = LEAT_OK;
    l->epoch = epoch;
    l->position = position;
    if (!l->request.opts.world)
        rc = leat_opening_look(l, NULL, deadline, err);
    else
        rc = leat_opening_ring(l, NULL, deadline, err);
    l->reopens = 0;
    if (rc != LEAT_OK) {
        l->epoch = epoch_before;
        l->position = position_before;
        return rc;
    }
    l->placed = true;
    l->again = false;
    return LEAT_OK;
}

/* A pass that was begun: where does it begin? */
static leat_status begin_pass(struct leat_loader *l, uint64_t deadline, struct leat_error *err)
{
    struct leat_batch *none = NULL;
    leat_status rc = LEAT_OK;
    if (l->again)
        rc = jump(l, l->epoch, 0, deadline, err);
    else if (!l->placed && !expect(l).end) /* the pass before was broken off: it is over */
        rc = jump(l, l->epoch + 1, 0, deadline, err);
    if (rc == LEAT_OK && expect(l).end) /* nothing is left of this epoch */
        rc = step(l, deadline, &none, err);
    if (rc == LEAT_OK)
        l->beginning = false;
    return rc;
}

/* Before the first batch: the ranks of this machine mean the same, or none of them begins. */
static leat_status agree(struct leat_loader *l, uint64_t deadline, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    if (l->pid != getpid() || !l->ring)
        rc = leat_opening_ring(l, NULL, deadline, err);
    if (rc == LEAT_OK)
        rc = leat_opening_agree(l, deadline, err);
    return rc;
}

leat_status leat_loader_begin(struct leat_loader *l, struct leat_error *err)
{
    leat_status rc = use(l, err);
    if (rc != LEAT_OK)
        return rc;
    l->beginning = true;
    leat_turn_end(&l->turn);
    return LEAT_OK;
}

static leat_status next_batch(struct leat_loader *l, struct leat_batch **out, struct leat_error *err)
{
    uint64_t deadline = leat_patience_begin(l);
    uint64_t now = l->patience.began_ns;
    struct leat_batch *batch = NULL;
    leat_status rc = LEAT_OK;
    if (l->peeked.pending) /* not accepted: it comes again, from a ring that is opened at the cursor */
        leat_opening_disconnect(l);
    leat_releases_poll(l->releases);
    leat_lookup_collect(l);
    if (!l->agreed)
        rc = agree(l, deadline, err);
    if (rc == LEAT_OK && l->beginning) {
        if (!l->ring) /* what the epoch has is known when it is open */
            rc = leat_opening_ring(l, NULL, deadline, err);
        if (rc == LEAT_OK)
            rc = begin_pass(l, deadline, err);
    }
    if (rc == LEAT_OK && l->ring && l->pid == getpid() && now - l->listened_ns > LISTEN_NS) {
        l->listened_ns = now;
        leat_opening_listen(l, NULL); /* an agent that is gone is noticed when there is nothing more to take */
        sample(l);
    }
    if (rc == LEAT_OK)
        rc = step(l, deadline, &batch, err);
    if (rc != LEAT_OK) {
        /* Nothing is skipped for a failure: another attempt goes on here. A pass that has not begun yet stays that. */
        l->placed |= rc != LEAT_CANCELLED && !l->beginning;
        l->account.timeouts += rc == LEAT_TIMEOUT;
        leat_opening_show(l);
        return rc;
    }
    *out = batch;
    return LEAT_OK;
}

static void accept(struct leat_loader *l)
{
    advance(l, &l->peeked.place);
    l->peeked.pending = false;
    l->reopens = 0;
    l->account.batches++;
    l->account.samples += l->peeked.samples;
    leat_opening_show(l);
}

leat_status leat_loader_next(struct leat_loader *l, struct leat_batch **out, struct leat_error *err)
{
    leat_status rc = use(l, err);
    if (rc != LEAT_OK)
        return rc;
    rc = next_batch(l, out, err);
    if (rc == LEAT_OK && *out)
        accept(l);
    leat_turn_end(&l->turn);
    return rc;
}

leat_status leat_loader_peek(struct leat_loader *l, struct leat_batch **out, struct leat_error *err)
{
    leat_status rc = use(l, err);
    if (rc != LEAT_OK)
        return rc;
    rc = next_batch(l, out, err);
    leat_turn_end(&l->turn);
    return rc;
}

leat_status leat_loader_accept(struct leat_loader *l, struct leat_error *err)
{
    leat_status rc = use(l, err);
    if (rc != LEAT_OK)
        return rc;
    if (l->peeked.pending)
        accept(l);
    else
        rc = leat_fail(err, LEAT_INVALID,
                       "there is no batch to accept: peek() has returned none since the loader moved");
    leat_turn_end(&l->turn);
    return rc;
}

bool leat_loader_ready(const struct leat_loader *l)
{
    leat_releases_poll(l->releases);
    return l->ring && l->pid == getpid() && l->agreed && !l->beginning && !l->peeked.pending && published(l);
}

bool leat_loader_full(const struct leat_loader *l)
{
    return l->ring && l->pid == getpid() && leat_rank_ring_all_held(l->ring);
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

const char *leat_loader_version(const struct leat_loader *l)
{
    return l->id;
}

static leat_status go_to_epoch(struct leat_loader *l, uint64_t epoch, struct leat_error *err)
{
    if (epoch > INT64_MAX)
        return leat_fail(err, LEAT_INVALID, "epoch %llu is beyond 2^63", (unsigned long long)epoch);
    bool over = expect(l).end;
    if (epoch == l->epoch && !(l->placed && over)) { /* a restored end is no position to keep */
        l->again = !l->placed;                       /* only the next pass begins it again */
        return LEAT_OK;
    }
    if (!l->placed && epoch == l->epoch + 1 && over) {
        l->again = false; /* the next pass begins there by itself */
        return LEAT_OK;
    }
    return jump(l, epoch, 0, leat_patience_begin(l), err);
}

leat_status leat_loader_set_epoch(struct leat_loader *l, uint64_t epoch, struct leat_error *err)
{
    leat_status rc = use(l, err);
    if (rc != LEAT_OK)
        return rc;
    rc = go_to_epoch(l, epoch, err);
    leat_turn_end(&l->turn);
    return rc;
}

static leat_status go_to(struct leat_loader *l, uint64_t epoch, uint64_t position, struct leat_error *err)
{
    if (epoch > INT64_MAX || position > l->units)
        return leat_fail(err, LEAT_INVALID, "epoch %llu, position %llu: an epoch has %llu samples",
                         (unsigned long long)epoch, (unsigned long long)position, (unsigned long long)l->units);
    if (l->placed && epoch == l->epoch && position == l->position)
        return LEAT_OK;
    return jump(l, epoch, position, leat_patience_begin(l), err);
}

leat_status leat_loader_seek(struct leat_loader *l, uint64_t epoch, uint64_t position, struct leat_error *err)
{
    leat_status rc = use(l, err);
    if (rc != LEAT_OK)
        return rc;
    rc = go_to(l, epoch, position, err);
    leat_turn_end(&l->turn);
    return rc;
}

leat_status leat_loader_state(struct leat_loader *l, char **out, struct leat_error *err)
{
    bool beside;
    leat_status rc = leat_turn_look(&l->turn, leat_after(l->timeout_ns), l->stop, l->stop_user, &beside, err);
    if (rc != LEAT_OK)
        return rc;
    rc = leat_rank_state_write(l->state, l->epoch, l->position, out, err);
    leat_turn_looked(&l->turn);
    return rc;
}

static leat_status restore_state(struct leat_loader *l, const char *state, struct leat_error *err)
{
    uint64_t deadline = leat_patience_begin(l);
    leat_status rc =
        l->request.opts.world ? leat_opening_ring(l, state, deadline, err) : leat_opening_look(l, state, deadline, err);
    l->reopens = 0;
    if (rc != LEAT_OK)
        return rc;
    l->placed = true;
    l->again = false;
    return LEAT_OK;
}

leat_status leat_loader_restore(struct leat_loader *l, const char *state, struct leat_error *err)
{
    leat_status rc = use(l, err);
    if (rc != LEAT_OK)
        return rc;
    rc = restore_state(l, state, err);
    leat_turn_end(&l->turn);
    return rc;
}

static leat_status tell_agreement(struct leat_loader *l, char **out, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    if (!l->ring)
        rc = leat_opening_ring(l, NULL, leat_patience_begin(l), err);
    if (rc != LEAT_OK)
        return rc;
    char *copy = strdup(l->agreement ? l->agreement : "{}");
    if (!copy)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for an agreement");
    *out = copy;
    return LEAT_OK;
}

leat_status leat_loader_agreement(struct leat_loader *l, char **out, struct leat_error *err)
{
    leat_status rc = use(l, err);
    if (rc != LEAT_OK)
        return rc;
    rc = tell_agreement(l, out, err);
    leat_turn_end(&l->turn);
    return rc;
}

leat_status leat_loader_compare(const char *mine, const char *theirs, const char *who, struct leat_error *err)
{
    return leat_agreement_compare(mine, theirs, who, err);
}

static leat_status tell_series(struct leat_loader *l, char **out, struct leat_error *err)
{
    struct timespec wall;
    sample(l);
    clock_gettime(CLOCK_REALTIME, &wall);
    json_t *s = leat_series_json(&l->series, leat_now_ns(), (double)wall.tv_sec + (double)wall.tv_nsec / 1e9);
    char *text = leat_json_write(s, JSON_COMPACT);
    json_decref(s);
    if (!text)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for statistics");
    *out = text;
    return LEAT_OK;
}

leat_status leat_loader_series(struct leat_loader *l, char **out, struct leat_error *err)
{
    bool beside;
    leat_status rc = leat_turn_look(&l->turn, leat_after(l->timeout_ns), l->stop, l->stop_user, &beside, err);
    if (rc != LEAT_OK)
        return rc;
    rc = tell_series(l, out, err);
    leat_turn_looked(&l->turn);
    return rc;
}
