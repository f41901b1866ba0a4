/* What ranks and the agent say to each other: a kind and typed fields (docs/ring.md).
 *
 * A field is a tag, a type and bytes. A reader skips tags it does not know, so that a newer side may say more; a field
 * marked as needed must be understood, else the message is refused (LEAT_VERSION). Texts carry their NUL, so that
 * readers point into the message instead of copying. */
#ifndef LEAT_RING_MESSAGE_H
#define LEAT_RING_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

/* Numbers of the protocol: new ones are added, none is used again for something else. */
enum leat_message_kind {
    LEAT_MESSAGE_HELLO = 1,   /* rank: first of all. PROTOCOL, VERSION, PID */
    LEAT_MESSAGE_WELCOME = 2, /* agent: PROTOCOL, VERSION, PID, RAM, THREADS, LINGER, FEATURES, CACHE_DIR, CACHE,
                               * METRICS */
    LEAT_MESSAGE_OPEN = 3,    /* rank: a loader, ring/request.h */
    LEAT_MESSAGE_OPENED =
        4, /* agent: ID, STATE, UNITS, BATCHES, AGREEMENT; with three descriptors, or none for a look */
    LEAT_MESSAGE_ERROR = 5, /* agent: the request was refused. STATUS, TEXT; LACKS: asked again with access to those, it
                             * may not be */
    LEAT_MESSAGE_FAILED = 6,   /* agent: the loader cannot go on. STATUS, TEXT */
    LEAT_MESSAGE_MEMORY = 7,   /* agent: SLOT; with a descriptor */
    LEAT_MESSAGE_STATS = 8,    /* rank asks, agent answers with TEXT (JSON) */
    LEAT_MESSAGE_DESCRIBE = 9, /* likewise, about the agent; a long text comes in a descriptor, without TEXT */
    LEAT_MESSAGE_STOP = 10,    /* rank asks, agent confirms and ends */
    LEAT_MESSAGE_KEYS = 11,    /* agent asks for new keys of a PLACE, rank answers with PLACE and ACCESS, or STATUS and
                                * TEXT in place of that */
    LEAT_MESSAGE_AGREE = 12,   /* rank: before its first batch; agent, when the other ranks of the machine agree */
    LEAT_MESSAGE_TRACE = 13,   /* anybody: LAST; agent, with a descriptor of what it did (JSON). Feature "trace" */
    LEAT_MESSAGE_JOB = 14,     /* rank: TEXT (JSON, agent/peers.h) about its job; agent, likewise. Feature "jobs" */
    LEAT_MESSAGE_LONG = 15     /* either: the message is in the descriptor (ring/parcel.h). Feature "long" */
};

enum leat_message_tag {
    LEAT_TAG_PROTOCOL = 1,
    LEAT_TAG_VERSION,
    LEAT_TAG_PID,
    LEAT_TAG_RAM,
    LEAT_TAG_THREADS,
    LEAT_TAG_LINGER,
    LEAT_TAG_FEATURES, /* text, words separated by spaces: what the agent can do beyond the protocol */
    LEAT_TAG_STATUS,
    LEAT_TAG_TEXT,
    LEAT_TAG_SLOT,
    LEAT_TAG_URL,
    LEAT_TAG_ID, /* 64 hexadecimal digits: the version of the dataset */
    LEAT_TAG_STATE,
    LEAT_TAG_UNITS,
    LEAT_TAG_BATCHES,
    LEAT_TAG_AGREEMENT,
    LEAT_TAG_STRICT,
    LEAT_TAG_AGREE,
    LEAT_TAG_NODES,  /* numbers: (node, ranks) pairs, the runs of node_of_rank */
    LEAT_TAG_OUTPUT, /* a group, once for each */
    LEAT_TAG_NAME,
    LEAT_TAG_KIND,
    LEAT_TAG_FIELD,
    LEAT_TAG_PIPELINE,
    LEAT_TAG_VIEW,
    /* 26 to 35, 43 and 44: how protocol 1 said what ACCESS says. */
    LEAT_TAG_CACHE_DIR = 36,
    LEAT_TAG_CACHE,
    LEAT_TAG_NOTICE,        /* what the user should know of the loader that was opened */
    LEAT_TAG_METRICS,       /* where the agent was told to serve its metrics */
    LEAT_TAG_BORN,          /* when the rank made the loader (its monotonic clock): the same loader after a jump */
    LEAT_TAG_WATCHES,       /* in HELLO: this connection only looks on, and does not keep the agent */
    LEAT_TAG_LAST,          /* nanoseconds: how far back */
    LEAT_TAG_ACCESS = 45,   /* bytes: how to reach the stores that are needed, store/access.h */
    LEAT_TAG_PLACE,         /* one of those that it is about, as its text */
    LEAT_TAG_LACKS,         /* a group with a URL, once for each store that the request had no access to */
    LEAT_TAG_SETTING = 100, /* and above: a loader's settings, by their own numbers (ring/settings.h) */
    LEAT_TAG_END = 200      /* tags from here on are of later versions */
};

/* Writing: begin, fields, then look at the buffer's `failed` once. */
void leat_message_begin(struct leat_buf *b, enum leat_message_kind kind);
void leat_message_number(struct leat_buf *b, uint32_t tag, uint64_t value);
/* A number that a reader may skip when it does not know the tag. */
void leat_message_aside(struct leat_buf *b, uint32_t tag, uint64_t value);
void leat_message_text(struct leat_buf *b, uint32_t tag, const char *text); /* NULL: no field */
void leat_message_numbers(struct leat_buf *b, uint32_t tag, const uint32_t *values, size_t n);
void leat_message_bytes(struct leat_buf *b, uint32_t tag, const void *data, size_t n); /* NULL: no field */
size_t leat_message_group(struct leat_buf *b, uint32_t tag);   /* fields that follow are in it … */
void leat_message_group_end(struct leat_buf *b, size_t group); /* … until here */

/* Reading. A part of a message: all of it, or a group. Everything was checked when it was opened. */
struct leat_part {
    const uint8_t *data;
    size_t size;
};

/* Checks a whole message. LEAT_INVALID: not a message; LEAT_VERSION: it needs something unknown. */
leat_status leat_message_open(const void *data, size_t n, enum leat_message_kind *kind, struct leat_part *out,
                              struct leat_error *err);

bool leat_part_has(struct leat_part p, uint32_t tag);
uint64_t leat_part_number(struct leat_part p, uint32_t tag, uint64_t otherwise);
const char *leat_part_text(struct leat_part p, uint32_t tag);                           /* NULL: not said */
size_t leat_part_numbers(struct leat_part p, uint32_t tag, uint32_t *out, size_t most); /* how many there are */
const void *leat_part_bytes(struct leat_part p, uint32_t tag, size_t *n);               /* NULL: not said */

/* Group number i (from 0) of a tag; false when there is none. */
bool leat_part_group(struct leat_part p, uint32_t tag, size_t i, struct leat_part *out);

#endif
