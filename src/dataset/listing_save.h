/* Parts of a listing, kept as small objects where the dataset will be (leat/partial/…): so that a listing that
 * was killed goes on, and so that several machines can list a bucket together. They are gone when the dataset is there.
 *
 *   leat/partial/ID-saved-00000003      what one run has listed so far
 *   leat/partial/ID-part-0002-of-0008   what one machine has listed
 *
 * ID is the beginning of a digest of the places that are listed. */
#ifndef LEAT_DATASET_LISTING_SAVE_H
#define LEAT_DATASET_LISTING_SAVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "dataset/listing.h"

#define LEAT_PARTIAL       "leat/partial/"
#define LEAT_LISTING_PARTS 4096u
#define LEAT_SAVED_PAGES   100000u
#define LEAT_SAVED_MAX     ((size_t)4 << 30) /* bytes of one object */
#define LEAT_SAVED_PLACES  1000u

/* Some objects of one home. */
struct leat_saved_page {
    uint32_t home;
    uint64_t first; /* of the listing … */
    uint64_t end;   /* … to here */
    uint64_t hidden;
    const char *after; /* "": not known */
};

struct leat_saved_head {
    uint32_t part;  /* of this many … */
    uint32_t parts; /* … 0: of one run */
};

/* Bytes of n pages, and back. Reading adds the objects to lists[home], which have begun; after[home] (the caller frees
 * it) becomes the last page's. */
leat_status leat_saved_write(const struct leat_listing *l, const struct leat_saved_head *head,
                             const struct leat_saved_page *pages, uint32_t n, struct leat_buf *out,
                             struct leat_error *err);

struct leat_saved {
    struct leat_saved_head head; /* of the last one read */
    uint32_t homes_n;
    char **urls;
    struct leat_listing *lists; /* by home, without homes of their own */
    char **after;
    uint32_t objects; /* that were read */
    int64_t newest_s; /* when the last of them was written, since 1970 */
    int64_t oldest_s; /* … and the first */
    uint32_t oldest_part;
    bool *parts; /* which are there, LEAT_LISTING_PARTS of them */
};
leat_status leat_saved_read(const void *data, size_t n, struct leat_saved *s, struct leat_error *err);
void leat_saved_close(struct leat_saved *s); /* zeroed ones are allowed */

/* What lies beside a dataset: of one run (parts false), or parts. homes: only what was listed of these places; NULL: of
 * any, as long as there is only one such list. Without any, out->objects is 0. */
leat_status leat_saved_load(const struct leat_home *to, const struct leat_home *homes, uint32_t n, bool parts,
                            struct leat_saved *out, struct leat_error *err);

leat_status leat_saved_put(const struct leat_home *to, const struct leat_listing *l, const struct leat_saved_head *head,
                           const struct leat_saved_page *pages, uint32_t n, uint32_t number, struct leat_error *err);

/* Removes what was kept of these places. */
leat_status leat_saved_forget(const struct leat_home *to, const struct leat_home *homes, uint32_t n, bool parts,
                              struct leat_error *err);

#endif
