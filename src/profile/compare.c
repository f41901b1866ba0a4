#include "profile/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "profile/verdict.h"

#define WORTH 0.005 /* of the step: smaller parts are not shown */

static leat_status different(const char *what, const char *a_name, const char *a, const char *b_name, const char *b,
                             struct leat_error *err)
{
    return leat_fail(err, LEAT_INVALID, "cannot be compared: '%s' is %s in %s and %s in %s", what, a, a_name, b,
                     b_name);
}

/* What the two clusters differ by, if that is one thing. Two figures that must not be mixed up: the same ranks on other
 * numbers of machines cost a network; more machines of the same kind cost what they add. */
static const char *pair_of(const struct leat_report_run *x, const struct leat_report_run *y)
{
    if (x->nodes == y->nodes)
        return NULL;
    if (x->gpus == y->gpus)
        return "stall: machines";
    return x->gpus * x->nodes == y->gpus * y->nodes ? "stall: network" : NULL;
}

static leat_status same_job(const char *a_name, const struct leat_report *a, const char *b_name,
                            const struct leat_report *b, const char **pair_out, struct leat_error *err)
{
    const struct leat_report_run *x = leat_report_find(a, LEAT_REPORT_OBSERVED);
    const struct leat_report_run *y = leat_report_find(b, LEAT_REPORT_OBSERVED);
    if (!x || !y || x->steps < LEAT_VERDICT_STEPS || y->steps < LEAT_VERDICT_STEPS)
        return leat_fail(err, LEAT_UNSUPPORTED, "not enough data: %s has fewer than %d observed steps",
                         !x || x->steps < LEAT_VERDICT_STEPS ? a_name : b_name, LEAT_VERDICT_STEPS);
    const char *pair = pair_of(x, y);
    const struct {
        const char *what;
        double a;
        double b;
    } numbers[] = {
        {"gpus", pair ? 0 : x->gpus, pair ? 0 : y->gpus},
        {"nodes", pair ? 0 : x->nodes, pair ? 0 : y->nodes},
        {"batch", round(x->batch), round(y->batch)},
        {"device", x->device, y->device},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char one[32];
        char two[32];
        snprintf(one, sizeof one, "%.0f", numbers[i].a);
        snprintf(two, sizeof two, "%.0f", numbers[i].b);
        if (strcmp(one, two) != 0)
            return different(numbers[i].what, a_name, one, b_name, two, err);
    }
    if (strcmp(a->accelerator, b->accelerator) != 0)
        return different("accelerator", a_name, a->accelerator, b_name, b->accelerator, err);
    if (strcmp(a->model, b->model) != 0)
        return different("model", a_name, *a->model ? a->model : "not said", b_name, *b->model ? b->model : "not said",
                         err);
    *pair_out = pair;
    return LEAT_OK;
}

static void note_number(struct leat_compare *c, const char *what, double a, double b)
{
    if (a != b && c->changes < sizeof c->changed / sizeof *c->changed)
        snprintf(c->changed[c->changes++], sizeof c->changed[0], "%s: %.0f, then %.0f", what, a, b);
}

static void note_text(struct leat_compare *c, const char *what, const char *a, const char *b)
{
    if (strcmp(a, b) != 0 && c->changes < sizeof c->changed / sizeof *c->changed)
        snprintf(c->changed[c->changes++], sizeof c->changed[0], "%s: %.40s, then %.40s", what, a, b);
}

static double half(const struct leat_report_time *t)
{
    return (t->high - t->low) / 2;
}

static void add(struct leat_compare *c, const char *what, struct leat_report_time a, struct leat_report_time b,
                double allowed)
{
    struct leat_compare_row *row = &c->row[c->rows];
    if (c->rows == LEAT_COMPARE_ROWS)
        return;
    *row = (struct leat_compare_row){.a = a, .b = b, .known = !isnan(allowed)};
    row->beyond = row->known && fabs(b.mean - a.mean) > allowed;
    snprintf(row->what, sizeof row->what, "%s", what);
    c->rows++;
}

static const struct leat_report_stall *stall_of(const struct leat_report *r, const char *cause)
{
    for (size_t i = 0; i < r->stalls; i++) {
        if (r->stall[i].from[1] >= 0 && strcmp(r->stall[i].cause, cause) == 0)
            return &r->stall[i];
    }
    return NULL;
}

static void add_parts(struct leat_compare *c, const struct leat_report_run *x, const struct leat_report_run *y,
                      double allowed)
{
    for (size_t p = 0; p < LEAT_REPORT_PARTS; p++) {
        struct leat_report_time a = {x->part_s[p], NAN, NAN};
        struct leat_report_time b = {y->part_s[p], NAN, NAN};
        char what[48];
        if (!(fmax(a.mean, b.mean) > WORTH * fmax(x->step_s.mean, y->step_s.mean)))
            continue;
        snprintf(what, sizeof what, "  %s", leat_report_part_name((enum leat_report_part)p));
        add(c, what, a, b, allowed);
    }
}

/* Of two clusters: steps without their data, and what the one with more machines takes more. */
static leat_status add_pair(const char *a_name, const struct leat_report *a, const char *b_name,
                            const struct leat_report *b, const char *pair, struct leat_compare *out,
                            struct leat_error *err)
{
    const struct leat_report_run *x = leat_report_find(a, LEAT_REPORT_SYNTHETIC);
    const struct leat_report_run *y = leat_report_find(b, LEAT_REPORT_SYNTHETIC);
    const struct leat_report_time none = {0, 0, 0};
    if (!x || !y)
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "not enough data: %s has no synthetic run (--time), and clusters are compared by those",
                         !x ? a_name : b_name);
    double allowed = hypot(half(&x->step_s), half(&y->step_s));
    double more = y->nodes > x->nodes ? y->step_s.mean - x->step_s.mean : x->step_s.mean - y->step_s.mean;
    struct leat_report_time t = {more, more - allowed, more + allowed};
    *out = (struct leat_compare){0};
    add(out, "step, synthetic", x->step_s, y->step_s, allowed);
    add(out, pair, y->nodes > x->nodes ? none : t, y->nodes > x->nodes ? t : none, allowed);
    snprintf(out->changed[out->changes++], sizeof out->changed[0], "machines × ranks: %u × %u, then %u × %u", x->nodes,
             x->gpus, y->nodes, y->gpus);
    return LEAT_OK;
}

leat_status leat_compare(const char *a_name, const struct leat_report *a, const char *b_name,
                         const struct leat_report *b, struct leat_compare *out, struct leat_error *err)
{
    const char *pair = NULL;
    leat_status rc = same_job(a_name, a, b_name, b, &pair, err);
    if (rc != LEAT_OK)
        return rc;
    if (pair)
        return add_pair(a_name, a, b_name, b, pair, out, err);
    *out = (struct leat_compare){0};
    for (unsigned m = 0; m < LEAT_REPORT_MODES; m++) {
        const struct leat_report_run *x = leat_report_find(a, (enum leat_report_mode)m);
        const struct leat_report_run *y = leat_report_find(b, (enum leat_report_mode)m);
        char what[48];
        if (!x || !y)
            continue;
        double allowed = hypot(half(&x->step_s), half(&y->step_s));
        snprintf(what, sizeof what, "step, %s", leat_report_mode_name((enum leat_report_mode)m));
        add(out, what, x->step_s, y->step_s, allowed);
        if (m == LEAT_REPORT_OBSERVED)
            add_parts(out, x, y, allowed);
    }
    for (size_t i = 0; i < a->stalls; i++) {
        const struct leat_report_stall *one = &a->stall[i];
        const struct leat_report_stall *two = stall_of(b, one->cause);
        char what[48];
        if (one->from[1] < 0 || !two || stall_of(a, one->cause) != one)
            continue;
        snprintf(what, sizeof what, "stall: %s", one->cause);
        add(out, what, one->s, two->s, hypot(half(&one->s), half(&two->s)));
    }
    const struct leat_report_run *x = leat_report_find(a, LEAT_REPORT_OBSERVED);
    const struct leat_report_run *y = leat_report_find(b, LEAT_REPORT_OBSERVED);
    note_number(out, "workers", x->workers, y->workers);
    note_number(out, "cores", x->cores, y->cores);
    note_text(out, "machine", *a->type ? a->type : "not said", *b->type ? b->type : "not said");
    note_text(out, "command", a->command, b->command);
    note_text(out, "leat", a->leat, b->leat);
    return LEAT_OK;
}
