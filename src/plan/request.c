#include "leat/plan.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "plan/compare.h"
#include "plan/launch.h"
#include "plan/plan.h"

#define SETTINGS_MAX 128
#define FILES_MAX    32
#define ANSWER_MAX   ((size_t)512 << 20)

struct request {
    struct leat_plan_inputs in;
    struct leat_plan_options options;
    const char *explain;
    const char *launch; /* "skypilot", …; NULL: nothing is to be launched */
    const char *config; /* of what is launched; NULL: the chosen one */
    const char *script;
    bool compare;
    bool all;
    struct leat_plan_setting settings[SETTINGS_MAX];
    struct leat_plan_catalog_file catalogs[FILES_MAX];
    struct leat_plan_text hardware[FILES_MAX];
    struct leat_plan_text measurements[FILES_MAX];
    struct leat_plan_text reports[FILES_MAX];
    struct leat_plan_text revocations[FILES_MAX];
    struct leat_plan_text egress[FILES_MAX];
    struct leat_plan_text *trace_files;
};

/* A key nobody reads would be dropped without a word. */
static leat_status known_keys(json_t *object, const char *where, const char *const *keys, size_t count,
                              struct leat_error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value) {
        size_t i = 0;
        while (i < count && strcmp(keys[i], key) != 0)
            i++;
        if (i == count)
            return leat_fail(err, LEAT_INVALID, "request: '%s' is not known in %s", key, where);
    }
    return LEAT_OK;
}

static leat_status take_text(const json_t *file, const char *key, struct leat_plan_text *out, struct leat_error *err)
{
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

/* One file, or several. */
static leat_status take_texts(const json_t *root, const char *key, struct leat_plan_text out[FILES_MAX], size_t *count,
                              struct leat_error *err)
{
    const json_t *v = json_object_get(root, key);
    size_t n = json_is_array(v) ? json_array_size(v) : v && !json_is_null(v);
    if (n > FILES_MAX)
        return leat_fail(err, LEAT_LIMIT, "request: more than %d files in '%s'", FILES_MAX, key);
    for (size_t i = 0; i < n; i++) {
        const json_t *file = json_is_array(v) ? json_array_get(v, i) : v;
        if (json_is_null(file))
            return leat_fail(err, LEAT_INVALID, "request: '%s' must be an object with a name and a text", key);
        leat_status rc = take_text(file, key, &out[i], err);
        if (rc != LEAT_OK)
            return rc;
    }
    *count = n;
    return LEAT_OK;
}

static leat_status take_catalogs(const json_t *root, struct request *r, struct leat_error *err)
{
    struct leat_plan_text texts[FILES_MAX];
    const json_t *v = json_object_get(root, "catalog");
    leat_status rc = take_texts(root, "catalog", texts, &r->in.catalog_count, err);
    for (size_t i = 0; rc == LEAT_OK && i < r->in.catalog_count; i++) {
        const json_t *file = json_is_array(v) ? json_array_get(v, i) : v;
        r->catalogs[i] = (struct leat_plan_catalog_file){texts[i].name, texts[i].text, texts[i].n,
                                                         json_string_value(json_object_get(file, "date"))};
    }
    r->in.catalogs = r->catalogs;
    return rc;
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
    const json_t *list = json_object_get(root, "trace_files");
    size_t n = json_array_size(list);
    leat_status rc = take_text(json_object_get(root, "traces"), "traces", &r->in.traces, err);
    if (rc != LEAT_OK)
        return rc;
    if (n > LEAT_PLAN_TRACES_MAX)
        return leat_fail(err, LEAT_LIMIT, "request: more than %d traces", LEAT_PLAN_TRACES_MAX);
    r->trace_files = calloc(n + 1, sizeof *r->trace_files);
    if (!r->trace_files)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for %zu traces", n);
    for (size_t i = 0; rc == LEAT_OK && i < n; i++)
        rc = take_text(json_array_get(list, i), "trace_files", &r->trace_files[i], err);
    r->in.trace_files = r->trace_files;
    r->in.trace_count = n;
    return rc;
}

/* A run to plan the rest of, or a finished one to put beside its prediction. */
static leat_status take_past(const json_t *root, struct request *r, struct leat_error *err)
{
    struct leat_plan_text resume = {0};
    struct leat_plan_text compare = {0};
    leat_status rc = take_text(json_object_get(root, "resume"), "resume", &resume, err);
    if (rc == LEAT_OK)
        rc = take_text(json_object_get(root, "compare"), "compare", &compare, err);
    if (rc == LEAT_OK && resume.text && compare.text)
        rc = leat_fail(err, LEAT_INVALID, "resume and compare: one run, either to go on or finished");
    r->in.past = resume.text ? resume : compare;
    r->in.resume = resume.text != NULL;
    r->compare = compare.text != NULL;
    return rc;
}

/* A text as on the command line, or a number. */
static leat_status take_option(const json_t *v, const char *key, struct request *r, struct leat_error *err)
{
    if (!v || json_is_null(v))
        return LEAT_OK;
    if (json_is_string(v))
        return leat_plan_option_set(&r->options, key, json_string_value(v), err);
    if (!json_is_number(v))
        return leat_fail(err, LEAT_INVALID, "%s: neither a number nor a text", key);
    char text[40];
    if (json_is_integer(v))
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(v));
    else
        snprintf(text, sizeof text, "%.17g", json_real_value(v));
    if (strcmp(key, "region") == 0)
        return leat_fail(err, LEAT_INVALID, "region: a number is no name");
    return leat_plan_option_set(&r->options, key, text, err); /* only regions outlive the call */
}

static leat_status take_options(json_t *o, struct request *r, struct leat_error *err)
{
    static const char *const keys[] = {"deadline", "budget", "min_accuracy", "risk", "max_nodes", "seed", "draws"};
    static const char *const known[] = {"deadline", "budget", "min_accuracy", "risk",    "max_nodes",
                                        "seed",     "draws",  "region",       "explain", "all",
                                        "today",    "launch", "config",       "script"};
    const json_t *regions = json_object_get(o, "region");
    r->options = leat_plan_options_default();
    leat_status rc = known_keys(o, "options", known, sizeof known / sizeof *known, err);
    for (size_t i = 0; rc == LEAT_OK && i < sizeof keys / sizeof *keys; i++)
        rc = take_option(json_object_get(o, keys[i]), keys[i], r, err);
    for (size_t i = 0; rc == LEAT_OK && i < json_array_size(regions); i++)
        rc = take_option(json_array_get(regions, i), "region", r, err);
    if (rc == LEAT_OK && !json_is_array(regions))
        rc = take_option(regions, "region", r, err);
    r->explain = json_string_value(json_object_get(o, "explain"));
    r->launch = json_string_value(json_object_get(o, "launch"));
    r->config = json_string_value(json_object_get(o, "config"));
    r->script = json_string_value(json_object_get(o, "script"));
    if (rc == LEAT_OK && !r->launch && (r->config || r->script))
        rc = leat_fail(err, LEAT_INVALID, "config and script belong to launch");
    if (rc == LEAT_OK && (r->explain != NULL) + (r->launch != NULL) + r->compare > 1)
        rc = leat_fail(err, LEAT_INVALID, "explain, launch and compare are questions of their own: one at a time");
    r->all = json_is_true(json_object_get(o, "all"));
    r->in.today = json_string_value(json_object_get(o, "today"));
    return rc;
}

/* The files that a table of traces names: for callers that have to read them before they can ask for a plan. */
static leat_status answer_files(const struct leat_plan_text *traces, struct leat_buf *out, struct leat_error *err)
{
    struct leat_plan_traces t = {0};
    if (!traces->text)
        return leat_fail(err, LEAT_INVALID, "request: 'traces' is missing");
    leat_status rc = leat_plan_traces_index(traces->name, traces->text, traces->n, &t, err);
    json_t *list = json_array();
    for (size_t i = 0; rc == LEAT_OK && i < t.count; i++)
        json_array_append_new(list, json_string(t.row[i].file));
    char *text = rc == LEAT_OK && list ? json_dumps(list, 0) : NULL;
    if (rc == LEAT_OK && !text)
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the answer");
    if (text)
        leat_buf_printf(out, "{\"files\": %s}\n", text);
    free(text);
    json_decref(list);
    leat_plan_traces_free(&t);
    return rc;
}

static leat_status read_request(json_t *root, struct request *r, struct leat_error *err)
{
    static const char *const known[] = {"job",         "catalog", "hardware", "measurements", "report",
                                        "revocations", "traces",  "ask",      "trace_files",  "settings",
                                        "options",     "egress",  "resume",   "compare"};
    leat_status rc = known_keys(root, "it", known, sizeof known / sizeof *known, err);
    if (rc == LEAT_OK)
        rc = take_text(json_object_get(root, "job"), "job", &r->in.job, err);
    if (rc == LEAT_OK)
        rc = take_catalogs(root, r, err);
    if (rc == LEAT_OK)
        rc = take_texts(root, "hardware", r->hardware, &r->in.hardware_count, err);
    if (rc == LEAT_OK)
        rc = take_texts(root, "measurements", r->measurements, &r->in.measurement_count, err);
    if (rc == LEAT_OK)
        rc = take_texts(root, "report", r->reports, &r->in.report_count, err);
    if (rc == LEAT_OK)
        rc = take_texts(root, "revocations", r->revocations, &r->in.revocation_count, err);
    if (rc == LEAT_OK)
        rc = take_texts(root, "egress", r->egress, &r->in.egress_count, err);
    if (rc == LEAT_OK)
        rc = take_past(root, r, err);
    if (rc == LEAT_OK)
        rc = take_traces(root, r, err);
    if (rc == LEAT_OK)
        rc = take_settings(root, r, err);
    if (rc == LEAT_OK)
        rc = take_options(json_object_get(root, "options"), r, err);
    r->in.hardware = r->hardware;
    r->in.measurements = r->measurements;
    r->in.reports = r->reports;
    r->in.revocations = r->revocations;
    r->in.egress = r->egress;
    return rc;
}

static leat_status answer_comparison(const struct request *r, struct leat_buf *out, struct leat_error *err)
{
    struct leat_plan_comparison c;
    leat_status rc = leat_plan_compare(&r->in, &r->options, &c, err);
    return rc == LEAT_OK ? leat_plan_compare_json(&c, out, err) : rc;
}

static leat_status answer_launch(const struct request *r, const struct leat_plan *plan, struct leat_buf *out,
                                 struct leat_error *err)
{
    enum leat_plan_launcher launcher = LEAT_PLAN_SKYPILOT;
    struct leat_plan_record record;
    struct leat_buf text;
    char name[LEAT_PLAN_NAME_SIZE];
    leat_buf_init(&text, 1 << 20);
    leat_status rc = leat_plan_launcher_parse(r->launch, &launcher, err);
    if (rc == LEAT_OK)
        rc = leat_plan_find(plan, r->config, &record, err);
    if (rc == LEAT_OK)
        rc = leat_plan_launch(plan, &record, launcher, r->script, &text, err);
    json_t *root = NULL;
    if (rc == LEAT_OK)
        root = json_pack("{s:i, s:s, s:s, s:s%}", "version", 2, "config", leat_plan_record_name(plan, &record, name),
                         "launch", r->launch, "text", text.data, text.len);
    char *json = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    if (rc == LEAT_OK && !json)
        rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for the answer");
    if (json)
        leat_buf_str(out, json);
    free(json);
    json_decref(root);
    leat_buf_free(&text);
    return rc == LEAT_OK ? leat_buf_check(out, "the answer", err) : rc;
}

static leat_status answer(const struct request *r, struct leat_buf *out, struct leat_error *err)
{
    struct leat_plan *plan = NULL;
    struct leat_plan_terms *terms = NULL;
    struct leat_plan_record record;
    if (r->compare)
        return answer_comparison(r, out, err);
    leat_status rc = leat_plan_open(&r->in, &r->options, &plan, err);
    if (rc == LEAT_OK)
        rc = leat_plan_price(plan, err);
    if (rc != LEAT_OK)
        goto out;
    leat_plan_choose_records(plan);
    if (r->launch) {
        rc = answer_launch(r, plan, out, err);
        goto out;
    }
    if (!r->explain) {
        rc = leat_plan_json(plan, r->all, out, err);
        goto out;
    }
    terms = calloc(1, sizeof *terms);
    rc = terms ? leat_plan_explain(plan, r->explain, &record, terms, err)
               : leat_fail(err, LEAT_NO_MEMORY, "no memory for an explanation");
    if (rc == LEAT_OK)
        rc = leat_plan_explain_json(plan, &record, terms, out, err);
out:
    free(terms);
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
        rc = read_request(root, r, err);
    if (rc == LEAT_OK && json_object_get(root, "ask")) {
        const char *ask = json_string_value(json_object_get(root, "ask"));
        rc = ask && strcmp(ask, "files") == 0 ? answer_files(&r->in.traces, &text, err)
                                              : leat_fail(err, LEAT_INVALID, "request: 'ask' can only be 'files'");
    } else if (rc == LEAT_OK) {
        r->options.interrupted = interrupted;
        r->options.user = user;
        rc = answer(r, &text, err);
    }
    if (rc == LEAT_OK)
        *out = leat_buf_take(&text);
    leat_buf_free(&text);
    json_decref(root);
    if (r)
        free(r->trace_files);
    free(r);
    return rc;
}
