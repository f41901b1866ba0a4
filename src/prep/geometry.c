#include "prep/geometry.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "prep/deviate.h"
#include "prep/words.h"

#define SIDE_MAX 65535u
#define TRIES    10 /* torchvision's, before the fallback */

static const char *step_name(enum leat_step_kind kind)
{
    return leat_word_of_step(kind)->name;
}

static bool is_flip(enum leat_step_kind kind)
{
    return kind == LEAT_STEP_FLIP || kind == LEAT_STEP_VFLIP;
}

static bool is_resize(enum leat_step_kind kind)
{
    return kind == LEAT_STEP_RESIZE || kind == LEAT_STEP_RANDOM_RESIZED_CROP || kind == LEAT_STEP_LONGEST ||
           kind == LEAT_STEP_LETTERBOX || kind == LEAT_STEP_SCALE_JITTER;
}

static bool pads(const struct leat_step *s)
{
    return s->kind == LEAT_STEP_CENTER_CROP || s->kind == LEAT_STEP_LETTERBOX || s->kind == LEAT_STEP_SCALE_JITTER ||
           (s->kind == LEAT_STEP_RANDOM_CROP && s->padding);
}

static bool in_range(const double v[2], double low, double high)
{
    return v[0] > low && v[0] <= v[1] && v[1] <= high;
}

/* Mirrored pixels are taken from the crop itself, which must hold as many as there is padding. */
static leat_status check_padding(const struct leat_step *s, const char *name, struct leat_error *err)
{
    uint32_t side = s->width < s->height ? s->width : s->height;
    if (s->kind != LEAT_STEP_RANDOM_CROP)
        return LEAT_OK;
    if (s->padding > SIDE_MAX / 2 || (unsigned)s->border >= LEAT_BORDER_COUNT)
        return leat_fail(err, LEAT_INVALID, "%s: padding=%" PRIu32 " is more than %u, or its border is not known", name,
                         s->padding, SIDE_MAX / 2);
    if (s->border != LEAT_BORDER_CONSTANT && (uint64_t)s->padding * 2 + 1 > side)
        return leat_fail(err, LEAT_INVALID,
                         "%s: a padding of %" PRIu32 " made from the picture needs a crop of at least %" PRIu32, name,
                         s->padding, s->padding * 2 + 1);
    return LEAT_OK;
}

static leat_status check_step(const struct leat_step *s, struct leat_error *err)
{
    const char *name = (unsigned)s->kind < LEAT_STEP_KIND_COUNT ? step_name(s->kind) : NULL;
    if (!name)
        return leat_fail(err, LEAT_INVALID, "step %d is not known", (int)s->kind);
    if (is_flip(s->kind)) {
        if (!(s->probability >= 0.0 && s->probability <= 1.0))
            return leat_fail(err, LEAT_INVALID, "%s: the probability %g is not between 0 and 1", name, s->probability);
        return LEAT_OK;
    }
    bool free_height = (s->kind == LEAT_STEP_RESIZE && s->height == 0) || s->kind == LEAT_STEP_LONGEST;
    if (s->width < 1 || s->width > SIDE_MAX || s->height > SIDE_MAX || (s->height < 1 && !free_height))
        return leat_fail(err, LEAT_INVALID, "%s: %" PRIu32 "x%" PRIu32 " is not between 1 and %u pixels per side", name,
                         s->width, s->height, SIDE_MAX);
    if (s->kind == LEAT_STEP_RANDOM_RESIZED_CROP && !in_range(s->scale, 0.0, 1.0))
        return leat_fail(err, LEAT_INVALID, "%s: scale %g:%g is not a range above 0 and up to 1", name, s->scale[0],
                         s->scale[1]);
    if (s->kind == LEAT_STEP_SCALE_JITTER && !in_range(s->scale, 0.0, 1000.0))
        return leat_fail(err, LEAT_INVALID, "%s: scale %g:%g is not a range above 0 and up to 1000", name, s->scale[0],
                         s->scale[1]);
    if (s->kind == LEAT_STEP_RANDOM_RESIZED_CROP && !in_range(s->ratio, 1e-3, 1e3))
        return leat_fail(err, LEAT_INVALID, "%s: ratio %g:%g is not a range between 0.001 and 1000", name, s->ratio[0],
                         s->ratio[1]);
    return check_padding(s, name, err);
}

leat_status leat_steps_check(const struct leat_steps *steps, struct leat_error *err)
{
    const char *resized = NULL;
    const char *padded = NULL;
    bool bordered = false;
    if (steps->count > LEAT_STEPS_MAX)
        return leat_fail(err, LEAT_INVALID, "%u steps are more than %d", steps->count, LEAT_STEPS_MAX);
    for (unsigned i = 0; i < steps->count; i++) {
        const struct leat_step *s = &steps->step[i];
        leat_status rc = check_step(s, err);
        if (rc != LEAT_OK)
            return rc;
        if (i && is_flip(steps->step[i - 1].kind) && !is_flip(s->kind))
            return leat_fail(err, LEAT_INVALID, "%s after flip: put the flip last", step_name(s->kind));
        if (is_resize(s->kind) && resized)
            return leat_fail(err, LEAT_INVALID, "%s after %s: a picture is resized once", step_name(s->kind), resized);
        if (is_resize(s->kind) && padded)
            return leat_fail(err, LEAT_INVALID, "%s after %s: put the resize first", step_name(s->kind), padded);
        bool border = s->kind == LEAT_STEP_RANDOM_CROP && s->padding && s->border != LEAT_BORDER_CONSTANT;
        if (bordered && !is_flip(s->kind))
            return leat_fail(err, LEAT_INVALID, "%s after a random_crop whose padding is made from the picture",
                             step_name(s->kind));
        if (border && padded)
            return leat_fail(err, LEAT_INVALID, "%s after %s: padding cannot be made from padding", step_name(s->kind),
                             padded);
        bordered = bordered || border;
        if (is_resize(s->kind))
            resized = step_name(s->kind);
        if (pads(s))
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
        if (is_flip(s->kind))
            continue;
        bool known = s->kind == LEAT_STEP_RESIZE ? s->height > 0 : s->kind != LEAT_STEP_LONGEST;
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
    for (int d = 0; d < 2; d++) {
        g->place[d] += s->padding;
        g->output[d] += 2 * s->padding;
    }
    if (s->width > g->output[0] || s->height > g->output[1])
        return leat_fail(err, LEAT_INVALID,
                         "random_crop of %" PRIu32 "x%" PRIu32 " does not fit a picture of %" PRIu32 "x%" PRIu32
                         ": put a resize before it",
                         s->width, s->height, g->output[0], g->output[1]);
    struct leat_box box = {.width = s->width, .height = s->height};
    box.y = (uint32_t)leat_rng_below(draws, (uint64_t)g->output[1] - s->height + 1);
    box.x = (uint32_t)leat_rng_below(draws, (uint64_t)g->output[0] - s->width + 1);
    cut(g, resized, &box);
    if (!s->padding || s->border == LEAT_BORDER_CONSTANT)
        return LEAT_OK;
    g->border = s->border;
    for (int d = 0; d < 2; d++) {
        uint32_t size = d ? g->window.height : g->window.width;
        uint32_t after = g->output[d] - g->place[d] - size;
        if (size <= g->place[d] || size <= after)
            return leat_fail(err, LEAT_INVALID,
                             "random_crop: a picture of %" PRIu32 " pixels is too small for padding=%" PRIu32, size,
                             s->padding);
    }
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

static leat_status resize(struct leat_geometry *g, uint64_t width, uint64_t height, struct leat_error *err)
{
    if (!g->output[0] || !g->output[1])
        return leat_fail(err, LEAT_INVALID, "a picture without pixels cannot be resized");
    if (width > SIDE_MAX || height > SIDE_MAX)
        return leat_fail(err, LEAT_LIMIT,
                         "resize of %" PRIu32 "x%" PRIu32 " to %" PRIu64 "x%" PRIu64 " is over %u pixels per side",
                         g->output[0], g->output[1], width, height, SIDE_MAX);
    width = width ? width : 1;
    height = height ? height : 1;
    g->window = (struct leat_box){0, 0, (uint32_t)width, (uint32_t)height};
    g->resized[0] = g->output[0] = (uint32_t)width;
    g->resized[1] = g->output[1] = (uint32_t)height;
    return LEAT_OK;
}

/* The shorter side to width; the longer follows, and where it passes the limit it is the limit and the shorter follows.
 */
static leat_status resize_short(struct leat_geometry *g, const struct leat_step *s, struct leat_error *err)
{
    bool upright = g->output[0] <= g->output[1];
    uint64_t shorter = s->width;
    uint64_t short_side = upright ? g->output[0] : g->output[1];
    uint64_t long_side = upright ? g->output[1] : g->output[0];
    uint64_t longer = short_side ? shorter * long_side / short_side : 0;
    if (s->limit && longer > s->limit) {
        shorter = s->limit * shorter / longer;
        longer = s->limit;
    }
    return resize(g, upright ? shorter : longer, upright ? longer : shorter, err);
}

static double fitting(const struct leat_geometry *g, double width, double height)
{
    double x = width / g->output[0];
    double y = height / g->output[1];
    return x < y ? x : y;
}

static leat_status letterbox(struct leat_geometry *g, const struct leat_step *s, struct leat_error *err)
{
    double factor = fitting(g, s->width, s->height);
    leat_status rc = resize(g, round_even(g->output[0] * factor), round_even(g->output[1] * factor), err);
    if (rc != LEAT_OK)
        return rc;
    for (int d = 0; d < 2; d++) {
        uint32_t size = d ? s->height : s->width;
        g->place[d] = (size - g->output[d]) / 2;
        g->output[d] = size;
    }
    return LEAT_OK;
}

static leat_status scale_jitter(struct leat_geometry *g, const struct leat_step *s, struct leat_rng *draws,
                                struct leat_error *err)
{
    double factor = fitting(g, s->width, s->height) * uniform(draws, s->scale[0], s->scale[1]);
    double width = g->output[0] * factor;
    double height = g->output[1] * factor;
    leat_status rc =
        resize(g, width < 1e9 ? (uint64_t)width : SIDE_MAX + 1u, height < 1e9 ? (uint64_t)height : SIDE_MAX + 1u, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_box box = {.width = s->width, .height = s->height};
    box.y = (uint32_t)leat_rng_below(draws, g->output[1] > s->height ? (uint64_t)g->output[1] - s->height + 1 : 1);
    box.x = (uint32_t)leat_rng_below(draws, g->output[0] > s->width ? (uint64_t)g->output[0] - s->width + 1 : 1);
    cut(g, true, &box);
    return LEAT_OK;
}

static leat_status apply(const struct leat_step *s, bool resized, struct leat_rng *draws, struct leat_geometry *g,
                         struct leat_error *err)
{
    struct leat_box box = {s->x, s->y, s->width, s->height};
    double factor;
    switch (s->kind) {
    case LEAT_STEP_CROP:
        if ((uint64_t)s->x + s->width > g->output[0] || (uint64_t)s->y + s->height > g->output[1])
            return leat_fail(err, LEAT_INVALID,
                             "crop %" PRIu32 "x%" PRIu32 "+%" PRIu32 "+%" PRIu32 " is not inside a picture of %" PRIu32
                             "x%" PRIu32,
                             s->width, s->height, s->x, s->y, g->output[0], g->output[1]);
        cut(g, resized, &box);
        return LEAT_OK;
    case LEAT_STEP_CENTER_CROP:
        center_crop(g, resized, s);
        return LEAT_OK;
    case LEAT_STEP_RANDOM_CROP:
        return random_crop(g, resized, s, draws, err);
    case LEAT_STEP_RANDOM_RESIZED_CROP:
        box = draw_resized_crop(s, g->output[0], g->output[1], draws);
        cut(g, resized, &box);
        return resize(g, s->width, s->height, err);
    case LEAT_STEP_RESIZE:
        return s->height ? resize(g, s->width, s->height, err) : resize_short(g, s, err);
    case LEAT_STEP_LONGEST:
        factor = fitting(g, s->width, s->width);
        return resize(g, round_even(g->output[0] * factor), round_even(g->output[1] * factor), err);
    case LEAT_STEP_LETTERBOX:
        return letterbox(g, s, err);
    case LEAT_STEP_SCALE_JITTER:
        return scale_jitter(g, s, draws, err);
    default:
        /* Drawn even when certain, so that a probability of 1 does not move the draws after it. */
        if (leat_rng_unit(draws) < s->probability) {
            g->flip ^= s->kind == LEAT_STEP_FLIP;
            g->vflip ^= s->kind == LEAT_STEP_VFLIP;
        }
        return LEAT_OK;
    }
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
        leat_status rc = apply(&steps->step[i], resized, &draws, &g, err);
        if (rc != LEAT_OK)
            return rc;
        resized = resized || is_resize(steps->step[i].kind);
    }
    *out = g;
    return LEAT_OK;
}
