/* Where a dataset is, or will be: a place in a store, and which of the versions there is meant.
 *
 * Any dataset's address may end with ?id=HEX (a content id, or at least the first 8 digits of it) or ?name=NAME;
 * without them the current version is meant. Any other '?' is part of a path or key, and refused in the address of a
 * web server. */
#ifndef LEAT_DATASET_HOME_H
#define LEAT_DATASET_HOME_H

#include <stdint.h>

#include "base/error.h"
#include "dataset/names.h"
#include "store/store.h"

struct leat_home {
    struct leat_store *store;
    char *prefix; /* "" or ends with '/' */
    char *url;    /* as it was given, without ?id= and ?name=: for messages */
    char *id;     /* what ?id= says: 8 to 64 lower-case hexadecimal digits; or NULL */
    char *name;   /* what ?name= says, or NULL */
};

leat_status leat_home_open(const char *url, const struct leat_store_opts *opts, struct leat_home *out,
                           struct leat_error *err);
void leat_home_close(struct leat_home *h);                        /* zeroed ones are allowed */
char *leat_home_key(const struct leat_home *h, const char *name); /* the caller frees it; NULL without memory */

/* LEAT_INVALID when the address says ?id= or ?name=: for places that are written to. */
leat_status leat_home_check_plain(const struct leat_home *h, struct leat_error *err);

/* Which version is meant. id, where it is not NULL, is a content id; one that does not begin as ?id= says is
 * LEAT_INVALID, and ?name= does not matter then (a name may have moved on since it was looked up). NULL: what the
 * address says, else the current one. LEAT_NOT_FOUND, with words about what is there instead, when there is no such
 * version or dataset; LEAT_INVALID when the beginning of an id fits several. */
leat_status leat_home_resolve(const struct leat_home *h, const uint8_t *id, struct leat_pointer *out,
                              struct leat_error *err);

/* One pointer: LEAT_NAME_POINTER or what the functions of names.h give. LEAT_NOT_FOUND when it is not there.
 * One that cannot be read is read once more, here and above. */
leat_status leat_home_pointer(const struct leat_home *h, const char *object, struct leat_pointer *out,
                              struct leat_error *err);

/* The objects in LEAT_NAME_VERSIONS or LEAT_NAME_NAMES, sorted by their names below it. A missing folder is an empty
 * one. An error of the visitor ends the walk and is returned, LEAT_NOT_FOUND too. */
typedef leat_status leat_home_visit(void *user, const char *name, const struct leat_list_entry *entry,
                                    struct leat_error *err);
leat_status leat_home_each(const struct leat_home *h, const char *folder, leat_home_visit *visit, void *user,
                           struct leat_error *err);

leat_status leat_home_put(const struct leat_home *h, const char *name, const void *data, size_t n,
                          struct leat_error *err);

#endif
