/* One question to a service that hands out keys, and its answer: waits, briefly. Not from a store's thread. */
#ifndef LEAT_STORE_AWS_ASK_H
#define LEAT_STORE_AWS_ASK_H

#include "net/http.h"
#include "store/store.h"

#define LEAT_ASK_HEADERS_MAX 8

struct leat_ask {
    const char *method;
    const char *url;
    const char *headers[LEAT_ASK_HEADERS_MAX]; /* "Name: value" */
    size_t headers_n;
    const char *body;    /* NULL: none */
    uint64_t timeout_ns; /* of one attempt */
    uint32_t attempts;   /* where nothing came, or 5xx, or 429 */
    bool direct;         /* on this machine or its host: never by a proxy */
    const char *ca_bundle;
    bool (*stop)(void *user); /* as in leat_store_opts */
    void *stop_user;

    /* Answered, whatever the code. The caller frees text with leat_ask_free(). */
    unsigned code;
    struct leat_buf text;
};

leat_status leat_ask(struct leat_ask *ask, struct leat_error *err);
void leat_ask_free(struct leat_ask *ask); /* wipes the answer */

#endif
