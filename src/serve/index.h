/* The keys of one bucket in byte order, for listings that go on page by page without reading folders again.
 *
 * A folder is read once, sorted and kept (the least recently used ones go when they take too much memory), and
 * read again when its modification time says so: at every page that begins a listing, and at pages that go on
 * with one too unless the folder is large, where a listing of up to a second of age is taken. Changes made
 * through the server are entered at once.
 *
 * Not thread-safe: hold the bucket's lock. */
#ifndef LEAT_SERVE_INDEX_H
#define LEAT_SERVE_INDEX_H

#include <stdbool.h>

#include "base/error.h"
#include "serve/key.h"

struct leat_serve_index;

/* bucket_fd is borrowed and must stay open. NULL when memory runs out. */
struct leat_serve_index *leat_serve_index_open(int bucket_fd);
void leat_serve_index_close(struct leat_serve_index *ix); /* NULL is allowed */

/* An object appeared or went, as a path (escaped: in the reserved folder). A removed folder's path ends with '/'. */
void leat_serve_index_added(struct leat_serve_index *ix, const char *path, bool escaped);
void leat_serve_index_removed(struct leat_serve_index *ix, const char *path, bool escaped);

/* Begins a page. `fresh`: the first one of a listing. A folder whose path is longer than `folders_from` bytes comes as
 * one key, its path with a '/' after it, instead of all that is in it; SIZE_MAX: none does. */
void leat_serve_index_begin(struct leat_serve_index *ix, bool fresh, size_t folders_from);

/* Goes to the first key that is not less than `at`. */
leat_status leat_serve_index_seek(struct leat_serve_index *ix, struct leat_serve_key at, struct leat_error *err);

/* The key there, and on to the next one; *more is false after the last. The key is valid until the next call. */
leat_status leat_serve_index_next(struct leat_serve_index *ix, struct leat_serve_key *key, bool *more,
                                  struct leat_error *err);

void leat_serve_index_end(struct leat_serve_index *ix); /* of a page: gives memory back */

#endif
