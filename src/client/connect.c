#include "client/connect.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "leat/leat.h"
#include "ring/parcel.h"

#define CONNECT_NS (20 * LEAT_S)
#define POLL_NS    (100 * LEAT_MS)
#define PAUSE_NS   (5 * LEAT_MS) /* at first, between two looks for an agent */
#define READY_FD   3
#define STARTS_MAX 4u /* agents that end before they are ready: killed by somebody, or by their own doing */

void leat_connection_close(struct leat_connection *c)
{
    if (!c)
        return;
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

bool leat_connection_can(const struct leat_connection *c, const char *feature)
{
    size_t n = strlen(feature);
    for (const char *at = c->features; *at;) {
        size_t len = strcspn(at, " ");
        if (len == n && strncmp(at, feature, n) == 0)
            return true;
        at += len + (at[len] == ' ');
    }
    return false;
}

leat_status leat_connection_send(struct leat_connection *c, struct leat_buf *message, struct leat_error *err)
{
    leat_status rc = leat_buf_check(message, "a message to the agent", err);
    if (rc == LEAT_OK)
        rc = leat_connection_can(c, "long") ? leat_parcel_send(c->fd, message->data, message->len, NULL, 0, err)
                                            : leat_wire_send(c->fd, message->data, message->len, NULL, 0, err);
    leat_buf_free(message);
    return rc;
}

void leat_incoming_free(struct leat_incoming *m)
{
    while (m->fds_n)
        close(m->fds[--m->fds_n]);
    free(m->bytes);
    *m = (struct leat_incoming){0};
}

static bool stopped(bool (*stop)(void *user), void *user)
{
    return stop && stop(user);
}

leat_status leat_connection_receive(struct leat_connection *c, uint64_t deadline_ns, bool (*stop)(void *user),
                                    void *stop_user, struct leat_incoming *out, struct leat_error *err)
{
    struct leat_incoming m = {.bytes = malloc(LEAT_WIRE_MAX + 1)};
    if (!m.bytes)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a message from the agent");
    struct leat_parcel parcel = {0};
    leat_status rc;
    size_t n = 0;
    while ((rc = leat_wire_receive(c->fd, m.bytes, &n, m.fds, &m.fds_n, err)) == LEAT_BUSY) {
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        uint64_t left = leat_left(deadline_ns);
        if (!left) {
            rc = leat_fail(err, LEAT_TIMEOUT, "the agent (pid %d, log %s) does not answer: it hangs or was stopped",
                           c->agent_pid, c->paths.log);
            break;
        }
        if (stopped(stop, stop_user)) {
            rc = leat_fail(err, LEAT_CANCELLED, "interrupted");
            break;
        }
        left = left < POLL_NS ? left : POLL_NS;
        poll(&p, 1, (int)(left / LEAT_MS) + 1);
    }
    if (rc == LEAT_OK) {
        rc = leat_parcel_open(m.bytes, n, m.fds, &m.fds_n, &parcel, &m.kind, &m.part, err);
        if (rc != LEAT_OK)
            rc = leat_fail_context(err, rc == LEAT_NO_MEMORY ? rc : LEAT_VERSION, "the agent at '%s'", c->paths.socket);
    }
    if (rc == LEAT_OK && parcel.data) {
        free(m.bytes);
        m.bytes = parcel.data;
    }
    if (rc == LEAT_OK)
        *out = m;
    else
        leat_incoming_free(&m);
    return rc;
}

leat_status leat_incoming_check(const struct leat_incoming *m, struct leat_error *err)
{
    if (m->kind != LEAT_MESSAGE_ERROR && m->kind != LEAT_MESSAGE_FAILED)
        return LEAT_OK;
    uint64_t status = leat_part_number(m->part, LEAT_TAG_STATUS, 0);
    const char *text = leat_part_text(m->part, LEAT_TAG_TEXT);
    if (status == LEAT_OK || status >= LEAT_STATUS_COUNT)
        status = LEAT_INTERNAL;
    return leat_fail(err, (leat_status)status, "%s", text ? text : "the agent gave no reason");
}

/* Who listens there, before it has said a word: an agent that hangs has to be named too. 0: not known. */
static int listener_pid(int fd)
{
    struct ucred peer;
    socklen_t n = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 ? (int)peer.pid : 0;
}

/* Says hello; the answer names the agent's process. */
static leat_status greet(struct leat_connection *c, bool watches, uint64_t deadline_ns,
                         const struct leat_connect_opts *opts, struct leat_error *err)
{
    struct leat_incoming answer;
    struct leat_buf b;
    c->agent_pid = listener_pid(c->fd);
    leat_buf_init(&b, LEAT_WIRE_MAX);
    leat_message_begin(&b, LEAT_MESSAGE_HELLO);
    leat_message_number(&b, LEAT_TAG_PROTOCOL, LEAT_WIRE_PROTOCOL);
    leat_message_text(&b, LEAT_TAG_VERSION, leat_version());
    leat_message_number(&b, LEAT_TAG_PID, (uint64_t)getpid());
    if (watches)
        leat_message_aside(&b, LEAT_TAG_WATCHES, 1);
    leat_status rc = leat_connection_send(c, &b, err);
    if (rc != LEAT_OK)
        return rc;
    rc = leat_connection_receive(c, deadline_ns, opts ? opts->stop : NULL, opts ? opts->stop_user : NULL, &answer, err);
    if (rc != LEAT_OK)
        return rc;
    rc = leat_incoming_check(&answer, err);
    if (rc == LEAT_OK && (answer.kind != LEAT_MESSAGE_WELCOME ||
                          leat_part_number(answer.part, LEAT_TAG_PROTOCOL, 0) != LEAT_WIRE_PROTOCOL))
        rc = leat_fail(err, LEAT_VERSION, "the agent at '%s' speaks another protocol than leat %s", c->paths.socket,
                       leat_version());
    c->agent_pid = (int)leat_part_number(answer.part, LEAT_TAG_PID, 0);
    c->ram = leat_part_number(answer.part, LEAT_TAG_RAM, 0);
    c->threads = (uint32_t)leat_part_number(answer.part, LEAT_TAG_THREADS, 0);
    c->linger_ns = leat_part_number(answer.part, LEAT_TAG_LINGER, 0);
    c->cache = leat_part_number(answer.part, LEAT_TAG_CACHE, 0);
    const char *dir = leat_part_text(answer.part, LEAT_TAG_CACHE_DIR);
    snprintf(c->cache_dir, sizeof c->cache_dir, "%s", dir ? dir : "");
    const char *metrics = leat_part_text(answer.part, LEAT_TAG_METRICS);
    snprintf(c->metrics, sizeof c->metrics, "%s", metrics ? metrics : "");
    const char *features = leat_part_text(answer.part, LEAT_TAG_FEATURES);
    snprintf(c->features, sizeof c->features, "%s", features ? features : "");
    leat_incoming_free(&answer);
    return rc;
}

static leat_status connect_existing(const struct leat_wire_paths *paths, bool watches, struct leat_connection *out,
                                    struct leat_error *err)
{
    struct leat_connection c = {.fd = -1, .paths = *paths};
    leat_status rc = leat_wire_connect(&c.paths, &c.fd, err);
    if (rc == LEAT_OK)
        rc = greet(&c, watches, leat_after(5 * LEAT_S), NULL, err);
    if (rc != LEAT_OK) {
        leat_connection_close(&c);
        return rc;
    }
    *out = c;
    return LEAT_OK;
}

leat_status leat_connect_existing(const struct leat_wire_paths *paths, struct leat_connection *out,
                                  struct leat_error *err)
{
    return connect_existing(paths, false, out, err);
}

leat_status leat_connect_watching(const struct leat_wire_paths *paths, struct leat_connection *out,
                                  struct leat_error *err)
{
    return connect_existing(paths, true, out, err);
}

static bool runnable(const char *path)
{
    return access(path, X_OK) == 0;
}

/* The command: said, in the environment, beside the code that asks, or in PATH. */
static bool find_agent(const char *said, char *out, size_t n)
{
    const char *set = getenv("LEAT_AGENT");
    if (said || (set && *set)) {
        snprintf(out, n, "%s", said ? said : set);
        return runnable(out);
    }
    /* Nearest first: of lib/libleat.so.1 or what `pip install --target` made, of lib/x86_64-linux-gnu/libleat.so.1, of
     * the build folder's package, tests and library, of lib/python3.X/site-packages/leat/_core.abi3.so. */
    static const char *const beside[] = {"../bin/leat",     "../../bin/leat", "../../src/cli/leat",
                                         "../src/cli/leat", "cli/leat",       "../../../../bin/leat"};
    Dl_info here;
    if (dladdr((void *)(uintptr_t)find_agent, &here) && here.dli_fname && strchr(here.dli_fname, '/')) {
        int folder = (int)(strrchr(here.dli_fname, '/') - here.dli_fname);
        for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
            snprintf(out, n, "%.*s/%s", folder, here.dli_fname, beside[i]);
            if (runnable(out))
                return true;
        }
    }
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t len = strcspn(path, ":");
        snprintf(out, n, "%.*s/leat", (int)len, path);
        if (len && runnable(out))
            return true;
        path += len + (path[len] == ':');
    }
    return false;
}

/* The process that starts the agent may have no standard streams: then a pipe would get their numbers, which the agent
 * needs. */
static void move_up(int *fd)
{
    if (*fd < 0 || *fd > READY_FD)
        return;
    int higher = fcntl(*fd, F_DUPFD_CLOEXEC, READY_FD + 1);
    close(*fd);
    *fd = higher;
}

/* In the child, between fork and exec: only calls that are safe after a fork of a process with threads. */
static void become_agent(const char *path, char *const *argv, int log_fd, int ready_fd)
{
    sigset_t none;
    int null_fd = open("/dev/null", O_RDWR);
    setsid();
    pid_t pid = fork(); /* not a session leader, and a child of init: nobody has to wait for it */
    if (pid != 0)
        _exit(pid < 0 ? 1 : 0);
    dup2(null_fd, STDIN_FILENO);
    dup2(null_fd, STDOUT_FILENO);
    dup2(log_fd >= 0 ? log_fd : null_fd, STDERR_FILENO);
    dup2(ready_fd, READY_FD);
    syscall(SYS_close_range, READY_FD + 1, ~0u, 0);
    if (chdir("/") < 0)
        _exit(1);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int s = 1; s < 32; s++)
        signal(s, SIG_DFL);
    execv(path, argv);
    _exit(127);
}

/* What an agent that ended without an answer has written to its log, which has grown from `from` bytes: its last
 * line. */
static leat_status say_last_words(const char *log, off_t from, struct leat_error *err)
{
    char text[300];
    int fd = open(log, O_RDONLY | O_CLOEXEC);
    off_t end = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    off_t most = (off_t)sizeof text - 1;
    off_t at = end - from > most ? end - most : from;
    ssize_t n = fd >= 0 && end > from ? pread(fd, text, (size_t)(end - at), at) : 0;
    if (fd >= 0)
        close(fd);
    while (n > 0 && text[n - 1] == '\n')
        n--;
    text[n > 0 ? n : 0] = '\0';
    char *line = strrchr(text, '\n');
    if (line && strncmp(line, "\nTry '", 6) == 0) { /* advice for those who typed the command */
        *line = '\0';
        line = strrchr(text, '\n');
    }
    line = line ? line + 1 : text;
    return leat_fail(err, LEAT_NETWORK, "the agent ended before it was ready%s%s; its log is %s", *line ? ": " : "",
                     line, log);
}

/* Reads what the starting agent says: "ok", "busy" or why it cannot. LEAT_NETWORK: it ended without a word. */
static leat_status await_ready(int fd, off_t logged, uint64_t deadline_ns, const struct leat_connect_opts *opts,
                               const struct leat_wire_paths *paths, bool *busy, struct leat_error *err)
{
    char text[600];
    size_t at = 0;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        uint64_t left = leat_left(deadline_ns);
        if (!left)
            return leat_fail(err, LEAT_TIMEOUT, "the agent did not start in time; its log is %s", paths->log);
        if (stopped(opts->stop, opts->stop_user))
            return leat_fail(err, LEAT_CANCELLED, "interrupted");
        if (poll(&p, 1, (int)((left < POLL_NS ? left : POLL_NS) / LEAT_MS) + 1) <= 0)
            continue;
        ssize_t n = read(fd, text + at, sizeof text - 1 - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    text[at] = '\0';
    *busy = strcmp(text, "busy\n") == 0;
    if (*busy || strcmp(text, "ok\n") == 0)
        return LEAT_OK;
    if (!at)
        return say_last_words(paths->log, logged, err);
    char *why;
    long status = strtol(text, &why, 10);
    if (status <= LEAT_OK || status >= LEAT_STATUS_COUNT)
        status = LEAT_INTERNAL;
    return leat_fail(err, (leat_status)status, "the agent cannot start:%s", why);
}

static leat_status start_agent(const struct leat_connect_opts *opts, const struct leat_wire_paths *paths,
                               uint64_t deadline_ns, bool *busy, struct leat_error *err)
{
    char found[4096];
    char path[PATH_MAX];
    char ram[32];
    char threads[32];
    char linger[32];
    char cache[32];
    char protocol[16];
    int ready[2];
    /* in full, since the agent's folder is another */
    if (!find_agent(opts->agent, found, sizeof found) || !realpath(found, path))
        return leat_fail(err, LEAT_NOT_FOUND,
                         "cannot find the leat command, which runs the agent: put it in PATH or set LEAT_AGENT");
    snprintf(protocol, sizeof protocol, "%d", LEAT_WIRE_PROTOCOL);
    snprintf(ram, sizeof ram, "%" PRIu64, opts->ram);
    snprintf(threads, sizeof threads, "%u", opts->threads);
    snprintf(linger, sizeof linger, "%" PRIu64 "ns", opts->linger_ns);
    snprintf(cache, sizeof cache, "%" PRIu64, opts->cache);
    /* The agent may be of another release: it is told where to listen and what to speak. */
    const char *argv[32] = {path,          "agent",      "run",    "--scope",    paths->scope, "--socket",
                            paths->socket, "--protocol", protocol, "--ready-fd", "3"};
    size_t n = 11;
    if (opts->ram) {
        argv[n++] = "--ram";
        argv[n++] = ram;
    }
    if (opts->threads) {
        argv[n++] = "--threads";
        argv[n++] = threads;
    }
    if (opts->linger_ns != UINT64_MAX) {
        argv[n++] = "--linger";
        argv[n++] = linger;
    }
    if (opts->cache_dir) {
        argv[n++] = "--cache-dir";
        argv[n++] = opts->cache_dir;
    }
    if (opts->cache) {
        argv[n++] = "--cache";
        argv[n++] = cache;
    }
    if (opts->metrics) {
        argv[n++] = "--metrics";
        argv[n++] = opts->metrics;
    }
    if (pipe2(ready, O_CLOEXEC) < 0)
        return leat_fail_errno(err, errno, "cannot make a pipe");
    int log_fd = open(paths->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    off_t logged = log_fd >= 0 ? lseek(log_fd, 0, SEEK_END) : 0;
    move_up(&log_fd);
    move_up(&ready[1]);
    pid_t pid = ready[1] < 0 ? -1 : fork();
    if (pid == 0)
        become_agent(path, (char *const *)(uintptr_t)argv, log_fd, ready[1]);
    leat_status rc = LEAT_OK;
    if (pid < 0)
        rc = leat_fail_errno(err, errno, "cannot start the agent");
    if (ready[1] >= 0)
        close(ready[1]);
    if (log_fd >= 0)
        close(log_fd);
    if (rc == LEAT_OK) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            continue;
        rc = await_ready(ready[0], logged, deadline_ns, opts, paths, busy, err);
    }
    close(ready[0]);
    return rc;
}

leat_status leat_connect(const struct leat_connect_opts *opts, struct leat_connection *out, struct leat_error *err)
{
    struct leat_connection c = {.fd = -1};
    uint64_t deadline = leat_after(CONNECT_NS);
    if (opts->deadline_ns && opts->deadline_ns < deadline)
        deadline = opts->deadline_ns;
    unsigned starts = 0;
    uint64_t pause = PAUSE_NS;
    leat_status rc = leat_wire_find(opts->scope, &c.paths, err);
    while (rc == LEAT_OK) {
        bool busy = false;
        rc = leat_wire_connect(&c.paths, &c.fd, err);
        if (rc == LEAT_OK) {
            rc = greet(&c, false, deadline, opts, err);
            if (rc == LEAT_OK) {
                *out = c;
                return LEAT_OK;
            }
            leat_connection_close(&c);
            if (rc != LEAT_NETWORK) /* an agent that was just about to end: start another */
                return rc;
            rc = LEAT_OK;
            busy = true;
        } else if (rc == LEAT_BUSY) {
            rc = LEAT_OK;
            busy = true;
        } else if (rc == LEAT_NOT_FOUND) {
            rc = start_agent(opts, &c.paths, deadline, &busy, err);
            if (rc == LEAT_NETWORK && ++starts < STARTS_MAX)
                rc = LEAT_OK;
            else if (rc == LEAT_NETWORK)
                rc = leat_fail_context(err, LEAT_IO, "after %u attempts", starts);
        }
        if (rc == LEAT_OK && !leat_left(deadline))
            rc = leat_fail(err, LEAT_TIMEOUT, "no agent could be reached at '%s'", c.paths.socket);
        if (rc == LEAT_OK && stopped(opts->stop, opts->stop_user))
            rc = leat_fail(err, LEAT_CANCELLED, "interrupted");
        if (rc == LEAT_OK && busy) { /* another one starts, ends, or makes its socket again */
            leat_sleep_until(leat_after(pause));
            pause = pause < POLL_NS ? 2 * pause : pause;
        }
    }
    return rc;
}
