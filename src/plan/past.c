#include "plan/past.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/egress.h"
#include "plan/engine.h"

/* Of the mean over all of a run's time: what rounding leaves, and a run that waited for machines for most of it. */
#define MEAN_LEAST 0.95
#define MEAN_MOST  100

static leat_status take_number(const json_t *root, const char *key, const char *name, double least, double most,
                               double *out, struct leat_error *err)
{
    const json_t *v = json_object_get(root, key);
    *out = NAN;
    if (!v || json_is_null(v))
        return LEAT_OK;
    double number = json_number_value(v);
    if (!json_is_number(v) || !(number >= least && number <= most))
        return leat_fail(err, LEAT_INVALID, "%s: '%s' must be a number from %g to %g", name, key, least, most);
    *out = number;
    return LEAT_OK;
}

static leat_status check_keys(json_t *object, const char *const *keys, const char *name, struct leat_error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value) {
        size_t i = 0;
        while (keys[i] && strcmp(keys[i], key) != 0)
            i++;
        if (!keys[i])
            return leat_fail(err, LEAT_INVALID, "%s: '%s' is not known here; docs/plan.md lists what a run may say",
                             name, key);
    }
    return LEAT_OK;
}

static leat_status take_lives(const json_t *root, struct leat_plan_past *p, struct leat_error *err)
{
    static const char *const keys[] = {"hours", "how", NULL};
    json_t *list = json_object_get(root, "lives");
    size_t i;
    json_t *life;
    if (!list || json_is_null(list))
        return LEAT_OK;
    if (!json_is_array(list) || json_array_size(list) > LEAT_PLAN_PAST_LIVES_MAX)
        return leat_fail(err, LEAT_INVALID, "%s: 'lives' must be an array of at most %d machines", p->name,
                         LEAT_PLAN_PAST_LIVES_MAX);
    p->lives = calloc(json_array_size(list) + 1, sizeof *p->lives);
    if (!p->lives)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for %s", p->name);
    json_array_foreach (list, i, life) {
        const char *how = json_string_value(json_object_get(life, "how"));
        double hours;
        leat_status rc = check_keys(life, keys, p->name, err);
        if (rc == LEAT_OK)
            rc = take_number(life, "hours", p->name, 0, LEAT_PLAN_AGE_MAX_H, &hours, err);
        if (rc != LEAT_OK)
            return rc;
        bool taken = how && strcmp(how, "taken") == 0;
        if (isnan(hours) || !how || (!taken && strcmp(how, "stopped") != 0 && strcmp(how, "running") != 0))
            return leat_fail(err, LEAT_INVALID,
                             "%s: machine %zu of 'lives' needs hours, and how: taken, stopped or running", p->name,
                             i + 1);
        p->lives[p->life_count++] = (struct leat_plan_life){fmax(hours * 3600, 1), taken, 0};
    }
    return LEAT_OK;
}

/* "TYPE:COUNT:KIND:REGION[:PATH]": how many machines, in "4" or "1+3". */
static unsigned machines_of(const char *text, size_t n)
{
    unsigned sum = 0;
    unsigned one = 0;
    for (size_t i = 0; i <= n; i++) {
        if (i == n || text[i] == '+') {
            sum += one;
            one = 0;
        } else if (text[i] >= '0' && text[i] <= '9' && one < 100000) {
            one = one * 10 + (unsigned)(text[i] - '0');
        } else {
            return 0;
        }
    }
    return sum;
}

leat_status leat_plan_past_read(const char *name, const char *text, size_t n, struct leat_plan_past *out,
                                struct leat_error *err)
{
    static const char *const keys[] = {"config", "samples",      "elapsed_s", "usd",   "revocations", "samples_per_s",
                                       "step_s", "checkpoint_s", "start_s",   "lives", NULL};
    json_error_t why;
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return leat_fail(err, LEAT_INVALID, "%s line %d: %s", name, why.line, why.text);
    snprintf(out->name, sizeof out->name, "%s", name);
    const char *config = json_string_value(json_object_get(root, "config"));
    leat_status rc = json_is_object(root) ? check_keys(root, keys, name, err)
                                          : leat_fail(err, LEAT_INVALID, "%s: not an object", name);
    if (rc == LEAT_OK && (!config || strlen(config) >= sizeof out->config))
        rc = leat_fail(err, LEAT_INVALID, "%s: 'config' must name the configuration, as TYPE:COUNT:KIND:REGION[:PATH]",
                       name);
    if (rc == LEAT_OK)
        rc = take_number(root, "samples", name, 0, 1e16, &out->samples, err);
    if (rc == LEAT_OK)
        rc = take_number(root, "elapsed_s", name, 0, 1e9, &out->elapsed_s, err);
    if (rc == LEAT_OK && (isnan(out->samples) || isnan(out->elapsed_s)))
        rc = leat_fail(err, LEAT_INVALID, "%s: 'samples' (trained on) and 'elapsed_s' are needed", name);
    if (rc == LEAT_OK)
        rc = take_number(root, "usd", name, 0, 1e9, &out->usd, err);
    if (rc == LEAT_OK)
        rc = take_number(root, "revocations", name, 0, 1e6, &out->revocations, err);
    if (rc == LEAT_OK)
        rc = take_number(root, "samples_per_s", name, 1e-9, 1e12, &out->samples_per_s, err);
    if (rc == LEAT_OK)
        rc = take_number(root, "checkpoint_s", name, 0, 86400, &out->checkpoint_s, err);
    if (rc == LEAT_OK)
        rc = take_number(root, "start_s", name, 0, 86400, &out->start_s, err);
    if (rc == LEAT_OK)
        rc = take_number(root, "step_s", name, 1e-6, 1e5, &out->step_s, err);
    if (rc == LEAT_OK && !isnan(out->step_s) && !isnan(out->samples_per_s))
        rc = leat_fail(err, LEAT_INVALID, "%s: step_s and samples_per_s are both given; one of them says how fast",
                       name);
    if (rc == LEAT_OK)
        rc = take_lives(root, out, err);
    if (rc == LEAT_OK)
        memcpy(out->config, config, strlen(config) + 1);
    json_decref(root);
    return rc;
}

void leat_plan_past_free(struct leat_plan_past *past)
{
    free(past->lives);
    *past = (struct leat_plan_past){0};
}

/* A run cannot have trained faster than it did, nor stood still for nearly all of its time. */
static leat_status check_speed(const struct leat_plan_past *past, double batch, struct leat_error *err)
{
    double step_s = batch / past->samples_per_s;
    double mean = past->samples / past->elapsed_s;
    if (isnan(past->samples_per_s))
        return LEAT_OK;
    if (!(step_s >= LEAT_PLAN_STEP_LEAST && step_s <= LEAT_PLAN_STEP_MOST))
        return leat_fail(err, LEAT_INVALID, "%s: %g samples/s make a step of %g s, outside %g … %g", past->name,
                         past->samples_per_s, step_s, LEAT_PLAN_STEP_LEAST, LEAT_PLAN_STEP_MOST);
    if (past->samples > 0 && (past->samples_per_s < MEAN_LEAST * mean || past->samples_per_s > MEAN_MOST * mean))
        return leat_fail(
            err, LEAT_INVALID,
            "%s: %g samples in %g s are %.4g samples/s, and the run is said to train on %.4g a second: one "
            "of them is wrong, or in another unit",
            past->name, past->samples, past->elapsed_s, mean, past->samples_per_s);
    return LEAT_OK;
}

leat_status leat_plan_past_locate(struct leat_plan_past *past, const struct leat_plan_catalog *catalog,
                                  const struct leat_plan_job *job, struct leat_error *err)
{
    const char *part[5] = {past->config};
    size_t n[5] = {0};
    int parts = 0;
    for (const char *c = past->config; parts < 5; c += n[parts++] + 1) {
        part[parts] = c;
        n[parts] = parts == 4 ? strlen(c) : strcspn(c, ":");
        if (!c[n[parts]]) {
            parts++;
            break;
        }
    }
    char region[LEAT_PLAN_NAME_SIZE];
    snprintf(region, sizeof region, "%.*s", (int)n[3], part[3] ? part[3] : "");
    past->nodes = parts > 1 ? machines_of(part[1], n[1]) : 0;
    int kind = 0;
    while (parts > 2 && kind < LEAT_PLAN_KINDS &&
           (strlen(leat_plan_kind_name((enum leat_plan_kind)kind)) != n[2] ||
            strncmp(leat_plan_kind_name((enum leat_plan_kind)kind), part[2], n[2]) != 0))
        kind++;
    if (parts < 4 || !past->nodes || kind == LEAT_PLAN_KINDS)
        return leat_fail(err, LEAT_INVALID, "%s: config '%s' is not TYPE:COUNT:KIND:REGION[:PATH]", past->name,
                         past->config);
    past->kind = (enum leat_plan_kind)kind;
    past->path = -1;
    for (unsigned i = 0; parts > 4 && i < job->paths; i++) {
        if (strcmp(job->path[i].name, part[4]) == 0)
            past->path = (int)i;
    }
    for (size_t i = 0; i < catalog->count && !past->offer; i++) {
        const struct leat_plan_offer *o = &catalog->offer[i];
        if (strlen(o->type) == n[0] && strncmp(o->type, past->config, n[0]) == 0 &&
            leat_plan_same_place(region, o->provider, o->region))
            past->offer = o;
    }
    if (!past->offer || (parts > 4 && past->path < 0))
        return leat_fail(err, LEAT_INVALID, "%s: config '%s': the %s has no such %s", past->name, past->config,
                         past->offer ? "job" : "catalog", past->offer ? "data path" : "machines there");
    double batch = job->value[LEAT_KEY_BATCH] * past->nodes * past->offer->gpus; /* each GPU's, in one step */
    if (!isnan(past->step_s))
        past->samples_per_s = batch / past->step_s;
    return check_speed(past, batch, err);
}

/* Takes out earlier lines about the very cluster of the run. */
static void drop_same(const struct leat_plan_past *past, const struct leat_plan_job *job, struct leat_plan_measures *m)
{
    size_t kept = 0;
    for (size_t i = 0; i < m->count; i++) {
        const struct leat_plan_measure *r = &m->row[i];
        bool same =
            (!*r->model || strcmp(r->model, job->name) == 0) && strcmp(r->accelerator, past->offer->accelerator) == 0 &&
            (!*r->type || strcmp(r->type, past->offer->type) == 0) && r->gpus == past->offer->gpus &&
            r->nodes == past->nodes && (isnan(r->batch) || r->batch == job->value[LEAT_KEY_BATCH]) && !isnan(r->step_s);
        if (!same)
            m->row[kept++] = *r;
    }
    m->count = kept;
}

/* One more measured cluster: of the type where others are, else of the accelerator. */
static leat_status add_speed(const struct leat_plan_past *past, const struct leat_plan_job *job,
                             struct leat_plan_measures *m, struct leat_error *err)
{
    if (m->files == LEAT_PLAN_MEASURE_FILES)
        return leat_fail(err, LEAT_LIMIT, "%s: more than %d files of measurements", past->name,
                         LEAT_PLAN_MEASURE_FILES);
    struct leat_plan_measure *row = realloc(m->row, (m->count + 1) * sizeof *row);
    if (!row)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for measured speeds");
    m->row = row;
    snprintf(m->name[m->files++], sizeof m->name[0], "%s", past->name);
    row += m->count++;
    *row = (struct leat_plan_measure){.gpus = past->offer->gpus,
                                      .nodes = past->nodes,
                                      .batch = job->value[LEAT_KEY_BATCH],
                                      .samples_per_s = past->samples_per_s,
                                      .flops = NAN,
                                      .parameters = NAN,
                                      .tensors = NAN,
                                      .checkpoint_bytes = NAN,
                                      .checkpoint_s = NAN,
                                      .file = m->files - 1};
    row->step_s = row->batch * row->gpus * row->nodes / row->samples_per_s;
    snprintf(row->model, sizeof row->model, "%s", job->name);
    snprintf(row->accelerator, sizeof row->accelerator, "%s", past->offer->accelerator);
    if (leat_plan_engine_by_type(m, past->offer->type))
        snprintf(row->type, sizeof row->type, "%s", past->offer->type);
    return LEAT_OK;
}

/* What the lifetime foretold of these very machines, and how many were taken before a maximum life. */
static void foretold(const struct leat_plan_past *past, const struct leat_plan_lifetime *l, double *taken,
                     double *expected)
{
    double end = l->ends ? l->age_s[l->count - 1] : HUGE_VAL;
    *taken = 0;
    *expected = 0;
    for (size_t i = 0; i < past->life_count; i++) {
        double age = fmin(past->lives[i].age_s, end * (1 - 1e-9));
        *taken += past->lives[i].taken && past->lives[i].age_s < 0.96 * end;
        *expected += -log1p(-fmin(leat_plan_lifetime_cdf(l, age), 0.999999));
    }
}

static leat_status learn_lives(const struct leat_plan_past *past, struct leat_plan_revocations *r,
                               struct leat_error *err)
{
    const struct leat_plan_offer *o = past->offer;
    const struct leat_plan_revocation *known = leat_plan_revocations_find(r, o->type, o->accelerator, o->region);
    struct leat_plan_revocation row = {.events = NAN};
    leat_status rc = LEAT_OK;
    if (r->files == LEAT_PLAN_REVOCATION_FILES)
        return leat_fail(err, LEAT_LIMIT, "%s: more than %d files of lifetimes", past->name,
                         LEAT_PLAN_REVOCATION_FILES);
    if (known) {
        double taken;
        double expected;
        row = *known;
        foretold(past, &known->lifetime, &taken, &expected);
        rc = leat_plan_revocation_learn(&row, taken, expected, err);
    } else {
        struct leat_plan_survival s;
        rc = leat_plan_survival_fit(past->lives, past->life_count, past->name, &s, err);
        if (rc == LEAT_OK)
            rc = leat_plan_lifetime_set(s.age_s, s.probability, s.points, s.ends, past->name, &row.lifetime, err);
        if (rc == LEAT_OK) {
            row.events = leat_plan_survival_events(&s);
            row.spread = 1 / sqrt(row.events);
            snprintf(row.basis, sizeof row.basis, "this run's: %zu of %zu machines taken", s.taken, s.machines);
        }
    }
    if (rc != LEAT_OK)
        return rc;
    snprintf(r->name[r->files], sizeof r->name[0], "%s", past->name);
    row.file = r->files++;
    row.line = 0;
    bool own = known && *known->type && strcmp(known->region, o->region) == 0;
    if (own) {
        r->row[known - r->row] = row;
        return LEAT_OK;
    }
    row.accelerator[0] = '\0';
    snprintf(row.type, sizeof row.type, "%s", o->type);
    snprintf(row.region, sizeof row.region, "%s", o->region);
    return leat_plan_revocations_add(r, &row, err);
}

leat_status leat_plan_past_learn(const struct leat_plan_past *past, bool alone, struct leat_plan_job *job,
                                 struct leat_plan_measures *measures, struct leat_plan_revocations *revocations,
                                 struct leat_error *err)
{
    enum leat_plan_key start =
        past->kind == LEAT_PLAN_KIND_ON_DEMAND ? LEAT_KEY_START_ON_DEMAND : LEAT_KEY_START_TRANSIENT;
    leat_status rc = LEAT_OK;
    if (!isnan(past->samples_per_s) && alone)
        drop_same(past, job, measures);
    if (!isnan(past->samples_per_s))
        rc = add_speed(past, job, measures, err);
    if (!isnan(past->checkpoint_s)) {
        job->value[LEAT_KEY_CHECKPOINT_S] = past->checkpoint_s;
        snprintf(job->source[LEAT_KEY_CHECKPOINT_S], sizeof job->source[0], "%.80s", leat_plan_tail(past->name));
    }
    if (!isnan(past->start_s)) {
        job->value[start] = past->start_s;
        snprintf(job->source[start], sizeof job->source[0], "%.80s", leat_plan_tail(past->name));
    }
    if (rc == LEAT_OK && past->life_count)
        rc = learn_lives(past, revocations, err);
    return rc;
}
