/* What the three protocols do differently over the same folder: the names of calls and headers, signatures, what tells
 * two versions of an object apart, and errors. Inside src/serve only. */
#ifndef LEAT_SERVE_DIALECT_H
#define LEAT_SERVE_DIALECT_H

#include "serve/call.h"

#define LEAT_SERVE_TAG (LEAT_SERVE_ETAG + 2) /* with its quotes */

struct leat_serve_dialect {
    const char *name;                /* as --protocol has it */
    const char *prefix;              /* of the protocol's own headers */
    const char *meta;                /* of those that are kept with an object */
    const char *request_id;          /* the header with an answer's number */
    const char *type;                /* of an object that came without one */
    unsigned created;                /* the status of a write */
    bool has_account;                /* paths begin with the account's name */
    bool is_strict;                  /* what is deleted must have been there */
    bool is_versioned;               /* objects are told apart by the time they were written, not by what is in them */
    const struct leat_serve_op *ops; /* the first that fits counts; ends with a NULL name */
    const char *const *headers;      /* own headers that are understood; NULL: all but those that guard.c refuses */

    bool (*authorize)(struct leat_serve_call *c); /* false: answered */

    /* What the request demands of the object that is there. False: answered. */
    bool (*condition)(struct leat_serve_call *c, struct leat_serve_condition *out);

    /* Adds headers to the answer about an object, beside ETag and date. `whole`: the answer is of all of it; `range`:
     * as one range, with 206. */
    void (*describe)(struct leat_serve_call *c, const struct leat_serve_object *o, bool whole, bool range);

    /* The same about what was written. md5: of the body, or NULL. */
    void (*confirm)(struct leat_serve_call *c, const struct leat_serve_writer *w, const unsigned char *md5);
};

extern const struct leat_serve_dialect leat_serve_s3;
extern const struct leat_serve_dialect leat_serve_gcs;
extern const struct leat_serve_dialect leat_serve_azure;

/* The ETag of a version, with quotes. */
void leat_serve_tag(const struct leat_serve_call *c, const char *etag, int64_t modified_ns, char out[LEAT_SERVE_TAG]);

void leat_serve_http_date(int64_t time_ns, char out[40]);

/* ETag, Last-Modified and whatever else the protocol says of something written; then its answer without a body. */
void leat_serve_reply_written(struct leat_serve_call *c, const struct leat_serve_writer *w, const char *etag,
                              const unsigned char *md5);

#endif
