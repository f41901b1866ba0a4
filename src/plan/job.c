#include "plan/job.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "plan/notes.h"

enum kind { NUMBER, COUNT, SIZE, DURATION, RATE, USD };

/* The whole schema of plain settings. `preset` NaN: none; such a setting is asked for by name when needed. */
static const struct setting {
    const char *path;
    enum kind kind;
    double min;
    double max;
    double preset;
    const char *hint; /* said when a value is out of range: usually a unit was mixed up */
} table[LEAT_KEY_COUNT] = {
    [LEAT_KEY_SAMPLES] = {"job.samples", COUNT, 1, 1e13, NAN, "the number of samples in the dataset"},
    [LEAT_KEY_EPOCHS] = {"job.epochs", NUMBER, 1e-3, 1e6, NAN, "how many times all samples are read"},
    [LEAT_KEY_STEPS] = {"job.steps", COUNT, 1, 1e12, NAN, "steps of one worker's batch each"},
    [LEAT_KEY_BATCH] = {"job.batch", COUNT, 1, 1e7, NAN, "samples of one GPU in one step"},
    [LEAT_KEY_GLOBAL_BATCH] = {"job.global_batch", COUNT, 1, 1e10, NAN, "samples of all GPUs in one optimizer step"},
    [LEAT_KEY_FLOPS] = {"model.flops", NUMBER, 1e4, 1e18, NAN,
                        "plain FLOPs of one sample, forward and backward: 12.3e9, not 12.3 GFLOPs"},
    [LEAT_KEY_TRAFFIC] = {"model.bytes", SIZE, 1, 1e16, NAN, "bytes that one sample moves through a GPU's memory"},
    [LEAT_KEY_PARAMETERS] = {"model.parameters", COUNT, 1, 1e14, NAN, "a count, not millions or billions"},
    [LEAT_KEY_PARAMETER_BYTES] = {"model.parameter_bytes", SIZE, 1e3, 1e15, NAN, "bytes of all parameters"},
    [LEAT_KEY_TENSORS] = {"model.tensors", COUNT, 1, 1e7, NAN, "how many parameter tensors the model has"},
    [LEAT_KEY_BYTES_PER_PARAMETER] = {"model.bytes_per_parameter", NUMBER, 1, 64, 16,
                                      "weights, gradients and optimizer: 16 for Adam in mixed precision"},
    [LEAT_KEY_GPU_MEMORY] = {"model.memory_per_gpu", SIZE, 1e6, 1e13, NAN, "all that training holds on one GPU: 30GiB"},
    [LEAT_KEY_CHECKPOINT_BYTES] = {"checkpoint.bytes", SIZE, 1e3, 1e16, NAN, "bytes of one checkpoint: 205MB"},
    [LEAT_KEY_CHECKPOINT_S] = {"checkpoint.time", DURATION, 0, 86400, NAN, "time that writing one takes"},
    [LEAT_KEY_CHECKPOINT_RATE] = {"checkpoint.bandwidth", RATE, 1e3, 1e13, NAN, "for example 200MB/s"},
    [LEAT_KEY_CHECKPOINT_INTERVAL] = {"checkpoint.interval", DURATION, 1, 3e8, NAN, "work between two checkpoints"},
    [LEAT_KEY_CHECKPOINT_STALL] = {"checkpoint.stall", DURATION, 0, 86400, NAN,
                                   "time that work stops, if the rest is written in the background"},
    [LEAT_KEY_RESTORE] = {"checkpoint.restore", DURATION, 0, 86400, NAN, "time to read one back on all machines"},
    [LEAT_KEY_DATASET_BYTES] = {"data.dataset", SIZE, 1, 1e18, NAN, "bytes of the whole dataset"},
    [LEAT_KEY_WINDOW_BYTES] = {"data.window", SIZE, 0, 1e15, 1.0737418240e9, "bytes of chunks live at a time"},
    [LEAT_KEY_PREP_RATE] = {"data.prep_per_vcpu", NUMBER, 1e-3, 1e9, NAN, "samples per second that one vCPU prepares"},
    [LEAT_KEY_START_ON_DEMAND] = {"start.on_demand", DURATION, 0, 86400, 72, "from order to ready"},
    [LEAT_KEY_START_TRANSIENT] = {"start.transient", DURATION, 0, 86400, 86, "from order to ready"},
    [LEAT_KEY_REPLACE] = {"start.replace", DURATION, 0, 86400, 170, "from a revocation to working again"},
    [LEAT_KEY_REGROUP] = {"start.regroup", DURATION, 0, 3600, 20, "pause of all when one comes or goes"},
    [LEAT_KEY_START_SPREAD] = {"start.spread", NUMBER, 0, 2, 0.1, "relative standard deviation of the start"},
    [LEAT_KEY_NETWORK_RATE] = {"network.bandwidth", RATE, 1e5, 1e13, NAN, "of one machine: 25Gbit/s"},
    [LEAT_KEY_NETWORK_LATENCY] = {"network.latency", DURATION, 0, 1, 30e-6, "of one hop: 30us"},
    [LEAT_KEY_INSIDE_RATE] = {"network.inside_bandwidth", RATE, 1e6, 1e14, NAN, "between GPUs of a machine: 50GB/s"},
    [LEAT_KEY_INSIDE_LATENCY] = {"network.inside_latency", DURATION, 0, 1, 10e-6, "of one hop: 10us"},
    [LEAT_KEY_SERVER_USD] = {"server.usd_per_hour", USD, 0, 1e5, NAN, "price of the parameter server"},
    [LEAT_KEY_BILL_INCREMENT] = {"billing.increment", DURATION, 0, 86400, 1, "machines are paid for in steps of this"},
    [LEAT_KEY_BILL_MINIMUM] = {"billing.minimum", DURATION, 0, 86400, 60, "and for this long at least"},
};

static const struct path_setting {
    const char *name;
    enum kind kind;
    size_t offset;
    double min;
    double max;
    const char *hint;
} path_table[] = {
    {"bandwidth", RATE, offsetof(struct leat_plan_path, node_bytes_per_s), 1e3, 1e13, "of one machine: 10Gbit/s"},
    {"bucket_bandwidth", RATE, offsetof(struct leat_plan_path, bucket_bytes_per_s), 1e3, 1e15, "of the whole bucket"},
    {"cache", SIZE, offsetof(struct leat_plan_path, cache_bytes), 0, 1e16, "on each machine: 64GiB"},
    {"usd_per_1000_requests", USD, offsetof(struct leat_plan_path, usd_per_1000_requests), 0, 1e3, "0.0004"},
    {"request_bytes", SIZE, offsetof(struct leat_plan_path, request_bytes), 1, 1e12, "bytes of one request: 8MiB"},
    {"usd_per_egress_gb", USD, offsetof(struct leat_plan_path, usd_per_egress_gb), 0, 100, "0.09"},
    {"usd_per_disk_gb_month", USD, offsetof(struct leat_plan_path, usd_per_disk_gb_month), 0, 100, "0.08"},
};

#define CACHE_LEAST 1e6 /* 0 is none; less than this, a number whose unit was left out */

static leat_status parse_text(enum kind kind, const char *text, const char *what, double *out, struct leat_error *err)
{
    uint64_t whole = 0;
    leat_status rc;
    switch (kind) {
    case SIZE:
        rc = leat_parse_size(text, what, &whole, err);
        break;
    case DURATION:
        rc = leat_parse_duration(text, what, &whole, err);
        break;
    case RATE:
        rc = leat_parse_rate(text, what, &whole, err);
        break;
    case USD:
        return leat_parse_usd(text, what, out, err);
    default:
        return leat_parse_double(text, what, out, err);
    }
    if (rc == LEAT_OK)
        *out = kind == DURATION ? (double)whole / 1e9 : (double)whole;
    return rc;
}

static leat_status in_range(enum kind kind, double v, double min, double max, const char *hint, const char *what,
                            struct leat_error *err)
{
    if (!(v >= min && v <= max))
        return leat_fail(err, LEAT_INVALID, "%s: %g is outside %g … %g (%s)", what, v, min, max, hint);
    if (kind == COUNT && v != floor(v))
        return leat_fail(err, LEAT_INVALID, "%s: %g is not a whole number", what, v);
    return LEAT_OK;
}

static leat_status take_value(const struct leat_plan_doc_value *value, enum kind kind, double min, double max,
                              const char *hint, const char *what, double *out, struct leat_error *err)
{
    double v = value->number;
    leat_status rc = LEAT_OK;
    if (value->type == LEAT_PLAN_DOC_STRING)
        rc = parse_text(kind, value->text, what, &v, err);
    else if (value->type != LEAT_PLAN_DOC_NUMBER)
        rc = leat_fail(err, LEAT_INVALID, "%s: a number or a text with a unit is expected (%s)", what, hint);
    if (rc == LEAT_OK)
        rc = in_range(kind, v, min, max, hint, what, err);
    if (rc == LEAT_OK)
        *out = v;
    return rc;
}

/* One of several words. */
static leat_status take_word(const char *text, const char *const *words, int count, const char *what, int *out,
                             struct leat_error *err)
{
    char all[200] = "";
    for (int i = 0; i < count; i++) {
        if (strcmp(text, words[i]) == 0) {
            *out = i;
            return LEAT_OK;
        }
        size_t at = strlen(all);
        snprintf(all + at, sizeof all - at, "%s%s", !i ? "" : i + 1 < count ? ", " : " or ", words[i]);
    }
    return leat_fail(err, LEAT_INVALID, "%s: '%s' is not one of %s", what, text, all);
}

static const char *const restarts[] = {"elastic", "all"};
static const char *const stores[] = {"memory", "disk", "local"};
static const char *const precisions[] = {"other", "mixed"};
static const char *const truths[] = {"false", "true"};

static leat_status take_mode(const char *text, const char *what, struct leat_plan_job *job, struct leat_error *err)
{
    if (strcmp(text, "allreduce") == 0)
        job->mode = LEAT_PLAN_ALLREDUCE;
    else if (strcmp(text, "async") == 0)
        job->mode = LEAT_PLAN_ASYNC;
    else
        return leat_fail(err, LEAT_INVALID, "%s: '%s' is neither allreduce nor async", what, text);
    return LEAT_OK;
}

static leat_status take_name(const char *text, const char *what, struct leat_plan_job *job, struct leat_error *err)
{
    if (strlen(text) >= sizeof job->name)
        return leat_fail(err, LEAT_INVALID, "%s: a short text is expected", what);
    snprintf(job->name, sizeof job->name, "%s", text);
    leat_one_line(job->name);
    return LEAT_OK;
}

static void source_of(const struct leat_plan_doc *doc, const struct leat_plan_doc_entry *e,
                      char out[LEAT_PLAN_SOURCE_SIZE])
{
    snprintf(out, LEAT_PLAN_SOURCE_SIZE, "%.70s line %u", leat_plan_tail(doc->name), e->line);
}

/* path.NAME.SETTING */
static leat_status take_path(const struct leat_plan_doc *doc, const struct leat_plan_doc_entry *e, const char *what,
                             struct leat_plan_job *job, struct leat_error *err)
{
    const char *name = e->path + strlen("path.");
    size_t n = strcspn(name, ".");
    const char *setting = name[n] ? name + n + 1 : "";
    struct leat_plan_path *path = NULL;
    if (n == 0 || n >= sizeof path->name)
        return leat_fail(err, LEAT_INVALID, "%s: a data path is written [path.NAME], the name under %zu letters", what,
                         sizeof path->name);
    for (unsigned i = 0; i < job->paths; i++) {
        if (strlen(job->path[i].name) == n && memcmp(job->path[i].name, name, n) == 0)
            path = &job->path[i];
    }
    if (!path) {
        if (job->paths == LEAT_PLAN_PATHS_MAX)
            return leat_fail(err, LEAT_LIMIT, "%s: more than %d data paths", what, LEAT_PLAN_PATHS_MAX);
        path = &job->path[job->paths++];
        *path = (struct leat_plan_path){.request_bytes = 8388608, .usd_per_egress_gb = NAN};
        memcpy(path->name, name, n);
        source_of(doc, e, path->source);
    }
    if (strcmp(setting, "store") == 0) {
        int which = 0;
        leat_status rc = e->value.type == LEAT_PLAN_DOC_STRING
                             ? take_word(e->value.text, stores, 3, what, &which, err)
                             : leat_fail(err, LEAT_INVALID, "%s: memory, disk or local is expected", what);
        path->store = (enum leat_plan_store)which;
        path->store_given = true;
        return rc;
    }
    for (size_t i = 0; i < sizeof path_table / sizeof *path_table; i++) {
        const struct path_setting *s = &path_table[i];
        void *at = (char *)path + s->offset;
        if (strcmp(s->name, setting) != 0)
            continue;
        leat_status rc = take_value(&e->value, s->kind, s->min, s->max, s->hint, what, at, err);
        if (rc == LEAT_OK && path->cache_bytes > 0 && path->cache_bytes < CACHE_LEAST)
            rc = leat_fail(err, LEAT_INVALID, "%s: %g bytes are not enough for a cache (%s)", what, path->cache_bytes,
                           s->hint);
        return rc;
    }
    return leat_fail(err, LEAT_INVALID, "%s: not a setting of a data path", what);
}

static leat_status take_accuracy(const struct leat_plan_doc_entry *e, double *out, unsigned *count, double min,
                                 double max, const char *what, struct leat_error *err)
{
    if (e->value.type != LEAT_PLAN_DOC_ARRAY || e->value.count < 1 || e->value.count > LEAT_PLAN_ACCURACY_MAX)
        return leat_fail(err, LEAT_INVALID, "%s: an array of 1 to %d numbers is expected", what,
                         LEAT_PLAN_ACCURACY_MAX);
    for (size_t i = 0; i < e->value.count; i++) {
        const struct leat_plan_doc_value *v = &e->value.items[i];
        if (v->type != LEAT_PLAN_DOC_NUMBER || !(v->number >= min && v->number <= max))
            return leat_fail(err, LEAT_INVALID, "%s: item %zu is not a number from %g to %g", what, i + 1, min, max);
        out[i] = v->number;
    }
    if (*count && *count != e->value.count)
        return leat_fail(err, LEAT_INVALID, "%s: accuracy.workers and accuracy.percent differ in length", what);
    *count = (unsigned)e->value.count;
    return LEAT_OK;
}

static enum leat_plan_key find_key(const char *path)
{
    int k = 0;
    while (k < LEAT_KEY_COUNT && strcmp(table[k].path, path) != 0)
        k++;
    return (enum leat_plan_key)k;
}

/* Settings that are words; *taken says whether this is one. */
static leat_status take_text(const char *key, const char *text, const char *what, struct leat_plan_job *job,
                             bool *taken, struct leat_error *err)
{
    int which = 0;
    leat_status rc = LEAT_OK;
    *taken = true;
    if (strcmp(key, "job.mode") == 0)
        return take_mode(text, what, job, err);
    if (strcmp(key, "job.name") == 0)
        return take_name(text, what, job, err);
    if (strcmp(key, "data.region") == 0) {
        if (!*text || strlen(text) >= sizeof job->data_region)
            return leat_fail(err, LEAT_INVALID, "%s: a region is expected, as the catalog calls it", what);
        memcpy(job->data_region, text, strlen(text) + 1);
        leat_one_line(job->data_region);
    } else if (strcmp(key, "job.restart") == 0) {
        rc = take_word(text, restarts, 2, what, &which, err);
        job->restart = (enum leat_plan_restart)which;
    } else if (strcmp(key, "model.precision") == 0) {
        rc = take_word(text, precisions, 2, what, &which, err);
        job->mixed_precision = which;
    } else if (strcmp(key, "model.sharded") == 0) {
        rc = take_word(text, truths, 2, what, &which, err);
        job->sharded = which;
    } else {
        *taken = false;
    }
    return rc;
}

static bool is_words(const char *path)
{
    return strcmp(path, "job.name") == 0 || strcmp(path, "job.mode") == 0 || strcmp(path, "job.restart") == 0 ||
           strcmp(path, "model.precision") == 0 || strcmp(path, "data.region") == 0;
}

static leat_status take_entry(const struct leat_plan_doc *doc, const struct leat_plan_doc_entry *e,
                              struct leat_plan_job *job, struct leat_error *err)
{
    char what[300];
    snprintf(what, sizeof what, "%.180s line %u: %.80s", doc->name, e->line, e->path);
    if (strncmp(e->path, "path.", 5) == 0)
        return take_path(doc, e, what, job, err);
    if (strcmp(e->path, "accuracy.workers") == 0)
        return take_accuracy(e, job->accuracy_workers, &job->accuracies, 1, 1e6, what, err);
    if (strcmp(e->path, "accuracy.percent") == 0)
        return take_accuracy(e, job->accuracy_percent, &job->accuracies, 0, 100, what, err);
    bool taken = false;
    leat_status rc = LEAT_OK;
    if (is_words(e->path) && e->value.type != LEAT_PLAN_DOC_STRING)
        return leat_fail(err, LEAT_INVALID, "%s: a short text is expected", what);
    if (e->value.type == LEAT_PLAN_DOC_STRING)
        rc = take_text(e->path, e->value.text, what, job, &taken, err);
    else if (e->value.type == LEAT_PLAN_DOC_BOOL)
        rc = take_text(e->path, truths[e->value.flag], what, job, &taken, err);
    if (taken)
        return rc;
    enum leat_plan_key k = find_key(e->path);
    if (k == LEAT_KEY_COUNT)
        return leat_fail(err, LEAT_INVALID, "%s: no such setting; docs/plan.md lists them", what);
    const struct setting *s = &table[k];
    source_of(doc, e, job->source[k]);
    return take_value(&e->value, s->kind, s->min, s->max, s->hint, what, &job->value[k], err);
}

static leat_status take_setting(const struct leat_plan_setting *set, struct leat_plan_job *job, struct leat_error *err)
{
    bool taken = false;
    leat_status rc = take_text(set->key, set->text, set->source, job, &taken, err);
    if (taken)
        return rc;
    enum leat_plan_key k = find_key(set->key);
    if (k == LEAT_KEY_COUNT)
        return leat_fail(err, LEAT_INVALID, "%s: no such setting; docs/plan.md lists them", set->key);
    const struct setting *s = &table[k];
    const struct leat_plan_doc_value v = {.type = LEAT_PLAN_DOC_STRING, .text = (char *)(uintptr_t)set->text};
    snprintf(job->source[k], sizeof job->source[k], "%s", set->source);
    return take_value(&v, s->kind, s->min, s->max, s->hint, set->source, &job->value[k], err);
}

bool leat_plan_job_has(const struct leat_plan_job *job, enum leat_plan_key key)
{
    return !isnan(job->value[key]);
}

const char *leat_plan_key_name(enum leat_plan_key key)
{
    return table[key].path;
}

static leat_status check(const struct leat_plan_job *job, const char *where, struct leat_error *err)
{
    bool steps = leat_plan_job_has(job, LEAT_KEY_STEPS);
    bool epochs = leat_plan_job_has(job, LEAT_KEY_EPOCHS);
    if (!leat_plan_job_has(job, LEAT_KEY_BATCH))
        return leat_fail(err, LEAT_INVALID, "%s: job.batch is missing: samples of one GPU in one step", where);
    if (steps && epochs)
        return leat_fail(err, LEAT_INVALID, "%s: job.steps and job.epochs are both given; one of them says how long",
                         where);
    if (!steps && !epochs)
        return leat_fail(err, LEAT_INVALID, "%s: job.epochs or job.steps is missing", where);
    if (epochs && !leat_plan_job_has(job, LEAT_KEY_SAMPLES))
        return leat_fail(err, LEAT_INVALID, "%s: job.samples is missing", where);
    if (leat_plan_job_has(job, LEAT_KEY_DATASET_BYTES)) {
        if (!job->paths)
            return leat_fail(err, LEAT_INVALID, "%s: data.dataset is given, but no [path.NAME] says how it is read",
                             where);
        if (!leat_plan_job_has(job, LEAT_KEY_SAMPLES))
            return leat_fail(err, LEAT_INVALID, "%s: job.samples is missing: data.dataset needs it", where);
        if (job->value[LEAT_KEY_DATASET_BYTES] < job->value[LEAT_KEY_SAMPLES])
            return leat_fail(
                err, LEAT_INVALID, "%s: data.dataset (%s): %g bytes for %g samples; write for example 147GB", where,
                job->source[LEAT_KEY_DATASET_BYTES], job->value[LEAT_KEY_DATASET_BYTES], job->value[LEAT_KEY_SAMPLES]);
    }
    if (job->mode == LEAT_PLAN_ASYNC && (leat_plan_job_has(job, LEAT_KEY_GLOBAL_BATCH) || job->sharded))
        return leat_fail(err, LEAT_INVALID, "%s: %s is for allreduce: asynchronous workers step on their own", where,
                         job->sharded ? "model.sharded" : "job.global_batch");
    for (unsigned i = 0; i < job->accuracies; i++) {
        if (job->accuracy_workers[i] == 0 || job->accuracy_percent[i] == 0)
            return leat_fail(err, LEAT_INVALID, "%s: accuracy needs both workers and percent", where);
        if (i && job->accuracy_workers[i] <= job->accuracy_workers[i - 1])
            return leat_fail(err, LEAT_INVALID, "%s: accuracy.workers must rise", where);
    }
    return LEAT_OK;
}

/* Steps or epochs given from elsewhere win over the other of the two in the file. */
static void length_from_settings(const struct leat_plan_setting *settings, size_t count, struct leat_plan_job *job)
{
    static const enum leat_plan_key keys[2] = {LEAT_KEY_STEPS, LEAT_KEY_EPOCHS};
    for (size_t i = 0; i < count; i++) {
        for (int k = 0; k < 2; k++) {
            if (strcmp(settings[i].key, table[keys[k]].path) != 0)
                continue;
            job->value[keys[!k]] = NAN;
            snprintf(job->source[keys[!k]], sizeof job->source[0], "not given");
        }
    }
}

leat_status leat_plan_job_read(const struct leat_plan_doc *doc, const struct leat_plan_setting *settings, size_t count,
                               struct leat_plan_job *out, struct leat_error *err)
{
    struct leat_plan_job job = {.name = "job"};
    for (int k = 0; k < LEAT_KEY_COUNT; k++) {
        job.value[k] = table[k].preset;
        snprintf(job.source[k], sizeof job.source[k], "%s", isnan(table[k].preset) ? "not given" : "default");
    }
    for (size_t i = 0; doc && i < doc->count; i++) {
        leat_status rc = take_entry(doc, &doc->entries[i], &job, err);
        if (rc != LEAT_OK)
            return rc;
    }
    length_from_settings(settings, count, &job);
    for (size_t i = 0; i < count; i++) {
        leat_status rc = take_setting(&settings[i], &job, err);
        if (rc != LEAT_OK)
            return rc;
    }
    for (unsigned i = 0; i < job.paths; i++) {
        if (!job.path[i].store_given && job.path[i].usd_per_disk_gb_month > 0)
            job.path[i].store = LEAT_PLAN_STORE_DISK;
    }
    leat_status rc = check(&job, doc ? doc->name : "job", err);
    if (rc != LEAT_OK)
        return rc;
    *out = job;
    return LEAT_OK;
}

double leat_plan_job_work(const struct leat_plan_job *job)
{
    if (leat_plan_job_has(job, LEAT_KEY_STEPS))
        return job->value[LEAT_KEY_STEPS] *
                   job->value[leat_plan_job_has(job, LEAT_KEY_GLOBAL_BATCH) ? LEAT_KEY_GLOBAL_BATCH : LEAT_KEY_BATCH] -
               job->done;
    return job->value[LEAT_KEY_SAMPLES] * job->value[LEAT_KEY_EPOCHS] - job->done;
}

double leat_plan_job_epochs(const struct leat_plan_job *job)
{
    return leat_plan_job_work(job) / job->value[LEAT_KEY_SAMPLES];
}

double leat_plan_job_accuracy(const struct leat_plan_job *job, double workers)
{
    for (unsigned i = 0; i < job->accuracies; i++) {
        if (workers == job->accuracy_workers[i])
            return job->accuracy_percent[i];
        if (i && workers < job->accuracy_workers[i] && workers > job->accuracy_workers[i - 1]) {
            double share = log(workers / job->accuracy_workers[i - 1]) /
                           log(job->accuracy_workers[i] / job->accuracy_workers[i - 1]);
            return job->accuracy_percent[i - 1] + share * (job->accuracy_percent[i] - job->accuracy_percent[i - 1]);
        }
    }
    return NAN;
}
