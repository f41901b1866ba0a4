/* The message that opens a loader in the agent, or only looks at its dataset: everything the agent needs to know. */
#ifndef LEAT_RING_REQUEST_H
#define LEAT_RING_REQUEST_H

#include "base/error.h"
#include "leat/loader.h"
#include "ring/message.h"
#include "ring/ring.h"

struct leat_request {
    /* world 0: a look. What it points to is the request's own; callbacks are not part of it. */
    struct leat_loader_opts opts;
    struct leat_output outputs[LEAT_RING_COLUMNS_MAX];
    const char *url;   /* absolute */
    const char *id;    /* the dataset's version, 64 digits; NULL: what the URL says */
    uint64_t born_ns;  /* when the loader was made, on the monotonic clock; 0: not said */
    bool strict;       /* a state of another version is refused; else it says the version */
    const char *state; /* where to begin; NULL: at opts.epoch */
    const void
        *access; /* how to reach stores: bytes that only src/store knows how to read (store/access.h); NULL: none */
    size_t access_n;
    uint32_t *node_of_rank; /* world of them, or NULL */
    char *bytes;            /* the message that the rest points into */
};

/* Writes the message. It has no limit of its own but the wire's: a node map with too many runs does not fit. */
void leat_request_write(const struct leat_request *r, struct leat_buf *b);

/* Reads one, checking every value: takes what it needs a copy of. */
leat_status leat_request_read(struct leat_part p, struct leat_request *out, struct leat_error *err);
leat_status leat_request_copy(const struct leat_request *r, struct leat_request *out, struct leat_error *err);
void leat_request_free(struct leat_request *r); /* wipes the keys; a zeroed one is allowed */

#endif
