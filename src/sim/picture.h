/* What a cache is worth, as a picture: bytes from the bucket in the second and later epochs over the size of the cache,
 * one line a policy, and beside them the least there can be. SVG without scripts or anything fetched.
 *
 * The least: a job reads every chunk once an epoch, so whatever is read from the cache in one epoch was in it when the
 * epoch began. No policy serves more than the cache holds, and dataset − cache comes from the bucket. */
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

void leat_sim_picture(const struct leat_sim_picture *p, struct leat_buf *b);

#endif
