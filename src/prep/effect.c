#include "prep/effect.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "prep/deviate.h"
#include "prep/words.h"

#define TRIES 10 /* torchvision's, of an erased box */

/* Blocks of the sequence: steps draw from the first, effects each from a stretch of their own. */
#define STRETCH_KIND  ((uint64_t)1 << 40)
#define STRETCH_COUNT ((uint64_t)1 << 24)

static unsigned most_ops(const struct leat_effect *e)
{
    switch (e->kind) {
    case LEAT_EFFECT_COLOR_JITTER:
        return 4;
    case LEAT_EFFECT_RAND_AUGMENT:
        return (unsigned)e->number;
    case LEAT_EFFECT_AUTO_AUGMENT:
        return 2;
    case LEAT_EFFECT_AUGMIX:
        return 2 + (unsigned)e->width * (1 + (e->depth > 0 ? (unsigned)e->depth : 3));
    default:
        return 1;
    }
}

leat_status leat_effects_check(const struct leat_effects *effects, struct leat_error *err)
{
    unsigned ops = 0;
    if (effects->count > LEAT_EFFECTS_MAX)
        return leat_fail(err, LEAT_INVALID, "%u effects are more than %d", effects->count, LEAT_EFFECTS_MAX);
    for (unsigned i = 0; i < effects->count; i++) {
        const struct leat_effect *e = &effects->effect[i];
        const struct leat_word *word = leat_word_of_effect(e->kind);
        if (!word)
            return leat_fail(err, LEAT_INVALID, "effect %d is not known", (int)e->kind);
        leat_status rc = leat_word_check(word, e, err);
        if (rc == LEAT_OK && e->kind == LEAT_EFFECT_RAND_AUGMENT && e->magnitude >= e->bins)
            rc = leat_fail(err, LEAT_INVALID, "rand_augment: magnitude %g is not below bins=%g", e->magnitude, e->bins);
        if (rc == LEAT_OK && e->kind == LEAT_EFFECT_GAUSSIAN_BLUR && (unsigned)e->number % 2 == 0)
            rc = leat_fail(err, LEAT_INVALID, "gaussian_blur: %g is not an odd number", e->number);
        if (rc != LEAT_OK)
            return rc;
        ops += most_ops(e);
    }
    if (ops > LEAT_OPS_MAX)
        return leat_fail(err, LEAT_INVALID, "the effects come to %u operations, more than %d", ops, LEAT_OPS_MAX);
    return LEAT_OK;
}

bool leat_effect_is_geometric(enum leat_effect_kind kind)
{
    return kind == LEAT_EFFECT_ROTATE || kind == LEAT_EFFECT_AFFINE || kind == LEAT_EFFECT_PERSPECTIVE;
}

struct leat_op *leat_ops_add(struct leat_ops *ops, enum leat_op_kind kind)
{
    struct leat_op *op = &ops->op[ops->count++];
    *op = (struct leat_op){.kind = kind};
    return op;
}

static double uniform(struct leat_rng *r, const double range[2])
{
    return range[0] + leat_rng_unit(r) * (range[1] - range[0]);
}

/* The order first, then the four factors, whether they are used or not. */
static void draw_jitter(const struct leat_effect *e, struct leat_rng *r, struct leat_ops *out)
{
    static const enum leat_op_kind kinds[] = {LEAT_OP_BRIGHTNESS, LEAT_OP_CONTRAST, LEAT_OP_SATURATION, LEAT_OP_HUE};
    unsigned order[] = {0, 1, 2, 3};
    double factor[4];
    for (unsigned i = 4; i > 1; i--) {
        unsigned j = (unsigned)leat_rng_below(r, i);
        unsigned kept = order[i - 1];
        order[i - 1] = order[j];
        order[j] = kept;
    }
    for (unsigned i = 0; i < 4; i++) {
        double middle = i < 3 ? 1.0 : 0.0;
        double range[2] = {middle - e->jitter[i], middle + e->jitter[i]};
        range[0] = i < 3 && range[0] < 0.0 ? 0.0 : range[0];
        factor[i] = uniform(r, range);
    }
    for (unsigned i = 0; i < 4; i++) {
        if (e->jitter[order[i]] > 0.0)
            leat_ops_add(out, kinds[order[i]])->v[0] = factor[order[i]];
    }
}

static void draw_affine(const struct leat_effect *e, uint32_t width, uint32_t height, struct leat_rng *r,
                        struct leat_op *op)
{
    double x[2] = {-e->translate[0] * width, e->translate[0] * width};
    double y[2] = {-e->translate[1] * height, e->translate[1] * height};
    op->v[0] = uniform(r, e->range);
    op->v[1] = rint(uniform(r, x));
    op->v[2] = rint(uniform(r, y));
    op->v[3] = uniform(r, e->scale);
    op->v[4] = uniform(r, e->shear);
    op->v[5] = uniform(r, e->shear + 2);
}

/* Eight equations in eight unknowns, largest pivot first; corners in convex position always give a solution. */
static void solve(double a[8][9], double out[8])
{
    for (unsigned c = 0; c < 8; c++) {
        unsigned best = c;
        for (unsigned r = c + 1; r < 8; r++)
            best = fabs(a[r][c]) > fabs(a[best][c]) ? r : best;
        for (unsigned k = 0; k < 9; k++) {
            double kept = a[c][k];
            a[c][k] = a[best][k];
            a[best][k] = kept;
        }
        for (unsigned r = 0; r < 8; r++) {
            double f = r == c || a[c][c] == 0.0 ? 0.0 : a[r][c] / a[c][c];
            for (unsigned k = c; k < 9 && f != 0.0; k++)
                a[r][k] -= f * a[c][k];
        }
    }
    for (unsigned i = 0; i < 8; i++)
        out[i] = a[i][i] == 0.0 ? 0.0 : a[i][8] / a[i][i];
}

/* Corners move inwards, each by up to half of `number` of a side; the corners from top left clockwise, x then y. */
static void draw_perspective(const struct leat_effect *e, uint32_t width, uint32_t height, struct leat_rng *r,
                             struct leat_op *op)
{
    uint32_t half[2] = {width / 2, height / 2};
    uint32_t most_x = (uint32_t)(e->number * half[0]) + 1;
    uint32_t most_y = (uint32_t)(e->number * half[1]) + 1;
    const double start[4][2] = {{0, 0}, {width - 1.0, 0}, {width - 1.0, height - 1.0}, {0, height - 1.0}};
    double a[8][9] = {{0}};
    for (unsigned i = 0; i < 4; i++) {
        double x = (double)leat_rng_below(r, most_x) + (i == 1 || i == 2 ? (double)width - most_x : 0);
        double y = (double)leat_rng_below(r, most_y) + (i > 1 ? (double)height - most_y : 0);
        double *row = a[2 * i];
        row[0] = x;
        row[1] = y;
        row[2] = 1;
        row[6] = -start[i][0] * x;
        row[7] = -start[i][0] * y;
        row[8] = start[i][0];
        row = a[2 * i + 1];
        row[3] = x;
        row[4] = y;
        row[5] = 1;
        row[6] = -start[i][1] * x;
        row[7] = -start[i][1] * y;
        row[8] = start[i][1];
    }
    solve(a, op->v);
    for (unsigned i = 0; i < 8; i++)
        op->v[i] = (float)op->v[i];
}

static void draw_erase(const struct leat_effect *e, uint32_t width, uint32_t height, struct leat_rng *r,
                       struct leat_ops *out)
{
    double ratio[2] = {leat_prep_ln(e->ratio[0]), leat_prep_ln(e->ratio[1])};
    for (int i = 0; i < TRIES; i++) {
        double area = (double)width * height * uniform(r, e->scale);
        double aspect = leat_prep_exp(uniform(r, ratio));
        double h = rint(sqrt(area * aspect));
        double w = rint(sqrt(area / aspect));
        if (!(h < height && w < width))
            continue;
        struct leat_op *op = leat_ops_add(out, LEAT_OP_ERASE);
        op->v[1] = (double)leat_rng_below(r, (uint64_t)(height - h) + 1);
        op->v[0] = (double)leat_rng_below(r, (uint64_t)(width - w) + 1);
        op->v[2] = w;
        op->v[3] = h;
        memcpy(op->v + 4, e->value, sizeof e->value);
        return;
    }
}

/* A square around a pixel anywhere in the picture, what of it lies inside. */
static void draw_cutout(const struct leat_effect *e, uint32_t width, uint32_t height, struct leat_rng *r,
                        struct leat_ops *out)
{
    struct leat_op *op = leat_ops_add(out, LEAT_OP_ERASE);
    int64_t half = (int64_t)e->number / 2;
    for (int d = 1; d >= 0; d--) {
        int64_t size = d ? height : width;
        int64_t middle = (int64_t)leat_rng_below(r, (uint64_t)size);
        int64_t from = middle - half < 0 ? 0 : middle - half;
        int64_t to = middle + half > size ? size : middle + half;
        op->v[d] = (double)from;
        op->v[2 + d] = (double)(to - from);
    }
    memcpy(op->v + 4, e->value, sizeof e->value);
}

static void draw(const struct leat_effect *e, uint32_t width, uint32_t height, struct leat_rng *r, struct leat_ops *out)
{
    struct leat_op *op;
    switch (e->kind) {
    case LEAT_EFFECT_BRIGHTNESS:
    case LEAT_EFFECT_CONTRAST:
    case LEAT_EFFECT_SATURATION:
    case LEAT_EFFECT_HUE:
        op = leat_ops_add(out, (enum leat_op_kind)(LEAT_OP_BRIGHTNESS + (e->kind - LEAT_EFFECT_BRIGHTNESS)));
        op->v[0] = uniform(r, e->range);
        break;
    case LEAT_EFFECT_SHARPNESS:
        leat_ops_add(out, LEAT_OP_SHARPNESS)->v[0] = uniform(r, e->range);
        break;
    case LEAT_EFFECT_GRAYSCALE:
        leat_ops_add(out, LEAT_OP_GRAYSCALE);
        break;
    case LEAT_EFFECT_INVERT:
        leat_ops_add(out, LEAT_OP_INVERT);
        break;
    case LEAT_EFFECT_EQUALIZE:
        leat_ops_add(out, LEAT_OP_EQUALIZE);
        break;
    case LEAT_EFFECT_AUTOCONTRAST:
        leat_ops_add(out, LEAT_OP_AUTOCONTRAST);
        break;
    case LEAT_EFFECT_SOLARIZE:
        leat_ops_add(out, LEAT_OP_SOLARIZE)->v[0] = e->number;
        break;
    case LEAT_EFFECT_POSTERIZE:
        leat_ops_add(out, LEAT_OP_POSTERIZE)->v[0] = e->number;
        break;
    case LEAT_EFFECT_GAUSSIAN_BLUR:
        op = leat_ops_add(out, LEAT_OP_GAUSSIAN_BLUR);
        op->v[0] = e->number;
        op->v[1] = uniform(r, e->range);
        break;
    case LEAT_EFFECT_COLOR_JITTER:
        draw_jitter(e, r, out);
        break;
    case LEAT_EFFECT_ROTATE:
        op = leat_ops_add(out, LEAT_OP_AFFINE);
        op->v[0] = -uniform(r, e->range); /* torchvision's rotate turns the other way than its affine */
        op->v[3] = 1.0;
        op->bilinear = e->bilinear;
        break;
    case LEAT_EFFECT_AFFINE:
        op = leat_ops_add(out, LEAT_OP_AFFINE);
        draw_affine(e, width, height, r, op);
        op->bilinear = e->bilinear;
        break;
    case LEAT_EFFECT_PERSPECTIVE:
        op = leat_ops_add(out, LEAT_OP_PERSPECTIVE);
        draw_perspective(e, width, height, r, op);
        op->bilinear = e->bilinear;
        break;
    case LEAT_EFFECT_ERASE:
        draw_erase(e, width, height, r, out);
        break;
    case LEAT_EFFECT_CUTOUT:
        draw_cutout(e, width, height, r, out);
        break;
    default:
        leat_policy_draw(e, width, height, r, out);
        break;
    }
}

void leat_effects_draw(const struct leat_effects *effects, uint32_t width, uint32_t height, struct leat_rng draws,
                       struct leat_ops *out)
{
    unsigned seen[LEAT_EFFECT_KIND_COUNT] = {0};
    out->count = 0;
    for (unsigned i = 0; i < effects->count; i++) {
        const struct leat_effect *e = &effects->effect[i];
        struct leat_rng own = leat_rng(draws.key, draws.stream);
        own.index = STRETCH_KIND * ((uint64_t)e->kind + 1) + STRETCH_COUNT * seen[e->kind]++;
        /* Drawn even when certain, so that a probability of 1 does not move what is drawn after it. */
        if (leat_rng_unit(&own) < e->p && width && height)
            draw(e, width, height, &own, out);
    }
}

void leat_op_matrix(const struct leat_op *op, double out[6])
{
    double sin_angle;
    double cos_angle;
    double sin_rest;
    double cos_rest;
    double sin_x;
    double cos_x;
    double sin_y;
    double cos_y;
    const double *v = op->v;
    leat_prep_sincos(v[0], &sin_angle, &cos_angle);
    leat_prep_sincos(v[0] - v[5], &sin_rest, &cos_rest);
    leat_prep_sincos(v[4], &sin_x, &cos_x);
    leat_prep_sincos(v[5], &sin_y, &cos_y);
    double tan_x = sin_x / cos_x;
    double a = cos_rest / cos_y;
    double b = -(a * tan_x + sin_angle);
    double c = sin_rest / cos_y;
    double d = cos_angle - c * tan_x;
    double x = v[6] + v[1];
    double y = v[7] + v[2];
    out[0] = d / v[3];
    out[1] = -b / v[3];
    out[3] = -c / v[3];
    out[4] = a / v[3];
    out[2] = v[6] - out[0] * x - out[1] * y;
    out[5] = v[7] - out[3] * x - out[4] * y;
}

void leat_op_print(const struct leat_op *op, char *out, size_t size)
{
    static const struct {
        const char *name;
        unsigned numbers;
        bool warps;
    } forms[LEAT_OP_KIND_COUNT] = {
        {"brightness", 1, false}, {"contrast", 1, false},     {"saturation", 1, false}, {"hue", 1, false},
        {"grayscale", 0, false},  {"solarize", 1, false},     {"posterize", 1, false},  {"invert", 0, false},
        {"equalize", 0, false},   {"autocontrast", 0, false}, {"sharpness", 1, false},  {"gaussian_blur", 2, false},
        {"affine", 8, true},      {"perspective", 8, true},   {"erase", 7, false},      {"mix", 1, false},
        {"chain", 1, false},      {"mixed", 0, false},
    };
    size_t at = (size_t)snprintf(out, size, "%s", forms[op->kind].name);
    for (unsigned i = 0; i < forms[op->kind].numbers && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, " %.17g", op->v[i] + 0.0);
    if (forms[op->kind].warps && at < size)
        snprintf(out + at, size - at, " %s", op->bilinear ? "bilinear" : "nearest");
}
