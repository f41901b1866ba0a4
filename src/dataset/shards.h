/* The objects that people mean when they name shards: addresses of objects, with {000000..004095} and {a,b} for many,
 * prefixes (everything below with the right ending, sorted), and @FILE for a list of any of these, one a line.
 * The order is that of the addresses. */
#ifndef LEAT_DATASET_SHARDS_H
#define LEAT_DATASET_SHARDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/home.h"
#include "store/store.h"

#define LEAT_SHARDS_MAX 4000000u

struct leat_shard {
    const struct leat_home *home; /* of its store; its prefix means nothing */
    char *key;                    /* in the store, whole */
    const char *name;             /* in the key: below the prefix that was given, or the last part */
    uint64_t size;
    char *etag; /* "": the store has none */
};

struct leat_shards {
    struct leat_shard *list;
    uint32_t n;
    uint64_t bytes;
    uint64_t requests; /* for finding them */
    uint64_t skipped;  /* objects below the prefixes with other endings */
    struct leat_home **homes;
    uint32_t homes_n;
    uint32_t cap;
};

struct leat_shards_opts {
    const struct leat_store_opts *store; /* NULL: defaults */
    const char *what;                    /* "tar shard": for messages */
    const char *const *endings;          /* up to a NULL: ".tar" */
    /* Whether an object with this name must not be passed over although its ending is another: says why in err. NULL:
     * none. */
    leat_status (*refuse)(const char *name, struct leat_error *err);
    bool (*stop)(void *user); /* asked now and then; may be NULL */
    void *stop_user;
};

/* LEAT_NOT_FOUND for what is not there and for prefixes without a shard, LEAT_INVALID for an object named twice. */
leat_status leat_shards_open(const char *const *urls, size_t n, const struct leat_shards_opts *opts,
                             struct leat_shards *out, struct leat_error *err);
void leat_shards_close(struct leat_shards *s); /* zeroed ones are allowed */

/* What lies beside shards and has another ending: `a.idx` for `a.bin`. One for each of `s`, whose stores they borrow;
 * those that there are not have no key. */
leat_status leat_shards_beside(const struct leat_shards *s, const char *ending, const char *other,
                               const struct leat_shards_opts *opts, struct leat_shards *out, struct leat_error *err);

/* The addresses that one with braces stands for, in order; braces that say neither "A..B" nor "a,b" stay as they are.
 */
typedef leat_status leat_braces_visit(void *user, const char *url, struct leat_error *err);
leat_status leat_braces_each(const char *url, leat_braces_visit *visit, void *user, struct leat_error *err);

#endif
