/* MixUp and CutMix: what is drawn for a batch, as torchvision's transforms v2 draw it. Each picture is mixed with the
 * one before it in the batch, the first with the last. */
#ifndef LEAT_PREP_MIX_H
#define LEAT_PREP_MIX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/random.h"

struct leat_mix {
    double mixup;  /* alpha of the Beta distribution; 0: never */
    double cutmix; /* the same; where both may happen, each does half the time */
    double p;      /* that anything happens */
};

struct leat_mixed {
    double share;    /* of a picture itself; the rest is its partner's */
    bool cut;        /* the partner's pixels are those of the box; otherwise all are blended */
    uint32_t box[4]; /* left, top, right, bottom */
};

leat_status leat_mix_check(const struct leat_mix *mix, struct leat_error *err);

/* Of the batch of an epoch that begins with sample number `first`: whatever thread or rank makes it. */
struct leat_rng leat_mix_draws(uint64_t seed, uint64_t epoch, uint64_t first);

/* In order: whether, which, the share, then x and y of a box's middle. */
void leat_mix_draw(const struct leat_mix *mix, uint32_t width, uint32_t height, struct leat_rng draws,
                   struct leat_mixed *out);

#endif
