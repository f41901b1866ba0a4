#include "leat/plan.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/parse.h"
#include "plan/plan.h"

#define SETTINGS_MAX 64
#define TRACES_MAX   256
#define ANSWER_MAX   ((size_t)512 << 20)

struct request {
    struct leat_plan_inputs in;
    struct leat_plan_options options;
    const char *explain;
    bool all;
    struct leat_plan_setting settings[SETTINGS_MAX];
    struct leat_plan_trace_text traces[TRACES_MAX];
};

static leat_status take_text(const json_t *root, const char *key, struct leat_plan_text *out, struct leat_error *err)
{
    const json_t *file = json_object_get(root, key);
    if (!file || json_is_null(file))
        return LEAT_OK;
    const json_t *text = json_object_get(file, "text");
    const char *name = json_string_value(json_object_get(file, "name"));
    if (!json_is_string(text))
        return leat_fail(err, LEAT_INVALID, "request: '%s' must be an object with a name and a text", key);
    *out = (struct leat_plan_text){
        .name = name ? name : key, .text = json_string_value(text), .n = json_string_length(text)};
    return LEAT_OK;
}

static leat_status take_settings(json_t *root, struct request *r, struct leat_error *err)
{
    const char *key;
    json_t *value;
    json_t *settings = json_object_get(root, "settings");
    json_object_foreach (settings, key, value) {
        if (!json_is_string(value) || r->in.setting_count == SETTINGS_MAX)
            return leat_fail(err, LEAT_INVALID, "request: '%s' in 'settings' is not a text, or there are too many",
                             key);
        r->settings[r->in.setting_count++] = (struct leat_plan_setting){key, json_string_value(value), key};
    }
    r->in.settings = r->settings;
    return LEAT_OK;
}

static leat_status take_traces(const json_t *root, struct request *r, struct leat_error *err)
{
    const json_t *list = json_object_get(root, "traces");
    size_t n = json_array_size(list);
    if (n > TRACES_MAX)
        return leat_fail(err, LEAT_LIMIT, "request: more than %d traces", TRACES_MAX);
    for (size_t i = 0; i < n; i++) {
        const json_t *t = json_array_get(list, i);
        struct leat_plan_trace_text *out = &r->traces[i];
        out->accelerator = json_string_value(json_object_get(t, "accelerator"));
        out->region = json_string_value(json_object_get(t, "region"));
        leat_status rc = take_text(t, "file", &out->file, err);
        if (rc != LEAT_OK)
            return rc;
        if (!out->accelerator || !out->region || !out->file.text)
            return leat_fail(err, LEAT_INVALID, "request: trace %zu needs accelerator, region and file", i + 1);
    }
    r->in.traces = r->traces;
    r->in.trace_count = n;
    return LEAT_OK;
}

/* Inside, 0 means that there is no deadline and no budget: not what somebody means who gives one of 0. */
static leat_status more_than_nothing(const char *key, double v, struct leat_error *err)
{
    if (!(v > 0) && strcmp(key, "min_accuracy") != 0)
        return leat_fail(err, LEAT_INVALID, "%s: %g is nothing at all", key, v);
    return LEAT_OK;
}

/* A number, or a text as on the command line. */
static leat_status take_amount(const json_t *options, const char *key, double *out, struct leat_error *err)
{
    const json_t *v = json_object_get(options, key);
    uint64_t ns = 0;
    if (!v || json_is_null(v))
        return LEAT_OK;
    if (json_is_number(v)) {
        double d = json_number_value(v);
        if (!(d >= 0))
            return leat_fail(err, LEAT_INVALID, "%s: %g is less than nothing", key, d);
        *out = d;
        return more_than_nothing(key, d, err);
    }
    if (!json_is_string(v))
        return leat_fail(err, LEAT_INVALID, "%s: neither a number nor a text", key);
    leat_status rc;
    if (strcmp(key, "budget") == 0) {
        rc = leat_parse_usd(json_string_value(v), key, out, err);
    } else {
        rc = leat_parse_duration(json_string_value(v), key, &ns, err);
        if (rc == LEAT_OK)
            *out = (double)ns / 1e9;
    }
    return rc == LEAT_OK ? more_than_nothing(key, *out, err) : rc;
}

static leat_status take_count(const json_t *options, const char *key, unsigned *out, struct leat_error *err)
{
    const json_t *v = json_object_get(options, key);
    if (!v || json_is_null(v))
        return LEAT_OK;
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > 1000000000)
        return leat_fail(err, LEAT_INVALID, "%s: not a whole number from 0 on", key);
    *out = (unsigned)json_integer_value(v);
    return LEAT_OK;
}

static leat_status take_options(const json_t *o, struct request *r, struct leat_error *err)
{
    double percent = 90;
    const json_t *seed = json_object_get(o, "seed");
    const char *risk = json_string_value(json_object_get(o, "risk"));
    r->options = (struct leat_plan_options){.max_nodes = 8, .draws = 400};
    leat_status rc = take_amount(o, "deadline", &r->options.deadline_s, err);
    if (rc == LEAT_OK)
        rc = take_amount(o, "budget", &r->options.budget_usd, err);
    if (rc == LEAT_OK)
        rc = take_amount(o, "min_accuracy", &r->options.min_accuracy, err);
    if (rc == LEAT_OK)
        rc = take_count(o, "max_nodes", &r->options.max_nodes, err);
    if (rc == LEAT_OK)
        rc = take_count(o, "draws", &r->options.draws, err);
    if (rc == LEAT_OK && seed && !json_is_null(seed) && (!json_is_integer(seed) || json_integer_value(seed) < 0))
        rc = leat_fail(err, LEAT_INVALID, "seed: not a whole number from 0 on");
    if (rc == LEAT_OK && risk && *risk != 'p')
        rc = leat_fail(err, LEAT_INVALID, "risk: '%s' is not a percentile; write for example p95", risk);
    if (rc == LEAT_OK && risk)
        rc = leat_parse_double(risk + 1, "risk", &percent, err);
    r->options.seed = json_is_integer(seed) ? (uint64_t)json_integer_value(seed) : 1;
    r->options.risk = percent / 100;
    r->options.regions = json_string_value(json_object_get(o, "region"));
    r->explain = json_string_value(json_object_get(o, "explain"));
    r->all = json_is_true(json_object_get(o, "all"));
    r->in.today = json_string_value(json_object_get(o, "today"));
    r->in.catalog_date = json_string_value(json_object_get(o, "catalog_date"));
    return rc;
}

static leat_status answer(const struct request *r, struct leat_buf *out, struct leat_error *err)
{
    struct leat_plan *plan = NULL;
    struct leat_plan_lines *lines = NULL;
    struct leat_plan_record record;
    leat_status rc = leat_plan_open(&r->in, &r->options, &plan, err);
    if (rc == LEAT_OK)
        rc = leat_plan_price(plan, err);
    if (rc != LEAT_OK)
        goto out;
    leat_plan_choose_records(plan);
    if (!r->explain) {
        rc = leat_plan_json(plan, r->all, out, err);
        goto out;
    }
    lines = calloc(1, sizeof *lines);
    rc = lines ? leat_plan_explain(plan, r->explain, &record, lines, err)
               : leat_fail(err, LEAT_NO_MEMORY, "no memory for an explanation");
    if (rc == LEAT_OK)
        rc = leat_plan_explain_json(plan, &record, lines, out, err);
out:
    free(lines);
    leat_plan_close(plan);
    return rc;
}

leat_status leat_plan_request(const char *request, size_t n, bool (*interrupted)(void *user), void *user, char **out,
                              struct leat_error *err)
{
    json_error_t why;
    struct leat_buf text;
    struct request *r = calloc(1, sizeof *r);
    json_t *root = json_loadb(request, n, JSON_REJECT_DUPLICATES, &why);
    leat_buf_init(&text, ANSWER_MAX);
    leat_status rc = LEAT_OK;
    if (!r)
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for a request");
    else if (!root)
        rc = leat_fail(err, LEAT_INVALID, "request line %d: %s", why.line, why.text);
    else if (!json_is_object(root))
        rc = leat_fail(err, LEAT_INVALID, "request: not an object");
    if (rc == LEAT_OK)
        rc = take_text(root, "job", &r->in.job, err);
    if (rc == LEAT_OK)
        rc = take_text(root, "catalog", &r->in.catalog, err);
    if (rc == LEAT_OK)
        rc = take_text(root, "measurements", &r->in.measurements, err);
    if (rc == LEAT_OK)
        rc = take_text(root, "report", &r->in.report, err);
    if (rc == LEAT_OK)
        rc = take_text(root, "revocations", &r->in.revocations, err);
    if (rc == LEAT_OK)
        rc = take_traces(root, r, err);
    if (rc == LEAT_OK)
        rc = take_settings(root, r, err);
    if (rc == LEAT_OK)
        rc = take_options(json_object_get(root, "options"), r, err);
    if (rc == LEAT_OK) {
        r->options.interrupted = interrupted;
        r->options.user = user;
        rc = answer(r, &text, err);
    }
    if (rc == LEAT_OK)
        *out = leat_buf_take(&text);
    leat_buf_free(&text);
    json_decref(root);
    free(r);
    return rc;
}
