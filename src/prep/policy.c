#include <math.h>

#include "prep/deviate.h"
#include "prep/effect.h"

/* What RandAugment, TrivialAugment, AutoAugment and AugMix choose from. */
enum move {
    IDENTITY,
    SHEAR_X,
    SHEAR_Y,
    TRANSLATE_X,
    TRANSLATE_Y,
    ROTATE,
    BRIGHTNESS,
    COLOR,
    CONTRAST,
    SHARPNESS,
    POSTERIZE,
    SOLARIZE,
    AUTOCONTRAST,
    EQUALIZE,
    INVERT,
    MOVES
};

/* The strongest magnitudes of a family; 0 … that in even steps. */
struct space {
    float shear;
    double translate; /* pixels, or of the side where `relative` */
    bool relative;
    float rotate;
    float colour;
    float posterize_from; /* bits at magnitude 0 */
    float posterize_by;   /* and how many fewer at the strongest */
};

static const struct space standard = {0.3f, 150.0 / 331.0, true, 30.0f, 0.9f, 8.0f, 4.0f};
static const struct space wide = {0.99f, 32.0, false, 135.0f, 0.99f, 8.0f, 6.0f};
static const struct space augmix = {0.3f, 1.0 / 3.0, true, 30.0f, 0.9f, 4.0f, 4.0f};

/* Number `bin` of `bins` in even steps, rounded as torch.linspace rounds. */
static float even_steps(float from, float to, unsigned bins, unsigned bin)
{
    if (bins < 2)
        return from;
    float step = (to - from) / (float)(bins - 1);
    return bin < bins / 2 ? from + step * (float)bin : to - step * (float)(bins - 1 - bin);
}

static float strongest(const struct space *s, enum move move, uint32_t width, uint32_t height)
{
    switch (move) {
    case SHEAR_X:
    case SHEAR_Y:
        return s->shear;
    case TRANSLATE_X:
    case TRANSLATE_Y:
        return (float)(s->relative ? s->translate * (move == TRANSLATE_X ? width : height) : s->translate);
    case ROTATE:
        return s->rotate;
    default:
        return s->colour;
    }
}

static struct leat_op *add_affine(struct leat_ops *out, bool bilinear)
{
    struct leat_op *op = leat_ops_add(out, LEAT_OP_AFFINE);
    op->v[3] = 1.0;
    op->bilinear = bilinear;
    return op;
}

static double degrees_of(double slope)
{
    /* The angle whose tangent is the slope, by Newton's steps. */
    double angle = slope * 45.0;
    for (int i = 0; i < 6; i++) {
        double s;
        double c;
        leat_prep_sincos(angle, &s, &c);
        angle -= (s / c - slope) * c * c * (180.0 / 3.14159265358979323846);
    }
    return angle;
}

/* One move at one magnitude, as an operation. */
static void add_move(const struct space *s, enum move move, unsigned bins, unsigned bin, bool negative, uint32_t width,
                     uint32_t height, bool bilinear, struct leat_ops *out)
{
    static const enum leat_op_kind colours[] = {LEAT_OP_BRIGHTNESS, LEAT_OP_SATURATION, LEAT_OP_CONTRAST,
                                                LEAT_OP_SHARPNESS};
    double magnitude = even_steps(0.0f, strongest(s, move, width, height), bins, bin) * (negative ? -1.0f : 1.0f);
    struct leat_op *op;
    switch (move) {
    case IDENTITY:
        break;
    case SHEAR_X:
    case SHEAR_Y:
        op = add_affine(out, bilinear);
        op->v[move == SHEAR_X ? 4 : 5] = degrees_of(magnitude);
        op->v[6] = -0.5 * width; /* around the corner at the top left */
        op->v[7] = -0.5 * height;
        break;
    case TRANSLATE_X:
    case TRANSLATE_Y:
        add_affine(out, bilinear)->v[move == TRANSLATE_X ? 1 : 2] = trunc(magnitude);
        break;
    case ROTATE:
        add_affine(out, bilinear)->v[0] = -magnitude;
        break;
    case POSTERIZE:
        leat_ops_add(out, LEAT_OP_POSTERIZE)->v[0] =
            rintf(s->posterize_from - (float)bin / ((float)(bins - 1) / s->posterize_by));
        break;
    case SOLARIZE:
        leat_ops_add(out, LEAT_OP_SOLARIZE)->v[0] = 255.0 * even_steps(1.0f, 0.0f, bins, bin);
        break;
    case AUTOCONTRAST:
        leat_ops_add(out, LEAT_OP_AUTOCONTRAST);
        break;
    case EQUALIZE:
        leat_ops_add(out, LEAT_OP_EQUALIZE);
        break;
    case INVERT:
        leat_ops_add(out, LEAT_OP_INVERT);
        break;
    default:
        leat_ops_add(out, colours[move - BRIGHTNESS])->v[0] = 1.0 + magnitude;
        break;
    }
}

static bool half(struct leat_rng *r)
{
    return leat_rng_unit(r) < 0.5;
}

/* Each: which, then its sign. */
static void rand_augment(const struct leat_effect *e, uint32_t width, uint32_t height, struct leat_rng *r,
                         struct leat_ops *out)
{
    for (unsigned i = 0; i < (unsigned)e->number; i++) {
        enum move move = (enum move)leat_rng_below(r, INVERT);
        bool negative = half(r);
        add_move(&standard, move, (unsigned)e->bins, (unsigned)e->magnitude, negative, width, height, e->bilinear, out);
    }
}

/* Which, how much, its sign. */
static void trivial_augment(const struct leat_effect *e, uint32_t width, uint32_t height, struct leat_rng *r,
                            struct leat_ops *out)
{
    enum move move = (enum move)leat_rng_below(r, INVERT);
    unsigned bin = (unsigned)leat_rng_below(r, (uint64_t)e->number);
    bool negative = half(r);
    add_move(&wide, move, (unsigned)e->number, bin, negative, width, height, e->bilinear, out);
}

struct sub_policy {
    struct {
        uint8_t move;
        uint8_t tenths; /* probability */
        uint8_t bin;
    } part[2];
};

#define POLICY_SIZE 25

static const struct sub_policy policies[LEAT_POLICY_COUNT][POLICY_SIZE] = {
    [LEAT_POLICY_IMAGENET] =
        {
            {{{POSTERIZE, 4, 8}, {ROTATE, 6, 9}}},  {{{SOLARIZE, 6, 5}, {AUTOCONTRAST, 6, 0}}},
            {{{EQUALIZE, 8, 0}, {EQUALIZE, 6, 0}}}, {{{POSTERIZE, 6, 7}, {POSTERIZE, 6, 6}}},
            {{{EQUALIZE, 4, 0}, {SOLARIZE, 2, 4}}}, {{{EQUALIZE, 4, 0}, {ROTATE, 8, 8}}},
            {{{SOLARIZE, 6, 3}, {EQUALIZE, 6, 0}}}, {{{POSTERIZE, 8, 5}, {EQUALIZE, 10, 0}}},
            {{{ROTATE, 2, 3}, {SOLARIZE, 6, 8}}},   {{{EQUALIZE, 6, 0}, {POSTERIZE, 4, 6}}},
            {{{ROTATE, 8, 8}, {COLOR, 4, 0}}},      {{{ROTATE, 4, 9}, {EQUALIZE, 6, 0}}},
            {{{EQUALIZE, 0, 0}, {EQUALIZE, 8, 0}}}, {{{INVERT, 6, 0}, {EQUALIZE, 10, 0}}},
            {{{COLOR, 6, 4}, {CONTRAST, 10, 8}}},   {{{ROTATE, 8, 8}, {COLOR, 10, 2}}},
            {{{COLOR, 8, 8}, {SOLARIZE, 8, 7}}},    {{{SHARPNESS, 4, 7}, {INVERT, 6, 0}}},
            {{{SHEAR_X, 6, 5}, {EQUALIZE, 10, 0}}}, {{{COLOR, 4, 0}, {EQUALIZE, 6, 0}}},
            {{{EQUALIZE, 4, 0}, {SOLARIZE, 2, 4}}}, {{{SOLARIZE, 6, 5}, {AUTOCONTRAST, 6, 0}}},
            {{{INVERT, 6, 0}, {EQUALIZE, 10, 0}}},  {{{COLOR, 6, 4}, {CONTRAST, 10, 8}}},
            {{{EQUALIZE, 8, 0}, {EQUALIZE, 6, 0}}},
        },
    [LEAT_POLICY_CIFAR10] =
        {
            {{{INVERT, 1, 0}, {CONTRAST, 2, 6}}},          {{{ROTATE, 7, 2}, {TRANSLATE_X, 3, 9}}},
            {{{SHARPNESS, 8, 1}, {SHARPNESS, 9, 3}}},      {{{SHEAR_Y, 5, 8}, {TRANSLATE_Y, 7, 9}}},
            {{{AUTOCONTRAST, 5, 0}, {EQUALIZE, 9, 0}}},    {{{SHEAR_Y, 2, 7}, {POSTERIZE, 3, 7}}},
            {{{COLOR, 4, 3}, {BRIGHTNESS, 6, 7}}},         {{{SHARPNESS, 3, 9}, {BRIGHTNESS, 7, 9}}},
            {{{EQUALIZE, 6, 0}, {EQUALIZE, 5, 0}}},        {{{CONTRAST, 6, 7}, {SHARPNESS, 6, 5}}},
            {{{COLOR, 7, 7}, {TRANSLATE_X, 5, 8}}},        {{{EQUALIZE, 3, 0}, {AUTOCONTRAST, 4, 0}}},
            {{{TRANSLATE_Y, 4, 3}, {SHARPNESS, 2, 6}}},    {{{BRIGHTNESS, 9, 6}, {COLOR, 2, 8}}},
            {{{SOLARIZE, 5, 2}, {INVERT, 0, 0}}},          {{{EQUALIZE, 2, 0}, {AUTOCONTRAST, 6, 0}}},
            {{{EQUALIZE, 2, 0}, {EQUALIZE, 6, 0}}},        {{{COLOR, 9, 9}, {EQUALIZE, 6, 0}}},
            {{{AUTOCONTRAST, 8, 0}, {SOLARIZE, 2, 8}}},    {{{BRIGHTNESS, 1, 3}, {COLOR, 7, 0}}},
            {{{SOLARIZE, 4, 5}, {AUTOCONTRAST, 9, 0}}},    {{{TRANSLATE_Y, 9, 9}, {TRANSLATE_Y, 7, 9}}},
            {{{AUTOCONTRAST, 9, 0}, {SOLARIZE, 8, 3}}},    {{{EQUALIZE, 8, 0}, {INVERT, 1, 0}}},
            {{{TRANSLATE_Y, 7, 9}, {AUTOCONTRAST, 9, 0}}},
        },
    [LEAT_POLICY_SVHN] =
        {
            {{{SHEAR_X, 9, 4}, {INVERT, 2, 0}}},       {{{SHEAR_Y, 9, 8}, {INVERT, 7, 0}}},
            {{{EQUALIZE, 6, 0}, {SOLARIZE, 6, 6}}},    {{{INVERT, 9, 0}, {EQUALIZE, 6, 0}}},
            {{{EQUALIZE, 6, 0}, {ROTATE, 9, 3}}},      {{{SHEAR_X, 9, 4}, {AUTOCONTRAST, 8, 0}}},
            {{{SHEAR_Y, 9, 8}, {INVERT, 4, 0}}},       {{{SHEAR_Y, 9, 5}, {SOLARIZE, 2, 6}}},
            {{{INVERT, 9, 0}, {AUTOCONTRAST, 8, 0}}},  {{{EQUALIZE, 6, 0}, {ROTATE, 9, 3}}},
            {{{SHEAR_X, 9, 4}, {SOLARIZE, 3, 3}}},     {{{SHEAR_Y, 8, 8}, {INVERT, 7, 0}}},
            {{{EQUALIZE, 9, 0}, {TRANSLATE_Y, 6, 6}}}, {{{INVERT, 9, 0}, {EQUALIZE, 6, 0}}},
            {{{CONTRAST, 3, 3}, {ROTATE, 8, 4}}},      {{{INVERT, 8, 0}, {TRANSLATE_Y, 0, 2}}},
            {{{SHEAR_Y, 7, 6}, {SOLARIZE, 4, 8}}},     {{{INVERT, 6, 0}, {ROTATE, 8, 4}}},
            {{{SHEAR_Y, 3, 7}, {TRANSLATE_X, 9, 3}}},  {{{SHEAR_X, 1, 6}, {INVERT, 6, 0}}},
            {{{SOLARIZE, 7, 2}, {TRANSLATE_Y, 6, 7}}}, {{{SHEAR_Y, 8, 4}, {INVERT, 8, 0}}},
            {{{SHEAR_X, 7, 9}, {TRANSLATE_Y, 8, 3}}},  {{{SHEAR_Y, 8, 5}, {AUTOCONTRAST, 7, 0}}},
            {{{SHEAR_X, 7, 2}, {INVERT, 1, 0}}},
        },
};

/* Which pair; of each part whether, then its sign. */
static void auto_augment(const struct leat_effect *e, uint32_t width, uint32_t height, struct leat_rng *r,
                         struct leat_ops *out)
{
    const struct sub_policy *pair = &policies[e->policy][leat_rng_below(r, POLICY_SIZE)];
    for (unsigned i = 0; i < 2; i++) {
        bool happens = leat_rng_unit(r) < pair->part[i].tenths / 10.0;
        bool negative = half(r);
        if (happens)
            add_move(&standard, (enum move)pair->part[i].move, 10, pair->part[i].bin, negative, width, height,
                     e->bilinear, out);
    }
}

/* The share of the picture, the shares of the chains; of each chain its depth, and of each move which, how much and its
 * sign. Magnitudes are the first `number` of ten. */
static void draw_augmix(const struct leat_effect *e, uint32_t width, uint32_t height, struct leat_rng *r,
                        struct leat_ops *out)
{
    static const enum move moves[] = {SHEAR_X,      SHEAR_Y,  TRANSLATE_X, TRANSLATE_Y, ROTATE,   POSTERIZE, SOLARIZE,
                                      AUTOCONTRAST, EQUALIZE, BRIGHTNESS,  COLOR,       CONTRAST, SHARPNESS};
    unsigned chains = (unsigned)e->width;
    double share[2];
    double chain[8];
    leat_prep_dirichlet(r, e->alpha, 2, share);
    leat_prep_dirichlet(r, e->alpha, chains, chain);
    leat_ops_add(out, LEAT_OP_MIX)->v[0] = (float)share[0];
    for (unsigned i = 0; i < chains; i++) {
        leat_ops_add(out, LEAT_OP_CHAIN)->v[0] = (float)chain[i] * (float)share[1];
        unsigned depth = e->depth > 0 ? (unsigned)e->depth : 1 + (unsigned)leat_rng_below(r, 3);
        for (unsigned j = 0; j < depth; j++) {
            enum move move = moves[leat_rng_below(r, sizeof moves / sizeof *moves)];
            unsigned bin = (unsigned)leat_rng_below(r, (uint64_t)e->number);
            bool negative = half(r);
            add_move(&augmix, move, 10, bin, negative, width, height, e->bilinear, out);
        }
    }
    leat_ops_add(out, LEAT_OP_MIXED);
}

/* One of grey, solarised and blurred. */
static void three_augment(const struct leat_effect *e, struct leat_rng *r, struct leat_ops *out)
{
    uint64_t which = leat_rng_below(r, 3);
    double sigma = e->range[0] + leat_rng_unit(r) * (e->range[1] - e->range[0]);
    struct leat_op *op;
    switch (which) {
    case 0:
        leat_ops_add(out, LEAT_OP_GRAYSCALE);
        break;
    case 1:
        leat_ops_add(out, LEAT_OP_SOLARIZE)->v[0] = 128.0;
        break;
    default:
        op = leat_ops_add(out, LEAT_OP_GAUSSIAN_BLUR);
        op->v[0] = 2.0 * ceil(3.0 * e->range[1]) + 1.0;
        op->v[1] = sigma;
        break;
    }
}

void leat_policy_draw(const struct leat_effect *e, uint32_t width, uint32_t height, struct leat_rng *draws,
                      struct leat_ops *out)
{
    switch (e->kind) {
    case LEAT_EFFECT_RAND_AUGMENT:
        rand_augment(e, width, height, draws, out);
        break;
    case LEAT_EFFECT_TRIVIAL_AUGMENT:
        trivial_augment(e, width, height, draws, out);
        break;
    case LEAT_EFFECT_AUTO_AUGMENT:
        auto_augment(e, width, height, draws, out);
        break;
    case LEAT_EFFECT_AUGMIX:
        draw_augmix(e, width, height, draws, out);
        break;
    default:
        three_augment(e, draws, out);
        break;
    }
}
