#include "plan/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/speed.h"

static bool of_job(const struct leat_plan_job *job, const struct leat_plan_measure *m)
{
    return !*m->model || strcmp(m->model, job->name) == 0;
}

static bool matches(const struct leat_plan_measure *m, const struct leat_plan_engine *e)
{
    return *e->type ? strcmp(m->type, e->type) == 0 : !*m->type && strcmp(m->accelerator, e->accelerator) == 0;
}

bool leat_plan_engine_has(const struct leat_plan_engine *e, const struct leat_plan_job *job,
                          const struct leat_plan_measure *m)
{
    return of_job(job, m) && matches(m, e) && (isnan(m->batch) || m->batch == job->value[LEAT_KEY_BATCH]);
}

bool leat_plan_engine_by_type(const struct leat_plan_measures *measures, const char *type)
{
    for (size_t i = 0; i < measures->count; i++) {
        if (*measures->row[i].type && strcmp(measures->row[i].type, type) == 0)
            return true;
    }
    return false;
}

void leat_plan_engine_source(const struct leat_plan_measures *measures, const struct leat_plan_measure *m,
                             const char *what, char *out, size_t n)
{
    if (m->line)
        snprintf(out, n, "%s, %.80s line %u", what, leat_plan_tail(measures->name[m->file]), m->line);
    else
        snprintf(out, n, "%s, %.80s", what, leat_plan_tail(measures->name[m->file]));
}

/* Measured at the job's own batch. */
static bool take_measured(const struct leat_plan_job *job, const struct leat_plan_measures *measures,
                          struct leat_plan_engine *e)
{
    double sum = 0;
    double squares = 0;
    unsigned n = 0;
    double batch = job->value[LEAT_KEY_BATCH];
    for (size_t i = 0; i < measures->count; i++) {
        const struct leat_plan_measure *m = &measures->row[i];
        if (!of_job(job, m) || !matches(m, e) || m->gpus * m->nodes != 1 || isnan(m->step_s))
            continue;
        if (!isnan(m->batch) && m->batch != batch)
            continue;
        sum += log(m->step_s);
        squares += log(m->step_s) * log(m->step_s);
        if (n++ == 0)
            leat_plan_engine_source(measures, m, "measured", e->step_source, sizeof e->step_source);
    }
    if (!n)
        return false;
    double mean = sum / n;
    e->step_s = exp(mean);
    double variance =
        n > 1 ? fmax(0, squares - n * mean * mean) / (n - 1) : LEAT_PLAN_SPREAD_ONCE * LEAT_PLAN_SPREAD_ONCE;
    e->step_spread = fmax(LEAT_PLAN_SPREAD_LEAST, sqrt(variance));
    return true;
}

static bool at_other_batch(const struct leat_plan_job *job, const struct leat_plan_engine *e,
                           const struct leat_plan_measure *m)
{
    return of_job(job, m) && matches(m, e) && m->gpus * m->nodes == 1 && !isnan(m->step_s) && !isnan(m->batch);
}

static void say_beyond(struct leat_plan_engine *e, double times)
{
    size_t at = strlen(e->step_source);
    if (times > 1.005)
        snprintf(e->step_source + at, sizeof e->step_source - at, ", %.3g times beyond them", times);
}

struct line {
    double rows;
    double batch; /* means */
    double step_s;
    double slope;
    double least; /* batches */
    double most;
};

/* The first row's batch in `most` where all are the same; false then, and where there are none. */
static bool fit_line(const struct leat_plan_job *job, const struct leat_plan_engine *e, struct line *out)
{
    const struct leat_plan_measures *measures = e->measures;
    double squares = 0;
    double products = 0;
    *out = (struct line){.least = HUGE_VAL};
    for (size_t i = 0; i < measures->count; i++) {
        const struct leat_plan_measure *m = &measures->row[i];
        if (!at_other_batch(job, e, m))
            continue;
        double before = out->batch;
        out->rows++;
        out->batch += (m->batch - out->batch) / out->rows;
        out->step_s += (m->step_s - out->step_s) / out->rows;
        squares += (m->batch - before) * (m->batch - out->batch);
        products += (m->batch - before) * (m->step_s - out->step_s);
        out->least = fmin(out->least, m->batch);
        out->most = fmax(out->most, m->batch);
    }
    out->slope = products / squares;
    return out->most > out->least;
}

/* The relative error of the line at a batch, from that of the measurements: each counts with its weight there. */
static double line_spread(const struct leat_plan_job *job, const struct leat_plan_engine *e, const struct line *line,
                          double batch, double step_s)
{
    const struct leat_plan_measures *measures = e->measures;
    double squares = 0;
    double sum = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < measures->count; i++) {
            const struct leat_plan_measure *m = &measures->row[i];
            double off = m->batch - line->batch;
            if (!at_other_batch(job, e, m))
                continue;
            double weight = 1 / line->rows + (pass ? (batch - line->batch) * off / squares : 0);
            squares += pass ? 0 : off * off;
            sum += pass ? weight * m->step_s * weight * m->step_s : 0;
        }
    }
    return LEAT_PLAN_SPREAD_ONCE * sqrt(sum) / step_s;
}

/* Measured at two or more other batches: a straight line through them. */
static bool take_other_batches(const struct leat_plan_job *job, struct leat_plan_engine *e)
{
    struct line line;
    double batch = job->value[LEAT_KEY_BATCH];
    if (!fit_line(job, e, &line)) {
        if (line.rows > 0)
            snprintf(e->missing, sizeof e->missing,
                     "%s was measured at batch %g, but the job has %g: measure at the job's batch, or at two others",
                     e->accelerator, line.most, batch);
        return false;
    }
    double step_s = line.step_s + line.slope * (batch - line.batch);
    double beyond = fmax(1, fmax(batch / line.most, line.least / batch));
    if (!(step_s > 0) || beyond > LEAT_PLAN_FIT_BEYOND_MAX) {
        snprintf(e->missing, sizeof e->missing,
                 "%s was measured at batches of %g to %g, and the job's %g is too far from them for a straight line: "
                 "measure at the job's batch",
                 e->accelerator, line.least, line.most, batch);
        return false;
    }
    e->step_s = step_s;
    e->step_spread = hypot(fmax(2 * LEAT_PLAN_SPREAD_ONCE, line_spread(job, e, &line, batch, step_s)),
                           LEAT_PLAN_FIT_DOUBLING * log2(beyond));
    snprintf(e->step_source, sizeof e->step_source, "a line through %.0f batches in %.80s", line.rows,
             leat_plan_tail(e->measures->name[0]));
    say_beyond(e, beyond);
    return true;
}

/* Leaves step_s at 0 when there is nothing to fit to. */
static leat_status take_regression(const struct leat_plan_job *job, const struct leat_plan_measures *measures,
                                   struct leat_plan_engine *e, struct leat_error *err)
{
    struct leat_plan_model model;
    struct leat_plan_prediction step;
    struct leat_error why;
    struct leat_plan_measure row = {
        .flops = job->value[LEAT_KEY_FLOPS] * job->value[LEAT_KEY_BATCH],
        .parameters = job->value[LEAT_KEY_PARAMETERS],
        .tensors = job->value[LEAT_KEY_TENSORS],
    };
    leat_status rc = leat_plan_model_fit(measures, LEAT_PLAN_STEP, e->accelerator, &model, NULL, NULL, err);
    if (rc != LEAT_OK)
        return rc == LEAT_NO_MEMORY ? rc : LEAT_OK;
    const char *missing = leat_plan_model_lacks(&model, &row);
    if (missing) {
        snprintf(e->missing, sizeof e->missing,
                 "the step time of %s would be fitted to %s, which the job does not give (model.%s)", e->accelerator,
                 missing, strcmp(missing, "flops_per_step") == 0 ? "flops" : missing);
        return LEAT_OK;
    }
    if (leat_plan_model_predict(&model, &row, 0.9, &step, &why) != LEAT_OK) {
        snprintf(e->missing, sizeof e->missing, "the step time of %s: %.180s: measure this job on it", e->accelerator,
                 why.text);
        return LEAT_OK;
    }
    e->step_s = step.s.mean;
    e->step_spread = log1p(step.spread);
    snprintf(e->step_source, sizeof e->step_source, "fitted to %zu models in %.40s, error of models left out %.1f %%",
             model.fit.rows, leat_plan_tail(measures->name[0]), 100 * model.fit.left_out_mean);
    say_beyond(e, step.beyond);
    return LEAT_OK;
}

/* A job without its name finds none of its own lines: that is worth telling apart from there being none. */
static void say_unknown(const struct leat_plan_job *job, const struct leat_plan_measures *measures,
                        struct leat_plan_engine *e)
{
    for (size_t i = 0; i < measures->count; i++) {
        const struct leat_plan_measure *m = &measures->row[i];
        if (of_job(job, m) || !matches(m, e) || isnan(m->step_s))
            continue;
        snprintf(e->missing, sizeof e->missing,
                 "%s was measured with '%s' (%.80s line %u) and the job is called '%s': give it that name (job.name), "
                 "or the models' FLOPs to fit to",
                 e->accelerator, m->model, leat_plan_tail(measures->name[m->file]), m->line, job->name);
        return;
    }
    snprintf(e->missing, sizeof e->missing,
             "nothing is known about the speed of %s: measure this job on it%s, or other models to fit to",
             e->accelerator, job->mixed_precision ? "" : ", or say model.precision");
}

/* Newer accelerators reach less of their peak rates: speeds grow with the ratio of those to this power. Fitted to
 * eleven published pairs of V100 and A100 speeds, 14.9 % off in families left out (bench/bench_plan_tables.c); what the
 * rates themselves say is 31 % off. */
#define PEAK_POWER  0.72
#define PEAK_SPREAD 0.18

/* Towards those that are slower in rates or in bandwidth, such as from a V100 to a T4 or an L40S, nothing was published
 * to judge by: half and half, without the power, which would flatter them. */
#define SLOWER_SHARE  0.5
#define SLOWER_SPREAD 0.3

/* A step is part computing, part moving bytes; each goes as the peak rates of the two accelerators. Where FLOPs and
 * bytes of a sample are known they say how much of either, else all is taken for computing, or half of it where one of
 * the two gets worse. */
static double carried_over(const struct leat_plan_job *job, const struct leat_plan_accelerator *from,
                           const struct leat_plan_accelerator *to, double *spread)
{
    double computing = log(from->tensor_tflops / to->tensor_tflops);
    double moving = log(from->memory_gb_per_s / to->memory_gb_per_s);
    double flops_s = job->value[LEAT_KEY_FLOPS] / (from->tensor_tflops * 1e12);
    double bytes_s = job->value[LEAT_KEY_TRAFFIC] / (from->memory_gb_per_s * 1e9);
    double share = flops_s / (flops_s + bytes_s);
    /* The farther apart the two accelerators are, and the two rates' answers, the less a rule of thumb is worth. */
    bool slower = computing > 0 || moving > 0; /* in one of them at least */
    *spread = fmax(slower ? SLOWER_SPREAD : PEAK_SPREAD, 0.35 * fabs(computing - moving));
    *spread = fmax(*spread, 0.2 * fabs(computing + moving) / 2);
    if (isnan(share))
        share = slower ? SLOWER_SHARE : 1;
    return exp((slower ? 1 : PEAK_POWER) * (share * computing + (1 - share) * moving));
}

/* From the measured accelerator that is most like this one. */
static void take_transfer(const struct leat_plan_job *job, const struct leat_plan_measures *measures,
                          const struct leat_plan_hardware *hardware, struct leat_plan_engine *e)
{
    struct leat_plan_accelerator to;
    double best = HUGE_VAL;
    if (!job->mixed_precision || !leat_plan_hardware_accelerator(hardware, e->accelerator, &to))
        return;
    for (size_t i = 0; i < measures->count; i++) {
        const struct leat_plan_measure *m = &measures->row[i];
        struct leat_plan_accelerator from;
        double spread;
        if (!of_job(job, m) || m->gpus * m->nodes != 1 || isnan(m->step_s) ||
            (!isnan(m->batch) && m->batch != job->value[LEAT_KEY_BATCH]) ||
            !leat_plan_hardware_accelerator(hardware, m->accelerator, &from))
            continue;
        double ratio = carried_over(job, &from, &to, &spread);
        if (!(fabs(log(ratio)) < best) || !(ratio > 0))
            continue;
        best = fabs(log(ratio));
        e->step_s = m->step_s * ratio;
        e->step_spread = hypot(spread, LEAT_PLAN_SPREAD_ONCE);
        snprintf(e->step_source, sizeof e->step_source,
                 "not measured: carried over from %s (%.60s line %u) by peak rates, ± %.0f %%", m->accelerator,
                 leat_plan_tail(measures->name[m->file]), m->line, 100 * e->step_spread);
        e->transferred = true;
    }
}

leat_status leat_plan_engine_make(const struct leat_plan_job *job, const struct leat_plan_measures *measures,
                                  const struct leat_plan_hardware *hardware, const char *type, const char *accelerator,
                                  struct leat_plan_engine *out, struct leat_error *err)
{
    struct leat_plan_engine e = {.cap = HUGE_VAL, .measures = measures};
    bool by_type = leat_plan_engine_by_type(measures, type);
    snprintf(e.accelerator, sizeof e.accelerator, "%s", accelerator);
    snprintf(e.type, sizeof e.type, "%s", by_type ? type : "");
    leat_status rc = LEAT_OK;
    if (!take_measured(job, measures, &e) && !take_other_batches(job, &e))
        rc = take_regression(job, measures, &e, err);
    if (rc == LEAT_OK && !(e.step_s > 0))
        take_transfer(job, measures, hardware, &e);
    if (e.step_s > 0)
        e.missing[0] = '\0'; /* what one way lacked, another had */
    else if (rc == LEAT_OK && !*e.missing)
        say_unknown(job, measures, &e);
    if (rc == LEAT_OK && e.step_s > 0)
        rc = leat_plan_speed_fit(job, measures, &e, err);
    if (rc != LEAT_OK) {
        leat_plan_engine_free(&e);
        return rc;
    }
    *out = e;
    return LEAT_OK;
}

void leat_plan_engine_free(struct leat_plan_engine *engine)
{
    free(engine->saturation);
    free(engine->cache);
    free(engine->measured);
    free(engine->inside);
    free(engine->network);
    *engine = (struct leat_plan_engine){0};
}
