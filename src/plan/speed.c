#include "plan/speed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPREAD_NOMINAL 0.15 /* of what a link known by its nominal bandwidth adds to a step */
#define KNEE_NOMINAL   6.0  /* steps that vary by a fifth */

static const struct leat_plan_measured *find_measured(const struct leat_plan_engine *e, unsigned nodes, unsigned gpus)
{
    for (size_t i = 0; i < e->measured_count; i++) {
        if (e->measured[i].nodes == nodes && e->measured[i].gpus == gpus)
            return &e->measured[i];
    }
    return NULL;
}

/* Lines of the same cluster are runs of the same thing: their mean, and their scatter where there are several. */
static leat_status take_measured(const struct leat_plan_job *job, const struct leat_plan_measures *measures,
                                 struct leat_plan_engine *e, struct leat_error *err)
{
    e->measured = calloc(measures->count + 1, sizeof *e->measured);
    double *squares = calloc(measures->count + 1, sizeof *squares);
    if (!e->measured || !squares) {
        free(squares);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for measured speeds");
    }
    for (size_t i = 0; i < measures->count; i++) {
        const struct leat_plan_measure *m = &measures->row[i];
        if (!leat_plan_engine_has(e, job, m) || m->gpus * m->nodes < 2 || isnan(m->step_s))
            continue;
        size_t k = 0;
        while (k < e->measured_count && (e->measured[k].nodes != m->nodes || e->measured[k].gpus != m->gpus))
            k++;
        struct leat_plan_measured *out = &e->measured[k];
        if (k == e->measured_count) {
            *out =
                (struct leat_plan_measured){.nodes = m->nodes, .gpus = m->gpus, .file = m->file, .first_line = m->line};
            e->measured_count++;
        }
        double before = out->step_s; /* of the logarithms, by Welford's recurrence */
        out->step_s += (log(m->step_s) - before) / ++out->lines;
        squares[k] += (log(m->step_s) - before) * (log(m->step_s) - out->step_s);
    }
    for (size_t k = 0; k < e->measured_count; k++) {
        struct leat_plan_measured *m = &e->measured[k];
        m->step_s = exp(m->step_s);
        m->spread =
            m->lines > 1 ? fmax(LEAT_PLAN_SPREAD_LEAST, sqrt(squares[k] / (m->lines - 1))) : LEAT_PLAN_SPREAD_ONCE;
    }
    free(squares);
    return LEAT_OK;
}

static leat_status fit_async(const struct leat_plan_job *job, const struct leat_plan_measures *measures,
                             struct leat_plan_engine *e, struct leat_error *err)
{
    double *workers = calloc(2 * (measures->count + 1), sizeof *workers);
    e->cache = calloc(LEAT_PLAN_WORKERS_MAX + 1, sizeof *e->cache);
    if (!workers || !e->cache) {
        free(workers);
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for measured speeds");
    }
    double *speed = workers + measures->count + 1;
    size_t n = 0;
    leat_status rc = LEAT_OK;
    for (size_t i = 0; i < measures->count; i++) {
        const struct leat_plan_measure *m = &measures->row[i];
        if (!leat_plan_engine_has(e, job, m) || isnan(m->samples_per_s))
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
    } else if (leat_plan_job_has(job, LEAT_KEY_PARAMETER_BYTES) && leat_plan_job_has(job, LEAT_KEY_NETWORK_RATE)) {
        /* Every step brings the gradients to the server and the parameters back; both directions at once. */
        e->cap = job->value[LEAT_KEY_NETWORK_RATE] / job->value[LEAT_KEY_PARAMETER_BYTES] * job->value[LEAT_KEY_BATCH];
    }
    free(workers);
    return rc;
}

/* The step of a member of other clusters: of one GPU, or of one machine. All members wait for the last, so that a
 * cluster takes at least as long; where one was measured to be faster, it was the member that had a bad day. *off gets
 * the logarithm of how bad. */
static double member_s(const struct leat_plan_engine *e, unsigned gpus, double measured_s, double *off)
{
    double least_s = measured_s;
    for (size_t i = 0; i < e->measured_count; i++) {
        const struct leat_plan_measured *m = &e->measured[i];
        if (gpus == 1 || (m->gpus == gpus && m->nodes > 1))
            least_s = fmin(least_s, m->step_s);
    }
    *off = log(measured_s / least_s);
    return least_s;
}

/* The step of one machine of a measured cluster; 0: not known. */
static double one_machine_s(const struct leat_plan_engine *e, unsigned gpus)
{
    double spread;
    const struct leat_plan_measured *m = find_measured(e, 1, gpus);
    double alone_s = member_s(e, 1, e->step_s, &spread);
    const struct leat_plan_curve_row row = {1, gpus, alone_s, alone_s, 0};
    if (gpus == 1)
        return alone_s;
    if (m)
        return member_s(e, gpus, m->step_s, &spread);
    return e->inside ? leat_plan_curve_step(e->inside, &row, &spread) : 0;
}

/* Lines of one level; *curve stays NULL without any. */
static leat_status fit_level(struct leat_plan_engine *e, bool network, struct leat_plan_curve **curve,
                             struct leat_error *err)
{
    struct leat_plan_curve_row rows[LEAT_PLAN_CURVE_ROWS];
    size_t n = 0;
    double off;
    double alone_s = member_s(e, 1, e->step_s, &off);
    for (size_t i = 0; i < e->measured_count; i++) {
        const struct leat_plan_measured *m = &e->measured[i];
        if ((m->nodes > 1) != network)
            continue;
        double base = network ? one_machine_s(e, m->gpus) : alone_s;
        if (!(base > 0))
            continue; /* how much of it the machines' inside takes is not known */
        if (n + 1 == LEAT_PLAN_CURVE_ROWS)
            return leat_fail(err, LEAT_LIMIT, "%s: %d measured sizes of clusters and more", e->accelerator,
                             LEAT_PLAN_CURVE_ROWS);
        rows[n++] = (struct leat_plan_curve_row){m->nodes, m->gpus, base, alone_s, m->step_s};
    }
    if (!n)
        return LEAT_OK;
    *curve = calloc(1, sizeof **curve);
    if (!*curve)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for measured speeds");
    leat_status rc = leat_plan_curve_fit(&e->allreduce, network, rows, n, *curve, err);
    if (rc == LEAT_OK)
        e->allreduce = (*curve)->model;
    return rc;
}

leat_status leat_plan_speed_fit(const struct leat_plan_job *job, const struct leat_plan_measures *measures,
                                struct leat_plan_engine *e, struct leat_error *err)
{
    leat_status rc = take_measured(job, measures, e, err);
    if (rc != LEAT_OK)
        return rc;
    if (job->mode == LEAT_PLAN_ASYNC)
        return fit_async(job, measures, e, err);
    double bytes = job->value[LEAT_KEY_PARAMETER_BYTES];
    if (isnan(bytes))
        bytes = 4 * job->value[LEAT_KEY_PARAMETERS];
    e->allreduce = (struct leat_plan_allreduce){
        /* Sharded parameters are gathered twice a step beside the gradients: three halves of an all-reduce. */
        .gradient_bytes = job->sharded ? 1.5 * bytes : bytes,
        .bucket_bytes = LEAT_PLAN_BUCKET_BYTES,
        .backward_share = LEAT_PLAN_BACKWARD_SHARE,
        .inside = {job->value[LEAT_KEY_INSIDE_RATE], job->value[LEAT_KEY_INSIDE_LATENCY]},
        .network = {job->value[LEAT_KEY_NETWORK_RATE], job->value[LEAT_KEY_NETWORK_LATENCY]},
    };
    rc = fit_level(e, false, &e->inside, err);
    if (rc == LEAT_OK)
        rc = fit_level(e, true, &e->network, err);
    return rc;
}

static leat_status async_speed(struct leat_plan_engine *e, const struct leat_plan_job *job, unsigned workers,
                               struct leat_plan_speed *out, struct leat_error *err)
{
    double alone = job->value[LEAT_KEY_BATCH] / e->step_s;
    if (workers == 1) {
        *out = (struct leat_plan_speed){alone, e->step_spread, 1};
        return LEAT_OK;
    }
    if (workers > LEAT_PLAN_WORKERS_MAX)
        return leat_fail(err, LEAT_UNSUPPORTED, "more than %d workers", LEAT_PLAN_WORKERS_MAX);
    if (!e->saturation && !(e->cap < HUGE_VAL))
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "%s: no measured speed of several workers, and no model.parameter_bytes and network.bandwidth "
                         "to say where the server saturates",
                         e->accelerator);
    if (!e->saturation) {
        double speed = pow(pow(workers * alone, -KNEE_NOMINAL) + pow(e->cap, -KNEE_NOMINAL), -1 / KNEE_NOMINAL);
        *out = (struct leat_plan_speed){speed, hypot(e->step_spread, SPREAD_NOMINAL), 1};
        return LEAT_OK;
    }
    struct leat_plan_known_speed *known = &e->cache[workers];
    if (known->samples_per_s == 0) {
        double spread;
        double scatter;
        known->samples_per_s = leat_plan_saturation_predict(e->saturation, workers, 0.9, &spread).mean;
        scatter = leat_plan_saturation_scatter(e->saturation);
        const struct leat_plan_measured *m = NULL;
        for (size_t i = 0; i < e->measured_count && !m; i++)
            m = e->measured[i].nodes * e->measured[i].gpus == workers ? &e->measured[i] : NULL;
        if (m) { /* its mean is as sure as its runs are many */
            known->samples_per_s = job->value[LEAT_KEY_BATCH] * workers / m->step_s;
            spread = scatter / sqrt(m->lines);
        }
        known->spread = fmax(LEAT_PLAN_SPREAD_LEAST, hypot(spread, scatter));
    }
    *out = (struct leat_plan_speed){known->samples_per_s, known->spread, 1};
    return LEAT_OK;
}

/* The step of one machine of the cluster. */
static leat_status inside_step(const struct leat_plan_engine *e, const struct leat_plan_cluster *c, double *step,
                               double *spread, struct leat_error *err)
{
    const struct leat_plan_measured *m = find_measured(e, 1, c->gpus);
    double off = 0;
    double alone_s = c->nodes * c->gpus > 1 ? member_s(e, 1, e->step_s, &off) : e->step_s;
    const struct leat_plan_curve_row row = {1, c->gpus, alone_s, alone_s, 0};
    *step = alone_s;
    *spread = off;
    if (c->gpus == 1)
        return LEAT_OK;
    if (m) {
        /* The spread of the single GPU stands for it: the same machines on the same day. */
        *step = member_s(e, c->gpus, m->step_s, spread);
        return LEAT_OK;
    }
    if (e->inside) {
        *step = leat_plan_curve_step(e->inside, &row, spread);
        *spread = hypot(*spread, off);
        return LEAT_OK;
    }
    if (isnan(e->allreduce.gradient_bytes))
        return leat_fail(err, LEAT_UNSUPPORTED, "%s: model.parameter_bytes is missing", e->accelerator);
    if (isnan(c->inside.bytes_per_s))
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "%s: a measured step of several GPUs of a machine, or network.inside_bandwidth, is missing",
                         e->accelerator);
    struct leat_plan_allreduce nominal = e->allreduce;
    nominal.inside = c->inside;
    double said = leat_plan_allreduce_step(&nominal, alone_s, 1, c->gpus) / alone_s - 1;
    double over = leat_plan_curve_prior(c->gpus, spread);
    *spread = hypot(fmax(*spread, SPREAD_NOMINAL * said / (1 + said)), off);
    *step = alone_s * (1 + fmax(over, said));
    return LEAT_OK;
}

/* What machines beyond the first add. */
static leat_status network_step(const struct leat_plan_engine *e, const struct leat_plan_cluster *c, double *step,
                                double *spread, struct leat_error *err)
{
    double off;
    double alone_s = member_s(e, 1, e->step_s, &off); /* which is in the spread of the machine */
    const struct leat_plan_curve_row row = {c->nodes, c->gpus, *step, alone_s, 0};
    *spread = 0;
    if (c->nodes == 1)
        return LEAT_OK;
    if (e->network) {
        *step = leat_plan_curve_step(e->network, &row, spread);
        return LEAT_OK;
    }
    if (isnan(e->allreduce.gradient_bytes))
        return leat_fail(err, LEAT_UNSUPPORTED, "%s: model.parameter_bytes is missing", e->accelerator);
    if (isnan(c->network.bytes_per_s))
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "%s: a measured step of several machines, or network.bandwidth, is missing", e->accelerator);
    struct leat_plan_allreduce nominal = e->allreduce;
    nominal.network = c->network;
    if (!e->inside)
        nominal.inside = c->inside;
    double over = leat_plan_allreduce_step(&nominal, alone_s, c->nodes, c->gpus) -
                  leat_plan_allreduce_step(&nominal, alone_s, 1, c->gpus);
    *step += fmax(0, over);
    /* An error of the link matters as far as the step waits for it. */
    *spread = SPREAD_NOMINAL * fmax(over / *step, 0.1);
    return LEAT_OK;
}

/* One step of the optimizer: `accumulate` batches of every GPU, with one exchange of gradients; sharded parameters are
 * fetched again for every batch. */
static leat_status accumulate(const struct leat_plan_engine *e, const struct leat_plan_job *job,
                              const struct leat_plan_cluster *c, double step, struct leat_plan_speed *out,
                              struct leat_error *err)
{
    double batch = job->value[LEAT_KEY_BATCH] * c->nodes * c->gpus;
    double global = job->value[LEAT_KEY_GLOBAL_BATCH];
    out->accumulate = 1;
    out->samples_per_s = batch / step;
    if (isnan(global))
        return LEAT_OK;
    if (global < batch)
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "%u GPUs with a batch of %g each are more than job.global_batch %g: a smaller job.batch, "
                         "measured, would use them",
                         c->nodes * c->gpus, job->value[LEAT_KEY_BATCH], global);
    double rounds = ceil(global / batch - 1e-9); /* of the last one some GPUs may have little to do */
    double all = job->sharded ? rounds * step : (rounds - 1) * e->step_s + step;
    out->accumulate = (unsigned)fmin(rounds, 1e9);
    out->samples_per_s = global / all;
    return LEAT_OK;
}

leat_status leat_plan_speed(struct leat_plan_engine *e, const struct leat_plan_job *job,
                            const struct leat_plan_cluster *c, struct leat_plan_speed *out, struct leat_error *err)
{
    if (*e->missing)
        return leat_fail(err, LEAT_UNSUPPORTED, "%s", e->missing);
    if (job->mode == LEAT_PLAN_ASYNC)
        return async_speed(e, job, c->nodes * c->gpus, out, err);
    const struct leat_plan_measured *m = find_measured(e, c->nodes, c->gpus);
    struct leat_plan_speed speed = {.spread = m ? m->spread : 0};
    double inside = 0;
    double network = 0;
    double step = m ? m->step_s : 0;
    leat_status rc = LEAT_OK;
    if (!m) {
        rc = inside_step(e, c, &step, &inside, err);
        if (rc == LEAT_OK)
            rc = network_step(e, c, &step, &network, err);
        speed.spread = hypot(e->step_spread, hypot(inside, network));
    }
    if (rc == LEAT_OK)
        rc = accumulate(e, job, c, step, &speed, err);
    if (rc == LEAT_OK)
        *out = speed;
    return rc;
}

static void say_forms(const struct leat_plan_curve *curve, const char *what, char *out, size_t n)
{
    int best = 0;
    for (int f = 1; f < LEAT_PLAN_FORMS; f++)
        best = curve->weight[f] > curve->weight[best] ? f : best;
    size_t at = strlen(out);
    snprintf(out + at, n - at, "%s%s: average of forms (most: %s) over %zu measured sizes", at ? "; " : "", what,
             leat_plan_form_name((enum leat_plan_form)best), curve->count);
}

static void say_link(const struct leat_plan_link *link, const char *source, const char *what, const char *more,
                     char *out, size_t n)
{
    size_t at = strlen(out);
    snprintf(out + at, n - at, "%s%s %.3g GB/s (%.60s)%s", at ? "; " : "", what, link->bytes_per_s / 1e9, source, more);
}

void leat_plan_speed_source(const struct leat_plan_engine *e, const struct leat_plan_job *job,
                            const struct leat_plan_cluster *c, char out[LEAT_PLAN_SPEED_SOURCE_SIZE])
{
    const size_t n = LEAT_PLAN_SPEED_SOURCE_SIZE;
    const struct leat_plan_measured *m = find_measured(e, c->nodes, c->gpus);
    out[0] = '\0';
    if (m && m->first_line)
        snprintf(out, n, "measured, %.80s line %u%s", leat_plan_tail(e->measures->name[m->file]), m->first_line,
                 m->lines > 1 ? " and others" : "");
    else if (m)
        snprintf(out, n, "measured, %.80s", leat_plan_tail(e->measures->name[m->file]));
    else if (e->saturation)
        snprintf(out, n, "fitted to measured speeds of 1 to %u workers", e->workers_most);
    else if (job->mode == LEAT_PLAN_ASYNC)
        snprintf(out, n, "capped by the server's link (%s)", job->source[LEAT_KEY_NETWORK_RATE]);
    if (m || job->mode == LEAT_PLAN_ASYNC)
        return;
    if (c->gpus > 1 && find_measured(e, 1, c->gpus))
        snprintf(out, n, "one machine measured, line %u", find_measured(e, 1, c->gpus)->first_line);
    else if (c->gpus > 1 && e->inside)
        say_forms(e->inside, "GPUs of a machine", out, n);
    else if (c->gpus > 1)
        say_link(&c->inside, c->inside_source, "inside", ", and what published tables lose", out, n);
    if (c->nodes > 1 && e->network)
        say_forms(e->network, "machines", out, n);
    else if (c->nodes > 1)
        say_link(&c->network, c->network_source, "network", "", out, n);
}
