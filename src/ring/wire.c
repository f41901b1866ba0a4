#include "ring/wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/hash.h"

leat_status leat_wire_send(int fd, const char *text, size_t n, const int *fds, size_t fds_n, struct leat_error *err)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * LEAT_WIRE_FDS)];
        struct cmsghdr align;
    } control = {0};
    struct iovec part = {.iov_base = (void *)(uintptr_t)text, .iov_len = n};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    if (n > LEAT_WIRE_MAX || fds_n > LEAT_WIRE_FDS)
        return leat_fail(err, LEAT_LIMIT, "a message of %zu bytes is too large for the agent's socket", n);
    if (fds_n) {
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE(sizeof(int) * fds_n);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * fds_n);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * fds_n);
    }
    for (;;) {
        if (sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
            return LEAT_OK;
        if (errno == EINTR)
            continue;
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return leat_fail(err, LEAT_BUSY, "the other side does not read its messages");
        return leat_fail(err, LEAT_NETWORK, "the connection to the agent is gone (%s)", strerror(errno));
    }
}

leat_status leat_wire_receive(int fd, char text[LEAT_WIRE_MAX + 1], size_t *n, int fds[LEAT_WIRE_FDS], size_t *fds_n,
                              struct leat_error *err)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * LEAT_WIRE_FDS)];
        struct cmsghdr align;
    } control = {0};
    struct iovec part = {.iov_base = text, .iov_len = LEAT_WIRE_MAX};
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t got;
    do {
        got = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return leat_fail(err, LEAT_BUSY, "no message");
    if (got <= 0)
        return leat_fail(err, LEAT_NETWORK, "the connection to the agent is gone");
    *fds_n = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int received;
            memcpy(&received, CMSG_DATA(c) + i * sizeof(int), sizeof received);
            if (*fds_n < LEAT_WIRE_FDS)
                fds[(*fds_n)++] = received;
            else
                close(received);
        }
    }
    if (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
        while (*fds_n)
            close(fds[--*fds_n]);
        if (m.msg_flags & MSG_TRUNC)
            return leat_fail(err, LEAT_NETWORK, "a message that is too large");
        return leat_fail(err, LEAT_LIMIT, "this process has no file descriptors left (ulimit -n)");
    }
    text[got] = '\0';
    *n = (size_t)got;
    return LEAT_OK;
}

/* Ours, a real folder, and nobody else can put a socket there. One that others can write to is refused rather than
 * changed: it may be /tmp. */
static leat_status check_folder(const char *path, struct leat_error *err)
{
    struct stat st;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return leat_fail_errno(err, errno, "cannot make the folder '%s'", path);
    if (lstat(path, &st) < 0)
        return leat_fail_errno(err, errno, "cannot inspect the folder '%s'", path);
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid())
        return leat_fail(err, LEAT_DENIED, "'%s' is not a folder of this user; set LEAT_RUNTIME_DIR to one", path);
    if (st.st_mode & 0022)
        return leat_fail(err, LEAT_DENIED,
                         "other users can write to '%s': make it private (chmod 700), or set LEAT_RUNTIME_DIR to a "
                         "folder that is",
                         path);
    if (access(path, W_OK | X_OK) < 0)
        return leat_fail_errno(err, errno, "cannot write to the folder '%s'", path);
    return LEAT_OK;
}

static leat_status find_folder(char out[LEAT_WIRE_PATH], struct leat_error *err)
{
    const char *set = getenv("LEAT_RUNTIME_DIR");
    const char *xdg = getenv("XDG_RUNTIME_DIR");
    const size_t most = LEAT_WIRE_PATH - 40; /* room for the names in it */
    if (set && *set) {
        if (strlen(set) > most)
            return leat_fail(err, LEAT_INVALID, "LEAT_RUNTIME_DIR is longer than %zu bytes: too long for a socket",
                             most);
        if (set[0] != '/')
            return leat_fail(err, LEAT_INVALID, "LEAT_RUNTIME_DIR ('%s') is not an absolute path", set);
        snprintf(out, LEAT_WIRE_PATH, "%s", set);
        return check_folder(out, err);
    }
    if (xdg && xdg[0] == '/' && strlen(xdg) + 5 <= most) {
        snprintf(out, LEAT_WIRE_PATH, "%s/leat", xdg);
        if (check_folder(out, err) == LEAT_OK)
            return LEAT_OK;
    }
    snprintf(out, LEAT_WIRE_PATH, "/tmp/leat-%u", (unsigned)geteuid());
    if (check_folder(out, err) == LEAT_OK)
        return LEAT_OK;
    snprintf(out, LEAT_WIRE_PATH, "/dev/shm/leat-%u", (unsigned)geteuid());
    leat_status rc = check_folder(out, err);
    return rc == LEAT_OK ? rc : leat_fail_context(err, rc, "no folder for the agent (set LEAT_RUNTIME_DIR)");
}

leat_status leat_wire_find(const char *scope, struct leat_wire_paths *out, struct leat_error *err)
{
    struct leat_wire_paths p = {0};
    char *const name = p.scope;
    const size_t most = sizeof p.scope;
    int n;
    const char *set = getenv("LEAT_SCOPE");
    const char *slurm = getenv("SLURM_JOB_ID");
    if (scope && *scope)
        n = snprintf(name, most, "%s", scope);
    else if (set && *set)
        n = snprintf(name, most, "%s", set);
    else if (slurm && *slurm)
        n = snprintf(name, most, "slurm-%s", slurm);
    else
        n = snprintf(name, most, "default");
    if (n < 0 || (size_t)n >= most)
        return leat_fail(err, LEAT_INVALID, "the scope has a name longer than %zu bytes", most - 1);
    leat_status rc = find_folder(p.folder, err);
    if (rc != LEAT_OK)
        return rc;
    /* Any text may name a scope; eight bytes of its digest name the files. */
    uint8_t digest[LEAT_SHA256_SIZE];
    char hex[17];
    char socket[LEAT_WIRE_PATH];
    leat_sha256(name, strlen(name), digest);
    leat_hex(digest, 8, hex);
    n = snprintf(socket, sizeof socket, "%s/p%d-%s.sock", p.folder, LEAT_WIRE_PROTOCOL, hex);
    if (n < 0 || (size_t)n >= sizeof socket)
        return leat_fail(err, LEAT_INVALID, "the folder '%s' has too long a name for a socket", p.folder);
    return leat_wire_at(socket, name, out, err);
}

leat_status leat_wire_at(const char *socket, const char *scope, struct leat_wire_paths *out, struct leat_error *err)
{
    struct leat_wire_paths p = {0};
    char *const files[] = {p.socket, p.lock, p.log};
    static const char *const endings[] = {"sock", "lock", "log"};
    const char *slash = strrchr(socket, '/');
    size_t n = strlen(socket);
    if (!slash || n < 6 || strcmp(socket + n - 5, ".sock") != 0 || n >= LEAT_WIRE_PATH)
        return leat_fail(err, LEAT_INVALID, "'%.150s' cannot be the name of an agent's socket", socket);
    snprintf(p.folder, sizeof p.folder, "%.*s", (int)(slash - socket), socket);
    snprintf(p.scope, sizeof p.scope, "%s", scope);
    for (size_t i = 0; i < 3; i++)
        snprintf(files[i], LEAT_WIRE_PATH, "%.*s%s", (int)(n - 4), socket, endings[i]);
    *out = p;
    return LEAT_OK;
}

static int open_socket(const struct leat_wire_paths *paths, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, paths->socket, strlen(paths->socket) + 1);
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

leat_status leat_wire_connect(const struct leat_wire_paths *paths, int *fd, struct leat_error *err)
{
    struct sockaddr_un address;
    int s = open_socket(paths, &address);
    if (s < 0)
        return leat_fail_errno(err, errno, "cannot make a socket");
    if (connect(s, (struct sockaddr *)&address, sizeof address) < 0) {
        int e = errno;
        close(s);
        if (e == ENOENT || e == ECONNREFUSED)
            return leat_fail(err, LEAT_NOT_FOUND, "no agent listens at '%s'", paths->socket);
        if (e == EAGAIN)
            return leat_fail(err, LEAT_BUSY, "too many ranks wait for the agent at '%s'", paths->socket);
        return leat_fail_errno(err, e, "cannot connect to the agent at '%s'", paths->socket);
    }
    *fd = s;
    return LEAT_OK;
}

leat_status leat_wire_listen(const struct leat_wire_paths *paths, int *fd, struct leat_error *err)
{
    struct sockaddr_un address;
    int s = open_socket(paths, &address);
    if (s < 0)
        return leat_fail_errno(err, errno, "cannot make a socket");
    unlink(paths->socket);
    if (bind(s, (struct sockaddr *)&address, sizeof address) < 0 || listen(s, 128) < 0) {
        leat_status rc = leat_fail_errno(err, errno, "cannot listen at '%s'", paths->socket);
        close(s);
        return rc;
    }
    *fd = s;
    return LEAT_OK;
}
