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
    int64_t offset_s; /* its clock less this machine's, where they are more than a minute apart */
    struct leat_buf text;
};

/* Keys as AWS's services answer with them in XML, or why there are none; "" for what is not there. The caller wipes it.
 */
struct leat_ask_keys {
    char access[256];
    char secret[256];
    char token[8192];
    char expires[64];
    uint64_t expires_s; /* the same by this machine's clock; 0: not said, or not to be read */
    char code[64];
    char message[200];
};

/* False: the answer is no XML. */
bool leat_ask_read_keys(const struct leat_ask *ask, struct leat_ask_keys *out);

leat_status leat_ask(struct leat_ask *ask, struct leat_error *err);
void leat_ask_free(struct leat_ask *ask); /* wipes the answer */

/* A time that the answer states, in seconds since 1970, by this machine's clock, which may be wrong: what is reckoned
 * with is how long keys live. 0 stays 0. */
uint64_t leat_ask_here(const struct leat_ask *ask, uint64_t server_s);

/* Whether the answer refuses what was asked with the time (this machine's plus *offset_s), and that was wrong: sets
 * *offset_s right, to ask again, once. */
bool leat_ask_reclock(const struct leat_ask *ask, int64_t *offset_s);

#endif
