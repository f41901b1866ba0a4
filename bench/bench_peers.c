/* Bytes from one process to another on this machine: by the door and the client that machines of a job use, and by
 * nothing but the calls of the kernel and of OpenSSL, with the same ciphers.
 *
 *     bench_peers leat|bare tls|plain MEBIBYTES [STRANGERS]
 *
 * Strangers are connections of a third process that say nothing, or something that is no TLS, and come back as soon as
 * they are thrown out, each once a second at most.
 *
 * Prints JSON: seconds, and processor time at either end. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/parse.h"
#include "base/pool.h"
#include "net/cert.h"
#include "net/door.h"
#include "net/http.h"
#include "net/loop.h"

#define CHUNK    (8u << 20)
#define PARALLEL 4u
#define TOKEN    "0123456789"

static char *cert, *key;
static char pin[LEAT_CERT_PIN];
static char *data;
static bool tls;

static void check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "bench_peers: %s\n", what);
    kill(0, SIGTERM); /* all three processes */
    exit(1);
}

static char *map(size_t n)
{
    char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    check(p != MAP_FAILED, "no memory");
    return p;
}

static double cpu_s(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

/* Leat's own */

static bool is_known(void *user, const char *token)
{
    (void)user;
    return strcmp(token, TOKEN) == 0;
}

static void on_asked(void *user, struct leat_door_request *r)
{
    (void)user;
    leat_door_answer(r, 200, data, CHUNK, NULL, NULL);
}

static struct leat_door *open_door(unsigned *port)
{
    struct leat_door_opts opts = {
        .cert_pem = tls ? cert : NULL, .key_pem = tls ? key : NULL, .known = is_known, .asked = on_asked};
    struct leat_door *d;
    struct leat_error err;
    int fd;
    *port = 0;
    check(leat_door_bind("127.0.0.1", port, &fd, &err) == LEAT_OK, err.text);
    check(leat_door_open(&opts, fd, &d, &err) == LEAT_OK, err.text);
    return d;
}

struct asking {
    struct leat_task task; /* first member */
    struct leat_http_call call;
    char *into;
};

static struct leat_loop *loop;
static struct leat_pool *pool;
static struct leat_http *http;
static char url[64];
static const char *const headers[] = {"Authorization: Bearer " TOKEN};
static unsigned left, busy;
static uint64_t sum;
static _Atomic bool over;

static void ask(struct asking *a);

static void on_checked(struct leat_task *task)
{
    busy--;
    if (left)
        ask((struct asking *)task);
    over = !busy && !left;
}

/* On a worker, as in an agent: the thread that receives does not look at what comes. */
static void check_sum(struct leat_task *task)
{
    struct asking *a = (struct asking *)task;
    check(leat_xxh3(a->into, CHUNK) == sum, "wrong bytes");
    task->run = on_checked;
    leat_loop_post(loop, task);
}

static void on_done(struct leat_http_call *call)
{
    struct asking *a = call->user;
    check(call->status == LEAT_OK, call->err.text);
    check(call->head.code == 200 && call->got == CHUNK, "another answer");
    a->task.run = check_sum;
    leat_pool_add(pool, &a->task);
}

static void ask(struct asking *a)
{
    left--;
    busy++;
    a->call = (struct leat_http_call){.method = "GET",
                                      .url = url,
                                      .headers = headers,
                                      .headers_n = 1,
                                      .into = a->into,
                                      .into_n = CHUNK,
                                      .deadline_ns = LEAT_NEVER,
                                      .direct = true,
                                      .done = on_done,
                                      .user = a};
    leat_http_start(http, &a->call);
}

static void begin(void *arg)
{
    struct asking *all = arg;
    struct leat_http_opts opts = {.loop = loop, .pin = tls ? pin : NULL};
    check(leat_http_open(&opts, &http, NULL) == LEAT_OK, "no client");
    for (unsigned i = 0; i < PARALLEL && left; i++)
        ask(&all[i]);
}

static void leat_client(unsigned port, unsigned chunks)
{
    struct asking all[PARALLEL];
    struct leat_error err;
    left = chunks;
    sum = leat_xxh3(data, CHUNK);
    for (unsigned i = 0; i < PARALLEL; i++)
        all[i].into = map(CHUNK);
    snprintf(url, sizeof url, "http%s://127.0.0.1:%u/data", tls ? "s" : "", port);
    check(leat_loop_open("client", &loop, &err) == LEAT_OK, err.text);
    check(leat_pool_open("worker", 1, &pool, &err) == LEAT_OK, err.text);
    leat_loop_call(loop, begin, all);
    while (!over)
        poll(NULL, 0, 1);
}

/* Nothing but the calls */

static int listen_bare(unsigned *port)
{
    int fd;
    struct leat_error err;
    *port = 0;
    check(leat_door_bind("127.0.0.1", port, &fd, &err) == LEAT_OK, err.text);
    check(listen(fd, 1) == 0, "listen");
    return fd;
}

static SSL_CTX *bare_context(bool server)
{
    SSL_CTX *c = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    SSL_CTX_set_ciphersuites(c, "TLS_AES_128_GCM_SHA256");
    SSL_CTX_set_num_tickets(c, 0);
    if (server) {
        BIO *b = BIO_new_mem_buf(cert, -1);
        BIO *k = BIO_new_mem_buf(key, -1);
        check(SSL_CTX_use_certificate(c, PEM_read_bio_X509(b, NULL, NULL, NULL)) == 1, "cert");
        check(SSL_CTX_use_PrivateKey(c, PEM_read_bio_PrivateKey(k, NULL, NULL, NULL)) == 1, "key");
    }
    return c;
}

static void bare_server(int listening, unsigned chunks)
{
    struct pollfd p = {.fd = listening, .events = POLLIN};
    poll(&p, 1, -1);
    int fd = accept(listening, NULL, NULL);
    SSL *s = tls ? SSL_new(bare_context(true)) : NULL;
    if (s)
        check(SSL_set_fd(s, fd) == 1 && SSL_accept(s) == 1, "accept");
    for (unsigned i = 0; i < chunks; i++) {
        for (size_t at = 0; at < CHUNK;) {
            ssize_t n = s ? SSL_write(s, data + at, (int)(CHUNK - at)) : send(fd, data + at, CHUNK - at, 0);
            check(n > 0, "send");
            at += (size_t)n;
        }
    }
    close(fd);
}

static void bare_client(unsigned port, unsigned chunks)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    check(connect(fd, (struct sockaddr *)&at, sizeof at) == 0, "connect");
    SSL *s = tls ? SSL_new(bare_context(false)) : NULL;
    if (s)
        check(SSL_set_fd(s, fd) == 1 && SSL_connect(s) == 1, "connect");
    char *into = map(CHUNK);
    for (uint64_t got = 0; got < (uint64_t)chunks * CHUNK;) {
        size_t place = (size_t)(got % CHUNK);
        ssize_t n = s ? SSL_read(s, into + place, (int)(CHUNK - place)) : recv(fd, into + place, CHUNK - place, 0);
        check(n > 0, "recv");
        got += (uint64_t)n;
    }
    close(fd);
}

/* Strangers */

static int come(unsigned port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    connect(fd, (struct sockaddr *)&at, sizeof at);
    return fd;
}

static void come_and_come_again(unsigned port, unsigned n)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    int *fds = calloc(n, sizeof *fds);
    check(fds != NULL, "no memory");
    for (unsigned i = 0; i < n; i++)
        fds[i] = come(port);
    for (unsigned i = 0;; i = (i + 1) % n) {
        char c;
        if (i % 10 == 0)
            poll(NULL, 0, (int)(10000 / n)); /* each has its turn once a second */
        if (recv(fds[i], &c, 1, MSG_DONTWAIT) == 0 || (i % 4 == 0 && send(fds[i], "hello", 5, MSG_NOSIGNAL) < 0)) {
            close(fds[i]);
            fds[i] = come(port);
        }
    }
}

static unsigned number(const char *text)
{
    uint64_t value;
    struct leat_error err;
    check(leat_parse_u64(text, "an argument", &value, &err) == LEAT_OK && value < 1u << 20, "not a number");
    return (unsigned)value;
}

int main(int argc, char **argv)
{
    struct leat_error err;
    check(argc == 4 || argc == 5, "leat|bare tls|plain MEBIBYTES [STRANGERS]");
    bool leat = strcmp(argv[1], "leat") == 0;
    tls = strcmp(argv[2], "tls") == 0;
    unsigned chunks = number(argv[3]) / (CHUNK >> 20);
    signal(SIGPIPE, SIG_IGN);
    setpgid(0, 0);
    check(leat_cert_self_signed(NULL, &cert, &key, &err) == LEAT_OK, err.text);
    check(leat_cert_pin(cert, pin, &err) == LEAT_OK, err.text);
    data = map(CHUNK);
    for (size_t i = 0; i < CHUNK; i++)
        data[i] = (char)(i * 2654435761u >> 13);
    int tell[2], end[2], cost[2];
    check(pipe(tell) == 0 && pipe(end) == 0 && pipe(cost) == 0, "pipe");
    pid_t child = fork();
    unsigned port;
    double used;
    char c;
    if (child == 0) { /* the server */
        close(end[1]);
        int fd = leat ? -1 : listen_bare(&port);
        struct leat_door *d = leat ? open_door(&port) : NULL;
        double before = cpu_s();
        check(write(tell[1], &port, sizeof port) == sizeof port, "pipe");
        if (!leat)
            bare_server(fd, chunks);
        check(read(end[0], &c, 1) == 0, "pipe"); /* its end: the client is done */
        used = cpu_s() - before;
        check(write(cost[1], &used, sizeof used) == sizeof used, "pipe");
        leat_door_close(d, 0);
        _exit(0);
    }
    close(end[0]);
    check(read(tell[0], &port, sizeof port) == sizeof port, "pipe");
    pid_t strangers = argc == 5 && number(argv[4]) > 0 ? fork() : -1;
    if (strangers == 0)
        come_and_come_again(port, number(argv[4]));
    if (strangers > 0)
        sleep(1); /* all of them are there */
    double before = cpu_s();
    uint64_t began = leat_now_ns();
    if (leat)
        leat_client(port, chunks);
    else
        bare_client(port, chunks);
    double took = (double)(leat_now_ns() - began) / 1e9;
    double mine = cpu_s() - before;
    if (strangers > 0) {
        kill(strangers, SIGKILL);
        waitpid(strangers, NULL, 0);
    }
    close(end[1]);
    check(read(cost[0], &used, sizeof used) == sizeof used, "pipe");
    waitpid(child, NULL, 0);
    double gb = (double)chunks * CHUNK / 1e9;
    printf("{\"gb\": %.3f, \"seconds\": %.3f, \"server_cpu_s\": %.3f, \"client_cpu_s\": %.3f}\n", gb, took, used, mine);
    return 0;
}
