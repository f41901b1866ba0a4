/* Augmentations of pixels: described as effects with ranges and probabilities, drawn for a sample as operations with
 * fixed numbers. Pure arithmetic; canvas.h runs the operations. */
#ifndef LEAT_PREP_EFFECT_H
#define LEAT_PREP_EFFECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/random.h"

/* Part of what a draw depends on: new kinds go to the end. */
enum leat_effect_kind {
    LEAT_EFFECT_BRIGHTNESS,
    LEAT_EFFECT_CONTRAST,
    LEAT_EFFECT_SATURATION,
    LEAT_EFFECT_HUE,
    LEAT_EFFECT_GRAYSCALE,
    LEAT_EFFECT_SOLARIZE,
    LEAT_EFFECT_POSTERIZE,
    LEAT_EFFECT_INVERT,
    LEAT_EFFECT_EQUALIZE,
    LEAT_EFFECT_AUTOCONTRAST,
    LEAT_EFFECT_SHARPNESS,
    LEAT_EFFECT_GAUSSIAN_BLUR,
    LEAT_EFFECT_COLOR_JITTER,
    LEAT_EFFECT_ROTATE,
    LEAT_EFFECT_AFFINE,
    LEAT_EFFECT_PERSPECTIVE,
    LEAT_EFFECT_ERASE,
    LEAT_EFFECT_CUTOUT,
    LEAT_EFFECT_RAND_AUGMENT,
    LEAT_EFFECT_TRIVIAL_AUGMENT,
    LEAT_EFFECT_AUTO_AUGMENT,
    LEAT_EFFECT_AUGMIX,
    LEAT_EFFECT_THREE_AUGMENT,
    LEAT_EFFECT_KIND_COUNT
};

enum leat_policy { LEAT_POLICY_IMAGENET, LEAT_POLICY_CIFAR10, LEAT_POLICY_SVHN, LEAT_POLICY_COUNT };

/* words.c says which of these an effect has, what they mean, their ranges and presets. */
struct leat_effect {
    enum leat_effect_kind kind;
    double p;            /* that it happens */
    double range[2];     /* a factor, an angle in degrees, a sigma: uniform between the two */
    double number;       /* a threshold, a size, a distortion, a count */
    double jitter[4];    /* brightness, contrast, saturation, hue */
    double scale[2];     /* erase: of the area; affine: of the size */
    double ratio[2];     /* erase: height / width */
    double translate[2]; /* of width and height */
    double shear[4];     /* degrees: x from … to, y from … to */
    double value[3];     /* colour of what is erased */
    double magnitude;
    double bins;
    double width; /* AugMix: chains */
    double depth; /* and their length; 0: 1 to 3, drawn */
    double alpha;
    int policy;
    int bilinear; /* 0: nearest */
};

#define LEAT_EFFECTS_MAX 16

struct leat_effects {
    struct leat_effect effect[LEAT_EFFECTS_MAX];
    unsigned count;
};

enum leat_op_kind {
    LEAT_OP_BRIGHTNESS, /* factor */
    LEAT_OP_CONTRAST,   /* factor */
    LEAT_OP_SATURATION, /* factor */
    LEAT_OP_HUE,        /* turns, -0.5 … 0.5 */
    LEAT_OP_GRAYSCALE,
    LEAT_OP_SOLARIZE,  /* threshold */
    LEAT_OP_POSTERIZE, /* bits */
    LEAT_OP_INVERT,
    LEAT_OP_EQUALIZE,
    LEAT_OP_AUTOCONTRAST,
    LEAT_OP_SHARPNESS,     /* factor */
    LEAT_OP_GAUSSIAN_BLUR, /* taps, sigma */
    LEAT_OP_AFFINE,        /* angle, x, y, scale, shear x, shear y, centre x, centre y from the middle */
    LEAT_OP_PERSPECTIVE,   /* eight coefficients, Pillow's */
    LEAT_OP_ERASE,         /* x, y, width, height, red, green, blue */
    LEAT_OP_MIX,           /* weight of the picture as it is; chains follow, and a MIXED ends them */
    LEAT_OP_CHAIN,         /* weight; operations of the chain follow */
    LEAT_OP_MIXED,
    LEAT_OP_KIND_COUNT
};

struct leat_op {
    enum leat_op_kind kind;
    bool bilinear;
    double v[8];
};

#define LEAT_OPS_MAX 128

struct leat_ops {
    struct leat_op op[LEAT_OPS_MAX];
    unsigned count;
};

/* Refuses values out of the ranges of words.c, and more operations than LEAT_OPS_MAX. */
leat_status leat_effects_check(const struct leat_effects *effects, struct leat_error *err);

/* The operations on a picture of width x height. Each effect draws from a stretch of its own of the sequence, chosen by
 * its kind and how many of that kind stand before it: what is drawn does not depend on other effects, so that a mask
 * with fewer of them follows its picture. */
void leat_effects_draw(const struct leat_effects *effects, uint32_t width, uint32_t height, struct leat_rng draws,
                       struct leat_ops *out);

/* The operations of RandAugment and its relatives; policy.c. */
void leat_policy_draw(const struct leat_effect *e, uint32_t width, uint32_t height, struct leat_rng *draws,
                      struct leat_ops *out);

struct leat_op *leat_ops_add(struct leat_ops *ops, enum leat_op_kind kind);

/* True for what moves pixels and does not change their colour: all that a mask can have. */
bool leat_effect_is_geometric(enum leat_effect_kind kind);

/* Where a pixel of the output comes from: out[0..5] for an affine operation on a picture of width x height, rows first,
 * both counted from the middle. */
void leat_op_matrix(const struct leat_op *op, double out[6]);

/* "affine 12.5 0 0 1 0 0 0 0 nearest", numbers as exact as text goes. */
void leat_op_print(const struct leat_op *op, char *out, size_t size);

#endif
