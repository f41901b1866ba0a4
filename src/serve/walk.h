/* Going into folders by path without ever following a symbolic link, so that no path leads out of its base. */
#ifndef LEAT_SERVE_WALK_H
#define LEAT_SERVE_WALK_H

#include <stdbool.h>

/* A folder handle for path lookups (O_PATH), or -errno. path: "a/b" or "a/b/" relative to base, "" for base itself;
 * `make` creates what is missing. End it with leat_serve_walk_end: it may be base. */
int leat_serve_walk(int base, const char *path, bool make);
void leat_serve_walk_end(int base, int fd);

/* The folder that holds the path's last component, which *leaf then points to. */
int leat_serve_walk_parent(int base, const char *path, bool make, const char **leaf);

/* Removes the folders of the path of a file that is gone, upwards while they are empty. Returns the length of
 * what is left of the path: "a/b/c" with b and a removed is 0, with b alone 2 ("a/"). */
unsigned long leat_serve_walk_prune(int base, const char *path);

#endif
