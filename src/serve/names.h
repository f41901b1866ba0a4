/* A sorted list of names: keys of a bucket, or what is in one of its folders. Not thread-safe. */
#ifndef LEAT_SERVE_NAMES_H
#define LEAT_SERVE_NAMES_H

#include <stdint.h>

#include "serve/key.h"

struct leat_serve_name {
    uint32_t at; /* in text */
    uint32_t n;
};

/* Zeroed: empty. A folder's name ends with '/', which is where it stands among keys. */
struct leat_serve_names {
    char *text;
    size_t text_n;
    size_t text_cap;
    struct leat_serve_name *entry;
    size_t n;
    size_t cap;
};

int leat_serve_compare(struct leat_serve_key a, struct leat_serve_key b); /* by bytes */

void leat_serve_names_free(struct leat_serve_names *s); /* back to empty */
size_t leat_serve_names_bytes(const struct leat_serve_names *s);

/* False when memory runs out. `append` goes after all others: sort afterwards. `insert` keeps the order and does
 * nothing where the name is there already. */
bool leat_serve_names_append(struct leat_serve_names *s, const char *name, size_t n, bool folder);
bool leat_serve_names_insert(struct leat_serve_names *s, const char *name, size_t n);
void leat_serve_names_sort(struct leat_serve_names *s);
void leat_serve_names_erase(struct leat_serve_names *s, const char *name, size_t n);

/* The first entry that is not less than the name; and whether entry i is it. */
size_t leat_serve_names_find(const struct leat_serve_names *s, const char *name, size_t n);
bool leat_serve_names_is(const struct leat_serve_names *s, size_t i, const char *name, size_t n);

#endif
