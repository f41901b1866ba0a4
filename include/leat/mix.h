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
    double cutmix; /* the same; where both may happen, each does half the time */
    double p;      /* that anything happens */
    uint64_t seed;
};

struct leat_mixed {
    size_t size;
    double share;    /* of a picture itself; the rest is its partner's. 1: nothing is mixed */
    uint32_t cut;    /* 1: the partner's pixels are those of the box; 0: all are blended */
    uint32_t box[4]; /* left, top, right, bottom */
};

/* For the batch of an epoch that begins with sample number `first`: the same whatever thread or rank asks. Drawn in
 * order: whether, which, the share, then x and y of a box's middle. */
LEAT_API leat_status leat_mix_draw(const struct leat_mix *mix, uint64_t epoch, uint64_t first, uint32_t width,
                                   uint32_t height, struct leat_mixed *out, struct leat_error *err);

#ifdef __cplusplus
}
#endif
#endif
