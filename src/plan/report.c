#include "plan/report.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

static const char *const parts[LEAT_REPORT_PARTS] = {"fetch",    "prepare",       "input",     "copy", "forward",
                                                     "backward", "communication", "optimizer", "other"};
static const char *const modes[LEAT_REPORT_MODES] = {"observed", "synthetic", "alone", "single", "cached", "cold"};
static const char *const stages[LEAT_REPORT_STAGES] = {"wait",          "copy",      "forward", "backward",
                                                       "communication", "optimizer", "other"};

const char *leat_report_part_name(enum leat_report_part part)
{
    return parts[part];
}

const char *leat_report_mode_name(enum leat_report_mode mode)
{
    return modes[mode];
}

const char *leat_report_stage_name(size_t stage)
{
    return stages[stage];
}

void leat_report_note(struct leat_report *r, const char *format, ...)
{
    char text[sizeof r->note[0]];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    leat_one_line(text);
    if (r->notes < LEAT_REPORT_NOTES)
        snprintf(r->note[r->notes], sizeof text, "%s",
                 r->notes + 1 < LEAT_REPORT_NOTES ? text : "there was more to say");
    r->notes += r->notes < LEAT_REPORT_NOTES;
}

/* The fields, each once: the writer and the reader both walk these tables. */
enum type { TEXT, WHOLE, SIGNED, REAL, TIME, FLAG };

struct field {
    const char *name;
    enum type type;
    size_t offset;
    size_t room; /* of a text */
    double most;
    int since; /* the version of the format that brought it */
};

#define TEXT_OF(s, f)                                                                                                  \
    {                                                                                                                  \
#f, TEXT, offsetof(struct s, f), sizeof((struct s *)0)->f, 0, 1                                                \
    }
#define SINCE(version, s, f, type, most)                                                                               \
    {                                                                                                                  \
#f, type, offsetof(struct s, f), 0, most, version                                                              \
    }
#define OF(s, f, type, most) SINCE(1, s, f, type, most)
#define FIELDS(table)        (table), (sizeof(table) / sizeof *(table))

static const struct field top_fields[] = {
    TEXT_OF(leat_report, leat), TEXT_OF(leat_report, made),  TEXT_OF(leat_report, accelerator),
    TEXT_OF(leat_report, type), TEXT_OF(leat_report, model), TEXT_OF(leat_report, command),
};
static const struct field run_fields[] = {
    OF(leat_report_run, gpus, WHOLE, 1024),
    OF(leat_report_run, nodes, WHOLE, 1e5),
    OF(leat_report_run, workers, WHOLE, 1e5),
    OF(leat_report_run, cores, WHOLE, 1e5),
    OF(leat_report_run, device, FLAG, 0),
    OF(leat_report_run, steps, REAL, 1e15),
    OF(leat_report_run, batch, REAL, 1e7),
    OF(leat_report_run, step_s, TIME, 1e5),
    OF(leat_report_run, fetch_s, REAL, 1e6),
    OF(leat_report_run, prepare_s, REAL, 1e6),
    OF(leat_report_run, prepare_cpu_s, REAL, 1e6),
    OF(leat_report_run, batch_bytes, REAL, 1e15),
    OF(leat_report_run, gradient_bytes, REAL, 1e15),
    OF(leat_report_run, buckets, REAL, 1e9),
    OF(leat_report_run, warmup_s, REAL, 1e6),
    SINCE(2, leat_report_run, flops, REAL, 1e21),
    SINCE(2, leat_report_run, copied_bytes, REAL, 1e15),
    SINCE(2, leat_report_run, read_bytes, REAL, 1e15),
    SINCE(2, leat_report_run, disk_bytes, REAL, 1e15),
    SINCE(2, leat_report_run, bucket_read_bytes, REAL, 1e15),
    SINCE(2, leat_report_run, memory_rate, REAL, 1e15),
    SINCE(2, leat_report_run, disk_rate, REAL, 1e15),
    SINCE(2, leat_report_run, bucket_rate, REAL, 1e15),
    SINCE(2, leat_report_run, dataset_samples, REAL, 1e15),
    SINCE(2, leat_report_run, peak_gpu_bytes, REAL, 1e15),
    SINCE(2, leat_report_run, cores_used, REAL, 1e5),
    SINCE(2, leat_report_run, checkpoint_write_s, REAL, 1e6),
    SINCE(2, leat_report_run, checkpoint_read_s, REAL, 1e6),
    SINCE(2, leat_report_run, checkpoint_bytes, REAL, 1e15),
    SINCE(3, leat_report_run, handover_s, REAL, 1e6),
};
static const struct field stall_fields[] = {
    TEXT_OF(leat_report_stall, cause),
    OF(leat_report_stall, s, TIME, 1e5),
    OF(leat_report_stall, share, REAL, 1e9),
};
static const struct field rank_fields[] = {
    OF(leat_report_rank, rank, SIGNED, 1e7), OF(leat_report_rank, steps, REAL, 1e15),
    OF(leat_report_rank, late_s, REAL, 1e5), OF(leat_report_rank, late_of, REAL, 1),
    OF(leat_report_rank, died, FLAG, 0),     SINCE(2, leat_report_rank, node, WHOLE, 1e5),
};
static const struct field link_fields[] = {
    TEXT_OF(leat_report_link, scope),        TEXT_OF(leat_report_link, backend),
    OF(leat_report_link, a, SIGNED, 1e7),    OF(leat_report_link, b, SIGNED, 1e7),
    OF(leat_report_link, ranks, WHOLE, 1e7), OF(leat_report_link, bytes, REAL, 1e15),
    OF(leat_report_link, s, TIME, 1e5),
};
static const struct field step_fields[] = {
    OF(leat_report_step, rank, SIGNED, 1e7),
    OF(leat_report_step, start_s, REAL, 1e9),
};
static const struct field span_fields[] = {
    OF(leat_report_span, rank, SIGNED, 1e7),  OF(leat_report_span, thread, WHOLE, 1e7), TEXT_OF(leat_report_span, what),
    OF(leat_report_span, start_s, REAL, 1e9), OF(leat_report_span, end_s, REAL, 1e9),
};

/* A field that an older version does not have, or that nobody has measured. */
static void unknown(const struct field *f, void *to)
{
    char *at = (char *)to + f->offset;
    static const double nan3[3] = {NAN, NAN, NAN};
    if (f->type == REAL)
        memcpy(at, nan3, sizeof(double));
    else if (f->type == TIME)
        memcpy(at, nan3, sizeof nan3);
}

void leat_report_run_init(struct leat_report_run *run)
{
    *run = (struct leat_report_run){0};
    for (size_t i = 0; i < sizeof run_fields / sizeof *run_fields; i++)
        unknown(&run_fields[i], run);
}

static json_t *real(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *write_value(const struct field *f, const void *from)
{
    const char *at = (const char *)from + f->offset;
    struct leat_report_time t;
    double d;
    int i;
    switch (f->type) {
    case TEXT:
        return json_string(at);
    case WHOLE:
    case SIGNED:
        memcpy(&i, at, sizeof i);
        return json_integer(i);
    case FLAG:
        return json_boolean(*(const bool *)at);
    case REAL:
        memcpy(&d, at, sizeof d);
        return real(d);
    default:
        memcpy(&t, at, sizeof t);
        return json_pack("[ooo]", real(t.mean), real(t.low), real(t.high));
    }
}

static json_t *write_fields(const struct field *fields, size_t n, const void *from)
{
    json_t *object = json_object();
    for (size_t i = 0; i < n; i++)
        json_object_set_new(object, fields[i].name, write_value(&fields[i], from));
    return object;
}

static json_t *write_run(const void *from)
{
    const struct leat_report_run *run = from;
    json_t *object = write_fields(FIELDS(run_fields), run);
    json_t *split = json_object();
    json_object_set_new(object, "mode", json_string(modes[run->mode]));
    for (size_t i = 0; i < LEAT_REPORT_PARTS; i++)
        json_object_set_new(split, parts[i], real(run->part_s[i]));
    json_object_set_new(object, "parts_s", split);
    json_t *buckets = json_array();
    for (size_t i = 0; i < run->bucket_count; i++)
        json_array_append_new(buckets, real(run->bucket_bytes[i]));
    json_object_set_new(object, "bucket_bytes", buckets);
    return object;
}

static json_t *write_step(const void *from)
{
    const struct leat_report_step *step = from;
    json_t *object = write_fields(FIELDS(step_fields), step);
    json_t *split = json_object();
    json_object_set_new(object, "mode", json_string(modes[step->mode]));
    for (size_t i = 0; i < LEAT_REPORT_STAGES; i++)
        json_object_set_new(split, stages[i], real(step->stage_s[i]));
    json_object_set_new(object, "stages_s", split);
    return object;
}

static json_t *write_stall(const void *from)
{
    const struct leat_report_stall *stall = from;
    json_t *object = write_fields(FIELDS(stall_fields), stall);
    json_object_set_new(object, "from", json_pack("[ii]", stall->from[0], stall->from[1]));
    return object;
}

static json_t *write_rank(const void *from)
{
    return write_fields(FIELDS(rank_fields), from);
}

static json_t *write_link(const void *from)
{
    return write_fields(FIELDS(link_fields), from);
}

static json_t *write_span(const void *from)
{
    return write_fields(FIELDS(span_fields), from);
}

struct reader {
    const char *name;
    int version; /* of the report */
    struct leat_error *err;
};

static leat_status wrong(const struct reader *in, const char *key, const char *what)
{
    return leat_fail(in->err, LEAT_INVALID, "%s: '%s' is not %s", in->name, key, what);
}

static leat_status read_real(const struct reader *in, const char *key, const json_t *v, double most, double *out)
{
    double d = json_is_null(v) ? NAN : json_number_value(v);
    if (!json_is_null(v) && (!json_is_number(v) || !(d >= -most && d <= most)))
        return wrong(in, key, "a number that can be");
    *out = d;
    return LEAT_OK;
}

static leat_status read_value(const struct reader *in, const struct field *f, const json_t *v, void *to)
{
    char *at = (char *)to + f->offset;
    double d[3];
    leat_status rc = LEAT_OK;
    switch (f->type) {
    case TEXT:
        if (!json_is_string(v) || json_string_length(v) >= f->room || strlen(json_string_value(v)) >= f->room)
            return wrong(in, f->name, "a short text");
        snprintf(at, f->room, "%s", json_string_value(v));
        leat_one_line(at);
        return LEAT_OK;
    case WHOLE:
    case SIGNED:
        d[0] = (double)json_integer_value(v);
        if (!json_is_integer(v) || d[0] < (f->type == WHOLE ? 0 : -1) || d[0] > f->most)
            return wrong(in, f->name, "a whole number that can be");
        *(int *)at = (int)d[0];
        return LEAT_OK;
    case FLAG:
        if (!json_is_boolean(v))
            return wrong(in, f->name, "true or false");
        *(bool *)at = json_is_true(v);
        return LEAT_OK;
    case REAL:
        rc = read_real(in, f->name, v, f->most, &d[0]);
        if (rc == LEAT_OK)
            memcpy(at, d, sizeof *d);
        return rc;
    default:
        if (json_array_size(v) != 3)
            return wrong(in, f->name, "[mean, low, high]");
        for (size_t i = 0; i < 3 && rc == LEAT_OK; i++)
            rc = read_real(in, f->name, json_array_get(v, i), f->most, &d[i]);
        if (rc == LEAT_OK)
            *(struct leat_report_time *)(void *)at = (struct leat_report_time){d[0], d[1], d[2]};
        return rc;
    }
}

/* Every field must be there, and no other: `also` names those that the caller reads. */
static leat_status read_fields(const struct reader *in, const struct field *fields, size_t n, json_t *object,
                               const char *const *also, void *to)
{
    const char *key;
    json_t *value;
    leat_status rc = LEAT_OK;
    if (!json_is_object(object))
        return leat_fail(in->err, LEAT_INVALID, "%s: a list holds something that is not an object", in->name);
    json_object_foreach (object, key, value) {
        bool known = false;
        for (size_t i = 0; i < n; i++)
            known |= strcmp(fields[i].name, key) == 0;
        for (size_t i = 0; also && also[i]; i++)
            known |= strcmp(also[i], key) == 0;
        if (!known)
            return leat_fail(in->err, LEAT_INVALID, "%s: '%s' is not known here; docs/profile.md lists what is",
                             in->name, key);
    }
    for (size_t i = 0; i < n && rc == LEAT_OK; i++) {
        value = json_object_get(object, fields[i].name);
        if (value)
            rc = read_value(in, &fields[i], value, to);
        else if (in->version < fields[i].since)
            unknown(&fields[i], to);
        else
            rc = leat_fail(in->err, LEAT_INVALID, "%s: '%s' is missing", in->name, fields[i].name);
    }
    return rc;
}

static leat_status read_mode(const struct reader *in, json_t *object, enum leat_report_mode *out)
{
    const char *mode = json_string_value(json_object_get(object, "mode"));
    size_t m = 0;
    while (m < LEAT_REPORT_MODES && (!mode || strcmp(mode, modes[m]) != 0))
        m++;
    if (m == LEAT_REPORT_MODES)
        return wrong(in, "mode", "one that is known here");
    *out = (enum leat_report_mode)m;
    return LEAT_OK;
}

static leat_status read_buckets(const struct reader *in, json_t *object, struct leat_report_run *run)
{
    const json_t *list = json_object_get(object, "bucket_bytes");
    leat_status rc = LEAT_OK;
    run->bucket_count = 0;
    if (!list && in->version < 2)
        return LEAT_OK;
    if (!json_is_array(list) || json_array_size(list) > LEAT_REPORT_BUCKETS)
        return wrong(in, "bucket_bytes", "a list, or has too many items");
    for (size_t i = 0; i < json_array_size(list) && rc == LEAT_OK; i++)
        rc = read_real(in, "bucket_bytes", json_array_get(list, i), 1e15, &run->bucket_bytes[i]);
    run->bucket_count = json_array_size(list);
    return rc;
}

/* Of a run nothing is less than nothing, and an interval holds its mean. */
static leat_status check_run(const struct reader *in, const struct leat_report_run *run)
{
    for (size_t i = 0; i < sizeof run_fields / sizeof *run_fields; i++) {
        const struct field *f = &run_fields[i];
        double v = f->type == REAL ? *(const double *)(const void *)((const char *)run + f->offset) : 0;
        bool needed = f->offset == offsetof(struct leat_report_run, steps) ||
                      f->offset == offsetof(struct leat_report_run, batch);
        if (v < 0 || (isnan(v) && needed))
            return wrong(in, f->name, "a number that can be");
    }
    if (run->step_s.low > run->step_s.mean || run->step_s.high < run->step_s.mean ||
        isnan(run->step_s.low) != isnan(run->step_s.high))
        return wrong(in, "step_s", "[mean, low, high]");
    return LEAT_OK;
}

static leat_status read_run(const struct reader *in, json_t *object, void *to)
{
    static const char *const also[] = {"mode", "parts_s", "bucket_bytes", NULL};
    struct leat_report_run *run = to;
    leat_status rc = read_fields(in, FIELDS(run_fields), object, also, run);
    if (rc == LEAT_OK)
        rc = check_run(in, run);
    if (rc == LEAT_OK)
        rc = read_mode(in, object, &run->mode);
    if (rc == LEAT_OK)
        rc = read_buckets(in, object, run);
    if (rc != LEAT_OK)
        return rc;
    json_t *split = json_object_get(object, "parts_s");
    if (!run->gpus || !run->nodes || !(run->step_s.mean >= 1e-9))
        return leat_fail(in->err, LEAT_INVALID, "%s: a run without 'gpus', 'nodes' or 'step_s'", in->name);
    for (size_t i = 0; i < LEAT_REPORT_PARTS && rc == LEAT_OK; i++) {
        json_t *v = json_object_get(split, parts[i]);
        rc = v ? read_real(in, parts[i], v, 1e5, &run->part_s[i]) : wrong(in, "parts_s", "all parts of a step");
        if (rc == LEAT_OK && !(run->part_s[i] >= -1e-6)) /* what rounding may leave */
            rc = wrong(in, parts[i], "a number that can be");
    }
    if (rc == LEAT_OK && json_object_size(split) != LEAT_REPORT_PARTS)
        rc = wrong(in, "parts_s", "the parts that are known here");
    return rc;
}

static leat_status read_stall(const struct reader *in, json_t *object, void *to)
{
    static const char *const also[] = {"from", NULL};
    struct leat_report_stall *stall = to;
    leat_status rc = read_fields(in, FIELDS(stall_fields), object, also, stall);
    json_t *from = json_object_get(object, "from");
    for (size_t i = 0; i < 2 && rc == LEAT_OK; i++) {
        json_t *v = json_array_get(from, i);
        if (json_array_size(from) != 2 || !json_is_integer(v) || json_integer_value(v) < -1 ||
            json_integer_value(v) >= LEAT_REPORT_RUNS)
            rc = wrong(in, "from", "a pair of runs");
        else
            stall->from[i] = (int)json_integer_value(v);
    }
    return rc;
}

static leat_status read_rank(const struct reader *in, json_t *object, void *to)
{
    return read_fields(in, FIELDS(rank_fields), object, NULL, to);
}

static leat_status read_link(const struct reader *in, json_t *object, void *to)
{
    return read_fields(in, FIELDS(link_fields), object, NULL, to);
}

static leat_status read_step(const struct reader *in, json_t *object, void *to)
{
    static const char *const also[] = {"mode", "stages_s", NULL};
    struct leat_report_step *step = to;
    leat_status rc = read_fields(in, FIELDS(step_fields), object, also, step);
    if (rc == LEAT_OK)
        rc = read_mode(in, object, &step->mode);
    const json_t *split = json_object_get(object, "stages_s");
    for (size_t i = 0; i < LEAT_REPORT_STAGES && rc == LEAT_OK; i++) {
        json_t *v = json_object_get(split, stages[i]);
        rc = v ? read_real(in, stages[i], v, 1e5, &step->stage_s[i]) : wrong(in, "stages_s", "all stages of a step");
    }
    if (rc == LEAT_OK && json_object_size(split) != LEAT_REPORT_STAGES)
        rc = wrong(in, "stages_s", "the stages that are known here");
    return rc;
}

static leat_status read_span(const struct reader *in, json_t *object, void *to)
{
    return read_fields(in, FIELDS(span_fields), object, NULL, to);
}

static const struct list {
    const char *key;
    int since;
    size_t max;
    size_t size; /* of an item */
    size_t items;
    size_t count;
    json_t *(*write)(const void *);
    leat_status (*read)(const struct reader *, json_t *, void *);
} lists[] = {
#define LIST(since, name, max, one)                                                                                    \
    {                                                                                                                  \
#name "s", since, max,                                                                                         \
            sizeof((struct leat_report *)0)                                                                            \
                ->one[0], offsetof(struct leat_report, one), offsetof(struct leat_report, one##s), write_##one,        \
                      read_##one                                                                                       \
    }
    LIST(1, run, LEAT_REPORT_RUNS, run),    LIST(1, stall, LEAT_REPORT_STALLS, stall),
    LIST(1, rank, LEAT_REPORT_RANKS, rank), LIST(2, link, LEAT_REPORT_LINKS, link),
    LIST(2, step, LEAT_REPORT_STEPS, step), LIST(2, span, LEAT_REPORT_SPANS, span),
};
#define LISTS (sizeof lists / sizeof *lists)

char *leat_report_write(const struct leat_report *r)
{
    json_t *root = write_fields(FIELDS(top_fields), r);
    json_t *notes = json_array();
    json_object_set_new(root, "leat_report", json_integer(LEAT_REPORT_VERSION));
    for (size_t i = 0; i < LISTS; i++) {
        const char *items = (const char *)r + lists[i].items;
        json_t *list = json_array();
        size_t n;
        memcpy(&n, (const char *)r + lists[i].count, sizeof n);
        for (size_t k = 0; k < n; k++)
            json_array_append_new(list, lists[i].write(items + k * lists[i].size));
        json_object_set_new(root, lists[i].key, list);
    }
    for (size_t i = 0; i < r->notes; i++)
        json_array_append_new(notes, json_string(r->note[i]));
    json_object_set_new(root, "notes", notes);
    char *text = leat_json_write(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(root);
    return text;
}

static leat_status read_list(const struct reader *in, const json_t *root, const struct list *l, struct leat_report *r)
{
    const json_t *list = json_object_get(root, l->key);
    size_t n = json_array_size(list);
    leat_status rc = LEAT_OK;
    if (!list && in->version < l->since)
        return LEAT_OK;
    if (!json_is_array(list) || n > l->max)
        return wrong(in, l->key, "a list, or has too many items");
    for (size_t i = 0; i < n && rc == LEAT_OK; i++)
        rc = l->read(in, json_array_get(list, i), (char *)r + l->items + i * l->size);
    memcpy((char *)r + l->count, &n, sizeof n);
    return rc;
}

static leat_status read_notes(const struct reader *in, const json_t *root, struct leat_report *r)
{
    const json_t *notes = json_object_get(root, "notes");
    if (!json_is_array(notes) || json_array_size(notes) > LEAT_REPORT_NOTES)
        return wrong(in, "notes", "a list, or has too many items");
    for (size_t i = 0; i < json_array_size(notes); i++) {
        const char *text = json_string_value(json_array_get(notes, i));
        if (!text)
            return wrong(in, "notes", "a list of texts");
        leat_report_note(r, "%s", text);
    }
    return LEAT_OK;
}

static leat_status read_root(struct reader *in, json_t *root, struct leat_report *r)
{
    const char *also[LISTS + 3] = {"leat_report", "notes"};
    const json_t *version = json_object_get(root, "leat_report");
    if (!json_is_integer(version) || json_integer_value(version) < 1)
        return leat_fail(in->err, LEAT_INVALID, "%s: not a report of 'leat profile'", in->name);
    if (json_integer_value(version) > LEAT_REPORT_VERSION)
        return leat_fail(in->err, LEAT_VERSION,
                         "%s: a report of version %lld, and this release reads %d: use a newer one", in->name,
                         (long long)json_integer_value(version), LEAT_REPORT_VERSION);
    in->version = (int)json_integer_value(version);
    for (size_t i = 0; i < LISTS; i++)
        also[2 + i] = lists[i].key;
    leat_status rc = read_fields(in, FIELDS(top_fields), root, also, r);
    for (size_t i = 0; i < LISTS && rc == LEAT_OK; i++)
        rc = read_list(in, root, &lists[i], r);
    if (rc == LEAT_OK)
        rc = read_notes(in, root, r);
    for (size_t i = 0; rc == LEAT_OK && i < r->stalls; i++) {
        if (r->stall[i].from[0] >= (int)r->runs || r->stall[i].from[1] >= (int)r->runs || r->stall[i].from[0] < 0)
            rc = wrong(in, "from", "a pair of its runs");
    }
    return rc;
}

bool leat_report_is(const char *text, size_t n)
{
    json_t *root = NULL;
    bool is = leat_json_read(text, n, 0, &root, NULL) == LEAT_OK && json_object_get(root, "leat_report") != NULL;
    json_decref(root);
    return is;
}

leat_status leat_report_read(const char *name, const char *text, size_t n, struct leat_report *out,
                             struct leat_error *err)
{
    struct reader in = {.name = name, .err = err};
    json_error_t why;
    json_t *root = NULL;
    leat_status rc = leat_json_read(text, n, JSON_REJECT_DUPLICATES, &root, &why);
    if (rc == LEAT_INVALID)
        return leat_fail(err, rc, "%s line %d: %s", name, why.line, why.text);
    if (rc != LEAT_OK)
        return leat_fail(err, rc, "no memory to read %s", name);
    *out = (struct leat_report){0};
    rc = json_is_object(root) ? read_root(&in, root, out)
                              : leat_fail(err, LEAT_INVALID, "%s: not a report of 'leat profile'", name);
    json_decref(root);
    return rc;
}

const struct leat_report_run *leat_report_find(const struct leat_report *r, enum leat_report_mode mode)
{
    const struct leat_report_run *best = NULL;
    for (size_t i = 0; i < r->runs; i++) {
        if (r->run[i].mode == mode && (!best || r->run[i].steps > best->steps))
            best = &r->run[i];
    }
    return best;
}
