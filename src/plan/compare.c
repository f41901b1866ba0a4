#include "plan/compare.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/world.h"

#define NINE_OF_TEN 1.6449 /* standard deviations */

/* A run that counts as finished may lack the last, smaller batch of an epoch. */
#define FINISHED 0.999

static leat_status plan_one(const struct leat_plan_inputs *in, const struct leat_plan_options *o, const char *config,
                            struct leat_plan **plan, struct leat_plan_record *record, struct leat_error *err)
{
    struct leat_plan_terms *terms = calloc(1, sizeof *terms);
    if (!terms)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a comparison");
    leat_status rc = leat_plan_open(in, o, plan, err);
    if (rc == LEAT_OK)
        rc = leat_plan_price(*plan, err);
    if (rc == LEAT_OK)
        rc = leat_plan_explain(*plan, config, record, terms, err);
    free(terms);
    return rc;
}

static struct leat_plan_interval spread_out(double mean, double spread)
{
    double width = exp(NINE_OF_TEN * spread);
    return (struct leat_plan_interval){mean, mean / width, mean * width};
}

/* Counts scatter as such do, and as the hazard behind them may be wrong. */
static struct leat_plan_interval revocations_of(const struct leat_plan_record *r)
{
    double mean = r->revocations;
    double wide = NINE_OF_TEN * sqrt(mean + mean * r->hazard_spread * mean * r->hazard_spread);
    return (struct leat_plan_interval){mean, fmax(0, floor(mean - wide)), ceil(mean + wide)};
}

struct quantity {
    const char *what;
    const char *unit;
    double measured;
    struct leat_plan_interval of[2]; /* predicted before and after */
};

static void add(struct leat_plan_comparison *c, const struct quantity *q)
{
    if (isnan(q->measured) || isnan(q->of[0].mean))
        return;
    c->row[c->count++] = (struct leat_plan_compared){
        q->what, q->unit, q->of[0], q->measured, q->measured >= q->of[0].lo && q->measured <= q->of[0].hi, q->of[1]};
}

static void compare(const struct leat_plan_past *p, const struct leat_plan_record r[2], double start_spread,
                    struct leat_plan_comparison *c)
{
    struct quantity q[6] = {{"time", "s", p->elapsed_s, {r[0].time_s, r[1].time_s}},
                            {"money", "usd", p->usd, {r[0].usd, r[1].usd}}};
    q[2] = (struct quantity){"speed", "samples/s", p->samples_per_s, {{0}}};
    q[3] = (struct quantity){"revocations", "", p->revocations, {{0}}};
    q[4] = (struct quantity){"checkpoint", "s", p->checkpoint_s, {{0}}};
    q[5] = (struct quantity){"start", "s", p->start_s, {{0}}};
    for (int k = 0; k < 2; k++) {
        q[2].of[k] = spread_out(r[k].samples_per_s, r[k].speed_spread);
        q[3].of[k] = revocations_of(&r[k]);
        q[4].of[k] = spread_out(r[k].checkpoint_s, 0.1); /* nobody says how they scatter: a tenth */
        q[5].of[k] = spread_out(r[k].start_s, start_spread);
    }
    for (int i = 0; i < 6; i++)
        add(c, &q[i]);
}

static void write_lines(const struct leat_plan_past *p, const struct leat_plan_job *job, struct leat_plan_comparison *c)
{
    if (isnan(p->samples_per_s))
        return;
    snprintf(c->measurements, sizeof c->measurements,
             "model,accelerator,gpus,nodes,batch,samples_per_s\n%s,%s,%u,%u,%g,%.6g\n", job->name,
             p->offer->accelerator, p->offer->gpus, p->nodes, job->value[LEAT_KEY_BATCH], p->samples_per_s);
}

leat_status leat_plan_compare(const struct leat_plan_inputs *inputs, const struct leat_plan_options *options,
                              struct leat_plan_comparison *out, struct leat_error *err)
{
    struct leat_plan_inputs in = *inputs;
    struct leat_plan_comparison c = {{0}};
    struct leat_plan_past past = {{0}};
    struct leat_plan *plan[2] = {NULL, NULL};
    struct leat_plan_record r[2];
    leat_status rc = leat_plan_past_read(in.past.name, in.past.text, in.past.n, &past, err);
    in.past.text = NULL;
    if (rc == LEAT_OK)
        rc = plan_one(&in, options, past.config, &plan[0], &r[0], err);
    if (rc == LEAT_OK)
        rc = leat_plan_past_locate(&past, &plan[0]->catalog, &plan[0]->job, err);
    double work = rc == LEAT_OK ? leat_plan_job_work(&plan[0]->job) : 0;
    if (rc == LEAT_OK && past.samples < FINISHED * work)
        rc = leat_fail(err, LEAT_INVALID,
                       "%s: %.1f %% of the job is done; only finished runs can be compared, "
                       "others can be resumed",
                       past.name, 100 * past.samples / work);
    in.past.text = inputs->past.text;
    in.resume = false;
    if (rc == LEAT_OK)
        rc = plan_one(&in, options, past.config, &plan[1], &r[1], err);
    if (rc == LEAT_OK) {
        leat_plan_record_name(plan[0], &r[0], c.config);
        compare(&past, r, plan[0]->job.value[LEAT_KEY_START_SPREAD], &c);
        write_lines(&past, &plan[0]->job, &c);
        *out = c;
    }
    leat_plan_past_free(&past);
    leat_plan_close(plan[0]);
    leat_plan_close(plan[1]);
    return rc;
}

static json_t *interval(struct leat_plan_interval i)
{
    return json_pack("{s:f, s:f, s:f}", "mean", i.mean, "lo", i.lo, "hi", i.hi);
}

leat_status leat_plan_compare_json(const struct leat_plan_comparison *c, struct leat_buf *out, struct leat_error *err)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < c->count; i++) {
        const struct leat_plan_compared *r = &c->row[i];
        json_array_append_new(rows, json_pack("{s:s, s:s, s:o, s:f, s:b, s:o}", "what", r->what, "unit", r->unit,
                                              "predicted", interval(r->predicted), "measured", r->measured, "inside",
                                              r->inside, "refitted", interval(r->refitted)));
    }
    json_t *root = json_pack("{s:i, s:s, s:o, s:s}", "version", 2, "config", c->config, "compared", rows,
                             "measurements", c->measurements);
    char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(root);
    if (!text)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for the answer");
    leat_buf_str(out, text);
    leat_buf_char(out, '\n');
    free(text);
    return leat_buf_check(out, "the answer", err);
}
