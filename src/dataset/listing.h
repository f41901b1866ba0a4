/* What lies in one or more folders of any stores: every object with its length and ETag, without reading any.
 *
 * Folders of the first level are listed at the same time, which is what makes the listing of a bucket fast: each
 * list is a chain of requests that wait for each other. Memory: key, ETag and 18 bytes for each object. */
#ifndef LEAT_DATASET_LISTING_H
#define LEAT_DATASET_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "dataset/home.h"

struct leat_listing;

/* What an earlier run has listed of a home: all that lies there up to and with the key `after`. */
struct leat_listing_known {
    struct leat_listing *list;
    const char *after; /* NULL: nothing is known */
};

struct leat_listing_opts {
    unsigned threads;           /* lists at a time; 0: 16 */
    const struct leat_home *to; /* a dataset's place, whose own objects are not data; NULL: none */
    uint32_t part;              /* only what belongs to part 0 … parts - 1, which the names decide … */
    uint32_t parts;             /* … of this many; 0: everything */
    bool (*stop)(void *user);   /* asked now and then, from any thread; may be NULL */
    void *stop_user;
    _Atomic uint64_t *seen; /* counts the objects, for progress; may be NULL */

    const struct leat_listing_known *known; /* by home; NULL: nothing. Their lists are emptied on the way */
    /* Called when this long has passed, and once more at the end if it was called before: objects from `first` on are
     * new since the last call, and everything up to `after` is in the list. One call at a time, from any thread. NULL:
     * nobody wants to know. An error ends the listing. */
    leat_status (*keep)(void *user, const struct leat_listing *l, uint32_t home, uint64_t first, uint64_t hidden,
                        const char *after, struct leat_error *err);
    void *keep_user;
    uint64_t keep_every_ns;
};

struct leat_listing {
    uint64_t n;
    uint64_t bytes;
    uint64_t hidden;   /* objects left out because a part of their path begins with '.' */
    uint64_t requests; /* of all stores together */
    const struct leat_home *homes;
    uint32_t homes_n;
    uint64_t *home_ends;  /* objects of home h end here: they are together, sorted by the bytes of their keys */
    uint64_t *at;         /* of each one's key in the text */
    uint64_t *sizes;      /* of each one */
    struct leat_buf text; /* key, NUL, ETag, NUL, one after the other */
    uint64_t cap;
};

/* The homes are borrowed until close. LEAT_NOT_FOUND when there is nothing in one of them (unless parts are listed),
 * LEAT_INVALID when one lies in another or a dataset lies among the data, LEAT_CORRUPT for a key that is listed
 * twice. */
leat_status leat_listing_open(const struct leat_home *homes, uint32_t n, const struct leat_listing_opts *opts,
                              struct leat_listing *out, struct leat_error *err);
void leat_listing_close(struct leat_listing *l); /* zeroed ones are allowed */

/* For code that puts a listing together of what was listed elsewhere: zeroed, then begun with the homes, then objects
 * one by one, those of a home together; sorted and checked at the end. */
leat_status leat_listing_begin(struct leat_listing *l, const struct leat_home *homes, uint32_t n,
                               struct leat_error *err);
leat_status leat_listing_add(struct leat_listing *l, const char *key, uint64_t size, const char *etag,
                             struct leat_error *err);
leat_status leat_listing_append(struct leat_listing *to, const struct leat_listing *from, struct leat_error *err);
leat_status leat_listing_finish(struct leat_listing *l, struct leat_error *err);

const char *leat_listing_key(const struct leat_listing *l, uint64_t i);  /* in the store, whole */
const char *leat_listing_path(const struct leat_listing *l, uint64_t i); /* below its home */
const char *leat_listing_etag(const struct leat_listing *l, uint64_t i); /* with its quotes; "": none */
uint32_t leat_listing_home(const struct leat_listing *l, uint64_t i);

#endif
