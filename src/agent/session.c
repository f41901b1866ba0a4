/* A session: one rank's connection. It greets, looks at a dataset as often as it likes, opens at most one loader, and
 * answers questions about it. Messages come from a process of the same user; what does not fit closes the connection.
 */
#include "agent/session.h"

#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/account.h"
#include "agent/blend.h"
#include "agent/council.h"
#include "agent/describe.h"
#include "agent/loading.h"
#include "agent/peers.h"
#include "agent/tracing.h"
#include "base/json.h"
#include "base/log.h"
#include "base/parse.h"
#include "leat/leat.h"
#include "order/state.h"
#include "ring/parcel.h"
#include "ring/settings.h"

/* What this release can do beyond the protocol. */
#define FEATURES "loaders trace jobs long"

#define TEXT_MAX (LEAT_WIRE_MAX - 1024u) /* in a packet */

struct leat_session {
    struct leat_watch watch;   /* first member */
    struct leat_watch process; /* a descriptor of the rank's process; -1: not available */
    struct leat_agent *agent;
    struct leat_session *prev, *next;
    int pid; /* the rank's */
    bool greeted;
    bool watches;                   /* it only looks on: `leat top` */
    struct leat_opening *opening;   /* NULL: no supply is being opened for it */
    struct leat_request request;    /* the last one */
    struct leat_blending *blending; /* the same for the streams of a mixture */
    struct leat_supply *looked;     /* held between a look and the opening of the loader */
    struct leat_blend *looked_blend;
    struct leat_loading *loading;
    bool opened;                  /* the rank was told */
    struct leat_tracing *tracing; /* a trace is being written for it; NULL: none */
    struct leat_seat seat;
    bool agreed;
};

static void let_go_looked(struct leat_session *s)
{
    if (s->looked)
        leat_supply_release(s->looked);
    s->looked = NULL;
    leat_blend_release(s->looked_blend);
    s->looked_blend = NULL;
}

static void session_close(struct leat_session *s)
{
    struct leat_agent *agent = s->agent;
    leat_loop_unwatch(agent->loop, &s->watch);
    close(s->watch.fd);
    leat_loop_unwatch(agent->loop, &s->process);
    if (s->process.fd >= 0)
        close(s->process.fd);
    if (s->opening)
        leat_supply_abandon(s->opening);
    if (s->blending)
        leat_blend_abandon(s->blending);
    leat_tracing_abandon(s->tracing);
    leat_council_leave(&s->seat);
    leat_loading_close(s->loading);
    let_go_looked(s);
    *(s->prev ? &s->prev->next : &agent->sessions) = s->next;
    if (s->next)
        s->next->prev = s->prev;
    leat_request_free(&s->request);
    bool watched = s->watches;
    free(s);
    if (!watched)
        leat_agent_session_gone(agent);
    leat_agent_pump(agent); /* its chunks are free for others */
}

/* Sends what is in the buffer and frees it. A rank that misses a message would wait for it in vain, so one that cannot
 * be sent (no memory for it, a socket full of others) ends the connection: the rank notices, and comes again at its
 * cursor. The session closes when the loop sees the end, not here, where others may be using it. */
static leat_status send_message(struct leat_session *s, struct leat_buf *b, const int *fds, size_t fds_n)
{
    struct leat_error err = {0};
    leat_status rc = leat_buf_check(b, "a message", &err);
    if (rc == LEAT_OK)
        rc = leat_parcel_send(s->watch.fd, b->data, b->len, fds, fds_n, &err);
    if (rc != LEAT_OK) {
        if (rc != LEAT_NETWORK)
            leat_log(LEAT_LOG_WARN, "rank of process %d: %s", s->pid, err.text);
        shutdown(s->watch.fd, SHUT_RDWR);
    }
    leat_buf_free(b);
    return rc;
}

static void begin(struct leat_buf *b, enum leat_message_kind kind)
{
    leat_buf_init(b, LEAT_PARCEL_MAX);
    leat_message_begin(b, kind);
}

/* `lacks`: stores that the request had no access to and needs; NULL: none. */
static void send_failure(struct leat_session *s, enum leat_message_kind kind, const struct leat_error *err, bool agree,
                         const struct leat_sources_list *lacks)
{
    struct leat_buf b;
    begin(&b, kind);
    leat_message_number(&b, LEAT_TAG_STATUS, (uint64_t)err->status);
    leat_message_text(&b, LEAT_TAG_TEXT, err->text);
    leat_message_number(&b, LEAT_TAG_AGREE, agree);
    for (uint32_t i = 0; lacks && i < lacks->n; i++) {
        size_t group = leat_message_group(&b, LEAT_TAG_LACKS);
        leat_message_text(&b, LEAT_TAG_URL, lacks->urls[i]);
        leat_message_group_end(&b, group);
    }
    send_message(s, &b, NULL, 0);
}

static void send_error(struct leat_session *s, enum leat_message_kind kind, const struct leat_error *err, bool agree)
{
    send_failure(s, kind, err, agree, NULL);
}

/* A text that a packet does not hold comes in a descriptor. */
static void send_json(struct leat_session *s, enum leat_message_kind kind, json_t *json)
{
    char *text = leat_json_write(json, JSON_COMPACT);
    size_t n = text ? strlen(text) : 0;
    struct leat_buf b;
    int fd = n > TEXT_MAX ? leat_parcel_file(text, n) : -1;
    begin(&b, kind);
    if (text && n <= TEXT_MAX)
        leat_message_text(&b, LEAT_TAG_TEXT, text);
    else if (fd < 0)
        b.failed = true;
    send_message(s, &b, &fd, fd >= 0);
    if (fd >= 0)
        close(fd);
    free(text);
    json_decref(json);
}

static void on_failed(void *user, const struct leat_error *err)
{
    struct leat_session *s = user;
    leat_log(LEAT_LOG_WARN, "loader of process %d failed: %s", s->pid, err->text);
    send_error(s, LEAT_MESSAGE_FAILED, err, false);
}

static leat_status on_memory(void *user, uint32_t slot, int fd, struct leat_error *err)
{
    struct leat_session *s = user;
    struct leat_buf b;
    begin(&b, LEAT_MESSAGE_MEMORY);
    leat_message_number(&b, LEAT_TAG_SLOT, slot);
    leat_status rc = send_message(s, &b, &fd, 1);
    if (rc != LEAT_OK)
        return leat_fail(err, rc, "the rank could not be given the memory of a large batch");
    return LEAT_OK;
}

static bool same_folder(const char *a, const char *b)
{
    struct stat one;
    struct stat other;
    if (strcmp(a, b) == 0)
        return true;
    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

static leat_status check_cache_settings(const struct leat_agent_opts *has, const struct leat_loader_opts *o,
                                        struct leat_error *err)
{
    static const char help[] = "use the same, leave it out, or give the loader another scope";
    char mine[LEAT_FORMAT_SIZE];
    char theirs[LEAT_FORMAT_SIZE];
    if ((o->cache_dir || o->cache) && !has->cache_dir)
        return leat_fail(
            err, LEAT_INVALID,
            "this machine's agent (pid %d) runs without a cache on disk and the loader asks for one: end it "
            "first (leat agent stop), leave cache_dir and cache out, or give the loader another scope",
            (int)getpid());
    if (o->cache_dir && !same_folder(o->cache_dir, has->cache_dir))
        return leat_fail(err, LEAT_INVALID,
                         "this machine's agent (pid %d) runs with cache_dir=%.120s and the loader asks for %.120s: %s",
                         (int)getpid(), has->cache_dir, o->cache_dir, help);
    if (o->cache && o->cache != has->cache)
        return leat_fail(err, LEAT_INVALID,
                         "this machine's agent (pid %d) runs with cache=%s and the loader asks for %s: %s",
                         (int)getpid(), has->cache ? leat_format_size(has->cache, mine) : "its default",
                         leat_format_size(o->cache, theirs), help);
    return LEAT_OK;
}

/* Settings of the whole agent: a second loader may leave them out or ask for the same. */
static leat_status check_settings(const struct leat_agent *agent, const struct leat_loader_opts *o,
                                  struct leat_error *err)
{
    char has[LEAT_FORMAT_SIZE];
    char wants[LEAT_FORMAT_SIZE];
    if (o->ram && o->ram != agent->opts.ram)
        return leat_fail(
            err, LEAT_INVALID,
            "this machine's agent (pid %d) runs with ram=%s and the loader asks for %s: use the same, leave "
            "it out, or give the loader another scope",
            (int)getpid(), leat_format_size(agent->opts.ram, has), leat_format_size(o->ram, wants));
    if (o->threads && o->threads != agent->opts.threads)
        return leat_fail(err, LEAT_INVALID,
                         "this machine's agent (pid %d) runs with threads=%u and the loader asks for %u: use the same, "
                         "leave it out, or give the loader another scope",
                         (int)getpid(), agent->opts.threads, o->threads);
    if (o->metrics && (!agent->opts.metrics || strcmp(o->metrics, agent->opts.metrics) != 0))
        return leat_fail(err, LEAT_INVALID,
                         "this machine's agent (pid %d) runs with metrics=%s and the loader asks for %.80s: use the "
                         "same, leave it out, or give the loader another scope",
                         (int)getpid(), agent->opts.metrics ? agent->opts.metrics : "none", o->metrics);
    return check_cache_settings(&agent->opts, o, err);
}

static void drop_loading(struct leat_session *s, const struct leat_error *err)
{
    leat_loading_close(s->loading);
    s->loading = NULL;
    send_error(s, LEAT_MESSAGE_ERROR, err, false);
}

static void on_opened(void *user, const struct leat_error *err)
{
    struct leat_session *s = user;
    int fds[3];
    struct leat_buf b;
    if (err->status != LEAT_OK) {
        drop_loading(s, err);
        return;
    }
    leat_loading_fds(s->loading, fds);
    begin(&b, LEAT_MESSAGE_OPENED);
    leat_loading_describe(s->loading, &b);
    s->opened = true;
    send_message(s, &b, fds, 3);
    let_go_looked(s);
}

/* The ranks of the job agree, or not; one that comes later may differ too. */
static void on_decided(void *user, const struct leat_error *err)
{
    struct leat_session *s = user;
    struct leat_buf b;
    if (err->status == LEAT_OK) {
        s->agreed = true;
        begin(&b, LEAT_MESSAGE_AGREE);
        send_message(s, &b, NULL, 0);
    } else {
        send_error(s, s->agreed ? LEAT_MESSAGE_FAILED : LEAT_MESSAGE_ERROR, err, true);
    }
}

static void agree(struct leat_session *s)
{
    const struct leat_loader_opts *o = &s->request.opts;
    struct leat_error err = {0};
    if (!s->opened || !s->loading || !o->job) {
        leat_fail(&err, LEAT_INVALID, "a connection without a loader has nothing to agree to");
        send_error(s, LEAT_MESSAGE_ERROR, &err, false);
        return;
    }
    leat_council_leave(&s->seat); /* a rank that tries again */
    s->agreed = false;
    s->seat.rank = o->rank;
    s->seat.expected = o->local_world;
    s->seat.decided = on_decided;
    s->seat.user = s;
    uint64_t timeout_ns = o->timeout_ns ? o->timeout_ns : LEAT_TIMEOUT_DEFAULT;
    const char *agreement = leat_loading_agreement(s->loading);
    if (leat_council_join(s->agent, &s->seat, o->job, agreement, timeout_ns, &err) != LEAT_OK)
        send_error(s, LEAT_MESSAGE_ERROR, &err, false);
}

/* A look: the same checks, without a ring. */
static void on_looked(void *user, const struct leat_error *err)
{
    struct leat_session *s = user;
    struct leat_buf b;
    struct leat_loading *look = s->loading;
    s->loading = NULL;
    if (err->status == LEAT_OK) {
        begin(&b, LEAT_MESSAGE_OPENED);
        leat_loading_describe(look, &b);
        send_message(s, &b, NULL, 0);
    } else {
        send_error(s, LEAT_MESSAGE_ERROR, err, false);
    }
    leat_loading_close(look);
}

static void ask_keys(struct leat_session *s, const char *place)
{
    struct leat_buf b;
    begin(&b, LEAT_MESSAGE_KEYS);
    leat_message_text(&b, LEAT_TAG_PLACE, place);
    send_message(s, &b, NULL, 0);
}

/* What other ranks were asked before this one came: it may be the only one that is left to answer. */
static void ask_keys_too(struct leat_session *s)
{
    const char *place;
    for (uint32_t i = 0; (place = leat_loading_asked_keys(s->loading, i)); i++)
        ask_keys(s, place);
}

static void open_loading(struct leat_session *s, struct leat_supply *supply, struct leat_blend *blend,
                         const struct leat_sources_list *lacks, const struct leat_error *err)
{
    struct leat_error failure = *err;
    if (supply) {
        bool look = !s->request.opts.world;
        struct leat_loading_opts opts = {
            .agent = s->agent,
            .pid = s->pid,
            .supply = supply,
            .blend = blend,
            .opened = look ? on_looked : on_opened,
            .failed = on_failed,
            .memory = on_memory,
            .user = s,
        };
        leat_supply_hold(supply);
        if (blend)
            leat_blend_hold(blend);
        let_go_looked(s);
        s->looked = supply; /* until the loader is opened: it would find its dataset closed */
        s->looked_blend = blend;
        if (leat_loading_open(&opts, &s->request, &s->loading, &failure) == LEAT_OK) {
            if (!look)
                ask_keys_too(s);
            return;
        }
    }
    send_failure(s, LEAT_MESSAGE_ERROR, &failure, false, lacks);
}

static void on_supply(void *user, struct leat_supply *supply, const struct leat_sources_list *lacks,
                      const struct leat_error *err)
{
    struct leat_session *s = user;
    s->opening = NULL;
    open_loading(s, supply, NULL, lacks, err);
}

static void on_blend(void *user, struct leat_blend *blend, const struct leat_sources_list *lacks,
                     const struct leat_error *err)
{
    struct leat_session *s = user;
    s->blending = NULL;
    open_loading(s, blend ? blend->supplies[0] : NULL, blend, lacks, err);
}

/* From the first batch on a mixture is of the versions that it began with. */
static leat_status check_version(const struct leat_request *r, const uint8_t *ids, uint32_t n, struct leat_error *err)
{
    uint8_t id[LEAT_SHA256_SIZE];
    char hex[2 * LEAT_SHA256_SIZE + 1];
    if (!r->strict || !r->id)
        return LEAT_OK;
    leat_blend_id(ids, n, id);
    leat_hex(id, sizeof id, hex);
    if (strcmp(hex, r->id) == 0)
        return LEAT_OK;
    return leat_fail(err, LEAT_INVALID,
                     "the state does not fit: its streams are of other versions than this loader began with");
}

/* The streams of a mixture, in the versions that a state names. */
static leat_status open_streams(struct leat_session *s, struct leat_error *err)
{
    const struct leat_request *r = &s->request;
    struct leat_order_state *state = NULL;
    uint8_t ids[LEAT_BLEND_STREAMS_MAX][LEAT_SHA256_SIZE];
    leat_status rc = LEAT_OK;
    if (r->state) {
        state = calloc(1, sizeof *state);
        rc = state ? leat_order_state_read(r->state, strlen(r->state), state, err)
                   : leat_fail(err, LEAT_NO_MEMORY, "no memory for a state");
    }
    for (uint32_t i = 0; rc == LEAT_OK && state && i < state->streams_n; i++)
        memcpy(ids[i], state->streams[i].dataset, sizeof ids[i]);
    struct leat_blend_spec *mix = rc == LEAT_OK ? calloc(1, sizeof *mix) : NULL;
    if (rc == LEAT_OK)
        rc = mix ? leat_blend_read(r->opts.mix, mix, err) : leat_fail(err, LEAT_NO_MEMORY, "no memory for a mixture");
    if (rc == LEAT_OK && state && state->streams_n != mix->n)
        rc = leat_fail(err, LEAT_INVALID, "the state does not fit: it is of %u datasets (here %u)", state->streams_n,
                       mix->n);
    if (rc == LEAT_OK && state)
        rc = check_version(r, ids[0], state->streams_n, err);
    if (rc == LEAT_OK)
        rc = leat_blend_open(s->agent, r, state ? ids[0] : NULL, on_blend, s, &s->blending, err);
    if (state)
        leat_order_state_free(state);
    if (mix)
        leat_blend_free(mix);
    free(mix);
    free(state);
    return rc;
}

/* A state says which version it is of; unless the loader is bound to one, that is the one to open. */
static leat_status version_of_state(struct leat_request *r, char id[2 * LEAT_SHA256_SIZE + 1], struct leat_error *err)
{
    struct leat_order_state *state = malloc(sizeof *state);
    if (!state)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a state");
    leat_status rc = leat_order_state_read(r->state, strlen(r->state), state, err);
    if (rc == LEAT_OK) {
        leat_hex(state->streams[0].dataset, sizeof state->streams[0].dataset, id);
        r->id = id;
        leat_order_state_free(state);
    }
    free(state);
    return rc;
}

static void open_loader(struct leat_session *s, struct leat_part part)
{
    struct leat_error err = {0};
    char id[2 * LEAT_SHA256_SIZE + 1];
    leat_request_free(&s->request);
    leat_status rc = LEAT_OK;
    if (s->watches)
        rc = leat_fail(&err, LEAT_INVALID, "a connection that only watches opens no loader");
    else if (s->loading || s->opening || s->blending)
        rc = leat_fail(&err, LEAT_INVALID, "a connection can open only one loader");
    if (rc == LEAT_OK)
        rc = leat_request_read(part, &s->request, &err);
    if (rc == LEAT_OK)
        rc = check_settings(s->agent, &s->request.opts, &err);
    bool mixed = rc == LEAT_OK && s->request.opts.mix;
    if (rc == LEAT_OK && !mixed && s->request.state && !s->request.id && !s->request.strict)
        rc = version_of_state(&s->request, id, &err);
    if (rc == LEAT_OK && mixed)
        rc = open_streams(s, &err);
    else if (rc == LEAT_OK)
        rc = leat_supply_open(s->agent, &s->request, on_supply, s, &s->opening, &err);
    if (s->request.id == id)
        s->request.id = NULL;
    if (rc != LEAT_OK)
        send_error(s, LEAT_MESSAGE_ERROR, &err, false);
}

static void greet(struct leat_session *s, struct leat_part hello)
{
    struct leat_error err;
    struct leat_buf b;
    const struct leat_agent_opts *o = &s->agent->opts;
    s->pid = (int)leat_part_number(hello, LEAT_TAG_PID, 0);
    if (leat_part_number(hello, LEAT_TAG_PROTOCOL, 0) != LEAT_WIRE_PROTOCOL) {
        const char *version = leat_part_text(hello, LEAT_TAG_VERSION);
        leat_fail(&err, LEAT_VERSION,
                  "this machine's agent (pid %d) is leat %s and cannot serve leat %.40s: end it "
                  "(leat agent stop), or give the loader another scope",
                  (int)getpid(), leat_version(), version ? version : "?");
        send_error(s, LEAT_MESSAGE_ERROR, &err, false);
        return;
    }
    s->greeted = true;
    if (leat_part_has(hello, LEAT_TAG_WATCHES) && !s->watches) {
        s->watches = true;
        leat_agent_session_watches(s->agent);
    }
    begin(&b, LEAT_MESSAGE_WELCOME);
    leat_message_number(&b, LEAT_TAG_PROTOCOL, LEAT_WIRE_PROTOCOL);
    leat_message_text(&b, LEAT_TAG_VERSION, leat_version());
    leat_message_text(&b, LEAT_TAG_FEATURES, FEATURES);
    leat_message_number(&b, LEAT_TAG_PID, (uint64_t)getpid());
    leat_message_number(&b, LEAT_TAG_RAM, o->ram);
    leat_message_number(&b, LEAT_TAG_THREADS, o->threads);
    leat_message_number(&b, LEAT_TAG_LINGER, o->linger_ns);
    if (o->cache_dir) {
        leat_message_text(&b, LEAT_TAG_CACHE_DIR, o->cache_dir);
        leat_message_number(&b, LEAT_TAG_CACHE, o->cache);
    }
    if (o->metrics)
        leat_message_text(&b, LEAT_TAG_METRICS, o->metrics);
    send_message(s, &b, NULL, 0);
}

static void on_traced(void *user, int fd, const struct leat_trace_told *told, const struct leat_error *err)
{
    struct leat_session *s = user;
    struct leat_buf b;
    s->tracing = NULL;
    if (err->status != LEAT_OK) {
        send_error(s, LEAT_MESSAGE_ERROR, err, false);
        return;
    }
    begin(&b, LEAT_MESSAGE_TRACE);
    leat_message_number(&b, LEAT_TAG_UNITS, told->events);
    leat_message_number(&b, LEAT_TAG_LAST, told->reach_ns);
    send_message(s, &b, &fd, 1);
}

static void trace(struct leat_session *s, struct leat_part part)
{
    struct leat_error err = {0};
    leat_status rc = LEAT_OK;
    if (s->tracing)
        rc = leat_fail(&err, LEAT_INVALID, "a connection asks for one trace at a time");
    if (rc == LEAT_OK)
        rc = leat_tracing_begin(s->agent, leat_part_number(part, LEAT_TAG_LAST, 0), on_traced, s, &s->tracing, &err);
    if (rc != LEAT_OK)
        send_error(s, LEAT_MESSAGE_ERROR, &err, false);
}

static void talk_of_job(struct leat_session *s, struct leat_part part)
{
    const char *text = leat_part_text(part, LEAT_TAG_TEXT);
    struct leat_error err = {0};
    struct leat_buf b;
    char *answer;
    if (leat_peers_ask(s->agent, text ? text : "", &answer, &err) != LEAT_OK) {
        send_error(s, LEAT_MESSAGE_ERROR, &err, false);
        return;
    }
    begin(&b, LEAT_MESSAGE_JOB);
    leat_message_text(&b, LEAT_TAG_TEXT, answer);
    send_message(s, &b, NULL, 0);
    explicit_bzero(answer, strlen(answer));
    free(answer);
}

/* True: go on; false: this is not a conversation. */
static bool take_message(struct leat_session *s, enum leat_message_kind kind, struct leat_part part)
{
    struct leat_buf b;
    if (kind != LEAT_MESSAGE_HELLO && !s->greeted)
        return false;
    switch (kind) {
    case LEAT_MESSAGE_HELLO:
        greet(s, part);
        return true;
    case LEAT_MESSAGE_OPEN:
        open_loader(s, part);
        return true;
    case LEAT_MESSAGE_AGREE:
        agree(s);
        return true;
    case LEAT_MESSAGE_STATS:
        send_json(s, kind, s->loading ? leat_loading_stats(s->loading) : json_object());
        return true;
    case LEAT_MESSAGE_DESCRIBE:
        send_json(s, kind, leat_agent_describe(s->agent));
        return true;
    case LEAT_MESSAGE_KEYS:
        if (s->loading)
            leat_loading_take_keys(s->loading, part);
        return true;
    case LEAT_MESSAGE_TRACE:
        trace(s, part);
        return true;
    case LEAT_MESSAGE_JOB:
        talk_of_job(s, part);
        return true;
    case LEAT_MESSAGE_STOP:
        begin(&b, kind);
        send_message(s, &b, NULL, 0);
        kill(getpid(), SIGTERM);
        return true;
    default:
        return false;
    }
}

/* A packet, if there is one: false then. *go_on false: this is not a conversation. */
static bool hear(struct leat_session *s, char *text, bool *go_on)
{
    int fds[LEAT_WIRE_FDS];
    size_t fds_n = 0;
    size_t n;
    enum leat_message_kind kind;
    struct leat_part part;
    struct leat_parcel parcel;
    struct leat_error err;
    leat_status rc = leat_wire_receive(s->watch.fd, text, &n, fds, &fds_n, NULL);
    if (rc == LEAT_BUSY)
        return false;
    *go_on = rc == LEAT_OK;
    if (rc != LEAT_OK)
        return false;
    rc = leat_parcel_open(text, n, fds, &fds_n, &parcel, &kind, &part, &err);
    while (fds_n)
        close(fds[--fds_n]); /* a rank has no reason to send others */
    if (rc == LEAT_VERSION)
        send_error(s, LEAT_MESSAGE_ERROR, &err, false);
    else
        *go_on = rc == LEAT_OK && take_message(s, kind, part);
    if (parcel.data)
        explicit_bzero(parcel.data, parcel.n);
    free(parcel.data);
    return *go_on;
}

static void on_message(struct leat_watch *watch, uint32_t events)
{
    struct leat_session *s = (struct leat_session *)watch;
    char *text = malloc(LEAT_WIRE_MAX + 1);
    bool go_on = text != NULL;
    (void)events;
    while (go_on && hear(s, text, &go_on))
        ;
    if (text)
        explicit_bzero(text, LEAT_WIRE_MAX); /* keys may have been in it */
    free(text);
    if (!go_on)
        session_close(s);
}

void leat_session_ask_keys(struct leat_agent *agent, const struct leat_supply *supply, const char *place)
{
    for (struct leat_session *s = agent->sessions; s; s = s->next) {
        if (s->loading && leat_loading_reads(s->loading, supply))
            ask_keys(s, place);
    }
}

/* The rank has ended. Children that it forked may have copies of its socket, which would keep the loader. */
static void on_process_end(struct leat_watch *watch, uint32_t events)
{
    (void)events;
    session_close((struct leat_session *)((char *)watch - offsetof(struct leat_session, process)));
}

static void watch_process(struct leat_session *s)
{
    s->process.fd = s->pid > 0 ? (int)syscall(SYS_pidfd_open, s->pid, 0) : -1;
    s->process.ready = on_process_end;
    if (s->process.fd >= 0 && leat_loop_watch(s->agent->loop, &s->process, EPOLLIN, NULL) != LEAT_OK) {
        close(s->process.fd);
        s->process.fd = -1;
    }
}

void leat_session_accept(struct leat_agent *agent, int fd)
{
    struct ucred peer;
    socklen_t n = sizeof peer;
    struct leat_session *s = NULL;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0 || peer.uid != geteuid())
        leat_log(LEAT_LOG_WARN, "refused a connection from another user's process");
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
    watch_process(s);
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
