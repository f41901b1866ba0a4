#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/world.h"

/* JSON has no infinity and no NaN: both are null. Six digits are more than any of these numbers deserves. */
static json_t *number(double v)
{
    if (!isfinite(v))
        return json_null();
    if (v == 0)
        return json_real(0);
    double unit = pow(10, 5 - floor(log10(fabs(v))));
    return json_real(round(v * unit) / unit);
}

static json_t *interval(struct leat_plan_interval i)
{
    return json_pack("{s:o, s:o, s:o}", "mean", number(i.mean), "lo", number(i.lo), "hi", number(i.hi));
}

static json_t *record(const struct leat_plan *p, const struct leat_plan_record *r)
{
    char name[LEAT_PLAN_NAME_SIZE];
    const struct leat_plan_offer *o = r->offer;
    json_t *where =
        json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:s, s:s, s:I, s:s, s:s?}", "config",
                  leat_plan_record_name(p, r, name), "provider", o->provider, "type", o->type, "accelerator",
                  o->accelerator, "gpus", (json_int_t)r->nodes * o->gpus, "gpus_per_node", (json_int_t)o->gpus,
                  "region", o->region, "zone", leat_plan_record_zone(r), "nodes", (json_int_t)r->nodes, "kind",
                  leat_plan_kind_name(r->kind), "path", r->path >= 0 ? p->job.path[r->path].name : NULL);
    struct leat_plan_record twin = *r;
    char other[LEAT_PLAN_NAME_SIZE];
    twin.offer = r->same_as ? r->same_as : o;
    json_t *what =
        json_pack("{s:s?, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:b, s:s}", "same_as",
                  r->same_as ? leat_plan_record_name(p, &twin, other) : NULL, "transferred", r->transferred, "time_s",
                  interval(r->time_s), "usd", interval(r->usd), "usd_per_hour", number(r->usd_per_hour), "risk_time_s",
                  number(r->risk_time_s), "risk_usd", number(r->risk_usd), "stall_share", number(r->stall_share),
                  "data_stall_share", number(r->data_share), "revocations", number(r->revocations),
                  "checkpoint_interval_s", number(r->interval_s), "accuracy", number(r->accuracy), "meets", r->meets,
                  "front", r->front, "chosen", r->chosen, "why", r->why);
    if (where && what)
        json_object_update(where, what);
    json_decref(what);
    return where;
}

static leat_status write_json(json_t *root, struct leat_buf *out, struct leat_error *err)
{
    char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(root);
    if (!text)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the answer");
    leat_buf_str(out, text);
    leat_buf_char(out, '\n');
    free(text);
    return leat_buf_check(out, "the answer", err);
}

static json_t *lines_of(const struct leat_plan_notes *notes)
{
    json_t *list = json_array();
    for (size_t i = 0; i < notes->count; i++)
        json_array_append_new(list, notes->times[i] > 1
                                        ? json_sprintf("%s (%zu times)", notes->line[i], notes->times[i])
                                        : json_string(notes->line[i]));
    if (notes->more)
        json_array_append_new(list, json_sprintf("… and %zu more", notes->more));
    return list;
}

leat_status leat_plan_json(const struct leat_plan *plan, bool all, struct leat_buf *out, struct leat_error *err)
{
    const struct leat_plan_options *o = &plan->options;
    json_t *records = json_array();
    bool met = false;
    for (size_t i = 0; i < plan->count; i++) {
        const struct leat_plan_record *r = &plan->records[i];
        met |= r->meets;
        if (all || r->front || r->chosen)
            json_array_append_new(records, record(plan, r));
    }
    json_t *root =
        json_pack("{s:i, s:s, s:{s:o, s:o, s:f, s:I, s:I}, s:b, s:I, s:o, s:o, s:o}", "version", 2, "job",
                  plan->job.name, "options", "deadline_s", number(o->deadline_s > 0 ? o->deadline_s : HUGE_VAL),
                  "budget_usd", number(o->budget_usd > 0 ? o->budget_usd : HUGE_VAL), "risk", o->risk, "seed",
                  (json_int_t)o->seed, "draws", (json_int_t)o->draws, "met", met, "considered", (json_int_t)plan->count,
                  "records", records, "notes", lines_of(&plan->notes), "left_out", lines_of(&plan->left_out));
    return write_json(root, out, err);
}

leat_status leat_plan_explain_json(const struct leat_plan *plan, const struct leat_plan_record *r,
                                   const struct leat_plan_terms *terms, struct leat_buf *out, struct leat_error *err)
{
    json_t *list = json_array();
    for (size_t i = 0; i < terms->count; i++) {
        const struct leat_plan_term *t = &terms->term[i];
        char text[LEAT_PLAN_TERM_SIZE];
        json_array_append_new(list, json_pack("{s:s, s:o, s:s, s:s, s:s}", "label", t->label, "value", number(t->value),
                                              "unit", leat_plan_unit_name(t->unit), "text",
                                              leat_plan_term_text(t, text), "source", t->source));
    }
    return write_json(json_pack("{s:i, s:o, s:o, s:o}", "version", 2, "record", record(plan, r), "lines", list, "notes",
                                lines_of(&plan->notes)),
                      out, err);
}
