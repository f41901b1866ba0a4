/* An HTTP(S) client on libcurl's multi interface: hundreds of calls in flight on one loop's thread, answers
 * written straight into the caller's memory.
 *
 * It performs single exchanges: no retries, no redirects, no opinion about status codes. Those are the
 * store's. HTTP/1.1 only: buckets give a connection's bandwidth to each request, HTTP/2 would share it.
 * Proxies come from http_proxy, https_proxy, all_proxy and no_proxy. */
#ifndef LEAT_NET_HTTP_H
#define LEAT_NET_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "net/loop.h"

struct leat_http;

struct leat_http_opts {
    struct leat_loop *loop;      /* must outlive the client */
    const char *ca_bundle;       /* PEM file or folder; NULL: leat_http_ca_bundle() */
    const char *user_agent;      /* NULL: "leat/VERSION" */
    uint32_t connections_max;    /* kept open for reuse */
    uint64_t connect_timeout_ns; /* 0: 10 s */
    const char *pin;             /* leat_cert_pin(): the one key that servers must have; NULL: any that is certified */
    const char *cert, *key;      /* PEM files, for servers that want to know their clients; NULL: none */
};

leat_status leat_http_open(const struct leat_http_opts *opts, struct leat_http **out, struct leat_error *err);

/* No call may be in flight. Loop thread only (it takes its sockets off the loop). NULL is allowed. */
void leat_http_close(struct leat_http *http);

#define LEAT_HTTP_ETAG_MAX     160
#define LEAT_HTTP_ENCODING_MAX 16
#define LEAT_HTTP_VERSION_MAX  128

/* What the answer's head said; text fields are "" when the header was absent or longer than the field. */
struct leat_http_head {
    unsigned code;   /* 200, 404, … */
    bool has_length; /* content_length is known */
    bool has_range;  /* Content-Range was there and well-formed, once or always the same */
    bool ranged;     /* Content-Range was there, whatever it said */
    bool sized;      /* Content-Length was there, whatever it said */
    uint64_t content_length;
    uint64_t range_first; /* of "bytes first-last/total" */
    uint64_t range_last;
    uint64_t range_total;                  /* UINT64_MAX for "*" */
    int64_t modified_s;                    /* Last-Modified, 0: none */
    int64_t date_s;                        /* Date, 0: none */
    uint64_t retry_after_s;                /* Retry-After as a number, 0: none */
    int64_t retry_at_s;                    /* … as a date, 0: none; see leat_http_retry_after() */
    char etag[LEAT_HTTP_ETAG_MAX];         /* with its quotes */
    char encoding[LEAT_HTTP_ENCODING_MAX]; /* Content-Encoding; "" for the object's own bytes */
    char checksum_kind[12];                /* of the first "x-amz-checksum-KIND: VALUE" (or Google's, Azure's) … */
    char checksum[64];                     /* … whose kind and value fit here */
    bool checksum_whole;                   /* x-amz-checksum-type: FULL_OBJECT, also of an upload that is begun */
    bool etag_opaque;                      /* encrypted with a key of one's own: the ETag is no MD5 */
    char copy_status[12];                  /* x-ms-copy-status: "success", "pending", … */
    char copy_id[40];                      /* x-ms-copy-id: which copy that is said of */
    char generation[24];                   /* x-goog-generation: Google's name for a version */
    char version[LEAT_HTTP_VERSION_MAX];   /* x-amz-version-id */
    bool deleted;                          /* x-amz-delete-marker: there was an object */
    char storage_class[32];                /* x-amz-storage-class */
    char region[32];                       /* x-amz-bucket-region */
    char location[256];
    char content_type[64];
    const char *differing; /* a header that tells the length or the version, and was there twice and not the same; NULL:
                              none. The call fails where its code is 2xx */
};

struct leat_http_call {
    /* Asked: constant from start to done. */
    const char *method;         /* "GET", "HEAD", "PUT", "POST", "DELETE" */
    const char *url;            /* already encoded */
    const char *const *headers; /* "Name: value" lines */
    size_t headers_n;
    const char *encoding; /* to ask for; NULL: "identity", the bytes as they are stored */
    const void *body;     /* sent when not NULL (also an empty one, with Content-Length: 0) */
    size_t body_n;
    void *into; /* where a 2xx answer's body goes; NULL: into text */
    size_t into_n;
    uint64_t deadline_ns;   /* LEAT_NEVER: none */
    uint64_t inactivity_ns; /* less than about a kilobyte a second for this long ends the call; 0: no limit */
    bool direct;            /* not by a proxy, whatever the environment says */
    bool fresh;             /* resolve the name and connect again: the last try ended badly */
    /* The head of a 2xx answer is complete; its body, if any, follows. May set skip; return false to drop the answer
     * (status LEAT_SERVER unless err was filled in). NULL: take it as it is. */
    bool (*accept)(struct leat_http_call *call);
    /* A line of the answer's head, without its end: for headers that only one kind of server sends. "": a new head
     * begins, and what was said before is void. NULL: nobody wants to know. */
    void (*header)(struct leat_http_call *call, const char *line, size_t n);
    /* Body bytes arrived: for progress. May be NULL; may cancel calls, start none. */
    void (*received)(struct leat_http_call *call, size_t n);
    /* Body bytes are going out, the same ones again when libcurl starts over: for progress. May be NULL. */
    void (*sent)(struct leat_http_call *call, size_t n);
    void (*done)(struct leat_http_call *call); /* exactly once, on the loop's thread */
    void *user;

    /* Answered. */
    leat_status status; /* LEAT_OK: an answer came in full, whatever its code */
    struct leat_error err;
    struct leat_http_head head;
    uint64_t skip;        /* bytes of the body to leave out before `into` */
    uint64_t got;         /* bytes written to into, also when the call failed */
    struct leat_buf text; /* the body of any other answer; at most text_max bytes, more is an error for 2xx and cut
                             for the rest. The caller frees it with leat_buf_free. */
    size_t text_max;      /* asked: 0 means 64 KiB */
    bool unresolved;      /* failed because the host's name could not be resolved */
    bool cut;             /* into was full before the body ended: accept() allowed that by setting skip */

    /* The client's own. */
    void *easy;
    void *header_list;
    size_t body_at;
    bool accepted;
    bool head_whole;
    bool dropped;         /* cancelled where libcurl's hands could not be taken off it yet */
    struct leat_task sad; /* reports a call that never began */
    char detail[256];     /* libcurl's own words about a failure */
    struct leat_http_call *prev;
    struct leat_http_call *next;
};

/* Loop thread only. done() is called later, never from within start. */
void leat_http_start(struct leat_http *http, struct leat_http_call *call);

/* Loop thread only. Ends a call in flight: done() is called with LEAT_CANCELLED before this returns, or soon after
 * when called from within accept() or received(), or when the call could not even begin. */
void leat_http_cancel(struct leat_http *http, struct leat_http_call *call);

/* The CA file or folder in use: LEAT_CA_BUNDLE, AWS_CA_BUNDLE, SSL_CERT_FILE, SSL_CERT_DIR, CURL_CA_BUNDLE, else the
 * first of the places where distributions keep it; NULL: libcurl's own default, which a wheel's has not. */
const char *leat_http_ca_bundle(void);

/* "Sun, 06 Nov 1994 08:49:37 GMT" in seconds since 1970; 0 when it is something else. */
int64_t leat_http_parse_date(const char *text);

/* The libraries after it, for people: "libcurl 7.88.1, OpenSSL 3.0.11". Returns out. */
const char *leat_http_library(char *out, size_t n);

/* The variable of the environment that sends requests to this URL by a proxy; "": none does. Exceptions (no_proxy) are
 * not looked at. */
const char *leat_http_proxy_variable(const char *url);

/* How long the answer asks to wait, by its own clock where it has one; 0: it does not. */
uint64_t leat_http_retry_after(const struct leat_http_head *head);

/* Fills in one header line of an answer ("Name: value", without line end). For the client and its fuzzer. */
void leat_http_parse_header(struct leat_http_head *head, const char *line, size_t n);

#endif
