/* One call: the request taken apart, what its body goes into, and the ways to answer it. Inside src/serve only. */
#ifndef LEAT_SERVE_CALL_H
#define LEAT_SERVE_CALL_H

#include <stdatomic.h>

#include "net/server.h"
#include "serve/digest.h"
#include "serve/error.h"
#include "serve/fault.h"
#include "serve/object.h"
#include "serve/pace.h"
#include "serve/serve.h"
#include "serve/stats.h"

#define LEAT_SERVE_ARGS_MAX    64
#define LEAT_SERVE_HEADERS_MAX 3072      /* bytes of what is kept with an object */
#define LEAT_SERVE_HIDDEN      "x-leat-" /* how the names of those begin that no client sees */

struct leat_serve_dialect;

struct leat_serve {
    struct leat_serve_options options; /* strings owned */
    const struct leat_serve_dialect *dialect;
    struct leat_serve_faults faults;
    struct leat_serve_folder *folder;
    struct leat_serve_stats *stats;
    struct leat_serve_pace down;
    struct leat_serve_pace up;
    struct leat_server *server;
    _Atomic uint64_t requests; /* numbers them for faults */
    _Atomic uint64_t faults_done;
};

/* An argument of the query, decoded. Values may hold a NUL; `text` is for those that must not. */
struct leat_serve_arg {
    char *name;
    char *value;
    size_t value_n;
};

struct leat_serve_call;

enum leat_serve_level { LEAT_SERVE_SERVICE, LEAT_SERVE_BUCKET, LEAT_SERVE_OBJECT };
enum leat_serve_body { LEAT_SERVE_BODY_NONE, LEAT_SERVE_BODY_MEMORY, LEAT_SERVE_BODY_FILE };

struct leat_serve_op {
    const char *name; /* as the protocol calls it, and as it is counted */
    const char *method;
    enum leat_serve_level level;
    const char *arg;   /* the argument that distinguishes it, or NULL */
    const char *value; /* which it must have, or NULL */
    enum leat_serve_body body;
    bool writes;
    void (*run)(struct leat_serve_call *c); /* answers */
};

struct leat_serve_call {
    struct leat_serve *serve;
    struct leat_request *x;
    const struct leat_serve_op *op; /* NULL: none known */
    uint64_t number;                /* for faults */
    uint64_t logged;                /* in the log; 0: not yet */
    uint64_t counted;               /* bytes of the answer, when it was */
    uint64_t start_ns;
    bool delayed;

    char *account;     /* NULL: the protocol has none */
    char *bucket_name; /* NULL: none given */
    struct leat_serve_bucket *bucket;
    struct leat_serve_key key;
    char *key_data;
    struct leat_serve_arg arg[LEAT_SERVE_ARGS_MAX];
    size_t args;

    const struct leat_serve_fault *fault;
    bool fault_done;

    /* the body */
    uint64_t received; /* off the wire */
    struct leat_buf body;
    struct leat_serve_writer writer;
    struct leat_serve_digest *digest;  /* what of it is computed and compared */
    unsigned char md5[LEAT_SERVE_MD5]; /* once it is in */
    struct leat_serve_pace connection_up;
};

/* The answer; the call is counted, paced and delayed as the server's options say. */
void leat_serve_reply(struct leat_serve_call *c, unsigned status, const char *type, const void *body, size_t n);
void leat_serve_reply_xml(struct leat_serve_call *c, unsigned status, struct leat_buf *xml); /* frees it */
void leat_serve_fail(struct leat_serve_call *c, enum leat_serve_code code);
void leat_serve_fail_as(struct leat_serve_call *c, enum leat_serve_code code, unsigned status);
void leat_serve_failf(struct leat_serve_call *c, enum leat_serve_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void leat_serve_fail_status(struct leat_serve_call *c,
                            const struct leat_error *err); /* the nearest error of the protocol */

void leat_serve_fail_skewed(struct leat_serve_call *c, const char *request_date, int64_t now_s);

/* Part of an object. Takes the file handle out of `o`. */
void leat_serve_reply_object(struct leat_serve_call *c, unsigned status, struct leat_serve_object *o, uint64_t offset,
                             uint64_t n);

/* An argument's text, or NULL. */
const char *leat_serve_arg(const struct leat_serve_call *c, const char *name);
const struct leat_serve_arg *leat_serve_arg_bytes(const struct leat_serve_call *c, const char *name);

/* A number in an argument: `preset` when absent; false (and the call has failed) when it is none. */
bool leat_serve_arg_number(struct leat_serve_call *c, const char *name, uint64_t preset, uint64_t max, uint64_t *out);

/* Appends the request's headers that are kept with an object, as "name: value\n" lines. */
void leat_serve_kept_headers(struct leat_serve_call *c, struct leat_buf *out);
void leat_serve_fail_headers(struct leat_serve_call *c); /* there are more of them than can be kept */

/* True once, when the call is to suffer this fault. */
bool leat_serve_suffers(struct leat_serve_call *c, enum leat_serve_fault_kind kind);

#endif
