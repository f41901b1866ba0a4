#include "client/opening.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/lookup.h"
#include "client/request.h"
#include "ring/parcel.h"

#define REOPENS_MAX 5u
#define LOOK_NS     (100 * LEAT_MS) /* between two looks at keys that are being looked up */

/* What was counted in a ring that is left is kept: the next one counts from 0, in the same agent all but the dataset's
 * numbers and the agent's. */
static void keep_account(struct leat_loader *l)
{
    if (l->ring && l->pid == getpid() && leat_account_look(&l->ring->ring, &l->left.shown))
        l->left.agent_pid = l->connection.agent_pid;
}

static void carry_account(struct leat_loader *l)
{
    bool same = l->left.agent_pid == l->connection.agent_pid;
    if (l->left.agent_pid)
        leat_account_carry(&l->account, &l->left.shown, LEAT_OF_LOADER, same ? LEAT_OF_LOADER : LEAT_OF_AGENT);
    l->left.agent_pid = 0;
}

void leat_opening_account(const struct leat_loader *l, const struct leat_account *now, struct leat_account *out)
{
    struct leat_account a = {0};
    if (now)
        a = *now;
    else if (!l->ring || l->pid != getpid() || !leat_account_look(&l->ring->ring, &a))
        a = l->left.agent_pid ? l->left.shown : (struct leat_account){0};
    leat_account_carry(&a, &l->account, LEAT_OF_LOADER, LEAT_OF_AGENT);
    leat_account_carry(&a, &l->account, LEAT_OF_RANK, LEAT_OF_RANK);
    *out = a;
}

void leat_opening_show(const struct leat_loader *l)
{
    struct leat_account a = l->account;
    struct leat_wait w = l->wait;
    if (!l->ring || l->pid != getpid())
        return;
    const struct leat_ring *ring = &l->ring->ring;
    if (w.depth) {
        uint64_t now = leat_now_ns();
        leat_wait_charge_batch(&w, atomic_load_explicit(&ring->head->next_ready_ns, memory_order_relaxed), now, &a);
        a.wait_ns += now > w.began_ns ? now - w.began_ns : 0;
    }
    leat_account_show_rank(ring, &a);
}

void leat_opening_disconnect(struct leat_loader *l)
{
    keep_account(l);
    leat_lookup_drop(l);
    /* The agent sees the end of a connection when its last copy is closed, and children that were forked have copies:
     * the loader's own process ends it for all of them. */
    if (l->connection.fd >= 0 && l->pid == getpid())
        shutdown(l->connection.fd, SHUT_RDWR);
    leat_connection_close(&l->connection);
    if (l->ready_fd >= 0)
        close(l->ready_fd);
    l->ready_fd = -1;
    leat_rank_ring_drop(l->ring);
    l->ring = NULL;
    l->peeked.pending = false;
}

static void forget(struct leat_buf *secret)
{
    if (secret->cap)
        explicit_bzero(secret->data, secret->cap);
    leat_buf_free(secret);
}

static void take_unasked(struct leat_loader *l, struct leat_incoming *m)
{
    if (m->kind == LEAT_MESSAGE_MEMORY && m->fds_n && l->ring) {
        leat_rank_ring_memory(l->ring, (int64_t)leat_part_number(m->part, LEAT_TAG_SLOT, UINT32_MAX), m->fds[0]);
    } else if (m->kind == LEAT_MESSAGE_FAILED) {
        leat_incoming_check(m, &l->failed);
        l->agreed &= !leat_part_number(m->part, LEAT_TAG_AGREE, 0); /* other ranks do not agree: compare again */
    } else if (m->kind == LEAT_MESSAGE_KEYS) {
        const char *place = leat_part_text(m->part, LEAT_TAG_PLACE);
        if (place)
            leat_lookup_ask(l, place);
    } else if (m->kind == LEAT_MESSAGE_STATS && l->owed) {
        l->owed--;
        leat_patience_answer(l, leat_part_text(m->part, LEAT_TAG_TEXT));
    }
    leat_incoming_free(m);
}

leat_status leat_opening_listen(struct leat_loader *l, struct leat_error *err)
{
    struct leat_incoming m;
    leat_lookup_collect(l);
    for (;;) {
        leat_status rc = leat_connection_receive(&l->connection, 0, NULL, NULL, &m, err);
        if (rc == LEAT_TIMEOUT)
            return LEAT_OK;
        if (rc != LEAT_OK)
            return rc;
        take_unasked(l, &m);
    }
}

/* A dataset's data may be in other stores than itself, which its root says: an agent that has no access to them names
 * them. Nobody looks for keys before, since that may take seconds and end in an error that concerns nobody. */
static void note_lacks(struct leat_loader *l, struct leat_part p)
{
    struct leat_part lack;
    uint32_t before = l->more.n;
    uint32_t number;
    for (size_t i = 0; leat_part_group(p, LEAT_TAG_LACKS, i, &lack); i++) {
        const char *url = leat_part_text(lack, LEAT_TAG_URL);
        if (url)
            leat_sources_list_add(&l->more, url, &number, NULL);
    }
    l->lacked = l->more.n > before;
}

/* Sends a request and waits for its answer, taking what comes unasked on the way. *lost: the connection broke, as
 * opposed to an answer that is an error. Questions for statistics are put beside another call's wait: they do not
 * count against its patience. */
static leat_status ask(struct leat_loader *l, struct leat_buf *request, enum leat_message_kind answer,
                       uint64_t deadline_ns, struct leat_incoming *out, bool *lost, struct leat_error *err)
{
    bool beside = answer == LEAT_MESSAGE_STATS;
    leat_status rc = leat_connection_send(&l->connection, request, err);
    *lost = rc == LEAT_NETWORK;
    while (rc == LEAT_OK) {
        struct leat_incoming m;
        uint64_t look = l->lookup ? leat_after(LOOK_NS) : deadline_ns;
        rc = leat_connection_receive(&l->connection, look < deadline_ns ? look : deadline_ns,
                                     beside ? l->stop : leat_patience_stop, beside ? l->stop_user : l, &m, err);
        *lost = rc == LEAT_NETWORK;
        leat_lookup_collect(l);
        if (rc == LEAT_TIMEOUT && leat_left(deadline_ns)) {
            rc = LEAT_OK;
            continue;
        }
        if (rc != LEAT_OK)
            break;
        if (m.kind == answer && !(beside && l->owed)) {
            *out = m;
            return LEAT_OK;
        }
        if (m.kind == LEAT_MESSAGE_ERROR) {
            note_lacks(l, m.part);
            rc = leat_incoming_check(&m, err);
            leat_incoming_free(&m);
        } else {
            take_unasked(l, &m);
        }
    }
    return rc;
}

/* What the agent says of dataset, order and cursor. */
static leat_status take_answer(struct leat_loader *l, struct leat_part p, struct leat_error *err)
{
    struct leat_rank_state *state;
    uint64_t epoch;
    uint64_t position;
    const char *text = leat_part_text(p, LEAT_TAG_STATE);
    const char *id = leat_part_text(p, LEAT_TAG_ID);
    const char *agreement = leat_part_text(p, LEAT_TAG_AGREEMENT);
    if (!text || !id || strlen(id) != sizeof l->id - 1)
        return leat_fail(err, LEAT_VERSION, "the agent's answer lacks a state or the dataset's version");
    leat_status rc = leat_rank_state_make(text, &state, &epoch, &position, err);
    if (rc != LEAT_OK)
        return rc;
    char *copy = agreement ? strdup(agreement) : NULL;
    if (agreement && !copy) {
        leat_rank_state_drop(state);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a loader");
    }
    leat_rank_state_drop(l->state);
    free(l->agreement);
    l->state = state;
    l->agreement = copy;
    memcpy(l->id, id, sizeof l->id);
    l->epoch = epoch;
    l->position = position;
    l->units = leat_part_number(p, LEAT_TAG_UNITS, 0);
    l->batches = leat_part_number(p, LEAT_TAG_BATCHES, 0);
    const char *notice = leat_part_text(p, LEAT_TAG_NOTICE);
    if (notice && l->warn && !l->noticed)
        l->warn(l->warn_user, notice);
    l->noticed = l->noticed || notice;
    return LEAT_OK;
}

static leat_status take_opened(struct leat_loader *l, struct leat_incoming *m, struct leat_error *err)
{
    if (!l->request.opts.world)
        return take_answer(l, m->part, err);
    if (m->fds_n != 3)
        return leat_fail(err, LEAT_VERSION, "the agent's answer has no ring");
    m->fds_n = 0; /* they are taken over here */
    carry_account(l);
    l->ready_fd = m->fds[1];
    leat_status rc = leat_rank_ring_open(m->fds[0], m->fds[2], l->releases, &l->ring, err);
    if (rc == LEAT_OK)
        rc = take_answer(l, m->part, err);
    if (rc == LEAT_OK)
        leat_rank_ring_describe(l->ring, l->state);
    return rc;
}

/* The request at the cursor, or at a state that was given. */
static leat_status write_request(struct leat_loader *l, const char *given, struct leat_buf *b, struct leat_error *err)
{
    struct leat_request r = l->request;
    r.born_ns = l->born_ns;
    struct leat_access *access = NULL;
    struct leat_buf bytes;
    char *mine = NULL;
    /* The whole state rather than a position: it says the order's arguments too. */
    leat_status rc = given || !l->state ? LEAT_OK : leat_rank_state_write(l->state, l->epoch, l->position, &mine, err);
    if (rc != LEAT_OK)
        return rc;
    r.state = given ? given : mine;
    /* From the first batch on it is one dataset, whatever is published in its place; before that, a state may say
     * which. */
    r.strict = l->delivered || l->version_given;
    r.id = l->id[0] && (r.strict || !given) ? l->id : NULL;
    leat_buf_init(&bytes, LEAT_ACCESS_BYTES);
    struct leat_request_finding how = {.more = &l->more, .stop = l->stop, .stop_user = l->stop_user};
    rc = leat_request_access(&r, &how, &access, err);
    if (rc == LEAT_OK) {
        leat_access_write(access, &bytes);
        rc = leat_buf_check(&bytes, "what is known of reaching stores", err);
    }
    r.access = bytes.data;
    r.access_n = bytes.len;
    if (rc == LEAT_OK)
        leat_request_write(&r, b);
    if (access) {
        leat_access_free(l->given);
        l->given = access;
    }
    forget(&bytes);
    free(mine);
    return rc;
}

void leat_opening_bucket(const struct leat_loader *l, char *out, size_t n)
{
    struct leat_access *access = NULL;
    const char *endpoint = NULL;
    snprintf(out, n, " for it");
    struct leat_request_finding how = {.more = &l->more, .stop = l->stop, .stop_user = l->stop_user};
    if (leat_request_access(&l->request, &how, &access, NULL) != LEAT_OK)
        return;
    for (size_t i = 0; !endpoint && i < leat_access_count(access); i++)
        endpoint = leat_access_endpoint(access, i);
    if (endpoint)
        snprintf(out, n, " for an answer of %.250s", endpoint);
    leat_access_free(access);
}

static leat_status say_unopened(const struct leat_loader *l, struct leat_error *err)
{
    char from[300];
    leat_opening_bucket(l, from, sizeof from);
    return leat_fail(err, LEAT_TIMEOUT,
                     "'%.200s' could not be opened within %.0f s: the agent (pid %d, log %s) waits%s", l->request.url,
                     (double)l->timeout_ns / 1e9, l->connection.agent_pid, l->connection.paths.log, from);
}

/* One attempt on a connection that is there. */
static leat_status open_here(struct leat_loader *l, const char *state, uint64_t deadline_ns, bool *lost,
                             struct leat_error *err)
{
    struct leat_incoming answer;
    struct leat_buf b;
    l->patience.what = LEAT_WAITING_OPENING;
    leat_buf_init(&b, LEAT_PARCEL_MAX);
    leat_status rc = write_request(l, state, &b, err);
    if (rc == LEAT_OK)
        rc = ask(l, &b, LEAT_MESSAGE_OPENED, deadline_ns, &answer, lost, err);
    leat_buf_free(&b);
    if (rc == LEAT_TIMEOUT && !leat_left(deadline_ns))
        rc = say_unopened(l, err);
    if (rc != LEAT_OK)
        return rc;
    rc = take_opened(l, &answer, err);
    leat_incoming_free(&answer);
    return rc;
}

static leat_status connect_agent(struct leat_loader *l, uint64_t deadline_ns, struct leat_error *err)
{
    const struct leat_connection *before = &l->connection;
    const struct leat_loader_opts *o = &l->request.opts;
    bool again = before->agent_pid != 0;
    /* A successor runs with what the lost agent ran with: other loaders may have asked for that. */
    struct leat_connect_opts connect = {
        .scope = o->scope,
        .agent = o->agent,
        .ram = again ? before->ram : o->ram,
        .threads = again ? before->threads : o->threads,
        .linger_ns = again          ? before->linger_ns
                     : o->linger_ns ? o->linger_ns
                                    : UINT64_MAX,
        .cache_dir = again ? (before->cache_dir[0] ? before->cache_dir : NULL) : o->cache_dir,
        .cache = again ? before->cache : o->cache,
        .metrics = again ? (before->metrics[0] ? before->metrics : NULL) : o->metrics,
        .deadline_ns = deadline_ns,
        .stop = leat_patience_stop,
        .stop_user = l,
    };
    struct leat_connection next;
    l->patience.what = LEAT_WAITING_AGENT;
    /* Before the old connection ends, which may be the last that keeps its agent from ending too. */
    leat_status rc = leat_connect(&connect, &next, err);
    leat_opening_disconnect(l);
    l->owed = 0;
    l->failed = (struct leat_error){0};
    l->taken = 0;
    l->pid = getpid();
    if (rc != LEAT_OK)
        return rc;
    l->connection = next;
    return leat_releases_own(&l->releases, err);
}

/* Connects again, unless a look has left a connection that can be used, and opens. When the agent is lost on the way,
 * another one is tried, a few times. An agent's answer is not a lost connection, whatever it says. */
static leat_status open_anew(struct leat_loader *l, const char *state, uint64_t deadline_ns, struct leat_error *err)
{
    leat_status rc;
    bool lost;
    bool usable = l->connection.fd >= 0 && !l->ring && l->pid == getpid();
    do {
        lost = false;
        rc = usable ? LEAT_OK : connect_agent(l, deadline_ns, err);
        l->lacked = false;
        if (rc == LEAT_OK)
            rc = open_here(l, state, deadline_ns, &lost, err);
        usable = !lost && l->lacked;
        if (usable)
            continue;
        if (!lost)
            break;
        l->account.agents_lost++;
        l->lost = true;
    } while (l->reopens++ < REOPENS_MAX);
    if (lost)
        rc = leat_fail(err, LEAT_NETWORK, "the agent was lost %u times in a row; its log is %s", REOPENS_MAX,
                       l->connection.paths.log);
    if (rc != LEAT_OK)
        leat_opening_disconnect(l);
    return rc;
}

/* The same, with the time that it takes accounted for. */
static leat_status open_timed(struct leat_loader *l, const char *state, uint64_t deadline_ns, struct leat_error *err)
{
    leat_wait_enter(&l->wait, leat_now_ns());
    leat_status rc = open_anew(l, state, deadline_ns, err);
    uint64_t now = leat_now_ns();
    leat_wait_charge(&l->wait, l->lost ? LEAT_WAIT_AGENT : LEAT_WAIT_OPEN, now, &l->account);
    leat_wait_leave(&l->wait, now, &l->account);
    l->lost &= rc != LEAT_OK;
    return rc;
}

leat_status leat_opening_look(struct leat_loader *l, const char *state, uint64_t deadline_ns, struct leat_error *err)
{
    leat_status rc = open_timed(l, state, deadline_ns, err);
    l->reopens = 0;
    return rc;
}

leat_status leat_opening_ring(struct leat_loader *l, const char *state, uint64_t deadline_ns, struct leat_error *err)
{
    if (!l->request.opts.world)
        return leat_fail(err, LEAT_INVALID,
                         "the rank and the world of this loader are not known yet: call "
                         "leat_loader_join()");
    return open_timed(l, state, deadline_ns, err);
}

leat_status leat_opening_again(struct leat_loader *l, uint64_t deadline_ns, struct leat_error *err)
{
    if (l->reopens++ >= REOPENS_MAX)
        return leat_fail(err, LEAT_NETWORK, "the agent was lost %u times in a row; its log is %s", REOPENS_MAX,
                         l->connection.paths.log);
    l->account.agents_lost++;
    l->lost = true;
    return leat_opening_ring(l, NULL, deadline_ns, err);
}

static leat_status agree(struct leat_loader *l, uint64_t deadline_ns, struct leat_error *err)
{
    const struct leat_loader_opts *o = &l->request.opts;
    struct leat_incoming answer;
    struct leat_buf b;
    bool lost = true;
    leat_status rc = LEAT_OK;
    while (!l->agreed && lost && rc == LEAT_OK) {
        if (!o->job || o->world == 1)
            break;
        l->patience.what = LEAT_WAITING_RANKS;
        leat_buf_init(&b, LEAT_WIRE_MAX);
        leat_message_begin(&b, LEAT_MESSAGE_AGREE);
        rc = ask(l, &b, LEAT_MESSAGE_AGREE, deadline_ns, &answer, &lost, err);
        leat_buf_free(&b);
        leat_wait_charge(&l->wait, LEAT_WAIT_RANKS, leat_now_ns(), &l->account);
        if (rc == LEAT_OK)
            leat_incoming_free(&answer);
        else if (lost)
            rc = leat_opening_again(l, deadline_ns, err);
        else if (rc == LEAT_TIMEOUT && !leat_left(deadline_ns)) /* the agent's own answer may come a moment later */
            rc =
                leat_fail(err, LEAT_TIMEOUT,
                          "not all of the %u ranks of this job that are on this machine have opened this loader within "
                          "%.0f s: they hang, have ended, or open other loaders",
                          o->local_world, (double)l->timeout_ns / 1e9);
    }
    l->agreed = rc == LEAT_OK;
    return rc;
}

leat_status leat_opening_agree(struct leat_loader *l, uint64_t deadline_ns, struct leat_error *err)
{
    leat_wait_enter(&l->wait, leat_now_ns());
    leat_status rc = agree(l, deadline_ns, err);
    leat_wait_leave(&l->wait, leat_now_ns(), &l->account);
    return rc;
}

leat_status leat_opening_stats(struct leat_loader *l, uint64_t deadline_ns, char **out, struct leat_error *err)
{
    struct leat_incoming answer;
    struct leat_buf b;
    bool lost;
    *out = NULL;
    if (l->pid != getpid() || l->connection.fd < 0)
        return LEAT_OK;
    leat_buf_init(&b, LEAT_WIRE_MAX);
    leat_message_begin(&b, LEAT_MESSAGE_STATS);
    leat_status rc = ask(l, &b, LEAT_MESSAGE_STATS, deadline_ns, &answer, &lost, err);
    leat_buf_free(&b);
    l->owed += rc == LEAT_TIMEOUT || rc == LEAT_CANCELLED; /* it may come yet */
    if (lost)
        return LEAT_OK; /* an agent that is gone has taken its part along */
    if (rc != LEAT_OK)
        return rc;
    const char *text = leat_part_text(answer.part, LEAT_TAG_TEXT);
    *out = text ? strdup(text) : NULL;
    leat_incoming_free(&answer);
    return LEAT_OK;
}

leat_status leat_opening_confer(struct leat_loader *l, const char *text, uint64_t deadline_ns, char **out,
                                struct leat_error *err)
{
    struct leat_incoming answer;
    struct leat_buf b;
    bool lost = false;
    leat_status rc = LEAT_OK;
    if (l->pid != getpid() || l->connection.fd < 0)
        rc = leat_opening_look(l, NULL, deadline_ns, err);
    if (rc != LEAT_OK)
        return rc;
    leat_buf_init(&b, LEAT_PARCEL_MAX);
    leat_message_begin(&b, LEAT_MESSAGE_JOB);
    leat_message_text(&b, LEAT_TAG_TEXT, text);
    rc = ask(l, &b, LEAT_MESSAGE_JOB, deadline_ns, &answer, &lost, err);
    leat_buf_free(&b);
    if (rc != LEAT_OK)
        return rc;
    const char *said = leat_part_text(answer.part, LEAT_TAG_TEXT);
    *out = said ? strdup(said) : NULL;
    leat_incoming_free(&answer);
    return *out ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for the agent's answer");
}

bool leat_opening_inquire(struct leat_loader *l)
{
    struct leat_buf b;
    if (l->pid != getpid() || l->connection.fd < 0)
        return false;
    leat_buf_init(&b, LEAT_WIRE_MAX);
    leat_message_begin(&b, LEAT_MESSAGE_STATS);
    if (leat_connection_send(&l->connection, &b, NULL) != LEAT_OK)
        return false;
    l->owed++;
    return true;
}
