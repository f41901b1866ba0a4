/* MixUp and CutMix: what is drawn for a batch, as torchvision's transforms v2 draw it. Each picture is mixed with the
 * one before it in the batch, the first with the last; the caller mixes. Every struct begins with its size, as in
 * leat/loader.h. */
#ifndef LEAT_MIX_H
#define LEAT_MIX_H

#include <stddef.h>
#include <stdint.h>

#include "leat/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct leat_mix {
    size_t size;
    double mixup;  /* alpha of the Beta distribution; 0: never */
    double cutmix; /* the same; if both are above 0, each happens half the time */
    double p;      /* probability that a batch is mixed */
    uint64_t seed;
};

struct leat_mixed {
    size_t size;
    double share;    /* share of the picture itself; the rest is its partner's. 1: nothing is mixed */
    uint32_t cut;    /* 1: the partner's pixels fill the box; 0: all pixels are blended */
    uint32_t box[4]; /* left, top, right, bottom */
};

/* The draw for the batch of an epoch that begins with sample number `first`: the same on every thread and rank. Drawn
 * in this order: whether, which, the share, then x and y of a box's middle. */
LEAT_API leat_status leat_mix_draw(const struct leat_mix *mix, uint64_t epoch, uint64_t first, uint32_t width,
                                   uint32_t height, struct leat_mixed *out, struct leat_error *err);

#ifdef __cplusplus
}
#endif
#endif
