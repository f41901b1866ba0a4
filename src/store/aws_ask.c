#include "store/aws_ask.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "store/aws_keys.h"
#include "store/s3_xml.h"

#define ANSWER_MAX (256u << 10)
#define PAUSE      (200 * LEAT_MS)
#define APART_S    60 /* clocks, which have to be taken for wrong; services allow 5 minutes and more */

/* A loop and a client for a question or three: keys are asked for once an hour. */
struct asking {
    struct leat_ask *ask;
    struct leat_loop *loop;
    struct leat_http *http;
    struct leat_http_call call;
    pthread_mutex_t mu;
    pthread_cond_t cond;
    bool done; /* hold mu */
};

static void on_done(struct leat_http_call *call)
{
    struct asking *a = call->user;
    pthread_mutex_lock(&a->mu);
    a->done = true;
    pthread_cond_signal(&a->cond);
    pthread_mutex_unlock(&a->mu);
}

static void start_here(void *arg)
{
    struct asking *a = arg;
    leat_http_start(a->http, &a->call);
}

static void cancel_here(void *arg)
{
    struct asking *a = arg;
    pthread_mutex_lock(&a->mu);
    bool done = a->done;
    pthread_mutex_unlock(&a->mu);
    if (!done)
        leat_http_cancel(a->http, &a->call);
}

static void close_here(void *arg)
{
    leat_http_close(((struct asking *)arg)->http);
}

static bool stopped(const struct leat_ask *ask)
{
    return ask->stop && ask->stop(ask->stop_user);
}

static void ask_once(struct asking *a)
{
    const struct leat_ask *ask = a->ask;
    bool cancelled = false;
    a->call = (struct leat_http_call){
        .method = ask->method,
        .url = ask->url,
        .headers = ask->headers,
        .headers_n = ask->headers_n,
        .body = ask->body,
        .body_n = ask->body ? strlen(ask->body) : 0,
        .deadline_ns = leat_after(ask->timeout_ns),
        .direct = ask->direct,
        .text_max = ANSWER_MAX,
        .done = on_done,
        .user = a,
    };
    a->done = false; /* nobody else knows it yet */
    leat_loop_call(a->loop, start_here, a);
    pthread_mutex_lock(&a->mu);
    while (!a->done) {
        leat_cond_wait(&a->cond, &a->mu, leat_after(100 * LEAT_MS));
        if (!a->done && !cancelled && stopped(ask)) {
            cancelled = true;
            pthread_mutex_unlock(&a->mu);
            leat_loop_call(a->loop, cancel_here, a);
            pthread_mutex_lock(&a->mu);
        }
    }
    pthread_mutex_unlock(&a->mu);
}

static bool worth_again(const struct leat_http_call *call)
{
    if (call->status != LEAT_OK)
        return call->status == LEAT_NETWORK || call->status == LEAT_TIMEOUT || call->status == LEAT_SERVER;
    return call->head.code >= 500 || call->head.code == 429;
}

static leat_status ask_all(struct asking *a, struct leat_error *err)
{
    struct leat_ask *ask = a->ask;
    for (uint32_t i = 1;; i++) {
        ask_once(a);
        if (!worth_again(&a->call) || i >= ask->attempts || stopped(ask))
            break;
        if (a->call.text.data)
            explicit_bzero(a->call.text.data, a->call.text.len);
        leat_buf_free(&a->call.text);
        leat_sleep_until(leat_after(PAUSE << (i > 4 ? 4 : i)));
    }
    ask->text = a->call.text;
    ask->code = a->call.head.code;
    ask->offset_s = a->call.head.date_s ? a->call.head.date_s - leat_wall_s() : 0;
    if (llabs((long long)ask->offset_s) <= APART_S)
        ask->offset_s = 0; /* so near, and the way takes time, too */
    if (a->call.status != LEAT_OK && err)
        *err = a->call.err;
    return a->call.status;
}

leat_status leat_ask(struct leat_ask *ask, struct leat_error *err)
{
    struct asking a = {.ask = ask};
    leat_buf_init(&ask->text, ANSWER_MAX);
    leat_status rc = leat_loop_open("leat-keys", &a.loop, err);
    if (rc != LEAT_OK)
        return rc;
    pthread_mutex_init(&a.mu, NULL);
    leat_cond_init(&a.cond);
    struct leat_http_opts http = {.loop = a.loop, .ca_bundle = ask->ca_bundle, .connect_timeout_ns = ask->timeout_ns};
    rc = leat_http_open(&http, &a.http, err);
    if (rc == LEAT_OK) {
        rc = ask_all(&a, err);
        leat_loop_call(a.loop, close_here, &a);
    }
    leat_loop_close(a.loop);
    pthread_cond_destroy(&a.cond);
    pthread_mutex_destroy(&a.mu);
    return rc;
}

void leat_ask_free(struct leat_ask *ask)
{
    if (ask->text.data)
        explicit_bzero(ask->text.data, ask->text.len);
    leat_buf_free(&ask->text);
}

uint64_t leat_ask_here(const struct leat_ask *ask, uint64_t server_s)
{
    int64_t here_s = (int64_t)server_s - ask->offset_s;
    return server_s && here_s > 0 ? (uint64_t)here_s : 0;
}

bool leat_ask_reclock(const struct leat_ask *ask, int64_t *offset_s)
{
    bool wrong = llabs((long long)(ask->offset_s - *offset_s)) > APART_S;
    if (!wrong || ask->code < 400 || ask->code >= 500)
        return false;
    *offset_s = ask->offset_s;
    return true;
}

static void take(char *out, size_t size, const char *text)
{
    if (strlen(text) < size)
        memcpy(out, text, strlen(text) + 1);
}

static void take_leaf(const char *parent, const char *name, const char *text, void *user)
{
    struct leat_ask_keys *a = user;
    bool keys = strcmp(parent, "Credentials") == 0;
    if (keys && strcmp(name, "AccessKeyId") == 0)
        take(a->access, sizeof a->access, text);
    else if (keys && strcmp(name, "SecretAccessKey") == 0)
        take(a->secret, sizeof a->secret, text);
    else if (keys && strcmp(name, "SessionToken") == 0)
        take(a->token, sizeof a->token, text);
    else if (keys && strcmp(name, "Expiration") == 0)
        take(a->expires, sizeof a->expires, text);
    else if (strcmp(parent, "Error") == 0 && strcmp(name, "Code") == 0)
        take(a->code, sizeof a->code, text);
    else if (strcmp(parent, "Error") == 0 && strcmp(name, "Message") == 0)
        snprintf(a->message, sizeof a->message, "%s", text);
}

bool leat_ask_read_keys(const struct leat_ask *ask, struct leat_ask_keys *out)
{
    *out = (struct leat_ask_keys){0};
    bool xml = leat_xml_leaves(ask->text.data, ask->text.len, take_leaf, out);
    out->expires_s = leat_ask_here(ask, leat_aws_expiry(out->expires));
    return xml;
}
