#include "net/http.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/copy.h"
#include "leat/leat.h"

#define TEXT_MAX_DEFAULT (64 << 10)
#define SEND_BUFFER      (256 << 10)
#define RECEIVE_BUFFER   (64 << 10)
#define LARGE_ANSWER     (1 << 20)   /* too much to be still in a cache when somebody reads it */
#define LARGE_RECEIVE    (512 << 10) /* libcurl's limit. Fewer, larger reads: 0.37 s of CPU a GB, with 256 KiB 0.43 */
#define LOW_SPEED_LIMIT  1000L       /* bytes a second that count as life */
#define IDLE_EASY_MAX    256
#define TOO_LARGE        100 /* CURLE_TOO_LARGE, a head without end; older headers do not name it */

struct sock {
    struct leat_watch watch; /* first member */
    struct leat_http *http;
    CURL *easy; /* whose it was last */
    struct sock *prev;
    struct sock *next;
};

/* Everything on the loop's thread. */
struct leat_http {
    struct leat_loop *loop;
    CURLM *multi;
    char *ca_bundle;
    bool ca_is_folder;
    char *user_agent;
    char *pin;
    char *cert, *key;
    uint64_t connect_timeout_ns;
    struct leat_timer timer; /* libcurl's next time-out */
    struct leat_http_call *calls;
    bool inside;  /* libcurl is at work: it may call us, but not be called */
    bool dropped; /* a call was cancelled meanwhile */
    struct sock *socks;
    CURL *idle[IDLE_EASY_MAX]; /* handles to reuse */
    size_t idle_n;
};

static void end_call(struct leat_http *http, struct leat_http_call *call);

static void report(struct leat_http *http, struct leat_http_call *call)
{
    end_call(http, call);
    call->done(call);
}

static bool success(const struct leat_http_call *call)
{
    return call->head.code >= 200 && call->head.code < 300;
}

static leat_status transfer_status(CURLcode code, long os_error)
{
    switch ((int)code) {
    case CURLE_OK:
        return LEAT_OK;
    case CURLE_OPERATION_TIMEDOUT:
        return LEAT_TIMEOUT;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
        return LEAT_TLS;
    case CURLE_SSL_CONNECT_ERROR:
        return os_error ? LEAT_NETWORK : LEAT_TLS; /* a reset in mid-handshake says nothing about the certificate */
    case CURLE_OUT_OF_MEMORY:
    case CURLE_ABORTED_BY_CALLBACK: /* a watch that could not be set up */
        return LEAT_NO_MEMORY;
    case CURLE_URL_MALFORMAT:
        return LEAT_INVALID;
    case CURLE_UNSUPPORTED_PROTOCOL: /* HTTP/0.9, which is what anything that is not HTTP looks like */
    case CURLE_WEIRD_SERVER_REPLY:
    case TOO_LARGE:
        return LEAT_SERVER;
    default:
        return LEAT_NETWORK;
    }
}

const char *leat_http_library(char *out, size_t n)
{
    const curl_version_info_data *v = curl_version_info(CURLVERSION_NOW);
    const char *tls = v->ssl_version ? v->ssl_version : "no TLS";
    snprintf(out, n, "libcurl %s, %.60s", v->version, tls);
    for (char *slash = strchr(out, '/'); slash; slash = strchr(slash, '/'))
        *slash = ' ';
    return out;
}

const char *leat_http_proxy_variable(const char *url)
{
    static const char *const tls[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", NULL};
    static const char *const plain[] = {"http_proxy", "all_proxy", "ALL_PROXY", NULL}; /* libcurl knows no HTTP_PROXY */
    for (const char *const *name = strncasecmp(url, "https:", 6) == 0 ? tls : plain; *name; name++) {
        const char *set = getenv(*name);
        if (set && *set)
            return *name;
    }
    return "";
}

/* The reason in a person's words: what libcurl noted, and where it says little, the cause. */
static void explain(const struct leat_http *http, struct leat_http_call *call, CURLcode code, long os_error)
{
    char *ip = NULL;
    const char *text = call->detail[0] ? call->detail : curl_easy_strerror(code);
    char reason[128] = "";
    curl_easy_getinfo(call->easy, CURLINFO_PRIMARY_IP, &ip);
    if (call->status == LEAT_TIMEOUT && strncmp(text, "Operation too slow", 18) == 0) {
        leat_fail(&call->err, call->status, "almost nothing came for %llu s, from %s",
                  (unsigned long long)((call->inactivity_ns + LEAT_S - 1) / LEAT_S), ip ? ip : "");
        return;
    }
    if (code == CURLE_PEER_FAILED_VERIFICATION && !http->ca_bundle) {
        leat_fail(
            &call->err, call->status,
            "there are no CA certificates on this machine to check the server's with: install the package "
            "ca-certificates, or name a file with SSL_CERT_FILE (`python -m certifi` prints one where certifi is)");
        return;
    }
    if (code == CURLE_PEER_FAILED_VERIFICATION) {
        leat_fail(&call->err, call->status,
                  "the server's certificate was refused (%s); --ca-bundle or AWS_CA_BUNDLE names others to trust",
                  text);
        return;
    }
    if (strncmp(text, "Unsupported proxy", 17) == 0) { /* libcurl repeats its address, with its password */
        call->unresolved = false;
        call->status =
            leat_fail(&call->err, LEAT_INVALID, "the proxy that %s names is not http://[USER:PASSWORD@]HOST[:PORT]",
                      leat_http_proxy_variable(call->url));
        return;
    }
    if (code == CURLE_UNSUPPORTED_PROTOCOL)
        text = "the server does not speak HTTP";
    if (code == CURLE_SSL_CONNECT_ERROR && strstr(text, "wrong version number")) /* OpenSSL's way to say it */
        text = "the server does not speak TLS (use http:// instead of https://?)";
    const char *os_text = os_error ? strerror_r((int)os_error, reason, sizeof reason) : "";
    if (strstr(text, os_text))
        os_text = "";
    if (ip && strstr(text, ip))
        ip = NULL;
    const char *proxy = code == CURLE_COULDNT_CONNECT ? leat_http_proxy_variable(call->url) : "";
    leat_fail(&call->err, call->status, "%s%s%s%s%s%s%s", text, *os_text ? ": " : "", os_text, ip && *ip ? ", at " : "",
              ip ? ip : "", *proxy ? "; a proxy is set by " : "", proxy);
}

/* A proxy that wants to know who asks says so in place of the answer, or of the tunnel to who would give it. */
static void check_proxy(struct leat_http_call *call)
{
    long connected = 0;
    curl_easy_getinfo(call->easy, CURLINFO_HTTP_CONNECTCODE, &connected);
    if (call->head.code != 407 && (connected != 407 || call->status == LEAT_OK))
        return;
    call->status = leat_fail(&call->err, LEAT_DENIED,
                             "the proxy wants a user and a password, or others than it was given: %s names it, as "
                             "http://USER:PASSWORD@HOST:PORT (407)",
                             leat_http_proxy_variable(call->url));
}

static void finish(struct leat_http *http, struct leat_http_call *call, CURLcode code)
{
    bool refused = call->status != LEAT_OK; /* by accept(), by a limit of ours or cancelled: that reason stands */
    if (code == CURLE_WRITE_ERROR && (call->cut || (call->text.full && !success(call)))) {
        code = CURLE_OK; /* we had all we wanted; of an error document the beginning will do */
    } else if (call->text.failed && !refused) {
        call->status = leat_buf_check(&call->text, "an answer", &call->err);
        refused = true;
    }
    if (!refused && code != CURLE_OK) {
        long os_error = 0;
        curl_easy_getinfo(call->easy, CURLINFO_OS_ERRNO, &os_error);
        call->status = transfer_status(code, os_error);
        call->unresolved = code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY;
        explain(http, call, code, call->status == LEAT_NETWORK ? os_error : 0);
        call->err.os_error = (int)os_error;
    }
    check_proxy(call);
    report(http, call);
}

/* Ends a call in the middle. libcurl closes a socket that is still connecting before it says so, and then its number
 * may be somebody else's already: it is taken off the loop first. */
static void drop(struct leat_http *http, struct leat_http_call *call)
{
    for (struct sock *s = http->socks; s; s = s->next) {
        if (s->easy == call->easy)
            leat_loop_unwatch(http->loop, &s->watch);
    }
    report(http, call);
}

static void check_finished(struct leat_http *http)
{
    int left;
    CURLMsg *m;
    while ((m = curl_multi_info_read(http->multi, &left))) {
        if (m->msg != CURLMSG_DONE)
            continue;
        struct leat_http_call *call = NULL;
        CURLcode code = m->data.result;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&call);
        finish(http, call, code);
    }
}

static void check_dropped(struct leat_http *http)
{
    while (http->dropped) {
        http->dropped = false;
        for (struct leat_http_call *call = http->calls; call; call = call->next) {
            if (call->dropped) {
                http->dropped = true; /* there may be more: done() can change the list */
                drop(http, call);
                break;
            }
        }
    }
}

/* After a callback of ours failed, libcurl takes no further step with any transfer: none may be left waiting. */
static void fail_all(struct leat_http *http)
{
    for (struct leat_http_call *call = http->calls, *next; call; call = next) {
        next = call->next;
        if (call->status == LEAT_OK)
            call->status = leat_fail(&call->err, LEAT_NO_MEMORY, "no memory to wait for a connection");
        call->dropped = http->dropped = true;
    }
    check_dropped(http);
}

static void act(struct leat_http *http, curl_socket_t fd, int flags)
{
    int running;
    http->inside = true;
    CURLMcode code = curl_multi_socket_action(http->multi, fd, flags, &running);
    http->inside = false;
    check_finished(http);
    check_dropped(http);
    if (code != CURLM_OK)
        fail_all(http);
}

static void on_socket_ready(struct leat_watch *watch, uint32_t events)
{
    int flags = 0;
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        flags |= CURL_CSELECT_IN;
    if (events & EPOLLOUT)
        flags |= CURL_CSELECT_OUT;
    if (events & EPOLLERR)
        flags |= CURL_CSELECT_ERR;
    act(((struct sock *)watch)->http, watch->fd, flags);
}

static void on_curl_timeout(struct leat_timer *timer)
{
    act((struct leat_http *)((char *)timer - offsetof(struct leat_http, timer)), CURL_SOCKET_TIMEOUT, 0);
}

static int on_curl_timer(CURLM *multi, long ms, void *user)
{
    struct leat_http *http = user;
    (void)multi;
    if (ms < 0)
        leat_loop_disarm(http->loop, &http->timer);
    else
        leat_loop_arm(http->loop, &http->timer, leat_after((uint64_t)ms * LEAT_MS));
    return 0;
}

static int on_curl_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *per_socket)
{
    struct leat_http *http = user;
    struct sock *s = per_socket;
    if (what == CURL_POLL_REMOVE) {
        if (!s)
            return 0;
        leat_loop_unwatch(http->loop, &s->watch);
        if (s->next)
            s->next->prev = s->prev;
        *(s->prev ? &s->prev->next : &http->socks) = s->next;
        free(s);
        curl_multi_assign(http->multi, fd, NULL);
        return 0;
    }
    if (!s) {
        s = calloc(1, sizeof *s);
        if (!s)
            return -1;
        s->watch.fd = fd;
        s->watch.ready = on_socket_ready;
        s->http = http;
        s->next = http->socks;
        if (s->next)
            s->next->prev = s;
        http->socks = s;
        curl_multi_assign(http->multi, fd, s);
    }
    s->easy = easy;
    uint32_t events = (what & CURL_POLL_IN ? EPOLLIN : 0) | (what & CURL_POLL_OUT ? EPOLLOUT : 0);
    return leat_loop_watch(http->loop, &s->watch, events, NULL) == LEAT_OK ? 0 : -1;
}

static bool ask_accept(struct leat_http_call *call)
{
    if (call->head.differing) {
        call->status =
            leat_fail(&call->err, LEAT_SERVER, "the answer has two %s headers that differ", call->head.differing);
        return false;
    }
    if (call->accepted || !call->accept)
        return true;
    call->accepted = true;
    if (call->accept(call))
        return true;
    call->status = call->err.status != LEAT_OK ? call->err.status
                                               : leat_fail(&call->err, LEAT_SERVER, "an answer of the wrong kind");
    return false;
}

static size_t on_header(char *line, size_t size, size_t n, void *user)
{
    struct leat_http_call *call = user;
    n *= size;
    if (call->head_whole && success(call))
        return n; /* a trailer, whatever it looks like, cannot change what was accepted */
    if (n > 5 && strncasecmp(line, "HTTP/", 5) == 0) {
        long code = 0;
        call->head = (struct leat_http_head){0}; /* a new head: the one before was 100 Continue */
        call->head_whole = false;
        curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &code);
        call->head.code = (unsigned)code;
        if (call->header)
            call->header(call, "", 0);
    } else if (n && (line[0] == '\r' || line[0] == '\n')) {
        call->head_whole = true;
        /* Before the body, which may be long in coming or too long to take. */
        if (success(call) && !ask_accept(call))
            return 0;
    } else if (!call->head_whole) {
        leat_http_parse_header(&call->head, line, n);
        size_t length = n;
        while (length && (line[length - 1] == '\r' || line[length - 1] == '\n'))
            length--;
        if (call->header)
            call->header(call, line, length);
    }
    return n;
}

static bool large(const struct leat_http_call *call)
{
    return call->into_n >= LARGE_ANSWER;
}

/* libcurl cannot receive into memory of ours, so that this is the one copy on the way. For large answers it took a
 * third of the client's time before it went past the caches, a fifth since. */
static void deliver(struct leat_http_call *call, const char *data, size_t n)
{
    char *to = (char *)call->into + call->got;
    if (large(call))
        leat_copy_past_caches(to, data, n);
    else
        memcpy(to, data, n);
    call->got += n;
}

static size_t on_body(char *data, size_t size, size_t n, void *user)
{
    struct leat_http_call *call = user;
    n *= size;
    size_t all = n;
    if (!success(call) || !call->into) {
        return leat_buf_add(&call->text, data, n) ? all : CURL_WRITEFUNC_ERROR;
    }
    if (call->skip) {
        size_t skip = call->skip < n ? (size_t)call->skip : n;
        call->skip -= skip;
        data += skip;
        n -= skip;
    }
    size_t room = call->into_n - (size_t)call->got;
    if (n > room) {
        deliver(call, data, room);
        if (!call->cut)
            call->status =
                leat_fail(&call->err, LEAT_SERVER, "the answer is longer than the %zu bytes asked for", call->into_n);
        return CURL_WRITEFUNC_ERROR;
    }
    deliver(call, data, n);
    if (call->received)
        call->received(call, n);
    return call->dropped ? CURL_WRITEFUNC_ERROR : all;
}

static size_t on_send(char *out, size_t size, size_t n, void *user)
{
    struct leat_http_call *call = user;
    size_t left = call->body_n - call->body_at;
    n *= size;
    if (n > left)
        n = left;
    memcpy(out, (const char *)call->body + call->body_at, n);
    call->body_at += n;
    if (call->sent)
        call->sent(call, n);
    return n;
}

/* libcurl asks for this when a reused connection turns out to be dead and the body must be sent again. */
static int on_rewind(void *user, curl_off_t offset, int origin)
{
    struct leat_http_call *call = user;
    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > call->body_n)
        return CURL_SEEKFUNC_FAIL;
    call->body_at = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

static void set_body(CURL *easy, struct leat_http_call *call)
{
    bool post = strcmp(call->method, "POST") == 0;
    if (strcmp(call->method, "HEAD") == 0) {
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    } else if (call->body && post) {
        /* POSTFIELDS takes memory as it is; no Expect: 100-continue round trip is wanted (see headers). */
        curl_easy_setopt(easy, CURLOPT_POST, 1L);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_n);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, call->body_n ? call->body : "");
    } else if (call->body) {
        curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)call->body_n);
        curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_send);
        curl_easy_setopt(easy, CURLOPT_READDATA, call);
        curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_rewind);
        curl_easy_setopt(easy, CURLOPT_SEEKDATA, call);
        curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)SEND_BUFFER);
        if (strcmp(call->method, "PUT") != 0)
            curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call->method);
    } else if (strcmp(call->method, "GET") != 0) {
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call->method);
    }
}

static bool set_headers(CURL *easy, struct leat_http_call *call)
{
    struct curl_slist *list = NULL;
    char encoding[48];
    snprintf(encoding, sizeof encoding, "Accept-Encoding: %.24s", call->encoding ? call->encoding : "identity");
    const char *const always[] = {"Expect:", "Accept:", encoding};
    for (size_t i = 0; i < call->headers_n + sizeof always / sizeof *always; i++) {
        const char *line = i < call->headers_n ? call->headers[i] : always[i - call->headers_n];
        struct curl_slist *more = curl_slist_append(list, line);
        if (!more) {
            curl_slist_free_all(list);
            return false;
        }
        list = more;
    }
    call->header_list = list;
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, list);
    return true;
}

static long milliseconds(uint64_t ns)
{
    uint64_t ms = (ns + LEAT_MS - 1) / LEAT_MS;
    return ms > 0x7fffffff ? 0x7fffffffL : ms ? (long)ms : 1L;
}

static void set_limits(CURL *easy, const struct leat_http *http, const struct leat_http_call *call)
{
    if (call->deadline_ns != LEAT_NEVER)
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, milliseconds(leat_left(call->deadline_ns)));
    if (call->inactivity_ns) {
        curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, LOW_SPEED_LIMIT);
        curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (milliseconds(call->inactivity_ns) + 999) / 1000);
    }
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(http->connect_timeout_ns));
    if (call->fresh) {
        curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
        curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, 0L);
    }
}

static leat_status set_up(struct leat_http *http, struct leat_http_call *call)
{
    CURL *easy = http->idle_n ? http->idle[--http->idle_n] : curl_easy_init();
    call->easy = easy;
    if (!easy || !set_headers(easy, call))
        return leat_fail(&call->err, LEAT_NO_MEMORY, "no memory for a request");
    curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->detail);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075700
    /* Else cancelling waits for the resolver's thread, which a silent name server keeps for many seconds. */
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
    curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L); /* a proxy's head is not the answer's */
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L); /* keys may hold "..": never squash them */
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)(large(call) ? LARGE_RECEIVE : RECEIVE_BUFFER));
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_DNS_SHUFFLE_ADDRESSES, 1L); /* spread over a bucket's front ends */
    curl_easy_setopt(easy, CURLOPT_USERAGENT, http->user_agent);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
    if (http->ca_bundle)
        curl_easy_setopt(easy, http->ca_is_folder ? CURLOPT_CAPATH : CURLOPT_CAINFO, http->ca_bundle);
    if (http->pin) { /* the key is known: who has signed it, and for which name, does not matter */
        if (curl_easy_setopt(easy, CURLOPT_PINNEDPUBLICKEY, http->pin) != CURLE_OK)
            return leat_fail(&call->err, LEAT_UNSUPPORTED, "this libcurl cannot compare a server's key");
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    if (http->cert)
        curl_easy_setopt(easy, CURLOPT_SSLCERT, http->cert);
    if (http->key)
        curl_easy_setopt(easy, CURLOPT_SSLKEY, http->key);
    if (call->direct)
        curl_easy_setopt(easy, CURLOPT_PROXY, "");
    set_body(easy, call);
    set_limits(easy, http, call);
    if (curl_easy_setopt(easy, CURLOPT_URL, call->url) != CURLE_OK)
        return leat_fail(&call->err, LEAT_NO_MEMORY, "no memory for a request");
    CURLMcode code = curl_multi_add_handle(http->multi, easy);
    if (code == CURLM_OUT_OF_MEMORY || code == CURLM_ABORTED_BY_CALLBACK)
        return leat_fail(&call->err, LEAT_NO_MEMORY, "no memory for a request");
    if (code != CURLM_OK)
        return leat_fail(&call->err, LEAT_INTERNAL, "libcurl: %s", curl_multi_strerror(code));
    return LEAT_OK;
}

static void report_stillborn(struct leat_task *task)
{
    struct leat_http_call *call = (struct leat_http_call *)((char *)task - offsetof(struct leat_http_call, sad));
    call->done(call);
}

void leat_http_start(struct leat_http *http, struct leat_http_call *call)
{
    call->status = LEAT_OK;
    call->err = (struct leat_error){0};
    call->head = (struct leat_http_head){0};
    call->skip = call->got = 0;
    call->body_at = 0;
    call->accepted = call->cut = call->dropped = call->head_whole = call->unresolved = false;
    call->easy = call->header_list = NULL;
    call->detail[0] = '\0';
    leat_buf_init(&call->text, call->text_max ? call->text_max : TEXT_MAX_DEFAULT);
    call->prev = NULL;
    call->next = http->calls;
    if (call->next)
        call->next->prev = call;
    http->calls = call;
    call->status = set_up(http, call);
    if (call->status == LEAT_OK)
        return;
    end_call(http, call);
    call->sad.run = report_stillborn;
    leat_loop_post(http->loop, &call->sad);
}

/* Takes the call out of libcurl's hands and off the list; its results stay. */
static void end_call(struct leat_http *http, struct leat_http_call *call)
{
    if (call->easy) {
        curl_multi_remove_handle(http->multi, call->easy);
        if (http->idle_n < IDLE_EASY_MAX) {
            curl_easy_reset(call->easy);
            http->idle[http->idle_n++] = call->easy;
        } else {
            curl_easy_cleanup(call->easy);
        }
        call->easy = NULL;
    }
    curl_slist_free_all(call->header_list);
    call->header_list = NULL;
    if (call->next)
        call->next->prev = call->prev;
    *(call->prev ? &call->prev->next : &http->calls) = call->next;
}

void leat_http_cancel(struct leat_http *http, struct leat_http_call *call)
{
    call->status = leat_fail(&call->err, LEAT_CANCELLED, "cancelled");
    if (!call->easy)
        return; /* report_stillborn() is on its way */
    if (http->inside)
        call->dropped = http->dropped = true;
    else
        drop(http, call);
}

static void init_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

leat_status leat_http_open(const struct leat_http_opts *opts, struct leat_http **out, struct leat_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_curl);
    struct leat_http *http = calloc(1, sizeof *http);
    if (!http)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for an HTTP client");
    http->loop = opts->loop;
    http->timer.fire = on_curl_timeout;
    http->connect_timeout_ns = opts->connect_timeout_ns ? opts->connect_timeout_ns : 10 * LEAT_S;
    http->user_agent = strdup(opts->user_agent ? opts->user_agent : "leat/" LEAT_VERSION_STRING);
    http->pin = opts->pin ? strdup(opts->pin) : NULL;
    http->cert = opts->cert ? strdup(opts->cert) : NULL;
    http->key = opts->key ? strdup(opts->key) : NULL;
    const char *ca = opts->ca_bundle ? opts->ca_bundle : leat_http_ca_bundle();
    http->ca_bundle = ca ? strdup(ca) : NULL;
    http->multi = curl_multi_init();
    leat_status rc;
    struct stat st;
    if (!http->user_agent || (ca && !http->ca_bundle) || (opts->pin && !http->pin) || (opts->cert && !http->cert) ||
        (opts->key && !http->key) || !http->multi) {
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for an HTTP client");
        goto fail;
    }
    if (ca && stat(ca, &st) < 0) {
        rc = leat_fail_errno(err, errno, "cannot read the CA certificates in '%s'", ca);
        goto fail;
    }
    http->ca_is_folder = ca && S_ISDIR(st.st_mode);
    curl_multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, on_curl_socket);
    curl_multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
    curl_multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, on_curl_timer);
    curl_multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
    curl_multi_setopt(http->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    curl_multi_setopt(http->multi, CURLMOPT_MAXCONNECTS, (long)(opts->connections_max ? opts->connections_max : 256));
    *out = http;
    return LEAT_OK;
fail:
    leat_http_close(http);
    return rc;
}

void leat_http_close(struct leat_http *http)
{
    if (!http)
        return;
    for (size_t i = 0; i < http->idle_n; i++)
        curl_easy_cleanup(http->idle[i]);
    if (http->multi)
        curl_multi_cleanup(http->multi); /* closes connections, which removes their watches … */
    while (http->socks) {                /* … unless it had no memory to say so */
        struct sock *next = http->socks->next;
        leat_loop_unwatch(http->loop, &http->socks->watch);
        free(http->socks);
        http->socks = next;
    }
    leat_loop_disarm(http->loop, &http->timer);
    free(http->ca_bundle);
    free(http->user_agent);
    free(http->pin);
    free(http->cert);
    free(http->key);
    free(http);
}
