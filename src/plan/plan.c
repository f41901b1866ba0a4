#include "plan/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/toml.h"
#include "plan/run.h"
#include "plan/world.h"

static leat_status read_job(struct leat_plan *p, const struct leat_plan_inputs *in, struct leat_error *err)
{
    struct leat_doc *doc = NULL;
    leat_status rc = LEAT_OK;
    const struct leat_plan_text *t = &in->job;
    if (t->text) {
        size_t at = 0;
        size_t mark = t->n >= 3 && memcmp(t->text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* editors write it unasked */
        const char *text = t->text + mark;
        size_t n = t->n - mark;
        while (at < n && strchr(" \t\r\n", text[at]))
            at++;
        bool json = at < n && text[at] == '{';
        rc = json ? leat_doc_json(t->name, text, n, &doc, err) : leat_toml_parse(t->name, text, n, &doc, err);
    }
    if (rc == LEAT_OK)
        rc = leat_plan_job_read(doc, in->settings, in->setting_count, &p->job, err);
    leat_doc_free(doc);
    return rc;
}

static leat_status read_traces(struct leat_plan *p, const struct leat_plan_inputs *in, struct leat_error *err)
{
    p->traces = calloc(in->trace_count + 1, sizeof *p->traces);
    if (!p->traces)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for %zu traces", in->trace_count);
    for (size_t i = 0; i < in->trace_count; i++) {
        const struct leat_plan_trace_text *t = &in->traces[i];
        struct leat_plan_named_trace *out = &p->traces[p->trace_count];
        leat_status rc = leat_plan_trace_parse(t->file.name, t->file.text, t->file.n, &out->trace, err);
        if (rc != LEAT_OK)
            return rc;
        p->trace_count++;
        snprintf(out->accelerator, sizeof out->accelerator, "%s", t->accelerator);
        snprintf(out->region, sizeof out->region, "%s", t->region);
        snprintf(out->name, sizeof out->name, "%s", t->file.name);
    }
    return LEAT_OK;
}

static leat_status read_measures(struct leat_plan *p, const struct leat_plan_inputs *in, struct leat_error *err)
{
    leat_status rc = LEAT_OK;
    const struct leat_plan_text *t = &in->measurements;
    if (t->text)
        rc = leat_plan_measures_csv(t->name, t->text, t->n, &p->measures, &p->notes, err);
    t = &in->report;
    if (rc == LEAT_OK && t->text)
        rc = leat_plan_measures_report(t->name, t->text, t->n, &p->job, &p->measures, err);
    if (rc == LEAT_OK && !p->measures.count)
        rc = leat_fail(err, LEAT_INVALID,
                       "nothing is known about speed: give --measurements FILE.csv or --report report.json");
    if (rc != LEAT_OK)
        return rc;
    /* Too few measured checkpoints are no error: the job may know their time in another way. */
    rc = leat_plan_model_fit(&p->measures, LEAT_PLAN_CHECKPOINT, NULL, &p->checkpoint_model, NULL, NULL, err);
    p->has_checkpoint_model = rc == LEAT_OK;
    return rc == LEAT_NO_MEMORY ? rc : LEAT_OK;
}

/* One engine for all offers that are measured alike. */
static leat_status make_engines(struct leat_plan *p, struct leat_error *err)
{
    p->engine_of = calloc(p->catalog.count, sizeof *p->engine_of);
    p->engines = calloc(p->catalog.count, sizeof *p->engines);
    if (!p->engine_of || !p->engines)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for %zu machine types", p->catalog.count);
    for (size_t i = 0; i < p->catalog.count; i++) {
        const struct leat_plan_offer *o = &p->catalog.offer[i];
        size_t k = 0;
        bool own = false;
        for (size_t r = 0; r < p->measures.count; r++)
            own |= strcmp(p->measures.row[r].type, o->type) == 0;
        while (k < p->engine_count && (strcmp(p->engines[k].accelerator, o->accelerator) != 0 ||
                                       strcmp(p->engines[k].type, own ? o->type : "") != 0))
            k++;
        if (k == p->engine_count) {
            leat_status rc = leat_plan_engine_make(&p->job, &p->measures, o->type, o->accelerator, &p->engines[k], err);
            if (rc != LEAT_OK)
                return rc;
            p->engine_count++;
        }
        p->engine_of[i] = k;
    }
    return LEAT_OK;
}

static leat_status check_options(const struct leat_plan_options *o, struct leat_error *err)
{
    if (o->max_nodes < 1 || o->max_nodes > LEAT_PLAN_MACHINES_MAX)
        return leat_fail(err, LEAT_INVALID, "--max-nodes: %u is not from 1 to %d", o->max_nodes,
                         LEAT_PLAN_MACHINES_MAX);
    if (o->draws < 50 || o->draws > 100000)
        return leat_fail(err, LEAT_INVALID, "--draws: %u is not from 50 to 100000", o->draws);
    if (!(o->risk >= 0.5 && o->risk <= 0.999))
        return leat_fail(err, LEAT_INVALID, "--risk: %g is not from p50 to p99.9", o->risk * 100);
    if (!(o->min_accuracy >= 0 && o->min_accuracy <= 100))
        return leat_fail(err, LEAT_INVALID, "--min-accuracy: %g is not from 0 to 100", o->min_accuracy);
    if (!(o->deadline_s >= 0 && o->deadline_s < HUGE_VAL) || !(o->budget_usd >= 0 && o->budget_usd < HUGE_VAL))
        return leat_fail(err, LEAT_INVALID, "deadline and budget must be 0 or more");
    return LEAT_OK;
}

leat_status leat_plan_open(const struct leat_plan_inputs *inputs, const struct leat_plan_options *options,
                           struct leat_plan **out, struct leat_error *err)
{
    leat_status rc = check_options(options, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat_plan *p = calloc(1, sizeof *p);
    if (!p)
        return leat_fail(err, LEAT_NO_MEMORY, "no memory for a plan");
    p->options = *options;
    if (options->regions && strlen(options->regions) >= sizeof p->regions)
        rc = leat_fail(err, LEAT_INVALID, "--region: a list of %zu letters and more", sizeof p->regions);
    else
        snprintf(p->regions, sizeof p->regions, "%s", options->regions ? options->regions : "");
    p->options.regions = p->regions;
    const struct leat_plan_text *t = &inputs->catalog;
    if (rc == LEAT_OK)
        rc = read_job(p, inputs, err);
    if (rc == LEAT_OK && !t->text)
        rc = leat_fail(err, LEAT_INVALID, "no machines to choose from: give --catalog FILE.csv");
    if (rc == LEAT_OK)
        rc = leat_plan_catalog_parse(t->name, t->text, t->n, inputs->catalog_date, inputs->today, &p->catalog,
                                     &p->notes, err);
    if (rc == LEAT_OK)
        rc = read_measures(p, inputs, err);
    t = &inputs->revocations;
    if (rc == LEAT_OK && t->text)
        rc = leat_plan_revocations_csv(t->name, t->text, t->n, &p->revocations, err);
    if (rc == LEAT_OK)
        rc = read_traces(p, inputs, err);
    if (rc == LEAT_OK && options->min_accuracy > 0 && !p->job.accuracies)
        rc = leat_fail(err, LEAT_INVALID,
                       "--min-accuracy: the job does not say how accuracy falls with workers ([accuracy])");
    if (rc == LEAT_OK)
        rc = make_engines(p, err);
    if (rc == LEAT_OK) {
        p->draws = calloc(4 * (size_t)options->draws, sizeof *p->draws);
        if (!p->draws)
            rc = leat_fail(err, LEAT_NO_MEMORY, "no memory for %u draws", options->draws);
    }
    if (rc != LEAT_OK) {
        leat_plan_close(p);
        return rc;
    }
    *out = p;
    return LEAT_OK;
}

void leat_plan_close(struct leat_plan *plan)
{
    if (!plan)
        return;
    for (size_t i = 0; i < plan->engine_count; i++)
        leat_plan_engine_free(&plan->engines[i]);
    for (size_t i = 0; i < plan->trace_count; i++)
        leat_plan_trace_free(&plan->traces[i].trace);
    leat_plan_catalog_free(&plan->catalog);
    leat_plan_measures_free(&plan->measures);
    leat_plan_revocations_free(&plan->revocations);
    free(plan->engines);
    free(plan->engine_of);
    free(plan->traces);
    free(plan->records);
    free(plan->draws);
    free(plan);
}

/* The next name of a list separated by commas, without the blanks around it; false at the end. */
static bool next_name(const char **list, const char **name, size_t *n)
{
    while (**list == ',' || **list == ' ')
        (*list)++;
    *name = *list;
    *n = strcspn(*list, ",");
    *list += *n;
    while (*n && (*name)[*n - 1] == ' ')
        (*n)--;
    return *n > 0;
}

static bool is_name(const char *region, const char *name, size_t n)
{
    return strlen(region) == n && memcmp(name, region, n) == 0;
}

static bool wanted_region(const struct leat_plan *p, const char *region)
{
    const char *list = p->regions;
    const char *name;
    size_t n;
    bool any = false;
    while (next_name(&list, &name, &n)) {
        any = true;
        if (is_name(region, name, n))
            return true;
    }
    return !any;
}

static leat_status check_regions(const struct leat_plan *p, struct leat_error *err)
{
    const char *list = p->regions;
    const char *name;
    size_t n;
    while (next_name(&list, &name, &n)) {
        size_t i = 0;
        while (i < p->catalog.count && !is_name(p->catalog.offer[i].region, name, n))
            i++;
        if (i == p->catalog.count)
            return leat_fail(err, LEAT_INVALID, "--region: %s has nothing in '%.*s'", p->catalog.name, (int)n, name);
    }
    return LEAT_OK;
}

/* Every count up to eight, then four a doubling with the powers of two among them, and the largest allowed. */
static unsigned next_count(unsigned n, unsigned max)
{
    unsigned power = 8;
    while (power * 2 <= n)
        power *= 2;
    unsigned next = n < 8 ? n + 1 : n + power / 4;
    return n < max && next > max ? max : next;
}

static leat_status add_case(struct leat_plan *p, const struct leat_plan_case *c, struct leat_error *err)
{
    char why[300];
    if (p->options.interrupted && p->options.interrupted(p->options.user))
        return leat_fail(err, LEAT_CANCELLED, "interrupted");
    if (p->count == p->cap) {
        size_t cap = p->cap ? 2 * p->cap : 256;
        struct leat_plan_record *records = realloc(p->records, cap * sizeof *records);
        if (!records)
            return leat_fail(err, LEAT_NO_MEMORY, "no memory for %zu configurations", cap);
        p->records = records;
        p->cap = cap;
    }
    if (leat_plan_price_case(p, c, &p->records[p->count], NULL, why))
        p->count++;
    else
        leat_plan_note(&p->left_out, "%s", why);
    return LEAT_OK;
}

static leat_status price_offer(struct leat_plan *p, const struct leat_plan_offer *offer, struct leat_error *err)
{
    bool planned = leat_plan_job_has(&p->job, LEAT_KEY_DATASET_BYTES);
    for (unsigned n = 1; n <= p->options.max_nodes; n = next_count(n, p->options.max_nodes)) {
        for (int kind = LEAT_PLAN_KIND_ON_DEMAND; kind <= LEAT_PLAN_KIND_UNIFORM; kind++) {
            bool demand = !isnan(offer->usd_per_hour[0]);
            bool transient = !isnan(offer->usd_per_hour[1]);
            if ((kind != LEAT_PLAN_KIND_TRANSIENT && !demand) || (kind != LEAT_PLAN_KIND_ON_DEMAND && !transient) ||
                (kind == LEAT_PLAN_KIND_MIXED && n < 2) ||
                (kind == LEAT_PLAN_KIND_UNIFORM && (!p->trace_count || !(p->options.deadline_s > 0))))
                continue;
            for (int path = planned ? 0 : -1; path < (planned ? (int)p->job.paths : 0); path++) {
                const struct leat_plan_case c = {offer, (enum leat_plan_kind)kind, n, path};
                leat_status rc = add_case(p, &c, err);
                if (rc != LEAT_OK)
                    return rc;
            }
        }
    }
    return LEAT_OK;
}

leat_status leat_plan_price(struct leat_plan *plan, struct leat_error *err)
{
    leat_status rc = check_regions(plan, err);
    if (rc != LEAT_OK)
        return rc;
    for (size_t i = 0; i < plan->catalog.count; i++) {
        const struct leat_plan_offer *offer = &plan->catalog.offer[i];
        if (!wanted_region(plan, offer->region))
            continue;
        rc = price_offer(plan, offer, err);
        if (rc != LEAT_OK)
            return rc;
    }
    if (!plan->count)
        return leat_fail(err, LEAT_INVALID, "no configuration can be priced; %s",
                         plan->left_out.count ? plan->left_out.line[0] : "nothing is offered");
    return LEAT_OK;
}

const char *leat_plan_kind_name(enum leat_plan_kind kind)
{
    static const char *const names[] = {"on-demand", "transient", "mixed", "uniform"};
    return names[kind];
}

char *leat_plan_record_name(const struct leat_plan *plan, const struct leat_plan_record *r,
                            char out[LEAT_PLAN_NAME_SIZE])
{
    char count[32];
    if (r->kind == LEAT_PLAN_KIND_MIXED)
        snprintf(count, sizeof count, "1+%u", r->nodes - 1);
    else
        snprintf(count, sizeof count, "%u", r->nodes);
    snprintf(out, LEAT_PLAN_NAME_SIZE, "%s:%s:%s:%s%s%s", r->offer->type, count, leat_plan_kind_name(r->kind),
             r->offer->region, r->path >= 0 ? ":" : "", r->path >= 0 ? plan->job.path[r->path].name : "");
    return out;
}

const struct leat_plan_record *leat_plan_records(const struct leat_plan *plan, size_t *count)
{
    *count = plan->count;
    return plan->records;
}

const struct leat_plan_notes *leat_plan_notes_of(const struct leat_plan *plan)
{
    return &plan->notes;
}

const struct leat_plan_notes *leat_plan_left_out(const struct leat_plan *plan)
{
    return &plan->left_out;
}

const struct leat_plan_job *leat_plan_job_of(const struct leat_plan *plan)
{
    return &plan->job;
}

const struct leat_plan_options *leat_plan_options_of(const struct leat_plan *plan)
{
    return &plan->options;
}

leat_status leat_plan_explain(struct leat_plan *plan, const char *name, struct leat_plan_record *record,
                              struct leat_plan_lines *out, struct leat_error *err)
{
    const struct leat_plan_record *found = NULL;
    unsigned beginnings = 0;
    size_t n = strlen(name);
    char full[LEAT_PLAN_NAME_SIZE];
    char why[300];
    for (size_t i = 0; i < plan->count; i++) {
        leat_plan_record_name(plan, &plan->records[i], full);
        if (strncmp(full, name, n) != 0)
            continue;
        beginnings++;
        found = &plan->records[i];
        if (!full[n]) {
            beginnings = 1;
            break;
        }
    }
    if (!beginnings)
        return leat_fail(
            err, LEAT_NOT_FOUND,
            "no configuration is called '%s'; 'leat plan --all' lists them, as TYPE:COUNT:KIND:REGION[:PATH]", name);
    if (beginnings > 1)
        return leat_fail(err, LEAT_INVALID, "%u configurations begin with '%s'; say more of the name", beginnings,
                         name);
    const struct leat_plan_case c = {found->offer, found->kind, found->nodes, found->path};
    struct leat_plan_record again;
    out->count = 0;
    if (!leat_plan_price_case(plan, &c, &again, out, why))
        return leat_fail(err, LEAT_INTERNAL, "%s", why);
    *record = *found;
    return LEAT_OK;
}
