#include "plan/measure.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "plan/csv.h"
#include "plan/report.h"

static const struct number_column {
    const char *name;
    size_t offset;
    double min;
    double max;
    const char *hint;
} numbers[] = {
    {"batch", offsetof(struct leat_plan_measure, batch), 1, 1e7, "samples of one GPU in one step"},
    {"step_s", offsetof(struct leat_plan_measure, step_s), LEAT_PLAN_STEP_LEAST, LEAT_PLAN_STEP_MOST,
     "seconds, not milliseconds"},
    {"samples_per_s", offsetof(struct leat_plan_measure, samples_per_s), 1e-6, 1e12, "of the whole cluster"},
    {"flops_per_step", offsetof(struct leat_plan_measure, flops), 1e6, 1e20, "plain FLOPs: 0.631e9, not 0.631"},
    {"parameters", offsetof(struct leat_plan_measure, parameters), 1, 1e14, "a count"},
    {"tensors", offsetof(struct leat_plan_measure, tensors), 1, 1e7, "a count"},
    {"checkpoint_bytes", offsetof(struct leat_plan_measure, checkpoint_bytes), 1e3, 1e16, "bytes, not megabytes"},
    {"checkpoint_s", offsetof(struct leat_plan_measure, checkpoint_s), 1e-6, 1e5, "seconds"},
};
#define NUMBERS (sizeof numbers / sizeof *numbers)

static const char *const texts[] = {"model", "accelerator", "type", "gpus", "nodes", "steps_per_s"};
#define TEXTS (sizeof texts / sizeof *texts)

#define SAME_SPEED  0.02
#define UNIT_FACTOR 300.0 /* milliseconds for seconds are 1000; the dearest known communication is a factor of 5 */

static leat_status optional_number(const struct leat_plan_csv *csv, size_t row, size_t column, double min, double max,
                                   const char *hint, double *out, struct leat_error *err)
{
    if (column == LEAT_PLAN_CSV_NONE || !*csv->rows[row].fields[column])
        return LEAT_OK;
    double v;
    leat_status rc = leat_plan_csv_number(csv, row, column, &v, err);
    if (rc != LEAT_OK)
        return rc;
    if (!(v >= min && v <= max))
        return leat_fail(err, LEAT_INVALID, "%s line %u: %s is %g, outside %g … %g (%s)", csv->name,
                         csv->rows[row].line, csv->columns[column], v, min, max, hint);
    *out = v;
    return LEAT_OK;
}

static leat_status optional_text(const struct leat_plan_csv *csv, size_t row, size_t column, char *out, size_t n,
                                 struct leat_error *err)
{
    if (column == LEAT_PLAN_CSV_NONE)
        return LEAT_OK;
    const char *text = csv->rows[row].fields[column];
    if (strlen(text) >= n)
        return leat_fail(err, LEAT_INVALID, "%s line %u: %s is too long", csv->name, csv->rows[row].line,
                         csv->columns[column]);
    memcpy(out, text, strlen(text) + 1);
    leat_one_line(out);
    return LEAT_OK;
}

/* Speeds given in one way become those given in the other. Given in several ways they must agree to what rounding
 * explains: else one is in another unit, or of another run. */
static leat_status settle_speed(const char *name, struct leat_plan_measure *m, double steps_per_s,
                                struct leat_error *err)
{
    double in_step = m->batch * m->gpus * m->nodes / m->step_s; /* NaN where one is not given, and so not compared */
    if (!isnan(steps_per_s)) {
        if (isnan(m->batch))
            return leat_fail(err, LEAT_INVALID, "%s line %u: steps_per_s without batch", name, m->line);
        double samples = steps_per_s * m->batch;
        if (fabs(samples / m->samples_per_s - 1) > SAME_SPEED)
            return leat_fail(err, LEAT_INVALID, "%s line %u: steps_per_s times batch is %g samples/s, samples_per_s %g",
                             name, m->line, samples, m->samples_per_s);
        m->samples_per_s = samples;
    }
    if (fabs(in_step / m->samples_per_s - 1) > SAME_SPEED)
        return leat_fail(err, LEAT_INVALID, "%s line %u: step_s says %g samples/s for all GPUs, the other column %g",
                         name, m->line, in_step, m->samples_per_s);
    if (!isnan(m->step_s) && isnan(m->samples_per_s) && !isnan(m->batch))
        m->samples_per_s = m->batch * m->gpus * m->nodes / m->step_s;
    if (isnan(m->step_s) && !isnan(m->samples_per_s) && !isnan(m->batch))
        m->step_s = m->batch * m->gpus * m->nodes / m->samples_per_s;
    if (m->step_s < LEAT_PLAN_STEP_LEAST || m->step_s > LEAT_PLAN_STEP_MOST)
        return leat_fail(err, LEAT_INVALID, "%s line %u: %g samples/s make a step of %g s, outside %g … %g", name,
                         m->line, m->samples_per_s, m->step_s, LEAT_PLAN_STEP_LEAST, LEAT_PLAN_STEP_MOST);
    return LEAT_OK;
}

static leat_status take_row(const struct leat_plan_csv *csv, size_t row, struct leat_plan_measure *out,
                            struct leat_error *err)
{
    struct leat_plan_measure m = {.line = csv->rows[row].line};
    double gpus = 1;
    double nodes = 1;
    double steps_per_s = NAN;
    leat_status rc = LEAT_OK;
    for (size_t i = 0; i < NUMBERS && rc == LEAT_OK; i++) {
        double v = NAN;
        rc = optional_number(csv, row, leat_plan_csv_column(csv, numbers[i].name), numbers[i].min, numbers[i].max,
                             numbers[i].hint, &v, err);
        memcpy((char *)&m + numbers[i].offset, &v, sizeof v);
    }
    if (rc == LEAT_OK)
        rc = optional_text(csv, row, leat_plan_csv_column(csv, "model"), m.model, sizeof m.model, err);
    if (rc == LEAT_OK)
        rc =
            optional_text(csv, row, leat_plan_csv_column(csv, "accelerator"), m.accelerator, sizeof m.accelerator, err);
    if (rc == LEAT_OK)
        rc = optional_text(csv, row, leat_plan_csv_column(csv, "type"), m.type, sizeof m.type, err);
    if (rc == LEAT_OK)
        rc = optional_number(csv, row, leat_plan_csv_column(csv, "gpus"), 1, 1024, "GPUs of one machine", &gpus, err);
    if (rc == LEAT_OK)
        rc = optional_number(csv, row, leat_plan_csv_column(csv, "nodes"), 1, 1e5, "machines", &nodes, err);
    if (rc == LEAT_OK)
        rc = optional_number(csv, row, leat_plan_csv_column(csv, "steps_per_s"), 1e-6, 1e9, "of the whole cluster",
                             &steps_per_s, err);
    if (rc != LEAT_OK)
        return rc;
    if (gpus != floor(gpus) || nodes != floor(nodes))
        return leat_fail(err, LEAT_INVALID, "%s line %u: gpus or nodes is not a whole number", csv->name, m.line);
    m.gpus = (unsigned)gpus;
    m.nodes = (unsigned)nodes;
    rc = settle_speed(csv->name, &m, steps_per_s, err);
    if (rc == LEAT_OK)
        *out = m;
    return rc;
}

static bool same_or_none(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static bool alike(const struct leat_plan_measure *a, const struct leat_plan_measure *b)
{
    return strcmp(a->model, b->model) == 0 && strcmp(a->accelerator, b->accelerator) == 0 &&
           strcmp(a->type, b->type) == 0 && same_or_none(a->batch, b->batch) && same_or_none(a->flops, b->flops);
}

#define LOOK_BACK 200 /* lines, so that a table of a million is not compared with itself */

/* The same model on the same accelerator at the same batch: other GPUs and machines make a step longer, but not by
 * orders of magnitude. */
static leat_status check_units(const struct leat_plan_measures *m, struct leat_error *err)
{
    for (size_t i = 1; i < m->count; i++) {
        const struct leat_plan_measure *a = &m->row[i];
        const struct leat_plan_measure *b = NULL;
        for (size_t k = i > LOOK_BACK ? i - LOOK_BACK : 0; k < i && !b; k++)
            b = !isnan(m->row[k].step_s) && alike(a, &m->row[k]) ? &m->row[k] : NULL;
        if (b && (a->step_s > UNIT_FACTOR * b->step_s || b->step_s > UNIT_FACTOR * a->step_s))
            return leat_fail(err, LEAT_INVALID,
                             "%s line %u: a step of %g s, and one of %g s on line %u: is one in another unit?",
                             m->name[a->file], a->line, a->step_s, b->step_s, b->line);
    }
    return LEAT_OK;
}

static leat_status grow(struct leat_plan_measures *m, size_t more, struct leat_error *err)
{
    struct leat_plan_measure *row = realloc(m->row, (m->count + more) * sizeof *row);
    if (!row)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for %zu measurements", more);
    m->row = row;
    return LEAT_OK;
}

static void check_columns(const struct leat_plan_csv *csv, struct leat_plan_notes *notes)
{
    for (size_t i = 0; i < csv->column_count; i++) {
        bool known = false;
        for (size_t k = 0; k < NUMBERS; k++)
            known |= strcasecmp(csv->columns[i], numbers[k].name) == 0;
        for (size_t k = 0; k < TEXTS; k++)
            known |= strcasecmp(csv->columns[i], texts[k]) == 0;
        if (!known)
            leat_plan_note(notes, "%s line %u: column '%s' is not known and not used", csv->name, csv->header_line,
                           csv->columns[i]);
    }
}

static leat_status name_file(struct leat_plan_measures *m, const char *name, struct leat_error *err)
{
    if (m->files == LEAT_PLAN_MEASURE_FILES)
        return leat_fail(err, LEAT_LIMIT, "more than %d files of measurements", LEAT_PLAN_MEASURE_FILES);
    snprintf(m->name[m->files++], sizeof m->name[0], "%s", name);
    return LEAT_OK;
}

leat_status leat_plan_measures_csv(const char *name, const char *text, size_t n, struct leat_plan_measures *out,
                                   struct leat_plan_notes *notes, struct leat_error *err)
{
    struct leat_plan_csv *csv;
    leat_status rc = leat_plan_csv_parse(name, text, n, NULL, &csv, err);
    if (rc != LEAT_OK)
        return rc;
    check_columns(csv, notes);
    rc = name_file(out, name, err);
    if (rc == LEAT_OK && !csv->row_count)
        rc = leat_fail(err, LEAT_INVALID, "%s: no line of measurements below the header", name);
    if (rc == LEAT_OK)
        rc = grow(out, csv->row_count, err);
    for (size_t i = 0; rc == LEAT_OK && i < csv->row_count; i++) {
        rc = take_row(csv, i, &out->row[out->count], err);
        out->row[out->count].file = out->files - 1;
        out->count += rc == LEAT_OK;
    }
    if (rc == LEAT_OK)
        rc = check_units(out, err);
    leat_plan_csv_free(csv);
    return rc;
}

void leat_plan_measures_free(struct leat_plan_measures *m)
{
    free(m->row);
    *m = (struct leat_plan_measures){0};
}

static leat_status report_number(const char *name, const json_t *object, const char *key, double min, double max,
                                 bool needed, double *out, struct leat_error *err)
{
    const json_t *v = json_object_get(object, key);
    if (!v && !needed)
        return LEAT_OK;
    if (!v)
        return leat_fail(err, LEAT_INVALID, "%s: '%s' is missing", name, key);
    double d = json_number_value(v);
    if (!json_is_number(v) || !(d >= min && d <= max))
        return leat_fail(err, LEAT_INVALID, "%s: '%s' is not a number from %g to %g", name, key, min, max);
    *out = d;
    return LEAT_OK;
}

static const char *const report_keys[] = {"accelerator", "type",  "model",  "gpus",
                                          "nodes",       "batch", "step_s", "prep_per_vcpu"};
static const char *const step_keys[] = {"compute", "interconnect", "network"};

/* A key nobody reads would be a measurement that is dropped without a word. */
static leat_status known_keys(const char *name, json_t *object, const char *const *keys, size_t count,
                              struct leat_error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value) {
        size_t i = 0;
        while (i < count && strcmp(keys[i], key) != 0)
            i++;
        if (i == count)
            return leat_fail(err, LEAT_INVALID, "%s: '%s' is not known here; docs/plan.md lists what is", name, key);
    }
    return LEAT_OK;
}

static leat_status report_text(const char *name, const json_t *root, const char *key, char *out, size_t n,
                               struct leat_error *err)
{
    const json_t *v = json_object_get(root, key);
    const char *text = json_string_value(v);
    if (!v)
        return LEAT_OK;
    if (!text || strlen(text) >= n)
        return leat_fail(err, LEAT_INVALID, "%s: '%s' is not a short text", name, key);
    memcpy(out, text, strlen(text) + 1);
    leat_one_line(out);
    return LEAT_OK;
}

/* Stalls add up: one GPU alone, all of a machine, all machines. */
static leat_status take_report(const char *name, const json_t *root, struct leat_plan_job *job,
                               struct leat_plan_measures *out, struct leat_error *err)
{
    const json_t *step = json_object_get(root, "step_s");
    const char *accelerator = json_string_value(json_object_get(root, "accelerator"));
    double gpus = 1;
    double nodes = 1;
    double batch = 0;
    double compute = 0;
    double inside = NAN;
    double network = NAN;
    double prep = NAN;
    if (!accelerator || !*accelerator || strlen(accelerator) >= sizeof out->row->accelerator)
        return leat_fail(err, LEAT_INVALID, "%s: 'accelerator' is missing or too long", name);
    leat_status rc = report_number(name, root, "gpus", 1, 1024, false, &gpus, err);
    if (rc == LEAT_OK)
        rc = report_number(name, root, "nodes", 1, 1e5, false, &nodes, err);
    if (rc == LEAT_OK)
        rc = report_number(name, root, "batch", 1, 1e7, true, &batch, err);
    if (rc == LEAT_OK)
        rc = report_number(name, step, "compute", LEAT_PLAN_STEP_LEAST, LEAT_PLAN_STEP_MOST, true, &compute, err);
    if (rc == LEAT_OK)
        rc = report_number(name, step, "interconnect", 0, 1e5, gpus > 1, &inside, err);
    if (rc == LEAT_OK)
        rc = report_number(name, step, "network", 0, 1e5, nodes > 1, &network, err);
    if (rc == LEAT_OK)
        rc = report_number(name, root, "prep_per_vcpu", 1e-3, 1e9, false, &prep, err);
    if (rc == LEAT_OK && (gpus != floor(gpus) || nodes != floor(nodes)))
        rc = leat_fail(err, LEAT_INVALID, "%s: 'gpus' or 'nodes' is not a whole number", name);
    if (rc == LEAT_OK)
        rc = grow(out, 3, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_plan_measure m = {.file = out->files - 1,
                                  .gpus = 1,
                                  .nodes = 1,
                                  .batch = batch,
                                  .step_s = compute,
                                  .flops = NAN,
                                  .parameters = NAN,
                                  .tensors = NAN,
                                  .checkpoint_bytes = NAN,
                                  .checkpoint_s = NAN,
                                  .samples_per_s = batch / compute};
    snprintf(m.accelerator, sizeof m.accelerator, "%s", accelerator);
    rc = report_text(name, root, "type", m.type, sizeof m.type, err);
    if (rc == LEAT_OK)
        rc = report_text(name, root, "model", m.model, sizeof m.model, err);
    if (rc != LEAT_OK)
        return rc;
    out->row[out->count++] = m;
    if (gpus > 1) {
        m.gpus = (unsigned)gpus;
        m.step_s += inside;
        m.samples_per_s = batch * m.gpus / m.step_s;
        out->row[out->count++] = m;
    }
    if (nodes > 1) {
        m.nodes = (unsigned)nodes;
        m.step_s += network;
        m.samples_per_s = batch * m.gpus * m.nodes / m.step_s;
        out->row[out->count++] = m;
    }
    if (!isnan(prep) && !leat_plan_job_has(job, LEAT_KEY_PREP_RATE)) {
        job->value[LEAT_KEY_PREP_RATE] = prep;
        snprintf(job->source[LEAT_KEY_PREP_RATE], sizeof job->source[0], "%.80s", leat_plan_tail(name));
    }
    return LEAT_OK;
}

/* A report of `leat profile`: each run on replayed batches is a row; what the loader's preparing took of a core is the
 * job's rate. Runs with the script's own data are not rows: their steps hold waiting. */
static leat_status take_profile(const char *name, const struct leat_report *report, struct leat_plan_job *job,
                                struct leat_plan_measures *out, struct leat_error *err)
{
    const struct leat_report_run *observed = leat_report_find(report, LEAT_REPORT_OBSERVED);
    size_t before = out->count;
    leat_status rc = grow(out, report->runs, err);
    if (rc != LEAT_OK)
        return rc;
    if (strlen(report->accelerator) >= sizeof out->row->accelerator || strlen(report->type) >= sizeof out->row->type)
        return leat_fail(err, LEAT_INVALID, "%s: 'accelerator' or 'type' is too long for a plan", name);
    for (size_t i = 0; i < report->runs; i++) {
        const struct leat_report_run *run = &report->run[i];
        struct leat_plan_measure m = {.file = out->files - 1,
                                      .gpus = run->gpus,
                                      .nodes = run->nodes,
                                      .batch = run->batch,
                                      .step_s = run->step_s.mean,
                                      .flops = NAN,
                                      .parameters = NAN,
                                      .tensors = NAN,
                                      .checkpoint_bytes = NAN,
                                      .checkpoint_s = NAN,
                                      .samples_per_s = run->batch * run->gpus * run->nodes / run->step_s.mean};
        /* `single` is one GPU as it is; `alone` shares memory and cores with the others, and stands in for it. */
        bool row = run->mode == LEAT_REPORT_SYNTHETIC || run->mode == LEAT_REPORT_SINGLE ||
                   (run->mode == LEAT_REPORT_ALONE && !leat_report_find(report, LEAT_REPORT_SINGLE));
        if (!row)
            continue;
        if (!(run->batch > 0))
            return leat_fail(err, LEAT_INVALID, "%s: a run without 'batch'", name);
        snprintf(m.accelerator, sizeof m.accelerator, "%s", report->accelerator);
        snprintf(m.type, sizeof m.type, "%s", report->type);
        snprintf(m.model, sizeof m.model, "%s", report->model);
        out->row[out->count++] = m;
    }
    if (out->count == before)
        return leat_fail(err, LEAT_INVALID,
                         "%s: no run on replayed batches, and a plan needs one: use 'leat profile --time'", name);
    double prep = observed ? observed->batch / observed->prepare_cpu_s : NAN;
    if (isfinite(prep) && !leat_plan_job_has(job, LEAT_KEY_PREP_RATE)) {
        job->value[LEAT_KEY_PREP_RATE] = prep;
        snprintf(job->source[LEAT_KEY_PREP_RATE], sizeof job->source[0], "%.80s", leat_plan_tail(name));
    }
    return LEAT_OK;
}

static leat_status read_profile(const char *name, const char *text, size_t n, struct leat_plan_job *job,
                                struct leat_plan_measures *out, struct leat_error *err)
{
    struct leat_report *report = calloc(1, sizeof *report);
    if (!report)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a report");
    leat_status rc = leat_report_read(name, text, n, report, err);
    if (rc == LEAT_OK)
        rc = name_file(out, name, err);
    if (rc == LEAT_OK)
        rc = take_profile(name, report, job, out, err);
    free(report);
    return rc;
}

leat_status leat_plan_measures_report(const char *name, const char *text, size_t n, struct leat_plan_job *job,
                                      struct leat_plan_measures *out, struct leat_error *err)
{
    if (leat_report_is(text, n))
        return read_profile(name, text, n, job, out, err);
    json_error_t why;
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return leat_fail(err, LEAT_INVALID, "%s line %d: %s", name, why.line, why.text);
    leat_status rc = name_file(out, name, err);
    if (rc == LEAT_OK)
        rc = known_keys(name, root, report_keys, sizeof report_keys / sizeof *report_keys, err);
    if (rc == LEAT_OK)
        rc = known_keys(name, json_object_get(root, "step_s"), step_keys, sizeof step_keys / sizeof *step_keys, err);
    if (rc == LEAT_OK)
        rc = take_report(name, root, job, out, err);
    json_decref(root);
    return rc;
}

static const struct {
    const char *name;
    size_t offset;
} step_columns[] = {{"flops_per_step", offsetof(struct leat_plan_measure, flops)},
                    {"parameters", offsetof(struct leat_plan_measure, parameters)},
                    {"tensors", offsetof(struct leat_plan_measure, tensors)}},
  checkpoint_columns[] = {{"checkpoint_bytes", offsetof(struct leat_plan_measure, checkpoint_bytes)}};

static double value_at(const struct leat_plan_measure *m, size_t offset)
{
    double v;
    memcpy(&v, (const char *)m + offset, sizeof v);
    return v;
}

static double feature(const struct leat_plan_measure *m, const char *column)
{
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(step_columns[i].name, column) == 0)
            return value_at(m, step_columns[i].offset);
    }
    return m->checkpoint_bytes;
}

static bool usable(const struct leat_plan_measure *m, enum leat_plan_target target, const char *accelerator)
{
    if (accelerator && strcmp(m->accelerator, accelerator) != 0)
        return false;
    if (target == LEAT_PLAN_CHECKPOINT)
        return !isnan(m->checkpoint_s) && !isnan(m->checkpoint_bytes);
    return !isnan(m->step_s) && !isnan(m->flops) && m->gpus * m->nodes == 1;
}

static size_t choose_columns(const struct leat_plan_measures *m, enum leat_plan_target target, const char *accelerator,
                             const char *column[LEAT_PLAN_FEATURES_MAX])
{
    size_t n = 0;
    if (target == LEAT_PLAN_CHECKPOINT) {
        column[n++] = checkpoint_columns[0].name;
        return n;
    }
    for (size_t c = 0; c < sizeof step_columns / sizeof *step_columns; c++) {
        bool all = true;
        for (size_t i = 0; i < m->count; i++)
            all &= !usable(&m->row[i], target, accelerator) || !isnan(value_at(&m->row[i], step_columns[c].offset));
        if (all)
            column[n++] = step_columns[c].name;
    }
    return n;
}

leat_status leat_plan_model_fit(const struct leat_plan_measures *m, enum leat_plan_target target,
                                const char *accelerator, struct leat_plan_model *out, bool *used, double *left_out,
                                struct leat_error *err)
{
    struct leat_plan_model model = {.target = target};
    size_t features = choose_columns(m, target, accelerator, model.column);
    size_t room = m->count ? m->count : 1;
    double *x = calloc(room * (features + 2), sizeof *x);
    if (!x)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory to fit %zu measurements", m->count);
    double *y = x + room * features;
    double *predicted = y + room;
    size_t rows = 0;
    for (size_t i = 0; i < m->count; i++) {
        bool use = usable(&m->row[i], target, accelerator);
        if (used)
            used[i] = use;
        if (!use)
            continue;
        for (size_t c = 0; c < features; c++)
            x[rows * features + c] = feature(&m->row[i], model.column[c]);
        y[rows++] = target == LEAT_PLAN_STEP ? m->row[i].step_s : m->row[i].checkpoint_s;
    }
    leat_status rc = leat_plan_fit(x, y, rows, features, &model.fit, predicted, err);
    if (rc == LEAT_OK) {
        for (size_t i = 0, r = 0; left_out && i < m->count; i++)
            left_out[i] = usable(&m->row[i], target, accelerator) ? predicted[r++] : NAN;
        *out = model;
    }
    free(x);
    return rc;
}

const char *leat_plan_model_lacks(const struct leat_plan_model *model, const struct leat_plan_measure *row)
{
    for (size_t c = 0; c < model->fit.features; c++) {
        if (isnan(feature(row, model->column[c])))
            return model->column[c];
    }
    return NULL;
}

leat_status leat_plan_model_predict(const struct leat_plan_model *model, const struct leat_plan_measure *row,
                                    double probability, struct leat_plan_prediction *out, struct leat_error *err)
{
    const char *lacks = leat_plan_model_lacks(model, row);
    double x[LEAT_PLAN_FEATURES_MAX];
    size_t column;
    if (lacks)
        return leat_fail(err, LEAT_UNSUPPORTED, "no %s", lacks);
    for (size_t c = 0; c < model->fit.features; c++)
        x[c] = feature(row, model->column[c]);
    double beyond = leat_plan_fit_beyond(&model->fit, x, &column);
    if (!(beyond <= LEAT_PLAN_FIT_BEYOND_MAX))
        return leat_fail(err, LEAT_UNSUPPORTED,
                         "%s %.4g is %.3g times beyond what was measured (%.4g to %.4g), and at most %d times can be "
                         "predicted",
                         model->column[column], x[column], beyond, model->fit.least[column], model->fit.most[column],
                         LEAT_PLAN_FIT_BEYOND_MAX);
    *out = (struct leat_plan_prediction){leat_plan_fit_predict(&model->fit, x, probability),
                                         leat_plan_fit_spread(&model->fit, x), beyond, model->column[column]};
    return LEAT_OK;
}
