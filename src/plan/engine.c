#include "plan/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two runs of the same job on two machines of the same kind differ by about so much; said in docs/plan.md. */
#define SPREAD_ONCE    0.03 /* measured once */
#define SPREAD_LEAST   0.01 /* however often measured */
#define SPREAD_LINK    0.05 /* a link fitted to measurements */
#define SPREAD_NOMINAL 0.15 /* a link known by its nominal bandwidth */
#define KNEE_NOMINAL   6.0  /* steps that vary by a fifth */

static bool of_job(const struct leat_plan_job *job, const struct leat_plan_measure *m)
{
    return !*m->model || strcmp(m->model, job->name) == 0;
}

/* Lines about this very type win over those about its accelerator. */
static bool matches(const struct leat_plan_measure *m, const struct leat_plan_engine *e, bool by_type)
{
    return by_type ? strcmp(m->type, e->type) == 0 : !*m->type && strcmp(m->accelerator, e->accelerator) == 0;
}

static bool any_by_type(const struct leat_plan_measures *measures, const char *type)
{
    for (size_t i = 0; i < measures->count; i++) {
        if (*measures->row[i].type && strcmp(measures->row[i].type, type) == 0)
            return true;
    }
    return false;
}

static void source_of(const struct leat_plan_measures *measures, const struct leat_plan_measure *m, const char *what,
                      char *out, size_t n)
{
    if (m->line)
        snprintf(out, n, "%s, %.80s line %u", what, leat_plan_tail(measures->name), m->line);
    else
        snprintf(out, n, "%s, %.80s", what, leat_plan_tail(measures->report));
}

/* Measured at the job's own batch. */
static bool take_measured(const struct leat_plan_job *job, const struct leat_plan_measures *measures,
                          struct leat_plan_engine *e, bool by_type)
{
    double sum = 0;
    double squares = 0;
    unsigned n = 0;
    double batch = job->value[LEAT_KEY_BATCH];
    for (size_t i = 0; i < measures->count; i++) {
        const struct leat_plan_measure *m = &measures->row[i];
        if (!of_job(job, m) || !matches(m, e, by_type) || m->gpus * m->nodes != 1 || isnan(m->step_s))
            continue;
        if (!isnan(m->batch) && m->batch != batch)
            continue;
        sum += log(m->step_s);
        squares += log(m->step_s) * log(m->step_s);
        if (n++ == 0)
            source_of(measures, m, "measured", e->step_source, sizeof e->step_source);
    }
    if (!n)
        return false;
    double mean = sum / n;
    e->step_s = exp(mean);
    double variance = n > 1 ? fmax(0, squares - n * mean * mean) / (n - 1) : SPREAD_ONCE * SPREAD_ONCE;
    e->step_spread = fmax(SPREAD_LEAST, sqrt(variance));
    return true;
}

/* Measured at two or more other batches: a straight line through them. */
static bool take_other_batches(const struct leat_plan_job *job, const struct leat_plan_measures *measures,
                               struct leat_plan_engine *e, bool by_type)
{
    double n = 0;
    double sx = 0;
    double sy = 0;
    double sxx = 0;
    double sxy = 0;
    double only = 0;
    for (size_t i = 0; i < measures->count; i++) {
        const struct leat_plan_measure *m = &measures->row[i];
        if (!of_job(job, m) || !matches(m, e, by_type) || m->gpus * m->nodes != 1 || isnan(m->step_s) ||
            isnan(m->batch))
            continue;
        n++;
        sx += m->batch;
        sy += m->step_s;
        sxx += m->batch * m->batch;
        sxy += m->batch * m->step_s;
        only = m->batch;
    }
    double variance = n ? n * sxx - sx * sx : 0;
    if (variance <= 0) {
        if (n > 0)
            snprintf(e->missing, sizeof e->missing,
                     "%s was measured at batch %g and the job has %g: measure at that one, or at two others",
                     e->accelerator, only, job->value[LEAT_KEY_BATCH]);
        return false;
    }
    double slope = (n * sxy - sx * sy) / variance;
    e->step_s = (sy - slope * sx) / n + slope * job->value[LEAT_KEY_BATCH];
    e->step_spread = 2 * SPREAD_ONCE;
    snprintf(e->step_source, sizeof e->step_source, "a line through %.0f batches in %.80s", n,
             leat_plan_tail(measures->name));
    return e->step_s > 0;
}

/* Leaves step_s at 0 when there is nothing to fit to. */
static leat_status take_regression(const struct leat_plan_job *job, const struct leat_plan_measures *measures,
                                   struct leat_plan_engine *e, struct leat_error *err)
{
    struct leat_plan_model model;
    const char *missing = NULL;
    struct leat_plan_interval step;
    struct leat_plan_measure row = {
        .flops = job->value[LEAT_KEY_FLOPS] * job->value[LEAT_KEY_BATCH],
        .parameters = job->value[LEAT_KEY_PARAMETERS],
        .tensors = job->value[LEAT_KEY_TENSORS],
    };
    leat_status rc = leat_plan_model_fit(measures, LEAT_PLAN_STEP, e->accelerator, &model, NULL, NULL, err);
    if (rc != LEAT_OK)
        return rc == LEAT_NO_MEMORY ? rc : LEAT_OK;
    if (!leat_plan_model_predict(&model, &row, 0.9, &step, &missing)) {
        snprintf(e->missing, sizeof e->missing,
                 "the step time of %s would be fitted to %s, which the job does not give (model.%s)", e->accelerator,
                 missing, strcmp(missing, "flops_per_step") == 0 ? "flops" : missing);
        return LEAT_OK;
    }
    e->step_s = step.mean;
    e->step_spread = log1p(model.fit.spread);
    snprintf(e->step_source, sizeof e->step_source, "fitted to %zu models in %.60s, error of models left out %.1f %%",
             model.fit.rows, leat_plan_tail(measures->name), 100 * model.fit.left_out_mean);
    return LEAT_OK;
}

static void take_link_cap(const struct leat_plan_job *job, struct leat_plan_engine *e)
{
    double bytes = job->value[LEAT_KEY_PARAMETER_BYTES];
    double rate = job->value[LEAT_KEY_NETWORK_RATE];
    e->cap = HUGE_VAL;
    if (isnan(bytes) || isnan(rate))
        return;
    /* Every step brings the gradients to the server and the parameters back; both directions at once. */
    e->cap = rate / bytes * job->value[LEAT_KEY_BATCH];
    snprintf(e->scale_source, sizeof e->scale_source, "capped by the server's link (%s)",
             job->source[LEAT_KEY_NETWORK_RATE]);
}

static leat_status fit_async(const struct leat_plan_job *job, const struct leat_plan_measures *measures,
                             struct leat_plan_engine *e, bool by_type, struct leat_error *err)
{
    double *workers = calloc(2 * (measures->count + 1), sizeof *workers);
    if (!workers)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for measured speeds");
    double *speed = workers + measures->count + 1;
    size_t n = 0;
    leat_status rc = LEAT_OK;
    for (size_t i = 0; i < measures->count; i++) {
        const struct leat_plan_measure *m = &measures->row[i];
        if (!of_job(job, m) || !matches(m, e, by_type) || isnan(m->samples_per_s) ||
            (!isnan(m->batch) && m->batch != job->value[LEAT_KEY_BATCH]))
            continue;
        workers[n] = m->gpus * m->nodes;
        speed[n++] = m->samples_per_s;
        if (m->gpus * m->nodes > e->workers_most)
            e->workers_most = m->gpus * m->nodes;
    }
    if (e->workers_most > 1) {
        struct leat_plan_series series = {.workers = workers, .speed = speed, .count = n};
        e->saturation = calloc(1, sizeof *e->saturation);
        rc = e->saturation ? leat_plan_saturation_fit(&series, 1, e->saturation, err)
                           : leat_fail(err, LEAT_NO_MEMORY, "no memory for measured speeds");
        snprintf(e->scale_source, sizeof e->scale_source, "fitted to %zu measured speeds of 1 to %u workers", n,
                 e->workers_most);
    } else {
        take_link_cap(job, e);
    }
    free(workers);
    return rc;
}

static leat_status fit_link(const struct leat_plan_job *job, const struct leat_plan_measures *measures,
                            struct leat_plan_engine *e, bool by_type, bool network, struct leat_error *err)
{
    struct leat_plan_link *link = network ? &e->allreduce.network : &e->allreduce.inside;
    double *error = network ? &e->network_error : &e->inside_error;
    enum leat_plan_key rate = network ? LEAT_KEY_NETWORK_RATE : LEAT_KEY_INSIDE_RATE;
    enum leat_plan_key latency = network ? LEAT_KEY_NETWORK_LATENCY : LEAT_KEY_INSIDE_LATENCY;
    struct leat_plan_scaling_row *rows = calloc(measures->count + 1, sizeof *rows);
    size_t n = 0;
    leat_status rc = LEAT_OK;
    if (!rows)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for measured speeds");
    for (size_t i = 0; i < measures->count; i++) {
        const struct leat_plan_measure *m = &measures->row[i];
        bool level = network ? m->nodes > 1 : m->nodes == 1 && m->gpus > 1;
        if (!of_job(job, m) || !matches(m, e, by_type) || !level || isnan(m->step_s) ||
            (!isnan(m->batch) && m->batch != job->value[LEAT_KEY_BATCH]))
            continue;
        if (network && m->gpus > 1 && isnan(e->inside_error))
            continue; /* how much of it the machines' inside takes is not known */
        rows[n++] = (struct leat_plan_scaling_row){m->nodes, m->gpus, e->step_s, m->step_s};
    }
    *error = NAN;
    *link = (struct leat_plan_link){.bytes_per_s = job->value[rate], .latency_s = job->value[latency]};
    size_t at = strlen(e->scale_source);
    const char *name = network ? "network" : "interconnect";
    if (n) {
        rc = leat_plan_allreduce_fit(&e->allreduce, link, rows, n, error, err);
        *error = hypot(*error, SPREAD_LINK);
        snprintf(e->scale_source + at, sizeof e->scale_source - at, "%s%s %.3g GB/s from %zu measured steps",
                 at ? ", " : "", name, link->bytes_per_s / 1e9, n);
    } else if (!isnan(link->bytes_per_s)) {
        *error = SPREAD_NOMINAL;
        snprintf(e->scale_source + at, sizeof e->scale_source - at, "%s%s %.3g GB/s (%.60s)", at ? ", " : "", name,
                 link->bytes_per_s / 1e9, job->source[rate]);
    }
    free(rows);
    return rc;
}

static leat_status fit_allreduce(const struct leat_plan_job *job, const struct leat_plan_measures *measures,
                                 struct leat_plan_engine *e, bool by_type, struct leat_error *err)
{
    double bytes = job->value[LEAT_KEY_PARAMETER_BYTES];
    if (isnan(bytes))
        bytes = 4 * job->value[LEAT_KEY_PARAMETERS];
    e->allreduce.gradient_bytes = bytes;
    e->allreduce.bucket_bytes = LEAT_PLAN_BUCKET_BYTES;
    e->allreduce.backward_share = LEAT_PLAN_BACKWARD_SHARE;
    e->inside_error = e->network_error = NAN;
    if (isnan(bytes))
        return LEAT_OK;
    leat_status rc = fit_link(job, measures, e, by_type, false, err);
    if (rc == LEAT_OK)
        rc = fit_link(job, measures, e, by_type, true, err);
    return rc;
}

/* A job without its name finds none of its own lines: that is worth telling apart from there being none. */
static void say_unknown(const struct leat_plan_job *job, const struct leat_plan_measures *measures,
                        struct leat_plan_engine *e, bool by_type)
{
    for (size_t i = 0; i < measures->count; i++) {
        const struct leat_plan_measure *m = &measures->row[i];
        if (of_job(job, m) || !matches(m, e, by_type) || isnan(m->step_s))
            continue;
        snprintf(e->missing, sizeof e->missing,
                 "%s was measured with '%s' (%.80s line %u) and the job is called '%s': give it that name (--name), "
                 "or the models' FLOPs to fit to",
                 e->accelerator, m->model, leat_plan_tail(measures->name), m->line, job->name);
        return;
    }
    snprintf(e->missing, sizeof e->missing,
             "nothing is known about the speed of %s: measure this job on it, or other models to fit to "
             "(--measurements)",
             e->accelerator);
}

leat_status leat_plan_engine_make(const struct leat_plan_job *job, const struct leat_plan_measures *measures,
                                  const char *type, const char *accelerator, struct leat_plan_engine *out,
                                  struct leat_error *err)
{
    struct leat_plan_engine e = {.cap = HUGE_VAL};
    bool by_type = any_by_type(measures, type);
    snprintf(e.accelerator, sizeof e.accelerator, "%s", accelerator);
    snprintf(e.type, sizeof e.type, "%s", by_type ? type : "");
    leat_status rc = LEAT_OK;
    if (!take_measured(job, measures, &e, by_type) && !take_other_batches(job, measures, &e, by_type))
        rc = take_regression(job, measures, &e, err);
    if (e.step_s > 0)
        e.missing[0] = '\0'; /* what one way lacked, another had */
    else if (rc == LEAT_OK && !*e.missing)
        say_unknown(job, measures, &e, by_type);
    if (rc == LEAT_OK && e.step_s > 0)
        rc = job->mode == LEAT_PLAN_ASYNC ? fit_async(job, measures, &e, by_type, err)
                                          : fit_allreduce(job, measures, &e, by_type, err);
    e.cache_speed = calloc(LEAT_PLAN_WORKERS_MAX + 1, sizeof *e.cache_speed);
    e.cache_spread = calloc(LEAT_PLAN_WORKERS_MAX + 1, sizeof *e.cache_spread);
    if (rc == LEAT_OK && (!e.cache_speed || !e.cache_spread))
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for speeds");
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
    free(engine->cache_speed);
    free(engine->cache_spread);
    *engine = (struct leat_plan_engine){0};
}

static bool async_speed(struct leat_plan_engine *e, const struct leat_plan_job *job, unsigned workers, double *speed,
                        double *spread, char why[300])
{
    double alone = job->value[LEAT_KEY_BATCH] / e->step_s;
    if (workers == 1) {
        *speed = alone;
        *spread = e->step_spread;
        return true;
    }
    if (workers > LEAT_PLAN_WORKERS_MAX) {
        snprintf(why, 300, "more than %d workers", LEAT_PLAN_WORKERS_MAX);
        return false;
    }
    if (!e->saturation && !(e->cap < HUGE_VAL)) {
        snprintf(why, 300,
                 "%s: no measured speed of several workers, and no model.parameter_bytes and network.bandwidth to say "
                 "where the server saturates",
                 e->accelerator);
        return false;
    }
    if (!e->saturation) {
        *speed = pow(pow(workers * alone, -KNEE_NOMINAL) + pow(e->cap, -KNEE_NOMINAL), -1 / KNEE_NOMINAL);
        *spread = hypot(e->step_spread, SPREAD_NOMINAL);
        return true;
    }
    if (e->cache_speed[workers] == 0) {
        double s;
        e->cache_speed[workers] = leat_plan_saturation_predict(e->saturation, workers, 0.9, &s).mean;
        e->cache_spread[workers] = fmax(SPREAD_LEAST, s);
    }
    *speed = e->cache_speed[workers];
    *spread = e->cache_spread[workers];
    return true;
}

bool leat_plan_engine_speed(struct leat_plan_engine *engine, const struct leat_plan_job *job, unsigned nodes,
                            unsigned gpus, double *samples_per_s, double *spread, char why[300])
{
    if (*engine->missing) {
        snprintf(why, 300, "%s", engine->missing);
        return false;
    }
    if (job->mode == LEAT_PLAN_ASYNC)
        return async_speed(engine, job, nodes * gpus, samples_per_s, spread, why);
    double error = 0;
    const char *lacks = NULL;
    if (nodes * gpus > 1 && isnan(engine->allreduce.gradient_bytes))
        lacks = "model.parameter_bytes";
    else if (gpus > 1 && isnan(engine->inside_error))
        lacks = "a measured step of several GPUs of a machine, or network.inside_bandwidth";
    else if (nodes > 1 && isnan(engine->network_error))
        lacks = "a measured step of several machines, or network.bandwidth";
    if (lacks) {
        snprintf(why, 300, "%s: %s is missing", engine->accelerator, lacks);
        return false;
    }
    double step = leat_plan_allreduce_step(&engine->allreduce, engine->step_s, nodes, gpus);
    /* An error of the links matters as far as the step waits for them. */
    double waits = (step - engine->step_s) / step;
    if (gpus > 1)
        error = fmax(error, engine->inside_error);
    if (nodes > 1)
        error = fmax(error, engine->network_error);
    *samples_per_s = job->value[LEAT_KEY_BATCH] * nodes * gpus / step;
    *spread = hypot(engine->step_spread, error * fmax(waits, 0.1));
    return true;
}
