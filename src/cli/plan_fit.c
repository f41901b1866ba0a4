/* leat plan fit: the regressions over a table of measurements, their honest errors, and predictions. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/plan.h"
#include "plan/measure.h"

#define FITS_MAX 64

struct fit {
    const char *accelerator; /* NULL: all, for checkpoints */
    struct leat_plan_model model;
    bool *used;
    double *left_out;
};

struct fits {
    struct leat_plan_measures data;
    struct leat_plan_measures asked;
    struct leat_plan_notes notes;
    struct fit fit[FITS_MAX];
    size_t count;
};

static void fits_free(struct fits *f)
{
    for (size_t i = 0; i < FITS_MAX; i++) {
        free(f->fit[i].used);
        free(f->fit[i].left_out);
    }
    leat_plan_measures_free(&f->data);
    leat_plan_measures_free(&f->asked);
    free(f);
}

static leat_status read_measures(const char *path, struct leat_plan_measures *out, struct leat_plan_notes *notes,
                                 struct leat_error *err)
{
    struct leat_buf text;
    leat_buf_init(&text, PLAN_FILE_MAX);
    leat_status rc = leat_cli_plan_read(path, &text, NULL, err);
    if (rc == LEAT_OK)
        rc = leat_plan_measures_csv(path, text.data, text.len, out, notes, err);
    leat_buf_free(&text);
    return rc;
}

static leat_status add_fit(struct fits *f, enum leat_plan_target target, const char *accelerator,
                           struct leat_error *err)
{
    struct fit *fit = &f->fit[f->count];
    fit->accelerator = accelerator;
    fit->used = calloc(f->data.count, sizeof *fit->used);
    fit->left_out = calloc(f->data.count, sizeof *fit->left_out);
    if (!fit->used || !fit->left_out)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to fit %zu rows", f->data.count);
    leat_status rc = leat_plan_model_fit(&f->data, target, accelerator, &fit->model, fit->used, fit->left_out, err);
    if (rc == LEAT_OK)
        f->count++;
    else
        leat_fail_context(err, rc, "%s of %s", target == LEAT_PLAN_STEP ? "steps" : "checkpoints",
                          accelerator ? accelerator : f->data.name[0]);
    return rc;
}

/* What has too few rows is noted beside what has enough; `failed` counts them. */
static leat_status try_fit(struct fits *f, enum leat_plan_target target, const char *accelerator, size_t *failed,
                           struct leat_error *err)
{
    leat_status rc = add_fit(f, target, accelerator, err);
    if (rc != LEAT_INVALID)
        return rc;
    free(f->fit[f->count].used);
    free(f->fit[f->count].left_out);
    f->fit[f->count] = (struct fit){0};
    leat_plan_note(&f->notes, "%s", err->text);
    ++*failed;
    return LEAT_OK;
}

/* A regression an accelerator that has rows for one, and one over all checkpoints. */
static leat_status fit_all(struct fits *f, struct leat_error *err)
{
    bool checkpoints = false;
    size_t failed = 0;
    for (size_t i = 0; i < f->data.count; i++) {
        const struct leat_plan_measure *m = &f->data.row[i];
        bool seen = false;
        checkpoints |= !isnan(m->checkpoint_s);
        for (size_t k = 0; k < f->count; k++)
            seen |= strcmp(f->fit[k].accelerator, m->accelerator) == 0;
        if (seen || isnan(m->step_s) || isnan(m->flops))
            continue;
        if (f->count + 1 == FITS_MAX)
            return leat_fail(err, LEAT_LIMIT, "%s: more than %d accelerators", f->data.name[0], FITS_MAX - 1);
        leat_status rc = try_fit(f, LEAT_PLAN_STEP, m->accelerator, &failed, err);
        if (rc != LEAT_OK)
            return rc;
    }
    if (checkpoints) {
        leat_status rc = try_fit(f, LEAT_PLAN_CHECKPOINT, NULL, &failed, err);
        if (rc != LEAT_OK)
            return rc;
    }
    if (!f->count && failed)
        return leat_fail(err, LEAT_INVALID, "nothing can be fitted");
    if (!f->count)
        return leat_fail(
            err, LEAT_INVALID,
            "%s: nothing to fit: step_s with flops_per_step, or checkpoint_s with checkpoint_bytes, is needed",
            f->data.name[0]);
    return LEAT_OK;
}

static void print_fit(const struct fits *f, const struct fit *fit)
{
    const struct leat_plan_fit *c = &fit->model.fit;
    bool step = fit->model.target == LEAT_PLAN_STEP;
    printf("%s%s%s: %zu rows, error of rows left out: mean %.1f %%, worst %.1f %%\n", step ? "step of " : "checkpoint",
           step && !*fit->accelerator ? "any accelerator" : "", step ? fit->accelerator : "", c->rows,
           100 * c->left_out_mean, 100 * c->left_out_worst);
    printf("  seconds = %.4g", c->constant);
    for (size_t i = 0; i < c->features; i++)
        printf(" + %.4g × %s", c->slope[i], fit->model.column[i]);
    printf("\n\n  %-24s %10s %10s %8s  %s\n", "model", "measured", "left out", "error", "interval (9 of 10)");
    for (size_t i = 0; i < f->data.count; i++) {
        const struct leat_plan_measure *m = &f->data.row[i];
        if (!fit->used[i])
            continue;
        double y = step ? m->step_s : m->checkpoint_s;
        double width = exp(leat_plan_t_quantile(0.95, c->freedom) * log1p(c->spread));
        printf("  %-24s %10.4f %10.4f %+7.1f %%  [%.4f, %.4f]\n", *m->model ? m->model : "-", y, fit->left_out[i],
               100 * (fit->left_out[i] / y - 1), fit->left_out[i] / width, fit->left_out[i] * width);
    }
    putchar('\n');
}

/* Whether a row asks for what was fitted. Of checkpoints only where it says how large one is. */
static bool applies(const struct fit *fit, const struct leat_plan_measure *m)
{
    if (fit->model.target == LEAT_PLAN_STEP)
        return isnan(m->step_s) && strcmp(fit->accelerator, m->accelerator) == 0;
    return isnan(m->checkpoint_s) && !isnan(m->checkpoint_bytes);
}

static void print_prediction(const struct fits *f, const struct leat_plan_measure *m)
{
    bool any = false;
    for (size_t k = 0; k < f->count; k++) {
        const struct fit *fit = &f->fit[k];
        bool step = fit->model.target == LEAT_PLAN_STEP;
        struct leat_plan_prediction p;
        struct leat_error why;
        if (!applies(fit, m))
            continue;
        any = true;
        printf("  line %-4u %-24s %-10s %-10s ", m->line, *m->model ? m->model : "-",
               *m->accelerator ? m->accelerator : "-", step ? "step" : "checkpoint");
        if (leat_plan_model_predict(&fit->model, m, 0.9, &p, &why) != LEAT_OK) {
            printf("%s\n", why.text);
            continue;
        }
        printf("%.4f s [%.4f, %.4f]", p.s.mean, p.s.lo, p.s.hi);
        if (p.beyond > 1.005)
            printf(", %.3g times beyond the fitted %s", p.beyond, p.column);
        putchar('\n');
    }
    if (!any)
        printf("  line %-4u %-24s %-10s nothing to predict, or no fit for its accelerator\n", m->line, m->model,
               m->accelerator);
}

/* Rows of the data itself that say what to predict from but not the time. */
static bool lacks_time(const struct leat_plan_measure *m)
{
    return (isnan(m->step_s) && !isnan(m->flops)) || (isnan(m->checkpoint_s) && !isnan(m->checkpoint_bytes));
}

static void print_predictions(const struct fits *f, const struct leat_plan_measures *rows, bool all)
{
    bool begun = false;
    for (size_t i = 0; i < rows->count; i++) {
        if (!all && !lacks_time(&rows->row[i]))
            continue;
        if (!begun)
            printf("%s%s:\n", rows->name[0], all ? "" : ", rows without a time");
        begun = true;
        print_prediction(f, &rows->row[i]);
    }
}

static json_t *number(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *fit_json(const struct fits *f, const struct fit *fit)
{
    const struct leat_plan_fit *c = &fit->model.fit;
    bool step = fit->model.target == LEAT_PLAN_STEP;
    double width = exp(leat_plan_t_quantile(0.95, c->freedom) * log1p(c->spread));
    json_t *rows = json_array();
    json_t *slopes = json_object();
    for (size_t i = 0; i < c->features; i++)
        json_object_set_new(slopes, fit->model.column[i], number(c->slope[i]));
    for (size_t i = 0; i < f->data.count; i++) {
        const struct leat_plan_measure *m = &f->data.row[i];
        double p = fit->left_out[i];
        if (fit->used[i])
            json_array_append_new(rows,
                                  json_pack("{s:i, s:s, s:o, s:o, s:o, s:o}", "line", (int)m->line, "model", m->model,
                                            "measured_s", number(step ? m->step_s : m->checkpoint_s), "left_out_s",
                                            number(p), "lo_s", number(p / width), "hi_s", number(p * width)));
    }
    return json_pack("{s:s, s:s?, s:o, s:o, s:o, s:o, s:o}", "target", step ? "step" : "checkpoint", "accelerator",
                     step ? fit->accelerator : NULL, "constant_s", number(c->constant), "slopes", slopes,
                     "left_out_mean", number(c->left_out_mean), "left_out_worst", number(c->left_out_worst), "rows",
                     rows);
}

static void predictions_json(const struct fits *f, const struct leat_plan_measures *rows, bool all, json_t *out)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct leat_plan_measure *m = &rows->row[i];
        for (size_t k = 0; k < f->count && (all || lacks_time(m)); k++) {
            const struct fit *fit = &f->fit[k];
            bool step = fit->model.target == LEAT_PLAN_STEP;
            struct leat_plan_prediction p = {.s = {NAN, NAN, NAN}, .beyond = NAN};
            struct leat_error why;
            if (!applies(fit, m))
                continue;
            leat_status rc = leat_plan_model_predict(&fit->model, m, 0.9, &p, &why);
            json_array_append_new(
                out, json_pack("{s:s, s:i, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:s?}", "file", rows->name[0], "line",
                               (int)m->line, "model", m->model, "accelerator", m->accelerator, "target",
                               step ? "step" : "checkpoint", "mean_s", number(p.s.mean), "lo_s", number(p.s.lo), "hi_s",
                               number(p.s.hi), "beyond", number(p.beyond), "why_not", rc == LEAT_OK ? NULL : why.text));
        }
    }
}

static leat_status print_json(const struct fits *f, struct leat_error *err)
{
    json_t *fits = json_array();
    json_t *predictions = json_array();
    for (size_t i = 0; i < f->count; i++)
        json_array_append_new(fits, fit_json(f, &f->fit[i]));
    predictions_json(f, &f->data, false, predictions);
    predictions_json(f, &f->asked, true, predictions);
    return leat_cli_print_json(json_pack("{s:i, s:o, s:o}", "version", 2, "fits", fits, "predictions", predictions), 6,
                               err);
}

int leat_cli_plan_fit(const struct plan_settings *s, const char *path)
{
    struct leat_error err;
    struct leat_buf text;
    leat_buf_init(&text, PLAN_FILE_MAX);
    leat_status rc = leat_cli_plan_read(path, &text, NULL, &err);
    if (rc == LEAT_OK && leat_cli_plan_has_lives(path, &text)) {
        int status = leat_cli_plan_fit_lives(s, path, &text);
        leat_buf_free(&text);
        return status;
    }
    struct fits *f = rc == LEAT_OK ? calloc(1, sizeof *f) : NULL;
    if (!f) {
        leat_buf_free(&text);
        return rc == LEAT_OK ? leat_cli_failf(LEAT_NO_MEMORY, "no memory to fit") : leat_cli_fail(&err);
    }
    rc = leat_plan_measures_csv(path, text.data ? text.data : "", text.len, &f->data, &f->notes, &err);
    leat_buf_free(&text);
    if (rc == LEAT_OK)
        rc = fit_all(f, &err);
    if (rc == LEAT_OK && s->predict)
        rc = read_measures(s->predict, &f->asked, &f->notes, &err);
    leat_cli_plan_notes(&f->notes, LEAT_LOG_WARN);
    if (rc != LEAT_OK) {
        fits_free(f);
        return leat_cli_fail(&err);
    }
    if (s->json) {
        rc = print_json(f, &err);
    } else {
        for (size_t i = 0; i < f->count; i++)
            print_fit(f, &f->fit[i]);
        print_predictions(f, &f->data, false);
        print_predictions(f, &f->asked, true);
    }
    fits_free(f);
    return rc == LEAT_OK ? leat_cli_finish() : leat_cli_fail(&err);
}
