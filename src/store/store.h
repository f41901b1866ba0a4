/* Object stores behind one small interface: buckets (s3://, gs://, az://), folders (file:// and plain paths) and web
 * servers (http://, https://, read-only).
 *
 * A store is a scheme and a host: one bucket, the file system, one web server. Keys are what follows it in
 * the URL, taken byte for byte. Operations are asynchronous underneath: submit an op and get its done() on the
 * store's thread; leat_store_stat() and the rest wait for you.
 *
 * What the store takes care of, for every operation: retries with jitter and a retry budget, deadlines and an
 * inactivity limit, resumed ranges, checks of length and range, pinning by ETag, and how many requests are in
 * flight at a time, which adapts to what the other side can do. */
#ifndef LEAT_STORE_STORE_H
#define LEAT_STORE_STORE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/pool.h"
#include "base/url.h"
#include "net/http.h"
#include "net/loop.h"
#include "store/access.h"
#include "store/checksum.h"
#include "store/extras.h"
#include "store/pace.h"

struct leat_store;

#define LEAT_PLACE_ADDRESS 600
#define LEAT_STORE_HURRY   LEAT_PACE_HURRY /* urgent requests that are in flight together from the start */

enum leat_store_addressing { LEAT_ADDRESSING_AUTO, LEAT_ADDRESSING_PATH, LEAT_ADDRESSING_VIRTUAL };

/* Whether what is late is asked for a second time (hedge.h). Auto: where requests are not paid for one by one. */
enum leat_store_hedge { LEAT_HEDGE_AUTO, LEAT_HEDGE_ON, LEAT_HEDGE_OFF };

/* Zeros and NULLs mean the default. */
struct leat_store_opts {
    /* What was found out by another process: nothing is looked up here, and the next group does not count. NULL: this
     * process looks. */
    const struct leat_access *access;
    const char *place; /* of it that counts, for renewals; NULL: the store's */
    /* What somebody has said of a kind of buckets, by options or LEAT_* variables; each kind knows what to make of it,
     * and where else to look. */
    const char *endpoint_url;
    const char *region;
    const char *profile;
    bool anonymous; /* do not sign, whatever keys there are */
    enum leat_store_addressing addressing;
    const char *ca_bundle;
    struct leat_extras extras;
    enum leat_store_hedge hedge;
    bool said;              /* some of the above for this run, by arguments and not by variables: apart.h */
    bool apart;             /* the config file has a section for this store, and these are from there */
    bool other;             /* this is a store of another kind: leat_store_opts_of() */
    uint32_t connections;   /* fixed number of requests in flight; 0: adapts, at most 256 */
    uint32_t attempts;      /* of one operation since its last progress; 0: until its time is over */
    uint64_t timeout_ns;    /* for one operation with all its attempts; 0: 5 min */
    uint64_t inactivity_ns; /* 0: 20 s */
    /* Web servers that are machines of one's own job. */
    const char *bearer; /* a token that every request shows; NULL: none */
    const char *pin;    /* the one key that the server must have, see net/http.h */
    uint64_t connect_timeout_ns;
    bool (*stop)(void *user); /* asked several times a second by waiting calls: true cancels them (Ctrl-C) */
    void *stop_user;
    /* The keys for a place (access.h) have expired. True: somebody was asked for others, and requests wait a while for
     * them: leat_store_renew(). On the store's thread, again and again while they wait. NULL: they are looked up again
     * where they came from. */
    bool (*expired)(void *user, const char *place);
    void *expired_user;
};

/* A copy that owns its texts and its access; those of `extras` stay the caller's. */
leat_status leat_store_opts_copy(const struct leat_store_opts *opts, struct leat_store_opts *out,
                                 struct leat_error *err);
void leat_store_opts_free(struct leat_store_opts *opts); /* zeroed ones are allowed */

/* What is said of buckets is said of one kind of them, the first among these addresses. LEAT_INVALID: endpoint, region
 * or profile is said, and there are several kinds. *found: there is one. */
leat_status leat_store_opts_owner(const struct leat_store_opts *opts, const char *const *urls, size_t n,
                                  enum leat_scheme *out, bool *found, struct leat_error *err);

/* The options for a store of that kind, or of another one: without what was said. Borrows from `opts`. */
struct leat_store_opts leat_store_opts_of(const struct leat_store_opts *opts, bool other);

/* The store that `url` is in; its path does not matter. */
leat_status leat_store_open(const struct leat_url *url, const struct leat_store_opts *opts, struct leat_store **out,
                            struct leat_error *err);

/* Cancels what is still in flight (done() is called with LEAT_CANCELLED) and waits for it. NULL is allowed. */
void leat_store_close(struct leat_store *store);

/* The key that a URL names in its store: everything after the bucket or host. The caller frees it. */
char *leat_store_key(const struct leat_url *url);

/* What a store can, so that those above need not know which kind it is. */
enum leat_store_trait {
    LEAT_STORE_LOCAL = 1,        /* its keys are paths of this machine */
    LEAT_STORE_LISTS = 2,        /* it can say what it holds */
    LEAT_STORE_WRITES = 4,       /* else it can only be read from */
    LEAT_STORE_BUCKET = 8,       /* objects under plain keys, requests signed with keys that may expire */
    LEAT_STORE_QUERIES = 16,     /* keys may have a query after '?', with a secret in it */
    LEAT_STORE_MD5 = 32,         /* compares what it is sent with an MD5, or states one */
    LEAT_STORE_S3 = 64,          /* S3's prices, and the oddities of servers like it */
    LEAT_STORE_COPIES = 256,     /* can copy within its server, without the bytes coming here */
    LEAT_STORE_ATTRIBUTES = 512, /* keeps what attributes.h is about */
    LEAT_STORE_VERSIONS = 128,   /* may keep what was replaced or deleted, under an id */
};

bool leat_store_can(const struct leat_store *store, unsigned traits); /* all of them */
bool leat_store_url_can(const struct leat_url *url, unsigned traits); /* … the store that `url` is in */

/* Which checksums of what is written are worth knowing before: op.sums. MD5s are not where the
 * server has stated a CRC32C of what it stored. From any thread. */
bool leat_store_wants_md5(const struct leat_store *store);
bool leat_store_wants_crc32c(const struct leat_store *store);

bool leat_store_same(const struct leat_store *a, const struct leat_store *b);          /* one bucket, one server … */
bool leat_store_same_scheme(const struct leat_store *a, const struct leat_store *b);   /* one kind */
bool leat_store_same_kind(const struct leat_store *store, const struct leat_url *url); /* … and so one kind of keys */
bool leat_store_holds(const struct leat_store *store, const struct leat_url *url); /* opened for `url`, or could be */
const char *leat_store_host(const struct leat_store *store);                       /* the bucket, "" for files */

#define LEAT_ETAG_MAX    LEAT_HTTP_ETAG_MAX
#define LEAT_VERSION_MAX LEAT_HTTP_VERSION_MAX

/* What the ETag that a store gives promises: nothing (there is none, or a weak one), that date and size are the same
 * (web servers without a strong ETag), or that the bytes are. */
enum leat_store_pin { LEAT_STORE_PIN_NONE, LEAT_STORE_PIN_DATE, LEAT_STORE_PIN_ETAG };
enum leat_store_pin leat_store_pin(const char *etag); /* NULL and "": none */

struct leat_object {
    uint64_t size;
    int64_t modified_s;                    /* since 1970; 0: not known */
    int64_t changed_ns;                    /* of a file: its ctime, which nobody can set back; else 0 */
    char etag[LEAT_ETAG_MAX];              /* with its quotes; "" when the store has none */
    bool looked_at;                        /* by itself rather than in a list: `encoding` is known */
    char encoding[LEAT_HTTP_ENCODING_MAX]; /* that its bytes are stored in, "gzip"; "": none */
    struct leat_checksum checksum;         /* of all its bytes, as the server states it */
    char storage_class[32];                /* "": the usual one */
    char version[LEAT_VERSION_MAX];        /* its id, where a certain one is meant; "": the present one */
};

enum leat_store_verb {
    LEAT_STORE_STAT,
    LEAT_STORE_GET,
    LEAT_STORE_PUT,
    LEAT_STORE_DELETE,      /* what is not there is deleted already */
    LEAT_STORE_UPLOAD_OPEN, /* begins a put in parts; yields upload_id */
    /* LEAT_NOT_FOUND when the other side no longer knows the upload. Files: LEAT_CHANGED when of `parts`, each `length`
     * long, those with an ETag are no longer there as they were written. */
    LEAT_STORE_UPLOAD_STAT,
    LEAT_STORE_UPLOAD_PART,   /* yields object.etag */
    LEAT_STORE_UPLOAD_FINISH, /* makes the object visible, whole */
    LEAT_STORE_UPLOAD_ABORT,
    LEAT_STORE_LIST,       /* one page, used by leat_store_list_* */
    LEAT_STORE_COPY,       /* of an object that the same server has: `source` */
    LEAT_STORE_UPLOAD_COPY /* `length` bytes of it from `offset` on as a part */
};

#define LEAT_UPLOAD_ID_MAX 1100
#define LEAT_PART_MIN      (5u << 20) /* S3's limits: every part but the last is at least so large … */
#define LEAT_PARTS_MAX     10000u     /* … and an object has no more of them */

struct leat_store_part {
    char etag[LEAT_ETAG_MAX];
    uint64_t size;
    bool summed; /* the next one is known */
    uint32_t crc32c;
    enum leat_checksum_kind sum_kind; /* what the source stated of the whole, for copies; NONE: nothing … */
    uint64_t sum;                     /* … and this part's of that kind */
};

/* Checksums of what is to be written, where somebody has computed them already. */
struct leat_store_sums {
    bool md5_known;
    bool crc_known;
    uint32_t crc32c;
    uint8_t md5[LEAT_MD5_SIZE];
};

/* An object that a server is to copy by itself. */
struct leat_store_source {
    const char *bucket;
    const char *key;
    const struct leat_object *object; /* its ETag is held to; its version, if it has one, is the one meant */
};

/* One operation. The caller's memory, with everything it points to, until done(). Which fields a verb looks at stands
 * beside them; those of other verbs may share their place. */
struct leat_store_op {
    const char *key;
    uint64_t offset; /* GET: first byte. UPLOAD_PART: where in the object the part belongs */
    uint64_t length; /* GET: how many bytes, at `into` */
    union {
        void *into;
        const void *data; /* PUT, UPLOAD_PART */
        const struct leat_store_source
            *source; /* COPY, UPLOAD_COPY; UPLOAD_OPEN: parts will be copied from there; NULL: sent */
    };
    size_t data_n;
    /* GET, STAT, PUT, UPLOAD_FINISH: the ETag that the object must (still) have, else LEAT_CHANGED. NULL: any.
     * A store that cannot promise it for a write says LEAT_UNSUPPORTED. */
    const char *if_match;
    union {
        /* GET: what was said of the object before; an answer of another size or encoding is refused. GET, STAT, DELETE:
         * the version of it that is meant. NULL: nothing. */
        const struct leat_object *known;
        struct {
            const struct leat_store_sums *sums;  /* PUT, UPLOAD_PART: of data, as far as they are known; NULL: not */
            const char *upload;                  /* UPLOAD_STAT, PART, FINISH, ABORT: the id */
            const struct leat_store_part *parts; /* UPLOAD_FINISH, in order */
            uint32_t parts_n;
            uint32_t part; /* UPLOAD_PART: 1, 2, … */
        };
        struct {
            const char *delimiter; /* LIST: "/" or NULL; key is the prefix */
            const char *token;     /* LIST: where to go on, or NULL */
            const char *after;     /* LIST: the first page begins after this key; NULL: at the beginning */
        };
    };
    union {
        const char
            *attributes; /* PUT, UPLOAD_OPEN, COPY: see attributes.h. NULL: none; of a copy, those of the source */
        struct leat_buf *found; /* GET, STAT: where those of the object go. NULL: nobody wants to know */
    };
    uint64_t timeout_ns; /* 0: the store's */
    /* GET, PUT, UPLOAD_PART: bytes arrived or went out, some of them again when an attempt fails: for progress. On
     * the store's thread. NULL: nobody wants to know. */
    void (*moved)(struct leat_store_op *op, size_t n);
    void (*done)(struct leat_store_op *op); /* on the store's thread; must not block */
    void *user;

    /* Where results go, written on the store's thread right before done(). NULL: nobody wants to know. */
    struct leat_error *err; /* unless status is LEAT_OK */
    struct leat_object
        *object; /* STAT, GET; etag and size for PUT and UPLOAD_PART; zeros where nothing was found out */
    union {
        char *upload_id;       /* UPLOAD_OPEN, which needs it: LEAT_UPLOAD_ID_MAX bytes */
        struct leat_buf *text; /* LIST, which needs it: the page. Freed by the caller */
    };
    uint64_t got; /* GET: bytes at into, also after a failure */
    leat_status status;
    uint32_t attempts;
    bool too_short; /* GET failed because the object ends before the range does */

    uint8_t verb;  /* enum leat_store_verb */
    bool short_ok; /* GET: an object that ends earlier is fine; `got` says how much there was */
    /* GET: nobody compares the bytes later: do it with what the server says of the whole object. STAT: ask for that. */
    bool verify;
    bool create_only; /* PUT, UPLOAD_FINISH: LEAT_EXISTS when there is one already */
    bool versions;    /* LIST: of all versions */
    bool urgent;      /* goes before all that wait and are not; see LEAT_STORE_HURRY */
    bool begun;       /* belongs to something that is partly there: goes before what is not, after what is urgent */
    bool ignore_stop; /* leat_store_run: go on although the store's stop() says otherwise; for tidying up */

    struct leat_store_own *own; /* the store's, from submit to done(); else NULL */
    struct leat_store_op *next; /* the store's: another one that it had no memory for */
};

static_assert(sizeof(struct leat_store_op) < 200, "what only the store needs belongs into struct leat_store_own");

/* Something to run on the store's thread. The caller's memory until run(). */
struct leat_store_task {
    void (*run)(struct leat_store_task *task);
    struct leat_store *store; /* the store's own, as the next */
    struct leat_task task;
};

/* Other keys for the requests from now on; those that wait because the old ones have expired go on. From any thread.
 * Nothing where `access` says nothing of the store's place. */
void leat_store_renew(struct leat_store *store, const struct leat_access *access);

/* From any thread. */
void leat_store_submit(struct leat_store *store, struct leat_store_op *op);

/* STAT and GET on the calling thread: one attempt, without queue, limits and done(), for many small files. False: this
 * store cannot, and nothing has happened. */
bool leat_store_perform(struct leat_store *store, struct leat_store_op *op);

/* From any thread; done() still comes, soon, with LEAT_CANCELLED unless it was finished already. The op's memory
 * must still be there; one that was given back is left alone. */
void leat_store_cancel(struct leat_store *store, struct leat_store_op *op);

/* Runs on the store's thread, for owners of several ops that belong together: what they keep beside their ops then
 * needs no lock. Posting takes no memory; call waits, and runs at once on the thread itself. */
void leat_store_post(struct leat_store *store, struct leat_store_task *task);
void leat_store_call(struct leat_store *store, void (*run)(void *arg), void *arg);

/* Whether waiting calls should give up: what opts.stop says now. */
bool leat_store_stopped(const struct leat_store *store);

/* Submits, waits, and returns op->status with the error in err, which becomes op's. Not from the store's thread. */
leat_status leat_store_run(struct leat_store *store, struct leat_store_op *op, struct leat_error *err);

leat_status leat_store_stat(struct leat_store *store, const char *key, struct leat_object *out, struct leat_error *err);

/* Divides "KEY?versionId=ID" as people write it, in place: the id, "" where there is none. LEAT_INVALID: one that
 * cannot be. Keys from elsewhere are bytes, and not divided. */
leat_status leat_store_split_version(const struct leat_store *store, char *key, const char **version,
                                     struct leat_error *err);

/* leat_store_look() for a version. */
leat_status leat_store_look_version(struct leat_store *store, const char *key, const char *version,
                                    struct leat_object *out, struct leat_error *err);

/* The same for an object that is going to be read whole: asks for the checksum to compare its bytes with. */
leat_status leat_store_look(struct leat_store *store, const char *key, struct leat_object *out, struct leat_error *err);

/* Exactly `length` bytes, or an error. if_match may be NULL. */
leat_status leat_store_get(struct leat_store *store, const char *key, uint64_t offset, uint64_t length, void *into,
                           const char *if_match, struct leat_error *err);

/* A whole object of at most `max` bytes, NUL after it; the caller frees *data. One round trip for small ones.
 * object may be NULL. */
leat_status leat_store_load(struct leat_store *store, const char *key, size_t max, char **data, size_t *n,
                            struct leat_object *object, struct leat_error *err);

/* Atomic: a reader sees the old object or the whole new one. object may be NULL. */
leat_status leat_store_put(struct leat_store *store, const char *key, const void *data, size_t n,
                           struct leat_object *object, struct leat_error *err);

/* The same if nobody else has written there meanwhile. if_match: the ETag it must still have, else LEAT_CHANGED; NULL:
 * there must be none, else LEAT_EXISTS. An object with the very bytes counts as ours: the answer to an attempt that
 * succeeded may have been lost. LEAT_UNSUPPORTED: the store knows no conditions, and nothing was written. */
leat_status leat_store_put_if(struct leat_store *store, const char *key, const void *data, size_t n,
                              const char *if_match, struct leat_object *object, struct leat_error *err);

/* Whether there is an object with these very bytes: reads it. False as well where it cannot be read; LEAT_NO_MEMORY and
 * LEAT_CANCELLED are errors. object may be NULL. */
leat_status leat_store_has_bytes(struct leat_store *store, const char *key, const void *data, size_t n, bool *out,
                                 struct leat_object *object, struct leat_error *err);

leat_status leat_store_delete(struct leat_store *store, const char *key, struct leat_error *err);

/* Deletes one version for good. A marker of deletion is one, too. */
leat_status leat_store_delete_version(struct leat_store *store, const char *key, const char *version,
                                      struct leat_error *err);

/* Listing, in constant memory; the next page is fetched while one is read. Keys are sorted by their bytes where the
 * store sorts them so; the Hub's are sorted here, in memory. Every key begins with the prefix, however the server
 * answers: a page that has others, or repeats what was listed before, is LEAT_SERVER, and nothing of it is handed out.
 */
struct leat_list;

struct leat_list_entry {
    const char *key; /* valid until the next call */
    bool prefix;     /* a common prefix ("folder"), not an object: key ends with '/' and the rest is unset */
    uint64_t size;
    int64_t modified_s;
    const char *etag;
    const char *storage_class; /* "": the usual one */
    const char *version;       /* of leat_store_list_versions() only, as the next two */
    bool latest;
    bool deleted; /* a marker: from here on there was no object */
};

/* Objects whose key begins with `prefix`; not recursive: what lies after the next '/' is shown as one prefix. */
leat_status leat_store_list_open(struct leat_store *store, const char *prefix, bool recursive, struct leat_list **out,
                                 struct leat_error *err);
/* The same with everything below the prefix, beginning after a key. What cannot begin there gives the earlier ones too:
 * the one that asks leaves them out. */
leat_status leat_store_list_after(struct leat_store *store, const char *prefix, const char *after,
                                  struct leat_list **out, struct leat_error *err);
/* … with all versions of each, the newest first. LEAT_UNSUPPORTED: the store keeps none. */
leat_status leat_store_list_versions(struct leat_store *store, const char *prefix, bool recursive,
                                     struct leat_list **out, struct leat_error *err);
leat_status leat_store_list_next(struct leat_list *list, struct leat_list_entry *entry, bool *end,
                                 struct leat_error *err);
void leat_store_list_close(struct leat_list *list);

/* What has happened so far. */
struct leat_store_stats {
    uint64_t operations; /* finished */
    uint64_t failures;   /* of those */
    uint64_t requests;   /* attempts started */
    uint64_t retries;    /* of those, not the first of their operation */
    uint64_t throttled;  /* answers that asked to slow down */
    uint64_t request_ns; /* time of all attempts, from start to answer; those in parallel each count */
    uint64_t bytes_in;   /* object bytes received, thrown-away ones included */
    uint64_t bytes_out;
    uint64_t hedges;       /* second requests for what was late, among `requests` … */
    uint64_t hedges_won;   /* … that were answered first … */
    uint64_t hedged_bytes; /* … and what they asked for */
    uint32_t in_flight;
    uint32_t in_flight_max; /* as allowed now */
};
void leat_store_stats(const struct leat_store *store, struct leat_store_stats *out);

/* Where requests go, and as whom: for people who look for a fault. No secrets. Texts are "" where there is nothing to
 * say, which is everything for files. */
struct leat_store_place {
    char address[LEAT_PLACE_ADDRESS]; /* "https://bucket.s3.eu-west-1.amazonaws.com" */
    char server[LEAT_PLACE_ADDRESS];  /* the same without the bucket: two of one server can copy to each other */
    char address_from[80];            /* which setting says so: "--endpoint-url", "AWS's own" */
    bool redirects;                   /* by region: one that the settings say saves that */
    uint64_t copies_whole;            /* the largest object that the server copies at once … */
    bool copies_parts;                /* … and larger ones in parts */
    char region[32];                  /* that requests are signed for now */
    char region_said[32];             /* what the settings say; "": nothing, it was guessed or learned */
    char key_id[132];                 /* "": anonymous */
    char account[16];                 /* that the key is of, where its id tells; "": it does not */
    char keys_from[80];
    uint64_t keys_expire_s; /* since 1970; 0: not known */
    char commit[44];        /* of the Hub: which commit the revision is; "": not known, or nothing of the kind */
    bool sends_whole;       /* has sent a whole object although a part was asked for */
    int64_t date_s;         /* the server's clock when it last answered, since 1970; 0: it has not, or did not say */
};

/* From any thread but the store's. */
void leat_store_place(struct leat_store *store, struct leat_store_place *out);

/* An address in the store that will always mean what it means now: a branch of the Hub becomes the commit that this
 * store reads. Every other is `url` itself. The caller frees it; NULL when memory runs out. Not from the store's
 * thread. */
char *leat_store_lasting_url(struct leat_store *store, const char *url);

#endif
