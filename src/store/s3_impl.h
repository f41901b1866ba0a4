/* What the halves of the S3 backend share: s3.c judges answers, s3_request.c makes requests. */
#ifndef LEAT_STORE_S3_IMPL_H
#define LEAT_STORE_S3_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/backend.h"
#include "store/exchange.h"
#include "store/s3.h"
#include "store/sign.h"

#define LEAT_S3_HEADERS_MAX 8
#define LEAT_S3_QUERY_MAX   6

struct s3 {
    struct leat_backend backend; /* first member */
    struct leat_store *store;
    struct leat_http *http;
    struct leat_aws aws;
    const char *scheme; /* "http" or "https" */
    char endpoint[300]; /* host with its port */
    char base[200];     /* path before the bucket, "" or "/s3" */
    bool aws_own;       /* AWS's endpoint, which changes with the region */
    bool virtual_host;  /* bucket in the host's name rather than in the path */
    bool answered;      /* by whatever is at the endpoint */
    bool odd_etags;     /* a directory bucket: ETags are no MD5s */
    bool unpacks;       /* Google's: what is stored packed is sent unpacked to who does not take it packed */
    char *bucket;
    char region[32];
    bool region_known;
    int64_t clock_offset_s; /* the server's clock less ours */
    uint32_t keys_number;   /* how often they have changed */
    struct {
        bool running;
        bool others;       /* the last one that has ended found other keys */
        uint64_t began_ns; /* of the one that runs, or of the last one; 0: none yet */
        pthread_t thread;
        _Atomic bool stop;
        _Atomic bool ended;  /* written last by the thread, read first by the loop */
        struct leat_aws aws; /* the thread's until it has ended */
        leat_status status;
    } lookup; /* of other keys, on a thread of its own: it may wait for a service */
};

/* The strings of one request. */
struct s3_request {
    const char *method;
    struct leat_sign_pair query[LEAT_S3_QUERY_MAX];
    size_t query_n;
    struct leat_sign_pair headers[LEAT_S3_HEADERS_MAX]; /* signed ones */
    size_t headers_n;
    char range[LEAT_RANGE_MAX];
    char part[16];
    char hash[65];
    struct leat_buf body; /* of calls that send XML */
    struct leat_buf host;
    struct leat_buf path;
    struct leat_buf url;
    struct leat_buf lines; /* header lines, each with its NUL */
    const char *line[LEAT_S3_HEADERS_MAX + 6];
};

struct s3_request *leat_s3_request_new(void);    /* NULL when memory runs out */
void leat_s3_request_free(struct s3_request *r); /* NULL is allowed */

/* Fills in what op->own.call sends: method, address, headers, body, all signed. The call borrows it from r. */
leat_status leat_s3_request_make(const struct s3 *s3, struct leat_store_op *op, struct s3_request *r,
                                 struct leat_error *err);

/* Keys that renew. Loop thread only. */
enum leat_backend_renewal leat_s3_renew(struct leat_backend *backend, const struct leat_backend_keys *keys,
                                        const struct leat_store_op *op);
void leat_s3_renew_early(struct s3 *s3); /* begins a lookup when the keys are about to expire */
void leat_s3_renew_stop(struct s3 *s3);

#endif
