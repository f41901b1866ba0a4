/* What a page of a listing has to pass before any of its entries is used. A key outside the prefix would be deleted,
 * copied or read in the place of what was asked for, and a server that lists in a circle would never come to an end.
 * One thread at a time. */
#ifndef LEAT_STORE_LIST_CHECK_H
#define LEAT_STORE_LIST_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "store/s3_xml.h"

/* How servers sort: S3 and Google by the bytes of keys; servers that keep keys in folders by the names on the path, so
 * that 'a/b' comes before 'a.b' (SeaweedFS). */
enum leat_list_order { LEAT_LIST_BY_BYTES, LEAT_LIST_BY_PATH, LEAT_LIST_ORDERS };

/* One element of a sequence, kept for twice as many elements each time: however long a circle is, one day it fits in.
 */
struct leat_circle {
    uint64_t kept; /* its hash */
    uint64_t at;   /* its number in the sequence */
    uint64_t n;    /* elements so far */
};

struct leat_list_check {
    const char *prefix; /* borrowed: every key begins with it … */
    size_t prefix_n;    /* … as far as this */
    bool ordered;       /* keys increase from page to page … */
    bool versions;      /* … or stay, with several versions of an object */
    bool begun;         /* there was an entry */
    struct {
        bool broken;          /* some page was not in this order */
        struct leat_buf last; /* the greatest key so far */
    } orders[LEAT_LIST_ORDERS];
    struct leat_circle tokens;
    struct leat_circle entries;
    uint64_t page;    /* number of this page … */
    uint64_t kept_in; /* … and of the one with the entry that `entries` keeps */
    uint32_t barren;  /* pages without an entry, one after the other */
};

void leat_list_check_init(struct leat_list_check *c, const char *prefix, size_t prefix_n, bool ordered, bool versions);
void leat_list_check_free(struct leat_list_check *c); /* zeroed ones are allowed */

/* Accepts the entries of `page` from `first` on, those that the server has just sent, sorted by their bytes where keys
 * are ordered. token: of the page that follows, NULL when this is the last. A folder whose contents are spread over two
 * pages may be shown by both. LEAT_SERVER: a key that was not asked for, one that comes again or too late, a token that
 * comes again, or a great many pages that hold nothing. */
leat_status leat_list_check_page(struct leat_list_check *c, struct leat_s3_page *page, size_t first, const char *token,
                                 struct leat_error *err);

#endif
