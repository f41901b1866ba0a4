#include "prep/geometry.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define SIDE_MAX 65535u
#define TRIES    10 /* torchvision's, before the fallback */

double leat_prep_exp(double x)
{
    /* Halved until small, summed, squared back. */
    int halvings = 0;
    while (fabs(x) > 0.125) {
        x *= 0.5;
        halvings++;
    }
    double sum = 1.0;
    for (int n = 14; n > 0; n--)
        sum = 1.0 + sum * x / n;
    while (halvings-- > 0)
        sum *= sum;
    return sum;
}

double leat_prep_ln(double x)
{
    /* Halley's steps on e^y = x from a start within a factor of 2. */
    int exponent;
    frexp(x, &exponent);
    double y = exponent * 0.6931471805599453;
    for (int i = 0; i < 5; i++) {
        double e = leat_prep_exp(y);
        y += 2.0 * (x - e) / (x + e);
    }
    return y;
}

static const char *step_name(enum leat_step_kind kind)
{
    static const char *const names[LEAT_STEP_KIND_COUNT] = {
        "crop", "center_crop", "random_crop", "random_resized_crop", "resize", "flip",
    };
    return names[kind];
}

static bool is_resize(enum leat_step_kind kind)
{
    return kind == LEAT_STEP_RESIZE || kind == LEAT_STEP_RANDOM_RESIZED_CROP;
}

static bool in_range(const double v[2], double low, double high)
{
    return v[0] > low && v[0] <= v[1] && v[1] <= high;
}

static leat_status check_step(const struct leat_step *s, struct leat_error *err)
{
    const char *name = (unsigned)s->kind < LEAT_STEP_KIND_COUNT ? step_name(s->kind) : NULL;
    if (!name)
        return leat_fail(err, LEAT_INVALID, "step %d is not known", (int)s->kind);
    if (s->kind == LEAT_STEP_FLIP) {
        if (!(s->probability >= 0.0 && s->probability <= 1.0))
            return leat_fail(err, LEAT_INVALID, "flip: the probability %g is not between 0 and 1", s->probability);
        return LEAT_OK;
    }
    bool free_height = s->kind == LEAT_STEP_RESIZE && s->height == 0;
    if (s->width < 1 || s->width > SIDE_MAX || s->height > SIDE_MAX || (s->height < 1 && !free_height))
        return leat_fail(err, LEAT_INVALID, "%s: %" PRIu32 "x%" PRIu32 " is not between 1 and %u a side", name,
                         s->width, s->height, SIDE_MAX);
    if (s->kind == LEAT_STEP_RANDOM_RESIZED_CROP && !in_range(s->scale, 0.0, 1.0))
        return leat_fail(err, LEAT_INVALID, "%s: scale %g:%g is not a range above 0 and up to 1", name, s->scale[0],
                         s->scale[1]);
    if (s->kind == LEAT_STEP_RANDOM_RESIZED_CROP && !in_range(s->ratio, 1e-3, 1e3))
        return leat_fail(err, LEAT_INVALID, "%s: ratio %g:%g is not a range between 0.001 and 1000", name, s->ratio[0],
                         s->ratio[1]);
    return LEAT_OK;
}

leat_status leat_steps_check(const struct leat_steps *steps, struct leat_error *err)
{
    const char *resized = NULL;
    const char *padded = NULL;
    if (steps->count > LEAT_STEPS_MAX)
        return leat_fail(err, LEAT_INVALID, "%u steps are more than %d", steps->count, LEAT_STEPS_MAX);
    for (unsigned i = 0; i < steps->count; i++) {
        const struct leat_step *s = &steps->step[i];
        leat_status rc = check_step(s, err);
        if (rc != LEAT_OK)
            return rc;
        if (i && steps->step[i - 1].kind == LEAT_STEP_FLIP && s->kind != LEAT_STEP_FLIP)
            return leat_fail(err, LEAT_INVALID, "%s after flip: put the flip last", step_name(s->kind));
        if (is_resize(s->kind) && resized)
            return leat_fail(err, LEAT_INVALID, "%s after %s: a picture is resized once", step_name(s->kind), resized);
        if (is_resize(s->kind) && padded)
            return leat_fail(err, LEAT_INVALID, "%s after %s: put the resize first", step_name(s->kind), padded);
        if (is_resize(s->kind))
            resized = step_name(s->kind);
        if (s->kind == LEAT_STEP_CENTER_CROP)
            padded = step_name(s->kind);
    }
    return LEAT_OK;
}

void leat_steps_output(const struct leat_steps *steps, uint32_t *width, uint32_t *height)
{
    *width = 0;
    *height = 0;
    for (unsigned i = 0; i < steps->count; i++) {
        const struct leat_step *s = &steps->step[i];
        if (s->kind == LEAT_STEP_FLIP)
            continue;
        bool known = s->kind != LEAT_STEP_RESIZE || s->height;
        *width = known ? s->width : 0;
        *height = known ? s->height : 0;
    }
}

/* Cuts (x, y, width, height) out of the current output; the fixed part of every kind of crop. */
static void cut(struct leat_geometry *g, bool resized, const struct leat_box *box)
{
    for (int d = 0; d < 2; d++) {
        uint32_t at = d ? box->y : box->x;
        uint32_t size = d ? box->height : box->width;
        uint32_t *crop_at = d ? &g->crop.y : &g->crop.x;
        uint32_t *crop_size = d ? &g->crop.height : &g->crop.width;
        uint32_t *window_at = d ? &g->window.y : &g->window.x;
        uint32_t *window_size = d ? &g->window.height : &g->window.width;
        uint32_t content_end = g->place[d] + *window_size;
        /* What is left of the window, in coordinates of the old output. */
        uint32_t from = at > g->place[d] ? at : g->place[d];
        uint32_t to = at + size < content_end ? at + size : content_end;
        if (to <= from) { /* nothing but padding */
            *window_size = 0;
            g->place[d] = 0;
        } else {
            *window_at += from - g->place[d];
            *window_size = to - from;
            g->place[d] = from - at;
        }
        g->output[d] = size;
        if (!resized) {
            *crop_at += *window_at;
            *crop_size = *window_size;
            g->resized[d] = *window_size;
            *window_at = 0;
        }
    }
}

/* Python's round(): halves to even. */
static uint32_t round_even(double v)
{
    return (uint32_t)rint(v);
}

static void center_crop(struct leat_geometry *g, bool resized, const struct leat_step *s)
{
    struct leat_box box = {.width = s->width, .height = s->height};
    for (int d = 0; d < 2; d++) {
        uint32_t size = d ? s->height : s->width;
        if (size > g->output[d]) {
            uint32_t before = (size - g->output[d]) / 2;
            g->place[d] += before;
            g->output[d] = size;
        }
        uint32_t at = round_even((g->output[d] - size) / 2.0);
        *(d ? &box.y : &box.x) = at;
    }
    cut(g, resized, &box);
}

static leat_status random_crop(struct leat_geometry *g, bool resized, const struct leat_step *s, struct leat_rng *draws,
                               struct leat_error *err)
{
    if (s->width > g->output[0] || s->height > g->output[1])
        return leat_fail(err, LEAT_INVALID,
                         "random_crop of %" PRIu32 "x%" PRIu32 " does not fit a picture of %" PRIu32 "x%" PRIu32
                         ": put a resize before it",
                         s->width, s->height, g->output[0], g->output[1]);
    struct leat_box box = {.width = s->width, .height = s->height};
    box.y = (uint32_t)leat_rng_below(draws, (uint64_t)g->output[1] - s->height + 1);
    box.x = (uint32_t)leat_rng_below(draws, (uint64_t)g->output[0] - s->width + 1);
    cut(g, resized, &box);
    return LEAT_OK;
}

static double uniform(struct leat_rng *draws, double low, double high)
{
    return low + leat_rng_unit(draws) * (high - low);
}

static struct leat_box middle(uint32_t width, uint32_t height, double w, double h)
{
    struct leat_box box = {.width = round_even(w), .height = round_even(h)};
    box.width = box.width < 1 ? 1 : box.width > width ? width : box.width;
    box.height = box.height < 1 ? 1 : box.height > height ? height : box.height;
    box.x = (width - box.width) / 2;
    box.y = (height - box.height) / 2;
    return box;
}

/* Area and aspect uniform in scale and in the logarithm of ratio, ten tries, then the middle of the picture at
 * the nearest allowed aspect: torchvision's distribution. */
static struct leat_box draw_resized_crop(const struct leat_step *s, uint32_t width, uint32_t height,
                                         struct leat_rng *draws)
{
    double area = (double)width * height;
    double low = leat_prep_ln(s->ratio[0]);
    double high = leat_prep_ln(s->ratio[1]);
    for (int i = 0; i < TRIES; i++) {
        double target = area * uniform(draws, s->scale[0], s->scale[1]);
        double aspect = leat_prep_exp(uniform(draws, low, high));
        double w = rint(sqrt(target * aspect));
        double h = rint(sqrt(target / aspect));
        if (w < 1 || h < 1 || w > width || h > height)
            continue;
        struct leat_box box = {.width = (uint32_t)w, .height = (uint32_t)h};
        box.y = (uint32_t)leat_rng_below(draws, (uint64_t)height - box.height + 1);
        box.x = (uint32_t)leat_rng_below(draws, (uint64_t)width - box.width + 1);
        return box;
    }
    double ratio = (double)width / height;
    if (ratio < s->ratio[0])
        return middle(width, height, width, width / s->ratio[0]);
    if (ratio > s->ratio[1])
        return middle(width, height, height * s->ratio[1], height);
    return middle(width, height, width, height);
}

static leat_status resize(struct leat_geometry *g, uint32_t width, uint32_t height, struct leat_error *err)
{
    uint64_t w = width;
    uint64_t h = height;
    if (!g->output[0] || !g->output[1])
        return leat_fail(err, LEAT_INVALID, "a picture without pixels cannot be resized");
    if (!height && g->output[0] <= g->output[1])
        h = (uint64_t)width * g->output[1] / g->output[0];
    else if (!height) {
        h = width;
        w = (uint64_t)width * g->output[0] / g->output[1];
    }
    if (w > SIDE_MAX || h > SIDE_MAX)
        return leat_fail(err, LEAT_LIMIT,
                         "resize of %" PRIu32 "x%" PRIu32 " to %" PRIu64 "x%" PRIu64 " is over %u a side", g->output[0],
                         g->output[1], w, h, SIDE_MAX);
    g->window = (struct leat_box){0, 0, (uint32_t)w, (uint32_t)h};
    g->resized[0] = g->output[0] = (uint32_t)w;
    g->resized[1] = g->output[1] = (uint32_t)h;
    return LEAT_OK;
}

leat_status leat_steps_apply(const struct leat_steps *steps, uint32_t width, uint32_t height, struct leat_rng draws,
                             struct leat_geometry *out, struct leat_error *err)
{
    struct leat_geometry g = {
        .crop = {0, 0, width, height},
        .resized = {width, height},
        .window = {0, 0, width, height},
        .output = {width, height},
    };
    bool resized = false;
    for (unsigned i = 0; i < steps->count; i++) {
        const struct leat_step *s = &steps->step[i];
        struct leat_box box = {s->x, s->y, s->width, s->height};
        leat_status rc = LEAT_OK;
        switch (s->kind) {
        case LEAT_STEP_CROP:
            if ((uint64_t)s->x + s->width > g.output[0] || (uint64_t)s->y + s->height > g.output[1])
                return leat_fail(err, LEAT_INVALID,
                                 "crop %" PRIu32 "x%" PRIu32 "+%" PRIu32 "+%" PRIu32
                                 " is not inside a picture of %" PRIu32 "x%" PRIu32,
                                 s->width, s->height, s->x, s->y, g.output[0], g.output[1]);
            cut(&g, resized, &box);
            break;
        case LEAT_STEP_CENTER_CROP:
            center_crop(&g, resized, s);
            break;
        case LEAT_STEP_RANDOM_CROP:
            rc = random_crop(&g, resized, s, &draws, err);
            break;
        case LEAT_STEP_RANDOM_RESIZED_CROP:
            box = draw_resized_crop(s, g.output[0], g.output[1], &draws);
            cut(&g, resized, &box);
            rc = resize(&g, s->width, s->height, err);
            break;
        case LEAT_STEP_RESIZE:
            rc = resize(&g, s->width, s->height, err);
            break;
        default:
            /* Drawn even when certain, so that a probability of 1 does not move the draws behind it. */
            g.flip ^= leat_rng_unit(&draws) < s->probability;
            break;
        }
        if (rc != LEAT_OK)
            return rc;
        resized = resized || is_resize(s->kind);
    }
    *out = g;
    return LEAT_OK;
}
