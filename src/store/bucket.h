/* What the backends of buckets share: bucket.c judges answers, bucket_keys.c renews keys, bucket_list.c lists; what is
 * asked and how it is signed differs by dialect. */
#ifndef LEAT_STORE_BUCKET_H
#define LEAT_STORE_BUCKET_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/attributes.h"
#include "store/backend.h"
#include "store/exchange.h"
#include "store/extras.h"
#include "store/s3.h"
#include "store/sign.h"

#define LEAT_BUCKET_HEADERS_MAX (20 + LEAT_ATTRIBUTES_LINES + LEAT_EXTRAS_LINES)
#define LEAT_BUCKET_QUERY_MAX   8

struct bucket;
struct bucket_request;

/* What an answer was that may be a step on the way to the one that counts. */
enum bucket_step {
    BUCKET_STEP_NONE,  /* it counts */
    BUCKET_STEP_AGAIN, /* make() knows what to ask next */
    BUCKET_STEP_OVER,  /* op has its status */
};

/* How one vendor speaks. */
struct bucket_dialect {
    const char *vendor;    /* "AWS" */
    const char *page_root; /* of a list's XML */
    bool regions;          /* answers may name another region */
    bool google;           /* versions are generations, and headers are called x-goog-… */
    bool ordered;          /* lists are sorted by the bytes of all keys; directory buckets (S3 Express) never are */
    /* Sets scheme, endpoint and the rest by b->aws, once. */
    leat_status (*place)(struct bucket *b, struct leat_error *err);
    /* Fills in what op->own->call sends: method, address, headers, body, all signed. The call borrows it from r. A
     * method that stays NULL: there is nothing to ask, and the operation is over. */
    leat_status (*make)(const struct bucket *b, struct leat_store_op *op, struct bucket_request *r,
                        struct leat_error *err);
    /* Sets op's status and error by an answer that refuses the call, and what it says. */
    void (*explain)(const struct bucket *b, struct leat_store_op *op, const struct leat_s3_answer *answer);
    leat_status (*page)(const char *xml, size_t n, struct leat_s3_page *out, struct leat_error *err);
    /* Looks at every answer first. NULL: each of them counts. */
    enum bucket_step (*step)(struct bucket *b, struct leat_store_op *op);
    void (*close)(struct bucket *b); /* frees b->own, also a NULL; NULL: there is none */
    /* The largest object that the server copies at once. NULL: S3's, and larger ones in parts. */
    uint64_t (*copies_whole)(const struct bucket *b);
    /* 2xx to a call that writes or lists uploads. NULL: as S3 answers. */
    void (*take)(const struct bucket *b, struct leat_store_op *op);
};

struct bucket {
    struct leat_backend backend; /* first member */
    const struct bucket_dialect *dialect;
    void *own; /* the dialect's */
    struct leat_store *store;
    struct leat_http *http;
    struct leat_aws aws;
    const char *scheme;  /* "http" or "https" */
    char endpoint[300];  /* host with its port, without the bucket */
    char label[256];     /* S3, Google: what stands for the bucket, before the endpoint or in the path */
    char base[200];      /* path before the bucket, "" or "/s3" */
    const char *service; /* that requests are signed for: "s3" */
    bool aws_own;        /* AWS's endpoint, which changes with the region … */
    bool fips;           /* … and with these two */
    bool dual_stack;
    bool fixed;        /* its name says where it is: answers cannot move it */
    bool global;       /* a multi-region access point: it is signed for all regions */
    bool directory;    /* of S3 Express: keys are those of a session, and ETags are no MD5s */
    bool virtual_host; /* bucket in the host's name rather than in the path */
    bool answered;     /* by whatever is at the endpoint */
    bool odd_etags;    /* ETags are no MD5s */
    bool sums_refused; /* the server takes no checksums with what is written */
    bool unpacks;      /* Google's: what is stored packed is sent unpacked to who does not take it packed */
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
struct bucket_request {
    void *own; /* the dialect's: one block, freed with this */
    const char *method;
    struct leat_sign_pair query[LEAT_BUCKET_QUERY_MAX];
    size_t query_n;
    struct leat_sign_pair headers[LEAT_BUCKET_HEADERS_MAX]; /* signed ones */
    size_t headers_n;
    char range[LEAT_RANGE_MAX];
    char part[16];
    char hash[65];
    struct leat_buf body; /* of calls that send XML */
    struct leat_buf host;
    struct leat_buf path;
    struct leat_buf url;
    struct leat_buf lines; /* header lines, each with its NUL */
    char *attributes;      /* names and values that headers point to */
    char pin[LEAT_ETAG_MAX];
    char sum[64];
    char block[48];
    char date[LEAT_HTTP_DATE];
    size_t offsets[LEAT_BUCKET_HEADERS_MAX + 6]; /* of lines */
    size_t lines_n;
    const char *line[LEAT_BUCKET_HEADERS_MAX + 6];
    char *extras; /* names and values that headers point to, too; there may be a key in them */
    size_t extras_n;
};

struct bucket_request *leat_bucket_request_new(void);    /* NULL when memory runs out */
void leat_bucket_request_free(struct bucket_request *r); /* NULL is allowed */

leat_status leat_bucket_open(struct leat_store *store, const struct leat_url *url, const struct bucket_dialect *dialect,
                             struct leat_backend **out, struct leat_error *err);
leat_status leat_bucket_set_endpoint(struct bucket *b, const char *text, struct leat_error *err);

/* Nothing has answered yet: the address may be wrong, and op's error says who gave it. */
void leat_bucket_explain_endpoint(const struct leat_aws *aws, struct leat_store_op *op);

leat_status leat_bucket_list_after(struct leat_store *store, const char *prefix, const char *after,
                                   struct leat_list **out, struct leat_error *err);
leat_status leat_bucket_list_versions(struct leat_store *store, const char *prefix, bool recursive,
                                      struct leat_list **out, struct leat_error *err);
leat_status leat_bucket_list_open(struct leat_store *store, const char *prefix, bool recursive, struct leat_list **out,
                                  struct leat_error *err);

/* A page of a list that arrived: op's, once it is seen to be one. */
void leat_bucket_take_page(const struct bucket *b, struct leat_store_op *op);

/* PUT and UPLOAD_PART: what the server says that it has stored, against what was sent. Sets op's status. */
void leat_bucket_check_stored(struct leat_store_op *op);

/* Pieces of requests. */
void leat_bucket_add_query(struct bucket_request *r, const char *name, const char *value);
void leat_bucket_add_header(struct bucket_request *r, const char *name, const char *value); /* a signed one */
/* One header line; its text is found again by offset once the buffer stops growing. */
void leat_bucket_add_line(struct bucket_request *r, const char *name, const char *value);
void leat_bucket_add_bearer(struct bucket_request *r, const char *token);
/* Gives the call its lines; an error when one of the texts did not fit. */
leat_status leat_bucket_request_end(struct leat_store_op *op, struct bucket_request *r, struct leat_error *err);

/* Sets where the bucket is, and what requests are signed for; NULL: the region is not known. */
leat_status leat_s3_place(struct bucket *b, struct leat_error *err); /* by b->aws */
leat_status leat_s3_settle(struct bucket *b, const char *region, struct leat_error *err);
leat_status leat_s3_request_make(const struct bucket *b, struct leat_store_op *op, struct bucket_request *r,
                                 struct leat_error *err);

/* Keys that renew. Loop thread only. */
enum leat_backend_renewal leat_bucket_renew(struct leat_backend *backend, const struct leat_access *access,
                                            const struct leat_store_op *op);
void leat_bucket_renew_early(struct bucket *b); /* begins a lookup when the keys are about to expire */
void leat_bucket_renew_stop(struct bucket *b);

#endif
