/* What a cache is worth, as a picture: bytes from the bucket in the second and later epochs over the size of the cache,
 * one line a policy, and beside them what arithmetic says. SVG without scripts or anything fetched. */
#ifndef LEAT_SIM_PICTURE_H
#define LEAT_SIM_PICTURE_H

#include <stddef.h>

#include "base/buf.h"

struct leat_sim_point {
    double cache;  /* of all nodes, as a share of the dataset */
    double bucket; /* bytes from the bucket an epoch, as a share of the dataset */
};

struct leat_sim_curve {
    const char *name;
    const struct leat_sim_point *points; /* from the smallest cache to the largest */
    size_t n;
};

struct leat_sim_picture {
    const char *title;
    const char *subtitle;
    const char *cache; /* what grows from left to right: "memory of all nodes" */
    const struct leat_sim_curve *curves;
    size_t n;
};

void leat_sim_picture(const struct leat_sim_picture *picture, struct leat_buf *out);

/* The share of uses that a cache of the share c of the dataset can serve when every epoch has a new random order and
 * what is kept is what comes again soonest: the next use lies between 0 and 2 epochs away, by a triangular density f,
 * and a chunk kept over an interval of length L takes a share L of the time. So intervals up to the l with
 * ∫ L·f(L) dL = c over 0 … l are kept, and their share is ∫ f(L) dL. Nothing that fits into c serves more. */
double leat_sim_bound(double c);

#endif
