/* Messages and descriptors between rank and agent, and where they meet. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring/parcel.h"
#include "unit.h"

struct ends {
    int a, b;
    char text[LEAT_WIRE_MAX + 1];
    int fds[LEAT_WIRE_FDS];
    size_t n, fds_n;
};

static struct ends *make_ends(void)
{
    int s[2];
    struct ends *e = calloc(1, sizeof *e);
    assert_non_null(e);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, s), 0);
    e->a = s[0];
    e->b = s[1];
    return e;
}

static void free_ends(struct ends *e)
{
    close(e->a);
    close(e->b);
    free(e);
}

static leat_status receive(struct ends *e)
{
    return leat_wire_receive(e->b, e->text, &e->n, e->fds, &e->fds_n, NULL);
}

static int open_fds(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

TEST(messages_arrive_whole_and_one_by_one)
{
    struct ends *e = make_ends();
    assert_int_equal(receive(e), LEAT_BUSY);
    assert_int_equal(leat_wire_send(e->a, "one", 3, NULL, 0, NULL), LEAT_OK);
    assert_int_equal(leat_wire_send(e->a, "two", 3, NULL, 0, NULL), LEAT_OK);
    assert_int_equal(receive(e), LEAT_OK);
    assert_string_equal(e->text, "one");
    assert_int_equal(e->n, 3);
    assert_int_equal(e->fds_n, 0);
    assert_int_equal(receive(e), LEAT_OK);
    assert_string_equal(e->text, "two");
    assert_int_equal(receive(e), LEAT_BUSY);
    free_ends(e);
}

TEST(descriptors_travel_and_are_closed_on_exec)
{
    struct ends *e = make_ends();
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    const int send[] = {pipes[0], pipes[1], pipes[1], pipes[1]};
    assert_int_equal(leat_wire_send(e->a, "x", 1, send, 4, NULL), LEAT_OK);
    assert_int_equal(receive(e), LEAT_OK);
    assert_int_equal(e->fds_n, 4);
    assert_int_equal(write(e->fds[1], "!", 1), 1);
    char c;
    assert_int_equal(read(pipes[0], &c, 1), 1);
    for (size_t i = 0; i < 4; i++) {
        assert_true(fcntl(e->fds[i], F_GETFD) & FD_CLOEXEC);
        close(e->fds[i]);
    }
    close(pipes[0]);
    close(pipes[1]);
    free_ends(e);
}

TEST(messages_that_are_too_large_are_refused_on_both_sides)
{
    struct ends *e = make_ends();
    struct leat_error err;
    char *large = calloc(1, LEAT_WIRE_MAX + 2);
    const int fds[LEAT_WIRE_FDS + 1] = {1, 1, 1, 1, 1};
    assert_int_equal(leat_wire_send(e->a, large, LEAT_WIRE_MAX + 1, NULL, 0, &err), LEAT_LIMIT);
    assert_int_equal(leat_wire_send(e->a, large, 1, fds, 5, &err), LEAT_LIMIT);
    assert_int_equal(leat_wire_send(e->a, large, LEAT_WIRE_MAX, NULL, 0, &err), LEAT_OK);
    assert_int_equal(receive(e), LEAT_OK);
    assert_int_equal(e->n, LEAT_WIRE_MAX);
    int before = open_fds();
    /* Somebody else's program sends what ours would not. */
    assert_int_equal(send(e->a, large, LEAT_WIRE_MAX + 2, 0), LEAT_WIRE_MAX + 2);
    assert_int_equal(receive(e), LEAT_NETWORK);
    assert_int_equal(open_fds(), before);
    free(large);
    free_ends(e);
}

static leat_status open_parcel(struct ends *e, struct leat_parcel *parcel, enum leat_message_kind *kind,
                               struct leat_part *part)
{
    assert_int_equal(receive(e), LEAT_OK);
    return leat_parcel_open(e->text, e->n, e->fds, &e->fds_n, parcel, kind, part, NULL);
}

TEST(what_a_packet_does_not_hold_arrives_whole)
{
    struct ends *e = make_ends();
    struct leat_error err;
    struct leat_buf b;
    struct leat_parcel parcel;
    struct leat_part part;
    enum leat_message_kind kind;
    char *large = malloc(LEAT_PARCEL_MAX + 1);
    int before = open_fds();
    const size_t sizes[] = {10, LEAT_WIRE_MAX - 100, LEAT_WIRE_MAX, 4 * LEAT_WIRE_MAX, LEAT_PARCEL_MAX - 100};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        memset(large, 'a' + (int)i, sizes[i]);
        large[sizes[i]] = '\0';
        leat_buf_init(&b, LEAT_PARCEL_MAX);
        leat_message_begin(&b, LEAT_MESSAGE_JOB);
        leat_message_text(&b, LEAT_TAG_TEXT, large);
        assert_false(b.failed);
        assert_ok(leat_parcel_send(e->a, b.data, b.len, NULL, 0, &err), err);
        assert_int_equal(open_parcel(e, &parcel, &kind, &part), LEAT_OK);
        assert_int_equal(parcel.data != NULL, b.len > LEAT_WIRE_MAX);
        assert_int_equal(kind, LEAT_MESSAGE_JOB);
        assert_string_equal(leat_part_text(part, LEAT_TAG_TEXT), large);
        free(parcel.data);
        leat_buf_free(&b);
    }
    assert_int_equal(leat_parcel_send(e->a, large, LEAT_PARCEL_MAX + 1, NULL, 0, &err), LEAT_LIMIT);
    assert_int_equal(leat_parcel_send(e->a, large, LEAT_WIRE_MAX + 1, &e->b, 1, &err), LEAT_LIMIT);
    assert_int_equal(open_fds(), before);
    free(large);
    free_ends(e);
}

/* A pipe would be waited for, and a file could become shorter while it is read. */
TEST(a_long_message_that_is_none_is_refused_and_not_waited_for)
{
    struct ends *e = make_ends();
    struct leat_error err;
    struct leat_buf b;
    struct leat_parcel parcel;
    struct leat_part part;
    enum leat_message_kind kind;
    int pipes[2];
    char *large = calloc(1, LEAT_PARCEL_MAX + 1);
    leat_buf_init(&b, LEAT_WIRE_MAX);
    leat_message_begin(&b, LEAT_MESSAGE_LONG);
    memset(large, 'x', LEAT_PARCEL_MAX);
    assert_int_equal(pipe(pipes), 0);
    struct leat_buf good;
    leat_buf_init(&good, LEAT_WIRE_MAX);
    leat_message_begin(&good, LEAT_MESSAGE_STOP);
    FILE *file = tmpfile();
    assert_int_equal(fwrite(good.data, 1, good.len, file), good.len);
    fflush(file);
    leat_buf_free(&good);
    const int wrong[] = {-1,
                         pipes[0],
                         fileno(file),
                         leat_parcel_file(large, LEAT_PARCEL_MAX + 1),
                         leat_parcel_file(large, 100),
                         leat_parcel_file(b.data, b.len)}; /* one in another */
    int before = open_fds();
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_ok(leat_wire_send(e->a, b.data, b.len, &wrong[i], wrong[i] >= 0, &err), err);
        assert_int_equal(open_parcel(e, &parcel, &kind, &part), LEAT_INVALID);
        assert_null(parcel.data);
        assert_int_equal(open_fds(), before);
    }
    for (size_t i = 3; i < COUNT(wrong); i++)
        close(wrong[i]);
    close(pipes[0]);
    close(pipes[1]);
    fclose(file);
    leat_buf_free(&b);
    free(large);
    free_ends(e);
}

/* As many descriptors as it likes, of which we take none. */
TEST(surplus_descriptors_do_not_leak)
{
    struct ends *e = make_ends();
    union {
        char bytes[CMSG_SPACE(sizeof(int) * 10)];
        struct cmsghdr align;
    } control = {0};
    char text[] = "x";
    struct iovec part = {.iov_base = text, .iov_len = 1};
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * 10);
    int fds[10] = {0};
    memcpy(CMSG_DATA(c), fds, sizeof fds);
    int before = open_fds();
    assert_int_equal(sendmsg(e->a, &m, 0), 1);
    assert_int_not_equal(receive(e), LEAT_OK);
    assert_int_equal(open_fds(), before);
    free_ends(e);
}

TEST(process_without_descriptors_is_told_so)
{
    struct ends *e = make_ends();
    struct rlimit old;
    struct leat_error err;
    int before = open_fds();
    const int two[] = {0, 0};
    assert_int_equal(leat_wire_send(e->a, "x", 1, two, 2, NULL), LEAT_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    int highest = 0;
    for (int fd = 0; fd < 256; fd++)
        highest = fcntl(fd, F_GETFD) >= 0 ? fd : highest;
    int filled[256];
    int n = 0;
    while ((filled[n] = dup(0)) <= highest)
        n++;
    struct rlimit none = {.rlim_cur = (rlim_t)filled[n] + 1, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    leat_status rc = leat_wire_receive(e->b, e->text, &e->n, e->fds, &e->fds_n, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    for (int i = 0; i <= n; i++)
        close(filled[i]);
    assert_int_equal(rc, LEAT_LIMIT);
    assert_non_null(strstr(err.text, "descriptors"));
    assert_int_equal(open_fds(), before);
    free_ends(e);
}

TEST(other_side_that_is_gone_is_noticed_without_a_signal)
{
    struct ends *e = make_ends();
    assert_int_equal(leat_wire_send(e->a, "last", 4, NULL, 0, NULL), LEAT_OK);
    close(e->a);
    assert_int_equal(receive(e), LEAT_OK); /* what was said before is still heard */
    assert_int_equal(receive(e), LEAT_NETWORK);
    assert_int_equal(leat_wire_send(e->b, "x", 1, NULL, 0, NULL), LEAT_NETWORK);
    e->a = dup(e->b);
    free_ends(e);
}

TEST(other_side_that_does_not_read_is_never_waited_for)
{
    struct ends *e = make_ends();
    leat_status rc = LEAT_OK;
    for (int i = 0; i < 100000 && rc == LEAT_OK; i++)
        rc = leat_wire_send(e->a, "message", 7, NULL, 0, NULL);
    assert_int_equal(rc, LEAT_BUSY);
    free_ends(e);
}

static char folder[64];

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/leat-wire-XXXXXX");
    unsetenv("LEAT_SCOPE");
    unsetenv("SLURM_JOB_ID");
    assert_non_null(mkdtemp(folder));
    setenv("LEAT_RUNTIME_DIR", folder, 1);
}

static void remove_folder(void)
{
    assert_int_equal(rmdir(folder), 0);
}

TEST(scopes_have_files_of_their_own)
{
    struct leat_wire_paths a;
    struct leat_wire_paths b;
    struct leat_error err;
    char longest[LEAT_WIRE_SCOPE + 1];
    assert_int_equal(leat_wire_find("one", &a, &err), LEAT_OK);
    assert_int_equal(leat_wire_find("two", &b, &err), LEAT_OK);
    assert_string_not_equal(a.socket, b.socket);
    assert_int_equal(strncmp(a.socket, folder, strlen(folder)), 0);
    assert_int_equal(leat_wire_find(NULL, &a, &err), LEAT_OK);
    assert_string_equal(a.scope, "default");
    setenv("SLURM_JOB_ID", "42", 1);
    assert_int_equal(leat_wire_find(NULL, &a, &err), LEAT_OK);
    assert_string_equal(a.scope, "slurm-42");
    setenv("LEAT_SCOPE", "said", 1);
    assert_int_equal(leat_wire_find(NULL, &a, &err), LEAT_OK);
    assert_string_equal(a.scope, "said");
    unsetenv("LEAT_SCOPE");
    unsetenv("SLURM_JOB_ID");
    memset(longest, 'x', LEAT_WIRE_SCOPE);
    longest[LEAT_WIRE_SCOPE] = '\0';
    assert_int_equal(leat_wire_find(longest, &a, &err), LEAT_INVALID);
    longest[LEAT_WIRE_SCOPE - 1] = '\0';
    assert_int_equal(leat_wire_find(longest, &a, &err), LEAT_OK);
    assert_string_equal(a.scope, longest); /* whole: the agent is told it */
}

TEST(folders_are_checked)
{
    struct leat_wire_paths p;
    struct leat_error err;
    char path[128];
    struct stat st;
    snprintf(path, sizeof path, "%s/new", folder);
    setenv("LEAT_RUNTIME_DIR", path, 1);
    assert_int_equal(leat_wire_find(NULL, &p, &err), LEAT_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(chmod(path, 0777), 0);
    assert_int_equal(leat_wire_find(NULL, &p, &err), LEAT_DENIED);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0777);
    rmdir(path);
    assert_int_equal(symlink(folder, path), 0); /* somebody's link is no folder of ours */
    assert_int_equal(leat_wire_find(NULL, &p, &err), LEAT_DENIED);
    unlink(path);
    setenv("LEAT_RUNTIME_DIR", "relative", 1);
    assert_int_equal(leat_wire_find(NULL, &p, &err), LEAT_INVALID);
    char very_long[200];
    memset(very_long, 'd', sizeof very_long - 1);
    very_long[0] = '/';
    very_long[sizeof very_long - 1] = '\0';
    setenv("LEAT_RUNTIME_DIR", very_long, 1);
    assert_int_equal(leat_wire_find(NULL, &p, &err), LEAT_INVALID);
    setenv("LEAT_RUNTIME_DIR", folder, 1);
}

TEST(stale_socket_is_replaced_and_a_full_one_is_busy)
{
    struct leat_wire_paths p;
    struct leat_error err;
    int listening;
    int fd;
    assert_int_equal(leat_wire_find(NULL, &p, &err), LEAT_OK);
    assert_int_equal(leat_wire_connect(&p, &fd, &err), LEAT_NOT_FOUND);
    assert_int_equal(leat_wire_listen(&p, &listening, &err), LEAT_OK);
    close(listening); /* as after kill -9: the name stays */
    assert_int_equal(leat_wire_connect(&p, &fd, &err), LEAT_NOT_FOUND);
    assert_int_equal(leat_wire_listen(&p, &listening, &err), LEAT_OK);
    int waiting[200];
    int n = 0;
    leat_status rc;
    while ((rc = leat_wire_connect(&p, &waiting[n], &err)) == LEAT_OK && n < 199)
        n++;
    assert_int_equal(rc, LEAT_BUSY);
    while (n > 0)
        close(waiting[--n]);
    close(listening);
    unlink(p.socket);
}

TEST_GROUP(make_folder, remove_folder);
