/* What a kind of store implements: single attempts. Retries, limits and waiting are the store's (store.c).
 * Everything here happens on the store's loop thread unless it says otherwise. */
#ifndef LEAT_STORE_BACKEND_H
#define LEAT_STORE_BACKEND_H

#include "store/store.h"

struct leat_backend;

/* What the store keeps of an operation while it has it. Loop thread only, but for the backend's own threads during an
 * attempt. */
struct leat_store_own {
    struct leat_store_op *op;
    struct leat_store *store;
    struct leat_task task;
    struct leat_timer timer;
    struct leat_store_op *prev, *next;
    /* Results, the caller's where it wants them once the operation is over. */
    struct leat_error err;
    struct leat_object object;
    uint64_t deadline_ns;
    uint64_t first_ns;   /* the first attempt … */
    uint64_t started_ns; /* … and the last */
    uint32_t renewals;   /* of keys that had expired */
    uint32_t keys;       /* which of the backend's were used, by number */
    uint32_t tries;      /* since the last byte that was new */
    uint64_t most_got;
    uint32_t state;
    uint32_t lane; /* by its key; see lanes.h */
    bool parked;   /* queued in that lane, since it has no room */
    bool cancelled;
    bool moved;       /* a region redirect was followed … */
    bool reclocked;   /* … or the clock corrected: once each */
    bool looking;     /* UPLOAD_FINISH: looks whether an attempt whose answer was lost had done it; COPY: whether it is
                         done */
    bool found_copy;  /* COPY: it was under way already, as after an answer that was lost … */
    bool same_source; /* … and is of the same source */
    bool fresh;       /* connect again */
    bool bucket;      /* every object there has an ETag … */
    bool odd_etags;   /* … but it is never an MD5 */
    bool generations; /* versions are told by Google's generations rather than by ETags */
    bool summed;      /* the attempt carries a checksum of what is written … */
    bool unsummed;    /* … and must not: the server refused one that did */
    bool crc_known;   /* of what is written, all attempts: */
    uint32_t crc32c;
    uint8_t sizing;      /* STAT: asks how long the object's parts are, first or second question; see s3_sums.h */
    bool expired;        /* the keys had expired: this attempt does not count */
    uint64_t expired_ns; /* since when; 0: not at all */
    uint64_t retry_after_ns;
    char pinned[LEAT_ETAG_MAX];   /* of the first answer: a resumed range must be of the same object */
    struct leat_store_op *second; /* the request that was sent because this one is late; NULL: none */
    struct leat_store_op *first;  /* of a second request: whose it is; NULL: nobody's any longer */
    bool is_second;
    char *token; /* of a copy that goes on from call to call, or its name; freed with this */
    struct leat_http_call call;
    void *request; /* the backend's strings */
};

/* The operation that own.task is of. */
static inline struct leat_store_op *leat_store_op_of(struct leat_task *task)
{
    return ((struct leat_store_own *)((char *)task - offsetof(struct leat_store_own, task)))->op;
}

enum leat_backend_renewal { LEAT_RENEWED_SAME, LEAT_RENEWED_OTHERS, LEAT_RENEWED_LATER };

struct leat_backend_ops {
    /* Begins one attempt; leat_store_attempted() is called later, never from within. */
    void (*start)(struct leat_backend *backend, struct leat_store_op *op);
    /* Ends the attempt as soon as possible; leat_store_attempted() is still called, now or later. */
    void (*cancel)(struct leat_backend *backend, struct leat_store_op *op);
    void (*close)(struct leat_backend *backend); /* nothing is in flight; accepts half-built ones */

    /* STAT and GET, on the caller's thread. NULL: only by start(). */
    void (*perform)(struct leat_store_op *op);

    /* Other keys from now on. NULL access: look them up where they came from, which takes its time: asked again, it
     * says what came of it for `op`, whose keys had expired. NULL: this kind of store has none. */
    enum leat_backend_renewal (*renew)(struct leat_backend *backend, const struct leat_access *access,
                                       const struct leat_store_op *op);

    /* Fills in what it knows of a zeroed struct. NULL: nothing. */
    void (*place)(const struct leat_backend *backend, struct leat_store_place *out);

    /* Listing, on the caller's thread. NULL: this kind of store cannot be listed. */
    leat_status (*list_open)(struct leat_store *store, const char *prefix, bool recursive, struct leat_list **out,
                             struct leat_error *err);
    leat_status (*list_versions)(struct leat_store *store, const char *prefix, bool recursive, struct leat_list **out,
                                 struct leat_error *err); /* NULL: there are none */
    /* As leat_store_list_after(); NULL: it cannot begin in the middle. */
    leat_status (*list_after)(struct leat_store *store, const char *prefix, const char *after, struct leat_list **out,
                              struct leat_error *err);
};

/* First member of every backend. */
struct leat_backend {
    const struct leat_backend_ops *ops;
    uint32_t parallel; /* requests in flight that make sense whatever the throughput says; 0: adapts */
    bool priced;       /* every request costs money */
    int64_t date_s;    /* the server's clock as it last said it: loop thread only */
    bool warned_whole; /* that the server sends whole objects in answer to ranges: loop thread only */
};

/* The outcome of an attempt is in op->status, own->err. For a GET, op->got counts what has arrived in all. */
void leat_store_attempted(struct leat_store_op *op);

/* Bytes of an object that arrived or went out: progress, statistics, and what the pace goes by. */
void leat_store_received(struct leat_store_op *op, size_t n);
void leat_store_sent(struct leat_store_op *op, size_t n);

/* How many bytes of the key a message may show: of a web address all but the query, which may hold a signature. */
int leat_store_shown(const struct leat_store_op *op);

/* Makes the error of one that failed "cannot read s3://bucket/key: REASON (10 attempts)"; the other one fails it. */
void leat_store_explain(const struct leat_store *store, struct leat_store_op *op);
void leat_store_explain_starved(const struct leat_store *store, struct leat_store_op *op);

/* What the backends need of the store they serve. */
struct leat_loop *leat_store_loop(struct leat_store *store);
const struct leat_store_opts *leat_store_settings(const struct leat_store *store);
struct leat_backend *leat_store_backend(struct leat_store *store);
const char *leat_store_headers(const struct leat_store *store);      /* that were asked for, see extras.h; NULL: none */
const char *leat_store_access_place(const struct leat_store *store); /* that it was opened as a part of; NULL: none */
bool leat_store_given(const struct leat_store *store); /* its keys come from another process: opts.access */

void leat_store_states_crc32c(struct leat_store *store); /* the server says what it has stored */

enum leat_scheme leat_store_scheme(const struct leat_store *store); /* for names; what it can is leat_store_can() */

/* The backends. `url` and `opts` are copied where they are kept. */
leat_status leat_file_open(struct leat_store *store, const struct leat_url *url, struct leat_backend **out,
                           struct leat_error *err);
leat_status leat_s3_open(struct leat_store *store, const struct leat_url *url, struct leat_backend **out,
                         struct leat_error *err);
leat_status leat_gs_open(struct leat_store *store, const struct leat_url *url, struct leat_backend **out,
                         struct leat_error *err);
leat_status leat_az_open(struct leat_store *store, const struct leat_url *url, struct leat_backend **out,
                         struct leat_error *err);
leat_status leat_hf_open(struct leat_store *store, const struct leat_url *url, struct leat_backend **out,
                         struct leat_error *err);
leat_status leat_web_open(struct leat_store *store, const struct leat_url *url, struct leat_backend **out,
                          struct leat_error *err);

/* Listing: each kind of store has its own iterator behind these. First member of every iterator. */
struct leat_list {
    leat_status (*next)(struct leat_list *list, struct leat_list_entry *entry, bool *end, struct leat_error *err);
    void (*close)(struct leat_list *list);
};

#endif
