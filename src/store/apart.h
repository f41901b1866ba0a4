/* Stores that are reached in a way of their own: the sections [store s3://bucket] of Leat's config file. What is said
 * for all buckets (options, variables, lines before the first section) does not count for these. */
#ifndef LEAT_STORE_APART_H
#define LEAT_STORE_APART_H

#include "store/store.h"

#define LEAT_APART_MAX 48u /* sections */

struct leat_apart;

/* Reads the config file of this process's environment. None, or one without such sections, is an empty list. */
leat_status leat_apart_read(struct leat_apart **out, struct leat_error *err);
void leat_apart_free(struct leat_apart *apart); /* NULL is allowed */

/* The names of the sections, "s3://bucket", "az://account". */
size_t leat_apart_count(const struct leat_apart *apart);
const char *leat_apart_name(const struct leat_apart *apart, size_t i);

/* Whether a section's name, or an entry's of access.h, is that of the store at `url`, or of an account that it is in.
 * Returns the length of the name, 0: it is not. */
size_t leat_apart_fits(const char *name, const struct leat_url *url);

bool leat_apart_has(const struct leat_apart *apart, const struct leat_url *url);

/* The options for a store: its section's where it has one, else as they are. Borrows from both. LEAT_INVALID: something
 * was said for this run that the section's store cannot honour. */
leat_status leat_apart_opts(const struct leat_apart *apart, const struct leat_url *url,
                            const struct leat_store_opts *opts, struct leat_store_opts *out, struct leat_error *err);

#endif
