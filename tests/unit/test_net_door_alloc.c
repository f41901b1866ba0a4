/* Memory runs out at every single allocation of the server that machines of a job ask: it cannot be opened, or a
 * connection is dropped, and the next one is served. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "fail_alloc.h"
#include "net/cert.h"
#include "net/door.h"
#include "unit.h"

static char *cert, *key;
static const char data[] = "chunk";
static const char request[] = "GET /data HTTP/1.1\r\nAuthorization: Bearer t\r\n\r\n";

static bool is_known(void *user, const char *token)
{
    (void)user;
    return strcmp(token, "t") == 0;
}

static void on_asked(void *user, struct leat_door_request *r)
{
    (void)user;
    leat_door_answer(r, 200, data, sizeof data, NULL, NULL);
}

static leat_status open_door(bool tls, struct leat_door **out, unsigned *port, struct leat_error *err)
{
    struct leat_door_opts opts = {
        .cert_pem = tls ? cert : NULL, .key_pem = tls ? key : NULL, .known = is_known, .asked = on_asked};
    int fd;
    *port = 0;
    leat_status rc = leat_door_bind("127.0.0.1", port, &fd, err);
    if (rc != LEAT_OK)
        return rc;
    rc = leat_door_open(&opts, fd, out, err);
    if (rc != LEAT_OK)
        close(fd);
    return rc;
}

static leat_status open_and_close(void *user, struct leat_error *err)
{
    struct leat_door *d = NULL;
    unsigned port;
    leat_status rc = open_door(*(const bool *)user, &d, &port, err);
    assert_true(leat_door_close(d, 0));
    return rc;
}

TEST(opening_says_that_there_is_no_memory)
{
    bool tls = false;
    assert_true(fail_alloc_each(open_and_close, &tls) >= 3);
    tls = true;
    assert_true(fail_alloc_each(open_and_close, &tls) >= 3);
}

/* What came back: 200, or 0 for nothing. */
static unsigned ask(unsigned port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    char text[128] = "";
    unsigned code = 0;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) > 0 && recv(fd, text, sizeof text - 1, 0) > 12)
        sscanf(text, "HTTP/1.1 %u", &code);
    close(fd);
    return code;
}

TEST(a_connection_is_dropped_and_the_next_served)
{
    struct leat_door *d;
    struct leat_error err;
    unsigned port;
    unsigned dropped = 0;
    bool failing = true;
    assert_ok(open_door(false, &d, &port, &err), err);
    for (long n = 0; failing; n++) {
        assert_true(n < 100);
        fail_alloc_anywhere_at(n, false);
        unsigned code = ask(port);
        failing = fail_alloc_stop();
        assert_true(code == 200 || (code == 0 && failing));
        dropped += code == 0;
        assert_int_equal(ask(port), 200);
    }
    assert_true(dropped >= 1);
    assert_true(leat_door_close(d, 0));
}

static void begin(void)
{
    struct leat_error err;
    assert_ok(leat_cert_self_signed(NULL, &cert, &key, &err), err);
}

static void end(void)
{
    free(cert);
    free(key);
}

TEST_GROUP(begin, end);
