#include "ring/blend.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

void leat_blend_free(struct leat_blend_spec *b)
{
    for (uint32_t i = 0; i < b->n; i++) {
        free(b->streams[i].name);
        free(b->streams[i].url);
        free(b->streams[i].view);
    }
    free(b->parts);
    *b = (struct leat_blend_spec){0};
}

static leat_status no_memory(struct leat_error *err)
{
    return leat_fail(err, LEAT_NO_MEMORY, "no memory for a mixture");
}

/* A typo must not be a setting that is ignored. */
static leat_status check_members(json_t *object, const char *const *known, const char *what, struct leat_error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach (object, name, value) {
        size_t i = 0;
        while (known[i] && strcmp(known[i], name) != 0)
            i++;
        if (!known[i])
            return leat_fail(err, LEAT_INVALID, "%s has an unknown member \"%.60s\"", what, name);
    }
    return LEAT_OK;
}

static leat_status take_stream(json_t *j, struct leat_blend_spec *b, double *weight, struct leat_error *err)
{
    static const char *const known[] = {"name", "url", "view", "weight", NULL};
    struct leat_blend_stream *s = &b->streams[b->n];
    const char *name = json_string_value(json_object_get(j, "name"));
    const char *url = json_string_value(json_object_get(j, "url"));
    const json_t *view = json_object_get(j, "view");
    const json_t *w = json_object_get(j, "weight");
    char what[80];
    snprintf(what, sizeof what, "stream %" PRIu32 " of the mixture", b->n);
    leat_status rc = json_is_object(j) ? check_members(j, known, what, err) : LEAT_OK;
    if (rc != LEAT_OK)
        return rc;
    if (!name || !*name || !url || !*url)
        return leat_fail(err, LEAT_INVALID, "%s needs a \"name\" and a \"url\"", what);
    if ((view && !json_is_string(view) && !json_is_null(view)) || (w && !json_is_number(w)))
        return leat_fail(err, LEAT_INVALID, "%s ('%.60s'): \"view\" is a text and \"weight\" a number", what, name);
    for (uint32_t i = 0; i < b->n; i++) {
        if (strcmp(b->streams[i].name, name) == 0)
            return leat_fail(err, LEAT_INVALID, "two streams of the mixture are called '%.60s'", name);
    }
    s->name = strdup(name);
    s->url = strdup(url);
    s->view = json_is_string(view) ? strdup(json_string_value(view)) : NULL;
    b->n++;
    if (!s->name || !s->url || (json_is_string(view) && !s->view))
        return no_memory(err);
    *weight = w ? json_number_value(w) : NAN;
    return LEAT_OK;
}

static leat_status take_streams(const json_t *list, struct leat_blend_spec *b, double *weights, struct leat_error *err)
{
    size_t n = json_array_size(list);
    leat_status rc = LEAT_OK;
    if (!json_is_array(list) || n == 0 || n > LEAT_BLEND_STREAMS_MAX)
        return leat_fail(err, LEAT_INVALID, "a mixture has 1 to %u streams, not %zu", LEAT_BLEND_STREAMS_MAX, n);
    for (size_t i = 0; rc == LEAT_OK && i < n; i++)
        rc = take_stream(json_array_get(list, i), b, &weights[i], err);
    return rc;
}

static leat_status take_part(json_t *j, const struct leat_blend_spec *b, uint32_t i, struct leat_blend_part *out,
                             struct leat_error *err)
{
    static const char *const known[] = {"from", "weights", NULL};
    const json_t *from = json_object_get(j, "from");
    const json_t *weights = json_object_get(j, "weights");
    leat_status rc = json_is_object(j) ? check_members(j, known, "a step of the mixture's schedule", err) : LEAT_OK;
    if (rc != LEAT_OK)
        return rc;
    if (!json_is_integer(from) || json_integer_value(from) < 0 || json_array_size(weights) != b->n)
        return leat_fail(err, LEAT_INVALID,
                         "step %" PRIu32
                         " of the mixture's schedule needs \"from\", a number of samples, and \"weights\", "
                         "one for each of the %" PRIu32 " streams",
                         i, b->n);
    out->from = (uint64_t)json_integer_value(from);
    for (uint32_t k = 0; k < b->n; k++) {
        if (!json_is_number(json_array_get(weights, k)))
            return leat_fail(err, LEAT_INVALID, "step %" PRIu32 " of the mixture's schedule: a weight is not a number",
                             i);
        out->weights[k] = json_number_value(json_array_get(weights, k));
    }
    return LEAT_OK;
}

static leat_status take_schedule(const json_t *list, struct leat_blend_spec *b, struct leat_error *err)
{
    size_t n = json_array_size(list);
    leat_status rc = LEAT_OK;
    if (!json_is_array(list) || n == 0 || n > LEAT_BLEND_PARTS_MAX)
        return leat_fail(err, LEAT_INVALID, "a mixture's schedule has 1 to %u steps, not %zu", LEAT_BLEND_PARTS_MAX, n);
    b->parts = calloc(n, sizeof *b->parts);
    if (!b->parts)
        return no_memory(err);
    b->parts_n = (uint32_t)n;
    for (uint32_t i = 0; rc == LEAT_OK && i < n; i++)
        rc = take_part(json_array_get(list, i), b, i, &b->parts[i], err);
    return rc;
}

/* Weights come from one place: the streams, the schedule or the temperature. */
static leat_status take_weights(const json_t *root, struct leat_blend_spec *b, const double *weights,
                                struct leat_error *err)
{
    const json_t *schedule = json_object_get(root, "schedule");
    const json_t *temperature = json_object_get(root, "temperature");
    uint32_t given = 0;
    for (uint32_t i = 0; i < b->n; i++)
        given += !isnan(weights[i]);
    if ((given > 0) + (schedule != NULL) + (temperature != NULL) > 1)
        return leat_fail(err, LEAT_INVALID, "a mixture has weights, a schedule or a temperature: give one of them");
    if (schedule)
        return take_schedule(schedule, b, err);
    if (temperature) {
        b->temperature = json_number_value(temperature);
        if (!json_is_number(temperature) || !isfinite(b->temperature) || b->temperature <= 0)
            return leat_fail(err, LEAT_INVALID, "a mixture's temperature is a number above 0");
        return LEAT_OK;
    }
    b->parts = calloc(1, sizeof *b->parts);
    if (!b->parts)
        return no_memory(err);
    b->parts_n = 1;
    for (uint32_t i = 0; i < b->n; i++) {
        if (isnan(weights[i]) && b->n > 1)
            return leat_fail(err, LEAT_INVALID, "stream '%.60s' of the mixture has no weight", b->streams[i].name);
        b->parts[0].weights[i] = isnan(weights[i]) ? 1 : weights[i];
    }
    return LEAT_OK;
}

leat_status leat_blend_read(const char *json, struct leat_blend_spec *out, struct leat_error *err)
{
    static const char *const known[] = {"streams", "temperature", "schedule", NULL};
    struct leat_blend_spec *b = calloc(1, sizeof *b);
    double weights[LEAT_BLEND_STREAMS_MAX];
    json_error_t where;
    json_t *root = NULL;
    leat_status rc = b ? leat_json_read(json, strlen(json), JSON_REJECT_DUPLICATES, &root, &where) : LEAT_NO_MEMORY;
    if (rc == LEAT_NO_MEMORY)
        no_memory(err);
    else if (rc != LEAT_OK || !json_is_object(root))
        rc = leat_fail(err, LEAT_INVALID, "the mixture is not a JSON object: %s",
                       rc != LEAT_OK ? where.text : "it is something else");
    if (rc == LEAT_OK)
        rc = check_members(root, known, "the mixture", err);
    if (rc == LEAT_OK)
        rc = take_streams(json_object_get(root, "streams"), b, weights, err);
    if (rc == LEAT_OK)
        rc = take_weights(root, b, weights, err);
    json_decref(root);
    if (rc == LEAT_OK)
        *out = *b;
    else if (b)
        leat_blend_free(b);
    free(b);
    return rc;
}

static json_t *part_json(const struct leat_blend_spec *b, const struct leat_blend_part *p)
{
    json_t *weights = json_array();
    for (uint32_t k = 0; k < b->n; k++)
        json_array_append_new(weights, json_real(p->weights[k]));
    return json_pack("{s:I,s:o}", "from", (json_int_t)p->from, "weights", weights);
}

leat_status leat_blend_write(const struct leat_blend_spec *b, char **out, struct leat_error *err)
{
    json_t *streams = json_array();
    json_t *parts = json_array();
    for (uint32_t i = 0; i < b->n; i++)
        json_array_append_new(streams, json_pack("{s:s,s:s,s:s?}", "name", b->streams[i].name, "url", b->streams[i].url,
                                                 "view", b->streams[i].view));
    for (uint32_t i = 0; i < b->parts_n; i++)
        json_array_append_new(parts, part_json(b, &b->parts[i]));
    json_t *root = b->temperature > 0 ? json_pack("{s:O,s:f}", "streams", streams, "temperature", b->temperature)
                                      : json_pack("{s:O,s:O}", "streams", streams, "schedule", parts);
    bool whole = json_array_size(streams) == b->n && json_array_size(parts) == b->parts_n;
    *out = whole ? leat_json_write(root, JSON_COMPACT) : NULL;
    json_decref(root);
    json_decref(streams);
    json_decref(parts);
    return *out ? LEAT_OK : leat_fail(err, LEAT_NO_MEMORY, "no memory for a mixture, or a name that is not UTF-8");
}
