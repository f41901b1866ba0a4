#include "profile/step.h"

#include <string.h>

#define FREE 20 /* steps that show that a script trains without a loader */

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

uint64_t leat_step_ns(const struct leat_step *step)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < LEAT_STEP_STAGES; i++)
        sum += step->ns[i];
    return sum;
}

static void begin(struct leat_stepper *s, uint64_t at_ns, uint32_t loader, uint8_t mode)
{
    s->open = true;
    s->trained = s->opened = s->past = s->watched = false;
    s->step = (struct leat_step){.start_ns = at_ns, .loader = loader, .mode = mode};
    s->start_ns = at_ns;
    s->tail_ns = 0;
    s->after_ns = 0;
    s->nested_count = 0;
    s->mark = (struct leat_step){.start_ns = at_ns};
    s->passed = false;
}

/* What no record covers is the forward pass before the last backward pass or optimizer step, and other work after it.
 */
static bool finish(struct leat_stepper *s, uint64_t at_ns, struct leat_step *out)
{
    uint64_t *ns = s->step.ns;
    uint64_t total = less(at_ns, s->start_ns);
    uint64_t other = less(less(at_ns, s->tail_ns), s->after_ns);
    uint64_t rest = total;
    ns[LEAT_STEP_OTHER] = other;
    ns[LEAT_STEP_FORWARD] = 0;
    /* Records may overlap where a script does two things at a time; the parts add up to the step all the same. */
    for (size_t i = 0; i < LEAT_STEP_STAGES; i++) {
        ns[i] = ns[i] < rest ? ns[i] : rest;
        rest -= ns[i];
    }
    ns[LEAT_STEP_FORWARD] = rest;
    if (s->step.first)
        s->ended_ns = 0;
    *out = s->step;
    return total > 0;
}

static void add_wait(struct leat_stepper *s, const struct leat_lane_record *r)
{
    struct leat_step *step = &s->step;
    step->ns[LEAT_STEP_WAIT] += r->end_ns - r->start_ns;
    step->bytes += r->extra;
    bool batch = !(r->flags & (LEAT_LANE_EXHAUSTED | LEAT_LANE_OPENING));
    if (batch) {
        step->taken++;
        step->loaders |= 1U << (r->loader % LEAT_STEP_LOADERS);
    }
    if (r->loader == step->loader) { /* two loaders give out parts of the same samples */
        step->samples += r->value;
        step->batches += batch;
    } else if (r->value > step->samples)
        step->samples = r->value;
}

/* Whether this wait is for one more batch of the step that has begun. Validation takes batches in a row, too: without
 * gradients, or until its loader ends. */
static bool is_more(const struct leat_stepper *s, const struct leat_lane_record *r)
{
    uint8_t changed = (s->step.mode ^ r->mode) & ~LEAT_LANE_WARMUP;
    if (!s->open || s->trained || s->past || !s->step.loader || changed)
        return false;
    if (s->opened && s->step.loader == r->loader)
        return !(r->flags & LEAT_LANE_OPENING);
    return !s->watched && !(r->flags & LEAT_LANE_NO_GRAD);
}

static bool take_wait(struct leat_stepper *s, const struct leat_lane_record *r, struct leat_step *out)
{
    bool ends = r->flags & LEAT_LANE_EXHAUSTED;
    bool done = false;
    if (r->flags & LEAT_LANE_NO_GRAD && (s->alone || (!s->loaders && s->free >= FREE))) {
        s->open = false; /* validation of a script that trains without batches: no part of its steps */
        return false;
    }
    s->loaders = true;
    if (!s->alone)
        s->held_count = 0;
    if (s->open && s->alone) {
        s->alone = false; /* until as many steps without a batch have followed this one */
    } else if (s->open &&
               s->trained) { /* what comes after the last batch of a loader that read ahead is not in a step */
        done = finish(s, s->past ? s->tail_ns : r->start_ns, out) &&
               (r->flags & (LEAT_LANE_EXHAUSTED | LEAT_LANE_OPENING) || out->mode == r->mode);
        s->bound = true;
        s->ended_ns = ends ? r->end_ns - r->start_ns : s->past ? 0 : s->ended_ns;
    } else if (ends && s->step.loader != r->loader) {
        return false; /* the end of a second loader, while the first goes on */
    } else if (!ends && is_more(s, r)) {
        if (s->opened && s->step.loader == r->loader) {
            s->opened = false;
            s->step.mode = r->mode;
            s->step.empty = true;
            s->watched = r->flags & LEAT_LANE_NO_GRAD;
        }
        add_wait(s, r);
        return false;
    }
    begin(s, r->start_ns, r->loader, r->mode);
    s->past = ends;
    s->watched = r->flags & LEAT_LANE_NO_GRAD;
    add_wait(s, r);
    s->step.empty = r->flags & LEAT_LANE_EMPTY;
    if (r->flags & LEAT_LANE_OPENING) {
        s->opened = s->step.first = true;
        s->start_ns = s->step.start_ns = less(s->start_ns, s->ended_ns);
        s->step.ns[LEAT_STEP_WAIT] += s->ended_ns;
    }
    return done;
}

/* The end of an optimizer step or, where none was seen, of a backward pass: one step without a batch, which is what was
 * added to the open one since the last such end. */
static void hold(struct leat_stepper *s, const struct leat_lane_record *r)
{
    if (s->bound || s->held_count == LEAT_STEP_HELD)
        return;
    if (!s->open) {
        begin(s, r->end_ns, 0, r->mode);
        return;
    }
    struct leat_step *own = &s->held[s->held_count++];
    uint64_t rest = less(r->end_ns, s->mark.start_ns);
    *own = (struct leat_step){.start_ns = s->mark.start_ns,
                              .samples = s->step.samples,
                              .copied_bytes = s->step.copied_bytes - s->mark.copied_bytes,
                              .mode = r->mode & ~LEAT_LANE_WARMUP, /* no block can follow that has to settle */
                              .empty = true};
    for (size_t i = 0; i < LEAT_STEP_STAGES; i++) {
        uint64_t ns = s->step.ns[i] - s->mark.ns[i];
        own->ns[i] = ns < rest ? ns : rest;
        rest -= own->ns[i];
    }
    own->ns[LEAT_STEP_FORWARD] += rest;
    s->mark = s->step;
    s->mark.start_ns = r->end_ns;
    s->passed = false;
    s->alone |= s->held_count == LEAT_STEP_HELD;
}

bool leat_stepper_held(struct leat_stepper *s, struct leat_step *out)
{
    if (!s->held_count || !(s->alone || s->held_given))
        return false;
    *out = s->held[s->held_given++];
    if (s->held_given == s->held_count)
        s->held_given = s->held_count = 0;
    return true;
}

bool leat_stepper_end(struct leat_stepper *s, struct leat_step *out)
{
    s->alone |= s->held_count > 1 && !s->bound;
    bool done = s->open && s->trained && !s->alone && finish(s, s->tail_ns, out);
    s->open = false;
    return done;
}

/* Of the collectives so far, those within a span that has just ended; they are forgotten. */
static uint64_t take_nested(struct leat_stepper *s, uint64_t start_ns)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < s->nested_count; i++)
        sum += s->nested[i].start_ns >= start_ns ? s->nested[i].ns : 0;
    s->nested_count = 0;
    return sum;
}

static void take_comm(struct leat_stepper *s, const struct leat_lane_record *r)
{
    uint64_t ns = r->end_ns - r->start_ns;
    s->step.ns[LEAT_STEP_COMM] += ns;
    s->after_ns += ns;
    if (s->nested_count < LEAT_STEP_NESTED) {
        s->nested[s->nested_count].start_ns = r->start_ns;
        s->nested[s->nested_count++].ns = ns;
    } else { /* many small ones: the last slot stands for the rest */
        s->nested[LEAT_STEP_NESTED - 1].ns += ns;
    }
}

static bool take_optim(struct leat_stepper *s, const struct leat_lane_record *r, struct leat_step *out)
{
    bool done = false;
    /* With a closure, the forward and backward pass lie within it. */
    uint64_t start = r->start_ns > s->tail_ns || s->tail_ns > r->end_ns ? r->start_ns : s->tail_ns;
    s->step.ns[LEAT_STEP_OPTIM] += less(r->end_ns - start, take_nested(s, start));
    s->tail_ns = r->end_ns;
    s->after_ns = 0;
    s->trained |= s->loaders; /* by gradients that were not made by a backward pass of autograd */
    if (!s->optims) {         /* backward passes before it were no steps */
        s->open = s->open && s->loaders && !s->alone;
        s->alone = false;
        s->held_count = s->held_given = 0;
        s->mark = (struct leat_step){.start_ns = s->start_ns};
        s->passed = true;
    }
    s->optims = true;
    if (s->loaders) {
        if (s->passed || !s->open) /* a second optimizer of the same pass marks nothing */
            hold(s, r);
    } else if (!s->open || s->trained) {
        done = s->open && finish(s, r->end_ns, out);
        s->free += done;
        begin(s, r->end_ns, 0, r->mode);
        s->step.empty = true;
    }
    return done;
}

bool leat_stepper_take(struct leat_stepper *s, const struct leat_lane_record *r, struct leat_step *out)
{
    bool on_device = r->flags & LEAT_LANE_DEVICE;
    uint64_t ns = r->end_ns - r->start_ns;
    if (on_device && !s->device)
        *s = (struct leat_stepper){.device = true, .loaders = s->loaders, .optims = s->optims, .free = s->free};
    if (on_device != s->device)
        return false;
    switch (r->kind) {
    case LEAT_LANE_WAIT:
        return take_wait(s, r, out);
    case LEAT_LANE_COPY:
        s->step.ns[LEAT_STEP_COPY] += ns;
        s->step.copied_bytes += r->value;
        s->after_ns += ns;
        break;
    case LEAT_LANE_COMM:
        take_comm(s, r);
        break;
    case LEAT_LANE_BACKWARD:
        s->trained = s->passed = true;
        s->step.ns[LEAT_STEP_BACKWARD] += less(ns, take_nested(s, r->start_ns));
        s->tail_ns = r->end_ns;
        s->after_ns = 0;
        if (!s->optims)
            hold(s, r);
        break;
    case LEAT_LANE_OPTIM:
        return take_optim(s, r, out);
    default:
        break;
    }
    return false;
}
