#include "prep/drawn.h"

#include <math.h>
#include <string.h>

/* m = a · m */
static void after(const double a[9], double m[9])
{
    double product[9];
    for (int r = 0; r < 3; r++) {
        for (int c = 0; c < 3; c++)
            product[3 * r + c] = a[3 * r] * m[c] + a[3 * r + 1] * m[3 + c] + a[3 * r + 2] * m[6 + c];
    }
    memcpy(m, product, sizeof product);
}

static void invert(const double m[9], double out[9])
{
    double a = m[4] * m[8] - m[5] * m[7];
    double b = m[5] * m[6] - m[3] * m[8];
    double c = m[3] * m[7] - m[4] * m[6];
    double whole = m[0] * a + m[1] * b + m[2] * c;
    const double adjugate[9] = {
        a, m[2] * m[7] - m[1] * m[8], m[1] * m[5] - m[2] * m[4],
        b, m[0] * m[8] - m[2] * m[6], m[2] * m[3] - m[0] * m[5],
        c, m[1] * m[6] - m[0] * m[7], m[0] * m[4] - m[1] * m[3],
    };
    for (int i = 0; i < 9; i++)
        out[i] = adjugate[i] / whole;
}

/* An operation says where a pixel comes from; the way a place goes is its inverse. */
static void follow_op(const struct leat_op *op, const uint32_t size[2], double m[9])
{
    double from[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    double to[9];
    if (op->kind == LEAT_OP_PERSPECTIVE) {
        memcpy(from, op->v, sizeof op->v);
    } else {
        double x = 0.5 * size[0];
        double y = 0.5 * size[1];
        leat_op_matrix(op, from);
        from[2] += x - from[0] * x - from[1] * y;
        from[5] += y - from[3] * x - from[4] * y;
    }
    invert(from, to);
    after(to, m);
}

/* The geometric operations, in order; those of AugMix's chains belong to no one picture. */
static const struct leat_op *next_move(const struct leat_ops *ops, unsigned *at)
{
    while (*at < ops->count) {
        const struct leat_op *op = &ops->op[(*at)++];
        if (op->kind == LEAT_OP_AFFINE || op->kind == LEAT_OP_PERSPECTIVE)
            return op;
        while (op->kind == LEAT_OP_MIX && *at < ops->count && ops->op[*at].kind != LEAT_OP_MIXED)
            (*at)++;
    }
    return NULL;
}

void leat_drawn_matrix(const struct leat_drawn *drawn, double out[9])
{
    const struct leat_geometry *g = &drawn->geometry;
    double sx = g->crop.width ? (double)g->resized[0] / g->crop.width : 1.0;
    double sy = g->crop.height ? (double)g->resized[1] / g->crop.height : 1.0;
    double x = (double)g->place[0] - g->window.x - sx * g->crop.x;
    double y = (double)g->place[1] - g->window.y - sy * g->crop.y;
    double m[9] = {sx, 0, x, 0, sy, y, 0, 0, 1};
    if (g->flip)
        after((const double[9]){-1, 0, g->output[0], 0, 1, 0, 0, 0, 1}, m);
    if (g->vflip)
        after((const double[9]){1, 0, 0, 0, -1, g->output[1], 0, 0, 1}, m);
    unsigned at = 0;
    const struct leat_op *op;
    while ((op = next_move(&drawn->ops, &at)))
        follow_op(op, g->output, m);
    memcpy(out, m, sizeof m);
}

void leat_drawn_numbers(const struct leat_drawn *drawn, uint32_t width, uint32_t height, float out[LEAT_DRAWN_NUMBERS])
{
    const struct leat_geometry *g = &drawn->geometry;
    double m[9];
    double angle = 0.0;
    unsigned at = 0;
    const struct leat_op *op;
    while ((op = next_move(&drawn->ops, &at)))
        angle += op->kind == LEAT_OP_AFFINE ? op->v[0] : 0.0;
    leat_drawn_matrix(drawn, m);
    const double first[] = {width,        height,       g->crop.x, g->crop.y, g->crop.width, g->crop.height,
                            g->output[0], g->output[1], g->flip,   g->vflip,  angle};
    for (int i = 0; i < LEAT_DRAWN_MATRIX; i++)
        out[i] = (float)first[i];
    for (int i = 0; i < 9; i++)
        out[LEAT_DRAWN_MATRIX + i] = (float)m[i];
}

/* Around where the four corners go; false where one of them goes nowhere. */
static bool move_box(const double m[9], const float box[LEAT_BOX_IN], double low[2], double high[2])
{
    for (int corner = 0; corner < 4; corner++) {
        double x = box[corner & 1 ? 2 : 0];
        double y = box[corner & 2 ? 3 : 1];
        double under = m[6] * x + m[7] * y + m[8];
        if (!(under > 0.0)) /* behind the horizon of a perspective, or no number */
            return false;
        for (int d = 0; d < 2; d++) {
            double v = (m[3 * d] * x + m[3 * d + 1] * y + m[3 * d + 2]) / under;
            low[d] = corner && low[d] < v ? low[d] : v;
            high[d] = corner && high[d] > v ? high[d] : v;
        }
    }
    return true;
}

size_t leat_boxes_follow(const struct leat_drawn *drawn, const void *in, size_t n, void *out)
{
    const struct leat_geometry *g = &drawn->geometry;
    double m[9];
    size_t kept = 0;
    leat_drawn_matrix(drawn, m);
    for (size_t i = 0; i < n; i++) {
        float box[LEAT_BOX_IN];
        double low[2];
        double high[2];
        memcpy(box, (const char *)in + i * sizeof box, sizeof box);
        if (!move_box(m, box, low, high))
            continue;
        for (int d = 0; d < 2; d++) {
            low[d] = low[d] > 0.0 ? low[d] : 0.0;
            high[d] = high[d] < g->output[d] ? high[d] : g->output[d];
        }
        if (!(high[0] - low[0] >= 1.0 && high[1] - low[1] >= 1.0))
            continue;
        const float to[LEAT_BOX_OUT] = {(float)low[0], (float)low[1], (float)high[0], (float)high[1], (float)i};
        if (out)
            memcpy((char *)out + kept * sizeof to, to, sizeof to);
        kept++;
    }
    return kept;
}
