/* Access: what a process has found out about reaching stores (endpoint, keys, headers, certificates), as bytes that
 * another process can use. A rank resolves it, its agent opens stores with it; those who carry it know nothing of what
 * is in it. One entry for each place: a part of the world that is reached in one way, "s3://", "az://account". A store
 * that has a section of its own in the rank's config file (apart.h) is a place by itself, "s3://bucket". The list names
 * all of these, so that the agent takes none of them for a part of "s3://", also those that nobody has resolved yet. */
#ifndef LEAT_STORE_ACCESS_H
#define LEAT_STORE_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/url.h"

struct leat_aws;
struct leat_store_opts;

#define LEAT_ACCESS_MAX   64u         /* places */
#define LEAT_ACCESS_BYTES (56u << 10) /* of all together: what a message to an agent has room for */
#define LEAT_ACCESS_PLACE 320

/* A list of entries in the order of their places. One thread at a time. */
struct leat_access;

leat_status leat_access_new(struct leat_access **out, struct leat_error *err); /* an empty one */
/* One that knows the stores apart of this process's config file. */
leat_status leat_access_begin(struct leat_access **out, struct leat_error *err);
void leat_access_free(struct leat_access *access); /* wipes it; NULL is allowed */

/* The place that a store is in: by itself, where the list says so. */
void leat_access_place(const struct leat_access *access, const struct leat_url *url, char out[LEAT_ACCESS_PLACE]);

/* Resolves what `opts` say and this process's environment has for the store at `url`, for its whole place: as
 * leat_store_open() would. Replaces what was known of the place. May wait for a service, for seconds. `fresh`: keys
 * that this process has kept for a moment are no longer good. */
leat_status leat_access_resolve(struct leat_access *access, const struct leat_url *url,
                                const struct leat_store_opts *opts, bool fresh, struct leat_error *err);

/* Appends the bytes, and makes of them what they were made of. LEAT_VERSION: there is something in them that must not
 * be ignored and is not known here; LEAT_INVALID: they are damaged. Errors show nothing of them. */
void leat_access_write(const struct leat_access *access, struct leat_buf *out);
leat_status leat_access_read(const void *data, size_t n, struct leat_access **out, struct leat_error *err);

/* A copy of all of it, or of the entry for one store, which may be missing. */
leat_status leat_access_copy(const struct leat_access *access, struct leat_access **out, struct leat_error *err);
leat_status leat_access_add(struct leat_access *access, const struct leat_access *from, const struct leat_url *url,
                            struct leat_error *err);

bool leat_access_has(const struct leat_access *access, const struct leat_url *url);

/* Entries by number. */
size_t leat_access_count(const struct leat_access *access);
const char *leat_access_name(const struct leat_access *access, size_t i); /* its place */
const char *leat_access_from(const struct leat_access *access, size_t i); /* who gave its keys; "": there are none */
const char *leat_access_endpoint(const struct leat_access *access, size_t i); /* NULL: the provider's own */
/* … that the store at `url` is reached through; NULL: the provider's own, or nothing is known of the store. */
const char *leat_access_endpoint_of(const struct leat_access *access, const struct leat_url *url);
uint64_t leat_access_expires(const struct leat_access *access, size_t i); /* since 1970, in seconds; 0: not known */

/* Whether what is late may be asked for a second time, as far as these settings say: nowhere is it turned off. */
bool leat_access_may_hedge(const struct leat_access *access);

enum leat_access_renewal { LEAT_ACCESS_NONE, LEAT_ACCESS_SAME, LEAT_ACCESS_OTHERS };

/* Takes the keys of entry i over from another list; nothing else, since where a store is was settled when it was
 * opened. Says whether there were any, and others than before. Without memory it has none. */
enum leat_access_renewal leat_access_renew(struct leat_access *access, size_t i, const struct leat_access *from);

/* Whether all of its keys are among `from`'s. */
bool leat_access_covered(const struct leat_access *access, const struct leat_access *from);

/* A digest of the places and everything about them but the keys. False: no memory. */
bool leat_access_digest(const struct leat_access *access, uint8_t out[LEAT_SHA256_SIZE]);

/* Inside src/store: a copy of what is known of a store, which the caller frees. LEAT_DENIED: nothing is. `place`: the
 * one that it must be in; NULL: any. */
leat_status leat_access_take(const struct leat_access *access, const struct leat_url *url, const char *place,
                             struct leat_aws *out, struct leat_error *err);

#endif
